#include "unit/claim.h"
#include "unit/seed.h"

#include "depot_scene.h"

/* Tables of keys become one in steps, and the depot continues between them. */

enum { JOBS_A_RUN = 100, STEP = 70 };

static struct sim_fs sim;

static void reopen(struct rig *rig)
{
    depot_close(rig->depot);
    rig->depot = NULL;
    if (rig_open(rig) < 0)
        fail_msg("%s", rig->error);
    rig_find_all(rig);
}

static void make_three_tables(struct rig *rig)
{
    for (uint32_t i = 0; i < 3; i++) {
        scene_push_all(rig, i * JOBS_A_RUN, JOBS_A_RUN);
        scene_run(rig);
    }
}

/* Begins a merge, and does its first step. */
static void begin(struct rig *rig, struct depot_keys_merge *merge)
{
    make_three_tables(rig);
    assert_true(depot_keys_wanted(rig->depot, merge));
    assert_int_equal(merge->table_count, 3);
    assert_int_equal(depot_keys_merge(rig->depot, merge, STEP), 1);
}

static uint32_t steps_left(struct rig *rig, struct depot_keys_merge *merge)
{
    uint32_t steps = 1;

    for (int result; (result = depot_keys_merge(rig->depot, merge, STEP)) != 0; steps++)
        assert_int_equal(result, 1);
    return steps;
}

static void install(struct rig *rig, struct depot_keys_merge *merge)
{
    assert_true(depot_keys_install(rig->depot, merge));
    depot_check(rig->depot);
}

static void commit(struct rig *rig)
{
    scene_commit_now(rig);
    depot_tidy(rig->depot);
}

/* Reopens and checks that the same jobs are found. */
static void reopen_and_end(struct rig *rig)
{
    reopen(rig);
    scene_end(rig);
}

static void finish_all(struct rig *rig, uint32_t first, uint32_t count)
{
    for (uint32_t job = first; job < first + count; job++)
        rig_finish(rig, job);
}

static uint32_t files_of(const char *suffix)
{
    uint32_t count = 0;

    for (int i = 0; i < sim.now.count; i++) {
        const char *name = sim.now.entries[i].name;
        size_t len = strlen(name), its = strlen(suffix);

        count += len > its && strcmp(name + len - its, suffix) == 0;
    }
    return count;
}

CLAIM(a_merge_in_steps_equals_one_merge)
{
    struct rig *rig = scene_start(&sim, 1);
    struct depot_keys_merge merge;

    begin(rig, &merge);
    assert_false(depot_keys_wanted(rig->depot, &(struct depot_keys_merge){0})); /* one at a time */
    assert_int_equal(steps_left(rig, &merge), 4);
    assert_int_equal(keys_count(merge.made), 3 * JOBS_A_RUN);
    install(rig, &merge);
    commit(rig);
    assert_int_equal(depot_view(rig->depot)->table_count, 1);
    assert_int_equal(files_of(".keys"), 1);
    rig_find_all(rig);
    reopen_and_end(rig);
}

/* Its number was taken first, and its place is last. */
CLAIM(a_table_installed_behind_newer_ones_is_found_after_a_restart)
{
    struct rig *rig;
    struct depot_keys_merge merge;

    rig = scene_start(&sim, 1);
    begin(rig, &merge);
    scene_push_all(rig, 3 * JOBS_A_RUN, JOBS_A_RUN);
    scene_run(rig);
    rig_find_all(rig);
    steps_left(rig, &merge);
    install(rig, &merge);
    commit(rig);
    assert_int_equal(depot_view(rig->depot)->table_count, 2);
    rig_find_all(rig);
    reopen(rig);
    assert_int_equal(depot_view(rig->depot)->table_count, 2);
    scene_end(rig);
}

/* A moved job has its keys in the table of its new run. */
CLAIM(runs_may_be_rewritten_while_their_keys_are_merged)
{
    struct rig *rig;
    struct depot_keys_merge merge;
    struct depot_build build;

    rig = scene_start(&sim, 1);
    make_three_tables(rig);
    rig->options.slack_bytes = 30000;
    reopen(rig);
    assert_true(depot_keys_wanted(rig->depot, &merge));
    assert_int_equal(depot_keys_merge(rig->depot, &merge, STEP), 1);
    finish_all(rig, 10, 80);
    scene_write_all(rig, &build);
    assert_int_equal(build.victim_count, 1);
    assert_int_equal(depot_keys_merge(rig->depot, &merge, STEP), 1);
    scene_settle_all(rig, &build);
    scene_commit_now(rig);
    depot_build_fini(&build);
    depot_tidy(rig->depot);
    assert_null(depot_view_run(depot_view(rig->depot), 1));
    rig_find_all(rig);
    steps_left(rig, &merge);
    install(rig, &merge);
    rig_find_all(rig);
    commit(rig);
    assert_int_equal(files_of(".run"), 3);
    assert_int_equal(files_of(".keys"), 2);
    reopen_and_end(rig);
}

CLAIM(a_merge_without_live_entries_creates_no_table)
{
    struct rig *rig = scene_start(&sim, 1);
    struct depot_keys_merge merge;

    make_three_tables(rig);
    assert_true(depot_keys_wanted(rig->depot, &merge));
    finish_all(rig, 0, 3 * JOBS_A_RUN);
    scene_run(rig);
    depot_tidy(rig->depot);
    assert_int_equal(depot_view(rig->depot)->run_count, 0);
    steps_left(rig, &merge);
    assert_null(merge.made);
    install(rig, &merge);
    commit(rig);
    assert_int_equal(files_of(".keys") + files_of(".run") + files_of(".new"), 0);
    assert_int_equal(depot_view(rig->depot)->table_count, 0);
    reopen_and_end(rig);
}

