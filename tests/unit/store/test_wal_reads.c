/* Reading while files go, and where memory or the disk is short. */
#include "unit/claim.h"
#include "unit/fault_calls.h"

#include "store/wal_private.h"
#include "wal_files_rig.h"

#include <malloc.h>

/* ---- reading while files go ---- */

static int read_at(struct scene *scene, struct record_place place, bool may_block)
{
    struct buffer scratch;
    struct slice bytes;
    int result;

    buffer_init(&scratch, 1 << 20);
    result = wal_read(scene->owner.wal, place, may_block, &scratch, &bytes);
    buffer_fini(&scratch);
    return result;
}

static int read_next_at(struct scene *scene, struct record_place place, struct wal_window *window)
{
    struct buffer scratch;
    struct slice bytes;
    int result;

    buffer_init(&scratch, 1 << 20);
    result = wal_read_next(scene->owner.wal, place, window, &scratch, &bytes);
    buffer_fini(&scratch);
    return result;
}

/* Also one that is marked for removal, and stays in the table until the owner is notified. */
CLAIM(a_record_of_a_removed_file_is_not_found)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_window window = {0};
    struct record_place place;
    struct wal *wal;

    open_well(scene);
    wal = scene->owner.wal;
    push_up_to_file(scene, 6);
    place = scene->owner.places[1];
    assert_int_equal(place.file, 1);
    checkpoint(scene);
    assert_int_equal(read_at(scene, place, true), 0); /* it is not removed yet */
    assert_true(wal_wants_upkeep(wal));
    assert_int_equal(wal_upkeep(wal), 0);
    assert_int_equal(read_at(scene, place, true), -ENOENT);
    assert_int_equal(read_next_at(scene, place, &window), -ENOENT);
    wal_upkept(wal);
    assert_int_equal(read_at(scene, place, true), -ENOENT);
    assert_int_equal(read_at(scene, place, false), -ENOENT);
    assert_int_equal(read_next_at(scene, place, &window), -ENOENT);
    wal_window_fini(&window);
    wal_checkpointed(wal, 2); /* reported before, and further than that */
    assert_false(wal_wants_upkeep(wal));
    end(scene);
}

static struct scene *upkept_meanwhile;

static ssize_t pread_during_upkeep(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    struct scene *scene = upkept_meanwhile;

    upkept_meanwhile = NULL;
    if (scene) {
        assert_true(wal_wants_upkeep(scene->owner.wal));
        assert_int_equal(wal_upkeep(scene->owner.wal), 0);
        wal_upkept(scene->owner.wal);
    }
    return ((struct sim_fs *)ctx)->fs.ops->pread(ctx, fd, into, len, offset);
}

CLAIM(a_file_that_is_being_read_stays_and_goes_with_the_next_upkeep)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct fs_ops ops = *scene->sim.fs.ops;
    struct record_place place;

    ops.pread = pread_during_upkeep;
    put_before(scene, &ops);
    open_well(scene);
    push_up_to_file(scene, 6);
    for (uint32_t id = 1; (place = scene->owner.places[id]).file < 2; id++)
        ;
    assert_int_equal(place.file, 2);
    checkpoint(scene);
    upkept_meanwhile = scene;
    assert_int_equal(read_at(scene, place, true), 0);
    assert_null(upkept_meanwhile);
    assert_int_equal(read_at(scene, place, true), 0); /* that upkeep left it */
    assert_int_equal(wal_owner_upkeep(&scene->owner), 0);
    assert_int_equal(read_at(scene, place, true), -ENOENT);
    end(scene);
}

CLAIM(a_place_that_runs_over_the_end_of_its_file_is_damage)
{
    const struct record_place beyond = {.file = 1, .at = FILE_BYTES - 50, .bytes = 100};
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_window window = {0};

    open_well(scene);
    push_up_to_file(scene, 2);
    assert_int_equal(read_at(scene, beyond, false), -EAGAIN); /* use a call that may wait */
    assert_int_equal(read_at(scene, beyond, true), -EIO);
    assert_int_equal(read_next_at(scene, beyond, &window), -EIO);
    wal_window_fini(&window);
    end(scene);
}

