#include "redis/inspect.h"

#include "base/log.h"
#include "redis/inspect_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- several masters: the weakest counts ---- */

void redis_inspection_add(struct redis_inspection *sum, const struct redis_master *master)
{
    bool first = sum->masters++ == 0;
    enum redis_durability durability = redis_master_durability(master);
    if (redis_master_evicts(master)) {
        sum->evicts = true;
        memcpy(sum->policy, master->policy, sizeof(sum->policy));
    }
    sum->is_full |= master->is_full;
    if (first || durability < sum->durability) {
        sum->durability = durability;
        sum->sync = master->sync;
        sum->snapshots = master->snapshots;
    }
    sum->loads_torn |= master->loads_torn;
    if (first || master->replicas < sum->replicas)
        sum->replicas = master->replicas;
    if (master->min_replicas > sum->min_replicas)
        sum->min_replicas = master->min_replicas;
    if (!sum->maxmemory_bytes ||
        (master->maxmemory_bytes && master->maxmemory_bytes < sum->maxmemory_bytes))
        sum->maxmemory_bytes = master->maxmemory_bytes;
    if (first || strverscmp(master->version, sum->version) < 0)
        snprintf(sum->version, sizeof(sum->version), "%s", master->version);
}

/* What to give a master that promises too little. */
static const char *remedy(enum redis_durability required)
{
    switch (required) {
    case REDIS_DURABILITY_ALWAYS:
        return "CONFIG SET appendonly yes, CONFIG SET appendfsync always, CONFIG REWRITE";
    case REDIS_DURABILITY_EVERYSEC:
        return "CONFIG SET appendonly yes, CONFIG SET appendfsync everysec, CONFIG REWRITE";
    case REDIS_DURABILITY_NO:
        return "CONFIG SET appendonly yes, CONFIG REWRITE";
    default:
        return "let this user read its configuration (ACL: +config|get)";
    }
}

static int check_durability(const struct redis_sync_connection *connection,
                            const struct redis_options *options, const struct redis_master *master)
{
    enum redis_durability required = options->require_durability;
    if (master->durability >= required)
        return 0;
    return redis_report(connection->report, -EINVAL,
                        "redis at '%s' promises less than --require-durability %s: it is '%s' "
                        "(appendonly %s, appendfsync %s), give it: %s",
                        connection->place, redis_durability_name(required),
                        redis_durability_name(master->durability),
                        master->durability == REDIS_DURABILITY_MEMORY    ? "no"
                        : master->durability == REDIS_DURABILITY_UNKNOWN ? "unknown"
                                                                         : "yes",
                        master->sync, remedy(required));
}

static int read_masters(const struct redis_url *url, const struct redis_options *options,
                        const struct redis_survey *map, struct redis_inspection *sum,
                        const struct redis_report *report)
{
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < map->count; i++) {
        struct redis_sync_connection connection;
        struct redis_master master = {0};
        result = redis_sync_connection_open(&connection, &map->masters[i], url->user, url->password,
                                            report);
        if (result == 0)
            result = redis_master_read(&connection, url->kind, &master);
        if (result == 0)
            result = check_durability(&connection, options, &master);
        if (result == 0)
            redis_inspection_add(sum, &master);
        redis_sync_connection_close(&connection);
    }
    return result;
}

/* ---- said to people ---- */

static const char *promise(const struct redis_inspection *sum)
{
    switch (sum->durability) {
    case REDIS_DURABILITY_ALWAYS:
        return "an answered push is on the disk of its Redis master and survives kill -9 and power "
               "loss there";
    case REDIS_DURABILITY_EVERYSEC:
        return "an answered push survives the death of any tarry server; a crash of Redis' machine "
               "may lose the last two seconds (appendfsync everysec)";
    case REDIS_DURABILITY_NO:
        return "an answered push survives the death of any tarry server; a crash of Redis' machine "
               "may lose the last half minute (appendfsync no)";
    case REDIS_DURABILITY_MEMORY:
        return sum->snapshots
                   ? "an answered push survives the death of any tarry server; a crash "
                     "of Redis loses what came after its last snapshot (appendonly no)"
                   : "an answered push survives the death of any tarry server; a restart "
                     "of Redis loses every job (appendonly no, no snapshots)";
    case REDIS_DURABILITY_NONE:
        return "an answered push may be thrown away by Redis when memory is short "
               "(maxmemory-policy is not noeviction)";
    case REDIS_DURABILITY_UNKNOWN:
        break;
    }
    return "an answered push survives the death of any tarry server; what a crash of Redis may "
           "lose "
           "is unknown, since it does not show its configuration";
}

