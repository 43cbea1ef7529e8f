/* The library on one thread: what goes in comes out, and what callers may get wrong. */
#include "lib_rig.h"
#include "unit/claim.h"

#include <stdio.h>

CLAIM(a_job_comes_out_when_it_is_due_and_not_before)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    size_t bytes;

    assert_int_equal(rig_push(queue, "a", 1000), TARRY_CREATED);
    assert_int_equal(tarry_advance(queue, 1000), TARRY_OK);
    assert_null(rig_take_one(queue, 0));
    assert_int_equal(tarry_advance(queue, 1), TARRY_OK); /* delays are rounded up */
    tarry_job *job = rig_take_one(queue, 0);
    assert_non_null(job);
    assert_string_equal(tarry_job_id(job), "a");
    assert_string_equal(tarry_job_topic(job), "t");
    assert_string_equal(tarry_job_content_type(job), "");
    assert_memory_equal(tarry_job_body(job, &bytes), "body", 4);
    assert_int_equal(bytes, 4);
    assert_int_equal(tarry_job_attempt(job), 1);
    assert_int_equal(tarry_job_state(job), TARRY_STATE_LEASED);
    assert_int_equal(tarry_job_due_ms(job), RIG_START_MS + 1001);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_LEASE_ENDED);
    tarry_job_free(job);
    assert_int_equal(tarry_close(queue), TARRY_OK);
}

CLAIM(a_lease_that_ends_brings_the_job_again)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    struct tarry_attempt attempt = TARRY_ATTEMPT_INIT;

    rig_push(queue, "a", 0);
    tarry_job *first = rig_take_one(queue, 0);
    answer.lease = tarry_job_lease(first);
    assert_int_equal(strlen(answer.lease), 48);
    tarry_advance(queue, 61000 + 2000); /* the lease, and the wait after the first attempt */
    tarry_job *second = rig_take_one(queue, 0);
    assert_non_null(second);
    assert_int_equal(tarry_job_attempt(second), 2);
    assert_true(tarry_job_delivery(second) > tarry_job_delivery(first));
    assert_int_equal(tarry_ack(queue, &answer, 1, NULL), TARRY_LEASE_ENDED);
    assert_int_equal(tarry_job_history(second, 0, &attempt), TARRY_OK);
    assert_int_equal(attempt.number, 1);
    assert_int_equal(attempt.outcome, 2);
    assert_int_equal(tarry_job_history(second, 1, &attempt), TARRY_NOT_FOUND);
    answer.lease = tarry_job_lease(second);
    assert_int_equal(tarry_ack(queue, &answer, 1, NULL), TARRY_OK);
    tarry_job_free(first);
    tarry_job_free(second);
    tarry_close(queue);
}

CLAIM(a_pop_takes_for_good)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_take take = rig_take(10);
    tarry_job *jobs[10];
    size_t n;

    rig_push(queue, "a", 0);
    rig_push(queue, "b", 0);
    assert_int_equal(tarry_pop(queue, &take, 0, jobs, &n), TARRY_OK);
    assert_int_equal(n, 2);
    assert_string_equal(tarry_job_id(jobs[0]), "a");
    assert_string_equal(tarry_job_lease(jobs[0]), "");
    assert_int_equal(rig_answer(queue, tarry_ack, jobs[0]), TARRY_LEASE_ENDED);
    struct tarry_topic topic = rig_topic(queue);
    assert_int_equal(topic.acked, 2);
    assert_int_equal(topic.leased + topic.ready + topic.delayed, 0);
    tarry_job_free(jobs[0]);
    tarry_job_free(jobs[1]);
    tarry_close(queue);
}

