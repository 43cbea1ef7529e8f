/* The waiters over a scripted queue: it holds numbers of ready jobs and answers when told. */
#include "queue/status.h"
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
        bool tell; /* on_ready is on its way */
    } topics[TOPICS_MAX];
    struct fake_call calls[CALLS_MAX]; /* takes under way: from `answered` up to `called` */
    size_t called, answered;
    size_t returned;
    enum queue_status status;
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

static int topic_at(struct fake *fake, struct slice name)
{
    for (int i = 0; i < TOPICS_MAX; i++)
        if (slice_is(name, fake->topics[i].name))
            return i;
    fail_msg("unknown topic");
    return 0;
}

static void fake_take(struct queue *queue, const struct queue_take *take, struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;
    struct fake_call *call = &fake->calls[fake->called++];

    assert_true(fake->called <= CALLS_MAX);
    *call = (struct fake_call){.max = take->max, .to = to, .topic_count = take->topic_count};
    for (size_t i = 0; i < take->topic_count; i++)
        snprintf(call->topics[i], sizeof call->topics[i], "%.*s", (int)take->topics[i].len,
                 take->topics[i].at);
}

static void fake_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                        struct queue_reply_to to)
{
    struct fake *fake = (struct fake *)queue;

    (void)to;
    for (size_t i = 0; i < count; i++) {
        int topic = topic_at(fake, answers[i].lease);

        assert_int_equal(answers[i].verb, QUEUE_RETURN);
        if (fake->topics[topic].ready++ == 0)
            fake->topics[topic].tell = true;
        fake->returned++;
    }
}

static void fake_watch(struct queue *queue, struct slice topic, bool on)
{
    struct fake *fake = (struct fake *)queue;
    int at = topic_at(fake, topic);

    fake->topics[at].watches += on ? 1 : -1;
    assert_in_range(fake->topics[at].watches, 0, 1);
    if (on && fake->topics[at].ready > 0)
        fake->topics[at].tell = true;
}

static const struct queue_ops fake_ops = {
    .take = fake_take, .answer = fake_answer, .watch = fake_watch};

static void add_ready(struct stage *stage, const char *topic, int count)
{
    int at = topic_at(&stage->fake, slice_of(topic));

    stage->fake.topics[at].ready += count;
    stage->fake.topics[at].tell = stage->fake.topics[at].watches > 0;
}

/* Answers the eldest take; leases are the topic's name, so that they can be returned. */
static void answer_one(struct stage *stage)
{
    struct fake *fake = &stage->fake;
    struct fake_call *call = &fake->calls[fake->answered++];
    struct queue_job jobs[64];
    struct queue_reply reply = {.status = fake->status, .jobs = jobs};

    for (size_t i = 0; i < call->topic_count && !fake->status; i++) {
        int at = topic_at(fake, slice_of(call->topics[i]));

        while (!fake->topics[at].paused && fake->topics[at].ready > 0 &&
               reply.job_count < call->max) {
            jobs[reply.job_count++] =
                (struct queue_job){.job.topic = slice_of(fake->topics[at].name),
                                   .lease = slice_of(fake->topics[at].name)};
            fake->topics[at].ready--;
        }
    }
    call->to.done(call->to.owner, call->to.tag, &reply);
}

static void tell_ready(struct stage *stage)
{
    for (int i = 0; i < TOPICS_MAX; i++) {
        if (!stage->fake.topics[i].tell)
            continue;
        stage->fake.topics[i].tell = false;
        if (stage->fake.topics[i].watches)
            stage->fake.queue.on_ready(stage->fake.queue.on_ready_owner,
                                       slice_of(stage->fake.topics[i].name));
    }
}

static size_t under_way(const struct stage *stage)
{
    return stage->fake.called - stage->fake.answered;
}

