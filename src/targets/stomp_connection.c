#include "targets/stomp_connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "guard/resolve.h"
#include "targets/outbox.h"
#include "targets/stream.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CONNECT_MS = 10 * 1000, /* all addresses, TLS and login together */
    BEAT_MS = 10 * 1000,    /* what we offer and ask for */
    IDLE_MS = 30 * 1000,
    PAUSE_MS = 100, /* where the owner wants one */
    IN_BYTES_MAX = STOMP_HEAD_BYTES_MAX + STOMP_BODY_BYTES_MAX + 64 * 1024,
    WHY_BYTES = 200
};

enum connection_state { DOWN = 1, PAUSING, RESOLVING, CONNECTING, GREETING, UP };

struct stomp_connection {
    const struct target_env *env;
    struct stomp_place place;
    struct stomp_connection_events events;
    void *ctx;
    enum connection_state state;
    bool is_needed, is_freed;
    struct resolved found;
    size_t next;       /* of found */
    uint64_t policy;   /* the guard's generation when it allowed the connection */
    uint64_t question; /* the last one to the resolver */
    size_t asks;       /* questions without an answer */
    struct stream *stream;
    struct buffer in;
    struct deadline *deadline;
    int64_t until_ms;                /* PAUSING: try then; up to GREETING: give up then */
    int64_t send_every_ms, hear_ms;  /* heart-beats; 0: none */
    int64_t last_out_ms, last_in_ms; /* UP */
    int64_t unneeded_ms;             /* since when */
    struct outbox_pause pause;       /* no try before its end */
    struct turn_end_call turn_end;   /* what fails in a call is told after it; so is `gone` */
    char why[WHY_BYTES];
};

/* ---- where it is ---- */

const char *const stomp_schemes[] = {"stomp", "stomps", NULL};

bool stomp_place_parse(struct slice to, struct stomp_place *out, char *error)
{
    struct url url;
    if (!target_place_parse(to, stomp_schemes, &url, &out->at, error))
        return false;
    if (url.has_query)
        return error_text(error, TARGET_ERROR_BYTES, "a STOMP broker's URL has no query");
    if (!target_place_name(&url, out->virtual_host))
        return error_text(error, TARGET_ERROR_BYTES,
                          "its virtual host is none, give one name of at most 255 bytes");
    if (!out->virtual_host[0])
        memcpy(out->virtual_host, out->at.host, sizeof out->at.host);
    return true;
}

static bool is_up(const struct stomp_connection *connection)
{
    return connection->state == UP && connection->stream;
}

/* ---- down ---- */

static void connection_hang_up(struct stomp_connection *connection)
{
    stream_free(connection->stream);
    connection->stream = NULL;
    connection->question++;
    deadline_set(connection->deadline, INT64_MAX);
}

/* The owner hears of it at the end of the turn. */
static void connection_fall(struct stomp_connection *connection, const char *what, const char *why)
{
    connection_hang_up(connection);
    outbox_pause_longer(&connection->pause, clock_inner_ms());
    (void)snprintf(connection->why, sizeof connection->why, "%s%s%s", what, *why ? ": " : "", why);
    log_event(LOG_INFO, "broker is away", LOG_TEXT("broker", connection->place.at.origin),
              LOG_TEXT("why", connection->why));
    reactor_once_at_turn_end(connection->env->reactor, &connection->turn_end);
}

/* Tells the owner that the connection is down, or frees it where the owner let go of it. */
static void on_turn_end(struct turn_end_call *call)
{
    struct stomp_connection *connection = list_entry(call, struct stomp_connection, turn_end);
    struct stomp_connection_events events = connection->events;
    void *ctx = connection->ctx;
    reactor_turn_again(connection->env->reactor);
    if (!connection->is_freed) {
        connection->state = DOWN;
        events.down(ctx, connection->why);
    } else if (connection->asks == 0) {
        buffer_fini(&connection->in);
        free(connection);
        events.gone(ctx);
    }
}

/* ---- up ---- */