/* The bytes of a taken job belong to its taker, whatever happens to the job and the queue. */
CLAIM(a_job_in_hand_outlives_its_end_and_the_queue)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    size_t bytes;

    rig_push(queue, "a", 0);
    tarry_job *job = rig_take_one(queue, 0);
    rig_answer(queue, tarry_ack, job);
    rig_push(queue, "a", 0);
    tarry_close(queue);
    assert_memory_equal(tarry_job_body(job, &bytes), "body", 4);
    assert_string_equal(tarry_job_id(job), "a");
    tarry_job_free(job);
}

/* A heartbeat: what was done comes again, with what it is to remember. */
CLAIM(a_job_may_come_again_with_another_body)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_again again = TARRY_AGAIN_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    size_t bytes;

    rig_push(queue, "a", 0);
    tarry_job *job = rig_take_one(queue, 0);
    again.job = job;
    again.body = "second";
    again.body_bytes = 6;
    again.delay_ms = 1000;
    assert_int_equal(tarry_again(queue, &again, 1, &result), TARRY_OK);
    assert_int_equal(result.code, TARRY_CREATED);
    assert_string_equal(result.id, "a");
    assert_int_equal(result.due_ms, RIG_START_MS + 1001);
    assert_int_equal(tarry_again(queue, &again, 1, &result), TARRY_LEASE_ENDED);
    assert_memory_equal(tarry_job_body(job, &bytes), "body", 4);
    tarry_job_free(job);
    assert_null(rig_take_one(queue, 0));
    tarry_advance(queue, 1001);
    job = rig_take_one(queue, 0);
    assert_int_equal(tarry_job_attempt(job), 1);
    assert_memory_equal(tarry_job_body(job, &bytes), "second", 6);
    assert_int_equal(bytes, 6);

    settings.dedup_window_ms = 1000;
    tarry_topic_put(queue, "t", &settings);
    again.job = job;
    again.body = NULL;
    assert_int_equal(tarry_again(queue, &again, 1, NULL), TARRY_OK); /* the id is not remembered */
    tarry_job_free(job);
    tarry_advance(queue, 1001);
    job = rig_take_one(queue, 0);
    assert_memory_equal(tarry_job_body(job, &bytes), "second", 6);
    tarry_job_free(job);
    tarry_close(queue);
}

/* The number of jobs stays the same. */
CLAIM(a_job_comes_again_in_a_topic_that_is_too_full)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_again again = TARRY_AGAIN_INIT;
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    char id[16];

    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "%d", i);
        rig_push(queue, id, 0);
    }
    tarry_job *job = rig_take_one(queue, 0);
    settings.max_jobs = 9;
    tarry_topic_put(queue, "t", &settings);
    again.job = job;
    assert_int_equal(tarry_again(queue, &again, 1, NULL), TARRY_OK);
    assert_int_equal(rig_topic(queue).ready, 10);
    tarry_job_free(job);
    tarry_close(queue);
}

CLAIM(changes_name_a_job_by_its_id)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_change changes[2] = {TARRY_CHANGE_INIT, TARRY_CHANGE_INIT};
    struct tarry_result results[2] = {TARRY_RESULT_INIT, TARRY_RESULT_INIT};
    tarry_job *job;

    rig_push(queue, "a", 5000);
    changes[0].topic = changes[1].topic = "t";
    changes[0].id = "a";
    changes[1].id = "b";
    changes[0].flags = TARRY_HAS_DELAY;
    changes[0].delay_ms = 10;
    assert_int_equal(tarry_reschedule(queue, changes, 2, results), TARRY_NOT_FOUND);
    assert_int_equal(results[0].code, TARRY_OK);
    assert_string_equal(results[0].id, "a");
    assert_int_equal(results[0].due_ms, RIG_START_MS + 11);
    assert_int_equal(results[1].code, TARRY_NOT_FOUND);
    assert_int_equal(tarry_get(queue, "t", "a", &job), TARRY_OK);
    assert_int_equal(tarry_job_due_ms(job), RIG_START_MS + 11);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_LEASE_ENDED); /* it was not taken */
    tarry_job_free(job);
    changes[0].flags = 0;
    assert_int_equal(tarry_run(queue, changes, 1, NULL), TARRY_OK);
    assert_int_equal(tarry_cancel(queue, changes, 1, results), TARRY_OK);
    assert_int_equal(results[0].code, TARRY_CANCELLED);
    assert_int_equal(tarry_get(queue, "t", "a", &job), TARRY_NOT_FOUND);
    assert_null(job);
    tarry_close(queue);
}

