/* The steps of a part of a shard's check: as large as a few milliseconds of Redis' time allow, and
 * as long a rest after each. */
#include "redis/answer.h"
#include "redis/fsck_private.h"
#include "redis/id.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

enum {
    MOST_FIRST = 20, /* entries; bodies may come with them */
    MOST_MIN = 5,
    MOST_MAX = 1000,
    LONG_US = 4000, /* steps become smaller */
    SHORT_US = 2000,
    REST_MIN_US = 1000,
    REST_MAX_MS = 100,
    BYTES_MAX = 1 << 20, /* of bodies */
    LOADS_MAX = 5,
    HEAD_REST_BYTES = 12,
    FINDING_WORDS = 5
};

struct stepping {
    struct fsck *fsck;
    uint32_t shard;
    struct redis_fsck_shard *report;
    enum redis_script script;
    const char *part;
    struct slice topic;
    const struct slice *more;
    size_t more_count;
    struct buffer cursor;
    uint32_t most;
    uint16_t slot;
};

/* ---- asking ---- */

static int load(struct stepping *stepping)
{
    const struct slice words[] = {slice_of("SCRIPT"), slice_of("LOAD"),
                                  redis_script(stepping->script)->text};
    redisReply *reply;
    int result = fsck_ask(stepping->fsck, stepping->slot, words, 3, &reply);
    if (result == 0)
        freeReplyObject(reply);
    return result;
}

static int ask(struct stepping *stepping, redisReply **out)
{
    const bool repairs = stepping->fsck->options->repair;
    char core[sizeof stepping->report->tag + 8], most[16];
    struct slice words[FSCK_WORDS_MAX];
    size_t count = 0;
    snprintf(core, sizeof core, "%s:core", stepping->report->tag);
    snprintf(most, sizeof most, "%u", (unsigned)stepping->most);
    words[count++] = slice_of("EVALSHA");
    words[count++] = slice_make(redis_script(stepping->script)->sha, REDIS_SHA_BYTES);
    words[count++] = slice_of("1");
    words[count++] = slice_of(core);
    words[count++] = slice_of(repairs ? "repair" : "check");
    words[count++] = slice_of(stepping->part);
    words[count++] = stepping->topic;
    words[count++] = buffer_slice(&stepping->cursor);
    words[count++] = slice_of(most);
    for (size_t i = 0; i < stepping->more_count; i++)
        words[count++] = stepping->more[i];
    int result = fsck_ask(stepping->fsck, stepping->slot, words, count, out);
    for (int i = 0; result == -ENOEXEC && i < LOADS_MAX; i++) { /* another master has none */
        result = load(stepping);
        if (result == 0)
            result = fsck_ask(stepping->fsck, stepping->slot, words, count, out);
    }
    return result;
}

/* ---- the pace ---- */

static void set_pace(struct stepping *stepping, int64_t took_us, uint32_t looked, uint32_t bytes)
{
    uint32_t most = stepping->most;
    if (took_us > LONG_US)
        most /= 2;
    else if (took_us < SHORT_US)
        most *= 2;
    if (looked && bytes / looked && most > BYTES_MAX / (bytes / looked))
        most = BYTES_MAX / (bytes / looked);
    stepping->most = most < MOST_MIN ? MOST_MIN : most > MOST_MAX ? MOST_MAX : most;
    if (took_us > REST_MIN_US)
        poll(NULL, 0, took_us / 1000 < REST_MAX_MS ? (int)(took_us / 1000) : REST_MAX_MS);
}

/* ---- answers ---- */

