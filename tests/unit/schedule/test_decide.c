#include "base/timestamp.h"
#include "schedule/decide.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <string.h>

#define MINUTE_MS 60000LL
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define NOON_MS INT64_C(1772366400000) /* 2026-03-01T12:00:00Z */

static struct spec hourly(void)
{
    struct spec spec = {.table = {.every_ms = HOUR_MS, .gap = GAP_AFTER, .fold = FOLD_FIRST},
                        .missed = MISSED_LAST,
                        .overlap = OVERLAP_ALLOW,
                        .catch_up_ms = DAY_MS,
                        .grace_ms = MINUTE_MS};
    return spec;
}

static struct schedule schedule_of(const struct spec *spec)
{
    return (struct schedule){.name = slice_of("report"), .spec = spec};
}

static struct decision decide(const struct spec *spec, const struct state *held, int64_t now_ms)
{
    static struct decision decision;
    struct schedule schedule = schedule_of(spec);
    schedule_decide(&schedule, held, now_ms, DECIDE_FIRES_MAX, &decision);
    return decision;
}

CLAIM(a_fire_that_may_overlap_is_pushed_shortly_before_its_time)
{
    struct spec spec = hourly();
    struct state held = {.after_ms = NOON_MS};
    struct decision decision = decide(&spec, &held, NOON_MS + 10 * MINUTE_MS);
    assert_int_equal(decision.fire_count, 0);
    assert_int_equal(decision.wake_ms, NOON_MS + HOUR_MS - DECIDE_LEAD_MS);
    assert_int_equal(decision.state.next_ms, NOON_MS + HOUR_MS);
    decision = decide(&spec, &held, decision.wake_ms);
    assert_int_equal(decision.fire_count, 1);
    assert_int_equal(decision.fires[0].at_ms, NOON_MS + HOUR_MS);
    assert_int_equal(decision.fires[0].due_ms, NOON_MS + HOUR_MS);
    assert_int_equal(decision.fires[0].number, 1);
    assert_int_equal(decision.fires[0].once_for_ms, 2 * HOUR_MS);
    assert_int_equal(decision.state.after_ms, NOON_MS + HOUR_MS);
    assert_int_equal(decision.wake_ms, NOON_MS + 2 * HOUR_MS - DECIDE_LEAD_MS);
}

CLAIM(a_fire_that_may_not_overlap_is_decided_at_its_time)
{
    struct spec spec = hourly();
    struct state held = {.after_ms = NOON_MS};
    spec.overlap = OVERLAP_SKIP;
    struct decision decision = decide(&spec, &held, NOON_MS + HOUR_MS - 1);
    assert_int_equal(decision.fire_count, 0);
    assert_int_equal(decision.wake_ms, NOON_MS + HOUR_MS);
    assert_int_equal(decide(&spec, &held, NOON_MS + HOUR_MS).fire_count, 1);
}

