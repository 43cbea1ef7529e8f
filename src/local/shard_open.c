/* Opening a shard: the engine is filled from the log, the helper threads begin. And its end. */
#include "base/clock.h"
#include "base/random.h"
#include "local/checkpoint.h"
#include "local/preload.h"
#include "local/recovery_lookup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the engine's sink ---- */

static struct record_place on_append(void *ctx, const struct record *record)
{
    return wal_append(((struct shard *)ctx)->wal, record);
}

static enum engine_slot on_release_slot(void *ctx, struct record_place place,
                                        enum job_section *section)
{
    switch (depot_release(((struct shard *)ctx)->depot, place, section)) {
    case DEPOT_RELEASED:
        return SLOT_RELEASED;
    case DEPOT_WAS_DEAD:
        return SLOT_WAS_DEAD;
    case DEPOT_NEVER_COMMITTED:
        break;
    }
    return SLOT_UNKNOWN;
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

static void on_replay_soon(void *ctx, const struct record *records, size_t count)
{
    const struct shard *shard = ctx;
    engine_replay_soon(shard->engine, records, count);
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
    list_init(&shard->held);
    list_init(&shard->scans);
    news_init(shard);
    shard_init_works(shard);
    atomic_store(&shard->healthy, true);
    atomic_store(&shard->accepting, true);
}

static const struct fs *fs_of(const struct shard *shard)
{
    return shard->options.fs ? shard->options.fs : &fs_posix;
}

static int open_depot(struct shard *shard, char *error, size_t error_bytes)
{
    const struct shard_limits *limits = &shard->options.limits;
    struct depot_options options = {.fs = fs_of(shard),
                                    .dir = shard->options.dir,
                                    .hash_seed = shard->options.hash_seed,
                                    .pace = checkpoint_pace,
                                    .ctx = shard,
                                    .slack_bytes = limits->slack_bytes,
                                    .victim_bytes_max = limits->victim_bytes_max,
                                    .keys_fan = limits->keys_fan,
                                    .keys_entries_max = limits->keys_entries_max};
    return depot_open(&options, &shard->depot, error, error_bytes);
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
    struct wal_options options = {.fs = fs_of(shard),
                                  .first = depot_catalog(shard->depot)->log_first,
                                  .first_sequence = depot_catalog(shard->depot)->log_first_sequence,
                                  .is_alone = depot_catalog(shard->depot)->generation == 0,
                                  .dir = shard->options.dir,
                                  .file_bytes = file_bytes,
                                  .batch_bytes_max = batch_bytes,
                                  .recent_bytes_max = 16u << 20,
                                  .replay_soon = on_replay_soon,
                                  .sync = local->sync,
                                  .sync_interval_ms = local->sync_interval_ms,
                                  .inner_ms = clock_inner_ms,
                                  .wall_ms = clock_wall_ms};
    return wal_open(&options, on_replay, shard, &shard->wal, found, error, error_bytes);
}

/* ---- recovery: the catalog's figures, the log over them, then what the log could not tell ---- */

static int out_of_memory(char *error, size_t error_bytes)
{
    snprintf(error, error_bytes, "out of memory");
    return -ENOMEM;
}

static int begin_engine(struct shard *shard, char *error, size_t error_bytes)
{
    const struct catalog *catalog = depot_catalog(shard->depot);
    struct engine_options options = {.sink = {.append = on_append,
                                              .release_slot = on_release_slot,
                                              .ready = shard_on_engine_ready,
                                              .died = shard_on_engine_died,
                                              .ctx = shard},
                                     .hash_seed = shard->options.hash_seed,
                                     .body_bytes_max = shard->body_bytes_max,
                                     .topics_max = shard->options.local->topics_max,
                                     .random_seed = random_u64(),
                                     .now = shard_now(shard)};
    shard->engine = engine_new(&options);
    if (!shard->engine)
        return out_of_memory(error, error_bytes);
    for (uint32_t i = 0; i < catalog->topic_count; i++) {
        const struct catalog_topic *topic = &catalog->topics[i];
        if (!engine_stored_begin(shard->engine, topic->name, topic->stored, topic->dead_bytes))
            return out_of_memory(error, error_bytes);
    }
    return 0;
}

static int complete(struct shard *shard, char *error, size_t error_bytes)
{
    int failed = recovery_lookup_find(shard);
    if (failed)
        snprintf(error, error_bytes,
                 "the log in '%s' tells of a job that cannot be read from its run: %s; restore it "
                 "from a backup, or see what 'tarry fsck' says (nothing was changed)",
                 shard->options.dir, strerror(-failed));
    return failed;
}

static int recover(struct shard *shard, struct shard_recovered *recovered, char *error,
                   size_t error_bytes)
{
    int64_t began_us = clock_boot_us();
    struct wal_found found;
    int failed = open_depot(shard, error, error_bytes);
    if (!failed)
        failed = begin_engine(shard, error, error_bytes);
    if (!failed)
        failed = open_log(shard, &found, error, error_bytes);
    if (!failed)
        failed = complete(shard, error, error_bytes);
    if (failed)
        return failed;
    /* After a reboot the wall clock may stand before the last moment we know of: time does not go
     * back. */
    clock_raise(found.last_inner_ms);
    clock_raise(depot_catalog(shard->depot)->inner_ms);
    depot_forget_catalog(shard->depot);
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

static int start_helpers(struct shard *shard, char *error, size_t error_bytes)
{
    shard->committer = worker_new(shard->reactor, "committer");
    shard->librarian = worker_new(shard->reactor, "librarian");
    shard->scout = worker_new(shard->reactor, "scout");
    shard->archivist = worker_new(shard->reactor, "archivist");
    shard->deadline = deadline_new(shard->reactor, on_deadline, shard);
    shard->checkpoint = checkpoint_new(shard);
    shard->preload = preload_new(shard);
    if (!shard->committer || !shard->librarian || !shard->scout || !shard->archivist ||
        !shard->deadline || !shard->checkpoint || !shard->preload) {
        snprintf(error, error_bytes,
                 "cannot start the shard's helper threads: out of memory or of threads");
        return -ENOMEM;
    }
    return preload_begin(shard->preload, error, error_bytes);
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
    int failed = shard->watches ? recover(shard, recovered, error, error_bytes)
                                : out_of_memory(error, error_bytes);
    if (!failed)
        failed = start_helpers(shard, error, error_bytes);
    if (failed) {
        shard_free(shard);
        return failed;
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
    worker_free(shard->scout);
    worker_free(shard->archivist);
    deadline_free(shard->deadline);
    clock_watch_free(shard->clock_watch);
    completions_fini(shard);
    news_fini(shard);
    checkpoint_free(shard->checkpoint);
    preload_free(shard->preload);
    if (shard->wal)
        wal_close(shard->wal);
    if (shard->depot)
        depot_close(shard->depot);
    engine_free(shard->engine);
    watch_table_free(shard->watches);
    free(shard);
}
