/* A waiting take gets the job that comes, and no wake-up is lost. */
#include "unit/claim.h"
#include "waiter_stage.h"

CLAIM(answers_immediately_with_a_ready_job_but_never_inside_the_call)
{
    struct stage *stage = stage_new(10);

    stage_add_ready(stage, "a", 1);
    stage_take(stage, 0, "a");
    assert_int_equal(stage->takers[0].answers, 0);
    stage_settle(stage);
    assert_int_equal(stage->takers[0].jobs, 1);
    assert_int_equal(waiters_next_ms(stage->waiters), INT64_MAX);
    stage_end(stage);
}

CLAIM(a_take_that_does_not_wait_is_answered_empty)
{
    struct stage *stage = stage_new(10);

    stage_take_many(stage, 0, "a", NULL, 1, 0, 0);
    stage_settle(stage);
    assert_int_equal(stage->takers[0].answers, 1);
    assert_int_equal(stage->takers[0].jobs, 0);
    assert_false(stage->takers[0].refused);
    stage_end(stage);
}

CLAIM(a_later_take_does_not_overtake)
{
    struct stage *stage = stage_new(100);

    stage_take(stage, 0, "a");
    stage_settle(stage);
    stage->fake.topics[0].ready = 1; /* on_ready is still on its way when the next taker comes */
    stage->fake.topics[0].report = true;
    stage_take(stage, 1, "a");
    stage_settle(stage);
    assert_int_equal(stage->log_count, 1);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_end(stage);
}

CLAIM(no_lost_wakeup_between_the_empty_take_and_the_watch)
{
    struct stage *stage = stage_new(10);

    stage_take(stage, 0, "a");
    /* The job comes after the queue looked and before its answer arrives: there is no watch yet. */
    stage->fake.answered++;
    stage->fake.topics[0].ready = 1;
    stage->fake.calls[0].to.done(stage->fake.calls[0].to.owner, stage->fake.calls[0].to.tag,
                                 &(struct queue_reply){.status = QUEUE_OK});
    stage_settle(stage);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_end(stage);
}

CLAIM(no_lost_wakeup_while_an_empty_answer_is_on_its_way)
{
    struct stage *stage = stage_new(10);
    struct fake_call *call;

    stage_take(stage, 0, "a");
    stage_settle(stage);
    stage->fake.queue.on_ready(stage->fake.queue.on_ready_owner, slice_of("a"));
    call = &stage->fake.calls[stage->fake.answered++];
    stage->fake.topics[0].ready = 1;
    stage->fake.queue.on_ready(stage->fake.queue.on_ready_owner, slice_of("a"));
    call->to.done(call->to.owner, call->to.tag, &(struct queue_reply){.status = QUEUE_OK});
    stage_settle(stage);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_end(stage);
}

CLAIM(a_short_answer_does_not_strand_the_next_in_line)
{
    struct stage *stage = stage_new(10);
    struct queue_job job = {.job.topic = slice_of("a"), .lease = slice_of("a")};
    struct fake_call *call;

    stage_take_many(stage, 0, "a", NULL, 10, 1000, 0);
    stage_take_many(stage, 1, "a", NULL, 10, 1000, 0);
    stage_settle(stage);
    stage_add_ready(stage, "a", 5);
    stage_report_ready(stage);
    /* The queue hands out less than it has, for example because the bodies are big. */
    call = &stage->fake.calls[stage->fake.answered++];
    stage->fake.topics[0].ready = 4;
    call->to.done(call->to.owner, call->to.tag,
                  &(struct queue_reply){.jobs = &job, .job_count = 1});
    stage_settle(stage);
    assert_int_equal(stage->takers[1].jobs, 4);
    stage_end(stage);
}

CLAIM(a_take_that_left_nothing_saves_the_next_in_line_a_call)
{
    for (int reports = 0; reports <= 1; reports++) {
        struct stage *stage = stage_new(10);

        stage->fake.reports_drained = reports;
        stage_take_many(stage, 0, "a", NULL, 10, 1000, 0);
        stage_take_many(stage, 1, "a", NULL, 10, 1000, 0);
        stage_settle(stage);
        size_t before = stage->fake.called;
        stage_add_ready(stage, "a", 5);
        stage_settle(stage);
        assert_int_equal(stage->takers[0].jobs, 5);
        assert_int_equal(stage->fake.called - before, reports ? 1 : 2);
        stage_add_ready(stage, "a", 1);
        stage_settle(stage);
        assert_int_equal(stage->takers[1].jobs, 1);
        stage_end(stage);
    }
}

