/* Finished jobs and waits through tarry.h, in memory and in a directory. The contract suite has the rules; these are the
 * claims about what only this API has: blocking and submitted waits, pushes that wait, interrupts, answers with results. */
#include "both_rig.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { BOTH_SHARDS = 2, LONG_MS = 20000, SHORT_MS = 30, KEEP_MS = 60000 };

static void keep(tarry *queue, uint64_t most)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    settings.keep_finished_ms = KEEP_MS;
    settings.keep_finished_max = most;
    assert_int_equal(tarry_topic_put(queue, "t", &settings), TARRY_CREATED);
}

/* Takes the next job and acks it with this result. */
static void ack_next(tarry *queue, const char *result)
{
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    tarry_job *job = rig_take_one(queue, LONG_MS);
    assert_non_null(job);
    answer.job = job;
    answer.result = result;
    answer.result_bytes = strlen(result);
    answer.result_type = "text/plain";
    assert_int_equal(tarry_ack(queue, &answer, 1, NULL), TARRY_OK);
    tarry_job_free(job);
}

static void assert_finished(const tarry_job *job, const char *id, const char *result)
{
    size_t bytes;
    assert_string_equal(tarry_job_id(job), id);
    assert_int_equal(tarry_job_state(job), TARRY_STATE_FINISHED);
    assert_int_equal(tarry_job_outcome(job), TARRY_OUTCOME_ACKED);
    assert_true(tarry_job_finished_ms(job) > 0);
    const char *at = tarry_job_result(job, &bytes);
    assert_int_equal(bytes, strlen(result));
    assert_memory_equal(at, result, bytes);
    assert_string_equal(tarry_job_result_type(job), "text/plain");
}

static struct tarry_await await_of(const char *id, uint64_t tag)
{
    struct tarry_await await = TARRY_AWAIT_INIT;
    await.topic = "t";
    await.id = id;
    await.tag = tag;
    return await;
}

BOTH(a_kept_job_is_found_and_listed_with_its_result)
{
    struct tarry_list list = TARRY_LIST_INIT;
    tarry_job *job, *jobs[4];
    size_t n;
    keep(queue, 0);
    for (int i = 0; i < 3; i++) {
        rig_push(queue, (const char *[]){"a", "b", "c"}[i], 0);
        ack_next(queue, (const char *[]){"one", "two", "three"}[i]);
    }
    assert_int_equal(tarry_get(queue, "t", "b", &job), TARRY_OK);
    assert_finished(job, "b", "two");
    tarry_job_free(job);
    assert_int_equal(rig_topic(queue).finished, 3);
    list.topic = "t";
    list.state = TARRY_STATE_FINISHED;
    list.limit = 4;
    assert_int_equal(tarry_list(queue, &list, jobs, &n), TARRY_OK);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++)
        tarry_job_free(jobs[i]);
}

BOTH(the_oldest_kept_jobs_are_dropped_and_counted)
{
    keep(queue, 4);
    for (int i = 0; i < 10; i++) {
        char id[16];
        snprintf(id, sizeof id, "j%d", i);
        rig_push(queue, id, 0);
        ack_next(queue, "");
    }
    uint64_t left = rig_topic(queue).finished;
    assert_true(left >= 2 && left <= 4);
    assert_int_equal(tarry_finished_dropped(queue), 10 - left);
}

/* ---- waits ---- */

static void *ack_later(void *queue)
{
    usleep(SHORT_MS * 1000);
    ack_next(queue, "done");
    return NULL;
}

BOTH(a_wait_returns_the_result_of_another_thread)
{
    struct tarry_await await = await_of("a", 0);
    pthread_t thread;
    tarry_job *job;
    rig_push(queue, "a", 0);
    pthread_create(&thread, NULL, ack_later, queue);
    assert_int_equal(tarry_await(queue, &await, -1, &job), TARRY_OK);
    assert_finished(job, "a", "done");
    tarry_job_free(job);
    pthread_join(thread, NULL);
    assert_int_equal(tarry_await(queue, &await, -1, &job), TARRY_NOT_FOUND); /* it was not kept */
    assert_null(job);
}

BOTH(a_push_waits_for_its_own_job)
{
    struct tarry_await await = TARRY_AWAIT_INIT;
    struct tarry_push push = TARRY_PUSH_INIT;
    pthread_t thread;
    tarry_job *job;
    push.topic = "t";
    await.push = &push;
    for (int i = 0; i < 20; i++) {
        push.id = i % 2 ? "a" : NULL;
        pthread_create(&thread, NULL, ack_later, queue);
        assert_int_equal(tarry_await(queue, &await, -1, &job), TARRY_OK);
        assert_int_equal(tarry_job_outcome(job), TARRY_OUTCOME_ACKED);
        assert_true(strlen(tarry_job_id(job)) == (i % 2 ? 1 : 26));
        tarry_job_free(job);
        pthread_join(thread, NULL);
    }
}

static void *ack_first(void *queue)
{
    ack_next(queue, "done");
    return NULL;
}

