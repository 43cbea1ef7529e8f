#include "local/recovery.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/vector.h"
#include "local/awaits.h"
#include "local/checkpoint.h"
#include "local/shard_feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOT_MAX = 1 << 18,
    FILTERS_FROM = 256 /* number of lookups by key from which filters are worthwhile: with filters,
                        * each needs one table */
};

/*
 * ---- jobs that the log mentions but does not contain: they are in runs ----
 *
 * After the replay they are looked up, many at a time, and passed to the engine. The log has the
 * slot of most of them. The others became cold after the log record was written, or their run was
 * never committed: these are looked up by key.
 */

/* A set of lookups for one pass. */
VECTOR_DECLARE(lot, struct depot_want)

/* Loads the filters. A filter that cannot be read matches everything. */
static void recovery_load_filters(struct shard *shard)
{
    struct depot_view *view = depot_hold(shard->depot);
    if (!view)
        return;
    (void)depot_load_filters(view);
    depot_let_go(view);
}

static bool place_is_known(const struct shard *shard, struct record_place place)
{
    return place.bytes && depot_is_alive(shard->depot, place);
}

/* ---- many at a time ---- */

/* Looks up the whole lot and calls `met` for each job that was found. */
static void lot_find(struct shard *shard, struct lot *lot, depot_met *met)
{
    (void)depot_find_many(depot_view(shard->depot), shard->options.hash_seed, lot->at, lot->count,
                          met, shard);
    lot->count = 0;
}

/* Adds a lookup to the lot. When out of memory, it is left out. */
static void lot_want(struct shard *shard, struct lot *lot, struct depot_want one, depot_met *met)
{
    if (!place_is_known(shard, one.place) && ++shard->looked_up == FILTERS_FROM)
        recovery_load_filters(shard);
    (void)lot_add(lot, one);
    if (lot->count == LOT_MAX)
        lot_find(shard, lot, met);
}

static void fill_stub(void *ctx, const struct depot_want *want, const struct record *record)
{
    struct shard *shard = ctx;
    (void)engine_stub_fill(shard->engine, want->id, record, want->place);
}

/* Fills the engine's stubs with their jobs. */
static void fill_many(struct shard *shard, struct lot *lot)
{
    struct depot_want one = {0};
    for (uint32_t at = 0; engine_stub_next(shard->engine, &at, &one.key, &one.place);) {
        one.id = at;
        lot_want(shard, lot, one, fill_stub);
    }
    lot_find(shard, lot, fill_stub);
}

/* Releases a slot, unless it was released before: a key occurs as often as its job ended. */
static void release_slot(struct shard *shard, const struct record *record,
                         struct record_place place)
{
    if (depot_is_alive(shard->depot, place))
        engine_release_stored(shard->engine,
                              record->kind == RECORD_JOB ? record->job.topic : record->done.topic,
                              place);
}

static void release_met(void *ctx, const struct depot_want *want, const struct record *record)
{
    release_slot(ctx, record, want->place);
}

/* Releases the slots of jobs that ended. */
static void release_many(struct shard *shard, struct lot *lot)
{
    struct depot_want one = {0};
    for (uint32_t at = 0; engine_unresolved_next(shard->engine, &at, &one.key);)
        lot_want(shard, lot, one, release_met);
    lot_find(shard, lot, release_met);
}

/* ---- the rest, one at a time ---- */

/* Finds a stored job. Returns 1 if found, 0 if not, or a negative errno. */
static int find_stored(struct shard *shard, struct hash128 key, struct record_place *place,
                       struct buffer *bytes, struct record *record)
{
    struct slice at;
    buffer_clear(bytes);
    if (place_is_known(shard, *place)) {
        int failed = depot_read(depot_view(shard->depot), *place, true, bytes, &at);
        if (failed)
            return failed;
    } else {
        struct depot_hit hit;
        int found =
            depot_find(depot_view(shard->depot), shard->options.hash_seed, key, bytes, &hit);
        if (found != 1)
            return found;
        *place = hit.place;
        at = slice_make(bytes->at + hit.at, hit.place.bytes);
    }
    return record_decode(at, record) ? 1 : -EBADMSG;
}

/* Fills the remaining stubs. Each must have a job; the error explains why it could not be read. */
static int fill_rest(struct shard *shard, struct buffer *bytes)
{
    struct hash128 key;
    struct record_place place;
    struct record record;
    for (uint32_t at = 0; engine_stub_next(shard->engine, &at, &key, &place);) {
        int found = find_stored(shard, key, &place, bytes, &record);
        if (found != 1)
            return found < 0 ? found : -ENOENT;
        if (!engine_stub_fill(shard->engine, at, &record, place))
            return -EBADMSG;
    }
    return 0;
}

/* Releases the remaining slots. Most keys have no slot, as the filters show. */
static int release_rest(struct shard *shard, struct buffer *bytes)
{
    struct hash128 key;
    struct record record;
    for (uint32_t at = 0; engine_unresolved_next(shard->engine, &at, &key);) {
        struct record_place place = {0};
        int found = find_stored(shard, key, &place, bytes, &record);
        if (found < 0)
            return found;
        if (found)
            release_slot(shard, &record, place);
    }
    return 0;
}

