/* Merging of key tables, step by step (depot.h). */
#include "store/depot_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/*
 * A small LSM tree: the tier of a table is the number of times its count can be divided by the fan.
 * As many tables of one tier as the fan are merged into one, so each key is written about as often
 * as the logarithm of the number of keys. A table of which a third is dead is rewritten alone,
 * because the largest tables are not merged.
 */
enum { TIER_ENTRIES = 4096, TIERS = 32 };

static uint64_t alive_of(const struct depot_view *view, uint32_t keys)
{
    uint64_t alive = 0;

    for (uint32_t i = 0; i < view->run_count; i++)
        if (view->runs[i]->keys == keys)
            alive += view->runs[i]->alive.count;
    return alive;
}

static unsigned tier_of(const struct depot *depot, uint64_t entries)
{
    unsigned tier = 0;

    for (; entries >= TIER_ENTRIES && tier < TIERS - 1; entries /= depot->options.keys_fan)
        tier++;
    return tier;
}

/* Returns whether a table may be merged. A table without alive entries is dropped with the next
 * commit. */
static bool is_mergeable(const struct depot *depot, uint64_t alive)
{
    return alive > 0 && alive < depot->options.keys_entries_max;
}

/* Chooses the first tables of the tier, up to the fan, that together are not too large. */
static uint32_t choose_tier(const struct depot *depot, unsigned tier, struct depot_table **out)
{
    const struct depot_view *view = depot->view;
    uint32_t of_tier = 0, chosen = 0;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < view->table_count; i++) {
        uint64_t alive = alive_of(view, view->tables[i]->number);

        if (!is_mergeable(depot, alive) || tier_of(depot, alive) != tier)
            continue;
        of_tier++;
        if (chosen < depot->options.keys_fan && sum + alive <= depot->options.keys_entries_max) {
            out[chosen++] = view->tables[i];
            sum += alive;
        }
    }
    return of_tier >= depot->options.keys_fan && chosen > 1 ? chosen : 0;
}

/* Chooses a table with too many dead entries. Tiny tables are ignored, because they are merged
 * soon. */
static uint32_t choose_dead(const struct depot *depot, struct depot_table **out)
{
    const struct depot_view *view = depot->view;

    for (uint32_t i = 0; i < view->table_count; i++) {
        uint64_t count = keys_count(view->tables[i]->keys);
        uint64_t alive = alive_of(view, view->tables[i]->number);

        if (count >= TIER_ENTRIES && alive > 0 && alive < count && count - alive > count / 3) {
            out[0] = view->tables[i];
            return 1;
        }
    }
    return 0;
}

static uint32_t choose(const struct depot *depot, struct depot_table **out)
{
    for (unsigned tier = 0; tier < TIERS; tier++) {
        uint32_t chosen = choose_tier(depot, tier, out);

        if (chosen > 0)
            return chosen;
    }
    return choose_dead(depot, out);
}

bool depot_keys_wanted(struct depot *depot, struct depot_keys_merge *out)
{
    struct depot_table **tables;
    uint32_t count;

    if (depot->build || depot->is_merging || depot->view->table_count == 0)
        return false;
    tables = calloc(depot->view->table_count, sizeof(struct depot_table *));
    count = tables ? choose(depot, tables) : 0;
    if (count == 0) {
        free(tables);
        return false;
    }
    *out = (struct depot_keys_merge){.view = depot_view_hold(depot),
                                     .tables = tables,
                                     .table_count = count,
                                     .number = depot->next_keys++};
    depot->is_merging = true;
    return true;
}

/* ---- [helper] ---- */

/* Returns whether the entry's slot is alive. Slots never become alive again, and the bits of the
 * following snapshot are not older than these. */
static bool keeps(void *ctx, const struct keys_entry *entry)
{
    const struct depot_run *run = depot_view_run(ctx, entry->run);

    return run && entry->slot < run->alive.slots && alive_test(&run->alive, entry->slot);
}

