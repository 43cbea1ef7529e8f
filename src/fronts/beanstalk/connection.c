#include "beanstalk/connection.h"

#include "net/activity.h"

#include <stdlib.h>

enum {
    KEPT_BYTES =
        /* capacity kept by an empty buffer; small, since idle connections should cost little */
    16 * 1024,
    LARGE_BYTES =
        128 * 1024 /* larger commands get their memory first; nothing behind them is read */
};

/* ---- memory ---- */

static void connection_count(struct beanstalk_connection *connection)
{
    budget_recount(connection->budget, &connection->counted,
                   connection->in.cap + connection->out.cap + connection->writing.cap);
}

/* Returns the limit of unconsumed input. */
static size_t input_bytes_max(const struct beanstalk_connection *connection)
{
    if (connection->wanted_bytes > LARGE_BYTES)
        return connection->wanted_bytes;
    if (!budget_is_spent(connection->budget) && !connection->is_writing)
        return connection->input_bytes_max;
    return connection->wanted_bytes > BUDGET_SMALL_BYTES ? connection->wanted_bytes
                                                         : (size_t)BUDGET_SMALL_BYTES;
}

bool beanstalk_connection_may_answer(const struct beanstalk_connection *connection)
{
    if (budget_is_spent(connection->budget))
        return !connection->out.len && !connection->is_writing;
    return connection->is_writing ? !connection->out.len
                                  : connection->out.len < BEANSTALK_UNSENT_BYTES_MAX;
}

/* ---- life ---- */

static void connection_check_gone(struct beanstalk_connection *connection)
{
    if (connection->handles || connection->holds || !connection->is_closing)
        return;
    buffer_fini(&connection->in);
    buffer_fini(&connection->out);
    buffer_fini(&connection->writing);
    budget_recount(connection->budget, &connection->counted, 0);
    connection->events->gone(connection);
}

static void on_closed(uv_handle_t *handle)
{
    struct beanstalk_connection *connection = handle->data;
    connection->handles--;
    connection_check_gone(connection);
}

void beanstalk_connection_end(struct beanstalk_connection *connection)
{
    if (connection->is_closing)
        return;
    connection->is_closing = true;
    connection->events->ended(connection);
    uv_close(&connection->handle, on_closed);
    uv_close((uv_handle_t *)&connection->timer, on_closed);
    if (connection->is_writing)
        outflow_cancel(&connection->outflow);
}

void beanstalk_connection_hold(struct beanstalk_connection *connection)
{
    connection->holds++;
}

void beanstalk_connection_release(struct beanstalk_connection *connection)
{
    connection->holds--;
    connection_check_gone(connection);
}

/* ---- input ---- */

struct slice beanstalk_connection_input(const struct beanstalk_connection *connection)
{
    const struct buffer *in = &connection->in;
    return in->len ? slice_make(in->at + connection->in_at, in->len - connection->in_at)
                   : (struct slice){.at = "", .len = 0};
}

void beanstalk_connection_consume(struct beanstalk_connection *connection, size_t bytes)
{
    connection->in_at += bytes;
    connection->wanted_bytes = 0;
    if (connection->in_at < connection->in.len)
        return;
    connection->in_at = 0;
    buffer_clear_and_trim(&connection->in, KEPT_BYTES);
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    struct beanstalk_connection *connection = handle->data;
    size_t unread = connection->in.len - connection->in_at, most = input_bytes_max(connection);
    size_t room = unread < most ? most - unread : 1;
    (void)wanted;
    *out = uv_buf_init(connection->read_at,
                       room < BEANSTALK_READ_BYTES ? (unsigned)room : BEANSTALK_READ_BYTES);
}

static void input_compact(struct beanstalk_connection *connection)
{
    struct buffer *in = &connection->in;
    if (!connection->in_at)
        return;
    memmove(in->at, in->at + connection->in_at, in->len - connection->in_at);
    in->len -= connection->in_at;
    connection->in_at = 0;
}

/* Appends to the input after removing consumed bytes. */
static void input_append(struct beanstalk_connection *connection, const char *bytes, size_t count)
{
    input_compact(connection);
    buffer_append(&connection->in, bytes, count);
}

/* Counts the memory immediately, so that commands that begin in the same loop iteration cannot
 * exceed the budget together. */
