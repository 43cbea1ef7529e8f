/* The queries of a check to Redis: one command at a time, on connections to the masters that are
 * opened when first needed and reopened when they end. Temporary errors are waited out. It runs the
 * steps of each part of a shard's check, and passes the names of all keys to the shards in such
 * steps. */
#include "redis/answer.h"
#include "redis/fsck_run.h"
#include "redis/id.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- one command, one reply ---- */

enum { TIMEOUT_US = 10 * 1000 * 1000, PAUSE_MS = 100, PINGS = 3 };

struct fsck_master {
    struct redis_sync_connection connection;
    int64_t round_trip_us;
    char run[FSCK_RUN_BYTES];
};

/* Results of one attempt, in addition to 0 and permanent errors. */
enum { HERE_AGAIN = -EAGAIN, ASK_TOPOLOGY = -ESTALE };

void fsck_close(struct fsck *fsck)
{
    for (uint32_t i = 0; fsck->masters && i < fsck->survey->count; i++)
        redis_sync_connection_close(&fsck->masters[i].connection);
    free(fsck->masters);
    redis_survey_free(fsck->survey);
    fsck->masters = NULL;
    fsck->survey = NULL;
}

/* Returns the result to act on: once a master was reached, an unreachable one may be a failover. */
static int may_pass(const struct fsck *fsck, int result)
{
    return result == -EHOSTUNREACH && fsck->was_reached ? ASK_TOPOLOGY : result;
}

/* Makes the survey if it does not exist. */
static int survey_make(struct fsck *fsck)
{
    if (fsck->survey)
        return 0;
    int result = redis_survey_find(&fsck->url, &fsck->survey, &fsck->error);
    if (result != 0)
        return result;
    fsck->masters = calloc(fsck->survey->count, sizeof *fsck->masters);
    if (fsck->masters)
        return 0;
    fsck_close(fsck);
    return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
}

static int measure_round_trip(struct fsck_master *master)
{
    int result = 0;
    master->round_trip_us = INT64_MAX;
    for (int i = 0; result == 0 && i < PINGS; i++) {
        int64_t began_us = clock_boot_us();
        redisReply *reply = REDIS_SYNC_ASK(&master->connection, "PING");
        int64_t took_us = clock_boot_us() - began_us;
        if (!reply || reply->type == REDIS_REPLY_ERROR)
            result = redis_sync_connection_refused(&master->connection, reply, "answer a PING");
        if (took_us < master->round_trip_us)
            master->round_trip_us = took_us;
        freeReplyObject(reply);
    }
    return result;
}