static int64_t end_ms; /* when the take of stage_kept ends */

static int64_t now_at_end(void)
{
    return end_ms;
}

/* A worker took the only job of a topic at end_ms, and is about to take again. */
static struct stage *stage_kept(void)
{
    struct stage *stage = stage_new(10);

    stage->fake.reports_drained = true;
    waiters_keep(stage->waiters, 1000, now_at_end);
    stage_add_ready(stage, "a", 1);
    stage_take_many(stage, 0, "a", NULL, 10, 1000, 0);
    stage_settle(stage);
    assert_int_equal(stage->takers[0].jobs, 1);
    assert_int_equal(stage->fake.topics[0].watches, 1);
    return stage;
}

CLAIM(a_worker_that_returns_to_an_empty_topic_waits_without_a_call)
{
    struct stage *stage = stage_kept();
    size_t before = stage->fake.called;

    stage_take_many(stage, 1, "a", NULL, 10, 1000, 0);
    stage_settle(stage);
    assert_int_equal(stage->fake.called, before);
    stage_add_ready(stage, "a", 1);
    stage_settle(stage);
    assert_int_equal(stage->takers[1].jobs, 1);
    assert_int_equal(stage->fake.called, before + 1);
    stage_end(stage);
}

CLAIM(a_worker_that_returns_gets_the_jobs_that_came_meanwhile)
{
    struct stage *stage = stage_kept();

    stage_add_ready(stage, "a", 2);
    stage_settle(stage);
    assert_int_equal(stage->fake.topics[0].watches, 1);
    stage_take_many(stage, 1, "a", NULL, 10, 1000, 0);
    stage_settle(stage);
    assert_int_equal(stage->takers[1].jobs, 2);
    stage_end(stage);
}

CLAIM(the_watch_of_a_topic_ends_some_time_after_its_last_take)
{
    struct stage *stage = stage_kept();

    assert_int_equal(waiters_next_ms(stage->waiters), 1000);
    waiters_expire(stage->waiters, 999);
    assert_int_equal(stage->fake.topics[0].watches, 1);
    waiters_expire(stage->waiters, 1000);
    assert_int_equal(stage->fake.topics[0].watches, 0);
    assert_int_equal(waiters_next_ms(stage->waiters), INT64_MAX);
    stage_end(stage);
}

CLAIM(the_watch_outlives_a_take_that_waited_for_long)
{
    end_ms = 5000;
    struct stage *stage = stage_kept();

    assert_int_equal(waiters_next_ms(stage->waiters), 6000);
    waiters_expire(stage->waiters, 5999);
    assert_int_equal(stage->fake.topics[0].watches, 1);
    waiters_expire(stage->waiters, 6000);
    assert_int_equal(stage->fake.topics[0].watches, 0);
    stage_end(stage);
    end_ms = 0;
}

CLAIM(each_take_renews_the_watch)
{
    struct stage *stage = stage_kept();

    stage_take_many(stage, 1, "a", NULL, 10, 100, 900);
    waiters_expire(stage->waiters, 999);
    stage_settle(stage);
    assert_int_equal(stage->takers[1].answers, 0);
    end_ms = 1000;
    waiters_expire(stage->waiters, 1000);
    assert_int_equal(stage->takers[1].answers, 1);
    assert_int_equal(stage->takers[1].jobs, 0);
    assert_int_equal(waiters_next_ms(stage->waiters), 2000);
    stage_end(stage);
    end_ms = 0;
}

/* The line is not watched before it was found empty, so that is when a job may come unnoticed. */
CLAIM(jobs_that_come_while_a_take_that_left_nothing_is_on_its_way_are_not_lost)
{
    struct stage *stage = stage_new(10);

    stage->fake.reports_drained = true;
    stage_add_ready(stage, "a", 1);
    stage_take_many(stage, 0, "a", NULL, 10, 1000, 0);
    stage_take_many(stage, 1, "a", NULL, 10, 1000, 0);
    stage_answer_one(stage);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_add_ready(stage, "a", 2);
    stage_settle(stage);
    assert_int_equal(stage->takers[1].jobs, 2);
    stage_end(stage);
}

