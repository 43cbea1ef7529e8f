/* Data losses of other systems, tried on this log. */
#include "store/depot.h"
#include "test_wal_rig.h"
#include "unit/claim.h"

/* etcd 14370: answered before the sync that covers it. */
CLAIM(an_answer_never_comes_before_its_sync)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);

    scene->sim.no_writeback = true;
    open_well(scene);
    for (int i = 0; i < 40; i++) {
        uint64_t sequence = wal_open_sequence(scene->owner.wal);

        wal_owner_push(&scene->owner, 500);
        assert_true(wal_synced(scene->owner.wal) < sequence);
        assert_int_equal(wal_owner_commit(&scene->owner), 0);
        assert_int_equal(wal_synced(scene->owner.wal), sequence);
        wal_owner_upkeep(&scene->owner);
        die(scene, SIM_DROP_UNSYNCED);
        open_with(scene, sequence);
    }
    end(scene);
}

static int no_sync_of_names(void *ctx, const char *path)
{
    (void)ctx, (void)path;
    return -EIO;
}

/* etcd 6368: a file renamed, its directory not synced. */
CLAIM(a_new_file_is_used_only_once_its_name_is_durable)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct fs_ops ops = *scene->sim.fs.ops;
    struct wal_stats stats;

    open_well(scene);
    for (uint32_t number = 2; number < 5; number++) {
        while (wal_current_file(scene->owner.wal) < number) {
            wal_owner_push(&scene->owner, 2000);
            assert_int_equal(wal_owner_commit(&scene->owner), 0);
            wal_owner_upkeep(&scene->owner);
        }
        die(scene, SIM_DROP_UNSYNCED);
        open_with(scene, scene->owner.acked);
    }
    ops.fsync_dir = no_sync_of_names;
    scene->sim.fs.ops = &ops;
    while (!wal_wants_upkeep(scene->owner.wal)) {
        wal_owner_push(&scene->owner, 2000);
        assert_int_equal(wal_owner_commit(&scene->owner), 0);
    }
    assert_int_equal(wal_owner_upkeep(&scene->owner), -EIO);
    wal_stats(scene->owner.wal, &stats);
    assert_true(stats.broken);
    end(scene);
}

/* etcd 6378, beanstalkd 364: what a crash leaves at the end keeps the server from starting. */
CLAIM(a_torn_or_zero_filled_tail_does_not_keep_it_from_opening)
{
    for (uint64_t seed = 1; seed <= 30; seed++)
        for (int damage = 1; damage <= SIM_DAMAGES_ALL; damage++) {
            struct scene *scene = start(WAL_SYNC_NEVER, seed);

            open_well(scene);
            for (int i = 0; i < 6; i++) {
                wal_owner_push(&scene->owner, 1500);
                assert_int_equal(wal_owner_commit(&scene->owner), 0);
            }
            die(scene, (enum sim_damage)damage);
            open_with(scene, 0);
            wal_owner_push(&scene->owner, 10);
            assert_int_equal(wal_owner_commit(&scene->owner), 0);
            wal_owner_close(&scene->owner);
            open_with(scene, scene->owner.acked);
            end(scene);
        }
}

static int syncs_tried;

static int failing_sync(void *ctx, int fd)
{
    (void)ctx, (void)fd;
    syncs_tried++;
    return -EIO;
}

/* PostgreSQL 2018: the second fsync succeeds, and the pages are gone. */
CLAIM(a_failed_sync_is_never_tried_again)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    const struct fs_ops *real = scene->sim.fs.ops;
    struct fs_ops ops = *real;

    open_well(scene);
    wal_owner_push(&scene->owner, 100);
    ops.fdatasync = failing_sync;
    scene->sim.fs.ops = &ops;
    syncs_tried = 0;
    assert_true(wal_seal(scene->owner.wal));
    for (int i = 0; i < 3; i++)
        assert_int_equal(wal_commit(scene->owner.wal), -EIO);
    assert_int_equal(wal_committed(scene->owner.wal), 0);
    assert_int_equal(wal_commit(scene->owner.wal), -EIO);
    assert_false(wal_seal_sync(scene->owner.wal));
    wal_owner_close(&scene->owner);
    assert_int_equal(syncs_tried, 1);
    scene->sim.fs.ops = real;
    end(scene);
}

