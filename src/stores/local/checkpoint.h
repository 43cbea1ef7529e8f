/*
 * checkpoint: makes the oldest files of the log unnecessary: writes their live content to a run and
 * drops the rest. Private to this room.
 *
 * One checkpoint at a time, in the steps of store/depot.h, each bounded: collecting and installing
 * process some thousands of the engine's entries per shard step; the archivist thread does all disk
 * access. A checkpoint begins when the log has LOG_FILES_MIN files that could be freed, or when
 * runs hold much dead data. Between checkpoints, the archivist reads filters and merges tables of
 * keys.
 *
 * Before the snapshot, the topics' records are written to the log again (topics_begin), and the log
 * is synced up to the snapshot before the commit. If there is no disk space, or anything else fails
 * before the commit, the checkpoint is abandoned, logged and retried after a while; jobs stay in
 * place.
 */
#ifndef TARRY_LOCAL_CHECKPOINT_H
#define TARRY_LOCAL_CHECKPOINT_H

#include "local/shard_core.h"

enum checkpoint_phase {
    CHECKPOINT_IDLE = 0,
    CHECKPOINT_FILTERS,    /* archivist */
    CHECKPOINT_COLLECTING, /* the jobs to write */
    CHECKPOINT_BUILDING,   /* archivist */
    CHECKPOINT_INSTALLING, /* from now on they are in the new run */
    CHECKPOINT_EVICTING,
    CHECKPOINT_TOPICS, /* their records are written to the log again */
    CHECKPOINT_SNAPSHOT,
    CHECKPOINT_SYNCING,    /* the log, up to the snapshot */
    CHECKPOINT_MERGING,    /* archivist: tables of keys */
    CHECKPOINT_COMMITTING, /* archivist */
    CHECKPOINT_TIDYING,    /* archivist */
    CHECKPOINT_STOPPED     /* permanently, with a run that was never committed */
};

struct checkpoint *checkpoint_new(struct shard *shard); /* NULL: out of memory */
void checkpoint_free(struct checkpoint *checkpoint);
/* Executes a bounded part of the checkpoint. Returns whether more work can continue now. */
bool checkpoint_step(struct checkpoint *checkpoint, struct engine_now now);
/* Returns whether a checkpoint is in progress. The shard is then not quiet; a stop abandons the
 * checkpoint at the next possible step. */
bool checkpoint_is_busy(const struct checkpoint *checkpoint);
enum checkpoint_phase checkpoint_phase(const struct checkpoint *checkpoint); /* for tests */
/* Returns how many items of the run have been processed while it is installed. For tests. */
uint32_t checkpoint_installed(const struct checkpoint *checkpoint);
/* Returns the time (inner clock) of the next step without an event; INT64_MAX: not needed. */
int64_t checkpoint_next_ms(const struct checkpoint *checkpoint);
/*
 * Returns whether a push of so many bytes may go to the log now. If the log is ahead of the
 * checkpoint in progress, the push may have to wait, longer the further the log is ahead, so that
 * pushes slow down before they stop completely. Called before each push, because it also lets the
 * archivist run faster.
 */
bool checkpoint_takes(struct checkpoint *checkpoint, size_t bytes);
/* The same for a push of up to CHECKPOINT_SMALL_BYTES that need not wait behind larger ones. Such
 * pushes have an allowance of their own, so that a client of large bodies does not stop the clients
 * of small ones. */
enum { CHECKPOINT_SMALL_BYTES = 16 << 10 };
bool checkpoint_takes_small(struct checkpoint *checkpoint, size_t bytes);
/* Returns whether pushes are refused: there was no disk space for a run, and there is no reserve
 * yet for the next attempt. */
bool checkpoint_is_without_space(const struct checkpoint *checkpoint);
/* Pauses the archivist after it has written `bytes`. Returns 0, or -ECANCELED if the shard stops.
 * For the depot; `ctx` is the shard. [helper] */
int checkpoint_pace(void *ctx, size_t bytes);

struct checkpoint_figures {
    uint64_t checkpoints, failed, keys_merges;
    uint64_t amid_merges; /* checkpoints made between two steps of a merge */
    int64_t last_ms;      /* duration of the last one */
};
/* Returns figures for tests. Figures for other uses are in struct shard. */
void checkpoint_figures(const struct checkpoint *checkpoint, struct checkpoint_figures *out);

#endif
