#include "local/loading.h"

#include "local/loading_private.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    HORIZON_MS = 10000,
    TOPIC_QUOTA = 100000,
    GRAINS = 512,        /* of a horizon: how exactly is told what is due of what was passed by */
    READY_SLACK = 16384, /* what slices under way may bring beyond a quota */
    RETRY_MS = 1000
};

struct loading *loading_new(struct shard *shard)
{
    struct loading *loading = calloc(1, sizeof *loading);

    if (!loading)
        return NULL;
    const struct shard_limits *limits = &shard->options.limits;
    loading->shard = shard;
    loading->horizon_ms = limits->horizon_ms ? limits->horizon_ms : HORIZON_MS;
    loading->grain_ms = loading->horizon_ms / GRAINS ? loading->horizon_ms / GRAINS : 1;
    loading->quota = limits->topic_quota ? limits->topic_quota : TOPIC_QUOTA;
    loading->due_next_ms = INT64_MAX;
    list_init(&loading->held);
    list_init(&loading->changed);
    return loading;
}

void loading_free(struct loading *loading)
{
    if (!loading)
        return;
    loading_load_none(loading);
    if (loading->reading) { /* its thread has ended; its letter never comes */
        loading_slice_end(loading->reading);
        loading_slice_free(loading->reading);
    }
    loading_runs_fini(loading);
    loading_recent_fini(loading);
    free(loading);
}

int loading_begin(struct loading *loading, char *error, size_t error_bytes)
{
    int failed = loading_runs_follow(loading) ? 0 : -ENOMEM;

    for (uint32_t i = 0; !failed && i < loading->run_count; i++) {
        failed = loading_load_part(loading, loading->runs[i], PART_LEASED);
        if (failed)
            snprintf(error, error_bytes,
                     "cannot read leased jobs of run %u: %s, look with 'tarry fsck'",
                     loading->runs[i]->number, strerror(-failed));
    }
    if (failed == -ENOMEM)
        snprintf(error, error_bytes, "out of memory");
    loading->begun = !failed;
    return failed;
}

/* ---- turns ---- */

static void follow(struct loading *loading, struct engine_now now)
{
    const struct depot_view *view = depot_view(loading->shard->depot);

    if (!loading->stale && view->generation == loading->generation)
        return;
    loading->stale = !loading_runs_follow(loading);
    if (loading->stale)
        loading->retry_ms = now.inner_ms + RETRY_MS;
}

bool loading_step(struct loading *loading, struct engine_now now)
{
    const struct shard *shard = loading->shard;

    if (!loading->begun)
        return false;
    if (shard->stopping || shard->broken) {
        loading_load_none(loading);
        return false;
    }
    if (now.inner_ms < loading->retry_ms)
        return false;
    loading->retry_ms = 0;
    follow(loading, now);
    if (now.skew_ms != loading->skew_ms)
        loading_topics_stepped(loading, now);
    loading->skew_ms = now.skew_ms;
    loading_topics_restart(loading, now);
    loading_topics_ask(loading);
    bool more = loading_load_some(loading, now);
    if (!loading->retry_ms && !loading->reading && !loading->queue[1])
        loading_read_next(loading, now);
    loading_topics_tell(loading, now);
    return more;
}

bool loading_is_busy(const struct loading *loading)
{
    return loading->reading || loading->queue[0];
}

int64_t loading_next_ms(struct loading *loading)
{
    if (!loading->begun || loading->shard->stopping || loading->shard->broken)
        return INT64_MAX;
    if (loading->retry_ms)
        return loading->retry_ms;
    int64_t next_ms = loading->due_next_ms;
    if (!loading->reading && !loading->queue[1]) {
        int64_t slice_ms = loading_slice_ms(loading);
        if (slice_ms < next_ms)
            next_ms = slice_ms;
    }
    if (loading->restarts && loading->restart_ms < next_ms)
        next_ms = loading->restart_ms;
    return next_ms;
}

uint64_t loading_unreadable(const struct loading *loading)
{
    return loading->unreadable;
}

void loading_view_changed(struct loading *loading)
{
    loading->stale = true;
}

/* ---- eviction ---- */

/* What was passed must not be evicted, as it would not be met again: also where the wall clock has
 * gone back since. */
static int64_t passed_ms(const struct loading *loading, const struct loading_run *run,
                         enum job_part part)
{
    int64_t at_ms = run->cursors[part].passed_ms;

    return at_ms == INT64_MIN || !job_part_is_wall(part) ? at_ms : at_ms - loading->shard->skew_ms;
}

int64_t loading_keep_until_ms(const struct loading *loading, struct engine_now now)
{
    int64_t until_ms = now.inner_ms + loading->horizon_ms;
    const struct loading_slice *reading = loading->reading;

    for (uint32_t i = 0; i < loading->run_count; i++)
        for (enum job_part part = PART_DELAYED; part <= PART_REMEMBERED; part++) {
            int64_t at_ms = passed_ms(loading, loading->runs[i], part);
            if (at_ms > until_ms)
                until_ms = at_ms;
        }
    if (reading && !reading->refill) {
        int64_t at_ms = reading->limit_ms;
        if (job_part_is_wall(reading->part))
            at_ms -= loading->shard->skew_ms;
        if (at_ms > until_ms)
            until_ms = at_ms;
    }
    return until_ms + 1;
}

uint64_t loading_ready_max(struct loading *loading)
{
    uint64_t max = loading->quota + READY_SLACK;

    if (engine_entries(loading->shard->engine) > max)
        loading_topics_over(loading, max, shard_now(loading->shard));
    return max;
}
