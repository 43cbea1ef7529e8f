/*
 * Decides when a request may begin. Small requests of a connection run concurrently, up to
 * HTTP_PENDING_MAX. Requests that hold memory or the loop for long wait until there is room:
 *
 *   weight   memory of a body or an answer, in units of 64 KiB. The requests in progress on a
 *            connection have a total weight of at most 16 MiB, unless there is only one
 *   long     lists and pages over all topics: begin when all earlier answers of the connection have
 *            been sent. A front runs only a few at the same time; other connections are queued
 *   heavy    with a body above a certain size, or a list: not in a loop iteration that has lasted
 *            long, after another such request
 *   take     not after a waiting take, since its jobs could not be delivered
 *   stream   when all earlier answers of the connection have been sent; it is the last one
 *
 * On HTTP/2, where answers leave in any order, the rules about earlier answers do not apply, and a
 * waiting take has no weight.
 *
 * A request that has to wait stays in the input, unparsed and unanswered, as do the requests after
 * it.
 */
#include "http/dispatch.h"

#include "base/text.h"
#include "http/site.h"
#include "net/activity.h"

/* ---- routing ---- */

struct http_match {
    const struct http_route *route;
    struct slice topic, id; /* percent-encoded */
};

/* Matches a path. A {word} of the pattern matches one non-empty segment. */
static bool path_matches(const struct http_route *route, struct slice path, struct http_match *out)
{
    if (path.len < route->head_bytes || memcmp(path.at, route->pattern, route->head_bytes) != 0)
        return false;
    const char *pattern = route->pattern + route->head_bytes;
    const char *at = path.at + route->head_bytes, *end = path.at + path.len;
    out->topic = out->id = (struct slice){0};
    while (*pattern) {
        if (*pattern != '{') {
            if (at == end || *at++ != *pattern++)
                return false;
            continue;
        }
        const char *slash = memchr(at, '/', (size_t)(end - at));
        struct slice segment = slice_make(at, (size_t)((slash ? slash : end) - at));
        if (segment.len == 0)
            return false;
        if (pattern[1] == 't')
            out->topic = segment;
        else
            out->id = segment;
        at += segment.len;
        pattern = strchr(pattern, '}') + 1;
    }
    return at == end;
}

static const char *method_name(enum http_method method)
{
    static const char *const names[] = {
        [HTTP_METHOD_GET] = "GET, HEAD",   [HTTP_METHOD_HEAD] = "HEAD",
        [HTTP_METHOD_PUT] = "PUT",         [HTTP_METHOD_POST] = "POST",
        [HTTP_METHOD_PATCH] = "PATCH",     [HTTP_METHOD_DELETE] = "DELETE",
        [HTTP_METHOD_OPTIONS] = "OPTIONS", [HTTP_METHOD_OTHER] = "no other",
    };
    return names[method];
}

/* Returns whether a route has exactly this path, such as /v1/schedules/next. Patterns that match the
 * path as well are then not listed. */
static bool path_is_literal(const struct http_shared *shared, struct slice path)
{
    for (uint32_t i = 0; i < shared->route_count; i++)
        if (slice_is(path, shared->routes[i].pattern))
            return true;
    return false;
}

/* Refuses a request without a route. Writes the methods of the path to the front's arena. */
static bool refuse_target(struct http_front *front, struct http_fault *fault)
{
    const struct http_shared *shared = front->shared;
    struct slice path = front->request.path;
    struct buffer *allow = &front->arena;
    struct http_match ignored;
    bool is_literal = path_is_literal(shared, path);
    buffer_clear(allow);
    for (uint32_t i = 0; i < shared->route_count; i++) {
        if (!path_matches(&shared->routes[i], path, &ignored) ||
            (is_literal && strchr(shared->routes[i].pattern, '{')))
            continue;
        if (allow->len)
            buffer_append_text(allow, ", ");
        buffer_append_text(allow, method_name(shared->routes[i].method));
    }
    if (!allow->len)
        return http_fault_set(fault, PROBLEM_NO_SUCH_PATH, 0,
                              "unknown path '%s'; /openapi.yaml lists all paths",
                              http_quotable(path, 80));
    return http_fault_set(fault, PROBLEM_METHOD_NOT_ALLOWED, 0, "'%s' has only %.*s",
                          http_quotable(path, 80), (int)allow->len, allow->at);
}

