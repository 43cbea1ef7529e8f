/*
 * preload_topic: the loaded and skipped jobs of each topic, run by run; the quota of topics; the
 * cursors of runs. For preload.c; on the shard's thread, except for `is_held`.
 */
#ifndef TARRY_LOCAL_PRELOAD_TOPIC_H
#define TARRY_LOCAL_PRELOAD_TOPIC_H

#include "base/table.h"
#include "base/vector.h"
#include "engine/stored.h"
#include "local/shard_core.h"

enum {
    /* Sections whose jobs wait for consumers and have a quota. */
    PRELOAD_WAITING_FIRST = SECTION_DELAYED,
    PRELOAD_WAITING_SECTIONS = SECTION_RETRYING_WALL - SECTION_DELAYED + 1
};

static inline bool preload_section_waits(enum job_section section)
{
    return section >= SECTION_DELAYED && section <= SECTION_RETRYING_WALL;
}

/* Skipped jobs of a topic that are not due yet: their number in each interval of time. By
 * `when`. */
struct preload_due {
    int64_t when_ms; /* inner clock */
    uint32_t count;
};
VECTOR_DECLARE(preload_dues, struct preload_due)

/* A group of a held topic that has more than its share of the quota in memory: it is read apart from the rest of the topic. */
struct preload_apart {
    uint32_t mark;   /* flow_group_mark */
    uint32_t wants;  /* how many jobs may be read; 0: it is not being refilled */
    uint64_t loaded; /* as of the last topic_sort, and read since */
};
VECTOR_DECLARE(preload_aparts, struct preload_apart)

/*
 * A topic with jobs in some run of the view. The figures of skipped jobs:
 *   noted             slots skipped and not read since; slots that died meanwhile count until
 *                     their range has been read to its end
 *   noted_not_cold    of `noted`, those that were in memory when they were skipped (after a
 *                     restart of the cursors), or have died since
 *   due_of_gone_runs  noted and due in runs that left the view (or whose cursors restarted), and
 *                     not met again yet
 *   cold_ready        the value last reported to the engine, or counted by the engine since
 */
struct preload_topic {
    /* In preload_topics.table, by name; the bytes of the name follow the struct. */
    struct table_entry entry;
    struct list list;        /* preload_topics.held while held */
    struct list changed;     /* preload_topics.changed: must be reported to the engine */
    struct list places;      /* places with noted slots */
    uint32_t run_count;      /* number of runs with this topic */
    uint32_t reading;        /* jobs read and not loaded yet */
    uint64_t noted, waiting; /* waiting: of `noted`, not due yet */
    uint64_t noted_not_cold, due_of_gone_runs, cold_ready;
    uint64_t slice;       /* the last slice read for this topic */
    _Atomic bool is_held; /* read by the scout: its jobs are skipped and noted */
    bool is_refilling, is_in_use;
    bool has_groups;              /* a skipped job has a group */
    bool keeps_waiting;           /* its waiting jobs are loaded at the start; set only then */
    bool is_idle;                 /* nothing is to be refilled until something changes */
    struct preload_aparts aparts; /* by mark */
    uint64_t apart_loaded;        /* sum of aparts.loaded, as of the last topic_sort */
    uint64_t sorted_at;           /* the jobs in memory then; UINT64_MAX: not sorted */
    uint64_t apart_share;         /* the quota of each of them */
    size_t join_next;             /* the next of them to check for joining the rest */
    bool
        is_in_new_run; /* a checkpoint wrote some of its jobs, not all of which have been met yet */
    bool wants_restart, is_restarting; /* ready jobs of it were or are about to be evicted */
};

TABLE_DECLARE(topic_table, struct preload_topic, entry)

/* Where to continue to read: all slots before `from` have been read, or are those of others. */
struct preload_from {
    uint32_t slot;
    int64_t when_ms; /* of `slot`, or earlier; the section's clock */
};
VECTOR_DECLARE(preload_froms, struct preload_from)

/* Skipped slots of a section, from a first slot up to the cursor. */
struct preload_range {
    bool is_open; /* false: nothing noted */
    uint32_t count;
    struct preload_from rest;    /* of all groups that are not read apart */
    struct preload_froms aparts; /* as preload_topic.aparts; only while open */
};

/* The skipped jobs of a topic in a run. Created when first needed, and kept as long as the run:
 * with many topics in many runs, preallocating all places would take a hundred times the memory of
 * those in use. */
