/* The day of history: what is stored, for how long, in how many bytes, and what a file brings back. */
#include "monitor/day.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <math.h>
#include <stdio.h>

enum { HOUR = 60, DAY = 24 * HOUR, START = 500000 * HOUR, ALL_BYTES = 1 << 20 };

static struct monitor_day_values values_of(double pushed, double ready)
{
    return (struct monitor_day_values){.of = {[MONITOR_DAY_PUSHED] = pushed,
                                              [MONITOR_DAY_READY] = ready,
                                              [MONITOR_DAY_LATE_P99] = -1,
                                              [MONITOR_DAY_OLDEST] = -1}};
}

/* Adds a point of the topic and of all topics. */
static void add(struct monitor_day *day, const char *topic, int64_t minute, double pushed,
                double ready)
{
    struct monitor_day_values values = values_of(pushed, ready);
    monitor_day_add(day, slice_of(topic), minute, &values);
    monitor_day_add(day, (struct slice){0}, minute, &values);
}

static double pushed_at(struct monitor_day *day, const char *topic, int64_t minute)
{
    struct monitor_day_point point;
    (void)monitor_day_read(day, slice_of(topic), minute, 1, &point);
    return point.of[MONITOR_DAY_READY] ? monitor_day_unpack(point.of[MONITOR_DAY_PUSHED]) : -2;
}

CLAIM(a_figure_comes_back_within_three_ten_thousandths)
{
    assert_int_equal(monitor_day_pack(-1), 0);
    assert_true(monitor_day_unpack(0) < 0);
    assert_true(monitor_day_unpack(monitor_day_pack(0)) >= 0);
    assert_true(monitor_day_unpack(monitor_day_pack(0)) <= 0);
    for (double value = 0.001; value < 1e12; value *= 1.37)
        assert_true(fabs(monitor_day_unpack(monitor_day_pack(value)) / value - 1) < 0.0003);
    for (int count = 1; count < 1500; count++)
        assert_int_equal(lround(monitor_day_unpack(monitor_day_pack(count))), count);
}

CLAIM(a_day_has_1440_points_and_no_more)
{
    struct monitor_day *day = monitor_day_new(NULL, NULL, ALL_BYTES);
    static struct monitor_day_point points[DAY];
    for (int64_t minute = START; minute < START + 3 * DAY; minute++) {
        add(day, "mail", minute, 1 + (double)(minute % 7), 0);
        if (minute % 10 == 0)
            monitor_day_sweep(day, minute);
    }
    assert_true(monitor_day_read(day, slice_of("mail"), START + 2 * DAY, DAY, points));
    for (size_t i = 0; i < DAY; i++)
        assert_int_equal(lround(monitor_day_unpack(points[i].of[MONITOR_DAY_PUSHED])),
                         1 + (int)((START + 2 * DAY + (int64_t)i) % 7));
    assert_true(pushed_at(day, "mail", START + DAY - 2 * HOUR) < -1);
    assert_in_range(monitor_day_bytes(day), 2 * 24 * 970, 2 * 26 * 1000);
    monitor_day_free(day);
}

CLAIM(a_topic_in_which_nothing_happens_has_zeros_and_no_bytes)
{
    struct monitor_day *day = monitor_day_new(NULL, NULL, ALL_BYTES);
    add(day, "busy", START, 5, 1);
    size_t before = monitor_day_bytes(day);
    add(day, "still", START, 0, 0);
    assert_int_equal(monitor_day_bytes(day), before);
    assert_true(pushed_at(day, "still", START) >= 0);
    assert_true(pushed_at(day, "still", START + 1) < -1);
    monitor_day_free(day);
}

CLAIM(points_without_room_are_left_out_and_reported)
{
    struct monitor_day *day = monitor_day_new(NULL, NULL, 8000);
    struct monitor_day_point point;
    char name[24];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "topic-%02d", i);
        add(day, name, START, 1, 1);
    }
    assert_true(monitor_day_bytes(day) <= 8000);
    assert_true(monitor_day_read(day, slice_of("topic-00"), START, 1, &point));
    assert_false(monitor_day_read(day, slice_of("topic-99"), START, 1, &point));
    monitor_day_sweep(day, START + 2 * DAY);
    assert_int_equal(monitor_day_bytes(day), 0);
    monitor_day_free(day);
}

CLAIM(a_file_brings_an_hour_back_and_a_damaged_one_nothing)
{
    struct monitor_day *day = monitor_day_new(NULL, NULL, ALL_BYTES),
                       *next = monitor_day_new(NULL, NULL, ALL_BYTES);
    struct buffer file;
    buffer_init(&file, ALL_BYTES);
    for (int64_t minute = START; minute < START + HOUR; minute++)
        add(day, "mail", minute, 3, 2);
    monitor_day_emit(day, START / HOUR, &file);
    file.at[file.len / 2] ^= 1;
    monitor_day_take(next, buffer_slice(&file), START + HOUR);
    assert_int_equal(monitor_day_bytes(next), 0);
    file.at[file.len / 2] ^= 1;
    for (size_t cut = 0; cut < file.len; cut += 7)
        monitor_day_take(next, slice_make(file.at, cut), START + HOUR);
    assert_int_equal(monitor_day_bytes(next), 0);
    monitor_day_take(next, buffer_slice(&file), START + 2 * DAY); /* of before yesterday */
    assert_int_equal(monitor_day_bytes(next), 0);
    monitor_day_take(next, buffer_slice(&file), START + HOUR);
    assert_int_equal(lround(pushed_at(next, "mail", START + 30)), 3);
    assert_int_equal(lround(pushed_at(next, "", START + 59)), 3);
    buffer_fini(&file);
    monitor_day_free(day);
    monitor_day_free(next);
}

CLAIMS_MAIN(NULL, NULL)
