/* checkpoint's own structure, shared by checkpoint*.c only. */
#ifndef TARRY_LOCAL_CHECKPOINT_PRIVATE_H
#define TARRY_LOCAL_CHECKPOINT_PRIVATE_H

#include "local/checkpoint.h"

enum { CHECKPOINT_RETRY_MS = 1000 };

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

/*
 * Everything belongs to the shard's thread, but for two things: while `is_with_archivist` the
 * fields marked [archivist] are that thread's, handed over and back with the work; and the last two
 * are read there at any time. What is not marked the archivist may read meanwhile, and the shard
 * does not change before the work is back: `phase`, `before_file`, `is_without_space`.
 */
struct checkpoint {
    struct shard *shard;
    struct work work;
    enum checkpoint_phase phase;
    bool is_with_archivist;

    /* The one under way. */
    uint32_t before_file; /* of the log, that it makes unnecessary; 0: none */
    int64_t began_ms;
    struct engine_collect collect;
    struct depot_build build;          /* [archivist] */
    struct engine_changed **changed;   /* [archivist] what the items point at; own memory */
    size_t changed_count, changed_cap; /* [archivist] */
    struct wal_window window;          /* [archivist] of the log's files, for building */
    struct catalog catalog;            /* [archivist] */
    int result;                        /* [archivist] of what it did last */
    bool is_fatal;                     /* [archivist] the store is no good any more */
    uint32_t at;                       /* item, or entry */
    uint64_t needs;                    /* sequence that must be synced before the commit */

    /* Between checkpoints. */
    struct depot_view *filters; /* [archivist] held while their filters are read */
    bool filters_failed;
    bool has_begun;                /* the first look after the opening */
    struct depot_keys_merge merge; /* [archivist] */
    bool is_merging;   /* tables; a checkpoint may be under way between two steps of it */
    bool is_keys_turn; /* a checkpoint has been made: tables first, else there would be ever more of
                          them while checkpoints follow each other */
    int64_t keys_ms;   /* when to look at the tables of keys again: it goes over all of them and all
                          runs, and hardly anything but a checkpoint changes what it finds */
    int64_t space_ms;  /* when to look for what is dead in runs again */

    /* Failures. */
    uint32_t failures; /* one after the other */
    int64_t retry_ms;
    /* One failed for want of disk space: the reserve is spent, and until there is one again no push
     * is taken, and no victim. */
    bool is_without_space;

    int64_t allowance, allowed_ms; /* bytes of pushes, as of then: checkpoint_throttle.c */
    struct checkpoint_figures figures;
    /* For the archivist: go as fast as you can; leave off, the shard stops. */
    atomic_bool is_hurried, is_cancelled;
};

/* ---- checkpoint.c ---- */
/* Says it in the log, and notes when to try again. `error`: words, or NULL or empty for those of
 * the errno. */
void checkpoint_complain(struct checkpoint *checkpoint, int failed, const char *during,
                         const char *error);
/* Forgets what the one under way had. */
void checkpoint_become_idle(struct checkpoint *checkpoint);
/* Before anything has happened. */
void checkpoint_give_up(struct checkpoint *checkpoint, int failed, const char *during);

/* ---- checkpoint_throttle.c ---- */
void checkpoint_set_pace(struct checkpoint *checkpoint); /* is_hurried */

/* ---- checkpoint_archivist.c ---- */
/* Hands it over for the phase, whose piece is done on that thread; checkpoint_step goes on once it
 * is back. */
void checkpoint_give(struct checkpoint *checkpoint, enum checkpoint_phase phase);
/* For the build; `ctx` is the checkpoint. [archivist] */
int checkpoint_read_log(void *ctx, struct record_place place, struct buffer *scratch,
                        struct slice *out);
void checkpoint_apply(void *ctx, const void *changed, struct record *record);

/* ---- the steps. True: there is more to do now ---- */

/* checkpoint_idle.c */
bool checkpoint_step_idle(struct checkpoint *checkpoint, struct engine_now now);
void checkpoint_filters_read(struct checkpoint *checkpoint);
bool checkpoint_merged(struct checkpoint *checkpoint);
void checkpoint_abandon_merge(struct checkpoint *checkpoint);

/* checkpoint_collect.c */
/* It is collecting from then on; or idle, where that failed. */
void checkpoint_begin(struct checkpoint *checkpoint, uint32_t before_file, struct engine_now now);
bool checkpoint_step_collecting(struct checkpoint *checkpoint, struct engine_now now);
/* Either thread, whose the items are. */
void checkpoint_forget_changed(struct checkpoint *checkpoint);

/* checkpoint_install.c */
bool checkpoint_built(struct checkpoint *checkpoint);
bool checkpoint_step_installing(struct checkpoint *checkpoint);
bool checkpoint_step_evicting(struct checkpoint *checkpoint, struct engine_now now);

/* checkpoint_commit.c */
bool checkpoint_step_topics(struct checkpoint *checkpoint);
bool checkpoint_step_snapshot(struct checkpoint *checkpoint, struct engine_now now);
bool checkpoint_step_syncing(struct checkpoint *checkpoint);
bool checkpoint_committed(struct checkpoint *checkpoint);
void checkpoint_tidied(struct checkpoint *checkpoint, struct engine_now now);

#endif