CLAIM(missed_fires_follow_the_policy)
{
    static const struct {
        const char *sentence;
        enum spec_missed missed;
        int64_t late_ms, catch_up_ms; /* after 13:00, with fires missed since */
        uint64_t fired, missed_count;
        int64_t first_ms; /* after noon */
    } rows[] = {
        {"within grace nothing is missed", MISSED_NONE, MINUTE_MS, DAY_MS, 1, 0, HOUR_MS},
        {"none: all are skipped", MISSED_NONE, MINUTE_MS + 1, DAY_MS, 0, 1, 0},
        {"last: the only one runs", MISSED_LAST, 30 * MINUTE_MS, DAY_MS, 1, 0, HOUR_MS},
        {"last: of twelve the newest runs", MISSED_LAST, 11 * HOUR_MS + 5 * MINUTE_MS, DAY_MS, 1,
         11, 12 * HOUR_MS},
        {"last: the newest runs beside one that is on time", MISSED_LAST, 2 * HOUR_MS, DAY_MS, 2, 1,
         2 * HOUR_MS},
        {"last: not beyond catch_up", MISSED_LAST, 30 * MINUTE_MS, 10 * MINUTE_MS, 0, 1, 0},
        {"all: each runs", MISSED_ALL, 3 * HOUR_MS + 5 * MINUTE_MS, DAY_MS, 4, 0, HOUR_MS},
        {"all: only within catch_up", MISSED_ALL, 3 * HOUR_MS + 5 * MINUTE_MS, 90 * MINUTE_MS, 2, 2,
         3 * HOUR_MS},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct spec spec = hourly();
        struct state held = {.after_ms = NOON_MS};
        spec.missed = rows[i].missed;
        spec.catch_up_ms = rows[i].catch_up_ms;
        struct decision decision = decide(&spec, &held, NOON_MS + HOUR_MS + rows[i].late_ms);
        if (decision.fire_count != rows[i].fired ||
            decision.skipped[SKIP_MISSED] != rows[i].missed_count)
            fail_msg("%s: %zu fired, %llu missed", rows[i].sentence, decision.fire_count,
                     (unsigned long long)decision.skipped[SKIP_MISSED]);
        if (rows[i].first_ms)
            CASE_HOLDS(rows[i].sentence, decision.fires[0].at_ms == NOON_MS + rows[i].first_ms);
        CASE_HOLDS(rows[i].sentence, decision.state.fired == rows[i].fired);
        CASE_HOLDS(rows[i].sentence, decision.state.skipped[SKIP_MISSED] == rows[i].missed_count);
        CASE_HOLDS(rows[i].sentence, decision.wake_ms > NOON_MS + HOUR_MS + rows[i].late_ms);
    }
}

CLAIM(fires_that_are_caught_up_are_one_second_apart)
{
    struct spec spec = hourly();
    struct state held = {.after_ms = NOON_MS};
    int64_t now_ms = NOON_MS + 4 * HOUR_MS + 5 * MINUTE_MS;
    spec.missed = MISSED_ALL;
    struct decision decision = decide(&spec, &held, now_ms);
    assert_int_equal(decision.fire_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(decision.fires[i].at_ms, NOON_MS + (int64_t)(i + 1) * HOUR_MS);
        assert_int_equal(decision.fires[i].due_ms, now_ms + (int64_t)i * 1000);
    }
}

CLAIM(the_newest_thousand_missed_fires_run)
{
    struct spec spec = hourly();
    struct state held = {.after_ms = NOON_MS};
    uint64_t fired = 0, missed = 0;
    int64_t first_ms = 0, last_ms = 0, due_ms = 0,
            now_ms = NOON_MS + 30000 * 1000 + MINUTE_MS + 500;
    spec.table.every_ms = 1000;
    spec.missed = MISSED_ALL;
    for (int i = 0; i < 1000; i++) {
        struct decision decision = decide(&spec, &held, now_ms);
        for (size_t k = 0; k < decision.fire_count; k++) {
            if (now_ms - decision.fires[k].at_ms <= MINUTE_MS)
                continue;
            first_ms = first_ms ? first_ms : decision.fires[k].at_ms;
            last_ms = decision.fires[k].at_ms;
            assert_true(decision.fires[k].due_ms > due_ms);
            due_ms = decision.fires[k].due_ms;
            fired++;
        }
        missed += decision.skipped[SKIP_MISSED];
        held = decision.state;
        if (decision.wake_ms > now_ms)
            break;
    }
    assert_int_equal(fired, 1000);
    assert_int_equal(missed, 29000);
    assert_int_equal(last_ms, NOON_MS + 30000 * 1000);
    assert_int_equal(first_ms, NOON_MS + 29001 * 1000);
}

