/* When a job is due. */
#include "regressions.h"

/* RabbitMQ's delayed message plugin 71: such a delay wrapped, and the message came immediately. */
void test_a_delay_above_2_to_the_32_is_not_cut(void **state)
{
    const int64_t delay_ms = (1LL << 32) + 5 * SECOND_MS;
    int64_t due_ms;
    (void)state;

    rig_begin(&rig_small, 100);
    rig_push(1, 1, delay_ms, 0);
    due_ms = rig_now_ms() + delay_ms;
    world_wait(&rig.world, 60 * SECOND_MS);
    assert_int_equal(rig_take(10), 0);
    rig_age(); /* to a run */
    assert_int_equal(rig_far_jobs(), 1);
    rig_restart(60 * SECOND_MS);
    world_wait(&rig.world, 60 * SECOND_MS);
    assert_int_equal(rig_take(10), 0);
    rig_skip_to(due_ms - SECOND_MS);
    world_wait(&rig.world, SECOND_MS - 100);
    assert_int_equal(rig_take(10), 0);
    world_wait(&rig.world, SECOND_MS);
    assert_int_equal(rig_take(10), 1);
    rig_end();
}

/* beanstalkd 62: after a restart a delay began again. */
void test_a_restart_adds_nothing_to_a_delay(void **state)
{
    int64_t near_ms, far_ms;
    (void)state;

    rig_begin(&rig_small, 100);
    rig_push(2, 1, 1000LL * HOUR_MS, 0);
    rig_age();
    assert_int_equal(rig_far_jobs(), 1);
    rig_push(1, 1, 2LL * HOUR_MS, 0);
    near_ms = rig_get(1);
    far_ms = rig_get(2);
    assert_in_range(near_ms, rig_now_ms() + 2LL * HOUR_MS - 100, rig_now_ms() + 2LL * HOUR_MS + 1);
    for (int i = 0; i < 3; i++) {
        rig_restart(HOUR_MS / 4);
        assert_int_equal(rig_get(1), near_ms);
        assert_int_equal(rig_get(2), far_ms);
    }
    rig_skip_to(near_ms - SECOND_MS);
    assert_int_equal(rig_take(10), 0);
    world_wait(&rig.world, 2 * SECOND_MS);
    assert_int_equal(rig_take(10), 1);
    assert_int_equal(rig.ids[0], 1);
    rig_answer(QUEUE_ACK, 0);
    rig_restart(HOUR_MS);
    rig_skip_to(far_ms - SECOND_MS);
    world_wait(&rig.world, SECOND_MS - 100);
    assert_int_equal(rig_take(10), 0);
    world_wait(&rig.world, SECOND_MS);
    assert_int_equal(rig_take(10), 1);
    assert_int_equal(rig.ids[0], 2);
    rig_end();
}
