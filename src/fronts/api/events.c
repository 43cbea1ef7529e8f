/* Events of jobs and topics as a live stream (feed/feed.h). */
#include "api/routes.h"
#include "api/state.h"
#include "base/json_write.h"
#include "feed/feed.h"
#include "http/stream.h"

#include <stdio.h>
#include <stdlib.h>

enum { GAP_BYTES = 40 };

/* A listener, in one block of memory with the names of its topics. */
struct events {
    struct feed_listener listener; /* must be first */
    struct http_front *front;
    struct http_stream *stream;
    struct slice topics[]; /* followed by their text */
};

/* ---- sending ---- */

static void write_time(struct buffer *out, const char *key, int64_t ms)
{
    if (!ms)
        return;
    json_write_member(out, key);
    json_write_time(out, ms);
}

static void write_text(struct buffer *out, const char *key, struct slice text)
{
    if (text.len)
        json_write_member_text(out, key, text);
}

static void write_number(struct buffer *out, const char *key, uint64_t number)
{
    if (number)
        json_write_member_number(out, key, number);
}

static bool counts_jobs(enum job_event_kind kind)
{
    return kind == JOB_EVENT_PURGED || kind == JOB_EVENT_DELETED;
}

static void write_event(struct buffer *out, const struct job_event *event)
{
    const char *way = job_way_name(event->way);
    bool is_skip = event->kind == JOB_EVENT_FIRE_SKIPPED;
    buffer_append_byte(out, '{');
    write_time(out, "at", event->at_ms);
    json_write_member_text(out, "topic", event->topic);
    write_text(out, is_skip ? "schedule" : "id", event->id);
    write_number(out, "attempt", event->attempt);
    write_time(out, "due_at", event->due_ms);
    write_time(out, "lease_until", event->lease_until_ms);
    write_text(out,
               is_skip                             ? "reason"
               : event->kind == JOB_EVENT_PROGRESS ? "progress"
                                                   : "error",
               event->error);
    if (is_skip)
        write_number(out, "fires", event->count);
    else if (event->count || counts_jobs(event->kind))
        json_write_member_number(out, "count", event->count);
    if (way)
        json_write_member_text(out, "way", slice_of(way));
    buffer_append_byte(out, '}');
}

/* Returns the event as JSON, written once for all listeners of this front. */
static struct slice event_text(struct http_front *front, const struct job_event *event,
                               uint64_t serial)
{
    struct api_front *api = api_front_of(front);
    if (api->event_serial != serial) {
        buffer_clear(&api->event_text);
        write_event(&api->event_text, event);
        api->event_serial = serial;
    }
    return buffer_slice(&api->event_text);
}

static void on_event(struct feed_listener *listener, const struct job_event *event, uint64_t serial)
{
    struct events *events = (struct events *)(void *)listener;
    http_stream_send(events->stream, job_event_name(event->kind),
                     event_text(events->front, event, serial));
}

static void on_gap(struct feed_listener *listener, uint64_t lost)
{
    const struct events *events = (struct events *)(void *)listener;
    char text[GAP_BYTES];
    int len = snprintf(text, sizeof text, "{\"lost\":%llu}", (unsigned long long)lost);
    http_stream_send(events->stream, "gap", slice_make(text, (size_t)len));
}

static bool may_see(struct feed_listener *listener, struct slice topic)
{
    const struct events *events = (struct events *)(void *)listener;
    return access_may(http_stream_caller(events->stream), ACCESS_READ, topic);
}

static const struct feed_listener_ops listener_ops = {
    .event = on_event, .gap = on_gap, .may_see = may_see};

/* ---- life ---- */

static struct events *events_new(struct http_call *call)
{
    const struct http_query *query = call->query;
    size_t bytes = 0;
    for (uint32_t i = 0; i < query->topic_count; i++)
        bytes += query->topics[i].len;
    struct events *events =
        malloc(sizeof *events + query->topic_count * sizeof events->topics[0] + bytes);
    if (!events)
        return NULL;
    bool has_kinds = http_fields_have(&query->fields, OPTION_EVENT);
    *events = (struct events){
        .listener = {.ops = &listener_ops,
                     .kinds = has_kinds ? query->fields.events : JOB_EVENTS_ALL,
                     .topics = events->topics,
                     .topic_count = query->topic_count},
        .front = call->front,
    };
    char *at = (char *)(events->topics + query->topic_count);
    for (uint32_t i = 0; i < query->topic_count; i++) {
        memcpy(at, query->topics[i].at, query->topics[i].len);
        events->topics[i] = slice_make(at, query->topics[i].len);
        at += query->topics[i].len;
    }
    return events;
}

static void events_end(void *ctx)
{
    struct events *events = ctx;
    if (events->listener.desk)
        feed_unlisten(&events->listener);
    free(events);
}

/* Checks that each named topic is valid and that the caller may read it. Answers the call on
 * false. */
static bool check_topics(struct http_call *call)
{
    const struct http_query *query = call->query;
    struct http_fault fault;
    for (uint32_t i = 0; i < query->topic_count; i++) {
        const struct slice topic = query->topics[i];
        if (!job_topic_is_valid(topic)) {
            http_answer_refusal(call->exchange, QUEUE_BAD_TOPIC, NULL, 0);
            return false;
        }
        if (!http_gate_allows(call->front, call->caller, call->exchange->route, topic, &fault)) {
            http_answer_fault(call->exchange, &fault);
            return false;
        }
    }
    return true;
}

static void stream_events(struct http_call *call)
{
    struct feed_desk *desk = call->front->options.desk;
    if (!check_topics(call))
        return;
    struct events *events = events_new(call);
    if (!events || (desk && !feed_listen(desk, &events->listener))) {
        free(events);
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    events->stream = http_stream_begin(call->exchange, call->caller, events_end, events);
    if (!events->stream)
        events_end(events);
}

const struct http_route api_events_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/events",
     .name = "events",
     .handle = stream_events,
     .options = OPTION_BIT(OPTION_TOPIC) | OPTION_BIT(OPTION_EVENT),
     .answer = HTTP_ANSWER_STREAM,
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN},
    {0},
};