CLAIM(paused_fires_are_never_caught_up)
{
    struct spec spec = hourly();
    struct state held = {.after_ms = NOON_MS, .paused = true};
    spec.missed = MISSED_ALL;
    struct decision decision = decide(&spec, &held, NOON_MS + 5 * HOUR_MS + 5 * MINUTE_MS);
    assert_int_equal(decision.fire_count, 0);
    assert_int_equal(decision.skipped[SKIP_PAUSED], 5);
    assert_int_equal(decision.state.after_ms, NOON_MS + 5 * HOUR_MS);
    /* A pause for a time, which ended while no server ran. */
    held.paused_until_ms = NOON_MS + 2 * HOUR_MS + 1;
    decision = decide(&spec, &held, NOON_MS + 5 * HOUR_MS + 5 * MINUTE_MS);
    assert_int_equal(decision.skipped[SKIP_PAUSED], 2);
    assert_int_equal(decision.fire_count, 3);
    decision = decide(&spec, &decision.state, NOON_MS + 5 * HOUR_MS + 6 * MINUTE_MS);
    assert_false(decision.state.paused);
    /* A plan that is paused. */
    spec.paused = true;
    held.paused = false;
    assert_int_equal(decide(&spec, &held, NOON_MS + HOUR_MS).skipped[SKIP_PAUSED], 1);
}

CLAIM(a_refused_fire_is_retried_until_grace_ends)
{
    struct spec spec = hourly();
    struct schedule schedule = schedule_of(&spec);
    struct state held = {.after_ms = NOON_MS};
    static struct decision decision;
    int64_t now_ms = NOON_MS + HOUR_MS, waits[10];
    size_t tries = 0;
    do {
        decision = decide(&spec, &held, now_ms);
        if (!decision.fire_count)
            break;
        schedule_decide(&schedule, &held, now_ms, 0, &decision);
        assert_int_equal(decision.fire_count, 0);
        schedule_retry(&decision, &held, NOON_MS + HOUR_MS, now_ms);
        waits[tries++] = decision.wake_ms - now_ms;
        held = decision.state;
        assert_int_equal(held.after_ms, NOON_MS);
        now_ms = decision.wake_ms;
    } while (tries < 10);
    assert_int_equal(tries, 6); /* at 0, 1, 3, 7, 15, 31 s; the next one at 61 s is late */
    assert_int_equal(waits[0], 1000);
    assert_int_equal(waits[1], 2000);
    assert_int_equal(waits[5], 30000);
    assert_int_equal(decision.skipped[SKIP_REFUSED], 1);
    assert_int_equal(decision.state.skipped[SKIP_REFUSED], 1);
    assert_int_equal(decision.state.retry_ms, 0);
    assert_int_equal(decision.state.after_ms, NOON_MS + HOUR_MS);
}

CLAIM(count_ends_the_schedule)
{
    struct spec spec = hourly();
    struct state held = {.after_ms = NOON_MS};
    spec.count = 2;
    spec.missed = MISSED_ALL;
    struct decision decision = decide(&spec, &held, NOON_MS + 5 * HOUR_MS);
    assert_int_equal(decision.fire_count, 2);
    assert_int_equal(decision.state.next_ms, 0);
    assert_true(decision.wake_ms > NOON_MS + 365 * DAY_MS);
    decision = decide(&spec, &decision.state, NOON_MS + 9 * HOUR_MS);
    assert_int_equal(decision.fire_count, 0);
    state_skip(&decision.state, NOON_MS + 2 * HOUR_MS,
               SKIP_OVERLAP); /* it did not fire after all */
    assert_int_equal(decision.state.fired, 1);
    assert_int_equal(decision.state.skipped[SKIP_OVERLAP], 1);
}

CLAIM(a_far_fire_is_planned_in_steps)
{
    struct spec spec = hourly();
    struct state held = {.after_ms = NOON_MS};
    spec.table.start_ms = NOON_MS + 20 * SPEC_YEAR_MS;
    struct decision decision = decide(&spec, &held, NOON_MS);
    assert_int_equal(decision.state.next_ms, NOON_MS + 20 * SPEC_YEAR_MS);
    assert_int_equal(decision.wake_ms, NOON_MS + 9 * SPEC_YEAR_MS);
}

