/*
 * store_state: the state of the store for GET /v1/server: each shard, and the disk with the time at
 * which it will be full at the current growth. The status and the metrics have the same time.
 *
 * Life: store_state_open before the reactors run, store_state_close after they have ended.
 */
#ifndef TARRY_SERVER_STORE_STATE_H
#define TARRY_SERVER_STORE_STATE_H

#include "server/backend.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * disk_growth: growth rate of a disk usage, from samples that are taken on activity. Pure.
 *
 * Samples are at least a minute apart, and those of the last hour count. Without activity there is
 * no growth: the last sample remains valid until the next one, so an idle server need not wake up.
 * Used by one thread or under the caller's lock. All zero if there are no samples.
 */

enum {
    DISK_GROWTH_SAMPLES = 62, /* those of an hour, the one before it, and the next */
    DISK_GROWTH_APART_MS = 60 * 1000,
    DISK_GROWTH_KNOWN_MS = 15 * 60 * 1000, /* a shorter time does not suffice for a forecast */
    DISK_GROWTH_HOUR_MS = 60 * 60 * 1000
};

struct disk_growth {
    struct {
        int64_t at_ms;
        uint64_t bytes;
    } samples[DISK_GROWTH_SAMPLES];
    uint32_t count, first; /* first: index of the oldest */
};

/* Returns true if the next sample is due. */
bool disk_growth_wants(const struct disk_growth *growth, int64_t now_ms);
void disk_growth_note(struct disk_growth *growth, int64_t now_ms, uint64_t bytes);

/* Computes the growth in bytes per hour, negative if the usage shrank. `bytes` is the current
 * usage. Returns false until the samples cover DISK_GROWTH_KNOWN_MS. */
bool disk_growth_per_hour(const struct disk_growth *growth, int64_t now_ms, uint64_t bytes,
                          int64_t *per_hour);

/* Computes the time until the file system is full. Uses the lower of its growth in the last hour and
 * in the last quarter of an hour, so neither a peak that has ended nor the log files of a new
 * directory fill the disk. Returns 0 if the growth is not known, or the disk does not fill up. */
int64_t disk_growth_full_in_ms(const struct disk_growth *growth, int64_t now_ms, uint64_t bytes,
                               uint64_t free_bytes);

struct store_state {
    struct http_server_hooks hooks;
    struct backend *backend;
    pthread_mutex_t lock;     /* protects `used` and `taken` */
    struct disk_growth used;  /* by the jobs */
    struct disk_growth taken; /* of the file system, by all programs */
};

void store_state_open(struct store_state *state, struct backend *backend);
/* Takes a sample if one is due; called on activity. Any thread; cheap. */
void store_state_look(struct store_state *state);
void store_state_close(struct store_state *state);

#endif
