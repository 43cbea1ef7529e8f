/*
 * reshard: changes the number of shards of a queue in Redis while servers are using it (decision
 * 36). Blocking; creates its own reactor; on any one thread.
 *
 * This module controls the steps; all servers, including this one, move the jobs. It may be
 * interrupted at any moment: the next run continues from there, and meanwhile servers keep working
 * correctly.
 */
#ifndef TARRY_REDIS_RESHARD_H
#define TARRY_REDIS_RESHARD_H

#include "redis/generation.h"
#include "redis/redis.h"

enum { REDIS_RESHARD_TEXT_BYTES = 1024 };

struct redis_reshard_options {
    const char *url; /* see url.h */
    uint32_t shards; /* the new number, 1..REDIS_SHARDS_MAX */
    /* Called occasionally with the jobs moved and the total. May be NULL. */
    void (*progress)(void *ctx, uint64_t moved, uint64_t total);
    /* Returns whether to stop here; servers continue what was begun. May be NULL. */
    bool (*is_enough)(void *ctx);
    void *ctx;
};

struct redis_reshard_report {
    struct redis_generation from, into;
    bool was_begun; /* by an earlier run */
    bool is_done;   /* false without an error: the run was stopped early */
    uint64_t moved; /* jobs that left during this run, approximate: some may have ended instead */
    int64_t took_ms;
    char error[REDIS_RESHARD_TEXT_BYTES];
};

/*
 * Runs the change. Returns 0, or a negative errno with `error`: -EHOSTUNREACH unreachable, -EACCES
 * access denied, -EDOM invalid URL, -ENOENT no queue there, -EALREADY it already has that many
 * shards, -EBUSY a change to another number is in progress or a topic has strict groups (docs/flow.md), -EINVAL rejected by Redis, -ENOMEM.
 */
int redis_reshard_run(const struct redis_reshard_options *options,
                      struct redis_reshard_report *report);

#endif
