#include "monitor/metrics_requests.h"

#include "http/exchange.h"
#include "http/state.h"

#include <pthread.h>
#include <string.h>

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

/* ---- collecting ---- */

static void add_front(struct monitor_metrics_requests *sums, struct http_front *front)
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
    sums->listener_count = front->listener_count; /* each front has all listeners */
    for (uint32_t i = 0; i < front->listener_count; i++) {
        sums->listeners[i].name = front->listeners[i].about->name;
        sums->listeners[i].accepted += counter_get(&front->listeners[i].accepted);
        sums->listeners[i].ungreeted += counter_get(&front->listeners[i].ungreeted);
    }
}

bool monitor_metrics_requests_gather(struct monitor_metrics_requests *sums,
                                     struct http_shared *shared, uint32_t *at)
{
    pthread_mutex_lock(&shared->lock);
    bool is_front = *at < shared->front_count;
    if (is_front)
        add_front(sums, shared->fronts[(*at)++]);
    pthread_mutex_unlock(&shared->lock);
    return !is_front;
}

/* ---- writing ---- */

static bool is_first_of_its_name(const struct http_shared *shared, uint32_t index)
{
    uint32_t i = 0;
    while (strcmp(shared->routes[i].name, shared->routes[index].name) != 0)
        i++;
    return i == index;
}

/* Finds the next route from `*at` on that is the first one of its name; after all routes, the row
 * of requests without a route. Returns false at the end. */
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

/* Returns whether a route belongs to the name of `first`. Routes of the same name (push, take) are
 * counted together. */
static bool is_of(const struct http_shared *shared, uint32_t index, uint32_t first)
{
    return index == first || (index < shared->route_count && first < shared->route_count &&
                              strcmp(shared->routes[index].name, shared->routes[first].name) == 0);
}

static void write_route_counts(const struct monitor_metrics_requests *sums,
                               const struct http_shared *shared, struct metric_page *page,
                               uint32_t first, const char *name)
{
    for (size_t status = 0; status < HTTP_STATUSES; status++) {
        uint64_t sum = 0;
        for (uint32_t i = first; i < HTTP_ROUTES_MAX; i++)
            if (is_of(shared, i, first))
                sum += sums->requests[i][status];
        if (!sum &&
            http_status_at(status) != 200) /* a call that was never made is 0, not missing */
            continue;
        char code[4] = {0};
        uint16_t number = http_status_at(status);
        code[0] = (char)('0' + number / 100);
        code[1] = (char)('0' + number / 10 % 10);
        code[2] = (char)('0' + number % 10);
        metric_sample(page, METRIC_LABELS(slice_of(name), slice_make(code, 3)), sum);
    }
}

static void write_route_durations(const struct monitor_metrics_requests *sums,
                                  const struct http_shared *shared, struct metric_page *page,
                                  uint32_t first, const char *name)
{
    static const char *const classes[HTTP_CLASSES] = {"2xx", "3xx", "4xx", "5xx"};
    for (size_t class = 0; class < HTTP_CLASSES; class ++) {
        struct buckets sum = {0};
        for (uint32_t i = first; i < HTTP_ROUTES_MAX; i++)
            if (is_of(shared, i, first))
                buckets_merge(&sum, &sums->durations[i][class]);
        if (buckets_total(&sum))
            metric_histogram(page, METRIC_LABELS(slice_of(name), slice_of(classes[class])), &sum,
                             &http_duration_bounds);
    }
}

bool monitor_metrics_requests_write_counts(const struct monitor_metrics_requests *sums,
                                           const struct http_shared *shared,
                                           struct metric_page *page, uint32_t *at)
{
    const char *name;
    if (*at == 0)
        metric_begin(page, &monitor_metrics[REQUESTS]);
    if (!next_route(shared, at, &name))
        return true;
    write_route_counts(sums, shared, page, (*at)++, name);
    return false;
}

bool monitor_metrics_requests_write_durations(const struct monitor_metrics_requests *sums,
                                              const struct http_shared *shared,
                                              struct metric_page *page, uint32_t *at)
{
    const char *name;
    if (*at == 0)
        metric_begin(page, &monitor_metrics[DURATION]);
    if (!next_route(shared, at, &name))
        return true;
    write_route_durations(sums, shared, page, (*at)++, name);
    return false;
}

static void write_listeners(struct metric_page *page, const struct monitor_metrics_requests *sums)
{
    metric_begin(page, &monitor_metrics[ACCEPTED]);
    for (uint32_t i = 0; i < sums->listener_count; i++)
        metric_sample(page, METRIC_LABELS(slice_of(sums->listeners[i].name)),
                      sums->listeners[i].accepted);
    metric_begin(page, &monitor_metrics[FAILED]);
    for (uint32_t i = 0; i < sums->listener_count; i++)
        metric_sample(page, METRIC_LABELS(slice_of(sums->listeners[i].name)),
                      sums->listeners[i].ungreeted);
}

