/*
 * What comes in. All connections read into one buffer of the front and requests are parsed there;
 * only what is left of a request that is not whole yet is kept by its connection. So a connection
 * that waits for an answer costs no buffer.
 */
#include "base/text.h"
#include "http/private.h"

#include <assert.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>

/* A leftover up to this is copied in front of what comes next; a longer one gets its own growing
 * buffer. */
enum { LEFTOVER_BYTES = 4096, KEEP_BYTES_MIN = 256, GROW_BYTES_MIN = 64 * 1024 };

static void drop_bytes(struct http_connection *connection)
{
    free(connection->in);
    if (connection->in_cap)
        http_budget_remove(connection->front, connection->in_cap);
    connection->in = NULL;
    connection->in_len = connection->in_cap = 0;
}

void http_input_drop(struct http_connection *connection)
{
    drop_bytes(connection);
    connection->framing = (struct http_framing){0};
    http_admission_leave_line(connection);
}

static bool grow(struct http_connection *connection, size_t cap)
{
    if (cap <= connection->in_cap)
        return true;
    char *in = realloc(connection->in, cap);
    if (!in)
        return false;
    http_budget_add(connection->front, cap - connection->in_cap);
    connection->in = in;
    connection->in_cap = cap;
    return true;
}

/* Keeps what is not parsed yet. `bytes` is the shared buffer or the connection's own. */
static bool keep(struct http_connection *connection, const char *bytes, size_t len)
{
    if (len == 0) {
        drop_bytes(connection);
        return true;
    }
    if (len > connection->in_cap) {
        size_t cap = KEEP_BYTES_MIN;
        while (cap < len)
            cap *= 2;
        if (!grow(connection, cap))
            return false;
    }
    if (bytes != connection->in)
        memmove(connection->in, bytes, len);
    connection->in_len = len;
    return true;
}

/* ---- a request ---- */

static uint64_t body_bytes_max(const struct http_front *front, const struct http_route *route)
{
    if (!route || route->body == HTTP_BODY_JOB)
        return front->options.body_bytes_max;
    return route->body == HTTP_BODY_BATCH ? front->options.batch_bytes_max : JOB_BODY_BYTES_MAX;
}

static bool unescape(struct http_front *front, struct slice *text, struct http_fault *fault)
{
    size_t start = front->decoded.len;
    if (!text->len || !memchr(text->at, '%', text->len))
        return true;
    if (!text_percent_decode(*text, false, &front->decoded))
        return http_fault_set(fault, PROBLEM_BAD_REQUEST, 0,
                              "'%s' holds a %% that two hex digits do not follow",
                              http_quotable(*text, 60));
    *text = slice_make(front->decoded.at + start, front->decoded.len - start);
    return true;
}

static bool check_body(struct http_front *front, const struct http_route *route,
                       struct http_fault *fault)
{
    struct slice body = front->request.body;
    buffer_clear(&front->arena);
    return !body.len || route->body != HTTP_BODY_NONE ||
           http_query_refuse_body(body, route->options, &front->arena, fault);
}

/* What the request asks for. False: *fault says what is wrong with it. */
static bool read_call(struct http_front *front, const struct http_match *match,
                      struct http_call *call, struct http_fault *fault)
{
    *call = (struct http_call){.front = front,
                               .request = &front->request,
                               .topic = match->topic,
                               .id = match->id,
                               .query = &front->query};
    buffer_clear(&front->decoded);
    buffer_clear(&front->meta);
    front->query.meta = match->route->takes_meta ? &front->meta : NULL;
    return unescape(front, &call->topic, fault) && unescape(front, &call->id, fault) &&
           http_query_parse(&front->request, match->route->options, &front->query, &front->decoded,
                            fault) &&
           check_body(front, match->route, fault);
}

static void refuse_path(struct http_exchange *exchange, const struct http_fault *fault)
{
    struct buffer *body = http_answer_start(exchange);
    http_problem_write(body, fault);
    if (fault->problem == PROBLEM_METHOD_NOT_ALLOWED)
        http_answer_field(exchange, "Allow", buffer_slice(&exchange->front->arena));
    http_answer_end(exchange, http_problem_status(fault->problem), "application/problem+json");
}

