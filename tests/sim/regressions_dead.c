/* Dead jobs, and sending them round again. */
#include "regressions.h"

/* Numbers of jobs: one step's redrives have room in so small a file. */
enum { FAR = 40, LEASED_FROM = FAR, LEASED = 10, LIST_MOST = 100 };

static void make_far_dead(void)
{
    rig_push(0, FAR, 0, 0);
    assert_int_equal(rig_take_ready(FAR), FAR);
    rig_answer(QUEUE_NACK, 0);
    rig_age();
    rig_restart(1); /* all of them are on the disk only */
    assert_int_equal(rig_far_jobs(), FAR);
}

static size_t list_dead(void)
{
    rig_ask(
        &(struct command){.kind = COMMAND_LIST,
                          .list = {.topic = slice_of("t"), .state = JOB_DEAD, .limit = LIST_MOST}});
    assert_int_equal(rig.status, QUEUE_OK);
    return rig.taken;
}

/* A redrive counted those that died after it had begun, and left as many of the others dead. */
void test_a_redrive_takes_far_jobs_though_others_die_meanwhile(void **state)
{
    (void)state;

    rig_begin(&rig_small, 100);
    rig_give_up_after_one_attempt();
    make_far_dead();
    rig_push(LEASED_FROM, LEASED, 0, 0);
    assert_int_equal(rig_take_ready(LEASED), LEASED);
    assert_int_equal(list_dead(), FAR);
    /* The leases' end is noticed when the redrive has been asked for and has not looked yet. */
    machine_advance(&rig.world.machine, HOUR_MS + 1);
    rig_ask(&(struct command){.kind = COMMAND_TOPIC,
                              .topic = {.verb = QUEUE_TOPIC_REDRIVE, .topic = slice_of("t")}});
    assert_int_equal(rig.status, QUEUE_OK);
    for (size_t dead = list_dead(); dead > 0; dead--)
        assert_true(rig.ids[dead - 1] >= LEASED_FROM);
    rig_end();
}
