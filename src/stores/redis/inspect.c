#include "redis/inspect.h"

#include "base/log.h"
#include "redis/answer.h"
#include "redis/name.h"
#include "redis/state.h"
#include "redis/survey.h"

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
        memcpy(sum->policy, master->policy, sizeof sum->policy);
    }
    sum->is_full |= master->is_full;
    if (first || durability < sum->durability) {
        sum->durability = durability;
        sum->sync = master->sync;
        sum->snapshots = master->snapshots;
    }
    sum->accepts_truncated_aof |= master->accepts_truncated_aof;
    if (first || master->replicas < sum->replicas)
        sum->replicas = master->replicas;
    if (master->min_replicas > sum->min_replicas)
        sum->min_replicas = master->min_replicas;
    if (!sum->maxmemory_bytes ||
        (master->maxmemory_bytes && master->maxmemory_bytes < sum->maxmemory_bytes))
        sum->maxmemory_bytes = master->maxmemory_bytes;
    if (first || strverscmp(master->version, sum->version) < 0)
        snprintf(sum->version, sizeof sum->version, "%s", master->version);
}

enum { OLDEST_MAJOR = 7 };

/* ---- one master: kind, role, version ---- */

/* Returns whether the server is in this mode. Valkey has a different name for the field. */
static bool is_in_mode(const char *info, const char *mode)
{
    return redis_info_is(info, "redis_mode", mode) || redis_info_is(info, "server_mode", mode);
}

