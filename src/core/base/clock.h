/*
 * clock: the only file that reads the clock.
 *
 * There are two times, both in milliseconds since 1970 UTC and rounded down:
 *   inner  never goes back and is not affected by steps of the wall clock: elapsed boot time plus an
 *          offset fixed when the process starts. Relative delays, leases and backoff use it.
 *   wall   the current time of the system's wall clock. Only absolute due times (`at`) follow it.
 *
 * Jobs use the clock of their queue. Each queue may have its own clock (struct clock), which starts
 * where its jobs left off or is held for a test. Everything else (timers, time limits, log lines)
 * uses the clock of the process, which is also the clock of a queue without its own.
 *
 * Any thread may read. clock_start, clock_hold and clock_fake_* are called before threads start or
 * from tests.
 */
#ifndef TARRY_BASE_CLOCK_H
#define TARRY_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- the clock of one queue ---- */

/* The clock of one queue, in the owner's storage. Initialize it with CLOCK_INIT; the members are
 * private to clock.c and clock_restore.c. */
struct clock {
    _Atomic int64_t offset_us;                   /* inner time minus boot time */
    _Atomic int64_t held_inner_ms, held_skew_ms; /* wall minus inner */
    _Atomic int64_t usual_skew_ms; /* wall minus inner, when both were last compared; +- 1 */
    atomic_bool is_held;
};
#define CLOCK_OFFSET_NONE INT64_MIN
#define CLOCK_INIT                                                                                 \
    {                                                                                              \
        .offset_us = CLOCK_OFFSET_NONE                                                             \
    }
extern struct clock clock_process;

/* Sets the inner clock to `inner_ms`. Before this call, inner time starts equal to wall time. */
void clock_start(struct clock *clock, int64_t inner_ms);
/* Raises the inner time to at least `inner_ms`. Any thread. */
void clock_raise(struct clock *clock, int64_t inner_ms);

int64_t clock_inner_ms_of(struct clock *clock);
int64_t clock_inner_us_of(struct clock *clock);
int64_t clock_wall_ms_of(struct clock *clock);
int64_t clock_skew_ms_of(struct clock *clock);
/* Reads both times at one moment, as closely as five tries allow: if a thread is delayed between
 * the two readings, the difference looks like a step of the wall clock. */
void clock_both_ms_of(struct clock *clock, int64_t *inner_ms, int64_t *wall_ms);

/* Converts a moment of this clock's inner time to the process's clock, for setting timers. Returns
 * INT64_MAX for INT64_MAX, and for future moments of a held clock that is not the process's own. */
int64_t clock_process_ms(struct clock *clock, int64_t inner_ms);

/* Holds the clock at these times, for our tests and users' tests: it then moves only by the calls
 * below. One thread moves it, any thread may read: both times change at the same moment. */
void clock_hold(struct clock *clock, int64_t inner_ms, int64_t wall_ms);
bool clock_is_held(const struct clock *clock);
void clock_advance(struct clock *clock, int64_t elapsed_ms);
void clock_step_wall(struct clock *clock, int64_t step_ms);

/* ---- the process's clock ---- */

int64_t clock_inner_ms(void);
int64_t clock_inner_us(void); /* in microseconds, for setting timers */
int64_t clock_wall_ms(void);
int64_t clock_wall_us(void); /* in microseconds, for values that other machines compare */

/* Returns the microseconds elapsed since boot, for measuring durations. Real even while the clocks
 * are faked. */
int64_t clock_boot_us(void);
/* Returns the milliseconds elapsed since boot. */
static inline int64_t clock_boot_ms(void)
{
    return clock_boot_us() / 1000;
}

/* Returns the microseconds elapsed while the machine was awake: the clock that event loops sleep
 * by. Also real while the clocks are faked. */
int64_t clock_awake_us(void);

/* Returns the microseconds of processor time that the calling thread has used. A system call, unlike
 * the other clocks. */
int64_t clock_thread_us(void);

/* Returns wall minus inner. A change of it (by more than a few ms) is a step of the wall clock. */
int64_t clock_skew_ms(void);

/* The noticed steps of the wall clock: their number, the size of the last one, and its time (inner
 * clock; 0: no step). Any thread. */
struct clock_steps {
    uint64_t count;
    int64_t last_ms, last_at_ms;
};
void clock_note_step(int64_t step_ms);
void clock_steps(struct clock_steps *out);

/* Writes the id of this boot of the machine into `id`: 36 characters and NUL, or "" if the system
 * does not provide one. */
void clock_boot_id(char id[37]);

/* Replaces both clocks by values that move only by these calls, for tests. clock_fake_end restores
 * the real clocks. */
void clock_fake_start(int64_t inner_ms, int64_t wall_ms);
void clock_fake_advance(int64_t elapsed_ms);
void clock_fake_step_wall(int64_t step_ms);
void clock_fake_end(void);

#endif
