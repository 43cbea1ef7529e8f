#include "grpc/watch.h"

#include "feed/feed.h"
#include "grpc/answer.h"
#include "grpc/arena.h"
#include "grpc/frame.h"
#include "grpc/stream.h"
#include "grpc/wire.h"
#include "http/query.h"
#include "http/stream.h"
#include "tarry/v1/queue.pb-c.h"

#include <stdlib.h>

enum { REQUEST_BYTES_MAX = 64 * 1024, TOPICS_MAX = JOB_EVENT_TOPICS_MAX };

struct watch {
    struct feed_listener listener; /* must be first */
    struct http2_call *call;
    struct http_front *front;
    struct http_stream_place place;
    struct access_caller *caller; /* valid as long as the call */
    struct buffer in, out;
    struct buffer names; /* the texts of `topics` */
    struct slice topics[TOPICS_MAX];
    uint64_t lost; /* events that were not sent to a slow client */
    bool has_request, has_ended;
};

/* ---- sending ---- */

/* Returns false if out of memory. */
static bool send_event(struct watch *watch, const char *kind, const struct job_event *event)
{
    struct buffer *out = &watch->out;
    buffer_clear(out);
    (void)frame_begin(out);
    wire_text(out, 1, slice_of(kind));
    wire_time(out, 2, event->at_ms);
    wire_text(out, 3, event->topic);
    wire_text(out, 4, event->id);
    wire_u64(out, 5, event->attempt);
    wire_time(out, 6, event->due_ms);
    wire_time(out, 7, event->lease_until_ms);
    wire_unsafe_text(out, 8, event->error);
    wire_u64(out, 9, event->count);
    wire_text(out, 10, slice_of(job_way_name(event->way) ? job_way_name(event->way) : ""));
    frame_end(out, FRAME_HEAD_BYTES);
    if (out->failed)
        return false;
    (void)http2_send(watch->call, buffer_slice(out));
    return true;
}

/* Reports the events that were lost, if any. */
static void send_gap(struct watch *watch)
{
    const struct job_event gap = {.count = watch->lost};
    if (watch->lost && send_event(watch, "gap", &gap))
        watch->lost = 0;
}

/* Returns whether the client reads too slowly. */
static bool is_full(const struct watch *watch)
{
    return http2_unsent(watch->call) > HTTP_STREAM_BYTES_MAX;
}

static void on_event(struct feed_listener *listener, const struct job_event *event, uint64_t serial)
{
    struct watch *watch = (struct watch *)(void *)listener;
    (void)serial;
    if (!is_full(watch)) {
        send_gap(watch);
        if (send_event(watch, job_event_name(event->kind), event))
            return;
    }
    watch->lost++;
    http_count(&watch->front->counters.events_lost, 1);
}

static void on_gap(struct feed_listener *listener, uint64_t lost)
{
    struct watch *watch = (struct watch *)(void *)listener;
    watch->lost += lost;
    if (!is_full(watch))
        send_gap(watch);
}

static bool may_see(struct feed_listener *listener, struct slice topic)
{
    const struct watch *watch = (struct watch *)(void *)listener;
    return access_may(watch->caller, ACCESS_READ, topic);
}

static const struct feed_listener_ops listener_ops = {
    .event = on_event, .gap = on_gap, .may_see = may_see};

/* ---- the request ---- */

static bool read_kinds(struct watch *watch, const Tarry__V1__WatchRequest *request,
                       struct http_fault *fault)
{
    watch->listener.kinds = request->n_kinds ? 0 : JOB_EVENTS_ALL;
    for (size_t i = 0; i < request->n_kinds; i++) {
        enum job_event_kind kind = job_event_find(slice_of(request->kinds[i]));
        if (!kind)
            return http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                                  "'kinds' has an unknown event: docs/api.md lists them");
        watch->listener.kinds |= job_event_bit(kind);
    }
    return true;
}

static bool read_topics(struct watch *watch, const Tarry__V1__WatchRequest *request,
                        struct http_fault *fault)
{
    size_t bytes = 1;
    if (request->n_topics > TOPICS_MAX)
        return http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, TOPICS_MAX,
                              "too many topics, at most %d", TOPICS_MAX);
    for (size_t i = 0; i < request->n_topics; i++)
        bytes += strlen(request->topics[i]);
    buffer_init(&watch->names, bytes);
    if (!buffer_reserve(&watch->names, bytes))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    const struct http_route *route = http2_exchange(watch->call)->route;
    for (size_t i = 0; i < request->n_topics; i++) {
        struct slice topic = slice_of(request->topics[i]);
        if (!job_topic_is_valid(topic))
            return http_fault_set(fault, PROBLEM_BAD_OPTION, 0, "a topic is invalid");
        if (!http_gate_allows(watch->front, watch->caller, route, topic, fault))
            return false;
        watch->topics[i] = buffer_append_copy(&watch->names, topic);
    }
    watch->listener.topic_count = (uint32_t)request->n_topics;
    return true;
}