CLAIM(a_limit_of_fires_continues_immediately)
{
    struct spec spec = hourly();
    struct schedule schedule = schedule_of(&spec);
    struct state held = {.after_ms = NOON_MS};
    static struct decision decision;
    spec.missed = MISSED_ALL;
    schedule_decide(&schedule, &held, NOON_MS + 9 * HOUR_MS, 3, &decision);
    assert_int_equal(decision.fire_count, 3);
    assert_int_equal(decision.state.after_ms, NOON_MS + 3 * HOUR_MS);
    assert_true(decision.wake_ms < NOON_MS + 9 * HOUR_MS);
}

CLAIM(begins_now_and_keeps_the_totals)
{
    struct spec spec = hourly();
    struct schedule schedule = schedule_of(&spec);
    struct state held = {.after_ms = 5, .fired = 7, .number = 9};
    int64_t wake_ms;
    schedule_begin(&schedule, &held, NOON_MS + 5, &wake_ms);
    assert_int_equal(held.after_ms, NOON_MS + 5);
    assert_int_equal(held.next_ms, NOON_MS + HOUR_MS);
    assert_int_equal(wake_ms, NOON_MS + HOUR_MS - DECIDE_LEAD_MS);
    assert_int_equal(held.fired, 7);
}

CLAIM(the_first_fire_after_the_end_is_skipped_once)
{
    for (int by_count = 0; by_count < 2; by_count++) {
        struct spec spec = hourly();
        struct state held = {.after_ms = NOON_MS};
        spec.count = by_count ? 1 : 0;
        spec.table.end_ms = by_count ? 0 : NOON_MS + HOUR_MS;
        struct decision decision = decide(&spec, &held, NOON_MS + HOUR_MS);
        assert_int_equal(decision.fire_count, 1);
        assert_int_equal(decision.state.next_ms, 0);
        assert_int_equal(decision.wake_ms, NOON_MS + 2 * HOUR_MS);
        decision = decide(&spec, &decision.state, decision.wake_ms - 1);
        assert_int_equal(decision.skipped[SKIP_ENDED], 0);
        for (int i = 0; i < 3; i++) {
            decision = decide(&spec, &decision.state, NOON_MS + (2 + i) * HOUR_MS);
            assert_int_equal(decision.fire_count, 0);
            assert_int_equal(decision.skipped[SKIP_ENDED], i == 0);
            assert_int_equal(decision.state.skipped[SKIP_ENDED], 1);
            assert_true(decision.wake_ms > NOON_MS + DAY_MS);
        }
        assert_int_equal(decision.state.last[1].at_ms, NOON_MS + 2 * HOUR_MS);
        assert_int_equal(decision.state.last[1].reason, SKIP_ENDED);
        /* A changed schedule may end once more. */
        int64_t wake_ms;
        struct schedule schedule = schedule_of(&spec);
        spec.table.end_ms = spec.table.end_ms ? NOON_MS + 9 * HOUR_MS : 0;
        decision.state.counted = 0;
        schedule_begin(&schedule, &decision.state, NOON_MS + 8 * HOUR_MS, &wake_ms);
        decision = decide(&spec, &decision.state, NOON_MS + 9 * HOUR_MS);
        assert_int_equal(decision.fire_count, 1);
        decision = decide(&spec, &decision.state, NOON_MS + 10 * HOUR_MS);
        assert_int_equal(decision.state.skipped[SKIP_ENDED], 2);
    }
}

