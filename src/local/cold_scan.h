/*
 * cold_scan: the cold jobs of a topic, slice by slice, run by run, also those of runs made meanwhile.
 * This room only; the shard's thread, with the scout's help.
 */
#ifndef TARRY_LOCAL_COLD_SCAN_H
#define TARRY_LOCAL_COLD_SCAN_H

#include "local/private.h"

struct cold_scan;

/* Jobs of these parts (a bit each). NULL: out of memory. */
struct cold_scan *cold_scan_new(struct shard *shard, struct slice topic, unsigned sections);
/* Not while cold_scan_is_reading. */
void cold_scan_free(struct cold_scan *walk);
bool cold_scan_is_reading(const struct cold_scan *walk);
/* Some could not be read, and were left where they are. */
bool cold_scan_met_damage(const struct cold_scan *walk);
/* 1: a record and where it lies, good until the next call; 0: none just now (a slice is being
 * read); -ENOENT: the end; other negative errno: that failed. */
int cold_scan_next(struct cold_scan *walk, struct slice *record, struct record_place *place);

#endif
