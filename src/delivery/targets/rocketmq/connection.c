#include "targets/rocketmq/connection.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
    IDLE_MS = 30 * 1000,
    IN_BYTES_MAX = ROCKETMQ_HEADER_BYTES_MAX + ROCKETMQ_BODY_BYTES_MAX + 256 * 1024,
    IN_BYTES_KEPT = 16 * 1024,
    OUT_BYTES_MAX = 272 * 1024 * 1024, /* of a request; the server limits bodies */
    OUT_BYTES_KEPT = 64 * 1024
};

struct rocketmq_connection {
    struct guard *guard;
    const char *login;
    struct rocketmq_connection_events events;
    void *ctx;
    struct link *link;
    struct buffer in;
    struct buffer out; /* a request, of which the first `taken` bytes were sent; may be empty */
    size_t taken;
    bool is_needed;
    int64_t unneeded_ms; /* time since it is not needed */
};

bool rocketmq_connection_is_up(const struct rocketmq_connection *connection)
{
    return link_is_up(connection->link);
}

bool rocketmq_connection_is_down(const struct rocketmq_connection *connection)
{
    return link_is_down(connection->link);
}

int64_t rocketmq_connection_in_ms(const struct rocketmq_connection *connection)
{
    return link_in_ms(connection->link);
}

/* ---- sending ---- */

/* Writes the rest of the request. Returns false if the link has no room for all of it. */
static bool write_rest(struct rocketmq_connection *connection)
{
    struct buffer *out = &connection->out;
    connection->taken +=
        link_write(connection->link, out->at + connection->taken, out->len - connection->taken);
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
    if (!link_is_up(connection->link) || out->len)
        return ROCKETMQ_FULL;
    emit_request(connection, code, opaque, fields, count, body);
    bool failed = out->failed;
    connection->taken = 0;
    if (!failed && (write_rest(connection) || connection->taken))
        return ROCKETMQ_SENT;
    buffer_clear_and_trim(out, OUT_BYTES_KEPT);
    return failed ? ROCKETMQ_OUT_OF_MEMORY : ROCKETMQ_FULL;
}

void rocketmq_connection_fail(struct rocketmq_connection *connection, const char *why)
{
    link_fail(connection->link, "connection lost", why);
}

/* ---- events of the link ---- */

static void set_wake_up(struct rocketmq_connection *connection)
{
    link_wake_at(connection->link,
                 connection->is_needed ? INT64_MAX : connection->unneeded_ms + IDLE_MS);
}

static void on_link_up(void *ctx)
{
    struct rocketmq_connection *connection = ctx;
    buffer_clear_and_trim(&connection->in, 0);
    buffer_clear_and_trim(&connection->out, 0);
    link_login_done(connection->link);
    set_wake_up(connection);
    connection->events.up(connection->ctx);
}

/* Splits received bytes into answers; each of them may end the connection. */
static void on_link_bytes(void *ctx, const char *bytes, size_t len)
{
    struct rocketmq_connection *connection = ctx;
    struct rocketmq_answer answer;
    size_t at = 0, used = 0;
    const char *why = "";
    enum rocketmq_read read = ROCKETMQ_MORE;
    buffer_append(&connection->in, bytes, len);
    if (connection->in.failed) {
        rocketmq_connection_fail(connection, "the broker sent too much");
        return;
    }
    while (link_is_up(connection->link) &&
           (read = rocketmq_frame_read(connection->in.at + at, connection->in.len - at, &answer,
                                       &used, &why)) != ROCKETMQ_MORE) {
        if (read == ROCKETMQ_BROKEN) {
            link_fail(connection->link, "an answer of the broker cannot be read", why);
            return;
        }
        at += used;
        if (answer.is_answer)
            connection->events.answer(connection->ctx, &answer);
    }
    if (!link_is_up(connection->link))
        return;
    memmove(connection->in.at, connection->in.at + at, connection->in.len - at);
    connection->in.len -= at;
    if (connection->in.len == 0)
        buffer_clear_and_trim(&connection->in, IN_BYTES_KEPT);
}

static void on_link_room(void *ctx)
{
    struct rocketmq_connection *connection = ctx;
    if (connection->out.len == 0 || write_rest(connection))
        connection->events.room(connection->ctx);
}

static void on_link_woken(void *ctx)
{
    struct rocketmq_connection *connection = ctx;
    if (!connection->is_needed && clock_inner_ms() >= connection->unneeded_ms + IDLE_MS)
        link_stop(connection->link, false);
    else
        set_wake_up(connection);
}

static void on_link_down(void *ctx, const char *why)
{
    struct rocketmq_connection *connection = ctx;
    connection->events.down(connection->ctx, why);
}

static void on_link_gone(void *ctx)
{
    struct rocketmq_connection *connection = ctx;
    struct rocketmq_connection_events events = connection->events;
    void *owner = connection->ctx;
    buffer_fini(&connection->in);
    buffer_fini(&connection->out);
    free(connection);
    events.gone(owner);
}

/* ---- life ---- */

void rocketmq_connection_needed(struct rocketmq_connection *connection, bool is_needed)
{
    if (is_needed)
        link_start(connection->link);
    if (connection->is_needed == is_needed)
        return;
    connection->is_needed = is_needed;
    connection->unneeded_ms = clock_inner_ms();
    set_wake_up(connection);
}

struct rocketmq_connection *rocketmq_connection_new(const struct target_env *env,
                                                    const struct target_place *place,
                                                    const char *login,
                                                    const struct rocketmq_connection_events *events,
                                                    void *ctx)
{
    static const struct link_events link_events = {.up = on_link_up,
                                                   .bytes = on_link_bytes,
                                                   .room = on_link_room,
                                                   .woken = on_link_woken,
                                                   .down = on_link_down,
                                                   .gone = on_link_gone};
    struct rocketmq_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->link = link_new(env, place, &link_events, connection);
    if (!connection->link) {
        free(connection);
        return NULL;
    }
    connection->guard = env->guard;
    connection->login = login;
    connection->events = *events;
    connection->ctx = ctx;
    buffer_init(&connection->in, IN_BYTES_MAX);
    buffer_init(&connection->out, OUT_BYTES_MAX);
    return connection;
}

void rocketmq_connection_free(struct rocketmq_connection *connection)
{
    link_free(connection->link);
}
