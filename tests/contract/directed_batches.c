/* Claims about jobs that wait for other jobs (job/batch.h). The model does not know them, so these claims call the queue directly. */
#include "directed.h"

#include "base/clock.h"
#include "queue/life.h"

#include <stdlib.h>

enum { LEASE_MS = 60 * 1000, HOUR_MS = 3600 * 1000 };

static const struct driver *driver(void)
{
    return w->client.driver;
}

#define NEEDS_BATCHES()                                                                            \
    (void)state;                                                                                   \
    if (!driver()->batches)                                                                        \
    skip()

/* ---- the clock ---- */

static void pass_time(int64_t ms)
{
    clock_fake_advance(ms);
    driver()->moved(w->client.self);
}

static void reopen(void)
{
    client_begin(&w->client);
    assert_true(client_reopen(&w->client));
}

/* ---- pushes ---- */

static enum queue_status push_with(struct queue_push push, struct queue_batch batch)
{
    push.batch = &batch;
    return client_push(&w->client, &push, 1)->results[0].status;
}

static enum queue_status push_waiting(const char *id, struct queue_batch batch)
{
    batch.waits = true;
    return push_with(a_push(id), batch);
}

static struct queue_batch of(const char *waiting)
{
    return (struct queue_batch){.topic = slice_of("t"), .id = slice_of(waiting)};
}

/* Pushes a member of the batch of `waiting` into the topic "m". */
static struct queue_push a_member(const char *id)
{
    struct queue_push push = a_push(id);
    push.topic = slice_of("m");
    return push;
}

static enum queue_status push_member(const char *id, const char *waiting)
{
    return push_with(a_member(id), of(waiting));
}

static enum queue_status push_child(const char *id, const char *waiting, struct slice parent)
{
    struct queue_batch batch = of(waiting);
    batch.parent = parent;
    return push_with(a_member(id), batch);
}

/* Pushes the waiting job "w" with the members "a" and "b". Its batch stays open. */
static void begin_two(enum batch_on_dead on_dead)
{
    assert_int_equal(push_waiting("w", (struct queue_batch){.on_dead = on_dead}), QUEUE_CREATED);
    assert_int_equal(push_member("a", "w"), QUEUE_CREATED);
    assert_int_equal(push_member("b", "w"), QUEUE_CREATED);
}

/* ---- changes ---- */

static enum queue_status change(enum queue_change_verb verb, const char *topic, const char *id,
                                bool members)
{
    return client_change(&w->client,
                         &(struct queue_change){.verb = verb,
                                                .topic = slice_of(topic),
                                                .id = slice_of(id),
                                                .when = {.due = QUEUE_DUE_UNCHANGED},
                                                .priority = QUEUE_PRIORITY_UNSET,
                                                .members = members},
                         1)
        ->results[0]
        .status;
}

static enum queue_status close_batch(const char *id)
{
    return change(QUEUE_CLOSE, "t", id, false);
}

static enum queue_status delay_waiting(const char *id, int64_t delay_ms)
{
    return client_change(&w->client,
                         &(struct queue_change){.verb = QUEUE_RESCHEDULE,
                                                .topic = slice_of("t"),
                                                .id = slice_of(id),
                                                .when = {.due = QUEUE_DUE_DELAY, .ms = delay_ms},
                                                .priority = QUEUE_PRIORITY_UNSET},
                         1)
        ->results[0]
        .status;
}

static const struct queue_reply *call_topic(enum queue_topic_verb verb, const char *topic)
{
    return client_topic(&w->client,
                        &(struct queue_topic_call){.verb = verb, .topic = slice_of(topic)});
}

/* ---- taking and answering ---- */

static char lease_text[8][QUEUE_LEASE_TEXT_BYTES_MAX + 1];
static size_t lease_count;
static char batch_text[BATCH_META_BYTES_MAX]; /* the outcome in the meta of the last job taken */

static enum job_state state_in(const char *topic, const char *id);

/* Takes one job of a topic and expects it to be `id`. Returns its lease, good until the next 8 takes. With several shards any ready job of
 * the topic may come first, so the job is taken by its id, and must be ready. */
