/* Very many waiting takes: each in its order, without useless calls, and complete. */
#include "waiter_stage.h"

#include "unit/claim.h"
#include "unit/seed.h"

CLAIM(first_come_first_served)
{
    struct stage *stage = stage_new(100);

    for (int i = 0; i < 50; i++)
        stage_take(stage, i, "a");
    stage_settle(stage);
    for (int i = 0; i < 50; i++) {
        stage_add_ready(stage, "a", i % 3);
        stage_settle(stage);
    }
    stage_add_ready(stage, "a", 50);
    stage_settle(stage);
    assert_int_equal(stage->log_count, 50);
    for (int i = 0; i < 50; i++)
        assert_ptr_equal(stage->log[i], &stage->takers[i]);
    stage_end(stage);
}

CLAIM(one_job_wakes_one_of_a_thousand)
{
    struct stage *stage = stage_new(2000);
    size_t before;

    for (int i = 0; i < 1000; i++)
        stage_take(stage, i, "a");
    stage_settle(stage);
    before = stage->fake.called;
    stage_add_ready(stage, "a", 1);
    stage_report_ready(stage);
    assert_int_equal(stage_under_way(stage), 1);
    stage_settle(stage);
    assert_int_equal(stage->log_count, 1);
    assert_in_range(stage->fake.called - before, 1, 3);
    assert_int_equal(waiters_count(stage->waiters), 999);
    stage_end(stage);
}

CLAIM(idle_waiters_make_no_calls)
{
    struct stage *stage = stage_new(2000);

    for (int i = 0; i < 1000; i++)
        stage_take(stage, i, "a");
    stage_settle(stage);
    assert_in_range(stage->fake.called, 1, 2);
    stage_end(stage);
}

CLAIM(a_backlog_is_delivered_with_several_takes_in_flight)
{
    struct stage *stage = stage_new(2000);
    size_t most = 0;

    for (int i = 0; i < 200; i++)
        stage_take(stage, i, "a");
    stage_settle(stage);
    stage_add_ready(stage, "a", 200);
    stage_report_ready(stage);
    while (stage_under_way(stage)) {
        most = stage_under_way(stage) > most ? stage_under_way(stage) : most;
        stage_answer_one(stage);
    }
    assert_int_equal(stage->log_count, 200);
    assert_in_range(most, 8, 32);
    for (int i = 0; i < 200; i++)
        assert_ptr_equal(stage->log[i], &stage->takers[i]);
    stage_end(stage);
}

/* ---- everything together ---- */

enum { CROWD = 2500 };

struct crowd {
    struct stage *stage;
    struct random random;
    uint64_t handles[CROWD]; /* 0: cancelled */
    size_t added, cancelled;
    int64_t now_ms;
};

static bool chance(struct crowd *crowd, uint64_t of)
{
    return random_below(&crowd->random, of) == 0;
}

static const char *some_topic(struct crowd *crowd)
{
    return crowd->stage->fake.topics[random_below(&crowd->random, TOPICS_MAX)].name;
}

static void one_comes(struct crowd *crowd, int taker)
{
    const char *one = some_topic(crowd), *two = chance(crowd, 2) ? some_topic(crowd) : NULL;
    uint32_t max = 1 + (uint32_t)random_below(&crowd->random, 3);
    int64_t wait_ms = (int64_t)random_below(&crowd->random, 40);

    crowd->handles[taker] =
        stage_take_many(crowd->stage, taker, one, two, max, wait_ms, crowd->now_ms);
}

static void jobs_come(struct crowd *crowd)
{
    int count = (int)random_below(&crowd->random, 4);

    stage_add_ready(crowd->stage, some_topic(crowd), count);
    crowd->added += (size_t)count;
}

/* Cancels one of the first `count` that still waits. */
static void one_goes(struct crowd *crowd, int count)
{
    uint64_t taker = random_below(&crowd->random, (uint64_t)count);

    if (crowd->stage->takers[taker].answers || !crowd->handles[taker])
        return;
    waiter_cancel(crowd->stage->waiters, crowd->handles[taker]);
    crowd->handles[taker] = 0;
    crowd->cancelled++;
}

static void crowd_step(struct crowd *crowd, int taker)
{
    one_comes(crowd, taker);
    if (chance(crowd, 2))
        jobs_come(crowd);
    if (chance(crowd, 8))
        one_goes(crowd, taker + 1);
    if (stage_under_way(crowd->stage) && !chance(crowd, 3))
        stage_answer_one(crowd->stage);
    if (chance(crowd, 2))
        stage_report_ready(crowd->stage);
    crowd->now_ms += (int64_t)random_below(&crowd->random, 5);
    waiters_expire(crowd->stage->waiters, crowd->now_ms);
}

static void all_end(struct crowd *crowd)
{
    stage_settle(crowd->stage);
    waiters_drain(crowd->stage->waiters);
    waiters_expire(crowd->stage->waiters, crowd->now_ms);
    stage_settle(crowd->stage);
}

/* Checks that each taker is answered exactly once or was cancelled, and no job is lost. */
static void crowd_loses_nothing(bool reports_drained)
{
    struct stage *stage = stage_new(64);
    struct crowd crowd = {.stage = stage, .random = seed_random("nothing_is_lost_in_a_crowd")};
    size_t got = 0;

    stage->fake.reports_drained = reports_drained;
    for (int i = 0; i < CROWD; i++)
        crowd_step(&crowd, i);
    all_end(&crowd);
    assert_int_equal(stage->log_count + crowd.cancelled, CROWD);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(stage->takers[i].answers, crowd.handles[i] ? 1 : 0);
        got += stage->takers[i].jobs;
    }
    for (int i = 0; i < TOPICS_MAX; i++)
        got += (size_t)stage->fake.topics[i].ready;
    assert_int_equal(got, crowd.added);
    stage_end(stage);
}

CLAIM(nothing_is_lost_in_a_crowd)
{
    crowd_loses_nothing(false);
    crowd_loses_nothing(true);
}

CLAIMS_MAIN(NULL, NULL)