static int check_mode(const struct redis_sync_connection *connection, enum redis_kind kind,
                      const char *info)
{
    if (is_in_mode(info, "sentinel"))
        return REDIS_REPORT(connection->report, -EINVAL,
                            "'%s' is a sentinel, write redis-sentinel://%s/NAME-OF-THE-MASTER",
                            connection->place, connection->place);
    if (kind != REDIS_CLUSTER && is_in_mode(info, "cluster"))
        return REDIS_REPORT(connection->report, -EINVAL,
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
        return REDIS_REPORT(
            connection->report, -EHOSTUNREACH,
            "redis at '%s' is not master yet, a failover is in progress, start again in a moment",
            connection->place);
    redis_info_field(info, "master_host", host);
    redis_info_field(info, "master_port", port);
    return REDIS_REPORT(
        connection->report, -EINVAL,
        "redis at '%s' is a replica, give its master '%s:%s', or the sentinels (redis-sentinel://)",
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
    return REDIS_REPORT(connection->report, -EINVAL,
                        "redis at '%s' has version '%s', tarry needs at least %d.0 (or Valkey)",
                        connection->place, out, OLDEST_MAJOR);
}

/* ---- one master: settings ---- */

/* Reads the effective settings. If CONFIG is forbidden, only those in INFO are used. */
static int read_effective_settings(struct redis_sync_connection *connection, const char *info,
                                   struct redis_master *out)
{
    redisReply *config = REDIS_SYNC_ASK(connection, REDIS_MASTER_CONFIG);
    if (!config)
        return -EHOSTUNREACH;
    redis_master_read_info(out, info);
    redis_master_read_config(out, config);
    freeReplyObject(config);
    if (!redis_master_evicts(out))
        return 0;
    return REDIS_REPORT(connection->report, -EINVAL,
                        "redis at '%s' would evict jobs when memory is short (maxmemory-policy "
                        "%s), run: CONFIG SET maxmemory-policy noeviction, "
                        "and CONFIG REWRITE",
                        connection->place, out->policy);
}

/* Reads a master. Refuses a server that is not a master, is too old, or would evict jobs. */
static int read_master(struct redis_sync_connection *connection, enum redis_kind kind,
                       struct redis_master *out)
{
    redisReply *info = REDIS_SYNC_ASK(connection, "INFO");
    struct redis_master master = {0};
    int result = 0;
    if (!info || info->type != REDIS_REPLY_STRING)
        result = redis_sync_connection_refused(connection, info, "read INFO");
    else if (redis_info_is(info->str, "loading", "1"))
        result =
            REDIS_REPORT(connection->report, -EHOSTUNREACH,
                         "redis at '%s' is still loading its data, start again once it is done",
                         connection->place);
    if (result == 0)
        result = check_mode(connection, kind, info->str);
    if (result == 0)
        result = check_role(connection, kind, info->str);
    if (result == 0)
        result = check_version(connection, info->str, master.version);
    if (result == 0)
        result = read_effective_settings(connection, info->str, &master);
    if (result == 0)
        *out = master;
    freeReplyObject(info);
    return result;
}

/* ---- all masters ---- */

/* Returns how to raise the durability of a master from `found` to the required one. */
static const char *remedy(enum redis_durability found, enum redis_durability required)
{
    if (found == REDIS_DURABILITY_UNKNOWN)
        return "let this user read its configuration (ACL: +config|get)";
    switch (required) {
    case REDIS_DURABILITY_FSYNC_ALWAYS:
        return "run: CONFIG SET appendonly yes, CONFIG SET appendfsync always, CONFIG REWRITE";
    case REDIS_DURABILITY_FSYNC_EVERYSEC:
        return "run: CONFIG SET appendonly yes, CONFIG SET appendfsync everysec, CONFIG REWRITE";
    default:
        return "run: CONFIG SET appendonly yes, CONFIG REWRITE";
    }
}

static int check_durability(const struct redis_sync_connection *connection,
                            const struct redis_options *options, const struct redis_master *master)
{
    enum redis_durability required = options->require_durability;
    if (master->durability >= required)
        return 0;
    return REDIS_REPORT(connection->report, -EINVAL,
                        "redis at '%s' promises less than --require-durability %s: it is '%s' "
                        "(appendonly %s, appendfsync %s), %s",
                        connection->place, redis_durability_name(required),
                        redis_durability_name(master->durability),
                        master->durability == REDIS_DURABILITY_MEMORY    ? "no"
                        : master->durability == REDIS_DURABILITY_UNKNOWN ? "unknown"
                                                                         : "yes",
                        master->sync, remedy(master->durability, required));
}

static int read_masters(const struct redis_url *url, const struct redis_options *options,
                        const struct redis_survey *map, struct redis_inspection *sum,
                        const struct redis_report *report)
{
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < map->count; i++) {
        struct redis_sync_connection connection;
        struct redis_master master = {0};
        result = redis_sync_connection_open(&connection, &map->masters[i], &url->tls, url->user,
                                            url->password, report);
        if (result == 0)
            result = read_master(&connection, url->kind, &master);
        if (result == 0)
            result = check_durability(&connection, options, &master);
        if (result == 0)
            redis_inspection_add(sum, &master);
        redis_sync_connection_close(&connection);
    }
    return result;
}

/* ---- the number of shards ----
 *
 * The key "{prefix}:shards", outside all shards, is set once and decides, so that two servers that
 * start at the same time cannot disagree. If the key is missing (lost by a Redis without
 * persistence while servers were running), the cores of the shards still contain the number. */

enum { KEY_BYTES = REDIS_TAG_BYTES + 16, REDIRECTS_MAX = 5, NUMBER_BYTES = 16 };

struct shards_question {
    const struct redis_url *url;
    const struct redis_survey *map;
    const struct redis_report *report;
    const char *purpose;                   /* follows "cannot" in the error message */
    uint32_t generation;                   /* of the number found last */
    char place[REDIS_ENDPOINT_NAME_BYTES]; /* the server that answered */
};

/* Returns whether the error is a valid answer: the key has another type. */
static bool is_of_another_type(const redisReply *reply)
{
    return redis_sync_connection_is_error(reply, "WRONGTYPE ");
}

/* Queries one server; sends `ASKING` first if the slot is being imported there. */
static int ask_there(struct shards_question *question, const struct redis_endpoint *endpoint,
                     bool ask_first, const char *const *words, redisReply **out)
{
    const struct redis_url *url = question->url;
    struct redis_sync_connection connection;
    int result = redis_sync_connection_open(&connection, endpoint, &url->tls, url->user,
                                            url->password, question->report);
    redis_endpoint_name(endpoint, question->place);
    if (result == 0)
        result = redis_sync_connection_select(&connection, url->db);
    if (result == 0 && ask_first)
        freeReplyObject(REDIS_SYNC_ASK(&connection, "ASKING"));
    if (result == 0) {
        *out = redis_sync_connection_ask(&connection, words);
        if (!*out)
            result = -EHOSTUNREACH;
        else if ((*out)->type == REDIS_REPLY_ERROR && strncmp((*out)->str, "MOVED ", 6) != 0 &&
                 strncmp((*out)->str, "ASK ", 4) != 0 && !is_of_another_type(*out)) {
            result = redis_sync_connection_refused(&connection, *out, question->purpose);
            freeReplyObject(*out);
        }
    }
    redis_sync_connection_close(&connection);
    return result;
}

/* Queries the server that holds the key, words[1]. Follows redirects, because a cluster may be
 * moving the slot. */
static int ask_owner(struct shards_question *question, const char *const *words, redisReply **out)
{
    uint16_t slot = redis_slot_of(slice_of(words[1]));
    struct redis_endpoint endpoint = question->map->masters[question->map->of_slot[slot]];
    bool ask_first = false;
    for (int i = 0; i < REDIRECTS_MAX; i++) {
        int result = ask_there(question, &endpoint, ask_first, words, out);
        if (result != 0 || (*out)->type != REDIS_REPLY_ERROR || is_of_another_type(*out))
            return result;
        ask_first = redis_sync_connection_is_error(*out, "ASK ");
        struct redis_endpoint asked = endpoint;
        bool goes_on = redis_error_endpoint((*out)->str, &asked, &endpoint);
        freeReplyObject(*out);
        if (!goes_on)
            break;
    }
    return REDIS_REPORT(question->report, -EHOSTUNREACH,
                        "the cluster at '%s' redirects in a circle, start again in a moment",
                        question->place);
}

/* Reads the number of shards. *number is 0 if the key is missing. */
static int ask_number(struct shards_question *question, const char *const *words, uint32_t *number)
{
    redisReply *reply;
    int result = ask_owner(question, words, &reply);
    if (result != 0)
        return result;
    struct redis_generation found = {0};
    bool wrong = reply->type == REDIS_REPLY_STRING &&
                 !redis_generation_parse(slice_make(reply->str, reply->len), &found);
    freeReplyObject(reply);
    if (wrong)
        return REDIS_REPORT(question->report, -EINVAL,
                            "'%s' at '%s' is not a number of shards, another program uses these "
                            "keys, give tarry its own prefix (?prefix=NAME)",
                            words[1], question->place);
    *number = found.shards;
    question->generation = found.number;
    return 0;
}

#define ASK_NUMBER(question, number, ...)                                                          \
    ask_number((question), (const char *const[]){__VA_ARGS__, NULL}, (number))

/* ---- a core ---- */

struct core_seen {
    bool is_there;
    struct redis_core_state core;
};

static void core_name_of(const struct shards_question *question,
                         const struct redis_generation *generation, uint32_t shard,
                         char out[KEY_BYTES])
{
    char tag[REDIS_TAG_BYTES];
    redis_slot_tag_of(question->url->prefix, generation->number, shard, generation->shards, tag);
    snprintf(out, KEY_BYTES, "%s:core", tag);
}

/* Writes the name of a core of the first generation. */
static void core_name(const struct shards_question *question, uint32_t shard, uint32_t shards,
                      char out[KEY_BYTES])
{
    core_name_of(question, &(struct redis_generation){.shards = shards}, shard, out);
}

static int ask_core(struct shards_question *question, const char *core, struct core_seen *seen)
{
    redisReply *reply;
    *seen = (struct core_seen){0};
    int result = ask_owner(question, (const char *const[]){"GET", core, NULL}, &reply);
    if (result != 0)
        return result;
    seen->is_there = is_of_another_type(reply) || reply->type == REDIS_REPLY_STRING;
    if (reply->type == REDIS_REPLY_STRING)
        (void)redis_core_state_read(slice_make(reply->str, reply->len), &seen->core);
    freeReplyObject(reply);
    return 0;
}

/* Finds the number in a core. The name of shard 0 depends on the number of shards, but there are
 * only a few such names. */
static int ask_cores(struct shards_question *question, uint32_t *number)
{
    char last[KEY_BYTES] = "", core[KEY_BYTES];
    struct core_seen seen;
    int result = 0;
    *number = 0;
    for (uint32_t shards = 1; result == 0 && !*number && shards <= REDIS_SHARDS_MAX; shards++) {
        core_name(question, 0, shards, core);
        if (strcmp(core, last) == 0)
            continue;
        strcpy(last, core);
        result = ask_core(question, core, &seen);
        *number = seen.core.shards;
    }
    return result;
}

/* Refuses to start beside cores that do not contain the number. Servers of older versions left such
 * cores when they continued after Redis had lost its data. Starting with a different number would
 * split the queue in two. If another server created a core after the query for the number in `key`,
 * the number is in `key` now. */
static int refuse_mute_cores(struct shards_question *question, const char *key, uint32_t *number)
{
    char last[KEY_BYTES] = "", core[KEY_BYTES];
    for (uint32_t shards = 1; shards <= REDIS_SHARDS_MAX; shards++) {
        struct core_seen seen;
        core_name(question, 0, shards, core);
        if (strcmp(core, last) == 0)
            continue;
        strcpy(last, core);
        int result = ask_core(question, core, &seen);
        if (result == 0 && seen.is_there)
            result = ASK_NUMBER(question, number, "GET", key);
        if (result != 0 || (seen.is_there && *number))
            return result;
        if (seen.is_there)
            return REDIS_REPORT(question->report, -EINVAL,
                                "'%s' at '%s' has no number of shards, redis lost its data while "
                                "servers ran, give the --shards of these servers",
                                core, question->place);
    }
    return 0;
}

/* Returns the number of shards for a new queue: one per master. A call costs Redis more than a job
 * in it, and each shard has its own calls. So there are only as many shards as can share the
 * work. */
static uint32_t number_for_new(const struct redis_survey *map)
{
    return map->count < REDIS_SHARDS_MAX ? map->count : REDIS_SHARDS_MAX;
}

static int decide_number(struct shards_question *question, const char *key, uint32_t wanted,
                         uint32_t *number)
{
    char text[NUMBER_BYTES];
    redisReply *reply;
    uint32_t found = 0;
    int result = ask_cores(question, &found);
    if (result == 0 && !found && !wanted)
        result = refuse_mute_cores(question, key, number);
    if (result != 0 || *number)
        return result;
    snprintf(text, sizeof text, "%u",
             (unsigned)(found    ? found
                        : wanted ? wanted
                                 : number_for_new(question->map)));
    result = ask_owner(question, (const char *const[]){"SET", key, text, "NX", NULL}, &reply);
    if (result != 0)
        return result;
    freeReplyObject(reply);
    return ASK_NUMBER(question, number, "GET", key);
}

/* Determines the number of shards; for a new queue, `wanted` (0: one per master). */
static int fix_shards(const struct redis_url *url, const struct redis_survey *map, uint32_t wanted,
                      bool exists, struct redis_generation *out, const struct redis_report *report)
{
    struct shards_question question = {
        .url = url, .map = map, .report = report, .purpose = "read the number of shards"};
    char key[KEY_BYTES];
    uint32_t number = 0;
    snprintf(key, sizeof key, "{%s}:shards", url->prefix);
    int result = ASK_NUMBER(&question, &number, "GET", key);
    if (result == 0 && !number && exists)
        return REDIS_REPORT(report, -ENOENT, "no queue is stored under '%s' at '%s', check the URL",
                            url->prefix, question.place);
    if (result == 0 && !number)
        result = decide_number(&question, key, wanted, &number);
    if (result != 0)
        return result;
    if (wanted && wanted != number)
        return REDIS_REPORT(report, -EINVAL,
                            "'--shards' is %u, but the queue under '%s' at '%s' has %u shard%s, "
                            "leave --shards out or give another ?prefix=",
                            (unsigned)wanted, url->prefix, question.place, (unsigned)number,
                            number == 1 ? "" : "s");
    *out = (struct redis_generation){.number = question.generation, .shards = number};
    return 0;
}

/* ---- the layout of the shards ---- */

static int refuse_layout(const struct shards_question *question, const char *core,
                         const struct core_seen *seen)
{
    return REDIS_REPORT(question->report, -EINVAL,
                        "'%s' at '%s' has layout %u and this version reads up to %u, use the "
                        "version that wrote it, or a newer one",
                        core, question->place, (unsigned)seen->core.layout, (unsigned)REDIS_LAYOUT);
}

/* Refuses to mix jobs of a test clock with real ones. */
static int refuse_clock(const struct shards_question *question, bool is_held)
{
    return REDIS_REPORT(
        question->report, -EINVAL,
        is_held
            ? "the jobs of '%s' at '%s' belong to a test clock and are not real; give another "
              "prefix or database, or --test-clock"
            : "'%s' at '%s' is not for a test clock; give --test-clock its own prefix or database",
        question->url->prefix, question->place);
}

static int check_layouts(const struct redis_url *url, const struct redis_survey *map,
                         const struct redis_options *options,
                         const struct redis_generation *generation,
                         const struct redis_report *report)
{
    struct shards_question question = {
        .url = url, .map = map, .report = report, .purpose = "read the layout of the jobs"};
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < generation->shards; i++) {
        char core[KEY_BYTES];
        struct core_seen seen;
        core_name_of(&question, generation, i, core);
        result = ask_core(&question, core, &seen);
        if (result == 0 && seen.core.layout > REDIS_LAYOUT)
            result = refuse_layout(&question, core, &seen);
        if (result == 0 && seen.core.layout && seen.core.is_held != (options->test_clock_ms != 0))
            result = refuse_clock(&question, seen.core.is_held);
    }
    return result;
}

