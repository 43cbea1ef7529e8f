/* /metrics: sums over the fronts of all reactors, and the topics' figures. */
#include "audit/audit.h"
#include "base/heap.h"
#include "base/prometheus.h"
#include "http/exchange.h"

#include <stdlib.h>

struct sums {
    uint64_t requests[HTTP_ROUTES_MAX][6];
    uint64_t denied[HTTP_DENIALS];
    uint64_t accepted, refused, bytes_in, bytes_out, connections, waiting;
    struct {
        const char *name;
        uint64_t accepted, ungreeted;
    } listeners[LISTENERS_MAX];
    uint32_t listener_count;
    struct histogram lateness, durations;
};

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_front(struct sums *sums, struct http_front *front)
{
    const struct http_counters *counters = &front->counters;
    for (size_t route = 0; route < HTTP_ROUTES_MAX; route++)
        for (size_t hundred = 0; hundred < 6; hundred++)
            sums->requests[route][hundred] += read_counter(&counters->requests[route][hundred]);
    for (size_t i = 0; i < HTTP_DENIALS; i++)
        sums->denied[i] += read_counter(&counters->denied[i]);
    sums->accepted += read_counter(&counters->accepted);
    sums->refused += read_counter(&counters->refused);
    sums->bytes_in += read_counter(&counters->bytes_in);
    sums->bytes_out += read_counter(&counters->bytes_out);
    sums->connections += read_counter(&counters->connections);
    sums->waiting += read_counter(&counters->waiting);
    sums->listener_count = front->listener_count; /* each front has all of them */
    for (uint32_t i = 0; i < front->listener_count; i++) {
        sums->listeners[i].name = front->listeners[i].about->name;
        sums->listeners[i].accepted += read_counter(&front->listeners[i].accepted);
        sums->listeners[i].ungreeted += read_counter(&front->listeners[i].ungreeted);
    }
    pthread_mutex_lock(&front->lock);
    histogram_merge(&sums->lateness, &front->lateness);
    histogram_merge(&sums->durations, &front->durations);
    pthread_mutex_unlock(&front->lock);
}

static void add_fronts(struct sums *sums, struct http_shared *shared)
{
    pthread_mutex_lock(&shared->lock);
    for (uint32_t i = 0; i < shared->front_count; i++)
        add_front(sums, shared->fronts[i]);
    pthread_mutex_unlock(&shared->lock);
}

static void write_one(struct buffer *out, const char *name, enum prometheus_type type,
                      const char *help, uint64_t value)
{
    prometheus_family(out, name, type, help);
    prometheus_sample(out, name, NULL, (int64_t)value);
}

/* Calls of several routes under one name (push, take) are one line. */
static uint64_t requests_of(const struct sums *sums, const struct http_shared *shared,
                            const char *name, size_t hundred)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < shared->route_count; i++)
        if (strcmp(shared->routes[i].name, name) == 0)
            sum += sums->requests[i][hundred];
    return sum;
}

static bool is_first_of_its_name(const struct http_shared *shared, uint32_t index)
{
    uint32_t i = 0;
    while (strcmp(shared->routes[i].name, shared->routes[index].name) != 0)
        i++;
    return i == index;
}

static void write_requests(struct buffer *out, const struct sums *sums,
                           const struct http_shared *shared)
{
    static const char *const classes[] = {NULL, NULL, "2xx", NULL, "4xx", "5xx"};
    static const char name[] = "tarry_http_requests_total";
    prometheus_family(out, name, PROMETHEUS_COUNTER,
                      "Requests answered, by call and class of status.");
    for (uint32_t i = 0; i < shared->route_count; i++)
        for (size_t hundred = 2; hundred < 6 && is_first_of_its_name(shared, i); hundred++) {
            const char *call = shared->routes[i].name;
            uint64_t count = requests_of(sums, shared, call, hundred);
            if (!classes[hundred] || (!count && hundred != 2))
                continue;
            prometheus_sample(out, name,
                              (const struct prometheus_label[]){
                                  {.key = "call", .value = slice_of(call)},
                                  {.key = "status", .value = slice_of(classes[hundred])},
                                  {.key = NULL}},
                              (int64_t)count);
        }
    for (size_t hundred = 4; hundred < 6; hundred++)
        prometheus_sample(out, name,
                          (const struct prometheus_label[]){
                              {.key = "call", .value = slice_of("none")},
                              {.key = "status", .value = slice_of(classes[hundred])},
                              {.key = NULL}},
                          (int64_t)sums->requests[HTTP_ROUTES_MAX - 1][hundred]);
}