BOTH(a_push_that_waits_is_taken_by_a_thread_that_waits)
{
    struct tarry_await await = TARRY_AWAIT_INIT;
    struct tarry_push push = TARRY_PUSH_INIT;
    pthread_t thread;
    tarry_job *job;
    push.topic = "t";
    await.push = &push;
    pthread_create(&thread, NULL, ack_first, queue);
    usleep(SHORT_MS * 1000);
    assert_int_equal(tarry_await(queue, &await, LONG_MS / 2, &job), TARRY_OK);
    assert_int_equal(tarry_job_outcome(job), TARRY_OUTCOME_ACKED);
    tarry_job_free(job);
    pthread_join(thread, NULL);
}

BOTH(a_push_that_is_rejected_ends_the_wait)
{
    struct tarry_await await = TARRY_AWAIT_INIT;
    struct tarry_push push = TARRY_PUSH_INIT;
    tarry_job *job;
    push.topic = "t";
    push.id = "a";
    push.on_conflict = TARRY_REJECT;
    await.push = &push;
    rig_push(queue, "a", LONG_MS);
    assert_int_equal(tarry_await(queue, &await, -1, &job), TARRY_CONFLICT);
    assert_null(job);
    push.id = "b";
    push.priority = 70000;
    push.flags = TARRY_HAS_PRIORITY;
    assert_int_equal(tarry_await(queue, &await, -1, &job), TARRY_BAD_OPTION);
}

BOTH(a_wait_that_times_out_returns_the_job_as_it_is)
{
    struct tarry_await await = await_of("a", 0);
    tarry_job *job;
    rig_push(queue, "a", LONG_MS);
    for (int wait_ms = 0; wait_ms <= SHORT_MS; wait_ms += SHORT_MS) {
        assert_int_equal(tarry_await(queue, &await, wait_ms, &job), TARRY_OK);
        assert_int_equal(tarry_job_state(job), TARRY_STATE_DELAYED);
        assert_int_equal(tarry_job_outcome(job), 0);
        tarry_job_free(job);
    }
}

BOTH(a_dead_job_ends_the_wait_at_once)
{
    struct tarry_await await = await_of("a", 0);
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    tarry_job *job;
    rig_push(queue, "a", 0);
    job = rig_take_one(queue, 0);
    answer.job = job;
    answer.flags = TARRY_FINAL;
    assert_int_equal(tarry_nack(queue, &answer, 1, NULL), TARRY_OK);
    tarry_job_free(job);
    assert_int_equal(tarry_await(queue, &await, -1, &job), TARRY_OK);
    assert_int_equal(tarry_job_state(job), TARRY_STATE_DEAD);
    tarry_job_free(job);
}

static void *interrupt_later(void *queue)
{
    for (int i = 0; i < 1000 && !tarry_interrupt(queue, 7); i++)
        usleep(1000);
    return NULL;
}

BOTH(a_wait_can_be_interrupted)
{
    struct tarry_await await = await_of("a", 7);
    pthread_t thread;
    tarry_job *job;
    rig_push(queue, "a", LONG_MS);
    pthread_create(&thread, NULL, interrupt_later, queue);
    assert_int_equal(tarry_await(queue, &await, -1, &job), TARRY_INTERRUPTED);
    assert_null(job);
    pthread_join(thread, NULL);
    rig_push(queue, "b", 0); /* nothing of the wait is left */
    ack_next(queue, "");
}

struct callback {
    int code, count;
    char result[16];
};

static void on_done(void *owner, const struct tarry_reply *reply)
{
    struct callback *callback = owner;
    callback->count++;
    callback->code = reply->code;
    for (size_t i = 0; i < reply->job_count; i++) {
        size_t bytes;
        const char *at = tarry_job_result(reply->jobs[i], &bytes);
        snprintf(callback->result, sizeof callback->result, "%.*s", (int)bytes, at);
        tarry_job_free(reply->jobs[i]);
    }
}

static void dispatch(tarry *queue, const struct callback *callback)
{
    for (int i = 0; i < 200 && !callback->count; i++) {
        struct pollfd fd = {.fd = tarry_fd(queue), .events = POLLIN};
        (void)poll(&fd, 1, 100);
        tarry_dispatch(queue, 0);
    }
    assert_int_equal(callback->count, 1);
}

BOTH(a_submitted_wait_ends_with_a_callback)
{
    char id[8] = "a", topic[8] = "t";
    struct tarry_await await = await_of(id, 0);
    struct tarry_call call = TARRY_CALL_INIT;
    struct callback callback = {0};
    await.topic = topic;
    rig_push(queue, "a", 0);
    call.kind = TARRY_CALL_AWAIT;
    call.items = &await;
    call.n = 1;
    call.wait_ms = -1;
    assert_int_equal(tarry_submit(queue, &call, on_done, &callback), TARRY_OK);
    memset(id, 'x', sizeof id); /* it was copied */
    memset(topic, 'x', sizeof topic);
    tarry_dispatch(queue, 0);
    assert_int_equal(callback.count, 0);
    ack_next(queue, "later");
    dispatch(queue, &callback);
    assert_int_equal(callback.code, TARRY_OK);
    assert_string_equal(callback.result, "later");
}