static uint64_t count_of(const struct depot_keys_merge *merge)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < merge->table_count; i++)
        count += keys_count(merge->tables[i]->keys);
    return count;
}

static int begin_merge(struct depot *depot, struct depot_keys_merge *merge)
{
    const struct keys_writing writing = {.fs = depot->options.fs,
                                         .dir = depot->dir,
                                         .number = merge->number,
                                         .seed = depot->catalog.seed,
                                         .entries_max = count_of(merge),
                                         .pace = depot->options.pace,
                                         .ctx = depot->options.ctx};
    struct keys **from = calloc(merge->table_count, sizeof(struct keys *));
    int result;

    if (!from)
        return -ENOMEM;
    for (uint32_t i = 0; i < merge->table_count; i++)
        from[i] = merge->tables[i]->keys;
    result =
        keys_merger_new(&writing, from, merge->table_count, keeps, merge->view, &merge->merger);
    free(from);
    return result;
}

static int open_merged(struct depot *depot, struct depot_keys_merge *merge, uint64_t kept)
{
    char error[256];
    int result = 0;

    if (kept > 0)
        result = keys_open(depot->options.fs, depot->dir, merge->number, depot->catalog.seed,
                           &merge->made, error, sizeof error);
    if (kept == 0 || result < 0)
        depot_unlink_keys(depot, merge->number);
    else
        keys_load_filter(merge->made);
    return result;
}

int depot_keys_merge(struct depot *depot, struct depot_keys_merge *merge, uint64_t entries)
{
    uint64_t kept;
    int result = merge->merger ? 0 : begin_merge(depot, merge);

    if (result == 0)
        result = keys_merger_step(merge->merger, entries);
    if (result > 0)
        return 1;
    kept = result == 0 ? keys_merger_kept(merge->merger) : 0;
    keys_merger_free(merge->merger);
    merge->merger = NULL;
    return result == 0 ? open_merged(depot, merge, kept) : result;
}

/* ---- the owner's thread ---- */

static bool is_merged(const struct depot_keys_merge *merge, uint32_t keys)
{
    for (uint32_t i = 0; i < merge->table_count; i++)
        if (merge->tables[i]->number == keys)
            return true;
    return false;
}

static void end_merge(struct depot_keys_merge *merge)
{
    keys_merger_free(merge->merger);
    depot_let_go(merge->view);
    free(merge->tables);
    *merge = (struct depot_keys_merge){0};
}

/* Makes the runs refer to the new table. The next commit then leaves the merged tables out; until
 * then they stay in the view, since the catalog on disk still names them. A run without alive slots
 * has its keys in no table; it is also dropped with that commit. */
static void report_runs(const struct depot *depot, const struct depot_keys_merge *merge,
                        bool is_made)
{
    const struct depot_view *view = depot->view;

    for (uint32_t i = 0; i < view->run_count; i++)
        if (is_merged(merge, view->runs[i]->keys))
            view->runs[i]->keys = is_made ? merge->number : 0;
}

bool depot_keys_install(struct depot *depot, struct depot_keys_merge *merge)
{
    struct depot_view *view =
        depot_view_new(depot, depot->view->run_count, (size_t)depot->view->table_count + 1);
    struct depot_table *table = merge->made && view ? calloc(1, sizeof *table) : NULL;

    assert(depot->is_merging && !depot->build);
    if (!view || (merge->made && !table)) {
        depot_view_free(view);
        return false;
    }
    depot_view_fill(view, NULL, NULL, NULL);
    if (table) {
        *table = (struct depot_table){.keys = merge->made, .depot = depot, .number = merge->number};
        depot_view_add_table(view, table);
    }
    report_runs(depot, merge, table != NULL);
    depot_view_set(depot, view);
    end_merge(merge);
    depot->is_merging = false;
    return true;
}

void depot_keys_abandon(struct depot *depot, struct depot_keys_merge *merge)
{
    assert(depot->is_merging);
    if (merge->made) {
        keys_close(merge->made);
        depot_unlink_keys(depot, merge->number);
    }
    end_merge(merge);
    depot->is_merging = false;
}