/* The policy file may have been read again since the connection was made. */
static bool is_allowed(struct stomp_connection *connection)
{
    struct guard *guard = connection->env->guard;
    uint64_t policy = guard_generation(guard);
    const void *peer = &connection->found.addresses[connection->next - 1];
    if (policy == connection->policy)
        return true;
    connection->policy = policy;
    if (guard_check_host(guard, slice_of(connection->place.at.host)) == GUARD_ALLOWED &&
        guard_check_address(guard, peer) == GUARD_ALLOWED)
        return true;
    connection_fall(connection, "connection ended", "the policy file forbids it now");
    return false;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A heart-beat goes out well before it is due; a peer is given two of its own. */
static int64_t next_beat_ms(const struct stomp_connection *connection)
{
    return connection->send_every_ms ? connection->last_out_ms + connection->send_every_ms * 3 / 4
                                     : INT64_MAX;
}

static int64_t lost_ms(const struct stomp_connection *connection)
{
    return connection->hear_ms ? connection->last_in_ms + 2 * connection->hear_ms : INT64_MAX;
}

static int64_t idle_ms(const struct stomp_connection *connection)
{
    return connection->is_needed ? INT64_MAX : connection->unneeded_ms + IDLE_MS;
}

static void set_deadline(struct stomp_connection *connection)
{
    deadline_set(connection->deadline, earlier(next_beat_ms(connection),
                                               earlier(lost_ms(connection), idle_ms(connection))));
}

static void say_good_bye(struct stomp_connection *connection)
{
    static const char bye[] = "DISCONNECT\n\n";
    (void)stream_write(connection->stream, bye, sizeof bye);
    stomp_connection_stop(connection, false);
}

/* While it is up: is the broker still heard of, is the connection still needed, is a heart-beat
 * due. */
static void look_at_clock(struct stomp_connection *connection)
{
    int64_t now_ms = clock_inner_ms();
    if (!is_allowed(connection))
        return;
    if (now_ms >= lost_ms(connection)) {
        connection_fall(connection, "connection lost", "no heart-beat came");
        return;
    }
    if (now_ms >= idle_ms(connection)) {
        say_good_bye(connection);
        return;
    }
    if (now_ms >= next_beat_ms(connection)) {
        (void)stream_write(connection->stream, "\n", 1);
        connection->last_out_ms = now_ms;
    }
    set_deadline(connection);
}

/* Each side sends as seldom as both want; 0 means none. */
static void agree_on_beats(struct stomp_connection *connection, const struct stomp_frame *frame)
{
    int64_t sends_ms = 0, wants_ms = 0;
    struct slice beat = stomp_frame_header(frame, "heart-beat");
    connection->send_every_ms = connection->hear_ms = 0;
    if (!beat.at || !stomp_frame_heart_beat(beat, &sends_ms, &wants_ms))
        return;
    if (wants_ms)
        connection->send_every_ms = wants_ms > BEAT_MS ? wants_ms : BEAT_MS;
    if (sends_ms)
        connection->hear_ms = sends_ms > BEAT_MS ? sends_ms : BEAT_MS;
}

/* The broker has let us in: CONNECTED. */
static void be_connected(struct stomp_connection *connection, const struct stomp_frame *frame)
{
    if (!slice_is(stomp_frame_header(frame, "version"), "1.2")) {
        connection_fall(connection, "no login", "the broker does not speak STOMP 1.2");
        return;
    }
    agree_on_beats(connection, frame);
    connection->state = UP;
    connection->pause.failures = 0;
    connection->last_out_ms = connection->last_in_ms = connection->unneeded_ms = clock_inner_ms();
    set_deadline(connection);
    connection->events.up(connection->ctx);
}

/* Before the login is through only CONNECTED is good news; afterwards frames are the owner's. */
static void take_frame(struct stomp_connection *connection, const struct stomp_frame *frame)
{
    char text[WHY_BYTES / 2];
    struct slice said = stomp_frame_header(frame, "message");
    if (connection->state == UP) {
        connection->events.frame(connection->ctx, frame);
        return;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)said.len, said.at ? said.at : "");
    if (slice_is(frame->command, "CONNECTED"))
        be_connected(connection, frame);
    else
        connection_fall(connection, "login refused", text);
}

