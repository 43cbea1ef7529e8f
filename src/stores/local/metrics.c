/* The metrics of the embedded store. */
#include "base/clock.h"
#include "local/local.h"

#include <stdio.h>

enum {
    SYNC_DURATION,
    BATCH_BYTES,
    BATCH_RECORDS,
    RECORDS,
    WRITTEN_BYTES,
    LOG_FILES,
    DISK_FREE,
    DISK_SIZE,
    CHECKPOINT_DURATION,
    MERGES,
    LOOKUPS,
    FILTER_MISSES,
    READS,
    SPARE_BYTES,
    RECOVERY,
    CLOCK_STEPS,
    CLOCK_LAST_STEP
};

static const struct bucket_bounds sync_bounds = {.units = 1000000,
                                                 .count = 16,
                                                 .at = {100, 200, 500, 1000, 2000, 5000, 10000,
                                                        20000, 50000, 100000, 200000, 500000,
                                                        1000000, 2000000, 5000000, 10000000}};
static const struct bucket_bounds bytes_bounds = {
    .units = 1,
    .count = 10,
    .at = {256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}};
static const struct bucket_bounds records_bounds = {
    .units = 1, .count = 12, .at = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20000}};
static const struct bucket_bounds checkpoint_bounds = {
    .units = 1000,
    .count = 11,
    .at = {10, 50, 100, 500, 1000, 5000, 10000, 30000, 60000, 300000, 600000}};

/* ---- by shard ---- */

struct shard_label {
    char text[12];
    struct slice labels[METRIC_LABELS_MAX];
};

static const struct slice *label_of(struct shard_label *label, uint32_t shard)
{
    int len = snprintf(label->text, sizeof label->text, "%u", shard);
    *label->labels = slice_make(label->text, (size_t)len);
    return label->labels;
}

static void emit_times(const struct local *local, struct metric_page *page, int row, size_t offset,
                       const struct bucket_bounds *bounds)
{
    metric_begin(page, &local_metrics[row]);
    for (uint32_t i = 0; i < local_shards(local); i++) {
        struct shard_label label = {0};
        struct shard_times times = {0};
        local_times(local, i, &times);
        metric_histogram_of(page, label_of(&label, i),
                            (const struct histogram *)(const void *)((char *)&times + offset),
                            bounds);
    }
}

static void emit_numbers(const struct local *local, struct metric_page *page, int row,
                         size_t offset)
{
    metric_begin(page, &local_metrics[row]);
    for (uint32_t i = 0; i < local_shards(local); i++) {
        struct shard_label label = {0};
        struct shard_figures figures;
        local_figures(local, i, &figures);
        metric_sample(page, label_of(&label, i),
                      *(const uint64_t *)(const void *)((char *)&figures + offset));
    }
}

/* ---- over all shards ---- */

/* Returns the sums over all shards, except for the disk, which they share. */
static struct shard_figures all_figures(const struct local *local)
{
    struct shard_figures sum = {0};
    for (uint32_t i = 0; i < local_shards(local); i++) {
        struct shard_figures figures;
        local_figures(local, i, &figures);
        sum.disk_free_bytes = figures.disk_free_bytes;
        sum.disk_bytes = figures.disk_bytes;
        sum.keys_merges += figures.keys_merges;
        sum.lookups_found += figures.lookups_found;
        sum.lookups_absent += figures.lookups_absent;
        sum.filter_misses += figures.filter_misses;
        sum.spare_bytes += figures.spare_bytes;
        for (int from = 0; from < SHARD_READS; from++)
            sum.reads[from] += figures.reads[from];
        if (figures.recovery_ms > sum.recovery_ms)
            sum.recovery_ms = figures.recovery_ms;
    }
    return sum;
}

