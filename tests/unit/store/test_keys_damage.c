/* Tables of keys when the disk fails, the power goes, or bytes are not what they were. */
#include "job/wire.h"
#include "keys_rig.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#define TABLE "run/00000001.keys"
#define MERGED "run/00000003.keys"

enum { SMALL = 600 /* entries: three blocks of them, one each of filter, fences, footer */ };

static struct sim_fs sim;

static struct keys_rig_list even_list(struct random *random, size_t count)
{
    struct keys_rig_list list = keys_rig_make(count);

    for (size_t i = 0; i < count; i++)
        list.at[i] =
            (struct keys_entry){.hash = random_next(random), .run = 1, .slot = (uint32_t)i};
    keys_rig_sort(&list);
    return list;
}

/* ---- bytes ---- */

/* The result of each way of reading the damaged table. */
static void notice(struct keys_rig_list list, int64_t at)
{
    struct keys *keys;
    struct keys_entry found[4];
    int block = (int)(at / KEYS_BLOCK_BYTES), result = keys_rig_open(&sim, 1, &keys);

    assert_int_equal(result, block == 5 ? -EBADMSG : 0);
    if (result < 0)
        return;
    assert_int_equal(keys_rig_same(keys, list), block < 3 ? -EBADMSG : 0);
    for (size_t i = 0; i < list.count; i += SMALL / 4) {
        result = keys_find(keys, list.at[i].hash, true, found, 4);
        assert_true(result == 1 || (result == -EBADMSG && block < 3));
    }
    assert_int_equal(keys_load_filter(keys), block == 3 || block == 4 ? -EBADMSG : 0);
    assert_int_equal(keys_has_filter(keys), block < 3);
    assert_true(keys_maybe(keys, list.at[7].hash));
    result = keys_find(keys, list.at[SMALL - 1].hash, true, found, 4);
    assert_true(result == 1 || (result == -EBADMSG && block == 2));
    keys_close(keys);
}

CLAIM(every_flipped_byte_is_noticed)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = even_list(&random, SMALL);
    int64_t size;

    sim_fs_init(&sim, 1);
    keys_close(keys_rig_table(&sim, 1, list));
    sim_fs_bytes(&sim, TABLE, &size);
    assert_int_equal(size, 6 * KEYS_BLOCK_BYTES);
    for (int64_t at = 0; at < size; at += 1 + (int64_t)random_below(&random, 5)) {
        unsigned char flip = (unsigned char)(1 << random_below(&random, 8));

        sim_fs_damage(&sim, TABLE, at, flip);
        notice(list, at);
        sim_fs_damage(&sim, TABLE, at, flip);
    }
    sim_fs_fini(&sim);
    free(list.at);
}

CLAIM(a_file_of_another_length_is_refused)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = even_list(&random, SMALL);
    int64_t size = 6 * KEYS_BLOCK_BYTES;
    struct keys *keys;
    int fd;

    for (int64_t bytes = 0; bytes <= size + KEYS_BLOCK_BYTES; bytes += 512) {
        sim_fs_init(&sim, 1);
        keys_close(keys_rig_table(&sim, 1, list));
        fd = sim.fs.ops->open(&sim, TABLE, O_RDWR, 0);
        assert_int_equal(sim.fs.ops->truncate(&sim, fd, bytes), 0);
        sim.fs.ops->close(&sim, fd);
        assert_int_equal(keys_rig_open(&sim, 1, &keys), bytes == size ? 0 : -EBADMSG);
        if (bytes == size)
            keys_close(keys);
        sim_fs_fini(&sim);
    }
    free(list.at);
}

static void copy_block(const char *path, int64_t from, int64_t to)
{
    char block[KEYS_BLOCK_BYTES];
    int fd = sim.fs.ops->open(&sim, path, O_RDWR, 0);

    assert_int_equal(sim.fs.ops->pread(&sim, fd, block, sizeof block, from * KEYS_BLOCK_BYTES),
                     sizeof block);
    for (ssize_t done = 0; done < KEYS_BLOCK_BYTES;)
        done += sim.fs.ops->pwrite(&sim, fd, block + done, sizeof block - (size_t)done,
                                   to * KEYS_BLOCK_BYTES + done);
    sim.fs.ops->close(&sim, fd);
}

