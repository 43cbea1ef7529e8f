#include "monitor/metrics.h"

#include "api/consumers.h"
#include "api/media.h"
#include "api/state.h"
#include "base/heap.h"
#include "http/exchange.h"
#include "monitor/metrics_server.h"
#include "monitor/routes.h"
#include "monitor/state.h"
#include "queue/lateness.h"

#include <stdlib.h>

enum {
    PAGE_TOPICS = 256,       /* read per loop iteration */
    PAGE_TOPICS_AWAY = 1000, /* the same if each page is a call to another process */
    STEP_US = 500            /* time limit for writing per iteration; a step begun is completed */
};

enum {
    JOBS,
    DEAD_BYTES,
    PAUSED,
    OLDEST_READY,
    HELD,
    SOON,
    GROUPS,
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
    TOPIC_METRICS = TOPICS /* the rows before it are per topic */
};

/* ---- topics ---- */

struct shown_topic {
    struct queue_counts counts;
    struct topic_totals totals;
    int64_t oldest_ready_due_ms;
    uint64_t jobs, groups;
    uint64_t held_by[FLOW_HELD_REASONS];
    uint64_t soon; /* jobs that fall due within the next minute, if `has_soon` */
    bool has_soon;
    bool paused;
    uint8_t name_bytes;
    char name[JOB_TOPIC_BYTES_MAX];
};

static struct slice shown_topic_name(const struct shown_topic *topic)
{
    return slice_make(topic->name, topic->name_bytes);
}

/* Returns whether `one` ranks above `other`: by jobs, then by pushes, then by name. */
static bool shown_topic_is_larger(const struct shown_topic *one, const struct shown_topic *other)
{
    if (one->jobs != other->jobs)
        return one->jobs > other->jobs;
    if (one->totals.pushed != other->totals.pushed)
        return one->totals.pushed > other->totals.pushed;
    return slice_compare(shown_topic_name(one), shown_topic_name(other)) < 0;
}

static bool shown_topic_is_dropped_before(struct shown_topic *const *one,
                                          struct shown_topic *const *other)
{
    return shown_topic_is_larger(*other, *one);
}
HEAP_DECLARE(largest_topics, struct shown_topic *, shown_topic_is_dropped_before, heap_place_unused)

/* Topics to show: those with the most jobs have samples of their own, up to a limit; the others are
 * summed up. Topics are added in any order; then the adding is ended; then they are written in short steps. Zeroed at first, except for `shown_max`. */
struct shown_topics {
    uint32_t shown_max; /* number of topics with samples of their own */
    uint64_t count;
    struct largest_topics largest; /* heap, smallest at the root; finally by name */
    struct shown_topic others, *spare;
    bool has_others;
    bool is_whole; /* all existing topics were added */
};

static int by_name(const void *a, const void *b)
{
    return slice_compare(shown_topic_name(*(struct shown_topic *const *)a),
                         shown_topic_name(*(struct shown_topic *const *)b));
}

static void show_topic(struct shown_topic *shown, const struct queue_topic *topic)
{
    shown->counts = topic->counts;
    shown->totals = topic->totals;
    shown->oldest_ready_due_ms = topic->oldest_ready_due_ms;
    shown->jobs = queue_counts_jobs(&topic->counts);
    shown->paused = topic->paused;
    shown->has_soon = false;
    shown->groups = topic->groups;
    memcpy(shown->held_by, topic->held_by, sizeof shown->held_by);
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
    others->groups += topic->groups;
    for (size_t i = 0; i < FLOW_HELD_REASONS; i++)
        others->held_by[i] += topic->held_by[i];
    if (topic->oldest_ready_due_ms &&
        (!others->oldest_ready_due_ms || topic->oldest_ready_due_ms < others->oldest_ready_due_ms))
        others->oldest_ready_due_ms = topic->oldest_ready_due_ms;
}

/* Drops all topics, since an incomplete list would be misleading. */
static void drop_topics(struct shown_topics *topics)
{
    for (size_t i = 0; i < topics->largest.count; i++)
        free(topics->largest.at[i]);
    topics->largest.count = 0;
    topics->has_others = false;
}

static void shown_topics_fini(struct shown_topics *topics)
{
    drop_topics(topics);
    largest_topics_fini(&topics->largest);
    free(topics->spare);
}

