/* Each allocation of the library's, and each mmap, fails once, and all from it on: the answer is TARRY_NO_MEMORY, nothing was
 * changed by a call with this answer, and afterwards everything works again. */
#define FAULT_CALLS_MMAP
#include "unit/fault_calls.h"

#include "lib_rig.h"

enum { FAULTS_MAX = 400 };

static void on_done(void *owner, const struct tarry_reply *reply)
{
    ++*(int *)owner;
    for (size_t i = 0; i < reply->job_count; i++)
        tarry_job_free(reply->jobs[i]);
}

/* Keeps a finished job. The ack is carried out, or changes nothing. */
static void finish(tarry *queue)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_take take = TARRY_TAKE_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    struct tarry_await await = TARRY_AWAIT_INIT;
    const char *const kept = "kept";
    tarry_job *job;
    size_t n;
    settings.keep_finished_ms = 1000;
    push.topic = await.topic = kept;
    push.id = await.id = "k";
    take.topics = &kept;
    take.topic_count = 1;
    if (tarry_topic_put(queue, kept, &settings) > TARRY_CREATED ||
        tarry_push(queue, &push, 1, NULL) || tarry_take(queue, &take, 0, &job, &n) || !n)
        return;
    answer.job = job;
    answer.result = "result";
    answer.result_bytes = 6;
    int code = tarry_ack(queue, &answer, 1, NULL);
    assert_true(code == TARRY_OK || code == TARRY_NO_MEMORY);
    tarry_job_free(job);
    bool is_acked = !code;
    code = tarry_await(queue, &await, 0, &job);
    assert_true(code == TARRY_OK || code == TARRY_NO_MEMORY ||
                (is_acked && code == TARRY_NOT_FOUND && tarry_finished_dropped(queue)));
    if (!code)
        assert_int_equal(tarry_job_state(job),
                         is_acked ? TARRY_STATE_FINISHED : TARRY_STATE_LEASED);
    tarry_job_free(job);
}

/* Runs a short life. Returns the number of jobs that were pushed and not taken; -1: it did not open. */
static int live(tarry **out)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_take take = rig_take(3);
    struct tarry_list list = TARRY_LIST_INIT;
    struct tarry_call call = TARRY_CALL_INIT;
    struct tarry_push push = TARRY_PUSH_INIT;
    static struct tarry_topic topics[5];
    const char *const ids[] = {"a", "b", "c", "d"};
    tarry_job *jobs[10];
    size_t n, topic_count = 5;
    int jobs_left = 0, calls = 0, code;

    options.flags = TARRY_TEST_CLOCK;
    options.test_clock_ms = RIG_START_MS;
    code = tarry_open(&options, out, NULL, 0);
    if (code) {
        assert_int_equal(code, TARRY_NO_MEMORY);
        assert_null(*out);
        return -1;
    }
    settings.lease_ms = 5000;
    take.consumer = "worker";
    code = tarry_topic_put(*out, "t", &settings);
    assert_true(code == TARRY_CREATED || code == TARRY_NO_MEMORY);
    for (int i = 0; i < 4; i++) {
        push.topic = "t";
        push.id = ids[i];
        push.ttl_ms = i == 1 ? 100000 : 0;
        code = tarry_push(*out, &push, 1, NULL);
        assert_true(code == TARRY_OK || code == TARRY_NO_MEMORY);
        jobs_left += code == TARRY_OK;
    }
    code = tarry_take(*out, &take, 0, jobs, &n);
    assert_true(code == TARRY_OK || (code == TARRY_NO_MEMORY && n == 0));
    if (!code && !n && jobs_left) /* else one who waits would sleep beside a ready job */
        assert_int_equal(rig_topic(*out).ready, 0);
    for (size_t i = 0; i < n; i++) {
        code = rig_answer(*out, i == 0 ? tarry_ack : tarry_nack, jobs[i]);
        assert_int_equal(code, TARRY_OK); /* what answers a lease needs no memory */
        jobs_left -= i == 0;
        tarry_job_free(jobs[i]);
    }
    finish(*out);
    push.id = "p";
    code = tarry_push(*out, &push, 1, NULL);
    assert_true(code == TARRY_OK || code == TARRY_NO_MEMORY);
    jobs_left += code == TARRY_OK;
    code = tarry_pop(*out, &take, 0, jobs, &n);
    assert_true(code == TARRY_OK || (code == TARRY_NO_MEMORY && n == 0));
    jobs_left -= (int)n;
    for (size_t i = 0; i < n; i++)
        tarry_job_free(jobs[i]);
    push.id = "e";
    call.kind = TARRY_CALL_PUSH;
    call.items = &push;
    call.n = 1;
    code = tarry_submit(*out, &call, on_done, &calls);
    assert_true(code == TARRY_OK || code == TARRY_NO_MEMORY);
    call.kind = TARRY_CALL_TAKE;
    call.items = &take;
    code = tarry_submit(*out, &call, on_done, &calls);
    assert_true(code == TARRY_OK || code == TARRY_NO_MEMORY);
    tarry_dispatch(*out, 0);
    assert_int_equal(tarry_advance(*out, 10000), TARRY_OK);
    list.topic = "t";
    list.limit = 10;
    code = tarry_list(*out, &list, jobs, &n);
    assert_true(code == TARRY_OK || code == TARRY_NO_MEMORY || code == TARRY_NOT_FOUND);
    for (size_t i = 0; i < n; i++)
        tarry_job_free(jobs[i]);
    topics[0].size = sizeof topics[0];
    code = tarry_topics(*out, NULL, topics, &topic_count);
    assert_true(code == TARRY_OK || code == TARRY_NO_MEMORY);
    return jobs_left;
}

/* Answers are true: the reported jobs exist, and come out. */
static void all_are_there(tarry *queue, int least)
{
    struct tarry_take take = rig_take(10);
    tarry_job *jobs[10];
    size_t n;
    int found = 0;

    for (int round = 0; round < 40; round++) {
        tarry_advance(queue, 600000);
        int code = tarry_pop(queue, &take, 0, jobs, &n);
        assert_int_equal(code, TARRY_OK);
        found += (int)n;
        for (size_t i = 0; i < n; i++)
            tarry_job_free(jobs[i]);
    }
    if (found < least - 1) /* "b" may have expired */
        fail_msg("%d jobs of %d", found, least);
    struct tarry_push push = TARRY_PUSH_INIT;
    push.topic = "t";
    assert_int_equal(tarry_push(queue, &push, 1, NULL), TARRY_OK);
}

static void fail_each(bool for_ever)
{
    int opened = 0;
    for (int64_t at = 0; at < FAULTS_MAX; at++) {
        tarry *queue = NULL;
        fail_for_ever = for_ever;
        failed = 0;
        calls_left = at;
        int jobs = live(&queue);
        calls_left = -1;
        fail_for_ever = false;
        bool has_failed = failed > 0;
        if (queue) {
            all_are_there(queue, jobs);
            assert_int_equal(tarry_close(queue), TARRY_OK);
            opened++;
        }
        if (!has_failed) {
            assert_true(opened > 10); /* else nothing but the opening was tried */
            return;
        }
    }
    fail_msg("there is no end of allocations");
}

static void one_allocation_that_fails_is_an_answer(void **state)
{
    (void)state;
    fail_each(false);
}

static void no_memory_from_some_moment_on_is_an_answer(void **state)
{
    (void)state;
    fail_each(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_allocation_that_fails_is_an_answer),
        cmocka_unit_test(no_memory_from_some_moment_on_is_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
