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
};
TABLE_DECLARE(sql_topics, struct sql_topic, entry)

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
