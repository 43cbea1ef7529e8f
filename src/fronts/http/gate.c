#include "http/gate.h"

#include "base/clock.h"
#include "base/text.h"
#include "http/channel.h"
#include "http/connection.h"

#include <stdio.h>
#include <stdlib.h>

#define BASIC_CHALLENGE "Bearer realm=\"tarry\", Basic realm=\"tarry\", charset=\"UTF-8\""

void http_gate_fini(struct http_connection *connection)
{
    struct http_gate *gate = &connection->gate;
    access_caller_release(gate->caller);
    if (gate->line)
        explicit_bzero(gate->line, gate->line_cap);
    if (gate->line_cap)
        http_budget_remove(connection->front, gate->line_cap);
    free(gate->line);
    *gate = (struct http_gate){0};
}

/* ---- refusals ---- */

static void count_denial(struct http_front *front, enum http_denial denial)
{
    http_count(&front->counters.denied[denial], 1);
}

/* Refuses a caller. The client learns only whether it sent credentials. A client that used a
 * password is offered Basic authentication. */
static bool refuse_caller(struct slice header, enum access_refusal refusal,
                          struct http_fault *fault)
{
    if (refusal == ACCESS_UNAVAILABLE)
        return http_fault_set(fault, PROBLEM_ACCESS_UNAVAILABLE, 0,
                              "the caller cannot be identified now: try again");
    (void)http_fault_set(
        fault, PROBLEM_UNAUTHORIZED, 0, "%s",
        refusal == ACCESS_MISSING
            ? "this server requires a token: send it as in 'Authorization: Bearer tarry_...'"
            : "unknown or revoked token: request a new one");
    fault->challenge = http_begins(header, "basic ") ? BASIC_CHALLENGE : access_challenge(refusal);
    fault->refusal = (int)refusal;
    return false;
}

static bool refuse_scope(struct http_front *front, const struct access_caller *caller,
                         unsigned scope, struct http_fault *fault)
{
    count_denial(front, HTTP_DENIED_SCOPE);
    return http_fault_set(fault, PROBLEM_FORBIDDEN, 0,
                          "'%s' lacks the scope '%s' for this call: use a token that has it",
                          http_quotable(caller->name, 60), access_scope_name(scope));
}

/* Refuses access to a topic, with the same text whether the topic exists or not. */
static bool refuse_topic(struct http_front *front, const struct access_caller *caller,
                         unsigned scope, struct slice topic, struct http_fault *fault)
{
    count_denial(front, HTTP_DENIED_TOPIC);
    if (!topic.len)
        return http_fault_set(fault, PROBLEM_FORBIDDEN, 0,
                              "'%s' has the scope '%s' only for some topics, and this call covers "
                              "all topics: use a token that has it for '*'",
                              http_quotable(caller->name, 60), access_scope_name(scope));
    return http_fault_set(fault, PROBLEM_FORBIDDEN, 0,
                          "'%s' lacks the scope '%s' for the topic '%s': use a token that has it",
                          http_quotable(caller->name, 60), access_scope_name(scope),
                          http_quotable(topic, 90));
}

bool http_gate_allows(struct http_front *front, const struct access_caller *caller,
                      const struct http_route *route, struct slice topic, struct http_fault *fault)
{
    return access_may(caller, route->scope, topic) ||
           (access_has_scope(caller, route->scope)
                ? refuse_topic(front, caller, route->scope, topic, fault)
                : refuse_scope(front, caller, route->scope, fault));
}

/* ---- authentication ---- */

static inline bool caller_has_ended(const struct access_caller *caller)
{
    return caller->ends_ms != INT64_MAX && clock_wall_ms() >= caller->ends_ms;
}

static inline bool is_remembered(const struct http_gate *gate, const struct access *access,
                                 const struct http_request *request)
{
    bool is_same = request->authorization.at ? request->is_known : !gate->is_named;
    return is_same && gate->caller && gate->generation == access_generation(access) &&
           !caller_has_ended(gate->caller);
}

/* Remembers the caller with its line. A line is looked up again next time if there is no memory for
 * it, if it cannot be compared, or if it does not determine the caller alone (`is_by_header`). */
static void remember(struct http_connection *connection, struct access_caller *caller,
                     uint64_t generation, bool is_by_header)
{
    struct http_gate *gate = &connection->gate;
    const struct http_request *request = &connection->front->request;
    struct slice line = http_request_authorization_line(request);
    if (!is_by_header)
        line.len = 0;
    if (line.len > gate->line_cap) {
        http_gate_fini(connection);
        gate->line = malloc(line.len);
        gate->line_cap = gate->line ? line.len : 0;
        http_budget_add(connection->front, gate->line_cap);
    }
    bool is_other = gate->caller != caller;
    access_caller_release(gate->caller);
    gate->caller = caller;
    if (is_other)
        http_quota_switch(connection);
    gate->generation = generation;
    gate->is_named = request->authorization.at != NULL;
    gate->line_len = line.len <= gate->line_cap ? line.len : 0;
    if (gate->line_len)
        memcpy(gate->line, line.at, line.len);
}

/* Authenticates by the route's own rule. The caller is remembered only after the whole request has
 * been checked. */
static bool admit_foreign(struct http_connection *connection, const struct http_route *route,
                          bool is_whole, struct http_fault *fault)
{
    struct http_front *front = connection->front;
    uint64_t generation = access_generation(front->shared->access);
    struct http_admission admission = {0};
    int refusal = route->admit(connection, route, is_whole, &admission);
    if (refusal != ACCESS_OK) {
        (void)refuse_caller(front->request.authorization, (enum access_refusal)refusal, fault);
        if (admission.why)
            (void)snprintf(fault->detail, sizeof fault->detail, "%s", admission.why);
        return false;
    }
    if (is_whole)
        remember(connection, admission.caller, generation, admission.is_by_header);
    else
        access_caller_release(admission.caller);
    return true;
}

