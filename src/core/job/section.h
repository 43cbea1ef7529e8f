/*
 * section: where in a run a record belongs. Pure.
 *
 * A run (store/run.h) keeps its slots ordered by section, then `when`, then sequence. All slots of one
 * part come up by the same clock, so what is due next is always the first of a section.
 */
#ifndef TARRY_JOB_SECTION_H
#define TARRY_JOB_SECTION_H

#include "job/record.h"

enum job_section {
    SECTION_LEASED = 0,    /* when: 0; must be known after a restart at once */
    SECTION_DELAYED,       /* due, inner clock; ready ones too: their due has passed */
    SECTION_DELAYED_WALL,  /* due, wall clock */
    SECTION_RETRYING,      /* as DELAYED, with attempt > 0 */
    SECTION_RETRYING_WALL, /* as DELAYED_WALL, with attempt > 0 */
    SECTION_REMEMBERED,    /* a DONE: remember_until, inner clock */
    /* Due on the wall clock as it was when the run was written; never comes up by itself. */
    SECTION_DEAD,
    SECTIONS
};

/* READY counts as delayed. */
enum job_section job_section_of(enum job_state state, uint32_t attempt, bool due_is_wall);
/* Whether `when` is by the wall clock (DEAD is not timed at all, and none of them). */
static inline bool job_section_is_wall(enum job_section section)
{
    return section == SECTION_DELAYED_WALL || section == SECTION_RETRYING_WALL;
}

/* The part a JOB or DONE record belongs in, and its `when`. `skew_ms` is wall minus inner, for
 * DEAD. */
enum job_section job_section_of_record(const struct record *record, int64_t skew_ms,
                                       int64_t *when_ms);

#endif