/* Adds a topic. Returns false if out of memory. */
static bool shown_topics_add(struct shown_topics *topics, const struct queue_topic *topic)
{
    struct largest_topics *largest = &topics->largest;
    struct shown_topic *shown = topics->spare ? topics->spare : malloc(sizeof *shown);
    topics->spare = NULL;
    if (!shown)
        return false;
    show_topic(shown, topic);
    topics->count++;
    if (largest->count < topics->shown_max) {
        if (largest_topics_add(largest, shown))
            return true;
        free(shown);
        return false;
    }
    if (largest->count && shown_topic_is_larger(shown, largest->at[0])) {
        struct shown_topic *dropped = largest->at[0];
        largest->at[0] = shown;
        largest_topics_changed(largest, 0);
        shown = dropped;
    }
    topics->has_others = true;
    add_to_others(&topics->others, shown);
    topics->spare = shown;
    return true;
}

/* Ends the adding of topics. If not `is_whole`, no topic is reported, since the rest is unknown. */
static void shown_topics_end(struct shown_topics *topics, bool is_whole)
{
    struct largest_topics *largest = &topics->largest;
    topics->is_whole = is_whole;
    if (!is_whole)
        drop_topics(topics);
    if (largest->count)
        qsort((void *)largest->at, largest->count, sizeof *largest->at, by_name);
}

static void shown_topics_set_soon(struct shown_topics *topics, size_t at, uint64_t soon)
{
    topics->largest.at[at]->soon = soon;
    topics->largest.at[at]->has_soon = true;
}

/* Moves `*at` to the next topic, itself included, that has waiting jobs and no figure of jobs due
 * soon yet. Sets the figure of topics without waiting jobs to 0. Returns false if no such topic is
 * left. */
static bool shown_topics_next_soon(struct shown_topics *topics, size_t *at)
{
    for (; *at < topics->largest.count; ++*at) {
        const struct queue_counts *counts = &topics->largest.at[*at]->counts;
        if (counts->delayed + counts->retrying > 0)
            return true;
        shown_topics_set_soon(topics, *at, 0);
    }
    return false;
}

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
    case HELD:
        for (enum flow_held by = FLOW_HELD_LIMIT; by < FLOW_HELD_REASONS; by++)
            if (topic->held_by[by])
                metric_sample(page, METRIC_LABELS(name, slice_of(flow_held_name(by))),
                              topic->held_by[by]);
        return;
    case GROUPS:
        if (topic->groups)
            metric_sample(page, METRIC_LABELS(name), topic->groups);
        return;
    case SOON:
        if (topic->has_soon)
            metric_sample(page, METRIC_LABELS(name), topic->soon);
        return;
    default:
        metric_sample(
            page, METRIC_LABELS(name),
            *(const uint64_t *)(const void *)((const char *)&topic->totals + totals[which]));
    }
}

/* Writes up to seven samples from `*at` on, 0 at first. Returns true after the last one. */
static bool shown_topics_write(const struct shown_topics *topics, struct metric_page *page,
                               uint32_t *at, int64_t now_ms)
{
    const struct largest_topics *largest = &topics->largest;
    uint32_t rows = (uint32_t)largest->count + 1, which = *at / rows;
    uint32_t row = *at % rows;
    if (row == 0)
        metric_begin(page, &monitor_topic_metrics[which]);
    if (row + 1 < rows)
        write_topic(page, which, shown_topic_name(largest->at[row]), largest->at[row], now_ms);
    else if (topics->has_others)
        write_topic(page, which, slice_of(METRIC_OTHERS), &topics->others, now_ms);
    if (++*at < TOPIC_METRICS * rows)
        return false;
    if (topics->is_whole)
        metric_write(page, &monitor_topic_metrics[TOPICS], topics->count);
    return true;
}

/* ---- a page in progress ---- */

/* A step writes a part of the page; it returns true when its part is complete. */
struct scrape;
typedef bool scrape_step(struct scrape *scrape, struct metric_page *page);

struct scrape {
    struct list list; /* in monitor_front.scrapes */
    struct iteration_end_call next;
    struct http_front *front;
    uint64_t tag; /* tag of the exchange */
    struct buffer out;
    struct metric_page page;
    size_t bytes_counted; /* size of `out` in the budget */

    struct shown_topics topics;
    uint32_t page_topics;
    bool counts_soon;
    size_t soon_at; /* the next topic whose jobs that fall due soon are counted */
    int64_t now_ms;
    char after[JOB_TOPIC_BYTES_MAX];
    size_t after_bytes;

    scrape_step *const *step;
    uint32_t at; /* position within the step */
    struct monitor_metrics_server server;
};

static void scrape_count_bytes(struct scrape *scrape)
{
    http_budget_add(scrape->front, scrape->out.cap - scrape->bytes_counted);
    scrape->bytes_counted = scrape->out.cap;
}

