/*
 * preload: cold jobs come to memory just ahead of their time. This room only.
 *
 * For each run and each timed section a cursor; all before it has been looked at. The scout thread
 * reads the slice that comes up next, the shard loads it some hundreds a turn. A slice is loaded
 * when it comes up within HORIZON.
 *
 * A topic whose loaded jobs pile up (nobody takes them) has a quota: what is over it is passed by
 * and noted, and loaded from there once there is room. So one stalled topic neither fills the
 * memory nor holds up another. What is passed by and due is shown as ready (engine_set_cold_ready).
 */
#ifndef TARRY_LOCAL_PRELOAD_H
#define TARRY_LOCAL_PRELOAD_H

#include "local/shard_core.h"

struct preload *preload_new(struct shard *shard); /* NULL: out of memory */
void preload_free(struct preload *preload);
/* Before serving: everything in SECTION_LEASED. Blocking. 0 or negative errno. */
int preload_begin(struct preload *preload, char *error, size_t error_bytes);
/* As checkpoint_step. */
bool preload_step(struct preload *preload, struct engine_now now);
bool preload_is_busy(const struct preload *preload); /* a slice is being read or loaded */
int64_t preload_next_ms(struct preload *preload);
/* How many slots could not be read, and were passed by. */
uint64_t preload_unreadable(const struct preload *preload);
/* Before each step of evicting, both. Entries due before this (inner clock) must stay: their slots
 * have been looked at already, or are just being read. */
int64_t preload_keep_until_ms(const struct preload *preload, struct engine_now now);
/* So many ready ones of a topic stay. Of topics that have more some are about to be evicted: all
 * their slots are looked at once more a second after. */
uint64_t preload_ready_max(struct preload *preload);
/* What the record of a slot loaded not long ago says, from RAM, good until the next turn; false:
 * not there. */
bool preload_recent(const struct preload *preload, struct record_place place, struct slice *out);

#endif