void redis_inspection_say(struct redis_inspection *sum, uint32_t wait_replicas)
{
    char failover[128];
    if (wait_replicas)
        snprintf(failover, sizeof(failover), "it had reached %u replica%s when it was answered",
                 (unsigned)wait_replicas, wait_replicas == 1 ? "" : "s");
    else
        snprintf(failover, sizeof(failover), "a failover may lose the last moments");
    snprintf(sum->durability_says, sizeof(sum->durability_says), "%s; %s", promise(sum), failover);
}

static void warn(const char *reason, const char *advice)
{
    log_event(LOG_WARN, "redis may lose jobs", LOG_TEXT("reason", reason),
              LOG_TEXT("advice", advice));
}

static void warn_of_weakness(const struct redis_inspection *sum, uint32_t wait_replicas)
{
    static const char *const append = "CONFIG SET appendonly yes, CONFIG SET appendfsync always";
    if (sum->durability == REDIS_DURABILITY_MEMORY)
        warn(sum->snapshots ? "appendonly is off, it keeps snapshots alone"
                            : "appendonly is off, nothing is kept over its restart",
             append);
    else if (sum->durability == REDIS_DURABILITY_UNKNOWN)
        warn("its configuration cannot be read, so what it keeps is unknown",
             "let this user read it: ACL +config|get");
    else if (sum->durability != REDIS_DURABILITY_ALWAYS)
        warn(sum->durability == REDIS_DURABILITY_EVERYSEC ? "appendfsync is everysec"
                                                          : "appendfsync is no",
             "CONFIG SET appendfsync always");
    if (sum->loads_torn)
        warn("it starts on an append-only file that was cut off, and may then carry out half a "
             "change",
             "CONFIG SET aof-load-truncated no, and redis-check-aof --fix before it starts");
    if (wait_replicas > sum->replicas || sum->min_replicas > sum->replicas)
        log_event(LOG_WARN, "too few replicas", LOG_NUMBER("wait_replicas", wait_replicas),
                  LOG_NUMBER("min_replicas_to_write", sum->min_replicas),
                  LOG_NUMBER("connected", sum->replicas),
                  LOG_TEXT("advice", "changes are refused until there are enough"));
}

static void say_what_there_is(const struct redis_inspection *sum)
{
    const char *version = sum->version, *durability = redis_durability_name(sum->durability);
    log_event(LOG_INFO, "redis", LOG_TEXT("version", version), LOG_NUMBER("masters", sum->masters),
              LOG_NUMBER("replicas", sum->replicas), LOG_TEXT("durability", durability),
              LOG_TEXT("appendfsync", sum->sync), LOG_NUMBER("maxmemory", sum->maxmemory_bytes),
              LOG_NUMBER("min_replicas_to_write", sum->min_replicas),
              LOG_NUMBER("shards", sum->shards));
}

int redis_inspect(const struct redis_url *url, const struct redis_options *options,
                  struct redis_inspection *out, char *error, size_t error_bytes)
{
    const struct redis_report report = {.error = error, .error_bytes = error_bytes};
    struct redis_inspection sum = {0};
    struct redis_survey *map = NULL;
    int result = redis_survey_find(url, &map, &report);
    if (result == 0)
        result = read_masters(url, options, map, &sum, &report);
    if (result == 0)
        result = redis_shards_fix(url, map, options->shards, &sum.shards, &report);
    if (result == 0)
        result = redis_shards_name(url, map, sum.shards, sum.name, &report);
    if (result == 0) {
        redis_inspection_say(&sum, options->wait_replicas);
        say_what_there_is(&sum);
        warn_of_weakness(&sum, options->wait_replicas);
        *out = sum;
    }
    redis_survey_free(map);
    return result;
}
