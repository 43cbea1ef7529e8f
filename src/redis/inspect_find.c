/* Which servers are masters, and of which slots. */
#include "redis/inspect_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NO_MASTER = UINT16_MAX };

void redis_survey_free(struct redis_survey *map)
{
    if (map)
        free(map->masters);
    free(map);
}

static struct redis_survey *map_new(void)
{
    struct redis_survey *map = calloc(1, sizeof(*map));
    if (map)
        map->masters = calloc(REDIS_SURVEY_MAX, sizeof(*map->masters));
    if (map && map->masters)
        return map;
    redis_survey_free(map);
    return NULL;
}

static bool set_endpoint(struct redis_endpoint *endpoint, const char *host, long long port)
{
    if (port < 1 || port > UINT16_MAX || strlen(host) >= sizeof(endpoint->host))
        return false;
    *endpoint = (struct redis_endpoint){.port = (uint16_t)port};
    strcpy(endpoint->host, host);
    return true;
}

/* ---- sentinel ---- */

/* "one, two": the masters a sentinel knows. */
static void name_masters(struct redis_sync_connection *connection, char *out, size_t out_bytes)
{
    redisReply *reply = REDIS_TALK_ASK(connection, "SENTINEL", "MASTERS");
    size_t at = 0;
    snprintf(out, out_bytes, "none");
    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *row = reply->element[i];
        if (row->type == REDIS_REPLY_ARRAY && row->elements > 1 && at < out_bytes)
            at += (size_t)snprintf(out + at, out_bytes - at, "%s'%s'", i ? ", " : "",
                                   row->element[1]->str);
    }
    freeReplyObject(reply);
}

static int read_sentinel(struct redis_sync_connection *connection, const char *master,
                         redisReply *reply, struct redis_endpoint *out)
{
    char known[160];
    if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        set_endpoint(out, reply->element[0]->str, atoll(reply->element[1]->str)))
        return 0;
    if (reply && reply->type == REDIS_REPLY_NIL) {
        name_masters(connection, known, sizeof(known));
        return redis_report(connection->report, -EINVAL,
                            "sentinel at '%s' knows no master '%s', it knows: %s",
                            connection->place, master, known);
    }
    if (redis_sync_connection_is_error(reply, "ERR unknown command"))
        return redis_report(connection->report, -EINVAL,
                            "'%s' is no sentinel, give the sentinels' port (26379) or write "
                            "redis://",
                            connection->place);
    return redis_sync_connection_refused(connection, reply, "ask for its master");
}

