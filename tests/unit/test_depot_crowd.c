/* Depots with thousands of jobs: tables that are merged by size, and what a checkpoint writes anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/depot_crowd.h"

enum { TABLE = 5000 }; /* above the smallest size that is told from smaller ones */

static struct crowd crowd;

static void start(uint32_t keys_fan, uint64_t keys_entries_max, uint64_t slack_bytes)
{
    crowd_start(&crowd);
    crowd.options.keys_fan = keys_fan;
    crowd.options.keys_entries_max = keys_entries_max;
    crowd.options.slack_bytes = slack_bytes;
    crowd_reopen(&crowd);
}

/* How many entries the table has that was made of `tables`; 0: none was wanted. */
static uint64_t merge(uint32_t tables)
{
    struct depot_keys_merge merge;
    uint64_t count;

    if (!depot_keys_wanted(crowd.depot, &merge))
        return 0;
    assert_int_equal(merge.table_count, tables);
    assert_int_equal(depot_keys_merge(crowd.depot, &merge, UINT64_MAX), 0);
    count = keys_count(merge.made);
    assert_true(depot_keys_install(crowd.depot, &merge));
    crowd_commit(&crowd);
    return count;
}

static uint32_t tables(void)
{
    return depot_view(crowd.depot)->table_count;
}

/* ---- tables of keys ---- */

static void tables_of_one_size_become_one_of_the_next(void **state)
{
    struct record_place place;

    (void)state;
    start(2, 0, 0);
    crowd_write(&crowd, 0, TABLE);
    crowd_write(&crowd, TABLE, 100);
    assert_int_equal(merge(2), 0); /* not of one size */
    crowd_write(&crowd, 2 * TABLE, TABLE);
    assert_int_equal(merge(2), 2 * TABLE);
    assert_int_equal(tables(), 2);
    crowd_write(&crowd, 3 * TABLE, TABLE);
    assert_int_equal(merge(2), 0); /* that size is left alone until it is met again */
    assert_int_equal(crowd_find(&crowd, 17, &place), 1);
    assert_int_equal(crowd_find(&crowd, 2 * TABLE + 17, &place), 1);
    assert_int_equal(crowd_find(&crowd, TABLE + 17, &place), 1);
    crowd_end(&crowd);
}

static void none_becomes_larger_than_is_allowed(void **state)
{
    (void)state;
    start(2, TABLE + 1000, 0);
    crowd_write(&crowd, 0, TABLE);
    crowd_write(&crowd, TABLE, TABLE);
    assert_int_equal(merge(2), 0); /* together they would */
    crowd_write(&crowd, 2 * TABLE, 2 * TABLE);
    crowd_write(&crowd, 4 * TABLE, 2 * TABLE);
    assert_int_equal(merge(2), 0); /* alone they are */
    assert_int_equal(tables(), 4);
    crowd_end(&crowd);
}

static void a_table_of_which_a_third_is_dead_is_written_anew_alone(void **state)
{
    struct record_place place;

    (void)state;
    start(6, 0, UINT64_MAX / 4);
    crowd_write(&crowd, 0, 300); /* a third of so few is nothing */
    crowd_release(&crowd, 1, 0, 200, 1);
    crowd_write(&crowd, TABLE, TABLE);
    assert_int_equal(merge(1), 0);
    crowd_release(&crowd, 2, 0, TABLE / 3, 2);
    assert_int_equal(merge(1), 0);
    crowd_release(&crowd, 2, 1, 1, 1);
    assert_int_equal(merge(1), TABLE - TABLE / 3 - 1);
    assert_int_equal(merge(1), 0);
    assert_int_equal(crowd_find(&crowd, TABLE + 3, &place), 1);
    assert_int_equal(crowd_find(&crowd, TABLE + 4, &place), 0);
    crowd_end(&crowd);
}

static void a_table_of_which_all_is_dead_is_not_worth_a_merge(void **state)
{
    (void)state;
    start(2, 0, 0);
    crowd_write(&crowd, 0, TABLE);
    crowd_write(&crowd, TABLE, TABLE);
    crowd_release(&crowd, 1, 0, TABLE, 1);
    crowd_release(&crowd, 2, 0, TABLE, 1);
    assert_int_equal(merge(2), 0);
    crowd_commit(&crowd);
    assert_int_equal(tables(), 0);
    crowd_end(&crowd);
}