/* Until nothing moves any more. */
static void settle(struct stage *stage)
{
    for (int turns = 0; turns < 10000; turns++) {
        bool tells = false;

        while (under_way(stage))
            answer_one(stage);
        for (int i = 0; i < TOPICS_MAX; i++)
            tells |= stage->fake.topics[i].tell;
        if (!tells)
            return;
        tell_ready(stage);
    }
    fail_msg("never came to rest");
}

/* ---- takers ---- */

static void taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
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

static uint64_t take_many(struct stage *stage, int taker, const char *topic, const char *second,
                          uint32_t max, int64_t wait_ms, int64_t now_ms)
{
    struct slice topics[] = {slice_of(topic), slice_of(second ? second : "")};
    struct queue_take take = {.topics = topics, .topic_count = second ? 2 : 1, .max = max};

    return waiter_take(stage->waiters, &take, wait_ms, now_ms, taken, &stage->takers[taker], 77);
}

static uint64_t take(struct stage *stage, int taker, const char *topic)
{
    return take_many(stage, taker, topic, NULL, 1, 1000, 0);
}

static struct stage *stage_new(size_t waiting_max)
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

static void stage_end(struct stage *stage)
{
    settle(stage);
    waiters_free(stage->waiters);
    for (int i = 0; i < TOPICS_MAX; i++)
        assert_int_equal(stage->fake.topics[i].watches, 0);
    free(stage);
}

/* ---- claims ---- */

static void answers_at_once_when_there_is_a_job_but_never_inside_the_call(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    add_ready(stage, "a", 1);
    take(stage, 0, "a");
    assert_int_equal(stage->takers[0].answers, 0);
    settle(stage);
    assert_int_equal(stage->takers[0].jobs, 1);
    assert_int_equal(waiters_next_ms(stage->waiters), INT64_MAX);
    stage_end(stage);
}

static void a_take_that_does_not_wait_is_answered_empty(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    take_many(stage, 0, "a", NULL, 1, 0, 0);
    settle(stage);
    assert_int_equal(stage->takers[0].answers, 1);
    assert_int_equal(stage->takers[0].jobs, 0);
    assert_false(stage->takers[0].refused);
    stage_end(stage);
}

static void first_come_first_served(void **state)
{
    struct stage *stage = stage_new(100);

    (void)state;
    for (int i = 0; i < 50; i++)
        take(stage, i, "a");
    settle(stage);
    for (int i = 0; i < 50; i++) {
        add_ready(stage, "a", i % 3);
        settle(stage);
    }
    add_ready(stage, "a", 50);
    settle(stage);
    assert_int_equal(stage->log_count, 50);
    for (int i = 0; i < 50; i++)
        assert_ptr_equal(stage->log[i], &stage->takers[i]);
    stage_end(stage);
}

static void a_later_take_does_not_overtake(void **state)
{
    struct stage *stage = stage_new(100);

    (void)state;
    take(stage, 0, "a");
    settle(stage);
    stage->fake.topics[0].ready = 1; /* on_ready is still on its way when the next taker comes */
    stage->fake.topics[0].tell = true;
    take(stage, 1, "a");
    settle(stage);
    assert_int_equal(stage->log_count, 1);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_end(stage);
}

static void one_job_wakes_one_of_a_thousand(void **state)
{
    struct stage *stage = stage_new(2000);
    size_t before;

    (void)state;
    for (int i = 0; i < 1000; i++)
        take(stage, i, "a");
    settle(stage);
    before = stage->fake.called;
    add_ready(stage, "a", 1);
    tell_ready(stage);
    assert_int_equal(under_way(stage), 1);
    settle(stage);
    assert_int_equal(stage->log_count, 1);
    assert_in_range(stage->fake.called - before, 1, 3);
    assert_int_equal(waiters_count(stage->waiters), 999);
    stage_end(stage);
}

static void idle_waiters_ask_nothing(void **state)
{
    struct stage *stage = stage_new(2000);

    (void)state;
    for (int i = 0; i < 1000; i++)
        take(stage, i, "a");
    settle(stage);
    assert_in_range(stage->fake.called, 1, 2);
    stage_end(stage);
}

