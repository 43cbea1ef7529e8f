#include "deliver/breaker.h"
#include "deliver/rate.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

enum { NOW = 1000000 };

static struct random chance = {.state = 7};

static bool notify(struct breaker *breaker, bool is_ailing, int64_t now_ms)
{
    return breaker_report(breaker, false, is_ailing, now_ms, &chance);
}

static void open_breaker(struct breaker *breaker)
{
    *breaker = (struct breaker){0};
    for (int i = 0; i < BREAKER_RUN; i++)
        notify(breaker, true, NOW);
    assert_true(breaker->is_open);
}

CLAIM(it_opens_after_a_run_and_not_before)
{
    struct breaker breaker = {0};
    for (int i = 0; i < BREAKER_RUN - 1; i++)
        assert_false(notify(&breaker, true, NOW));
    assert_int_equal(breaker_ask(&breaker, NOW), BREAKER_PASS);
    assert_true(notify(&breaker, true, NOW));
    assert_int_equal(breaker_ask(&breaker, NOW), BREAKER_WAIT);
}

CLAIM(a_good_one_ends_the_run)
{
    struct breaker breaker = {0};
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BREAKER_RUN - 1; i++)
            notify(&breaker, true, NOW);
        for (int i = 0; i < BREAKER_RUN * 3; i++)
            assert_false(notify(&breaker, false, NOW));
    }
    assert_false(breaker.is_open);
}

CLAIM(a_high_share_opens_it_without_a_run)
{
    struct breaker breaker = {0};
    int reports = 0;
    while (!breaker.is_open && ++reports < 1000)
        notify(&breaker, reports % 4 != 0, NOW);
    assert_in_range(reports, BREAKER_SHARE_SEEN, 100);
}

CLAIM(a_low_share_never_opens_it)
{
    struct breaker breaker = {0};
    for (int i = 0; i < 10000; i++)
        assert_false(notify(&breaker, i % 4 == 0, NOW));
}

CLAIM(one_probe_passes_after_the_pause)
{
    struct breaker breaker;
    open_breaker(&breaker);
    int64_t next_ms = breaker_next_ms(&breaker, NOW);
    assert_in_range(next_ms - NOW, BREAKER_PAUSE_MS * 4 / 5, BREAKER_PAUSE_MS * 6 / 5);
    assert_int_equal(breaker_ask(&breaker, next_ms - 1), BREAKER_WAIT);
    assert_int_equal(breaker_ask(&breaker, next_ms), BREAKER_PROBE);
    breaker_probe(&breaker);
    assert_int_equal(breaker_ask(&breaker, next_ms), BREAKER_WAIT);
    assert_true(breaker_next_ms(&breaker, next_ms) == INT64_MAX);
}

CLAIM(the_probe_closes_it)
{
    struct breaker breaker;
    open_breaker(&breaker);
    int64_t now_ms = breaker_next_ms(&breaker, NOW);
    breaker_probe(&breaker);
    assert_true(breaker_report(&breaker, true, false, now_ms, &chance));
    assert_int_equal(breaker_ask(&breaker, now_ms), BREAKER_PASS);
    for (int i = 0; i < BREAKER_RUN - 1; i++) /* it starts again */
        assert_false(notify(&breaker, true, now_ms));
}

CLAIM(the_pause_doubles_up_to_a_minute)
{
    struct breaker breaker;
    int64_t wanted_ms = BREAKER_PAUSE_MS;
    open_breaker(&breaker);
    for (int i = 0; i < 12; i++) {
        int64_t now_ms = breaker.wait_until_ms;
        assert_int_equal(breaker_ask(&breaker, now_ms), BREAKER_PROBE);
        breaker_probe(&breaker);
        assert_false(breaker_report(&breaker, true, true, now_ms, &chance));
        wanted_ms = wanted_ms * 2 < BREAKER_PAUSE_MS_MAX ? wanted_ms * 2 : BREAKER_PAUSE_MS_MAX;
        assert_in_range(breaker.wait_until_ms - now_ms, wanted_ms * 4 / 5, wanted_ms * 6 / 5);
    }
}

