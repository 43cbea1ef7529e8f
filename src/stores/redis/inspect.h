/*
 * inspect: checks at the start whether Redis is configured so that it keeps jobs. Blocking; runs
 * before the reactors.
 *
 * Connects to the master (or to every master of a cluster), authenticates, and reads its effective
 * settings: the version, the eviction policy, what a restart of Redis can lose, the number of
 * replicas. Fixes the number of shards. Rejects an eviction policy, and less durability than
 * required, and reports how to change them; logs every other weakness as a warning.
 *
 * A hosted server often forbids CONFIG: then only INFO is read, and the durability is UNKNOWN unless
 * there is no append-only file.
 */
#ifndef TARRY_REDIS_INSPECT_H
#define TARRY_REDIS_INSPECT_H

#include "redis/generation.h"
#include "redis/master.h"
#include "redis/redis.h"
#include "redis/url.h"

/* The result of an inspection. Each member is the worst value over all masters. */
struct redis_inspection {
    enum redis_durability durability;
    bool evicts;                /* at least one master evicts jobs when memory is short */
    char policy[32];            /* of the last such master; empty: no master evicts */
    bool is_full;               /* at least one master rejects writes that need memory */
    bool snapshots;             /* `save` is set; matters only without an append-only file */
    bool accepts_truncated_aof; /* starts with a truncated append-only file (decision 11) */
    uint32_t masters;           /* 1 unless a cluster */
    uint32_t replicas;          /* connected */
    struct redis_generation generation; /* the current shards */
    struct redis_generation stored;     /* the generation stored in the key outside all shards */
    struct redis_generation next; /* the generation that jobs move to; next.shards 0: no move */
    char name[REDIS_NAME_BYTES];  /* the queue's; empty until the first hello, if Redis was full */
    uint32_t min_replicas;        /* min-replicas-to-write */
    uint64_t maxmemory_bytes;     /* 0: no limit, or unknown */
    char version[32];             /* the oldest version found */
    const char *sync;             /* appendfsync, "none" without an append-only file, "unknown" */
    char durability_text[320];    /* what an acknowledged push survives */
};

/*
 * Inspects Redis. Returns 0, or a negative errno with `error`: what failed, where, what to do;
 * never a password. *out is written on success only. -EACCES: access denied. -EHOSTUNREACH:
 * unreachable, or no master. -EINVAL: the server does not match the URL, or is not configured as
 * required.
 */
int redis_inspect(const struct redis_url *url, const struct redis_options *options,
                  struct redis_inspection *out, char *error, size_t error_bytes);

/* Stores the generation. Call it only when the shards of the previous one hold no jobs. Errors as
 * above. */
int redis_inspect_write_generation(const struct redis_url *url,
                                   const struct redis_generation *generation, char *error,
                                   size_t error_bytes);

/* Adds one more master; redis_inspection_describe writes the sentence after the last one. */
void redis_inspection_add(struct redis_inspection *sum, const struct redis_master *master);
void redis_inspection_describe(struct redis_inspection *sum, uint32_t wait_replicas);

#endif