enum dispatched { DISPATCHED = 1, DISPATCH_HELD, DISPATCH_FAILED };

/* Carries the request out, or holds it back until there is room for it. `match`: its route, where it
 * is known already. */
static enum dispatched dispatch(struct http_connection *connection, struct http_match *match)
{
    struct http_front *front = connection->front;
    const struct http_request *request = &front->request;
    struct http_call call;
    struct http_fault fault;
    uint32_t weight = 0;
    bool has_route = match->route || http_route_find(request, match, &front->arena, &fault);
    bool is_good = has_route && read_call(front, match, &call, &fault);
    if (is_good && !http_admission_ask(connection, match->route, &weight))
        return DISPATCH_HELD;

    struct http_exchange *exchange = http_exchange_add(connection);
    if (!exchange)
        return DISPATCH_FAILED;
    exchange->is_head = request->method == HTTP_METHOD_HEAD;
    exchange->is_http_1_0 = request->is_http_1_0;
    if (!request->keeps_alive)
        connection->is_closing = true;
    if (!has_route) {
        refuse_path(exchange, &fault);
        return DISPATCHED;
    }
    exchange->route = match->route;
    if (!is_good) {
        http_answer_fault(exchange, &fault);
        return DISPATCHED;
    }
    if (weight)
        http_admission_begin(exchange, weight);
    call.exchange = exchange;
    match->route->handle(&call);
    return DISPATCHED;
}

/* A request held back is read again later: its chunks are one body from now on. */
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

/* Is there memory for what is still to come of the body? */
static bool has_memory(struct http_connection *connection, size_t bytes_here)
{
    struct http_front *front = connection->front;
    const struct http_framing *framing = &connection->framing;
    size_t whole = framing->head_bytes + framing->length;
    struct http_fault fault;
    if (framing->chunked || bytes_here >= whole || framing->length > framing->body_bytes_max ||
        http_budget_has(front, whole))
        return true;
    http_budget_refuse(front, &fault);
    http_connection_refuse(connection, &fault);
    return false;
}