static struct slice take_of(const char *topic, const char *id)
{
    struct slice name = slice_of(topic);
    struct queue_take take = {.topics = &name, .topic_count = 1, .max = 1, .lease_ms = LEASE_MS};
    if (driver()->shards > 1) {
        assert_int_equal(state_in(topic, id), JOB_READY);
        take.id = slice_of(id);
    }
    const struct queue_reply *reply = client_take(&w->client, &take);
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->job_count, 1);
    assert_true(slice_is(reply->jobs[0].job.id, id));
    struct slice lease = reply->jobs[0].lease;
    struct slice meta = job_meta_find(reply->jobs[0].job.meta, slice_of(JOB_META_BATCH));
    char *text = lease_text[lease_count++ % 8];
    memcpy(text, lease.at, lease.len);
    snprintf(batch_text, sizeof batch_text, "%.*s", (int)meta.len, meta.at ? meta.at : "");
    return slice_make(text, lease.len);
}

static void expect_none(const char *topic)
{
    struct slice name = slice_of(topic);
    const struct queue_reply *reply = client_take(
        &w->client,
        &(struct queue_take){.topics = &name, .topic_count = 1, .max = 1, .lease_ms = LEASE_MS});
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->job_count, 0);
}

static enum queue_status answer(enum queue_verb verb, struct slice lease)
{
    struct queue_again again = {.when = {.due = QUEUE_DUE_NOW}, .priority = QUEUE_PRIORITY_UNSET};
    return client_answer(&w->client,
                         &(struct queue_answer){.verb = verb,
                                                .lease = lease,
                                                .delay_ms = verb == QUEUE_NACK ? 0 : -1,
                                                .again = verb == QUEUE_AGAIN ? &again : NULL},
                         1)
        ->results[0]
        .status;
}

static enum queue_status die(struct slice lease)
{
    return client_answer(&w->client,
                         &(struct queue_answer){
                             .verb = QUEUE_NACK, .lease = lease, .delay_ms = -1, .final = true},
                         1)
        ->results[0]
        .status;
}

static void ack_member(const char *id)
{
    assert_int_equal(answer(QUEUE_ACK, take_of("m", id)), QUEUE_OK);
}

/* Takes the waiting job and expects the outcome of its batch. */
static struct slice take_waiting(const char *id, const char *outcome)
{
    struct slice lease = take_of("t", id);
    assert_string_equal(batch_text, outcome);
    return lease;
}

/* ---- looking ---- */

static const struct queue_job *get(const char *topic, const char *id)
{
    const struct queue_reply *reply = client_get(&w->client, slice_of(topic), slice_of(id));
    return reply->job_count ? &reply->jobs[0] : NULL;
}

static enum job_state state_in(const char *topic, const char *id)
{
    const struct queue_job *job = get(topic, id);
    return job ? job->job.state : 0;
}

static struct queue_waiting waiting_of(const char *id)
{
    const struct queue_job *job = get("t", id);
    assert_non_null(job);
    assert_non_null(job->waiting);
    return *job->waiting;
}

static void expect_waits_for(const char *id, uint64_t members)
{
    const struct queue_job *job = get("t", id);
    assert_non_null(job);
    assert_int_equal(job->job.state, JOB_DELAYED);
    assert_int_equal(job->job.due_ms, 0);
    struct queue_waiting waiting = waiting_of(id);
    assert_false(waiting.has_ended);
    assert_int_equal(batch_waits_for(&waiting.counts, waiting.on_dead), members);
    expect_none("t");
}

/* Waits until the batch of `id` waits for so many members. With several shards, a stop and an expiry reach the others a moment later. */
static void await_members(const char *id, uint64_t members)
{
    enum { PATIENCE_US = 20 * 1000 * 1000 };
    int64_t until_us = clock_boot_us() + PATIENCE_US;
    struct queue_waiting waiting = waiting_of(id);
    while (driver()->shards > 1 && clock_boot_us() < until_us) {
        if (batch_waits_for(&waiting.counts, waiting.on_dead) == members)
            break;
        driver_rest();
        waiting = waiting_of(id);
    }
    assert_int_equal(batch_waits_for(&waiting.counts, waiting.on_dead), members);
}

/* ---- the claims ---- */

static void completes_after_the_last_member(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    expect_waits_for("w", 2);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    ack_member("a");
    expect_waits_for("w", 1);
    ack_member("b");
    struct slice lease = take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
    assert_int_equal(answer(QUEUE_NACK, lease), QUEUE_OK); /* the next delivery has the same meta */
    lease = take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
    assert_int_equal(answer(QUEUE_ACK, lease), QUEUE_OK);
    expect_none("t");
    assert_int_equal(close_batch("w"), QUEUE_NOT_FOUND);
}