void beanstalk_connection_want(struct beanstalk_connection *connection, size_t bytes)
{
    struct buffer *in = &connection->in;
    connection->wanted_bytes = bytes;
    if (bytes <= LARGE_BYTES || bytes <= in->cap)
        return;
    input_compact(connection);
    (void)buffer_reserve(in, bytes - in->len); /* if this fails, the read fails, too */
    connection_count(connection);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct beanstalk_connection *connection = stream->data;
    activity_begin("commands of beanstalk");
    if (count == 0)
        return;
    if (count > 0) {
        input_append(connection, buffer->base, (size_t)count);
        connection_count(connection);
    }
    if (connection->in.failed || (count < 0 && count != UV_EOF)) {
        beanstalk_connection_end(connection);
        return;
    }
    if (count < 0) {
        connection->has_ended = true;
        connection->is_reading = false;
        uv_read_stop(&connection->stream);
    }
    connection->events->ready(connection);
}

static void read_where_room(struct beanstalk_connection *connection)
{
    size_t unread = connection->in.len - connection->in_at;
    bool reads = !connection->has_ended && unread < input_bytes_max(connection);
    if (reads == connection->is_reading || connection->is_closing)
        return;
    connection->is_reading = reads;
    if (!reads)
        uv_read_stop(&connection->stream);
    else if (uv_read_start(&connection->stream, on_alloc, on_read) != 0)
        beanstalk_connection_end(connection);
}

/* ---- output ---- */

static void writing_end(struct beanstalk_connection *connection)
{
    connection->is_writing = false;
    buffer_clear_and_trim(&connection->writing, KEPT_BYTES);
    connection_count(connection);
}

static void on_written(struct outflow *outflow, int status)
{
    struct beanstalk_connection *connection =
        list_entry(outflow, struct beanstalk_connection, outflow);
    writing_end(connection);
    if (status < 0)
        beanstalk_connection_end(connection);
    if (!connection->is_closing)
        connection->events->ready(connection);
    beanstalk_connection_release(connection);
}

static void write_out(struct beanstalk_connection *connection)
{
    if (connection->is_closing || connection->is_writing || !connection->out.len)
        return;
    if (connection->out.failed) {
        beanstalk_connection_end(connection);
        return;
    }
    struct buffer full = connection->out;
    connection->out = connection->writing;
    connection->writing = full;
    buffer_clear(&connection->out);
    int code = outflow_start(&connection->outflow, full.at, full.len);
    if (code) {
        writing_end(connection);
        if (code < 0)
            beanstalk_connection_end(connection);
        return;
    }
    connection->is_writing = true;
    beanstalk_connection_hold(connection);
}

size_t beanstalk_connection_unsent(const struct beanstalk_connection *connection)
{
    return connection->is_writing ? outflow_left(&connection->outflow) : 0;
}

void beanstalk_connection_go_on(struct beanstalk_connection *connection)
{
    write_out(connection);
    connection_count(connection);
    read_where_room(connection);
}

/* ---- time ---- */

static void on_time(uv_timer_t *timer)
{
    struct beanstalk_connection *connection = timer->data;
    if (!connection->is_closing)
        connection->events->woken(connection);
}

void beanstalk_connection_wake(struct beanstalk_connection *connection, int64_t in_ms)
{
    if (in_ms < 0) {
        uv_timer_stop(&connection->timer);
        return;
    }
    uv_update_time(connection->timer.loop);
    uv_timer_start(&connection->timer, on_time, (uint64_t)in_ms, 0);
}

/* ---- open ---- */

void beanstalk_connection_open(struct beanstalk_connection *connection, struct reactor *reactor,
                               int fd, bool is_unix, size_t bytes_max, char *read_at,
                               struct budget *budget,
                               const struct beanstalk_connection_events *events)
{
    uv_loop_t *loop = reactor_loop(reactor);
    connection->events = events;
    outflow_init(&connection->outflow, reactor, &connection->stream, on_written);
    connection->input_bytes_max = bytes_max;
    connection->read_at = read_at;
    connection->budget = budget;
    buffer_init(&connection->in, bytes_max + 2 * (size_t)BEANSTALK_READ_BYTES);
    buffer_init(&connection->out, SIZE_MAX / 2);
    buffer_init(&connection->writing, SIZE_MAX / 2);
    /* In libuv, both calls fail only on invalid arguments. */
    if (is_unix)
        (void)uv_pipe_init(loop, &connection->pipe, 0);
    else
        (void)uv_tcp_init(loop, &connection->tcp);
    (void)uv_timer_init(loop, &connection->timer);
    connection->handles = 2;
    connection->handle.data = connection->timer.data = connection;
    int failed = is_unix ? uv_pipe_open(&connection->pipe, fd) : uv_tcp_open(&connection->tcp, fd);
    if (!failed && !is_unix)
        failed = uv_tcp_nodelay(&connection->tcp, 1);
    if (failed)
        beanstalk_connection_end(connection);
    else
        read_where_room(connection);
}
