/*
 * part: where in a run a record belongs. Pure.
 *
 * A run (store/run.h) keeps its slots ordered by part, then `when`, then sequence. All slots of one
 * part come up by the same clock, so what is due next is always the first of a part.
 */
#ifndef TARRY_JOB_PART_H
#define TARRY_JOB_PART_H

#include "job/record.h"

enum job_part {
    PART_LEASED = 0,    /* when: 0; must be known after a restart at once */
    PART_DELAYED,       /* due, inner clock; ready ones too: their due has passed */
    PART_DELAYED_WALL,  /* due, wall clock */
    PART_RETRYING,      /* as DELAYED, with attempt > 0 */
    PART_RETRYING_WALL, /* as DELAYED_WALL, with attempt > 0 */
    PART_REMEMBERED,    /* a DONE: remember_until, inner clock */
    PART_DEAD, /* due on the wall clock as it was when the run was written; never comes up by itself
                */
    PARTS
};

/* READY counts as delayed. */
enum job_part job_part_of(enum job_state state, uint32_t attempt, bool due_is_wall);
/* Whether `when` is by the wall clock (DEAD is not timed at all, and none of them). */
static inline bool job_part_is_wall(enum job_part part)
{
    return part == PART_DELAYED_WALL || part == PART_RETRYING_WALL;
}

/* The part a JOB or DONE record belongs in, and its `when`. `skew_ms` is wall minus inner, for
 * DEAD. */
enum job_part job_part_of_record(const struct record *record, int64_t skew_ms, int64_t *when_ms);

#endif
