/* Waits for the end of a job with three servers on one real Redis: push on one, ack on another, wait on the third. */
#include "redis/redis.h"
#include "support/redis_server.h"

#include "base/clock.h"
#include "base/log.h"
#include "queue/copy.h"
#include "redis/waits.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Without messages, a server looks once in a second; a busy machine adds the time in which nothing runs. */
enum { SERVERS = 3, ROUNDS = 12, RESULT_MS_MAX = 3000, PATIENCE_US = 60 * 1000 * 1000 };

struct host {
    struct redis *redis;
    struct reactor *reactor;
    struct queue *queue;
    bool is_stopped;
};

static struct redis_server *store;
static struct host hosts[SERVERS];

static void host_start(struct host *host)
{
    char url[256], error[512];
    snprintf(url, sizeof url, "unix://%s", store->path);
    struct redis_options options = {.url = url,
                                    .shards = 2,
                                    .body_bytes_max = 1 << 20,
                                    .topics_max = 100,
                                    .timeout_ms = PATIENCE_US / 1000};
    *host = (struct host){.reactor = reactor_new(0)};
    assert_int_equal(redis_open(&options, &host->redis, error, sizeof error), 0);
    assert_int_equal(redis_attach(host->redis, host->reactor, &host->queue, error, sizeof error),
                     0);
}

static void pump(void)
{
    for (size_t i = 0; i < SERVERS; i++)
        uv_run(reactor_loop(hosts[i].reactor), UV_RUN_NOWAIT);
    (void)usleep(50);
}

static void on_stopped(void *ctx)
{
    ((struct host *)ctx)->is_stopped = true;
}

static int start(void **state)
{
    (void)state;
    log_open(NULL, LOG_ERROR, false);
    store = redis_server_new(NULL);
    for (size_t i = 0; i < SERVERS; i++)
        host_start(&hosts[i]);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVERS; i++) {
        redis_stop(hosts[i].redis, on_stopped, &hosts[i]);
        while (!hosts[i].is_stopped)
            pump();
    }
    for (size_t i = 0; i < SERVERS; i++) {
        redis_free(hosts[i].redis);
        reactor_free(hosts[i].reactor);
    }
    redis_server_free(store);
    return 0;
}

/* ---- calls ---- */

struct answer {
    struct queue_reply *reply; /* a copy */
};

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct answer *answer = owner;
    (void)tag;
    assert_null(answer->reply);
    answer->reply = copy_reply(reply);
    assert_non_null(answer->reply);
}

static struct queue_reply_to to(struct answer *answer)
{
    return (struct queue_reply_to){.done = on_reply, .owner = answer};
}

static const struct queue_reply *await(const struct answer *answer)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;
    while (!answer->reply && clock_boot_us() < until_us)
        pump();
    assert_non_null(answer->reply);
    return answer->reply;
}

/* Returns whether Redis has the note of a wait for this job of the topic 't', in either shard. */
static bool is_noted(const char *id)
{
    static const char *script = "for _, key in ipairs(redis.call('KEYS', '*:awaited')) do "
                                "if redis.call('ZSCORE', key, 't\\0' .. ARGV[1]) then return 1 end "
                                "end return 0";
    redisReply *reply = redis_server_ask(store, "EVAL %s 0 %s", script, id);
    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    bool noted = reply->integer == 1;
    freeReplyObject(reply);
    return noted;
}

/* A job that ends before Redis has noted the wait is not found. */
static void until_noted(const char *id)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;
    while (!is_noted(id) && clock_boot_us() < until_us)
        pump();
    assert_true(is_noted(id));
}

static struct queue_push a_push(const char *id)
{
    return (struct queue_push){.topic = slice_of("t"),
                               .id = slice_of(id),
                               .body = slice_of("body"),
                               .when.due = QUEUE_DUE_NOW,
                               .priority = QUEUE_PRIORITY_UNSET};
}

static void push_on(size_t host, struct queue_push push)
{
    struct answer answer = {0};
    queue_push(hosts[host].queue, &push, 1, to(&answer));
    assert_int_equal(await(&answer)->results[0].status, QUEUE_CREATED);
    free(answer.reply);
}

