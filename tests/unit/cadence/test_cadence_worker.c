/* The worker of schedules over a queue that answers at the test's command, at a held clock. */
#include "cadence/worker.h"

#include "base/clock.h"
#include "cadence/stored.h"
#include "queue/waiter.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 16, SECOND_MS = 1000, LATE_MS = 500 };
static const int64_t NOON_MS = 1798718400000; /* a whole second */

struct fake {
    struct queue queue;
    struct queue_reply_to takes[CALLS_MAX], pushes[CALLS_MAX];
    size_t take_count, push_count, pushed; /* pushed: jobs of the last push */
    struct queue_reply_to answer;
    struct queue_when again; /* of the schedule that was pushed again */
    bool is_answered;
};

static void fake_submit(struct queue *queue, const struct command *command,
                        struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    if (command->kind == COMMAND_TAKE) {
        assert_true(fake->take_count < CALLS_MAX);
        fake->takes[fake->take_count++] = to;
    } else if (command->kind == COMMAND_PUSH) {
        assert_true(fake->push_count < CALLS_MAX);
        fake->pushes[fake->push_count++] = to;
        fake->pushed = command->count;
    } else if (command->kind == COMMAND_ANSWER) {
        assert_int_equal(command->count, 1);
        assert_int_equal(command->answers[0].verb, QUEUE_AGAIN);
        fake->again = command->answers[0].again->when;
        fake->answer = to;
        fake->is_answered = true;
    } /* all others wait for ever */
}

static void fake_watch(struct queue *queue, struct slice topic, bool on)
{
    (void)queue;
    (void)topic;
    (void)on;
}

static void fake_info(struct queue *queue, struct queue_info *out)
{
    (void)queue;
    *out = (struct queue_info){0};
}

static const struct queue_ops fake_ops = {
    .submit = fake_submit, .watch = fake_watch, .info = fake_info};

/* Answers the first take with a schedule that fires each second and is late. */
static void fake_give_schedule(struct fake *fake)
{
    char body[400];
    (void)snprintf(
        body, sizeof body,
        "{\"v\":1,\"plan\":{\"every\":\"1s\",\"phase\":\"500ms\",\"overlap\":\"skip\"},\"job\":{"
        "\"topic\":"
        "\"fires\"},\"state\":{\"paused\":false,\"after\":%lld,\"next\":%lld,\"last\":[]}}",
        (long long)(NOON_MS - LATE_MS - SECOND_MS), (long long)(NOON_MS - LATE_MS));
    struct queue_job job = {.job = {.topic = slice_of(SCHEDULES_TOPIC),
                                    .id = slice_of("each-second"),
                                    .body = slice_of(body),
                                    .state = JOB_LEASED,
                                    .attempt = 1,
                                    .lease_until_ms = NOON_MS + STORED_LEASE_MS},
                            .lease = slice_of("lease-1")};
    struct queue_reply reply = {.jobs = &job, .job_count = 1};
    assert_int_equal(fake->take_count, 1);
    fake->takes[0].done(fake->takes[0].owner, fake->takes[0].tag, &reply);
}

static void fake_create_fires(struct fake *fake)
{
    struct queue_result results[8];
    struct queue_reply reply = {.results = results, .result_count = fake->pushed};
    assert_int_equal(fake->push_count, 1);
    assert_in_range(fake->pushed, 1, COUNT_OF(results));
    for (size_t i = 0; i < fake->pushed; i++)
        results[i] = (struct queue_result){.status = QUEUE_CREATED, .state = JOB_READY};
    fake->pushes[0].done(fake->pushes[0].owner, fake->pushes[0].tag, &reply);
}

/* Answers whatever is left with nothing, so that the worker can end. */
static void fake_end(struct fake *fake)
{
    struct queue_result result = {.status = QUEUE_CREATED};
    struct queue_reply answered = {.results = &result, .result_count = 1};
    struct queue_reply nothing = {.drained = true};
    fake->answer.done(fake->answer.owner, fake->answer.tag, &answered);
    for (size_t i = 1; i < fake->take_count; i++)
        fake->takes[i].done(fake->takes[i].owner, fake->takes[i].tag, &nothing);
}

static void on_stopped(void *ctx)
{
    reactor_stop(ctx);
}

/* Returns when a late schedule is handled again, if the push of its fire takes this long. */
static struct queue_when wake_after(int64_t push_ms)
{
    struct fake fake = {.queue.ops = &fake_ops};
    struct reactor *reactor = reactor_new(0);
    struct waiters *waiters = waiters_new(&fake.queue, 10);
    struct cadence_worker_options options = {.reactor = reactor,
                                             .queue = &fake.queue,
                                             .waiters = waiters,
                                             .zone_directory = "/usr/share/zoneinfo"};
    struct cadence_worker *worker = cadence_worker_new(&options);
    clock_hold(&clock_process, NOON_MS, NOON_MS);
    assert_non_null(worker);
    cadence_worker_start(worker);
    fake_give_schedule(&fake);
    clock_advance(&clock_process, push_ms);
    fake_create_fires(&fake);
    assert_true(fake.is_answered);
    cadence_worker_stop(worker, on_stopped, reactor);
    fake_end(&fake);
    reactor_run(reactor);
    cadence_worker_free(worker);
    waiters_free(waiters);
    reactor_free(reactor);
    return fake.again;
}

CLAIM(late_schedule_of_a_slow_round_yields_to_calls_for_half_its_time)
{
    struct queue_when wake = wake_after(3 * SECOND_MS);
    assert_int_equal(wake.due, QUEUE_DUE_DELAY);
    assert_int_equal(wake.ms, 3 * SECOND_MS / 2);
}

CLAIM(late_schedule_yields_to_calls_for_two_seconds_at_most)
{
    struct queue_when wake = wake_after(8 * SECOND_MS);
    assert_int_equal(wake.due, QUEUE_DUE_DELAY);
    assert_int_equal(wake.ms, 2 * SECOND_MS);
}

CLAIM(schedule_of_a_quick_round_is_handled_at_its_next_fire)
{
    struct queue_when wake = wake_after(10);
    assert_int_equal(wake.due, QUEUE_DUE_AT);
    assert_int_equal(wake.ms, NOON_MS - LATE_MS + SECOND_MS);
}

CLAIMS_MAIN(NULL, NULL)
