/* Ends of a wait without a job: its time ends, it is cancelled or rejected, or the server stops. */
#include "unit/claim.h"
#include "waiter_stage.h"

CLAIM(a_waiter_gets_an_empty_answer_exactly_after_its_wait)
{
    struct stage *stage = stage_new(10);

    stage_take_many(stage, 0, "a", NULL, 1, 200, 5);
    stage_take_many(stage, 1, "a", NULL, 1, 100, 5);
    stage_settle(stage);
    assert_int_equal(waiters_next_ms(stage->waiters), 105);
    waiters_expire(stage->waiters, 104);
    assert_int_equal(stage->log_count, 0);
    waiters_expire(stage->waiters, 105);
    assert_int_equal(stage->takers[1].answers, 1);
    assert_int_equal(waiters_next_ms(stage->waiters), 205);
    waiters_expire(stage->waiters, 300);
    assert_int_equal(stage->takers[0].answers, 1);
    assert_int_equal(waiters_count(stage->waiters), 0);
    stage_end(stage);
}

CLAIM(a_wait_that_ends_with_jobs_on_their_way_gets_them)
{
    struct stage *stage = stage_new(10);

    stage_add_ready(stage, "a", 1);
    stage_take(stage, 0, "a");
    waiters_expire(stage->waiters, 5000);
    assert_int_equal(stage->takers[0].answers, 0);
    assert_int_equal(waiters_next_ms(stage->waiters), INT64_MAX);
    stage_settle(stage);
    assert_int_equal(stage->takers[0].answers, 1);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_end(stage);
}

CLAIM(a_cancelled_taker_gives_its_jobs_back)
{
    struct stage *stage = stage_new(10);
    uint64_t handle;

    stage_add_ready(stage, "a", 40);
    handle = stage_take_many(stage, 0, "a", NULL, 40, 1000, 0);
    stage_take(stage, 1, "a");
    waiter_cancel(stage->waiters, handle);
    stage_settle(stage);
    assert_int_equal(stage->takers[0].answers, 0);
    assert_int_equal(stage->fake.returned, 40);
    assert_int_equal(stage->takers[1].jobs, 1);
    assert_int_equal(stage->fake.topics[0].ready, 39);
    stage_end(stage);
}

CLAIM(a_cancelled_take_that_did_not_wait_gives_its_jobs_back)
{
    struct stage *stage = stage_new(10);

    stage_add_ready(stage, "a", 1);
    waiter_cancel(stage->waiters, stage_take_many(stage, 0, "a", NULL, 1, 0, 0));
    stage_settle(stage);
    assert_int_equal(stage->takers[0].answers, 0);
    assert_int_equal(stage->fake.returned, 1);
    stage_end(stage);
}

CLAIM(cancelling_an_idle_waiter_lets_the_next_one_have_the_job)
{
    struct stage *stage = stage_new(10);
    uint64_t handle = stage_take(stage, 0, "a");

    stage_take(stage, 1, "a");
    stage_settle(stage);
    waiter_cancel(stage->waiters, handle);
    waiter_cancel(stage->waiters, handle);
    stage_add_ready(stage, "a", 1);
    stage_settle(stage);
    assert_int_equal(stage->takers[0].answers, 0);
    assert_int_equal(stage->takers[1].jobs, 1);
    waiter_cancel(stage->waiters, handle);
    stage_end(stage);
}

CLAIM(a_handle_is_not_good_for_a_later_waiter)
{
    struct stage *stage = stage_new(10);
    uint64_t old = stage_take(stage, 0, "a");

    stage_settle(stage);
    waiter_cancel(stage->waiters, old);
    stage_take(stage, 1, "a");
    stage_settle(stage);
    waiter_cancel(stage->waiters, old);
    assert_int_equal(waiters_count(stage->waiters), 1);
    stage_end(stage);
}

CLAIM(beyond_the_bound_a_take_gets_ready_jobs_but_does_not_wait)
{
    struct stage *stage = stage_new(2);

    stage_take(stage, 0, "a");
    stage_take(stage, 1, "a");
    stage_settle(stage);
    stage_take(stage, 2, "a");
    stage_settle(stage);
    assert_true(stage->takers[2].refused);
    assert_int_equal(stage->takers[2].answers, 1);
    stage_add_ready(stage, "b", 1);
    stage_take(stage, 3, "b");
    stage_settle(stage);
    assert_false(stage->takers[3].refused);
    assert_int_equal(stage->takers[3].jobs, 1);
    stage_end(stage);
}

CLAIM(a_drain_answers_all_takes_and_admits_no_waiting_ones)
{
    struct stage *stage = stage_new(10);

    stage_take(stage, 0, "a");
    stage_take(stage, 1, "b");
    stage_settle(stage);
    waiters_drain(stage->waiters);
    assert_int_equal(stage->log_count, 0);
    assert_int_equal(waiters_next_ms(stage->waiters), 0);
    waiters_expire(stage->waiters, 1);
    assert_int_equal(stage->log_count, 2);
    stage_take(stage, 2, "a");
    stage_settle(stage);
    assert_int_equal(stage->takers[2].answers, 1);
    assert_int_equal(waiters_next_ms(stage->waiters), INT64_MAX);
    stage_end(stage);
}

CLAIM(free_answers_waiting_takes)
{
    struct stage *stage = stage_new(10);

    stage_take(stage, 0, "a");
    stage_settle(stage);
    waiters_free(stage->waiters);
    assert_int_equal(stage->takers[0].answers, 1);
    assert_int_equal(stage->fake.topics[0].watches, 0);
    free(stage);
}

CLAIMS_MAIN(NULL, NULL)
