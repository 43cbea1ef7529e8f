/* The ready jobs of a topic: a binary heap by priority, due, push order. An entry knows its
 * position, so any can be removed. */
#include "engine/private.h"

#include <assert.h>
#include <stdlib.h>

static bool comes_before(const struct ready_item *a, const struct ready_item *b)
{
    return a->order != b->order ? a->order < b->order : a->sequence < b->sequence;
}

static void put(struct engine *engine, struct topic *topic, uint32_t at, struct ready_item item)
{
    topic->ready[at] = item;
    entry_at(engine, item.id)->ready_at = at;
}

static void sift_up(struct engine *engine, struct topic *topic, uint32_t at, struct ready_item item)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (!comes_before(&item, &topic->ready[parent]))
            break;
        put(engine, topic, at, topic->ready[parent]);
        at = parent;
    }
    put(engine, topic, at, item);
}

static void sift_down(struct engine *engine, struct topic *topic, uint32_t at,
                      struct ready_item item)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= topic->ready_count)
            break;
        if (child + 1 < topic->ready_count &&
            comes_before(&topic->ready[child + 1], &topic->ready[child]))
            child++;
        if (!comes_before(&topic->ready[child], &item))
            break;
        put(engine, topic, at, topic->ready[child]);
        at = child;
    }
    put(engine, topic, at, item);
}

bool engine_ready_reserve(struct topic *topic)
{
    if (topic->ready_count < topic->ready_cap)
        return true;
    uint32_t cap = topic->ready_cap ? topic->ready_cap * 2 : 64;
    struct ready_item *ready = realloc(topic->ready, cap * sizeof *ready);
    if (!ready)
        return false;
    topic->ready = ready;
    topic->ready_cap = cap;
    return true;
}

void engine_ready_add(struct engine *engine, struct topic *topic, uint32_t id, int64_t due_inner_ms)
{
    assert(topic->ready_count < topic->ready_cap);
    const struct entry *entry = entry_at(engine, id);
    struct ready_item item = {.order = (uint64_t)entry->priority << 48 |
                                       ((uint64_t)due_inner_ms & 0xffffffffffffu),
                              .sequence = entry->sequence,
                              .id = id};
    sift_up(engine, topic, topic->ready_count++, item);
    if (topic->ready_count == 1 && !topic->paused && !engine->recovering)
        engine->sink.ready(engine->sink.ctx, topic->name);
}

void engine_ready_remove(struct engine *engine, struct topic *topic, uint32_t id)
{
    uint32_t at = entry_at(engine, id)->ready_at;
    assert(at < topic->ready_count && topic->ready[at].id == id);
    struct ready_item last = topic->ready[--topic->ready_count];
    if (last.id != id) {
        if (at > 0 && comes_before(&last, &topic->ready[(at - 1) / 2]))
            sift_up(engine, topic, at, last);
        else
            sift_down(engine, topic, at, last);
    }
    /* A burst's memory goes back once it has drained. */
    if (topic->ready_cap > 4096 && topic->ready_count < topic->ready_cap / 8) {
        struct ready_item *ready = realloc(topic->ready, topic->ready_cap / 4 * sizeof *ready);
        if (ready) {
            topic->ready = ready;
            topic->ready_cap /= 4;
        }
    }
}