/* The head is whole, *match its route: how long may the body be, and does the client wait to be asked for it? */
static bool admit(struct http_connection *connection, size_t bytes_here, struct http_match *match)
{
    struct http_front *front = connection->front;
    struct http_framing *framing = &connection->framing;
    struct http_fault fault;
    if (!http_route_find(&front->request, match, &front->arena, &fault))
        match->route = NULL;
    framing->body_bytes_max = body_bytes_max(front, match->route);

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

/* The rest of a message whose head was read in an earlier turn: its slices are gone, read them
 * again. */
static bool read_again(struct http_connection *connection, const char *bytes)
{
    struct http_request *request = &connection->front->request;
    struct slice body = request->body;
    struct http_fault fault;
    bool same =
        http_request_parse(slice_make(bytes, connection->framing.head_bytes), request, &fault);
    assert(same);
    request->body = body;
    return same;
}

static bool may_read(const struct http_connection *connection)
{
    return !connection->is_closing && !connection->is_cut;
}

/* Where memory `is_short`, one request after another. */
static inline bool is_full(const struct http_connection *connection, bool is_short)
{
    return connection->exchange_count >= HTTP_PENDING_MAX ||
           connection->out.len >= HTTP_OUT_BYTES_PAUSE || connection->writing ||
           (is_short && (connection->exchange_count || connection->out.len));
}

/* Blank lines before a request begin none, whole or half: else they would keep a connection that
 * asks for nothing. */
static bool is_half_blank_line(const struct http_connection *connection)
{
    return connection->in_len == 1 && connection->in[0] == '\r';
}

enum http_phase http_input_phase(const struct http_connection *connection)
{
    if (connection->framing.head_bytes)
        return HTTP_PHASE_BODY;
    if (connection->in_len && !is_half_blank_line(connection))
        return HTTP_PHASE_HEAD;
    return connection->exchange_count ? HTTP_PHASE_NONE : HTTP_PHASE_IDLE;
}

/* One message, a part of it or a blank line: *is_whole is set by a message. False: nothing more can
 * be done with what is there. */
static bool feed_one(struct http_connection *connection, char *bytes, size_t *len, size_t *at,
                     bool *is_whole)
{
    struct http_front *front = connection->front;
    struct http_match match;
    struct http_fault fault;
    size_t left = *len - *at, used = 0;
    bool is_fresh = false;
    match.route = NULL;
    for (;;) {
        switch (http_message_read(&connection->framing, bytes + *at, &left, &front->request, &used,
                                  &fault)) {
        case HTTP_STEP_MORE:
            *len = *at + left;
            return false;
        case HTTP_STEP_HEAD:
            is_fresh = true;
            if (!http_hosts_admit(&front->hosts, &front->request, &fault)) {
                http_connection_refuse(connection, &fault);
                return false;
            }
            if (admit(connection, left, &match)) {
                if (has_memory(connection, left))
                    continue;
                return false;
            }
            http_connection_cut(connection);
            return false;
        case HTTP_STEP_WHOLE:
            if (!is_fresh && !read_again(connection, bytes + *at)) {
                http_connection_cut(connection);
                return false;
            }
            switch (dispatch(connection, &match)) {
            case DISPATCHED:
                break;
            case DISPATCH_HELD:
                left = *len - *at;
                unwrap_chunks(&connection->framing, bytes + *at, &left, used);
                *len = *at + left;
                connection->is_blocked = true;
                return false;
            case DISPATCH_FAILED:
                http_connection_cut(connection);
                return false;
            }
            *is_whole = true;
            break;
        case HTTP_STEP_SKIP:
            break;
        case HTTP_STEP_REFUSED:
            http_connection_refuse(connection, &fault);
            return false;
        }
        *at += used;
        connection->framing = (struct http_framing){0};
        return true;
    }
}

static void feed(struct http_connection *connection, char *bytes, size_t len)
{
    size_t at = 0;
    bool is_whole = false, is_short = http_budget_is_spent(connection->front);
    connection->is_blocked = false;
    while (at < len && may_read(connection)) {
        connection->is_blocked = is_full(connection, is_short);
        if (connection->is_blocked || !feed_one(connection, bytes, &len, &at, &is_whole))
            break;
    }
    if (connection->is_cut)
        return;
    if (connection->is_closing) {
        http_input_drop(connection);
        http_connection_wait(connection, HTTP_PHASE_NONE, false);
        return;
    }
    if (!keep(connection, at < len ? bytes + at : NULL, len - at)) {
        http_connection_cut(connection);
        return;
    }
    if (connection->is_blocked || is_full(connection, is_short)) {
        connection->is_blocked = true;
        http_input_stop(connection);
        if (!connection->writing)
            http_connection_wait(connection, HTTP_PHASE_HELD, false);
        return;
    }
    /* After a whole message the time of the next one counts anew. */
    enum http_phase phase = http_input_phase(connection);
    http_connection_wait(connection, phase, is_whole);
}

/* ---- reading ---- */

/* How large its own buffer should be for the next read: ever larger, but no larger than a body whose
 * length is known. */
static size_t cap_wanted(const struct http_connection *connection)
{
    const struct http_framing *framing = &connection->framing;
    size_t whole = framing->head_bytes + framing->length;
    size_t cap = connection->in_len * 2 + GROW_BYTES_MIN;
    if (connection->in_cap - connection->in_len >= GROW_BYTES_MIN)
        return connection->in_cap;
    if (framing->head_bytes && !framing->chunked && whole > connection->in_len && whole < cap)
        cap = whole;
    return cap > connection->in_cap ? cap : connection->in_cap;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct http_connection *connection = handle->data;
    (void)suggested;
    if (connection->in_len <= LEFTOVER_BYTES) {
        char *shared = connection->front->read_at;
        if (connection->in_len)
            memcpy(shared, connection->in, connection->in_len);
        *out = uv_buf_init(shared + connection->in_len,
                           (unsigned)(HTTP_READ_BYTES - connection->in_len));
        return;
    }
    size_t cap = cap_wanted(connection);
    bool has_room =
        cap <= connection->in_cap || http_budget_has(connection->front, cap - connection->in_cap);
    if (!has_room) {
        cap = connection->in_len + LEFTOVER_BYTES;
        has_room = cap <= HTTP_BUDGET_SMALL_BYTES;
    }
    connection->is_starved = !has_room;
    if (!has_room || !grow(connection, cap))
        *out = uv_buf_init(NULL, 0);
    else
        *out =
            uv_buf_init(connection->in + connection->in_len, (unsigned)(cap - connection->in_len));
}

/* The peer sends no more. It may still read: what is under way is answered, takes that wait are not
 * kept waiting, as there may be nobody. */
static void end_waits(struct http_connection *connection)
{
    connection->peer_ended = true;
    for (struct http_exchange *exchange = connection->first, *next; exchange; exchange = next) {
        next = exchange->next;
        if (!exchange->waits || !exchange->waiter)
            continue;
        waiter_cancel(connection->front->waiters, exchange->waiter);
        exchange->waiter = 0;
        http_answer_no_jobs(exchange);
    }
}

static void end(struct http_connection *connection)
{
    connection->saw_end = connection->is_closing = true;
    http_input_stop(connection);
    http_input_drop(connection);
    end_waits(connection);
    http_connection_wait(connection, HTTP_PHASE_NONE, false);
    http_connection_touch(connection);
}

/* While requests are held back nothing is read, so the system has to be asked: has the peer said
 * that no more comes, or is it gone? Those held back are carried out where it may still read. */
void http_input_probe(struct http_connection *connection)
{
    struct pollfd asked = {.events = POLLRDHUP};
    if (uv_fileno((uv_handle_t *)&connection->tcp, &asked.fd) == 0 && poll(&asked, 1, 0) > 0) {
        if (asked.revents & (POLLERR | POLLHUP)) {
            http_connection_cut(connection);
            return;
        }
        end_waits(connection);
    }
    http_connection_wait(connection, HTTP_PHASE_HELD, true);
}

/* The loop stood still: a request may have lain there for long, and its client may have gone. What
 * it asked for would come as a surprise then. */
static bool is_stale(struct http_connection *connection)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    int fd;
    connection->pauses = connection->front->pauses;
    if (uv_fileno((uv_handle_t *)&connection->tcp, &fd) != 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return false;
    return info.tcpi_state == TCP_CLOSE ||
           (info.tcpi_state == TCP_CLOSE_WAIT && info.tcpi_last_data_recv > HTTP_LATE_MS);
}

static void refuse_stale(struct http_connection *connection)
{
    struct http_fault fault;
    (void)http_fault_set(&fault, PROBLEM_CONNECTION_ENDED, 0,
                         "the client had closed its side by the time the server, which had stood "
                         "still, read the request: nothing was done, send it again");
    http_connection_refuse(connection, &fault);
}

static void refuse_for_memory(struct http_connection *connection)
{
    struct http_fault fault;
    if (connection->is_starved)
        http_budget_refuse(connection->front, &fault);
    else
        (void)http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    http_connection_refuse(connection, &fault);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct http_connection *connection = stream->data;
    struct http_front *front = connection->front;
    if (got == UV_EOF) {
        end(connection);
    } else if (got == UV_ENOBUFS && !connection->is_closing) {
        refuse_for_memory(connection);
    } else if (got < 0) {
        http_connection_cut(connection);
    } else if (got > 0 && !connection->is_closing) {
        http_count(&front->counters.bytes_in, (uint64_t)got);
        (void)http_front_now_ms(front);
        if (connection->pauses != front->pauses && is_stale(connection))
            refuse_stale(connection);
        else
            feed(connection, buf->base - connection->in_len, connection->in_len + (size_t)got);
    }
}

void http_input_start(struct http_connection *connection)
{
    if (connection->is_reading || connection->saw_end || connection->is_cut)
        return;
    connection->is_reading = uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) == 0;
    if (!connection->is_reading)
        http_connection_cut(connection);
}

void http_input_stop(struct http_connection *connection)
{
    if (connection->is_reading)
        (void)uv_read_stop((uv_stream_t *)&connection->tcp);
    connection->is_reading = false;
}

/* There is room again. */
void http_input_resume(struct http_connection *connection)
{
    if (!connection->is_blocked || is_full(connection, http_budget_is_spent(connection->front)))
        return;
    feed(connection, connection->in, connection->in_len);
    if (!connection->is_cut && !connection->is_blocked)
        http_input_start(connection);
}
