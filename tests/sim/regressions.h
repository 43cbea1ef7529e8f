/*
 * regressions: promises that other delay queues have broken: each test names the bug it would have
 * found. A whole shard on a virtual clock and a simulated disk; one at a time, `rig`.
 */
#ifndef TARRY_TESTS_SIM_REGRESSIONS_H
#define TARRY_TESTS_SIM_REGRESSIONS_H

#include "world.h"

#include <setjmp.h>

#include <cmocka.h>

enum {
    SECOND_MS = 1000,
    HOUR_MS = 3600 * SECOND_MS,
    YEAR_S = 365 * 24 * 3600,
    FILE_BYTES = 1 << 18,
    SLACK_BYTES = 1 << 20, /* more than the fixed parts of some runs */
    JOBS_MAX = 100000,
    ROUND = 100
};

extern const struct scenario rig_small, rig_large;

struct rig {
    struct sim_fs disk;
    struct oracle oracle;
    struct world world;
    size_t body_bytes;
    /* The last take. */
    size_t taken;
    char leases[QUEUE_TAKE_MAX][QUEUE_LEASE_TEXT_BYTES_MAX + 1];
    uint32_t ids[QUEUE_TAKE_MAX];
    int64_t due_ms[QUEUE_TAKE_MAX];
    bool body_is_right[QUEUE_TAKE_MAX];
    /* The last get. */
    enum queue_status status;
    uint64_t affected;
    uint32_t seen[JOBS_MAX];
    uint32_t reported, harmed_most; /* of damage */
};
extern struct rig rig;

/* ---- opening, and the ends ---- */

void rig_begin(const struct scenario *scenario, size_t body_bytes);
void rig_end(void);
/* A machine without a shard: world_open. */
void rig_power_up(int64_t now_ms);
int64_t rig_now_ms(void);
/* The power goes, and comes back after a while. */
void rig_restart(int64_t down_ms);
/* However long: nothing falls due meanwhile. */
void rig_skip_to(int64_t wall_ms);

/* ---- asking: each until it is answered; all of one topic ---- */

/* Runs any command; rig.status has its result, and the jobs of the reply are as if taken. */
void rig_ask(const struct command *command);
/* Pushes jobs from the id on, the i-th after `delay_ms` and i times `step_ms`. */
void rig_push(uint32_t first, uint32_t count, int64_t delay_ms, int64_t step_ms);
/* Pushes jobs, all after `delay_ms`. False: refused, with rig.status. */
bool rig_try_push(uint32_t first, uint32_t count, int64_t delay_ms);
/* Takes jobs; returns how many came: rig.ids, rig.due_ms and so on. */
size_t rig_take(uint32_t max);
/* Takes all ready jobs, also those that have to be loaded first. */
size_t rig_take_ready(uint32_t max);
/* Answers all jobs of the last take. */
void rig_answer(enum queue_verb verb, int64_t delay_ms);
/* Lets the jobs of the topic have one attempt; creates the topic. */
void rig_give_up_after_one_attempt(void);
/* Returns the job's due time; rig.status has the result. */
int64_t rig_get(uint32_t id);
uint64_t rig_far_jobs(void);
/* Short jobs come and go until what was there before has left the log. */
void rig_age(void);

/* ---- the tests ---- */

/* regressions_disk.c: The space jobs take on the disk. */
void test_jobs_released_for_ever_do_not_grow_the_disk(void **state);
void test_a_few_jobs_years_away_do_not_keep_the_short_ones(void **state);
void test_an_interrupted_purge_reports_its_progress(void **state);
void test_an_interrupted_delete_of_a_topic_reports_its_progress(void **state);
void test_an_interrupted_redrive_reports_its_progress(void **state);
/* regressions_time.c: When a job is due. */
void test_a_delay_above_2_to_the_32_is_not_cut(void **state);
void test_a_restart_adds_nothing_to_a_delay(void **state);
/* regressions_crowds.c: many jobs that are due together: no job is lost or late. */
void test_a_stalled_consumer_loses_nothing(void **state);
void test_a_hundred_thousand_timers_are_not_late(void **state);
void test_many_jobs_due_in_one_second_all_come(void **state);
void test_jobs_that_wait_for_a_retry_keep_no_ready_job_on_the_disk(void **state);
/* regressions_dead.c: Dead jobs, and sending them round again. */
void test_a_redrive_takes_far_jobs_though_others_die_meanwhile(void **state);
/* regressions_damage.c: Bits that flip in what was synced long ago. */
void test_a_flipped_bit_is_reported_and_harms_at_most_one_job(void **state);

#endif