static void scrape_free(struct scrape *scrape)
{
    list_remove(&scrape->list);
    reactor_cancel_at_iteration_end(&scrape->next);
    http_budget_remove(scrape->front, scrape->bytes_counted);
    buffer_fini(&scrape->out);
    shown_topics_fini(&scrape->topics);
    free(scrape);
}

void monitor_metrics_end(struct http_front *front)
{
    struct list *scrapes = &monitor_front_of(front)->scrapes;
    while (!list_is_empty(scrapes))
        scrape_free(list_entry(scrapes->next, struct scrape, list));
}

/* ---- topics, page by page ---- */

static void scrape_fail(struct scrape *scrape, struct http_exchange *exchange)
{
    http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    scrape_free(scrape);
}

/* Schedules the rest for a later loop iteration. */
static void scrape_in_next_iteration(struct scrape *scrape,
                                     void (*run)(struct iteration_end_call *call))
{
    scrape->next.run = run;
    reactor_once_at_iteration_end(scrape->front->reactor, &scrape->next);
}

static void run_ask(struct iteration_end_call *call);
static void run_write(struct iteration_end_call *call);
static void run_soon(struct iteration_end_call *call);

/* Returns the exchange if its client still waits for the page. Else ends the scrape and returns
 * NULL. */
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

/* Handles a page of topics. If the store cannot be reached, the other metrics are still written. */
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
            !shown_topics_add(&scrape->topics, &topics[i])) {
            scrape_fail(scrape, exchange);
            return;
        }
    if (left > count) {
        struct slice last = topics[count - 1].name;
        memcpy(scrape->after, last.at, last.len);
        scrape->after_bytes = last.len;
        scrape_in_next_iteration(scrape, run_ask);
        return;
    }
    shown_topics_end(&scrape->topics, is_good);
    scrape_in_next_iteration(scrape, run_soon);
}

/* Reads the next page of topics, and one topic more, which shows whether there are further ones. */
static void scrape_ask(struct scrape *scrape)
{
    const struct queue_topics_page page = {.after = slice_make(scrape->after, scrape->after_bytes),
                                           .limit = scrape->page_topics + 1};
    queue_topics_page(scrape->front->queue, page,
                      (struct queue_reply_to){.done = on_topics, .owner = scrape});
}

static void run_ask(struct iteration_end_call *call)
{
    struct scrape *scrape = list_entry(call, struct scrape, next);
    struct reactor *reactor = scrape->front->reactor;
    if (!scrape_exchange(scrape))
        return;
    scrape_ask(scrape);
    reactor_iterate_again(
        reactor); /* the store may already have handled its calls of this iteration */
}

/* ---- jobs that fall due soon, topic by topic ---- */

static void on_soon(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct scrape *scrape = owner;
    (void)tag;
    if (!scrape_exchange(scrape))
        return;
    if (reply->status == QUEUE_OK && reply->forecast) {
        uint64_t soon = queue_forecast_soon(reply->forecast, queue_wall_ms(scrape->front->queue));
        shown_topics_set_soon(&scrape->topics, scrape->soon_at, soon);
    }
    scrape->soon_at++;
    scrape_in_next_iteration(scrape, run_soon);
}

/* Counts those of the next topic that has waiting jobs. A topic without an answer has no sample. */
static void run_soon(struct iteration_end_call *call)
{
    struct scrape *scrape = list_entry(call, struct scrape, next);
    struct reactor *reactor = scrape->front->reactor;
    if (!scrape_exchange(scrape))
        return;
    if (scrape->counts_soon && shown_topics_next_soon(&scrape->topics, &scrape->soon_at)) {
        const struct shown_topic *topic = scrape->topics.largest.at[scrape->soon_at];
        queue_count_soon(scrape->front->queue, shown_topic_name(topic),
                         (struct queue_reply_to){.done = on_soon, .owner = scrape});
        reactor_iterate_again(reactor);
        return;
    }
    run_write(call);
}

/* ---- steps ---- */

static bool step_topics(struct scrape *scrape, struct metric_page *page)
{
    return shown_topics_write(&scrape->topics, page, &scrape->at, scrape->now_ms);
}

/* Returns whether the caller may see the topic. */
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
    api_consumers_emit(api_consumers_of(scrape->front->shared), page, clock_wall_ms(),
                       exchange->caller->has_all_topics ? NULL : shows_topic, exchange);
    return true;
}

