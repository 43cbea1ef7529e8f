#include "http/stream.h"

#include "http/connection.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PING_MS = 15 * 1000,
    LOSS_BYTES =
        HTTP_STREAM_BYTES_MAX / 4, /* events dropped at a time, so that dropping is cheap */
    OUT_BYTES_MAX = 256 * 1024,    /* limit per iteration for a client that reads all it gets */
    CHUNK_HEAD_BYTES = 24
};

#define RETRY "retry: 1000\n\n" /* for clients of a server that shuts down, in milliseconds */

struct http_stream {
    struct http_exchange *exchange; /* the only one of its connection */
    http_stream_ended *on_end;
    void *ctx;
    struct list node; /* in front->streams, by sent_ms */
    struct http_stream_place place;
    int64_t sent_ms;
    uint64_t lost;        /* dropped events that are not reported to the client yet */
    struct buffer events; /* complete events, each with its blank line */
};

/* ---- bytes ---- */

/* The beginning of an event that reports lost ones, also of those of the feed. */
#define GAP "event: gap\ndata: {\"lost\":"

/* Reports dropped events; they precede the buffered ones. */
static void write_gap(struct http_stream *stream)
{
    char text[80];
    int len = snprintf(text, sizeof text, GAP "%llu}\n\n", (unsigned long long)stream->lost);
    if (!stream->lost)
        return;
    http_count(&stream->exchange->front->counters.events_lost, stream->lost);
    http_answer_write(stream->exchange, slice_make(text, (size_t)len));
    stream->lost = 0;
}

static void write_events(struct http_stream *stream)
{
    write_gap(stream);
    http_answer_write(stream->exchange, buffer_slice(&stream->events));
    buffer_clear(&stream->events);
}

void http_stream_flush(struct http_stream *stream)
{
    write_events(stream);
    /* A quiet stream holds no buffer. */
    http_front_give_back(stream->exchange->front, &stream->events);
}

/* Returns how many events are lost if this one is dropped: a gap stands for those that it reports. */
static uint64_t lost_with(const char *event)
{
    static const char gap[] = GAP;
    return strncmp(event, gap, sizeof gap - 1) == 0 ? strtoull(event + sizeof gap - 1, NULL, 10)
                                                    : 1;
}

/* Drops the oldest events until there is room for `bytes` more. */
static void lose_oldest(struct http_stream *stream, size_t bytes)
{
    struct buffer *events = &stream->events;
    size_t least = events->len + bytes - HTTP_STREAM_BYTES_MAX, at = 0;
    if (least < LOSS_BYTES)
        least = LOSS_BYTES;
    while (at < events->len && at < least) {
        const char *end = memmem(events->at + at, events->len - at, "\n\n", 2);
        stream->lost += lost_with(events->at + at);
        at = end ? (size_t)(end - events->at) + 2 : events->len;
    }
    events->len -= at;
    memmove(events->at, events->at + at, events->len);
}

/* Makes room for that many bytes by writing the events or dropping the oldest. Returns false if
 * they can never fit. */
static bool make_room(struct http_stream *stream, size_t bytes)
{
    if (bytes > HTTP_STREAM_BYTES_MAX)
        return false;
    if (stream->events.len + bytes <= HTTP_STREAM_BYTES_MAX)
        return true;
    if (http_answer_unsent(stream->exchange) < OUT_BYTES_MAX)
        write_events(stream);
    else
        lose_oldest(stream, bytes);
    return true;
}

/* Postpones the next comment of the stream, since something is sent. */
static void note_sent(struct http_stream *stream)
{
    struct http_front *front = stream->exchange->front;
    stream->sent_ms = http_front_now_ms(front);
    list_remove(&stream->node);
    list_add_last(&front->streams, &stream->node);
}