static void a_backlog_is_handed_out_with_several_takes_under_way(void **state)
{
    struct stage *stage = stage_new(2000);
    size_t most = 0;

    (void)state;
    for (int i = 0; i < 200; i++)
        take(stage, i, "a");
    settle(stage);
    add_ready(stage, "a", 200);
    tell_ready(stage);
    while (under_way(stage)) {
        most = under_way(stage) > most ? under_way(stage) : most;
        answer_one(stage);
    }
    assert_int_equal(stage->log_count, 200);
    assert_in_range(most, 8, 32);
    for (int i = 0; i < 200; i++)
        assert_ptr_equal(stage->log[i], &stage->takers[i]);
    stage_end(stage);
}

static void no_lost_wakeup_between_the_empty_take_and_the_watch(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    take(stage, 0, "a");
    /* The job comes after the queue looked and before its answer arrives: nobody watches yet. */
    stage->fake.answered++;
    stage->fake.topics[0].ready = 1;
    stage->fake.calls[0].to.done(stage->fake.calls[0].to.owner, stage->fake.calls[0].to.tag,
                                 &(struct queue_reply){.status = QUEUE_OK});
    settle(stage);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_end(stage);
}

static void no_lost_wakeup_while_an_empty_answer_is_on_its_way(void **state)
{
    struct stage *stage = stage_new(10);
    struct fake_call *call;

    (void)state;
    take(stage, 0, "a");
    settle(stage);
    stage->fake.queue.on_ready(stage->fake.queue.on_ready_owner, slice_of("a"));
    call = &stage->fake.calls[stage->fake.answered++];
    stage->fake.topics[0].ready = 1;
    stage->fake.queue.on_ready(stage->fake.queue.on_ready_owner, slice_of("a"));
    call->to.done(call->to.owner, call->to.tag, &(struct queue_reply){.status = QUEUE_OK});
    settle(stage);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_end(stage);
}

static void a_short_answer_does_not_strand_the_next_in_line(void **state)
{
    struct stage *stage = stage_new(10);
    struct queue_job job = {.job.topic = slice_of("a"), .lease = slice_of("a")};
    struct fake_call *call;

    (void)state;
    take_many(stage, 0, "a", NULL, 10, 1000, 0);
    take_many(stage, 1, "a", NULL, 10, 1000, 0);
    settle(stage);
    add_ready(stage, "a", 5);
    tell_ready(stage);
    /* The queue hands out less than there is, say because the bodies are big. */
    call = &stage->fake.calls[stage->fake.answered++];
    stage->fake.topics[0].ready = 4;
    call->to.done(call->to.owner, call->to.tag,
                  &(struct queue_reply){.jobs = &job, .job_count = 1});
    settle(stage);
    assert_int_equal(stage->takers[1].jobs, 4);
    stage_end(stage);
}

static void no_busy_loop_when_paused(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    stage->fake.topics[0].paused = true;
    stage->fake.topics[0].ready = 5;
    take(stage, 0, "a");
    take(stage, 1, "a");
    settle(stage);
    assert_in_range(stage->fake.called, 1, 4);
    assert_int_equal(stage->log_count, 0);
    stage_end(stage);
}

static void a_waiter_is_answered_empty_when_its_wait_is_over_not_before(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    take_many(stage, 0, "a", NULL, 1, 200, 5);
    take_many(stage, 1, "a", NULL, 1, 100, 5);
    settle(stage);
    assert_int_equal(waiters_next_ms(stage->waiters), 105);
    waiters_expire(stage->waiters, 104);
    assert_int_equal(stage->log_count, 0);
    waiters_expire(stage->waiters, 105);
    assert_int_equal(stage->takers[1].answers, 1);
    assert_int_equal(waiters_next_ms(stage->waiters), 205);
    waiters_expire(stage->waiters, 300);
    assert_int_equal(stage->takers[0].answers, 1);
    assert_int_equal(waiters_count(stage->waiters), 0);
    stage_end(stage);
}

