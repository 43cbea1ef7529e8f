/*
 * master: what is in force on one master, as its INFO and CONFIG GET tell: what it keeps over a
 * restart, whether it throws jobs away when memory is short, whether it is full. Pure.
 */
#ifndef TARRY_REDIS_MASTER_H
#define TARRY_REDIS_MASTER_H

#include "redis/redis.h"

#include <hiredis/hiredis.h>
#include <string.h>

enum { REDIS_FIELD_BYTES = 160 };

/* The words of the command that tells the rest of what redis_master_hear_config wants. */
#define REDIS_MASTER_CONFIG                                                                        \
    "CONFIG", "GET", "appendonly", "appendfsync", "save", "maxmemory-policy",                      \
        "min-replicas-to-write", "aof-load-truncated"

struct redis_master {
    char version[32], policy[32];
    /* The replication id of its data: another one after it took over another master's. */
    char history[41];
    enum redis_durability durability; /* but for the policy */
    const char *sync;
    bool snapshots, loads_torn;
    bool is_full; /* it refuses what grows */
    uint32_t replicas;
    uint32_t min_replicas;    /* min-replicas-to-write: with fewer it refuses changes */
    uint64_t maxmemory_bytes; /* 0: no limit, or unknown */
};

/* "key:value" of INFO's lines; empty where there is none. */
void redis_info_field(const char *info, const char *key, char out[REDIS_FIELD_BYTES]);
static inline bool redis_info_is(const char *info, const char *key, const char *value)
{
    char found[REDIS_FIELD_BYTES];
    redis_info_field(info, key, found);
    return strcmp(found, value) == 0;
}

/* Of all of INFO: what it tells without CONFIG. */
void redis_master_hear_info(struct redis_master *out, const char *info);
/* Of INFO memory persistence replication: the policy, whether there is room in memory and on the
 * disk, the history. */
void redis_master_hear_room(struct redis_master *out, const char *info);
/* An answer that is an error (CONFIG is forbidden) changes nothing. */
void redis_master_hear_config(struct redis_master *out, const redisReply *config);

/* Whether it deletes jobs when memory is short. */
bool redis_master_evicts(const struct redis_master *master);
/* What an answered push survives there. */
enum redis_durability redis_master_durability(const struct redis_master *master);

#endif