/* ---- the next generation, if any ---- */

enum { IS_CLOSED = 4 }; /* a shard without any jobs left (enum redis_move_state) */

static int read_target(struct shards_question *question, const struct redis_generation *generation,
                       struct redis_generation *target)
{
    char tag[REDIS_TAG_BYTES], key[KEY_BYTES];
    redisReply *reply;
    redis_slot_tag_of(question->url->prefix, generation->number, 0, generation->shards, tag);
    snprintf(key, sizeof key, "%s:moving", tag);
    int result = ask_owner(question, (const char *const[]){"HGET", key, "target", NULL}, &reply);
    if (result != 0)
        return result;
    if (reply->type == REDIS_REPLY_STRING)
        (void)redis_generation_parse(slice_make(reply->str, reply->len), target);
    freeReplyObject(reply);
    return 0;
}

/* Finds the generation that this one's jobs move to, its shards 0: no such generation; and whether
 * all have moved. */
static int find_next(struct shards_question *question, const struct redis_generation *generation,
                     struct redis_generation *next, bool *is_closed)
{
    char core[KEY_BYTES];
    struct core_seen seen;
    core_name_of(question, generation, 0, core);
    int result = ask_core(question, core, &seen);
    *next = (struct redis_generation){0};
    *is_closed = seen.core.sealed == IS_CLOSED;
    if (result == 0 && seen.core.sealed != 0)
        result = read_target(question, generation, next);
    for (uint32_t i = 1; result == 0 && *is_closed && i < generation->shards; i++) {
        core_name_of(question, generation, i, core);
        result = ask_core(question, core, &seen);
        *is_closed = seen.core.sealed == IS_CLOSED;
    }
    return result;
}

