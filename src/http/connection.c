#include "http/private.h"

#include <stdlib.h>

/* Connections beyond the limit that are told so; more are closed without a word. */
enum { CROWD_MAX = 64, LINGER_MS = 2000, HELD_MS = 500, STALL_MS = 100 };

/* ---- how long to wait ---- */

static int64_t patience_ms(const struct http_front *front, enum http_phase phase)
{
    switch (phase) {
    case HTTP_PHASE_HEAD:
        return front->options.header_ms;
    case HTTP_PHASE_BODY:
        return front->options.body_ms;
    case HTTP_PHASE_LINGER:
        return LINGER_MS;
    case HTTP_PHASE_HELD:
        return HELD_MS;
    default:
        return front->options.idle_ms;
    }
}

/* Each phase has one patience, so each list is in order of time by itself. */
void http_connection_wait(struct http_connection *connection, enum http_phase phase, bool anew)
{
    struct http_front *front = connection->front;
    if (connection->phase == phase && !anew)
        return;
    list_remove(&connection->timed);
    connection->phase = phase;
    if (phase == HTTP_PHASE_NONE)
        return;
    connection->until_ms = http_front_now_ms(front) + patience_ms(front, phase);
    list_add_last(&front->timed[phase], &connection->timed);
    if (connection->until_ms < front->alarm_ms) {
        front->alarm_ms = connection->until_ms;
        deadline_set(front->alarm, front->alarm_ms);
    }
}

static void give_up(struct http_connection *connection)
{
    struct http_fault fault;
    enum http_phase phase = connection->phase;
    if (phase == HTTP_PHASE_HELD) {
        http_input_probe(connection);
        return;
    }
    if (phase == HTTP_PHASE_HEAD || phase == HTTP_PHASE_BODY) {
        (void)http_fault_set(&fault, PROBLEM_REQUEST_TIMEOUT, 0,
                             "the %s took longer than %lld ms to arrive",
                             phase == HTTP_PHASE_HEAD ? "header" : "body",
                             (long long)patience_ms(connection->front, phase));
        http_connection_refuse(connection, &fault);
        return;
    }
    size_t left = phase == HTTP_PHASE_WRITE
                      ? uv_stream_get_write_queue_size((uv_stream_t *)&connection->tcp)
                      : 0;
    if (left < connection->write_left && phase == HTTP_PHASE_WRITE) {
        connection->write_left = left;
        http_connection_wait(connection, phase, true);
        return;
    }
    http_connection_cut(connection);
}

void http_connections_expire(struct http_front *front)
{
    int64_t now_ms = http_front_now_ms(front);
    if (front->is_stalled) {
        front->is_stalled = false;
        http_connection_accept(front, (uv_stream_t *)&front->listener);
    }
    for (int phase = HTTP_PHASE_NONE + 1; phase < HTTP_PHASE_COUNT; phase++) {
        struct list *list = &front->timed[phase];
        while (!list_is_empty(list)) {
            struct http_connection *first = list_entry(list->next, struct http_connection, timed);
            if (first->until_ms > now_ms)
                break;
            give_up(first);
        }
    }
    int64_t next_ms = front->is_stalled ? now_ms + STALL_MS : INT64_MAX;
    for (int phase = HTTP_PHASE_NONE + 1; phase < HTTP_PHASE_COUNT; phase++)
        if (!list_is_empty(&front->timed[phase])) {
            int64_t until_ms =
                list_entry(front->timed[phase].next, struct http_connection, timed)->until_ms;
            next_ms = until_ms < next_ms ? until_ms : next_ms;
        }
    front->alarm_ms = next_ms;
    deadline_set(front->alarm, next_ms);
}

/* ---- life ---- */

void http_connection_touch(struct http_connection *connection)
{
    if (connection->is_cut || !list_is_empty(&connection->dirty))
        return;
    if (list_is_empty(&connection->front->dirty))
        reactor_turn_again(connection->front->reactor);
    list_add_last(&connection->front->dirty, &connection->dirty);
}

/* The last answer it gets; what else comes in is thrown away. */
void http_connection_refuse(struct http_connection *connection, const struct http_fault *fault)
{
    struct http_exchange *exchange = http_exchange_add(connection);
    connection->is_closing = connection->lingers = true;
    http_input_drop(connection);
    http_connection_wait(connection, HTTP_PHASE_NONE, false);
    if (exchange)
        http_answer_fault(exchange, fault);
    http_connection_touch(connection);
}

static void on_closed(uv_handle_t *handle)
{
    struct http_connection *connection = handle->data;
    connection->front->open_handles--;
    reactor_turn_again(connection->front->reactor); /* somebody may wait for the last one */
    free(connection);
}

void http_connection_cut(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    if (connection->is_cut)
        return;
    connection->is_cut = true;
    for (struct http_exchange *exchange = connection->first, *next; exchange; exchange = next) {
        next = exchange->next;
        http_exchange_orphan(exchange);
    }
    connection->first = connection->last = NULL;
    connection->exchange_count = 0;
    list_remove(&connection->node);
    list_remove(&connection->dirty);
    list_remove(&connection->timed);
    http_input_drop(connection);
    http_output_drop(connection);
    http_budget_remove(front, HTTP_CONNECTION_BYTES);
    front->connection_count--;
    front->crowd_count -= connection->is_crowd;
    atomic_store_explicit(&front->counters.connections, front->connection_count,
                          memory_order_relaxed);
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

static struct http_connection *connection_new(struct http_front *front)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    if (uv_tcp_init(reactor_loop(front->reactor), &connection->tcp) != 0) {
        free(connection);
        return NULL;
    }
    connection->tcp.data = connection;
    connection->front = front;
    list_init(&connection->dirty);
    list_init(&connection->timed);
    list_init(&connection->long_line);
    (void)http_front_now_ms(front);
    /* One of those that came while the loop stood still is asked whether it still stands. */
    connection->pauses = front->pauses - front->is_late;
    http_budget_add(front, HTTP_CONNECTION_BYTES);
    list_add_last(&front->connections, &connection->node);
    front->open_handles++;
    front->connection_count++;
    return connection;
}

void http_connection_accept(struct http_front *front, uv_stream_t *listener)
{
    struct http_connection *connection = connection_new(front);
    struct http_fault fault;
    if (!connection) {
        front->is_stalled = true;
        front->alarm_ms = http_front_now_ms(front) + STALL_MS;
        deadline_set(front->alarm, front->alarm_ms);
        return;
    }
    atomic_store_explicit(&front->counters.connections, front->connection_count,
                          memory_order_relaxed);
    bool is_crowd = front->connection_count - front->crowd_count > front->options.connections_max;
    if (uv_accept(listener, (uv_stream_t *)&connection->tcp) != 0 || front->is_draining ||
        (is_crowd && front->crowd_count >= CROWD_MAX)) {
        http_connection_cut(connection);
        return;
    }
    (void)uv_tcp_nodelay(&connection->tcp, 1);
    if (is_crowd) {
        connection->is_crowd = true;
        front->crowd_count++;
        http_count(&front->counters.refused, 1);
        (void)http_fault_set(&fault, PROBLEM_TOO_MANY_CONNECTIONS, front->options.connections_max,
                             "there are %u connections already, and no more are let in",
                             front->options.connections_max);
        http_connection_refuse(connection, &fault);
        return;
    }
    http_count(&front->counters.accepted, 1);
    http_input_start(connection);
    http_connection_wait(connection, HTTP_PHASE_IDLE, false);
}
