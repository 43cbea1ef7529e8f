/* The space jobs take on the disk. */
#include "regressions.h"

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
