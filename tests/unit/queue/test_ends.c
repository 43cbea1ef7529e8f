/* Waits for the ends of jobs, over a queue whose jobs end at the test's command. */
#include "queue/ends.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/fault_calls.h"

enum { WAITS_MAX = 8, LONG_MS = 1000 };

/* A queue that notes the waits for its jobs. */
static struct fake {
    struct queue queue;
    struct queue_reply_to waits[WAITS_MAX];
    size_t wait_count, cancelled;
    struct queue_reply_to pending[2 * WAITS_MAX]; /* replies to send later, as every queue does */
    enum queue_status statuses[2 * WAITS_MAX];
    size_t pending_count;
} fake;

static bool same_destination(struct queue_reply_to a, struct queue_reply_to b)
{
    return a.done == b.done && a.owner == b.owner && a.tag == b.tag;
}

static void reply(struct queue_reply_to to, enum queue_status status, const struct queue_job *job)
{
    to.done(to.owner, to.tag,
            &(struct queue_reply){.status = status, .jobs = job, .job_count = job != NULL});
}

static void reply_later(struct queue_reply_to to, enum queue_status status)
{
    fake.statuses[fake.pending_count] = status;
    fake.pending[fake.pending_count++] = to;
}

/* Sends the replies that are due. */
static void settle(void)
{
    for (size_t i = 0; i < fake.pending_count; i++)
        reply(fake.pending[i], fake.statuses[i], NULL);
    fake.pending_count = 0;
}

static void fake_submit(struct queue *queue, const struct command *command,
                        struct queue_reply_to to)
{
    (void)queue;
    assert_int_equal(command->kind, COMMAND_AWAIT);
    if (!command->await.cancels) {
        fake.waits[fake.wait_count++] = to;
        return;
    }
    for (size_t i = 0; i < fake.wait_count; i++)
        if (same_destination(fake.waits[i], *command->await.cancels)) {
            struct queue_reply_to wait = fake.waits[i];
            fake.waits[i] = fake.waits[--fake.wait_count];
            fake.cancelled++;
            reply_later(wait, QUEUE_CANCELLED);
            break;
        }
    reply_later(to, QUEUE_OK);
}

static const struct queue_ops fake_ops = {.submit = fake_submit};

/* Ends the job of the first wait. */
static void end_first(void)
{
    const struct queue_end end = {.outcome = JOB_END_ACKED, .result = slice_of("done")};
    const struct queue_job job = {.job = {.topic = slice_of("t"), .state = JOB_FINISHED},
                                  .end = &end};
    struct queue_reply_to wait = fake.waits[0];
    memmove(fake.waits, fake.waits + 1, --fake.wait_count * sizeof wait);
    reply(wait, QUEUE_OK, &job);
}

/* What the last wait ended with. */
enum { RESULT_BYTES = 4 };
static struct seen {
    int calls;
    size_t count, ended, results;
    enum queue_status first;
} seen;

static void on_done(void *owner, uint64_t tag, const struct ends_job *jobs, size_t count)
{
    (void)owner;
    (void)tag;
    seen.calls++;
    seen.count = count;
    seen.ended = seen.results = 0;
    seen.first = jobs[0].status;
    for (size_t i = 0; i < count; i++) {
        const struct queue_end *end = jobs[i].job ? jobs[i].job->end : NULL;
        seen.ended += jobs[i].job != NULL;
        seen.results += end && end->result.len && !end->omitted_bytes;
        if (end)
            assert_int_equal(end->result.len + end->omitted_bytes, RESULT_BYTES);
    }
}

/* Memory that waits may use. */
static int64_t room;

static bool count_bytes(void *ctx, int64_t bytes)
{
    (void)ctx;
    if (bytes > room)
        return false;
    room -= bytes;
    return true;
}

static const struct queue_find names[] = {{{"t", 1}, {"1", 1}},
                                          {{"t", 1}, {"2", 1}},
                                          {{"t", 1}, {"3", 1}},
                                          {{"t", 1}, {"4", 1}},
                                          {{"t", 1}, {"5", 1}}};