static void emit_sums(const struct local *local, struct metric_page *page)
{
    static const char *const from[SHARD_READS] = {[SHARD_READ_MEMORY] = "memory",
                                                  [SHARD_READ_PAGE_CACHE] = "page_cache",
                                                  [SHARD_READ_DISK] = "disk"};
    const struct shard_figures sum = all_figures(local);
    if (sum.disk_bytes > 0) {
        metric_write(page, &local_metrics[DISK_FREE], sum.disk_free_bytes);
        metric_write(page, &local_metrics[DISK_SIZE], sum.disk_bytes);
    }
    metric_write(page, &local_metrics[MERGES], sum.keys_merges);
    metric_begin(page, &local_metrics[LOOKUPS]);
    metric_sample(page, METRIC_LABELS(slice_of("found")), sum.lookups_found);
    metric_sample(page, METRIC_LABELS(slice_of("absent")), sum.lookups_absent);
    metric_write(page, &local_metrics[FILTER_MISSES], sum.filter_misses + sum.lookups_absent);
    metric_begin(page, &local_metrics[READS]);
    for (int i = 0; i < SHARD_READS; i++)
        metric_sample(page, METRIC_LABELS(slice_of(from[i])), sum.reads[i]);
    metric_write(page, &local_metrics[SPARE_BYTES], sum.spare_bytes);
    metric_write_time(page, &local_metrics[RECOVERY], sum.recovery_ms, 1000);
}

/* Writes the checkpoint durations of all shards together. */
static void emit_checkpoints(const struct local *local, struct metric_page *page)
{
    struct shard_times times = {0};
    for (uint32_t i = 0; i < local_shards(local); i++)
        local_times(local, i, &times);
    metric_begin(page, &local_metrics[CHECKPOINT_DURATION]);
    metric_histogram_of(page, NULL, &times.checkpoint_ms, &checkpoint_bounds);
}

static void emit_clock(struct metric_page *page)
{
    struct clock_steps steps;
    clock_steps(&steps);
    metric_write(page, &local_metrics[CLOCK_STEPS], steps.count);
    metric_write_time(page, &local_metrics[CLOCK_LAST_STEP], steps.last_ms, 1000);
}

void local_emit_metrics(const struct local *local, struct metric_page *page)
{
    emit_times(local, page, SYNC_DURATION, offsetof(struct shard_times, sync_us), &sync_bounds);
    emit_times(local, page, BATCH_BYTES, offsetof(struct shard_times, batch_bytes), &bytes_bounds);
    emit_times(local, page, BATCH_RECORDS, offsetof(struct shard_times, batch_records),
               &records_bounds);
    emit_numbers(local, page, RECORDS, offsetof(struct shard_figures, log_records));
    emit_numbers(local, page, WRITTEN_BYTES, offsetof(struct shard_figures, log_written_bytes));
    emit_numbers(local, page, LOG_FILES, offsetof(struct shard_figures, log_files));
    emit_checkpoints(local, page);
    emit_sums(local, page);
    emit_clock(page);
}

#define EMBEDDED .when = "with the embedded store"

