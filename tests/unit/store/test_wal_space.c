#include "support/wal_owner.h"
#include "unit/claim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FILE_BYTES = 65536,
    BATCH_BYTES = 16000,
    PUSH_BYTES = 1000 /* at least what a push of 600 bytes needs */
};

struct scene {
    struct sim_fs sim;
    struct wal_owner owner;
};

static void open_scene(struct scene *scene)
{
    int result = wal_owner_open(&scene->owner, scene->owner.synced_acked);

    if (result < 0)
        print_error("%s\n", scene->owner.error);
    assert_int_equal(result, 0);
}

static struct scene *start(enum wal_sync sync)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct wal_options options;

    assert_non_null(scene);
    sim_fs_init(&scene->sim, 3);
    options = (struct wal_options){.fs = &scene->sim.fs,
                                   .dir = "shard",
                                   .file_bytes = FILE_BYTES,
                                   .batch_bytes_max = BATCH_BYTES,
                                   .recent_bytes_max = 100000,
                                   .sync = sync,
                                   .sync_interval_ms = 50};
    wal_owner_init(&scene->owner, &options, 3);
    open_scene(scene);
    return scene;
}

static void end(struct scene *scene)
{
    wal_owner_fini(&scene->owner);
    sim_fs_fini(&scene->sim);
    free(scene);
}

static struct wal_stats stats_of(const struct scene *scene)
{
    struct wal_stats stats;

    wal_stats(scene->owner.wal, &stats);
    return stats;
}

static void iterate(struct scene *scene)
{
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    assert_int_equal(wal_owner_upkeep(&scene->owner), 0);
    assert_int_equal(wal_owner_checkpoint(&scene->owner, 1), 0);
    wal_owner_ms += 10;
}

/* Runs all steps of a checkpoint. */
static void checkpoint(struct scene *scene)
{
    uint64_t before = scene->owner.checkpoints;

    for (int i = 0; i < 100 && scene->owner.checkpoints == before; i++)
        assert_int_equal(wal_owner_checkpoint(&scene->owner, 1), 0);
    assert_int_equal(scene->owner.checkpoints, before + 1);
}

/* ---- the log stays small ---- */

CLAIM(few_long_lived_jobs_among_many_short_ones_do_not_keep_the_log)
{
    for (enum wal_sync sync = WAL_SYNC_ALWAYS; sync <= WAL_SYNC_NEVER; sync++) {
        struct scene *scene = start(sync);
        struct wal_owner *owner = &scene->owner;
        uint64_t most = 0;

        for (int i = 0; i < 20; i++)
            wal_owner_push(owner, 500);
        wal_owner_set_topic(owner, 77);
        for (int i = 0; i < 7000; i++) {
            wal_owner_push(owner, 600);
            if (i % 5 == 0)
                iterate(scene);
            wal_owner_finish(owner, owner->jobs - 3);
            most = stats_of(scene).bytes_on_disk > most ? stats_of(scene).bytes_on_disk : most;
        }
        assert_true(stats_of(scene).bytes_written > 70 * (uint64_t)FILE_BYTES);
        assert_true(most <= 8 * (uint64_t)FILE_BYTES);
        assert_true(owner->checkpoints > 20);
        wal_owner_close(owner);
        open_scene(scene);
        assert_true(owner->live >= 20 && owner->live < 40);
        assert_int_equal(owner->topic_value, 77);
        end(scene);
    }
}

/* The state of one job over and over: the job is in the catalog, what came of it need not be kept.
 */
CLAIM(one_job_reserved_and_released_for_ever_does_not_grow_the_log)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS);
    const struct record record = {.kind = RECORD_STATE,
                                  .state = {.key = {0, 1}, .state = JOB_LEASED}};
    uint64_t most = 0;

    wal_owner_push(&scene->owner, 100);
    for (int i = 0; i < 60000; i++) {
        if (wal_has_room(scene->owner.wal, record_bytes_max(&record), WAL_FOR_ANSWER) != 0)
            iterate(scene);
        assert_int_equal(wal_has_room(scene->owner.wal, record_bytes_max(&record), WAL_FOR_ANSWER),
                         0);
        wal_append(scene->owner.wal, &record);
        most = stats_of(scene).bytes_on_disk > most ? stats_of(scene).bytes_on_disk : most;
    }
    assert_true(stats_of(scene).bytes_written > 20 * (uint64_t)FILE_BYTES);
    assert_true(most <= 8 * (uint64_t)FILE_BYTES);
    assert_true(record_place_is_run(scene->owner.places[1]));
    end(scene);
}