static void a_wait_that_ends_with_jobs_on_their_way_gets_them(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    add_ready(stage, "a", 1);
    take(stage, 0, "a");
    waiters_expire(stage->waiters, 5000);
    assert_int_equal(stage->takers[0].answers, 0);
    assert_int_equal(waiters_next_ms(stage->waiters), INT64_MAX);
    settle(stage);
    assert_int_equal(stage->takers[0].answers, 1);
    assert_int_equal(stage->takers[0].jobs, 1);
    stage_end(stage);
}

static void a_cancelled_taker_gives_its_jobs_back(void **state)
{
    struct stage *stage = stage_new(10);
    uint64_t handle;

    (void)state;
    add_ready(stage, "a", 40);
    handle = take_many(stage, 0, "a", NULL, 40, 1000, 0);
    take(stage, 1, "a");
    waiter_cancel(stage->waiters, handle);
    settle(stage);
    assert_int_equal(stage->takers[0].answers, 0);
    assert_int_equal(stage->fake.returned, 40);
    assert_int_equal(stage->takers[1].jobs, 1);
    assert_int_equal(stage->fake.topics[0].ready, 39);
    stage_end(stage);
}

static void a_cancelled_take_that_did_not_wait_gives_its_jobs_back(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    add_ready(stage, "a", 1);
    waiter_cancel(stage->waiters, take_many(stage, 0, "a", NULL, 1, 0, 0));
    settle(stage);
    assert_int_equal(stage->takers[0].answers, 0);
    assert_int_equal(stage->fake.returned, 1);
    stage_end(stage);
}

static void cancelling_an_idle_waiter_lets_the_next_one_have_the_job(void **state)
{
    struct stage *stage = stage_new(10);
    uint64_t handle = take(stage, 0, "a");

    (void)state;
    take(stage, 1, "a");
    settle(stage);
    waiter_cancel(stage->waiters, handle);
    waiter_cancel(stage->waiters, handle);
    add_ready(stage, "a", 1);
    settle(stage);
    assert_int_equal(stage->takers[0].answers, 0);
    assert_int_equal(stage->takers[1].jobs, 1);
    waiter_cancel(stage->waiters, handle);
    stage_end(stage);
}

static void a_handle_is_not_good_for_a_later_waiter(void **state)
{
    struct stage *stage = stage_new(10);
    uint64_t old = take(stage, 0, "a");

    (void)state;
    settle(stage);
    waiter_cancel(stage->waiters, old);
    take(stage, 1, "a");
    settle(stage);
    waiter_cancel(stage->waiters, old);
    assert_int_equal(waiters_count(stage->waiters), 1);
    stage_end(stage);
}

static void of_several_topics_the_first_named_is_served_first(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    add_ready(stage, "a", 1);
    add_ready(stage, "b", 1);
    take_many(stage, 0, "b", "a", 1, 1000, 0);
    settle(stage);
    assert_string_equal(stage->takers[0].topic, "b");
    stage_end(stage);
}

static void any_of_several_topics_wakes_a_waiter(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    take_many(stage, 0, "a", "b", 1, 1000, 0);
    settle(stage);
    add_ready(stage, "b", 1);
    settle(stage);
    assert_string_equal(stage->takers[0].topic, "b");
    assert_int_equal(stage->fake.topics[0].watches, 0);
    stage_end(stage);
}

static void a_topic_named_twice_counts_once(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    take_many(stage, 0, "a", "a", 1, 1000, 0);
    settle(stage);
    add_ready(stage, "a", 1);
    settle(stage);
    assert_int_equal(stage->takers[0].answers, 1);
    stage_end(stage);
}

