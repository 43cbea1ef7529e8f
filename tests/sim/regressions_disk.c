/* The space jobs take on the disk. */
#include "regressions.h"

#include "local/shard_core.h"

enum {
    RECORD_BYTES = 200, /* of a job besides its body, at most */
    LOG_FILES = 8       /* in use, being given up, and kept ready */
};

static int64_t disk_bytes(void)
{
    int64_t bytes = 0;

    for (int i = 0; i < rig.disk.now.count; i++) {
        const struct sim_inode *inode = rig.disk.now.entries[i].inode;
        bytes += inode->size - inode->holes * SIM_SECTOR_BYTES;
    }
    return bytes;
}

static void assert_disk_holds_little_more_than(uint32_t jobs)
{
    int64_t live = (int64_t)jobs * (int64_t)(rig.body_bytes + RECORD_BYTES);
    int64_t bytes = disk_bytes();

    if (bytes > live * 13 / 10 + LOG_FILES * FILE_BYTES + SLACK_BYTES)
        fail_msg("%lld bytes on the disk for %lld", (long long)bytes, (long long)live);
}

/* beanstalkd 622: every release of a job with a delay grew its binlog, for ever. */
void test_jobs_released_for_ever_do_not_grow_the_disk(void **state)
{
    enum { JOBS = 300, ROUNDS = 150 };
    struct scenario scenario = rig_small;
    (void)state;

    scenario.limits.topic_quota = 1000; /* all of them stay in memory */
    rig_begin(&scenario, 200);
    rig_push(0, JOBS, 0, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t released = 0;

        while (rig_take_ready(ROUND)) {
            released += (uint32_t)rig.taken;
            rig_answer(round < 10 ? QUEUE_NACK : QUEUE_RETURN, 5 * SECOND_MS);
        }
        assert_int_equal(released, JOBS);
        world_wait(&rig.world, 6 * SECOND_MS);
        assert_disk_holds_little_more_than(JOBS);
    }
    rig_end();
}

/* The same binlog kept every file back to the oldest job's. */
void test_a_few_jobs_years_away_do_not_keep_the_short_ones(void **state)
{
    enum { ROUNDS = 150 };
    (void)state;

    rig_begin(&rig_small, 400);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        rig_push(round, 1, (int64_t)YEAR_S * SECOND_MS, 0);
        rig_push(1000 + round * ROUND, ROUND, 100, 1);
        world_wait(&rig.world, 300);
        while (rig_take_ready(ROUND))
            rig_answer(QUEUE_ACK, 0);
        assert_disk_holds_little_more_than(round + 1 + ROUND);
    }
    for (uint32_t round = 0; round < ROUNDS; round++)
        assert_true(rig_get(round) > 0);
    rig_end();
}

/* Returns how many jobs the call is about: dead ones for a redrive, else waiting ones. */
static uint64_t jobs_for(enum queue_topic_verb verb)
{
    struct queue_topic topic;

    if (!engine_topic_show(rig.world.shard->engine, slice_of("t"),
                           (struct engine_now){.inner_ms = rig.world.machine.inner_ms}, &topic))
        return 0; /* it was deleted */
    return verb == QUEUE_TOPIC_REDRIVE ? topic.counts.dead
                                       : topic.counts.delayed + topic.counts.ready;
}

static void change_all(enum queue_topic_verb verb)
{
    const struct queue_topic_call call = {.verb = verb, .topic = slice_of("t")};

    rig_ask(&(struct command){.kind = COMMAND_TOPIC, .topic = call});
}

/* Lets all jobs die at their first attempt. The disk grows for that, and is full again. */
static void let_all_die(void)
{
    rig.disk.bytes_max = 0;
    world_wait(&rig.world, 5 * SECOND_MS);
    while (rig_take_ready(ROUND))
        rig_answer(QUEUE_NACK, 0);
    rig.disk.bytes_max = disk_bytes();
}

/* On a full disk the log has no room for the ends of all jobs, and here no checkpoint makes some. */
static void interrupt(enum queue_topic_verb verb)
{
    enum { DISK_BYTES = 3 << 20 };
    struct scenario scenario = rig_small;
    int64_t delay_ms = verb == QUEUE_TOPIC_REDRIVE ? 0 : HOUR_MS;
    uint64_t jobs;

    scenario.limits.topic_quota = JOBS_MAX;
    scenario.limits.checkpoint_files_min = scenario.limits.checkpoint_files_max = 1000;
    rig_begin(&scenario, 8);
    rig_give_up_after_one_attempt();
    rig.disk.bytes_max = DISK_BYTES;
    for (uint32_t id = 0; id < JOBS_MAX && rig_try_push(id, ROUND, delay_ms); id += ROUND)
        continue;
    assert_int_equal(rig.status, QUEUE_NO_SPACE);
    if (verb == QUEUE_TOPIC_REDRIVE)
        let_all_die();
    jobs = jobs_for(verb);
    change_all(verb);
    assert_int_equal(rig.status, QUEUE_NO_SPACE);
    assert_in_range(rig.affected, 1, jobs - 1);
    assert_int_equal(jobs_for(verb), jobs - rig.affected);
    jobs -= rig.affected;
    rig.disk.bytes_max = 0;
    world_wait(&rig.world, 5 * SECOND_MS);
    change_all(verb);
    assert_int_equal(rig.status, QUEUE_OK);
    assert_int_equal(rig.affected, jobs);
    assert_int_equal(jobs_for(verb), 0);
    rig_end();
}

void test_an_interrupted_purge_reports_its_progress(void **state)
{
    (void)state;
    interrupt(QUEUE_TOPIC_PURGE);
}

void test_an_interrupted_delete_of_a_topic_reports_its_progress(void **state)
{
    (void)state;
    interrupt(QUEUE_TOPIC_DELETE);
}

void test_an_interrupted_redrive_reports_its_progress(void **state)
{
    (void)state;
    interrupt(QUEUE_TOPIC_REDRIVE);
}
