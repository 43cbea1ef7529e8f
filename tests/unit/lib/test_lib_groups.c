/* Groups, limits and holds through tarry.h, in memory and in a directory. The contract suite has the rules; these are the claims about what only this
 * API has. */
#include "both_rig.h"

#include <stdio.h>
#include <unistd.h>

enum { BOTH_SHARDS = 1, GROUPS = 4, SHARED_LIMIT = 7 };

static int push_in(tarry *queue, const char *group, const char *id)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    push.topic = "t";
    push.id = id;
    push.group = group;
    (void)tarry_push(queue, &push, 1, &result);
    return result.code;
}

static void set(tarry *queue, struct tarry_settings settings, int code)
{
    assert_int_equal(tarry_topic_put(queue, "t", &settings), code);
}

static bool is_of(const tarry_job *job, const char *group)
{
    size_t bytes;
    const char *at = tarry_job_group(job, &bytes);
    return bytes == strlen(group) && memcmp(at, group, bytes) == 0;
}

static struct tarry_group group_of(tarry *queue, const char *name)
{
    struct tarry_group group = {.size = sizeof group};
    assert_int_equal(tarry_group_get(queue, "t", name, &group), TARRY_OK);
    return group;
}

BOTH(a_job_has_its_group_and_groups_take_turns)
{
    tarry_job *jobs[4];
    size_t count;
    static const char *const ids[] = {"a1", "a2", "a3"};
    struct tarry_take take = rig_take(4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(push_in(queue, "a", ids[i]), TARRY_CREATED);
    assert_int_equal(push_in(queue, "b", "b1"), TARRY_CREATED);
    assert_int_equal(push_in(queue, NULL, "none"), TARRY_CREATED);
    assert_int_equal(push_in(queue, "", "x"), TARRY_BAD_OPTION);
    assert_int_equal(push_in(queue, "with blank", "x"), TARRY_BAD_OPTION);
    assert_int_equal(tarry_take(queue, &take, 0, jobs, &count), TARRY_OK);
    assert_int_equal(count, 4);
    assert_true(is_of(jobs[0], "a") && is_of(jobs[1], "b") && is_of(jobs[2], "") &&
                is_of(jobs[3], "a"));
    for (size_t i = 0; i < count; i++)
        tarry_job_free(jobs[i]);
}

BOTH(limits_of_topics_and_groups_are_kept_and_hold)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT, shown = TARRY_SETTINGS_INIT;
    struct tarry_topic topic = {.size = sizeof topic};
    struct tarry_group_settings own = TARRY_GROUP_SETTINGS_INIT;
    settings.limits = (struct tarry_limits){SHARED_LIMIT, 100, TARRY_PER_SECOND, 50};
    settings.group_limits.limit = 1;
    set(queue, settings, TARRY_CREATED);
    assert_int_equal(tarry_topic_settings(queue, "t", &shown), TARRY_OK);
    assert_memory_equal(&shown.limits, &settings.limits, sizeof shown.limits);
    assert_memory_equal(&shown.group_limits, &settings.group_limits, sizeof shown.group_limits);
    push_in(queue, "a", "a1");
    push_in(queue, "a", "a2");
    tarry_job *job = rig_take_one(queue, 0);
    assert_null(rig_take_one(queue, 0));
    assert_int_equal(group_of(queue, "a").held_by, TARRY_HELD_GROUP_LIMIT);
    assert_int_equal(group_of(queue, "a").leased, 1);
    assert_int_equal(tarry_topic_get(queue, "t", &topic), TARRY_OK);
    assert_int_equal(topic.held, 1);
    assert_int_equal(topic.groups, 1);
    own.limits.limit = 2;
    own.weight = 5;
    assert_int_equal(tarry_group_put(queue, "t", "a", &own), TARRY_OK);
    assert_int_equal(group_of(queue, "a").settings.weight, 5);
    tarry_job *second = rig_take_one(queue, 0);
    assert_non_null(second);
    own.limits.rate = 5; /* without its unit */
    assert_int_equal(tarry_group_put(queue, "t", "a", &own), TARRY_BAD_OPTION);
    own = (struct tarry_group_settings)TARRY_GROUP_SETTINGS_INIT;
    own.weight = 101;
    assert_int_equal(tarry_group_put(queue, "t", "a", &own), TARRY_BAD_OPTION);
    assert_int_equal(tarry_group_delete(queue, "t", "a"), TARRY_OK);
    assert_false(group_of(queue, "a").has_settings);
    assert_int_equal(tarry_group_delete(queue, "other", "a"), TARRY_NOT_FOUND);
    tarry_job_free(job);
    tarry_job_free(second);
}