CLAIM(a_sound_block_in_another_place_is_noticed)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = even_list(&random, SMALL);
    struct keys *keys = NULL;
    char error[300];

    sim_fs_init(&sim, 1);
    keys_close(keys_rig_table(&sim, 1, list));
    assert_int_equal(keys_open(&sim.fs, "run", 1, 1, &keys, error, sizeof error), -EBADMSG);
    assert_non_null(strstr(error, "'run/00000001.keys' is damaged"));
    assert_int_equal(keys_open(&sim.fs, "run", 2, 1, &keys, error, sizeof error), -ENOENT);
    copy_block(TABLE, 1, 0);
    assert_int_equal(keys_rig_open(&sim, 1, &keys), 0);
    assert_int_equal(keys_rig_same(keys, list), -EBADMSG);
    keys_close(keys);
    assert_int_equal(sim.fs.ops->rename(&sim, TABLE, "run/00000002.keys"), 0);
    assert_int_equal(keys_rig_open(&sim, 2, &keys), -EBADMSG);
    sim_fs_fini(&sim);
    free(list.at);
}

CLAIM(a_block_of_another_table_is_noticed)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = even_list(&random, SMALL);
    struct keys *keys = keys_rig_table((sim_fs_init(&sim, 1), &sim), 1, list);

    keys_close(keys_rig_table(&sim, 2, list));
    memcpy(sim_fs_bytes(&sim, TABLE, NULL), sim_fs_bytes(&sim, "run/00000002.keys", NULL),
           KEYS_BLOCK_BYTES);
    assert_int_equal(keys_rig_same(keys, list), -EBADMSG);
    keys_close(keys);
    sim_fs_fini(&sim);
    free(list.at);
}

/* Whatever the cause, it is damage, and no merge continues with it. */
CLAIM(entries_in_no_order_are_noticed)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = even_list(&random, SMALL);
    struct keys *keys = keys_rig_table((sim_fs_init(&sim, 1), &sim), 1, list);
    char *block = sim_fs_bytes(&sim, TABLE, NULL);

    keys_put_entry(block, 3, &list.at[4]);
    keys_put_entry(block, 4, &list.at[3]);
    keys_sign(block, KEYS_RIG_SEED, 1, 0);
    list.at[3] = list.at[4];
    assert_int_equal(keys_rig_same(keys, list), -EBADMSG);
    keys_close(keys);
    sim_fs_fini(&sim);
    free(list.at);
}

CLAIM(a_newer_format_is_refused_as_such)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = even_list(&random, SMALL);
    struct keys *keys = NULL;
    char block[KEYS_BLOCK_BYTES], error[300];
    int fd;

    sim_fs_init(&sim, 1);
    keys_close(keys_rig_table(&sim, 1, list));
    fd = sim.fs.ops->open(&sim, TABLE, O_RDWR, 0);
    sim.fs.ops->pread(&sim, fd, block, sizeof block, 5 * KEYS_BLOCK_BYTES);
    wire_put_u32(block + 8, KEYS_FORMAT + 1);
    keys_sign(block, KEYS_RIG_SEED, 1, 5);
    for (ssize_t done = 0; done < KEYS_BLOCK_BYTES;)
        done += sim.fs.ops->pwrite(&sim, fd, block + done, sizeof block - (size_t)done,
                                   5 * KEYS_BLOCK_BYTES + done);
    sim.fs.ops->close(&sim, fd);
    assert_int_equal(keys_open(&sim.fs, "run", 1, KEYS_RIG_SEED, &keys, error, sizeof error),
                     -ENOTSUP);
    assert_non_null(strstr(error, "newer"));
    sim_fs_fini(&sim);
    free(list.at);
}

/* ---- I/O ---- */

static struct {
    struct keys_rig_list sections[2], all;
} merging;

static bool keeps_all(void *ctx, const struct keys_entry *entry)
{
    (void)ctx, (void)entry;
    return true;
}

/* Two tables that fill several writes and make a sync in between. */
static void begin(struct random *random, size_t each)
{
    merging.all = keys_rig_make(2 * each);
    for (int i = 0; i < 2; i++) {
        merging.sections[i] = even_list(random, each);
        memcpy(merging.all.at + (size_t)i * each, merging.sections[i].at,
               each * sizeof *merging.all.at);
    }
    keys_rig_sort(&merging.all);
}