static void write_listener(struct buffer *out, const char *family, const char *listener,
                           uint64_t value)
{
    prometheus_sample(out, family,
                      (const struct prometheus_label[]){
                          {.key = "listener", .value = slice_of(listener)}, {.key = NULL}},
                      (int64_t)value);
}

static void write_listeners(struct buffer *out, const struct sums *sums)
{
    static const char accepted[] = "tarry_http_listener_connections_total";
    static const char ungreeted[] = "tarry_http_listener_failures_total";
    prometheus_family(out, accepted, PROMETHEUS_COUNTER, "Connections let in, by listener.");
    for (uint32_t i = 0; i < sums->listener_count; i++)
        write_listener(out, accepted, sums->listeners[i].name, sums->listeners[i].accepted);
    prometheus_family(out, ungreeted, PROMETHEUS_COUNTER,
                      "Connections closed before their first request, by listener: they lacked "
                      "the header of a proxy, or their TLS handshake was not finished.");
    for (uint32_t i = 0; i < sums->listener_count; i++)
        write_listener(out, ungreeted, sums->listeners[i].name, sums->listeners[i].ungreeted);
}

static void write_denials(struct buffer *out, const struct sums *sums)
{
    static const char name[] = "tarry_access_denied_total";
    static const char *const reasons[] = {
        [HTTP_DENIED_SCOPE] = "scope",
        [HTTP_DENIED_TOPIC] = "topic",
    };
    prometheus_family(
        out, name, PROMETHEUS_COUNTER,
        "Requests, and items of batches, that callers may not make, by what they lack.");
    for (size_t i = 0; i < HTTP_DENIALS; i++)
        prometheus_sample(out, name,
                          (const struct prometheus_label[]){
                              {.key = "reason", .value = slice_of(reasons[i])}, {.key = NULL}},
                          (int64_t)sums->denied[i]);
}

