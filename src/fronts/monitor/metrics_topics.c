#include "monitor/metrics_topics.h"

#include "http/front.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- collecting ---- */

static int by_name(const void *a, const void *b)
{
    return slice_compare(monitor_shown_topic_name(*(struct monitor_shown_topic *const *)a),
                         monitor_shown_topic_name(*(struct monitor_shown_topic *const *)b));
}

static void show_topic(struct monitor_shown_topic *shown, const struct queue_topic *topic)
{
    shown->counts = topic->counts;
    shown->totals = topic->totals;
    shown->oldest_ready_due_ms = topic->oldest_ready_due_ms;
    shown->jobs = topic->counts.delayed + topic->counts.retrying + topic->counts.ready +
                  topic->counts.leased + topic->counts.dead;
    shown->paused = topic->paused;
    shown->has_soon = false;
    shown->groups = topic->groups;
    memcpy(shown->held_by, topic->held_by, sizeof shown->held_by);
    shown->name_bytes = (uint8_t)topic->name.len;
    memcpy(shown->name, topic->name.at, topic->name.len);
}

static void add_to_others(struct monitor_shown_topic *others,
                          const struct monitor_shown_topic *topic)
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
static void drop_topics(struct monitor_metrics_topics *topics)
{
    for (size_t i = 0; i < topics->largest.count; i++)
        free(topics->largest.at[i]);
    topics->largest.count = 0;
    topics->has_others = false;
}

void monitor_metrics_topics_fini(struct monitor_metrics_topics *topics)
{
    drop_topics(topics);
    monitor_largest_topics_fini(&topics->largest);
    free(topics->spare);
}

bool monitor_metrics_topics_add(struct monitor_metrics_topics *topics,
                                const struct queue_topic *topic)
{
    struct monitor_largest_topics *largest = &topics->largest;
    struct monitor_shown_topic *shown = topics->spare ? topics->spare : malloc(sizeof *shown);
    topics->spare = NULL;
    if (!shown)
        return false;
    show_topic(shown, topic);
    topics->count++;
    if (largest->count < topics->shown_max) {
        if (monitor_largest_topics_add(largest, shown))
            return true;
        free(shown);
        return false;
    }
    if (largest->count && monitor_shown_topic_is_larger(shown, largest->at[0])) {
        struct monitor_shown_topic *dropped = largest->at[0];
        largest->at[0] = shown;
        monitor_largest_topics_changed(largest, 0);
        shown = dropped;
    }
    topics->has_others = true;
    add_to_others(&topics->others, shown);
    topics->spare = shown;
    return true;
}

void monitor_metrics_topics_end(struct monitor_metrics_topics *topics, bool is_whole)
{
    struct monitor_largest_topics *largest = &topics->largest;
    topics->is_whole = is_whole;
    if (!is_whole)
        drop_topics(topics);
    if (largest->count)
        qsort((void *)largest->at, largest->count, sizeof *largest->at, by_name);
}

void monitor_metrics_topics_set_soon(struct monitor_metrics_topics *topics, size_t at,
                                     uint64_t soon)
{
    topics->largest.at[at]->soon = soon;
    topics->largest.at[at]->has_soon = true;
}

bool monitor_metrics_topics_next_soon(struct monitor_metrics_topics *topics, size_t *at)
{
    for (; *at < topics->largest.count; ++*at) {
        const struct queue_counts *counts = &topics->largest.at[*at]->counts;
        if (counts->delayed + counts->retrying > 0)
            return true;
        monitor_metrics_topics_set_soon(topics, *at, 0);
    }
    return false;
}

/* ---- writing ---- */

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
                        const struct monitor_shown_topic *topic, int64_t now_ms)
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

bool monitor_metrics_topics_write(const struct monitor_metrics_topics *topics,
                                  struct metric_page *page, uint32_t *at, int64_t now_ms)
{
    const struct monitor_largest_topics *largest = &topics->largest;
    uint32_t rows = (uint32_t)largest->count + 1, which = *at / rows;
    uint32_t row = *at % rows;
    if (row == 0)
        metric_begin(page, &monitor_topic_metrics[which]);
    if (row + 1 < rows)
        write_topic(page, which, monitor_shown_topic_name(largest->at[row]), largest->at[row],
                    now_ms);
    else if (topics->has_others)
        write_topic(page, which, slice_of(METRIC_OTHERS), &topics->others, now_ms);
    if (++*at < TOPIC_METRICS * rows)
        return false;
    if (topics->is_whole)
        metric_write(page, &monitor_topic_metrics[TOPICS], topics->count);
    return true;
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