/* The same: the sync that failed marked its pages clean, so the next opening writes them again. */
CLAIM(data_of_a_failed_sync_is_rewritten_before_it_counts)
{
    uint32_t tried = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct scene *scene = start(WAL_SYNC_ALWAYS, seed);
        uint64_t found;

        scene->sim.no_writeback = true;
        open_well(scene);
        wal_owner_push(&scene->owner, 100);
        scene->sim.fail_at = scene->sim.ios + 2; /* the sync, if the write happens immediately */
        assert_int_equal(wal_owner_commit(&scene->owner), -EIO);
        wal_owner_close(&scene->owner);
        open_with(scene, 0);
        found = scene->owner.acked;
        tried += found == 1; /* still to be read, though not on the disk */
        die(scene, SIM_DROP_UNSYNCED);
        open_with(scene, found);
        end(scene);
    }
    assert_true(tried > 10);
}

/* NATS 7549: a flipped bit in the middle, and all behind it is cut off. */
CLAIM(a_bit_flipped_in_mid_log_cuts_nothing_off)
{
    struct scene *scene = several_files();
    struct record_place place = scene->owner.places[5];
    uint64_t acked = scene->owner.acked;
    char path[64];

    snprintf(path, sizeof path, "shard/wal/%08u.log", place.file);
    sim_fs_damage(&scene->sim, path, place.at + 50, 0x40);
    for (int i = 0; i < 3; i++)
        assert_int_equal(wal_owner_open(&scene->owner, 0), -EBADMSG);
    sim_fs_damage(&scene->sim, path, place.at + 50, 0x40);
    open_with(scene, acked);
    assert_int_equal(scene->owner.live, 30);
    end(scene);
}

/* Puts the bytes of a MANIFEST in the place of what is there. */
static void put_manifest(struct scene *scene, const char *bytes, int64_t size)
{
    for (int64_t at = 0; at < size; at++) {
        char is = sim_fs_bytes(&scene->sim, MANIFEST, NULL)[at];

        if (is != bytes[at])
            sim_fs_damage(&scene->sim, MANIFEST, at, (unsigned char)(is ^ bytes[at]));
    }
}

static uint32_t log_files(struct scene *scene)
{
    uint32_t count = 0;

    for (uint32_t number = 1; number < 200; number++) {
        char path[64];

        snprintf(path, sizeof path, "shard/wal/%08u.log", number);
        count += sim_fs_bytes(&scene->sim, path, NULL) != NULL;
    }
    return count;
}

/* Opens without the catalog's position. */
static int open_by_manifest(struct scene *scene)
{
    struct wal_options options = scene->owner.options;
    struct wal *wal;
    char error[4096];
    int result;

    options.first = 0;
    result = wal_open(&options, NULL, NULL, &wal, NULL, error, sizeof error);
    if (result == 0)
        wal_close(wal);
    return result;
}