BOTH(a_paused_group_and_a_hold_deliver_nothing)
{
    struct tarry_group_settings own = TARRY_GROUP_SETTINGS_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    own.is_paused = 1;
    assert_int_equal(tarry_group_put(queue, "t", "a", &own), TARRY_OK);
    push_in(queue, "a", "a1");
    assert_null(rig_take_one(queue, 0));
    assert_int_equal(group_of(queue, "a").held_by, TARRY_HELD_GROUP_PAUSED);
    assert_int_equal(tarry_group_delete(queue, "t", "a"), TARRY_OK);
    tarry_job *job = rig_take_one(queue, 0);
    assert_non_null(job);
    push_in(queue, "a", "a2");
    push_in(queue, "b", "b1");
    answer.job = job;
    answer.hold_ms = -1;
    assert_int_equal(tarry_ack(queue, &answer, 1, &result), TARRY_BAD_OPTION);
    assert_string_equal(result.detail, "hold_ms");
    answer.hold_ms = 3600 * 1000;
    assert_int_equal(tarry_ack(queue, &answer, 1, &result), TARRY_OK);
    tarry_job_free(job);
    job = rig_take_one(queue, 0);
    assert_string_equal(tarry_job_id(job), "b1");
    assert_null(rig_take_one(queue, 0));
    struct tarry_group held = group_of(queue, "a");
    assert_int_equal(held.held_by, TARRY_HELD_BY_CONSUMER);
    assert_true(held.held_until_ms > tarry_now_ms(queue));
    tarry_job_free(job);
}

BOTH(groups_are_listed_by_name_in_pages)
{
    static const char *const names[] = {"a", "b", "c"};
    struct tarry_group groups[GROUPS] = {{.size = sizeof groups[0]}};
    size_t count = 2;
    for (int i = 2; i >= 0; i--)
        push_in(queue, names[i], names[i]);
    push_in(queue, NULL, "none");
    assert_int_equal(tarry_groups(queue, "t", NULL, groups, &count), TARRY_OK);
    assert_int_equal(count, 2);
    assert_string_equal(groups[0].name, "");
    assert_string_equal(groups[1].name, "a");
    assert_int_equal(groups[1].ready, 1);
    assert_true(groups[1].oldest_ready_due_ms > 0);
    count = GROUPS;
    groups[0].size = sizeof groups[0];
    assert_int_equal(tarry_groups(queue, "t", "a", groups, &count), TARRY_OK);
    assert_int_equal(count, 2);
    assert_string_equal(groups[0].name, "b");
    assert_string_equal(groups[1].name, "c");
    count = GROUPS;
    assert_int_equal(tarry_groups(queue, "other", NULL, groups, &count), TARRY_NOT_FOUND);
    assert_int_equal(count, 0);
    count = 0;
    assert_int_equal(tarry_groups(queue, "t", NULL, groups, &count), TARRY_BAD_OPTION);
}

BOTH(a_strict_group_keeps_its_order)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    settings.group_order = TARRY_STRICT;
    set(queue, settings, TARRY_CREATED);
    push_in(queue, "a", "1");
    push_in(queue, "a", "2");
    tarry_job *job = rig_take_one(queue, 0);
    assert_null(rig_take_one(queue, 0));
    answer.job = job;
    answer.flags = TARRY_HAS_DELAY;
    answer.delay_ms = 3600 * 1000;
    assert_int_equal(tarry_nack(queue, &answer, 1, NULL), TARRY_OK);
    assert_null(rig_take_one(queue, 0));
    assert_int_equal(group_of(queue, "a").held_by, TARRY_HELD_GROUP_ORDER);
    settings.group_order = TARRY_FREE;
    set(queue, settings, TARRY_NOT_EMPTY);
    tarry_job_free(job);
}

