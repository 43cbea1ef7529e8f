#include "http/output.h"

#include "http/channel.h"
#include "http/phase.h"
#include "http/unsent.h"
#include "net/outflow.h"
#include "net/tls.h"

#include <stdlib.h>

struct http_writing {
    struct outflow outflow;
    struct http_front *front;
    struct http_connection *connection; /* NULL: closed */
    http_output_written *written;
    struct buffer bytes;
    size_t counted; /* size in the budget */
    size_t plain;   /* bytes of answers in it */
    bool is_sealed;
};

static void count_out(struct http_connection *connection, size_t bytes)
{
    budget_recount(&connection->front->shared->budget, &connection->socket.out_counted, bytes);
}

/* Returns how many bytes of the answers the peer cannot have read while the last `left` bytes are
 * not sent. */
static size_t unread_of(const struct http_writing *writing, size_t left)
{
    return writing->is_sealed ? tls_unread(writing->plain, writing->bytes.len, left) : left;
}

size_t http_output_left(const struct http_connection *connection)
{
    return connection->socket.writing ? outflow_left(&connection->socket.writing->outflow) : 0;
}

void http_output_drop(struct http_connection *connection)
{
    struct http_writing *writing = connection->socket.writing;
    uint64_t written = connection->unsent.out_at;
    if (writing)
        written -= unread_of(writing, http_output_left(connection));
    if (connection->unsent.leases.cap)
        http_lease_settle(connection, written, true);
    count_out(connection, 0);
    http_front_give_back(connection->front, &connection->socket.out);
    connection->socket.writing = NULL;
    if (writing) {
        writing->connection = NULL;
        outflow_cancel(&writing->outflow);
    }
}

static void writing_free(struct http_writing *writing)
{
    http_budget_remove(writing->front, writing->counted);
    buffer_fini(&writing->bytes);
    free(writing);
}

/* Called when the rest has been written, or cannot be written. */
static void on_output_written(struct outflow *outflow, int status)
{
    struct http_writing *writing = list_entry(outflow, struct http_writing, outflow);
    struct http_connection *connection = writing->connection;
    http_output_written *written = writing->written;
    size_t unread = unread_of(writing, outflow_left_at_most(outflow));
    writing_free(writing);
    if (!connection)
        return;
    connection->socket.writing = NULL;
    if (status < 0)
        connection->unsent.out_at -= unread;
    else if (connection->unsent.leases.cap)
        http_lease_settle(connection, connection->unsent.out_at, false);
    written(connection, status >= 0);
}

/* Writes the rest in the background. The socket has taken `done` bytes of `out`, which contain
 * `plain` bytes of answers. Returns as outflow_start. */
static int write_later(struct http_connection *connection, struct buffer *out, size_t plain,
                       size_t done, http_output_written *written)
{
    struct http_writing *writing = calloc(1, sizeof *writing);
    if (!writing)
        return UV_ENOMEM;
    outflow_init(&writing->outflow, connection->front->reactor, &connection->socket.stream,
                 on_output_written);
    writing->front = connection->front;
    writing->connection = connection;
    writing->written = written;
    writing->bytes = *out;
    writing->plain = plain;
    writing->is_sealed = connection->socket.channel;
    writing->counted = out->cap;
    http_budget_add(connection->front, writing->counted);
    count_out(connection, 0);
    *out = (struct buffer){0};
    connection->unsent.out_at += plain;
    int code =
        outflow_start(&writing->outflow, writing->bytes.at + done, writing->bytes.len - done);
    if (code != 0) {
        if (code < 0)
            connection->unsent.out_at -=
                unread_of(writing, outflow_left_at_most(&writing->outflow));
        writing_free(writing);
        return code;
    }
    connection->socket.writing = writing;
    connection->socket.write_left = http_output_left(connection);
    http_phase_enter(connection, HTTP_PHASE_WRITE);
    return 0;
}

/* Notes that everything has been written. */
static void note_whole(struct http_connection *connection)
{
    if (connection->unsent.leases.cap)
        http_front_give_back(connection->front, &connection->unsent.leases);
    if (connection->socket.out_counted)
        count_out(connection, 0);
}

bool http_output_write(struct http_connection *connection, http_output_written *written)
{
    struct buffer *out = &connection->socket.out;
    struct http_channel *channel = connection->socket.channel;
    if (out->failed)
        return false;
    if (connection->socket.writing) {
        count_out(connection, out->cap);
        return true;
    }
    size_t plain = out->len;
    if (channel) {
        if (!http_channel_seal(channel, connection->front, out))
            return false;
        out = &channel->sealed;
    }
    if (out->len == 0)
        return true;
    http_count(&connection->front->counters.bytes_out, out->len);
    int done = 0;
    if (out->len <= OUTFLOW_PIECE_BYTES) {
        uv_buf_t all = uv_buf_init(out->at, (unsigned)out->len);
        done = uv_try_write(&connection->socket.stream, &all, 1);
        if (done < 0 && done != UV_EAGAIN)
            return false;
        done = done < 0 ? 0 : done;
    }
    if ((size_t)done < out->len) {
        int code = write_later(connection, out, plain, (size_t)done, written);
        if (code > 0)
            note_whole(connection);
        return code >= 0;
    }
    connection->unsent.out_at += plain;
    note_whole(connection);
    http_front_give_back(connection->front, out);
    return true;
}
