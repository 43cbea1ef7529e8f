#include "targets/nats/connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/random.h"
#include "base/text.h"
#include "targets/link.h"
#include "targets/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum {
    PING_MS = 10 * 1000, /* without data from the server */
    LOST_MS = 20 * 1000,
    IDLE_MS = 30 * 1000,
    IN_BYTES_MAX = NATS_LINE_BYTES_MAX + NATS_PAYLOAD_BYTES_MAX + 128 * 1024,
    LOGIN_BYTES_MAX = 4 * 1024,
    INBOX_RANDOM_BYTES = 11,
    WHY_BYTES = 200
};

struct nats_connection {
    const struct target_env *env;
    struct target_places places;
    size_t at;       /* index of the server in use */
    size_t failures; /* servers in a row that could not be logged in to */
    struct nats_connection_events events;
    void *ctx;
    struct link *link;
    bool is_greeted, is_logged_in, is_needed, is_pinged;
    struct nats_server server;
    char inbox[NATS_INBOX_BYTES + 1]; /* with the last dot */
    struct buffer in;
    int64_t unneeded_ms; /* time since it is not needed */
};

static const struct target_place *place_of(const struct nats_connection *connection)
{
    return &connection->places.at[connection->at];
}

/* ---- addresses ---- */

bool nats_places_parse(struct slice to, struct target_places *out, char *error)
{
    struct url url;
    if (!target_places_parse(to, target_nats_schemes, &url, out, error))
        return false;
    return (!url.has_query && url.path.len <= 1) ||
           error_text(error, TARGET_ERROR_BYTES, "a NATS server's URL has no path and no query");
}

/* ---- up ---- */

static bool is_up(const struct nats_connection *connection)
{
    return connection->is_logged_in && link_is_up(connection->link);
}

static void set_wake_up(struct nats_connection *connection)
{
    int64_t heard_ms = link_in_ms(connection->link);
    int64_t at_ms = heard_ms + (connection->is_pinged ? LOST_MS : PING_MS);
    int64_t idle_ms = connection->unneeded_ms + IDLE_MS;
    link_wake_at(connection->link, connection->is_needed || at_ms < idle_ms ? at_ms : idle_ms);
}

static void send_text(struct nats_connection *connection, const char *text)
{
    (void)link_write(connection->link, text, strlen(text));
}

/* Checks, while it is up, that the server is alive and the connection needed. */
static void on_link_woken(void *ctx)
{
    struct nats_connection *connection = ctx;
    int64_t now_ms = clock_inner_ms(), quiet_ms = now_ms - link_in_ms(connection->link);
    if (!connection->is_needed && now_ms >= connection->unneeded_ms + IDLE_MS) {
        nats_connection_stop(connection, false);
        return;
    }
    if (quiet_ms < PING_MS) {
        connection->is_pinged = false;
    } else if (!connection->is_pinged) {
        connection->is_pinged = true;
        send_text(connection, "PING\r\n");
    } else if (quiet_ms >= LOST_MS) {
        link_fail(connection->link, "connection lost", "the server did not answer a PING");
        return;
    }
    set_wake_up(connection);
}

/* ---- login ---- */

static void append_login(struct nats_connection *connection, struct buffer *out,
                         const struct guard_credential *credential)
{
    struct nats_login login = {.version = connection->env->version ? connection->env->version : "",
                               .is_tls = place_of(connection)->is_tls};
    if (credential && credential->is_token) {
        login.token = credential->password;
    } else if (credential) {
        login.user = credential->user;
        login.password = credential->password;
    }
    nats_emit_connect(out, &login);
    buffer_append_format(out, "SUB %s* 1\r\nPING\r\n", connection->inbox);
}

/* Sends the login with the credential of the policy file, which is wiped. The PONG proves that it
 * was accepted. */
static void send_login(struct nats_connection *connection)
{
    struct guard_credential credential;
    struct buffer out;
    bool is_found =
        guard_find_credential(connection->env->guard, place_of(connection)->origin, &credential) ||
        guard_find_credential(connection->env->guard, connection->places.at[0].origin, &credential);
    buffer_init(&out, LOGIN_BYTES_MAX);
    append_login(connection, &out, is_found ? &credential : NULL);
    explicit_bzero(&credential, sizeof credential);
    if (out.failed || link_write(connection->link, out.at, out.len) < out.len)
        link_fail(connection->link, "no login", "out of memory");
    if (out.at)
        explicit_bzero(out.at, out.cap);
    buffer_fini(&out);
}