/* A job shows its consumer, which can be asked to let it go. */
CLAIM(a_leased_job_shows_its_consumer_and_can_be_requested)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_take take = rig_take(1);
    struct tarry_change change = TARRY_CHANGE_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    tarry_job *job, *seen;
    size_t n, bytes;

    rig_push(queue, "a", 0);
    take.consumer = "worker 7";
    assert_int_equal(tarry_take(queue, &take, 0, &job, &n), TARRY_OK);
    assert_int_equal(tarry_get(queue, "t", "a", &seen), TARRY_OK);
    assert_memory_equal(tarry_job_consumer(seen, &bytes), "worker 7", 8);
    assert_int_equal(bytes, 8);
    assert_int_equal(tarry_job_cancel_requested(seen), 0);
    tarry_job_free(seen);
    change.topic = "t";
    change.id = "a";
    assert_int_equal(tarry_cancel(queue, &change, 1, &result), TARRY_LEASED);
    change.flags = TARRY_REQUEST;
    assert_int_equal(tarry_cancel(queue, &change, 1, &result), TARRY_OK);
    assert_int_equal(result.code, TARRY_REQUESTED);
    answer.job = job;
    assert_int_equal(tarry_extend(queue, &answer, 1, &result), TARRY_OK);
    assert_int_equal(result.cancel_requested, 1);
    assert_int_equal(tarry_nack(queue, &answer, 1, &result), TARRY_OK);
    assert_int_equal(result.code, TARRY_CANCELLED);
    assert_int_equal(tarry_get(queue, "t", "a", &seen), TARRY_NOT_FOUND);
    tarry_job_free(job);
    take.consumer = " blank";
    assert_int_equal(tarry_take(queue, &take, 0, &job, &n), TARRY_BAD_OPTION);
    tarry_close(queue);
}

CLAIM(a_list_continues_at_its_cursor)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_list list = TARRY_LIST_INIT;
    tarry_job *jobs[2];
    char id[16];
    size_t n, seen = 0;

    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "%d", i);
        rig_push(queue, id, 1000 + i);
    }
    list.topic = "t";
    list.limit = 2;
    do {
        assert_int_equal(tarry_list(queue, &list, jobs, &n), TARRY_OK);
        for (size_t i = 0; i < n; i++) {
            snprintf(id, sizeof id, "%zu", seen++);
            assert_string_equal(tarry_job_id(jobs[i]), id);
            tarry_job_free(jobs[i]);
        }
    } while (list.cursor[0]);
    assert_int_equal(seen, 5);
    memset(list.cursor, 'x', sizeof list.cursor);
    assert_int_equal(tarry_list(queue, &list, jobs, &n), TARRY_BAD_CURSOR);
    tarry_close(queue);
}