/* Looks up all jobs. Returns 0 or a negative errno if one cannot be read or is missing. */
static int look_up_all(struct shard *shard)
{
    struct buffer bytes;
    struct lot lot = {0};
    buffer_init(&bytes, SIZE_MAX / 2);
    release_many(shard, &lot);
    int failed = release_rest(shard, &bytes);
    if (!failed) {
        fill_many(shard, &lot);
        failed = fill_rest(shard, &bytes);
    }
    buffer_fini(&bytes);
    lot_fini(&lot);
    return failed;
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
                                    .identity = shard->options.identity,
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
    if (local->body_bytes_max * 3 > batch_bytes) /* a record may hold a job and its successor */
        batch_bytes = (size_t)local->body_bytes_max * 3;
    uint32_t file_bytes = local->wal_file_bytes ? local->wal_file_bytes : 64u << 20;
    if (batch_bytes > file_bytes / 2)
        batch_bytes = file_bytes / 2;
    struct wal_options options = {.fs = fs_of(shard),
                                  .first = depot_catalog(shard->depot)->log_first,
                                  .first_sequence = depot_catalog(shard->depot)->log_first_sequence,
                                  .is_alone = depot_catalog(shard->depot)->generation == 0,
                                  .identity = shard->options.identity,
                                  .epoch_min = shard->options.epoch_min,
                                  .synced_min = shard->options.synced_min,
                                  .dir = shard->options.dir,
                                  .file_bytes = file_bytes,
                                  .batch_bytes_max = batch_bytes,
                                  .recent_bytes_max = 16u << 20,
                                  .replay_soon = on_replay_soon,
                                  .sync = local->sync,
                                  .sync_interval_ms = local->sync_interval_ms,
                                  .clock = shard->clock,
                                  .inner_ms = clock_inner_ms_of,
                                  .wall_ms = clock_wall_ms_of,
                                  .elapsed_ms =
                                      shard->clock == &clock_process ? NULL : clock_inner_ms};
    return wal_open(&options, on_replay, shard, &shard->wal, found, error, error_bytes);
}

/* ---- recovery: the figures of the catalog, the log after them, then what the log does not contain
 * ---- */

static int out_of_memory(char *error, size_t error_bytes)
{
    snprintf(error, error_bytes, "out of memory");
    return -ENOMEM;
}

/* Reports an event of all shards, on the first shard only. */
static void sink_resumed(void *ctx, struct slice topic)
{
    struct shard *shard = ctx;
    if (shard->options.index == 0)
        shard_feed_topic(shard, JOB_EVENT_RESUMED, topic, 0);
}

static int begin_engine(struct shard *shard, char *error, size_t error_bytes)
{
    const struct catalog *catalog = depot_catalog(shard->depot);
    struct engine_options options = {.sink = shard_engine_sink(shard),
                                     .hash_seed = shard->options.hash_seed,
                                     .body_bytes_max = shard->body_bytes_max,
                                     .topics_max = shard->options.local->topics_max,
                                     .shards = shard->options.shards,
                                     .shard = shard->options.index,
                                     .random_seed = random_u64(),
                                     .now = shard_now(shard)};
    options.sink.event = shard_feed_event;
    options.sink.resumed = sink_resumed;
    options.sink.ended = awaits_on_ended;
    shard->engine = engine_new(&options);
    if (!shard->engine)
        return out_of_memory(error, error_bytes);
    for (uint32_t i = 0; i < catalog->topic_count; i++) {
        const struct catalog_topic *topic = &catalog->topics[i];
        if (!engine_stored_begin(shard->engine, topic->name, topic->stored, topic->dead_bytes,
                                 topic->kept_bytes))
            return out_of_memory(error, error_bytes);
    }
    return 0;
}

static int look_up(struct shard *shard, char *error, size_t error_bytes)
{
    int failed = look_up_all(shard);
    if (failed)
        snprintf(error, error_bytes,
                 "the log in '%s' refers to a job that cannot be read from its run: %s; restore it "
                 "from a backup, or check with 'tarry fsck' (nothing was changed)",
                 shard->options.dir, strerror(-failed));
    return failed;
}

int shard_recover(struct shard *shard, struct shard_recovered *recovered, char *error,
                  size_t error_bytes)
{
    int64_t began_us = clock_boot_us();
    struct wal_found found;
    wal_prepare_dir(fs_of(shard), shard->options.dir);
    int failed = open_depot(shard, error, error_bytes);
    if (!failed)
        failed = begin_engine(shard, error, error_bytes);
    if (!failed)
        failed = open_log(shard, &found, error, error_bytes);
    if (!failed)
        failed = look_up(shard, error, error_bytes);
    if (failed)
        return failed;
    depot_remove_orphans(shard->depot);
    /* After a reboot, the wall clock may be before the last stored moment: time does not go
     * back. */
    clock_raise(shard->clock, found.last_inner_ms);
    clock_raise(shard->clock, depot_catalog(shard->depot)->inner_ms);
    depot_forget_catalog(shard->depot);
    engine_start(shard->engine, found.epoch);
    engine_keep_leases(shard->engine,
                       clock_inner_ms_of(shard->clock) + shard->options.local->lease_grace_ms);
    struct engine_stats stats;
    engine_stats(shard->engine, &stats);
    *recovered = (struct shard_recovered){.counts = stats.counts,
                                          .records = found.records,
                                          .torn_bytes = found.torn_bytes,
                                          .epoch = found.epoch,
                                          .sequence = wal_synced(shard->wal),
                                          .took_ms = (clock_boot_us() - began_us) / 1000};
    shard->durable = wal_open_sequence(shard->wal) - 1;
    return 0;
}
