#include "targets/stomp/connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "targets/link.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BEAT_MS = 10 * 1000, /* offered and requested interval */
    IDLE_MS = 30 * 1000,
    IN_BYTES_MAX = STOMP_HEAD_BYTES_MAX + STOMP_BODY_BYTES_MAX + 64 * 1024,
    WHY_BYTES = 200
};

struct stomp_connection {
    struct guard *guard;
    struct stomp_place place;
    struct stomp_connection_events events;
    void *ctx;
    struct link *link;
    bool is_logged_in, is_needed;
    struct buffer in;
    int64_t send_every_ms, receive_every_ms; /* heart-beat intervals; 0: no heart-beats */
    int64_t unneeded_ms;                     /* time since it is not needed */
};

/* ---- address ---- */

bool stomp_place_parse(struct slice to, struct stomp_place *out, char *error)
{
    struct url url;
    if (!target_place_parse(to, target_stomp_schemes, &url, &out->at, error))
        return false;
    if (url.has_query)
        return error_text(error, TARGET_ERROR_BYTES, "a STOMP broker's URL has no query");
    if (!target_place_name(&url, out->virtual_host))
        return error_text(error, TARGET_ERROR_BYTES,
                          "its virtual host is invalid, give one name of at most 255 bytes");
    if (!out->virtual_host[0])
        memcpy(out->virtual_host, out->at.host, sizeof out->at.host);
    return true;
}

/* ---- up ---- */

static bool is_up(const struct stomp_connection *connection)
{
    return connection->is_logged_in && link_is_up(connection->link);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the time of the next heart-beat, well before it is due. The peer counts as lost after two
 * of its own intervals. */
static int64_t next_beat_ms(const struct stomp_connection *connection)
{
    return connection->send_every_ms
               ? link_out_ms(connection->link) + connection->send_every_ms * 3 / 4
               : INT64_MAX;
}

static int64_t lost_ms(const struct stomp_connection *connection)
{
    return connection->receive_every_ms
               ? link_in_ms(connection->link) + 2 * connection->receive_every_ms
               : INT64_MAX;
}

static int64_t idle_ms(const struct stomp_connection *connection)
{
    return connection->is_needed ? INT64_MAX : connection->unneeded_ms + IDLE_MS;
}

static void set_wake_up(struct stomp_connection *connection)
{
    link_wake_at(connection->link, earlier(next_beat_ms(connection),
                                           earlier(lost_ms(connection), idle_ms(connection))));
}

static void send_disconnect(struct stomp_connection *connection)
{
    static const char bye[] = "DISCONNECT\n\n";
    (void)link_write(connection->link, bye, sizeof bye);
    stomp_connection_stop(connection, false);
}

/* Checks, while it is up, that the broker is alive, that the connection is needed, and whether a
 * heart-beat is due. */
static void on_link_woken(void *ctx)
{
    struct stomp_connection *connection = ctx;
    int64_t now_ms = clock_inner_ms();
    if (now_ms >= lost_ms(connection)) {
        link_fail(connection->link, "connection lost", "no heart-beat arrived");
        return;
    }
    if (now_ms >= idle_ms(connection)) {
        send_disconnect(connection);
        return;
    }
    if (now_ms >= next_beat_ms(connection))
        (void)link_write(connection->link, "\n", 1);
    set_wake_up(connection);
}

/* Sets the heart-beat intervals: each side uses the longer of both values; 0 means no
 * heart-beats. */
static void agree_on_beats(struct stomp_connection *connection, const struct stomp_frame *frame)
{
    int64_t sends_ms = 0, wants_ms = 0;
    struct slice beat = stomp_frame_header(frame, "heart-beat");
    connection->send_every_ms = connection->receive_every_ms = 0;
    if (!beat.at || !stomp_frame_heart_beat(beat, &sends_ms, &wants_ms))
        return;
    if (wants_ms)
        connection->send_every_ms = wants_ms > BEAT_MS ? wants_ms : BEAT_MS;
    if (sends_ms)
        connection->receive_every_ms = sends_ms > BEAT_MS ? sends_ms : BEAT_MS;
}

/* Handles CONNECTED: the login was accepted. */
static void be_connected(struct stomp_connection *connection, const struct stomp_frame *frame)
{
    if (!slice_is(stomp_frame_header(frame, "version"), "1.2")) {
        link_fail(connection->link, "no login", "the broker does not support STOMP 1.2");
        return;
    }
    agree_on_beats(connection, frame);
    connection->is_logged_in = true;
    connection->unneeded_ms = clock_inner_ms();
    link_login_done(connection->link);
    set_wake_up(connection);
    connection->events.up(connection->ctx);
}

/* Handles a frame. During the login only CONNECTED is a success; later frames are passed to the
 * owner. */
static void take_frame(struct stomp_connection *connection, const struct stomp_frame *frame)
{
    char text[WHY_BYTES / 2];
    struct slice remark = stomp_frame_header(frame, "message");
    if (connection->is_logged_in) {
        connection->events.frame(connection->ctx, frame);
        return;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)remark.len, remark.at ? remark.at : "");
    if (slice_is(frame->command, "CONNECTED"))
        be_connected(connection, frame);
    else
        link_fail(connection->link, "login refused", text);
}

