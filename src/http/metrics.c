/*
 * /metrics. The page is put together over many turns of the loop, each of them short: the topics are
 * looked at page by page, and the text is written piece by piece into a buffer of its own.
 */
#include "audit/audit.h"
#include "base/feature.h"
#include "base/heap.h"
#include "base/metric.h"
#include "http/consumers.h"
#include "http/exchange.h"
#include "http/media.h"
#include "queue/lateness.h"

#include <stdlib.h>

enum {
    PAGE_TOPICS = 256,       /* are looked at in one turn */
    PAGE_TOPICS_AWAY = 1000, /* the same where each page is a call to another process */
    STEP_US = 500            /* writing takes so long in one turn, and then what is begun */
};

enum {
    JOBS,
    DEAD_BYTES,
    PAUSED,
    OLDEST_READY,
    PUSHED,
    ACKED,
    CANCELLED,
    EXPIRED,
    REPLACED,
    DELIVERED,
    NACKED,
    LEASE_ENDED,
    DIED,
    REDRIVEN,
    TOPICS,
    TOPIC_METRICS = TOPICS /* those before it are by topic */
};

enum {
    REQUESTS,
    DURATION,
    CONNECTIONS,
    ACCEPTED,
    REFUSED,
    FAILED,
    RECEIVED,
    SENT,
    REQUEST_MEMORY,
    REQUEST_MEMORY_MAX,
    MEMORY_REFUSED,
    WAITING_TAKES,
    STREAMS,
    STREAM_EVENTS_LOST,
    DENIED
};

enum {
    STORE_INFO,
    STORE_HEALTHY,
    STORE_ACCEPTING,
    DISK_USED,
    RUN_JOBS,
    RUNS,
    CHECKPOINTS,
    CHECKPOINT_FAILURES
};

enum { BUILD, STARTED, MEMORY, MEMORY_MAX, MEMORY_SPENT };

/* ---- which topics have samples of their own ---- */

struct shown_topic {
    struct queue_counts counts;
    struct topic_totals totals;
    int64_t oldest_ready_due_ms;
    uint64_t jobs;
    bool paused;
    uint8_t name_bytes;
    char name[JOB_TOPIC_BYTES_MAX];
};

static struct slice name_of(const struct shown_topic *topic)
{
    return slice_make(topic->name, topic->name_bytes);
}

/* Whether the first one goes before the other is dropped: more jobs, then more pushed, then by
 * name. */
static bool is_larger(const struct shown_topic *one, const struct shown_topic *other)
{
    if (one->jobs != other->jobs)
        return one->jobs > other->jobs;
    if (one->totals.pushed != other->totals.pushed)
        return one->totals.pushed > other->totals.pushed;
    return slice_compare(name_of(one), name_of(other)) < 0;
}

static inline bool is_dropped_before(struct shown_topic *const *one,
                                     struct shown_topic *const *other)
{
    return is_larger(*other, *one);
}
HEAP_DECLARE(largest_topics, struct shown_topic *, is_dropped_before, heap_place_unused)

static int by_name(const void *a, const void *b)
{
    return slice_compare(name_of(*(struct shown_topic *const *)a),
                         name_of(*(struct shown_topic *const *)b));
}

static void show_topic(struct shown_topic *shown, const struct queue_topic *topic)
{
    shown->counts = topic->counts;
    shown->totals = topic->totals;
    shown->oldest_ready_due_ms = topic->oldest_ready_due_ms;
    shown->jobs = topic->counts.delayed + topic->counts.retrying + topic->counts.ready +
                  topic->counts.leased + topic->counts.dead;
    shown->paused = topic->paused;
    shown->name_bytes = (uint8_t)topic->name.len;
    memcpy(shown->name, topic->name.at, topic->name.len);
}

static void add_to_others(struct shown_topic *others, const struct shown_topic *topic)
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
    if (topic->oldest_ready_due_ms &&
        (!others->oldest_ready_due_ms || topic->oldest_ready_due_ms < others->oldest_ready_due_ms))
        others->oldest_ready_due_ms = topic->oldest_ready_due_ms;
}

/* ---- one page on its way ---- */

struct sums {
    uint64_t requests[HTTP_ROUTES_MAX][HTTP_STATUSES];
    struct buckets durations[HTTP_ROUTES_MAX][HTTP_CLASSES];
    uint64_t denied[HTTP_DENIALS];
    uint64_t refused, bytes_in, bytes_out, connections, waiting, streams, events_lost;
    struct {
        const char *name;
        uint64_t accepted, ungreeted;
    } listeners[LISTENERS_MAX];
    uint32_t listener_count;
};

/* A step writes some of its part; true: the part is over. */
struct scrape;
typedef bool scrape_step(struct scrape *scrape, struct metric_page *page);

struct scrape {
    struct list list; /* in front->scrapes */
    struct turn_end_call next;
    struct http_front *front;
    uint64_t tag; /* of the exchange */
    struct buffer out;
    struct metric_page page;
    size_t bytes_counted; /* of `out`, in the budget */

    bool knows_topics;
    uint32_t page_topics;
    uint64_t topic_count;
    struct largest_topics largest; /* the smallest at its root; in the end by name */
    struct shown_topic others, *spare;
    bool has_others;
    int64_t now_ms;
    char after[JOB_TOPIC_BYTES_MAX];
    size_t after_bytes;

