/* loading's own structures, shared by loading*.c only. */
#ifndef TARRY_LOCAL_LOADING_PRIVATE_H
#define TARRY_LOCAL_LOADING_PRIVATE_H

#include "engine/stored.h"
#include "local/loading.h"

enum {
    LOADING_WAIT_FIRST = PART_DELAYED, /* parts whose jobs wait for consumers: these have a quota */
    LOADING_WAITS = PART_RETRYING_WALL - PART_DELAYED + 1,
    LOADING_RECENT_SLICES = 64
};

static inline bool loading_part_waits(enum job_part part)
{
    return part >= PART_DELAYED && part <= PART_RETRYING_WALL;
}

/* What was passed by of a topic and is not due yet: so many in each grain of time. By `when`. */
struct loading_due {
    int64_t when_ms; /* inner clock */
    uint32_t count;
};
struct loading_dues {
    struct loading_due *at; /* own memory */
    uint32_t count, cap;
};

/*
 * A topic that some run of the view has jobs of. `held` is read by the scout: its jobs are passed
 * by and noted.
 *   noted      slots passed by and not read since; those that died meanwhile count until their
 *              range has been read to its end
 *   mixed      of `noted`, those that were in memory when they were passed by (after a restart of
 *              the cursors), or have died since: they are not far
 *   carried    was noted and due in runs that left the view (or whose cursors began anew) and has
 *              not been met again yet
 */
struct loading_topic {
    struct loading_topic *chain; /* of the table */
    struct list list;            /* loading.held while held */
    struct list changed;         /* loading.changed: the engine is to be told */
    struct list places;          /* those with something noted */
    struct slice name;           /* own memory, behind the struct */
    uint32_t places_of;          /* runs that have it */
    uint32_t reading;            /* jobs read and not loaded yet */
    uint64_t noted, waiting;     /* waiting: of `noted`, not due yet */
    uint64_t mixed, carried, told;
    uint64_t slice; /* the last one looked at for its sake */
    _Atomic bool held;
    bool refilling, in_use;
    bool joined;               /* a checkpoint wrote some of it, not all of that was met yet */
    bool restart, restart_now; /* ready jobs of it were or are about to be evicted */
};

/* A topic in a run: for each waiting part, from which slot on (up to the cursor) it was passed by.
 * Made when that happens first, and there as long as the run: with many topics in many runs all
 * places would take a hundred times what the few do that are needed. */
struct loading_place {
    struct loading_topic *topic;
    struct loading_run *run;
    uint32_t number;  /* the topic's in the run */
    struct list list; /* loading_topic.places */
    struct {
        bool open; /* false: nothing is noted */
        uint32_t from, count;
        int64_t when_ms; /* of `from`, or less; the part's clock */
    } noted[LOADING_WAITS];
    struct loading_dues *dues; /* own memory; NULL: none */
};

/* Before `next` all slots have been looked at: each is dead, or in memory, or noted, or damaged. */
struct loading_cursor {
    uint32_t next, end;
    int64_t when_ms;   /* of `next`, or less; the part's clock */
    int64_t passed_ms; /* nothing later than this has been passed; the part's clock */
};

struct loading_run {
    uint32_t number, topic_count;
    uint32_t epoch; /* rises when the cursors begin anew */
    uint32_t holds; /* slices of it under way */
    bool is_gone;
    struct loading_cursor cursors[PARTS];
    struct loading_place **places;  /* by the run's numbers of topics; own memory; NULL: none */
    struct loading_topic *topics[]; /* as well */
};

struct loading_item {
    int64_t when_ms;
    size_t at; /* in the slice's bytes */
    uint32_t bytes, slot, topic;
};
struct loading_pass {
    int64_t when_ms;
    uint32_t slot, topic;
};

/* A stretch of one part of one run: what is to be read, and then what was. The scout's while it is
 * read. Afterwards it stays a while for loading_recent. */
