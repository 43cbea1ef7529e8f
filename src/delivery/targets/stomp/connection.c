#include "targets/stomp/connection.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BEAT_MS = 10 * 1000, /* offered and requested interval */
    IN_BYTES_MAX = STOMP_HEAD_BYTES_MAX + STOMP_BODY_BYTES_MAX + 64 * 1024,
    WHY_BYTES = 200
};

struct stomp_connection {
    struct session *session;
    char virtual_host[TARGET_NAME_BYTES];
    void (*frame)(void *owner, const struct stomp_frame *frame);
    void *owner;
    int64_t send_every_ms, receive_every_ms; /* heart-beat intervals; 0: no heart-beats */
};

bool stomp_place_parse(struct slice to, struct stomp_place *out, char *error)
{
    struct url url;
    if (!target_places_parse(to, target_stomp_schemes, &url, &out->at, error))
        return false;
    if (url.has_query)
        return error_text(error, TARGET_ERROR_BYTES, "a STOMP broker's URL has no query");
    return target_place_name(&url, out->virtual_host) ||
           error_text(error, TARGET_ERROR_BYTES,
                      "its virtual host is invalid, give one name of at most 255 bytes");
}

/* ---- while it is up ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns the time of the next heart-beat, well before it is due. */
static int64_t next_beat_ms(const struct stomp_connection *connection)
{
    return connection->send_every_ms
               ? session_out_ms(connection->session) + connection->send_every_ms * 3 / 4
               : INT64_MAX;
}

/* Sends a heart-beat when it is due. The peer counts as lost after two of its own intervals. */
static int64_t keep(void *ctx, int64_t now_ms)
{
    struct stomp_connection *connection = ctx;
    int64_t lost_ms = connection->receive_every_ms
                          ? session_in_ms(connection->session) + 2 * connection->receive_every_ms
                          : INT64_MAX;
    if (now_ms >= lost_ms)
        session_fail(connection->session, "connection lost", "no heart-beat arrived");
    else if (now_ms >= next_beat_ms(connection))
        session_send(connection->session, "\n", 1);
    return earlier(next_beat_ms(connection), lost_ms);
}

static void leave(void *ctx)
{
    static const char bye[] = "DISCONNECT\n\n";
    const struct stomp_connection *connection = ctx;
    session_send(connection->session, bye, sizeof bye);
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
        session_fail(connection->session, "no login", "the broker does not support STOMP 1.2");
        return;
    }
    agree_on_beats(connection, frame);
    session_logged_in(connection->session);
}

/* Handles a frame. During the login only CONNECTED is a success; later frames are passed to the
 * owner. */
static void take_frame(struct stomp_connection *connection, const struct stomp_frame *frame)
{
    char text[WHY_BYTES / 2];
    struct slice remark = stomp_frame_header(frame, "message");
    if (session_is_up(connection->session)) {
        connection->frame(connection->owner, frame);
        return;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)remark.len, remark.at ? remark.at : "");
    if (slice_is(frame->command, "CONNECTED"))
        be_connected(connection, frame);
    else
        session_fail(connection->session, "login refused", text);
}

static enum session_read read_frame(void *ctx, char *at, size_t len, size_t *used, const char **why)
{
    struct stomp_frame frame;
    enum stomp_read read = stomp_frame_read(at, len, &frame, used, why);
    if (read == STOMP_FRAME)
        take_frame(ctx, &frame);
    return read == STOMP_BROKEN ? SESSION_BROKEN : read == STOMP_MORE ? SESSION_MORE : SESSION_PART;
}

/* ---- login ---- */

/* Appends the CONNECT frame with the policy file's credential, which is wiped. Returns false if it
 * cannot be written in a header. */
static bool emit_connect(struct stomp_connection *connection, struct buffer *out)
{
    struct guard_credential credential;
    const char *host = connection->virtual_host[0] ? connection->virtual_host
                                                   : session_place(connection->session)->host;
    char beats[32];
    (void)snprintf(beats, sizeof beats, "%d,%d", BEAT_MS, BEAT_MS);
    stomp_emit_command(out, "CONNECT");
    bool good = stomp_emit_plain_header(out, "accept-version", slice_of("1.2")) &&
                stomp_emit_plain_header(out, "host", slice_of(host)) &&
                stomp_emit_plain_header(out, "heart-beat", slice_of(beats));
    if (session_credential(connection->session, &credential))
        good = stomp_emit_plain_header(out, "login", slice_of(credential.user)) &&
               stomp_emit_plain_header(out, "passcode", slice_of(credential.password)) && good;
    explicit_bzero(&credential, sizeof credential);
    stomp_emit_body(out, (struct slice){0});
    return good;
}

static void send_login(void *ctx)
{
    struct stomp_connection *connection = ctx;
    struct buffer out;
    buffer_init(&out, STOMP_HEAD_BYTES_MAX);
    if (!emit_connect(connection, &out))
        session_fail(connection->session, "no login", "user or password cannot be sent");
    session_login(connection->session, &out);
}

struct session *stomp_session_new(const struct target_env *env, const struct stomp_place *place,
                                  const struct session_events *events,
                                  void (*frame)(void *owner, const struct stomp_frame *frame),
                                  void *owner)
{
    static const struct session_protocol protocol = {.in_bytes_max = IN_BYTES_MAX,
                                                     .unreadable =
                                                         "a frame of the broker cannot be read",
                                                     .up = send_login,
                                                     .read = read_frame,
                                                     .keep = keep,
                                                     .leave = leave,
                                                     .free = free};
    struct stomp_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    memcpy(connection->virtual_host, place->virtual_host, sizeof connection->virtual_host);
    connection->frame = frame;
    connection->owner = owner;
    struct session *session = session_new(env, &place->at, &protocol, connection, events, owner);
    if (!session)
        free(connection);
    else
        connection->session = session;
    return session;
}
