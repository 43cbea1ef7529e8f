#include "redis/connection.h"

#include "redis/connector.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Unsent commands have a ceiling so that a stuck server cannot take all memory; whoever watches
 * redis_connection_unsent stays far below it. Buffers keep some memory from turn to turn, and give
 * back what a rare giant needed.
 */
#define OUT_BYTES_MAX ((size_t)3 << 30)
enum { BYTES_KEPT = 1024 * 1024 };

struct redis_connection {
    struct reactor *reactor;
    struct redis_connection_events events;
    void *ctx;
    char name[REDIS_NAME_BYTES];
    struct redis_connector *connector; /* NULL once it is done */
    struct redis_socket *socket;       /* NULL: not connected */
    redisReader *reader;
    struct buffer out;
    struct turn_end_call turn_end;
    bool is_sending;   /* the socket has bytes it could not take at once */
    bool cannot_write; /* writing failed, reading will come to its end */
    bool has_ended, told_down;
    bool in_callback, is_freed;
    char why[REDIS_NAME_BYTES + 256];
};

/* ---- telling the owner ---- */

static void release(struct redis_connection *connection)
{
    if (connection->reader)
        redisReaderFree(connection->reader);
    buffer_fini(&connection->out);
    free(connection);
}

/* Around each callback. False: the owner has freed the connection in it. */
static void enter(struct redis_connection *connection)
{
    assert(!connection->in_callback);
    connection->in_callback = true;
}

static bool leave(struct redis_connection *connection)
{
    connection->in_callback = false;
    if (!connection->is_freed)
        return true;
    release(connection);
    return false;
}

static void touch(struct redis_connection *connection)
{
    reactor_once_at_turn_end(connection->reactor, &connection->turn_end);
}

/* The owner hears of it at the end of the turn. What is still appended goes nowhere. */
static void end(struct redis_connection *connection, const char *what, const char *reason)
{
    if (connection->has_ended)
        return;
    connection->has_ended = true;
    (void)snprintf(connection->why, sizeof connection->why, "%s '%s'%s%s", what, connection->name,
                   reason ? ": " : "", reason ? reason : "");
    redis_socket_close(connection->socket);
    connection->socket = NULL;
    buffer_fini(&connection->out);
    connection->out.bytes_max = 0;
    touch(connection);
}

static void tell_down(struct redis_connection *connection)
{
    connection->told_down = true;
    /* Hooks that would act on it have had their call in this turn. */
    reactor_turn_again(connection->reactor);
    enter(connection);
    connection->events.down(connection->ctx, connection->why);
    (void)leave(connection);
}

/* ---- in ---- */

/* False: nothing more is to be read. */
static bool hand_on(struct redis_connection *connection, redisReply *reply)
{
    enter(connection);
    connection->events.reply(connection->ctx, reply);
    freeReplyObject(reply);
    return leave(connection) && !connection->has_ended;
}

static void take_in(struct redis_connection *connection, const char *bytes, size_t len)
{
    void *reply = NULL;
    int status = redisReaderFeed(connection->reader, bytes, len);
    while (status == REDIS_OK) {
        status = redisReaderGetReply(connection->reader, &reply);
        if (status != REDIS_OK)
            break;
        if (!reply || !hand_on(connection, reply))
            return;
    }
    end(connection, "no replies can be read from", connection->reader->errstr);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *room)
{
    struct redis_socket *socket = handle->data;
    (void)wanted;
    *room = uv_buf_init(socket->in, sizeof socket->in);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *bytes)
{
    struct redis_socket *socket = stream->data;
    struct redis_connection *connection = socket->owner;
    if (!connection)
        return;
    if (count == UV_EOF)
        end(connection, "connection closed by", NULL);
    else if (count < 0)
        end(connection, "connection lost to", uv_strerror((int)count));
    else if (count > 0)
        take_in(connection, bytes->base, (size_t)count);
}

/* ---- out ---- */

/* A peer that ends the conversation may have said why: what it sent can still be read, and the
 * reading comes to the end by itself. */
static void fail_write(struct redis_connection *connection, int error)
{
    if (error == UV_EPIPE || error == UV_ECONNRESET)
        connection->cannot_write = true;
    else
        end(connection, "connection lost to", uv_strerror(error));
}

