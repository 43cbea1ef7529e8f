/* Depots with thousands of jobs: tables that are merged by size, and jobs that a checkpoint rewrites. */
#include "unit/claim.h"
#include "unit/fault_calls.h"

#include "depot_crowd.h"

enum { TABLE = 5000 }; /* above the smallest distinguished size */

static struct crowd crowd;

static void start(uint32_t keys_fan, uint64_t keys_entries_max, uint64_t slack_bytes)
{
    crowd_start(&crowd);
    crowd.options.keys_fan = keys_fan;
    crowd.options.keys_entries_max = keys_entries_max;
    crowd.options.slack_bytes = slack_bytes;
    crowd_reopen(&crowd);
}

/* Returns the number of entries of the table made of `tables`; 0: no merge was due. */
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

CLAIM(tables_of_one_size_become_one_of_the_next)
{
    struct record_place place;

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

CLAIM(no_table_exceeds_its_limit)
{
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

CLAIM(a_table_with_a_third_dead_is_rewritten_separately)
{
    struct record_place place;

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

CLAIM(a_dead_table_is_not_merged)
{
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

/* They end between the merge's beginning and its end. */
CLAIM(a_merge_without_live_entries_leaves_no_table)
{
    struct depot_keys_merge merging;

    start(2, 0, 0);
    crowd_write(&crowd, 0, 100);
    crowd_write(&crowd, 100, 100);
    assert_true(depot_keys_wanted(crowd.depot, &merging));
    crowd_release(&crowd, 1, 0, 100, 1);
    crowd_release(&crowd, 2, 0, 100, 1);
    assert_int_equal(depot_keys_merge(crowd.depot, &merging, UINT64_MAX), 0);
    assert_null(merging.made);
    assert_true(depot_keys_install(crowd.depot, &merging));
    crowd_commit(&crowd);
    assert_int_equal(tables() + depot_view(crowd.depot)->run_count, 0);
    crowd_end(&crowd);
}

CLAIM(no_merge_begins_during_a_checkpoint)
{
    struct depot_build build = {0};
    struct depot_keys_merge merging;

    start(2, 0, 0);
    crowd_write(&crowd, 0, 100);
    crowd_write(&crowd, 100, 100);
    crowd_plan(&crowd, &build, 200, 10);
    assert_false(depot_keys_wanted(crowd.depot, &merging));
    crowd_finish(&crowd, &build);
    assert_int_equal(merge(2), 200);
    crowd_end(&crowd);
}

/* ---- checkpoints ---- */

/* Far more than there are items, and not a word of them from the engine. */
CLAIM(live_jobs_of_a_victim_are_written_automatically)
{
    struct depot_build build = {0};
    struct depot_stats stats;
    struct record_place place;

    start(6, 0, 1);
    crowd_write(&crowd, 0, 2 * TABLE);
    crowd_release(&crowd, 1, 1, TABLE, 2);
    crowd_release(&crowd, 1, TABLE, TABLE / 2, 2); /* and all of its second half */
    assert_true(depot_wants_checkpoint(crowd.depot, false));
    crowd_plan(&crowd, &build, 0, 0);
    assert_int_equal(build.victim_count, 1);
    crowd_finish(&crowd, &build);
    depot_stats(crowd.depot, &stats);
    assert_int_equal(stats.runs, 1);
    assert_int_equal(stats.slots_alive, TABLE / 2);
    assert_int_equal(crowd_find(&crowd, 2 * 777, &place), 1);
    assert_int_equal(place.at, 777);
    assert_int_equal(crowd_find(&crowd, 2 * 777 + 1, &place), 0);
    crowd_end(&crowd);
}

/* Then only what lets log files go is written. */
CLAIM(without_space_no_victim_is_chosen)
{
    struct depot_build build = {.no_victims = true};

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

CLAIM(a_victim_with_an_unreadable_directory_stays)
{
    struct depot_build build = {0};
    struct record_place place;

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

/* Reads a record that is not a job, like damage in the log. */
static int read_what_is_no_job(void *ctx, struct record_place place, struct buffer *scratch,
                               struct slice *out)
{
    const struct record state = {.kind = RECORD_STATE,
                                 .state = {.key = crowd_key(5), .state = JOB_DELAYED, .due_ms = 5}};
    char bytes[CROWD_RECORD_BYTES_MAX];

    if (place.at != 5 && place.at != 6)
        return crowd_read_log(ctx, place, scratch, out);
    buffer_clear(scratch);
    buffer_append(scratch, bytes, record_encode(&state, bytes));
    *out = buffer_slice(scratch);
    out->len -= place.at == 6; /* and a byte is missing */
    return scratch->failed ? -ENOMEM : 0;
}

CLAIM(an_item_without_a_job_fails_separately)
{
    struct depot_build build = {0};
    struct record_place place;

    start(6, 0, 0);
    crowd_plan(&crowd, &build, 0, 10);
    build.read_log = read_what_is_no_job;
    assert_int_equal(depot_build(&build), 0);
    assert_int_equal(build.failed, 2);
    assert_int_equal(build.slots, 8);
    assert_int_equal(build.items[8].id + build.items[9].id, 6 + 7);
    crowd_settle(&crowd, &build);
    crowd_commit(&crowd);
    depot_build_fini(&build);
    assert_int_equal(crowd_find(&crowd, 7, &place), 1);
    assert_int_equal(crowd_find(&crowd, 5, &place), 0);
    crowd_end(&crowd);
}

/* ---- given up after it was installed ---- */

CLAIM(a_checkpoint_of_nothing_can_be_given_up)
{
    struct depot_build build = {0};

    start(6, 0, 0);
    crowd_plan(&crowd, &build, 0, 0);
    assert_int_equal(depot_build(&build), 0);
    assert_int_equal(build.run, 0);
    assert_true(depot_install(crowd.depot, &build));
    assert_false(depot_wants_checkpoint(crowd.depot, false)); /* one at a time */
    depot_abandon(crowd.depot, &build);
    depot_build_fini(&build);
    assert_int_equal(depot_view(crowd.depot)->run_count, 0);
    crowd_end(&crowd);
}

/* With a victim that moved and one that did not. */
CLAIM(given_up_all_victims_count_as_before)
{
    struct depot_build build = {0};
    struct depot_stats before, after;
    struct record_place place;
    struct run_slot slot;

    start(6, 0, 1);
    crowd_write(&crowd, 0, TABLE);
    crowd_write(&crowd, TABLE, TABLE);
    crowd_release(&crowd, 1, 1, TABLE / 2, 2);
    crowd_release(&crowd, 2, 1, TABLE / 2, 2);
    depot_stats(crowd.depot, &before);
    crowd_plan(&crowd, &build, 2 * TABLE, 10);
    assert_int_equal(build.victim_count, 2);
    assert_int_equal(run_slots(depot_view(crowd.depot)->runs[1]->run, 100, 1, true, &slot), 0);
    sim_fs_damage(&crowd.sim, "shard/run/00000002.run", (int64_t)slot.offset + 8, 4);
    assert_int_equal(depot_build(&build), 0);
    assert_int_equal(build.kept, 1);
    assert_true(depot_install(crowd.depot, &build));
    assert_int_equal(record_place_run(depot_moved(crowd.depot, crowd_place(1, 0))), 3);
    assert_int_equal(record_place_run(depot_moved(crowd.depot, crowd_place(2, 0))), 2);
    depot_abandon(crowd.depot, &build);
    depot_build_fini(&build);
    depot_check(crowd.depot);
    depot_stats(crowd.depot, &after);
    assert_int_equal(after.slots_alive, before.slots_alive);
    assert_int_equal(after.alive_bytes, before.alive_bytes);
    assert_int_equal(crowd_find(&crowd, 2, &place), 1);
    assert_int_equal(record_place_run(place), 1);
    crowd_end(&crowd);
}

/* ---- memory ---- */

CLAIM(a_victim_without_memory_for_its_slots_is_written_later)
{
    enum { BEFORE_THE_DISK = 10 }; /* allocations until a file is made */
    struct depot_build build = {0};

    start(6, 0, 1);
    crowd_write(&crowd, 0, 2 * TABLE);
    crowd_release(&crowd, 1, 1, TABLE, 2);
    for (int n = 0; n < BEFORE_THE_DISK; n++) {
        int result;

        crowd_plan(&crowd, &build, 0, 0);
        assert_int_equal(build.victim_count, 1);
        calls_left = n;
        result = depot_build(&build);
        calls_left = -1;
        assert_int_equal(result, -ENOMEM);
        assert_non_null(strstr(build.error, "emory"));
        depot_abandon(crowd.depot, &build);
        depot_build_fini(&build);
        depot_check(crowd.depot);
    }
    crowd_plan(&crowd, &build, 0, 0);
    crowd_finish(&crowd, &build);
    assert_int_equal(depot_view(crowd.depot)->run_count, 1);
    assert_int_equal(depot_view(crowd.depot)->runs[0]->alive.slots, TABLE);
    crowd_end(&crowd);
}

static void count_met(void *ctx, const struct depot_want *want, const struct record *record)
{
    (void)want;
    (void)record;
    ++*(uint32_t *)ctx;
}

/* More than there is room for at first. */
CLAIM(a_batch_look_up_succeeds_or_reports_missing_memory)
{
    struct depot_want *wants = calloc(TABLE, sizeof *wants);
    int result = -ENOMEM, refused = 0;
    uint32_t met = 0;

    assert_non_null(wants);
    start(6, 0, 0);
    crowd_write(&crowd, 0, TABLE);
    for (int n = 0; result < 0; n++) {
        met = 0;
        for (uint32_t i = 0; i < TABLE; i++)
            wants[i] = (struct depot_want){.key = crowd_key(i)};
        for (uint32_t i = 0; i < TABLE; i += 2)
            wants[i].place = (struct record_place){.file = 1 | RECORD_IN_RUN, .at = i, .bytes = 1};
        calls_left = n;
        result =
            depot_find_many(depot_view(crowd.depot), CROWD_SEED, wants, TABLE, count_met, &met);
        calls_left = -1;
        refused += result == -ENOMEM;
        assert_true(result == 0 || result == -ENOMEM);
    }
    assert_true(refused > 5);
    assert_int_equal(met, TABLE);
    free(wants);
    crowd_end(&crowd);
}

CLAIMS_MAIN(NULL, NULL)
