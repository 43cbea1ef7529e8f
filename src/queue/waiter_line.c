/* The lines of the waiters: a hash map by topic, chained, that grows and never shrinks. */
#include "base/hash.h"
#include "queue/waiter_private.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKETS_FIRST = 64 };

bool waiter_lines_init(struct waiters *waiters)
{
    waiters->bucket_count = BUCKETS_FIRST;
    waiters->buckets = calloc(waiters->bucket_count, sizeof(struct line *));
    return waiters->buckets != NULL;
}

void waiter_lines_fini(struct waiters *waiters)
{
    assert(waiters->line_count == 0);
    free(waiters->buckets);
}

static struct line **bucket_of(const struct waiters *waiters, uint64_t hash)
{
    return &waiters->buckets[hash & (waiters->bucket_count - 1)];
}

/* Out of memory is no reason to fail: chains only get longer. */
static void grow(struct waiters *waiters)
{
    size_t old_count = waiters->bucket_count;
    struct line **old = waiters->buckets;
    struct line **fresh = calloc(old_count * 2, sizeof(struct line *));

    if (!fresh)
        return;
    waiters->buckets = fresh;
    waiters->bucket_count = old_count * 2;
    for (size_t i = 0; i < old_count; i++) {
        while (old[i]) {
            struct line *line = old[i];
            struct line **bucket = bucket_of(waiters, line->hash);

            old[i] = line->next;
            line->next = *bucket;
            *bucket = line;
        }
    }
    free(old);
}

static struct line *find(const struct waiters *waiters, struct slice topic, uint64_t hash)
{
    struct line *line = *bucket_of(waiters, hash);

    while (line && (line->hash != hash || !slice_equals(line->name, topic)))
        line = line->next;
    return line;
}

struct line *waiter_line_find(const struct waiters *waiters, struct slice topic)
{
    return find(waiters, topic, hash_64(topic.at, topic.len));
}

struct line *waiter_line_need(struct waiters *waiters, struct slice topic)
{
    uint64_t hash = hash_64(topic.at, topic.len);
    struct line *line = find(waiters, topic, hash), **bucket;
    char *name;

    if (line)
        return line;
    line = calloc(1, sizeof *line + topic.len);
    if (!line)
        return NULL;
    name = (char *)(line + 1);
    memcpy(name, topic.at, topic.len);
    line->name = slice_make(name, topic.len);
    line->hash = hash;
    line->window = 1;
    line->may_have = true;
    list_init(&line->todo);
    list_init(&line->slots);
    if (waiters->line_count >= waiters->bucket_count)
        grow(waiters);
    bucket = bucket_of(waiters, hash);
    line->next = *bucket;
    *bucket = line;
    waiters->line_count++;
    return line;
}

void waiter_line_remove(struct waiters *waiters, struct line *line)
{
    struct line **link = bucket_of(waiters, line->hash);

    assert(list_is_empty(&line->slots) && line->asking == 0);
    while (*link != line)
        link = &(*link)->next;
    *link = line->next;
    waiters->line_count--;
    list_remove(&line->todo);
    free(line);
}
