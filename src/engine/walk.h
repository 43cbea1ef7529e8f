/*
 * walk: commands that look at many jobs, in steps, so that the loop is never held up.
 *
 * A walk goes over the shard's jobs in no special order. Jobs pushed or changed while it goes on
 * may or may not be met; a purge spares jobs pushed after it began. One thread, the shard's. The
 * caller's storage; walk_fini gives back what it holds.
 */
#ifndef TARRY_ENGINE_WALK_H
#define TARRY_ENGINE_WALK_H

#include "engine/engine.h"
#include "queue/cursor.h"

enum walk_kind { WALK_LIST = 1, WALK_PURGE, WALK_REDRIVE, WALK_DELETE };

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
    uint64_t until_sequence;
    uint32_t changes;
    uint64_t seen; /* list: matching jobs met, to stop early */
    struct engine_view
        *found; /* list: a heap while it goes on, sorted by due, then push order, at the end */
    size_t found_count;
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
void walk_fini(struct walk *walk);

#endif
