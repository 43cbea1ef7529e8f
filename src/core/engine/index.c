/* The key index: finds an entry by the hash of its topic and id, by linear hashing (Litwin 1980). It grows by one
 * bucket at a time and never stops to rehash. */
#include "engine/state.h"

#include "base/pages.h"

#include <assert.h>
#include <stdlib.h>

enum { SEGMENT_BUCKETS = 1 << INDEX_SEGMENT_BITS, BUCKETS_FIRST = 1 << 12, BUCKETS_PER_JOB = 2 };
#define SEGMENT_BYTES (SEGMENT_BUCKETS * sizeof(uint32_t))

static uint32_t *bucket_at(const struct index *index, uint32_t bucket)
{
    return &index->segments[bucket >> INDEX_SEGMENT_BITS][bucket & (SEGMENT_BUCKETS - 1)];
}

static uint32_t floor_power(uint32_t value)
{
    return 1u << (31 - __builtin_clz(value));
}

/* Returns the bucket of a key. Buckets below `bucket_count - power` have been split and use one more hash bit. */
static uint32_t bucket_of(const struct index *index, uint64_t key_low)
{
    uint32_t power = floor_power(index->bucket_count);
    uint32_t bucket = (uint32_t)key_low & (2 * power - 1);
    return bucket < index->bucket_count ? bucket : bucket & (power - 1);
}

static bool index_add_segment(struct index *index, uint32_t number)
{
    if (number >= index->segment_cap) {
        uint32_t cap = index->segment_cap ? index->segment_cap * 2 : 16;
        uint32_t **segments = realloc(index->segments, cap * sizeof *segments);
        if (!segments)
            return false;
        memset(segments + index->segment_cap, 0, (cap - index->segment_cap) * sizeof *segments);
        index->segments = segments;
        index->segment_cap = cap;
    }
    if (!index->segments[number])
        index->segments[number] = pages_take(SEGMENT_BYTES, number > 0);
    return index->segments[number] != NULL;
}

bool engine_index_init(struct index *index)
{
    *index = (struct index){.bucket_count = BUCKETS_FIRST};
    return index_add_segment(index, 0);
}

void engine_index_fini(struct index *index)
{
    for (uint32_t i = 0; i < index->segment_cap; i++)
        pages_give(index->segments[i], SEGMENT_BYTES, i > 0);
    free(index->segments);
    *index = (struct index){0};
}

/* Adds a bucket and divides the chain of its lower twin between the two. */
static bool split_next(struct engine *engine)
{
    struct index *index = &engine->index;
    uint32_t fresh = index->bucket_count;
    if (fresh == UINT32_MAX / 2 || !index_add_segment(index, fresh >> INDEX_SEGMENT_BITS))
        return false;
    uint32_t power = floor_power(fresh);
    uint32_t *old_link = bucket_at(index, fresh - power);
    uint32_t *fresh_link = bucket_at(index, fresh);
    uint32_t id = *old_link;
    while (id) {
        struct entry *entry = entry_at(engine, id);
        if (entry->key.low & power) {
            *fresh_link = id;
            fresh_link = &entry->index_next;
        } else {
            *old_link = id;
            old_link = &entry->index_next;
        }
        id = entry->index_next;
    }
    *old_link = 0;
    *fresh_link = 0;
    index->bucket_count = fresh + 1;
    return true;
}

/* Doubles the number of buckets. During recovery no caller waits for an answer, so the splits can be done
 * together, with prefetches of the entries. */
static void split_all(struct engine *engine)
{
    enum { AHEAD = 16 };
    struct index *index = &engine->index;
    uint32_t buckets = floor_power(index->bucket_count), end = 2 * buckets;
    while (index->bucket_count < end) {
        uint32_t soon = index->bucket_count - buckets + AHEAD;
        uint32_t id = soon < buckets ? *bucket_at(index, soon) : 0;
        if (id)
            __builtin_prefetch(&entry_at(engine, id)->key);
        if (!split_next(engine))
            return;
    }
}

static bool index_wants_buckets(const struct index *index)
{
    return index->count >= index->bucket_count / BUCKETS_PER_JOB;
}

bool engine_index_add(struct engine *engine, uint32_t id)
{
    struct index *index = &engine->index;
    if (engine->recovering && index_wants_buckets(index))
        split_all(engine);
    /* Out of memory for another bucket is not an error: chains only get longer. */
    for (int i = 0; i < BUCKETS_PER_JOB; i++)
        if (index_wants_buckets(index) && !split_next(engine))
            break;
    struct entry *entry = entry_at(engine, id);
    uint32_t *head = bucket_at(index, bucket_of(index, entry->key.low));
    entry->index_next = *head;
    *head = id;
    index->count++;
    return true;
}

void engine_index_remove(struct engine *engine, uint32_t id)
{
    struct index *index = &engine->index;
    struct entry *entry = entry_at(engine, id);
    uint32_t *link = bucket_at(index, bucket_of(index, entry->key.low));
    while (*link != id) {
        assert(*link);
        link = &entry_at(engine, *link)->index_next;
    }
    *link = entry->index_next;
    entry->index_next = 0;
    index->count--;
}

uint32_t engine_index_find(const struct engine *engine, struct hash128 key)
{
    uint32_t id = *bucket_at(&engine->index, bucket_of(&engine->index, key.low));
    while (id) {
        const struct entry *entry = entry_at(engine, id);
        if (entry->key.low == key.low && entry->key.high == key.high)
            return id;
        id = entry->index_next;
    }
    return 0;
}

void engine_index_prefetch(const struct engine *engine, uint64_t key_low)
{
    __builtin_prefetch(bucket_at(&engine->index, bucket_of(&engine->index, key_low)));
}

void engine_index_prefetch_entry(const struct engine *engine, uint64_t key_low)
{
    uint32_t id = *bucket_at(&engine->index, bucket_of(&engine->index, key_low));
    if (id)
        __builtin_prefetch(&entry_at(engine, id)->key);
}

uint32_t engine_index_find_lease(const struct engine *engine, const struct engine_lease *lease)
{
    uint32_t id = *bucket_at(&engine->index, bucket_of(&engine->index, lease->key_low));
    while (id) {
        const struct entry *entry = entry_at(engine, id);
        if (entry->key.low == lease->key_low && entry->state == JOB_LEASED &&
            entry_extra(engine, entry)->delivery == lease->delivery)
            return id;
        id = entry->index_next;
    }
    return 0;
}

uint32_t engine_index_find_place(const struct engine *engine, uint64_t key_low,
                                 struct record_place place)
{
    uint32_t id = *bucket_at(&engine->index, bucket_of(&engine->index, key_low));
    while (id) {
        const struct entry *entry = entry_at(engine, id);
        if (entry->key.low == key_low && entry_is_at(entry, place))
            return id;
        id = entry->index_next;
    }
    return 0;
}
