/* waiter_stage: waiters over a scripted queue, which holds numbers of ready jobs and answers at the
 * test's command; takers that note their answers, and in which order. */
#ifndef TARRY_TESTS_WAITER_STAGE_H
#define TARRY_TESTS_WAITER_STAGE_H

#include "queue/waiter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TOPICS_MAX = 4, CALLS_MAX = 4096, TAKERS_MAX = 4096 };

struct fake_call {
    char topics[TOPICS_MAX][8];
    size_t topic_count;
    uint32_t max;
    struct queue_reply_to to;
};

struct fake {
    struct queue queue;
    struct {
        char name[8];
        int ready;
        bool paused;
        int watches;
        bool report; /* on_ready is on its way */
    } topics[TOPICS_MAX];
    struct fake_call calls[CALLS_MAX]; /* takes under way: from `answered` up to `called` */
    size_t called, answered;
    size_t returned;
    enum queue_status status;
    bool reports_drained; /* when a take left nothing */
};

struct taker {
    struct taker **log; /* who was answered, in order */
    size_t *log_count;
    int answers;
    size_t jobs;
    char topic[8];
    bool refused;
    enum queue_status status;
    void (*then)(void *ctx); /* called from within the answer */
    void *ctx;
};

struct stage {
    struct fake fake;
    struct waiters *waiters;
    struct taker takers[TAKERS_MAX];
    struct taker *log[TAKERS_MAX];
    size_t log_count;
};

/* ---- the scripted queue ---- */

static inline int fake_topic_at(struct fake *fake, struct slice name)
{
    for (int i = 0; i < TOPICS_MAX; i++)
        if (slice_is(name, fake->topics[i].name))
            return i;
    fail_msg("unknown topic");
    return 0;
}

static inline void fake_take(struct queue *queue, const struct queue_take *take,
                             struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct fake_call *call = &fake->calls[fake->called++];

    assert_true(fake->called <= CALLS_MAX);
    *call = (struct fake_call){.max = take->max, .to = to, .topic_count = take->topic_count};
    for (size_t i = 0; i < take->topic_count; i++)
        snprintf(call->topics[i], sizeof call->topics[i], "%.*s", (int)take->topics[i].len,
                 take->topics[i].at);
}

static inline void fake_answer(struct queue *queue, const struct queue_answer *answers,
                               size_t count, struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;

    (void)to;
    for (size_t i = 0; i < count; i++) {
        int topic = fake_topic_at(fake, answers[i].lease);

        assert_int_equal(answers[i].verb, QUEUE_RETURN);
        if (fake->topics[topic].ready++ == 0)
            fake->topics[topic].report = true;
        fake->returned++;
    }
}

static inline void fake_watch(struct queue *queue, struct slice topic, bool on)
{
    struct fake *fake = (struct fake *)queue;
    int at = fake_topic_at(fake, topic);

    fake->topics[at].watches += on ? 1 : -1;
    assert_in_range(fake->topics[at].watches, 0, 1);
    if (on && fake->topics[at].ready > 0)
        fake->topics[at].report = true;
}

static inline void fake_submit(struct queue *queue, const struct command *command,
                               struct queue_reply_to to)
{
    if (command->kind == COMMAND_TAKE) {
        fake_take(queue, &command->take, to);
    } else {
        assert_int_equal(command->kind, COMMAND_ANSWER);
        fake_answer(queue, command->answers, command->count, to);
    }
}

static const struct queue_ops fake_ops = {.submit = fake_submit, .watch = fake_watch};

static inline void stage_add_ready(struct stage *stage, const char *topic, int count)
{
    int at = fake_topic_at(&stage->fake, slice_of(topic));

    stage->fake.topics[at].ready += count;
    stage->fake.topics[at].report = stage->fake.topics[at].watches > 0;
}

