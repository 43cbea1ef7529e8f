/*
 * How many shards there are. One key outside all shards, "{prefix}:shards", is set once and
 * decides, so that two servers that start at the same time cannot disagree. Where it is missing
 * (lost with a Redis that kept nothing, while servers went on) the cores of the shards still tell.
 */
#include "redis/inspect_private.h"

#include "redis/name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = REDIS_TAG_BYTES + 16, REDIRECTS_MAX = 5, NUMBER_BYTES = 16 };

struct asking {
    const struct redis_url *url;
    const struct redis_survey *map;
    const struct redis_report *report;
    char place[REDIS_TALK_PLACE_BYTES]; /* who answered */
};

/* "MOVED 3999 127.0.0.1:6381" or "ASK …"; without a host: who said so. */
static bool read_redirect(const redisReply *reply, struct redis_endpoint *endpoint)
{
    if (!redis_sync_connection_is_error(reply, "MOVED ") &&
        !redis_sync_connection_is_error(reply, "ASK "))
        return false;
    const char *host = strrchr(reply->str, ' ') + 1, *colon = strrchr(host, ':');
    if (!colon || (size_t)(colon - host) >= sizeof(endpoint->host))
        return false;
    if (colon > host)
        snprintf(endpoint->host, sizeof(endpoint->host), "%.*s", (int)(colon - host), host);
    endpoint->port = (uint16_t)strtoul(colon + 1, NULL, 10);
    return endpoint->port != 0;
}

/* Asks one server; sends `ASKING` ahead where a slot is on its way there. */
static int ask_there(struct asking *asking, const struct redis_endpoint *endpoint, bool ask_first,
                     const char *const *words, redisReply **out)
{
    const struct redis_url *url = asking->url;
    struct redis_sync_connection connection;
    char db[NUMBER_BYTES];
    int result =
        redis_sync_connection_open(&connection, endpoint, url->user, url->password, asking->report);
    redis_sync_connection_place(endpoint, asking->place);
    if (result == 0 && url->db) {
        snprintf(db, sizeof(db), "%u", (unsigned)url->db);
        redisReply *reply = REDIS_TALK_ASK(&connection, "SELECT", db);
        if (!reply || reply->type == REDIS_REPLY_ERROR)
            result =
                redis_sync_connection_refused(&connection, reply, "select the database of the URL");
        freeReplyObject(reply);
    }
    if (result == 0 && ask_first)
        freeReplyObject(REDIS_TALK_ASK(&connection, "ASKING"));
    if (result == 0) {
        *out = redis_sync_connection_ask(&connection, words);
        if (!*out)
            result = -EHOSTUNREACH;
        else if ((*out)->type == REDIS_REPLY_ERROR && strncmp((*out)->str, "MOVED ", 6) != 0 &&
                 strncmp((*out)->str, "ASK ", 4) != 0) {
            result = redis_sync_connection_refused(&connection, *out, "read the number of shards");
            freeReplyObject(*out);
        }
    }
    redis_sync_connection_close(&connection);
    return result;
}

/* Asks whoever has the key; words[1] is the key. Redirects are followed: a cluster may be moving.
 */
static int ask(struct asking *asking, const char *const *words, redisReply **out)
{
    uint16_t slot = redis_slot_of(slice_of(words[1]));
    struct redis_endpoint endpoint = asking->map->masters[asking->map->of_slot[slot]];
    bool ask_first = false;
    for (int i = 0; i < REDIRECTS_MAX; i++) {
        int result = ask_there(asking, &endpoint, ask_first, words, out);
        if (result != 0 || (*out)->type != REDIS_REPLY_ERROR)
            return result;
        ask_first = redis_sync_connection_is_error(*out, "ASK ");
        bool goes_on = read_redirect(*out, &endpoint);
        freeReplyObject(*out);
        if (!goes_on)
            break;
    }
    return redis_report(asking->report, -EHOSTUNREACH,
                        "the cluster at '%s' sends round in circles, start again in a moment",
                        asking->place);
}

/* 0 in *number: there is none. */
static int ask_number(struct asking *asking, const char *const *words, uint32_t *number)
{
    redisReply *reply;
    int result = ask(asking, words, &reply);
    if (result != 0)
        return result;
    unsigned long found = reply->type == REDIS_REPLY_STRING ? strtoul(reply->str, NULL, 10) : 0;
    bool wrong = reply->type == REDIS_REPLY_STRING && (found < 1 || found > REDIS_SHARDS_MAX);
    freeReplyObject(reply);
    if (wrong)
        return redis_report(asking->report, -EINVAL,
                            "'%s' at '%s' is no number of shards, another program uses these keys, "
                            "give tarry a prefix of its own (?prefix=NAME)",
                            words[1], asking->place);
    *number = (uint32_t)found;
    return 0;
}

#define ASK_NUMBER(asking, number, ...)                                                            \
    ask_number((asking), (const char *const[]){__VA_ARGS__, NULL}, (number))

