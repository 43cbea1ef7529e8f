/*
 * clock: the only file that reads the clock.
 *
 * Two times, both in milliseconds since 1970 UTC, both rounded down:
 *   inner  never goes back and is not moved by a step of the wall clock: elapsed boot time plus an
 *          offset fixed when the process starts. Relative delays, leases and backoff live on it.
 *   wall   what the system's wall clock says now. Only absolute due times (`at`) follow it.
 *
 * Any thread may read; clock_start and clock_fake_* are called before threads start or from tests.
 */
#ifndef TARRY_BASE_CLOCK_H
#define TARRY_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Fixes the inner clock so that it shows `inner_ms` now. Before it, inner starts out equal to wall.
 */
void clock_start(int64_t inner_ms);
/* From now on inner shows at least `inner_ms`. Any thread. */
void clock_raise(int64_t inner_ms);

int64_t clock_inner_ms(void);
int64_t clock_inner_us(void); /* the same in microseconds, for setting timers */
int64_t clock_wall_ms(void);
int64_t clock_wall_us(void); /* the same in microseconds, for what other machines compare */

/* Elapsed microseconds since boot, for measuring durations. Real even while the clocks are faked.
 */
int64_t clock_boot_us(void);

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