CLAIM(topics_have_settings_and_figures)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    static struct tarry_topic topics[4];
    uint64_t affected;
    size_t n = 4;

    settings.max_attempts = 1;
    settings.lease_ms = 1000;
    assert_int_equal(tarry_topic_put(queue, "t", &settings), TARRY_CREATED);
    assert_int_equal(tarry_topic_put(queue, "t", &settings), TARRY_OK);
    assert_int_equal(tarry_topic_put(queue, "other", &settings), TARRY_CREATED);
    rig_push(queue, "a", 0);
    tarry_job_free(rig_take_one(queue, 0));
    tarry_advance(queue, 1001);
    assert_int_equal(rig_topic(queue).dead, 1);
    struct tarry_settings put = {.size = sizeof put};
    assert_int_equal(tarry_topic_settings(queue, "t", &put), TARRY_OK);
    assert_int_equal(put.max_attempts, 1);
    assert_int_equal(put.lease_ms, 1000);
    assert_int_equal(tarry_topic_settings(queue, "none", &put), TARRY_NOT_FOUND);
    put.size = 8;
    assert_int_equal(tarry_topic_settings(queue, "t", &put), TARRY_BAD_OPTION);
    assert_int_equal(tarry_topic_redrive(queue, "t", NULL, 0, &affected), TARRY_OK);
    assert_int_equal(affected, 1);
    assert_int_equal(tarry_topic_pause(queue, "t", 0), TARRY_OK);
    assert_null(rig_take_one(queue, 0));
    assert_int_equal(rig_topic(queue).is_paused, 1);
    assert_int_equal(tarry_topic_resume(queue, "t"), TARRY_OK);
    topics[0].size = sizeof topics[0];
    assert_int_equal(tarry_topics(queue, NULL, topics, &n), TARRY_OK);
    assert_int_equal(n, 2);
    assert_string_equal(topics[0].name, "other");
    assert_string_equal(topics[1].name, "t");
    n = 4;
    assert_int_equal(tarry_topics(queue, "other", topics, &n), TARRY_OK);
    assert_int_equal(n, 1);
    assert_int_equal(tarry_topic_purge(queue, "t", 0, &affected), TARRY_OK);
    assert_int_equal(affected, 1);
    assert_int_equal(tarry_topic_delete(queue, "t", &affected), TARRY_OK);
    topics[0].size = sizeof topics[0];
    assert_int_equal(tarry_topic_get(queue, "t", topics), TARRY_NOT_FOUND);
    tarry_close(queue);
}

/* A program of another version has structs of other lengths. */
CLAIM(structs_contain_their_size)
{
    struct {
        struct tarry_push push;
        uint64_t newer;
    } later = {TARRY_PUSH_INIT, 0};
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    tarry *queue = rig_open(TARRY_TEST_CLOCK);

    later.push.size = sizeof later;
    later.push.topic = "t";
    assert_int_equal(tarry_push(queue, &later.push, 1, NULL), TARRY_OK);
    later.newer = 1;
    assert_int_equal(tarry_push(queue, &later.push, 1, &result), TARRY_BAD_OPTION);
    assert_string_equal(result.detail, "size");
    push.topic = "t";
    push.body = "x";
    push.body_bytes = 1;
    push.delay_ms = -1; /* behind the declared end of the struct */
    push.size = offsetof(struct tarry_push, content_type);
    assert_int_equal(tarry_push(queue, &push, 1, NULL), TARRY_OK);
    push.size = 0;
    result.code = TARRY_OK;
    assert_int_equal(tarry_push(queue, &push, 1, &result), TARRY_BAD_OPTION);
    assert_int_equal(result.code, TARRY_BAD_OPTION);
    assert_string_equal(result.detail, "size");
    tarry_close(queue);
}

/* A list is written to, and has to be whole; a longer one is one of a later version. */
CLAIM(a_list_may_be_longer_and_not_shorter)
{
    struct {
        struct tarry_list list;
        uint64_t newer;
    } later = {TARRY_LIST_INIT, 0};
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    tarry_job *jobs[2];
    size_t n;

    rig_push(queue, "a", 1000);
    rig_push(queue, "b", 2000);
    later.list.size = sizeof later;
    later.list.topic = "t";
    later.list.limit = 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tarry_list(queue, &later.list, jobs, &n), TARRY_OK);
        assert_int_equal(n, 1);
        assert_string_equal(tarry_job_id(jobs[0]), i ? "b" : "a");
        tarry_job_free(jobs[0]);
    }
    later.newer = 1;
    assert_int_equal(tarry_list(queue, &later.list, jobs, &n), TARRY_BAD_OPTION);
    later.list.size = offsetof(struct tarry_list, cursor);
    assert_int_equal(tarry_list(queue, &later.list, jobs, &n), TARRY_BAD_OPTION);
    tarry_close(queue);
}

