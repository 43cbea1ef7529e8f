/* Every allocation of filter, alive and keys fails once: the failure is reported, and nothing is left behind. */
#include "base/pages.h"
#include "unit/claim.h"

#include <stdbool.h>
#include <stdlib.h>

static int allocations_left = -1; /* below 0: all succeed */

static bool has_memory(void)
{
    return allocations_left < 0 || allocations_left-- > 0;
}

static void *scarce_malloc(size_t bytes)
{
    return has_memory() ? malloc(bytes) : NULL;
}

static void *scarce_calloc(size_t count, size_t bytes)
{
    return has_memory() ? calloc(count, bytes) : NULL;
}

static void *scarce_pages(size_t bytes, bool huge)
{
    return has_memory() ? pages_take(bytes, huge) : NULL;
}

/* The real thing, but for where its memory comes from. */
#define malloc scarce_malloc
#define calloc scarce_calloc
#define pages_take scarce_pages
#include "store/alive.c"
#include "store/filter.c"
#include "store/keys.c"
#include "store/keys_merge.c"
#undef malloc
#undef calloc
#undef pages_take

#include "keys_rig.h"

static struct sim_fs sim;

static bool keeps_all(void *ctx, const struct keys_entry *entry)
{
    (void)ctx, (void)entry;
    return true;
}

static int merge_and_load(struct keys *const tables[2])
{
    struct keys_writing writing = keys_rig_writing(&sim, 3, 600);
    struct keys *keys = NULL;
    uint64_t kept;
    int result = merge_whole(&writing, tables, 2, keeps_all, NULL, &kept);

    if (result < 0) {
        assert_null(sim_fs_bytes(&sim, "run/00000003.keys", NULL));
        assert_null(sim_fs_bytes(&sim, "run/00000003.keys.new", NULL));
        return result;
    }
    result = keys_rig_open(&sim, 3, &keys);
    if (result == 0)
        result = keys_load_filter(keys);
    if (keys)
        assert_true(keys_maybe(keys, 5 << 20)); /* with a filter and without */
    keys_close(keys);
    return result;
}

CLAIM(tables_of_keys)
{
    struct keys_rig_list list = keys_rig_make(300);
    struct keys *tables[2];
    int failed = 0, result;

    sim_fs_init(&sim, 1);
    for (size_t i = 0; i < list.count; i++)
        list.at[i] = (struct keys_entry){.hash = i << 20, .run = 1};
    tables[0] = keys_rig_table(&sim, 1, list);
    tables[1] = keys_rig_table(&sim, 2, list);
    do {
        allocations_left = failed;
        result = merge_and_load(tables);
        failed += result == -ENOMEM;
    } while (result == -ENOMEM);
    assert_int_equal(result, 0);
    assert_true(allocations_left >= 0 && failed >= 10);
    allocations_left = -1;
    keys_close(tables[0]);
    keys_close(tables[1]);
    sim_fs_fini(&sim);
    free(list.at);
}

CLAIM(bits_and_filters)
{
    struct alive alive;
    struct filter filter;
    char bytes[8] = {0};

    allocations_left = 0;
    assert_false(alive_init(&alive, 10));
    allocations_left = 0;
    assert_false(alive_load(&alive, 10, bytes));
    assert_int_equal(alive.count, 0);
    allocations_left = 0;
    assert_false(filter_init(&filter, 10));
    assert_true(filter_maybe(&filter, 1));
    allocations_left = -1;
    alive_fini(&alive);
    filter_fini(&filter);
}

CLAIMS_MAIN(NULL, NULL)