static bool is_route(const struct http_front *front, const struct http_route *route,
                     enum http_method method, struct http_match *out)
{
    if (route->method != method || !path_matches(route, front->request.path, out))
        return false;
    out->route = route;
    return true;
}

/* Finds the route of the front's request: first among those of recent requests, since most clients
 * use few calls. On false, *fault lists what the path offers instead. */
static bool find_route(struct http_front *front, struct http_match *out, struct http_fault *fault)
{
    const struct http_shared *shared = front->shared;
    enum http_method method = front->request.method;
    if (method == HTTP_METHOD_HEAD)
        method = HTTP_METHOD_GET;
    for (uint32_t i = 0; i < HTTP_RECENT_ROUTES && front->recent_routes[i]; i++)
        if (is_route(front, front->recent_routes[i], method, out))
            return true;
    for (uint32_t i = 0; i < shared->route_count; i++) {
        const struct http_route *route = &shared->routes[i];
        if (is_route(front, route, method, out)) {
            if (route->is_alone)
                front->recent_routes[front->routes_found++ % HTTP_RECENT_ROUTES] = route;
            return true;
        }
    }
    return refuse_target(front, fault);
}

/* Returns the route in whose format the front's request is refused, or NULL for a problem. */
static const struct http_route *find_refuser(const struct http_front *front,
                                             const struct http_match *match)
{
    const struct http_shared *shared = front->shared;
    if (match->route)
        return match->route->refuse ? match->route : NULL;
    for (uint32_t i = 0; i < shared->route_count; i++)
        if (shared->routes[i].claims && shared->routes[i].claims(&front->request))
            return &shared->routes[i];
    return NULL;
}

/* ---- admission ---- */

enum { UNIT_BYTES = 64 * 1024, WEIGHT_MAX = 256, HEAVY_BODY_BYTES = 4096 };

static uint32_t weight_of_bytes(uint64_t bytes)
{
    return bytes / UNIT_BYTES < WEIGHT_MAX ? (uint32_t)(bytes / UNIT_BYTES) : WEIGHT_MAX;
}

/* Returns the weight of the request in units: of its body or its answer, depending on the call. */
static uint32_t weight_of(const struct http_front *front, const struct http_route *route)
{
    uint64_t jobs = 1;
    switch (route->answer) {
    case HTTP_ANSWER_SHORT:
    case HTTP_ANSWER_STREAM:
        break;
    case HTTP_ANSWER_LONG:
        return WEIGHT_MAX;
    case HTTP_ANSWER_TAKE:
        if (http_fields_have(&front->query.fields, OPTION_MAX))
            jobs = (uint64_t)front->query.fields.max;
        /* fall through */
    case HTTP_ANSWER_JOB:
        jobs *= weight_of_bytes(front->options.body_bytes_max + UNIT_BYTES - 1);
        return jobs < WEIGHT_MAX ? (uint32_t)jobs : WEIGHT_MAX;
    }
    return weight_of_bytes(front->request.body.len);
}

/* Returns whether a long request may begin; if not, queues its connection in the front. */
static bool may_begin_long(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    bool is_next =
        list_is_empty(&front->long_line) || front->long_line.next == &connection->long_line;
    if (connection->wire->is_ordered && (connection->first || connection->socket.out.len))
        return false;
    if (front->long_count < HTTP_LONG_COUNT_MAX && is_next) {
        http_long_line_leave(connection);
        return true;
    }
    if (list_is_empty(&connection->long_line))
        list_add_last(&front->long_line, &connection->long_line);
    return false;
}

/* Returns whether a request that occupies the loop for long may begin. If not, it waits for a loop
 * iteration with enough time; such requests keep their order. */
static bool may_begin_heavy(struct http_connection *connection, const struct http_route *route)
{
    struct http_front *front = connection->front;
    if (front->request.body.len <= HEAVY_BODY_BYTES && route->answer != HTTP_ANSWER_LONG)
        return true;
    if (front->iteration_heavy && reactor_is_late(front->reactor)) {
        connection->parser.is_heavy = true;
        http_connection_touch(connection);
        return false;
    }
    front->iteration_heavy++;
    return true;
}

