#include "targets/rocketmq/connection.h"

#include <stdlib.h>

enum {
    IN_BYTES_MAX = ROCKETMQ_HEADER_BYTES_MAX + ROCKETMQ_BODY_BYTES_MAX + 256 * 1024,
    OUT_BYTES_MAX = 272 * 1024 * 1024, /* of a request; the server limits bodies */
    OUT_BYTES_KEPT = 64 * 1024
};

struct rocketmq_connection {
    struct guard *guard;
    const char *login;
    struct session *session;
    struct rocketmq_connection_events events;
    void *owner;
    struct buffer out; /* a request, of which the first `taken` bytes were sent; may be empty */
    size_t taken;
};

struct session *rocketmq_connection_session(const struct rocketmq_connection *connection)
{
    return connection->session;
}

/* ---- sending ---- */

/* Writes the rest of the request. Returns false if the link has no room for all of it. */
static bool write_rest(struct rocketmq_connection *connection)
{
    struct buffer *out = &connection->out;
    connection->taken += session_write(connection->session, out->at + connection->taken,
                                       out->len - connection->taken);
    if (connection->taken < out->len)
        return false;
    buffer_clear_and_trim(out, OUT_BYTES_KEPT);
    return true;
}

/* Appends a request. Reads the credential each time, because the policy file may have changed. */
static void emit_request(struct rocketmq_connection *connection, enum rocketmq_code code,
                         uint32_t opaque, const struct rocketmq_field *fields, size_t count,
                         struct slice body)
{
    struct guard_credential credential = {0};
    (void)guard_find_credential(connection->guard, connection->login, &credential);
    rocketmq_emit_request(&connection->out, code, opaque, fields, count, body,
                          &(struct rocketmq_login){credential.user, credential.password});
    explicit_bzero(&credential, sizeof credential);
}

enum rocketmq_sent rocketmq_connection_send(struct rocketmq_connection *connection,
                                            enum rocketmq_code code, uint32_t opaque,
                                            const struct rocketmq_field *fields, size_t count,
                                            struct slice body)
{
    struct buffer *out = &connection->out;
    if (!session_is_up(connection->session) || out->len)
        return ROCKETMQ_FULL;
    emit_request(connection, code, opaque, fields, count, body);
    bool failed = out->failed;
    connection->taken = 0;
    if (!failed && (write_rest(connection) || connection->taken))
        return ROCKETMQ_SENT;
    buffer_clear_and_trim(out, OUT_BYTES_KEPT);
    return failed ? ROCKETMQ_OUT_OF_MEMORY : ROCKETMQ_FULL;
}

/* ---- the session ---- */

/* RocketMQ has no login, because each request is signed. */
static void on_up(void *ctx)
{
    struct rocketmq_connection *connection = ctx;
    buffer_clear_and_trim(&connection->out, 0);
    session_logged_in(connection->session);
}

static enum session_read read_answer(void *ctx, char *at, size_t len, size_t *used,
                                     const char **why)
{
    struct rocketmq_connection *connection = ctx;
    struct rocketmq_answer answer;
    enum rocketmq_read read = rocketmq_frame_read(at, len, &answer, used, why);
    if (read == ROCKETMQ_MORE || read == ROCKETMQ_BROKEN)
        return read == ROCKETMQ_BROKEN ? SESSION_BROKEN : SESSION_MORE;
    if (answer.is_answer)
        connection->events.answer(connection->owner, &answer);
    return SESSION_PART;
}

static bool has_room(void *ctx)
{
    struct rocketmq_connection *connection = ctx;
    return connection->out.len == 0 || write_rest(connection);
}

static void connection_free(void *ctx)
{
    struct rocketmq_connection *connection = ctx;
    buffer_fini(&connection->out);
    free(connection);
}

struct rocketmq_connection *rocketmq_connection_new(const struct target_env *env,
                                                    const struct target_place *place,
                                                    const char *login,
                                                    const struct rocketmq_connection_events *events,
                                                    void *owner)
{
    static const struct session_protocol protocol = {.in_bytes_max = IN_BYTES_MAX,
                                                     .unreadable =
                                                         "an answer of the broker cannot be read",
                                                     .up = on_up,
                                                     .read = read_answer,
                                                     .has_room = has_room,
                                                     .free = connection_free};
    const struct target_places places = {.count = 1, .at = {*place}};
    struct rocketmq_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->guard = env->guard;
    connection->login = login;
    connection->events = *events;
    connection->owner = owner;
    buffer_init(&connection->out, OUT_BYTES_MAX);
    connection->session = session_new(env, &places, &protocol, connection, &events->session, owner);
    if (connection->session)
        return connection;
    connection_free(connection);
    return NULL;
}