/* An older program's topic ends where it ends, a later one's has zeros behind what is known. */
CLAIM(a_topic_struct_holds_all_fields)
{
    struct {
        struct tarry_topic topic;
        char behind[8];
    } later = {.topic = {.size = sizeof later}, .behind = "behind"};
    tarry *queue = rig_open(TARRY_TEST_CLOCK);

    rig_push(queue, "a", 1000);
    assert_int_equal(tarry_topic_get(queue, "t", &later.topic), TARRY_OK);
    assert_string_equal(later.topic.name, "t");
    assert_int_equal(later.topic.delayed, 1);
    later.topic.size = offsetof(struct tarry_topic, delayed);
    assert_int_equal(tarry_topic_get(queue, "t", &later.topic), TARRY_BAD_OPTION);
    tarry_close(queue);
}

CLAIM(caller_errors_are_rejected_by_name)
{
    static const uint32_t no_wait[] = {1, 0};
    static const struct {
        int code;
        const char *detail; /* NULL: no detail */
        struct tarry_push push;
    } rows[] = {
#define PUSH(...) {.size = sizeof(struct tarry_push), __VA_ARGS__}
        {TARRY_BAD_TOPIC, NULL, PUSH(.topic = NULL)},
        {TARRY_BAD_TOPIC, NULL, PUSH(.topic = ".t")},
        {TARRY_BAD_ID, NULL, PUSH(.topic = "t", .id = "a b")},
        {TARRY_BAD_OPTION, "delay_ms", PUSH(.topic = "t", .delay_ms = -1)},
        {TARRY_BAD_OPTION, "delay_ms", PUSH(.topic = "t", .delay_ms = INT64_MAX)},
        {TARRY_BAD_OPTION, "delay_ms", PUSH(.topic = "t", .flags = TARRY_HAS_AT, .delay_ms = 1)},
        {TARRY_BAD_OPTION, "at_ms", PUSH(.topic = "t", .flags = TARRY_HAS_AT, .at_ms = INT64_MAX)},
        {TARRY_BAD_OPTION, "flags", PUSH(.topic = "t", .flags = 1u << 30)},
        {TARRY_BAD_OPTION, "priority",
         PUSH(.topic = "t", .flags = TARRY_HAS_PRIORITY, .priority = -1)},
        {TARRY_BAD_OPTION, "priority",
         PUSH(.topic = "t", .flags = TARRY_HAS_PRIORITY, .priority = 65536)},
        {TARRY_BAD_OPTION, "on_conflict", PUSH(.topic = "t", .on_conflict = 5)},
        {TARRY_BAD_OPTION, "backoff", PUSH(.topic = "t", .backoff = 5)},
        {TARRY_BAD_OPTION, "backoff", PUSH(.topic = "t", .backoff = TARRY_LIST)},
        {TARRY_BAD_OPTION, "backoff",
         PUSH(.topic = "t", .backoff = TARRY_LIST, .backoff_step_count = 1)},
        {TARRY_BAD_OPTION, "backoff",
         PUSH(.topic = "t", .backoff = TARRY_LIST, .backoff_steps_ms = no_wait,
              .backoff_step_count = 2)},
        {TARRY_BAD_OPTION, "backoff",
         PUSH(.topic = "t", .backoff = TARRY_FIXED, .backoff_first_ms = 1,
              .backoff_steps_ms = no_wait, .backoff_step_count = 1)},
        {TARRY_BAD_OPTION, "backoff", PUSH(.topic = "t", .backoff_first_ms = 1000)},
        {TARRY_BAD_OPTION, "backoff", PUSH(.topic = "t", .backoff_max_ms = 1000)},
        {TARRY_BAD_OPTION, "lease_ms", PUSH(.topic = "t", .lease_ms = 1)},
        {TARRY_BAD_OPTION, "ttl_ms", PUSH(.topic = "t", .ttl_ms = -1)},
        {TARRY_BAD_OPTION, "body", PUSH(.topic = "t", .body_bytes = 1)},
        {TARRY_BAD_OPTION, "error", PUSH(.topic = "t", .error_bytes = 1)},
        {TARRY_BAD_OPTION, "meta", PUSH(.topic = "t", .meta_bytes = 1)},
        {TARRY_BAD_OPTION, "meta", PUSH(.topic = "t", .meta = "a", .meta_bytes = 1)},
        {TARRY_BAD_OPTION, "meta", PUSH(.topic = "t", .meta = "tarry-x\0y", .meta_bytes = 10)},
        {TARRY_BODY_TOO_BIG, NULL,
         PUSH(.topic = "t", .body = rig_topics, .body_bytes = (1 << 20) + 1)},
    };
    tarry *queue = rig_open(TARRY_TEST_CLOCK);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tarry_result result = TARRY_RESULT_INIT;
        if (tarry_push(queue, &rows[i].push, 1, &result) != rows[i].code ||
            result.code != rows[i].code || !result.detail != !rows[i].detail ||
            (result.detail && strcmp(result.detail, rows[i].detail) != 0))
            fail_msg("row %zu: code %d, detail %s", i, result.code, result.detail);
    }
    struct tarry_take take = rig_take(0);
    tarry_job *job;
    size_t n;
    assert_int_equal(tarry_take(queue, &take, 0, &job, &n), TARRY_BAD_OPTION);
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    assert_int_equal(tarry_ack(queue, &answer, 1, NULL), TARRY_BAD_OPTION);
    answer.lease = "made up";
    assert_int_equal(tarry_ack(queue, &answer, 1, NULL), TARRY_LEASE_ENDED);
    tarry_close(queue);
}