    scrape_step *const *step;
    uint32_t at; /* within the step */
    struct sums sums;
};

static void scrape_count_bytes(struct scrape *scrape)
{
    http_budget_add(scrape->front, scrape->out.cap - scrape->bytes_counted);
    scrape->bytes_counted = scrape->out.cap;
}

/* A part of them is worse than none. */
static void scrape_drop_topics(struct scrape *scrape)
{
    for (size_t i = 0; i < scrape->largest.count; i++)
        free(scrape->largest.at[i]);
    scrape->largest.count = 0;
    scrape->has_others = false;
}

static void scrape_free(struct scrape *scrape)
{
    list_remove(&scrape->list);
    reactor_cancel_at_turn_end(&scrape->next);
    http_budget_remove(scrape->front, scrape->bytes_counted);
    buffer_fini(&scrape->out);
    scrape_drop_topics(scrape);
    largest_topics_fini(&scrape->largest);
    free(scrape->spare);
    free(scrape);
}

void http_metrics_end(struct http_front *front)
{
    while (!list_is_empty(&front->scrapes))
        scrape_free(list_entry(front->scrapes.next, struct scrape, list));
}

/* ---- topics, page by page ---- */

/* False: out of memory. */
static bool scrape_add_topic(struct scrape *scrape, const struct queue_topic *topic)
{
    struct largest_topics *largest = &scrape->largest;
    struct shown_topic *shown = scrape->spare ? scrape->spare : malloc(sizeof *shown);
    scrape->spare = NULL;
    if (!shown)
        return false;
    show_topic(shown, topic);
    scrape->topic_count++;
    if (largest->count < scrape->page.topics_max) {
        if (largest_topics_add(largest, shown))
            return true;
        free(shown);
        return false;
    }
    if (largest->count && is_larger(shown, largest->at[0])) {
        struct shown_topic *dropped = largest->at[0];
        largest->at[0] = shown;
        largest_topics_changed(largest, 0);
        shown = dropped;
    }
    scrape->has_others = true;
    add_to_others(&scrape->others, shown);
    scrape->spare = shown;
    return true;
}

static void scrape_fail(struct scrape *scrape, struct http_exchange *exchange)
{
    http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    scrape_free(scrape);
}

/* The rest is left to the turns that come. */
static void scrape_in_next_turn(struct scrape *scrape, void (*run)(struct turn_end_call *call))
{
    scrape->next.run = run;
    reactor_once_at_turn_end(scrape->front->reactor, &scrape->next);
}

static void run_ask(struct turn_end_call *call);
static void run_write(struct turn_end_call *call);

static void scrape_sort(struct scrape *scrape)
{
    if (scrape->largest.count)
        qsort((void *)scrape->largest.at, scrape->largest.count, sizeof *scrape->largest.at,
              by_name);
}

/* The exchange where somebody still waits for the page; else NULL, and the scrape is over. */
static struct http_exchange *scrape_exchange(struct scrape *scrape)
{
    struct http_exchange *exchange = http_exchange_find(scrape->front, scrape->tag);
    if (exchange && exchange->connection)
        return exchange;
    if (exchange)
        http_answer_problem(exchange, PROBLEM_CONNECTION_ENDED, 0, "the client is gone");
    scrape_free(scrape);
    return NULL;
}

/* A store that cannot be reached must not hide the rest. */
static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct scrape *scrape = owner;
    struct http_exchange *exchange = scrape_exchange(scrape);
    (void)tag;
    if (!exchange)
        return;
    bool is_good = reply->status == QUEUE_OK;
    struct slice after = slice_make(scrape->after, scrape->after_bytes);
    size_t from =
        is_good && after.len ? queue_topics_after(reply->topics, reply->topic_count, after) : 0;
    size_t left = is_good ? reply->topic_count - from : 0;
    size_t count = left < scrape->page_topics ? left : scrape->page_topics;
    const struct queue_topic *topics = reply->topics + from;
    for (size_t i = 0; i < count; i++)
        if (access_may(exchange->caller, exchange->route->scope, topics[i].name) &&
            !scrape_add_topic(scrape, &topics[i])) {
            scrape_fail(scrape, exchange);
            return;
        }
    if (left > count) {
        struct slice last = topics[count - 1].name;
        memcpy(scrape->after, last.at, last.len);
        scrape->after_bytes = last.len;
        scrape_in_next_turn(scrape, run_ask);
        return;
    }
    scrape->knows_topics = is_good;
    if (!is_good)
        scrape_drop_topics(scrape);
    scrape_sort(scrape);
    scrape_in_next_turn(scrape, run_write);
}

/* One more than is looked at tells that there are more; of how many others are told nobody knows. */
static void scrape_ask(struct scrape *scrape)
{
    const struct queue_topics_page page = {.after = slice_make(scrape->after, scrape->after_bytes),
                                           .limit = scrape->page_topics + 1};
    queue_topics_page(scrape->front->queue, page,
                      (struct queue_reply_to){.done = on_topics, .owner = scrape});
}