static void end(void)
{
    free(merging.sections[0].at);
    free(merging.sections[1].at);
    free(merging.all.at);
}

static void write_sections(struct keys *tables[2])
{
    for (uint32_t i = 0; i < 2; i++)
        tables[i] = keys_rig_table(&sim, i + 1, merging.sections[i]);
}

static int merge(struct keys *tables[2])
{
    struct keys_writing writing = keys_rig_writing(&sim, 3, merging.all.count);
    uint64_t kept = 77;
    int result = merge_whole(&writing, tables, 2, keeps_all, NULL, &kept);

    assert_int_equal(kept, result < 0 ? 77 : merging.all.count);
    return result;
}

static void check_merged(void)
{
    struct keys *keys;

    assert_int_equal(keys_rig_open(&sim, 3, &keys), 0);
    assert_int_equal(keys_rig_same(keys, merging.all), 0);
    assert_int_equal(keys_load_filter(keys), 0);
    keys_close(keys);
}

static uint64_t crash_and_look(uint64_t at, enum sim_damage damage, uint64_t seed)
{
    struct keys *tables[2];
    uint64_t ios;
    int result;

    sim_fs_init(&sim, seed);
    write_sections(tables);
    ios = sim.ios;
    sim.crash_at = at ? ios + at : 0;
    result = merge(tables);
    ios = sim.ios - ios;
    assert_int_equal(result, at && at <= ios ? -EIO : 0);
    keys_close(tables[0]);
    keys_close(tables[1]);
    sim_fs_crash(&sim, damage);
    if (result == 0 || sim_fs_bytes(&sim, MERGED, NULL))
        check_merged();
    sim_fs_fini(&sim);
    return ios;
}

CLAIM(a_crash_leaves_a_whole_or_no_table)
{
    struct random random = seed_random(__func__);
    uint64_t ios, runs;

    begin(&random, 140000);
    ios = crash_and_look(0, SIM_DROP_UNSYNCED, random_next(&random));
    assert_true(ios > 15);
    runs = random_next(&random) % SIM_DAMAGES;
    for (uint64_t at = 1; at <= ios + 1; at++)
        crash_and_look(at, (enum sim_damage)(1 + runs++ % SIM_DAMAGES), random_next(&random));
    end();
}

/* As above with small ones: every I/O with every damage. */
CLAIM(a_crash_leaves_whole_or_no_small_tables)
{
    struct random random = seed_random(__func__);
    uint64_t ios;

    begin(&random, 300);
    ios = crash_and_look(0, SIM_DROP_UNSYNCED, random_next(&random));
    for (uint64_t at = 1; at <= ios + 3; at++)
        for (int i = 0; i < 20; i++)
            crash_and_look(at, (enum sim_damage)(1 + i % SIM_DAMAGES), random_next(&random));
    end();
}

static void fail_and_look(uint64_t at, bool for_ever, int error)
{
    struct keys *tables[2];
    int result;

    sim_fs_init(&sim, at);
    write_sections(tables);
    sim.fail_at = sim.ios + at;
    sim.fail_for_ever = for_ever;
    sim.fail_errno = error;
    result = merge(tables);
    assert_int_equal(result, sim.ios < sim.fail_at ? 0 : -error);
    if (result < 0 && !for_ever) {
        assert_null(sim_fs_bytes(&sim, MERGED, NULL));
        assert_null(sim_fs_bytes(&sim, MERGED ".new", NULL));
    }
    sim.fail_at = 0;
    sim.fail_for_ever = false;
    assert_int_equal(merge(tables), 0);
    check_merged();
    keys_close(tables[0]);
    keys_close(tables[1]);
    sim_fs_fini(&sim);
}

CLAIM(a_failed_write_leaves_nothing_behind)
{
    struct random random = seed_random(__func__);

    begin(&random, 12000);
    for (uint64_t at = 1; at < 15; at++) {
        fail_and_look(at, false, EIO);
        fail_and_look(at, false, ENOSPC);
        fail_and_look(at, true, ENOSPC);
    }
    end();
}