static void does_not_complete_before_close(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    ack_member("a");
    ack_member("b");
    expect_waits_for("w", 0);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
    assert_int_equal(close_batch("w"), QUEUE_OK);
}

static void an_empty_batch_completes_on_close(void **state)
{
    NEEDS_BATCHES();
    assert_int_equal(push_waiting("w", (struct queue_batch){0}), QUEUE_CREATED);
    expect_waits_for("w", 0);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    take_waiting("w", "acked=0 dead=0 cancelled=0 expired=0 missing=0");
}

static void the_last_expected_member_closes_the_batch(void **state)
{
    NEEDS_BATCHES();
    assert_int_equal(push_waiting("w", (struct queue_batch){.members = 2}), QUEUE_CREATED);
    assert_int_equal(push_member("a", "w"), QUEUE_CREATED);
    ack_member("a");
    expect_waits_for("w", 0);
    assert_int_equal(push_member("b", "w"), QUEUE_CREATED);
    assert_int_equal(push_member("c", "w"), QUEUE_BATCH_CLOSED);
    ack_member("b");
    take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
}

static void a_repeated_ack_counts_once(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    struct slice lease = take_of("m", "a");
    assert_int_equal(answer(QUEUE_ACK, lease), QUEUE_OK);
    assert_int_equal(answer(QUEUE_ACK, lease), QUEUE_LEASE_ENDED);
    expect_waits_for("w", 1);
}

static void attempts_do_not_count(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    for (int i = 0; i < 3; i++) {
        struct slice a = take_of("m", "a"), b = take_of("m", "b");
        assert_int_equal(answer(QUEUE_NACK, a), QUEUE_OK);
        assert_int_equal(answer(QUEUE_NACK, b), QUEUE_OK);
    }
    assert_int_equal(answer(QUEUE_RETURN, take_of("m", "a")), QUEUE_OK);
    expect_waits_for("w", 2);
    take_of("m", "a");
    take_of("m", "b");
    pass_time(LEASE_MS + HOUR_MS);
    expect_waits_for("w", 2);
}