CLAIM(log_stays_small_however_many_jobs_come_and_go)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS);
    struct wal_owner *owner = &scene->owner;

    for (int i = 0; i < 3000; i++) {
        wal_owner_push(owner, 600);
        if (i % 10 == 0)
            iterate(scene);
        assert_true(stats_of(scene).bytes_on_disk <= 8 * (uint64_t)FILE_BYTES);
    }
    assert_int_equal(owner->live, 3000);
    for (uint32_t id = 1; id <= 3000; id++) {
        if (id % 300)
            wal_owner_finish(owner, id);
        if (id % 10 == 0)
            iterate(scene);
        assert_true(stats_of(scene).bytes_on_disk <= 8 * (uint64_t)FILE_BYTES);
    }
    wal_owner_close(owner);
    open_scene(scene);
    assert_int_equal(owner->live, 10);
    end(scene);
}

static int read_at(struct scene *scene, struct record_place place)
{
    struct buffer scratch;
    struct slice record;
    int result;

    buffer_init(&scratch, 1 << 20);
    result = wal_read(scene->owner.wal, place, true, &scratch, &record);
    buffer_fini(&scratch);
    return result;
}

/* A taker learns the place of a job; then the job goes to the catalog. If an upkeep already
 * waits, the read waits behind it. */
CLAIM(upkeep_drops_only_files_unneeded_at_its_start)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS);
    struct wal_owner *owner = &scene->owner;
    struct record_place place;

    wal_owner_push(owner, 500);
    place = owner->places[1];
    while (wal_current_file(owner->wal) < 5) {
        wal_owner_push(owner, 600);
        assert_int_equal(wal_owner_commit(owner), 0);
        assert_int_equal(wal_owner_upkeep(owner), 0);
    }
    (void)wal_wants_upkeep(owner->wal);
    checkpoint(scene);
    assert_int_equal(wal_upkeep(owner->wal), 0);
    wal_upkept(owner->wal);
    assert_int_equal(read_at(scene, place), 0);
    assert_int_equal(wal_owner_upkeep(owner), 0);
    assert_int_equal(read_at(scene, place), -ENOENT);
    wal_owner_close(owner);
    end(scene);
}

CLAIM(an_idle_log_needs_no_upkeep)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS);

    assert_true(wal_wants_upkeep(scene->owner.wal)); /* the first next file */
    iterate(scene);
    for (int i = 0; i < 100; i++) {
        assert_false(wal_wants_upkeep(scene->owner.wal));
        wal_owner_push(&scene->owner, 100);
        wal_owner_finish(&scene->owner, scene->owner.jobs);
        assert_int_equal(wal_owner_commit(&scene->owner), 0);
    }
    end(scene);
}

/* ---- a full disk ---- */

/* Pushes until it is refused. */
static void fill_up(struct scene *scene)
{
    uint64_t refused = scene->owner.refused;

    for (int i = 0; i < 5000 && scene->owner.refused == refused; i++) {
        wal_owner_push(&scene->owner, 600);
        if (i % 8 == 0) {
            assert_int_equal(wal_owner_commit(&scene->owner), 0);
            wal_owner_upkeep(&scene->owner);
        }
    }
    assert_true(scene->owner.refused > refused);
}

