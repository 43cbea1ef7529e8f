#include "targets/nats/connection.h"

#include "base/error.h"
#include "base/hex.h"
#include "base/random.h"
#include "base/text.h"
#include "targets/meta.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum {
    PING_MS = 10 * 1000, /* without data from the server */
    LOST_MS = 20 * 1000,
    IN_BYTES_MAX = NATS_LINE_BYTES_MAX + NATS_PAYLOAD_BYTES_MAX + 128 * 1024,
    LOGIN_BYTES_MAX = 4 * 1024,
    INBOX_RANDOM_BYTES = 11,
    WHY_BYTES = 200
};

struct nats_connection {
    const struct target_env *env;
    struct session *session;
    struct nats_connection_events events;
    void *owner;
    bool is_greeted, is_pinged;
    struct nats_server server;
    char inbox[NATS_INBOX_BYTES + 1]; /* with the last dot */
};

/* ---- addresses ---- */

bool nats_places_parse(struct slice to, struct target_places *out, char *error)
{
    struct url url;
    if (!target_places_parse(to, target_nats_schemes, &url, out, error))
        return false;
    return (!url.has_query && url.path.len <= 1) ||
           error_text(error, TARGET_ERROR_BYTES, "a NATS server's URL has no path and no query");
}

/* ---- while it is up ---- */

static void send_text(struct nats_connection *connection, const char *text)
{
    session_send(connection->session, text, strlen(text));
}

/* Sends a PING to a server that has been quiet, and fails if it stays quiet. */
static int64_t keep(void *ctx, int64_t now_ms)
{
    struct nats_connection *connection = ctx;
    int64_t heard_ms = session_in_ms(connection->session);
    if (now_ms < heard_ms + PING_MS) {
        connection->is_pinged = false;
        return heard_ms + PING_MS;
    }
    if (!connection->is_pinged)
        send_text(connection, "PING\r\n");
    else if (now_ms >= heard_ms + LOST_MS)
        session_fail(connection->session, "connection lost", "the server did not answer a PING");
    connection->is_pinged = true;
    return heard_ms + LOST_MS;
}

/* ---- login ---- */

static void append_login(struct nats_connection *connection, struct buffer *out,
                         const struct guard_credential *credential)
{
    struct nats_login login = {.version = connection->env->version ? connection->env->version : "",
                               .is_tls = session_place(connection->session)->is_tls};
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
static void send_login(void *ctx)
{
    struct nats_connection *connection = ctx;
    struct guard_credential credential;
    struct buffer out;
    bool is_found = session_credential(connection->session, &credential);
    buffer_init(&out, LOGIN_BYTES_MAX);
    append_login(connection, &out, is_found ? &credential : NULL);
    explicit_bzero(&credential, sizeof credential);
    session_login(connection->session, &out);
}

/* Handles the first INFO of a connection. TLS begins right after it: anything that follows it in
 * plain text was not sent by the server. */
static void be_greeted(struct nats_connection *connection, bool is_last)
{
    bool is_tls = session_place(connection->session)->is_tls;
    connection->is_greeted = true;
    if (!connection->server.has_headers)
        session_fail(connection->session, "no login", "the server does not support headers");
    else if (is_tls && !connection->server.offers_tls)
        session_fail(connection->session, "no login", "the server does not offer TLS");
    else if (!is_tls && connection->server.needs_tls)
        session_fail(connection->session, "no login", "the server requires TLS, use natss://");
    else if (is_tls && !is_last)
        session_fail(connection->session, "no login", "the server sent data before TLS");
    else if (is_tls)
        session_start_tls(connection->session);
    else
        send_login(connection);
}

/* ---- messages of the server ---- */

static void take_info(struct nats_connection *connection, struct slice json, bool is_last)
{
    struct nats_server server;
    if (!nats_info_parse(json, &server)) {
        session_fail(connection->session, "no login", "the server's INFO cannot be read");
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
        connection->events.answer(connection->owner, number, frame);
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
    if (session_is_up(connection->session) && can_continue(text)) {
        connection->events.error(connection->owner, text);
        return;
    }
    target_remark_write(text, why, sizeof why);
    session_fail(connection->session,
                 session_is_up(connection->session) ? "connection lost" : "login refused", why);
}

static void take_frame(struct nats_connection *connection, const struct nats_frame *frame,
                       bool is_last)
{
    if (!connection->is_greeted && frame->verb != NATS_INFO) {
        session_fail(connection->session, "no login", "the peer is not a NATS server");
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
        if (!session_is_up(connection->session))
            session_logged_in(connection->session);
        return;
    case NATS_ERROR:
        take_error(connection, frame->text);
        return;
    case NATS_OK:
        return;
    }
}

static enum session_read read_frame(void *ctx, char *at, size_t len, size_t *used, const char **why)
{
    struct nats_frame frame;
    enum nats_read read = nats_frame_read(at, len, &frame, used, why);
    if (read != NATS_FRAME)
        return read == NATS_BROKEN ? SESSION_BROKEN : SESSION_MORE;
    take_frame(ctx, &frame, *used == len);
    return SESSION_PART;
}

static void on_up(void *ctx)
{
    struct nats_connection *connection = ctx;
    connection->is_greeted = connection->is_pinged = false;
}

/* ---- for the owner ---- */

void nats_connection_reply(const struct nats_connection *connection, uint64_t number,
                           char out[NATS_REPLY_BYTES])
{
    (void)snprintf(out, NATS_REPLY_BYTES, "%s%" PRIu64, connection->inbox, number);
}

uint64_t nats_connection_max_payload(const struct nats_connection *connection)
{
    return session_is_up(connection->session) ? connection->server.max_payload : 0;
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

struct session *nats_connection_session(const struct nats_connection *connection)
{
    return connection->session;
}

struct nats_connection *nats_connection_new(const struct target_env *env,
                                            const struct target_places *places,
                                            const struct nats_connection_events *events,
                                            void *owner)
{
    static const struct session_protocol protocol = {.begins_plain = true,
                                                     .in_bytes_max = IN_BYTES_MAX,
                                                     .unreadable =
                                                         "a message of the server cannot be read",
                                                     .up = on_up,
                                                     .secured = send_login,
                                                     .read = read_frame,
                                                     .keep = keep,
                                                     .free = free};
    struct nats_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->env = env;
    connection->events = *events;
    connection->owner = owner;
    choose_inbox(connection->inbox);
    connection->session = session_new(env, places, &protocol, connection, &events->session, owner);
    if (connection->session)
        return connection;
    free(connection);
    return NULL;
}