CLAIM(no_busy_loop_when_paused)
{
    struct stage *stage = stage_new(10);

    stage->fake.topics[0].paused = true;
    stage->fake.topics[0].ready = 5;
    stage_take(stage, 0, "a");
    stage_take(stage, 1, "a");
    stage_settle(stage);
    assert_in_range(stage->fake.called, 1, 4);
    assert_int_equal(stage->log_count, 0);
    stage_end(stage);
}

CLAIM(an_error_of_the_queue_is_handed_on_to_each)
{
    struct stage *stage = stage_new(10);

    stage->fake.status = QUEUE_UNAVAILABLE;
    stage_take(stage, 0, "a");
    stage_take(stage, 1, "a");
    stage_settle(stage);
    assert_int_equal(stage->takers[0].status, QUEUE_UNAVAILABLE);
    assert_int_equal(stage->takers[1].status, QUEUE_UNAVAILABLE);
    stage_end(stage);
}

static void take_again(void *ctx)
{
    struct stage *stage = ctx;

    if (stage->log_count < 100)
        stage_take(stage, 0, "a");
}

CLAIM(a_taker_may_take_again_from_its_answer)
{
    struct stage *stage = stage_new(10);

    stage->takers[0].then = take_again;
    stage->takers[0].ctx = stage;
    stage_add_ready(stage, "a", 100);
    stage_take(stage, 0, "a");
    stage_settle(stage);
    assert_int_equal(stage->log_count, 100);
    assert_int_equal(waiters_count(stage->waiters), 0);
    stage_end(stage);
}

/* ---- several topics ---- */

CLAIM(of_several_topics_the_first_named_is_served_first)
{
    struct stage *stage = stage_new(10);

    stage_add_ready(stage, "a", 1);
    stage_add_ready(stage, "b", 1);
    stage_take_many(stage, 0, "b", "a", 1, 1000, 0);
    stage_settle(stage);
    assert_string_equal(stage->takers[0].topic, "b");
    stage_end(stage);
}

CLAIM(any_of_several_topics_wakes_a_waiter)
{
    struct stage *stage = stage_new(10);

    stage_take_many(stage, 0, "a", "b", 1, 1000, 0);
    stage_settle(stage);
    stage_add_ready(stage, "b", 1);
    stage_settle(stage);
    assert_string_equal(stage->takers[0].topic, "b");
    assert_int_equal(stage->fake.topics[0].watches, 0);
    stage_end(stage);
}

CLAIM(a_topic_named_twice_counts_once)
{
    struct stage *stage = stage_new(10);

    stage_take_many(stage, 0, "a", "a", 1, 1000, 0);
    stage_settle(stage);
    uint32_t unnamed;
    assert_int_equal(waiters_of_topic(stage->waiters, slice_of("a"), &unnamed), 1);
    assert_int_equal(unnamed, 1);
    assert_int_equal(waiters_of_topic(stage->waiters, slice_of("b"), &unnamed), 0);
    stage_add_ready(stage, "a", 1);
    stage_settle(stage);
    assert_int_equal(stage->takers[0].answers, 1);
    stage_end(stage);
}

CLAIM(a_take_on_several_topics_keeps_its_place)
{
    struct stage *stage = stage_new(10);

    stage_take_many(stage, 0, "a", "b", 1, 1000, 0);
    stage_take(stage, 1, "b");
    stage_settle(stage);
    stage->fake.queue.on_ready(stage->fake.queue.on_ready_owner, slice_of("a"));
    assert_int_equal(stage_under_way(stage), 1);
    stage_add_ready(stage, "b", 1);
    stage_report_ready(stage);
    assert_int_equal(stage_under_way(stage), 1);
    stage_settle(stage);
    assert_string_equal(stage->takers[0].topic, "b");
    assert_int_equal(stage->takers[1].answers, 0);
    stage_end(stage);
}

CLAIMS_MAIN(NULL, NULL)
