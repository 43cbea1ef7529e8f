/*
 * What goes out. Answers of a turn are gathered per connection and written at its end with one
 * call; what the socket does not take follows when it can.
 */
#include "http/private.h"

#include <stdlib.h>

struct http_writing {
    uv_write_t request;
    struct http_front *front;
    struct http_connection *connection; /* NULL: it was cut */
    struct buffer bytes;
    size_t counted; /* in the budget */
    size_t left;    /* not written, at the last look */
};

/* What waits in `out` while something is being written. */
static void count_out(struct http_connection *connection, size_t bytes)
{
    if (bytes > connection->out_counted)
        http_budget_add(connection->front, bytes - connection->out_counted);
    else if (bytes < connection->out_counted)
        http_budget_remove(connection->front, connection->out_counted - bytes);
    connection->out_counted = bytes;
}

void http_output_drop(struct http_connection *connection)
{
    uint64_t written = connection->out_at;
    if (connection->writing)
        written -= uv_stream_get_write_queue_size((uv_stream_t *)&connection->tcp);
    if (connection->unsent.cap)
        http_lease_return_unsent(connection, written);
    count_out(connection, 0);
    http_front_give_back(connection->front, &connection->out);
    if (connection->writing)
        connection->writing->connection = NULL;
    connection->writing = NULL;
}

static void on_written(uv_write_t *request, int status)
{
    struct http_writing *writing = request->data;
    struct http_connection *connection = writing->connection;
    size_t left = writing->left;
    http_budget_remove(writing->front, writing->counted);
    buffer_fini(&writing->bytes);
    free(writing);
    if (!connection)
        return;
    connection->writing = NULL;
    if (status < 0) {
        /* How much had left is known from the last look only. */
        connection->out_at -= left;
        http_connection_cut(connection);
        return;
    }
    if (connection->unsent.cap)
        http_lease_written(connection, connection->out_at);
    if (connection->phase == HTTP_PHASE_WRITE)
        http_connection_wait(connection, HTTP_PHASE_NONE, false);
    http_connection_touch(connection);
}

/* The socket took `done` bytes; the rest follows by itself. */
static bool write_later(struct http_connection *connection, size_t done)
{
    struct http_writing *writing = calloc(1, sizeof *writing);
    if (!writing)
        return false;
    uv_buf_t rest = uv_buf_init(connection->out.at + done, (unsigned)(connection->out.len - done));
    writing->request.data = writing;
    writing->front = connection->front;
    writing->connection = connection;
    writing->bytes = connection->out;
    writing->counted = connection->out.cap;
    http_budget_add(connection->front, writing->counted);
    count_out(connection, 0);
    connection->out = (struct buffer){0};
    connection->out_at += writing->bytes.len;
    connection->writing = writing;
    if (uv_write(&writing->request, (uv_stream_t *)&connection->tcp, &rest, 1, on_written) != 0) {
        connection->writing = NULL;
        connection->out_at -= rest.len;
        http_budget_remove(connection->front, writing->counted);
        buffer_fini(&writing->bytes);
        free(writing);
        return false;
    }
    connection->write_left = writing->left = rest.len;
    http_connection_wait(connection, HTTP_PHASE_WRITE, false);
    return true;
}

static bool write_out(struct http_connection *connection)
{
    struct buffer *out = &connection->out;
    if (out->failed)
        return false;
    if (connection->writing) {
        connection->writing->left = uv_stream_get_write_queue_size((uv_stream_t *)&connection->tcp);
        count_out(connection, out->cap);
        return true;
    }
    if (out->len == 0)
        return true;
    uv_buf_t all = uv_buf_init(out->at, (unsigned)out->len);
    int done = uv_try_write((uv_stream_t *)&connection->tcp, &all, 1);
    if (done < 0 && done != UV_EAGAIN)
        return false;
    http_count(&connection->front->counters.bytes_out, out->len);
    if (done < 0)
        done = 0;
    if ((size_t)done < out->len)
        return write_later(connection, (size_t)done);
    connection->out_at += out->len;
    if (connection->unsent.cap)
        http_front_give_back(connection->front, &connection->unsent);
    if (connection->out_counted)
        count_out(connection, 0);
    http_front_give_back(connection->front, out);
    return true;
}

static void on_shut(uv_shutdown_t *request, int status)
{
    (void)status;
    free(request);
}

/* The answer is out, but a close now would reset the connection under it, as there is input that
 * nobody reads: say that no more comes, and read to the end. */
static bool linger(struct http_connection *connection)
{
    if (!connection->lingers || connection->saw_end)
        return false;
    if (connection->is_lingering)
        return true;
    uv_shutdown_t *request = malloc(sizeof *request);
    if (!request || uv_shutdown(request, (uv_stream_t *)&connection->tcp, on_shut) != 0) {
        free(request);
        return false;
    }
    connection->is_lingering = true;
    http_connection_wait(connection, HTTP_PHASE_LINGER, false);
    http_input_start(connection);
    return true;
}

/* How does it go on? */
static void settle(struct http_connection *connection)
{
    bool is_done = !connection->first && !connection->out.len && !connection->writing;
    if (is_done && connection->is_closing) {
        if (!linger(connection))
            http_connection_cut(connection);
        return;
    }
    http_input_resume(connection);
    if (!connection->is_cut && is_done && !connection->first &&
        connection->phase == HTTP_PHASE_NONE)
        http_connection_wait(connection, HTTP_PHASE_IDLE, false);
}

bool http_output_flush(struct http_front *front)
{
    struct list now;
    if (list_is_empty(&front->dirty))
        return false;
    uint32_t serial = front->serial;
    bool has_cut = false;
    /* What becomes dirty from here on has its turn next time. */
    now = front->dirty;
    now.next->prev = now.prev->next = &now;
    list_init(&front->dirty);
    while (!list_is_empty(&now)) {
        struct http_connection *connection = list_entry(now.next, struct http_connection, dirty);
        list_remove(&connection->dirty);
        if (!write_out(connection))
            http_connection_cut(connection);
        else
            settle(connection);
        has_cut |= connection->is_cut;
    }
    /* The queue has had its turn: what it was asked since must not wait until something else comes. */
    return !list_is_empty(&front->dirty) || front->serial != serial || has_cut;
}
