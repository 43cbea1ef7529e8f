/* Requests to a shard in one loop iteration of the reactor travel in one call; while that is in flight the
 * next grows. A server on a real Redis, on the real clock. */
#include "base/clock.h"
#include "base/log.h"
#include "redis/redis.h"
#include "support/redis_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TOPICS = 4, PATIENCE_US = 10 * 1000 * 1000, PAUSE_US = 200 * 1000, ATTEMPTS = 5 };

/* The result of a call. */
struct call {
    bool done;
    enum queue_status status;
    size_t jobs;
    char topic[16];
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
};

struct rig {
    struct redis_server *server;
    struct reactor *reactor;
    struct redis *redis;
    struct queue *queue;
    bool has_stopped;
};

static const char *const names[TOPICS] = {"t0", "t1", "t2", "t3"};

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct call *call = owner;

    (void)tag;
    call->done = true;
    call->status = reply->result_count ? reply->results[0].status : reply->status;
    call->jobs = reply->job_count;
    if (!reply->job_count)
        return;
    const struct queue_job *job = &reply->jobs[0];
    snprintf(call->topic, sizeof call->topic, "%.*s", (int)job->job.topic.len, job->job.topic.at);
    memcpy(call->lease, job->lease.at, job->lease.len);
    call->lease_bytes = job->lease.len;
}

static struct queue_reply_to reply_of(struct call *call)
{
    *call = (struct call){0};
    return (struct queue_reply_to){.done = on_reply, .owner = call};
}

static void iterate(struct rig *rig)
{
    uv_run(reactor_loop(rig->reactor), UV_RUN_NOWAIT);
}

static void await(struct rig *rig, const struct call *calls, size_t count)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;

    for (size_t i = 0; i < count; i++)
        while (!calls[i].done) {
            assert_true(clock_boot_us() < until_us);
            iterate(rig);
        }
}

static uint64_t calls_so_far(const struct rig *rig)
{
    struct redis_figures figures;

    redis_figures(rig->redis, &figures);
    return figures.calls;
}

static void push(struct rig *rig, const char *topic)
{
    struct call call;
    struct queue_push push = {
        .topic = slice_of(topic), .when.due = QUEUE_DUE_NOW, .priority = QUEUE_PRIORITY_UNSET};

    queue_push(rig->queue, &push, 1, reply_of(&call));
    await(rig, &call, 1);
    assert_int_equal(call.status, QUEUE_CREATED);
}

static void ask_take(struct rig *rig, const char *topic, struct call *call)
{
    struct slice name = slice_of(topic);
    struct queue_take take = {.topics = &name, .topic_count = 1, .max = 1};

    queue_take(rig->queue, &take, reply_of(call));
}

static void ask_ack(struct rig *rig, const struct call *taken, struct call *call)
{
    struct queue_answer answer = {.verb = QUEUE_ACK,
                                  .lease = slice_make(taken->lease, taken->lease_bytes)};

    queue_answer(rig->queue, &answer, 1, reply_of(call));
}

/* ---- the rig ---- */

static struct rig *rig_new(void)
{
    struct rig *rig = calloc(1, sizeof *rig);
    char url[64], error[512] = "";

    assert_non_null(rig);
    rig->server = redis_server_new(NULL);
    rig->reactor = reactor_new(0);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", (int)rig->server->port);
    struct redis_options options = {
        .url = url, .shards = 1, .body_bytes_max = 1000, .topics_max = 10};
    if (redis_open(&options, &rig->redis, error, sizeof error) != 0 ||
        redis_attach(rig->redis, rig->reactor, &rig->queue, error, sizeof error) != 0)
        fail_msg("%s", error);
    return rig;
}

static void stopped(void *ctx)
{
    ((struct rig *)ctx)->has_stopped = true;
}

static void rig_free(struct rig *rig)
{
    redis_stop(rig->redis, stopped, rig);
    while (!rig->has_stopped)
        iterate(rig);
    redis_free(rig->redis);
    reactor_free(rig->reactor);
    redis_server_free(rig->server);
    free(rig);
}

/* ---- claims ---- */

/* Sends answers and takes; each returns its number of calls, which may include the check of each second. */
static uint64_t answers_and_takes(struct rig *rig)
{
    struct call taken, acks[2], takes[TOPICS];

    for (int i = 0; i < TOPICS; i++)
        push(rig, names[i]);
    ask_take(rig, names[0], &taken);
    await(rig, &taken, 1);
    uint64_t before = calls_so_far(rig);
    for (int i = TOPICS - 1; i >= 0; i--)
        ask_take(rig, names[i], &takes[i]);
    ask_ack(rig, &taken, &acks[0]);
    ask_ack(rig, &taken, &acks[1]);
    await(rig, takes, TOPICS);
    await(rig, acks, 2);
    uint64_t calls = calls_so_far(rig) - before;
    assert_int_equal(acks[0].status, QUEUE_OK);
    assert_int_not_equal(acks[1].status, QUEUE_OK); /* the first one ended it */
    assert_int_equal(takes[0].jobs, 0);
    for (int i = 1; i < TOPICS; i++) {
        assert_int_equal(takes[i].jobs, 1);
        assert_string_equal(takes[i].topic, names[i]);
        ask_ack(rig, &takes[i], &acks[0]);
        await(rig, acks, 1);
        assert_int_equal(acks[0].status, QUEUE_OK);
    }
    return calls;
}

/* Redis answers nothing for a while: what comes meanwhile, step by step, waits for the first call. */
static uint64_t takes_while_one_is_under_way(struct rig *rig)
{
    struct call takes[TOPICS], ack;

    for (int i = 0; i < TOPICS; i++)
        push(rig, names[i]);
    redis_server_do(rig->server, "CLIENT PAUSE %d ALL", PAUSE_US / 1000);
    uint64_t before = calls_so_far(rig);
    for (int i = 0; i < TOPICS; i++) {
        ask_take(rig, names[i], &takes[i]);
        for (int round = 0; round < 3; round++)
            iterate(rig);
    }
    await(rig, takes, TOPICS);
    uint64_t calls = calls_so_far(rig) - before;
    for (int i = 0; i < TOPICS; i++) {
        assert_int_equal(takes[i].jobs, 1);
        assert_string_equal(takes[i].topic, names[i]);
        ask_ack(rig, &takes[i], &ack);
        await(rig, &ack, 1);
    }
    return calls;
}

static uint64_t least_of(struct rig *rig, uint64_t (*act)(struct rig *rig))
{
    uint64_t least = UINT64_MAX;

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        uint64_t calls = act(rig);
        least = calls < least ? calls : least;
    }
    return least;
}

static void answers_and_takes_of_any_topics_are_one_call(void **state)
{
    struct rig *rig = rig_new();

    (void)state;
    assert_int_equal(least_of(rig, answers_and_takes), 1);
    rig_free(rig);
}

static void the_next_step_grows_while_one_is_in_flight(void **state)
{
    struct rig *rig = rig_new();

    (void)state;
    assert_int_equal(least_of(rig, takes_while_one_is_under_way), 2);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_and_takes_of_any_topics_are_one_call),
        cmocka_unit_test(the_next_step_grows_while_one_is_in_flight),
    };

    log_open(NULL, LOG_ERROR, false);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