static void on_written(uv_write_t *request, int status)
{
    struct redis_socket *socket = request->data;
    struct redis_connection *connection = socket->owner;
    buffer_shrink(&socket->sending, BYTES_KEPT);
    if (!connection)
        return;
    connection->is_sending = false;
    if (status < 0)
        fail_write(connection, status);
    else if (connection->out.len)
        touch(connection);
}

/* What the socket did not take now it takes when it can; meanwhile the other buffer fills. */
static int write_later(struct redis_connection *connection, size_t done)
{
    struct redis_socket *socket = connection->socket;
    struct buffer emptied = socket->sending;
    uv_buf_t rest = {.base = connection->out.at + done, .len = connection->out.len - done};
    socket->sending = connection->out;
    connection->out = emptied;
    connection->out.bytes_max = OUT_BYTES_MAX;
    connection->is_sending = true; /* and stays so where that fails: all is over then */
    return uv_write(&socket->writing, &socket->stream, &rest, 1, on_written);
}

static void write_out(struct redis_connection *connection)
{
    struct buffer *out = &connection->out;
    if (out->failed) {
        end(connection, "no memory for what is to be sent to", NULL);
        return;
    }
    if (!connection->socket || connection->is_sending || connection->cannot_write || !out->len)
        return;
    uv_buf_t all = {.base = out->at, .len = out->len};
    int done = uv_try_write(&connection->socket->stream, &all, 1);
    if (done == UV_EAGAIN)
        done = 0;
    if (done >= 0 && (size_t)done == out->len) {
        buffer_shrink(out, BYTES_KEPT);
        return;
    }
    int error = done < 0 ? done : write_later(connection, (size_t)done);
    if (error)
        fail_write(connection, error);
}

static void on_turn_end(struct turn_end_call *call)
{
    struct redis_connection *connection = list_entry(call, struct redis_connection, turn_end);
    if (!connection->has_ended)
        write_out(connection);
    if (connection->has_ended && !connection->told_down)
        tell_down(connection);
}

/* ---- life ---- */

static void on_dialled(void *ctx, struct redis_socket *socket, const char *why)
{
    struct redis_connection *connection = ctx;
    if (!socket) {
        connection->has_ended = true;
        (void)snprintf(connection->why, sizeof connection->why, "%s", why);
    }
    redis_connector_free(connection->connector);
    connection->connector = NULL;
    if (!socket) {
        tell_down(connection);
        return;
    }
    connection->socket = socket;
    socket->owner = connection;
    int error = uv_read_start(&socket->stream, on_room, on_read);
    if (error) {
        end(connection, "connection lost to", uv_strerror(error));
        return;
    }
    touch(connection);
    enter(connection);
    connection->events.up(connection->ctx);
    (void)leave(connection);
}

struct redis_connection *redis_connection_new(struct reactor *reactor,
                                              const struct redis_endpoint *endpoint,
                                              int64_t connect_ms,
                                              const struct redis_connection_events *events,
                                              void *ctx)
{
    struct redis_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->reader = redisReaderCreate();
    if (connection->reader)
        connection->connector =
            redis_connector_new(reactor, endpoint, connect_ms, on_dialled, connection);
    if (!connection->connector) {
        release(connection);
        return NULL;
    }
    connection->reader->maxbuf = BYTES_KEPT;
    connection->reactor = reactor;
    connection->events = *events;
    connection->ctx = ctx;
    redis_endpoint_name(endpoint, connection->name);
    buffer_init(&connection->out, OUT_BYTES_MAX);
    connection->turn_end.run = on_turn_end;
    list_init(&connection->turn_end.list);
    return connection;
}

void redis_connection_free(struct redis_connection *connection)
{
    if (!connection)
        return;
    assert(!connection->is_freed);
    redis_connector_free(connection->connector);
    redis_socket_close(connection->socket);
    connection->socket = NULL;
    reactor_cancel_at_turn_end(&connection->turn_end);
    connection->has_ended = connection->is_freed = true;
    if (!connection->in_callback)
        release(connection);
}

struct buffer *redis_connection_out(struct redis_connection *connection)
{
    if (!connection->has_ended)
        touch(connection);
    return &connection->out;
}

size_t redis_connection_unsent(const struct redis_connection *connection)
{
    size_t with_socket =
        connection->socket ? uv_stream_get_write_queue_size(&connection->socket->stream) : 0;
    return connection->out.len + with_socket;
}
