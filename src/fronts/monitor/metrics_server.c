#include "monitor/metrics_server.h"

#include "audit/audit.h"
#include "base/feature.h"
#include "base/trouble.h"
#include "http/state.h"

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

void monitor_metrics_server_write_store(struct http_shared *shared, struct queue *queue,
                                        struct metric_page *page)
{
    struct queue_info info = {0};
    queue_info(queue, &info);
    const char *class = info.durability_class ? info.durability_class : "none";
    metric_begin(page, &monitor_store_metrics[STORE_INFO]);
    metric_sample(page,
                  METRIC_LABELS(slice_of(info.store ? info.store : "none"), slice_of(class),
                                slice_of(info.sync ? info.sync : "none")),
                  1);
    metric_write(page, &monitor_store_metrics[STORE_HEALTHY], info.healthy);
    metric_write(page, &monitor_store_metrics[STORE_ACCEPTING], info.accepting);
    metric_write(page, &monitor_store_metrics[DISK_USED], info.bytes_on_disk);
    write_disk_full(shared, page);
    metric_begin(page, &monitor_store_metrics[FINISHED_DROPPED]);
    for (int drop = 0; drop < QUEUE_DROPS; drop++)
        metric_sample(page, METRIC_LABELS(slice_of(drops[drop])), info.finished_dropped[drop]);
    if (!monitor_store_is_embedded(&info))
        return;
    metric_write(page, &monitor_store_metrics[RUN_JOBS], info.cold_jobs);
    metric_write(page, &monitor_store_metrics[RUNS], info.runs);
    metric_write(page, &monitor_store_metrics[CHECKPOINTS], info.checkpoints);
    metric_write(page, &monitor_store_metrics[CHECKPOINT_FAILURES], info.checkpoints_failed);
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

void monitor_metrics_server_write(struct http_shared *shared, struct metric_page *page)
{
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
