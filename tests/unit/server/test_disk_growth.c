/* The growth of the disk's use, computed from samples. */
#include "server/store_state.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { MINUTE = 60 * 1000, HOUR = 60 * MINUTE };

/* Samples during activity: one each second. */
static void run(struct disk_growth *growth, int64_t from_ms, int64_t to_ms, uint64_t bytes,
                uint64_t per_minute)
{
    for (int64_t now = from_ms; now <= to_ms; now += 1000)
        if (disk_growth_wants(growth, now))
            disk_growth_note(growth, now, bytes + per_minute * (uint64_t)(now - from_ms) / MINUTE);
}

CLAIM(growth_is_unknown_in_the_first_quarter_of_an_hour)
{
    struct disk_growth growth = {0};
    int64_t per_hour = 7;
    assert_false(disk_growth_per_hour(&growth, 1000, 5, &per_hour));
    run(&growth, 1000, 2000, 100, 10);
    assert_false(disk_growth_per_hour(&growth, 1000 + 15 * MINUTE - 1, 200, &per_hour));
    assert_int_equal(per_hour, 7);
    assert_true(disk_growth_per_hour(&growth, 1000 + 15 * MINUTE, 250, &per_hour));
    assert_int_equal(per_hour, 600);
}

CLAIM(samples_are_a_minute_apart)
{
    struct disk_growth growth = {0};
    run(&growth, 0, 10 * MINUTE, 0, 1);
    assert_int_equal(growth.count, 11);
}

CLAIM(only_the_last_hour_counts)
{
    struct disk_growth growth = {0};
    int64_t per_hour;
    run(&growth, 0, 5 * HOUR, 0, 1000);
    run(&growth, 5 * HOUR, 7 * HOUR, 5 * 60 * 1000, 10);
    assert_true(disk_growth_per_hour(&growth, 7 * HOUR, 5 * 60 * 1000 + 2 * 600, &per_hour));
    assert_in_range(per_hour, 590, 610);
}

CLAIM(an_idle_directory_does_not_grow)
{
    struct disk_growth growth = {0};
    int64_t per_hour;
    run(&growth, 0, HOUR, 0, 1000);
    assert_true(disk_growth_per_hour(&growth, HOUR + 30 * MINUTE, 60000, &per_hour));
    assert_in_range(per_hour, 29000, 31000); /* half of the last hour it was at work */
    assert_true(disk_growth_per_hour(&growth, 9 * HOUR, 60000, &per_hour));
    assert_int_equal(per_hour, 0);
    assert_true(disk_growth_per_hour(&growth, 9 * HOUR, 60060, &per_hour));
    assert_int_equal(per_hour, 60); /* what came since the last look came in this hour, at most */
}

CLAIM(a_shrinking_directory_has_negative_growth)
{
    struct disk_growth growth = {0};
    int64_t per_hour;
    disk_growth_note(&growth, 0, 1000000);
    assert_true(disk_growth_per_hour(&growth, 30 * MINUTE, 400000, &per_hour));
    assert_int_equal(per_hour, -1200000);
}

CLAIM(a_disk_that_grows_steadily_is_full_when_its_free_space_is_used)
{
    struct disk_growth growth = {0};
    run(&growth, 0, 2 * HOUR, 0, 1000);
    assert_in_range(disk_growth_full_in_ms(&growth, 2 * HOUR, 120000, 60000 * 3), 3 * HOUR - MINUTE,
                    3 * HOUR + MINUTE);
    assert_int_equal(disk_growth_full_in_ms(&growth, 2 * HOUR, 120000, UINT64_MAX), 0);
}

CLAIM(a_disk_without_growth_is_never_full)
{
    struct disk_growth growth = {0};
    assert_int_equal(disk_growth_full_in_ms(&growth, 5, 100, 1), 0);
    run(&growth, 0, 14 * MINUTE, 0, 1000);
    assert_int_equal(disk_growth_full_in_ms(&growth, 14 * MINUTE, 14000, 1), 0); /* not known */
    run(&growth, 15 * MINUTE, HOUR, 14000, 0);
    assert_int_equal(disk_growth_full_in_ms(&growth, HOUR, 14000, 1), 0);
    assert_int_equal(disk_growth_full_in_ms(&growth, HOUR, 13000, 1), 0); /* it shrinks */
}

/* The log of a new directory grows to some files, then their space is used again. */
CLAIM(growth_that_has_ended_does_not_fill_the_disk)
{
    struct disk_growth growth = {0};
    run(&growth, 0, 10 * MINUTE, 0, 1000);
    run(&growth, 11 * MINUTE, 27 * MINUTE, 10000, 0);
    assert_int_equal(disk_growth_full_in_ms(&growth, 27 * MINUTE, 10000, 100), 0);
}

CLAIM(growth_that_has_just_begun_counts_as_far_as_it_lasts)
{
    struct disk_growth growth = {0};
    run(&growth, 0, 2 * HOUR, 0, 0);
    run(&growth, 2 * HOUR + MINUTE, 2 * HOUR + 10 * MINUTE, 0, 6000);
    assert_in_range(disk_growth_full_in_ms(&growth, 2 * HOUR + 10 * MINUTE, 54000, 54000),
                    HOUR - 8 * MINUTE, HOUR + 8 * MINUTE);
}

CLAIMS_MAIN(NULL, NULL)
