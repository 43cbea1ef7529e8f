/* A queue of the library under a test clock, and calls in short. */
#ifndef TARRY_TESTS_LIB_RIG_H
#define TARRY_TESTS_LIB_RIG_H

#include "unit/cases.h"

#include <stdlib.h>
#include <string.h>
#include <tarry.h>

enum { RIG_START_MS = 1700000000 };

static inline tarry *rig_open(uint32_t flags)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    tarry *queue;
    char error[200] = "";

    options.flags = flags;
    options.test_clock_ms = flags & TARRY_TEST_CLOCK ? RIG_START_MS : 0;
    assert_int_equal(tarry_open(&options, &queue, error, sizeof error), TARRY_OK);
    assert_string_equal(error, "");
    return queue;
}

static inline int rig_push(tarry *queue, const char *id, int64_t delay_ms)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;

    push.topic = "t";
    push.id = id;
    push.body = "body";
    push.body_bytes = 4;
    push.delay_ms = delay_ms;
    int code = tarry_push(queue, &push, 1, &result);
    assert_true(code ? code == result.code : result.code <= TARRY_CANCELLED);
    return result.code;
}

static const char *const rig_topics[] = {"t"};

static inline struct tarry_take rig_take(uint32_t max)
{
    struct tarry_take take = TARRY_TAKE_INIT;

    take.topics = rig_topics;
    take.topic_count = 1;
    take.max = max;
    return take;
}

/* Returns the ready job, or NULL. */
static inline tarry_job *rig_take_one(tarry *queue, int64_t wait_ms)
{
    struct tarry_take take = rig_take(1);
    tarry_job *job = NULL;
    size_t n;

    assert_int_equal(tarry_take(queue, &take, wait_ms, &job, &n), TARRY_OK);
    return n ? job : NULL;
}

static inline int rig_answer(tarry *queue,
                             int (*verb)(tarry *, const struct tarry_answer *, size_t,
                                         struct tarry_result *),
                             const tarry_job *job)
{
    struct tarry_answer answer = TARRY_ANSWER_INIT;

    answer.job = job;
    return verb(queue, &answer, 1, NULL);
}

static inline struct tarry_topic rig_topic(tarry *queue)
{
    static const struct tarry_topic none;
    struct tarry_topic topic = none;

    topic.size = sizeof topic;
    assert_int_equal(tarry_topic_get(queue, "t", &topic), TARRY_OK);
    return topic;
}

#endif
