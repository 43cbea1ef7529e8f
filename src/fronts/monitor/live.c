#include "monitor/live.h"

#include "base/json_write.h"
#include "base/log_ring.h"
#include "base/vector.h"
#include "http/stream.h"
#include "monitor/routes.h"
#include "monitor/server_state.h"
#include "monitor/snapshot.h"
#include "monitor/state.h"

#include <assert.h>
#include <stdlib.h>

enum {
    ITERATION_US = 500, /* time for writing to each kind of listener before other work continues */
    LOG_LINES = 64,     /* per event */
    TOKENS_BYTES = HTTP_STREAM_BYTES_MAX / 4, /* in an event; GET /v1/server shows more */
    RECENT_MS = 1500                          /* maximum age of a sample for a new listener */
};

/* A status request that waits for a sample that is fresh enough. */
struct asked {
    uint64_t tag, serial;
};
VECTOR_DECLARE(asked_list, struct asked)

struct monitor_live {
    struct monitor_sample_box box;
    struct letter rest;                 /* continues with viewers that have not received `last` */
    bool is_rest_posted, is_box_posted; /* is_box_posted is checked when the front is gone */
    struct http_front *front;           /* NULL: gone */
    struct monitor_sample *last;
    struct list viewers; /* least recently served first */
    struct asked_list asked;
    /* The text of `last` for callers that may see all topics; empty: not written yet. */
    struct buffer overview, status;
    struct buffer text;
};

struct viewer {
    struct list node; /* in live->viewers */
    struct monitor_live *live;
    struct http_stream *stream;
    uint64_t tag;  /* tag of its exchange */
    uint64_t sent; /* serial of the sample that it received last */
    enum http_live_view view;
    uint64_t log_at; /* view server: position in the log */
    size_t topic_len;
    char topic[JOB_TOPIC_BYTES_MAX];
};

/* ---- figures of the server ---- */

static uint64_t sum_counter(struct http_shared *shared, size_t offset)
{
    uint64_t sum = 0;
    pthread_mutex_lock(&shared->lock);
    for (uint32_t i = 0; i < shared->front_count; i++) {
        const char *counters = (const char *)&shared->fronts[i]->counters;
        const _Atomic uint64_t *counter =
            (const _Atomic uint64_t *)(const void *)(counters + offset);
        sum += atomic_load_explicit(counter, memory_order_relaxed);
    }
    pthread_mutex_unlock(&shared->lock);
    return sum;
}

static void read_status(struct monitor_status_input *input, const struct monitor_live *live,
                        const struct access_caller *caller)
{
    struct http_shared *shared = live->front->shared;
    *input = (struct monitor_status_input){
        .sample = live->last,
        .silences = monitor_silences_of(shared),
        .caller = caller,
        .wall_ms = live->last->wall_ms,
        .lateness = {.p50_ms = -1, .p99_ms = -1},
        .process_bytes = atomic_load_explicit(&shared->process_bytes, memory_order_relaxed),
        .process_bytes_max = shared->process_bytes_max,
        .is_memory_spent = atomic_load_explicit(&shared->is_memory_spent, memory_order_relaxed),
        .certificate_ends_s =
            atomic_load_explicit(&shared->certificate_ends_s, memory_order_relaxed),
    };
    if (shared->server)
        input->disk_full_in_ms = shared->server->disk_full_in_ms(shared->server->ctx);
    if (caller->has_all_topics)
        input->lateness = monitor_sample_lateness(shared, (struct slice){0});
    clock_steps(&input->steps);
    for (int trouble = 1; trouble < TROUBLES; trouble++)
        for (uint32_t party = 0; party < TROUBLE_PARTIES; party++)
            input->troubles_ms[trouble][party] =
                trouble_party_lasts_ms((enum trouble)trouble, party);
}

static void read_snapshot(struct monitor_snapshot_input *input, const struct monitor_live *live,
                          const struct access_caller *caller)
{
    struct http_shared *shared = live->front->shared;
    *input = (struct monitor_snapshot_input){
        .shared = shared,
        .waiting_takes = sum_counter(shared, offsetof(struct http_counters, waiting)),
        .connections = sum_counter(shared, offsetof(struct http_counters, connections)),
    };
    read_status(&input->status, live, caller);
}

/* ---- sending ---- */

