/* Clients of a server that wait for the end of jobs, and the rows that the database has for them. */
#include "sql/awaits.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { CLIENTS = 4, NO_REPLY = -1 };

static int replies[CLIENTS]; /* the status of each client's reply */
static struct sql_awaits awaits;

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    assert_int_equal(replies[tag], NO_REPLY);
    replies[tag] = (int)reply->status;
}

static struct queue_reply_to client(uint64_t tag)
{
    return (struct queue_reply_to){.done = on_reply, .tag = tag};
}

static int begin(void **state)
{
    (void)state;
    sql_awaits_init(&awaits);
    for (size_t i = 0; i < CLIENTS; i++)
        replies[i] = NO_REPLY;
    return 0;
}

static int end(void **state)
{
    (void)state;
    sql_awaits_fini(&awaits);
    return 0;
}

static void wait_for(uint64_t tag, const char *id)
{
    assert_true(sql_awaits_add(&awaits, slice_of("t"), slice_of(id), client(tag)));
}

static bool cancel(uint64_t tag, const char *id)
{
    struct queue_reply_to to = client(tag);
    return sql_awaits_cancel(&awaits, slice_of("t"), slice_of(id), &to);
}

/* Replies to the call with a job in a state; NULL: with none. */
static void receive(const char *id, int state, enum queue_status status)
{
    struct queue_job job = {
        .job = {.topic = slice_of("t"), .id = slice_of(id ? id : ""), .state = state}};
    sql_awaits_receive(
        &awaits, 0, &(struct queue_reply){.status = status, .jobs = &job, .job_count = id ? 1 : 0});
}

/* Sends the call. Returns the numbers of rows that it adds and removes as one. */
static size_t send_call(void)
{
    size_t fresh = sql_awaits_send(&awaits.fresh);
    return fresh * 10 + sql_awaits_send(&awaits.left);
}

CLAIM_BETWEEN(all_waits_for_a_job_end_with_it, begin, end)
{
    wait_for(0, "a");
    wait_for(1, "a");
    wait_for(2, "b");
    assert_int_equal(sql_awaits_next_ms(&awaits), 0);
    assert_int_equal(send_call(), 20);
    assert_true(sql_awaits_next_ms(&awaits) == INT64_MAX);
    receive(NULL, 0, QUEUE_OK);
    receive("a", JOB_FINISHED, QUEUE_OK);
    assert_int_equal(replies[0], QUEUE_OK);
    assert_int_equal(replies[1], QUEUE_OK);
    assert_int_equal(replies[2], NO_REPLY);
    receive("b", 0, QUEUE_OK);
    assert_int_equal(replies[2], QUEUE_NOT_FOUND);
    assert_int_equal(awaits.jobs.table.count, 0);
}

CLAIM_BETWEEN(names_with_the_same_text_are_distinguished, begin, end)
{
    assert_true(sql_awaits_add(&awaits, slice_of("tt"), slice_of("a"), client(0)));
    assert_true(sql_awaits_add(&awaits, slice_of("t"), slice_of("ta"), client(1)));
    assert_int_equal(send_call(), 20);
    receive("ta", JOB_FINISHED, QUEUE_OK);
    assert_int_equal(replies[0], NO_REPLY);
    assert_int_equal(replies[1], QUEUE_OK);
}

CLAIM_BETWEEN(the_last_cancelled_wait_removes_the_row, begin, end)
{
    wait_for(0, "a");
    wait_for(1, "a");
    (void)send_call();
    receive(NULL, 0, QUEUE_OK);
    assert_true(cancel(0, "a"));
    assert_false(cancel(0, "a"));
    assert_int_equal(replies[0], NO_REPLY); /* never inside the call */
    sql_awaits_reply(&awaits);
    assert_int_equal(replies[0], QUEUE_CANCELLED);
    assert_int_equal(send_call(), 0);
    assert_true(cancel(1, "a"));
    assert_int_equal(send_call(), 1);
    receive(NULL, 0, QUEUE_OK);
    assert_int_equal(awaits.jobs.table.count, 0);
}

