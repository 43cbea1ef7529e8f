/* Findings and repairs of jobs that must have existed but are nowhere, and of those in runs that
 * the log refers to. */
#include "fsck_rig_run.h"
#include "unit/claim.h"

/* ---- jobs that are nowhere ---- */

enum { MISSING = 6000 };

static void many_more(void)
{
    notify_topic("orders", &(struct topic_totals){.pushed = 2 * JOBS + 1 + MISSING, .acked = 2});
}

CLAIM_BETWEEN(however_many_are_missing_the_rest_is_saved, make_scene, remove_scene)
{
    write_log(many_more);
    save();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 20);
}

static void strangers(void)
{
    set_state("nobody", JOB_LEASED, (struct record_place){0});
    set_state("no one", JOB_LEASED, (struct record_place){0});
    many_more();
    set_state("who", JOB_LEASED, slot(1, 3));
}

CLAIM_BETWEEN(jobs_of_other_shards_are_not_saved, make_scene, remove_scene)
{
    write_log(strangers);
    save();
    assert_int_equal(scene.report.finding_count, 4);
    expect_clean();
}

static void only_strangers(void)
{
    set_state("nobody", JOB_LEASED, slot(1, 3));
    set_state("no one", JOB_LEASED, slot(1, 3));
}

CLAIM_BETWEEN(surplus_jobs_of_other_shards_are_not_saved, make_scene, remove_scene)
{
    write_log(only_strangers);
    save();
    assert_int_equal(scene.report.finding_count, 2);
    expect_clean();
    assert_int_equal(scene.report.shard[0].delayed, 18);
}

/* An end names a topic. */
CLAIM_BETWEEN(strangers_in_a_log_without_a_topic_are_left_to_a_backup, make_bare, remove_scene)
{
    write_log(only_strangers);
    save();
    assert_int_equal(scene.report.finding_count, 4);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(scene.report.finding[i].cure, FSCK_RESTORE);
    assert_int_equal(scene.report.mended, 0);
}

static void only_totals(void)
{
    notify_topic("orders", &(struct topic_totals){.pushed = 3, .acked = 1});
}

CLAIM_BETWEEN(jobs_missing_of_a_log_without_any_are_ended, make_bare, remove_scene)
{
    write_log(only_totals);
    examine();
    assert_int_equal(the_finding("", "3 pushed, 1 acked")->cure, FSCK_SALVAGE);
    repair();
    assert_int_equal(scene.report.mended, 0);
    save();
    expect_clean();
}

static void one_more_than_pushed(void)
{
    push_to("orders", "more", RECORD_PUSHED_REPLACING);
    set_totals(2 * JOBS + 1, 2);
}

CLAIM_BETWEEN(a_surplus_job_needs_a_backup, make_scene, remove_scene)
{
    write_log(one_more_than_pushed);
    save();
    assert_int_equal(the_finding("", "do not add up")->cure, FSCK_RESTORE);
    assert_int_equal(scene.report.mended, 0);
}

/* ---- jobs in runs that the log refers to ---- */

static void end_the_leased(void)
{
    finish("b0", slot(2, 0));
    set_totals(2 * JOBS + 1, 3);
}

CLAIM_BETWEEN(a_leased_job_of_a_run_is_ended, make_scene, remove_scene)
{
    write_log(end_the_leased);
    expect_clean();
    assert_int_equal(scene.report.shard[0].leased, 0);
    assert_int_equal(scene.report.shard[0].cold, 17);
    assert_int_equal(scene.report.shard[0].delayed, 18);
}

static void end_in_the_wrong_slot(void)
{
    finish("x", slot(2, 0)); /* where b0 lies */
    finish("b0", slot(2, 0));
    set_totals(2 * JOBS + 1, 4);
}

CLAIM_BETWEEN(an_end_in_the_slot_of_another_job_is_found_by_the_totals, make_scene, remove_scene)
{
    write_log(end_in_the_wrong_slot);
    examine();
    the_finding("", "the totals of topic 'orders' do not add up");
}

static void new_topic(void)
{
    push_to("fresh", "f", RECORD_PUSHED);
}

CLAIM_BETWEEN(unrecorded_totals_are_not_checked, make_scene, remove_scene)
{
    write_log(new_topic);
    expect_clean();
    assert_int_equal(scene.report.shard[0].topics, 3);
}

CLAIMS_MAIN(NULL, NULL)