static void who_asks_elsewhere_keeps_its_place(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    take_many(stage, 0, "a", "b", 1, 1000, 0);
    take(stage, 1, "b");
    settle(stage);
    stage->fake.queue.on_ready(stage->fake.queue.on_ready_owner, slice_of("a"));
    assert_int_equal(under_way(stage), 1);
    add_ready(stage, "b", 1);
    tell_ready(stage);
    assert_int_equal(under_way(stage), 1);
    settle(stage);
    assert_string_equal(stage->takers[0].topic, "b");
    assert_int_equal(stage->takers[1].answers, 0);
    stage_end(stage);
}

static void beyond_the_bound_a_take_is_refused_but_gets_what_there_is(void **state)
{
    struct stage *stage = stage_new(2);

    (void)state;
    take(stage, 0, "a");
    take(stage, 1, "a");
    settle(stage);
    take(stage, 2, "a");
    settle(stage);
    assert_true(stage->takers[2].refused);
    assert_int_equal(stage->takers[2].answers, 1);
    add_ready(stage, "b", 1);
    take(stage, 3, "b");
    settle(stage);
    assert_false(stage->takers[3].refused);
    assert_int_equal(stage->takers[3].jobs, 1);
    stage_end(stage);
}

static void a_drain_answers_everybody_and_lets_nobody_wait(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    take(stage, 0, "a");
    take(stage, 1, "b");
    settle(stage);
    waiters_drain(stage->waiters);
    assert_int_equal(stage->log_count, 0);
    assert_int_equal(waiters_next_ms(stage->waiters), 0);
    waiters_expire(stage->waiters, 1);
    assert_int_equal(stage->log_count, 2);
    take(stage, 2, "a");
    settle(stage);
    assert_int_equal(stage->takers[2].answers, 1);
    assert_int_equal(waiters_next_ms(stage->waiters), INT64_MAX);
    stage_end(stage);
}

static void an_error_of_the_queue_is_handed_on_to_each(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    stage->fake.status = QUEUE_UNAVAILABLE;
    take(stage, 0, "a");
    take(stage, 1, "a");
    settle(stage);
    assert_int_equal(stage->takers[0].status, QUEUE_UNAVAILABLE);
    assert_int_equal(stage->takers[1].status, QUEUE_UNAVAILABLE);
    stage_end(stage);
}

static void free_answers_who_still_waits(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    take(stage, 0, "a");
    settle(stage);
    waiters_free(stage->waiters);
    assert_int_equal(stage->takers[0].answers, 1);
    assert_int_equal(stage->fake.topics[0].watches, 0);
    free(stage);
}

static void take_again(void *ctx)
{
    struct stage *stage = ctx;

    if (stage->log_count < 100)
        take(stage, 0, "a");
}

static void a_taker_may_take_again_from_its_answer(void **state)
{
    struct stage *stage = stage_new(10);

    (void)state;
    stage->takers[0].then = take_again;
    stage->takers[0].ctx = stage;
    add_ready(stage, "a", 100);
    take(stage, 0, "a");
    settle(stage);
    assert_int_equal(stage->log_count, 100);
    assert_int_equal(waiters_count(stage->waiters), 0);
    stage_end(stage);
}

/* Everything at once, from a fixed seed: each taker is answered exactly once or was cancelled, and
 * no job is lost. */