/* Answers the eldest take; leases are the topic's name, so that they can be returned. */
static inline void stage_answer_one(struct stage *stage)
{
    struct fake *fake = &stage->fake;
    struct fake_call *call = &fake->calls[fake->answered++];
    struct queue_job jobs[64];
    struct queue_reply reply = {.status = fake->status, .jobs = jobs};

    for (size_t i = 0; i < call->topic_count && !fake->status; i++) {
        int at = fake_topic_at(fake, slice_of(call->topics[i]));

        while (!fake->topics[at].paused && fake->topics[at].ready > 0 &&
               reply.job_count < call->max) {
            jobs[reply.job_count++] =
                (struct queue_job){.job.topic = slice_of(fake->topics[at].name),
                                   .lease = slice_of(fake->topics[at].name)};
            fake->topics[at].ready--;
        }
    }
    reply.drained = fake->reports_drained && reply.job_count < call->max;
    call->to.done(call->to.owner, call->to.tag, &reply);
}

static inline void stage_report_ready(struct stage *stage)
{
    for (int i = 0; i < TOPICS_MAX; i++) {
        if (!stage->fake.topics[i].report)
            continue;
        stage->fake.topics[i].report = false;
        if (stage->fake.topics[i].watches)
            stage->fake.queue.on_ready(stage->fake.queue.on_ready_owner,
                                       slice_of(stage->fake.topics[i].name));
    }
}

static inline size_t stage_under_way(const struct stage *stage)
{
    return stage->fake.called - stage->fake.answered;
}

/* Runs until nothing moves. */
static inline void stage_settle(struct stage *stage)
{
    for (int rounds = 0; rounds < 10000; rounds++) {
        bool reports = false;

        while (stage_under_way(stage))
            stage_answer_one(stage);
        for (int i = 0; i < TOPICS_MAX; i++)
            reports |= stage->fake.topics[i].report;
        if (!reports)
            return;
        stage_report_ready(stage);
    }
    fail_msg("never came to rest");
}

/* ---- takers ---- */

static inline void taker_taken(void *owner, uint64_t tag, const struct queue_reply *reply,
                               bool refused)
{
    struct taker *taker = owner;

    assert_int_equal(tag, 77);
    taker->answers++;
    taker->jobs = reply->job_count;
    taker->refused = refused;
    taker->status = reply->status;
    if (reply->job_count)
        snprintf(taker->topic, sizeof taker->topic, "%.*s", (int)reply->jobs[0].job.topic.len,
                 reply->jobs[0].job.topic.at);
    taker->log[(*taker->log_count)++] = taker;
    if (taker->then)
        taker->then(taker->ctx);
}

static inline uint64_t stage_take_many(struct stage *stage, int taker, const char *topic,
                                       const char *second, uint32_t max, int64_t wait_ms,
                                       int64_t now_ms)
{
    struct slice topics[] = {slice_of(topic), slice_of(second ? second : "")};
    struct queue_take take = {.topics = topics, .topic_count = second ? 2 : 1, .max = max};

    return waiter_take(stage->waiters, &take, wait_ms, now_ms, taker_taken, &stage->takers[taker],
                       77);
}

static inline uint64_t stage_take(struct stage *stage, int taker, const char *topic)
{
    return stage_take_many(stage, taker, topic, NULL, 1, 1000, 0);
}

static inline struct stage *stage_new(size_t waiting_max)
{
    static const char *const names[TOPICS_MAX] = {"a", "b", "c", "d"};
    struct stage *stage = calloc(1, sizeof *stage);

    for (int i = 0; i < TOPICS_MAX; i++)
        snprintf(stage->fake.topics[i].name, sizeof stage->fake.topics[i].name, "%s", names[i]);
    for (int i = 0; i < TAKERS_MAX; i++) {
        stage->takers[i].log = stage->log;
        stage->takers[i].log_count = &stage->log_count;
    }
    stage->fake.queue.ops = &fake_ops;
    stage->waiters = waiters_new(&stage->fake.queue, waiting_max);
    return stage;
}

static inline void stage_end(struct stage *stage)
{
    stage_settle(stage);
    waiters_free(stage->waiters);
    for (int i = 0; i < TOPICS_MAX; i++)
        assert_int_equal(stage->fake.topics[i].watches, 0);
    free(stage);
}

#endif