static void run_ask(struct turn_end_call *call)
{
    struct scrape *scrape = list_entry(call, struct scrape, next);
    struct reactor *reactor = scrape->front->reactor;
    if (!scrape_exchange(scrape))
        return;
    scrape_ask(scrape);
    reactor_turn_again(reactor); /* the store may have had its call in this turn already */
}

/* ---- what is written of topics ---- */

static const size_t totals[TOPIC_METRICS] = {
    [PUSHED] = offsetof(struct topic_totals, pushed),
    [ACKED] = offsetof(struct topic_totals, acked),
    [CANCELLED] = offsetof(struct topic_totals, cancelled),
    [EXPIRED] = offsetof(struct topic_totals, expired),
    [REPLACED] = offsetof(struct topic_totals, replaced),
    [DELIVERED] = offsetof(struct topic_totals, delivered),
    [NACKED] = offsetof(struct topic_totals, nacked),
    [LEASE_ENDED] = offsetof(struct topic_totals, lease_ended),
    [DIED] = offsetof(struct topic_totals, died),
    [REDRIVEN] = offsetof(struct topic_totals, redriven),
};

static void write_states(struct metric_page *page, struct slice name,
                         const struct queue_counts *counts)
{
    metric_sample(page, METRIC_LABELS(name, slice_of("delayed")), counts->delayed);
    metric_sample(page, METRIC_LABELS(name, slice_of("retrying")), counts->retrying);
    metric_sample(page, METRIC_LABELS(name, slice_of("ready")), counts->ready);
    metric_sample(page, METRIC_LABELS(name, slice_of("leased")), counts->leased);
    metric_sample(page, METRIC_LABELS(name, slice_of("dead")), counts->dead);
}

static void write_topic(struct metric_page *page, uint32_t which, struct slice name,
                        const struct shown_topic *topic, int64_t now_ms)
{
    int64_t age_ms = topic->oldest_ready_due_ms ? now_ms - topic->oldest_ready_due_ms : 0;
    switch (which) {
    case JOBS:
        write_states(page, name, &topic->counts);
        return;
    case DEAD_BYTES:
        metric_sample(page, METRIC_LABELS(name), topic->counts.dead_bytes);
        return;
    case PAUSED:
        metric_sample(page, METRIC_LABELS(name), topic->paused);
        return;
    case OLDEST_READY:
        metric_sample_time(page, METRIC_LABELS(name), age_ms > 0 ? age_ms : 0, 1000);
        return;
    default:
        metric_sample(
            page, METRIC_LABELS(name),
            *(const uint64_t *)(const void *)((const char *)&topic->totals + totals[which]));
    }
}

/* A sample or five. */
static bool step_topics(struct scrape *scrape, struct metric_page *page)
{
    uint32_t rows = (uint32_t)scrape->largest.count + 1, which = scrape->at / rows;
    uint32_t row = scrape->at % rows;
    if (row == 0)
        metric_begin(page, &http_topic_metrics[which]);
    if (row + 1 < rows)
        write_topic(page, which, name_of(scrape->largest.at[row]), scrape->largest.at[row],
                    scrape->now_ms);
    else if (scrape->has_others)
        write_topic(page, which, slice_of(METRIC_OTHERS), &scrape->others, scrape->now_ms);
    if (++scrape->at < TOPIC_METRICS * rows)
        return false;
    if (scrape->knows_topics)
        metric_write(page, &http_topic_metrics[TOPICS], scrape->topic_count);
    return true;
}

/* Whose topics the caller may see. */
static bool shows_topic(void *ctx, struct slice topic)
{
    const struct http_exchange *exchange = ctx;
    return access_may(exchange->caller, exchange->route->scope, topic);
}

static bool step_lateness(struct scrape *scrape, struct metric_page *page)
{
    struct http_exchange *exchange = http_exchange_find(scrape->front, scrape->tag);
    struct lateness *lateness = scrape->front->shared->lateness;
    bool sees_all = exchange->caller->has_all_topics;
    return !lateness ||
           lateness_emit_some(lateness, page, &scrape->at, sees_all ? NULL : shows_topic, exchange);
}

static bool step_consumers(struct scrape *scrape, struct metric_page *page)
{
    struct http_exchange *exchange = http_exchange_find(scrape->front, scrape->tag);
    http_consumers_emit(scrape->front->shared->consumers, page, clock_wall_ms(),
                        exchange->caller->has_all_topics ? NULL : shows_topic, exchange);
    return true;
}

/* ---- what is written of the store ---- */

static bool is_embedded(const struct queue_info *info)
{
    return info->store && strcmp(info->store, "embedded") == 0;
}

static bool step_store(struct scrape *scrape, struct metric_page *page)
{
    struct queue_info info = {0};
    queue_info(scrape->front->queue, &info);
    const char *class = info.durability_class ? info.durability_class : "none";
    metric_begin(page, &http_store_metrics[STORE_INFO]);
    metric_sample(page,
                  METRIC_LABELS(slice_of(info.store ? info.store : "none"), slice_of(class),
                                slice_of(info.sync ? info.sync : "none")),
                  1);
    metric_write(page, &http_store_metrics[STORE_HEALTHY], info.healthy);
    metric_write(page, &http_store_metrics[STORE_ACCEPTING], info.accepting);
    metric_write(page, &http_store_metrics[DISK_USED], info.bytes_on_disk);
    if (!is_embedded(&info))
        return true;
    metric_write(page, &http_store_metrics[RUN_JOBS], info.cold_jobs);
    metric_write(page, &http_store_metrics[RUNS], info.runs);
    metric_write(page, &http_store_metrics[CHECKPOINTS], info.checkpoints);
    metric_write(page, &http_store_metrics[CHECKPOINT_FAILURES], info.checkpoints_failed);
    return true;
}

