/*
 * far_walk: the far jobs of a topic, slice by slice, run by run, also those of runs made meanwhile.
 * This room only; the shard's thread, with the scout's help.
 */
#ifndef TARRY_LOCAL_FAR_WALK_H
#define TARRY_LOCAL_FAR_WALK_H

#include "local/private.h"

struct far_walk;

/* Jobs of these parts (a bit each). NULL: out of memory. */
struct far_walk *far_walk_new(struct shard *shard, struct slice topic, unsigned parts);
/* Not while far_walk_is_reading. */
void far_walk_free(struct far_walk *walk);
bool far_walk_is_reading(const struct far_walk *walk);
/* Some could not be read, and were left where they are. */
bool far_walk_met_damage(const struct far_walk *walk);
/* 1: a record and where it lies, good until the next call; 0: none just now (a slice is being
 * read); -ENOENT: the end; other negative errno: that failed. */
int far_walk_next(struct far_walk *walk, struct slice *record, struct record_place *place);

#endif