/* Reads the run id; empty if the server does not report it. */
static void read_run(struct fsck_master *master)
{
    static const char field[] = "\nrun_id:";
    redisReply *reply = REDIS_SYNC_ASK(&master->connection, "INFO", "server");
    const char *at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, field) : NULL;
    master->run[0] = 0;
    if (at) {
        at += sizeof field - 1;
        snprintf(master->run, sizeof master->run, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
    freeReplyObject(reply);
}

static int connect_master(struct fsck *fsck, uint32_t number)
{
    struct fsck_master *master = &fsck->masters[number];
    if (master->connection.context)
        return 0;
    int result = redis_sync_connection_open(&master->connection, &fsck->survey->masters[number],
                                            &fsck->url.tls, fsck->url.user, fsck->url.password,
                                            &fsck->error);
    if (result == 0)
        result = redis_sync_connection_select(&master->connection, fsck->url.db);
    if (result == 0)
        result = measure_round_trip(master);
    if (result == 0)
        read_run(master);
    if (result != 0)
        redis_sync_connection_close(&master->connection);
    else
        fsck->was_reached = true;
    return result;
}

/* Returns whether the error is permanent: a replica addressed directly stays a replica. */
static bool is_for_good(const struct fsck *fsck, const redisReply *reply)
{
    return fsck->url.kind == REDIS_SINGLE && redis_sync_connection_is_error(reply, "READONLY");
}

/* Classifies an error. Reports it in any case, because it may turn out to be permanent. */
static int evaluate_error(struct fsck *fsck, const struct redis_sync_connection *connection,
                          const redisReply *reply)
{
    int result = redis_sync_connection_refused(connection, reply, "have the queue checked");
    if (strstr(reply->str, "WRONGTYPE"))
        return -EBADMSG;
    if (is_for_good(fsck, reply) || redis_sync_connection_is_error(reply, "OLDER "))
        return result;
    switch (redis_error_classify(reply->str)) {
    case REDIS_DECISION_AGAIN:
        return HERE_AGAIN;
    case REDIS_DECISION_MOVED:
    case REDIS_DECISION_ELSEWHERE:
        return result == -EACCES ? result : ASK_TOPOLOGY;
    case REDIS_DECISION_GREET:
    case REDIS_DECISION_GONE:
    case REDIS_DECISION_CLOCK:
        return -ENOEXEC;
    case REDIS_DECISION_NO_SPACE:
    case REDIS_DECISION_REFUSED:
        break;
    }
    return result;
}

static int ask_once(struct fsck *fsck, uint32_t number, const struct slice *words, size_t count,
                    redisReply **out)
{
    const char *argv[FSCK_WORDS_MAX];
    size_t lengths[FSCK_WORDS_MAX];
    char why[REDIS_SYNC_WHY_BYTES];
    const struct fsck_master *master = &fsck->masters[number];
    const struct redis_sync_connection *connection = &master->connection;
    int result = connect_master(fsck, number);
    if (result != 0)
        return may_pass(fsck, result);
    for (size_t i = 0; i < count; i++) {
        argv[i] = words[i].len ? words[i].at : "";
        lengths[i] = words[i].len;
    }
    int64_t began_us = clock_boot_us();
    *out = redis_sync_connection_try(connection, (int)count, argv, lengths, why);
    fsck->took_us = clock_boot_us() - began_us - master->round_trip_us;
    if (!*out)
        return REDIS_REPORT(&fsck->error, ASK_TOPOLOGY, "the connection to redis at '%s' broke, %s",
                            connection->place, why);
    if ((*out)->type != REDIS_REPLY_ERROR) {
        strcpy(fsck->run, master->run);
        return 0;
    }
    result = evaluate_error(fsck, connection, *out);
    freeReplyObject(*out);
    return result;
}

/* Waits after a failed attempt. Returns 0 for another attempt. */
static int wait_out(struct fsck *fsck, int result, int64_t *until_us)
{
    int64_t now_us = clock_boot_us();
    if (result != HERE_AGAIN && result != ASK_TOPOLOGY)
        return result;
    if (!*until_us)
        *until_us = now_us + TIMEOUT_US;
    if (now_us > *until_us)
        return -EHOSTUNREACH;
    if (result == ASK_TOPOLOGY)
        fsck_close(fsck);
    poll(NULL, 0, PAUSE_MS);
    return 0;
}

int fsck_ask(struct fsck *fsck, uint16_t slot, const struct slice *words, size_t count,
             redisReply **out)
{
    int64_t until_us = 0;
    for (;;) {
        int result = may_pass(fsck, survey_make(fsck));
        if (result == 0)
            result = ask_once(fsck, fsck->survey->of_slot[slot], words, count, out);
        if (result == 0)
            return 0;
        if ((result = wait_out(fsck, result, &until_us)) != 0)
            return result;
    }
}

static bool is_still_master(const struct fsck *fsck, uint32_t number,
                            const struct redis_endpoint *endpoint)
{
    return fsck->survey && number < fsck->survey->count &&
           fsck->survey->masters[number].port == endpoint->port &&
           strcmp(fsck->survey->masters[number].host, endpoint->host) == 0;
}

/* Does the same for a master by its index in the survey. Returns -ESTALE if the masters have
 * changed. */
static int ask_master(struct fsck *fsck, uint32_t master, const struct slice *words, size_t count,
                      redisReply **out)
{
    const struct redis_endpoint endpoint = fsck->survey->masters[master];
    int64_t until_us = 0;
    for (;;) {
        int result = may_pass(fsck, survey_make(fsck));
        if (result == 0 && !is_still_master(fsck, master, &endpoint))
            return -ESTALE;
        if (result == 0)
            result = ask_once(fsck, master, words, count, out);
        if (result == 0)
            return 0;
        if ((result = wait_out(fsck, result, &until_us)) != 0)
            return result;
    }
}

/* ---- the steps of a part of a shard's check ---- */

enum {
    MOST_FIRST = 20, /* entries; bodies may be read with them */
    MOST_MIN = 5,
    MOST_MAX = 1000,
    LONG_US = 4000, /* steps that take longer are made smaller */
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

static int step_load(struct stepping *stepping)
{
    const struct slice words[] = {slice_of("SCRIPT"), slice_of("LOAD"),
                                  redis_script(stepping->script)->text};
    redisReply *reply;
    int result = fsck_ask(stepping->fsck, stepping->slot, words, 3, &reply);
    if (result == 0)
        freeReplyObject(reply);
    return result;
}

static int step_ask(struct stepping *stepping, redisReply **out)
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
    for (int i = 0; result == -ENOEXEC && i < LOADS_MAX; i++) { /* a new master lacks the script */
        result = step_load(stepping);
        if (result == 0)
            result = fsck_ask(stepping->fsck, stepping->slot, words, count, out);
    }
    return result;
}

/* Adapts the step size to a few milliseconds of Redis' time, and pauses as long after each step. */
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

static void step_finding(struct stepping *stepping, const redisReply *reply, size_t at)
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

static int step_read(struct stepping *stepping, const redisReply *reply, int64_t took_us)
{
    struct fsck *fsck = stepping->fsck;
    struct redis_head head;
    if (!redis_head_read(reply, &head) || !is_answer(reply, &head))
        return REDIS_REPORT(&fsck->error, -EINVAL, "the answer to a check of '%s' cannot be read",
                            stepping->report->tag);
    uint32_t looked = read_u32(head.rest.at), bytes = read_u32(head.rest.at + 4);
    uint32_t names = read_u32(head.rest.at + 8);
    for (size_t i = 0; i < names; i++)
        if (!fsck_names_put(&fsck->topics[stepping->shard], text_of(reply, 2 + i)))
            return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
    for (size_t at = 2 + names; at < reply->elements; at += FINDING_WORDS)
        step_finding(stepping, reply, at);
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

static int step_once(struct stepping *stepping)
{
    const struct redis_fsck_options *options = stepping->fsck->options;
    redisReply *reply;
    int result = step_ask(stepping, &reply);
    if (result != 0)
        return result;
    int64_t took_us = stepping->fsck->took_us;
    result = step_read(stepping, reply, took_us > 0 ? took_us : 0);
    freeReplyObject(reply);
    if (options->progress)
        options->progress(options->ctx, stepping->fsck->jobs, stepping->fsck->jobs_total);
    return result;
}

/* Records that a part cannot be checked. The walk over the keys has reported the key. */
static void step_give_up(struct stepping *stepping)
{
    char what[80];
    snprintf(what, sizeof what, "'%s' cannot be checked: a key is of another type", stepping->part);
    fsck_found(stepping->fsck, (int32_t)stepping->shard, REDIS_FSCK_MANUAL, stepping->topic,
               slice_of(""), slice_of(what), slice_of("rename or delete that key"));
}

/* Runs all steps. A cursor is invalid in another process, which stores its entries in a different
 * order. */
static int all_steps(struct stepping *stepping)
{
    struct fsck *fsck = stepping->fsck;
    const uint64_t jobs = stepping->report->jobs, jobs_of_all = fsck->jobs;
    char run[FSCK_RUN_BYTES] = "";
    bool is_another;
    do {
        int result = step_once(stepping);
        if (result != 0)
            return result;
        is_another = *run && strcmp(run, fsck->run) != 0;
        strcpy(run, is_another ? "" : fsck->run);
        if (is_another) { /* start again */
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
    step_give_up(&stepping);
    return 0;
}

/* ---- the names of all keys ----
 *
 * Each name is passed to its shard, which determines what it should be. This finds leaves without
 * an index entry, topics that no server reads, and keys of other programs. */

enum { SCANS_MAX = 5, PAGE = 500, CURSOR_BYTES = 24 };

struct key_batch {
    struct slice names[FSCK_MORE_MAX]; /* after the tag and the colon; point into the page */
    size_t count;
};

/* Returns the shard whose tag begins the key; if no shard matches, the number of shards. */
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

/* Returns whether a closed shard leaves this key, so that late servers learn where its jobs
 * went. */
static bool is_of_closed(const struct fsck *fsck, struct slice rest)
{
    static const char *const left[] = {":core",   ":name",  ":servers",
                                       ":moving", ":aware", ":listened"};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        if (slice_is(rest, left[i]))
            return fsck->generation > 0;
    return fsck->generation > 0 && rest.len > 8 && memcmp(rest.at, ":ticket:", 8) == 0;
}

/* Reports the key's tag, once. */
static void find_stray(struct fsck *fsck, struct slice key)
{
    const char *close = memchr(key.at, '}', key.len);
    size_t len = close ? (size_t)(close - key.at) + 1 : 0;
    char tag[REDIS_TAG_BYTES], what[REDIS_TAG_BYTES + 96];
    if (!len || len >= sizeof tag || fsck->stray_count == FSCK_STRAYS_MAX ||
        is_of_closed(fsck, slice_make(key.at + len, key.len - len)))
        return;
    snprintf(tag, sizeof tag, "%.*s", (int)len, key.at);
    for (uint32_t i = 0; i < fsck->stray_count; i++)
        if (strcmp(fsck->strays[i], tag) == 0)
            return;
    strcpy(fsck->strays[fsck->stray_count++], tag);
    snprintf(what, sizeof what, "keys begin with '%s', which does not belong to the %u shards", tag,
             (unsigned)fsck->report->shards);
    fsck_found(fsck, -1, REDIS_FSCK_MANUAL, slice_of(""), slice_of(""), slice_of(what),
               slice_of("servers ignore them: examine them, and rename or delete them"));
}

static int key_batch_flush(struct fsck *fsck, uint32_t shard, struct key_batch *batch)
{
    if (!batch->count)
        return 0;
    int result =
        fsck_part(fsck, shard, REDIS_CHECK, "keys", slice_of(""), batch->names, batch->count);
    batch->count = 0;
    return result;
}

static int take_page(struct fsck *fsck, const redisReply *page, struct key_batch *batches)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < page->elements; i++) {
        struct slice key = slice_make(page->element[i]->str, page->element[i]->len), rest;
        uint32_t shard = shard_of(fsck, key, &rest);
        if (shard == fsck->report->shards) {
            find_stray(fsck, key);
            continue;
        }
        struct key_batch *batch = &batches[shard];
        batch->names[batch->count++] = rest;
        fsck->report->shard[shard].keys++;
        if (batch->count == FSCK_MORE_MAX)
            result = key_batch_flush(fsck, shard, batch);
    }
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++)
        result = key_batch_flush(fsck, i, &batches[i]);
    return result;
}

static bool is_page(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_STRING && reply->element[0]->len < CURSOR_BYTES &&
           reply->element[1]->type == REDIS_REPLY_ARRAY;
}

/* Requests a page. `run`: the process that returned the previous pages; a cursor is invalid in
 * another process. */
static int ask_page(struct fsck *fsck, uint32_t master, const char *cursor,
                    char run[FSCK_RUN_BYTES], redisReply **out)
{
    char pattern[REDIS_PREFIX_BYTES + 8], page[16];
    snprintf(pattern, sizeof pattern, "{%s:*", fsck->url.prefix);
    snprintf(page, sizeof page, "%d", PAGE);
    const struct slice words[] = {slice_of("SCAN"),  slice_of(cursor),  slice_of("MATCH"),
                                  slice_of(pattern), slice_of("COUNT"), slice_of(page)};
    int result = ask_master(fsck, master, words, 6, out);
    if (result != 0)
        return result;
    bool is_another = *run && strcmp(run, fsck->run) != 0;
    strcpy(run, fsck->run);
    if (!is_another && is_page(*out))
        return 0;
    freeReplyObject(*out);
    return is_another ? -ESTALE
                      : REDIS_REPORT(&fsck->error, -EINVAL, "the answer to a SCAN cannot be read");
}

static int scan_master(struct fsck *fsck, uint32_t master, struct key_batch *batches)
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
        if (!is_still_master(fsck, master, &endpoint))
            return -ESTALE;
    } while (strcmp(cursor, "0") != 0);
    return 0;
}

static int scan_all(struct fsck *fsck, struct key_batch *batches)
{
    int result = survey_make(fsck);
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
    struct key_batch *batches = calloc(REDIS_SHARDS_MAX, sizeof *batches);
    int result = -ESTALE;
    if (!batches)
        return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
    for (int i = 0; result == -ESTALE && i < SCANS_MAX; i++) {
        result = scan_all(fsck, batches);
        if (result == -EHOSTUNREACH && fsck->was_reached)
            result = -ESTALE; /* only the survey failed: retry */
    }
    free(batches);
    return result == -ESTALE ? -EHOSTUNREACH : result;
}
