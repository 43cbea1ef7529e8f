/* One command, one answer: connections to the masters, made when first wanted, made again when they
 * end; errors that pass are waited out. */
#include "base/clock.h"
#include "redis/answer.h"
#include "redis/fsck_private.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_US = 10 * 1000 * 1000, PAUSE_MS = 100, PINGS = 3 };

struct fsck_master {
    struct redis_sync_connection connection;
    int64_t round_trip_us;
    char run[FSCK_RUN_BYTES];
};

/* What became of one attempt, beside 0 and errors for good. */
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

/* Once something was reached, what fails may be a failover. */
static int may_pass(const struct fsck *fsck, int result)
{
    return result == -EHOSTUNREACH && fsck->was_reached ? ASK_TOPOLOGY : result;
}

int fsck_survey(struct fsck *fsck)
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

/* Empty where it does not tell. */
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
                                            fsck->url.user, fsck->url.password, &fsck->error);
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

/* A replica that is asked by its own address stays one. */
static bool is_for_good(const struct fsck *fsck, const redisReply *reply)
{
    return fsck->url.kind == REDIS_SINGLE && redis_sync_connection_is_error(reply, "READONLY");
}

/* Reported in any case: nobody knows yet whether it will pass. */
static int judge(struct fsck *fsck, const struct redis_sync_connection *connection,
                 const redisReply *reply)
{
    int result = redis_sync_connection_refused(connection, reply, "have the queue checked");
    if (strstr(reply->str, "WRONGTYPE"))
        return -EBADMSG;
    if (is_for_good(fsck, reply))
        return result;
    switch (redis_error_judge(reply->str)) {
    case REDIS_VERDICT_AGAIN:
        return HERE_AGAIN;
    case REDIS_VERDICT_MOVED:
    case REDIS_VERDICT_ELSEWHERE:
        return result == -EACCES ? result : ASK_TOPOLOGY;
    case REDIS_VERDICT_GREET:
    case REDIS_VERDICT_GONE:
    case REDIS_VERDICT_CLOCK:
        return -ENOEXEC;
    case REDIS_VERDICT_NO_SPACE:
    case REDIS_VERDICT_REFUSED:
        break;
    }
    return result;
}

static int attempt(struct fsck *fsck, uint32_t number, const struct slice *words, size_t count,
                   redisReply **out)
{
    const char *argv[FSCK_WORDS_MAX];
    size_t lengths[FSCK_WORDS_MAX];
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
    *out = redisCommandArgv(connection->context, (int)count, argv, lengths);
    fsck->took_us = clock_boot_us() - began_us - master->round_trip_us;
    if (!*out)
        return REDIS_REPORT(&fsck->error, ASK_TOPOLOGY, "the connection to redis at '%s' broke, %s",
                            connection->place,
                            errno == EAGAIN ? "it does not answer" : connection->context->errstr);
    if ((*out)->type != REDIS_REPLY_ERROR) {
        strcpy(fsck->run, master->run);
        return 0;
    }
    result = judge(fsck, connection, *out);
    freeReplyObject(*out);
    return result;
}

/* After an attempt that failed: waits, and gives 0 for another one. */
static int wait_out(struct fsck *fsck, int result, int64_t *until_us)
{
    int64_t now_us = clock_boot_us();
    if (result != HERE_AGAIN && result != ASK_TOPOLOGY)
        return result;
    if (!*until_us)
        *until_us = now_us + PATIENCE_US;
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
        int result = may_pass(fsck, fsck_survey(fsck));
        if (result == 0)
            result = attempt(fsck, fsck->survey->of_slot[slot], words, count, out);
        if (result == 0)
            return 0;
        if ((result = wait_out(fsck, result, &until_us)) != 0)
            return result;
    }
}

bool fsck_is_master(const struct fsck *fsck, uint32_t number, const struct redis_endpoint *endpoint)
{
    return fsck->survey && number < fsck->survey->count &&
           fsck->survey->masters[number].port == endpoint->port &&
           strcmp(fsck->survey->masters[number].host, endpoint->host) == 0;
}

int fsck_ask_master(struct fsck *fsck, uint32_t master, const struct slice *words, size_t count,
                    redisReply **out)
{
    const struct redis_endpoint endpoint = fsck->survey->masters[master];
    int64_t until_us = 0;
    for (;;) {
        int result = may_pass(fsck, fsck_survey(fsck));
        if (result == 0 && !fsck_is_master(fsck, master, &endpoint))
            return -ESTALE;
        if (result == 0)
            result = attempt(fsck, master, words, count, out);
        if (result == 0)
            return 0;
        if ((result = wait_out(fsck, result, &until_us)) != 0)
            return result;
    }
}