/* Takes the job and returns its lease in `room`. */
static struct slice take_on(size_t host, char room[QUEUE_LEASE_TEXT_BYTES_MAX])
{
    struct answer answer = {0};
    struct slice topic = slice_of("t");
    struct queue_take take = {.topics = &topic, .topic_count = 1, .max = 1, .lease_ms = 60000};
    queue_take(hosts[host].queue, &take, to(&answer));
    const struct queue_reply *reply = await(&answer);
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->job_count, 1);
    size_t bytes = reply->jobs[0].lease.len;
    memcpy(room, reply->jobs[0].lease.at, bytes);
    free(answer.reply);
    return slice_make(room, bytes);
}

static void ack_on(size_t host, struct slice lease, const char *result)
{
    struct answer answer = {0};
    struct queue_answer ack = {.verb = QUEUE_ACK, .lease = lease, .result = slice_of(result)};
    queue_answer(hosts[host].queue, &ack, 1, to(&answer));
    assert_int_equal(await(&answer)->results[0].status, QUEUE_OK);
    free(answer.reply);
}

static void keep_for(int64_t ms)
{
    struct answer answer = {0};
    struct queue_topic_call put = {
        .topic = slice_of("t"), .verb = QUEUE_TOPIC_PUT, .settings = {.keep_finished_ms = ms}};
    queue_topic(hosts[0].queue, &put, to(&answer));
    assert_true(await(&answer)->status <= QUEUE_CREATED);
    free(answer.reply);
}

/* ---- the claims ---- */

enum cut { CUT_NOTHING, CUT_MESSAGES, CUT_ALL };

static void cut(enum cut what)
{
    if (what == CUT_MESSAGES)
        redis_server_do(store, "CLIENT KILL TYPE pubsub SKIPME yes");
    if (what == CUT_ALL) {
        redis_server_do(store, "CLIENT KILL TYPE pubsub SKIPME yes");
        redis_server_do(store, "CLIENT KILL TYPE normal SKIPME yes");
    }
}

/* Pushes on the first server, takes and acks on the second, waits on the third. Returns how long after the ack the wait
 * returned. */
static int64_t round_ms(int number, enum cut what)
{
    char id[24], result[24], room[QUEUE_LEASE_TEXT_BYTES_MAX];
    struct answer wait = {0};
    snprintf(id, sizeof id, "job-%d", number);
    snprintf(result, sizeof result, "result %d", number);
    push_on(0, a_push(id));
    queue_await(hosts[2].queue, slice_of("t"), slice_of(id), NULL, to(&wait));
    until_noted(id);
    assert_null(wait.reply);
    struct slice lease = take_on(1, room);
    cut(what);
    ack_on(1, lease, result);
    int64_t acked_us = clock_boot_us();
    const struct queue_reply *reply = await(&wait);
    int64_t ms = (clock_boot_us() - acked_us) / 1000;
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->jobs[0].job.state, JOB_FINISHED);
    assert_true(slice_is(reply->jobs[0].job.id, id));
    assert_true(slice_is(reply->jobs[0].end->result, result));
    free(wait.reply);
    return ms;
}

static void rounds(enum cut what, int64_t ms_max)
{
    int64_t longest = 0;
    for (int number = 0; number < ROUNDS; number++) {
        int64_t ms = round_ms((int)what * ROUNDS + number, what);
        if (ms > longest)
            longest = ms;
    }
    printf("the longest wait after an ack: %lld ms\n", (long long)longest);
    assert_true(longest <= ms_max);
}

CLAIM(a_wait_on_a_third_server_returns_with_the_ack)
{
    (void)state;
    rounds(CUT_NOTHING, RESULT_MS_MAX);
}

CLAIM(a_wait_returns_within_a_second_if_its_messages_are_cut)
{
    (void)state;
    keep_for(60000);
    rounds(CUT_MESSAGES, RESULT_MS_MAX);
}

CLAIM(a_wait_returns_within_a_second_if_all_connections_are_cut)
{
    (void)state;
    rounds(CUT_ALL, RESULT_MS_MAX);
}

/* The end is published before the reply of the push arrives, if the other server is quick enough. */
CLAIM(a_push_that_waits_misses_no_end)
{
    char room[QUEUE_LEASE_TEXT_BYTES_MAX];
    (void)state;
    keep_for(0);
    for (int number = 0; number < ROUNDS; number++) {
        struct answer pushed = {0}, ended = {0};
        struct queue_reply_to end = to(&ended);
        struct queue_push push = a_push("same-id");
        push.ended = &end;
        queue_push(hosts[2].queue, &push, 1, to(&pushed));
        ack_on(1, (await(&pushed), take_on(1, room)), "yes");
        assert_true(slice_is(await(&ended)->jobs[0].end->result, "yes"));
        free(pushed.reply);
        free(ended.reply);
    }
}