CLAIM(full_disk_refuses_pushes_and_takes_answers)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS);
    struct wal_owner *owner = &scene->owner;
    uint32_t finished = 0;

    scene->sim.bytes_max = 5 * FILE_BYTES;
    fill_up(scene);
    assert_true(stats_of(scene).full);
    assert_false(stats_of(scene).broken);
    assert_non_null(strstr(wal_error(owner->wal), "No space left"));
    assert_true(wal_wants_upkeep(owner->wal));
    assert_int_equal(wal_has_room(owner->wal, PUSH_BYTES, WAL_FOR_PUSH), -ENOSPC);
    assert_int_equal(wal_has_room(owner->wal, PUSH_BYTES, WAL_FOR_ANSWER), 0);
    /* A quarter of a file is left for answers. */
    while (wal_owner_finish(owner, finished + 1)) {
        finished++;
        assert_int_equal(wal_owner_commit(owner), 0);
        assert_int_equal(wal_owner_checkpoint(owner, 1), 0);
        if (stats_of(scene).full)
            wal_owner_upkeep(owner);
    }
    /* Checkpoints made room meanwhile: all is finished, and pushes are taken again. */
    assert_int_equal(finished, owner->jobs);
    for (int i = 0; i < 4; i++)
        wal_owner_upkeep(owner);
    assert_false(stats_of(scene).full);
    assert_int_equal(wal_has_room(owner->wal, PUSH_BYTES, WAL_FOR_PUSH), 0);
    wal_owner_close(owner);
    open_scene(scene);
    assert_int_equal(owner->live, 0);
    end(scene);
}

/* The disk is reported as full only if it is. */
CLAIM(the_error_that_prevents_the_next_file_is_reported)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS);
    struct wal_owner *owner = &scene->owner;
    uint32_t jobs;

    while (wal_wants_upkeep(owner->wal))
        assert_int_equal(wal_owner_upkeep(owner), 0);
    for (int i = 0; i < 500 && !wal_wants_upkeep(owner->wal); i++) {
        wal_owner_push(owner, 600);
        assert_int_equal(wal_owner_commit(owner), 0);
    }
    scene->sim.fail_at = scene->sim.ios + 1;
    scene->sim.fail_errno = EIO;
    assert_int_equal(wal_owner_upkeep(owner), -EIO);
    assert_true(stats_of(scene).stuck);
    assert_false(stats_of(scene).full || stats_of(scene).broken);
    assert_non_null(strstr(wal_error(owner->wal), "cannot create the next log file"));
    for (int i = 0; i < 500 && wal_has_room(owner->wal, PUSH_BYTES, WAL_FOR_PUSH) == 0; i++) {
        wal_owner_push(owner, 600);
        assert_int_equal(wal_owner_commit(owner), 0);
    }
    assert_int_equal(wal_has_room(owner->wal, PUSH_BYTES, WAL_FOR_PUSH), -EIO);
    assert_int_equal(wal_has_room(owner->wal, PUSH_BYTES, WAL_FOR_ANSWER), 0);
    jobs = owner->jobs;
    assert_int_equal(wal_owner_upkeep(owner), 0);
    assert_null(wal_error(owner->wal));
    wal_owner_push(owner, 600);
    assert_int_equal(owner->jobs, jobs + 1);
    end(scene);
}

CLAIM(service_returns_by_itself_when_space_does)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS);
    struct wal_owner *owner = &scene->owner;
    uint32_t jobs;

    scene->sim.bytes_max = 3 * FILE_BYTES + 20000;
    fill_up(scene);
    jobs = owner->jobs;
    for (int i = 0; i < 3; i++)
        assert_int_equal(wal_owner_upkeep(owner), -ENOSPC);
    scene->sim.bytes_max = 0;
    assert_int_equal(wal_owner_upkeep(owner), 0);
    assert_null(wal_error(owner->wal));
    wal_owner_push(owner, 600);
    assert_int_equal(owner->jobs, jobs + 1);
    iterate(scene);
    wal_owner_close(owner);
    open_scene(scene);
    assert_int_equal(owner->live, jobs + 1);
    end(scene);
}

CLAIM(restart_on_a_full_disk_works)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS);
    struct wal_owner *owner = &scene->owner;

    scene->sim.bytes_max = 3 * FILE_BYTES + 20000;
    fill_up(scene);
    assert_int_equal(wal_owner_commit(owner), 0);
    scene->sim.is_down = true;
    wal_owner_close(owner);
    sim_fs_crash(&scene->sim, SIM_DROP_UNSYNCED);
    scene->sim.bytes_max = 1; /* not a byte more than there is */
    open_scene(scene);
    wal_owner_upkeep(owner);
    assert_int_equal(wal_has_room(owner->wal, PUSH_BYTES, WAL_FOR_PUSH), -ENOSPC);
    assert_true(wal_owner_finish(owner, 1));
    assert_int_equal(wal_owner_commit(owner), 0);
    end(scene);
}

CLAIMS_MAIN(NULL, NULL)
