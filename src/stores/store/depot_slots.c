/* The slots of the depot's runs: alive, read, moved; found by key, one at a time or many at
 * once. */
#include "store/depot_private.h"

#include "base/radix.h"
#include "base/vector.h"

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

/* Returns the size of a slot's record, or the mean size if the caller does not know it. */
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

bool depot_run_prepare_hold(struct depot_run *run)
{
    _Atomic uint64_t *words = atomic_load_explicit(&run->in_memory, memory_order_relaxed);

    if (words)
        return true;
    words = calloc(alive_bytes(run->alive.slots) / 8, sizeof *words);
    atomic_store_explicit(&run->in_memory, words, memory_order_release);
    return words;
}

bool depot_prepare_hold(struct depot *depot, struct record_place place)
{
    struct depot_run *run = run_of(depot->view, place);
    return !run || depot_run_prepare_hold(run);
}

void depot_hold_slot(struct depot *depot, struct record_place place, bool in_memory)
{
    struct depot_run *run = run_of(depot->view, place);
    uint64_t bit = UINT64_C(1) << place.at % 64, word;
    _Atomic uint64_t *words;

    if (!run || place.at >= run->alive.slots)
        return;
    if (in_memory && !depot_run_prepare_hold(run))
        return;
    words = atomic_load_explicit(&run->in_memory, memory_order_relaxed);
    if (!words)
        return;
    word = atomic_load_explicit(&words[place.at / 64], memory_order_relaxed);
    word = in_memory ? word | bit : word & ~bit;
    atomic_store_explicit(&words[place.at / 64], word, memory_order_relaxed);
}

bool depot_run_counts(const struct depot_run *run)
{
    return run->is_counted && !run->is_new;
}

/* Returns a word of 64 slots, with a bit set for each cold one. */
static uint64_t cold_word(const struct depot_run *run, size_t index)
{
    uint64_t word = atomic_load_explicit(&run->alive.words[index], memory_order_relaxed);
    const _Atomic uint64_t *in_memory = atomic_load_explicit(&run->in_memory, memory_order_acquire);

    if (in_memory)
        word &= ~atomic_load_explicit(&in_memory[index], memory_order_relaxed);
    return word;
}

bool depot_is_cold(const struct depot_run *run, uint32_t slot)
{
    return cold_word(run, slot / 64) >> slot % 64 & 1;
}