CLAIM(missing_arguments_are_rejected)
{
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    struct tarry_result results[2] = {TARRY_RESULT_INIT, TARRY_RESULT_INIT};
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    struct tarry_take take = rig_take(1);
    tarry_job *job;
    size_t n;

    assert_int_equal(tarry_push(queue, NULL, 2, results), TARRY_BAD_OPTION);
    assert_int_equal(results[1].code, TARRY_BAD_OPTION);
    assert_string_equal(results[1].detail, "items");
    assert_int_equal(tarry_push(queue, NULL, 0, NULL), TARRY_OK);
    take.topics = NULL;
    assert_int_equal(tarry_take(queue, &take, 0, &job, &n), TARRY_BAD_OPTION);
    assert_int_equal(tarry_take(queue, NULL, 0, &job, &n), TARRY_BAD_OPTION);
    assert_int_equal(tarry_list(queue, NULL, &job, &n), TARRY_BAD_OPTION);
    assert_int_equal(tarry_topic_put(queue, "t", NULL), TARRY_BAD_OPTION);
    assert_int_equal(tarry_topic_get(queue, "t", NULL), TARRY_BAD_OPTION);
    settings.backoff_first_ms = 1000; /* of which kind */
    assert_int_equal(tarry_topic_put(queue, "t", &settings), TARRY_BAD_OPTION);
    rig_push(queue, "a", 0);
    job = rig_take_one(queue, 0);
    answer.job = job;
    answer.error_bytes = 3;
    assert_int_equal(tarry_nack(queue, &answer, 1, results), TARRY_BAD_OPTION);
    assert_string_equal(results[0].detail, "error");
    assert_int_equal(rig_topic(queue).leased, 1);
    tarry_job_free(job);
    tarry_close(queue);
}

