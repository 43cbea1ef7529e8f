/*
 * reshard: takes a queue in Redis to another number of shards while servers are at work on it
 * (decision 36). Blocking; makes a reactor of its own; any one thread.
 *
 * The steps are taken here, the jobs are moved by all servers, this one among them. It may be cut
 * short at any moment: the next run goes on where this one was, and servers go on correctly meanwhile.
 */
#ifndef TARRY_REDIS_RESHARD_H
#define TARRY_REDIS_RESHARD_H

#include "redis/generation.h"
#include "redis/redis.h"

enum { REDIS_RESHARD_TEXT_BYTES = 1024 };

struct redis_reshard_options {
    const char *url; /* see url.h */
    uint32_t shards; /* how many there shall be, 1..REDIS_SHARDS_MAX */
    /* NULL: nobody wants to know. Now and then: jobs that have moved, of how many. */
    void (*progress)(void *ctx, uint64_t moved, uint64_t total);
    /* NULL, or whether to leave off here: servers go on with what was begun. */
    bool (*is_enough)(void *ctx);
    void *ctx;
};

struct redis_reshard_report {
    struct redis_generation from, into;
    bool was_begun; /* by an earlier run */
    bool is_done;   /* false without an error: it was left off */
    uint64_t moved; /* jobs that left in this run, about: some may have ended instead */
    int64_t took_ms;
    char error[REDIS_RESHARD_TEXT_BYTES];
};

/*
 * 0, or negative errno with `error`: -EHOSTUNREACH nobody there, -EACCES not let in, -EDOM the URL
 * cannot be read, -ENOENT no queue there, -EALREADY it has that many, -EBUSY it is on its way to
 * another number, -EINVAL it refuses, -ENOMEM.
 */
int redis_reshard_run(const struct redis_reshard_options *options,
                      struct redis_reshard_report *report);

#endif
