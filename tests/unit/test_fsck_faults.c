/* Every call to the disk, and every allocation, fails once while fsck looks and while it mends:
 * what is damaged is never called clean, and what could not be mended is mended by the next. */
#include "fault_calls.h"
#include "fsck_rig.h"

/* ---- claims ---- */

enum { CALLS_MAX = 4000 };

/* Whether it came to its end before the call that was to fail. */
static bool look_with_fault(int64_t call, int *result)
{
    failed = 0;
    calls_left = call;
    *result = fsck_run(scene.dir, &scene.report);
    calls_left = -1;
    if (*result < 0)
        assert_true(*scene.report.error != '\0');
    return failed == 0;
}

static void damage_is_never_called_clean_whatever_the_disk_says(void **state)
{
    bool is_through = false;
    int result;

    (void)state;
    flip("00000002.run", scene.second_at + 30);
    for (int64_t call = 0; !is_through && call < CALLS_MAX; call++) {
        is_through = look_with_fault(call, &result);
        if (result == 0 && scene.report.finding_count == 0)
            fail_msg("clean, though call %ld failed", (long)call);
    }
    assert_true(is_through);
}

static void looking_with_a_failing_disk_leaves_a_sound_shard_sound(void **state)
{
    bool is_through = false;
    int result;

    (void)state;
    for (int64_t call = 0; !is_through && call < CALLS_MAX; call++)
        is_through = look_with_fault(call, &result);
    assert_true(is_through);
    expect_clean();
    assert_int_equal(scene.report.shard[0].far, 18);
}

/* Each time from the same damage. Whether the repair fails or not, the next one ends it. */
static void mend_with_faults(void (*damage)(void), bool accept_loss, unsigned stride)
{
    bool is_through = false;

    for (int64_t call = 0; !is_through && call < CALLS_MAX; call += stride) {
        const struct fsck_options options = {.repair = true, .accept_loss = accept_loss};
        int result;

        assert_int_equal(make_scene(NULL), 0);
        damage();
        failed = 0;
        calls_left = call;
        result = fsck_run_with(scene.dir, &options, &scene.report);
        calls_left = -1;
        is_through = failed == 0;
        assert_true(result == 0 || *scene.report.error);
        repair(accept_loss);
        expect_clean();
        if (!accept_loss) /* else what could not be read that time is given up, too */
            assert_int_equal(scene.report.shard[0].far, 18);
        assert_true(scene.report.shard[0].far > 0);
        remove_scene(NULL);
    }
    assert_true(is_through);
}

static void lose_a_table(void)
{
    remove_file("00000002.keys");
}

static void break_a_record(void)
{
    flip("00000002.run", scene.second_at + 30);
}

static void a_repair_that_the_disk_interrupts_is_made_by_the_next(void **state)
{
    (void)state;
    mend_with_faults(lose_a_table, false, 9);
}

static void giving_up_a_job_that_the_disk_interrupts_is_done_by_the_next(void **state)
{
    (void)state;
    mend_with_faults(break_a_record, true, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(damage_is_never_called_clean_whatever_the_disk_says,
                                        make_scene, remove_scene),
        cmocka_unit_test_setup_teardown(looking_with_a_failing_disk_leaves_a_sound_shard_sound,
                                        make_scene, remove_scene),
        cmocka_unit_test(a_repair_that_the_disk_interrupts_is_made_by_the_next),
        cmocka_unit_test(giving_up_a_job_that_the_disk_interrupts_is_done_by_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
