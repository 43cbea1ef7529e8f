/* /metrics. The page is built over many short loop iterations: topics are read page by page, and
 * the text is written piece by piece into a buffer of its own. The metrics are defined in the
 * metrics_*.c files, each with its rows. */
#include "monitor/metrics.h"
#include "api/consumers.h"
#include "api/media.h"
#include "api/state.h"
#include "base/metric.h"
#include "http/exchange.h"
#include "monitor/metrics_requests.h"
#include "monitor/metrics_server.h"
#include "monitor/metrics_topics.h"
#include "monitor/routes.h"
#include "monitor/state.h"
#include "queue/lateness.h"

#include <stdlib.h>

enum {
    PAGE_TOPICS = 256,       /* read per loop iteration */
    PAGE_TOPICS_AWAY = 1000, /* the same if each page is a call to another process */
    STEP_US = 500            /* time limit for writing per iteration; a step begun is completed */
};

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

    struct monitor_metrics_topics topics;
    uint32_t page_topics;
    bool counts_soon;
    size_t soon_at; /* the next topic whose jobs that fall due soon are counted */
    int64_t now_ms;
    char after[JOB_TOPIC_BYTES_MAX];
    size_t after_bytes;

    scrape_step *const *step;
    uint32_t at; /* position within the step */
    struct monitor_metrics_requests requests;
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
    monitor_metrics_topics_fini(&scrape->topics);
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
            !monitor_metrics_topics_add(&scrape->topics, &topics[i])) {
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
    monitor_metrics_topics_end(&scrape->topics, is_good);
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
        monitor_metrics_topics_set_soon(&scrape->topics, scrape->soon_at, soon);
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
    if (scrape->counts_soon &&
        monitor_metrics_topics_next_soon(&scrape->topics, &scrape->soon_at)) {
        const struct monitor_shown_topic *topic = scrape->topics.largest.at[scrape->soon_at];
        queue_count_soon(scrape->front->queue, monitor_shown_topic_name(topic),
                         (struct queue_reply_to){.done = on_soon, .owner = scrape});
        reactor_iterate_again(reactor);
        return;
    }
    run_write(call);
}

/* ---- steps ---- */

static bool step_topics(struct scrape *scrape, struct metric_page *page)
{
    return monitor_metrics_topics_write(&scrape->topics, page, &scrape->at, scrape->now_ms);
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

static bool step_store(struct scrape *scrape, struct metric_page *page)
{
    monitor_metrics_server_write_store(scrape->front->shared, scrape->front->queue, page);
    return true;
}

static bool step_gather(struct scrape *scrape, struct metric_page *page)
{
    (void)page;
    return monitor_metrics_requests_gather(&scrape->requests, scrape->front->shared, &scrape->at);
}

static bool step_requests(struct scrape *scrape, struct metric_page *page)
{
    return monitor_metrics_requests_write_counts(&scrape->requests, scrape->front->shared, page,
                                                 &scrape->at);
}

static bool step_durations(struct scrape *scrape, struct metric_page *page)
{
    return monitor_metrics_requests_write_durations(&scrape->requests, scrape->front->shared, page,
                                                    &scrape->at);
}

static bool step_fronts(struct scrape *scrape, struct metric_page *page)
{
    monitor_metrics_requests_write_rest(&scrape->requests, scrape->front->shared, page);
    return true;
}

static bool step_server(struct scrape *scrape, struct metric_page *page)
{
    monitor_metrics_server_write(scrape->front->shared, page);
    return true;
}

/* Writes the metrics of the server's own source, one part per step. */
static bool step_lent(struct scrape *scrape, struct metric_page *page)
{
    struct http_shared *shared = scrape->front->shared;
    return !shared->emit || !shared->emit(shared->emit_ctx, page, scrape->at++);
}

/* ---- writing, over many iterations ---- */

static scrape_step *const steps[] = {
    step_topics,    step_lateness, step_consumers, step_store, step_gather, step_requests,
    step_durations, step_fronts,   step_server,    step_lent,  NULL};
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