/* ---- what is written of the fronts ---- */

static void add_front(struct sums *sums, struct http_front *front)
{
    const struct http_counters *counters = &front->counters;
    for (size_t route = 0; route < HTTP_ROUTES_MAX; route++) {
        for (size_t status = 0; status < HTTP_STATUSES; status++)
            sums->requests[route][status] += counter_get(&counters->requests[route][status]);
        for (size_t class = 0; class < HTTP_CLASSES; class ++)
            buckets_merge(&sums->durations[route][class], &counters->durations[route][class]);
    }
    for (size_t i = 0; i < HTTP_DENIALS; i++)
        sums->denied[i] += counter_get(&counters->denied[i]);
    sums->refused += counter_get(&counters->refused);
    sums->bytes_in += counter_get(&counters->bytes_in);
    sums->bytes_out += counter_get(&counters->bytes_out);
    sums->connections += counter_get(&counters->connections);
    sums->waiting += counter_get(&counters->waiting);
    sums->streams += counter_get(&counters->streams);
    sums->events_lost += counter_get(&counters->events_lost);
    sums->listener_count = front->listener_count; /* each front has all of them */
    for (uint32_t i = 0; i < front->listener_count; i++) {
        sums->listeners[i].name = front->listeners[i].about->name;
        sums->listeners[i].accepted += counter_get(&front->listeners[i].accepted);
        sums->listeners[i].ungreeted += counter_get(&front->listeners[i].ungreeted);
    }
}

/* A front a step. */
static bool step_sums(struct scrape *scrape, struct metric_page *page)
{
    struct http_shared *shared = scrape->front->shared;
    (void)page;
    pthread_mutex_lock(&shared->lock);
    bool is_front = scrape->at < shared->front_count;
    if (is_front)
        add_front(&scrape->sums, shared->fronts[scrape->at++]);
    pthread_mutex_unlock(&shared->lock);
    return !is_front;
}

static bool is_first_of_its_name(const struct http_shared *shared, uint32_t index)
{
    uint32_t i = 0;
    while (strcmp(shared->routes[i].name, shared->routes[index].name) != 0)
        i++;
    return i == index;
}

/* The next route from `*at` on that is the first of its name, behind all of them the place of
 * requests without one. False: there is none left. */
static bool next_route(const struct http_shared *shared, uint32_t *at, const char **name)
{
    while (*at < shared->route_count && !is_first_of_its_name(shared, *at))
        ++*at;
    if (*at >= HTTP_ROUTES_MAX)
        return false;
    if (*at >= shared->route_count)
        *at = HTTP_ROUTES_MAX - 1;
    *name = *at < shared->route_count ? shared->routes[*at].name : "none";
    return true;
}

/* Calls of several routes under one name (push, take) are one. */
static bool is_of(const struct http_shared *shared, uint32_t index, uint32_t first)
{
    return index == first || (index < shared->route_count && first < shared->route_count &&
                              strcmp(shared->routes[index].name, shared->routes[first].name) == 0);
}

static void write_route_requests(struct scrape *scrape, struct metric_page *page, uint32_t first,
                                 const char *name)
{
    const struct http_shared *shared = scrape->front->shared;
    for (size_t status = 0; status < HTTP_STATUSES; status++) {
        uint64_t sum = 0;
        for (uint32_t i = first; i < HTTP_ROUTES_MAX; i++)
            if (is_of(shared, i, first))
                sum += scrape->sums.requests[i][status];
        if (!sum && http_status_at(status) != 200) /* a call that never came is 0, not unknown */
            continue;
        char code[4] = {0};
        uint16_t number = http_status_at(status);
        code[0] = (char)('0' + number / 100);
        code[1] = (char)('0' + number / 10 % 10);
        code[2] = (char)('0' + number % 10);
        metric_sample(page, METRIC_LABELS(slice_of(name), slice_make(code, 3)), sum);
    }
}

static void write_route_durations(struct scrape *scrape, struct metric_page *page, uint32_t first,
                                  const char *name)
{
    static const char *const classes[HTTP_CLASSES] = {"2xx", "3xx", "4xx", "5xx"};
    const struct http_shared *shared = scrape->front->shared;
    for (size_t class = 0; class < HTTP_CLASSES; class ++) {
        struct buckets sum = {0};
        for (uint32_t i = first; i < HTTP_ROUTES_MAX; i++)
            if (is_of(shared, i, first))
                buckets_merge(&sum, &scrape->sums.durations[i][class]);
        if (buckets_total(&sum))
            metric_histogram(page, METRIC_LABELS(slice_of(name), slice_of(classes[class])), &sum,
                             &http_duration_bounds);
    }
}

/* A route a step. */
static bool step_requests(struct scrape *scrape, struct metric_page *page)
{
    const char *name;
    if (scrape->at == 0)
        metric_begin(page, &http_metrics[REQUESTS]);
    if (!next_route(scrape->front->shared, &scrape->at, &name))
        return true;
    write_route_requests(scrape, page, scrape->at++, name);
    return false;
}

