#include "base/clock.h"
#include "support/wal_owner.h"
#include "unit/claim.h"
#include "unit/scratch.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_BYTES = 32768 };

struct scene {
    struct sim_fs sim;
    struct wal_owner owner;
    struct wal *wal;
    struct buffer scratch;
};

static void open_scene(struct scene *scene)
{
    int result = wal_owner_open(&scene->owner, scene->owner.synced_acked);

    if (result < 0)
        print_error("%s\n", scene->owner.error);
    assert_int_equal(result, 0);
    scene->wal = scene->owner.wal;
}

static struct scene *start(enum wal_sync sync, size_t recent_bytes_max)
{
    struct scene *scene = calloc(1, sizeof *scene);
    struct wal_options options;

    assert_non_null(scene);
    sim_fs_init(&scene->sim, 3);
    options = (struct wal_options){.fs = &scene->sim.fs,
                                   .dir = "shard",
                                   .file_bytes = FILE_BYTES,
                                   .batch_bytes_max = 8000,
                                   .recent_bytes_max = recent_bytes_max,
                                   .sync = sync,
                                   .sync_interval_ms = 50};
    wal_owner_init(&scene->owner, &options, 3);
    buffer_init(&scene->scratch, 1 << 20);
    open_scene(scene);
    return scene;
}

static void end(struct scene *scene)
{
    buffer_fini(&scene->scratch);
    wal_owner_fini(&scene->owner);
    sim_fs_fini(&scene->sim);
    free(scene);
}

static void commit(struct scene *scene)
{
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    wal_owner_upkeep(&scene->owner);
}

/* The log gives back job `id` as it was pushed. */
static int read_job(struct scene *scene, uint32_t id, bool may_block)
{
    struct slice bytes;
    struct record record;
    char body[4096];
    int result = wal_read(scene->wal, scene->owner.places[id], may_block, &scene->scratch, &bytes);

    if (result < 0)
        return result;
    assert_true(record_decode(bytes, &record));
    wal_owner_body(id, record.job.body.len, body);
    assert_memory_equal(record.job.body.at, body, record.job.body.len);
    assert_int_equal(record.job.sequence, id);
    return 0;
}

/* ---- round trips ---- */

CLAIM(returns_committed_records_after_reopening)
{
    for (enum wal_sync sync = WAL_SYNC_ALWAYS; sync <= WAL_SYNC_NEVER; sync++) {
        struct scene *scene = start(sync, 1 << 16);

        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < 100; i++)
                assert_true(wal_owner_step(&scene->owner) <= 0);
            wal_owner_push(&scene->owner, 10);
            wal_owner_close(&scene->owner); /* commits what is open */
            scene->owner.synced_acked =
                scene->owner.changes[scene->owner.change_count - 1].sequence;
            open_scene(scene);
            assert_int_equal(scene->owner.found.torn_bytes, 0);
            assert_int_equal(scene->owner.found.last_inner_ms, wal_owner_ms);
        }
        end(scene);
    }
}

CLAIM(epoch_and_sequence_rise)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 1 << 16);

    for (uint64_t i = 1; i < 10; i++) {
        assert_int_equal(scene->owner.found.epoch, i);
        assert_int_equal(wal_open_sequence(scene->wal), i);
        assert_false(wal_seal(scene->wal)); /* nothing to do */
        wal_owner_push(&scene->owner, 10);
        assert_int_equal(wal_open_sequence(scene->wal), i);
        assert_true(wal_seal(scene->wal));
        assert_true(wal_is_committing(scene->wal));
        assert_int_equal(wal_open_sequence(scene->wal), i + 1);
        assert_false(wal_seal(scene->wal)); /* one at a time */
        assert_int_equal(wal_commit(scene->wal), 0);
        assert_int_equal(wal_committed(scene->wal), i);
        wal_owner_close(&scene->owner);
        open_scene(scene);
    }
    end(scene);
}