/* Cuts what came into frames; any of them may end the connection or free it. */
static void on_bytes(void *ctx, const char *bytes, size_t len)
{
    struct stomp_connection *connection = ctx;
    struct stream *stream = connection->stream;
    struct stomp_frame frame;
    size_t at = 0, used = 0;
    const char *why = "";
    enum stomp_read read = STOMP_MORE;
    connection->last_in_ms = clock_inner_ms();
    buffer_append(&connection->in, bytes, len);
    if (connection->in.failed) {
        connection_fall(connection, "connection lost", "the broker says too much");
        return;
    }
    while (connection->stream == stream && !connection->is_freed &&
           (read = stomp_frame_read(connection->in.at + at, connection->in.len - at, &frame, &used,
                                    &why)) != STOMP_MORE) {
        if (read == STOMP_BROKEN) {
            connection_fall(connection, "a frame of the broker cannot be read", why);
            return;
        }
        at += used;
        if (read == STOMP_FRAME)
            take_frame(connection, &frame);
    }
    if (connection->stream != stream || connection->is_freed)
        return;
    memmove(connection->in.at, connection->in.at + at, connection->in.len - at);
    connection->in.len -= at;
}

/* ---- connecting ---- */

static void try_next(struct stomp_connection *connection, const char *reason);

/* The CONNECT frame with the policy file's credential, which is wiped. False: it cannot be written
 * in a header. */
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
    if (guard_find_credential(connection->env->guard, connection->place.at.origin, &credential))
        good = stomp_emit_plain_header(out, "login", slice_of(credential.user)) &&
               stomp_emit_plain_header(out, "passcode", slice_of(credential.password)) && good;
    explicit_bzero(&credential, sizeof credential);
    stomp_emit_body(out, (struct slice){0});
    return good && !out->failed;
}

static void on_wire_up(void *ctx)
{
    struct stomp_connection *connection = ctx;
    struct buffer out;
    buffer_init(&out, STOMP_HEAD_BYTES_MAX);
    connection->state = GREETING;
    deadline_set(connection->deadline, connection->until_ms);
    if (!emit_connect(connection, &out) ||
        stream_write(connection->stream, out.at, out.len) < out.len)
        connection_fall(connection, "no login", "user or password cannot be sent");
    if (out.at)
        explicit_bzero(out.at, out.cap);
    buffer_fini(&out);
}

static void on_wire_down(void *ctx, const char *why)
{
    struct stomp_connection *connection = ctx;
    if (connection->state == CONNECTING) {
        stream_free(connection->stream);
        connection->stream = NULL;
        try_next(connection, why);
    } else {
        connection_fall(connection, connection->state == UP ? "connection lost" : "no login", why);
    }
}

static void on_wire_room(void *ctx)
{
    struct stomp_connection *connection = ctx;
    if (connection->state == UP)
        connection->events.room(connection->ctx);
}

static bool connect_to(struct stomp_connection *connection, const struct sockaddr *address)
{
    static const struct stream_events events = {
        .up = on_wire_up, .bytes = on_bytes, .room = on_wire_room, .down = on_wire_down};
    char ca_file[GUARD_PATH_BYTES_MAX];
    bool has_ca = connection->place.at.is_tls && guard_ca_file(connection->env->guard, ca_file);
    connection->stream = stream_new(connection->env->reactor, address,
                                    connection->place.at.is_tls ? connection->place.at.host : NULL,
                                    has_ca ? ca_file : NULL, &events, connection);
    return connection->stream != NULL;
}

/* `reason`: what became of the one before. */
static void try_next(struct stomp_connection *connection, const char *reason)
{
    int64_t now_ms = clock_inner_ms();
    while (connection->next < connection->found.count && now_ms < connection->until_ms) {
        size_t left = connection->found.count - connection->next;
        const void *address = &connection->found.addresses[connection->next++];
        connection->policy = guard_generation(connection->env->guard);
        enum guard_verdict verdict = guard_check_address(connection->env->guard, address);
        if (verdict != GUARD_ALLOWED) {
            reason = guard_verdict_name(verdict);
        } else if (connect_to(connection, address)) {
            int64_t share_ms = (connection->until_ms - now_ms) / (int64_t)left;
            deadline_set(connection->deadline, now_ms + (share_ms > 1 ? share_ms : 1));
            return;
        } else {
            reason = "out of memory, or the ca-file cannot be read";
        }
    }
    connection_fall(connection, "no connection", reason);
}