static void a_member_that_is_pushed_again_has_not_ended(void **state)
{
    NEEDS_BATCHES();
    if (driver()->lacks & DRIVER_LACKS_AGAIN)
        skip();
    assert_int_equal(push_waiting("w", (struct queue_batch){0}), QUEUE_CREATED);
    assert_int_equal(push_member("a", "w"), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(answer(QUEUE_AGAIN, take_of("m", "a")), QUEUE_CREATED);
    expect_waits_for("w", 1);
    reopen();
    expect_waits_for("w", 1);
    ack_member("a");
    take_waiting("w", "acked=1 dead=0 cancelled=0 expired=0 missing=0");
}

static void a_successor_stays_the_member(void **state)
{
    NEEDS_BATCHES();
    assert_int_equal(push_waiting("w", (struct queue_batch){0}), QUEUE_CREATED);
    assert_int_equal(push_member("a", "w"), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    struct slice lease = take_of("m", "a");
    struct queue_push push = a_member("a");
    push.on_conflict = CONFLICT_AFTER;
    assert_int_equal(client_push(&w->client, &push, 1)->results[0].status, QUEUE_CREATED);
    assert_int_equal(answer(QUEUE_ACK, lease), QUEUE_OK);
    expect_waits_for("w", 1);
    ack_member("a");
    take_waiting("w", "acked=1 dead=0 cancelled=0 expired=0 missing=0");
}

static void a_replaced_member_stays_the_member(void **state)
{
    NEEDS_BATCHES();
    struct queue_push push = a_member("a");
    begin_two(BATCH_GO);
    assert_int_equal(push_waiting("x", (struct queue_batch){0}), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(push_member("a", "x"), QUEUE_CONFLICT);
    assert_int_equal(client_push(&w->client, &push, 1)->results[0].status, QUEUE_REPLACED);
    assert_int_equal(push_member("b", "w"), QUEUE_REPLACED);
    expect_waits_for("w", 2);
    reopen();
    ack_member("a");
    ack_member("b");
    take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
}

static void a_dead_member_has_ended(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(die(take_of("m", "a")), QUEUE_OK);
    expect_waits_for("w", 1);
    ack_member("b");
    struct slice lease = take_waiting("w", "acked=1 dead=1 cancelled=0 expired=0 missing=0");
    /* After the end of the wait nothing counts. */
    assert_int_equal(call_topic(QUEUE_TOPIC_REDRIVE, "m")->status, QUEUE_OK);
    ack_member("a");
    assert_int_equal(answer(QUEUE_NACK, lease), QUEUE_OK);
    take_waiting("w", "acked=1 dead=1 cancelled=0 expired=0 missing=0");
}

static void a_redriven_member_has_not_ended(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(die(take_of("m", "a")), QUEUE_OK);
    assert_int_equal(call_topic(QUEUE_TOPIC_REDRIVE, "m")->status, QUEUE_OK);
    expect_waits_for("w", 2);
}

static void a_redriven_member_completes_a_held_batch(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_HOLD);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(die(take_of("m", "a")), QUEUE_OK);
    ack_member("b");
    expect_waits_for("w", 1);
    assert_int_equal(call_topic(QUEUE_TOPIC_REDRIVE, "m")->status, QUEUE_OK);
    expect_waits_for("w", 1);
    ack_member("a");
    take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
}

static void a_cancelled_dead_member_completes_a_held_batch(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_HOLD);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(die(take_of("m", "a")), QUEUE_OK);
    ack_member("b");
    assert_int_equal(change(QUEUE_CANCEL, "m", "a", false), QUEUE_CANCELLED);
    take_waiting("w", "acked=1 dead=0 cancelled=1 expired=0 missing=0");
}

static void stop_cancels_waiting_members(void **state)
{
    NEEDS_BATCHES();
    struct queue_push far = a_member("far");
    far.when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = HOUR_MS};
    begin_two(BATCH_STOP);
    assert_int_equal(push_member("c", "w"), QUEUE_CREATED);
    assert_int_equal(push_with(far, of("w")), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    struct slice a = take_of("m", "a"), b = take_of("m", "b");
    assert_int_equal(die(a), QUEUE_OK);
    await_members("w", 1);
    expect_waits_for("w", 1);
    assert_int_equal(state_in("m", "c"), 0);
    assert_int_equal(state_in("m", "far"), 0);
    expect_none("m");
    const struct queue_reply *reply = client_answer(
        &w->client, &(struct queue_answer){.verb = QUEUE_EXTEND, .lease = b, .lease_ms = LEASE_MS},
        1);
    assert_int_equal(reply->results[0].status, QUEUE_OK);
    assert_true(reply->results[0].cancel_requested);
    assert_int_equal(answer(QUEUE_NACK, b), QUEUE_CANCELLED);
    take_waiting("w", "acked=0 dead=1 cancelled=3 expired=0 missing=0");
    reopen();
    pass_time(2 * (int64_t)HOUR_MS);
    expect_none("m");
    assert_int_equal(call_topic(QUEUE_TOPIC_GET, "m")->topics[0].counts.delayed, 0);
    /* A dead member may be tried again. */
    assert_int_equal(call_topic(QUEUE_TOPIC_REDRIVE, "m")->status, QUEUE_OK);
    reopen();
    ack_member("a");
}

static void a_member_redriven_after_a_stop_is_an_ordinary_job(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_STOP);
    assert_int_equal(push_member("c", "w"), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    struct slice a = take_of("m", "a"), b = take_of("m", "b"), c = take_of("m", "c");
    assert_int_equal(die(a), QUEUE_OK);
    assert_int_equal(call_topic(QUEUE_TOPIC_REDRIVE, "m")->status, QUEUE_OK);
    assert_int_equal(answer(QUEUE_NACK, take_of("m", "a")), QUEUE_OK); /* it is retried */
    assert_int_equal(die(take_of("m", "a")), QUEUE_OK);
    assert_int_equal(call_topic(QUEUE_TOPIC_REDRIVE, "m")->status, QUEUE_OK);
    reopen();
    ack_member("a");
    expect_waits_for("w", 2);
    assert_int_equal(answer(QUEUE_ACK, b), QUEUE_OK);
    expect_waits_for("w", 1);
    assert_int_equal(answer(QUEUE_NACK, c), QUEUE_CANCELLED);
    take_waiting("w", "acked=1 dead=1 cancelled=1 expired=0 missing=0");
}

static void a_push_that_keeps_a_job_of_another_batch_is_a_conflict(void **state)
{
    NEEDS_BATCHES();
    struct queue_push a = a_member("a"), alone = a_member("alone"), self = a_push("w");
    a.on_conflict = alone.on_conflict = self.on_conflict = CONFLICT_KEEP;
    begin_two(BATCH_GO);
    assert_int_equal(push_waiting("x", (struct queue_batch){0}), QUEUE_CREATED);
    assert_int_equal(client_push(&w->client, &alone, 1)->results[0].status, QUEUE_CREATED);
    assert_int_equal(push_with(a, of("w")), QUEUE_EXISTED);
    assert_int_equal(push_with(a, of("x")), QUEUE_CONFLICT);
    assert_int_equal(push_with(alone, of("w")), QUEUE_CONFLICT);
    assert_int_equal(push_with(self, of("w")), QUEUE_CONFLICT);
    assert_int_equal(client_push(&w->client, &a, 1)->results[0].status, QUEUE_EXISTED);
}

static void a_dead_member_that_is_removed_after_a_stop_counts_as_cancelled(void **state)
{
    NEEDS_BATCHES();
    for (int is_purge = 0; is_purge < 2; is_purge++) {
        begin_two(BATCH_STOP);
        assert_int_equal(push_member("c", "w"), QUEUE_CREATED);
        assert_int_equal(close_batch("w"), QUEUE_OK);
        struct slice a = take_of("m", "a"), b = take_of("m", "b");
        assert_int_equal(die(a), QUEUE_OK);
        reopen();
        if (is_purge)
            assert_int_equal(call_topic(QUEUE_TOPIC_PURGE, "m")->status, QUEUE_OK);
        else
            assert_int_equal(change(QUEUE_CANCEL, "m", "a", false), QUEUE_CANCELLED);
        await_members("w", 1);
        assert_int_equal(answer(QUEUE_ACK, b), QUEUE_OK);
        struct slice w_lease = take_waiting("w", "acked=1 dead=0 cancelled=2 expired=0 missing=0");
        assert_int_equal(answer(QUEUE_ACK, w_lease), QUEUE_OK);
    }
}

static void a_redriven_member_of_a_stopped_batch_does_not_count_again(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_STOP);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    struct slice a = take_of("m", "a"), b = take_of("m", "b");
    assert_int_equal(die(a), QUEUE_OK);
    assert_int_equal(call_topic(QUEUE_TOPIC_REDRIVE, "m")->status, QUEUE_OK);
    assert_int_equal(die(take_of("m", "a")), QUEUE_OK);
    assert_int_equal(change(QUEUE_CANCEL, "m", "a", false), QUEUE_CANCELLED);
    assert_int_equal(answer(QUEUE_ACK, b), QUEUE_OK);
    take_waiting("w", "acked=1 dead=1 cancelled=0 expired=0 missing=0");
}

