/*
 * inspect: what there is, before the first job is trusted to it. Blocking; before the reactors run.
 *
 * Reaches the master (of a cluster: every one), logs in, and reads what is in force: the version,
 * the eviction policy, what a restart of Redis can lose, how many replicas there are. Fixes the
 * number of shards. Refuses what could lose jobs behind the user's back, and says how to change it;
 * what only weakens the promise is logged as a warning.
 *
 * Servers that do not let their CONFIG be read (hosted ones) are believed what INFO says.
 */
#ifndef TARRY_REDIS_INSPECT_H
#define TARRY_REDIS_INSPECT_H

#include "redis/generation.h"
#include "redis/master.h"
#include "redis/redis.h"
#include "redis/url.h"

/* Of several masters the weakest counts. */
struct redis_inspection {
    enum redis_durability durability;
    bool evicts; /* one of them deletes jobs when memory is short, by this policy */
    char policy[32];
    bool is_full;      /* one of them refuses what grows */
    bool snapshots;    /* without an append-only file: RDB snapshots are at least taken */
    bool loads_torn;   /* starts on an append-only file that was cut off (decision 11) */
    uint32_t masters;  /* 1 but for a cluster */
    uint32_t replicas; /* connected */
    struct redis_generation generation; /* which shards there are */
    struct redis_generation written;    /* the one that the key outside all shards says */
    struct redis_generation next;       /* those their jobs go to; shards 0: they stay */
    char name[REDIS_NAME_BYTES]; /* the queue's; empty: Redis had no room for it, hello tells it */
    uint32_t min_replicas;       /* min-replicas-to-write */
    uint64_t maxmemory_bytes;    /* 0: no limit, or unknown */
    char version[32];            /* the oldest */
    const char *sync;            /* appendfsync, "none" without an append-only file, "unknown" */
    char durability_says[320];   /* one sentence: what an answered push survives */
};

/*
 * 0, or negative errno with `error`: what, where, what to do; never a password. *out is written on
 * success only. -EACCES: not let in. -EHOSTUNREACH: nobody there, or nobody who is master.
 * -EINVAL: it is not what the URL says, or not as it must be.
 */
int redis_inspect(const struct redis_url *url, const struct redis_options *options,
                  struct redis_inspection *out, char *error, size_t error_bytes);

/* Says which shards there are, once those of another generation hold no job any more. Errors as
 * above. */
int redis_inspect_write_generation(const struct redis_url *url,
                                   const struct redis_generation *generation, char *error,
                                   size_t error_bytes);

/* One more master; and, once all were added, the sentence. */
void redis_inspection_add(struct redis_inspection *sum, const struct redis_master *master);
void redis_inspection_say(struct redis_inspection *sum, uint32_t wait_replicas);

#endif
