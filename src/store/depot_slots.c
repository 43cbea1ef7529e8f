#include "store/depot_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { HITS_MAX = 64 };

static struct depot_run *run_of(const struct depot_view *view, struct record_place place)
{
    if (!record_place_is_run(place))
        return NULL;
    return depot_view_run(view, record_place_run(place));
}

bool depot_is_alive(const struct depot *depot, struct record_place place)
{
    const struct depot_run *run = run_of(depot->view, place);

    return run && place.at < run->alive.slots && alive_test(&run->alive, place.at);
}

/* The mean serves where the caller does not know. */
static uint64_t bytes_of(const struct depot_run *run, struct record_place place)
{
    uint64_t bytes = place.bytes ? place.bytes : run->alive_bytes / run->alive.count;

    return bytes < run->alive_bytes ? bytes : run->alive_bytes;
}

enum depot_release depot_release(struct depot *depot, struct record_place place,
                                 enum job_section *section)
{
    struct depot_run *run = run_of(depot->view, place);
    uint64_t bytes;

    assert(record_place_is_run(place));
    if (!run)
        return record_place_run(place) >= depot->catalog.next_run ? DEPOT_NEVER_COMMITTED
                                                                  : DEPOT_WAS_DEAD;
    if (place.at >= run->alive.slots || !alive_test(&run->alive, place.at))
        return DEPOT_WAS_DEAD;
    bytes = run->alive.count == 1 ? run->alive_bytes : bytes_of(run, place);
    alive_clear(&run->alive, place.at);
    run->alive_bytes -= bytes;
    if (run->is_counted) {
        depot->sums.slots_alive--;
        depot->sums.alive_bytes -= bytes;
    }
    *section = run_section_of(run->run, place.at);
    return DEPOT_RELEASED;
}

struct record_place depot_moved(const struct depot *depot, struct record_place place)
{
    const struct depot_run *run;
    uint32_t slot;

    if (!depot->is_installed || !record_place_is_run(place))
        return place;
    run = run_of(depot->view, place);
    if (!run || !run->moved || place.at >= run->alive.slots || run->moved[place.at] == 0)
        return place;
    slot = run->moved[place.at] - 1;
    return (struct record_place){
        .file = depot->build->run | RECORD_IN_RUN, .at = slot, .bytes = depot->build->bytes[slot]};
}

int depot_read(const struct depot_view *view, struct record_place place, bool may_block,
               struct buffer *scratch, struct slice *out)
{
    const struct depot_run *run = run_of(view, place);

    return run ? run_read(run->run, place.at, place.bytes, may_block, scratch, out) : -ENOENT;
}

/* ---- by key ---- */

bool depot_maybe(const struct depot *depot, struct hash128 key)
{
    const struct depot_view *view = depot->view;

    for (uint32_t i = 0; i < view->table_count; i++)
        if (keys_maybe(view->tables[i]->keys, key.low))
            return true;
    return false;
}

bool depot_is_absent(const struct depot *depot, struct hash128 key)
{
    const struct depot_view *view = depot->view;
    struct keys_entry entry;

    for (uint32_t i = 0; i < view->table_count; i++)
        if (keys_maybe(view->tables[i]->keys, key.low) &&
            keys_find(view->tables[i]->keys, key.low, false, &entry, 1) != 0)
            return false;
    return true;
}

void depot_prefetch(const struct depot *depot, struct hash128 key)
{
    const struct depot_view *view = depot->view;

    for (uint32_t i = 0; i < view->table_count; i++)
        keys_prefetch(view->tables[i]->keys, key.low);
}

struct hash128 depot_key_of(const struct record *record, uint64_t hash_seed)
{
    if (record->kind == RECORD_DONE)
        return record->done.key;
    return hash_pair(record->job.topic, record->job.id, hash_seed);
}

/* 1: it is alive and has the key; its record is in *found. */
static int look_at(const struct depot_run *run, uint32_t slot, uint64_t hash_seed,
                   struct hash128 key, struct buffer *scratch, struct slice *found)
{
    struct record record;
    struct hash128 its;
    int result;

