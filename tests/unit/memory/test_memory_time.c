/* Steps of the wall clock as the queue in memory detects them. */
#include "base/clock.h"
#include "memory/memory.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { HOLD_MS = 200 };

static bool is_held_up; /* the next reading of the wall clock comes late */

/* Stands before the system's: a thread that the machine leaves lying between two readings. */
int held_clock_gettime(clockid_t which, struct timespec *out) __asm__("clock_gettime");
int held_clock_gettime(clockid_t which, struct timespec *out)
{
    if (which == CLOCK_REALTIME && is_held_up) {
        struct timespec pause = {.tv_nsec = HOLD_MS * 1000000L};
        is_held_up = false;
        nanosleep(&pause, NULL);
    }
    return (int)syscall(SYS_clock_gettime, which, out);
}

CLAIM(a_thread_that_is_held_up_sees_no_step_of_the_wall_clock)
{
    struct clock clock = CLOCK_INIT;
    struct memory_options options = {.body_bytes_max = 1000, .topics_max = 10, .clock = &clock};
    struct memory *memory = memory_new(&options);

    assert_non_null(memory);
    int64_t skew_ms = memory_now(memory).skew_ms;
    is_held_up = true;
    struct engine_now now = memory_now(memory);
    assert_false(is_held_up); /* it was */
    assert_in_range(now.skew_ms - skew_ms + HOLD_MS / 2, 0, HOLD_MS);
    memory_free(memory);
}

CLAIMS_MAIN(NULL, NULL)
