/* Space freed from runs, and when: never of a slot that is alive in a catalog. */
#include "unit/claim.h"
#include "unit/seed.h"

#include "depot_rig.h"

static struct rig *start(struct sim_fs *sim, uint64_t slack_bytes)
{
    struct rig *rig = malloc(sizeof *rig);

    assert_non_null(rig);
    sim_fs_init(sim, 1);
    assert_int_equal(sim->fs.ops->mkdir(sim, "shard", 0700), 0);
    rig_init(rig, sim, 1);
    rig->options.slack_bytes = slack_bytes;
    assert_int_equal(rig_open(rig), 0);
    return rig;
}

static void end(struct rig *rig)
{
    depot_close(rig->depot);
    sim_fs_fini(rig->sim);
    free(rig);
}

/* ---- a checkpoint of all that is in the log, in its three parts ---- */

static void write_all(struct rig *rig, struct depot_build *build)
{
    *build = (struct depot_build){.read_log = rig_read_log, .apply = rig_apply, .ctx = rig};
    assert_int_equal(depot_plan(rig->depot, build), 0);
    rig_collect(rig, build, rig->log_count);
    assert_int_equal(depot_build(build), 0);
    rig_free_changed(build);
}

static void settle_all(struct rig *rig, struct depot_build *build)
{
    uint32_t before = rig->log_count;

    assert_true(depot_install(rig->depot, build));
    for (uint32_t i = 0; i < build->slots; i++)
        rig_settle(rig, build, i, before);
    assert_true(depot_installed(rig->depot, build));
}

static void snapshot(struct rig *rig, struct catalog *catalog)
{
    assert_int_equal(depot_snapshot(rig->depot, 1, rig->log_count, NULL, 0, 5, 6, catalog), 0);
    rig->log_synced = rig->log_count;
}

static void commit(struct rig *rig, struct catalog *catalog)
{
    bool fatal;

    assert_int_equal(depot_commit(rig->depot, catalog, &fatal), 0);
    depot_committed(rig->depot, catalog);
    rig->log_first = rig->log_synced;
    depot_tidy(rig->depot);
}

static void write_run(struct rig *rig, uint32_t jobs)
{
    struct depot_build build;
    struct catalog catalog;

    for (uint32_t job = 0; job < jobs; job++)
        rig_push(rig, job);
    write_all(rig, &build);
    settle_all(rig, &build);
    snapshot(rig, &catalog);
    commit(rig, &catalog);
    depot_build_fini(&build);
}

/* Finishes jobs in the order of their slots, from the first of the delayed on. */
static void finish(struct rig *rig, uint32_t from, uint32_t count)
{
    const struct depot_run *run = depot_view(rig->depot)->runs[0];
    uint32_t first = run_info(run->run)->sections[SECTION_DELAYED].first + from;

    for (uint32_t job = 0; job < RIG_JOBS; job++) {
        struct record_place place = rig->jobs[job].place;

        if (rig->jobs[job].is_alive && record_place_is_run(place) && place.at >= first &&
            place.at < first + count)
            rig_finish(rig, job);
    }
}

static uint64_t freed(const struct rig *rig)
{
    return depot_view(rig->depot)->runs[0]->freed;
}

/* A process that is killed, and a log of which only what had to be synced is left. */
static void kill_and_open(struct rig *rig)
{
    depot_close(rig->depot);
    rig->log_count = rig->log_synced;
    memset(rig->jobs, 0, sizeof rig->jobs);
    for (uint32_t at = 0; at < rig->log_count; at++)
        rig->jobs[rig->log[at].job] = (struct rig_job){.is_alive = rig->log[at].kind != RIG_DONE,
                                                       .version = rig->log[at].version,
                                                       .attempt = rig->log[at].attempt};
    assert_int_equal(rig_open(rig), 0); /* every slot that is alive is read and judged */
}

/* ---- claims ---- */

/* Over so many lengths that some end right behind a block of the file, and some right before. */
CLAIM(the_job_behind_a_dead_prefix_can_be_read)
{
    static struct sim_fs sim;
    uint64_t freed_most = 0;

    for (uint32_t dead = 60; dead < 100; dead++) {
        struct rig *rig = start(&sim, 60000);
        struct catalog catalog;

        write_run(rig, 200);
        finish(rig, 0, dead);
        snapshot(rig, &catalog);
        commit(rig, &catalog);
        freed_most = freed(rig) > freed_most ? freed(rig) : freed_most;
        kill_and_open(rig);
        end(rig);
    }
    assert_true(freed_most >= 8192);
}

/* They ended after the snapshot: their ends may be lost, and then they are alive. */
CLAIM(jobs_that_ended_after_the_snapshot_are_not_punched)
{
    static struct sim_fs sim;
    struct rig *rig = start(&sim, 60000);
    struct catalog catalog;

    write_run(rig, 300);
    finish(rig, 0, 60);
    snapshot(rig, &catalog);
    finish(rig, 60, 60);
    commit(rig, &catalog);
    assert_true(freed(rig) > 0);
    kill_and_open(rig);
    end(rig);
}

/* A catalog that was not written lets nothing be punched. */
CLAIM(nothing_is_punched_without_a_commit)
{
    static struct sim_fs sim;
    struct rig *rig = start(&sim, 60000);
    struct catalog catalog;

    write_run(rig, 300);
    finish(rig, 0, 120);
    snapshot(rig, &catalog);
    catalog_fini(&catalog);
    depot_tidy(rig->depot);
    assert_int_equal(freed(rig), 0);
    kill_and_open(rig);
    end(rig);
}

CLAIM(victims_are_there_until_a_catalog_leaves_them_out)
{
    static struct sim_fs sim;
    struct rig *rig = start(&sim, 1);
    struct depot_build build;
    struct catalog catalog;

    write_run(rig, 300);
    for (uint32_t job = 0; job < 300; job += 1 + job % 2)
        rig_finish(rig, job);
    assert_true(depot_wants_checkpoint(rig->depot, false));
    write_all(rig, &build);
    assert_int_equal(build.victim_count, 1);
    settle_all(rig, &build);
    depot_tidy(rig->depot);
    rig->log_synced = rig->log_count;
    depot_build_fini(&build);
    kill_and_open(rig); /* before the commit: it is whole */

    write_all(rig, &build);
    assert_int_equal(build.victim_count, 1);
    settle_all(rig, &build);
    snapshot(rig, &catalog);
    commit(rig, &catalog);
    depot_build_fini(&build); /* it held the view with the victim */
    depot_tidy(rig->depot);
    assert_null(sim_fs_bytes(&sim, "shard/run/00000001.run", NULL));
    kill_and_open(rig);
    end(rig);
}

CLAIMS_MAIN(NULL, NULL)
