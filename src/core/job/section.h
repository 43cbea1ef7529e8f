/*
 * section: the part of a run in which a record belongs. Pure.
 *
 * A run (store/run.h) orders its slots by section, then `when`, then sequence. All slots of a
 * section come due by the same clock, so the next due one is always at the front of a section.
 */
#ifndef TARRY_JOB_SECTION_H
#define TARRY_JOB_SECTION_H

#include "job/record.h"

enum job_section {
    /* when: 0; needed immediately after a restart. Also waiting jobs that have a batch of their own (job/batch.h). */
    SECTION_LEASED = 0,
    SECTION_DELAYED,       /* due, inner clock; also ready jobs: their due has passed */
    SECTION_DELAYED_WALL,  /* due, wall clock */
    SECTION_RETRYING,      /* like DELAYED, with attempt > 0 */
    SECTION_RETRYING_WALL, /* like DELAYED_WALL, with attempt > 0 */
    SECTION_REMEMBERED,    /* a DONE record that is not kept: remember_until, inner clock */
    SECTION_KEPT,          /* a DONE record of a kept job: keep_until, inner clock */
    /* Due by the wall clock, as of the writing of the run; never falls due by itself. */
    SECTION_DEAD,
    SECTIONS
};

/* Returns the section of a job. READY counts as delayed, and FINISHED as not kept. */
enum job_section job_section_of(enum job_state state, uint32_t attempt, bool due_is_wall);
/* Returns whether `when` is by the wall clock. (DEAD is not timed.) */
static inline bool job_section_is_wall(enum job_section section)
{
    return section == SECTION_DELAYED_WALL || section == SECTION_RETRYING_WALL;
}

/* Returns the section of a JOB or DONE record, and its `when`. `skew_ms` is wall minus inner, for
 * DEAD. */
enum job_section job_section_of_record(const struct record *record, int64_t skew_ms,
                                       int64_t *when_ms);

#endif