/* Returns whether the request just parsed may begin now, and sets *weight for begin_weight. If not,
 * it keeps its place, and the connection is touched when it should be tried again. */
static bool may_begin(struct http_connection *connection, const struct http_route *route,
                      uint32_t *weight)
{
    struct http_front *front = connection->front;
    if (route->answer == HTTP_ANSWER_STREAM)
        return !connection->wire->is_ordered || (!connection->first && !connection->socket.out.len);
    *weight = weight_of(front, route);
    if (connection->weight && *weight && connection->weight + *weight > WEIGHT_MAX)
        return false;
    if (route->answer == HTTP_ANSWER_TAKE && *weight && connection->wait_count &&
        connection->wire->is_ordered)
        return false;
    return may_begin_heavy(connection, route) &&
           (route->answer != HTTP_ANSWER_LONG || may_begin_long(connection));
}

/* Counts the weight of an exchange; it must not be 0. */
static void begin_weight(struct http_exchange *exchange, uint32_t weight)
{
    const struct http_route *route = exchange->route;
    exchange->weight = weight;
    exchange->connection->weight += weight;
    if (route->answer == HTTP_ANSWER_LONG) {
        exchange->is_long = true;
        exchange->front->long_count++;
    } else if (route->answer == HTTP_ANSWER_SHORT) {
        /* The body is held twice, since the store has a copy. */
        exchange->bytes_counted = (size_t)weight * UNIT_BYTES;
        http_budget_add(exchange->front, exchange->bytes_counted);
    }
}

/* ---- parsing of the call ---- */

/* Returns the maximum body of a call; without a route that of a job. */
static uint64_t body_bytes_max_of(const struct http_front *front, const struct http_route *route)
{
    if (!route || route->body == HTTP_BODY_JOB)
        return front->options.body_bytes_max;
    if (route->body == HTTP_BODY_MESSAGE)
        return front->options.body_bytes_max + JOB_BODY_BYTES_MAX / 16;
    return route->body == HTTP_BODY_BATCH ? front->options.batch_bytes_max : JOB_BODY_BYTES_MAX;
}

/* Decodes a segment of the path into the front's `decoded` if it contains %XX. */
static bool unescape_segment(struct http_front *front, struct slice *text, struct http_fault *fault)
{
    size_t start = front->decoded.len;
    if (!text->len || !memchr(text->at, '%', text->len))
        return true;
    if (!text_percent_decode(*text, false, &front->decoded))
        return http_fault_set(fault, PROBLEM_BAD_REQUEST, 0,
                              "'%s' contains a %% that is not followed by two hex digits",
                              http_quotable(*text, 60));
    *text = slice_make(front->decoded.at + start, front->decoded.len - start);
    return true;
}

/* Refuses a body of a call without one, with advice. */
static bool check_no_body(struct http_front *front, const struct http_route *route,
                          struct http_fault *fault)
{
    struct slice body = front->request.body;
    buffer_clear(&front->arena);
    return !body.len || route->body != HTTP_BODY_NONE ||
           http_query_refuse_body(body, route->options, &front->arena, fault);
}

/* Parses the call. On false, *fault describes the problem. */
static bool read_call(struct http_connection *connection, const struct http_match *match,
                      struct http_call *call, struct http_fault *fault)
{
    struct http_front *front = connection->front;
    *call = (struct http_call){.front = front,
                               .caller = connection->gate.caller,
                               .request = &front->request,
                               .topic = match->topic,
                               .id = match->id,
                               .query = &front->query};
    buffer_clear(&front->decoded);
    buffer_clear(&front->meta);
    if (match->route->ignores_query)
        front->request.query = slice_make(NULL, 0);
    front->query.meta = match->route->takes_meta ? &front->meta : NULL;
    struct slice path = front->request.path;
    return (!memchr(path.at, '%', path.len) || (unescape_segment(front, &call->topic, fault) &&
                                                unescape_segment(front, &call->id, fault))) &&
           http_query_parse(&front->request, match->route->options, &front->query, &front->decoded,
                            fault) &&
           check_no_body(front, match->route, fault);
}