/* In any order, though not as fast. */
CLAIM(records_read_through_a_window_may_lie_before_it)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_window window = {0};
    uint32_t jobs;

    open_well(scene);
    push_up_to_file(scene, 4);
    jobs = scene->owner.jobs;
    for (uint32_t id = jobs; id > 0; id--)
        assert_int_equal(read_next_at(scene, scene->owner.places[id], &window), 0);
    for (uint32_t id = 1; id <= jobs; id++)
        assert_int_equal(read_next_at(scene, scene->owner.places[id], &window), 0);
    wal_window_fini(&window);
    end(scene);
}

/* ---- memory, quotas ---- */

CLAIM(reading_without_memory_reports_that)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_window window = {0};
    int results[3];

    open_well(scene);
    push_up_to_file(scene, 6);
    for (int way = 0; way < 3; way++) {
        calls_left = 0;
        results[way] = way < 2 ? read_at(scene, scene->owner.places[1], way)
                               : read_next_at(scene, scene->owner.places[1], &window);
        calls_left = -1;
        assert_int_equal(results[way], -ENOMEM);
    }
    assert_int_equal(read_next_at(scene, scene->owner.places[1], &window), 0);
    wal_window_fini(&window);
    end(scene);
}

CLAIM(without_memory_for_the_next_file_it_is_stuck_for_now)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_stats stats;

    open_well(scene);
    assert_true(wal_wants_upkeep(scene->owner.wal));
    calls_left = 0;
    assert_int_equal(wal_upkeep(scene->owner.wal), -ENOMEM);
    calls_left = -1;
    wal_upkept(scene->owner.wal);
    wal_stats(scene->owner.wal, &stats);
    assert_true(stats.stuck && !stats.full && !stats.broken);
    assert_non_null(strstr(wal_error(scene->owner.wal), "cannot create the next log file"));
    assert_int_equal(wal_owner_upkeep(&scene->owner), 0);
    assert_null(wal_error(scene->owner.wal));
    push_up_to_file(scene, 3);
    end(scene);
}

/* It has been created, and cannot be recorded: the next opening may or may not find it. */
CLAIM(without_memory_to_take_in_a_file_the_log_is_broken)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal *wal;
    struct wal_stats stats = {0};

    open_well(scene);
    wal = scene->owner.wal;
    while (!stats.broken) {
        wal_owner_push(&scene->owner, 2000);
        assert_int_equal(wal_owner_commit(&scene->owner), 0);
        if (wal_wants_upkeep(wal)) {
            assert_int_equal(wal_upkeep(wal), 0);
            calls_left = 0; /* of many files: for a few there is room */
            wal_upkept(wal);
            calls_left = -1;
        }
        wal_stats(wal, &stats);
        assert_true(stats.files < 40);
    }
    assert_true(stats.files >= 16);
    assert_non_null(strstr(wal_error(wal), "out of memory"));
    assert_int_equal(wal_has_room(wal, 100, WAL_FOR_ANSWER), -EIO);
    die(scene, SIM_KEEP_ALL);
    open_well(scene);
    end(scene);
}

CLAIM(a_quota_that_is_used_up_is_a_full_disk)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    struct wal_stats stats;

    open_well(scene);
    scene->sim.fail_at = scene->sim.ios + 2;
    scene->sim.fail_errno = EDQUOT;
    assert_int_equal(wal_owner_upkeep(&scene->owner), -EDQUOT);
    wal_stats(scene->owner.wal, &stats);
    assert_true(stats.full && stats.stuck && !stats.broken);
    assert_non_null(strstr(wal_error(scene->owner.wal), "no space for the next log file"));
    assert_int_equal(wal_owner_upkeep(&scene->owner), 0);
    wal_stats(scene->owner.wal, &stats);
    assert_false(stats.full || stats.stuck);
    end(scene);
}

/* Files that are made ahead while batches are as large as they may be. */
CLAIM(opening_reads_batches_larger_than_its_buffer)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);

    scene->owner.options.file_bytes = 6 << 20;
    scene->owner.options.batch_bytes_max = 5 << 20;
    scene->owner.options.recent_bytes_max = 8 << 20;
    open_well(scene);
    for (int i = 0; i < 1000; i++)
        wal_owner_push(&scene->owner, 4000);
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    wal_owner_push(&scene->owner, 100);
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    assert_int_equal(wal_open_sequence(scene->owner.wal), 4);
    die(scene, SIM_KEEP_ALL);
    open_well(scene);
    assert_int_equal(scene->owner.found.records, 1001);
    end(scene);
}

