/* The files of a log: which are there and of which size, and what an opening does with what else it
 * finds. */
#include "store/wal_private.h"
#include "unit/claim.h"
#include "wal_files_rig.h"

enum { LARGE_BYTES = 2 * FILE_BYTES };

static uint32_t logs_of_size(struct scene *scene, int64_t bytes)
{
    uint32_t count = 0;

    for (int i = 0; i < scene->sim.now.count; i++) {
        const struct sim_entry *entry = &scene->sim.now.entries[i];

        count += strstr(entry->name, ".log") && entry->inode->size == bytes;
    }
    return count;
}

static bool has_file(struct scene *scene, uint32_t number)
{
    char path[64];

    snprintf(path, sizeof path, "shard/wal/%08u.log", number);
    return sim_fs_bytes(&scene->sim, path, NULL);
}

/* ---- another size ---- */

CLAIM(of_another_size_only_files_with_something_in_them_stay)
{
    struct scene *scene = some_files();
    uint32_t current = wal_current_file(scene->owner.wal);

    assert_true(has_file(scene, current + 1));
    assert_true(logs_of_size(scene, FILE_BYTES) > current - 3 + 1); /* some wait to be used again */
    wal_owner_close(&scene->owner);
    scene->owner.options.file_bytes = LARGE_BYTES;
    open_well(scene);
    assert_false(has_file(scene, current + 1));
    assert_int_equal(logs_of_size(scene, FILE_BYTES), current - 3); /* from the fourth on */
    push_up_to_file(scene, current + 3);
    checkpoint(scene);
    wal_owner_push(&scene->owner, 2000);
    commit(scene);
    checkpoint(scene);
    wal_owner_push(&scene->owner, 2000);
    commit(scene);
    assert_int_equal(logs_of_size(scene, FILE_BYTES), 0); /* no file is kept for reuse */
    assert_true(logs_of_size(scene, LARGE_BYTES) >= 2);
    die(scene, SIM_DROP_UNSYNCED);
    open_well(scene);
    end(scene);
}

/* The next opening completes an interrupted step. */
CLAIM(a_change_of_size_survives_every_failing_io)
{
    bool failed_once = true;
    uint64_t refused = 0, reported = 0;

    for (uint64_t io = 1; failed_once; io++) {
        struct scene *scene = some_files();
        int result;

        wal_owner_close(&scene->owner);
        scene->owner.options.file_bytes = LARGE_BYTES;
        scene->sim.fail_at = scene->sim.ios + io;
        scene->sim.fail_errno = EIO;
        result = wal_owner_open(&scene->owner, scene->owner.synced_acked);
        failed_once = scene->sim.ios >= scene->sim.fail_at;
        refused += result < 0;
        reported += *scene->owner.error != '\0';
        scene->sim.fail_at = 0;
        if (result == 0)
            wal_owner_close(&scene->owner);
        open_well(scene);
        assert_int_equal(logs_of_size(scene, FILE_BYTES), 3);
        end(scene);
    }
    assert_true(refused > 8 && reported + 1 >= refused); /* one I/O is the owner's own */
}

CLAIM(a_too_small_size_becomes_the_minimum)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_stats stats;

    scene->owner.options.file_bytes = 1;
    open_well(scene);
    wal_stats(scene->owner.wal, &stats);
    assert_int_equal(stats.bytes_on_disk, stats.files * (uint64_t)WAL_FILE_BYTES_MIN);
    push_up_to_file(scene, 2);
    end(scene);
}

/* ---- names ---- */