static void send_overview(struct viewer *viewer)
{
    struct monitor_live *live = viewer->live;
    const struct access_caller *caller = http_stream_caller(viewer->stream);
    struct buffer *text = caller->has_all_topics ? &live->overview : &live->text;
    if (!caller->has_all_topics)
        buffer_clear(text);
    if (!text->len) {
        struct monitor_snapshot_input input;
        read_snapshot(&input, live, caller);
        monitor_snapshot_write(text, &input);
    }
    if (!text->failed)
        http_stream_send(viewer->stream, "snapshot", buffer_slice(text));
}

static struct viewer *viewer_find(struct http_front *front, uint64_t tag)
{
    struct list *all = &monitor_front_of(front)->live->viewers;
    for (struct list *node = all->next; node != all; node = node->next)
        if (list_entry(node, struct viewer, node)->tag == tag)
            return list_entry(node, struct viewer, node);
    return NULL;
}

static void on_topic_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_front *front = owner;
    struct viewer *viewer = viewer_find(front, tag);
    if (!viewer || !viewer->live->last ||
        (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND))
        return;
    struct monitor_live *live = viewer->live;
    struct monitor_snapshot_input input;
    const struct queue_topic *shown =
        reply->status == QUEUE_OK && reply->topic_count ? reply->topics : NULL;
    read_snapshot(&input, live, http_stream_caller(viewer->stream));
    buffer_clear(&live->text);
    monitor_snapshot_topic_write(&live->text, &input, slice_make(viewer->topic, viewer->topic_len),
                                 shown);
    if (!live->text.failed)
        http_stream_send(viewer->stream, "snapshot", buffer_slice(&live->text));
}

static void send_topic(struct viewer *viewer)
{
    struct http_front *front = viewer->live->front;
    const struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET,
                                         .topic = slice_make(viewer->topic, viewer->topic_len)};
    queue_topic(
        front->queue, &get,
        (struct queue_reply_to){.done = on_topic_shown, .owner = front, .tag = viewer->tag});
}

/* Sends the state of the server as in GET /v1/server, and new lines of the log. */
static void send_server(struct viewer *viewer)
{
    struct monitor_live *live = viewer->live;
    struct buffer *text = &live->text;
    uint64_t lost, next = 0;
    buffer_clear(text);
    buffer_append_text(text, "{\"at\":");
    json_write_time(text, live->last->wall_ms);
    monitor_server_state_write(text, live->front, TOKENS_BYTES);
    json_write_member(text, "log");
    buffer_append_byte(text, '[');
    size_t start = text->len;
    for (uint32_t lines = LOG_LINES; lines; lines /= 4) { /* as many as fit into an event */
        text->len = start;
        next = log_ring_read(viewer->log_at, lines, text, &lost);
        if (text->len < HTTP_STREAM_BYTES_MAX / 2)
            break;
    }
    viewer->log_at = next;
    buffer_append_text(text, "]}");
    if (!text->failed)
        http_stream_send(viewer->stream, "snapshot", buffer_slice(text));
}

static void send_view(struct viewer *viewer)
{
    struct monitor_live *live = viewer->live;
    list_remove(&viewer->node);
    list_add_last(&live->viewers, &viewer->node);
    viewer->sent = live->last->serial;
    if (viewer->view == HTTP_LIVE_TOPIC)
        send_topic(viewer);
    else if (viewer->view == HTTP_LIVE_SERVER)
        send_server(viewer);
    else
        send_overview(viewer);
}

static void post_rest(struct monitor_live *live)
{
    if (live->is_rest_posted)
        return;
    live->is_rest_posted = true;
    reactor_post(live->front->reactor, &live->rest);
}

/* Sends the newest sample to all viewers without it, within the time limit of the iteration. */
static void send_all(struct monitor_live *live)
{
    int64_t until_us = clock_boot_us() + ITERATION_US;
    while (!list_is_empty(&live->viewers)) {
        struct viewer *first = list_entry(live->viewers.next, struct viewer, node);
        if (first->sent == live->last->serial)
            return;
        send_view(first);
        if (clock_boot_us() >= until_us)
            break;
    }
    if (!list_is_empty(&live->viewers))
        post_rest(live);
}

/* ---- status ---- */

static void write_status(struct buffer *text, const struct monitor_live *live,
                         const struct access_caller *caller)
{
    struct monitor_status_input input;
    struct monitor_status status;
    read_status(&input, live, caller);
    monitor_status_evaluate(&status, &input);
    monitor_status_write(text, &status);
}