static void a_dead_member_of_a_stopped_batch_that_is_replaced_does_not_count_again(void **state)
{
    NEEDS_BATCHES();
    struct queue_push push = a_member("a");
    begin_two(BATCH_STOP);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    struct slice a = take_of("m", "a"), b = take_of("m", "b");
    assert_int_equal(die(a), QUEUE_OK);
    assert_int_equal(client_push(&w->client, &push, 1)->results[0].status, QUEUE_REPLACED);
    ack_member("a");
    assert_int_equal(answer(QUEUE_ACK, b), QUEUE_OK);
    take_waiting("w", "acked=1 dead=1 cancelled=0 expired=0 missing=0");
}

static void an_id_of_a_stopped_member_may_be_used_again(void **state)
{
    NEEDS_BATCHES();
    struct queue_push push = a_member("b");
    begin_two(BATCH_STOP);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(die(take_of("m", "a")), QUEUE_OK);
    await_members("w", 0);
    assert_int_equal(client_push(&w->client, &push, 1)->results[0].status, QUEUE_CREATED);
    ack_member("b");
    take_waiting("w", "acked=0 dead=1 cancelled=1 expired=0 missing=0");
}

static void a_member_that_adds_one_keeps_the_batch_open(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    struct slice a = take_of("m", "a"), b = take_of("m", "b");
    assert_int_equal(push_child("c", "w", a), QUEUE_CREATED);
    assert_int_equal(answer(QUEUE_ACK, a), QUEUE_OK);
    assert_int_equal(answer(QUEUE_ACK, b), QUEUE_OK);
    expect_waits_for("w", 1);
    assert_int_equal(push_child("d", "w", a), QUEUE_BATCH_CLOSED); /* its lease has ended */
    ack_member("c");
    take_waiting("w", "acked=3 dead=0 cancelled=0 expired=0 missing=0");
}