    if (slot >= run->alive.slots || !alive_test(&run->alive, slot))
        return 0;
    result = run_read(run->run, slot, 0, true, scratch, found);
    if (result < 0) /* it may have died meanwhile, and its space be gone */
        return alive_test(&run->alive, slot) ? result : 0;
    if (!record_decode(*found, &record) ||
        (record.kind != RECORD_JOB && record.kind != RECORD_DONE))
        return -EBADMSG;
    its = depot_key_of(&record, hash_seed);
    return its.high == key.high && its.low == key.low;
}

static int hand_over(const struct depot_run *run, uint32_t slot, struct slice found,
                     struct buffer *records, struct depot_hit *out)
{
    size_t at = records->len;

    buffer_append_slice(records, found);
    if (records->failed)
        return -ENOMEM;
    *out = (struct depot_hit){
        .place = {.file = run->number | RECORD_IN_RUN, .at = slot, .bytes = (uint32_t)found.len},
        .section = run_section_of(run->run, slot),
        .at = at};
    return 1;
}

struct hits {
    struct keys_entry *entries;
    size_t count;
};

/* All entries of a table, however many have the hash, in their order. */
static int gather(const struct depot_table *table, uint64_t hash, struct hits *hits)
{
    size_t room = HITS_MAX;

    for (;;) {
        struct keys_entry *grown =
            realloc(hits->entries, (hits->count + room) * sizeof *hits->entries);
        int found;

        if (!grown)
            return -ENOMEM;
        hits->entries = grown;
        found = keys_find(table->keys, hash, true, grown + hits->count, room);
        if (found < 0)
            return found;
        if ((size_t)found < room) {
            hits->count += (size_t)found;
            return 0;
        }
        room *= 2;
    }
}

/* Of the newest run first. A slot that cannot be read is told only where no other turns out to be
 * the one. */
static int look_at_all(const struct depot_view *view, const struct hits *hits, uint64_t hash_seed,
                       struct hash128 key, struct buffer *records, struct depot_hit *out)
{
    struct buffer scratch;
    int result = 0;

    buffer_init(&scratch, SIZE_MAX / 2);
    for (size_t i = hits->count; result <= 0 && i-- > 0;) {
        const struct depot_run *run = depot_view_run(view, hits->entries[i].run);
        struct slice found;
        int here;

        if (!run || run->is_new)
            continue;
        here = look_at(run, hits->entries[i].slot, hash_seed, key, &scratch, &found);
        if (here > 0)
            result = hand_over(run, hits->entries[i].slot, found, records, out);
        else if (here < 0)
            result = here;
        if (result == -ENOMEM)
            break;
    }
    buffer_fini(&scratch);
    return result;
}

static int find_in(const struct depot_table *table, const struct depot_view *view,
                   uint64_t hash_seed, struct hash128 key, struct buffer *records,
                   struct depot_hit *out)
{
    struct hits hits = {0};
    int result = gather(table, key.low, &hits);

    if (result == 0)
        result = look_at_all(view, &hits, hash_seed, key, records, out);
    free(hits.entries);
    return result;
}

/* A job is alive in one slot, so the first hit ends it. Where a filter has not been read yet the
 * table must be: first those whose filter says that it is worth it. */
int depot_find(const struct depot_view *view, uint64_t hash_seed, struct hash128 key,
               struct buffer *records, struct depot_hit *out)
{
    int result = 0;

    for (int without_filter = 0; without_filter < 2; without_filter++)
        for (uint32_t i = view->table_count; i-- > 0;) {
            const struct depot_table *table = view->tables[i];
            int here;

            if (keys_has_filter(table->keys) != !without_filter ||
                !keys_maybe(table->keys, key.low))
                continue;
            here = find_in(table, view, hash_seed, key, records, out);
            if (here > 0 || here == -ENOMEM)
                return here;
            if (here < 0)
                result = here;
        }
    return result;
}

int depot_load_filters(struct depot_view *view)
{
    int result = 0;

    for (uint32_t i = view->table_count; i-- > 0;)
        if (!keys_has_filter(view->tables[i]->keys)) {
            int loaded = keys_load_filter(view->tables[i]->keys);

            if (loaded < 0)
                result = loaded;
        }
    return result;
}