/* Every job of the merged runs ends between two steps, after some were taken over. */
CLAIM(an_unneeded_table_is_removed_with_the_next_commit)
{
    struct rig *rig = scene_start(&sim, 1);
    struct depot_keys_merge merge;

    begin(rig, &merge);
    finish_all(rig, 0, 3 * JOBS_A_RUN);
    scene_run(rig);
    depot_tidy(rig->depot);
    steps_left(rig, &merge);
    assert_int_equal(keys_count(merge.made), STEP);
    install(rig, &merge);
    assert_true(depot_maybe(rig->depot, rig_key(0)) || depot_is_absent(rig->depot, rig_key(0)));
    rig_find_all(rig); /* hints that lead nowhere */
    commit(rig);
    assert_int_equal(files_of(".keys"), 0);
    reopen_and_end(rig);
}

CLAIM(a_merge_given_up_between_steps_leaves_no_file)
{
    struct rig *rig = scene_start(&sim, 1);
    struct depot_keys_merge merge;

    for (int when = 0; when < 2; when++) {
        uint32_t jobs = when ? 3 * JOBS_A_RUN : 0; /* the second: after its last step */

        if (when == 0)
            begin(rig, &merge);
        else
            assert_true(depot_keys_wanted(rig->depot, &merge));
        if (jobs)
            steps_left(rig, &merge);
        depot_keys_abandon(rig->depot, &merge);
        depot_check(rig->depot);
        assert_int_equal(files_of(".keys"), 3);
        assert_int_equal(files_of(".new"), 0);
        rig_find_all(rig);
    }
    assert_true(depot_keys_wanted(rig->depot, &merge));
    steps_left(rig, &merge);
    install(rig, &merge);
    scene_commit_now(rig);
    reopen(rig);
    assert_int_equal(depot_view(rig->depot)->table_count, 1);
    scene_end(rig);
}

CLAIM(a_crash_between_steps_loses_nothing)
{
    struct rig *rig = scene_start(&sim, 1);
    struct depot_keys_merge merge;

    begin(rig, &merge);
    assert_int_equal(files_of(".keys.new"), 1);
    sim.is_down = true;
    depot_keys_abandon(rig->depot, &merge);
    depot_close(rig->depot);
    sim_fs_crash(&sim, SIM_KEEP_ALL);
    assert_int_equal(rig_open(rig), 0);
    assert_int_equal(depot_view(rig->depot)->table_count, 3);
    rig_find_all(rig);
    assert_true(depot_keys_wanted(rig->depot, &merge));
    steps_left(rig, &merge);
    install(rig, &merge);
    commit(rig);
    assert_int_equal(files_of(".keys"), 1);
    assert_int_equal(files_of(".keys.new"), 0); /* it had the same number */
    reopen_and_end(rig);
}

/* ---- depot_is_absent ---- */

/* A key without a job for which a filter, once read, returns maybe. */
static struct hash128 false_maybe(const struct rig *rig)
{
    struct random random = {.state = 4};

    for (;;) {
        struct hash128 key = {.high = 1, .low = random_next(&random)};

        if (depot_maybe(rig->depot, key))
            return key;
    }
}

static void load_filters(struct rig *rig)
{
    struct depot_view *view = depot_hold(rig->depot);

    assert_int_equal(depot_load_filters(view), 0);
    depot_let_go(view);
}

CLAIM(a_key_is_absent_only_if_that_is_certain)
{
    struct rig *rig = scene_start(&sim, 1);
    struct hash128 stranger;

    assert_true(depot_is_absent(rig->depot, rig_key(0)));
    scene_push_all(rig, 0, RIG_JOBS);
    scene_run(rig);
    load_filters(rig);
    stranger = false_maybe(rig);
    for (uint32_t job = 0; job < RIG_JOBS; job++)
        assert_false(depot_is_absent(rig->depot, rig_key(job)));
    assert_true(depot_is_absent(rig->depot, stranger));
    sim.is_cold = true; /* it would have to wait for the disk */
    assert_false(depot_is_absent(rig->depot, stranger));
    sim.is_cold = false;
    sim.fail_read_at = sim.reads + 1;
    assert_false(depot_is_absent(rig->depot, stranger));
    assert_true(depot_is_absent(rig->depot, stranger));
    scene_end(rig);
}

CLAIM(a_key_is_absent_only_if_every_table_lacks_it)
{
    struct rig *rig = scene_start(&sim, 1);

    for (uint32_t i = 0; i < 2; i++) {
        scene_push_all(rig, i * JOBS_A_RUN, JOBS_A_RUN);
        scene_run(rig);
    }
    for (uint32_t job = 0; job < 2 * JOBS_A_RUN; job++)
        assert_false(depot_is_absent(rig->depot, rig_key(job)));
    reopen(rig);
    depot_close(rig->depot);
    assert_int_equal(rig_open(rig), 0); /* without filters */
    for (uint32_t job = 0; job < RIG_JOBS; job++)
        assert_int_equal(depot_is_absent(rig->depot, rig_key(job)), job >= 2 * JOBS_A_RUN);
    scene_end(rig);
}

CLAIMS_MAIN(NULL, NULL)
