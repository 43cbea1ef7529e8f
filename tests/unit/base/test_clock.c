#include "base/clock.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUSY_MS = 5000 }; /* how long a busy machine may leave a test lying */

/* First, because it is about what holds before clock_start. */
CLAIM(starts_out_equal_to_wall)
{
    assert_in_range(labs((long)clock_skew_ms()), 0, BUSY_MS);
}

CLAIM(shows_its_start_time)
{
    clock_start(&clock_process, 5000);
    int64_t now = clock_inner_ms();
    assert_in_range(now, 5000, 5000 + BUSY_MS);
    assert_true(clock_skew_ms() > 1000000);
    clock_start(&clock_process, clock_wall_ms() + 3600000);
    assert_in_range(clock_skew_ms() + 3600000 + BUSY_MS, 0, 2 * BUSY_MS);
}

/* As a server does it that is stopped and started: a job's delay is neither cut short nor drawn
 * out. */
CLAIM(continues_over_many_restarts)
{
    clock_start(&clock_process, 1000000);
    int64_t boot_us = clock_boot_us(), first_us = clock_inner_us() - boot_us, after_us = first_us;
    for (int i = 0; i < 400; i++) {
        int64_t until_us = clock_boot_us() + i * 7919 % 1000; /* at any part of a millisecond */
        while (clock_boot_us() < until_us)
            continue;
        boot_us = clock_boot_us();
        int64_t before_us = clock_inner_us() - boot_us;
        int64_t inner_ms = clock_inner_ms(), offset_ms = inner_ms - clock_boot_us() / 1000;
        clock_start(&clock_process, clock_boot_us() / 1000 + offset_ms);
        after_us = clock_inner_us();
        after_us -= clock_boot_us();
        assert_true(after_us <= before_us);
    }
    assert_true(first_us - after_us < 50000);
}

CLAIM(never_goes_back)
{
    int64_t inner = clock_inner_ms(), boot = clock_boot_us();

    for (int i = 0; i < 100000; i++) {
        int64_t inner_next = clock_inner_ms(), boot_next = clock_boot_us();
        assert_true(inner_next >= inner && boot_next >= boot);
        inner = inner_next;
        boot = boot_next;
    }
}

CLAIM(shows_the_time_of_the_system)
{
    int64_t before = (int64_t)time(NULL);
    int64_t wall_ms = clock_wall_ms();
    assert_true(wall_ms / 1000 + 1 >= before && wall_ms / 1000 <= before + 2);
}

CLAIM(a_fake_clock_moves_only_on_command)
{
    clock_fake_start(1000, 5000);
    assert_int_equal(clock_inner_ms(), 1000);
    assert_int_equal(clock_wall_ms(), 5000);
    clock_fake_advance(250);
    assert_int_equal(clock_inner_ms(), 1250);
    assert_int_equal(clock_wall_ms(), 5250);
    assert_int_equal(clock_skew_ms(), 4000);
    clock_fake_step_wall(-10000);
    assert_int_equal(clock_inner_ms(), 1250);
    assert_int_equal(clock_wall_ms(), -4750);
    assert_int_equal(clock_skew_ms(), -6000);
    clock_fake_end();
    assert_true(clock_wall_ms() > 1000000000000);
}

/* Two queues in one process: each goes by its own, and neither moves the other or the process's. */
CLAIM(each_clock_goes_by_itself)
{
    struct clock first = CLOCK_INIT, second = CLOCK_INIT;

    int64_t process_ms = clock_inner_ms();
    clock_start(&first, 5000);
    clock_start(&second, 9000000);
    assert_in_range(clock_inner_ms_of(&first), 5000, 5000 + BUSY_MS);
    assert_in_range(clock_inner_ms_of(&second), 9000000, 9000000 + BUSY_MS);
    clock_raise(&first, 7000000);
    assert_in_range(clock_inner_ms_of(&first), 7000000, 7000000 + BUSY_MS);
    assert_in_range(clock_inner_ms_of(&second), 9000000, 9000000 + BUSY_MS);
    assert_in_range(clock_inner_ms() - process_ms, 0, BUSY_MS);

    clock_hold(&first, 1000, 2000);
    clock_advance(&first, 250);
    assert_int_equal(clock_inner_ms_of(&first), 1250);
    assert_int_equal(clock_wall_ms_of(&first), 2250);
    assert_int_equal(clock_skew_ms_of(&first), 1000);
    assert_in_range(clock_inner_ms_of(&second), 9000000, 9000000 + BUSY_MS);
    assert_in_range(clock_inner_ms() - process_ms, 0, BUSY_MS);
}

CLAIM(turns_a_moment_into_the_process_s)
{
    struct clock clock = CLOCK_INIT;

    assert_int_equal(clock_process_ms(&clock_process, 4711), 4711);
    assert_true(clock_process_ms(&clock, INT64_MAX) == INT64_MAX);
    clock_start(&clock, 5000);
    int64_t before_ms = clock_inner_ms();
    assert_in_range(clock_process_ms(&clock, 65000) - before_ms, 60000 - BUSY_MS, 60001);
    assert_true(clock_process_ms(&clock, INT64_MAX - 1) == INT64_MAX); /* which has begun earlier */
}

CLAIM(names_the_boot)
{
    char id[37], again[37];

    memset(id, 'x', sizeof id);
    clock_boot_id(id);
    clock_boot_id(again);
    assert_true(memchr(id, '\0', sizeof id) != NULL);
    assert_true(strlen(id) == 36 || strlen(id) == 0);
    assert_string_equal(id, again);
}

CLAIM(remembers_the_last_step)
{
    struct clock_steps before, after;

    clock_steps(&before);
    assert_int_equal(before.count, 0);
    assert_int_equal(before.last_at_ms, 0);
    clock_note_step(5000);
    clock_note_step(-3000);
    clock_steps(&after);
    assert_int_equal(after.count, 2);
    assert_int_equal(after.last_ms, -3000);
    assert_true(after.last_at_ms > 0 && after.last_at_ms <= clock_inner_ms());
}

CLAIMS_MAIN(NULL, NULL)
