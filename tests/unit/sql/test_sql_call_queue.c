/* Calls between transactions: who goes with whom, in which order they come back, and that each is answered once. */
#include "sql/call_queue.h"

#include "base/clock.h"
#include "unit/cases.h"
#include "unit/claim.h"

enum { TIMEOUT_MS = 60000, REPLIES_MAX = 16 };

static struct {
    uint64_t tag;
    enum queue_status status;
} replies[REPLIES_MAX];
static size_t reply_count;

static void on_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    assert_true(reply_count < REPLIES_MAX);
    replies[reply_count].tag = tag;
    replies[reply_count++].status = reply->result_count ? reply->results[0].status : reply->status;
}

static void start(struct sql_call_queue *queue, struct list *transaction)
{
    reply_count = 0;
    sql_call_queue_init(queue, TIMEOUT_MS);
    list_init(transaction);
}

static struct sql_call *add(struct sql_call_queue *queue, uint64_t tag,
                            const struct command *command)
{
    return sql_call_queue_add(queue, command,
                              (struct queue_reply_to){.done = on_reply, .tag = tag});
}

static struct sql_call *add_push(struct sql_call_queue *queue, uint64_t tag)
{
    const struct queue_push push = {.topic = slice_of("t"), .id = slice_of("i")};
    return add(queue, tag, &(struct command){.kind = COMMAND_PUSH, .count = 1, .pushes = &push});
}

static struct sql_call *add_take(struct sql_call_queue *queue, uint64_t tag)
{
    const struct slice topic = slice_of("t");
    return add(queue, tag,
               &(struct command){.kind = COMMAND_TAKE,
                                 .take = {.topics = &topic, .topic_count = 1, .max = 1}});
}

static struct sql_call *add_topics(struct sql_call_queue *queue, uint64_t tag)
{
    return add(queue, tag, &(struct command){.kind = COMMAND_TOPICS});
}

/* The tags of a list, as digits. */
static const char *tags(const struct list *calls)
{
    static char text[REPLIES_MAX + 1];
    size_t count = 0;
    for (struct list *at = calls->next; at != calls; at = at->next)
        text[count++] = (char)('0' + list_entry(at, struct sql_call, list)->reply_to.tag);
    text[count] = '\0';
    return text;
}

static void end(struct sql_call_queue *queue, struct list *transaction)
{
    sql_call_queue_refuse_all(queue, &queue->waiting);
    sql_call_queue_refuse_all(queue, transaction);
    sql_call_queue_reply(queue);
    assert_int_equal(queue->commands, 0);
}

CLAIM(a_failed_transaction_precedes_later_calls)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    add_push(&queue, 1);
    add_take(&queue, 2);
    sql_call_queue_gather(&queue, true, &transaction);
    assert_string_equal(tags(&transaction), "12");
    add_push(&queue, 3);
    sql_call_queue_return(&queue, &transaction);
    assert_string_equal(tags(&queue.waiting), "123");
    assert_true(list_is_empty(&transaction));
    end(&queue, &transaction);
    assert_int_equal(reply_count, 3);
}

CLAIM(durable_calls_wait_for_the_disk_and_takes_overtake_them)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    add_push(&queue, 1);
    add_take(&queue, 2);
    sql_call_queue_gather(&queue, false, &transaction);
    assert_string_equal(tags(&transaction), "2");
    assert_string_equal(tags(&queue.waiting), "1");
    end(&queue, &transaction);
}

CLAIM(figures_see_earlier_calls_and_use_a_separate_transaction)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    add_topics(&queue, 1);
    add_push(&queue, 2);
    add_topics(&queue, 3);
    add_push(&queue, 4);
    sql_call_queue_gather(&queue, true, &transaction);
    assert_string_equal(tags(&transaction), "12");
    end(&queue, &transaction);
}

