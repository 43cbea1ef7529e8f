#include "unit/claim.h"
#include "unit/seed.h"

#include "depot_scene.h"

/* Single promises of the depot, each with a scene of its own. */

CLAIM(a_slot_is_released_once)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);
    struct depot_stats stats;
    enum job_section section = SECTIONS;
    struct record_place place, stranger;

    scene_push_all(rig, 0, 20);
    scene_run(rig);
    place = rig->jobs[3].place;
    stranger = (struct record_place){.file = 99 | RECORD_IN_RUN, .at = 1, .bytes = 10};
    depot_stats(rig->depot, &stats);
    assert_int_equal(stats.slots_alive, 20);
    assert_true(depot_is_alive(rig->depot, place));
    assert_int_equal(depot_release(rig->depot, place, &section), DEPOT_RELEASED);
    assert_true(section == SECTION_DELAYED || section == SECTION_DELAYED_WALL ||
                section == SECTION_DEAD);
    assert_false(depot_is_alive(rig->depot, place));
    assert_int_equal(depot_release(rig->depot, place, &section), DEPOT_WAS_DEAD);
    assert_int_equal(depot_release(rig->depot, stranger, &section), DEPOT_NEVER_COMMITTED);
    depot_stats(rig->depot, &stats);
    assert_int_equal(stats.slots_alive, 19);
    depot_check(rig->depot);
    scene_end(rig);
}

CLAIM(a_dead_run_goes_once_no_view_holds_it)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);
    struct record_place place;
    struct depot_view *view;
    struct buffer scratch;
    struct slice bytes;

    scene_push_all(rig, 0, 20);
    scene_run(rig);
    place = rig->jobs[7].place;
    for (uint32_t job = 0; job < 20; job++)
        rig_finish(rig, job);
    view = depot_hold(rig->depot);
    scene_commit_now(rig);
    depot_tidy(rig->depot);
    assert_int_equal(depot_view(rig->depot)->run_count, 0);
    assert_int_equal(depot_view(rig->depot)->table_count, 0);
    assert_true(scene_has_file(rig, "shard/run/00000001.run"));
    buffer_init(&scratch, 1 << 16);
    assert_int_equal(depot_read(view, place, true, &scratch, &bytes), 0);
    buffer_fini(&scratch);
    depot_let_go(view);
    depot_tidy(rig->depot);
    assert_false(scene_has_file(rig, "shard/run/00000001.run"));
    assert_false(scene_has_file(rig, "shard/run/00000001.keys"));
    scene_end(rig);
}

CLAIM(nothing_goes_while_held_back)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);

    scene_push_all(rig, 0, 20);
    scene_run(rig);
    for (uint32_t job = 0; job < 20; job++)
        rig_finish(rig, job);
    depot_hold_back(rig->depot, true);
    depot_hold_back(rig->depot, true);
    scene_commit_now(rig);
    depot_hold_back(rig->depot, false);
    depot_tidy(rig->depot);
    assert_true(scene_has_file(rig, "shard/run/00000001.run"));
    assert_false(depot_wants_checkpoint(rig->depot, false));
    depot_hold_back(rig->depot, false);
    depot_tidy(rig->depot);
    assert_false(scene_has_file(rig, "shard/run/00000001.run"));
    scene_end(rig);
}

CLAIM(an_uncommitted_run_is_removed_but_its_number_stays_taken)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);
    struct depot_build build;

    scene_push_all(rig, 0, 20);
    scene_write_all(rig, &build);
    scene_settle_all(rig, &build);
    depot_build_fini(&build);
    depot_close(rig->depot); /* as a crash before the commit */
    assert_true(scene_size_of(rig, "shard/run/00000001.run") > 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rig_open(rig), 0);
        assert_int_equal(scene_size_of(rig, "shard/run/00000001.run"), 0);
        assert_false(scene_has_file(rig, "shard/run/00000001.keys"));
        if (i == 0)
            depot_close(rig->depot);
    }
    scene_run(rig);
    depot_tidy(rig->depot);
    assert_false(scene_has_file(rig, "shard/run/00000001.run"));
    assert_true(scene_has_file(rig, "shard/run/00000002.run"));
    scene_end(rig);
}

