/*
 * How many shards there are: what "{prefix}:shards" says, and what the cores say. A shard's name
 * depends on the number, so a core that says N where the layout of N has one is a witness for N.
 */
#include "redis/fsck_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_BYTES = REDIS_TAG_BYTES + 16 };

static int ask_text(struct fsck *fsck, const char *key, const char *field, redisReply **out)
{
    const struct slice words[] = {slice_of(field ? "HGET" : "GET"), slice_of(key),
                                  slice_of(field ? field : "")};
    return fsck_ask(fsck, redis_slot_of(words[1]), words, field ? 3 : 2, out);
}

/* What the key holds; 0 where there is none or it is no number of shards (then *is_there). */
static int ask_number(struct fsck *fsck, const char *key, const char *field, uint32_t *number,
                      bool *is_there)
{
    redisReply *reply;
    int result = ask_text(fsck, key, field, &reply);
    if (result != 0)
        return result;
    *is_there = reply->type == REDIS_REPLY_STRING;
    char *end = NULL;
    unsigned long found = *is_there ? strtoul(reply->str, &end, 10) : 0;
    *number = end && !*end && found <= REDIS_SHARDS_MAX ? (uint32_t)found : 0;
    freeReplyObject(reply);
    return 0;
}

/* Whether a core of the layout of `shards` says so. */
static int ask_witness(struct fsck *fsck, uint32_t shard, uint32_t shards, uint32_t *witnesses)
{
    char tag[REDIS_TAG_BYTES], core[KEY_BYTES];
    uint32_t says = 0;
    bool is_there;
    redis_slot_tag(fsck->url.prefix, shard, shards, tag);
    snprintf(core, sizeof core, "%s:core", tag);
    int result = ask_number(fsck, core, "shards", &says, &is_there);
    *witnesses += result == 0 && says == shards;
    return result;
}

static int count_witnesses(struct fsck *fsck, uint32_t shards, uint32_t *out)
{
    int result = 0;
    *out = 0;
    for (uint32_t i = 0; result == 0 && i < shards; i++)
        result = ask_witness(fsck, i, shards, out);
    return result;
}

/* Of the first, middle and last shard: they are on three masters, where there are three. */
static int count_some(struct fsck *fsck, uint32_t shards, uint32_t *out)
{
    const uint32_t some[] = {0, shards / 2, shards - 1};
    int result = 0;
    *out = 0;
    for (int i = 0; result == 0 && i < 3; i++)
        result = ask_witness(fsck, some[i], shards, out);
    return result;
}

/* The number most cores stand for; 0: not one was found. */
static int ask_cores(struct fsck *fsck, uint32_t *out,
                     int (*count)(struct fsck *fsck, uint32_t shards, uint32_t *witnesses))
{
    uint32_t most = 0;
    int result = 0;
    *out = 0;
    for (uint32_t shards = 1; result == 0 && shards <= REDIS_SHARDS_MAX; shards++) {
        uint32_t witnesses;
        result = count(fsck, shards, &witnesses);
        if (result == 0 && witnesses > most) {
            most = witnesses;
            *out = shards;
        }
    }
    return result;
}

static int write_number(struct fsck *fsck, const char *key, const char *number, bool is_there)
{
    const struct slice words[] = {slice_of("SET"), slice_of(key), slice_of(number),
                                  slice_of(is_there ? "XX" : "NX")};
    redisReply *reply;
    int result = fsck_ask(fsck, redis_slot_of(words[1]), words, 4, &reply);
    if (result == 0)
        freeReplyObject(reply);
    return result;
}

/* The key is missing or wrong, and the cores say how many there are. */
static int put_right(struct fsck *fsck, const char *key, bool is_there, uint32_t said,
                     uint32_t shards)
{
    const bool repairs = fsck->options->repair;
    char what[KEY_BYTES + 80], repair[32], number[16];
    snprintf(number, sizeof number, "%u", (unsigned)shards);
    if (!is_there)
        snprintf(what, sizeof what, "'%s' is missing, and the cores say %s", key, number);
    else if (!said)
        snprintf(what, sizeof what, "'%s' is no number of shards, and the cores say %s", key,
                 number);
    else
        snprintf(what, sizeof what, "'%s' says %u, and the cores say %s", key, (unsigned)said,
                 number);
    snprintf(repair, sizeof repair, "set to %s", number);
    int result = repairs ? write_number(fsck, key, number, is_there) : 0;
    if (result == 0)
        fsck_found(fsck, -1, repairs ? REDIS_FSCK_MENDED : REDIS_FSCK_TO_MEND, slice_of(""),
                   slice_of(""), slice_of(what), slice_of(repair));
    return result;
}

/* Whether there is the first core of any layout, which says nothing. */
static int find_mute_core(struct fsck *fsck, bool *is_there)
{
    int result = 0;
    *is_there = false;
    for (uint32_t shards = 1; result == 0 && !*is_there && shards <= REDIS_SHARDS_MAX; shards++) {
        char tag[REDIS_TAG_BYTES], core[KEY_BYTES];
        redisReply *reply;
        redis_slot_tag(fsck->url.prefix, 0, shards, tag);
        snprintf(core, sizeof core, "%s:core", tag);
        const struct slice words[] = {slice_of("EXISTS"), slice_of(core)};
        result = fsck_ask(fsck, redis_slot_of(words[1]), words, 2, &reply);
        if (result != 0)
            break;
        *is_there = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
        freeReplyObject(reply);
    }
    return result;
}

static int refuse(struct fsck *fsck, const char *key, bool is_there)
{
    bool has_core;
    int result = find_mute_core(fsck, &has_core);
    if (result != 0)
        return result;
    if (has_core)
        return REDIS_REPORT(&fsck->error, -ENOENT,
                            "nothing tells how many shards there are: '%s' and what the cores say "
                            "of it are lost, start a server with --shards as it was, and check "
                            "again",
                            key);
    return REDIS_REPORT(&fsck->error, -ENOENT,
                        is_there ? "'%s' is no number of shards and there is no core that says "
                                   "how many, another program may use these keys"
                                 : "no queue here: neither '%s' nor any shard's core is there, "
                                   "check the database and the prefix of the URL",
                        key);
}

static int decide(struct fsck *fsck, const char *key, uint32_t *shards)
{
    uint32_t said, witnesses = 0, others = 0;
    bool is_there;
    int result = ask_number(fsck, key, NULL, &said, &is_there);
    if (result == 0 && said)
        result = count_witnesses(fsck, said, &witnesses);
    if (result == 0 && !witnesses)
        result = ask_cores(fsck, &others, count_some);
    if (result == 0 && !said && !others)
        result = ask_cores(fsck, &others, count_witnesses);
    if (result != 0)
        return result;
    *shards = others ? others : said;
    if (*shards)
        return others ? put_right(fsck, key, is_there, said, others) : 0;
    return refuse(fsck, key, is_there);
}

int fsck_count_shards(struct fsck *fsck)
{
    struct redis_fsck_report *report = fsck->report;
    char key[KEY_BYTES];
    uint32_t shards = 0;
    snprintf(key, sizeof key, "{%s}:shards", fsck->url.prefix);
    int result = decide(fsck, key, &shards);
    if (result != 0)
        return result;
    report->shards = shards;
    for (uint32_t i = 0; i < shards; i++) {
        char tag[REDIS_TAG_BYTES];
        redis_slot_tag(fsck->url.prefix, i, shards, tag);
        snprintf(report->shard[i].tag, sizeof report->shard[i].tag, "%s", tag);
    }
    return 0;
}