void http_stream_send(struct http_stream *stream, const char *event, struct slice json)
{
    static const size_t around = sizeof "event: \ndata: \n\n" - 1;
    size_t bytes = around + strlen(event) + json.len;
    struct buffer *events = &stream->events;
    http_connection_touch(stream->exchange->connection);
    if (!make_room(stream, bytes)) {
        stream->lost++;
        return;
    }
    http_front_lend(stream->exchange->front, events);
    if (!buffer_reserve(events, bytes)) {
        events->failed = false;
        stream->lost++;
        return;
    }
    buffer_append_text(events, "event: ");
    buffer_append_text(events, event);
    buffer_append_text(events, "\ndata: ");
    buffer_append_slice(events, json);
    buffer_append(events, "\n\n", 2);
    note_sent(stream);
}

/* ---- places ---- */

/* Returns the account that streams of the connection are charged to, or NULL. */
static struct quota_account *payer_of(const struct http_connection *connection)
{
    const struct http_quota *quota = &connection->quota;
    return quota->caller ? quota->caller : quota->is_local ? NULL : quota->address;
}

static int count_streams_of(const struct http_front *front, const struct quota_account *payer)
{
    int count = 0;
    for (const struct list *node = front->stream_places.next; node != &front->stream_places;
         node = node->next)
        count += list_entry(node, struct http_stream_place, node)->payer == payer;
    return count;
}

static bool may_begin_stream(const struct http_exchange *exchange,
                             const struct access_caller *caller, struct http_fault *fault)
{
    struct http_front *front = exchange->front;
    const struct quota_account *payer =
        exchange->connection ? payer_of(exchange->connection) : NULL;
    uint32_t most =
        caller->has_all_topics ? HTTP_STREAMS_MAX : HTTP_STREAMS_MAX - HTTP_STREAMS_RESERVED;
    if (payer && count_streams_of(front, payer) >= HTTP_STREAMS_OF_CALLER_MAX)
        return http_fault_set(fault, PROBLEM_TOO_MANY_STREAMS, HTTP_STREAMS_OF_CALLER_MAX,
                              "this caller has reached its limit of %d open streams: close one",
                              HTTP_STREAMS_OF_CALLER_MAX);
    if (front->stream_count >= most)
        return http_fault_set(
            fault, PROBLEM_TOO_MANY_STREAMS, most,
            "the server has reached its limit of %u open streams: close one, or try again later",
            most);
    if (http_budget_has(front, HTTP_STREAM_BYTES_MAX))
        return true;
    http_budget_refuse(front, fault);
    return false;
}

static void count_streams(struct http_front *front)
{
    atomic_store_explicit(&front->counters.streams, front->stream_count, memory_order_relaxed);
}

bool http_stream_place_take(struct http_stream_place *place, const struct http_exchange *exchange,
                            const struct access_caller *caller, struct http_fault *fault)
{
    struct http_front *front = exchange->front;
    if (!may_begin_stream(exchange, caller, fault))
        return false;
    place->front = front;
    place->payer = exchange->connection ? payer_of(exchange->connection) : NULL;
    if (place->payer) /* the connection may get another caller */
        quota_account_keep(front->shared->quota, place->payer);
    list_add_last(&front->stream_places, &place->node);
    front->stream_count++;
    count_streams(front);
    return true;
}

void http_stream_place_give_back(struct http_stream_place *place)
{
    struct http_front *front = place->front;
    if (!front)
        return;
    list_remove(&place->node);
    if (place->payer)
        quota_account_release(front->shared->quota, place->payer);
    front->stream_count--;
    count_streams(front);
    *place = (struct http_stream_place){0};
}

/* ---- life ---- */

/* Sets the alarm for the stream that was quiet longest. */
static void set_stream_alarm(struct http_front *front)
{
    if (list_is_empty(&front->streams))
        return;
    struct http_stream *first = list_entry(front->streams.next, struct http_stream, node);
    deadline_set(front->stream_alarm, first->sent_ms + PING_MS);
}