static struct ends_order order(size_t count, bool any)
{
    return (struct ends_order){
        .names = names, .count = count, .any = any, .wait_ms = LONG_MS, .done = on_done};
}

static struct ends *begin(size_t waiting_max)
{
    fake = (struct fake){.queue = {.ops = &fake_ops}};
    seen = (struct seen){0};
    struct ends *ends = ends_new(&fake.queue, waiting_max);
    assert_non_null(ends);
    return ends;
}

CLAIM(a_wait_for_one_job_ends_with_it)
{
    struct ends *ends = begin(4);
    struct ends_order one = order(1, false);

    assert_non_null(ends_wait(ends, &one, 0));
    assert_int_equal(ends_next_ms(ends), LONG_MS);
    end_first();
    assert_true(seen.calls == 1 && seen.ended == 1 && seen.first == QUEUE_OK);
    assert_true(ends_count(ends) == 0 && ends_next_ms(ends) == INT64_MAX);
    settle();
    ends_free(ends);
}

CLAIM(results_that_a_wait_keeps_are_counted)
{
    for (int64_t has = RESULT_BYTES - 1; has <= RESULT_BYTES; has++) {
        struct ends *ends = begin(4);
        struct ends_order all = order(2, false);
        ends_count_bytes(ends, count_bytes, NULL);
        room = has;
        assert_non_null(ends_wait(ends, &all, 0));
        end_first();
        assert_int_equal(room, has % RESULT_BYTES);
        end_first(); /* which is not kept */
        assert_true(seen.calls == 1 && seen.ended == 2);
        assert_int_equal(seen.results, has == RESULT_BYTES ? 2 : 1);
        settle();
        assert_int_equal(room, has);
        ends_free(ends);
    }
}

CLAIM(a_wait_without_memory_for_its_answer_shows_the_first_job_and_frees_all)
{
    struct ends *ends = begin(4);
    struct ends_order all = order(COUNT_OF(names), false);
    const int64_t whole = (int64_t)COUNT_OF(names) * RESULT_BYTES;
    ends_count_bytes(ends, count_bytes, NULL);
    room = whole;
    assert_non_null(ends_wait(ends, &all, 0));
    for (size_t i = 1; i < COUNT_OF(names); i++)
        end_first();
    calls_left = 1; /* after the copy of the last job */
    end_first();
    assert_true(calls_left < 0 && seen.calls == 1 && seen.count == 1 && seen.ended == 1);
    settle();
    assert_int_equal(room, whole);
    ends_free(ends);
}

CLAIM(a_wait_for_all_ends_with_the_last_job)
{
    struct ends *ends = begin(4);
    struct ends_order all = order(2, false);

    assert_non_null(ends_wait(ends, &all, 0));
    end_first();
    assert_int_equal(seen.calls, 0);
    end_first();
    assert_true(seen.calls == 1 && seen.count == 2 && seen.ended == 2);
    settle();
    ends_free(ends);
}

CLAIM(a_wait_for_any_cancels_the_other_waits)
{
    struct ends *ends = begin(4);
    struct ends_order any = order(2, true);

    assert_non_null(ends_wait(ends, &any, 0));
    end_first();
    assert_true(seen.calls == 1 && seen.count == 2 && seen.ended == 1);
    assert_true(fake.cancelled == 1 && fake.wait_count == 0);
    settle();
    ends_free(ends);
}

CLAIM(a_wait_ends_at_its_time_and_not_before)
{
    struct ends *ends = begin(4);
    struct ends_order one = order(1, false);

    assert_non_null(ends_wait(ends, &one, 5));
    ends_expire(ends, LONG_MS + 4);
    assert_int_equal(seen.calls, 0);
    ends_expire(ends, LONG_MS + 5);
    assert_true(seen.calls == 1 && seen.ended == 0 && seen.first == QUEUE_CANCELLED);
    assert_true(fake.cancelled == 1 && fake.wait_count == 0);
    settle();
    ends_free(ends);
}

