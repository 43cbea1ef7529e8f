/*
 * mark_keeper: writes the directory's marks (store/marks.h) while the shards work.
 *
 * A shard notes each batch that was synced: a store of a number. The first note after a while wakes
 * the reactor at home, which some seconds later has the marks written by a helper. Nothing happens
 * while nothing is committed. Where a backup was put over the directory meanwhile nothing is written:
 * its marks are its own.
 */
#ifndef TARRY_LOCAL_MARK_KEEPER_H
#define TARRY_LOCAL_MARK_KEEPER_H

#include "net/worker.h"
#include "store/marks.h"

#include <stdatomic.h>

struct mark_keeper;
struct datadir;

/* `before`: the marks as they were read; pause_ms: between two writings, 0: the default. NULL: out
 * of memory. */
struct mark_keeper *mark_keeper_new(const struct datadir *datadir, const struct marks *before,
                                    int64_t pause_ms);
/* Where its timer runs. 0 or -ENOMEM. */
int mark_keeper_live_on(struct mark_keeper *keeper, struct reactor *home);
/* A shard was opened: its epoch, and the newest batch, which is synced. Any thread. */
void mark_keeper_open(struct mark_keeper *keeper, uint32_t shard, uint64_t epoch, uint64_t synced);
/* All shards were opened. Writes the marks (blocking); from now on `helper` does. 0 or negative
 * errno. */
int mark_keeper_begin(struct mark_keeper *keeper, struct worker *helper);
/* The shard's batch is synced. Its thread. */
void mark_keeper_note(struct mark_keeper *keeper, uint32_t shard, uint64_t synced);
/* Writes the last marks, if it has begun. After all reactors have stopped; while the helper is idle
 * or has ended. NULL is fine. */
void mark_keeper_free(struct mark_keeper *keeper);

#endif