/* Handles the first INFO of a connection. TLS begins right after it: anything that follows it in
 * plain text was not sent by the server. */
static void be_greeted(struct nats_connection *connection, bool is_last)
{
    bool is_tls = place_of(connection)->is_tls;
    connection->is_greeted = true;
    if (!connection->server.has_headers)
        link_fail(connection->link, "no login", "the server does not support headers");
    else if (is_tls && !connection->server.offers_tls)
        link_fail(connection->link, "no login", "the server does not offer TLS");
    else if (!is_tls && connection->server.needs_tls)
        link_fail(connection->link, "no login", "the server requires TLS, use natss://");
    else if (is_tls && !is_last)
        link_fail(connection->link, "no login", "the server sent data before TLS");
    else if (is_tls)
        link_start_tls(connection->link);
    else
        send_login(connection);
}

static void be_logged_in(struct nats_connection *connection)
{
    connection->is_logged_in = true;
    connection->failures = 0;
    connection->unneeded_ms = clock_inner_ms();
    link_login_done(connection->link);
    set_wake_up(connection);
    connection->events.up(connection->ctx);
}

/* ---- messages of the server ---- */

static void take_info(struct nats_connection *connection, struct slice json, bool is_last)
{
    struct nats_server server;
    if (!nats_info_parse(json, &server)) {
        link_fail(connection->link, "no login", "the server's INFO cannot be read");
        return;
    }
    connection->server = server;
    if (!connection->is_greeted)
        be_greeted(connection, is_last);
}

static void take_message(struct nats_connection *connection, const struct nats_frame *frame)
{
    size_t len = strlen(connection->inbox);
    uint64_t number;
    if (frame->subject.len > len && memcmp(frame->subject.at, connection->inbox, len) == 0 &&
        text_parse_u64(slice_make(frame->subject.at + len, frame->subject.len - len), UINT64_MAX,
                       &number))
        connection->events.answer(connection->ctx, number, frame);
}

/* Returns true if the connection continues after the error. Without the subscription no answer
 * would arrive. */
static bool can_continue(struct slice text)
{
    static const char publish[] = "permissions violation for publish";
    return text.len >= sizeof publish - 1 && strncasecmp(text.at, publish, sizeof publish - 1) == 0;
}

static void take_error(struct nats_connection *connection, struct slice text)
{
    char why[WHY_BYTES / 2];
    if (connection->is_logged_in && can_continue(text)) {
        connection->events.error(connection->ctx, text);
        return;
    }
    target_remark_write(text, why, sizeof why);
    link_fail(connection->link, connection->is_logged_in ? "connection lost" : "login refused",
              why);
}

static void take_frame(struct nats_connection *connection, const struct nats_frame *frame,
                       bool is_last)
{
    if (!connection->is_greeted && frame->verb != NATS_INFO) {
        link_fail(connection->link, "no login", "the peer is not a NATS server");
        return;
    }
    switch (frame->verb) {
    case NATS_INFO:
        take_info(connection, frame->text, is_last);
        return;
    case NATS_MSG:
        take_message(connection, frame);
        return;
    case NATS_PING:
        send_text(connection, "PONG\r\n");
        return;
    case NATS_PONG:
        if (!connection->is_logged_in)
            be_logged_in(connection);
        return;
    case NATS_ERROR:
        take_error(connection, frame->text);
        return;
    case NATS_OK:
        return;
    }
}

