/*
 * Many cold jobs at once. Tables are asked in the order of hashes, and slots are read in the order
 * in which they lie, neighbours together: one by one each job would cost a block of a table, one of
 * a directory and a record, each somewhere else on the disk.
 */
#include "base/radix.h"
#include "store/depot_private.h"

#include <errno.h>
#include <stdlib.h>

enum {
    HITS_OF_A_HASH = 8,   /* of more one is looked for by itself */
    NEAR_SLOTS = 4 * 170, /* some blocks of the directory that are read over */
    HITS_FIRST = 1024
};

struct many {
    const struct depot_view *view;
    uint64_t hash_seed;
    struct depot_want *wants;
    size_t count;
    depot_met *met;
    void *ctx;
    struct radix_item *hits; /* run, slot, want */
    size_t hit_count, hit_cap;
};

static bool add_hit(struct many *many, uint32_t run, uint32_t slot, size_t want)
{
    if (many->hit_count == many->hit_cap) {
        size_t cap = many->hit_cap ? many->hit_cap * 2 : HITS_FIRST;
        struct radix_item *grown = realloc(many->hits, cap * sizeof *grown);

        if (!grown)
            return false;
        many->hits = grown;
        many->hit_cap = cap;
    }
    many->hits[many->hit_count++] = (struct radix_item){.high = run, .low = slot, .at = want};
    return true;
}

static bool is_alive(const struct depot_view *view, uint32_t number, uint32_t slot)
{
    const struct depot_run *run = depot_view_run(view, number);

    return run && !run->is_new && slot < run->alive.slots && alive_test(&run->alive, slot);
}

/* ---- by key ---- */

static bool ask(struct many *many, const struct depot_table *table, size_t want)
{
    const uint64_t hash = many->wants[want].key.low;
    struct keys_entry entries[HITS_OF_A_HASH];
    int found = keys_maybe(table->keys, hash)
                    ? keys_find(table->keys, hash, true, entries, HITS_OF_A_HASH)
                    : 0;

    for (int i = 0; i < found; i++)
        if (is_alive(many->view, entries[i].run, entries[i].slot) &&
            !add_hit(many, entries[i].run, entries[i].slot, want))
            return false;
    return true;
}

static bool ask_tables(struct many *many, const struct radix_item *by_hash, size_t count)
{
    for (uint32_t table = 0; table < many->view->table_count; table++)
        for (size_t i = 0; i < count; i++)
            if (!ask(many, many->view->tables[table], by_hash[i].at))
                return false;
    return true;
}

/* Where each of them may lie. */
static bool gather(struct many *many)
{
    struct radix_item *by_hash = calloc(many->count + 1, sizeof *by_hash);
    size_t count = 0;
    bool good = by_hash != NULL;

    for (size_t i = 0; good && i < many->count; i++) {
        const struct depot_want *want = &many->wants[i];

        if (want->place.bytes &&
            is_alive(many->view, record_place_run(want->place), want->place.at))
            good = add_hit(many, record_place_run(want->place), want->place.at, i);
        else
            by_hash[count++] = (struct radix_item){.low = want->key.low, .at = i};
    }
    good = good && radix_sort(by_hash, count) && ask_tables(many, by_hash, count) &&
           radix_sort(many->hits, many->hit_count);
    free(by_hash);
    return good;
}

/* ---- reading ---- */

/* Some of the hits, all in one run, no slot far from the one before. */
struct stretch {
    struct many *many;
    const struct radix_item *at, *end;
    const struct radix_item *asked, *given;
};

static int wants_slot(void *ctx, uint32_t slot, const struct run_slot *entry)
{
    struct stretch *stretch = ctx;

    (void)entry;
    while (stretch->asked < stretch->end && stretch->asked->low < slot)
        stretch->asked++;
    return stretch->asked < stretch->end && stretch->asked->low == slot;
}

static void meet(struct many *many, const struct radix_item *hit, struct slice bytes)
{
    struct depot_want *want = &many->wants[hit->at];
    struct record record;
    struct hash128 key;

    if (want->is_met || !bytes.len || !record_decode(bytes, &record) ||
        (record.kind != RECORD_JOB && record.kind != RECORD_DONE))
        return;
    key = depot_key_of(&record, many->hash_seed);
    if (key.low != want->key.low || key.high != want->key.high)
        return;
    want->is_met = true;
    want->place = (struct record_place){.file = (uint32_t)hit->high | RECORD_IN_RUN,
                                        .at = (uint32_t)hit->low,
                                        .bytes = (uint32_t)bytes.len};
    many->met(many->ctx, want, &record);
}

static bool on_record(void *ctx, uint32_t slot, const struct run_slot *entry, struct slice bytes)
{
    struct stretch *stretch = ctx;

    (void)entry;
    for (; stretch->given < stretch->end && stretch->given->low <= slot; stretch->given++)
        if (stretch->given->low == slot)
            meet(stretch->many, stretch->given, bytes);
    return true;
}

static size_t stretch_end(const struct many *many, size_t first)
{
    size_t end = first + 1;

    while (end < many->hit_count && many->hits[end].high == many->hits[first].high &&
           many->hits[end].low - many->hits[end - 1].low <= NEAR_SLOTS)
        end++;
    return end;
}

/* What cannot be read is left out. */
static int read_stretch(struct many *many, size_t first, size_t end)
{
    struct stretch stretch = {.many = many, .at = &many->hits[first], .end = &many->hits[end]};
    struct run_scan scan = {.first = (uint32_t)stretch.at->low,
                            .end = (uint32_t)many->hits[end - 1].low + 1,
                            .wants = wants_slot,
                            .each = on_record,
                            .ctx = &stretch};
    uint32_t next;
    int result;

    stretch.asked = stretch.given = stretch.at;
    result = run_scan(depot_view_run(many->view, (uint32_t)stretch.at->high)->run, &scan, &next);
    return result == -ENOMEM ? result : 0;
}

int depot_find_many(const struct depot_view *view, uint64_t hash_seed, struct depot_want *wants,
                    size_t count, depot_met *met, void *ctx)
{
    struct many many = {.view = view,
                        .hash_seed = hash_seed,
                        .wants = wants,
                        .count = count,
                        .met = met,
                        .ctx = ctx};
    int result = gather(&many) ? 0 : -ENOMEM;

    for (size_t at = 0, end; result == 0 && at < many.hit_count; at = end) {
        end = stretch_end(&many, at);
        result = read_stretch(&many, at, end);
    }
    free(many.hits);
    return result;
}
