/*
 * mark_keeper: writes the directory's marks (store/marks.h) while the shards work.
 *
 * A shard notes each synced batch by storing a number. The first note after a while wakes the home
 * reactor, which lets a helper write the marks some seconds later. Nothing happens while nothing is
 * committed. If a backup has been copied over the directory meanwhile, nothing is written, because
 * the backup has its own marks.
 */
#ifndef TARRY_LOCAL_MARK_KEEPER_H
#define TARRY_LOCAL_MARK_KEEPER_H

#include "net/worker.h"
#include "store/marks.h"

#include <stdatomic.h>

struct mark_keeper;
struct datadir;

/* Creates a keeper. `before` holds the marks as read; pause_ms is the time between two writes (0:
 * the default). Returns NULL when out of memory. */
struct mark_keeper *mark_keeper_new(const struct datadir *datadir, const struct marks *before,
                                    int64_t pause_ms);
/* Sets the reactor for the timer. Returns 0 or -ENOMEM. */
int mark_keeper_live_on(struct mark_keeper *keeper, struct reactor *home);
/* Notes that a shard was opened, with its epoch and newest batch, which is synced. Any thread. */
void mark_keeper_open(struct mark_keeper *keeper, uint32_t shard, uint64_t epoch, uint64_t synced);
/* Opens or creates the file of the marks, before mark_keeper_begin. Returns 0 or a negative errno. */
int mark_keeper_make_file(struct mark_keeper *keeper);
/* Begins, after all shards have been opened: makes the name of the file durable and writes the marks (blocking). From now on `helper`
 * writes them. Returns 0 or a negative errno. */
int mark_keeper_begin(struct mark_keeper *keeper, struct worker *helper);
/* Notes that the shard's batch is synced. On the shard's thread. */
void mark_keeper_note(struct mark_keeper *keeper, uint32_t shard, uint64_t synced);
/* Writes the last marks, if it has begun, and frees the keeper. After all reactors have stopped,
 * and while the helper is idle or has ended. NULL is allowed. */
void mark_keeper_free(struct mark_keeper *keeper);

#endif