static void a_closed_batch_rejects_members(void **state)
{
    NEEDS_BATCHES();
    assert_int_equal(push_member("a", "w"), QUEUE_NO_BATCH);
    begin_two(BATCH_GO);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(push_member("c", "w"), QUEUE_BATCH_CLOSED);
    struct queue_push plain = a_push("plain");
    assert_int_equal(client_push(&w->client, &plain, 1)->results[0].status, QUEUE_CREATED);
    assert_int_equal(push_child("c", "w", take_of("t", "plain")), QUEUE_BATCH_CLOSED);
    assert_int_equal(state_in("m", "c"), 0);
    ack_member("a");
    ack_member("b");
    assert_int_equal(push_member("c", "w"), QUEUE_BATCH_CLOSED);
    take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
}

static void an_unclosed_batch_dies_with_a_reason(void **state)
{
    NEEDS_BATCHES();
    assert_int_equal(push_waiting("w", (struct queue_batch){.close_within_ms = 1000}),
                     QUEUE_CREATED);
    assert_int_equal(push_member("a", "w"), QUEUE_CREATED);
    pass_time(900);
    expect_waits_for("w", 1);
    pass_time(200);
    assert_int_equal(state_in("t", "w"), JOB_DEAD);
    assert_true(slice_is(get("t", "w")->job.error, BATCH_NOT_CLOSED));
    assert_int_equal(push_member("b", "w"), QUEUE_CREATED); /* members continue */
    ack_member("a");
    reopen();
    assert_int_equal(call_topic(QUEUE_TOPIC_REDRIVE, "t")->status, QUEUE_OK);
    expect_waits_for("w", 1);
    assert_int_equal(push_member("c", "w"), QUEUE_BATCH_CLOSED);
    ack_member("b");
    take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
}

