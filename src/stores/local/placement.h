/*
 * placement: the topics whose jobs are all in one shard (job/flow.h), for the handles of all reactors, which route by it.
 *
 * The settings that the shards store decide; this table follows them. All functions may be called on any thread.
 */
#ifndef TARRY_LOCAL_PLACEMENT_H
#define TARRY_LOCAL_PLACEMENT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct placement;

struct placement *placement_new(void); /* NULL: out of memory */
void placement_free(struct placement *placement);

/* Begins a move of a topic, or a delete, and reserves its entry. False: out of memory, or a move of the topic is in progress, or, for a move, a delete. */
bool placement_begin(struct placement *placement, struct slice topic, bool deletes);
/* Sets whether the jobs of the topic are in one shard. Returns what it was. True only after placement_begin. */
bool placement_set(struct placement *placement, struct slice topic, bool is_one);
void placement_end(struct placement *placement, struct slice topic, bool deletes);

bool placement_is_one(struct placement *placement, struct slice topic);
/* Returns a number that each change raises. */
uint64_t placement_version(const struct placement *placement);

#endif
