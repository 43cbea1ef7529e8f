/* A server's hints about its topics after a transaction. */
#include "sql/hints.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { NOW_MS = 1000000 };

static struct sql_call call_of(struct command *command, struct queue_job *job, const char *topic)
{
    job->job.topic = slice_of(topic);
    return (struct sql_call){
        .kind = SQL_CALL_COMMAND, .command = command, .jobs = job, .job_count = 1};
}

/* The transaction is a take of topics a and b, which had its share of a, and another call, which had a job of `other`.
 * `kind` 0: that call is the server's own, for clients that wait for the end of the job. */
static int64_t hold_of_b(enum command_kind kind, const char *other)
{
    struct sql_context context = {0};
    struct sql_hints hints = {.context = &context};
    struct sql_observation observations[] = {
        {.topic = slice_of("a"), .next_ms = INT64_MAX, .seen_ms = NOW_MS},
        {.topic = slice_of("b"), .next_ms = NOW_MS - 5, .seen_ms = NOW_MS},
    };
    struct queue_job jobs[2] = {0};
    struct command take = {.kind = COMMAND_TAKE}, another = {.kind = kind};
    struct sql_call first = call_of(&take, &jobs[0], "a");
    struct sql_call second = call_of(&another, &jobs[1], other);
    if (!kind) {
        second.kind = SQL_CALL_AWAIT;
        second.command = NULL;
    }
    struct list calls;
    list_init(&calls);
    sql_topic_plan_init(&context.plan);
    list_add_last(&calls, &first.list);
    list_add_last(&calls, &second.list);
    for (size_t i = 0; i < 2; i++)
        assert_true(sql_observations_add(&first.observations, observations[i]));
    sql_hints_apply_look(&hints, &first, &calls);
    int64_t hold_ms = sql_topics_find(&context.topics, slice_of("b"))->hold_ms;
    sql_observations_fini(&first.observations);
    sql_topics_free(&context.topics);
    sql_topic_plan_fini(&context.plan);
    return hold_ms;
}

CLAIM(rows_of_another_take_in_the_transaction_are_not_foreign)
{
    assert_int_equal(hold_of_b(COMMAND_TAKE, "b"), 0);
    assert_true(hold_of_b(COMMAND_TAKE, "a") > NOW_MS); /* it waits, and no take got a job of it */
    assert_true(hold_of_b(COMMAND_LIST, "b") > NOW_MS); /* that only showed it */
    assert_true(hold_of_b(0, "b") > NOW_MS);
}

CLAIMS_MAIN(NULL, NULL)
