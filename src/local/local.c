#include "local/local.h"

#include "base/clock.h"
#include "base/duration.h"
#include "base/hash.h"
#include "base/log.h"
#include "local/backup.h"
#include "local/handle.h"
#include "local/settle.h"
#include "store/datadir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The inner clock goes on where it was: by boot time within the same boot, else by the wall clock,
 * which may have been set while the inner one went on: the two are as far apart as they were. */
static void start_clock(const struct datadir_manifest *manifest)
{
    char boot_id[37];
    clock_boot_id(boot_id);
    int64_t inner_ms = clock_wall_ms() - manifest->skew_ms;
    if (!manifest->is_new && boot_id[0] && !strcmp(boot_id, manifest->boot_id))
        inner_ms = clock_boot_us() / 1000 + manifest->boot_offset_ms;
    clock_start(inner_ms > 0 ? inner_ms : 0);
}

static int remember_clock(struct local *local)
{
    clock_boot_id(local->manifest.boot_id);
    /* In this order: a millisecond that passes in between makes the next start late, not early. */
    int64_t inner_ms = clock_inner_ms();
    local->manifest.boot_offset_ms = inner_ms - clock_boot_us() / 1000;
    /* For the same reason one more: both clocks are cut to milliseconds. */
    local->manifest.skew_ms = clock_skew_ms() + 1;
    return datadir_write(local->datadir, &local->manifest);
}

static void name_sync_interval(struct local *local)
{
    struct buffer text;
    buffer_init(&text, sizeof local->sync_interval - 1);
    duration_emit(&text, local->options.sync_interval_ms);
    if (!text.failed)
        memcpy(local->sync_interval, text.at, text.len);
    buffer_fini(&text);
}

int local_open(const struct local_options *options, struct local **out, uint32_t *shards,
               char *error, size_t error_bytes)
{
    struct local *local = calloc(1, sizeof *local);
    if (!local) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    local->options = *options;
    int failed = datadir_open(options->data_dir, options->shards, &local->datadir, &local->manifest,
                              error, error_bytes);
    if (failed) {
        free(local);
        return failed;
    }
    local->shard_count = local->manifest.shards;
    start_clock(&local->manifest);
    name_sync_interval(local);
    *shards = local->shard_count;
    *out = local;
    return 0;
}

const char *local_store_name(const struct local *local)
{
    return local->manifest.name;
}

static void on_shard_ready(void *ctx, struct slice topic, uint64_t reactors)
{
    struct handle *handle = ctx;
    route_ready(handle->local, handle->index, topic, reactors);
}

static void on_shard_event(void *ctx, enum queue_event event, struct slice topic)
{
    struct handle *handle = ctx;
    route_event(handle->local, handle->index, event, topic);
}

/* On a helper thread. What could not be written now is at the next step or start. */
static void on_clock_stepped(void *ctx)
{
    struct handle *handle = ctx;
    int failed = remember_clock(handle->local);
    if (failed)
        log_event(LOG_WARN, "clock step not written down", LOG_TEXT("error", strerror(-failed)));
}

static void on_shard_failed(void *ctx)
{
    struct handle *handle = ctx;
    atomic_store(&handle->local->failed, true);
    if (handle->local->options.failed)
        handle->local->options.failed(handle->local->options.failed_ctx);
}

/* Drawn when the directory was made, and kept by every copy of it: leases outlive a restart. */
static struct mac_key lease_key_of(const struct datadir_manifest *manifest)
{
    return (struct mac_key){.low = manifest->hash_seed,
                            .high = hash_64(manifest->name, strlen(manifest->name))};
}

int local_attach(struct local *local, uint32_t index, struct reactor *reactor, struct queue **out,
                 char *error, size_t error_bytes)
{
    char dir[4096];
    struct shard_recovered recovered;
    struct handle *handle = handle_new(local, index, reactor);
    if (!handle) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    datadir_shard_path(local->datadir, index, dir, sizeof dir);
    struct shard_options options = {.local = &local->options,
                                    .dir = dir,
                                    .fs = datadir_fs(local->datadir),
                                    .index = index,
                                    .hash_seed = local->manifest.hash_seed,
                                    .lease_key = lease_key_of(&local->manifest),
                                    .ready = on_shard_ready,
                                    .event = on_shard_event,
                                    .failed = on_shard_failed,
                                    .stepped = index == 0 ? on_clock_stepped : NULL,
                                    .ctx = handle};
    local->handles[index] = handle;
    if (index == 0 && !(local->backups = backups_new(local, reactor))) {
        snprintf(error, error_bytes, "out of memory");
        return -ENOMEM;
    }
    int failed =
        shard_open(&options, reactor, &local->shards[index], &recovered, error, error_bytes);
    /* The last one: any of them may have raised the clock. */
    bool is_last = !failed && atomic_fetch_add(&local->attached, 1) + 1 == local->shard_count;
    if (is_last)
        local_settle(local);
    if (is_last && (failed = remember_clock(local)))
        snprintf(error, error_bytes, "cannot write the manifest in '%s': %s",
                 local->options.data_dir, strerror(-failed));
    if (failed)
        return failed; /* local_free gives back what there is */
    const struct queue_counts *counts = &recovered.counts;
    log_event(LOG_INFO, "shard recovered", LOG_NUMBER("shard", index),
              LOG_NUMBER("jobs", counts->delayed + counts->retrying + counts->ready +
                                     counts->leased + counts->dead),
              LOG_NUMBER("records", recovered.records),
              LOG_NUMBER("torn_bytes", recovered.torn_bytes),
              LOG_NUMBER("took_ms", recovered.took_ms));
    *out = handle->queue;
    return 0;
}

/* ---- stop ---- */

struct stop_letter {
    struct letter letter;
    struct local *local;
    uint32_t shard;
};

static void all_stopped(struct letter *letter)
{
    struct stop_letter *stop = (struct stop_letter *)(void *)letter;
    struct local *local = stop->local;
    free(stop);
    local->stopped(local->stopped_ctx);
}

static void shard_stopped(void *ctx)
{
    struct stop_letter *stop = ctx;
    if (atomic_fetch_sub(&stop->local->stopping_left, 1) > 1) {
        free(stop);
        return;
    }
    stop->letter.run = all_stopped;
    reactor_post(stop->local->handles[0]->reactor, &stop->letter);
}

static void stop_there(struct letter *letter)
{
    struct stop_letter *stop = (struct stop_letter *)(void *)letter;
    shard_stop(stop->local->shards[stop->shard], shard_stopped, stop);
}

void local_stop(struct local *local, void (*stopped)(void *ctx), void *ctx)
{
    local->stopped = stopped;
    local->stopped_ctx = ctx;
    atomic_store(&local->stopping_left, local->shard_count);
    for (uint32_t i = 0; i < local->shard_count; i++) {
        struct stop_letter *stop = calloc(1, sizeof *stop);
        if (!stop)
            abort(); /* nothing is lost: the log is as after a crash */
        *stop = (struct stop_letter){.letter.run = stop_there, .local = local, .shard = i};
        reactor_post(local->handles[i]->reactor, &stop->letter);
    }
}

bool local_has_failed(const struct local *local)
{
    return atomic_load(&local->failed);
}

void local_free(struct local *local)
{
    if (!local)
        return;
    for (uint32_t i = 0; i < local->shard_count; i++) {
        shard_free(local->shards[i]);
        handle_free(local->handles[i]);
    }
    backups_free(local->backups);
    datadir_close(local->datadir);
    free(local);
}