CLAIM(single_push_is_not_batched)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    add_push(&queue, 1);
    add_push(&queue, 2)->is_separate = true;
    add_push(&queue, 3);
    for (const char *const *want = (const char *const[]){"1", "2", "3", NULL}; *want; want++) {
        sql_call_queue_gather(&queue, true, &transaction);
        assert_string_equal(tags(&transaction), *want);
        sql_call_queue_refuse_all(&queue, &transaction);
    }
    end(&queue, &transaction);
}

/* After a retry that took so long, the next one leaves the others three quarters of the time and more. */
CLAIM(a_call_on_locked_rows_waits_and_others_overtake_it)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    struct sql_call *held = add_push(&queue, 1);
    add_push(&queue, 2);
    assert_int_equal(sql_call_queue_next_ms(&queue), INT64_MAX);
    assert_true(sql_call_queue_retry(&queue, held));
    sql_call_queue_note_retry(&queue, 10000);
    assert_in_range(sql_call_queue_next_ms(&queue), clock_boot_ms() + 20000,
                    clock_boot_ms() + 40000);
    sql_call_queue_gather(&queue, true, &transaction);
    assert_string_equal(tags(&transaction), "2");
    end(&queue, &transaction);
}

CLAIM(a_retry_ends_with_the_timeout)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    struct sql_call *call = add_push(&queue, 1);
    call->since_ms -= TIMEOUT_MS;
    assert_false(sql_call_queue_retry(&queue, call));
    end(&queue, &transaction);
}

CLAIM(late_commands_are_refused_once_and_the_servers_own_have_time)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    struct sql_call *late = add_push(&queue, 1);
    struct sql_call *own = sql_call_queue_add_own(&queue, SQL_CALL_UPKEEP);
    add_push(&queue, 2);
    late->since_ms -= TIMEOUT_MS;
    own->since_ms -= TIMEOUT_MS;
    sql_call_queue_refuse_late(&queue, &queue.waiting);
    assert_int_equal(reply_count, 0); /* never inside a call */
    sql_call_queue_reply(&queue);
    sql_call_queue_reply(&queue);
    assert_int_equal(reply_count, 1);
    assert_int_equal(replies[0].tag, 1);
    assert_int_equal(replies[0].status, QUEUE_UNAVAILABLE);
    assert_string_equal(tags(&queue.waiting), "02"); /* the own one has no tag */
    end(&queue, &transaction);
}

static struct sql_call_queue *asked_again;

static void on_reply_that_asks_again(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    on_reply(owner, tag, reply);
    add_topics(asked_again, tag + 1);
}

/* As a server does that follows the pages of its topics while it stops. */
CLAIM(calls_made_in_the_last_replies_are_answered_at_the_end)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    asked_again = &queue;
    sql_call_queue_add(&queue, &(struct command){.kind = COMMAND_TOPICS},
                       (struct queue_reply_to){.done = on_reply_that_asks_again, .tag = 1});
    sql_call_queue_end(&queue);
    assert_int_equal(reply_count, 2);
    assert_int_equal(replies[1].tag, 2);
    assert_int_equal(replies[1].status, QUEUE_UNAVAILABLE);
    assert_int_equal(queue.commands, 0);
}

/* A call with another step does not answer yet. */
CLAIM(a_step_that_is_done_waits_for_the_next_or_is_answered)
{
    struct sql_call_queue queue;
    struct list transaction;
    start(&queue, &transaction);
    struct sql_call *call = add_topics(&queue, 1);
    for (int step = 0; step < 2; step++) {
        sql_call_queue_gather(&queue, true, &transaction);
        assert_string_equal(tags(&transaction), "1");
        list_remove(&call->list);
        call->has_more = step == 0;
        sql_call_queue_step(&queue, call);
        sql_call_queue_reply(&queue);
        assert_int_equal(reply_count, step);
    }
    assert_int_equal(queue.commands, 0);
    assert_int_equal(replies[0].status, QUEUE_OK);
}

CLAIMS_MAIN(NULL, NULL)