/* Follows the shards to the current generation. An interrupted command may have left the key
 * outdated. */
static int follow_generations(const struct redis_url *url, const struct redis_survey *map,
                              struct redis_inspection *sum, const struct redis_report *report)
{
    struct shards_question question = {
        .url = url, .map = map, .report = report, .purpose = "read which shards there are"};
    bool is_closed = false;
    for (;;) {
        int result = find_next(&question, &sum->generation, &sum->next, &is_closed);
        if (result != 0 || !is_closed || !sum->next.shards)
            return result;
        sum->generation = sum->next;
    }
}

/* Reads the queue's random name, and creates it if it does not exist. Empty if Redis has no room:
 * then hello creates and returns it. */
static int fix_name(const struct redis_url *url, const struct redis_survey *map,
                    const struct redis_generation *generation, char out[REDIS_NAME_BYTES],
                    const struct redis_report *report)
{
    struct shards_question question = {
        .url = url, .map = map, .report = report, .purpose = "read the name of the queue"};
    char tag[REDIS_TAG_BYTES], name[KEY_BYTES], drawn[REDIS_NAME_BYTES];
    redisReply *reply = NULL;
    redis_slot_tag_of(url->prefix, generation->number, 0, generation->shards, tag);
    snprintf(name, sizeof name, "%s:name", tag);
    redis_name_draw(drawn);
    /* Rejected if Redis is full: then hello, which is always allowed, creates it. */
    if (ask_owner(&question, (const char *const[]){"SET", name, drawn, "NX", NULL}, &reply) == 0)
        freeReplyObject(reply);
    int result = ask_owner(&question, (const char *const[]){"GET", name, NULL}, &reply);
    if (result != 0)
        return result;
    redis_name_read(reply->type == REDIS_REPLY_STRING ? slice_make(reply->str, reply->len)
                                                      : (struct slice){0},
                    out);
    freeReplyObject(reply);
    return 0;
}