CLAIM(fires_that_are_not_due_are_taken_back)
{
    struct spec spec = hourly();
    struct schedule schedule = schedule_of(&spec);
    struct state held = {.after_ms = NOON_MS};
    int64_t taken_ms[STATE_LAST];
    spec.table.every_ms = 1000;
    held = decide(&spec, &held, NOON_MS + 3000).state; /* until 5 s after noon */
    assert_int_equal(held.fired, 5);
    struct state after = held;
    assert_int_equal(schedule_take_back(&schedule, &after, NOON_MS + 3500, taken_ms), 2);
    assert_int_equal(taken_ms[0], NOON_MS + 5000);
    assert_int_equal(taken_ms[1], NOON_MS + 4000);
    assert_int_equal(after.fired, 3);
    assert_int_equal(after.number, 3);
    assert_int_equal(after.counted, 3);
    assert_int_equal(after.last_count, 3);
    assert_int_equal(after.after_ms, NOON_MS + 3500);
    assert_int_equal(decide(&spec, &after, NOON_MS + 3500).fires[0].at_ms, NOON_MS + 4000);
    after = held;
    assert_int_equal(schedule_take_back(&schedule, &after, NOON_MS + 5000, taken_ms), 0);
    assert_memory_equal(&after, &held, sizeof held);
}

CLAIM(whatever_the_times_of_the_steps_each_fire_is_decided_once)
{
    struct random random = seed_random("each_fire_is_decided_once");
    for (int round = 0; round < 200; round++) {
        struct spec spec = hourly();
        struct state held = {.after_ms = NOON_MS};
        int64_t now_ms = NOON_MS, expected_ms = NOON_MS + HOUR_MS;
        spec.missed = (enum spec_missed)(1 + random_next(&random) % 3);
        spec.overlap = random_next(&random) % 2 ? OVERLAP_ALLOW : OVERLAP_SKIP;
        spec.jitter_ms = (int64_t)(random_next(&random) % (30 * MINUTE_MS));
        uint64_t seen = 0;
        while (now_ms < NOON_MS + 60 * HOUR_MS) {
            struct decision decision = decide(&spec, &held, now_ms);
            for (size_t i = 0; i < decision.fire_count; i++)
                assert_true(decision.fires[i].due_ms >= decision.fires[i].at_ms);
            seen += decision.fire_count;
            for (int i = 1; i < SKIP_REASONS; i++)
                seen += decision.skipped[i];
            assert_true(decision.state.after_ms >= held.after_ms);
            held = decision.state;
            assert_true(decision.wake_ms > now_ms - 1 || decision.fire_count == DECIDE_FIRES_MAX);
            now_ms = decision.wake_ms + (int64_t)(random_next(&random) % (4 * HOUR_MS)) *
                                            (int64_t)(random_next(&random) % 3 == 0);
        }
        assert_int_equal(seen, (uint64_t)((held.after_ms - expected_ms) / HOUR_MS) + 1);
    }
}

CLAIM(a_state_is_read_as_it_was_written)
{
    struct state held = {.after_ms = NOON_MS,
                         .next_ms = NOON_MS + 1,
                         .number = 5,
                         .fired = 4,
                         .paused = true,
                         .paced_ms = 9,
                         .retry_ms = 1000};
    struct state read = {0};
    struct buffer text;
    struct json_value object;
    for (int i = 0; i < 15; i++)
        state_add(&held, NOON_MS + i, i % 2 ? SKIP_MISSED : 0);
    assert_int_equal(held.last_count, STATE_LAST);
    assert_int_equal(held.last[0].at_ms, NOON_MS + 5);
    buffer_init(&text, 4096);
    state_write(&text, &held);
    assert_true(json_check(buffer_slice(&text), &object, NULL));
    assert_true(state_read(object, &read));
    assert_memory_equal(&held, &read, sizeof held);
    buffer_fini(&text);
    static const char *const bad[] = {"[]", "{}", "{\"last\":[[1]]}", "{\"last\":[[1,9]]}",
                                      "{\"last\":[],\"after\":\"x\"}"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_true(json_check(slice_of(bad[i]), &object, NULL));
        assert_false(state_read(object, &read));
    }
}

CLAIMS_MAIN(NULL, NULL)
