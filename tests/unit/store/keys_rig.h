/* keys_rig: entries in memory as the model of a table of keys, written to and read from a simulated
 * disk. */
#ifndef TARRY_TESTS_KEYS_RIG_H
#define TARRY_TESTS_KEYS_RIG_H

#include "base/random.h"
#include "store/keys_private.h"
#include "support/merge_whole.h"
#include "support/sim_fs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEYS_RIG_DIR "run"

enum { KEYS_RIG_SEED = 4711, KEYS_RIG_FOUND_MAX = 2000 };

struct keys_rig_list {
    struct keys_entry *at;
    size_t count;
};

static inline int keys_rig_order(const void *a, const void *b)
{
    return keys_compare(a, b);
}

static inline struct keys_rig_list keys_rig_make(size_t count)
{
    struct keys_rig_list list = {.at = calloc(count + 1, sizeof *list.at), .count = count};

    assert_non_null(list.at);
    return list;
}

static inline void keys_rig_sort(struct keys_rig_list *list)
{
    qsort(list->at, list->count, sizeof *list->at, keys_rig_order);
}

static inline struct keys_writing keys_rig_writing(struct sim_fs *sim, uint32_t number,
                                                   uint64_t entries_max)
{
    return (struct keys_writing){.fs = &sim->fs,
                                 .dir = KEYS_RIG_DIR,
                                 .number = number,
                                 .seed = KEYS_RIG_SEED,
                                 .entries_max = entries_max};
}

static inline int keys_rig_write(const struct keys_writing *writing, struct keys_rig_list list)
{
    struct keys_writer *writer;
    int result = keys_writer_new(writing, &writer);

    for (size_t i = 0; i < list.count && result == 0; i++) {
        result = keys_writer_add(writer, &list.at[i]);
        if (result < 0) {
            keys_writer_abandon(writer);
            return result;
        }
    }
    return result < 0 ? result : keys_writer_finish(writer);
}

static inline int keys_rig_open(struct sim_fs *sim, uint32_t number, struct keys **out)
{
    char error[300] = "";
    int result = keys_open(&sim->fs, KEYS_RIG_DIR, number, KEYS_RIG_SEED, out, error, sizeof error);

    assert_true(result == 0 || strlen(error) > 10);
    return result;
}

static inline struct keys *keys_rig_table(struct sim_fs *sim, uint32_t number,
                                          struct keys_rig_list list)
{
    struct keys_writing writing = keys_rig_writing(sim, number, list.count);
    struct keys *keys = NULL;

    assert_int_equal(keys_rig_write(&writing, list), 0);
    assert_int_equal(keys_rig_open(sim, number, &keys), 0);
    return keys;
}

/* Compares all entries, in their order: 0, or the error. */
static inline int keys_rig_same(const struct keys *keys, struct keys_rig_list list)
{
    struct keys_cursor cursor = {.keys = keys};
    struct keys_entry entry;
    size_t count = 0;
    int result;

    while ((result = keys_cursor_next(&cursor, &entry)) == 1) {
        assert_true(count < list.count);
        assert_int_equal(keys_compare(&entry, &list.at[count++]), 0);
    }
    keys_cursor_fini(&cursor);
    assert_true(result < 0 || count == list.count);
    return result;
}

/* Checks that a look-up of a hash finds the same as the list. */
static inline void keys_rig_find(const struct keys *keys, struct keys_rig_list list, uint64_t hash)
{
    static struct keys_entry found[KEYS_RIG_FOUND_MAX];
    size_t low = 0, high = list.count, middle;
    int count;

    while (low < high) {
        middle = (low + high) / 2;
        if (list.at[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    count = keys_find(keys, hash, true, found, KEYS_RIG_FOUND_MAX);
    assert_true(count >= 0);
    for (int i = 0; i < count; i++, low++) {
        assert_true(low < list.count && list.at[low].hash == hash);
        assert_int_equal(keys_compare(&found[i], &list.at[low]), 0);
    }
    assert_true(low == list.count || list.at[low].hash != hash || count == KEYS_RIG_FOUND_MAX);
    assert_true(count == 0 || keys_maybe(keys, hash));
}

#endif