CLAIM(many_waits_return_together)
{
    enum { MANY = 300 };
    static struct answer waits[MANY];
    static char ids[MANY][24];
    char room[QUEUE_LEASE_TEXT_BYTES_MAX];
    (void)state;
    keep_for(60000); /* a wait may reach Redis only after the end of its job */
    for (int i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof ids[i], "many-%d", i);
        push_on(0, a_push(ids[i]));
        queue_await(hosts[2].queue, slice_of("t"), slice_of(ids[i]), NULL, to(&waits[i]));
    }
    for (int i = 0; i < MANY; i++)
        until_noted(ids[i]);
    for (int i = 0; i < MANY; i++)
        ack_on((size_t)i % 2, take_on((size_t)i % 2, room), "done");
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(await(&waits[i])->status, QUEUE_OK);
        free(waits[i].reply);
    }
}

/* ---- messages that a look-up overtakes, with a queue that answers when the test does ---- */

struct below {
    struct queue queue;
    enum command_kind kind; /* of the call in progress */
    struct queue_reply_to reply_to;
};

static void below_submit(struct queue *queue, const struct command *command,
                         struct queue_reply_to reply_to)
{
    struct below *below = (struct below *)(void *)queue;
    below->kind = command->kind;
    below->reply_to = reply_to;
}

static void below_reply(const struct below *below, struct queue_reply reply)
{
    below->reply_to.done(below->reply_to.owner, below->reply_to.tag, &reply);
}

/* A wait that was noted, and whose job a later look-up did not find. */
static struct redis_waits *wait_for_gone(struct below *below, struct answer *wait)
{
    static const struct queue_ops ops = {.submit = below_submit};
    const struct command await = {.kind = COMMAND_AWAIT,
                                  .await = {.topic = slice_of("t"), .id = slice_of("gone")}};
    struct queue_result ready = {.status = QUEUE_OK, .state = JOB_READY};
    *below = (struct below){.queue.ops = &ops};
    struct redis_waits *waits = redis_waits_new(&below->queue);
    struct queue *queue = redis_waits_queue(waits);
    queue->ops->submit(queue, &await, to(wait));
    below_reply(below, (struct queue_reply){.results = &ready, .result_count = 1});
    redis_waits_check(waits);
    assert_int_equal(below->kind, COMMAND_AWAIT);
    below_reply(below, (struct queue_reply){.status = QUEUE_NOT_FOUND});
    return waits;
}

CLAIM(a_look_up_that_overtakes_the_message_of_the_end_loses_no_result)
{
    struct answer wait = {0};
    struct below below;
    struct redis_waits *waits = wait_for_gone(&below, &wait);
    const struct redis_ended ended = {
        .outcome = REDIS_ACKED, .topic = slice_of("t"), .stored = slice_of("gone")};
    struct queue_end end = {.result = slice_of("yes")};
    struct queue_job job = {.job.state = JOB_FINISHED, .end = &end};
    (void)state;
    assert_null(wait.reply);
    redis_waits_ended(waits, &ended, 0);
    assert_int_equal(below.kind, COMMAND_GET);
    below_reply(&below, (struct queue_reply){.jobs = &job, .job_count = 1});
    assert_non_null(wait.reply);
    assert_true(slice_is(wait.reply->jobs[0].end->result, "yes"));
    free(wait.reply);
    redis_waits_free(waits);
}

CLAIM(a_job_that_is_gone_without_a_message_is_not_found_two_seconds_later)
{
    struct answer wait = {0};
    struct below below;
    struct redis_waits *waits = wait_for_gone(&below, &wait);
    int64_t now_ms = clock_inner_ms();
    (void)state;
    assert_in_range(redis_waits_step(waits, now_ms), now_ms, now_ms + 2000);
    assert_null(wait.reply);
    assert_int_equal(redis_waits_step(waits, now_ms + 2000), INT64_MAX);
    assert_non_null(wait.reply);
    assert_int_equal(wait.reply->status, QUEUE_NOT_FOUND);
    assert_true(redis_waits_are_done(waits));
    free(wait.reply);
    redis_waits_free(waits);
}

CLAIMS_MAIN(start, stop)