/* Answers a request for an unknown path, or an unknown method of a path with the methods that it
 * has. */
static void refuse_path(struct http_exchange *exchange, const struct http_fault *fault)
{
    if (exchange->route) { /* another protocol with its own format */
        http_answer_fault(exchange, fault);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    uint16_t status = http_problem_write(body, fault);
    if (fault->problem == PROBLEM_METHOD_NOT_ALLOWED)
        http_answer_field(exchange, "Allow", buffer_slice(&exchange->front->arena));
    http_answer_end(exchange, status, "application/problem+json");
}

/* Creates the exchange of the front's request. Returns NULL if out of memory. */
static struct http_exchange *begin_exchange(struct http_connection *connection,
                                            const struct http_route *route)
{
    const struct http_request *request = &connection->front->request;
    struct http_exchange *exchange = http_exchange_add(connection);
    if (!exchange)
        return NULL;
    exchange->is_head = request->method == HTTP_METHOD_HEAD;
    exchange->is_http_1_0 = request->is_http_1_0;
    exchange->route = route ? route : connection->parser.refuser;
    if ((!request->keeps_alive || connection->front->is_draining) && connection->wire->is_ordered)
        connection->is_closing = true;
    return exchange;
}

/* Answers a preflight request, which carries no token, with the methods of the path. */
static enum http_dispatched answer_preflight(struct http_connection *connection)
{
    struct http_front *front = connection->front;
    struct http_exchange *exchange = begin_exchange(connection, NULL);
    struct http_fault fault;
    if (!exchange)
        return HTTP_DISPATCH_FAILED;
    (void)refuse_target(front, &fault);
    if (fault.problem != PROBLEM_METHOD_NOT_ALLOWED) {
        refuse_path(exchange, &fault);
        return HTTP_DISPATCH_DONE;
    }
    (void)http_answer_start(exchange);
    http_cors_emit_preflight(&front->request, buffer_slice(&front->arena), &front->fields);
    http_answer_end(exchange, 204, NULL);
    return HTTP_DISPATCH_DONE;
}

/* Answers a request that the gate refused. Attempted changes are recorded by the audit. */
static enum http_dispatched refuse_at_gate(struct http_connection *connection,
                                           const struct http_match *match, bool is_known,
                                           const struct http_fault *fault)
{
    struct http_exchange *exchange = begin_exchange(connection, match->route);
    struct http_fault limited;
    if (!exchange)
        return HTTP_DISPATCH_FAILED;
    if (!is_known && !http_quota_request(connection, &limited))
        fault = &limited;
    if (is_known && match->route && match->route->audit)
        http_change_begin(exchange, match->route->audit, connection->gate.caller, match->topic);
    http_answer_fault(exchange, fault);
    return HTTP_DISPATCH_DONE;
}

/* Carries out the request, or holds it back until there is room for it. `match` holds its route if
 * already found. */
static enum http_dispatched carry_out(struct http_connection *connection, struct http_match *match)
{
    struct http_front *front = connection->front;
    struct http_call call;
    struct http_fault fault, denied;
    uint32_t weight = 0;
    bool is_known;
    if (connection->parser.cors_origin && http_cors_is_preflight(&front->request))
        return answer_preflight(connection);
    bool has_route = match->route || find_route(front, match, &fault);
    if (!http_gate_ask(connection, match->route, match->topic, true, &denied, &is_known))
        return refuse_at_gate(connection, match, is_known, &denied);
    bool is_good = has_route && read_call(connection, match, &call, &fault);
    if (is_good && !may_begin(connection, match->route, &weight))
        return HTTP_DISPATCH_HELD;

    struct http_exchange *exchange = begin_exchange(connection, match->route);
    if (!exchange)
        return HTTP_DISPATCH_FAILED;
    if (is_known && !http_quota_request(connection, &denied)) {
        http_answer_fault(exchange, &denied);
        return HTTP_DISPATCH_DONE;
    }
    if (!has_route) {
        refuse_path(exchange, &fault);
        return HTTP_DISPATCH_DONE;
    }
    if (match->route->audit)
        http_change_begin(exchange, match->route->audit, connection->gate.caller,
                          is_good ? call.topic : match->topic);
    if (!is_good) {
        http_answer_fault(exchange, &fault);
        return HTTP_DISPATCH_DONE;
    }
    if (weight)
        begin_weight(exchange, weight);
    call.exchange = exchange;
    activity_begin(match->route->pattern);
    match->route->handle(&call);
    return HTTP_DISPATCH_DONE;
}

/* ---- one message ---- */

/* Joins the chunks of a request that is held back: it is parsed again later, as one body. */
static void unwrap_chunks(struct http_framing *framing, char *message, size_t *len, size_t used)
{
    size_t bytes = framing->head_bytes + framing->decoded;
    if (!framing->chunked)
        return;
    memmove(message + bytes, message + used, *len - used);
    *len -= used - bytes;
    framing->chunked = false;
    framing->length = framing->decoded;
}

/* Returns whether there is memory for the rest of the body. */
static bool has_body_memory(struct http_connection *connection, size_t bytes_here,
                            struct http_fault *fault)
{
    struct http_front *front = connection->front;
    const struct http_framing *framing = &connection->parser.framing;
    size_t whole = framing->head_bytes + framing->length;
    if (framing->chunked || bytes_here >= whole || framing->length > framing->body_bytes_max ||
        http_budget_has(front, whole))
        return true;
    http_budget_refuse(front, fault);
    return false;
}

/* Records the origin of the page, so that answers allow it to read them. */
static void note_origin(struct http_connection *connection)
{
    const struct http_request *request = &connection->front->request;
    if (connection->front->options.cors_origins)
        connection->parser.cors_origin =
            request->has_origin
                ? http_cors_find(connection->listener->hosts.origins, request->origin)
                : 0;
}

/* Handles a complete head: finds the route, the maximum body and the format of a refusal. */
static void look_at_head(struct http_connection *connection, struct http_match *match)
{
    struct http_fault fault;
    if (!find_route(connection->front, match, &fault))
        match->route = NULL;
    connection->parser.framing.body_bytes_max = body_bytes_max_of(connection->front, match->route);
    connection->parser.refuser = find_refuser(connection->front, match);
}

/* Returns whether the body has arrived, or is short enough to be read and discarded if its request
 * is refused. Then the gate is asked when the body is complete, and the connection stays open. */
static bool body_is_cheap(const struct http_connection *connection, size_t bytes_here)
{
    const struct http_framing *framing = &connection->parser.framing;
    if (framing->chunked || framing->length > framing->body_bytes_max)
        return false;
    return bytes_here - framing->head_bytes >= framing->length ||
           (framing->length <= BUDGET_SMALL_BYTES && !connection->front->request.expects_continue);
}

/* Returns whether the caller is refused before its body is read. Then the connection ends, since
 * the rest of its input is unknown. */
static bool is_refused_unread(struct http_connection *connection, const struct http_match *match,
                              enum http_dispatched *done)
{
    struct http_fault denied;
    bool is_known;
    if (http_gate_ask(connection, match->route, match->topic, false, &denied, &is_known))
        return false;
    if (connection->wire->is_ordered)
        connection->is_closing = connection->socket.lingers = true;
    *done = refuse_at_gate(connection, match, is_known, &denied);
    return true;
}

/* Sends 100 Continue if the client waits for it. Returns false if out of memory. */
static bool ask_for_body(struct http_connection *connection, size_t bytes_here)
{
    struct http_front *front = connection->front;
    const struct http_framing *framing = &connection->parser.framing;
    if (!front->request.expects_continue || front->request.is_http_1_0)
        return true;
    bool is_here = !framing->chunked && bytes_here - framing->head_bytes >= framing->length;
    if (is_here || (!framing->chunked && framing->length > framing->body_bytes_max))
        return true;
    struct http_exchange *exchange = http_exchange_add(connection);
    if (exchange)
        http_answer_continue(exchange);
    return exchange != NULL;
}

enum http_dispatched http_dispatch(struct http_connection *connection, char *bytes, size_t *len,
                                   size_t *at, struct http_fault *fault)
{
    struct http_front *front = connection->front;
    struct http_framing *framing = &connection->parser.framing;
    struct http_match match;
    size_t left = *len - *at, used = 0;
    match.route = NULL;
    framing->known = http_gate_known_line(&connection->gate);
    for (;;) {
        enum http_dispatched done = HTTP_DISPATCH_BLANK;
        switch (http_message_read(framing, bytes + *at, &left, &front->request, &used, fault)) {
        case HTTP_STEP_MORE:
            *len = *at + left;
            return HTTP_DISPATCH_MORE;
        case HTTP_STEP_REFUSED:
            return HTTP_DISPATCH_REFUSED;
        case HTTP_STEP_HEAD:
            note_origin(connection);
            look_at_head(connection, &match);
            if (!http_hosts_admit(&connection->listener->hosts, &front->request, fault))
                return HTTP_DISPATCH_REFUSED;
            if (!body_is_cheap(connection, left) && is_refused_unread(connection, &match, &done))
                return done;
            if (!ask_for_body(connection, left))
                return HTTP_DISPATCH_FAILED;
            if (!has_body_memory(connection, left, fault))
                return HTTP_DISPATCH_REFUSED;
            continue;
        case HTTP_STEP_WHOLE:
            done = carry_out(connection, &match);
            if (done == HTTP_DISPATCH_HELD) {
                left = *len - *at;
                unwrap_chunks(framing, bytes + *at, &left, used);
                *len = *at + left;
            }
            if (done != HTTP_DISPATCH_DONE)
                return done;
            break;
        case HTTP_STEP_SKIP:
            break;
        }
        *at += used;
        *framing = (struct http_framing){0};
        connection->parser.refuser = NULL;
        return done;
    }
}

/* ---- one stream of HTTP/2 ---- */

/* Checks a head whose body has not arrived yet. */
static enum http_dispatched check_stream_head(struct http_connection *connection, size_t len,
                                              struct http_match *match, struct http_fault *fault)
{
    enum http_dispatched done;
    struct http_framing *framing = &connection->parser.framing;
    bool is_length_known = connection->front->request.has_length;
    framing->chunked = !is_length_known;
    if (!body_is_cheap(connection, len) && is_refused_unread(connection, match, &done))
        return done;
    return has_body_memory(connection, len, fault) ? HTTP_DISPATCH_MORE : HTTP_DISPATCH_REFUSED;
}

enum http_dispatched http_dispatch_stream(struct http_connection *connection, size_t head_bytes,
                                          bool is_whole, struct http_fault *fault)
{
    struct http_front *front = connection->front;
    struct http_parser *parser = &connection->parser;
    struct http_framing *framing = &parser->framing;
    struct http_match match = {0};
    size_t len = head_bytes, used = 0, body_bytes = parser->in_len - head_bytes;
    *framing =
        (struct http_framing){.known = http_gate_known_line(&connection->gate), .is_http_2 = true};
    parser->refuser = NULL;
    enum http_step step =
        http_message_read(framing, parser->in, &len, &front->request, &used, fault);
    if (step != HTTP_STEP_HEAD && step != HTTP_STEP_REFUSED)
        (void)http_fault_set(fault, PROBLEM_BAD_REQUEST, 0, "the header is malformed");
    if (step != HTTP_STEP_HEAD)
        return HTTP_DISPATCH_REFUSED;
    front->request.is_http_2 = true;
    note_origin(connection);
    look_at_head(connection, &match);
    if (!http_hosts_admit(&connection->listener->hosts, &front->request, fault))
        return HTTP_DISPATCH_REFUSED;
    if (match.route && match.route->takes_frames) {
        front->request.body = (struct slice){0};
        return carry_out(connection, &match);
    }
    if (is_whole || framing->length < body_bytes)
        framing->length = body_bytes;
    len = parser->in_len;
    step = http_message_read(framing, parser->in, &len, &front->request, &used, fault);
    if (step == HTTP_STEP_REFUSED)
        return HTTP_DISPATCH_REFUSED;
    return is_whole ? carry_out(connection, &match)
                    : check_stream_head(connection, parser->in_len, &match, fault);
}
