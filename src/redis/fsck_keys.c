/* The names of all keys of the queue: each is shown to its shard, which knows what it should be.
 * So are found leaves that no index leads to, topics nobody looks at, keys of another program. */
#include "redis/fsck_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCANS_MAX = 5, PAGE = 500, CURSOR_BYTES = 24 };

struct batch {
    struct slice names[FSCK_MORE_MAX]; /* behind the tag and the colon; of the page */
    size_t count;
};

/* The shard whose tag the key begins with; shards: none. */
static uint32_t shard_of(const struct fsck *fsck, struct slice key, struct slice *rest)
{
    const struct redis_fsck_report *report = fsck->report;
    uint32_t i = 0;
    for (; i < report->shards; i++) {
        size_t len = strlen(report->shard[i].tag);
        if (key.len > len && memcmp(key.at, report->shard[i].tag, len) == 0 && key.at[len] == ':') {
            *rest = slice_make(key.at + len + 1, key.len - len - 1);
            break;
        }
    }
    return i;
}

/* Told of once for each tag. */
static void find_stray(struct fsck *fsck, struct slice key)
{
    const char *close = memchr(key.at, '}', key.len);
    size_t len = close ? (size_t)(close - key.at) + 1 : 0;
    char tag[REDIS_TAG_BYTES], what[REDIS_TAG_BYTES + 96];
    if (!len || len >= sizeof tag || fsck->stray_count == FSCK_STRAYS_MAX)
        return;
    snprintf(tag, sizeof tag, "%.*s", (int)len, key.at);
    for (uint32_t i = 0; i < fsck->stray_count; i++)
        if (strcmp(fsck->strays[i], tag) == 0)
            return;
    strcpy(fsck->strays[fsck->stray_count++], tag);
    snprintf(what, sizeof what, "keys begin with '%s', which is none of the %u shards", tag,
             (unsigned)fsck->report->shards);
    fsck_found(fsck, -1, REDIS_FSCK_BY_HAND, slice_of(""), slice_of(""), slice_of(what),
               slice_of("no server looks at them: look what they are, and rename or delete them"));
}

static int flush(struct fsck *fsck, uint32_t shard, struct batch *batch)
{
    if (!batch->count)
        return 0;
    int result =
        fsck_part(fsck, shard, REDIS_CHECK, "keys", slice_of(""), batch->names, batch->count);
    batch->count = 0;
    return result;
}

static int take_page(struct fsck *fsck, const redisReply *page, struct batch *batches)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < page->elements; i++) {
        struct slice key = slice_make(page->element[i]->str, page->element[i]->len), rest;
        uint32_t shard = shard_of(fsck, key, &rest);
        if (shard == fsck->report->shards) {
            find_stray(fsck, key);
            continue;
        }
        struct batch *batch = &batches[shard];
        batch->names[batch->count++] = rest;
        fsck->report->shard[shard].keys++;
        if (batch->count == FSCK_MORE_MAX)
            result = flush(fsck, shard, batch);
    }
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++)
        result = flush(fsck, i, &batches[i]);
    return result;
}

static bool is_page(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_STRING && reply->element[0]->len < CURSOR_BYTES &&
           reply->element[1]->type == REDIS_REPLY_ARRAY;
}

/* `run`: who gave the pages before; a cursor is worth nothing to another process. */
static int ask_page(struct fsck *fsck, uint32_t master, const char *cursor,
                    char run[FSCK_RUN_BYTES], redisReply **out)
{
    char pattern[REDIS_PREFIX_BYTES + 8], page[16];
    snprintf(pattern, sizeof pattern, "{%s:*", fsck->url.prefix);
    snprintf(page, sizeof page, "%d", PAGE);
    const struct slice words[] = {slice_of("SCAN"),  slice_of(cursor),  slice_of("MATCH"),
                                  slice_of(pattern), slice_of("COUNT"), slice_of(page)};
    int result = fsck_ask_master(fsck, master, words, 6, out);
    if (result != 0)
        return result;
    bool is_another = *run && strcmp(run, fsck->run) != 0;
    strcpy(run, fsck->run);
    if (!is_another && is_page(*out))
        return 0;
    freeReplyObject(*out);
    return is_another ? -ESTALE
                      : REDIS_REPORT(&fsck->error, -EINVAL, "the answer to a SCAN makes no sense");
}

static int scan_master(struct fsck *fsck, uint32_t master, struct batch *batches)
{
    const struct redis_endpoint endpoint = fsck->survey->masters[master];
    char cursor[CURSOR_BYTES] = "0", run[FSCK_RUN_BYTES] = "";
    do {
        redisReply *reply;
        int result = ask_page(fsck, master, cursor, run, &reply);
        if (result != 0)
            return result;
        strcpy(cursor, reply->element[0]->str);
        result = take_page(fsck, reply->element[1], batches);
        freeReplyObject(reply);
        if (result != 0)
            return result;
        if (!fsck_is_master(fsck, master, &endpoint))
            return -ESTALE;
    } while (strcmp(cursor, "0") != 0);
    return 0;
}

static int scan_all(struct fsck *fsck, struct batch *batches)
{
    int result = fsck_survey(fsck);
    for (uint32_t i = 0; i < fsck->report->shards; i++) {
        fsck->report->shard[i].keys = 0;
        batches[i].count = 0;
    }
    for (uint32_t i = 0; result == 0 && i < fsck->survey->count; i++)
        result = scan_master(fsck, i, batches);
    return result;
}

int fsck_walk_keys(struct fsck *fsck)
{
    struct batch *batches = calloc(REDIS_SHARDS_MAX, sizeof *batches);
    int result = -ESTALE;
    if (!batches)
        return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
    for (int i = 0; result == -ESTALE && i < SCANS_MAX; i++) {
        result = scan_all(fsck, batches);
        if (result == -EHOSTUNREACH && fsck->was_reached)
            result = -ESTALE; /* the survey alone failed: once more */
    }
    free(batches);
    return result == -ESTALE ? -EHOSTUNREACH : result;
}
