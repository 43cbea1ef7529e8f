/*
 * topic: what a server remembers of a topic: the bound, below which no job waits, and the due time
 * of the next job. The database decides: missing information costs an extra check, wrong
 * information costs a second.
 *
 * The bound never exceeds now. A job that is committed later may be due before the lowest waiting
 * one, but not before now, unless its server announces it.
 */
#ifndef TARRY_SQL_TOPIC_H
#define TARRY_SQL_TOPIC_H

#include "base/heap.h"
#include "base/list.h"
#include "base/table.h"
#include "job/job.h"
#include "queue/queue.h"
#include "sql/effect.h"

struct sql_topic {
    struct table_entry entry;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    bool watched;
    bool look;     /* the database must be checked for waiting jobs */
    bool asked;    /* that check is in progress */
    bool in_round; /* was checked from 0 in this round over all topics */
    bool paused;
    bool is_limited;   /* the end of a lease may make a job ready for delivery */
    int64_t bound_ms;  /* takes begin here */
    int64_t next_ms;   /* time of the next on_ready; INT64_MAX: unknown */
    int64_t resume_ms; /* end of the pause; INT64_MAX: never */
    int64_t hold_ms;   /* not before this time, if other transactions hold its jobs at the moment */
    int64_t wait_ms;   /* last delay for that reason */
    struct list looks; /* in the list of topics to check, or unlinked */
    int64_t at_ms;     /* time of the next action */
    size_t index;      /* index among the watched topics */
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

/* Schedule that returns the topics to check and the next watched topic without a walk over all
 * topics. */
struct sql_topic_plan {
    struct list looks;            /* includes topics whose check is in progress */
    struct sql_topic_times times; /* watched topics */
};

void sql_topic_plan_init(struct sql_topic_plan *plan);
void sql_topic_plan_fini(struct sql_topic_plan *plan);
/* Starts or stops watching a topic. Returns false if out of memory; the topic is then not watched. */
bool sql_topic_plan_watch(struct sql_topic_plan *plan, struct sql_topic *topic, bool on);
/* Updates the schedule after a change of a topic's times. */
void sql_topic_plan_changed(struct sql_topic_plan *plan, struct sql_topic *topic);
/* Requests a check of a topic if it is watched. */
void sql_topic_plan_look(struct sql_topic_plan *plan, struct sql_topic *topic);
bool sql_topic_plan_wants_look(struct sql_topic_plan *plan);
/* Ends the check in progress. If it failed, requests it again. */
void sql_topic_plan_looked(struct sql_topic_plan *plan, bool is_good);
/* Returns INT64_MAX if no topic is scheduled. */
int64_t sql_topic_plan_next_ms(const struct sql_topic_plan *plan);

/* Finds or creates a topic. Returns NULL if out of memory. */
struct sql_topic *sql_topics_need(struct sql_topics *topics, struct slice name);
void sql_topics_free(struct sql_topics *topics);
/* Frees topics that are not watched, if there are many. */
void sql_topics_forget(struct sql_topics *topics);

/* Records that a job with this due time waits. */
void sql_topic_receive(struct sql_topic *topic, int64_t due_ms);
/* Records a check of the database: `next_ms` is the lowest due time at or above the bound. `took`,
 * `brought`: the check was part of a take, and the take returned jobs. */
void sql_topic_seen(struct sql_topic *topic, int64_t next_ms, int64_t now_ms, bool took,
                    bool brought);

/* ---- figures ---- */

/*
 * The columns of the schema's statement for a topic's figures and settings, in the
 * same order for every dialect, and the conversion to a topic. Pure.
 */
enum sql_topic_figure {
    SQL_FIGURE_NAME, /* text */
    SQL_FIGURE_PAUSED,
    SQL_FIGURE_PAUSED_UNTIL,
    SQL_FIGURE_LEASE,
    SQL_FIGURE_TTL,
    SQL_FIGURE_BACKOFF_KIND,
    SQL_FIGURE_BACKOFF_FIRST,
    SQL_FIGURE_BACKOFF_MAX,
    SQL_FIGURE_ATTEMPTS_MAX,
    SQL_FIGURE_CONFLICT,
    SQL_FIGURE_PRIORITY, /* NULL: not set */
    SQL_FIGURE_DEAD_LETTER,
    SQL_FIGURE_DEDUP,
    SQL_FIGURE_JOBS_MAX,
    SQL_FIGURE_RATE_COUNT,
    SQL_FIGURE_RATE_UNIT,
    SQL_FIGURE_EXTENSION, /* bytes */
    SQL_FIGURE_COUNTS,    /* an array, or one column per count: SQL_COUNT_… */
    SQL_FIGURE_READY_FRESH,
    SQL_FIGURE_READY_RETRY,
    SQL_FIGURE_OLDEST,
    SQL_FIGURE_HISTORY,
    SQL_FIGURE_KEEP,
    SQL_FIGURE_KEEP_MAX,
    SQL_FIGURE_KEEP_BYTES,
    SQL_FIGURE_KEEP_BODY,
    SQL_FIGURE_STEPS, /* text */
    SQL_TOPIC_FIGURES
};

/* The columns after those above, of dialects with groups. */
enum {
    SQL_FLOW_LIMIT,
    SQL_FLOW_RATE_COUNT,
    SQL_FLOW_RATE_UNIT,
    SQL_FLOW_BURST,
    SQL_FLOW_GROUP_LIMIT,
    SQL_FLOW_GROUP_RATE_COUNT,
    SQL_FLOW_GROUP_RATE_UNIT,
    SQL_FLOW_GROUP_BURST,
    SQL_FLOW_GROUP_JOBS_MAX,
    SQL_FLOW_GROUP_ORDER,
    SQL_FLOW_ONE_SHARD,
    SQL_FLOW_GROUPS,  /* groups with ready or leased jobs */
    SQL_FLOW_HELD_BY, /* ready jobs that are held, by the reason - 1 */
    SQL_FLOW_FIGURES = SQL_FLOW_HELD_BY + FLOW_HELD_REASONS - 1
};

struct sql_topic_figures {
    int64_t numbers[SQL_TOPIC_FIGURES]; /* NULL is read as 0 */
    bool has_priority;
    struct slice name, extension, steps;
    int64_t counts[SQL_COUNTS];
    int64_t flow[SQL_FLOW_FIGURES]; /* zero in dialects without groups */
};

static inline bool sql_topic_figure_is_number(enum sql_topic_figure figure)
{
    return figure != SQL_FIGURE_NAME && figure != SQL_FIGURE_EXTENSION &&
           figure != SQL_FIGURE_COUNTS && figure != SQL_FIGURE_STEPS;
}

/* Reads the waits of a list, as policy_emit_steps has written them. If they are damaged, the backoff is not set. */
void sql_steps_read(struct slice steps, struct backoff *out);

/* Converts the figures. Texts still point into the row. */
void sql_topic_figures_fill(const struct sql_topic_figures *figures, struct queue_topic *out);

/* The columns of a group, in the same order for every dialect. */
enum sql_group_figure {
    SQL_GROUP_NAME, /* text */
    SQL_GROUP_IS_SET,
    SQL_GROUP_WEIGHT,
    SQL_GROUP_LIMIT,
    SQL_GROUP_RATE_COUNT,
    SQL_GROUP_RATE_UNIT,
    SQL_GROUP_BURST,
    SQL_GROUP_JOBS_MAX,
    SQL_GROUP_PAUSED,
    SQL_GROUP_PAUSED_UNTIL,
    SQL_GROUP_READY,
    SQL_GROUP_LEASED,
    SQL_GROUP_HELD_BY,
    SQL_GROUP_HELD_UNTIL,
    SQL_GROUP_OLDEST,
    SQL_GROUP_FIGURES
};

/* Converts the columns of a group; that of the name is not read from `numbers`. The name still points into the row. */
struct queue_group sql_group_of(struct slice name, const int64_t numbers[SQL_GROUP_FIGURES]);

#endif