static void nothing_is_lost_in_a_crowd(void **state)
{
    struct stage *stage = stage_new(64);
    uint64_t handles[TAKERS_MAX] = {0};
    size_t added = 0, got = 0, cancelled = 0;
    int64_t now_ms = 0;

    (void)state;
    srand(7);
    for (int i = 0; i < 2500; i++) {
        static const char *const names[] = {"a", "b", "c", "d"};
        const char *one = names[rand() % 4], *two = names[rand() % 4];

        handles[i] = take_many(stage, i, one, rand() % 2 ? two : NULL, 1 + (uint32_t)rand() % 3,
                               rand() % 40, now_ms);
        if (rand() % 2) {
            int ready = rand() % 4;

            add_ready(stage, two, ready);
            added += (size_t)ready;
        }
        if (rand() % 8 == 0) {
            int victim = rand() % (i + 1);

            if (stage->takers[victim].answers == 0 && handles[victim]) {
                waiter_cancel(stage->waiters, handles[victim]);
                handles[victim] = 0;
                cancelled++;
            }
        }
        if (under_way(stage) && rand() % 3)
            answer_one(stage);
        if (rand() % 2)
            tell_ready(stage);
        waiters_expire(stage->waiters, now_ms += rand() % 5);
    }
    settle(stage);
    waiters_drain(stage->waiters);
    waiters_expire(stage->waiters, now_ms);
    settle(stage);
    assert_int_equal(stage->log_count + cancelled, 2500);
    for (int i = 0; i < 2500; i++) {
        assert_int_equal(stage->takers[i].answers, handles[i] ? 1 : 0);
        got += stage->takers[i].jobs;
    }
    for (int i = 0; i < TOPICS_MAX; i++)
        got += (size_t)stage->fake.topics[i].ready;
    assert_int_equal(got, added);
    stage_end(stage);
}

static void every_status_has_a_code_of_its_own_and_a_sentence(void **state)
{
    (void)state;
    for (int i = QUEUE_OK; i <= QUEUE_UNAVAILABLE; i++) {
        const char *code = queue_status_code((enum queue_status)i);
        const char *sentence = queue_status_sentence((enum queue_status)i);

        assert_true(strlen(code) > 1 && strlen(sentence) > 1);
        assert_int_not_equal(sentence[strlen(sentence) - 1], '.');
        for (int j = 0; j < i; j++)
            assert_string_not_equal(code, queue_status_code((enum queue_status)j));
        assert_int_equal(queue_status_is_success((enum queue_status)i), i <= QUEUE_CANCELLED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_at_once_when_there_is_a_job_but_never_inside_the_call),
        cmocka_unit_test(a_take_that_does_not_wait_is_answered_empty),
        cmocka_unit_test(first_come_first_served),
        cmocka_unit_test(a_later_take_does_not_overtake),
        cmocka_unit_test(one_job_wakes_one_of_a_thousand),
        cmocka_unit_test(idle_waiters_ask_nothing),
        cmocka_unit_test(a_backlog_is_handed_out_with_several_takes_under_way),
        cmocka_unit_test(no_lost_wakeup_between_the_empty_take_and_the_watch),
        cmocka_unit_test(no_lost_wakeup_while_an_empty_answer_is_on_its_way),
        cmocka_unit_test(a_short_answer_does_not_strand_the_next_in_line),
        cmocka_unit_test(no_busy_loop_when_paused),
        cmocka_unit_test(a_waiter_is_answered_empty_when_its_wait_is_over_not_before),
        cmocka_unit_test(a_wait_that_ends_with_jobs_on_their_way_gets_them),
        cmocka_unit_test(a_cancelled_taker_gives_its_jobs_back),
        cmocka_unit_test(a_cancelled_take_that_did_not_wait_gives_its_jobs_back),
        cmocka_unit_test(cancelling_an_idle_waiter_lets_the_next_one_have_the_job),
        cmocka_unit_test(a_handle_is_not_good_for_a_later_waiter),
        cmocka_unit_test(of_several_topics_the_first_named_is_served_first),
        cmocka_unit_test(any_of_several_topics_wakes_a_waiter),
        cmocka_unit_test(a_topic_named_twice_counts_once),
        cmocka_unit_test(who_asks_elsewhere_keeps_its_place),
        cmocka_unit_test(beyond_the_bound_a_take_is_refused_but_gets_what_there_is),
        cmocka_unit_test(a_drain_answers_everybody_and_lets_nobody_wait),
        cmocka_unit_test(an_error_of_the_queue_is_handed_on_to_each),
        cmocka_unit_test(free_answers_who_still_waits),
        cmocka_unit_test(a_taker_may_take_again_from_its_answer),
        cmocka_unit_test(nothing_is_lost_in_a_crowd),
        cmocka_unit_test(every_status_has_a_code_of_its_own_and_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