CLAIM(answers_continue_during_a_commit)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 1 << 16);

    for (int i = 0; i < 50; i++) {
        wal_owner_push(&scene->owner, 300);
        assert_true(wal_seal(scene->wal));
        wal_owner_push(&scene->owner, 300); /* into the next batch, whose place is known already */
        assert_int_equal(read_job(scene, scene->owner.jobs - 1, false), 0);
        assert_int_equal(read_job(scene, scene->owner.jobs, false), 0);
        assert_int_equal(wal_commit(scene->wal), 0);
        wal_committed(scene->wal);
        commit(scene);
    }
    wal_owner_close(&scene->owner);
    open_scene(scene);
    assert_int_equal(scene->owner.live, 100);
    end(scene);
}

/* ---- limits ---- */

CLAIM(batch_and_file_have_their_limits)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 1 << 16);
    int result;

    assert_int_equal(wal_has_room(scene->wal, 8000, WAL_FOR_PUSH), -EMSGSIZE);
    assert_int_equal(wal_has_room(scene->wal, 7000, WAL_FOR_PUSH), 0);
    wal_owner_upkeep(&scene->owner);
    while ((result = wal_has_room(scene->wal, 1200, WAL_FOR_PUSH)) == 0)
        wal_owner_push(&scene->owner, 1000);
    assert_int_equal(result, -EAGAIN);
    assert_in_range(scene->owner.jobs, 6, 7);
    commit(scene);
    assert_int_equal(wal_has_room(scene->wal, 7000, WAL_FOR_PUSH), 0);
    end(scene);
}

CLAIM(batch_never_spans_two_files)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 1 << 16);

    for (int i = 0; i < 200; i++) {
        wal_owner_push(&scene->owner, (size_t)(i * 37 % 3000));
        assert_true(scene->owner.places[scene->owner.jobs].at +
                        scene->owner.places[scene->owner.jobs].bytes <
                    FILE_BYTES);
        if (i % 3 == 0)
            commit(scene);
    }
    assert_true(scene->owner.places[scene->owner.jobs].file > 5);
    commit(scene);
    wal_owner_close(&scene->owner);
    open_scene(scene);
    assert_int_equal(scene->owner.live, 200);
    end(scene);
}

/* ---- reading ---- */

CLAIM(reads_from_open_batch_recent_ones_and_disk)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 20000);

    for (int i = 0; i < 60; i++) {
        wal_owner_push(&scene->owner, 1000);
        for (uint32_t id = 1; id <= scene->owner.jobs; id++) {
            assert_int_equal(read_job(scene, id, false), 0);
            assert_int_equal(read_job(scene, id, true), 0);
        }
        if (i % 2)
            commit(scene);
    }
    end(scene);
}

static ssize_t not_cached(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    (void)ctx, (void)fd, (void)into, (void)len, (void)offset;
    return -EAGAIN;
}

CLAIM(does_not_wait_for_the_disk_unless_it_may)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 8192);
    struct fs_ops ops = *scene->sim.fs.ops;

    ops.pread_cached = not_cached;
    scene->sim.fs.ops = &ops;
    for (int i = 0; i < 10; i++) {
        wal_owner_push(&scene->owner, 2500);
        commit(scene);
    }
    assert_int_equal(read_job(scene, 1, false), -EAGAIN);
    assert_int_equal(read_job(scene, 1, true), 0);
    assert_int_equal(read_job(scene, 10, false), 0);
    end(scene);
}

/* Before each small batch, room for the largest command is reserved. */
CLAIM(unused_room_of_batches_displaces_no_recent_ones)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 20000);
    struct fs_ops ops = *scene->sim.fs.ops;

    ops.pread_cached = not_cached;
    scene->sim.fs.ops = &ops;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(wal_has_room(scene->wal, 6000, WAL_FOR_ANSWER), 0);
        wal_owner_push(&scene->owner, 300);
        commit(scene);
    }
    for (uint32_t id = 1; id <= scene->owner.jobs; id++)
        assert_int_equal(read_job(scene, id, false), 0);
    end(scene);
}

