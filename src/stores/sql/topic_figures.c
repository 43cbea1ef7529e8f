#include "sql/topic_figures.h"

static struct topic_settings settings_of(const struct sql_topic_figures *figures)
{
    const int64_t *at = figures->numbers;
    return (struct topic_settings){
        .policy = {.lease_ms = at[SQL_FIGURE_LEASE],
                   .ttl_ms = at[SQL_FIGURE_TTL],
                   .backoff = {.kind = (enum backoff_kind)at[SQL_FIGURE_BACKOFF_KIND],
                               .first_ms = at[SQL_FIGURE_BACKOFF_FIRST],
                               .max_ms = at[SQL_FIGURE_BACKOFF_MAX]},
                   .max_attempts = (uint32_t)at[SQL_FIGURE_ATTEMPTS_MAX]},
        .on_conflict = (enum record_conflict)at[SQL_FIGURE_CONFLICT],
        .has_priority = figures->has_priority,
        .priority = (uint16_t)at[SQL_FIGURE_PRIORITY],
        .dead_letter_expired = at[SQL_FIGURE_DEAD_LETTER] != 0,
        .dedup_window_ms = at[SQL_FIGURE_DEDUP],
        .history_ms = at[SQL_FIGURE_HISTORY],
        .max_jobs = (uint64_t)at[SQL_FIGURE_JOBS_MAX],
        .push_rate = {.count = (uint32_t)at[SQL_FIGURE_RATE_COUNT],
                      .unit = (enum frequency_unit)at[SQL_FIGURE_RATE_UNIT]},
        .extension = figures->extension,
    };
}

static uint64_t difference(int64_t all, int64_t part)
{
    return all > part ? (uint64_t)(all - part) : 0;
}

/* Combines the stored count of waiting jobs with the measured count of ready jobs. */
static struct queue_counts counts_of(const struct sql_topic_figures *figures)
{
    const int64_t *counts = figures->counts;
    int64_t fresh = figures->numbers[SQL_FIGURE_READY_FRESH];
    int64_t retry = figures->numbers[SQL_FIGURE_READY_RETRY];
    return (struct queue_counts){
        .delayed = difference(counts[SQL_COUNT_FRESH], fresh),
        .retrying = difference(counts[SQL_COUNT_RETRY], retry),
        .ready = (uint64_t)(fresh + retry),
        .leased = difference(counts[SQL_COUNT_LEASED], 0),
        .dead = difference(counts[SQL_COUNT_DEAD], 0),
        .dead_bytes = difference(counts[SQL_COUNT_DEAD_BYTES], 0),
    };
}

static struct topic_totals totals_of(const int64_t counts[SQL_COUNTS])
{
    return (struct topic_totals){
        .pushed = (uint64_t)counts[SQL_COUNT_PUSHED],
        .acked = (uint64_t)counts[SQL_COUNT_ACKED],
        .cancelled = (uint64_t)counts[SQL_COUNT_CANCELLED],
        .expired = (uint64_t)counts[SQL_COUNT_EXPIRED],
        .replaced = (uint64_t)counts[SQL_COUNT_REPLACED],
        .delivered = (uint64_t)counts[SQL_COUNT_DELIVERED],
        .nacked = (uint64_t)counts[SQL_COUNT_NACKED],
        .lease_ended = (uint64_t)counts[SQL_COUNT_LEASE_ENDED],
        .died = (uint64_t)counts[SQL_COUNT_DIED],
        .redriven = (uint64_t)counts[SQL_COUNT_REDRIVEN],
    };
}

void sql_topic_figures_fill(const struct sql_topic_figures *figures, struct queue_topic *out)
{
    *out = (struct queue_topic){
        .name = figures->name,
        .paused = figures->numbers[SQL_FIGURE_PAUSED] != 0,
        .paused_until_ms = figures->numbers[SQL_FIGURE_PAUSED_UNTIL],
        .settings = settings_of(figures),
        .counts = counts_of(figures),
        .totals = totals_of(figures->counts),
        .oldest_ready_due_ms = figures->numbers[SQL_FIGURE_OLDEST],
    };
}