/* The commit makes the checks of large records. */
CLAIM(large_records_are_read_from_their_file)
{
    static const size_t body_bytes[] = {100, 65536, 32 << 10, 50, 40000};
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);

    scene->owner.options.file_bytes = 6 << 20;
    scene->owner.options.batch_bytes_max = 5 << 20;
    scene->owner.options.recent_bytes_max = 1; /* batches are not kept in RAM */
    open_well(scene);
    for (size_t i = 0; i < sizeof body_bytes / sizeof body_bytes[0]; i++)
        wal_owner_push(&scene->owner, body_bytes[i]);
    assert_int_equal(wal_owner_commit(&scene->owner), 0);
    for (uint32_t id = 1; id <= scene->owner.jobs; id++)
        assert_int_equal(read_at(scene, scene->owner.places[id], true), 0);
    die(scene, SIM_KEEP_ALL);
    open_well(scene);
    assert_int_equal(scene->owner.found.records, scene->owner.jobs);
    end(scene);
}

/* Only damaged memory causes it. */
CLAIM(a_large_batch_that_is_damaged_in_memory_is_not_written)
{
    struct scene *scene = start(WAL_SYNC_ALWAYS, 3);
    uint64_t ios;

    scene->owner.options.file_bytes = 6 << 20;
    scene->owner.options.batch_bytes_max = 5 << 20;
    open_well(scene);
    wal_owner_push(&scene->owner, 40000);
    commit(scene);
    wal_owner_push(&scene->owner, 100);
    wal_owner_push(&scene->owner, 40000);
    memset(scene->owner.wal->open->at + WAL_HEAD_BYTES, 0xff, 4);
    ios = scene->sim.ios;
    assert_int_equal(wal_owner_commit(&scene->owner), -EBADMSG);
    assert_int_equal(scene->sim.ios, ios);
    assert_int_equal(scene->owner.acked, 1);
    assert_non_null(wal_error(scene->owner.wal));
    die(scene, SIM_KEEP_ALL);
    open_well(scene);
    assert_int_equal(scene->owner.found.records, 1);
    end(scene);
}

/* ---- batches that stay in RAM ---- */

enum { SMALL_BODY_BYTES = 50, ROOM_BYTES = 2 << 20 };

static struct scene *start_recent(size_t recent_bytes_max)
{
    struct scene *scene = start(WAL_SYNC_NEVER, 3);

    scene->owner.options.file_bytes = 6 << 20;
    scene->owner.options.batch_bytes_max = 5 << 20;
    scene->owner.options.recent_bytes_max = recent_bytes_max;
    open_well(scene);
    return scene;
}

/* Commits a batch of that many jobs after room for a large command was reserved. */
static void commit_jobs(struct scene *scene, int jobs, size_t body_bytes)
{
    assert_int_equal(wal_has_room(scene->owner.wal, ROOM_BYTES, WAL_FOR_ANSWER), 0);
    for (int i = 0; i < jobs; i++)
        wal_owner_push(&scene->owner, body_bytes);
    commit(scene);
}

static size_t allocated(const struct wal_recent *recent)
{
    size_t sum = 0;

    for (uint32_t i = 0; i < recent->count; i++) {
        struct wal_batch *batch = recent->ring[(recent->head + i) & (recent->cap - 1)];

        sum += malloc_usable_size(batch);
        if (batch->at != batch->copied)
            sum += batch->cap;
    }
    return sum;
}

static void is_within(const struct wal_recent *recent, size_t bytes_max)
{
    assert_in_range(recent->bytes, allocated(recent), bytes_max);
    assert_in_range(recent->count, 1, WAL_RECENT_BATCHES_MAX);
}

CLAIM(the_number_of_batches_in_memory_is_limited)
{
    enum { BYTES_MAX = 16 << 20 };
    struct scene *scene = start_recent(BYTES_MAX);
    const struct wal_recent *recent = &scene->owner.wal->recent;

    for (int i = 0; i < WAL_RECENT_BATCHES_MAX + 500; i++)
        commit_jobs(scene, 1, SMALL_BODY_BYTES);
    is_within(recent, BYTES_MAX);
    assert_int_equal(recent->count, WAL_RECENT_BATCHES_MAX);
    assert_int_equal(recent->cap, WAL_RECENT_BATCHES_MAX);
    assert_true(recent->bytes < 2 << 20);
    end(scene);
}

