/* Many jobs that are due together: no job is lost or late. */
#include "regressions.h"

/* etcd 17529: a consumer that fell behind lost events that were dropped from memory. */
void test_a_stalled_consumer_loses_nothing(void **state)
{
    enum { JOBS = 2000 };
    uint32_t came = 0;
    int64_t last_ms = 0;
    (void)state;

    rig_begin(&rig_small, 100);
    rig_push(0, JOBS, 1000, 2);
    world_wait(&rig.world, 20 * SECOND_MS); /* all are ready, forty times the quota */
    assert_in_range(rig_far_jobs(), JOBS / 2, JOBS);
    rig_restart(HOUR_MS);
    world_wait(&rig.world, 5 * SECOND_MS);
    while (rig_take_ready(37)) {
        for (size_t i = 0; i < rig.taken; i++) {
            assert_true(rig.body_is_right[i]);
            assert_true(rig.due_ms[i] >= last_ms);
            last_ms = rig.due_ms[i];
            assert_int_equal(rig.seen[rig.ids[i]]++, 0);
        }
        came += (uint32_t)rig.taken;
        rig_answer(QUEUE_ACK, 0);
        world_wait(&rig.world, 10);
    }
    assert_int_equal(came, JOBS);
    rig_end();
}

/* RabbitMQ's delayed message plugin 72: with a hundred thousand timers they became late. */
void test_a_hundred_thousand_timers_are_not_late(void **state)
{
    int64_t until_ms, late_ms = 0;
    uint32_t came = 0;
    (void)state;

    rig_begin(&rig_large, 20);
    rig_push(0, JOBS_MAX, 60 * SECOND_MS, 1); /* a thousand a second */
    until_ms = rig_now_ms() + 200 * SECOND_MS;
    while (came < JOBS_MAX && rig_now_ms() < until_ms) {
        while (rig_take(QUEUE_TAKE_MAX)) {
            for (size_t i = 0; i < rig.taken; i++) {
                assert_int_equal(rig.seen[rig.ids[i]]++, 0);
                if (rig_now_ms() - rig.due_ms[i] > late_ms)
                    late_ms = rig_now_ms() - rig.due_ms[i];
            }
            came += (uint32_t)rig.taken;
        }
        world_wait(&rig.world, 250);
    }
    assert_int_equal(came, JOBS_MAX);
    assert_in_range(late_ms, 0, SECOND_MS);
    rig_end();
}

/* Jobs of one millisecond, and as many again spread over the second that begins with it. */
enum { CROWD = 12000, CROWD_SECOND = 2 * CROWD };

static void push_crowd(int64_t second_ms)
{
    enum { AT_ONCE = 20 };

    for (uint32_t id = 0; id < CROWD_SECOND; id += AT_ONCE) {
        int64_t due_ms = id < CROWD ? second_ms : second_ms + id % 1000 / AT_ONCE * AT_ONCE;

        rig_push(id, AT_ONCE, due_ms - rig_now_ms() - 1, 0);
    }
}

/* Takes all ready jobs; only those without an answer before the crash may come again. */
static uint32_t take_crowd(int64_t second_ms, uint32_t most, uint32_t allowed[CROWD_SECOND])
{
    uint32_t came = 0;

    while (came < most && rig_take_ready(ROUND)) {
        for (size_t i = 0; i < rig.taken; i++) {
            if (!rig.seen[rig.ids[i]]) /* a retry has another one */
                assert_in_range(rig.due_ms[i], second_ms, second_ms + 999);
            assert_true(rig.due_ms[i] <= rig_now_ms()); /* never early */
            assert_true(rig.body_is_right[i]);
            assert_true(rig.seen[rig.ids[i]]++ < allowed[rig.ids[i]]);
        }
        came += (uint32_t)rig.taken;
        if (came < most)
            rig_answer(QUEUE_ACK, 0);
    }
    return came;
}

/* RocketMQ 6566: of many timers in one second some were late, and some lost. */
void test_many_jobs_due_in_one_second_all_come(void **state)
{
    static uint32_t allowed[CROWD_SECOND];
    struct scenario scenario = rig_small;
    int64_t second_ms;
    uint32_t came, unanswered;
    (void)state;

    scenario.limits.topic_quota = 1000;
    for (uint32_t id = 0; id < CROWD_SECOND; id++)
        allowed[id] = 1;
    rig_begin(&scenario, 40);
    second_ms = rig_now_ms() + HOUR_MS;
    push_crowd(second_ms);
    assert_in_range(rig_far_jobs(), CROWD, CROWD_SECOND);
    rig_skip_to(second_ms - 1);
    assert_int_equal(rig_take(10), 0);
    world_wait(&rig.world, 1);
    came = take_crowd(second_ms, CROWD_SECOND / 3, allowed);
    unanswered = (uint32_t)rig.taken;
    for (uint32_t i = 0; i < unanswered; i++)
        allowed[rig.ids[i]] = 2;
    rig_restart(1);
    came += take_crowd(second_ms, UINT32_MAX, allowed);
    assert_in_range(rig_now_ms(), second_ms, second_ms + 5 * SECOND_MS);
    rig_skip_to(rig_now_ms() + HOUR_MS); /* the leases of the crash end */
    came += take_crowd(second_ms, UINT32_MAX, allowed);
    assert_in_range(came, CROWD_SECOND, CROWD_SECOND + unanswered);
    for (uint32_t id = 0; id < CROWD_SECOND; id++)
        assert_in_range(rig.seen[id], 1, allowed[id]);
    rig_end();
}

/* However many jobs of a topic wait for a retry, the ready ones come. They fall due one after the
 * other, because jobs of one moment are read together, whatever the quota; and no checkpoint
 * comes to help: it would write the waiting jobs to a run of its own, and let them go. */
void test_jobs_that_wait_for_a_retry_keep_no_ready_job_on_the_disk(void **state)
{
    enum { JOBS = 400, STEP_MS = 20 }; /* eight times the quota; 15 in the horizon */
    struct scenario quiet = rig_small;
    uint32_t came = 0;
    int64_t due_ms;
    (void)state;

    rig_begin(&rig_small, 100);
    rig_push(0, JOBS, HOUR_MS, STEP_MS);
    due_ms = rig_now_ms() + HOUR_MS;
    rig_age(); /* to a run */
    assert_int_equal(rig_far_jobs(), JOBS);
    quiet.limits.checkpoint_files_min = quiet.limits.checkpoint_files_max = 1000;
    rig.world.scenario = &quiet;
    rig_restart(1);
    assert_int_equal(rig_far_jobs(), JOBS);
    rig_skip_to(due_ms - SECOND_MS);
    while (rig_now_ms() < due_ms + JOBS * STEP_MS + SECOND_MS) {
        world_wait(&rig.world, 5 * STEP_MS);
        while (rig_take(37)) {
            for (size_t i = 0; i < rig.taken; i++)
                assert_int_equal(rig.seen[rig.ids[i]]++, 0);
            came += (uint32_t)rig.taken;
            rig_answer(QUEUE_NACK, HOUR_MS);
        }
    }
    assert_int_equal(came, JOBS);
    rig_end();
}
