/*
 * clock: the only file that reads the clock.
 *
 * Two times, both in milliseconds since 1970 UTC, both rounded down:
 *   inner  never goes back and is not moved by a step of the wall clock: elapsed boot time plus an
 *          offset fixed when the process starts. Relative delays, leases and backoff live on it.
 *   wall   what the system's wall clock says now. Only absolute due times (`at`) follow it.
 *
 * What jobs go by is the clock of their queue: each may have one of its own (struct clock), started where
 * its jobs left off, or held for a test. Everything else (timers, time limits, log lines) goes by the
 * process's, which is also the clock of a queue that was given none.
 *
 * Any thread may read; clock_start, clock_hold and clock_fake_* are called before threads start or from
 * tests.
 */
#ifndef TARRY_BASE_CLOCK_H
#define TARRY_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- the clock of one queue ---- */

/* The owner's storage: CLOCK_INIT, then its members are clock.c's. */
struct clock {
    _Atomic int64_t offset_us;                   /* added to boot time it gives inner time */
    _Atomic int64_t held_inner_ms, held_skew_ms; /* wall minus inner */
    atomic_bool is_held;
};
#define CLOCK_OFFSET_NONE INT64_MIN
#define CLOCK_INIT                                                                                 \
    {                                                                                              \
        .offset_us = CLOCK_OFFSET_NONE                                                             \
    }
extern struct clock clock_process;

/* Fixes the inner clock so that it shows `inner_ms` now. Before it, inner starts out equal to wall.
 */
void clock_start(struct clock *clock, int64_t inner_ms);
/* From now on inner shows at least `inner_ms`. Any thread. */
void clock_raise(struct clock *clock, int64_t inner_ms);

int64_t clock_inner_ms_of(struct clock *clock);
int64_t clock_inner_us_of(struct clock *clock);
int64_t clock_wall_ms_of(struct clock *clock);
int64_t clock_skew_ms_of(struct clock *clock);
/* Both at one moment, as nearly as five tries allow: of a thread that is held up between the two readings the
 * difference would look like a step of the wall clock. */
void clock_both_ms_of(struct clock *clock, int64_t *inner_ms, int64_t *wall_ms);

/* When a moment of this clock's inner time comes by the process's: for setting timers. INT64_MAX stays; so is
 * what lies ahead of a clock that is held, unless it is the process's own. */
int64_t clock_process_ms(struct clock *clock, int64_t inner_ms);

/* For tests, ours and users': from now on it shows these, and moves only when told. One thread moves it, any may
 * read: both times go at once. */
void clock_hold(struct clock *clock, int64_t inner_ms, int64_t wall_ms);
bool clock_is_held(const struct clock *clock);
void clock_advance(struct clock *clock, int64_t elapsed_ms);
void clock_step_wall(struct clock *clock, int64_t step_ms);

/* ---- the process's ---- */

int64_t clock_inner_ms(void);
int64_t clock_inner_us(void); /* the same in microseconds, for setting timers */
int64_t clock_wall_ms(void);
int64_t clock_wall_us(void); /* the same in microseconds, for what other machines compare */

/* Elapsed microseconds since boot, for measuring durations. Real even while the clocks are faked.
 */
int64_t clock_boot_us(void);
/* The same in milliseconds. */
static inline int64_t clock_boot_ms(void)
{
    return clock_boot_us() / 1000;
}

/* Elapsed microseconds while the machine was awake: the clock that event loops sleep by. As real. */
int64_t clock_awake_us(void);

/* wall minus inner, now. A change of it (beyond a few ms) is a step of the wall clock. */
int64_t clock_skew_ms(void);

/* Steps of the wall clock that somebody noticed: how many, how far the last one went, and when that
 * was (inner clock; 0: there was none). Any thread. */
struct clock_steps {
    uint64_t count;
    int64_t last_ms, last_at_ms;
};
void clock_note_step(int64_t step_ms);
void clock_steps(struct clock_steps *out);

/* Names this boot of the machine: 36 characters and NUL into `id`. "" when the system does not
 * tell. */
void clock_boot_id(char id[37]);

/* Tests: replace both clocks by values that move only when told; clock_fake_end goes back to real
 * ones. */
void clock_fake_start(int64_t inner_ms, int64_t wall_ms);
void clock_fake_advance(int64_t elapsed_ms);
void clock_fake_step_wall(int64_t step_ms);
void clock_fake_end(void);

#endif