CLAIM(damaged_record_is_never_handed_out)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 1);
    struct record_place place;

    wal_owner_push(&scene->owner, 100);
    commit(scene);
    place = scene->owner.places[1];
    for (uint32_t at = 0; at < place.bytes + 4; at++) {
        sim_fs_damage(&scene->sim, "shard/wal/00000001.log", place.at + at, 0x10);
        assert_int_equal(read_job(scene, 1, false), -EIO);
        assert_int_equal(read_job(scene, 1, true), -EIO);
        sim_fs_damage(&scene->sim, "shard/wal/00000001.log", place.at + at, 0x10);
    }
    assert_int_equal(read_job(scene, 1, false), 0);
    end(scene);
}

/* ---- classes ---- */

static uint64_t syncs(const struct scene *scene)
{
    struct wal_stats stats;

    wal_stats(scene->wal, &stats);
    return stats.syncs;
}

CLAIM(always_syncs_every_commit)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 1 << 16);

    for (uint64_t i = 1; i < 20; i++) {
        wal_owner_push(&scene->owner, 10);
        commit(scene);
        assert_int_equal(syncs(scene), i);
        assert_int_equal(wal_sync_due_ms(scene->wal), INT64_MAX);
    }
    assert_false(wal_seal_sync(scene->wal));
    end(scene);
}

CLAIM(interval_syncs_within_it_also_when_nothing_follows)
{
    struct scene *scene = start(WAL_SYNC_INTERVAL, 1 << 16);
    int64_t began_ms = wal_owner_ms;

    assert_int_equal(wal_sync_due_ms(scene->wal), INT64_MAX);
    for (int i = 0; i < 5; i++) {
        wal_owner_push(&scene->owner, 10);
        commit(scene);
        assert_int_equal(wal_sync_due_ms(scene->wal), began_ms + 50);
        wal_owner_ms += 9;
    }
    assert_int_equal(syncs(scene), 0);
    assert_false(wal_seal(scene->wal));
    wal_owner_ms = began_ms + 50;
    assert_true(wal_seal(scene->wal));
    assert_int_equal(wal_commit(scene->wal), 0);
    assert_int_equal(wal_committed(scene->wal), 5);
    assert_int_equal(syncs(scene), 1);
    assert_int_equal(wal_sync_due_ms(scene->wal), INT64_MAX);
    assert_false(wal_seal(scene->wal));
    end(scene);
}

CLAIM(never_syncs_when_closed)
{
    struct scene *scene = start(WAL_SYNC_NEVER, 1 << 16);

    for (int i = 0; i < 40; i++) {
        wal_owner_push(&scene->owner, 1000);
        commit(scene);
        wal_owner_ms += 1000;
    }
    assert_int_equal(syncs(scene), 0);
    wal_owner_close(&scene->owner);
    sim_fs_crash(&scene->sim, SIM_DROP_UNSYNCED);
    scene->owner.synced_acked = 40;
    open_scene(scene);
    assert_int_equal(scene->owner.live, 40);
    end(scene);
}

/* ---- failures ---- */

static void breaks_for_good(enum wal_sync sync, uint64_t io)
{
    struct scene *scene = start(sync, 1 << 16);
    struct wal_stats stats;

    wal_owner_push(&scene->owner, 10);
    commit(scene);
    wal_owner_push(&scene->owner, 10);
    scene->sim.fail_at = scene->sim.ios + io; /* once: the next attempt would succeed, falsely */
    scene->sim.fail_errno = EIO;
    assert_true(wal_seal(scene->wal));
    assert_int_equal(wal_commit(scene->wal), -EIO);
    assert_int_equal(wal_commit(scene->wal), -EIO);
    assert_int_equal(wal_committed(scene->wal), 1);
    assert_int_equal(wal_committed(scene->wal), 1);
    assert_int_equal(wal_has_room(scene->wal, 10, WAL_FOR_ANSWER), -EIO);
    assert_false(wal_seal(scene->wal));
    assert_false(wal_seal_sync(scene->wal));
    assert_false(wal_wants_upkeep(scene->wal));
    wal_stats(scene->wal, &stats);
    assert_true(stats.broken);
    assert_non_null(strstr(wal_error(scene->wal), "Input/output error"));
    wal_owner_close(&scene->owner);
    sim_fs_crash(&scene->sim, SIM_SOME_SECTORS);
    scene->owner.synced_acked = sync == WAL_SYNC_ALWAYS;
    open_scene(scene);
    end(scene);
}