uint32_t depot_cold_count(const struct depot_run *run, uint32_t first, uint32_t end)
{
    uint32_t count = 0;

    assert(first <= end && end <= run->alive.slots);
    for (size_t index = first / 64; index * 64 < end; index++) {
        uint64_t word = cold_word(run, index);
        if (index == first / 64)
            word &= UINT64_MAX << first % 64;
        if (index == end / 64)
            word &= (UINT64_C(1) << end % 64) - 1;
        count += (uint32_t)__builtin_popcountll(word);
    }
    return count;
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

bool depot_find_counted(const struct depot *depot, struct record_place found,
                        struct record_place *out)
{
    const struct record_place place = depot_moved(depot, found);
    const struct depot_run *run = run_of(depot->view, place);
    const bool is_in_victim = place.file != found.file;

    if (!depot_is_alive(depot, place) ||
        (run->is_new && !(is_in_victim && depot_is_alive(depot, found))))
        return false;
    *out = place;
    return true;
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

/* Returns the key of a JOB or DONE. */
static struct hash128 depot_key_of(const struct record *record, uint64_t hash_seed)
{
    if (record->kind == RECORD_DONE)
        return record->done.key;
    return hash_pair(record->job.topic, record->job.id, hash_seed);
}

/* Checks a slot. Returns 1 if it is alive and has the key, and its record in *found; 0 if not; or a
 * negative errno. */
static int look_at(const struct depot_run *run, uint32_t slot, uint64_t hash_seed,
                   struct hash128 key, struct buffer *scratch, struct slice *found)
{
    struct record record;
    struct hash128 its;
    int result;

    if (slot >= run->alive.slots || !alive_test(&run->alive, slot))
        return 0;
    result = run_read(run->run, slot, 0, true, scratch, found);
    if (result < 0) /* it may have died meanwhile and been punched */
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

VECTOR_DECLARE(hits, struct keys_entry)

/* Collects all entries of a table with the hash, however many, in order. */
static int gather_hits(const struct depot_table *table, uint64_t hash, struct hits *hits)
{
    for (size_t room = HITS_MAX;; room *= 2) {
        int found;

        if (!hits_reserve(hits, hits->count + room))
            return -ENOMEM;
        found = keys_find(table->keys, hash, true, hits->at + hits->count, room);
        if (found < 0)
            return found;
        if ((size_t)found < room) {
            hits->count += (size_t)found;
            return 0;
        }
    }
}

/* Checks the hits, newest run first. A read error is returned only if no other slot is the right
 * one. */
static int look_at_all(const struct depot_view *view, const struct hits *hits, uint64_t hash_seed,
                       struct hash128 key, struct buffer *records, struct depot_hit *out)
{
    struct buffer scratch;
    int result = 0;

    buffer_init(&scratch, SIZE_MAX / 2);
    for (size_t i = hits->count; result <= 0 && i-- > 0;) {
        const struct depot_run *run = depot_view_run(view, hits->at[i].run);
        struct slice found;
        int here;

        if (!run || run->is_new)
            continue;
        here = look_at(run, hits->at[i].slot, hash_seed, key, &scratch, &found);
        if (here > 0)
            result = hand_over(run, hits->at[i].slot, found, records, out);
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
    int result = gather_hits(table, key.low, &hits);

    if (result == 0)
        result = look_at_all(view, &hits, hash_seed, key, records, out);
    hits_fini(&hits);
    return result;
}

/* Searches table by table. A job is alive in one slot, so the first hit ends the search. A table
 * whose filter has not been read yet must be searched itself, so tables with a matching filter come
 * first. */
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

/*
 * Lookup of many cold jobs. Tables are searched in the order of hashes, and slots are read in the
 * order of their places, neighbors together. Individual lookups would each cost a block of a table,
 * a block of a directory and a record, each elsewhere on the disk.
 */

enum {
    HITS_OF_A_HASH = 8,   /* a hash with more hits is looked up individually */
    NEAR_SLOTS = 4 * 170, /* a few directory blocks, which are read through */
    HITS_FIRST = 1024
};

VECTOR_DECLARE(slot_hits, struct radix_item)

struct many {
    const struct depot_view *view;
    uint64_t hash_seed;
    struct depot_want *wants;
    size_t count;
    depot_met *met;
    void *ctx;
    struct slot_hits hits; /* triples of run, slot and index in `wants` */
};

static bool add_hit(struct many *many, uint32_t run, uint32_t slot, size_t want)
{
    struct radix_item hit = {.high = run, .low = slot, .at = want};

    return slot_hits_add(&many->hits, hit);
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

/* Collects the places where each key may be stored. */
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
           radix_sort(many->hits.at, many->hits.count);
    free(by_hash);
    return good;
}

/* ---- reading ---- */

/* Hits in one run, with no slot far from the previous one. */
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

    while (end < many->hits.count && many->hits.at[end].high == many->hits.at[first].high &&
           many->hits.at[end].low - many->hits.at[end - 1].low <= NEAR_SLOTS)
        end++;
    return end;
}

/* Reads a stretch. Omits records that cannot be read. Returns 0 or -ENOMEM. */
static int read_stretch(struct many *many, size_t first, size_t end)
{
    struct stretch stretch = {
        .many = many, .at = &many->hits.at[first], .end = &many->hits.at[end]};
    struct run_scan scan = {.first = (uint32_t)stretch.at->low,
                            .end = (uint32_t)many->hits.at[end - 1].low + 1,
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

    for (size_t at = 0, end; result == 0 && at < many.hits.count; at = end) {
        end = stretch_end(&many, at);
        result = read_stretch(&many, at, end);
    }
    slot_hits_fini(&many.hits);
    return result;
}
