/*
 * topic: what a server remembers of a topic: the bound, below which no job waits, and when the next
 * one is due. Memory knows, the database decides: what is forgotten here costs a look, what is wrong
 * here costs a second.
 *
 * The bound never runs ahead of now: a job that is committed later may be due before the lowest one
 * that waits, never before now, but for what its server tells.
 */
#ifndef TARRY_SQL_TOPIC_H
#define TARRY_SQL_TOPIC_H

#include "base/heap.h"
#include "base/list.h"
#include "base/table.h"
#include "job/job.h"

struct sql_topic {
    struct table_entry entry;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    bool watched;
    bool look;     /* ask the database what waits */
    bool asked;    /* that is under way */
    bool in_round; /* it had its look from 0 in this round of all topics */
    bool paused;
    int64_t bound_ms;  /* takes begin here */
    int64_t next_ms;   /* when on_ready is to be told; INT64_MAX: not known of any */
    int64_t resume_ms; /* when its pause ends; INT64_MAX: never */
    int64_t hold_ms;   /* not before; for one whose jobs others hold at the moment */
    int64_t wait_ms;   /* the last wait for those */
    struct list looks; /* among those to be looked at; alone: it is not */
    int64_t at_ms;     /* when something is to be done for it */
    size_t index;      /* among the watched ones */
};
TABLE_DECLARE(sql_topics, struct sql_topic, entry)

static inline bool sql_topic_before(struct sql_topic *const *a, struct sql_topic *const *b)
{
    return (*a)->at_ms < (*b)->at_ms;
}
static inline void sql_topic_placed(struct sql_topic **topic, size_t index)
{
    (*topic)->index = index;
}
HEAP_DECLARE(sql_topic_times, struct sql_topic *, sql_topic_before, sql_topic_placed)

/* Which topics are to be looked at, and which watched one is next, without a walk over all. */
struct sql_topic_plan {
    struct list looks;            /* also those whose look is under way */
    struct sql_topic_times times; /* of the watched ones */
};

void sql_topic_plan_init(struct sql_topic_plan *plan);
void sql_topic_plan_fini(struct sql_topic_plan *plan);
/* Watched from now on, or no more. False: out of memory, and it is not. */
bool sql_topic_plan_watch(struct sql_topic_plan *plan, struct sql_topic *topic, bool on);
/* It may be due at another moment now. */
void sql_topic_plan_changed(struct sql_topic_plan *plan, struct sql_topic *topic);
/* It is to be looked at, where it is watched. */
void sql_topic_plan_look(struct sql_topic_plan *plan, struct sql_topic *topic);
bool sql_topic_plan_wants_look(struct sql_topic_plan *plan);
/* The look that is under way has come back, or to nothing: then it is wanted again. */
void sql_topic_plan_looked(struct sql_topic_plan *plan, bool is_good);
/* INT64_MAX: none. */
int64_t sql_topic_plan_next_ms(const struct sql_topic_plan *plan);

/* Makes it where it is new. NULL: out of memory. */
struct sql_topic *sql_topics_need(struct sql_topics *topics, struct slice name);
void sql_topics_free(struct sql_topics *topics);
/* Those that nobody watches, where they are many. */
void sql_topics_forget(struct sql_topics *topics);

/* A job waits that is due then. */
void sql_topic_hear(struct sql_topic *topic, int64_t due_ms);
/* The database was asked: `next_ms` is the lowest due that waits at or above the bound. `took`: a
 * take came with it, and whether it brought jobs. */
void sql_topic_seen(struct sql_topic *topic, int64_t next_ms, int64_t now_ms, bool took,
                    bool brought);

#endif