static void wait_at_most_ends_the_wait(void **state)
{
    NEEDS_BATCHES();
    assert_int_equal(push_waiting("w", (struct queue_batch){.wait_at_most_ms = 1000}),
                     QUEUE_CREATED);
    assert_int_equal(push_member("a", "w"), QUEUE_CREATED);
    assert_int_equal(push_member("b", "w"), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    ack_member("a");
    pass_time(900);
    expect_waits_for("w", 1);
    pass_time(200);
    take_waiting("w", "acked=1 dead=0 cancelled=0 expired=0 missing=1");
    ack_member("b");
}

static void the_delay_counts_from_the_end_of_the_wait(void **state)
{
    NEEDS_BATCHES();
    struct queue_push waiting = a_push_in("w", 1000);
    assert_int_equal(push_with(waiting, (struct queue_batch){.waits = true}), QUEUE_CREATED);
    assert_int_equal(push_member("a", "w"), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    pass_time(5000);
    ack_member("a");
    pass_time(900);
    expect_none("t");
    pass_time(200);
    take_waiting("w", "acked=1 dead=0 cancelled=0 expired=0 missing=0");
}

static void a_waiting_job_is_not_replaced(void **state)
{
    NEEDS_BATCHES();
    struct queue_push push = a_push("w");
    begin_two(BATCH_GO);
    assert_int_equal(client_push(&w->client, &push, 1)->results[0].status, QUEUE_WAITS);
    push.on_conflict = CONFLICT_KEEP;
    assert_int_equal(client_push(&w->client, &push, 1)->results[0].status, QUEUE_EXISTED);
    push.on_conflict = CONFLICT_REJECT;
    assert_int_equal(client_push(&w->client, &push, 1)->results[0].status, QUEUE_CONFLICT);
    expect_waits_for("w", 2);
}

/* POST /v1/batches recognizes a repeat by it. */
static void a_waiting_job_shows_the_meta_of_its_push(void **state)
{
    NEEDS_BATCHES();
    static const char mark[] = JOB_META_MEMBERS "\0"
                                                "0123456789abcdef";
    struct queue_push push = a_push("w");
    push.meta = slice_make(mark, sizeof mark);
    assert_int_equal(push_with(push, (struct queue_batch){.waits = true}), QUEUE_CREATED);
    assert_int_equal(push_member("a", "w"), QUEUE_CREATED);
    assert_true(slice_is(job_meta_find(get("t", "w")->job.meta, slice_of(JOB_META_MEMBERS)),
                         "0123456789abcdef"));
    push.meta = (struct slice){0}; /* a repeat changes nothing */
    push.on_conflict = CONFLICT_KEEP;
    assert_int_equal(push_with(push, (struct queue_batch){.waits = true}), QUEUE_EXISTED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    reopen();
    assert_true(slice_is(job_meta_find(get("t", "w")->job.meta, slice_of(JOB_META_MEMBERS)),
                         "0123456789abcdef"));
    assert_true(get("t", "w")->waiting->is_closed);
}

static void a_result_about_a_waiting_job_has_no_due(void **state)
{
    NEEDS_BATCHES();
    struct queue_push push = a_push("w");
    const enum record_conflict rules[] = {CONFLICT_KEEP, CONFLICT_REJECT, CONFLICT_REPLACE};
    push.batch = &(struct queue_batch){.waits = true};
    assert_int_equal(client_push(&w->client, &push, 1)->results[0].due_ms, 0);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        push.on_conflict = rules[i];
        const struct queue_result *result = client_push(&w->client, &push, 1)->results;
        assert_int_equal(result->state, JOB_DELAYED);
        assert_int_equal(result->due_ms, 0);
    }
    assert_int_equal(close_batch("w"), QUEUE_OK);
    push.on_conflict = CONFLICT_KEEP;
    assert_int_not_equal(client_push(&w->client, &push, 1)->results[0].due_ms, 0);
}

static void run_ends_the_wait(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    ack_member("a");
    assert_int_equal(change(QUEUE_RUN, "t", "w", false), QUEUE_OK);
    take_waiting("w", "acked=1 dead=0 cancelled=0 expired=0 missing=1");
}

static void a_reschedule_sets_the_delay_after_the_wait(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    assert_int_equal(delay_waiting("w", 1000), QUEUE_OK);
    pass_time(2000);
    expect_waits_for("w", 2);
    ack_member("a");
    ack_member("b");
    expect_none("t");
    pass_time(1100);
    take_waiting("w", "acked=2 dead=0 cancelled=0 expired=0 missing=0");
}

static void members_outlive_a_cancelled_waiting_job(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    assert_int_equal(change(QUEUE_CANCEL, "t", "w", false), QUEUE_CANCELLED);
    assert_int_equal(push_waiting("w", (struct queue_batch){0}), QUEUE_CREATED);
    ack_member("a"); /* it is not a member of the new batch */
    struct queue_waiting waiting = waiting_of("w");
    assert_int_equal(batch_members(&waiting.counts), 0);
    ack_member("b");
}

static void cancel_includes_the_members_if_asked(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    struct slice lease = take_of("m", "a");
    assert_int_equal(change(QUEUE_CANCEL, "t", "w", true), QUEUE_CANCELLED);
    assert_int_equal(state_in("t", "w"), 0);
    assert_int_equal(state_in("m", "b"), 0);
    assert_int_equal(answer(QUEUE_NACK, lease), QUEUE_CANCELLED);
    expect_none("m");
    reopen();
    expect_none("m");
}

static void deleting_a_topic_ends_its_members(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    ack_member("a");
    assert_int_equal(call_topic(QUEUE_TOPIC_DELETE, "m")->status, QUEUE_OK);
    take_waiting("w", "acked=1 dead=0 cancelled=1 expired=0 missing=0");
}

static void purged_and_expired_members_have_ended(void **state)
{
    NEEDS_BATCHES();
    struct queue_push short_lived = a_member("c");
    short_lived.policy.ttl_ms = 1000;
    begin_two(BATCH_GO);
    assert_int_equal(push_with(short_lived, of("w")), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    ack_member("a");
    pass_time(1100);
    await_members("w", 1);
    expect_waits_for("w", 1);
    assert_int_equal(call_topic(QUEUE_TOPIC_PURGE, "m")->status, QUEUE_OK);
    take_waiting("w", "acked=1 dead=0 cancelled=1 expired=1 missing=0");
}

static void a_chain_runs_in_order(void **state)
{
    NEEDS_BATCHES();
    struct queue_push middle = a_push("2");
    struct queue_batch both = of("3");
    both.waits = true;
    assert_int_equal(push_waiting("3", (struct queue_batch){.on_dead = BATCH_HOLD}), QUEUE_CREATED);
    assert_int_equal(push_with(middle, both), QUEUE_CREATED);
    assert_int_equal(push_with(a_push("1"), of("2")), QUEUE_CREATED);
    assert_int_equal(close_batch("2"), QUEUE_OK);
    assert_int_equal(close_batch("3"), QUEUE_OK);
    assert_int_equal(answer(QUEUE_ACK, take_of("t", "1")), QUEUE_OK);
    reopen();
    assert_int_equal(answer(QUEUE_ACK, take_of("t", "2")), QUEUE_OK);
    assert_int_equal(answer(QUEUE_ACK, take_of("t", "3")), QUEUE_OK);
    expect_none("t");
}

static void batches_nest_to_a_depth(void **state)
{
    NEEDS_BATCHES();
    char id[16], above[16];
    assert_int_equal(push_waiting("0", (struct queue_batch){0}), QUEUE_CREATED);
    for (int i = 1; i <= BATCH_DEPTH_MAX + 1; i++) {
        snprintf(id, sizeof id, "%d", i);
        snprintf(above, sizeof above, "%d", i - 1);
        struct queue_batch both = of(above);
        both.waits = true;
        assert_int_equal(push_with(a_push(id), both),
                         i <= BATCH_DEPTH_MAX ? QUEUE_CREATED : QUEUE_BAD_OPTION);
    }
}

static void restarts_change_nothing(void **state)
{
    NEEDS_BATCHES();
    begin_two(BATCH_GO);
    reopen();
    expect_waits_for("w", 2);
    ack_member("a");
    assert_int_equal(push_member("c", "w"), QUEUE_CREATED);
    assert_int_equal(close_batch("w"), QUEUE_OK);
    reopen();
    expect_waits_for("w", 2);
    assert_int_equal(push_member("d", "w"), QUEUE_BATCH_CLOSED);
    assert_int_equal(die(take_of("m", "b")), QUEUE_OK);
    ack_member("c");
    reopen();
    struct slice lease = take_waiting("w", "acked=2 dead=1 cancelled=0 expired=0 missing=0");
    (void)lease;
    reopen();
    pass_time(HOUR_MS);
    pass_time(HOUR_MS);
    lease = take_waiting("w", "acked=2 dead=1 cancelled=0 expired=0 missing=0");
    assert_int_equal(answer(QUEUE_ACK, lease), QUEUE_OK);
    reopen();
    expect_none("t");
}

const struct CMUnitTest directed_batches[] = {
    CLAIM(completes_after_the_last_member),
    CLAIM(does_not_complete_before_close),
    CLAIM(an_empty_batch_completes_on_close),
    CLAIM(the_last_expected_member_closes_the_batch),
    CLAIM(a_repeated_ack_counts_once),
    CLAIM(attempts_do_not_count),
    CLAIM(a_member_that_is_pushed_again_has_not_ended),
    CLAIM(a_successor_stays_the_member),
    CLAIM(a_replaced_member_stays_the_member),
    CLAIM(a_dead_member_has_ended),
    CLAIM(a_redriven_member_has_not_ended),
    CLAIM(a_redriven_member_completes_a_held_batch),
    CLAIM(a_cancelled_dead_member_completes_a_held_batch),
    CLAIM(stop_cancels_waiting_members),
    CLAIM(a_member_redriven_after_a_stop_is_an_ordinary_job),
    CLAIM(a_push_that_keeps_a_job_of_another_batch_is_a_conflict),
    CLAIM(a_dead_member_that_is_removed_after_a_stop_counts_as_cancelled),
    CLAIM(a_redriven_member_of_a_stopped_batch_does_not_count_again),
    CLAIM(a_dead_member_of_a_stopped_batch_that_is_replaced_does_not_count_again),
    CLAIM(an_id_of_a_stopped_member_may_be_used_again),
    CLAIM(a_member_that_adds_one_keeps_the_batch_open),
    CLAIM(a_closed_batch_rejects_members),
    CLAIM(an_unclosed_batch_dies_with_a_reason),
    CLAIM(wait_at_most_ends_the_wait),
    CLAIM(the_delay_counts_from_the_end_of_the_wait),
    CLAIM(a_waiting_job_is_not_replaced),
    CLAIM(a_waiting_job_shows_the_meta_of_its_push),
    CLAIM(a_result_about_a_waiting_job_has_no_due),
    CLAIM(run_ends_the_wait),
    CLAIM(a_reschedule_sets_the_delay_after_the_wait),
    CLAIM(members_outlive_a_cancelled_waiting_job),
    CLAIM(cancel_includes_the_members_if_asked),
    CLAIM(deleting_a_topic_ends_its_members),
    CLAIM(purged_and_expired_members_have_ended),
    CLAIM(a_chain_runs_in_order),
    CLAIM(batches_nest_to_a_depth),
    CLAIM(restarts_change_nothing),
};
const size_t directed_batches_count = sizeof directed_batches / sizeof directed_batches[0];
