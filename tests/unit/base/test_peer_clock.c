#include "base/peer_clock.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

enum { MS = 1000 };

static const int64_t second_us = 1000000;

CLAIM(the_first_answer_sets_the_clock)
{
    struct peer_clock clock = {0};
    int64_t apart_ms = 77;
    assert_true(peer_clock_observe(&clock, 5000, 3, 1000, 1400, &apart_ms));
    assert_true(clock.known && clock.adjust_ms == 3);
    assert_int_equal(apart_ms, 77);
    assert_int_equal(clock.offset_min_us, 5000 * MS - 1400);
    assert_int_equal(clock.offset_max_us, 5001 * MS - 1000);
}

CLAIM(an_unset_clock_has_no_due_time)
{
    struct peer_clock clock = {0};
    int64_t apart_ms;
    assert_true(peer_clock_observe(&clock, 5000000, 0, 1000, 1000, &apart_ms));
    assert_int_equal(peer_clock_to_inner(&clock, INT64_MAX), INT64_MAX);
}

/*
 * Two clocks that run alike, read at random moments of random journeys: what is known is true, the
 * window has the true time in it, and is soon no wider than a fast journey.
 */
CLAIM(a_window_is_true_and_narrow)
{
    struct random random = seed_random("a_window_is_true_and_narrow");
    for (int round = 0; round < 2000; round++) {
        struct peer_clock clock = {0};
        int64_t offset_us = (int64_t)random_below(&random, 1000000000) - 500000000, apart_ms;
        for (int64_t i = 0; i < 60; i++) {
            int64_t sent_us = 1000 * second_us + i * 100000 + (int64_t)random_below(&random, 5000);
            int64_t out_us = 50 + (int64_t)random_below(&random, i % 3 ? 3000 : 100);
            int64_t back_us = 50 + (int64_t)random_below(&random, i % 3 ? 9000 : 100);
            int64_t read_ms = (sent_us + out_us + offset_us) / MS, earliest_ms, latest_ms;
            assert_true(peer_clock_observe(&clock, read_ms, 0, sent_us, sent_us + out_us + back_us,
                                           &apart_ms));
            int64_t later_us = sent_us + 40000;
            peer_clock_window(&clock, later_us, &earliest_ms, &latest_ms);
            int64_t true_ms = (later_us + offset_us) / MS;
            assert_true(earliest_ms <= true_ms && true_ms <= latest_ms);
            if (i > 40)
                assert_in_range(latest_ms - earliest_ms, 0, 3);
            int64_t wake_us = peer_clock_to_inner(&clock, true_ms + 1000);
            peer_clock_window(&clock, wake_us, &earliest_ms, &latest_ms);
            assert_true(latest_ms >= true_ms + 1000); /* who wakes then finds it due */
        }
    }
}