struct preload_place {
    struct preload_topic *topic;
    struct preload_run *run;
    uint32_t number;  /* of the topic in the run */
    struct list list; /* preload_topic.places */
    struct preload_range ranges[PRELOAD_WAITING_SECTIONS];
    struct preload_dues *dues; /* owned; NULL: empty */
};

/* A cursor. All slots before `next` have been processed: each is dead, or in memory, or noted, or
 * damaged. */
struct preload_cursor {
    uint32_t next, end;
    int64_t when_ms;   /* of `next`, or earlier; the section's clock */
    int64_t passed_ms; /* no later slot has been passed; the section's clock */
};

struct preload_run {
    uint32_t number, topic_count;
    uint32_t epoch; /* incremented when the cursors restart */
    uint32_t holds; /* slices of it in progress */
    bool is_gone;
    struct preload_cursor cursors[SECTIONS];
    struct preload_place **places;  /* by the run's topic numbers; owned; NULL: empty */
    struct preload_topic *topics[]; /* by the run's topic numbers */
};

struct preload_topics {
    struct shard *shard;
    int64_t grain_ms;          /* precision of the due times of skipped jobs */
    uint64_t quota;            /* per topic, from the options */
    struct preload_run **runs; /* owned, by number */
    uint32_t run_count;
    struct topic_table table;
    struct preload_topic *use_next; /* the next topic to check for use; NULL: the first */
    uint32_t in_use;
    struct list held, changed;
    uint64_t slices;
    uint64_t generation; /* of the current view */
    bool has_begun;      /* leased jobs have been loaded */
    int64_t skew_ms;     /* as of the last step */
    int64_t restart_ms;  /* when to process again topics that need it; INT64_MAX: not needed */
    bool has_due_of_gone_runs, has_new_runs; /* some topic has the field of that name set */
    int64_t due_next_ms; /* when the next skipped job is due; INT64_MAX: no such job */
    int64_t sorted_ms;   /* when the groups of held topics were last sorted */
    bool wants_sort;     /* they have changed since */
};

struct preload_slice;
struct preload_item;

void preload_topics_fini(struct preload_topics *topics);
/* Adapts to a changed view. Returns false when out of memory; some runs are then left out. */
bool preload_topics_follow(struct preload_topics *topics);
/* Applies the changes of the wall clock, eviction and the engine, at the beginning of a step.
 * Returns whether cursors restarted. */
bool preload_topics_step(struct preload_topics *topics, struct engine_now now);
/* Reports the due skipped jobs to the engine, at the end of a step. */
void preload_topics_notify(struct preload_topics *topics, struct engine_now now);
/* Notes that no unprocessed slot is due at the moment. */
void preload_topics_caught_up(struct preload_topics *topics, struct engine_now now);
/* Notes that ready jobs of topics with more than `max` loaded are about to be evicted. Which ones
 * is not known, so all slots of these topics are processed again after the eviction. */
void preload_topics_over(struct preload_topics *topics, uint64_t max, struct engine_now now);
/* Returns the place of a held topic that is to be read now; NULL: nothing to read. Called only while no slice is read:
 * the groups that are read apart change here. */
struct preload_place *preload_topics_refill(struct preload_topics *topics,
                                            enum job_section *section, struct engine_now now);
/* Sets what the slice reads for its place. False: out of memory. */
bool preload_place_wish(struct preload_topics *topics, const struct preload_place *place,
                        struct preload_slice *slice);
/* Returns when groups are sorted next; INT64_MAX: nothing has changed. */
int64_t preload_topics_sort_ms(const struct preload_topics *topics);
/* Reserves memory for the notes of a slice that was read. Returns false when out of memory. */
bool preload_run_make_places(const struct preload_slice *slice);
/* Updates cursors and notes for a slice that was read and has places. */
void preload_topics_take_in(struct preload_topics *topics, struct preload_slice *slice,
                            struct engine_now now);
/* Counts a job of the slice that was loaded, or was already in memory. */
void preload_topics_count_loaded(struct preload_topics *topics, struct preload_slice *slice,
                                 const struct preload_item *item, bool was_cold);
/* Releases a slice of the run. `refilled`: the place for which it was read, NULL: everything; no
 * other slice is in progress for it. */
void preload_run_let_go(struct preload_topics *topics, struct preload_run *run,
                        struct preload_place *refilled, enum job_section section);

#endif
