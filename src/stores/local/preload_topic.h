/*
 * preload_topic: what of each topic has come to memory and what was passed by, run by run; the
 * quota of topics; the cursors of runs. For preload.c; the shard's thread, but for `is_held`.
 */
#ifndef TARRY_LOCAL_PRELOAD_TOPIC_H
#define TARRY_LOCAL_PRELOAD_TOPIC_H

#include "base/table.h"
#include "base/vector.h"
#include "engine/stored.h"
#include "local/shard_core.h"

enum {
    /* Sections whose jobs wait for consumers: they have a quota. */
    PRELOAD_WAITING_FIRST = SECTION_DELAYED,
    PRELOAD_WAITING_SECTIONS = SECTION_RETRYING_WALL - SECTION_DELAYED + 1
};

static inline bool preload_section_waits(enum job_section section)
{
    return section >= SECTION_DELAYED && section <= SECTION_RETRYING_WALL;
}

/* What was passed by of a topic and is not due yet: so many in each grain of time. By `when`. */
struct preload_due {
    int64_t when_ms; /* inner clock */
    uint32_t count;
};
VECTOR_DECLARE(preload_dues, struct preload_due)

/*
 * A topic that some run of the view has jobs of. The figures of what was passed by:
 *   noted             slots passed by and not read since; those that died meanwhile count until
 *                     their range has been read to its end
 *   noted_not_cold    of `noted`, those that were in memory when they were passed by (after the
 *                     cursors began anew), or have died since
 *   due_of_gone_runs  was noted and due in runs that left the view (or whose cursors began anew)
 *                     and has not been met again yet
 *   cold_ready        what the engine was told last of all this, or has counted itself since
 */
struct preload_topic {
    /* Of preload_topics.table, by the name, whose bytes lie behind the struct. */
    struct table_entry entry;
    struct list list;        /* preload_topics.held while held */
    struct list changed;     /* preload_topics.changed: the engine is to be told */
    struct list places;      /* those with something noted */
    uint32_t run_count;      /* runs that have it */
    uint32_t reading;        /* jobs read and not loaded yet */
    uint64_t noted, waiting; /* waiting: of `noted`, not due yet */
    uint64_t noted_not_cold, due_of_gone_runs, cold_ready;
    uint64_t slice;       /* the last one looked at for its sake */
    _Atomic bool is_held; /* read by the scout: its jobs are passed by and noted */
    bool is_refilling, is_in_use;
    bool is_in_new_run; /* a checkpoint wrote some of it, not all of that was met yet */
    bool wants_restart, is_restarting; /* ready jobs of it were or are about to be evicted */
};

TABLE_DECLARE(topic_table, struct preload_topic, entry)

/* Slots of a section passed by: from one on, up to the cursor. */
struct preload_range {
    bool is_open; /* false: nothing is noted */
    uint32_t from, count;
    int64_t when_ms; /* of `from`, or less; the section's clock */
};

/* A topic in a run: what of it was passed by. Made when that happens first, and there as long as the
 * run: with many topics in many runs all places would take a hundred times what the few do that are
 * needed. */
struct preload_place {
    struct preload_topic *topic;
    struct preload_run *run;
    uint32_t number;  /* the topic's in the run */
    struct list list; /* preload_topic.places */
    struct preload_range ranges[PRELOAD_WAITING_SECTIONS];
    struct preload_dues *dues; /* own memory; NULL: none */
};

/* Before `next` all slots have been looked at: each is dead, or in memory, or noted, or damaged. */
struct preload_cursor {
    uint32_t next, end;
    int64_t when_ms;   /* of `next`, or less; the section's clock */
    int64_t passed_ms; /* nothing later than this has been passed; the section's clock */
};

struct preload_run {
    uint32_t number, topic_count;
    uint32_t epoch; /* rises when the cursors begin anew */
    uint32_t holds; /* slices of it under way */
    bool is_gone;
    struct preload_cursor cursors[SECTIONS];
    struct preload_place **places;  /* by the run's numbers of topics; own memory; NULL: none */
    struct preload_topic *topics[]; /* as well */
};

struct preload_topics {
    struct shard *shard;
    int64_t grain_ms;          /* how exactly is told what is due of what was passed by */
    uint64_t quota;            /* of a topic, in the options */
    struct preload_run **runs; /* own memory, by number */
    uint32_t run_count;
    struct topic_table table;
    struct preload_topic *use_next; /* to be looked at next: is it in use; NULL: the first */
    uint32_t in_use;
    struct list held, changed;
    uint64_t slices;
    uint64_t generation; /* of the view that is followed */
    bool has_begun;      /* what is leased was loaded */
    int64_t skew_ms;     /* as of the last turn */
    int64_t restart_ms;  /* when to look once more at topics that want it; INT64_MAX: none does */
    bool has_due_of_gone_runs, has_new_runs; /* some topic's field of that name is set */
    int64_t due_next_ms; /* when the next of what was passed by is due; INT64_MAX: none is */
};

struct preload_slice;
struct preload_item;

void preload_topics_fini(struct preload_topics *topics);
/* The view has changed. False: out of memory, and some runs are left out. */
bool preload_topics_follow(struct preload_topics *topics);
/* At the beginning of a turn: what the wall clock, eviction and the engine have changed. Returns
 * whether cursors began anew. */
bool preload_topics_turn(struct preload_topics *topics, struct engine_now now);
/* At its end: tells the engine what is due of what was passed by. */
void preload_topics_tell(struct preload_topics *topics, struct engine_now now);
/* Nothing comes up just now that was not looked at. */
void preload_topics_caught_up(struct preload_topics *topics, struct engine_now now);
/* Ready jobs of those that have more loaded are about to be evicted, and there is no telling which:
 * when that is over, all of the topic is looked at once more. */
void preload_topics_over(struct preload_topics *topics, uint64_t max, struct engine_now now);
/* What of a held topic is to be read now, and how many jobs of it at most; NULL: nothing. */
struct preload_place *preload_topics_refill(struct preload_topics *topics,
                                            enum job_section *section, uint64_t *jobs_max);
/* Room for what is to be noted of a slice that was read. False: out of memory. */
bool preload_run_make_places(const struct preload_slice *slice);
/* What a slice that was read, and has places, means for cursors and notes. */
void preload_topics_take_in(struct preload_topics *topics, struct preload_slice *slice,
                            struct engine_now now);
/* A job of the slice was loaded; or was in memory already. */
void preload_topics_count_loaded(struct preload_topics *topics, struct preload_slice *slice,
                                 const struct preload_item *item, bool was_cold);
/* A slice of the run is done with. `refilled`: what it was read for, NULL: everything; with no other
 * slice under way for that. */
void preload_run_let_go(struct preload_topics *topics, struct preload_run *run,
                        struct preload_place *refilled, enum job_section section);

#endif
