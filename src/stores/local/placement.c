#include "local/placement.h"

#include "base/table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct placed {
    struct table_entry entry;
    bool is_one, is_moving;
    uint32_t deletes; /* in progress */
    char name[];
};

TABLE_DECLARE(placed_topics, struct placed, entry)

struct placement {
    pthread_rwlock_t lock; /* of the table */
    struct placed_topics topics;
    atomic_uint_fast64_t version;
    atomic_size_t count; /* topics in one shard */
};

struct placement *placement_new(void)
{
    struct placement *placement = calloc(1, sizeof *placement);
    if (placement && pthread_rwlock_init(&placement->lock, NULL)) {
        free(placement);
        return NULL;
    }
    return placement;
}

void placement_free(struct placement *placement)
{
    if (!placement)
        return;
    for (struct placed *topic = placed_topics_first(&placement->topics), *next; topic;
         topic = next) {
        next = placed_topics_next(&placement->topics, topic);
        free(topic);
    }
    table_fini(&placement->topics.table);
    pthread_rwlock_destroy(&placement->lock);
    free(placement);
}

static struct placed *placed_new(struct placement *placement, struct slice name)
{
    struct placed *topic = calloc(1, sizeof *topic + name.len);
    if (!topic)
        return NULL;
    memcpy(topic->name, name.at, name.len);
    topic->entry.key = slice_make(topic->name, name.len);
    placed_topics_add(&placement->topics, topic);
    return topic;
}

bool placement_begin(struct placement *placement, struct slice name, bool deletes)
{
    pthread_rwlock_wrlock(&placement->lock);
    struct placed *topic = placed_topics_find(&placement->topics, name);
    if (!topic)
        topic = placed_new(placement, name);
    bool begins = topic && !topic->is_moving && (deletes || !topic->deletes);
    if (begins && deletes)
        topic->deletes++;
    else if (begins)
        topic->is_moving = true;
    pthread_rwlock_unlock(&placement->lock);
    return begins;
}

bool placement_set(struct placement *placement, struct slice name, bool is_one)
{
    pthread_rwlock_wrlock(&placement->lock);
    struct placed *topic = placed_topics_find(&placement->topics, name);
    bool was_one = topic && topic->is_one;
    if (topic && is_one != was_one) {
        topic->is_one = is_one;
        atomic_fetch_add(&placement->count, is_one ? 1 : SIZE_MAX);
        atomic_fetch_add(&placement->version, 1);
    }
    pthread_rwlock_unlock(&placement->lock);
    return was_one;
}

void placement_end(struct placement *placement, struct slice name, bool deletes)
{
    pthread_rwlock_wrlock(&placement->lock);
    struct placed *topic = placed_topics_find(&placement->topics, name);
    if (deletes)
        topic->deletes--;
    else
        topic->is_moving = false;
    if (!topic->is_one && !topic->is_moving && !topic->deletes) {
        placed_topics_remove(&placement->topics, topic);
        free(topic);
    }
    pthread_rwlock_unlock(&placement->lock);
}

bool placement_is_one(struct placement *placement, struct slice name)
{
    if (!atomic_load(&placement->count))
        return false;
    pthread_rwlock_rdlock(&placement->lock);
    const struct placed *topic = placed_topics_find(&placement->topics, name);
    bool is_one = topic && topic->is_one;
    pthread_rwlock_unlock(&placement->lock);
    return is_one;
}

uint64_t placement_version(const struct placement *placement)
{
    return atomic_load(&placement->version);
}