/* ---- texts for people ---- */

static const char *promise(const struct redis_inspection *sum)
{
    switch (sum->durability) {
    case REDIS_DURABILITY_FSYNC_ALWAYS:
        return "an answered push is on the disk of its Redis master and survives kill -9 and power "
               "loss there";
    case REDIS_DURABILITY_FSYNC_EVERYSEC:
        return "an answered push survives the death of any tarry server; a crash of Redis' machine "
               "may lose the last two seconds (appendfsync everysec)";
    case REDIS_DURABILITY_FSYNC_NO:
        return "an answered push survives the death of any tarry server; a crash of Redis' machine "
               "may lose the last half minute (appendfsync no)";
    case REDIS_DURABILITY_MEMORY:
        return sum->snapshots
                   ? "an answered push survives the death of any tarry server; a crash of Redis "
                     "loses all changes since its last snapshot (appendonly no)"
                   : "an answered push survives the death of any tarry server; a restart "
                     "of Redis loses every job (appendonly no, no snapshots)";
    case REDIS_DURABILITY_EVICTS:
        return "Redis may evict an answered push when memory is short (maxmemory-policy is not "
               "noeviction)";
    case REDIS_DURABILITY_UNKNOWN:
        break;
    }
    return "an answered push survives the death of any tarry server; what a crash of Redis may "
           "lose is unknown, because its configuration cannot be read";
}