/* The n-th read fails. */
static struct fs_ops failing_ops;
static int reads_left;

static ssize_t failing_pread(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    return reads_left-- == 0 ? -EIO : sim.fs.ops->pread(ctx, fd, into, len, offset);
}

static int read_in_all_ways(void)
{
    struct fs fs = {.ops = &failing_ops, .ctx = &sim};
    struct keys *keys;
    struct keys_entry found;
    char error[300] = "";
    int result = keys_open(&fs, "run", 1, KEYS_RIG_SEED, &keys, error, sizeof error);

    if (result < 0) {
        assert_non_null(strstr(error, "cannot read"));
        return result;
    }
    result = keys_find(keys, merging.sections[0].at[300].hash, true, &found, 1);
    if (result >= 0)
        result = keys_load_filter(keys);
    assert_int_equal(keys_has_filter(keys), result == 0);
    if (result >= 0)
        result = keys_rig_same(keys, merging.sections[0]);
    keys_close(keys);
    return result;
}

CLAIM(a_failed_read_is_reported)
{
    struct random random = seed_random(__func__);
    struct keys *tables[2];
    int reads = 0;

    begin(&random, SMALL);
    sim_fs_init(&sim, 1);
    write_sections(tables);
    failing_ops = *sim.fs.ops;
    failing_ops.pread = failing_pread;
    do {
        reads_left = reads++;
    } while (read_in_all_ways() == -EIO);
    assert_true(reads >= 5);
    assert_true(reads_left >= 0); /* it went through */
    keys_close(tables[0]);
    keys_close(tables[1]);
    sim_fs_fini(&sim);
    end();
}

/* ---- pace ---- */

struct pacing {
    size_t bytes, calls, stop_at;
};

static int pace(void *ctx, size_t bytes)
{
    struct pacing *pacing = ctx;

    pacing->bytes += bytes;
    return ++pacing->calls == pacing->stop_at ? -ECANCELED : 0;
}

CLAIM(the_pace_callback_may_end_the_write)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = even_list(&random, 60000);
    struct keys_writing writing = keys_rig_writing(&sim, 1, list.count);
    struct pacing pacing = {0};
    size_t calls;
    int64_t size;

    writing.pace = pace;
    writing.ctx = &pacing;
    sim_fs_init(&sim, 1);
    assert_int_equal(keys_rig_write(&writing, list), 0);
    sim_fs_bytes(&sim, TABLE, &size);
    assert_int_equal(pacing.bytes, size);
    assert_int_equal(sim.fs.ops->unlink(&sim, TABLE), 0);
    calls = pacing.calls;
    assert_true(calls > 3);
    for (size_t stop_at = 1; stop_at <= calls; stop_at++) {
        pacing = (struct pacing){.stop_at = stop_at};
        assert_int_equal(keys_rig_write(&writing, list), -ECANCELED);
        assert_null(sim_fs_bytes(&sim, TABLE, NULL));
        assert_null(sim_fs_bytes(&sim, TABLE ".new", NULL));
    }
    sim_fs_fini(&sim);
    free(list.at);
}

/* ---- threads ---- */

static void *load_on_helper(void *ctx)
{
    assert_int_equal(keys_load_filter(ctx), 0);
    return NULL;
}

CLAIM(filters_are_read_beside_questions)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = even_list(&random, 20000);
    struct keys *keys;

    sim_fs_init(&sim, 1);
    keys_close(keys_rig_table(&sim, 1, list));
    for (int round = 0; round < 30; round++) {
        pthread_t helper;
        size_t asked = 0, more = 0;

        assert_int_equal(keys_rig_open(&sim, 1, &keys), 0);
        assert_int_equal(pthread_create(&helper, NULL, load_on_helper, keys), 0);
        while (more < 2000) { /* before, while, and after */
            more += keys_has_filter(keys);
            keys_prefetch(keys, list.at[asked % list.count].hash);
            assert_true(keys_maybe(keys, list.at[asked++ % list.count].hash));
        }
        pthread_join(helper, NULL);
        keys_rig_find(keys, list, list.at[9].hash);
        keys_close(keys);
    }
    sim_fs_fini(&sim);
    free(list.at);
}

CLAIMS_MAIN(NULL, NULL)
