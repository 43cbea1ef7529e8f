/*
 * clock_restore: continues an inner clock in another process, so that jobs have the same due times after a restart.
 *
 * Each function reads the clock; any thread. clock_restore is called before other threads use the clock.
 */
#ifndef TARRY_BASE_CLOCK_RESTORE_H
#define TARRY_BASE_CLOCK_RESTORE_H

#include "base/clock.h"

/* The difference of two clocks that are truncated to milliseconds varies by less than this. */
enum { CLOCK_SKEW_NOISE_MS = 2 };

/* Starts the inner clock where it was: `boot_offset_ms` is what clock_boot_offset_ms returned in an earlier process of
 * the same boot. */
void clock_restore(struct clock *clock, int64_t boot_offset_ms);
/* Returns inner time minus boot time, rounded down. Exact, unlike the difference of two readings. */
int64_t clock_boot_offset_ms(struct clock *clock);
/* Returns wall minus inner time: `last_ms` if it still differs only by noise, else the difference now. */
int64_t clock_skew_ms_since(struct clock *clock, int64_t last_ms);

#endif