static bool step_server(struct scrape *scrape, struct metric_page *page)
{
    return monitor_metrics_server_write(&scrape->server, page);
}

/* Writes the metrics of the server's own source, one part per step. */
static bool step_lent(struct scrape *scrape, struct metric_page *page)
{
    struct http_shared *shared = scrape->front->shared;
    return !shared->emit || !shared->emit(shared->emit_ctx, page, scrape->at++);
}

/* ---- writing, over many iterations ---- */

static scrape_step *const steps[] = {step_topics, step_lateness, step_consumers,
                                     step_server, step_lent,     NULL};
/* Steps for a caller that may see only some topics; it gets no server-wide sums. */
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

static void run_write(struct iteration_end_call *call)
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
        scrape_in_next_iteration(scrape, run_write);
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
    scrape->page_topics = monitor_store_is_embedded(info) ? PAGE_TOPICS : PAGE_TOPICS_AWAY;
    scrape->counts_soon = info->soon;
    scrape->now_ms = queue_wall_ms(front->queue);
    scrape->step = exchange->caller->has_all_topics ? steps : own_steps;
    list_init(&scrape->next.list);
    list_init(&scrape->list);
    list_add_last(&monitor_front_of(front)->scrapes, &scrape->list);
    buffer_init(&scrape->out, front->body.bytes_max);
    scrape->server.shared = front->shared;
    scrape->server.queue = front->queue;
    scrape->topics.shown_max = front->shared->metrics_topics;
    scrape->page = (struct metric_page){
        .out = &scrape->out, .format = format, .topics_max = front->shared->metrics_topics};
    return scrape;
}

/* Handles GET /metrics. Does not wait for an unreachable store, since the page is needed most
 * then. */
static void get_metrics(struct http_call *call)
{
    struct http_front *front = call->front;
    struct queue_info info = {0};
    bool is_open = api_media_prefers(call->request->accept, "application/openmetrics-text", "1.0.0",
                                     "text/plain", "0.0.4");
    queue_info(front->queue, &info);
    http_gate_keep(call->exchange, call->caller);
    struct scrape *scrape = scrape_new(front, call->exchange, &info,
                                       is_open ? PROMETHEUS_OPENMETRICS : PROMETHEUS_TEXT);
    if (!scrape)
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    else if (info.healthy)
        scrape_ask(scrape);
    else
        scrape_in_next_iteration(scrape, run_write);
}

/* ---- rows ---- */

#define HAS_TOPICS .when = "once there is a topic"