CLAIM(only_names_as_the_log_writes_them_are_its_files)
{
    static const struct {
        const char *name;
        uint32_t number;
    } names[] = {
        {"00000001.log", 1},
        {"00000042.log", 42},
        {"4294967295.log", UINT32_MAX},
        {"4294967296.log", 0},
        {"00000000.log", 0},
        {"1.log", 0},
        {"000000001.log", 0},
        {"00000001.log.bak", 0},
        {"00000001", 0},
        {" 0000001.log", 0},
        {"-0000001.log", 0},
        {"+0000001.log", 0},
        {"MANIFEST", 0},
        {"next.tmp", 0},
        {"", 0},
        {"99999999999999999999999.log", 0},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(wal_file_number(names[i].name), names[i].number);
}

CLAIM(an_overlong_path_is_rejected)
{
    static char dir[PATH_MAX + 10];
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal *wal;
    char error[64];

    memset(dir, 'd', sizeof dir - 1);
    scene->owner.options.dir = dir;
    assert_int_equal(wal_open(&scene->owner.options, NULL, NULL, &wal, NULL, error, sizeof error),
                     -ENAMETOOLONG);
    assert_non_null(strstr(error, "the path 'dddd"));
    assert_null(wal);
    end(scene);
}

/* ---- what an opening asks the disk ---- */

static int lists_left;

static int list_or_fail(void *ctx, const char *path, void (*each)(void *each_ctx, const char *name),
                        void *each_ctx)
{
    struct sim_fs *sim = ctx;

    return lists_left-- == 0 ? -EIO : sim->fs.ops->list(ctx, path, each, each_ctx);
}

/* A new log, and one that has files. */
CLAIM(a_directory_that_cannot_be_listed_is_refused)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct fs_ops ops = *scene->sim.fs.ops;
    uint64_t refused = 0;

    ops.list = list_or_fail;
    put_before(scene, &ops);
    for (int jobs = 0; jobs < 2; jobs++) {
        int result = -EIO;

        for (int n = 0; result < 0; n++) {
            lists_left = n;
            result = wal_owner_open(&scene->owner, scene->owner.synced_acked);
            refused += result < 0;
            assert_true(result == 0 || result == -EIO);
            assert_true(result == 0 || strstr(scene->owner.error, "shard/wal"));
        }
        lists_left = -1;
        push_up_to_file(scene, 3);
        wal_owner_close(&scene->owner);
    }
    assert_true(refused >= 4);
    open_well(scene);
    end(scene);
}

static bool refuse_third(void *ctx, const struct record *record, struct record_place place)
{
    uint32_t *count = ctx;

    (void)record;
    (void)place;
    return ++*count != 3;
}

CLAIM(a_record_that_cannot_be_is_refused_with_its_place)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    uint32_t begins[5], ends[5], count = 0;
    char place[64];
    struct wal *wal;

    open_well(scene);
    push_batches(scene, 5, begins, ends);
    wal_owner_close(&scene->owner);
    assert_int_equal(wal_open(&scene->owner.options, refuse_third, &count, &wal, NULL,
                              scene->owner.error, sizeof scene->owner.error),
                     -EBADMSG);
    snprintf(place, sizeof place, "byte %u", begins[2] + HEAD_BYTES);
    assert_non_null(strstr(scene->owner.error, "is impossible"));
    assert_non_null(strstr(scene->owner.error, place));
    assert_int_equal(count, 3);
    open_well(scene);
    end(scene);
}

/* As a MANIFEST from a backup beside newer files. */
CLAIM(batches_newer_than_the_manifest_are_refused)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    char manifest[8192];
    uint32_t begins[5], ends[5];
    int64_t size;

    open_well(scene);
    push_batches(scene, 5, begins, ends);
    die(scene, SIM_KEEP_ALL);
    assert_non_null(sim_fs_bytes(&scene->sim, MANIFEST, &size));
    assert_true(size <= (int64_t)sizeof manifest);
    memcpy(manifest, sim_fs_bytes(&scene->sim, MANIFEST, NULL), (size_t)size);
    open_well(scene);
    push_batches(scene, 5, begins, ends);
    die(scene, SIM_KEEP_ALL);
    memcpy(sim_fs_bytes(&scene->sim, MANIFEST, NULL), manifest, (size_t)size);
    assert_int_equal(wal_owner_open(&scene->owner, 10), -EBADMSG);
    assert_non_null(strstr(scene->owner.error, "newer than the MANIFEST"));
    end(scene);
}

CLAIM(a_log_without_its_catalog_is_rejected)
{
    struct scene *scene = some_files();
    struct wal_options options;
    struct wal *wal;

    wal_owner_close(&scene->owner);
    options = scene->owner.options;
    options.first = 0;
    options.is_alone = true;
    assert_int_equal(
        wal_open(&options, NULL, NULL, &wal, NULL, scene->owner.error, sizeof scene->owner.error),
        -EBADMSG);
    assert_non_null(strstr(scene->owner.error, "continues a catalog of runs that is missing"));
    open_well(scene);
    end(scene);
}

