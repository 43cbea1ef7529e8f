/* A server's memory of a topic: the bound is never later than now, and notifications lower it. */
#include "sql/topic.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { NOW_MS = 1000000 };

CLAIM(the_bound_stays_at_now_if_no_due_job_waits)
{
    struct sql_topic topic = {0};
    sql_topic_seen(&topic, INT64_MAX, NOW_MS, true, false);
    assert_int_equal(topic.bound_ms, NOW_MS);
    sql_topic_seen(&topic, NOW_MS + 5000, NOW_MS, true, true);
    assert_int_equal(topic.bound_ms, NOW_MS);
    assert_int_equal(topic.next_ms, NOW_MS + 5000);
}

CLAIM(the_bound_is_the_lowest_waiting_due_time_if_it_has_passed)
{
    struct sql_topic topic = {0};
    sql_topic_seen(&topic, NOW_MS - 70, NOW_MS, false, false);
    assert_int_equal(topic.bound_ms, NOW_MS - 70);
}

CLAIM(a_notified_job_behind_the_bound_lowers_it)
{
    struct sql_topic topic = {0};
    sql_topic_seen(&topic, INT64_MAX, NOW_MS, true, false);
    sql_topic_receive(&topic, NOW_MS - 3000);
    assert_int_equal(topic.bound_ms, NOW_MS - 3000);
    assert_int_equal(topic.next_ms, NOW_MS - 3000);
    sql_topic_receive(&topic, NOW_MS + 3000);
    assert_int_equal(topic.next_ms, NOW_MS - 3000);
}

/* A user's open transaction holds the job: it is tried again with growing pauses. */
CLAIM(a_take_in_vain_waits_longer_each_time_up_to_its_limit)
{
    struct sql_topic topic = {0};
    int64_t waits[5];
    for (int i = 0; i < 5; i++) {
        sql_topic_seen(&topic, NOW_MS, NOW_MS, true, false);
        waits[i] = topic.hold_ms - NOW_MS;
    }
    for (int i = 1; i < 5; i++)
        assert_true(waits[i] >= waits[i - 1]);
    assert_in_range(waits[4], waits[0], 100);
    sql_topic_receive(&topic, NOW_MS);
    assert_int_equal(topic.hold_ms, 0);
}

/* ---- the plan ---- */

CLAIM(a_plan_has_the_next_due_time_of_watched_topics_only)
{
    struct sql_topics topics = {0};
    struct sql_topic_plan plan = {0};
    sql_topic_plan_init(&plan);
    struct sql_topic *a = sql_topics_need(&topics, slice_of("a"));
    struct sql_topic *b = sql_topics_need(&topics, slice_of("b"));
    sql_topic_receive(a, NOW_MS + 5), sql_topic_plan_changed(&plan, a);
    assert_int_equal(sql_topic_plan_next_ms(&plan), INT64_MAX);
    assert_true(sql_topic_plan_watch(&plan, a, true) && sql_topic_plan_watch(&plan, b, true));
    assert_int_equal(sql_topic_plan_next_ms(&plan), NOW_MS + 5);
    sql_topic_receive(b, NOW_MS + 3), sql_topic_plan_changed(&plan, b);
    assert_int_equal(sql_topic_plan_next_ms(&plan), NOW_MS + 3);
    assert_true(sql_topic_plan_watch(&plan, b, false));
    assert_int_equal(sql_topic_plan_next_ms(&plan), NOW_MS + 5);
    sql_topics_free(&topics);
    sql_topic_plan_fini(&plan);
}

CLAIM(a_failed_check_is_repeated)
{
    struct sql_topics topics = {0};
    struct sql_topic_plan plan = {0};
    sql_topic_plan_init(&plan);
    struct sql_topic *topic = sql_topics_need(&topics, slice_of("a"));
    sql_topic_plan_look(&plan, topic);
    assert_false(sql_topic_plan_wants_look(&plan)); /* it is not watched */
    assert_true(sql_topic_plan_watch(&plan, topic, true));
    sql_topic_plan_look(&plan, topic);
    assert_true(sql_topic_plan_wants_look(&plan));
    topic->look = false, topic->asked = true; /* it is under way */
    assert_false(sql_topic_plan_wants_look(&plan));
    sql_topic_plan_looked(&plan, false);
    assert_true(sql_topic_plan_wants_look(&plan));
    topic->look = false, topic->asked = true;
    sql_topic_plan_looked(&plan, true);
    assert_false(sql_topic_plan_wants_look(&plan));
    assert_true(list_is_empty(&plan.looks));
    sql_topics_free(&topics);
    sql_topic_plan_fini(&plan);
}

CLAIMS_MAIN(NULL, NULL)