CLAIM(a_cancelled_wait_calls_its_caller_no_more)
{
    struct ends *ends = begin(4);
    struct ends_order one = order(1, false);

    ends_cancel(ends_wait(ends, &one, 0));
    assert_true(seen.calls == 0 && fake.cancelled == 1 && ends_count(ends) == 0);
    settle();
    ends_free(ends);
}

CLAIM(waits_beyond_the_limit_are_refused)
{
    struct ends *ends = begin(1);
    struct ends_order one = order(1, false);

    assert_non_null(ends_wait(ends, &one, 0));
    assert_null(ends_wait(ends, &one, 0));
    end_first();
    assert_non_null(ends_wait(ends, &one, 0));
    end_first();
    settle();
    ends_free(ends);
}

CLAIM(a_push_that_is_refused_leaves_no_wait)
{
    struct ends *ends = begin(4);
    struct ends_order one = order(1, false);
    const struct queue_reply_to *ended;
    struct ends_wait *wait = ends_wait_push(ends, &one, 0, &ended);

    assert_true(wait && ended->owner);
    ends_pushed(wait, false);
    assert_true(seen.calls == 0 && ends_count(ends) == 0);
    settle();
    ends_free(ends);
}

CLAIM(a_push_that_happened_before_waits_for_its_job)
{
    struct ends *ends = begin(4);
    struct ends_order one = order(1, false);
    const struct queue_reply_to *ended;
    struct ends_wait *wait = ends_wait_push(ends, &one, 0, &ended);

    ends_pushed_before(wait);
    assert_true(seen.calls == 0 && fake.wait_count == 1 && ends_count(ends) == 1);
    end_first();
    assert_true(seen.calls == 1 && ends_count(ends) == 0);
    wait = ends_wait_push(ends, &one, 0, &ended);
    ends_expire(ends, LONG_MS);
    ends_pushed_before(wait); /* its time is over: nothing waits */
    assert_true(seen.calls == 2 && fake.wait_count == 0 && ends_count(ends) == 0);
    settle();
    ends_free(ends);
}

CLAIM(a_wait_whose_time_ends_before_its_push_is_answered_after_it)
{
    struct ends *ends = begin(4);
    struct ends_order one = order(1, false);
    const struct queue_reply_to *ended;
    struct ends_wait *wait = ends_wait_push(ends, &one, 0, &ended);

    ends_expire(ends, LONG_MS);
    assert_int_equal(seen.calls, 0);
    fake.waits[fake.wait_count++] = *ended; /* the push was carried out now */
    ends_pushed(wait, true);
    assert_true(fake.cancelled == 1 && fake.wait_count == 0 && seen.calls == 1);
    settle();
    ends_free(ends);
}

CLAIM(a_wait_that_is_ended_before_its_push_is_answered_after_it)
{
    struct ends *ends = begin(4);
    struct ends_order one = order(1, false);
    const struct queue_reply_to *ended;
    struct ends_wait *wait = ends_wait_push(ends, &one, 0, &ended);

    ends_end(wait);
    assert_int_equal(seen.calls, 0);
    fake.waits[fake.wait_count++] = *ended;
    ends_pushed(wait, true);
    assert_true(fake.cancelled == 1 && fake.wait_count == 0 && seen.calls == 1);
    settle();
    ends_free(ends);
}

CLAIM(a_drain_ends_all_waits_and_refuses_new_ones)
{
    struct ends *ends = begin(4);
    struct ends_order one = order(1, false);

    assert_non_null(ends_wait(ends, &one, 0));
    ends_drain(ends);
    assert_true(seen.calls == 1 && fake.wait_count == 0);
    assert_null(ends_wait(ends, &one, 0));
    settle();
    ends_free(ends);
}

CLAIMS_MAIN(NULL, NULL)