BOTH(a_submitted_push_waits_for_its_own_job)
{
    char body[8] = "12345";
    struct tarry_await await = TARRY_AWAIT_INIT;
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_call call = TARRY_CALL_INIT;
    struct callback callback = {0};
    push.topic = "t";
    push.body = body;
    push.body_bytes = 5;
    await.push = &push;
    call.kind = TARRY_CALL_AWAIT;
    call.items = &await;
    call.n = 1;
    call.wait_ms = -1;
    assert_int_equal(tarry_submit(queue, &call, on_done, &callback), TARRY_OK);
    memset(body, 0, sizeof body);
    ack_next(queue, "pushed");
    dispatch(queue, &callback);
    assert_string_equal(callback.result, "pushed");
}

BOTH(a_close_ends_submitted_waits)
{
    struct tarry_await await = await_of("a", 0);
    struct tarry_call call = TARRY_CALL_INIT;
    struct callback callback = {0};
    rig_push(queue, "a", LONG_MS);
    call.kind = TARRY_CALL_AWAIT;
    call.items = &await;
    call.n = 1;
    call.wait_ms = -1;
    assert_int_equal(tarry_submit(queue, &call, on_done, &callback), TARRY_OK);
}

CLAIM(a_pop_ends_the_wait_for_its_job)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_await await = await_of("a", 0);
    struct tarry_take take = rig_take(1);
    struct tarry_call call = TARRY_CALL_INIT;
    struct callback popped = {0}, ended = {0};
    rig_push(queue, "a", 1000);
    call.n = 1;
    call.wait_ms = -1;
    call.kind = TARRY_CALL_AWAIT;
    call.items = &await;
    assert_int_equal(tarry_submit(queue, &call, on_done, &ended), TARRY_OK);
    call.kind = TARRY_CALL_POP;
    call.items = &take;
    assert_int_equal(tarry_submit(queue, &call, on_done, &popped), TARRY_OK);
    assert_int_equal(tarry_advance(queue, 1001), TARRY_OK);
    tarry_dispatch(queue, 0);
    assert_int_equal(popped.count, 1);
    assert_int_equal(ended.count, 1);
    assert_int_equal(ended.code, TARRY_OK);
    assert_int_equal(tarry_close(queue), TARRY_OK);
}

/* ---- what is rejected ---- */

BOTH(answers_reject_what_they_do_not_have)
{
    static char big[(1 << 20) + 1], long_text[258];
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    rig_push(queue, "a", 0);
    tarry_job *job = rig_take_one(queue, 0);
    answer.job = job;
    answer.result = big;
    answer.result_bytes = sizeof big;
    assert_int_equal(tarry_ack(queue, &answer, 1, &result), TARRY_RESULT_TOO_BIG);
    answer.result_bytes = 1;
    assert_int_equal(tarry_nack(queue, &answer, 1, &result), TARRY_BAD_OPTION);
    assert_string_equal(result.detail, "result");
    answer.result_bytes = 0;
    answer.progress = "half";
    assert_int_equal(tarry_ack(queue, &answer, 1, &result), TARRY_BAD_OPTION);
    assert_string_equal(result.detail, "progress");
    memset(long_text, 'x', sizeof long_text - 1);
    answer.progress = long_text;
    assert_int_equal(tarry_extend(queue, &answer, 1, &result), TARRY_BAD_OPTION);
    answer.progress = "\xff";
    assert_int_equal(tarry_extend(queue, &answer, 1, &result), TARRY_BAD_OPTION);
    answer.progress = "half";
    assert_int_equal(tarry_extend(queue, &answer, 1, &result), TARRY_OK);
    tarry_job_free(job);
    assert_int_equal(tarry_get(queue, "t", "a", &job), TARRY_OK);
    size_t bytes;
    const char *progress = tarry_job_progress(job, &bytes);
    assert_int_equal(bytes, 4);
    assert_memory_equal(progress, "half", 4);
    tarry_job_free(job);
}

BOTH(a_wait_names_a_job_or_pushes_one)
{
    struct tarry_await await = await_of("a", 0);
    struct tarry_push push = TARRY_PUSH_INIT;
    tarry_job *job;
    push.topic = "t";
    await.push = &push;
    assert_int_equal(tarry_await(queue, &await, 0, &job), TARRY_BAD_OPTION);
    await = await_of("a b", 0);
    assert_int_equal(tarry_await(queue, &await, 0, &job), TARRY_BAD_ID);
    await = await_of("a", 0);
    await.topic = ".";
    assert_int_equal(tarry_await(queue, &await, 0, &job), TARRY_BAD_TOPIC);
    await = (struct tarry_await)TARRY_AWAIT_INIT;
    push.once = "x";
    await.push = &push;
    assert_int_equal(tarry_await(queue, &await, 0, &job), TARRY_BAD_OPTION);
}

CLAIMS_MAIN(scratch_setup, scratch_teardown)