/* The name of shard 0 depends on how many there are; there are only a few such names. */
static int ask_cores(struct asking *asking, uint32_t *number)
{
    char tag[REDIS_TAG_BYTES], last[REDIS_TAG_BYTES] = "", core[KEY_BYTES];
    int result = 0;
    *number = 0;
    for (uint32_t shards = 1; result == 0 && !*number && shards <= REDIS_SHARDS_MAX; shards++) {
        redis_slot_tag(asking->url->prefix, 0, shards, tag);
        if (strcmp(tag, last) == 0)
            continue;
        strcpy(last, tag);
        snprintf(core, sizeof(core), "%s:core", tag);
        result = ASK_NUMBER(asking, number, "HGET", core, "shards");
    }
    return result;
}

/* Servers that went on after Redis had lost its data left cores that say nothing (those of before
 * this was noticed). To begin with another number beside them would make two queues of one. A core
 * that another server has made since we asked for the number under `key` has the number there. */
static int refuse_mute_cores(struct asking *asking, const char *key, uint32_t *number)
{
    char tag[REDIS_TAG_BYTES], last[REDIS_TAG_BYTES] = "", core[KEY_BYTES];
    for (uint32_t shards = 1; shards <= REDIS_SHARDS_MAX; shards++) {
        redisReply *reply;
        redis_slot_tag(asking->url->prefix, 0, shards, tag);
        if (strcmp(tag, last) == 0)
            continue;
        strcpy(last, tag);
        snprintf(core, sizeof(core), "%s:core", tag);
        int result = ask(asking, (const char *const[]){"EXISTS", core, NULL}, &reply);
        if (result != 0)
            return result;
        bool is_there = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
        freeReplyObject(reply);
        if (is_there)
            result = ASK_NUMBER(asking, number, "GET", key);
        if (is_there && (result != 0 || *number))
            return result;
        if (is_there)
            return redis_report(asking->report, -EINVAL,
                                "'%s' at '%s' does not tell how many shards there are, redis lost "
                                "its data while servers ran, give --shards as they have it",
                                core, asking->place);
    }
    return 0;
}

static int decide(struct asking *asking, const char *key, uint32_t wanted, uint32_t *number)
{
    char text[NUMBER_BYTES];
    redisReply *reply;
    uint32_t found = 0;
    int result = ask_cores(asking, &found);
    if (result == 0 && !found && !wanted)
        result = refuse_mute_cores(asking, key, number);
    if (result != 0 || *number)
        return result;
    snprintf(text, sizeof(text), "%u", (unsigned)(found ? found : wanted ? wanted : REDIS_SHARDS));
    result = ask(asking, (const char *const[]){"SET", key, text, "NX", NULL}, &reply);
    if (result != 0)
        return result;
    freeReplyObject(reply);
    return ASK_NUMBER(asking, number, "GET", key);
}

int redis_shards_fix(const struct redis_url *url, const struct redis_survey *map, uint32_t wanted,
                     uint32_t *out, const struct redis_report *report)
{
    struct asking asking = {.url = url, .map = map, .report = report};
    char key[KEY_BYTES];
    uint32_t number = 0;
    snprintf(key, sizeof(key), "{%s}:shards", url->prefix);
    int result = ASK_NUMBER(&asking, &number, "GET", key);
    if (result == 0 && !number)
        result = decide(&asking, key, wanted, &number);
    if (result != 0)
        return result;
    if (wanted && wanted != number)
        return redis_report(report, -EINVAL,
                            "'--shards' is %u, but what is kept under '%s' at '%s' has %u shard%s, "
                            "leave --shards out or give another ?prefix=",
                            (unsigned)wanted, url->prefix, asking.place, (unsigned)number,
                            number == 1 ? "" : "s");
    *out = number;
    return 0;
}

int redis_shards_name(const struct redis_url *url, const struct redis_survey *map, uint32_t shards,
                      char out[REDIS_NAME_BYTES], const struct redis_report *report)
{
    struct asking asking = {.url = url, .map = map, .report = report};
    char tag[REDIS_TAG_BYTES], core[KEY_BYTES], drawn[REDIS_NAME_BYTES];
    redisReply *reply = NULL;
    redis_slot_tag(url->prefix, 0, shards, tag);
    snprintf(core, sizeof(core), "%s:core", tag);
    redis_name_draw(drawn);
    /* Refused where Redis is full: then hello, which always may, makes it. */
    if (ask(&asking, (const char *const[]){"HSETNX", core, "name", drawn, NULL}, &reply) == 0)
        freeReplyObject(reply);
    int result = ask(&asking, (const char *const[]){"HGET", core, "name", NULL}, &reply);
    if (result != 0)
        return result;
    redis_name_read(reply->type == REDIS_REPLY_STRING ? slice_make(reply->str, reply->len)
                                                      : (struct slice){0},
                    out);
    freeReplyObject(reply);
    return 0;
}