/* Splits received bytes into frames; each of them may end the connection or free it. */
static void on_link_bytes(void *ctx, const char *bytes, size_t len)
{
    struct stomp_connection *connection = ctx;
    struct stomp_frame frame;
    size_t at = 0, used = 0;
    const char *why = "";
    enum stomp_read read = STOMP_MORE;
    buffer_append(&connection->in, bytes, len);
    if (connection->in.failed) {
        link_fail(connection->link, "connection lost", "the broker sent too much");
        return;
    }
    while (link_is_up(connection->link) &&
           (read = stomp_frame_read(connection->in.at + at, connection->in.len - at, &frame, &used,
                                    &why)) != STOMP_MORE) {
        if (read == STOMP_BROKEN) {
            link_fail(connection->link, "a frame of the broker cannot be read", why);
            return;
        }
        at += used;
        if (read == STOMP_FRAME)
            take_frame(connection, &frame);
    }
    if (!link_is_up(connection->link))
        return;
    memmove(connection->in.at, connection->in.at + at, connection->in.len - at);
    connection->in.len -= at;
}

/* ---- connecting ---- */

/* Appends the CONNECT frame with the policy file's credential, which is wiped. Returns false if it
 * cannot be written in a header. */
static bool emit_connect(struct stomp_connection *connection, struct buffer *out)
{
    struct guard_credential credential;
    char beats[32];
    bool good = true;
    (void)snprintf(beats, sizeof beats, "%d,%d", BEAT_MS, BEAT_MS);
    stomp_emit_command(out, "CONNECT");
    good = stomp_emit_plain_header(out, "accept-version", slice_of("1.2")) &&
           stomp_emit_plain_header(out, "host", slice_of(connection->place.virtual_host)) &&
           stomp_emit_plain_header(out, "heart-beat", slice_of(beats));
    if (guard_find_credential(connection->guard, connection->place.at.origin, &credential))
        good = stomp_emit_plain_header(out, "login", slice_of(credential.user)) &&
               stomp_emit_plain_header(out, "passcode", slice_of(credential.password)) && good;
    explicit_bzero(&credential, sizeof credential);
    stomp_emit_body(out, (struct slice){0});
    return good && !out->failed;
}

static void on_link_up(void *ctx)
{
    struct stomp_connection *connection = ctx;
    struct buffer out;
    buffer_init(&out, STOMP_HEAD_BYTES_MAX);
    buffer_clear_and_trim(&connection->in, 0);
    connection->is_logged_in = false;
    if (!emit_connect(connection, &out) || link_write(connection->link, out.at, out.len) < out.len)
        link_fail(connection->link, "no login", "user or password cannot be sent");
    if (out.at)
        explicit_bzero(out.at, out.cap);
    buffer_fini(&out);
}

static void on_link_room(void *ctx)
{
    struct stomp_connection *connection = ctx;
    connection->events.room(connection->ctx);
}

static void on_link_down(void *ctx, const char *why)
{
    struct stomp_connection *connection = ctx;
    connection->is_logged_in = false;
    connection->events.down(connection->ctx, why);
}

static void on_link_gone(void *ctx)
{
    struct stomp_connection *connection = ctx;
    struct stomp_connection_events events = connection->events;
    void *owner = connection->ctx;
    buffer_fini(&connection->in);
    free(connection);
    events.gone(owner);
}

/* ---- for the owner ---- */

void stomp_connection_stop(struct stomp_connection *connection, bool pauses)
{
    connection->is_logged_in = false;
    link_stop(connection->link, pauses);
}

size_t stomp_connection_write(struct stomp_connection *connection, const char *at, size_t len)
{
    return is_up(connection) ? link_write(connection->link, at, len) : 0;
}

void stomp_connection_needed(struct stomp_connection *connection, bool is_needed)
{
    if (is_needed)
        link_start(connection->link);
    if (connection->is_needed == is_needed)
        return;
    connection->is_needed = is_needed;
    connection->unneeded_ms = clock_inner_ms();
    if (is_up(connection))
        set_wake_up(connection);
}

struct stomp_connection *stomp_connection_new(const struct target_env *env,
                                              const struct stomp_place *place,
                                              const struct stomp_connection_events *events,
                                              void *ctx)
{
    static const struct link_events link_events = {.up = on_link_up,
                                                   .bytes = on_link_bytes,
                                                   .room = on_link_room,
                                                   .woken = on_link_woken,
                                                   .down = on_link_down,
                                                   .gone = on_link_gone};
    struct stomp_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->link = link_new(env, &place->at, &link_events, connection);
    if (!connection->link) {
        free(connection);
        return NULL;
    }
    connection->guard = env->guard;
    connection->place = *place;
    connection->events = *events;
    connection->ctx = ctx;
    buffer_init(&connection->in, IN_BYTES_MAX);
    return connection;
}

void stomp_connection_free(struct stomp_connection *connection)
{
    if (is_up(connection))
        send_disconnect(connection);
    link_free(connection->link);
}