/* Authenticates the front's request. When the request is complete, the connection's gate holds its
 * caller. */
static bool admit(struct http_connection *connection, const struct http_route *route, bool is_whole,
                  struct http_fault *fault)
{
    struct http_front *front = connection->front;
    struct access *access = front->shared->access;
    struct http_gate *gate = &connection->gate;
    struct slice header = front->request.authorization;
    if (!access) {
        if (!gate->caller)
            gate->caller = access_caller_hold(access_anyone());
        return true;
    }
    if (is_remembered(gate, access, &front->request)) {
        (void)http_front_date(front);
        access_caller_use(gate->caller, front->date_s * 1000);
        return true;
    }
    if (route && route->admit)
        return admit_foreign(connection, route, is_whole, fault);
    uint64_t generation = access_generation(access);
    struct access_asked asked = {.authorization = header,
                                 .certificate =
                                     http_channel_certificate(connection->socket.channel),
                                 .needs_caller = connection->listener->about->requires_token,
                                 .now_ms = clock_wall_ms()};
    struct access_caller *caller;
    enum access_refusal refusal = access_admit(access, &asked, &caller);
    if (refusal != ACCESS_OK)
        return refuse_caller(header, refusal, fault);
    remember(connection, caller, generation, true);
    return true;
}

/* ---- authorization ---- */

/* Checks the topic of the path after the scope. A topic that matches percent-encoded also matches
 * decoded, since no pattern contains '%'. */
static bool allows_path(struct http_front *front, const struct access_caller *caller,
                        const struct http_route *route, struct slice topic,
                        struct http_fault *fault)
{
    if (access_may(caller, route->scope, topic))
        return true;
    if (memchr(topic.at, '%', topic.len)) {
        buffer_clear(&front->decoded);
        if (!text_percent_decode(topic, false, &front->decoded))
            return refuse_topic(front, caller, route->scope, topic, fault);
        topic = buffer_slice(&front->decoded);
    }
    return http_gate_allows(front, caller, route, topic, fault);
}

bool http_gate_ask(struct http_connection *connection, const struct http_route *route,
                   struct slice topic, bool is_whole, struct http_fault *fault, bool *is_known)
{
    struct http_front *front = connection->front;
    *is_known = false;
    if (route && route->scope == HTTP_FOR_EVERYBODY)
        return true;
    if (!admit(connection, route, is_whole, fault))
        return false;
    *is_known = true;
    const struct access_caller *caller = connection->gate.caller;
    if (!route || route->scope == HTTP_FOR_CALLERS)
        return true;
    if (!access_has_scope(caller, route->scope))
        return refuse_scope(front, caller, route->scope, fault);
    if (route->topics == HTTP_TOPICS_PATH)
        return allows_path(front, caller, route, topic, fault);
    return route->topics != HTTP_TOPICS_ALL || caller->has_all_topics ||
           refuse_topic(front, caller, route->scope, (struct slice){0}, fault);
}

/* ---- calls that stay open ---- */

void http_gate_keep(struct http_exchange *exchange, struct access_caller *caller)
{
    const struct http_front *front = exchange->front;
    exchange->caller = access_caller_hold(caller);
    exchange->generation = front->shared->access ? access_generation(front->shared->access) : 0;
}

void http_gate_wait(struct http_exchange *exchange, struct access_caller *caller, size_t bytes)
{
    if (caller->kind != ACCESS_ANYONE) {
        http_gate_keep(exchange, caller);
        exchange->front->held_waits++;
    }
    exchange->waits = exchange->is_waiting = true;
    exchange->connection->wait_count++;
    if (!exchange->connection->wire->is_ordered) { /* others are answered meanwhile */
        exchange->connection->weight -= exchange->weight;
        exchange->weight = 0;
    }
    exchange->bytes_counted += bytes; /* a large body is counted already */
    http_budget_add(exchange->front, bytes);
}

bool http_gate_holds(const struct http_exchange *exchange)
{
    struct access *access = exchange->front->shared->access;
    const struct access_caller *caller = exchange->caller;
    if (!access || !caller)
        return true;
    if (exchange->generation == access_generation(access))
        return !caller_has_ended(caller);
    return access_holds(access, caller, clock_wall_ms());
}

void http_gate_refuse_ended(struct http_exchange *exchange)
{
    struct http_fault fault;
    bool has_ended = caller_has_ended(exchange->caller);
    (void)refuse_caller((struct slice){0}, has_ended ? ACCESS_EXPIRED : ACCESS_REVOKED, &fault);
    http_answer_fault(exchange, &fault);
}

static void end_waits_of(struct http_connection *connection)
{
    const struct http_wire *wire = connection->wire;
    for (struct http_exchange *exchange = wire->next(connection, NULL), *next; exchange;
         exchange = next) {
        next = wire->next(connection, exchange);
        if (!exchange->waits || http_gate_holds(exchange))
            continue;
        if (exchange->ends) {
            ends_cancel(exchange->ends);
            exchange->ends = NULL;
            http_gate_refuse_ended(exchange);
            continue;
        }
        if (!exchange->waiter && wire->revoke)
            wire->revoke(exchange);
        if (!exchange->waiter)
            continue;
        waiter_cancel(connection->front->waiters, exchange->waiter);
        exchange->waiter = 0;
        http_gate_refuse_ended(exchange);
    }
}

void http_gate_end_waits(struct http_front *front)
{
    for (struct list *node = front->connections.next, *next; node != &front->connections;
         node = next) {
        struct http_connection *connection = list_entry(node, struct http_connection, node);
        next = node->next;
        if (connection->wait_count)
            end_waits_of(connection);
    }
}