static void no_merge_begins_while_a_checkpoint_goes_on(void **state)
{
    struct depot_build build = {0};
    struct depot_keys_merge merge_;

    (void)state;
    start(2, 0, 0);
    crowd_write(&crowd, 0, 100);
    crowd_write(&crowd, 100, 100);
    crowd_plan(&crowd, &build, 200, 10);
    assert_false(depot_keys_wanted(crowd.depot, &merge_));
    crowd_finish(&crowd, &build);
    assert_int_equal(merge(2), 200);
    crowd_end(&crowd);
}

/* ---- checkpoints ---- */

/* Far more than there are items, and not a word of them from the engine. */
static void what_lives_in_a_victim_is_written_without_being_asked_for(void **state)
{
    struct depot_build build = {0};
    struct depot_stats stats;
    struct record_place place;

    (void)state;
    start(6, 0, 1);
    crowd_write(&crowd, 0, 2 * TABLE);
    crowd_release(&crowd, 1, 1, TABLE, 2);
    assert_true(depot_wants_checkpoint(crowd.depot));
    crowd_plan(&crowd, &build, 0, 0);
    assert_int_equal(build.victim_count, 1);
    crowd_finish(&crowd, &build);
    depot_stats(crowd.depot, &stats);
    assert_int_equal(stats.runs, 1);
    assert_int_equal(stats.slots_alive, TABLE);
    assert_int_equal(crowd_find(&crowd, 2 * 777, &place), 1);
    assert_int_equal(place.at, 777);
    assert_int_equal(crowd_find(&crowd, 2 * 777 + 1, &place), 0);
    crowd_end(&crowd);
}

/* Then only what lets log files go is written. */
static void without_space_no_victim_is_chosen(void **state)
{
    struct depot_build build = {.no_victims = true};

    (void)state;
    start(6, 0, 1);
    crowd_write(&crowd, 0, 2 * TABLE);
    crowd_release(&crowd, 1, 1, TABLE, 2);
    crowd_plan(&crowd, &build, 2 * TABLE, 10);
    assert_int_equal(build.victim_count, 0);
    assert_false(depot_view(crowd.depot)->runs[0]->is_victim);
    crowd_finish(&crowd, &build);
    assert_int_equal(depot_view(crowd.depot)->run_count, 2);
    crowd_end(&crowd);
}

static void a_victim_whose_directory_cannot_be_read_stays(void **state)
{
    struct depot_build build = {0};
    struct record_place place;

    (void)state;
    start(6, 0, 1);
    crowd_write(&crowd, 0, 2 * TABLE);
    crowd_release(&crowd, 1, 1, TABLE, 2);
    crowd_plan(&crowd, &build, 2 * TABLE, 10);
    assert_int_equal(build.victim_count, 1);
    crowd.sim.fail_read_at = crowd.sim.reads + 5; /* some of it was read by then */
    crowd.sim.fail_errno = EIO;
    assert_int_equal(depot_build(&build), 0);
    assert_true(crowd.sim.reads > crowd.sim.fail_read_at);
    assert_int_equal(build.kept, 1);
    assert_int_equal(build.slots, 10);
    crowd_settle(&crowd, &build);
    crowd_commit(&crowd);
    depot_build_fini(&build);
    depot_tidy(crowd.depot);
    assert_int_equal(depot_view(crowd.depot)->run_count, 2);
    assert_int_equal(crowd_find(&crowd, 2 * 777, &place), 1);
    assert_int_equal(record_place_run(place), 1);
    crowd_end(&crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_one_size_become_one_of_the_next),
        cmocka_unit_test(none_becomes_larger_than_is_allowed),
        cmocka_unit_test(a_table_of_which_a_third_is_dead_is_written_anew_alone),
        cmocka_unit_test(a_table_of_which_all_is_dead_is_not_worth_a_merge),
        cmocka_unit_test(no_merge_begins_while_a_checkpoint_goes_on),
        cmocka_unit_test(what_lives_in_a_victim_is_written_without_being_asked_for),
        cmocka_unit_test(without_space_no_victim_is_chosen),
        cmocka_unit_test(a_victim_whose_directory_cannot_be_read_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