BOTH(a_waiting_take_gets_the_job_that_a_rate_or_an_ack_releases)
{
    enum { LONG_MS = 20000 };
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_answer answer = TARRY_ANSWER_INIT;
    settings.limits = (struct tarry_limits){0, 20, TARRY_PER_SECOND, 1};
    set(queue, settings, TARRY_CREATED);
    push_in(queue, "a", "1");
    push_in(queue, "a", "2");
    tarry_job *job = rig_take_one(queue, 0);
    int64_t began_ms = tarry_now_ms(queue);
    assert_null(rig_take_one(queue, 0));
    tarry_job *second = rig_take_one(queue, LONG_MS);
    assert_string_equal(tarry_job_id(second), "2");
    assert_true(tarry_now_ms(queue) - began_ms < LONG_MS);
    tarry_job_free(job);
    answer.job = second;
    answer.hold_ms = 30;
    assert_int_equal(tarry_ack(queue, &answer, 1, NULL), TARRY_OK);
    tarry_job_free(second);
    push_in(queue, "a", "3");
    job = rig_take_one(queue, LONG_MS); /* after the hold */
    assert_string_equal(tarry_job_id(job), "3");
    tarry_job_free(job);
}

BOTH(a_group_has_at_most_max_jobs)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT, shown = TARRY_SETTINGS_INIT;
    struct tarry_group_settings own = TARRY_GROUP_SETTINGS_INIT;
    settings.group_max_jobs = 2;
    settings.flags = TARRY_ONE_SHARD;
    set(queue, settings, TARRY_CREATED);
    assert_int_equal(tarry_topic_settings(queue, "t", &shown), TARRY_OK);
    assert_int_equal(shown.group_max_jobs, 2);
    assert_int_equal(shown.flags, TARRY_ONE_SHARD);
    assert_int_equal(push_in(queue, "a", "a1"), TARRY_CREATED);
    assert_int_equal(push_in(queue, "a", "a2"), TARRY_CREATED);
    assert_int_equal(push_in(queue, "a", "a3"), TARRY_GROUP_FULL);
    assert_string_equal(tarry_code_name(TARRY_GROUP_FULL), "group_full");
    own.max_jobs = 3;
    assert_int_equal(tarry_group_put(queue, "t", "a", &own), TARRY_OK);
    assert_int_equal(group_of(queue, "a").settings.max_jobs, 3);
    assert_int_equal(push_in(queue, "a", "a3"), TARRY_CREATED);
    assert_int_equal(push_in(queue, "a", "a4"), TARRY_GROUP_FULL);
    assert_int_equal(push_in(queue, "b", "b1"), TARRY_CREATED);
}

CLAIM(a_topic_in_one_shard_of_several_has_an_exact_limit)
{
    enum { JOBS = 12 };
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    tarry *queue = rig_open_in(++rig_places, 3);
    char id[16];
    settings.limits.limit = 1; /* less than the number of shards */
    set(queue, settings, TARRY_BAD_OPTION);
    settings.flags = TARRY_ONE_SHARD;
    set(queue, settings, TARRY_CREATED);
    for (int i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "%d", i);
        assert_int_equal(push_in(queue, "a", id), TARRY_CREATED);
    }
    for (int i = 0; i < JOBS; i++) { /* in the order of the pushes */
        struct tarry_answer answer = TARRY_ANSWER_INIT;
        tarry_job *job = rig_take_one(queue, 0);
        snprintf(id, sizeof id, "%d", i);
        assert_string_equal(tarry_job_id(job), id);
        assert_null(rig_take_one(queue, 0));
        answer.job = job;
        assert_int_equal(tarry_ack(queue, &answer, 1, NULL), TARRY_OK);
        tarry_job_free(job);
    }
    assert_int_equal(push_in(queue, "a", "last"), TARRY_CREATED);
    settings.flags = 0;
    settings.limits.limit = 0;
    set(queue, settings, TARRY_NOT_EMPTY);
    assert_int_equal(tarry_close(queue), TARRY_OK);
}

CLAIM(a_directory_with_several_shards_has_strict_groups)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    tarry *queue = rig_open_in(++rig_places, 2);
    settings.group_order = TARRY_STRICT;
    set(queue, settings, TARRY_CREATED);
    for (int i = 0; i < 8; i++) {
        char id[2] = {(char)('1' + i)};
        push_in(queue, "a", id);
    }
    for (int i = 0; i < 8; i++) {
        tarry_job *job = rig_take_one(queue, 20000);
        assert_int_equal(tarry_job_id(job)[0], '1' + i);
        struct tarry_answer answer = TARRY_ANSWER_INIT;
        answer.job = job;
        assert_int_equal(tarry_ack(queue, &answer, 1, NULL), TARRY_OK);
        tarry_job_free(job);
    }
    assert_int_equal(tarry_close(queue), TARRY_OK);
}

CLAIMS_MAIN(scratch_setup, scratch_teardown)
