#include "redis/master.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void redis_info_field(const char *info, const char *key, char out[REDIS_FIELD_BYTES])
{
    size_t key_len = strlen(key);
    out[0] = '\0';
    for (const char *line = info; line; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, key, key_len) == 0 && line[key_len] == ':') {
            const char *value = line + key_len + 1;
            snprintf(out, REDIS_FIELD_BYTES, "%.*s", (int)strcspn(value, "\r\n"), value);
            return;
        }
}

static const char *config_value(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (reply->element[i]->type == REDIS_REPLY_STRING &&
            reply->element[i + 1]->type == REDIS_REPLY_STRING &&
            strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    return "";
}

void redis_master_read_config(struct redis_master *out, const redisReply *config)
{
    static const struct {
        const char *sync;
        enum redis_durability durability;
    } syncs[] = {{"always", REDIS_DURABILITY_FSYNC_ALWAYS},
                 {"everysec", REDIS_DURABILITY_FSYNC_EVERYSEC},
                 {"no", REDIS_DURABILITY_FSYNC_NO}};
    if (config->type != REDIS_REPLY_ARRAY || !config->elements)
        return;
    const char *sync = config_value(config, "appendfsync");
    const char *policy = config_value(config, "maxmemory-policy");
    out->snapshots = config_value(config, "save")[0] != '\0';
    if (policy[0])
        snprintf(out->policy, sizeof out->policy, "%.31s", policy);
    out->min_replicas = (uint32_t)atoi(config_value(config, "min-replicas-to-write"));
    if (strcmp(config_value(config, "appendonly"), "yes") != 0)
        return;
    out->accepts_truncated_aof = strcmp(config_value(config, "aof-load-truncated"), "yes") == 0;
    for (size_t i = 0; i < sizeof syncs / sizeof syncs[0]; i++)
        if (strcmp(sync, syncs[i].sync) == 0) {
            out->sync = syncs[i].sync;
            out->durability = syncs[i].durability;
        }
}

static uint64_t info_number(const char *info, const char *key)
{
    char field[REDIS_FIELD_BYTES];
    redis_info_field(info, key, field);
    return strtoull(field, NULL, 10);
}

/* Returns whether Redis rejects commands that need memory: used_memory without the buffers of
 * replicas and of the append-only file is above maxmemory (getMaxmemoryState in Redis). */
static bool is_full(const char *info)
{
    uint64_t most = info_number(info, "maxmemory"), used = info_number(info, "used_memory"),
             uncounted = info_number(info, "mem_not_counted_for_evict");
    uint64_t counted = used > uncounted ? used - uncounted : 0;
    return most && counted > most;
}

void redis_master_read_capacity(struct redis_master *out, const char *info)
{
    char field[REDIS_FIELD_BYTES];
    redis_info_field(info, "maxmemory_policy", field);
    if (field[0])
        snprintf(out->policy, sizeof out->policy, "%.31s", field);
    redis_info_field(info, "master_replid", field);
    snprintf(out->replication_id, sizeof out->replication_id, "%.40s", field);
    out->is_full = is_full(info) || redis_info_is(info, "aof_last_write_status", "err");
}

bool redis_master_evicts(const struct redis_master *master)
{
    return master->policy[0] && strcmp(master->policy, "noeviction") != 0;
}

enum redis_durability redis_master_durability(const struct redis_master *master)
{
    return redis_master_evicts(master) ? REDIS_DURABILITY_EVICTS : master->durability;
}

void redis_master_read_info(struct redis_master *out, const char *info)
{
    redis_master_read_capacity(out, info);
    out->replicas = (uint32_t)info_number(info, "connected_slaves");
    out->maxmemory_bytes = info_number(info, "maxmemory");
    out->durability = REDIS_DURABILITY_UNKNOWN;
    out->sync = "unknown";
    if (redis_info_is(info, "aof_enabled", "0")) {
        out->durability = REDIS_DURABILITY_MEMORY;
        out->sync = "none";
    }
}