/* Splits received bytes into messages; each of them may end the connection or free it. */
static void on_link_bytes(void *ctx, const char *bytes, size_t len)
{
    struct nats_connection *connection = ctx;
    struct buffer *in = &connection->in;
    struct nats_frame frame;
    size_t at = 0, used = 0;
    const char *why = "";
    enum nats_read read = NATS_MORE;
    buffer_append(in, bytes, len);
    if (in->failed) {
        link_fail(connection->link, "connection lost", "the server sent too much");
        return;
    }
    while (link_is_up(connection->link) &&
           (read = nats_frame_read(in->at + at, in->len - at, &frame, &used, &why)) == NATS_FRAME) {
        at += used;
        take_frame(connection, &frame, at == in->len);
    }
    if (!link_is_up(connection->link))
        return;
    if (read == NATS_BROKEN) {
        link_fail(connection->link, "a message of the server cannot be read", why);
        return;
    }
    memmove(in->at, in->at + at, in->len - at);
    in->len -= at;
}

/* ---- the link ---- */

static void on_link_up(void *ctx)
{
    struct nats_connection *connection = ctx;
    buffer_clear_and_trim(&connection->in, 0);
    connection->is_greeted = connection->is_logged_in = connection->is_pinged = false;
}

static void on_link_secured(void *ctx)
{
    send_login(ctx);
}

static void on_link_room(void *ctx)
{
    struct nats_connection *connection = ctx;
    connection->events.room(connection->ctx);
}

/* Continues with the next server: immediately if others are left that have not failed. */
static void on_link_down(void *ctx, const char *why)
{
    struct nats_connection *connection = ctx;
    bool was_logged_in = connection->is_logged_in;
    connection->is_logged_in = false;
    connection->at = (connection->at + 1) % connection->places.count;
    link_move(connection->link, place_of(connection));
    if (!was_logged_in && ++connection->failures < connection->places.count) {
        link_stop(connection->link, false);
        link_start(connection->link);
        return;
    }
    connection->failures = 0;
    connection->events.down(connection->ctx, why);
}

static void on_link_gone(void *ctx)
{
    struct nats_connection *connection = ctx;
    struct nats_connection_events events = connection->events;
    void *owner = connection->ctx;
    buffer_fini(&connection->in);
    free(connection);
    events.gone(owner);
}

/* ---- for the owner ---- */

void nats_connection_reply(const struct nats_connection *connection, uint64_t number,
                           char out[NATS_REPLY_BYTES])
{
    (void)snprintf(out, NATS_REPLY_BYTES, "%s%" PRIu64, connection->inbox, number);
}

uint64_t nats_connection_max_payload(const struct nats_connection *connection)
{
    return is_up(connection) ? connection->server.max_payload : 0;
}

void nats_connection_stop(struct nats_connection *connection, bool pauses)
{
    connection->is_logged_in = false;
    link_stop(connection->link, pauses);
}

size_t nats_connection_write(struct nats_connection *connection, const char *at, size_t len)
{
    return is_up(connection) ? link_write(connection->link, at, len) : 0;
}

void nats_connection_needed(struct nats_connection *connection, bool is_needed)
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

/* Chooses the subject of the answers: other clients cannot guess it. */
static void choose_inbox(char out[NATS_INBOX_BYTES + 1])
{
    static const char prefix[] = "_INBOX.";
    unsigned char secret[INBOX_RANDOM_BYTES];
    random_bytes(secret, sizeof secret);
    memcpy(out, prefix, sizeof prefix - 1);
    hex_emit_bytes(out + sizeof prefix - 1, secret, sizeof secret);
    memcpy(out + NATS_INBOX_BYTES - 1, ".", 2);
}

struct nats_connection *nats_connection_new(const struct target_env *env,
                                            const struct target_places *places,
                                            const struct nats_connection_events *events, void *ctx)
{
    static const struct link_events link_events = {.begins_plain = true,
                                                   .up = on_link_up,
                                                   .secured = on_link_secured,
                                                   .bytes = on_link_bytes,
                                                   .room = on_link_room,
                                                   .woken = on_link_woken,
                                                   .down = on_link_down,
                                                   .gone = on_link_gone};
    struct nats_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->link = link_new(env, &places->at[0], &link_events, connection);
    if (!connection->link) {
        free(connection);
        return NULL;
    }
    connection->env = env;
    connection->places = *places;
    connection->events = *events;
    connection->ctx = ctx;
    choose_inbox(connection->inbox);
    buffer_init(&connection->in, IN_BYTES_MAX);
    return connection;
}

void nats_connection_free(struct nats_connection *connection)
{
    link_free(connection->link);
}