const struct metric local_metrics[] = {
    [SYNC_DURATION] = {.name = "tarry_log_sync_duration_seconds",
                       .type = PROMETHEUS_HISTOGRAM,
                       .labels = {"shard"},
                       .help = "Time from the start of writing a batch to its sync.",
                       .meaning =
                           "The minimum wait of a push or an ack with `--sync always`. Grows: the "
                           "disk is slow, or shared with other programs. Batches written without a "
                           "sync are not included, so with `--sync never` there are hardly any.",
                       EMBEDDED},
    [BATCH_BYTES] = {.name = "tarry_log_batch_bytes",
                     .type = PROMETHEUS_HISTOGRAM,
                     .labels = {"shard"},
                     .help = "Bytes per write to the log.",
                     .meaning =
                         "Changes that arrive during a sync form the next batch: large batches "
                         "mean more load or longer syncs. No action needed.",
                     EMBEDDED},
    [BATCH_RECORDS] = {.name = "tarry_log_batch_records",
                       .type = PROMETHEUS_HISTOGRAM,
                       .labels = {"shard"},
                       .help = "Changes per write to the log.",
                       .meaning =
                           "Mostly 1: every change pays for its own sync, because clients send one "
                           "after the other. Batches or more parallel clients cost less.",
                       EMBEDDED},
    [RECORDS] = {.name = "tarry_log_records_total",
                 .type = PROMETHEUS_COUNTER,
                 .labels = {"shard"},
                 .help = "Changes written to the log.",
                 .meaning = "About three for a job that is pushed, taken and acked. Shards differ "
                            "much: few ids, or one busy id.",
                 EMBEDDED},
    [WRITTEN_BYTES] = {.name = "tarry_log_written_bytes_total",
                       .type = PROMETHEUS_COUNTER,
                       .labels = {"shard"},
                       .help = "Bytes written to the log.",
                       .meaning = "The load on the disk, without runs. A body is written once.",
                       EMBEDDED},
    [LOG_FILES] = {.name = "tarry_log_files",
                   .type = PROMETHEUS_GAUGE,
                   .labels = {"shard"},
                   .help = "Files of the log.",
                   .meaning = "A few. More than 7: checkpoints do not keep up, and pushes are "
                              "slowed down; see `tarry_store_checkpoint_failures_total`, or a "
                              "slow disk.",
                   EMBEDDED},
    [DISK_FREE] = {.name = "tarry_disk_free_bytes",
                   .type = PROMETHEUS_GAUGE,
                   .help = "Free on the file system of the data directory, at the last commit.",
                   .meaning = "Worth an alert: at 0 pushes are rejected. Runbook page *full*.",
                   EMBEDDED},
    [DISK_SIZE] = {.name = "tarry_disk_size_bytes",
                   .type = PROMETHEUS_GAUGE,
                   .help = "Size of the file system of the data directory.",
                   .meaning = "`tarry_disk_free_bytes` divided by it is the free share.",
                   EMBEDDED},
    [CHECKPOINT_DURATION] = {.name = "tarry_store_checkpoint_duration_seconds",
                             .type = PROMETHEUS_HISTOGRAM,
                             .help = "Duration of a checkpoint.",
                             .meaning = "Seconds to minutes: it yields to the log's syncs. Longer "
                                        "than two log files take to fill: pushes are slowed down.",
                             EMBEDDED},
    [MERGES] = {.name = "tarry_store_merges_total",
                .type = PROMETHEUS_COUNTER,
                .help = "Merges of tables of keys.",
                .meaning = "One per few checkpoints. Nothing to do.",
                EMBEDDED},
    [LOOKUPS] = {.name = "tarry_store_cold_lookups_total",
                 .type = PROMETHEUS_COUNTER,
                 .labels = {"result"},
                 .help = "Lookups of jobs in runs, because they were not in memory.",
                 .meaning =
                     "Each is one or two reads of the disk. `found`: jobs that outlived the log "
                     "are changed or read by id. `absent`: a filter was wrong.",
                 EMBEDDED},
    [FILTER_MISSES] = {.name = "tarry_store_filter_misses_total",
                       .type = PROMETHEUS_COUNTER,
                       .help = "Times a filter matched a key without a job.",
                       .meaning = "Some in a thousand pushes with new ids. All of them right after "
                                  "a start: the filters are still being read.",
                       EMBEDDED},
    [READS] = {.name = "tarry_store_body_reads_total",
               .type = PROMETHEUS_COUNTER,
               .labels = {"from"},
               .help = "Bodies read for deliveries and answers, by source.",
               .meaning = "Mostly `disk`: bodies do not fit into memory, and deliveries wait for "
                          "the disk. More memory for the page cache helps.",
               EMBEDDED},
    [SPARE_BYTES] = {.name = "tarry_store_spare_bytes",
                     .type = PROMETHEUS_GAUGE,
                     .help = "Memory of former jobs, kept for the next ones.",
                     .meaning = "It stays after a peak, and is not a leak.",
                     EMBEDDED},
    [RECOVERY] = {.name = "tarry_store_recovery_duration_seconds",
                  .type = PROMETHEUS_GAUGE,
                  .help = "Time to open the store, of the slowest shard.",
                  .meaning = "The duration of a restart. Grows with the log that is replayed.",
                  EMBEDDED},
    [CLOCK_STEPS] = {.name = "tarry_clock_steps_total",
                     .type = PROMETHEUS_COUNTER,
                     .help = "Steps of the wall clock by more than 100 ms.",
                     .meaning = "Jobs pushed with `at` follow the clock, delays and leases do not. "
                                "Again and again: runbook page *clock*.",
                     EMBEDDED},
    [CLOCK_LAST_STEP] = {.name = "tarry_clock_last_step_seconds",
                         .type = PROMETHEUS_GAUGE,
                         .help = "Size of the last step; negative: back.",
                         .meaning =
                             "Large steps come from a manual change or a suspended machine, small "
                             "ones from an NTP that steps instead of slewing.",
                         EMBEDDED},
    METRIC_END};
