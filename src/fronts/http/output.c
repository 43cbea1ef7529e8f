#include "http/output.h"

#include "http/channel.h"
#include "http/phase.h"
#include "http/unsent.h"
#include "net/tls.h"

#include <stdlib.h>

struct http_writing {
    uv_write_t request;
    struct http_front *front;
    struct http_connection *connection; /* NULL: closed */
    http_output_written *written;
    struct buffer bytes;
    size_t counted; /* size in the budget */
    size_t left;    /* unwritten bytes at the last check */
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

void http_output_drop(struct http_connection *connection)
{
    uint64_t written = connection->unsent.out_at;
    if (connection->socket.writing)
        written -= unread_of(connection->socket.writing,
                             uv_stream_get_write_queue_size(&connection->socket.stream));
    if (connection->unsent.leases.cap)
        http_lease_settle(connection, written, true);
    count_out(connection, 0);
    http_front_give_back(connection->front, &connection->socket.out);
    if (connection->socket.writing)
        connection->socket.writing->connection = NULL;
    connection->socket.writing = NULL;
}

/* Called when the rest has been written, or cannot be written. */
static void on_output_written(uv_write_t *request, int status)
{
    struct http_writing *writing = request->data;
    struct http_connection *connection = writing->connection;
    http_output_written *written = writing->written;
    size_t unread = unread_of(writing, writing->left);
    http_budget_remove(writing->front, writing->counted);
    buffer_fini(&writing->bytes);
    free(writing);
    if (!connection)
        return;
    connection->socket.writing = NULL;
    if (status < 0)
        connection->unsent.out_at -= unread; /* the progress is known only from the last check */
    else if (connection->unsent.leases.cap)
        http_lease_settle(connection, connection->unsent.out_at, false);
    written(connection, status >= 0);
}

/* Writes the rest in the background. The socket has taken `done` bytes of `out`, which contain
 * `plain` bytes of answers. */
static bool write_later(struct http_connection *connection, struct buffer *out, size_t plain,
                        size_t done, http_output_written *written)
{
    struct http_writing *writing = calloc(1, sizeof *writing);
    if (!writing)
        return false;
    uv_buf_t rest = uv_buf_init(out->at + done, (unsigned)(out->len - done));
    writing->request.data = writing;
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
    connection->socket.writing = writing;
    if (uv_write(&writing->request, &connection->socket.stream, &rest, 1, on_output_written) != 0) {
        connection->socket.writing = NULL;
        connection->unsent.out_at -= unread_of(writing, rest.len);
        http_budget_remove(connection->front, writing->counted);
        buffer_fini(&writing->bytes);
        free(writing);
        return false;
    }
    connection->socket.write_left = writing->left = rest.len;
    http_phase_enter(connection, HTTP_PHASE_WRITE);
    return true;
}

bool http_output_write(struct http_connection *connection, http_output_written *written)
{
    struct buffer *out = &connection->socket.out;
    struct http_channel *channel = connection->socket.channel;
    if (out->failed)
        return false;
    if (connection->socket.writing) {
        connection->socket.writing->left =
            uv_stream_get_write_queue_size(&connection->socket.stream);
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
    uv_buf_t all = uv_buf_init(out->at, (unsigned)out->len);
    int done = uv_try_write(&connection->socket.stream, &all, 1);
    if (done < 0 && done != UV_EAGAIN)
        return false;
    http_count(&connection->front->counters.bytes_out, out->len);
    if (done < 0)
        done = 0;
    if ((size_t)done < out->len)
        return write_later(connection, out, plain, (size_t)done, written);
    connection->unsent.out_at += plain;
    if (connection->unsent.leases.cap)
        http_front_give_back(connection->front, &connection->unsent.leases);
    if (connection->socket.out_counted)
        count_out(connection, 0);
    http_front_give_back(connection->front, out);
    return true;
}