static void write_front_metrics(struct buffer *out, struct http_shared *shared)
{
    static const uint32_t late_ms[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 60000};
    static const uint32_t took_ms[] = {1, 2, 5, 10, 20, 50, 100, 500, 1000};
    static _Thread_local struct sums sums;
    sums = (struct sums){0};
    add_fronts(&sums, shared);

    write_requests(out, &sums, shared);
    prometheus_family(out, "tarry_http_request_seconds", PROMETHEUS_HISTOGRAM,
                      "From a request read to its answer, without takes that may wait.");
    prometheus_histogram(out, "tarry_http_request_seconds", NULL, &sums.durations, 1000, took_ms,
                         sizeof took_ms / sizeof took_ms[0]);
    prometheus_family(out, "tarry_lateness_seconds", PROMETHEUS_HISTOGRAM,
                      "From a job's due to its being handed out, first attempts.");
    prometheus_histogram(out, "tarry_lateness_seconds", NULL, &sums.lateness, 1000, late_ms,
                         sizeof late_ms / sizeof late_ms[0]);
    write_one(out, "tarry_http_connections", PROMETHEUS_GAUGE, "Open connections.",
              sums.connections);
    write_one(out, "tarry_http_connections_total", PROMETHEUS_COUNTER, "Connections let in.",
              sums.accepted);
    write_one(out, "tarry_http_connections_refused_total", PROMETHEUS_COUNTER,
              "Connections refused because there were too many.", sums.refused);
    write_listeners(out, &sums);
    write_one(out, "tarry_waiting_takes", PROMETHEUS_GAUGE, "Takes that wait for a job.",
              sums.waiting);
    write_one(out, "tarry_http_memory_bytes", PROMETHEUS_GAUGE,
              "What requests, answers and waiting takes hold now.", http_budget_used(shared));
    write_one(out, "tarry_http_memory_max_bytes", PROMETHEUS_GAUGE,
              "What they may hold (--max-request-memory).", shared->memory_bytes_max);
    write_one(out, "tarry_http_memory_refused_total", PROMETHEUS_COUNTER,
              "Requests refused because they would have held more.",
              read_counter(&shared->memory_refused));
    write_one(out, "tarry_memory_bytes", PROMETHEUS_GAUGE, "What the process uses and is its own.",
              read_counter(&shared->process_bytes));
    write_one(out, "tarry_memory_max_bytes", PROMETHEUS_GAUGE, "What it may use (--max-memory).",
              shared->process_bytes_max);
    write_one(out, "tarry_memory_spent", PROMETHEUS_GAUGE,
              "1 while pushes are refused for want of memory.",
              atomic_load_explicit(&shared->is_memory_spent, memory_order_relaxed));
    write_one(out, "tarry_http_received_bytes_total", PROMETHEUS_COUNTER, "Bytes received.",
              sums.bytes_in);
    write_one(out, "tarry_http_sent_bytes_total", PROMETHEUS_COUNTER, "Bytes sent.",
              sums.bytes_out);
    write_denials(out, &sums);
    write_one(out, "tarry_audit_events_total", PROMETHEUS_COUNTER,
              "Administrative changes, and what the audit tells of beside them.", audit_events());
    write_one(out, "tarry_audit_failures_total", PROMETHEUS_COUNTER,
              "Events that the audit file does not have: it could not be written.",
              audit_failures());
    prometheus_family(out, "process_start_time_seconds", PROMETHEUS_GAUGE,
                      "When the process started, in seconds since 1970.");
    prometheus_sample_seconds(out, "process_start_time_seconds", NULL, shared->started_ms);
    prometheus_family(out, "tarry_info", PROMETHEUS_GAUGE, "The version, as a label.");
    prometheus_sample(out, "tarry_info",
                      (const struct prometheus_label[]){
                          {.key = "version", .value = slice_of(shared->version)}, {.key = NULL}},
                      1);
}

/* ---- topics ---- */

static const struct total {
    const char *name, *help;
    size_t offset;
} totals[] = {
#define TOTAL(FIELD, HELP)                                                                         \
    {                                                                                              \
        "tarry_jobs_" #FIELD "_total", HELP, offsetof(struct topic_totals, FIELD)                  \
    }
    TOTAL(pushed, "Jobs pushed."),
    TOTAL(acked, "Jobs acked."),
    TOTAL(cancelled, "Jobs cancelled."),
    TOTAL(expired, "Jobs whose ttl passed while they were ready."),
    TOTAL(replaced, "Jobs replaced by a push with the same id."),
    TOTAL(delivered, "Deliveries: jobs handed out under a lease."),
    TOTAL(nacked, "Deliveries answered with a nack."),
    TOTAL(lease_ended, "Deliveries whose lease ended unanswered."),
    TOTAL(died, "Jobs that used up their attempts."),
    TOTAL(redriven, "Dead jobs sent round again."),
#undef TOTAL
};

static const struct state {
    const char *name;
    size_t offset;
} states[] = {
    {"delayed", offsetof(struct queue_counts, delayed)},
    {"retrying", offsetof(struct queue_counts, retrying)},
    {"ready", offsetof(struct queue_counts, ready)},
    {"leased", offsetof(struct queue_counts, leased)},
    {"dead", offsetof(struct queue_counts, dead)},
};

static int64_t number_at(const void *base, size_t offset)
{
    return (int64_t) * (const uint64_t *)(const void *)((const char *)base + offset);
}

/* ---- which topics have lines of their own ---- */

/* Label of the line for all topics without one of their own: no topic can have this name. */
#define OTHERS "(others)"

static uint64_t jobs_of(const struct queue_topic *topic)
{
    uint64_t sum = 0;
    for (size_t s = 0; s < sizeof states / sizeof states[0]; s++)
        sum += (uint64_t)number_at(&topic->counts, states[s].offset);
    return sum;
}

/* Whether the first one goes before the other is dropped: more jobs, then more pushed, then by
 * name. */
