#include "redis/survey.h"

#include "redis/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void redis_survey_free(struct redis_survey *survey)
{
    if (survey)
        free(survey->masters);
    free(survey);
}

static struct redis_survey *survey_new(void)
{
    struct redis_survey *survey = calloc(1, sizeof *survey);
    if (survey)
        survey->masters = calloc(REDIS_NODES_MAX, sizeof *survey->masters);
    if (survey && survey->masters)
        return survey;
    redis_survey_free(survey);
    return NULL;
}

/* ---- sentinel ---- */

/* Lists the masters that a sentinel monitors: "one, two". */
static void name_masters(struct redis_sync_connection *connection, char *out, size_t out_bytes)
{
    redisReply *reply = REDIS_SYNC_ASK(connection, "SENTINEL", "MASTERS");
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
    if (reply && redis_master_endpoint_read(reply, out))
        return 0;
    if (reply && reply->type == REDIS_REPLY_NIL) {
        name_masters(connection, known, sizeof known);
        return REDIS_REPORT(connection->report, -EINVAL,
                            "sentinel at '%s' has no master '%s', it has: %s", connection->place,
                            master, known);
    }
    if (redis_sync_connection_is_error(reply, "ERR unknown command"))
        return REDIS_REPORT(
            connection->report, -EINVAL,
            "'%s' is not a sentinel, give the sentinels' port (26379) or write redis://",
            connection->place);
    return redis_sync_connection_refused(connection, reply, "ask for its master");
}

static int ask_sentinel(const struct redis_url *url, const struct redis_endpoint *sentinel,
                        struct redis_endpoint *out, const struct redis_report *report)
{
    struct redis_sync_connection connection;
    int result = redis_sync_connection_open(&connection, sentinel, &url->tls, url->sentinel_user,
                                            url->sentinel_password, report);
    if (result == 0) {
        redisReply *reply =
            REDIS_SYNC_ASK(&connection, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", url->master);
        result = read_sentinel(&connection, url->master, reply, out);
        freeReplyObject(reply);
    }
    redis_sync_connection_close(&connection);
    return result;
}

/* Asks the sentinels in turn until one returns the master; if all fail, the error is that of the
 * last one. */
static int find_by_sentinel(const struct redis_url *url, struct redis_survey *survey,
                            const struct redis_report *report)
{
    int result = -EINVAL;
    for (uint32_t i = 0; i < url->host_count; i++) {
        result = ask_sentinel(url, &url->hosts[i], &survey->masters[0], report);
        if (result == 0)
            break;
    }
    survey->count = result == 0;
    return result;
}

/* ---- cluster ---- */

static uint16_t number_of(struct redis_survey *survey, const struct redis_endpoint *endpoint)
{
    for (uint32_t i = 0; i < survey->count; i++)
        if (survey->masters[i].port == endpoint->port &&
            strcmp(survey->masters[i].host, endpoint->host) == 0)
            return (uint16_t)i;
    survey->masters[survey->count] = *endpoint;
    return (uint16_t)survey->count++;
}

static int take_masters(const struct redis_sync_connection *connection, const struct redis_map *map,
                        struct redis_survey *survey)
{
    survey->count = 0;
    for (uint16_t slot = 0; slot < REDIS_SLOTS; slot++) {
        const struct redis_endpoint *endpoint = redis_map_find(map, slot);
        if (!endpoint)
            return REDIS_REPORT(
                connection->report, -EHOSTUNREACH,
                "no node serves slot %d of the cluster at '%s', see 'redis-cli --cluster check %s'",
                slot, connection->place, connection->place);
        survey->of_slot[slot] = number_of(survey, endpoint);
    }
    return 0;
}

static int read_slots(struct redis_sync_connection *connection, const redisReply *reply,
                      struct redis_survey *survey, const struct redis_endpoint *asked)
{
    if (redis_sync_connection_is_error(reply, "ERR This instance has cluster support disabled"))
        return REDIS_REPORT(connection->report, -EINVAL,
                            "redis at '%s' is not a cluster, write redis:// for a single server",
                            connection->place);
    if (!reply || reply->type != REDIS_REPLY_ARRAY)
        return redis_sync_connection_refused(connection, reply, "show its slots");
    struct redis_map *map = calloc(1, sizeof *map);
    int result = -ENOMEM;
    if (!map)
        return REDIS_REPORT(connection->report, result, "out of memory");
    if (reply->elements && !redis_map_read(map, reply, asked))
        result = REDIS_REPORT(connection->report, -EINVAL,
                              "cannot read the cluster's slots at '%s'", connection->place);
    else
        result = take_masters(connection, map, survey);
    redis_map_fini(map);
    free(map);
    return result;
}

static int ask_node(const struct redis_url *url, const struct redis_endpoint *node,
                    struct redis_survey *survey, const struct redis_report *report)
{
    struct redis_sync_connection connection;
    int result =
        redis_sync_connection_open(&connection, node, &url->tls, url->user, url->password, report);
    if (result == 0) {
        redisReply *reply = REDIS_SYNC_ASK(&connection, "CLUSTER", "SLOTS");
        result = read_slots(&connection, reply, survey, node);
        freeReplyObject(reply);
    }
    redis_sync_connection_close(&connection);
    return result;
}

static int find_by_cluster(const struct redis_url *url, struct redis_survey *survey,
                           const struct redis_report *report)
{
    int result = -EINVAL;
    if (url->db)
        return REDIS_REPORT(report, -EINVAL,
                            "a cluster has only database 0, leave '%u' out of the URL",
                            (unsigned)url->db);
    for (uint32_t i = 0; i < url->host_count; i++) {
        result = ask_node(url, &url->hosts[i], survey, report);
        if (result != -EHOSTUNREACH)
            break;
    }
    return result;
}

/* ---- all kinds ---- */

int redis_survey_find(const struct redis_url *url, struct redis_survey **out,
                      const struct redis_report *report)
{
    struct redis_survey *survey = survey_new();
    int result = 0;
    if (!survey)
        return REDIS_REPORT(report, -ENOMEM, "out of memory");
    if (url->kind == REDIS_SENTINEL) {
        result = find_by_sentinel(url, survey, report);
    } else if (url->kind == REDIS_CLUSTER) {
        result = find_by_cluster(url, survey, report);
    } else {
        survey->masters[0] = url->hosts[0];
        survey->count = 1;
    }
    if (result == 0)
        *out = survey;
    else
        redis_survey_free(survey);
    return result;
}