static int ask_sentinel(const struct redis_url *url, const struct redis_endpoint *sentinel,
                        struct redis_endpoint *out, const struct redis_report *report)
{
    struct redis_sync_connection connection;
    int result = redis_sync_connection_open(&connection, sentinel, url->sentinel_user,
                                            url->sentinel_password, report);
    if (result == 0) {
        redisReply *reply =
            REDIS_TALK_ASK(&connection, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", url->master);
        result = read_sentinel(&connection, url->master, reply, out);
        freeReplyObject(reply);
    }
    redis_sync_connection_close(&connection);
    return result;
}

/* The first sentinel that knows; what the last one said where none does. */
static int find_by_sentinel(const struct redis_url *url, struct redis_survey *map,
                            const struct redis_report *report)
{
    int result = -EINVAL;
    for (uint32_t i = 0; i < url->host_count; i++) {
        result = ask_sentinel(url, &url->hosts[i], &map->masters[0], report);
        if (result == 0)
            break;
    }
    map->count = result == 0;
    return result;
}

/* ---- cluster ---- */

static uint16_t number_of(struct redis_survey *map, const struct redis_endpoint *endpoint)
{
    for (uint32_t i = 0; i < map->count; i++)
        if (map->masters[i].port == endpoint->port &&
            strcmp(map->masters[i].host, endpoint->host) == 0)
            return (uint16_t)i;
    if (map->count == REDIS_SURVEY_MAX)
        return NO_MASTER;
    map->masters[map->count] = *endpoint;
    return (uint16_t)map->count++;
}

/* A row of CLUSTER SLOTS: first, last, [host, port, …] of the master, then of its replicas. Without
 * a host it is the one that was asked. */
static bool read_row(struct redis_survey *map, const redisReply *row,
                     const struct redis_endpoint *asked)
{
    struct redis_endpoint endpoint;
    if (row->type != REDIS_REPLY_ARRAY || row->elements < 3 || row->element[2]->elements < 2)
        return false;
    long long first = row->element[0]->integer, last = row->element[1]->integer;
    const redisReply *host = row->element[2]->element[0];
    const char *name = host->str && host->str[0] && host->str[0] != '?' ? host->str : asked->host;
    if (first < 0 || last >= REDIS_SLOTS ||
        !set_endpoint(&endpoint, name, row->element[2]->element[1]->integer))
        return false;
    uint16_t number = number_of(map, &endpoint);
    for (long long slot = first; slot <= last; slot++)
        map->of_slot[slot] = number;
    return number != NO_MASTER;
}

static int read_slots(struct redis_sync_connection *connection, const redisReply *reply,
                      struct redis_survey *map, const struct redis_endpoint *asked)
{
    if (redis_sync_connection_is_error(reply, "ERR This instance has cluster support disabled"))
        return redis_report(connection->report, -EINVAL,
                            "redis at '%s' is not a cluster, write redis:// for a single server",
                            connection->place);
    if (!reply || reply->type != REDIS_REPLY_ARRAY)
        return redis_sync_connection_refused(connection, reply, "show its slots");
    map->count = 0;
    memset(map->of_slot, 0xff, sizeof(map->of_slot));
    for (size_t i = 0; i < reply->elements; i++)
        if (!read_row(map, reply->element[i], asked))
            return redis_report(connection->report, -EINVAL,
                                "cannot make sense of the cluster's slots at '%s'",
                                connection->place);
    for (int slot = 0; slot < REDIS_SLOTS; slot++)
        if (map->of_slot[slot] == NO_MASTER)
            return redis_report(connection->report, -EHOSTUNREACH,
                                "nobody serves slot %d of the cluster at '%s', see 'redis-cli "
                                "--cluster check %s'",
                                slot, connection->place, connection->place);
    return 0;
}

static int ask_node(const struct redis_url *url, const struct redis_endpoint *node,
                    struct redis_survey *map, const struct redis_report *report)
{
    struct redis_sync_connection connection;
    int result = redis_sync_connection_open(&connection, node, url->user, url->password, report);
    if (result == 0) {
        redisReply *reply = REDIS_TALK_ASK(&connection, "CLUSTER", "SLOTS");
        result = read_slots(&connection, reply, map, node);
        freeReplyObject(reply);
    }
    redis_sync_connection_close(&connection);
    return result;
}

static int find_by_cluster(const struct redis_url *url, struct redis_survey *map,
                           const struct redis_report *report)
{
    int result = -EINVAL;
    if (url->db)
        return redis_report(report, -EINVAL,
                            "a cluster has no database but 0, leave '%u' out of the URL",
                            (unsigned)url->db);
    for (uint32_t i = 0; i < url->host_count; i++) {
        result = ask_node(url, &url->hosts[i], map, report);
        if (result != -EHOSTUNREACH)
            break;
    }
    return result;
}

/* ---- any ---- */

int redis_survey_find(const struct redis_url *url, struct redis_survey **out,
                      const struct redis_report *report)
{
    struct redis_survey *map = map_new();
    int result = 0;
    if (!map)
        return redis_report(report, -ENOMEM, "out of memory");
    if (url->kind == REDIS_SENTINEL) {
        result = find_by_sentinel(url, map, report);
    } else if (url->kind == REDIS_CLUSTER) {
        result = find_by_cluster(url, map, report);
    } else {
        map->masters[0] = url->hosts[0];
        map->count = 1;
    }
    if (result == 0)
        *out = map;
    else
        redis_survey_free(map);
    return result;
}
