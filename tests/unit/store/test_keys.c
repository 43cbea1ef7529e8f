#include "keys_rig.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <errno.h>

static struct sim_fs sim;

/* Counts reads. */
static struct fs_ops counting_ops;
static unsigned reads;

static ssize_t counted_pread(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    reads++;
    return sim.fs.ops->pread(ctx, fd, into, len, offset);
}

static void ask_all(const struct keys *keys, struct keys_rig_list list, struct random *random)
{
    for (size_t i = 0; i < list.count; i += 1 + list.count / 500) {
        keys_rig_find(keys, list, list.at[i].hash);
        keys_rig_find(keys, list, list.at[i].hash + 1);
        keys_rig_find(keys, list, list.at[i].hash - 1);
    }
    for (int i = 0; i < 200; i++)
        keys_rig_find(keys, list, random_next(random));
    keys_rig_find(keys, list, 0);
    keys_rig_find(keys, list, UINT64_MAX);
}

/* Checks with and without the part that is kept in RAM. */
static void check(struct keys_rig_list list, struct random *random)
{
    struct keys *keys = keys_rig_table(&sim, 3, list);
    int64_t bytes;

    assert_non_null(sim_fs_bytes(&sim, "run/00000003.keys", &bytes));
    assert_int_equal(keys_file_bytes(keys), bytes);
    assert_int_equal(keys_count(keys), list.count);
    assert_int_equal(keys_number(keys), 3);
    assert_int_equal(keys_rig_same(keys, list), 0);
    ask_all(keys, list, random);
    assert_false(keys_has_filter(keys));
    assert_int_equal(keys_maybe(keys, 5), list.count > 0);
    keys_prefetch(keys, 5);
    assert_int_equal(keys_load_filter(keys), 0);
    assert_int_equal(keys_load_filter(keys), 0);
    assert_true(keys_has_filter(keys));
    keys_prefetch(keys, 5);
    ask_all(keys, list, random);
    keys_close(keys);
    free(list.at);
}

enum spread { EVEN, FEW_HASHES, ONE_HASH, LOW, HIGH, BOTH_ENDS, DOUBLING, SPREADS };

static uint64_t hash_of(enum spread spread, uint64_t chance, size_t i)
{
    switch (spread) {
    case FEW_HASHES:
        return chance % 7 * (UINT64_MAX / 6);
    case ONE_HASH:
        return UINT64_C(1) << 63;
    case LOW:
        return chance % 5000;
    case HIGH:
        return UINT64_MAX - chance % 5000;
    case BOTH_ENDS:
        return chance % 2 ? 0 : UINT64_MAX;
    case DOUBLING:
        return chance >> i % 64;
    default:
        return chance;
    }
}

static struct keys_rig_list random_list(struct random *random, enum spread spread, size_t count)
{
    struct keys_rig_list list = keys_rig_make(count);

    for (size_t i = 0; i < count; i++)
        list.at[i] = (struct keys_entry){.hash = hash_of(spread, random_next(random), i),
                                         .run = (uint32_t)random_below(random, 10),
                                         .slot = (uint32_t)random_next(random)};
    keys_rig_sort(&list);
    return list;
}

CLAIM(finds_the_same_keys_as_a_list)
{
    static const size_t counts[] = {0,   1,   2,   254, 255,  256,
                                    509, 510, 511, 765, 5000, KEYS_IO_BLOCKS * 255 + 1};
    struct random random = seed_random(__func__);

    sim_fs_init(&sim, random_next(&random));
    for (enum spread spread = EVEN; spread < SPREADS; spread++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            check(random_list(&random, spread, counts[i]), &random);
    sim_fs_fini(&sim);
}

/* A few of the same hash are at the border of two blocks, at every offset. */
CLAIM(equal_hashes_over_a_border_are_all_found)
{
    struct random random = seed_random(__func__);

    sim_fs_init(&sim, 1);
    for (size_t at = 240; at < 260; at++) {
        struct keys_rig_list list = random_list(&random, EVEN, 765);

        for (size_t i = at; i < at + 10; i++)
            list.at[i].hash = list.at[at].hash;
        keys_rig_sort(&list);
        check(list, &random);
    }
    sim_fs_fini(&sim);
}

CLAIM(gives_no_more_than_there_is_room_for)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = random_list(&random, ONE_HASH, 600);
    struct keys *keys;
    struct keys_entry found[301] = {0};

    sim_fs_init(&sim, 1);
    keys = keys_rig_table(&sim, 1, list);
    found[300].hash = 99;
    assert_int_equal(keys_find(keys, list.at[0].hash, true, found, 300), 300);
    assert_int_equal(found[300].hash, 99);
    assert_int_equal(keys_compare(&found[299], &list.at[299]), 0);
    assert_int_equal(keys_find(keys, list.at[0].hash, true, found, 0), 0);
    keys_close(keys);
    sim_fs_fini(&sim);
    free(list.at);
}

/* The most and the average of reads that a question takes. */
static unsigned reads_of(struct keys *keys, struct keys_rig_list list, double *average)
{
    unsigned most = 0, sum = 0, asked = 0;
    struct keys_entry found;

    for (size_t i = 0; i < list.count; i += 19, asked++) {
        reads = 0;
        assert_true(keys_find(keys, list.at[i].hash, true, &found, 1) >= 0);
        sum += reads;
        most = reads > most ? reads : most;
    }
    *average = (double)sum / asked;
    return most;
}

