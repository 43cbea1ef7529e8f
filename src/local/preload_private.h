/* the preload's own structures, shared by loading*.c only. */
#ifndef TARRY_LOCAL_PRELOAD_PRIVATE_H
#define TARRY_LOCAL_PRELOAD_PRIVATE_H

#include "engine/stored.h"
#include "local/preload.h"

enum {
    PRELOAD_WAIT_FIRST =
        SECTION_DELAYED, /* parts whose jobs wait for consumers: these have a quota */
    PRELOAD_WAITS = SECTION_RETRYING_WALL - SECTION_DELAYED + 1,
    PRELOAD_RECENT_SLICES = 64
};

static inline bool preload_part_waits(enum job_section section)
{
    return section >= SECTION_DELAYED && section <= SECTION_RETRYING_WALL;
}

/* What was passed by of a topic and is not due yet: so many in each grain of time. By `when`. */
struct preload_due {
    int64_t when_ms; /* inner clock */
    uint32_t count;
};
struct preload_dues {
    struct preload_due *at; /* own memory */
    uint32_t count, cap;
};

/*
 * A topic that some run of the view has jobs of. `held` is read by the scout: its jobs are passed
 * by and noted.
 *   noted      slots passed by and not read since; those that died meanwhile count until their
 *              range has been read to its end
 *   mixed      of `noted`, those that were in memory when they were passed by (after a restart of
 *              the cursors), or have died since: they are not cold
 *   carried    was noted and due in runs that left the view (or whose cursors began anew) and has
 *              not been met again yet
 */
struct preload_topic {
    struct preload_topic *chain; /* of the table */
    struct list list;            /* preload.celd while held */
    struct list changed;         /* preload.changed: the engine is to be told */
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
struct preload_place {
    struct preload_topic *topic;
    struct preload_run *run;
    uint32_t number;  /* the topic's in the run */
    struct list list; /* preload_topic.places */
    struct {
        bool open; /* false: nothing is noted */
        uint32_t from, count;
        int64_t when_ms; /* of `from`, or less; the part's clock */
    } noted[PRELOAD_WAITS];
    struct preload_dues *dues; /* own memory; NULL: none */
};

/* Before `next` all slots have been looked at: each is dead, or in memory, or noted, or damaged. */
struct preload_cursor {
    uint32_t next, end;
    int64_t when_ms;   /* of `next`, or less; the part's clock */
    int64_t passed_ms; /* nothing later than this has been passed; the part's clock */
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

struct preload_item {
    int64_t when_ms;
    size_t at; /* in the slice's bytes */
    uint32_t bytes, slot, topic;
};
struct preload_pass {
    int64_t when_ms;
    uint32_t slot, topic;
};

/* A stretch of one section of one run: what is to be read, and then what was. The scout's while it is
 * read. Afterwards it stays a while for preload_recent. */
struct preload_slice {
    struct work work; /* first */
    struct preload *preload;
    struct depot_view *view;
    struct depot_run *depot_run;
    struct preload_run *run;      /* NULL: all is loaded */
    struct preload_place *refill; /* NULL: all topics but those held; else this one alone */
    enum job_section section;
    uint32_t number, topic, epoch;
    uint32_t first, end, jobs_max;
    int64_t limit_ms; /* the part's clock */

    uint32_t next, looked, wanted;
    uint32_t stop_slot; /* the first beyond the limit; UINT32_MAX: none was met */
    int64_t stop_ms;
    bool no_memory;
    uint32_t refused; /* slot that memory was short for */
    int error;
    struct preload_item *items;
    uint32_t item_count, item_cap;
    struct preload_pass *passes;
    uint32_t pass_count, pass_cap;
    struct buffer bytes;
    uint32_t loaded; /* items */
};

/* The cursor that comes up first; up_ms INT64_MAX: none does. */
struct preload_first {
    bool is_known; /* false: a cursor has moved since */
    int64_t skew_ms, up_ms;
    struct preload_run *run;
    enum job_section section;
};

struct preload {
    struct shard *shard;
    int64_t horizon_ms, grain_ms;
    uint64_t quota;            /* of a topic, in the options */
    struct preload_run **runs; /* own memory, by number */
    uint32_t run_count;
    struct preload_first first;
    struct preload_topic **table; /* by name */
    uint32_t table_size, topic_count, in_use;
    struct list held, changed;