static uint32_t read_u32(const char *at)
{
    const unsigned char *byte = (const void *)at;
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

static struct slice text_of(const redisReply *reply, size_t at)
{
    return slice_make(reply->element[at]->str, reply->element[at]->len);
}

static bool is_answer(const redisReply *reply, const struct redis_head *head)
{
    if (head->rest.len != HEAD_REST_BYTES || reply->elements < 2)
        return false;
    for (size_t i = 1; i < reply->elements; i++)
        if (reply->element[i]->type != REDIS_REPLY_STRING)
            return false;
    uint32_t names = read_u32(head->rest.at + 8);
    return names <= reply->elements - 2 && (reply->elements - 2 - names) % FINDING_WORDS == 0;
}

static void take_finding(struct stepping *stepping, const redisReply *reply, size_t at)
{
    char room[REDIS_ID_ROOM_BYTES];
    struct slice how = text_of(reply, at), stored = text_of(reply, at + 2), id = stored;
    enum redis_fsck_how kind = REDIS_FSCK_TO_MEND;
    if (how.len == 1 && (unsigned char)how.at[0] <= REDIS_FSCK_NOTE - REDIS_FSCK_TO_MEND)
        kind = REDIS_FSCK_TO_MEND + (unsigned char)how.at[0];
    if (!redis_id_show(stored, room, &id))
        id = stored;
    fsck_found(stepping->fsck, (int32_t)stepping->shard, kind, text_of(reply, at + 1), id,
               text_of(reply, at + 3), text_of(reply, at + 4));
}

static int read_answer(struct stepping *stepping, const redisReply *reply, int64_t took_us)
{
    struct fsck *fsck = stepping->fsck;
    struct redis_head head;
    if (!redis_head_read(reply, &head) || !is_answer(reply, &head))
        return REDIS_REPORT(&fsck->error, -EINVAL, "the answer to a check of '%s' makes no sense",
                            stepping->report->tag);
    uint32_t looked = read_u32(head.rest.at), bytes = read_u32(head.rest.at + 4);
    uint32_t names = read_u32(head.rest.at + 8);
    for (size_t i = 0; i < names; i++)
        if (!fsck_names_add(&fsck->topics[stepping->shard], text_of(reply, 2 + i)))
            return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
    for (size_t at = 2 + names; at < reply->elements; at += FINDING_WORDS)
        take_finding(stepping, reply, at);
    buffer_clear(&stepping->cursor);
    buffer_append_slice(&stepping->cursor, text_of(reply, 1));
    stepping->report->steps++;
    stepping->report->entries += looked;
    if (stepping->script == REDIS_CHECK_JOBS) {
        stepping->report->jobs += looked;
        fsck->jobs += looked;
    }
    if (took_us > stepping->report->slowest_us)
        stepping->report->slowest_us = took_us;
    set_pace(stepping, took_us, looked, bytes);
    return 0;
}

static int step(struct stepping *stepping)
{
    const struct redis_fsck_options *options = stepping->fsck->options;
    redisReply *reply;
    int result = ask(stepping, &reply);
    if (result != 0)
        return result;
    int64_t took_us = stepping->fsck->took_us;
    result = read_answer(stepping, reply, took_us > 0 ? took_us : 0);
    freeReplyObject(reply);
    if (options->progress)
        options->progress(options->ctx, stepping->fsck->jobs, stepping->fsck->jobs_total);
    return result;
}

/* Which key it is was told by the walk over the keys. */
static void give_up(struct stepping *stepping)
{
    char what[80];
    snprintf(what, sizeof what, "'%s' cannot be checked: a key is of another type", stepping->part);
    fsck_found(stepping->fsck, (int32_t)stepping->shard, REDIS_FSCK_BY_HAND, stepping->topic,
               slice_of(""), slice_of(what), slice_of("rename or delete that key"));
}

/* A cursor is worth nothing to another process: it has its entries in another order. */
static int all_steps(struct stepping *stepping)
{
    struct fsck *fsck = stepping->fsck;
    const uint64_t jobs = stepping->report->jobs, jobs_of_all = fsck->jobs;
    char run[FSCK_RUN_BYTES] = "";
    bool is_another;
    do {
        int result = step(stepping);
        if (result != 0)
            return result;
        is_another = *run && strcmp(run, fsck->run) != 0;
        strcpy(run, is_another ? "" : fsck->run);
        if (is_another) { /* from the beginning */
            stepping->report->jobs = jobs;
            fsck->jobs = jobs_of_all;
            buffer_clear(&stepping->cursor);
        }
    } while (is_another || stepping->cursor.len > 0);
    return 0;
}

int fsck_part(struct fsck *fsck, uint32_t shard, enum redis_script script, const char *part,
              struct slice topic, const struct slice *more, size_t more_count)
{
    struct stepping stepping = {.fsck = fsck,
                                .shard = shard,
                                .report = &fsck->report->shard[shard],
                                .script = script,
                                .part = part,
                                .topic = topic,
                                .more = more,
                                .more_count = more_count,
                                .most = MOST_FIRST,
                                .slot = redis_slot_of(slice_of(fsck->report->shard[shard].tag))};
    buffer_init(&stepping.cursor, 1 << 16);
    int result = all_steps(&stepping);
    buffer_fini(&stepping.cursor);
    if (result != -EBADMSG)
        return result;
    give_up(&stepping);
    return 0;
}