static bool step_durations(struct scrape *scrape, struct metric_page *page)
{
    const char *name;
    if (scrape->at == 0)
        metric_begin(page, &http_metrics[DURATION]);
    if (!next_route(scrape->front->shared, &scrape->at, &name))
        return true;
    write_route_durations(scrape, page, scrape->at++, name);
    return false;
}

static void write_listeners(struct metric_page *page, const struct sums *sums)
{
    metric_begin(page, &http_metrics[ACCEPTED]);
    for (uint32_t i = 0; i < sums->listener_count; i++)
        metric_sample(page, METRIC_LABELS(slice_of(sums->listeners[i].name)),
                      sums->listeners[i].accepted);
    metric_begin(page, &http_metrics[FAILED]);
    for (uint32_t i = 0; i < sums->listener_count; i++)
        metric_sample(page, METRIC_LABELS(slice_of(sums->listeners[i].name)),
                      sums->listeners[i].ungreeted);
}

static bool step_fronts(struct scrape *scrape, struct metric_page *page)
{
    static const char *const denials[HTTP_DENIALS] = {
        [HTTP_DENIED_SCOPE] = "scope",
        [HTTP_DENIED_TOPIC] = "topic",
    };
    struct http_shared *shared = scrape->front->shared;
    const struct sums *sums = &scrape->sums;
    metric_write(page, &http_metrics[CONNECTIONS], sums->connections);
    metric_write(page, &http_metrics[REFUSED], sums->refused);
    write_listeners(page, sums);
    metric_write(page, &http_metrics[RECEIVED], sums->bytes_in);
    metric_write(page, &http_metrics[SENT], sums->bytes_out);
    metric_write(page, &http_metrics[REQUEST_MEMORY], http_budget_used(shared));
    metric_write(page, &http_metrics[REQUEST_MEMORY_MAX], shared->memory_bytes_max);
    metric_write(page, &http_metrics[MEMORY_REFUSED], counter_get(&shared->memory_refused));
    metric_write(page, &http_metrics[WAITING_TAKES], sums->waiting);
    metric_write(page, &http_metrics[STREAMS], sums->streams);
    metric_write(page, &http_metrics[STREAM_EVENTS_LOST], sums->events_lost);
    metric_begin(page, &http_metrics[DENIED]);
    for (size_t i = 0; i < HTTP_DENIALS; i++)
        metric_sample(page, METRIC_LABELS(slice_of(denials[i])), sums->denied[i]);
    return true;
}

/* ---- what is written of the server ---- */

/* The wings of this build, as "redis,kafka". */
static void write_build(struct metric_page *page, const char *version)
{
    char text[256];
    struct buffer wings = {.at = text, .cap = sizeof text, .bytes_max = sizeof text};
    size_t count;
    const struct feature *features = feature_all(&count);
    for (size_t i = 0; i < count; i++) {
        if (!features[i].is_built)
            continue;
        if (wings.len)
            buffer_append_byte(&wings, ',');
        buffer_append_text(&wings, features[i].name);
    }
    metric_begin(page, &http_server_metrics[BUILD]);
    metric_sample(page, METRIC_LABELS(slice_of(version), buffer_slice(&wings)), 1);
}

static bool step_server(struct scrape *scrape, struct metric_page *page)
{
    struct http_shared *shared = scrape->front->shared;
    write_build(page, shared->version);
    metric_write_time(page, &http_server_metrics[STARTED], shared->started_ms, 1000);
    metric_write(page, &http_server_metrics[MEMORY], counter_get(&shared->process_bytes));
    metric_write(page, &http_server_metrics[MEMORY_MAX], shared->process_bytes_max);
    metric_write(page, &http_server_metrics[MEMORY_SPENT],
                 atomic_load_explicit(&shared->is_memory_spent, memory_order_relaxed));
    audit_emit_metrics(page);
    return true;
}

/* What the server lends, a part a step. */
static bool step_lent(struct scrape *scrape, struct metric_page *page)
{
    struct http_shared *shared = scrape->front->shared;
    return !shared->emit || !shared->emit(shared->emit_ctx, page, scrape->at++);
}

/* ---- writing, turn by turn ---- */

static scrape_step *const steps[] = {
    step_topics,    step_lateness, step_consumers, step_store, step_sums, step_requests,
    step_durations, step_fronts,   step_server,    step_lent,  NULL};
/* For one who may see some topics there are no sums of the server's as a whole. */
static scrape_step *const own_steps[] = {step_topics, step_lateness, step_consumers, NULL};

static void scrape_answer(struct scrape *scrape, struct http_exchange *exchange)
{
    prometheus_end(&scrape->out, scrape->page.format);
    struct buffer *body = http_answer_start(exchange);
    buffer_append_slice(body, buffer_slice(&scrape->out));
    body->failed |= scrape->out.failed;
    http_answer_end(exchange, 200, prometheus_content_type(scrape->page.format));
    scrape_free(scrape);
}

