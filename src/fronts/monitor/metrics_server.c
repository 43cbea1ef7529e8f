#include "monitor/metrics_server.h"

#include "audit/audit.h"
#include "base/feature.h"
#include "base/trouble.h"
#include "http/exchange.h"

enum {
    STORE_INFO,
    STORE_HEALTHY,
    STORE_ACCEPTING,
    DISK_USED,
    DISK_FULL,
    FINISHED_DROPPED,
    RUN_JOBS,
    RUNS,
    CHECKPOINTS,
    CHECKPOINT_FAILURES
};

enum { BUILD, STARTED, MEMORY, MEMORY_MAX, MEMORY_SPENT, FAILING };

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

/* ---- the store ---- */

static const char *const drops[QUEUE_DROPS] = {[QUEUE_DROP_NUMBER] = "number",
                                               [QUEUE_DROP_BYTES] = "bytes",
                                               [QUEUE_DROP_UNREADABLE] = "unreadable"};

/* Writes the time until the disk is full, if it fills up. */
static void write_disk_full(const struct http_shared *shared, struct metric_page *page)
{
    int64_t ms = shared->server ? shared->server->disk_full_in_ms(shared->server->ctx) : 0;
    if (ms)
        metric_write_time(page, &monitor_store_metrics[DISK_FULL], ms, 1000);
}

static bool step_store(struct monitor_metrics_server *server, struct metric_page *page)
{
    struct queue_info info = {0};
    queue_info(server->queue, &info);
    const char *class = info.durability_class ? info.durability_class : "none";
    metric_begin(page, &monitor_store_metrics[STORE_INFO]);
    metric_sample(page,
                  METRIC_LABELS(slice_of(info.store ? info.store : "none"), slice_of(class),
                                slice_of(info.sync ? info.sync : "none")),
                  1);
    metric_write(page, &monitor_store_metrics[STORE_HEALTHY], info.healthy);
    metric_write(page, &monitor_store_metrics[STORE_ACCEPTING], info.accepting);
    metric_write(page, &monitor_store_metrics[DISK_USED], info.bytes_on_disk);
    write_disk_full(server->shared, page);
    metric_begin(page, &monitor_store_metrics[FINISHED_DROPPED]);
    for (int drop = 0; drop < QUEUE_DROPS; drop++)
        metric_sample(page, METRIC_LABELS(slice_of(drops[drop])), info.finished_dropped[drop]);
    if (!monitor_store_is_embedded(&info))
        return true;
    metric_write(page, &monitor_store_metrics[RUN_JOBS], info.cold_jobs);
    metric_write(page, &monitor_store_metrics[RUNS], info.runs);
    metric_write(page, &monitor_store_metrics[CHECKPOINTS], info.checkpoints);
    metric_write(page, &monitor_store_metrics[CHECKPOINT_FAILURES], info.checkpoints_failed);
    return true;
}

/* ---- the server ---- */

/* Writes the optional parts of this build, as "redis,kafka". */
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
    metric_begin(page, &monitor_server_metrics[BUILD]);
    metric_sample(page, METRIC_LABELS(slice_of(version), buffer_slice(&wings)), 1);
}

static bool step_process(struct monitor_metrics_server *server, struct metric_page *page)
{
    struct http_shared *shared = server->shared;
    write_build(page, shared->version);
    metric_write_time(page, &monitor_server_metrics[STARTED], shared->started_ms, 1000);
    metric_write(page, &monitor_server_metrics[MEMORY], counter_get(&shared->process_bytes));
    metric_write(page, &monitor_server_metrics[MEMORY_MAX], shared->process_bytes_max);
    metric_write(page, &monitor_server_metrics[MEMORY_SPENT],
                 atomic_load_explicit(&shared->is_memory_spent, memory_order_relaxed));
    metric_begin(page, &monitor_server_metrics[FAILING]);
    for (int trouble = 1; trouble < TROUBLES; trouble++)
        metric_sample_time(page, METRIC_LABELS(slice_of(trouble_name((enum trouble)trouble))),
                           trouble_lasts_ms((enum trouble)trouble), 1000);
    audit_emit_metrics(page);
    return true;
}

/* ---- requests: collecting ---- */