CLAIM(a_disagreeing_clock_is_reported_and_not_followed)
{
    static const struct {
        int64_t by_ms;
        bool agrees;
        const char *sentence;
    } rows[] = {
        {0, true, "the same"},
        {2, true, "a little ahead, which calls are held back from"},
        {-1, true, "a little behind"},
        {15, false, "15 ms ahead"},
        {-5, false, "5 ms behind"},
        {450, false, "nearly half a second ahead"},
        {-450, false, "nearly half a second behind"},
        {3600000, false, "an hour ahead"},
        {-3600000, false, "an hour behind"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct peer_clock clock = {0};
        int64_t apart_ms = 0;
        assert_true(peer_clock_observe(&clock, 50000, 0, second_us, second_us + 200, &apart_ms));
        struct peer_clock before = clock;
        bool agrees = peer_clock_observe(&clock, 51000 + rows[i].by_ms, 0, 2 * second_us,
                                         2 * second_us + 200, &apart_ms);
        CASE_HOLDS(rows[i].sentence, agrees == rows[i].agrees);
        CASE_HOLDS(rows[i].sentence, agrees || (clock.offset_min_us == before.offset_min_us &&
                                                clock.offset_max_us == before.offset_max_us));
        if (agrees)
            continue;
        CASE_HOLDS(rows[i].sentence, apart_ms >= rows[i].by_ms && apart_ms <= rows[i].by_ms + 3);
        /* Set back by that much, it is not ahead of how it ran, and taken over. */
        CASE_HOLDS(rows[i].sentence,
                   peer_clock_observe(&clock, 52000 + rows[i].by_ms - apart_ms, -apart_ms,
                                      3 * second_us, 3 * second_us + 200, &apart_ms));
        int64_t earliest_ms, latest_ms;
        peer_clock_window(&clock, 4 * second_us, &earliest_ms, &latest_ms);
        CASE_HOLDS(rows[i].sentence, latest_ms <= 53001 && earliest_ms >= 52995);
    }
}

/* Steps of a few milliseconds, one after the other, do not add up. */
CLAIM(little_steps_do_not_add_up)
{
    struct peer_clock clock = {0};
    int64_t apart_ms = 0, by_ms = 0;
    assert_true(peer_clock_observe(&clock, 50000, 0, 0, 200, &apart_ms));
    for (int64_t i = 1; by_ms < 100; i++, by_ms++) {
        int64_t at_us = i * 10000;
        if (!peer_clock_observe(&clock, 50000 + i * 10 + by_ms, 0, at_us, at_us + 200, &apart_ms))
            break;
        int64_t earliest_ms, latest_ms;
        peer_clock_window(&clock, at_us, &earliest_ms, &latest_ms);
        assert_true(latest_ms <= 50000 + i * 10 + 1);
    }
    assert_in_range(by_ms, 1, 3);
}

/* Another server put the clock right, and not quite to where it was for us. */
CLAIM(another_servers_setting_back_is_taken_over)
{
    struct peer_clock clock = {0};
    int64_t apart_ms = 0, earliest_ms, latest_ms;
    assert_true(peer_clock_observe(&clock, 50000, 7, 0, 200, &apart_ms));
    struct peer_clock other = clock;
    assert_false(peer_clock_observe(&clock, 51000 - 40, 7, second_us, second_us + 200, &apart_ms));
    assert_true(peer_clock_observe(&other, 51000 - 40, 6, second_us, second_us + 200, &apart_ms));
    peer_clock_window(&other, 2 * second_us, &earliest_ms, &latest_ms);
    assert_in_range(latest_ms, 52000 - 40, 52001 - 40);
    /* But not its setting forward, and no step in its guise. */
    assert_false(
        peer_clock_observe(&other, 53000, 8, 3 * second_us, 3 * second_us + 200, &apart_ms));
    assert_false(
        peer_clock_observe(&other, 52000, 8, 3 * second_us, 3 * second_us + 200, &apart_ms));
}

/* Two servers whose own clocks disagree: the later one wins, and that is all. */
CLAIM(two_servers_that_disagree_come_to_rest)
{
    struct peer_clock slow = {0}, good = {0};
    int64_t apart_ms, adjust_ms = 0, changes = 0;
    assert_true(peer_clock_observe(&slow, 50000, 0, 0, 200, &apart_ms));
    assert_true(peer_clock_observe(&good, 50000, 0, 0, 200, &apart_ms));
    for (int64_t i = 1; i < 100; i++) {
        int64_t at_us = i * second_us, raw_ms = 50000 + i * 1000;
        /* It lost 300 ms. */
        while (!peer_clock_observe(&slow, raw_ms + adjust_ms, adjust_ms, at_us - 300000,
                                   at_us - 299800, &apart_ms) &&
               changes++ < 100)
            adjust_ms -= apart_ms;
        while (!peer_clock_observe(&good, raw_ms + adjust_ms, adjust_ms, at_us, at_us + 200,
                                   &apart_ms) &&
               changes++ < 100)
            adjust_ms -= apart_ms;
    }
    assert_in_range(changes, 1, 4);
    assert_in_range(-adjust_ms, 298, 306);
}

/* The server that lost time sets the clock back, the other sets it forward: the first one gives in. */
CLAIM(servers_that_disagree_by_seconds_come_to_rest)
{
    struct peer_clock slow = {0}, good = {0};
    int64_t apart_ms, adjust_ms = 0, changes = 0;
    assert_true(peer_clock_observe(&slow, 50000, 0, 0, 200, &apart_ms));
    assert_true(peer_clock_observe(&good, 50000, 0, 0, 200, &apart_ms));
    for (int64_t i = 100; i < 400; i++) {
        int64_t at_us = i * 300000, raw_ms = 50000 + i * 300;
        /* It lost 7 s. */
        while (!peer_clock_observe(&slow, raw_ms + adjust_ms, adjust_ms, at_us - 7000000,
                                   at_us - 6999800, &apart_ms) &&
               changes++ < 100)
            adjust_ms -= apart_ms;
        while (!peer_clock_observe(&good, raw_ms + adjust_ms, adjust_ms, at_us, at_us + 200,
                                   &apart_ms) &&
               changes++ < 100)
            adjust_ms -= apart_ms;
    }
    assert_in_range(changes, 1, 10);
    assert_in_range(adjust_ms + 10, 0, 20); /* within the drift */
}

/* It started on a clock that had just been set, which another server corrects. */
CLAIM(a_new_server_adopts_a_setting_back)
{
    struct peer_clock fresh = {0}, known = {0};
    int64_t apart_ms;
    assert_true(peer_clock_observe(&known, 50000, 0, 0, 200, &apart_ms));
    assert_true(
        peer_clock_observe(&fresh, 3691000, 0, 41 * second_us, 41 * second_us + 200, &apart_ms));
    assert_false(
        peer_clock_observe(&known, 3691000, 0, 41 * second_us, 41 * second_us + 200, &apart_ms));
    assert_true(peer_clock_observe(&fresh, 92000, -3600000, 42 * second_us, 42 * second_us + 200,
                                   &apart_ms));
    /* But not a later one, and none forward. */
    assert_false(
        peer_clock_observe(&fresh, 3694000, 0, 44 * second_us, 44 * second_us + 200, &apart_ms));
    assert_false(peer_clock_observe(&fresh, 85000, -3660000, 95 * second_us, 95 * second_us + 200,
                                    &apart_ms));
}

/* The clock was set forward by 300 ms, which another server undid, and then back by 200 ms. */
CLAIM(a_new_server_adopts_no_clock_that_was_set_itself)
{
    struct peer_clock fresh = {0};
    int64_t apart_ms;
    assert_true(peer_clock_observe(&fresh, 50000, 0, 0, 200, &apart_ms));
    assert_false(peer_clock_observe(&fresh, 50800, -300, second_us, second_us + 200, &apart_ms));
    assert_in_range(apart_ms, -201, -198);
    assert_true(
        peer_clock_observe(&fresh, 52000, -100, 2 * second_us, 2 * second_us + 200, &apart_ms));
}

/* A server that stood still for five seconds has read its clock before or after that. */
CLAIM(a_delayed_answer_is_not_a_clock_jump)
{
    int64_t apart_ms;
    for (int64_t read_ms = 0; read_ms <= 5000; read_ms += 5000) {
        struct peer_clock first = {0}, later = {0};
        assert_true(peer_clock_observe(&first, 50000 + read_ms, 0, 1000000, 6000000, &apart_ms));
        assert_true(peer_clock_observe(&first, 60000, 0, 11000000, 11000200, &apart_ms));
        assert_in_range(peer_clock_to_inner(&first, 60000), 10998900, 11001000);

        assert_true(peer_clock_observe(&later, 50000, 0, 1000000, 1000200, &apart_ms));
        assert_true(peer_clock_observe(&later, 60000 + read_ms, 0, 11000000, 16000000, &apart_ms));
        /* They may have drifted meanwhile, and the answer narrows the range only a little. */
        assert_in_range(peer_clock_to_inner(&later, 60000), 10997 * MS, 11002 * MS);
    }
}

CLAIM(drift_is_followed_for_ever)
{
    for (int direction = -1; direction <= 1; direction += 2) {
        struct peer_clock clock = {0};
        int64_t apart_ms, shard_ms = 0;
        /* A day of answers a second apart; a hundredth of a percent is much for a clock. */
        for (int64_t second = 0; second < 86400; second++) {
            int64_t inner_ms = second * 1000;
            shard_ms = 90000 + inner_ms + direction * inner_ms / 10000;
            assert_true(peer_clock_observe(&clock, shard_ms, 0, inner_ms * MS, inner_ms * MS + 200,
                                           &apart_ms));
            int64_t late_us = peer_clock_to_inner(&clock, shard_ms) - inner_ms * MS;
            assert_true(late_us >= -3 * MS && late_us <= 3 * MS);
        }
    }
}

/* It is not slewed by more than that: the window continues at the clock's rate, except for the drift. */
CLAIM(a_clock_that_is_slewed_is_not_followed)
{
    for (int64_t direction = -1; direction <= 1; direction += 2) {
        struct peer_clock clock = {0};
        int64_t apart_ms, earliest_ms, latest_ms, adjust_ms = 0;
        for (int64_t i = 0; i < 1000; i++) { /* 10 s */
            int64_t at_us = i * 10000, raw_ms = 90000 + i * 10 + direction * i * 10 / 12;
            while (!peer_clock_observe(&clock, raw_ms + adjust_ms, adjust_ms, at_us, at_us + 200,
                                       &apart_ms))
                adjust_ms -= apart_ms;
            peer_clock_window(&clock, at_us, &earliest_ms, &latest_ms);
            assert_true(latest_ms <= 90000 + i * 10 + 4);
        }
        if (direction > 0)
            assert_true(latest_ms >= 90000 + 9990 - 400);
    }
}

CLAIMS_MAIN(NULL, NULL)
