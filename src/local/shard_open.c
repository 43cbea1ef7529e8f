/* Opening a shard: the engine is filled from the log, the helper threads begin. And its end. */
#include "base/clock.h"
#include "base/random.h"
#include "local/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the engine's sink ---- */

static struct record_place on_append(void *ctx, const struct record *record)
{
    return wal_append(((struct shard *)ctx)->wal, record);
}

static void on_release(void *ctx, struct record_place place)
{
    wal_release(((struct shard *)ctx)->wal, place);
}

static void on_retain(void *ctx, struct record_place place)
{
    wal_retain(((struct shard *)ctx)->wal, place);
}

/* ---- open ---- */

/* The turn that follows is all that is wanted. */
static void on_deadline(void *ctx)
{
    (void)ctx;
}

static bool on_replay(void *ctx, const struct record *record, struct record_place place)
{
    struct shard *shard = ctx;
    return engine_replay(shard->engine, record, place);
}

static void init(struct shard *shard, const struct shard_options *options, struct reactor *reactor)
{
    shard->options = *options;
    shard->reactor = reactor;
    shard->body_bytes_max = options->local->body_bytes_max;
    shard->skew_ms = shard->engine_skew_ms = clock_skew_ms();
    list_init(&shard->waiting);
    list_init(&shard->soon);
    list_init(&shard->parked);
    list_init(&shard->walkings);
    news_init(shard);
    shard_init_works(shard);
    atomic_store(&shard->healthy, true);
    atomic_store(&shard->accepting, true);
}

static int open_log(struct shard *shard, struct wal_found *found, char *error, size_t error_bytes)
{
    const struct local_options *local = shard->options.local;
    size_t batch_bytes = 24u << 20;
    if (local->body_bytes_max * 2 > batch_bytes)
        batch_bytes = (size_t)local->body_bytes_max * 2;
    uint32_t file_bytes = local->wal_file_bytes ? local->wal_file_bytes : 64u << 20;
    if (batch_bytes > file_bytes / 2)
        batch_bytes = file_bytes / 2;
    struct wal_options options = {.fs = &fs_posix,
                                  .dir = shard->options.dir,
                                  .file_bytes = file_bytes,
                                  .batch_bytes_max = batch_bytes,
                                  .recent_bytes_max = 16u << 20,
                                  .sync = local->sync,
                                  .sync_interval_ms = local->sync_interval_ms,
                                  .inner_ms = clock_inner_ms,
                                  .wall_ms = clock_wall_ms};
    return wal_open(&options, on_replay, shard, &shard->wal, found, error, error_bytes);
}

static int recover(struct shard *shard, struct shard_recovered *recovered, char *error,
                   size_t error_bytes)
{
    int64_t began_us = clock_boot_us();
    struct wal_found found;
    struct engine_options options = {.sink = {.append = on_append,
                                              .release = on_release,
                                              .retain = on_retain,
                                              .ready = shard_on_engine_ready,
                                              .died = shard_on_engine_died,
                                              .ctx = shard},
                                     .hash_seed = shard->options.hash_seed,
                                     .body_bytes_max = shard->body_bytes_max,
                                     .topics_max = shard->options.local->topics_max,
                                     .random_seed = random_u64(),
                                     .now = shard_now(shard)};
    shard->engine = engine_new(&options);
    if (!shard->engine) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    int failed = open_log(shard, &found, error, error_bytes);
    if (failed)
        return failed;
    /* After a reboot the wall clock may stand before the last moment we know of: time does not go
     * back. */
    clock_raise(found.last_inner_ms);
    engine_start(shard->engine, found.epoch);
    struct engine_stats stats;
    engine_stats(shard->engine, &stats);
    *recovered = (struct shard_recovered){.counts = stats.counts,
                                          .records = found.records,
                                          .torn_bytes = found.torn_bytes,
                                          .took_ms = (clock_boot_us() - began_us) / 1000};
    shard->durable = wal_open_sequence(shard->wal) - 1;
    return 0;
}

int shard_open(const struct shard_options *options, struct reactor *reactor, struct shard **out,
               struct shard_recovered *recovered, char *error, size_t error_bytes)
{
    struct shard *shard = calloc(1, sizeof *shard);
    if (!shard) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    init(shard, options, reactor);
    shard->watches = watch_table_new();
    int failed = recover(shard, recovered, error, error_bytes);
    if (failed) {
        shard_free(shard);
        return failed;
    }
    shard->committer = worker_new(reactor, "committer");
    shard->librarian = worker_new(reactor, "librarian");
    shard->deadline = deadline_new(reactor, on_deadline, shard);
    if (!shard->watches || !shard->committer || !shard->librarian || !shard->deadline) {
        snprintf(error, error_bytes,
                 "cannot start the shard's helper threads: out of memory or of threads");
        shard_free(shard);
        return -ENOMEM;
    }
    shard->clock_watch = clock_watch_new(reactor);
    reactor_at_turn_end(reactor, shard_turn, shard);
    *out = shard;
    return 0;
}

void shard_free(struct shard *shard)
{
    if (!shard)
        return;
    worker_free(shard->committer);
    worker_free(shard->librarian);
    deadline_free(shard->deadline);
    clock_watch_free(shard->clock_watch);
    completions_fini(shard);
    carry_fini(shard);
    news_fini(shard);
    if (shard->wal)
        wal_close(shard->wal);
    engine_free(shard->engine);
    watch_table_free(shard->watches);
    free(shard);
}