static bool is_larger(const struct queue_topic *one, const struct queue_topic *other)
{
    uint64_t jobs = jobs_of(one), others = jobs_of(other);
    if (jobs != others)
        return jobs > others;
    if (one->totals.pushed != other->totals.pushed)
        return one->totals.pushed > other->totals.pushed;
    return slice_compare(one->name, other->name) < 0;
}

static inline bool is_dropped_before(const struct queue_topic *const *one,
                                     const struct queue_topic *const *other)
{
    return is_larger(*other, *one);
}
HEAP_DECLARE(largest_topics, const struct queue_topic *, is_dropped_before, heap_place_unused)

static int by_place(const void *a, const void *b)
{
    const struct queue_topic *one = *(const struct queue_topic *const *)a,
                             *other = *(const struct queue_topic *const *)b;
    return (one > other) - (one < other);
}

static void add_to_others(struct queue_topic *others, const struct queue_topic *topic)
{
    uint64_t *sums = (uint64_t *)(void *)&others->totals;
    const uint64_t *own = (const uint64_t *)(const void *)&topic->totals;
    for (size_t i = 0; i < sizeof others->totals / sizeof *sums; i++)
        sums[i] += own[i];
    sums = (uint64_t *)(void *)&others->counts;
    own = (const uint64_t *)(const void *)&topic->counts;
    for (size_t i = 0; i < sizeof others->counts / sizeof *sums; i++)
        sums[i] += own[i];
    others->paused |= topic->paused;
}

/* The `most` largest in their order, then the sum of the rest. Returns how many; own memory. */
static size_t largest(const struct queue_topic *topics, size_t count, size_t most,
                      struct queue_topic **out)
{
    struct largest_topics heap = {0}; /* the smallest at its root */
    struct queue_topic *shown = calloc(most + 1, sizeof *shown), others = {0};
    bool has_memory = shown && largest_topics_reserve(&heap, most);
    *out = shown;
    for (size_t i = 0; has_memory && i < count; i++) {
        if (heap.count < most) {
            (void)largest_topics_add(&heap, &topics[i]);
        } else if (is_larger(&topics[i], heap.at[0])) {
            add_to_others(&others, heap.at[0]);
            heap.at[0] = &topics[i];
            largest_topics_changed(&heap, 0);
        } else {
            add_to_others(&others, &topics[i]);
        }
    }
    size_t kept = heap.count;
    if (kept)
        qsort((void *)heap.at, kept, sizeof *heap.at, by_place);
    for (size_t i = 0; i < kept; i++)
        shown[i] = *heap.at[i];
    largest_topics_fini(&heap);
    others.name = slice_of(OTHERS);
    if (kept && kept < count)
        shown[kept++] = others;
    return kept;
}

static void write_topics(struct buffer *out, const struct queue_topic *topics, size_t count)
{
    prometheus_family(out, "tarry_jobs", PROMETHEUS_GAUGE, "Jobs in each state.");
    for (size_t i = 0; i < count; i++)
        for (size_t s = 0; s < sizeof states / sizeof states[0]; s++)
            prometheus_sample(out, "tarry_jobs",
                              (const struct prometheus_label[]){
                                  {.key = "topic", .value = topics[i].name},
                                  {.key = "state", .value = slice_of(states[s].name)},
                                  {.key = NULL}},
                              number_at(&topics[i].counts, states[s].offset));
    prometheus_family(out, "tarry_dead_bytes", PROMETHEUS_GAUGE,
                      "What dead jobs take in the store, about.");
    for (size_t i = 0; i < count; i++)
        prometheus_sample(out, "tarry_dead_bytes",
                          (const struct prometheus_label[]){
                              {.key = "topic", .value = topics[i].name}, {.key = NULL}},
                          (int64_t)topics[i].counts.dead_bytes);
    for (size_t t = 0; t < sizeof totals / sizeof totals[0]; t++) {
        prometheus_family(out, totals[t].name, PROMETHEUS_COUNTER, totals[t].help);
        for (size_t i = 0; i < count; i++)
            prometheus_sample(out, totals[t].name,
                              (const struct prometheus_label[]){
                                  {.key = "topic", .value = topics[i].name}, {.key = NULL}},
                              number_at(&topics[i].totals, totals[t].offset));
    }
    prometheus_family(out, "tarry_topic_paused", PROMETHEUS_GAUGE, "1 where delivery is paused.");
    for (size_t i = 0; i < count; i++)
        prometheus_sample(out, "tarry_topic_paused",
                          (const struct prometheus_label[]){
                              {.key = "topic", .value = topics[i].name}, {.key = NULL}},
                          topics[i].paused);
}

