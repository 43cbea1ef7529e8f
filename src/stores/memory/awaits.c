#include "memory/awaits.h"

#include "base/table.h"
#include "engine/stored.h"

#include <assert.h>
#include <stdlib.h>

/* The waits for one job. */
struct awaited {
    struct table_entry entry;
    struct hash128 key;
    struct list waits;
    size_t id_bytes;
    char id[];
};
TABLE_DECLARE(memory_awaited, struct awaited, entry)

struct memory_awaits {
    struct memory_awaited jobs;
};

struct memory_awaits *memory_awaits_new(void)
{
    return calloc(1, sizeof(struct memory_awaits));
}

void memory_awaits_free(struct memory_awaits *awaits)
{
    if (!awaits)
        return;
    for (struct awaited *at = memory_awaited_first(&awaits->jobs); at;) {
        struct awaited *next = memory_awaited_next(&awaits->jobs, at);
        free(at);
        at = next;
    }
    memory_awaited_fini(&awaits->jobs);
    free(awaits);
}

static struct awaited *awaited_find(struct memory_awaits *awaits, const struct hash128 *key)
{
    return memory_awaited_find(&awaits->jobs, slice_make(key, sizeof *key));
}

static struct awaited *awaited_new(struct memory_awaits *awaits, struct hash128 key,
                                   struct slice id)
{
    struct awaited *awaited = calloc(1, sizeof *awaited + id.len);
    if (!awaited)
        return NULL;
    awaited->key = key;
    awaited->id_bytes = id.len;
    memcpy(awaited->id, id.at, id.len);
    list_init(&awaited->waits);
    awaited->entry.key = slice_make(&awaited->key, sizeof awaited->key);
    memory_awaited_add(&awaits->jobs, awaited);
    return awaited;
}

static void awaited_drop(struct memory_awaits *awaits, struct awaited *awaited)
{
    memory_awaited_remove(&awaits->jobs, awaited);
    free(awaited);
}

bool memory_awaits_add(struct memory_awaits *awaits, struct engine *engine, struct slice topic,
                       struct slice id, struct memory_wait *wait)
{
    struct hash128 key = engine_key(engine, topic, id);
    struct awaited *awaited = awaited_find(awaits, &key);
    if (!awaited && !(awaited = awaited_new(awaits, key, id)))
        return false;
    list_add_last(&awaited->waits, &wait->list);
    engine_await(engine, topic, true);
    return true;
}

void memory_awaits_remove(struct memory_awaits *awaits, struct engine *engine, struct slice topic,
                          struct slice id, struct memory_wait *wait)
{
    struct hash128 key = engine_key(engine, topic, id);
    struct awaited *awaited = awaited_find(awaits, &key);
    assert(awaited);
    list_remove(&wait->list);
    engine_await(engine, topic, false);
    if (list_is_empty(&awaited->waits))
        awaited_drop(awaits, awaited);
}

void memory_awaits_end(struct memory_awaits *awaits, struct engine *engine,
                       const struct engine_ended *ended)
{
    struct awaited *awaited = awaited_find(awaits, &ended->key);
    struct queue_job job;
    struct queue_end end;
    if (!awaited)
        return;
    if (!ended->is_gone)
        engine_ended_show(ended, slice_make(awaited->id, awaited->id_bytes), &job, &end);
    while (!list_is_empty(&awaited->waits)) {
        struct memory_wait *wait = list_entry(awaited->waits.next, struct memory_wait, list);
        list_remove(&wait->list);
        engine_await(engine, ended->topic, false);
        wait->ended(wait, ended->is_gone ? NULL : &job);
    }
    awaited_drop(awaits, awaited);
}
