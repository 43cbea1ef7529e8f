/*
 * preload: loads cold jobs into memory just before they are due. Private to this room.
 *
 * Each run has a cursor for each timed section; all slots before it have been processed. The scout
 * thread reads the next slice, and the shard loads some hundreds of its jobs per step. A slice is
 * loaded when it falls due within HORIZON.
 *
 * A topic whose loaded jobs accumulate because they are not taken has a quota: jobs above it are
 * skipped and noted, and loaded once there is room. So a stalled topic neither fills the memory nor
 * delays other topics. Skipped jobs that are due are shown as ready (engine_set_cold_ready).
 */
#ifndef TARRY_LOCAL_PRELOAD_H
#define TARRY_LOCAL_PRELOAD_H

#include "local/shard_core.h"

struct preload *preload_new(struct shard *shard); /* NULL: out of memory */
void preload_free(struct preload *preload);
/* Loads everything in SECTION_LEASED, and the waiting jobs of topics with engine_keeps_waiting, before serving. Blocking. Returns 0 or a negative errno. */
int preload_begin(struct preload *preload, char *error, size_t error_bytes);
/* Executes a step, like checkpoint_step. */
bool preload_step(struct preload *preload, struct engine_now now);
bool preload_is_busy(const struct preload *preload); /* a slice is being read or loaded */
int64_t preload_next_ms(struct preload *preload);
/* Returns how many slots could not be read and were skipped. */
uint64_t preload_unreadable(const struct preload *preload);
/* Returns the time (inner clock) before which due entries must stay in memory: their slots have
 * already been processed, or are being read. Call this and preload_ready_max before each eviction
 * step. */
int64_t preload_keep_until_ms(const struct preload *preload, struct engine_now now);
/* Returns how many ready jobs of a topic stay in memory. If a topic has more, some are about to be
 * evicted, and all its slots are processed again a second later. */
uint64_t preload_ready_max(struct preload *preload);
/* Returns the record of a recently loaded slot from memory, valid until the next step. False: not
 * available. */
bool preload_recent(const struct preload *preload, struct record_place place, struct slice *out);

#endif