static void write_queue(struct buffer *out, struct queue *queue)
{
    struct queue_info info = {0};
    queue_info(queue, &info);
    write_one(out, "tarry_store_bytes", PROMETHEUS_GAUGE, "Bytes on disk.", info.bytes_on_disk);
    if (info.store && !strcmp(info.store, "embedded")) {
        write_one(out, "tarry_store_run_jobs", PROMETHEUS_GAUGE,
                  "Jobs that outlived the log: in runs on the disk.", info.cold_jobs);
        write_one(out, "tarry_store_runs", PROMETHEUS_GAUGE, "Files these jobs lie in.", info.runs);
        write_one(out, "tarry_store_checkpoints_total", PROMETHEUS_COUNTER,
                  "Times the log's oldest files were made unnecessary.", info.checkpoints);
        write_one(out, "tarry_store_checkpoints_failed_total", PROMETHEUS_COUNTER,
                  "Checkpoints given up, to be tried again.", info.checkpoints_failed);
    }
    write_one(out, "tarry_store_healthy", PROMETHEUS_GAUGE,
              "0 where the store has failed or cannot be reached.", info.healthy);
    write_one(out, "tarry_store_accepting", PROMETHEUS_GAUGE,
              "0 where pushes are refused for want of space.", info.accepting);
}

static void write_page(struct http_front *front, struct http_exchange *exchange,
                       const struct queue_topic *list, size_t count)
{
    struct buffer *body = http_answer_start(exchange);
    struct queue_topic *shown;
    size_t shown_count = largest(list, count, front->shared->metrics_topics, &shown);
    write_topics(body, shown, shown_count);
    free(shown);
    write_one(body, "tarry_topics", PROMETHEUS_GAUGE, "Topics there are.", count);
    if (!exchange->caller->has_all_topics) {
        http_answer_end(exchange, 200, PROMETHEUS_CONTENT_TYPE);
        return;
    }
    write_queue(body, front->queue);
    write_front_metrics(body, front->shared);
    if (front->shared->emit)
        front->shared->emit(front->shared->emit_ctx, body);
    http_answer_end(exchange, 200, PROMETHEUS_CONTENT_TYPE);
}

/* For one who may see some topics there are no others, and no sums of the server's as a whole. */
static void write_own_page(struct http_front *front, struct http_exchange *exchange,
                           const struct queue_topic *list, size_t count)
{
    struct queue_topic *own = calloc(count ? count : 1, sizeof *own);
    size_t own_count = 0;
    if (!own) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (access_may(exchange->caller, exchange->route->scope, list[i].name))
            own[own_count++] = list[i];
    write_page(front, exchange, own, own_count);
    free(own);
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_front *front = owner;
    struct http_exchange *exchange = http_exchange_find(front, tag);
    if (!exchange)
        return;
    /* A store that cannot be reached must not hide the rest. */
    size_t count = reply->status == QUEUE_OK ? reply->topic_count : 0;
    if (exchange->caller->has_all_topics)
        write_page(front, exchange, reply->topics, count);
    else
        write_own_page(front, exchange, reply->topics, count);
}

/* A store out of reach is not waited for: the page is wanted just then. */
static void get_metrics(struct http_call *call)
{
    struct http_front *front = call->front;
    struct queue_info info = {0};
    queue_info(front->queue, &info);
    http_gate_keep(call->exchange, call->caller);
    if (info.healthy)
        queue_topics(front->queue, http_reply_to(call, on_topics));
    else
        write_page(front, call->exchange, NULL, 0);
}

const struct http_route http_metrics_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/metrics",
     .name = "metrics",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN,
     .handle = get_metrics,
     .answer = HTTP_ANSWER_LONG},
    {0},
};
