/*
 * When a request may begin. Small ones of a connection run side by side, in any number that
 * HTTP_PENDING_MAX allows. Those that hold memory or the loop for long wait until there is room:
 *
 *   weight   what a body or an answer may take, in units of 64 KiB; the requests of a connection
 *            under way weigh 16 MiB together at most, or there is only one
 *   long     lists and pages over all topics: begin once all earlier answers of the connection
 *            are out; a front has few under way at a time, the other connections stand in line
 *   take     not behind a take that waits: its jobs could not be handed over
 *
 * A request that has to wait is left where it is, unanswered and unread; what comes behind it waits
 * too.
 */
#include "http/private.h"

enum { UNIT_BYTES = 64 * 1024, WEIGHT_MAX = 256, LONG_COUNT_MAX = 2, WAIT_BYTES = 1024 };

static uint32_t weight_of_bytes(uint64_t bytes)
{
    return bytes / UNIT_BYTES < WEIGHT_MAX ? (uint32_t)(bytes / UNIT_BYTES) : WEIGHT_MAX;
}

void http_admission_init(struct http_front *front)
{
    list_init(&front->long_line);
    front->job_weight = weight_of_bytes(front->options.body_bytes_max + UNIT_BYTES - 1);
}

static uint32_t weight_of(const struct http_front *front, const struct http_route *route,
                          const struct http_request *request, const struct http_query *query)
{
    uint64_t jobs = 1;
    switch (route->answer) {
    case HTTP_ANSWER_SHORT:
        break;
    case HTTP_ANSWER_LONG:
        return WEIGHT_MAX;
    case HTTP_ANSWER_TAKE:
        if (http_fields_have(&query->fields, OPTION_MAX))
            jobs = (uint64_t)query->fields.max;
        /* fall through */
    case HTTP_ANSWER_JOB:
        jobs *= front->job_weight;
        return jobs < WEIGHT_MAX ? (uint32_t)jobs : WEIGHT_MAX;
    }
    return weight_of_bytes(request->body.len);
}

static struct http_connection *first_in_line(const struct http_front *front)
{
    return list_is_empty(&front->long_line)
               ? NULL
               : list_entry(front->long_line.next, struct http_connection, long_line);
}

static void wake_line(struct http_front *front)
{
    struct http_connection *first = first_in_line(front);
    if (first && front->long_count < LONG_COUNT_MAX)
        http_connection_touch(first);
}

static bool may_begin_long(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    struct http_connection *first = first_in_line(front);
    if (connection->first || connection->out.len)
        return false;
    if (front->long_count < LONG_COUNT_MAX && (!first || first == connection)) {
        http_admission_leave_line(connection);
        return true;
    }
    if (list_is_empty(&connection->long_line))
        list_add_last(&front->long_line, &connection->long_line);
    return false;
}

void http_admission_leave_line(struct http_connection *connection)
{
    if (list_is_empty(&connection->long_line))
        return;
    list_remove(&connection->long_line);
    wake_line(connection->front);
}

bool http_admission_ask(struct http_connection *connection, const struct http_route *route,
                        uint32_t *weight)
{
    struct http_front *front = connection->front;
    *weight = weight_of(front, route, &front->request, &front->query);
    if (!*weight)
        return true;
    if (connection->weight && connection->weight + *weight > WEIGHT_MAX)
        return false;
    if (route->answer == HTTP_ANSWER_TAKE)
        return !connection->wait_count;
    return route->answer != HTTP_ANSWER_LONG || may_begin_long(connection);
}

void http_admission_begin(struct http_exchange *exchange, uint32_t weight)
{
    const struct http_route *route = exchange->route;
    exchange->weight = weight;
    exchange->connection->weight += weight;
    if (route->answer == HTTP_ANSWER_LONG) {
        exchange->is_long = true;
        exchange->front->long_count++;
        wake_line(exchange->front);
    } else if (route->answer == HTTP_ANSWER_SHORT) {
        exchange->bytes_counted =
            (size_t)weight * UNIT_BYTES; /* the store has a copy of the body */
        http_budget_add(exchange->front, exchange->bytes_counted);
    }
}

void http_admission_wait(struct http_exchange *exchange)
{
    exchange->waits = true;
    exchange->connection->wait_count++;
    exchange->bytes_counted = WAIT_BYTES;
    http_budget_add(exchange->front, WAIT_BYTES);
}

void http_admission_end(struct http_exchange *exchange)
{
    struct http_front *front = exchange->front;
    struct http_connection *connection = exchange->connection;
    if (exchange->bytes_counted)
        http_budget_remove(front, exchange->bytes_counted);
    if (connection)
        connection->wait_count -= exchange->waits;
    if (exchange->is_long) {
        front->long_count--;
        wake_line(front);
    }
}
