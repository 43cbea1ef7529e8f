/*
 * walk: commands on many jobs, in steps, so that the loop is never blocked.
 *
 * A walk goes over the jobs of the shard in no particular order. Jobs pushed or changed meanwhile may or may not be
 * included; a purge spares jobs pushed after it began. A redrive takes all jobs that were dead when it began, and
 * maybe some that die later. If a job that it redrove dies again and is found again in a new run, it is left to the
 * next redrive; otherwise the walk might never end. One thread, the shard's. The caller owns the structure; walk_fini
 * frees its contents.
 */
#ifndef TARRY_ENGINE_WALK_H
#define TARRY_ENGINE_WALK_H

#include "base/heap.h"
#include "engine/engine.h"
#include "queue/cursor.h"

/* TRIM: drops the oldest kept jobs, which are cold, until the topic is within its limits. */
enum walk_kind { WALK_LIST = 1, WALK_PURGE, WALK_REDRIVE, WALK_DELETE, WALK_TRIM };

/* Compares two views: the last by due, then push order, comes out first. */
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
    uint64_t max;         /* redrive: maximum number; 0: all */
    bool has_cursor;
    struct queue_cursor after; /* list */
    uint32_t shard;            /* list: this shard's number, for the order among shards */
    uint32_t limit;            /* list */
    /* private */
    uint32_t at;
    uint64_t until_sequence; /* pushes and deliveries up to the begin of the walk */
    bool has_begun;          /* redrive: its first step was at began_ms, inner clock, */
    int64_t began_ms;
    uint64_t was_dead; /* and this number of jobs in memory was dead */
    uint32_t changes;
    uint64_t seen; /* list: matching jobs examined, to stop early */
    /* list: a heap during the walk; at its end sorted by due, then push order. */
    struct walk_views found;
    bool more;         /* list: matching jobs were left out; trim: enough were dropped */
    uint64_t affected; /* the other kinds */
};

/* Starts a walk. False: no such topic. */
bool walk_init(struct walk *walk, struct engine *engine);
/* Examines up to `steps` jobs and changes at most `changes` (each may need ENGINE_STATE_BYTES_MAX). True:
 * finished. */
bool walk_step(struct walk *walk, struct engine *engine, struct engine_now now, size_t steps,
               size_t changes);
/* Processes the one job of this key, which was just loaded, as walk_step would have. Not for lists. Needs
 * ENGINE_STATE_BYTES_MAX. */
void walk_one(struct walk *walk, struct engine *engine, struct hash128 key, struct engine_now now);
/* Returns whether a redrive has reached its maximum, or the topic has no dead jobs left, in memory or cold. Cheap. */
bool walk_has_enough(const struct walk *walk, struct engine *engine);
/* List: returns whether a job comes after the last one of the previous page. */
bool walk_is_past_cursor(const struct walk *walk, int64_t due_ms, uint64_t sequence);
void walk_fini(struct walk *walk);

#endif