void redis_inspection_describe(struct redis_inspection *sum, uint32_t wait_replicas)
{
    char failover[128];
    if (wait_replicas)
        snprintf(failover, sizeof failover, "it had reached %u replica%s when it was answered",
                 (unsigned)wait_replicas, wait_replicas == 1 ? "" : "s");
    else
        snprintf(failover, sizeof failover, "a failover may lose the last moments");
    snprintf(sum->durability_text, sizeof sum->durability_text, "%s; %s", promise(sum), failover);
}

static void warn_of(const char *reason, const char *advice)
{
    log_event(LOG_WARN, "redis may lose jobs", LOG_TEXT("reason", reason),
              LOG_TEXT("advice", advice));
}

static void warn_of_weakness(const struct redis_inspection *sum, uint32_t wait_replicas)
{
    static const char *const append = "CONFIG SET appendonly yes, CONFIG SET appendfsync always";
    if (sum->durability == REDIS_DURABILITY_MEMORY)
        warn_of(sum->snapshots ? "appendonly is off, only snapshots are stored"
                               : "appendonly is off, a restart loses all jobs",
                append);
    else if (sum->durability == REDIS_DURABILITY_UNKNOWN)
        warn_of("its configuration cannot be read, so its durability is unknown",
                "let this user read it: ACL +config|get");
    else if (sum->durability != REDIS_DURABILITY_FSYNC_ALWAYS)
        warn_of(sum->durability == REDIS_DURABILITY_FSYNC_EVERYSEC ? "appendfsync is everysec"
                                                                   : "appendfsync is no",
                "CONFIG SET appendfsync always");
    if (sum->accepts_truncated_aof)
        warn_of("it would start with a truncated append-only file, and then apply half a change",
                "CONFIG SET aof-load-truncated no, and redis-check-aof --fix before it starts");
    if (wait_replicas > sum->replicas || sum->min_replicas > sum->replicas)
        log_event(LOG_WARN, "too few replicas", LOG_NUMBER("wait_replicas", wait_replicas),
                  LOG_NUMBER("min_replicas_to_write", sum->min_replicas),
                  LOG_NUMBER("connected", sum->replicas),
                  LOG_TEXT("advice", "changes are rejected until there are enough"));
}