CLAIM(a_damaged_catalog_is_refused_and_nothing_removed)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);

    scene_push_all(rig, 0, 20);
    scene_run(rig);
    depot_close(rig->depot);
    sim_fs_damage(&sim, "shard/run/CATALOG-00000001", 40, 1);
    sim_fs_damage(&sim, "shard/run/CATALOG-00000001.2", 40, 1);
    assert_int_equal(rig_open(rig), -EBADMSG);
    assert_non_null(strstr(rig->error, "CATALOG-00000001"));
    assert_true(scene_size_of(rig, "shard/run/00000001.run") > 0);
    sim_fs_damage(&sim, "shard/run/CATALOG-00000001", 40, 1);
    assert_int_equal(rig_open(rig), 0);
    scene_end(rig);
}

CLAIM(a_missing_run_is_refused_by_name)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);

    scene_push_all(rig, 0, 20);
    scene_run(rig);
    depot_close(rig->depot);
    assert_int_equal(sim.fs.ops->unlink(&sim, "shard/run/00000001.run"), 0);
    assert_true(rig_open(rig) < 0);
    assert_non_null(strstr(rig->error, "00000001.run"));
    scene_end(rig);
}

CLAIM(an_item_that_cannot_be_read_stays_last)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);
    struct depot_build build;

    scene_push_all(rig, 0, 20);
    rig->unreadable = 5;
    scene_write_all(rig, &build);
    assert_int_equal(build.failed, 1);
    assert_int_equal(build.slots, 19);
    assert_int_equal(build.count, 20);
    assert_true(build.items[19].failed && build.items[19].id == 5);
    depot_abandon(rig->depot, &build);
    depot_build_fini(&build);
    assert_false(scene_has_file(rig, "shard/run/00000001.run"));
    rig->unreadable = 0;
    scene_run(rig);
    rig_find_all(rig);
    scene_end(rig);
}

/* Flips a bit of some record of run 1 that is alive and not in the log. */
static void damage_record(struct rig *rig, uint32_t job)
{
    struct run_slot slot;
    const struct depot_run *run = depot_view_run(depot_view(rig->depot), 1);

    assert_int_equal(run_slots(run->run, rig->jobs[job].place.at, 1, true, &slot), 0);
    sim_fs_damage(rig->sim, "shard/run/00000001.run", (int64_t)slot.offset + 8, 4);
}

/* So small that anything dead is too much. */
CLAIM(a_victim_with_damage_stays_whole)
{
    for (uint64_t seed = 1; seed < 40; seed++) {
        static struct sim_fs sim;
        struct rig *rig = scene_start(&sim, seed);
        struct depot_build build;
        struct record_place place;
        uint32_t lives = 0;

        depot_close(rig->depot);
        rig->options.slack_bytes = 1;
        assert_int_equal(rig_open(rig), 0);
        scene_push_all(rig, 0, 100);
        scene_run(rig);
        for (uint32_t job = 0; job < 60; job++)
            rig_finish(rig, job);
        damage_record(rig, 80);
        place = rig->jobs[80].place;
        build = (struct depot_build){.read_log = rig_read_log, .apply = rig_apply, .ctx = rig};
        assert_int_equal(depot_plan(rig->depot, &build), 0);
        assert_int_equal(build.victim_count, 1);
        scene_push_all(rig, 200, 30);
        rig_collect(rig, &build, rig->log_count);
        assert_int_equal(depot_build(&build), 0);
        rig_free_changed(&build);
        assert_int_equal(build.kept, 1);
        scene_settle_all(rig, &build);
        depot_check(rig->depot);
        scene_commit_now(rig);
        depot_build_fini(&build);
        depot_tidy(rig->depot);
        assert_true(depot_is_alive(rig->depot, place));
        assert_true(rig_same_place(rig->jobs[80].place, place));
        for (uint32_t job = 0; job < RIG_JOBS; job++)
            if (rig->jobs[job].is_alive) {
                assert_true(depot_is_alive(rig->depot, rig->jobs[job].place));
                lives++;
            }
        struct depot_stats stats;
        depot_stats(rig->depot, &stats);
        assert_int_equal(stats.slots_alive, lives);
        scene_end(rig);
    }
}