CLAIM(failed_write_breaks_it_for_good)
{
    breaks_for_good(WAL_SYNC_ALWAYS, 1);
    breaks_for_good(WAL_SYNC_NEVER, 1);
}

CLAIM(failed_sync_breaks_it_for_good)
{
    breaks_for_good(WAL_SYNC_ALWAYS, 2);
}

/* ---- threads, on real files ---- */

struct reading {
    struct wal *wal;
    struct record_place places[64];
    _Atomic uint32_t given;
    _Atomic bool stop;
    _Atomic uint64_t read;
};

static void *read_on_helper(void *ctx)
{
    struct reading *reading = ctx;
    struct buffer scratch;

    buffer_init(&scratch, 1 << 20);
    while (!atomic_load(&reading->stop)) {
        uint32_t given = atomic_load(&reading->given);
        struct slice bytes;
        struct record record;

        for (uint32_t i = given > 60 ? given - 60 : 0; i < given; i++) {
            if (wal_read(reading->wal, reading->places[i % 64], true, &scratch, &bytes) != 0 ||
                !record_decode(bytes, &record))
                abort();
            reading->read++;
        }
    }
    buffer_fini(&scratch);
    return NULL;
}

static void *commit_on_helper(void *wal)
{
    if (wal_commit(wal) < 0)
        abort();
    return NULL;
}

/* Not a lap ahead of the reader: it reads what is at most 60 behind, and 64 places are kept. Jobs
 * are not let go, so no place goes bad. */
CLAIM(helper_reads_while_the_owner_appends)
{
    char dir[SCRATCH_BYTES];
    struct reading reading = {0};
    struct wal_options options = {.fs = &fs_posix,
                                  .file_bytes = 1 << 20,
                                  .batch_bytes_max = 1 << 18,
                                  .recent_bytes_max = 1 << 16,
                                  .sync = WAL_SYNC_NEVER,
                                  .clock = &clock_process,
                                  .inner_ms = clock_inner_ms_of,
                                  .wall_ms = clock_wall_ms_of};
    char error[4096], body[500] = "x";
    pthread_t reader, committer;

    assert_true(scratch_make(dir));
    options.dir = dir;
    assert_int_equal(wal_open(&options, NULL, NULL, &reading.wal, NULL, error, sizeof error), 0);
    for (uint32_t i = 0; i < 60; i++) {
        const struct record record = {.kind = RECORD_JOB,
                                      .origin = RECORD_PUSHED,
                                      .job = {.topic = slice_of("t"),
                                              .id = slice_of("i"),
                                              .body = slice_make(body, sizeof body),
                                              .state = JOB_DELAYED}};

        assert_int_equal(wal_has_room(reading.wal, record_bytes_max(&record), WAL_FOR_ANSWER), 0);
        reading.places[i] = wal_append(reading.wal, &record);
        atomic_store(&reading.given, i + 1);
        if (i == 0)
            assert_int_equal(pthread_create(&reader, NULL, read_on_helper, &reading), 0);
        while (!atomic_load(&reading.read)) /* on a busy machine all would be over before */
            sched_yield();
        if (i % 7 == 0 && wal_seal(reading.wal)) {
            assert_int_equal(pthread_create(&committer, NULL, commit_on_helper, reading.wal), 0);
            pthread_join(committer, NULL);
            wal_committed(reading.wal);
        }
    }
    atomic_store(&reading.stop, true);
    pthread_join(reader, NULL);
    wal_close(reading.wal);
    assert_int_equal(scratch_remove(dir), 0);
}

CLAIMS_MAIN(NULL, NULL)
