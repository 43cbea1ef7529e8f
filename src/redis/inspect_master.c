/* What is in force on one master. */
#include "redis/inspect_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_MAJOR = 7 };

/* ---- what it is ---- */

static int check_mode(const struct redis_sync_connection *connection, enum redis_kind kind,
                      const char *info)
{
    if (redis_info_is(info, "redis_mode", "sentinel"))
        return redis_report(connection->report, -EINVAL,
                            "'%s' is a sentinel, write redis-sentinel://%s/NAME-OF-THE-MASTER",
                            connection->place, connection->place);
    if (kind != REDIS_CLUSTER && redis_info_is(info, "redis_mode", "cluster"))
        return redis_report(connection->report, -EINVAL,
                            "redis at '%s' is part of a cluster, write redis-cluster://%s",
                            connection->place, connection->place);
    return 0;
}

static int check_role(const struct redis_sync_connection *connection, enum redis_kind kind,
                      const char *info)
{
    char host[REDIS_FIELD_BYTES], port[REDIS_FIELD_BYTES];
    if (redis_info_is(info, "role", "master"))
        return 0;
    if (kind != REDIS_SINGLE)
        return redis_report(connection->report, -EHOSTUNREACH,
                            "redis at '%s' is not master yet, a failover is under way, start again "
                            "in a moment",
                            connection->place);
    redis_info_field(info, "master_host", host);
    redis_info_field(info, "master_port", port);
    return redis_report(connection->report, -EINVAL,
                        "redis at '%s' is a replica, give its master '%s:%s', or the sentinels "
                        "(redis-sentinel://) that know who is",
                        connection->place, host, port);
}

static int check_version(const struct redis_sync_connection *connection, const char *info,
                         char out[32])
{
    char version[REDIS_FIELD_BYTES];
    redis_info_field(info, "redis_version", version);
    snprintf(out, 32, "%.31s", version);
    if (atoi(version) >= OLDEST_MAJOR)
        return 0;
    return redis_report(connection->report, -EINVAL,
                        "redis at '%s' has version '%s', tarry needs at least %d.0 (or Valkey)",
                        connection->place, out, OLDEST_MAJOR);
}

/* ---- what it does with the jobs ---- */

/* Where CONFIG is forbidden, what INFO says must do. */
static int read_force(struct redis_sync_connection *connection, const char *info,
                      struct redis_master *out)
{
    redisReply *config = REDIS_TALK_ASK(connection, REDIS_MASTER_CONFIG);
    if (!config)
        return -EHOSTUNREACH;
    redis_master_hear_info(out, info);
    redis_master_hear_config(out, config);
    freeReplyObject(config);
    if (!redis_master_evicts(out))
        return 0;
    return redis_report(connection->report, -EINVAL,
                        "redis at '%s' would throw jobs away when memory is short "
                        "(maxmemory-policy %s), give it: CONFIG SET maxmemory-policy noeviction, "
                        "and CONFIG REWRITE",
                        connection->place, out->policy);
}

int redis_master_read(struct redis_sync_connection *connection, enum redis_kind kind,
                      struct redis_master *out)
{
    redisReply *info = REDIS_TALK_ASK(connection, "INFO");
    struct redis_master master = {0};
    int result = 0;
    if (!info || info->type != REDIS_REPLY_STRING)
        result = redis_sync_connection_refused(connection, info, "read INFO");
    else if (redis_info_is(info->str, "loading", "1"))
        result =
            redis_report(connection->report, -EHOSTUNREACH,
                         "redis at '%s' is still loading its data, start again once it is done",
                         connection->place);
    if (result == 0)
        result = check_mode(connection, kind, info->str);
    if (result == 0)
        result = check_role(connection, kind, info->str);
    if (result == 0)
        result = check_version(connection, info->str, master.version);
    if (result == 0)
        result = read_force(connection, info->str, &master);
    if (result == 0)
        *out = master;
    freeReplyObject(info);
    return result;
}