CLAIM(a_beginning_fits_the_manifest_or_is_refused)
{
    static const struct {
        uint32_t first;
        uint64_t first_sequence, epoch;
        int result;
    } tries[] = {
        {5, 50, 3, 0},        {6, 60, 3, 0},        {4, 40, 3, -EBADMSG}, {5, 51, 3, -EBADMSG},
        {6, 50, 3, -EBADMSG}, {6, 49, 3, -EBADMSG}, {6, 60, 0, -EBADMSG}, {5, 50, 0, 0},
    };
    const struct wal_disk disk = {.dir = "shard/wal"};

    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        struct wal_manifest manifest = {
            .first = 5, .first_sequence = 50, .epoch = tries[i].epoch, .synced = 55};
        char error[512] = "";

        assert_int_equal(wal_manifest_begin_at(&disk, &manifest, tries[i].first,
                                               tries[i].first_sequence, error, sizeof error),
                         tries[i].result);
        assert_int_equal(manifest.first, tries[i].result == 0 ? tries[i].first : 5);
        assert_int_equal(*error != '\0', tries[i].result < 0);
    }
}

/* ---- extents ---- */

CLAIM(extents_end_with_the_last_committed_byte)
{
    struct scene *scene = some_files();
    struct wal *wal = scene->owner.wal;
    struct wal_extent extents[16], few[1], during[16];
    uint32_t count = wal_extents(wal, extents, 16);

    assert_true(count > 2);
    assert_int_equal(extents[0].file, 4); /* the oldest that counts */
    assert_int_equal(extents[count - 1].file, wal_current_file(wal));
    assert_int_equal(extents[0].bytes, FILE_BYTES); /* whole */
    assert_true(extents[count - 1].bytes < FILE_BYTES);
    assert_int_equal(wal_extents(wal, few, 1), count);
    assert_memory_equal(&few[0], &extents[0], sizeof few);
    wal_owner_push(&scene->owner, 100);
    assert_true(wal_seal(wal)); /* on its way */
    assert_int_equal(wal_extents(wal, during, 16), count);
    assert_memory_equal(during, extents, count * sizeof *extents);
    assert_int_equal(wal_commit(wal), 0);
    scene->owner.acked = wal_committed(wal);
    assert_int_equal(wal_extents(wal, during, 16), count);
    assert_true(during[count - 1].bytes > extents[count - 1].bytes);
    end(scene);
}

/* ---- closing in the middle ---- */

CLAIM(a_commit_in_progress_ends_before_the_close)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);

    open_well(scene);
    wal_owner_push(&scene->owner, 100);
    assert_true(wal_seal(scene->owner.wal));
    wal_owner_push(&scene->owner, 100); /* and one more behind it */
    scene->owner.synced_acked = wal_open_sequence(scene->owner.wal);
    wal_owner_close(&scene->owner);
    sim_fs_crash(&scene->sim, SIM_DROP_UNSYNCED);
    open_well(scene);
    assert_int_equal(scene->owner.found.records, 2);
    end(scene);
}

CLAIM(an_interrupted_upkeep_is_completed_later)
{
    struct scene *scene = some_files();
    struct wal *wal = scene->owner.wal;

    push_up_to_file(scene, wal_current_file(wal) + 1);
    while (!wal_wants_upkeep(wal)) {
        wal_owner_push(&scene->owner, 2000);
        assert_int_equal(wal_owner_commit(&scene->owner), 0);
    }
    assert_int_equal(wal_upkeep(wal), 0);
    wal_owner_close(&scene->owner); /* as where the server stops just then */
    open_well(scene);
    end(scene);
}

CLAIM(a_name_has_eight_digits_or_more_and_is_read_back)
{
    const uint32_t numbers[] = {1, 9, 10, 12345678, 99999999, 100000000, 987654321, UINT32_MAX};
    char name[32], expected[32];

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        wal_file_name(numbers[i], name);
        snprintf(expected, sizeof expected, "%08u.log", numbers[i]);
        assert_string_equal(name, expected);
        assert_int_equal(wal_file_number(name), numbers[i]);
    }
}

CLAIMS_MAIN(NULL, NULL)