void http_streams_ping(void *ctx)
{
    struct http_front *front = ctx;
    front->now_ms = 0;
    int64_t now_ms = http_front_now_ms(front);
    while (!list_is_empty(&front->streams)) {
        struct http_stream *stream = list_entry(front->streams.next, struct http_stream, node);
        struct http_connection *connection = stream->exchange->connection;
        if (stream->sent_ms + PING_MS > now_ms)
            break;
        if (http_answer_unsent(stream->exchange) != SIZE_MAX && !stream->events.len)
            http_answer_write(stream->exchange, slice_of(": ping\n\n"));
        http_connection_touch(connection);
        note_sent(stream);
    }
    set_stream_alarm(front);
}

/* Writes the head of the answer, the last one of its connection. */
static void write_stream_head(struct http_exchange *exchange)
{
    (void)http_answer_start(exchange);
    http_answer_field(exchange, "Cache-Control", slice_of("no-store"));
    http_answer_field(exchange, "X-Accel-Buffering", slice_of("no"));
    http_answer_field(exchange, "X-Content-Type-Options", slice_of("nosniff"));
    http_answer_open(exchange, "text/event-stream");
}

struct http_stream *http_stream_begin(struct http_exchange *exchange, struct access_caller *caller,
                                      http_stream_ended *on_end, void *ctx)
{
    struct http_front *front = exchange->front;
    struct http_fault fault;
    struct http_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return NULL;
    }
    if (!http_stream_place_take(&stream->place, exchange, caller, &fault)) {
        free(stream);
        http_answer_fault(exchange, &fault);
        return NULL;
    }
    http_gate_wait(exchange, caller, HTTP_STREAM_BYTES_MAX);
    write_stream_head(exchange);
    if (exchange->is_head || exchange->connection->socket.peer_ended || front->is_draining) {
        http_stream_place_give_back(&stream->place);
        free(stream);
        if (front->is_draining && !exchange->is_head)
            http_answer_write(exchange, slice_of(RETRY));
        http_answer_close(exchange);
        return NULL;
    }
    stream->exchange = exchange;
    stream->on_end = on_end;
    stream->ctx = ctx;
    exchange->stream = stream;
    bool is_first = list_is_empty(&front->streams);
    list_init(&stream->node);
    note_sent(stream);
    if (is_first)
        set_stream_alarm(front);
    return stream;
}

/* Frees the stream and notifies its owner. */
static void stream_free(struct http_stream *stream)
{
    struct http_exchange *exchange = stream->exchange;
    struct http_front *front = exchange->front;
    exchange->stream = NULL;
    list_remove(&stream->node);
    if (list_is_empty(&front->streams))
        deadline_set(front->stream_alarm, INT64_MAX);
    http_stream_place_give_back(&stream->place);
    http_front_give_back(front, &stream->events);
    stream->on_end(stream->ctx);
    free(stream);
}

void http_stream_end(struct http_stream *stream)
{
    struct http_exchange *exchange = stream->exchange;
    http_stream_flush(stream);
    stream_free(stream);
    http_answer_close(exchange);
}

void http_stream_drain(struct http_stream *stream)
{
    http_stream_flush(stream);
    http_answer_write(stream->exchange, slice_of(RETRY));
    http_stream_end(stream);
}

void http_stream_cut(struct http_stream *stream)
{
    stream->exchange->answered = true;
    stream_free(stream);
}

const struct access_caller *http_stream_caller(const struct http_stream *stream)
{
    const struct access_caller *caller = stream->exchange->caller;
    return caller ? caller : access_anyone();
}

void http_streams_end_unheld(struct http_front *front)
{
    for (struct list *node = front->streams.next, *next; node != &front->streams; node = next) {
        struct http_stream *stream = list_entry(node, struct http_stream, node);
        next = node->next;
        if (!http_gate_holds(stream->exchange))
            http_stream_end(stream);
    }
}