CLAIM(dead_fronts_are_punched)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);
    struct depot_stats before, after;

    scene_push_all(rig, 0, RIG_JOBS);
    scene_run(rig);
    depot_tidy(rig->depot);
    for (uint32_t job = 0; job < RIG_JOBS; job++)
        if (rig->jobs[job].place.at < RIG_JOBS * 3 / 4)
            rig_finish(rig, job);
    depot_stats(rig->depot, &before);
    depot_tidy(rig->depot);
    depot_stats(rig->depot, &after);
    assert_int_equal(before.bytes_on_disk, after.bytes_on_disk); /* not committed yet */
    scene_commit_now(rig);
    depot_tidy(rig->depot);
    depot_stats(rig->depot, &after);
    assert_true(after.bytes_on_disk < before.bytes_on_disk - 16384);
    assert_true(after.garbage_bytes < before.garbage_bytes);
    depot_check(rig->depot);
    depot_close(rig->depot);
    assert_int_equal(rig_open(rig), 0);
    depot_stats(rig->depot, &before);
    assert_int_equal(before.bytes_on_disk, after.bytes_on_disk);
    rig_find_all(rig);
    scene_end(rig);
}

/* A job that died after the snapshot may be alive again after a crash. */
CLAIM(nothing_newer_than_the_catalog_is_punched)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);
    struct depot_stats before, after;
    struct catalog catalog;
    bool fatal;

    scene_push_all(rig, 0, RIG_JOBS);
    scene_run(rig);
    depot_tidy(rig->depot);
    depot_stats(rig->depot, &before);
    assert_int_equal(depot_snapshot(rig->depot, 1, rig->log_count, NULL, 0, 5, 6, &catalog), 0);
    for (uint32_t job = 1; job < RIG_JOBS; job++)
        rig_finish(rig, job);
    assert_int_equal(depot_commit(rig->depot, &catalog, &fatal), 0);
    depot_tidy(rig->depot);
    depot_committed(rig->depot, &catalog);
    depot_tidy(rig->depot);
    depot_stats(rig->depot, &after);
    assert_int_equal(before.bytes_on_disk, after.bytes_on_disk);
    scene_commit_now(rig);
    depot_tidy(rig->depot);
    depot_stats(rig->depot, &after);
    assert_true(after.bytes_on_disk < before.bytes_on_disk);
    scene_end(rig);
}

CLAIM(one_given_up_after_it_could_be_named_keeps_its_number)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);
    struct depot_build build;

    scene_push_all(rig, 0, 20);
    scene_write_all(rig, &build);
    assert_true(depot_install(rig->depot, &build));
    depot_abandon(rig->depot, &build);
    depot_build_fini(&build);
    depot_check(rig->depot);
    depot_tidy(rig->depot);
    assert_int_equal(scene_size_of(rig, "shard/run/00000001.run"), 0);
    depot_close(rig->depot);
    assert_int_equal(rig_open(rig), 0);
    scene_run(rig);
    depot_tidy(rig->depot);
    assert_false(scene_has_file(rig, "shard/run/00000001.run"));
    assert_true(scene_size_of(rig, "shard/run/00000002.run") > 0);
    rig_find_all(rig);
    scene_end(rig);
}

/* So many of one size are made one, without what is dead. */
CLAIM(tables_stay_few_and_lose_their_dead)
{
    static struct sim_fs sim;
    struct rig *rig = scene_start(&sim, 1);
    struct depot_keys_merge merge;

    for (uint32_t i = 0; i < 3; i++) {
        scene_push_all(rig, i * 100, 100);
        assert_false(depot_keys_wanted(rig->depot, &merge));
        scene_run(rig);
    }
    for (uint32_t job = 0; job < 50; job++)
        rig_finish(rig, job);
    assert_true(depot_keys_wanted(rig->depot, &merge));
    assert_int_equal(merge.table_count, 3);
    assert_int_equal(depot_keys_merge(rig->depot, &merge, UINT64_MAX), 0);
    assert_int_equal(keys_count(merge.made), 250);
    assert_true(depot_keys_install(rig->depot, &merge));
    assert_true(scene_has_file(rig, "shard/run/00000001.keys")); /* the catalog still names it */
    rig_find_all(rig);
    scene_commit_now(rig);
    depot_tidy(rig->depot);
    assert_false(scene_has_file(rig, "shard/run/00000001.keys"));
    assert_int_equal(depot_view(rig->depot)->table_count, 1);
    rig_find_all(rig);
    scene_end(rig);
}

CLAIMS_MAIN(NULL, NULL)
