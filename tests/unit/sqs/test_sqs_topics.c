/* The settings of topics that the SQS front keeps. */
#include "sqs/topics.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

static const struct sqs_numbers numbers = {.visibility_s = 30, .delay_s = 5};

static bool knows(struct sqs_topics *topics, const char *name)
{
    struct sqs_numbers found;
    return sqs_topics_find(topics, slice_of(name), &found) && found.delay_s == numbers.delay_s;
}

static void add(struct sqs_topics *topics, const char *name)
{
    sqs_topics_add(topics, slice_of(name), &numbers, sqs_topics_now(topics));
}

CLAIM(a_topic_is_cached_until_it_changes)
{
    struct sqs_topics *topics = sqs_topics_new();
    assert_false(knows(topics, "a"));
    add(topics, "a");
    add(topics, "b");
    assert_true(knows(topics, "a") && knows(topics, "b"));
    sqs_topics_forget(topics, slice_of("a"));
    assert_true(!knows(topics, "a") && knows(topics, "b"));
    sqs_topics_forget(topics, slice_of(""));
    assert_false(knows(topics, "b"));
    sqs_topics_free(topics);
}

CLAIM(an_answer_from_before_a_change_is_not_kept)
{
    struct sqs_topics *topics = sqs_topics_new();
    uint32_t asked = sqs_topics_now(topics);
    sqs_topics_forget(topics, slice_of("a"));
    sqs_topics_add(topics, slice_of("a"), &numbers, asked);
    assert_false(knows(topics, "a"));
    sqs_topics_free(topics);
}

CLAIM(the_number_of_known_topics_is_limited)
{
    struct sqs_topics *topics = sqs_topics_new();
    char name[16];
    int known = 0;
    for (int i = 0; i < 3 * SQS_TOPICS_MAX; i++) {
        snprintf(name, sizeof name, "t%d", i);
        add(topics, name);
        assert_true(knows(topics, name));
    }
    for (int i = 0; i < 3 * SQS_TOPICS_MAX; i++) {
        snprintf(name, sizeof name, "t%d", i);
        known += knows(topics, name);
    }
    assert_true(known <= SQS_TOPICS_MAX);
    sqs_topics_free(topics);
}

static void count_event(void *owner, enum queue_event event, struct slice topic)
{
    (void)event;
    (void)topic;
    ++*(int *)owner;
}

CLAIM(a_change_that_the_queue_reports_removes_the_topic)
{
    int passed_on = 0;
    struct queue queue = {.on_event = count_event, .on_event_owner = &passed_on};
    struct sqs_topics *topics = sqs_topics_new();
    sqs_topics_follow(topics, &queue);
    add(topics, "a");
    queue.on_event(queue.on_event_owner, QUEUE_EVENT_DEAD, slice_of("a"));
    assert_true(knows(topics, "a"));
    queue.on_event(queue.on_event_owner, QUEUE_EVENT_TOPIC, slice_of("a"));
    assert_false(knows(topics, "a"));
    assert_int_equal(passed_on, 2);
    sqs_topics_free(topics);
    assert_ptr_equal(queue.on_event_owner, &passed_on);
}

CLAIMS_MAIN(NULL, NULL)
