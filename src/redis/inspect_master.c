/* What is in force on one master. */
#include "redis/inspect_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_MAJOR = 7, FIELD_BYTES = 160 };

/* "key:value" of INFO's lines; empty where there is none. */
static void info_field(const char *info, const char *key, char out[FIELD_BYTES])
{
    size_t key_len = strlen(key);
    out[0] = '\0';
    for (const char *line = info; line; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, key, key_len) == 0 && line[key_len] == ':') {
            const char *value = line + key_len + 1;
            snprintf(out, FIELD_BYTES, "%.*s", (int)strcspn(value, "\r\n"), value);
            return;
        }
}

static bool info_is(const char *info, const char *key, const char *value)
{
    char found[FIELD_BYTES];
    info_field(info, key, found);
    return strcmp(found, value) == 0;
}

/* ---- what it is ---- */

static int check_mode(const struct redis_talk *talk, enum redis_kind kind, const char *info)
{
    if (info_is(info, "redis_mode", "sentinel"))
        return redis_report(talk->report, -EINVAL,
                            "'%s' is a sentinel, write redis-sentinel://%s/NAME-OF-THE-MASTER",
                            talk->place, talk->place);
    if (kind != REDIS_CLUSTER && info_is(info, "redis_mode", "cluster"))
        return redis_report(talk->report, -EINVAL,
                            "redis at '%s' is part of a cluster, write redis-cluster://%s",
                            talk->place, talk->place);
    return 0;
}

static int check_role(const struct redis_talk *talk, enum redis_kind kind, const char *info)
{
    char host[FIELD_BYTES], port[FIELD_BYTES];
    if (info_is(info, "role", "master"))
        return 0;
    if (kind != REDIS_SINGLE)
        return redis_report(talk->report, -EHOSTUNREACH,
                            "redis at '%s' is not master yet, a failover is under way, start again "
                            "in a moment",
                            talk->place);
    info_field(info, "master_host", host);
    info_field(info, "master_port", port);
    return redis_report(talk->report, -EINVAL,
                        "redis at '%s' is a replica, give its master '%s:%s', or the sentinels "
                        "(redis-sentinel://) that know who is",
                        talk->place, host, port);
}

static int check_version(const struct redis_talk *talk, const char *info, char out[32])
{
    char version[FIELD_BYTES];
    info_field(info, "redis_version", version);
    snprintf(out, 32, "%.31s", version);
    if (atoi(version) >= OLDEST_MAJOR)
        return 0;
    return redis_report(talk->report, -EINVAL,
                        "redis at '%s' has version '%s', tarry needs at least %d.0 (or Valkey)",
                        talk->place, out, OLDEST_MAJOR);
}

/* ---- what it does with the jobs ---- */

static const char *config_value(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    return "";
}

static void read_config(const redisReply *config, struct redis_master *out)
{
    static const struct {
        const char *sync;
        enum redis_durability durability;
    } syncs[] = {{"always", REDIS_DURABILITY_ALWAYS},
                 {"everysec", REDIS_DURABILITY_EVERYSEC},
                 {"no", REDIS_DURABILITY_NO}};
    const char *sync = config_value(config, "appendfsync");
    const char *policy = config_value(config, "maxmemory-policy");
    out->snapshots = config_value(config, "save")[0] != '\0';
    if (policy[0])
        snprintf(out->policy, sizeof(out->policy), "%.31s", policy);
    out->min_replicas = (uint32_t)atoi(config_value(config, "min-replicas-to-write"));
    if (strcmp(config_value(config, "appendonly"), "yes") != 0)
        return;
    out->loads_torn = strcmp(config_value(config, "aof-load-truncated"), "yes") == 0;
    for (size_t i = 0; i < sizeof(syncs) / sizeof(syncs[0]); i++)
        if (strcmp(sync, syncs[i].sync) == 0) {
            out->sync = syncs[i].sync;
            out->durability = syncs[i].durability;
        }
}

static void read_info(const char *info, struct redis_master *out)
{
    char field[FIELD_BYTES];
    info_field(info, "maxmemory_policy", field);
    snprintf(out->policy, sizeof(out->policy), "%.31s", field);
    info_field(info, "connected_slaves", field);
    out->replicas = (uint32_t)strtoul(field, NULL, 10);
    info_field(info, "maxmemory", field);
    out->maxmemory_bytes = strtoull(field, NULL, 10);
    out->durability = REDIS_DURABILITY_UNKNOWN;
    out->sync = "unknown";
    if (info_is(info, "aof_enabled", "0")) {
        out->durability = REDIS_DURABILITY_MEMORY;
        out->sync = "none";
    }
}

/* Where CONFIG is forbidden, what INFO says must do. */
static int read_force(struct redis_talk *talk, const char *info, struct redis_master *out)
{
    redisReply *config =
        REDIS_TALK_ASK(talk, "CONFIG", "GET", "appendonly", "appendfsync", "save",
                       "maxmemory-policy", "min-replicas-to-write", "aof-load-truncated");
    if (!config)
        return -EHOSTUNREACH;
    read_info(info, out);
    if (config->type == REDIS_REPLY_ARRAY && config->elements)
        read_config(config, out);
    freeReplyObject(config);
    if (!out->policy[0] || strcmp(out->policy, "noeviction") == 0)
        return 0;
    return redis_report(talk->report, -EINVAL,
                        "redis at '%s' would throw jobs away when memory is short "
                        "(maxmemory-policy %s), give it: CONFIG SET maxmemory-policy noeviction, "
                        "and CONFIG REWRITE",
                        talk->place, out->policy);
}

int redis_master_read(struct redis_talk *talk, enum redis_kind kind, struct redis_master *out)
{
    redisReply *info = REDIS_TALK_ASK(talk, "INFO");
    struct redis_master master = {0};
    int result = 0;
    if (!info || info->type != REDIS_REPLY_STRING)
        result = redis_talk_refused(talk, info, "read INFO");
    else if (info_is(info->str, "loading", "1"))
        result = redis_report(
            talk->report, -EHOSTUNREACH,
            "redis at '%s' is still loading its data, start again once it is done", talk->place);
    if (result == 0)
        result = check_mode(talk, kind, info->str);
    if (result == 0)
        result = check_role(talk, kind, info->str);
    if (result == 0)
        result = check_version(talk, info->str, master.version);
    if (result == 0)
        result = read_force(talk, info->str, &master);
    if (result == 0)
        *out = master;
    freeReplyObject(info);
    return result;
}