CLAIM(a_queue_has_no_more_bytes_than_it_may)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    static char body[1000];
    struct tarry_push push = TARRY_PUSH_INIT;
    tarry *queue;
    int code = TARRY_OK, count = 0;

    options.memory_max = 20000;
    assert_int_equal(tarry_open(&options, &queue, NULL, 0), TARRY_OK);
    push.topic = "t";
    push.body = body;
    push.body_bytes = sizeof body;
    while (count < 100 && !(code = tarry_push(queue, &push, 1, NULL)))
        count++;
    assert_int_equal(code, TARRY_NO_SPACE);
    assert_in_range(count, 15, 19);
    tarry_job *job = rig_take_one(queue, 0);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
    assert_int_equal(tarry_push(queue, &push, 1, NULL), TARRY_OK);
    tarry_close(queue);
}

/* A job that comes again counts with its new body, in place of the old. */
CLAIM(a_job_that_comes_again_is_held_to_the_limit)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    static char body[20000];
    struct tarry_again again = TARRY_AGAIN_INIT;
    tarry *queue;

    options.memory_max = 10000;
    assert_int_equal(tarry_open(&options, &queue, NULL, 0), TARRY_OK);
    rig_push(queue, "a", 0);
    tarry_job *job = rig_take_one(queue, 0);
    again.job = job;
    again.body = body;
    again.body_bytes = sizeof body;
    assert_int_equal(tarry_again(queue, &again, 1, NULL), TARRY_NO_SPACE);
    assert_int_equal(rig_topic(queue).leased, 1);
    again.body_bytes = 9000;
    assert_int_equal(tarry_again(queue, &again, 1, NULL), TARRY_OK);
    tarry_job_free(job);
    job = rig_take_one(queue, 0);
    again.job = job;
    assert_int_equal(tarry_again(queue, &again, 1, NULL), TARRY_OK); /* as large as before */
    tarry_job_free(job);
    tarry_close(queue);
}

/* A remembered id has its entry until its window ends. */
CLAIM(ids_that_are_remembered_count)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_take take = rig_take(1);
    char id[16];
    tarry *queue;
    tarry_job *job;
    size_t n;
    int count = 0;

    options.memory_max = 20000;
    options.flags = TARRY_TEST_CLOCK;
    options.test_clock_ms = RIG_START_MS;
    assert_int_equal(tarry_open(&options, &queue, NULL, 0), TARRY_OK);
    settings.dedup_window_ms = 60000;
    tarry_topic_put(queue, "t", &settings);
    for (snprintf(id, sizeof id, "0"); count < 1000 && rig_push(queue, id, 0) == TARRY_CREATED;) {
        assert_int_equal(tarry_pop(queue, &take, 0, &job, &n), TARRY_OK);
        tarry_job_free(job);
        snprintf(id, sizeof id, "%d", ++count);
    }
    assert_in_range(count, 100, 200);
    assert_int_equal(rig_push(queue, "another", 0), TARRY_NO_SPACE);
    tarry_advance(queue, 60001);
    assert_int_equal(rig_push(queue, "another", 0), TARRY_CREATED);
    tarry_close(queue);
}

