/*
 * master: the effective settings of one master, read from its INFO and CONFIG GET: what it keeps
 * over a restart, whether it evicts jobs when memory is short, whether it is full. Pure.
 */
#ifndef TARRY_REDIS_MASTER_H
#define TARRY_REDIS_MASTER_H

#include "redis/redis.h"

#include <hiredis/hiredis.h>
#include <string.h>

enum { REDIS_FIELD_BYTES = 160 };

/* The words of the command whose reply redis_master_read_config reads. */
#define REDIS_MASTER_CONFIG                                                                        \
    "CONFIG", "GET", "appendonly", "appendfsync", "save", "maxmemory-policy",                      \
        "min-replicas-to-write", "aof-load-truncated"

struct redis_master {
    char version[32], policy[32];
    /* The replication id of its data; it changes when the server takes over another master's
     * data. */
    char replication_id[41];
    enum redis_durability durability; /* without regard to the policy */
    const char *sync;
    bool snapshots, accepts_truncated_aof;
    /* Rejects writes: memory is full, or the append-only file cannot be written. A failed snapshot
     * is left out: whether it stops writes depends on settings that may change at any time, so the
     * first rejected write (MISCONF) reports it. */
    bool is_full;
    uint32_t replicas;
    uint32_t min_replicas;    /* min-replicas-to-write: with fewer replicas it rejects writes */
    uint64_t maxmemory_bytes; /* 0: no limit, or unknown */
};

/* Finds "key:value" in the lines of INFO; empty if absent. */
void redis_info_field(const char *info, const char *key, char out[REDIS_FIELD_BYTES]);
static inline bool redis_info_is(const char *info, const char *key, const char *value)
{
    char found[REDIS_FIELD_BYTES];
    redis_info_field(info, key, found);
    return strcmp(found, value) == 0;
}

/* Reads from a complete INFO everything that does not require CONFIG. */
void redis_master_read_info(struct redis_master *out, const char *info);
/* Reads the reply to `INFO memory persistence replication`: the policy, whether memory and disk have
 * room, the replication id. */
void redis_master_read_capacity(struct redis_master *out, const char *info);
/* Reads the reply to CONFIG GET. An error reply (CONFIG is forbidden) changes nothing. */
void redis_master_read_config(struct redis_master *out, const redisReply *config);

/* Returns whether the master evicts jobs when memory is short. */
bool redis_master_evicts(const struct redis_master *master);
/* Returns what an acknowledged push survives on this master. */
enum redis_durability redis_master_durability(const struct redis_master *master);

#endif
