/*
 * checkpoint: makes the log's oldest files unnecessary: what of them still counts goes to a run,
 * the rest is forgotten. This room only.
 *
 * One at a time, in the steps of store/depot.h, each bounded: collecting and installing go over the
 * engine's entries some thousands a turn, the archivist thread does all that touches the disk.
 * Begun when the log has LOG_FILES_MIN files that could go, or when runs hold much that is dead.
 * Between checkpoints the archivist reads filters and merges tables of keys.
 *
 * Before the snapshot the topics' records are written to the log again (topics_begin), and the log is
 * synced up to the snapshot before that is committed. No disk space, or any other failure before
 * the commit: the checkpoint is given up, logged, and tried again after a while; jobs stay where
 * they are.
 */
#ifndef TARRY_LOCAL_CHECKPOINT_H
#define TARRY_LOCAL_CHECKPOINT_H

#include "local/shard_core.h"

enum checkpoint_phase {
    CHECKPOINT_IDLE = 0,
    CHECKPOINT_FILTERS,    /* archivist */
    CHECKPOINT_COLLECTING, /* which jobs must be written */
    CHECKPOINT_BUILDING,   /* archivist */
    CHECKPOINT_INSTALLING, /* they lie in the new run from now on */
    CHECKPOINT_EVICTING,
    CHECKPOINT_TOPICS, /* their records go to the log again */
    CHECKPOINT_SNAPSHOT,
    CHECKPOINT_SYNCING,    /* the log, up to the snapshot */
    CHECKPOINT_MERGING,    /* archivist: tables of keys */
    CHECKPOINT_COMMITTING, /* archivist */
    CHECKPOINT_TIDYING,    /* archivist */
    CHECKPOINT_STOPPED     /* for good, with a run that was never committed */
};

struct checkpoint *checkpoint_new(struct shard *shard); /* NULL: out of memory */
void checkpoint_free(struct checkpoint *checkpoint);
/* A bounded piece of it. Whether there is more to do now that nothing stands in the way of. */
bool checkpoint_step(struct checkpoint *checkpoint, struct engine_now now);
/* While it is under way the shard is not quiet; a stop gives it up at the next step it can. */
bool checkpoint_is_busy(const struct checkpoint *checkpoint);
enum checkpoint_phase checkpoint_phase(const struct checkpoint *checkpoint); /* for tests */
/* While a run is being installed: how many of its items were gone over. For tests. */
uint32_t checkpoint_installed(const struct checkpoint *checkpoint);
/* When (inner clock) to step again although nothing happens; INT64_MAX: need not. */
int64_t checkpoint_next_ms(const struct checkpoint *checkpoint);
/*
 * Whether a push of so many bytes may go to the log now. Where the log runs ahead of the checkpoint
 * under way it may not at once, the less the further it is ahead, so that pushes slow down before
 * they have to stand still. Asked before each push: it also lets the archivist go faster.
 */
bool checkpoint_takes(struct checkpoint *checkpoint, size_t bytes);
/* Pushes are refused: there was no disk space for a run, and there is no reserve yet for the next
 * time. */
bool checkpoint_is_without_space(const struct checkpoint *checkpoint);
/* For the depot; `ctx` is the shard. [helper] */
int checkpoint_pace(void *ctx, size_t bytes);

struct checkpoint_figures {
    uint64_t checkpoints, failed, keys_merges;
    uint64_t amid_merges; /* checkpoints made between two steps of one */
    int64_t last_ms;      /* how long the last one took */
};
/* For tests; what others want of it is in struct shard. */
void checkpoint_figures(const struct checkpoint *checkpoint, struct checkpoint_figures *out);

#endif