static void run_write(struct turn_end_call *call)
{
    struct scrape *scrape = list_entry(call, struct scrape, next);
    struct http_exchange *exchange = scrape_exchange(scrape);
    int64_t until_us = clock_boot_us() + STEP_US;
    if (!exchange)
        return;
    while (*scrape->step && clock_boot_us() < until_us)
        if ((*scrape->step)(scrape, &scrape->page)) {
            scrape->step++;
            scrape->at = 0;
        }
    scrape_count_bytes(scrape);
    if (*scrape->step)
        scrape_in_next_turn(scrape, run_write);
    else
        scrape_answer(scrape, exchange);
}

static struct scrape *scrape_new(struct http_front *front, struct http_exchange *exchange,
                                 const struct queue_info *info, enum prometheus_format format)
{
    struct scrape *scrape = calloc(1, sizeof *scrape);
    if (!scrape)
        return NULL;
    scrape->front = front;
    scrape->tag = http_exchange_tag(exchange);
    scrape->page_topics = is_embedded(info) ? PAGE_TOPICS : PAGE_TOPICS_AWAY;
    scrape->now_ms = queue_wall_ms(front->queue);
    scrape->step = exchange->caller->has_all_topics ? steps : own_steps;
    list_init(&scrape->next.list);
    list_init(&scrape->list);
    list_add_last(&front->scrapes, &scrape->list);
    buffer_init(&scrape->out, front->body.bytes_max);
    scrape->page = (struct metric_page){
        .out = &scrape->out, .format = format, .topics_max = front->shared->metrics_topics};
    return scrape;
}