static bool begin(struct watch *watch, struct slice message, struct http_fault *fault)
{
    struct arena arena;
    arena_init(&arena, message.len);
    const Tarry__V1__WatchRequest *request = (const void *)protobuf_c_message_unpack(
        &tarry__v1__watch_request__descriptor, &arena.allocator, message.len,
        (const uint8_t *)(message.len ? message.at : ""));
    bool done =
        request || http_fault_set(fault, PROBLEM_BAD_REQUEST, 0, "the message is malformed");
    done = done && read_kinds(watch, request, fault) && read_topics(watch, request, fault);
    arena_fini(&arena);
    struct feed_desk *desk = watch->front->options.desk;
    if (done && desk && !feed_listen(desk, &watch->listener))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    watch->has_request = done;
    return done;
}

/* ---- the stream ---- */

static void stop(struct watch *watch)
{
    if (watch->listener.desk)
        feed_unlisten(&watch->listener);
    watch->has_ended = true;
}

static void on_data(void *ctx, struct slice bytes)
{
    struct watch *watch = ctx;
    struct http_fault fault = {0};
    struct slice message;
    size_t at = 0;
    http2_consumed(watch->call, bytes.len);
    if (watch->has_ended || watch->has_request)
        return;
    bool is_good = stream_add(&watch->in, bytes, REQUEST_BYTES_MAX, &fault);
    if (is_good && stream_next(&watch->in, &at, REQUEST_BYTES_MAX, &message, &fault))
        is_good = begin(watch, message, &fault);
    if (is_good && !fault.problem)
        return;
    stop(watch);
    stream_refuse_fault(watch->call, &fault);
}

/* A client half-closes when it has sent its request, and continues to watch. */
static void on_end(void *ctx)
{
    struct watch *watch = ctx;
    struct http_fault fault;
    if (watch->has_request || watch->has_ended)
        return;
    (void)http_fault_set(&fault, PROBLEM_BAD_FRAMING, 0, "the message is missing");
    stop(watch);
    stream_refuse_fault(watch->call, &fault);
}

/* Reports what was lost since the client stopped reading; no other event may follow. */
static void on_writable(void *ctx)
{
    struct watch *watch = ctx;
    if (!watch->has_ended)
        send_gap(watch);
}

static void on_drain(void *ctx)
{
    struct watch *watch = ctx;
    if (watch->has_ended)
        return;
    send_gap(watch);
    stop(watch);
    stream_end(watch->call);
}

static void on_revoked(void *ctx)
{
    struct watch *watch = ctx;
    struct http_fault fault;
    if (watch->has_ended)
        return;
    (void)http_fault_set(&fault, PROBLEM_UNAUTHORIZED, 0,
                         "the caller of this stream is no longer valid");
    stop(watch);
    stream_refuse_fault(watch->call, &fault);
}

static void watch_free(struct watch *watch)
{
    if (watch->listener.desk)
        feed_unlisten(&watch->listener);
    http_stream_place_give_back(&watch->place);
    buffer_fini(&watch->in);
    buffer_fini(&watch->out);
    buffer_fini(&watch->names);
    free(watch);
}

static void on_close(void *ctx, uint64_t written, bool is_whole)
{
    (void)written;
    (void)is_whole;
    watch_free(ctx);
}

void watch_begin(struct http_call *call)
{
    static const struct http2_receiver receiver = {.on_data = on_data,
                                                   .on_end = on_end,
                                                   .on_writable = on_writable,
                                                   .on_drain = on_drain,
                                                   .on_revoked = on_revoked,
                                                   .on_close = on_close};
    struct http_fault fault;
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    watch->listener.ops = &listener_ops;
    watch->listener.topics = watch->topics;
    watch->front = call->front;
    watch->caller = call->caller;
    buffer_init(&watch->out, REQUEST_BYTES_MAX);
    if (!http_stream_place_take(&watch->place, call->exchange, call->caller, &fault)) {
        watch_free(watch);
        http_answer_fault(call->exchange, &fault);
        return;
    }
    (void)http_answer_start(call->exchange);
    watch->call = http2_open(call->exchange, call->caller, GRPC_CONTENT_TYPE, &receiver, watch);
    if (!watch->call)
        watch_free(watch);
}
