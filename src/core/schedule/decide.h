/*
 * decide: which fires of a schedule are due, and which are skipped. Pure.
 *
 * A fire is missed if it is handled more than `grace` after its time. The decision for the same
 * state, time and limit is always the same, so it can be repeated for fewer fires if a push is
 * refused.
 */
#ifndef TARRY_SCHEDULE_DECIDE_H
#define TARRY_SCHEDULE_DECIDE_H

#include "schedule/spec.h"
#include "schedule/state.h"

enum {
    DECIDE_FIRES_MAX = 100,
    DECIDE_LEAD_MS = 2000,      /* a fire with overlap `allow` is pushed so long before its time */
    DECIDE_CATCH_UP_MAX = 1000, /* missed fires that run, of `missed` all */
    DECIDE_PACE_MS = 1000,      /* between two of them */
    DECIDE_RETRY_MS_MAX = 30000
};

/* A schedule. */
struct schedule {
    struct slice name;
    const struct spec *spec;
    const struct zone *zone; /* NULL: UTC */
};

struct decision_fire {
    int64_t at_ms;       /* nominal time, in the id */
    int64_t due_ms;      /* when its job is due: with the jitter, or later if it is caught up */
    int64_t once_for_ms; /* how long its `once` must be remembered */
    uint64_t number;
};

struct decision {
    struct state state; /* afterwards, if all fires are pushed */
    struct decision_fire fires[DECIDE_FIRES_MAX];
    size_t fire_count;
    uint64_t skipped[SKIP_REASONS]; /* fires that this decision skips */
    int64_t wake_ms;                /* when to decide again */
};

/* Decides at a time, for at most `fires_max` fires. */
void schedule_decide(const struct schedule *schedule, const struct state *before, int64_t now_ms,
                     size_t fires_max, struct decision *out);

/* Changes a decision whose last fire could not be pushed: the next one is tried again later.
 * `out` is the decision for the fires before it. */
void schedule_retry(struct decision *out, const struct state *before, int64_t refused_ms,
                    int64_t now_ms);

/* Returns whether the timetable has a fire at a time. */
bool schedule_fires_at(const struct schedule *schedule, int64_t at_ms);

/* Takes back what was decided ahead: fires whose jobs are not due at a time. The state continues as before them. Returns
 * their number, and their nominal times: the jobs to cancel. */
size_t schedule_take_back(const struct schedule *schedule, struct state *state, int64_t now_ms,
                          int64_t taken_ms[STATE_LAST]);

/* Returns the time at which a new or resumed schedule, or one whose plan changed, continues. */
void schedule_begin(const struct schedule *schedule, struct state *state, int64_t now_ms,
                    int64_t *wake_ms);

#endif