/* The resolver has answered: addresses are tried in their order, unless nobody waits for them any
 * more. */
static void on_resolved(void *owner, uint64_t tag, const struct resolved *resolved)
{
    struct stomp_connection *connection = owner;
    connection->asks--;
    if (connection->is_freed) {
        reactor_once_at_turn_end(connection->env->reactor, &connection->turn_end);
        return;
    }
    if (tag != connection->question || connection->state != RESOLVING)
        return;
    connection->found = *resolved;
    connection->next = 0;
    connection->state = CONNECTING;
    if (resolved->count == 0)
        connection_fall(connection, "no connection", resolved->error);
    else
        try_next(connection, "");
}

static void connection_begin(struct stomp_connection *connection)
{
    connection->state = RESOLVING;
    buffer_shrink(&connection->in, 0);
    connection->until_ms = clock_inner_ms() + CONNECT_MS;
    deadline_set(connection->deadline, connection->until_ms);
    connection->asks++;
    resolver_ask(connection->env->resolver, connection->place.at.host, connection->place.at.port,
                 hash_64(connection->place.at.host, strlen(connection->place.at.host)), on_resolved,
                 connection, ++connection->question);
}

/* One deadline serves all states; it means another thing in each. */
static void on_deadline(void *ctx)
{
    struct stomp_connection *connection = ctx;
    switch (connection->state) {
    case PAUSING:
        connection_begin(connection);
        return;
    case RESOLVING:
        connection_fall(connection, "no connection", "its address was not found in time");
        return;
    case CONNECTING:
        stream_free(connection->stream);
        connection->stream = NULL;
        try_next(connection, "timed out");
        return;
    case GREETING:
        connection_fall(connection, "no login", "the broker did not answer in time");
        return;
    case UP:
        look_at_clock(connection);
        return;
    case DOWN:
        return;
    }
}

/* ---- for the owner ---- */

void stomp_connection_stop(struct stomp_connection *connection, bool pauses)
{
    connection_hang_up(connection);
    reactor_cancel_at_turn_end(&connection->turn_end);
    connection->state = DOWN;
    connection->pause.until_ms = pauses ? clock_inner_ms() + PAUSE_MS : 0;
}

size_t stomp_connection_write(struct stomp_connection *connection, const char *at, size_t len)
{
    if (!is_up(connection) || !is_allowed(connection))
        return 0;
    size_t taken = stream_write(connection->stream, at, len);
    if (taken)
        connection->last_out_ms = clock_inner_ms();
    return taken;
}

/* Connects, at once or when the pause after the last failure is over. */
static void connection_start(struct stomp_connection *connection)
{
    if (connection->state != DOWN || connection->is_freed)
        return;
    if (clock_inner_ms() >= connection->pause.until_ms) {
        connection_begin(connection);
        return;
    }
    connection->state = PAUSING;
    deadline_set(connection->deadline, connection->pause.until_ms);
}

void stomp_connection_needed(struct stomp_connection *connection, bool is_needed)
{
    if (is_needed)
        connection_start(connection);
    if (connection->is_needed == is_needed)
        return;
    connection->is_needed = is_needed;
    connection->unneeded_ms = clock_inner_ms();
    if (is_up(connection))
        set_deadline(connection);
}

struct stomp_connection *stomp_connection_new(const struct target_env *env,
                                              const struct stomp_place *place,
                                              const struct stomp_connection_events *events,
                                              void *ctx)
{
    struct stomp_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->deadline = deadline_new(env->reactor, on_deadline, connection);
    if (!connection->deadline) {
        free(connection);
        return NULL;
    }
    connection->env = env;
    connection->place = *place;
    connection->events = *events;
    connection->ctx = ctx;
    connection->state = DOWN;
    connection->turn_end.run = on_turn_end;
    list_init(&connection->turn_end.list);
    buffer_init(&connection->in, IN_BYTES_MAX);
    return connection;
}

void stomp_connection_free(struct stomp_connection *connection)
{
    if (is_up(connection))
        say_good_bye(connection);
    stomp_connection_stop(connection, false);
    deadline_free(connection->deadline);
    connection->deadline = NULL;
    connection->is_freed = true;
    reactor_once_at_turn_end(connection->env->reactor, &connection->turn_end);
}