CLAIM(results_from_before_it_opened_change_nothing)
{
    struct breaker breaker;
    open_breaker(&breaker);
    struct breaker before = breaker;
    for (int i = 0; i < 50; i++)
        assert_false(notify(&breaker, i % 2 == 0, NOW));
    assert_memory_equal(&before, &breaker, sizeof before);
}

CLAIM(a_rest_is_kept_open_or_closed)
{
    struct breaker breaker = {0};
    breaker_rest(&breaker, NOW + 5000);
    assert_int_equal(breaker_ask(&breaker, NOW + 4999), BREAKER_WAIT);
    assert_int_equal(breaker_ask(&breaker, NOW + 5000), BREAKER_PASS);
    breaker_rest(&breaker, NOW); /* a shorter one does not shorten it */
    assert_true(breaker_next_ms(&breaker, NOW) == NOW + 5000);
}

CLAIM(a_probe_that_never_left_leaves_it_open)
{
    struct breaker breaker;
    open_breaker(&breaker);
    int64_t now_ms = breaker_next_ms(&breaker, NOW);
    breaker_probe(&breaker);
    breaker_void_probe(&breaker, now_ms);
    assert_int_equal(breaker_ask(&breaker, now_ms), BREAKER_WAIT);
    assert_int_equal(breaker_ask(&breaker, now_ms + BREAKER_PAUSE_MS), BREAKER_PROBE);
}

CLAIM(a_rest_outlasts_the_probe_that_closes_it)
{
    struct breaker breaker;
    open_breaker(&breaker);
    int64_t now_ms = breaker_next_ms(&breaker, NOW);
    breaker_probe(&breaker);
    breaker_rest(&breaker, now_ms + 5000); /* its answer asks for peace */
    assert_true(breaker_report(&breaker, true, false, now_ms, &chance));
    assert_int_equal(breaker_ask(&breaker, now_ms + 4999), BREAKER_WAIT);
    assert_int_equal(breaker_ask(&breaker, now_ms + 5000), BREAKER_PASS);
}

/* ---- rate ---- */

CLAIM(a_rate_lets_so_many_through_and_no_more)
{
    static const double rates[] = {0.5, 1, 7, 40, 999, 20000};
    struct random random = seed_random("a_rate_lets_so_many_through_and_no_more");
    for (size_t i = 0; i < COUNT_OF(rates); i++) {
        struct rate rate = {0};
        int64_t now_ms = NOW;
        double through = 0, burst = rates[i] * RATE_BURST_MS / 1000;
        rate_set(&rate, rates[i], now_ms);
        while (now_ms < NOW + 60 * 1000) {
            uint32_t free = rate_free(&rate, (uint32_t)random_below(&random, 5000) + 1, now_ms);
            rate_spend(&rate, free);
            through += free;
            double most = rates[i] * (double)(now_ms - NOW) / 1000 + (burst > 1 ? burst : 1) + 1;
            if (through > most)
                fail_msg("%g/s: %g after %d ms", rates[i], through, (int)(now_ms - NOW));
            now_ms = rate_next_ms(&rate) > now_ms ? rate_next_ms(&rate) : now_ms + 1;
        }
        if (through < rates[i] * 60 * 0.98 - 1)
            fail_msg("%g/s: only %g in a minute", rates[i], through);
    }
}

CLAIM(a_pause_is_not_made_up_for)
{
    struct rate rate = {0};
    rate_set(&rate, 100, NOW);
    assert_int_equal(rate_free(&rate, 1000, NOW + 3600 * 1000), 5);
}

CLAIM(without_a_rate_all_pass)
{
    struct rate rate = {0};
    assert_int_equal(rate_free(&rate, 1000, NOW), 1000);
    rate_set(&rate, 1, NOW);
    rate_set(&rate, 0, NOW);
    assert_int_equal(rate_free(&rate, 1000, NOW), 1000);
}

CLAIM(a_new_rate_gives_nothing_for_free)
{
    struct rate rate = {0};
    rate_set(&rate, 10, NOW);
    for (int i = 0; i < 100; i++) {
        rate_spend(&rate, rate_free(&rate, 1000, NOW));
        rate_set(&rate, i % 2 ? 10 : 1000, NOW);
    }
    assert_int_equal(rate_free(&rate, 1000, NOW), 0);
}

CLAIMS_MAIN(NULL, NULL)