void monitor_metrics_requests_write_rest(const struct monitor_metrics_requests *sums,
                                         struct http_shared *shared, struct metric_page *page)
{
    static const char *const denials[HTTP_DENIALS] = {
        [HTTP_DENIED_SCOPE] = "scope",
        [HTTP_DENIED_TOPIC] = "topic",
    };
    metric_write(page, &monitor_metrics[CONNECTIONS], sums->connections);
    metric_write(page, &monitor_metrics[REFUSED], sums->refused);
    write_listeners(page, sums);
    metric_write(page, &monitor_metrics[RECEIVED], sums->bytes_in);
    metric_write(page, &monitor_metrics[SENT], sums->bytes_out);
    metric_write(page, &monitor_metrics[REQUEST_MEMORY], http_budget_used(shared));
    metric_write(page, &monitor_metrics[REQUEST_MEMORY_MAX], shared->budget.bytes_max);
    metric_write(page, &monitor_metrics[MEMORY_REFUSED], counter_get(&shared->budget.refused));
    metric_write(page, &monitor_metrics[WAITING_TAKES], sums->waiting);
    metric_write(page, &monitor_metrics[STREAMS], sums->streams);
    metric_write(page, &monitor_metrics[STREAM_EVENTS_LOST], sums->events_lost);
    metric_begin(page, &monitor_metrics[DENIED]);
    for (size_t i = 0; i < HTTP_DENIALS; i++)
        metric_sample(page, METRIC_LABELS(slice_of(denials[i])), sums->denied[i]);
}

/* ---- rows ---- */

const struct metric monitor_metrics[] = {
    [REQUESTS] = {.name = "tarry_http_requests_total",
                  .type = PROMETHEUS_COUNTER,
                  .labels = {"route", "code"},
                  .help = "Requests answered, by call and status.",
                  .meaning =
                      "`5..` grows: the server failed; `code=\"503\"` and `\"507\"` mean that it "
                      "is full or not ready. `4..` grows: a client is wrong; `\"429\"` means that "
                      "a limit is reached, and `\"499\"` that the client of a read closed its "
                      "connection before the answer: its timeout may be too short. Route `none`: "
                      "unknown path."},
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
                  .help = "Accepted connections, by listener.",
                  .meaning =
                      "Rises as fast as requests: clients do not keep connections open, which "
                      "takes most of the time of both sides, and nearly all of it with TLS."},
    [REFUSED] = {.name = "tarry_http_connections_refused_total",
                 .type = PROMETHEUS_COUNTER,
                 .help = "Connections rejected because there were too many.",
                 .meaning = "Raise `--max-connections`, or find the client that leaks them."},
    [FAILED] = {.name = "tarry_http_connections_failed_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"listener"},
                .help = "Connections closed before their first request, by listener: they lacked "
                        "the header of a proxy, or their TLS handshake was not finished.",
                .meaning = "A client does not trust the certificate's authority, a proxy sends no "
                           "header, or a scanner connects. With `log-level = debug` the log has "
                           "each reason."},
    [RECEIVED] = {.name = "tarry_http_received_bytes_total",
                  .type = PROMETHEUS_COUNTER,
                  .help = "Bytes received.",
                  .meaning = "Over pushed jobs it is the size of a job."},
    [SENT] = {.name = "tarry_http_sent_bytes_total",
              .type = PROMETHEUS_COUNTER,
              .help = "Bytes sent.",
              .meaning = "It includes lists with bodies and this page."},
    [REQUEST_MEMORY] = {.name = "tarry_http_memory_bytes",
                        .type = PROMETHEUS_GAUGE,
                        .help = "Memory held by requests, answers and waiting takes.",
                        .meaning = "Near `tarry_http_memory_max_bytes` requests are refused."},
    [REQUEST_MEMORY_MAX] = {.name = "tarry_http_memory_max_bytes",
                            .type = PROMETHEUS_GAUGE,
                            .help = "Limit of that memory (--max-request-memory).",
                            .meaning =
                                "As configured; by default a quarter of the machine's memory."},
    [MEMORY_REFUSED] =
        {.name = "tarry_http_memory_refused_total",
         .type = PROMETHEUS_COUNTER,
         .help = "Requests rejected because they would have exceeded that limit.",
         .meaning = "Clients request more at a time than `--max-request-memory` allows: use "
                    "smaller batches, or a larger limit."},
    [WAITING_TAKES] = {.name = "tarry_waiting_takes",
                       .type = PROMETHEUS_GAUGE,
                       .help = "Takes that wait for a job.",
                       .meaning =
                           "Free consumers. 0 while jobs are ready: there are too few of them. "
                           "More than 0 while jobs are ready: they wait for other topics, or the "
                           "topic is paused."},
    [STREAMS] = {.name = "tarry_http_streams",
                 .type = PROMETHEUS_GAUGE,
                 .help = "Open streams of events.",
                 .meaning = "Live viewers of the server: pages of the console, `tarry top`, `tarry "
                            "tail`. From 64 per thread on the next one is rejected with "
                            "`too_many_streams`."},
    [STREAM_EVENTS_LOST] =
        {.name = "tarry_http_stream_events_lost_total",
         .type = PROMETHEUS_COUNTER,
         .help = "Events dropped because clients of streams read too slowly.",
         .meaning = "A client listens to more events than it can read: select fewer topics "
                    "or kinds."},
    [DENIED] = {.name = "tarry_access_denied_total",
                .type = PROMETHEUS_COUNTER,
                .labels = {"reason"},
                .help = "Rejected requests and items of batches, by the missing right.",
                .meaning = "A token lacks a scope or a topic: the answer names it, and the audit "
                           "has its owner."},
    METRIC_END};