CLAIM_BETWEEN(a_wait_that_begins_while_the_row_is_removed_adds_it_again, begin, end)
{
    wait_for(0, "a");
    (void)send_call();
    receive(NULL, 0, QUEUE_OK);
    assert_true(cancel(0, "a"));
    assert_int_equal(send_call(), 1);
    wait_for(1, "a");
    receive(NULL, 0, QUEUE_OK);
    assert_int_equal(send_call(), 10);
    receive("a", JOB_FINISHED, QUEUE_OK);
    assert_int_equal(replies[1], QUEUE_OK);
}

CLAIM_BETWEEN(a_failed_call_is_repeated, begin, end)
{
    wait_for(0, "a");
    assert_int_equal(send_call(), 10);
    receive(NULL, 0, QUEUE_UNAVAILABLE);
    assert_int_equal(sql_awaits_next_ms(&awaits), 0);
    assert_int_equal(send_call(), 10);
}

CLAIM_BETWEEN(a_locked_job_is_looked_up_again_later, begin, end)
{
    wait_for(0, "a");
    (void)send_call();
    receive("a", SQL_AWAIT_LOCKED, QUEUE_OK);
    assert_int_equal(replies[0], NO_REPLY);
    assert_true(sql_awaits_next_ms(&awaits) > 0);
    assert_int_equal(send_call(), 10);
}

CLAIM_BETWEEN(a_new_connection_adds_all_rows_again, begin, end)
{
    wait_for(0, "a");
    (void)send_call();
    receive(NULL, 0, QUEUE_OK);
    sql_awaits_doubt(&awaits);
    assert_int_equal(send_call(), 10);
}

/* Pushes job a with a wait of client 0. Returns the wait's row count after the result. */
static size_t push_with(struct queue_result result, bool ends_early)
{
    struct queue_reply_to to = client(0);
    struct queue_push push = {.topic = slice_of("t"), .id = slice_of("a"), .ended = &to};
    struct command command = {.kind = COMMAND_PUSH, .count = 1, .pushes = &push};
    assert_true(sql_awaits_push(&awaits, &command));
    assert_int_equal(send_call(), 0); /* the transaction of the push adds the row */
    if (ends_early)
        receive("a", JOB_FINISHED, QUEUE_OK);
    assert_int_equal(replies[0], NO_REPLY); /* the push is answered first */
    sql_awaits_pushed(&awaits, &command, &result);
    return send_call();
}

CLAIM_BETWEEN(a_push_waits_after_its_own_reply, begin, end)
{
    assert_int_equal(push_with((struct queue_result){.status = QUEUE_CREATED}, false), 10);
    receive("a", JOB_FINISHED, QUEUE_OK);
    assert_int_equal(replies[0], QUEUE_OK);
}

CLAIM_BETWEEN(the_end_of_an_earlier_job_does_not_end_the_wait_of_a_push, begin, end)
{
    assert_int_equal(push_with((struct queue_result){.status = QUEUE_CREATED}, true), 10);
    assert_int_equal(replies[0], NO_REPLY);
}

CLAIM_BETWEEN(a_refused_push_waits_for_nothing, begin, end)
{
    assert_int_equal(push_with((struct queue_result){.status = QUEUE_CONFLICT}, false), 1);
    assert_int_equal(replies[0], NO_REPLY);
}

CLAIM_BETWEEN(a_push_of_a_remembered_id_waits_for_nothing, begin, end)
{
    assert_int_equal(push_with((struct queue_result){.status = QUEUE_EXISTED}, false), 1);
}

CLAIM_BETWEEN(a_push_waits_for_the_job_that_exists, begin, end)
{
    struct queue_result existed = {.status = QUEUE_EXISTED, .state = JOB_LEASED};
    assert_int_equal(push_with(existed, false), 10);
}

CLAIMS_MAIN(NULL, NULL)