/* Warns if the number of shards does not suit the masters. A few shards per master cost little and
 * let a cluster grow; more of them make every batch smaller. */
static void warn_of_shards(const struct redis_inspection *sum)
{
    enum { SHARDS_PER_MASTER_MAX = 2 };
    const char *reason = sum->generation.shards < sum->masters ? "some masters have no shard"
                         : sum->generation.shards > SHARDS_PER_MASTER_MAX * sum->masters
                             ? "each costs its own calls"
                             : NULL;
    if (reason)
        log_event(LOG_WARN, "the number of shards does not fit",
                  LOG_NUMBER("shards", sum->generation.shards), LOG_NUMBER("masters", sum->masters),
                  LOG_TEXT("reason", reason),
                  LOG_TEXT("advice", "tarry reshard, see docs/redis.md"));
}

static void log_store(const struct redis_inspection *sum)
{
    const char *version = sum->version, *durability = redis_durability_name(sum->durability);
    log_event(LOG_INFO, "redis", LOG_TEXT("version", version), LOG_NUMBER("masters", sum->masters),
              LOG_NUMBER("replicas", sum->replicas), LOG_TEXT("durability", durability),
              LOG_TEXT("appendfsync", sum->sync), LOG_NUMBER("maxmemory", sum->maxmemory_bytes),
              LOG_NUMBER("min_replicas_to_write", sum->min_replicas),
              LOG_NUMBER("shards", sum->generation.shards));
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
        result =
            fix_shards(url, map, options->shards, options->must_exist, &sum.generation, &report);
    sum.stored = sum.generation;
    if (result == 0)
        result = check_layouts(url, map, options, &sum.generation, &report);
    if (result == 0)
        result = follow_generations(url, map, &sum, &report);
    if (result == 0)
        result = fix_name(url, map, &sum.generation, sum.name, &report);
    if (result == 0) {
        redis_inspection_describe(&sum, options->wait_replicas);
        log_store(&sum);
        warn_of_weakness(&sum, options->wait_replicas);
        warn_of_shards(&sum);
        *out = sum;
    }
    redis_survey_free(map);
    return result;
}

int redis_inspect_write_generation(const struct redis_url *url,
                                   const struct redis_generation *generation, char *error,
                                   size_t error_bytes)
{
    const struct redis_report report = {.error = error, .error_bytes = error_bytes};
    struct redis_survey *map = NULL;
    char key[KEY_BYTES], text[REDIS_GENERATION_BYTES];
    redisReply *reply;
    int result = redis_survey_find(url, &map, &report);
    if (result != 0)
        return result;
    struct shards_question question = {
        .url = url, .map = map, .report = &report, .purpose = "write which shards there are"};
    snprintf(key, sizeof key, "{%s}:shards", url->prefix);
    redis_generation_write(generation, text);
    result = ask_owner(&question, (const char *const[]){"SET", key, text, NULL}, &reply);
    if (result == 0)
        freeReplyObject(reply);
    redis_survey_free(map);
    return result;
}
