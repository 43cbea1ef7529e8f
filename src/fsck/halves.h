/*
 * fsck_halves: topics that a crash left half changed over several shards. Private to fsck.
 *
 * The first shard leads: the next start makes the others what it says (settings, pause), and goes on
 * with a delete that is marked there.
 */
#ifndef TARRY_FSCK_HALVES_H
#define TARRY_FSCK_HALVES_H

#include "fsck/replay.h"

/* Zeroed: nothing said yet. */
struct fsck_halves {
    struct fsck_half *at; /* what each shard says of each topic */
    size_t count, cap;
    uint32_t shards; /* that were looked at */
};

/* What one shard says; in their order. False: out of memory. */
bool fsck_halves_add(struct fsck_halves *halves, const struct fsck_replay *replay);
/* Counts and notes them, where all `report->shards` were looked at. */
void fsck_halves_tell(struct fsck_halves *halves, struct fsck_report *report);
void fsck_halves_fini(struct fsck_halves *halves);

#endif
