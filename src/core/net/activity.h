/*
 * activity: what an event loop is doing, so that a long iteration can be explained.
 *
 * Code on a loop's thread names its activity when it begins: a call of a client, a step of a store,
 * a message of another thread. The activity lasts until the next one begins or the iteration ends.
 * At the end of an iteration that took much processor time, the reactor counts the activity that
 * took the longest (reactor_slow_activity). Naming costs about ten instructions: it reads a counter
 * of the processor, whose unit does not matter, since times are only compared.
 */
#ifndef TARRY_NET_ACTIVITY_H
#define TARRY_NET_ACTIVITY_H

#include "base/clock.h"

#include <stddef.h>
#include <stdint.h>

#define ACTIVITY_SEVERAL "several"

struct activity {
    const char *name; /* NULL: not named yet in this iteration */
    const char *longest;
    uint64_t began, since; /* of the first activity of the iteration, and of this one */
    uint64_t longest_ticks;
};
extern _Thread_local struct activity activity_of_thread;

static inline uint64_t activity_ticks(void)
{
#if defined __x86_64__
    return __builtin_ia32_rdtsc();
#elif defined __aarch64__
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return (uint64_t)clock_awake_us();
#endif
}

/* Begins an activity on this thread. `name`: static text, the value of a label. */
static inline void activity_begin(const char *name)
{
    struct activity *activity = &activity_of_thread;
    uint64_t now = activity_ticks();
    if (!activity->name) {
        activity->began = now;
        activity->longest = name;
    } else if (now - activity->since > activity->longest_ticks) {
        activity->longest_ticks = now - activity->since;
        activity->longest = activity->name;
    }
    activity->name = name;
    activity->since = now;
}

/* Ends the activities of an iteration. Returns the one that took at least half of their time, ACTIVITY_SEVERAL
 * if there is no such activity, or "unknown" if there was no name. */
const char *activity_end_iteration(void);

#endif