CLAIM(takes_few_reads_however_the_hashes_lie)
{
    struct random random = seed_random(__func__);

    for (enum spread spread = EVEN; spread < SPREADS; spread++) {
        struct keys_rig_list list = random_list(&random, spread, 100000);
        struct fs fs;
        struct keys *keys;
        double average;
        char error[300];

        sim_fs_init(&sim, 1);
        keys_close(keys_rig_table(&sim, 1, list));
        counting_ops = *sim.fs.ops;
        counting_ops.pread = counted_pread;
        fs = (struct fs){.ops = &counting_ops, .ctx = &sim};
        assert_int_equal(keys_open(&fs, "run", 1, KEYS_RIG_SEED, &keys, error, sizeof error), 0);
        assert_true(reads_of(keys, list, &average) <= 16); /* 393 blocks: 4 guesses, 9 halvings */
        assert_true(spread != EVEN || average < 2.6);
        assert_int_equal(keys_load_filter(keys), 0);
        assert_true(reads_of(keys, list, &average) <= 2);
        assert_true(spread != EVEN || average < 1.02);
        keys_close(keys);
        sim_fs_fini(&sim);
        free(list.at);
    }
}

static ssize_t not_cached(void *ctx, int fd, void *into, size_t len, int64_t offset)
{
    (void)ctx, (void)fd, (void)into, (void)len, (void)offset;
    return -EAGAIN;
}

CLAIM(does_not_wait_for_the_disk_if_set_so)
{
    struct random random = seed_random(__func__);
    struct keys_rig_list list = random_list(&random, EVEN, 1000);
    struct fs fs = {.ops = &counting_ops, .ctx = &sim};
    struct keys *keys;
    struct keys_entry found;
    char error[300];

    sim_fs_init(&sim, 1);
    keys_close(keys_rig_table(&sim, 1, list));
    counting_ops = *sim.fs.ops;
    counting_ops.pread_cached = not_cached;
    assert_int_equal(keys_open(&fs, "run", 1, KEYS_RIG_SEED, &keys, error, sizeof error), 0);
    assert_int_equal(keys_find(keys, list.at[5].hash, false, &found, 1), -EAGAIN);
    assert_int_equal(keys_find(keys, list.at[5].hash, true, &found, 1), 1);
    assert_int_equal(keys_load_filter(keys), 0);
    assert_int_equal(keys_find(keys, list.at[5].hash, false, &found, 1), -EAGAIN);
    keys_close(keys);
    sim_fs_fini(&sim);
    free(list.at);
}

/* ---- merging ---- */

static bool keeps_even_runs(void *ctx, const struct keys_entry *entry)
{
    ++*(uint64_t *)ctx;
    return entry->run % 2 == 0;
}

static void merge_random(struct random *random, size_t tables)
{
    struct keys_rig_list all = keys_rig_make(0), lists[8];
    struct keys *keys[8], *merged;
    struct keys_writing writing;
    uint64_t kept = 0, asked = 0, total = 0;

    for (size_t i = 0; i < tables; i++) {
        lists[i] = random_list(random, (enum spread)random_below(random, SPREADS),
                               random_below(random, 4) ? random_below(random, 3000) : 0);
        keys[i] = keys_rig_table(&sim, (uint32_t)i + 1, lists[i]);
        all.at = realloc(all.at, (total + lists[i].count + 1) * sizeof *all.at);
        assert_non_null(all.at);
        total += lists[i].count;
        for (size_t n = 0; n < lists[i].count; n++)
            if (lists[i].at[n].run % 2 == 0)
                all.at[all.count++] = lists[i].at[n];
    }
    keys_rig_sort(&all);
    writing = keys_rig_writing(&sim, 9, total);
    assert_int_equal(merge_whole(&writing, keys, tables, keeps_even_runs, &asked, &kept), 0);
    assert_int_equal(kept, all.count);
    assert_int_equal(asked, total);
    assert_int_equal(keys_rig_open(&sim, 9, &merged), 0);
    assert_int_equal(keys_rig_same(merged, all), 0);
    assert_int_equal(keys_load_filter(merged), 0);
    ask_all(merged, all, random);
    keys_close(merged);
    for (size_t i = 0; i < tables; i++) {
        keys_close(keys[i]);
        free(lists[i].at);
    }
    free(all.at);
}

CLAIM(a_merged_table_has_all_entries)
{
    struct random random = seed_random(__func__);

    sim_fs_init(&sim, 1);
    for (int round = 0; round < 20; round++)
        merge_random(&random, random_below(&random, 9));
    merge_random(&random, 0);
    sim_fs_fini(&sim);
}

CLAIM(file_names_are_recognised)
{
    char name[32];

    keys_file_name(12, name);
    assert_string_equal(name, "00000012.keys");
    assert_int_equal(keys_file_number(name), 12);
    keys_file_name(UINT32_MAX, name);
    assert_int_equal(keys_file_number(name), UINT32_MAX);
    assert_int_equal(keys_file_number("00000012.keys.new"), 0);
    assert_int_equal(keys_file_number("00000012.run"), 0);
    assert_int_equal(keys_file_number("12.keys"), 0);
    assert_int_equal(keys_file_number("00000000.keys"), 0);
    assert_int_equal(keys_file_number("99999999999.keys"), 0);
    assert_int_equal(keys_file_number(" 0000012.keys"), 0);
    assert_int_equal(keys_file_number(""), 0);
}

CLAIMS_MAIN(NULL, NULL)