struct loading_slice {
    struct work work; /* first */
    struct loading *loading;
    struct depot_view *view;
    struct depot_run *depot_run;
    struct loading_run *run;      /* NULL: all is loaded */
    struct loading_place *refill; /* NULL: all topics but those held; else this one alone */
    enum job_part part;
    uint32_t number, topic, epoch;
    uint32_t first, end, jobs_max;
    int64_t limit_ms; /* the part's clock */

    uint32_t next, looked, wanted;
    uint32_t stop_slot; /* the first beyond the limit; UINT32_MAX: none was met */
    int64_t stop_ms;
    bool no_memory;
    uint32_t refused; /* slot that memory was short for */
    int error;
    struct loading_item *items;
    uint32_t item_count, item_cap;
    struct loading_pass *passes;
    uint32_t pass_count, pass_cap;
    struct buffer bytes;
    uint32_t loaded; /* items */
};

/* The cursor that comes up first; up_ms INT64_MAX: none does. */
struct loading_first {
    bool is_known; /* false: a cursor has moved since */
    int64_t skew_ms, up_ms;
    struct loading_run *run;
    enum job_part part;
};

struct loading {
    struct shard *shard;
    int64_t horizon_ms, grain_ms;
    uint64_t quota;            /* of a topic, in the options */
    struct loading_run **runs; /* own memory, by number */
    uint32_t run_count;
    struct loading_first first;
    struct loading_topic **table; /* by name */
    uint32_t table_size, topic_count, in_use;
    struct list held, changed;

    struct loading_slice *reading;  /* on the scout */
    struct loading_slice *queue[2]; /* read, not all loaded; the oldest first */
    struct loading_slice *recent[LOADING_RECENT_SLICES]; /* a ring; also those of `queue` */
    uint32_t recent_first, recent_count;
    size_t recent_bytes;
    struct loading_slice *spare;
    uint64_t slices;
    int64_t skew_ms; /* as of the last step of this */
    uint32_t use_at; /* bucket of the table: looking for topics not in use any more */
    bool refilled_last;
    bool begun, stale;   /* stale: the view could not be followed for want of memory */
    bool restarts;       /* some topic's `restart` is set, */
    int64_t restart_ms;  /* and this is when to do that */
    uint64_t generation; /* of the view that is followed */
    bool carries;        /* some topic's `carried` is not 0 */
    bool joins;          /* some topic's `joined` is set */
    int64_t retry_ms;    /* after an error; 0: none */
    int64_t due_next_ms; /* when the next of what was passed by is due */
    uint32_t bad_run, bad_slot, tries; /* a directory that could not be read */
    uint32_t passed_run, passed_slot;  /* behind the last slot passed by for that */
    uint64_t unreadable;
    struct record_place unreadable_last[16]; /* logged already */
};

/* ---- loading_slice.c: reading ---- */
/* NULL: out of memory. */
struct loading_slice *loading_slice_new(struct loading *loading, struct loading_run *run,
                                        enum job_part part);
void loading_slice_free(struct loading_slice *slice);
/* [scout] */
void loading_slice_read(struct loading_slice *slice);
size_t loading_slice_bytes(const struct loading_slice *slice); /* what it takes in RAM */

/* ---- loading_recent.c ---- */
void loading_recent_add(struct loading *loading, struct loading_slice *slice);
/* One to read with, maybe with memory of before. */
struct loading_slice *loading_recent_take_spare(struct loading *loading);
void loading_recent_give_spare(struct loading *loading, struct loading_slice *slice);
void loading_recent_fini(struct loading *loading);

/* ---- loading_load.c: what was read comes to memory ---- */
/* Loads some of what was read. Returns whether more is there that can be loaded now. */
bool loading_load_some(struct loading *loading, struct engine_now now);
/* Lets go what is not loaded yet. */
void loading_load_none(struct loading *loading);
/* All of it is loaded, or nobody wants it: its run may go. */
void loading_slice_end(struct loading_slice *slice);
void loading_cannot_read(struct loading *loading, uint32_t run, uint32_t slot, const char *why);
/* All of a part, blocking. 0 or negative errno. */
int loading_load_part(struct loading *loading, struct loading_run *run, enum job_part part);