const struct metric monitor_topic_metrics[] = {
    [JOBS] = {.name = "tarry_jobs",
              .type = PROMETHEUS_GAUGE,
              .labels = {"topic", "state"},
              .help = "Jobs in each state.",
              .meaning = "`ready` grows: consumers or targets are too slow, gone, or the topic "
                         "is paused (runbook pages *late*, *stuck*). `dead` grows: jobs fail "
                         "repeatedly (*dead jobs accumulate*). `leased` stays high: consumers "
                         "take and do not answer.",
              HAS_TOPICS},
    [DEAD_BYTES] = {.name = "tarry_dead_bytes",
                    .type = PROMETHEUS_GAUGE,
                    .labels = {"topic"},
                    .help = "Approximate size of dead jobs in the store.",
                    .meaning =
                        "Dead jobs stay forever unless `dead_letter.keep` bounds them: redrive "
                        "or purge them.",
                    HAS_TOPICS},
    [PAUSED] = {.name = "tarry_topic_paused",
                .type = PROMETHEUS_GAUGE,
                .labels = {"topic"},
                .help = "1 if delivery is paused.",
                .meaning = "The topic was paused, and its jobs are not delivered: `tarry resume "
                           "TOPIC`. For `(others)`: one of them is paused.",
                HAS_TOPICS},
    [OLDEST_READY] = {.name = "tarry_oldest_ready_age_seconds",
                      .type = PROMETHEUS_GAUGE,
                      .labels = {"topic"},
                      .help = "Time since the oldest ready job was due; 0: no job is ready.",
                      .meaning =
                          "The only figure for a topic without consumers, because lateness counts "
                          "only delivered jobs. Rises with the clock: runbook page *stuck*.",
                      HAS_TOPICS},
    [HELD] = {.name = "tarry_held",
              .type = PROMETHEUS_GAUGE,
              .labels = {"topic", "by"},
              .help = "Ready jobs that are kept from delivery, by what holds them.",
              .meaning = "A part of the state `ready`. `by` is `limit`, `rate`, `group_limit`, "
                         "`group_rate`, `group_paused`, `group_order` or `hold`. Grows: more jobs "
                         "fall due than the limits of the topic or its groups let through; `tarry "
                         "groups TOPIC` "
                         "shows which (runbook page *held*).",
              .when = "for topics with held jobs"},
    [SOON] = {.name = "tarry_soon",
              .type = PROMETHEUS_GAUGE,
              .labels = {"topic"},
              .help = "Jobs that fall due within the next minute.",
              .meaning = "Work that arrives while new consumers start: add it to the ready jobs "
                         "to scale consumers (page *autoscaling*). `(others)` has no sample."},
    [GROUPS] = {.name = "tarry_groups",
                .type = PROMETHEUS_GAUGE,
                .labels = {"topic"},
                .help = "Groups with ready or leased jobs.",
                .meaning = "Tenants that share the consumers of the topic now. With several "
                           "shards: of the shard with the most.",
                .when = "for topics with groups"},
    [PUSHED] = {.name = "tarry_jobs_pushed_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"topic"},
                .help = "Jobs pushed.",
                .meaning = "Its rate is the input; if it exceeds `tarry_jobs_acked_total` for "
                           "long, jobs accumulate.",
                HAS_TOPICS},
    [ACKED] = {.name = "tarry_jobs_acked_total",
               .type = PROMETHEUS_COUNTER,
               .labels = {"topic"},
               .help = "Jobs acked.",
               .meaning = "Does not change while jobs are delivered: no job is finished.",
               HAS_TOPICS},
    [CANCELLED] = {.name = "tarry_jobs_cancelled_total",
                   .type = PROMETHEUS_COUNTER,
                   .labels = {"topic"},
                   .help = "Jobs cancelled.",
                   .meaning = "Jobs that producers cancelled.",
                   HAS_TOPICS},
    [EXPIRED] = {.name = "tarry_jobs_expired_total",
                 .type = PROMETHEUS_COUNTER,
                 .labels = {"topic"},
                 .help = "Jobs whose ttl passed while they were ready.",
                 .meaning = "They were never delivered: consumers are too slow for the topic's "
                            "`ttl`.",
                 HAS_TOPICS},
    [REPLACED] = {.name = "tarry_jobs_replaced_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"topic"},
                  .help = "Jobs replaced by a push with the same id.",
                  .meaning = "Intended by the producers, or two of them use the same ids.",
                  HAS_TOPICS},
    [DELIVERED] = {.name = "tarry_jobs_delivered_total",
                   .type = PROMETHEUS_COUNTER,
                   .labels = {"topic"},
                   .help = "Deliveries: jobs given to consumers and targets under a lease.",
                   .meaning = "To consumers and to targets, each attempt. 0 while jobs are ready: "
                              "runbook page *stuck*.",
                   HAS_TOPICS},
    [NACKED] = {.name = "tarry_jobs_nacked_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"topic"},
                .help = "Deliveries answered with a nack.",
                .meaning = "Consumers or targets fail: the jobs' last errors have the reason.",
                HAS_TOPICS},
    [LEASE_ENDED] = {.name = "tarry_jobs_lease_ended_total",
                     .type = PROMETHEUS_COUNTER,
                     .labels = {"topic"},
                     .help = "Deliveries whose lease ended unanswered.",
                     .meaning =
                         "A consumer died or is slower than its lease: these jobs come again. "
                         "Extend leases, or use longer ones.",
                     HAS_TOPICS},
    [DIED] = {.name = "tarry_jobs_died_total",
              .type = PROMETHEUS_COUNTER,
              .labels = {"topic"},
              .help = "Jobs that used up their attempts.",
              .meaning = "Worth an alert: runbook page *dead jobs accumulate*.",
              HAS_TOPICS},
    [REDRIVEN] = {.name = "tarry_jobs_redriven_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"topic"},
                  .help = "Dead jobs made ready again.",
                  .meaning =
                      "A user redrives. If `tarry_jobs_died_total` follows, the cause of the "
                      "failures remains.",
                  HAS_TOPICS},
    [TOPICS] = {.name = "tarry_topics",
                .type = PROMETHEUS_GAUGE,
                .help = "Existing topics.",
                .meaning = "Grows without end: a producer uses topics instead of ids. "
                           "`--max-topics` is the limit.",
                .when = "while the store can be reached"},
    METRIC_END};

/* ---- the call ---- */

const struct http_route monitor_metrics_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = "/metrics",
     .name = "metrics",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_SHOWN,
     .handle = get_metrics,
     .answer = HTTP_ANSWER_LONG},
    {0},
};