/* A store out of reach is not waited for: the page is wanted just then. */
static void get_metrics(struct http_call *call)
{
    struct http_front *front = call->front;
    struct queue_info info = {0};
    bool is_open = http_media_prefers(call->request->accept, "application/openmetrics-text",
                                      "1.0.0", "text/plain", "0.0.4");
    queue_info(front->queue, &info);
    http_gate_keep(call->exchange, call->caller);
    struct scrape *scrape = scrape_new(front, call->exchange, &info,
                                       is_open ? PROMETHEUS_OPENMETRICS : PROMETHEUS_TEXT);
    if (!scrape)
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    else if (info.healthy)
        scrape_ask(scrape);
    else
        scrape_in_next_turn(scrape, run_write);
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

/* ---- the rows ---- */

#define HAS_TOPICS .when = "once there is a topic"

const struct metric http_topic_metrics[] = {
    [JOBS] = {.name = "tarry_jobs",
              .type = PROMETHEUS_GAUGE,
              .labels = {"topic", "state"},
              .help = "Jobs in each state.",
              .meaning = "`ready` grows: consumers or targets are too slow, gone, or the topic is "
                         "paused (runbook pages *late*, *stuck*). `dead` grows: jobs fail again "
                         "and again (*dead jobs pile up*). `leased` that stays high: consumers "
                         "take and do not answer.",
              HAS_TOPICS},
    [DEAD_BYTES] = {.name = "tarry_dead_bytes",
                    .type = PROMETHEUS_GAUGE,
                    .labels = {"topic"},
                    .help = "What dead jobs take in the store, about.",
                    .meaning = "Dead jobs stay for ever unless `dead_letter.keep` bounds them: "
                               "redrive or purge them.",
                    HAS_TOPICS},
    [PAUSED] = {.name = "tarry_topic_paused",
                .type = PROMETHEUS_GAUGE,
                .labels = {"topic"},
                .help = "1 where delivery is paused.",
                .meaning = "Somebody paused it, and nothing of it is delivered: `tarry resume "
                           "TOPIC`. Of `(others)`: one of them is.",
                HAS_TOPICS},
    [OLDEST_READY] = {.name = "tarry_oldest_ready_age_seconds",
                      .type = PROMETHEUS_GAUGE,
                      .labels = {"topic"},
                      .help = "How long ago the oldest ready job was due; 0: none is ready.",
                      .meaning = "The one figure that tells of a topic nobody takes from: lateness "
                                 "is told only of jobs that were delivered. Rises with the clock: "
                                 "runbook page *stuck*.",
                      HAS_TOPICS},
    [PUSHED] = {.name = "tarry_jobs_pushed_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"topic"},
                .help = "Jobs pushed.",
                .meaning = "Its rate is what comes in; more than `tarry_jobs_acked_total` for long "
                           "means that jobs gather.",
                HAS_TOPICS},
    [ACKED] = {.name = "tarry_jobs_acked_total",
               .type = PROMETHEUS_COUNTER,
               .labels = {"topic"},
               .help = "Jobs acked.",
               .meaning = "Stands still while jobs are delivered: nothing is finished.",
               HAS_TOPICS},
    [CANCELLED] = {.name = "tarry_jobs_cancelled_total",
                   .type = PROMETHEUS_COUNTER,
                   .labels = {"topic"},
                   .help = "Jobs cancelled.",
                   .meaning = "What producers took back.",
                   HAS_TOPICS},
    [EXPIRED] = {.name = "tarry_jobs_expired_total",
                 .type = PROMETHEUS_COUNTER,
                 .labels = {"topic"},
                 .help = "Jobs whose ttl passed while they were ready.",
                 .meaning = "They were never delivered and are gone: consumers are too slow for "
                            "the topic's `ttl`.",
                 HAS_TOPICS},
    [REPLACED] = {.name = "tarry_jobs_replaced_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"topic"},
                  .help = "Jobs replaced by a push with the same id.",
                  .meaning = "As producers mean it, or two of them use the same ids.",
                  HAS_TOPICS},
    [DELIVERED] = {.name = "tarry_jobs_delivered_total",
                   .type = PROMETHEUS_COUNTER,
                   .labels = {"topic"},
                   .help = "Deliveries: jobs handed out under a lease.",
                   .meaning = "To consumers and to targets, each attempt. 0 while jobs are ready: "
                              "runbook page *stuck*.",
                   HAS_TOPICS},
    [NACKED] = {.name = "tarry_jobs_nacked_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"topic"},
                .help = "Deliveries answered with a nack.",
                .meaning = "Consumers or targets fail: the last error of the jobs says why.",
                HAS_TOPICS},
    [LEASE_ENDED] = {.name = "tarry_jobs_lease_ended_total",
                     .type = PROMETHEUS_COUNTER,
                     .labels = {"topic"},
                     .help = "Deliveries whose lease ended unanswered.",
                     .meaning = "A consumer died or is slower than its lease: those jobs come "
                                "again. Extend leases, or make them longer.",
                     HAS_TOPICS},
    [DIED] = {.name = "tarry_jobs_died_total",
              .type = PROMETHEUS_COUNTER,
              .labels = {"topic"},
              .help = "Jobs that used up their attempts.",
              .meaning = "Worth an alert: runbook page *dead jobs pile up*.",
              HAS_TOPICS},
    [REDRIVEN] = {.name = "tarry_jobs_redriven_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"topic"},
                  .help = "Dead jobs sent round again.",
                  .meaning = "Somebody redrives. If `tarry_jobs_died_total` follows, what made "
                             "them fail is still there.",
                  HAS_TOPICS},
    [TOPICS] = {.name = "tarry_topics",
                .type = PROMETHEUS_GAUGE,
                .help = "Topics there are.",
                .meaning = "Grows without end: a producer makes a topic of what should be an id. "
                           "`--max-topics` is where it ends.",
                .when = "while the store can be reached"},
    METRIC_END};

const struct metric http_store_metrics[] = {
    [STORE_INFO] = {.name = "tarry_store_info",
                    .type = PROMETHEUS_INFO,
                    .labels = {"store", "durability", "sync"},
                    .help = "What keeps the jobs and what an answered push survives, as labels.",
                    .meaning = "Another `durability` than before: somebody changed how Redis "
                               "persists, or `--sync`."},
    [STORE_HEALTHY] = {.name = "tarry_store_healthy",
                       .type = PROMETHEUS_GAUGE,
                       .help = "0 where the store has failed or cannot be reached.",
                       .meaning = "Worth an alert: nothing is pushed or delivered. Runbook pages "
                                  "*store*, *Redis away*."},
    [STORE_ACCEPTING] = {.name = "tarry_store_accepting",
                         .type = PROMETHEUS_GAUGE,
                         .help = "0 where pushes are refused for want of space.",
                         .meaning = "Worth an alert: runbook page *full*. Jobs there are go on."},
    [DISK_USED] = {.name = "tarry_disk_used_bytes",
                   .type = PROMETHEUS_GAUGE,
                   .help = "Bytes that the store takes.",
                   .meaning = "On the disk of the data directory; of Redis, its memory. Its slope "
                              "says when it will be full."},
#define EMBEDDED .when = "with the embedded store"
    [RUN_JOBS] = {.name = "tarry_store_run_jobs",
                  .type = PROMETHEUS_GAUGE,
                  .help = "Jobs that outlived the log: in runs on the disk.",
                  .meaning = "Jobs due far ahead lie there, and take no memory.",
                  EMBEDDED},
    [RUNS] = {.name = "tarry_store_runs",
              .type = PROMETHEUS_GAUGE,
              .help = "Files these jobs lie in.",
              .meaning = "Some dozens. Hundreds: merging does not keep up with a slow disk.",
              EMBEDDED},
    [CHECKPOINTS] = {.name = "tarry_store_checkpoints_total",
                     .type = PROMETHEUS_COUNTER,
                     .help = "Times the log's oldest files were made unnecessary.",
                     .meaning = "One for each log file or so that is written.",
                     EMBEDDED},
    [CHECKPOINT_FAILURES] = {.name = "tarry_store_checkpoint_failures_total",
                             .type = PROMETHEUS_COUNTER,
                             .help = "Checkpoints given up, to be tried again.",
                             .meaning = "Grows: the log's files cannot be let go and the disk "
                                        "fills. The server's log says why.",
                             EMBEDDED},
    METRIC_END};

const struct metric http_metrics[] = {
    [REQUESTS] = {.name = "tarry_http_requests_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"route", "code"},
                  .help = "Requests answered, by call and status.",
                  .meaning = "`5..` grows: the server could not; `code=\"503\"` and `\"507\"` say "
                             "that it is full or not ready. `4..` grows: a client is wrong; "
                             "`\"429\"` that a limit is met. Route `none`: there is no such call."},
    [DURATION] = {.name = "tarry_http_request_duration_seconds",
                  .type = PROMETHEUS_HISTOGRAM,
                  .labels = {"route", "code"},
                  .help = "From a request read to its answer, without takes that may wait.",
                  .meaning = "Of `push` and `ack` it is mostly the disk's or Redis' time: "
                             "`tarry_log_sync_duration_seconds`, "
                             "`tarry_redis_round_trip_duration_seconds`. `code` is a class: "
                             "`2xx`."},
    [CONNECTIONS] = {.name = "tarry_http_connections",
                     .type = PROMETHEUS_GAUGE,
                     .help = "Open connections.",
                     .meaning = "Near `--max-connections` new ones are refused."},
    [ACCEPTED] = {.name = "tarry_http_connections_accepted_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"listener"},
                  .help = "Connections let in, by listener.",
                  .meaning = "Rises as fast as requests: clients do not keep connections open, "
                             "which costs both sides most of the time, with TLS nearly all."},
    [REFUSED] = {.name = "tarry_http_connections_refused_total",
                 .type = PROMETHEUS_COUNTER,
                 .help = "Connections refused because there were too many.",
                 .meaning = "Raise `--max-connections`, or find the client that leaks them."},
    [FAILED] = {.name = "tarry_http_connections_failed_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"listener"},
                .help = "Connections closed before their first request, by listener: they lacked "
                        "the header of a proxy, or their TLS handshake was not finished.",
                .meaning = "A client lacks the certificate's authority, a proxy sends no header, "
                           "or somebody scans. `log-level = debug` says each time why."},
    [RECEIVED] = {.name = "tarry_http_received_bytes_total",
                  .type = PROMETHEUS_COUNTER,
                  .help = "Bytes received.",
                  .meaning = "Over pushed jobs it is the size of a job."},
    [SENT] = {.name = "tarry_http_sent_bytes_total",
              .type = PROMETHEUS_COUNTER,
              .help = "Bytes sent.",
              .meaning = "Lists with bodies and this page count too."},
    [REQUEST_MEMORY] = {.name = "tarry_http_memory_bytes",
                        .type = PROMETHEUS_GAUGE,
                        .help = "What requests, answers and waiting takes hold now.",
                        .meaning = "Near `tarry_http_memory_max_bytes` requests are refused."},
    [REQUEST_MEMORY_MAX] = {.name = "tarry_http_memory_max_bytes",
                            .type = PROMETHEUS_GAUGE,
                            .help = "What they may hold (--max-request-memory).",
                            .meaning = "As configured, else a quarter of the machine's memory."},
    [MEMORY_REFUSED] = {.name = "tarry_http_memory_refused_total",
                        .type = PROMETHEUS_COUNTER,
                        .help = "Requests refused because they would have held more.",
                        .meaning = "Clients ask for more at once than `--max-request-memory` "
                                   "allows: smaller batches, or a larger bound."},
    [WAITING_TAKES] = {.name = "tarry_waiting_takes",
                       .type = PROMETHEUS_GAUGE,
                       .help = "Takes that wait for a job.",
                       .meaning = "Consumers that are free. 0 while jobs are ready: there are too "
                                  "few of them. More than 0 while jobs are ready: of other topics, "
                                  "or the topic is paused."},
    [STREAMS] = {.name = "tarry_http_streams",
                 .type = PROMETHEUS_GAUGE,
                 .help = "Open streams of events.",
                 .meaning = "Who looks at the server live: pages of the console, `tarry top`, "
                            "`tarry tail`. From 64 of a thread on the next one is refused with "
                            "`too_many_streams`."},
    [STREAM_EVENTS_LOST] = {.name = "tarry_http_stream_events_lost_total",
                            .type = PROMETHEUS_COUNTER,
                            .help = "Events that clients of streams read too slowly to get.",
                            .meaning = "Somebody listens to more than he can read: name fewer "
                                       "topics or kinds of events."},
    [DENIED] = {.name = "tarry_access_denied_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"reason"},
                .help = "Requests, and items of batches, that callers may not make, by what they "
                        "lack.",
                .meaning = "A token lacks a scope or a topic: the answer names it, and the audit "
                           "tells whose it is."},
    METRIC_END};

const struct metric http_server_metrics[] = {
    [BUILD] = {.name = "tarry_build_info",
               .type = PROMETHEUS_INFO,
               .labels = {"version", "wings"},
               .help = "The version, and what this build has, as labels.",
               .meaning = "Several versions at once: an upgrade is under way."},
    [STARTED] = {.name = "process_start_time_seconds",
                 .type = PROMETHEUS_GAUGE,
                 .help = "When the process started, in seconds since 1970.",
                 .meaning = "Changes: it was started again; all counters begin at 0."},
    [MEMORY] = {.name = "tarry_memory_bytes",
                .type = PROMETHEUS_GAUGE,
                .help = "What the process uses and is its own.",
                .meaning = "Grows with jobs due soon, connections and requests."},
    [MEMORY_MAX] = {.name = "tarry_memory_max_bytes",
                    .type = PROMETHEUS_GAUGE,
                    .help = "What it may use (--max-memory).",
                    .meaning = "0: there is no bound."},
    [MEMORY_SPENT] = {.name = "tarry_memory_spent",
                      .type = PROMETHEUS_GAUGE,
                      .help = "1 while pushes are refused for want of memory.",
                      .meaning = "Worth an alert: jobs that are due are not taken fast enough, or "
                                 "`--max-memory` is too small. Runbook page *full*."},
    METRIC_END};