/* ---- loading_next.c: which slice is next ---- */
/* Gives the scout something to do where there is anything. */
void loading_read_next(struct loading *loading, struct engine_now now);
/* When (inner clock) a cursor's next slot comes up. */
int64_t loading_up_ms(const struct loading *loading, const struct loading_run *run,
                      enum job_part part);
/* When a slice is read next; inner clock. */
int64_t loading_slice_ms(struct loading *loading);
/* What a slice that was read means for cursors and notes. */
void loading_took_in(struct loading *loading, struct loading_slice *slice, struct engine_now now);

/* ---- loading_runs.c: cursors follow the view ---- */
bool loading_runs_follow(struct loading *loading); /* false: out of memory */
void loading_runs_fini(struct loading *loading);
void loading_run_let_go(struct loading_run *run, struct loading *loading);
void loading_runs_restart(struct loading *loading); /* those of topics with restart_now */

/* ---- loading_topic.c: quota, and what was passed by ---- */
struct loading_topic *loading_topic_get(struct loading *loading, struct slice name);
void loading_topic_put(struct loading *loading, struct loading_topic *topic);
uint64_t loading_topic_quota(const struct loading *loading);
/* Loaded and waiting, or about to be. */
uint64_t loading_topic_loaded(struct loading *loading, struct loading_topic *topic);
/* Passes it by from now on. */
void loading_topic_hold(struct loading *loading, struct loading_topic *topic);
void loading_topic_use(struct loading *loading, struct loading_topic *topic);
/* Goes over those held: which may be refilled, which need not be held any more. NULL: nothing to
 * refill; else the topic whose turn it is. */
struct loading_topic *loading_topic_to_refill(struct loading *loading);
/* What the engine counted by itself since it was told: jobs that came to memory by their key, or
 * were evicted. Before anything is loaded. */
void loading_topics_ask(struct loading *loading);
void loading_topic_changed(struct loading *loading, struct loading_topic *topic);
/* Tells the engine what is due of what was passed by. */
void loading_topics_tell(struct loading *loading, struct engine_now now);
/* Nothing comes up just now that was not looked at: what is carried has gone. */
void loading_topics_caught_up(struct loading *loading, struct engine_now now);
/* Ready jobs of those that have more loaded are about to be evicted, and there is no telling which:
 * at the given time, when that is over, all of the topic is looked at once more. */
void loading_topics_over(struct loading *loading, uint64_t max, struct engine_now now);
/* The wall clock was set: what waits by it is counted once more. */
void loading_topics_stepped(struct loading *loading, struct engine_now now);
void loading_topics_restart(struct loading *loading, struct engine_now now);

/* ---- loading_place.c ---- */
/* The one of the run's topic, made where there was none; NULL: out of memory. */
struct loading_place *loading_place_get(struct loading_run *run, uint32_t topic);
void loading_place_note(struct loading *loading, struct loading_place *place, enum job_part part,
                        uint32_t slot, int64_t when_ms, struct engine_now now);
/* A slot noted before has been read. */
void loading_place_unnote(struct loading *loading, struct loading_place *place, enum job_part part,
                          int64_t when_ms);
/* Where all of the part has been read and loaded nothing is noted of it. */
void loading_place_settle(struct loading *loading, struct loading_place *place, enum job_part part);
/* Nothing is noted; what was due is carried. */
void loading_place_clear(struct loading *loading, struct loading_place *place);
/* What has come up by now is due. Returns when the next is; INT64_MAX: nothing waits. */
int64_t loading_place_due(struct loading *loading, struct loading_place *place, int64_t now_ms);
bool loading_place_has_wall(const struct loading_place *place);
/* Which of its parts to read from; where nothing is noted LOADING_WAITS. *when_ms: inner clock. */
unsigned loading_place_first(const struct loading *loading, const struct loading_place *place,
                             int64_t *when_ms);

#endif