/* NATS 7556: metadata of another time, and the data that does not fit it is deleted. */
CLAIM(metadata_that_contradicts_the_data_deletes_nothing)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    char *older = malloc(8192), *newer = malloc(8192);
    int64_t older_size, newer_size;
    uint32_t files;

    assert_true(older && newer);
    open_well(scene);
    memcpy(older, sim_fs_bytes(&scene->sim, MANIFEST, &older_size), 4608);
    for (int i = 0; i < 60; i++) {
        wal_owner_push(&scene->owner, 2000);
        wal_owner_finish(&scene->owner, scene->owner.jobs);
        assert_int_equal(wal_owner_commit(&scene->owner), 0);
        assert_int_equal(wal_owner_checkpoint(&scene->owner, 1), 0);
        assert_int_equal(wal_owner_upkeep(&scene->owner), 0);
    }
    assert_null(sim_fs_bytes(&scene->sim, FIRST, NULL));
    die(scene, SIM_DROP_UNSYNCED);
    memcpy(newer, sim_fs_bytes(&scene->sim, MANIFEST, &newer_size), 4608);
    assert_true(older_size == 4608 && newer_size == 4608);
    files = log_files(scene);
    put_manifest(scene, older, older_size);
    assert_int_equal(open_by_manifest(scene), -EBADMSG);
    assert_int_equal(log_files(scene), files);
    put_manifest(scene, newer, newer_size);
    open_with(scene, scene->owner.acked);
    end(scene);
    /* The newer one beside older files. */
    scene = several_files();
    files = log_files(scene);
    put_manifest(scene, newer, newer_size);
    assert_int_equal(wal_owner_open(&scene->owner, 0), -EBADMSG);
    assert_int_equal(log_files(scene), files);
    end(scene);
    free(older);
    free(newer);
}

static uint64_t generation_after_opening(struct sim_fs *sim)
{
    const struct depot_options options = {.fs = &sim->fs, .dir = "shard", .seed = 7};
    struct depot *depot;
    char error[4096];
    uint64_t generation;

    assert_int_equal(depot_open(&options, &depot, error, sizeof error), 0);
    generation = depot_catalog(depot)->generation;
    depot_close(depot);
    return generation;
}

/* The same across two files: the process died before the newest catalog's name was durable. Log
 * files depend on that catalog, so once it was read it has to stay. */
CLAIM(a_catalog_that_was_read_stays_the_newest)
{
    struct catalog catalog = {.generation = 1, .seed = 7, .next_run = 1, .next_keys = 1};
    struct sim_fs *sim = calloc(1, sizeof *sim);
    const struct fs_ops *real;
    struct fs_ops ops;
    bool is_fatal;

    assert_non_null(sim);
    sim_fs_init(sim, 3);
    real = sim->fs.ops;
    ops = *real;
    ops.fsync_dir = no_sync_of_names;
    assert_int_equal(generation_after_opening(sim), 0);
    assert_int_equal(catalog_write(&sim->fs, "shard/run", &catalog, &is_fatal), 0);
    catalog.generation = 2;
    sim->fs.ops = &ops;
    assert_int_equal(catalog_write(&sim->fs, "shard/run", &catalog, &is_fatal), -EIO);
    assert_true(is_fatal);
    sim->fs.ops = real;
    sim_fs_crash(sim, SIM_KEEP_ALL);
    assert_int_equal(generation_after_opening(sim), 2);
    sim_fs_crash(sim, SIM_DROP_UNSYNCED);
    assert_int_equal(generation_after_opening(sim), 2);
    sim_fs_fini(sim);
    free(sim);
}

/* beanstalkd: after a write error jobs are taken that nothing keeps. */
CLAIM(after_a_write_error_no_record_is_accepted)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    uint64_t acked;

    open_well(scene);
    wal_owner_push(&scene->owner, 100);
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    acked = scene->owner.acked;
    wal_owner_push(&scene->owner, 100);
    scene->sim.fail_at = scene->sim.ios + 1;
    assert_int_equal(wal_owner_commit(&scene->owner), -EIO);
    assert_int_equal(scene->owner.acked, acked);
    assert_int_equal(wal_has_room(scene->owner.wal, 10, WAL_FOR_PUSH), -EIO);
    assert_int_equal(wal_has_room(scene->owner.wal, 10, WAL_FOR_ANSWER), -EIO);
    assert_non_null(wal_error(scene->owner.wal));
    die(scene, SIM_DROP_UNSYNCED);
    open_with(scene, acked);
    end(scene);
}

CLAIMS_MAIN(NULL, NULL)