    struct preload_slice *reading;  /* on the scout */
    struct preload_slice *queue[2]; /* read, not all loaded; the oldest first */
    struct preload_slice *recent[PRELOAD_RECENT_SLICES]; /* a ring; also those of `queue` */
    uint32_t recent_first, recent_count;
    size_t recent_bytes;
    struct preload_slice *spare;
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

/* ---- preload_slice.c: reading ---- */
/* NULL: out of memory. */
struct preload_slice *preload_slice_new(struct preload *preload, struct preload_run *run,
                                        enum job_section section);
void preload_slice_free(struct preload_slice *slice);
/* [scout] */
void preload_slice_read(struct preload_slice *slice);
size_t preload_slice_bytes(const struct preload_slice *slice); /* what it takes in RAM */

/* ---- preload_recent.c ---- */
void preload_recent_add(struct preload *preload, struct preload_slice *slice);
/* One to read with, maybe with memory of before. */
struct preload_slice *preload_recent_take_spare(struct preload *preload);
void preload_recent_give_spare(struct preload *preload, struct preload_slice *slice);
void preload_recent_fini(struct preload *preload);

/* ---- preload_load.c: what was read comes to memory ---- */
/* Loads some of what was read. Returns whether more is there that can be loaded now. */
bool preload_load_some(struct preload *preload, struct engine_now now);
/* Lets go what is not loaded yet. */
void preload_load_none(struct preload *preload);
/* All of it is loaded, or nobody wants it: its run may go. */
void preload_slice_end(struct preload_slice *slice);
void preload_cannot_read(struct preload *preload, uint32_t run, uint32_t slot, const char *why);
/* All of a section, blocking. 0 or negative errno. */
int preload_load_section(struct preload *preload, struct preload_run *run,
                         enum job_section section);

/* ---- preload_next.c: which slice is next ---- */
/* Gives the scout something to do where there is anything. */
void preload_read_next(struct preload *preload, struct engine_now now);
/* When (inner clock) a cursor's next slot comes up. */
int64_t preload_up_ms(const struct preload *preload, const struct preload_run *run,
                      enum job_section section);
/* When a slice is read next; inner clock. */
int64_t preload_slice_ms(struct preload *preload);
/* What a slice that was read means for cursors and notes. */
void preload_took_in(struct preload *preload, struct preload_slice *slice, struct engine_now now);

/* ---- preload_runs.c: cursors follow the view ---- */
bool preload_runs_follow(struct preload *preload); /* false: out of memory */
void preload_runs_fini(struct preload *preload);
void preload_run_let_go(struct preload_run *run, struct preload *preload);
void preload_runs_restart(struct preload *preload); /* those of topics with restart_now */

/* ---- preload_topic.c: quota, and what was passed by ---- */
struct preload_topic *preload_topic_get(struct preload *preload, struct slice name);
void preload_topic_put(struct preload *preload, struct preload_topic *topic);
uint64_t preload_topic_quota(const struct preload *preload);
/* Loaded and waiting, or about to be. */
uint64_t preload_topic_loaded(struct preload *preload, struct preload_topic *topic);
/* Passes it by from now on. */
void preload_topic_hold(struct preload *preload, struct preload_topic *topic);
void preload_topic_use(struct preload *preload, struct preload_topic *topic);
/* Goes over those held: which may be refilled, which need not be held any more. NULL: nothing to
 * refill; else the topic whose turn it is. */
struct preload_topic *preload_topic_to_refill(struct preload *preload);
/* What the engine counted by itself since it was told: jobs that came to memory by their key, or
 * were evicted. Before anything is loaded. */
void preload_topics_ask(struct preload *preload);
void preload_topic_changed(struct preload *preload, struct preload_topic *topic);
/* Tells the engine what is due of what was passed by. */
void preload_topics_tell(struct preload *preload, struct engine_now now);
/* Nothing comes up just now that was not looked at: what is carried has gone. */
void preload_topics_caught_up(struct preload *preload, struct engine_now now);
/* Ready jobs of those that have more loaded are about to be evicted, and there is no telling which:
 * at the given time, when that is over, all of the topic is looked at once more. */
void preload_topics_over(struct preload *preload, uint64_t max, struct engine_now now);
/* The wall clock was set: what waits by it is counted once more. */
void preload_topics_stepped(struct preload *preload, struct engine_now now);
void preload_topics_restart(struct preload *preload, struct engine_now now);

/* ---- preload_place.c ---- */
/* The one of the run's topic, made where there was none; NULL: out of memory. */
struct preload_place *preload_place_get(struct preload_run *run, uint32_t topic);
void preload_place_note(struct preload *preload, struct preload_place *place,
                        enum job_section section, uint32_t slot, int64_t when_ms,
                        struct engine_now now);
/* A slot noted before has been read. */
void preload_place_unnote(struct preload *preload, struct preload_place *place,
                          enum job_section section, int64_t when_ms);
/* Where all of the part has been read and loaded nothing is noted of it. */
void preload_place_settle(struct preload *preload, struct preload_place *place,
                          enum job_section section);
/* Nothing is noted; what was due is carried. */
void preload_place_clear(struct preload *preload, struct preload_place *place);
/* What has come up by now is due. Returns when the next is; INT64_MAX: nothing waits. */
int64_t preload_place_due(struct preload *preload, struct preload_place *place, int64_t now_ms);
bool preload_place_has_wall(const struct preload_place *place);
/* Which of its parts to read from; where nothing is noted LOADING_WAITS. *when_ms: inner clock. */
unsigned preload_place_first(const struct preload *preload, const struct preload_place *place,
                             int64_t *when_ms);

#endif