CLAIM(two_queues_are_independent)
{
    tarry *first = rig_open(TARRY_TEST_CLOCK), *second = rig_open(0);

    rig_push(first, "a", 3600000);
    rig_push(second, "a", 3600000);
    tarry_advance(first, 3600001);
    assert_int_equal(tarry_advance(second, 1), TARRY_BAD_OPTION);
    assert_null(rig_take_one(second, 0));
    tarry_job *job = rig_take_one(first, 0);
    assert_non_null(job);
    assert_int_equal(rig_answer(second, tarry_ack, job), TARRY_LEASE_ENDED);
    assert_int_equal(rig_answer(first, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
    tarry_close(first);
    tarry_close(second);
}

/* A year of 1,000 jobs that fail again and again, each of them with all its attempts. */
CLAIM(a_year_passes_from_event_to_event)
{
    enum { JOBS = 1000 };
    tarry *queue = rig_open(TARRY_TEST_CLOCK);
    char id[16];

    for (int i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "%d", i);
        rig_push(queue, id, (int64_t)i * 30000000);
    }
    for (int day = 0; day < 370; day++) {
        tarry_advance(queue, 24 * 3600 * 1000);
        for (tarry_job *job; (job = rig_take_one(queue, 0));) {
            rig_answer(queue, tarry_nack, job);
            tarry_job_free(job);
        }
    }
    struct tarry_topic topic = rig_topic(queue);
    assert_int_equal(topic.delayed + topic.ready + topic.leased, 0);
    assert_true(topic.retrying + topic.dead == JOBS && topic.dead > JOBS * 9 / 10);
    tarry_close(queue);
}

CLAIM(codes_have_names_and_sentences)
{
    assert_string_equal(tarry_code_name(TARRY_OK), "ok");
    assert_string_equal(tarry_code_name(TARRY_NOT_FOUND), "not_found");
    assert_string_equal(tarry_code_name(TARRY_LEASE_ENDED), "lease_ended");
    assert_string_equal(tarry_code_name(TARRY_TOPIC_FULL), "topic_full");
    assert_string_equal(tarry_code_name(TARRY_FORKED), "forked");
    assert_string_equal(tarry_code_name(21), "unknown");
    assert_string_equal(tarry_code_name(-1), "unknown");
    for (int code = 0; code < 200; code++) {
        bool is_known = strcmp(tarry_code_name(code), "unknown") != 0;
        assert_int_equal(is_known, strncmp(tarry_strerror(code), "the number", 10) != 0);
    }
    assert_true(tarry_version() > 0);
}

CLAIM(a_failed_open_reports_the_reason)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    tarry *queue;
    char error[200];

    options.size = 2;
    assert_int_equal(tarry_open(&options, &queue, error, sizeof error), TARRY_BAD_OPTION);
    assert_null(queue);
    assert_non_null(strstr(error, "size"));
    options.size = sizeof options;
    options.flags = 2;
    assert_int_equal(tarry_open(&options, &queue, error, sizeof error), TARRY_BAD_OPTION);
    assert_non_null(strstr(error, "flags"));
    options.flags = TARRY_TEST_CLOCK;
    options.test_clock_ms = INT64_MAX;
    assert_int_equal(tarry_open(&options, &queue, error, sizeof error), TARRY_BAD_OPTION);
    assert_non_null(strstr(error, "test_clock_ms"));
    assert_int_equal(tarry_close(NULL), TARRY_OK);
}

/* At the end of what a clock may show all that can be asked for still has a place. */
CLAIM(the_test_clock_has_an_end)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    const int64_t ten_years_ms = 3653LL * 24 * 3600 * 1000;
    tarry *queue;

    options.flags = TARRY_TEST_CLOCK;
    options.test_clock_ms = (1LL << 47) - 1;
    assert_int_equal(tarry_open(&options, &queue, NULL, 0), TARRY_OK);
    assert_int_equal(tarry_advance(queue, 2), TARRY_BAD_OPTION);
    assert_int_equal(tarry_advance(queue, 1), TARRY_OK);
    assert_int_equal(tarry_now_ms(queue), 1LL << 47);
    settings.dedup_window_ms = ten_years_ms;
    settings.ttl_ms = ten_years_ms;
    tarry_topic_put(queue, "t", &settings);
    assert_int_equal(rig_push(queue, "a", ten_years_ms), TARRY_CREATED);
    assert_int_equal(rig_push(queue, "b", 0), TARRY_CREATED);
    tarry_job *job = rig_take_one(queue, 0);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
    assert_int_equal(tarry_topic_pause(queue, "t", ten_years_ms), TARRY_OK);
    tarry_close(queue);
}

CLAIMS_MAIN(NULL, NULL)
