/*
 * disk_growth: how fast the disk fills, from samples that are taken when something happens. Pure.
 *
 * Samples are at least a minute apart, and the last hour counts. While nothing happens nothing grows:
 * the last sample holds until the next one, so an idle server need not wake up. One thread, or the
 * caller's lock. Zeroed: no samples.
 */
#ifndef TARRY_SERVER_DISK_GROWTH_H
#define TARRY_SERVER_DISK_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DISK_GROWTH_SAMPLES = 62, /* an hour's, the one before, and one to come */
    DISK_GROWTH_APART_MS = 60 * 1000,
    DISK_GROWTH_HOUR_MS = 60 * 60 * 1000
};

struct disk_growth {
    struct {
        int64_t at_ms;
        uint64_t bytes;
    } samples[DISK_GROWTH_SAMPLES];
    uint32_t count, first; /* the oldest */
};

/* Is it time for a sample? */
bool disk_growth_wants(const struct disk_growth *growth, int64_t now_ms);
void disk_growth_note(struct disk_growth *growth, int64_t now_ms, uint64_t bytes);

/* Bytes an hour, below 0 where it shrank; `bytes` is what there is now. False: nothing is known yet. */
bool disk_growth_per_hour(const struct disk_growth *growth, int64_t now_ms, uint64_t bytes,
                          int64_t *per_hour);

#endif