static void answer_status(struct monitor_live *live, struct http_exchange *exchange)
{
    const struct access_caller *caller = exchange->caller;
    if (!http_gate_holds(exchange)) {
        http_gate_refuse_ended(exchange);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    if (!caller->has_all_topics) {
        write_status(body, live, caller);
    } else {
        if (!live->status.len)
            write_status(&live->status, live, caller);
        buffer_append_slice(body, buffer_slice(&live->status));
        body->failed |= live->status.failed;
    }
    http_answer_end_json(exchange, 200);
}

/* Answers all status requests for which the newest sample is fresh enough, within the time limit of
 * the iteration. Each answer is evaluated over all topics. */
static void answer_asked(struct monitor_live *live)
{
    int64_t until_us = clock_boot_us() + ITERATION_US;
    size_t kept = 0;
    bool has_time = true;
    for (size_t i = 0; i < live->asked.count; i++) {
        struct asked asked = live->asked.at[i];
        struct http_exchange *exchange = http_exchange_find(live->front, asked.tag);
        if (asked.serial > live->last->serial || !has_time) {
            live->asked.at[kept++] = asked;
        } else if (exchange) {
            answer_status(live, exchange);
            has_time = clock_boot_us() < until_us;
        }
    }
    live->asked.count = kept;
    if (!has_time)
        post_rest(live);
}

/* ---- arrival of samples ---- */

static void live_free(struct monitor_live *live)
{
    monitor_sample_release(atomic_exchange(&live->box.next, NULL));
    monitor_sample_release(live->last);
    asked_list_fini(&live->asked);
    buffer_fini(&live->overview);
    buffer_fini(&live->status);
    buffer_fini(&live->text);
    free(live);
}

/* Detaches the state from its front, which is gone. */
static void live_end(struct monitor_live *live)
{
    if (!live->is_box_posted && !live->is_rest_posted)
        live_free(live);
}

static void set_open(struct monitor_live *live)
{
    bool is_open = !list_is_empty(&live->viewers) || live->asked.count;
    atomic_store_explicit(&live->box.is_open, is_open, memory_order_release);
}

static void on_sample(struct letter *letter)
{
    struct monitor_live *live = (struct monitor_live *)(void *)letter;
    if (!live->front) {
        live->is_box_posted = false;
        live_end(live);
        return;
    }
    struct monitor_sample *sample = atomic_exchange(&live->box.next, NULL);
    monitor_sample_release(live->last);
    live->last = sample;
    buffer_clear(&live->overview);
    buffer_clear(&live->status);
    answer_asked(live);
    send_all(live);
    set_open(live);
}

static void on_rest(struct letter *letter)
{
    struct monitor_live *live =
        (struct monitor_live *)(void *)((char *)letter - offsetof(struct monitor_live, rest));
    live->is_rest_posted = false;
    if (!live->front) {
        live_end(live);
        return;
    }
    answer_asked(live);
    send_all(live);
    set_open(live);
}

struct monitor_live *monitor_live_new(struct http_front *front)
{
    enum { TEXT_BYTES_MAX = 1024 * 1024 };
    struct monitor_live *live = calloc(1, sizeof *live);
    if (!live)
        return NULL;
    live->box.letter.run = on_sample;
    live->rest.run = on_rest;
    live->front = front;
    list_init(&live->viewers);
    buffer_init(&live->overview, TEXT_BYTES_MAX);
    buffer_init(&live->status, TEXT_BYTES_MAX);
    buffer_init(&live->text, TEXT_BYTES_MAX);
    monitor_front_of(front)->samples = &live->box;
    return live;
}

/* Frees it, or leaves that to a letter that is still in transit. */
void monitor_live_free(struct monitor_live *live)
{
    if (!live)
        return;
    assert(list_is_empty(&live->viewers));
    live->front = NULL;
    live->is_box_posted = atomic_load(&live->box.next) != NULL;
    live_end(live);
}

/* ---- calls ---- */

static bool must_look(struct http_call *call)
{
    if (monitor_sampler_of(call->front->shared))
        return true;
    http_answer_problem(call->exchange, PROBLEM_NOT_READY, 0,
                        "this server keeps no live figures: use /metrics");
    return false;
}

static void get_status(struct http_call *call)
{
    struct monitor_live *live = monitor_front_of(call->front)->live;
    struct asked asked = {.tag = http_exchange_tag(call->exchange)};
    if (!must_look(call))
        return;
    http_gate_keep(call->exchange, call->caller);
    if (!asked_list_reserve(&live->asked, live->asked.count + 1)) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    atomic_store_explicit(&live->box.is_open, true, memory_order_release);
    asked.serial = monitor_sampler_want(monitor_sampler_of(call->front->shared));
    (void)asked_list_add(&live->asked, asked);
}

/* Reads the requested view and checks the caller's rights. On false, *fault gives the reason. */
static bool read_view(struct http_call *call, struct viewer *viewer, struct http_fault *fault)
{
    const struct http_query *query = call->query;
    const struct http_fields *fields = &query->fields;
    struct slice topic = query->topic_count ? query->topics[0] : (struct slice){0};
    viewer->view = http_fields_have(fields, OPTION_VIEW) ? fields->view : HTTP_LIVE_OVERVIEW;
    if (viewer->view != HTTP_LIVE_TOPIC && query->topic_count)
        return http_fault_set(fault, PROBLEM_OPTION_CLASH, 0,
                              "'topic' requires view=topic: give that, or leave 'topic' out");
    if (viewer->view == HTTP_LIVE_TOPIC && query->topic_count != 1)
        return http_fault_set(fault, PROBLEM_OPTION_MISSING, 0,
                              "'topic' must be given once with view=topic, as in "
                              "/v1/live?view=topic&topic=mail");
    if (viewer->view == HTTP_LIVE_TOPIC && !job_topic_is_valid(topic))
        return http_fault_set(fault, PROBLEM_BAD_OPTION, 0,
                              "'topic' is '%s' but must be a topic's "
                              "name",
                              http_quotable(topic, 60));
    viewer->topic_len = topic.len;
    if (topic.len)
        memcpy(viewer->topic, topic.at, topic.len);
    return viewer->view == HTTP_LIVE_OVERVIEW ||
           http_gate_allows(call->front, call->caller, call->exchange->route, topic, fault);
}

static void on_viewer_gone(void *ctx)
{
    struct viewer *viewer = ctx;
    list_remove(&viewer->node);
    monitor_sampler_leave(monitor_sampler_of(viewer->live->front->shared));
    set_open(viewer->live);
    free(viewer);
}

/* Sends the history. It covers all topics, so only callers that may see all of them get it. */
static void send_history(struct viewer *viewer)
{
    struct monitor_live *live = viewer->live;
    struct monitor_history_point points[MONITOR_HISTORY_POINTS];
    size_t count = 0;
    if (http_stream_caller(viewer->stream)->has_all_topics)
        count = monitor_sampler_history(monitor_sampler_of(live->front->shared), points);
    buffer_clear(&live->text);
    monitor_history_write(&live->text, points, count);
    http_stream_send(viewer->stream, "history", buffer_slice(&live->text));
}

static void begin_viewing(struct viewer *viewer)
{
    struct monitor_live *live = viewer->live;
    list_add_last(live->viewers.next, &viewer->node); /* ahead of all others */
    atomic_store_explicit(&live->box.is_open, true, memory_order_release);
    monitor_sampler_listen(monitor_sampler_of(live->front->shared));
    if (viewer->view == HTTP_LIVE_OVERVIEW)
        send_history(viewer);
    /* The first snapshot is sent immediately: the one that other viewers have, or one made for
     * it. */
    if (live->last && live->last->is_whole &&
        http_front_now_ms(live->front) - live->last->inner_ms < RECENT_MS)
        post_rest(live);
    else
        (void)monitor_sampler_want(monitor_sampler_of(live->front->shared));
}

static void get_live(struct http_call *call)
{
    struct http_fault fault;
    if (!must_look(call))
        return;
    struct viewer *viewer = calloc(1, sizeof *viewer);
    if (!viewer) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    viewer->live = monitor_front_of(call->front)->live;
    viewer->tag = http_exchange_tag(call->exchange);
    list_init(&viewer->node);
    if (!read_view(call, viewer, &fault)) {
        http_answer_fault(call->exchange, &fault);
        free(viewer);
        return;
    }
    viewer->stream = http_stream_begin(call->exchange, call->caller, on_viewer_gone, viewer);
    if (viewer->stream)
        begin_viewing(viewer);
    else
        free(viewer);
}

const struct http_route monitor_live_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/live",
     .name = "live",
     .handle = get_live,
     .options = OPTION_BIT(OPTION_VIEW) | OPTION_BIT(OPTION_TOPIC),
     .answer = HTTP_ANSWER_STREAM,
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN},
    {.method = HTTP_METHOD_GET,
     .pattern = "/v1/status",
     .name = "status",
     .handle = get_status,
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN},
    {0},
};
