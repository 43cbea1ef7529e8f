/*
 * walk: commands that look at many jobs, in steps, so that the loop is never held up.
 *
 * A walk goes over the shard's jobs in no special order. Jobs pushed or changed while it goes on
 * may or may not be met; a purge spares jobs pushed after it began. A redrive takes all that were
 * dead when it began, and maybe some of those that die later; but what it has sent round and died
 * again it leaves to the next one where that is met in a new run, or it might never end. One
 * thread, the shard's. The caller's storage; walk_fini gives back what it holds.
 */
#ifndef TARRY_ENGINE_WALK_H
#define TARRY_ENGINE_WALK_H

#include "base/heap.h"
#include "engine/engine.h"
#include "queue/cursor.h"

enum walk_kind { WALK_LIST = 1, WALK_PURGE, WALK_REDRIVE, WALK_DELETE };

/* The last by due, then push order, comes out first. */
static inline bool walk_view_is_behind(const struct engine_view *a, const struct engine_view *b)
{
    return a->due_ms != b->due_ms ? a->due_ms > b->due_ms : a->sequence > b->sequence;
}
HEAP_DECLARE(walk_views, struct engine_view, walk_view_is_behind, heap_place_unused)

struct walk {
    enum walk_kind kind;
    char topic[JOB_TOPIC_BYTES_MAX];
    size_t topic_bytes;
    enum job_state state; /* list, purge; 0: all (purge: all but leased) */
    uint64_t max;         /* redrive: at most so many; 0: all */
    bool has_cursor;
    struct queue_cursor after; /* list */
    uint32_t shard;            /* list: this shard's number, for the order among shards */
    uint32_t limit;            /* list */
    /* its own */
    uint32_t at;
    uint64_t until_sequence; /* pushes and deliveries up to its beginning */
    bool has_begun;          /* redrive: its first look was at began_ms, inner clock, */
    int64_t began_ms;
    uint64_t was_dead; /* and so many in memory were dead */
    uint32_t changes;
    uint64_t seen; /* list: matching jobs met, to stop early */
    /* list: a heap while the walk goes on, sorted by due, then push order, at its end. */
    struct walk_views found;
    bool more;         /* list: matching jobs were left out */
    uint64_t affected; /* the others */
};

/* False: no such topic. */
bool walk_init(struct walk *walk, struct engine *engine);
/* Looks at up to `steps` jobs, changes at most `changes` (each may need ENGINE_STATE_BYTES_MAX).
 * True: finished. */
bool walk_step(struct walk *walk, struct engine *engine, struct engine_now now, size_t steps,
               size_t changes);
/* The one job of this key, which has just come to memory, as walk_step would have treated it. Not
 * for lists. Needs ENGINE_STATE_BYTES_MAX. */
void walk_one(struct walk *walk, struct engine *engine, struct hash128 key, struct engine_now now);
/* Redrive: as many as were asked for, or nobody of the topic is dead, in memory or cold. Cheap. */
bool walk_has_enough(const struct walk *walk, struct engine *engine);
void walk_fini(struct walk *walk);

#endif