/* A large batch displaces small ones, and one above the limit none. */
CLAIM(batches_in_memory_are_counted_with_their_overhead)
{
    enum { BYTES_MAX = 300000 };
    struct scene *scene = start_recent(BYTES_MAX);
    const struct wal_recent *recent = &scene->owner.wal->recent;
    uint32_t count;

    for (int i = 0; i < 2000; i++)
        commit_jobs(scene, 1, SMALL_BODY_BYTES);
    is_within(recent, BYTES_MAX);
    assert_in_range(recent->count, 500, 1500);
    count = recent->count;
    commit_jobs(scene, 10, 50000);
    assert_int_equal(recent->count, count);
    commit_jobs(scene, 4, 50000);
    is_within(recent, BYTES_MAX);
    assert_in_range(recent->count, 2, count / 2);
    commit_jobs(scene, 1, SMALL_BODY_BYTES);
    is_within(recent, BYTES_MAX);
    for (uint32_t id = scene->owner.jobs - 4; id <= scene->owner.jobs; id++)
        assert_int_equal(read_at(scene, scene->owner.places[id], false), 0);
    end(scene);
}

CLAIM(batches_of_100_kib_stay_in_memory_without_their_unused_room)
{
    enum { BATCHES = 100, BYTES_MAX = 16 << 20 };
    struct scene *scene = start_recent(BYTES_MAX);
    const struct wal_recent *recent = &scene->owner.wal->recent;

    for (int i = 0; i < BATCHES; i++)
        commit_jobs(scene, 2, 50 << 10);
    is_within(recent, BYTES_MAX);
    assert_in_range(recent->count, BATCHES, BATCHES + 5); /* the end of a file splits some */
    assert_true(recent->bytes < (size_t)BATCHES * (105 << 10));
    end(scene);
}

/* At least a quarter of the memory is in use. Batches that are not copied displace copies, which the
 * next batch cannot use. */
CLAIM(no_batch_in_memory_keeps_much_unused_room)
{
    enum { BYTES_MAX = 4 << 20 };
    struct scene *scene = start_recent(BYTES_MAX);
    const struct wal_recent *recent = &scene->owner.wal->recent;

    for (int jobs = 1; jobs < 60; jobs += 3) {
        const struct wal_batch *batch;

        commit_jobs(scene, jobs, 20000);
        is_within(recent, BYTES_MAX);
        batch = recent->ring[(recent->head + recent->count - 1) & (recent->cap - 1)];
        assert_true(batch->cap <= 4 * batch->len);
    }
    end(scene);
}

/* Then the batch itself is kept. */
CLAIM(without_memory_for_a_copy_a_batch_stays_readable)
{
    struct scene *scene = start_recent(16 << 20);
    const struct wal_recent *recent = &scene->owner.wal->recent;

    assert_int_equal(wal_has_room(scene->owner.wal, ROOM_BYTES, WAL_FOR_ANSWER), 0);
    wal_owner_push(&scene->owner, SMALL_BODY_BYTES);
    assert_true(wal_seal(scene->owner.wal));
    assert_int_equal(wal_commit(scene->owner.wal), 0);
    calls_left = 0;
    assert_int_equal(wal_committed(scene->owner.wal), 1);
    calls_left = -1;
    assert_int_equal(recent->count, 1);
    assert_true(recent->ring[recent->head]->cap > ROOM_BYTES);
    assert_int_equal(read_at(scene, scene->owner.places[1], false), 0);
    end(scene);
}

static bool ends_early;

static ssize_t pread_short(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    if (ends_early && offset >= WAL_HEADER_BYTES)
        return 0;
    return ((struct sim_fs *)ctx)->fs.ops->pread(ctx, fd, into, len, offset);
}

CLAIM(a_file_that_ends_early_while_it_is_read_is_refused_with_its_place)
{
    struct scene *scene = some_files();
    struct fs_ops ops = *scene->sim.fs.ops;

    wal_owner_close(&scene->owner);
    ops.pread = pread_short;
    put_before(scene, &ops);
    ends_early = true;
    assert_int_equal(wal_owner_open(&scene->owner, 0), -EIO);
    assert_non_null(strstr(scene->owner.error, "00000004.log' at byte 4096"));
    ends_early = false;
    open_well(scene);
    end(scene);
}

CLAIMS_MAIN(NULL, NULL)
