#include "local/preload.h"

#include "local/preload_private.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    HORIZON_MS = 10000,
    TOPIC_QUOTA = 100000,
    GRAINS = 512,        /* of a horizon: how exactly is told what is due of what was passed by */
    READY_SLACK = 16384, /* what slices under way may bring beyond a quota */
    RETRY_MS = 1000
};

struct preload *preload_new(struct shard *shard)
{
    struct preload *preload = calloc(1, sizeof *preload);

    if (!preload)
        return NULL;
    const struct shard_limits *limits = &shard->options.limits;
    preload->shard = shard;
    preload->horizon_ms = limits->horizon_ms ? limits->horizon_ms : HORIZON_MS;
    preload->grain_ms = preload->horizon_ms / GRAINS ? preload->horizon_ms / GRAINS : 1;
    preload->quota = limits->topic_quota ? limits->topic_quota : TOPIC_QUOTA;
    preload->due_next_ms = INT64_MAX;
    list_init(&preload->held);
    list_init(&preload->changed);
    return preload;
}

void preload_free(struct preload *preload)
{
    if (!preload)
        return;
    preload_load_none(preload);
    if (preload->reading) { /* its thread has ended; its letter never comes */
        preload_slice_end(preload->reading);
        preload_slice_free(preload->reading);
    }
    preload_runs_fini(preload);
    preload_recent_fini(preload);
    free(preload);
}

int preload_begin(struct preload *preload, char *error, size_t error_bytes)
{
    int failed = preload_runs_follow(preload) ? 0 : -ENOMEM;

    for (uint32_t i = 0; !failed && i < preload->run_count; i++) {
        failed = preload_load_section(preload, preload->runs[i], SECTION_LEASED);
        if (failed)
            snprintf(error, error_bytes,
                     "cannot read leased jobs of run %u: %s, look with 'tarry fsck'",
                     preload->runs[i]->number, strerror(-failed));
    }
    if (failed == -ENOMEM)
        snprintf(error, error_bytes, "out of memory");
    preload->begun = !failed;
    return failed;
}

/* ---- turns ---- */

static void follow(struct preload *preload, struct engine_now now)
{
    const struct depot_view *view = depot_view(preload->shard->depot);

    if (!preload->stale && view->generation == preload->generation)
        return;
    preload->stale = !preload_runs_follow(preload);
    if (preload->stale)
        preload->retry_ms = now.inner_ms + RETRY_MS;
}

bool preload_step(struct preload *preload, struct engine_now now)
{
    const struct shard *shard = preload->shard;

    if (!preload->begun)
        return false;
    if (shard->stopping || shard->broken) {
        preload_load_none(preload);
        return false;
    }
    if (now.inner_ms < preload->retry_ms)
        return false;
    preload->retry_ms = 0;
    follow(preload, now);
    if (now.skew_ms != preload->skew_ms)
        preload_topics_stepped(preload, now);
    preload->skew_ms = now.skew_ms;
    preload_topics_restart(preload, now);
    preload_topics_ask(preload);
    bool more = preload_load_some(preload, now);
    if (!preload->retry_ms && !preload->reading && !preload->queue[1])
        preload_read_next(preload, now);
    preload_topics_tell(preload, now);
    return more;
}

bool preload_is_busy(const struct preload *preload)
{
    return preload->reading || preload->queue[0];
}

int64_t preload_next_ms(struct preload *preload)
{
    if (!preload->begun || preload->shard->stopping || preload->shard->broken)
        return INT64_MAX;
    if (preload->retry_ms)
        return preload->retry_ms;
    int64_t next_ms = preload->due_next_ms;
    if (!preload->reading && !preload->queue[1]) {
        int64_t slice_ms = preload_slice_ms(preload);
        if (slice_ms < next_ms)
            next_ms = slice_ms;
    }
    if (preload->restarts && preload->restart_ms < next_ms)
        next_ms = preload->restart_ms;
    return next_ms;
}

uint64_t preload_unreadable(const struct preload *preload)
{
    return preload->unreadable;
}

void preload_view_changed(struct preload *preload)
{
    preload->stale = true;
}

/* ---- eviction ---- */

/* What was passed must not be evicted, as it would not be met again: also where the wall clock has
 * gone back since. */
static int64_t passed_ms(const struct preload *preload, const struct preload_run *run,
                         enum job_section section)
{
    int64_t at_ms = run->cursors[section].passed_ms;

    return at_ms == INT64_MIN || !job_section_is_wall(section) ? at_ms
                                                               : at_ms - preload->shard->skew_ms;
}

int64_t preload_keep_until_ms(const struct preload *preload, struct engine_now now)
{
    int64_t until_ms = now.inner_ms + preload->horizon_ms;
    const struct preload_slice *reading = preload->reading;

    for (uint32_t i = 0; i < preload->run_count; i++)
        for (enum job_section section = SECTION_DELAYED; section <= SECTION_REMEMBERED; section++) {
            int64_t at_ms = passed_ms(preload, preload->runs[i], section);
            if (at_ms > until_ms)
                until_ms = at_ms;
        }
    if (reading && !reading->refill) {
        int64_t at_ms = reading->limit_ms;
        if (job_section_is_wall(reading->section))
            at_ms -= preload->shard->skew_ms;
        if (at_ms > until_ms)
            until_ms = at_ms;
    }
    return until_ms + 1;
}

uint64_t preload_ready_max(struct preload *preload)
{
    uint64_t max = preload->quota + READY_SLACK;

    if (engine_entries(preload->shard->engine) > max)
        preload_topics_over(preload, max, shard_now(preload->shard));
    return max;
}