static void add_front(struct monitor_requests *sums, struct http_front *front)
{
    const struct http_counters *counters = &front->counters;
    for (size_t route = 0; route < HTTP_ROUTES_MAX; route++) {
        for (size_t status = 0; status < HTTP_STATUSES; status++)
            sums->counts[route][status] += counter_get(&counters->requests[route][status]);
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

/* Adds the counters of one front per step. */
static bool step_gather(struct monitor_metrics_server *server, struct metric_page *page)
{
    struct http_shared *shared = server->shared;
    (void)page;
    pthread_mutex_lock(&shared->lock);
    bool is_front = server->at < shared->front_count;
    if (is_front)
        add_front(&server->requests, shared->fronts[server->at++]);
    pthread_mutex_unlock(&shared->lock);
    return !is_front;
}

/* ---- requests: writing ---- */

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

static void write_route_counts(const struct monitor_metrics_server *server,
                               struct metric_page *page, uint32_t first, const char *name)
{
    for (size_t status = 0; status < HTTP_STATUSES; status++) {
        uint64_t sum = 0;
        for (uint32_t i = first; i < HTTP_ROUTES_MAX; i++)
            if (is_of(server->shared, i, first))
                sum += server->requests.counts[i][status];
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

static void write_route_durations(const struct monitor_metrics_server *server,
                                  struct metric_page *page, uint32_t first, const char *name)
{
    static const char *const classes[HTTP_CLASSES] = {"2xx", "3xx", "4xx", "5xx"};
    for (size_t class = 0; class < HTTP_CLASSES; class ++) {
        struct buckets sum = {0};
        for (uint32_t i = first; i < HTTP_ROUTES_MAX; i++)
            if (is_of(server->shared, i, first))
                buckets_merge(&sum, &server->requests.durations[i][class]);
        if (buckets_total(&sum))
            metric_histogram(page, METRIC_LABELS(slice_of(name), slice_of(classes[class])), &sum,
                             &http_duration_bounds);
    }
}

/* Writes one route per step. */
static bool step_counts(struct monitor_metrics_server *server, struct metric_page *page)
{
    const char *name;
    if (server->at == 0)
        metric_begin(page, &monitor_metrics[REQUESTS]);
    if (!next_route(server->shared, &server->at, &name))
        return true;
    write_route_counts(server, page, server->at++, name);
    return false;
}

static bool step_durations(struct monitor_metrics_server *server, struct metric_page *page)
{
    const char *name;
    if (server->at == 0)
        metric_begin(page, &monitor_metrics[DURATION]);
    if (!next_route(server->shared, &server->at, &name))
        return true;
    write_route_durations(server, page, server->at++, name);
    return false;
}

static void write_listeners(struct metric_page *page, const struct monitor_requests *sums)
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

/* Writes the metrics without a route. */
static bool step_connections(struct monitor_metrics_server *server, struct metric_page *page)
{
    static const char *const denials[HTTP_DENIALS] = {
        [HTTP_DENIED_SCOPE] = "scope",
        [HTTP_DENIED_TOPIC] = "topic",
    };
    const struct monitor_requests *sums = &server->requests;
    struct http_shared *shared = server->shared;
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
    return true;
}

bool monitor_metrics_server_write(struct monitor_metrics_server *server, struct metric_page *page)
{
    static bool (*const steps[])(struct monitor_metrics_server *, struct metric_page *) = {
        step_store, step_gather, step_counts, step_durations, step_connections, step_process,
    };
    if (!steps[server->step](server, page))
        return false;
    server->at = 0;
    return ++server->step == sizeof steps / sizeof steps[0];
}

/* ---- rows ---- */

const struct metric monitor_store_metrics[] = {
    [STORE_INFO] = {.name = "tarry_store_info",
                    .type = PROMETHEUS_INFO,
                    .labels = {"store", "durability", "sync"},
                    .help = "The store of the jobs and what an answered push survives, as labels.",
                    .meaning = "A different `durability` than before: the persistence of Redis, or "
                               "`--sync`, was changed."},
    [STORE_HEALTHY] = {.name = "tarry_store_healthy",
                       .type = PROMETHEUS_GAUGE,
                       .help = "0 if the store has failed or cannot be reached.",
                       .meaning = "Worth an alert: nothing is pushed or delivered. Runbook pages "
                                  "*store*, *Redis away*."},
    [STORE_ACCEPTING] =
        {.name = "tarry_store_accepting",
         .type = PROMETHEUS_GAUGE,
         .help = "0 if pushes are rejected because of missing space.",
         .meaning = "Alert on it: runbook page *full*. Existing jobs are still processed."},
    [DISK_USED] = {.name = "tarry_disk_used_bytes",
                   .type = PROMETHEUS_GAUGE,
                   .help = "Bytes that the store takes.",
                   .meaning = "On the disk of the data directory; for Redis, its memory. Its slope "
                              "predicts when it will be full."},
    [DISK_FULL] = {.name = "tarry_disk_full_seconds",
                   .type = PROMETHEUS_GAUGE,
                   .help = "Time until the disk of the data directory is full, if it continues to "
                           "grow as in the last hour, or as in the last quarter of an hour if "
                           "that is less.",
                   .meaning = "Less than four hours: `tarry status` warns. All programs that use "
                              "the disk count. Runbook page *full*.",
                   .when = "while the disk of the embedded store fills up"},
    [FINISHED_DROPPED] =
        {.name = "tarry_finished_dropped_total",
         .type = PROMETHEUS_COUNTER,
         .labels = {"reason"},
         .help = "Kept finished jobs that were dropped before their time, by reason.",
         .meaning = "Grows with `number` or `bytes`: a topic finishes more jobs within its "
                    "`keep_finished` than its `keep_finished_max` or `keep_finished_bytes` "
                    "allows."},
#define EMBEDDED .when = "with the embedded store"
    [RUN_JOBS] = {.name = "tarry_store_run_jobs",
                  .type = PROMETHEUS_GAUGE,
                  .help = "Jobs that were moved from the log to runs on the disk.",
                  .meaning = "Jobs due in the far future, which use no memory.",
                  EMBEDDED},
    [RUNS] = {.name = "tarry_store_runs",
              .type = PROMETHEUS_GAUGE,
              .help = "Files of these jobs.",
              .meaning = "Some dozens. Hundreds: merging does not keep up with a slow disk.",
              EMBEDDED},
    [CHECKPOINTS] = {.name = "tarry_store_checkpoints_total",
                     .type = PROMETHEUS_COUNTER,
                     .help = "Checkpoints, each of which makes the log's oldest files unnecessary.",
                     .meaning = "One for each log file or so that is written.",
                     EMBEDDED},
    [CHECKPOINT_FAILURES] =
        {.name = "tarry_store_checkpoint_failures_total",
         .type = PROMETHEUS_COUNTER,
         .help = "Failed checkpoints, which are retried.",
         .meaning = "Grows: log files cannot be released and the disk fills. The server's "
                    "log has the reason.",
         EMBEDDED},
    METRIC_END};

const struct metric monitor_server_metrics[] = {
    [BUILD] = {.name = "tarry_build_info",
               .type = PROMETHEUS_INFO,
               .labels = {"version", "wings"},
               .help = "The version and the parts of this build, as labels.",
               .meaning = "Several versions at the same time: an upgrade is in progress."},
    [STARTED] = {.name = "process_start_time_seconds",
                 .type = PROMETHEUS_GAUGE,
                 .help = "When the process started, in seconds since 1970.",
                 .meaning = "Changes: it was restarted; all counters begin at 0."},
    [MEMORY] = {.name = "tarry_memory_bytes",
                .type = PROMETHEUS_GAUGE,
                .help = "Private memory of the process.",
                .meaning = "Grows with jobs due soon, connections and requests."},
    [MEMORY_MAX] = {.name = "tarry_memory_max_bytes",
                    .type = PROMETHEUS_GAUGE,
                    .help = "Limit of that memory (--max-memory).",
                    .meaning = "0: there is no limit."},
    [MEMORY_SPENT] = {.name = "tarry_memory_spent",
                      .type = PROMETHEUS_GAUGE,
                      .help = "1 while pushes are rejected because of missing memory.",
                      .meaning =
                          "Alert on it: due jobs are not taken fast enough, or `--max-memory` is "
                          "too small. Runbook page *full*."},
    [FAILING] =
        {.name = "tarry_background_failing_seconds",
         .type = PROMETHEUS_GAUGE,
         .labels = {"work"},
         .help = "How long each kind of background work has failed repeatedly; 0: it works.",
         .meaning =
             "Worth an alert above 60: `/v1/status` names the problem. Runbook page *background*."},
    METRIC_END};

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
