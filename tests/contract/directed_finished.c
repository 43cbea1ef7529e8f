/* Claims about finished jobs that are kept, their results, progress, and calls that wait for the end of a job. */
#include "directed.h"

#include "base/clock.h"
#include "queue/cursor.h"

#include <stdlib.h>

enum { LEASE_MS = 60 * 1000, HOUR_MS = 3600 * 1000, DAY_MS = 24 * HOUR_MS };

static const struct driver *driver(void)
{
    return w->client.driver;
}

#define NEEDS(FEATURE)                                                                             \
    if (!driver()->FEATURE)                                                                        \
    skip()

static void keep_for(int64_t ms)
{
    put((struct topic_settings){.keep_finished_ms = ms});
}

/* Looks a job up, also a kept one. The reply lives until the next call of the client. */
static const struct queue_reply *look_up(const char *id)
{
    struct client *client = &w->client;

    client_begin(client);
    struct queue_reply_to to = client_add(client);
    queue_get_finished(client->queue, slice_of("t"), slice_of(id), to);
    client_sent(client);
    client_wait(client);
    return &client->calls[0].outcome.reply;
}

/* Returns how the kept job ended; NULL: it is not kept. */
static const struct queue_end *end_of(const char *id)
{
    const struct queue_reply *reply = look_up(id);

    if (reply->status != QUEUE_OK || reply->jobs[0].job.state != JOB_FINISHED)
        return NULL;
    assert_non_null(reply->jobs[0].end);
    return reply->jobs[0].end;
}

static const struct queue_reply *list_kept(uint32_t limit, struct slice cursor)
{
    return client_list(&w->client, &(struct queue_list){.topic = slice_of("t"),
                                                        .state = JOB_FINISHED,
                                                        .limit = limit,
                                                        .cursor = cursor});
}

static enum queue_status answer(struct queue_answer answer)
{
    const struct queue_reply *reply = world_answer(w, &answer, 1);

    if (w->fault[0])
        fail_msg("%s", w->fault);
    return reply->results[0].status;
}

static enum queue_status ack_with(struct slice lease, struct slice result, const char *type)
{
    return answer((struct queue_answer){
        .verb = QUEUE_ACK, .lease = lease, .result = result, .result_type = slice_of(type)});
}

static void finish(const char *id)
{
    push(a_push(id));
    assert_int_equal(ack(take_for(id, LEASE_MS)), QUEUE_OK);
}

static void purge_finished(void)
{
    client_topic(&w->client, &(struct queue_topic_call){.topic = slice_of("t"),
                                                        .verb = QUEUE_TOPIC_PURGE,
                                                        .state = JOB_FINISHED});
}

/* ---- waits ---- */

struct waiter {
    bool has_reply;
    struct outcome outcome;
};

static struct waiter waiters[8];

static void on_wait_reply(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct waiter *waiter = &waiters[tag];

    (void)owner;
    assert_false(waiter->has_reply);
    waiter->has_reply = true;
    outcome_copy(&waiter->outcome, reply);
}

static struct queue_reply_to waiter_reply_to(size_t at)
{
    return (struct queue_reply_to){.done = on_wait_reply, .owner = waiters, .tag = at};
}

static void waiter_begin(size_t at, const char *id)
{
    queue_await(w->client.queue, slice_of("t"), slice_of(id), NULL, waiter_reply_to(at));
}

static void pump_until(const bool *done)
{
    int64_t until_us = clock_boot_us() + 10 * 1000 * 1000;

    while (!*done && clock_boot_us() < until_us) {
        driver()->pump(w->client.self);
        driver_rest();
    }
}

/* Returns the reply of a wait, for which it lets the queue run. */
static const struct queue_reply *waiter_reply(size_t at)
{
    pump_until(&waiters[at].has_reply);
    assert_true(waiters[at].has_reply);
    return &waiters[at].outcome.reply;
}

/* Lets the call of a wait arrive: a later call of the same queue does not overtake it by much. */
static void let_waits_arrive(void)
{
    int64_t until_us = clock_boot_us() + (driver()->is_at_once ? 0 : 50 * 1000);

    client_idle(&w->client);
    while (clock_boot_us() < until_us) {
        driver()->pump(w->client.self);
        driver_rest();
    }
}

static void waiters_forget(void)
{
    for (size_t i = 0; i < sizeof waiters / sizeof waiters[0]; i++) {
        outcome_free(&waiters[i].outcome);
        waiters[i] = (struct waiter){0};
    }
}

/* ---- kept jobs ---- */

static void a_finished_job_is_visible_until_it_expires(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    keep_for(HOUR_MS);
    push(a_push("a"));
    nack(take_as("a", "worker 1", LEASE_MS), 0, "first");
    pass(10);
    struct slice lease = take_as("a", "worker 2", LEASE_MS);
    pass(2000);
    assert_int_equal(ack(lease), QUEUE_OK);
    int64_t finished_ms = now_ms();
    assert_int_equal(state_of("a"), 0); /* a plain look-up does not find it */
    const struct queue_end *end = end_of("a");
    assert_non_null(end);
    assert_int_equal(end->outcome, JOB_END_ACKED);
    assert_in_range(end->finished_ms, finished_ms - 50, finished_ms + 50);
    assert_in_range(end->duration_ms, 1990, 2010);
    assert_int_equal(end->result.len, 0);
    assert_false(end->has_body);
    const struct job *job = &look_up("a")->jobs[0].job;
    assert_int_equal(job->attempt, 2);
    assert_true(slice_is(job->consumer, "worker 2"));
    assert_true(slice_is(job->id, "a"));
    struct job_attempt attempt;
    size_t at = 0;
    assert_true(job_history_next(job->history, &at, &attempt));
    assert_true(slice_is(attempt.error, "first"));
    pass(HOUR_MS - 100);
    assert_non_null(end_of("a"));
    pass(200);
    assert_null(end_of("a"));
    assert_int_equal(list_kept(10, (struct slice){.at = ""})->job_count, 0);
}

static void cancelled_and_expired_jobs_are_kept(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    keep_for(DAY_MS);
    push(a_push_in("a", HOUR_MS));
    assert_int_equal(cancel("a"), QUEUE_CANCELLED);
    assert_int_equal(end_of("a")->outcome, JOB_END_CANCELLED);
    struct queue_push short_lived = a_push("b");
    short_lived.policy.ttl_ms = 1000;
    push(short_lived);
    pass(1010);
    assert_int_equal(state_of("b"), 0);
    assert_int_equal(end_of("b")->outcome, JOB_END_EXPIRED);
}

static void a_push_decides_how_long_its_job_is_kept(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    struct queue_push kept = a_push("a");
    kept.has_keep_finished = true;
    kept.keep_finished_ms = HOUR_MS;
    push(kept);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_non_null(end_of("a"));
    keep_for(DAY_MS);
    kept = a_push("b");
    kept.has_keep_finished = true;
    push(kept);
    assert_int_equal(ack(take_for("b", LEASE_MS)), QUEUE_OK);
    assert_null(end_of("b"));
    finish("c");
    pass(2 * HOUR_MS);
    assert_null(end_of("a"));
    assert_non_null(end_of("c"));
}

static void a_job_that_is_pushed_again_is_kept_as_its_push_decided(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    if (w->client.driver->lacks & DRIVER_LACKS_AGAIN)
        skip();
    struct queue_push kept = a_push("a");
    kept.has_keep_finished = true;
    kept.keep_finished_ms = HOUR_MS;
    push(kept);
    assert_int_equal(
        again(take_for("a", LEASE_MS), (struct queue_again){.when = {.due = QUEUE_DUE_NOW},
                                                            .priority = QUEUE_PRIORITY_UNSET}),
        QUEUE_CREATED);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_non_null(end_of("a"));
}

static void a_kept_job_shows_its_meta_and_its_body_only_if_it_is_set(void **state)
{
    struct buffer meta;
    (void)state;
    NEEDS(keeps_finished);
    buffer_init(&meta, JOB_META_BYTES_MAX);
    job_meta_add(&meta, slice_of("k"), slice_of("v"));
    keep_for(HOUR_MS);
    struct queue_push job = a_push("a");
    job.meta = buffer_slice(&meta);
    job.content_type = slice_of("text/csv");
    push(job);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    const struct queue_job *kept = &look_up("a")->jobs[0];
    assert_true(slice_is(job_meta_find(kept->job.meta, slice_of("k")), "v"));
    assert_int_equal(kept->job.body.len, 0);
    assert_false(kept->end->has_body);
    put((struct topic_settings){.keep_finished_ms = HOUR_MS, .keep_body = true});
    job.id = slice_of("b");
    push(job);
    assert_int_equal(ack(take_for("b", LEASE_MS)), QUEUE_OK);
    kept = &look_up("b")->jobs[0];
    assert_true(kept->end->has_body);
    assert_true(slice_equals(kept->job.body, job.body));
    assert_true(slice_is(kept->job.content_type, "text/csv"));
    assert_true(slice_is(job_meta_find(kept->job.meta, slice_of("k")), "v"));
    buffer_fini(&meta);
}

static void a_kept_job_does_not_block_its_id(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    keep_for(HOUR_MS);
    finish("a");
    assert_non_null(end_of("a"));
    assert_int_equal(push(a_push("a")), QUEUE_CREATED);
    assert_null(end_of("a"));
    assert_int_equal(list_kept(10, (struct slice){.at = ""})->job_count, 0);
    assert_int_equal(figures().counts.finished, 0);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(figures().counts.finished, 1);
}

static void dedup_and_keep_finished_end_at_their_own_times(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    put((struct topic_settings){.keep_finished_ms = HOUR_MS, .dedup_window_ms = DAY_MS});
    finish("a");
    assert_int_equal(push(a_push("a")), QUEUE_EXISTED);
    assert_non_null(end_of("a"));
    pass(HOUR_MS + 100);
    assert_null(end_of("a"));
    assert_int_equal(push(a_push("a")), QUEUE_EXISTED);
    pass(DAY_MS);
    put((struct topic_settings){.keep_finished_ms = DAY_MS, .dedup_window_ms = HOUR_MS});
    finish("a");
    pass(HOUR_MS + 100);
    assert_non_null(end_of("a"));
    assert_int_equal(push(a_push("a")), QUEUE_CREATED);
    assert_null(end_of("a"));
}

static void counts_exclude_kept_jobs(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    put((struct topic_settings){.keep_finished_ms = HOUR_MS, .max_jobs = 3});
    finish("a");
    finish("b");
    finish("c");
    struct queue_counts counts = figures().counts;
    assert_int_equal(counts.finished, 3);
    assert_int_equal(counts.ready + counts.delayed + counts.leased + counts.dead, 0);
    assert_int_equal(push(a_push("d")), QUEUE_CREATED); /* max_jobs does not count them */
    pass(HOUR_MS + 5000);
    assert_int_equal(figures().counts.finished, 0);
}

static void purged_and_replaced_jobs_are_not_kept(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    keep_for(HOUR_MS);
    push(a_push_in("a", HOUR_MS));
    push(a_push_in("a", HOUR_MS));
    assert_null(end_of("a"));
    topic_call(QUEUE_TOPIC_PURGE);
    assert_null(end_of("a"));
    finish("b");
    topic_call(QUEUE_TOPIC_PURGE);
    assert_non_null(end_of("b")); /* a purge of jobs spares the kept ones */
    purge_finished();
    assert_null(end_of("b"));
    assert_int_equal(figures().counts.finished, 0);
    finish("c");
    topic_call(QUEUE_TOPIC_DELETE);
    assert_null(end_of("c"));
    push(a_push("d"));
    assert_null(end_of("c"));
}

static void the_newest_kept_job_comes_first(void **state)
{
    enum { JOBS = 250, PAGE = 40 };
    char ids[JOBS][24];
    (void)state;
    NEEDS(keeps_finished);
    keep_for(HOUR_MS);
    for (int i = 0; i < JOBS; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        w->quick = true; /* looking at all jobs each time takes long */
        finish(ids[i]);
        pass(2);
    }
    w->quick = false;
    char cursor[QUEUE_CURSOR_BYTES_MAX];
    struct slice at = {.at = ""};
    int left = JOBS;
    do {
        const struct queue_reply *reply = list_kept(PAGE, at);
        assert_int_equal(reply->status, QUEUE_OK);
        assert_true(reply->job_count > 0);
        for (size_t i = 0; i < reply->job_count; i++) {
            assert_int_equal(reply->jobs[i].job.state, JOB_FINISHED);
            assert_true(slice_is(reply->jobs[i].job.id, ids[--left]));
        }
        memcpy(cursor, reply->cursor.at, reply->cursor.len);
        at = slice_make(cursor, reply->cursor.len);
    } while (at.len);
    assert_int_equal(left, 0);
}

static void the_oldest_kept_jobs_are_dropped_first(void **state)
{
    enum { JOBS = 60, MOST = 9 };
    (void)state;
    NEEDS(keeps_finished);
    put((struct topic_settings){.keep_finished_ms = HOUR_MS, .keep_finished_max = MOST});
    for (int i = 0; i < JOBS; i++) {
        char id[24];
        snprintf(id, sizeof id, "%d", i);
        finish(id);
        pass(2);
    }
    pass(3000); /* a store may drop them a moment later */
    uint64_t kept = figures().counts.finished;
    assert_in_range(kept, driver()->shards > 1 ? 1 : MOST, MOST);
    assert_non_null(end_of("59"));
    assert_null(end_of("0"));
    struct queue_info info = {0};
    queue_info(w->client.queue, &info);
    for (int i = 0; i < 50 && info.finished_dropped[QUEUE_DROP_NUMBER] != JOBS - kept; i++) {
        let_waits_arrive();
        queue_info(w->client.queue, &info);
    }
    assert_int_equal(info.finished_dropped[QUEUE_DROP_NUMBER], JOBS - kept);
    put((struct topic_settings){
        .keep_finished_ms = HOUR_MS, .keep_finished_bytes = 6000, .keep_body = true});
    static char body[1000];
    memset(body, 'b', sizeof body);
    for (int i = 0; i < 20; i++) {
        char id[24];
        snprintf(id, sizeof id, "b%d", i);
        struct queue_push job = a_push(id);
        job.body = slice_make(body, sizeof body);
        push(job);
        assert_int_equal(ack(take_for(id, LEASE_MS)), QUEUE_OK);
        pass(2);
    }
    pass(3000);
    assert_in_range(figures().counts.finished, 1, 6);
    assert_non_null(end_of("b19"));
    assert_null(end_of("b0"));
}

static void kept_jobs_survive_restarts_and_checkpoints(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    keep_for(HOUR_MS);
    push(a_push("a"));
    assert_int_equal(ack_with(take_for("a", LEASE_MS), slice_of("done"), "text/plain"), QUEUE_OK);
    restart();
    const struct queue_end *end = end_of("a");
    assert_non_null(end);
    assert_true(slice_is(end->result, "done"));
    for (int i = 0; i < 50; i++)
        finish("other");
    restart();
    assert_true(slice_is(end_of("a")->result, "done"));
    pass(HOUR_MS + 100);
    restart();
    assert_null(end_of("a"));
}

/* ---- results and progress ---- */

static void a_result_is_returned_unchanged(void **state)
{
    static const size_t sizes[] = {1, 2, 127, 128, 8191, 8192, 8193, JOB_RESULT_BYTES};
    (void)state;
    NEEDS(keeps_finished);
    keep_for(HOUR_MS);
    char *result = malloc(JOB_RESULT_BYTES);
    assert_non_null(result);
    for (size_t i = 0; i < JOB_RESULT_BYTES; i++)
        result[i] = (char)(i * 31 + i / 256);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char id[24];
        snprintf(id, sizeof id, "%zu", i);
        push(a_push(id));
        const char *type = i % 2 ? "application/json" : "image/x-own";
        assert_int_equal(ack_with(take_for(id, LEASE_MS), slice_make(result, sizes[i]), type),
                         QUEUE_OK);
        const struct queue_end *end = end_of(id);
        assert_true(slice_equals(end->result, slice_make(result, sizes[i])));
        assert_true(slice_is(end->result_type, type));
    }
    free(result);
    push(a_push("plain"));
    assert_int_equal(ack_with(take_for("plain", LEASE_MS), slice_of("x"), ""), QUEUE_OK);
    assert_int_equal(end_of("plain")->result_type.len, 0);
}

static void an_oversized_result_leaves_the_job_leased(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    keep_for(HOUR_MS);
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    char *result = calloc(1, JOB_RESULT_BYTES_MAX + 1);
    assert_non_null(result);
    struct queue_answer big = {
        .verb = QUEUE_ACK, .lease = lease, .result = slice_make(result, JOB_RESULT_BYTES_MAX + 1)};
    const struct queue_reply *reply = client_answer(&w->client, &big, 1);
    assert_int_equal(reply->results[0].status, QUEUE_RESULT_TOO_BIG);
    free(result);
    assert_int_equal(state_of("a"), JOB_LEASED);
    assert_int_equal(ack_with(lease, slice_of("small"), ""), QUEUE_OK);
    assert_true(slice_is(end_of("a")->result, "small"));
}

static void progress_is_shown_while_leased_and_when_finished(void **state)
{
    (void)state;
    NEEDS(keeps_finished);
    keep_for(HOUR_MS);
    push(a_push("a"));
    struct slice lease = take_as("a", "worker 1", LEASE_MS);
    assert_int_equal(job_of("a").progress.len, 0);
    struct queue_answer extend = {
        .verb = QUEUE_EXTEND, .lease = lease, .progress = slice_of("40 %")};
    assert_int_equal(answer(extend), QUEUE_OK);
    assert_true(slice_is(job_of("a").progress, "40 %"));
    extend.progress = (struct slice){.at = ""};
    assert_int_equal(answer(extend), QUEUE_OK);
    assert_true(slice_is(job_of("a").progress, "40 %")); /* unchanged */
    extend.progress = slice_of("80 %");
    assert_int_equal(answer(extend), QUEUE_OK);
    restart();
    assert_true(slice_is(job_of("a").progress, "80 %"));
    assert_true(slice_is(job_of("a").consumer, "worker 1"));
    assert_int_equal(ack(lease), QUEUE_OK);
    assert_true(slice_is(look_up("a")->jobs[0].job.progress, "80 %"));
    push(a_push("b"));
    lease = take_for("b", LEASE_MS);
    extend =
        (struct queue_answer){.verb = QUEUE_EXTEND, .lease = lease, .progress = slice_of("half")};
    assert_int_equal(answer(extend), QUEUE_OK);
    nack(lease, HOUR_MS, "no");
    assert_int_equal(job_of("b").progress.len, 0);
}

/* ---- waits ---- */

static void a_wait_returns_with_the_ack(void **state)
{
    (void)state;
    NEEDS(awaits);
    waiters_forget();
    push(a_push("a"));
    waiter_begin(0, "a");
    waiter_begin(1, "a");
    let_waits_arrive();
    assert_false(waiters[0].has_reply);
    struct slice lease = take_as("a", "worker 1", LEASE_MS);
    assert_int_equal(ack_with(lease, slice_of("42"), "text/plain"), QUEUE_OK);
    for (size_t i = 0; i < 2; i++) {
        const struct queue_reply *reply = waiter_reply(i);
        assert_int_equal(reply->status, QUEUE_OK);
        assert_int_equal(reply->job_count, 1);
        assert_int_equal(reply->jobs[0].job.state, JOB_FINISHED);
        assert_true(slice_is(reply->jobs[0].job.id, "a"));
        assert_true(slice_is(reply->jobs[0].job.topic, "t"));
        assert_true(slice_is(reply->jobs[0].job.consumer, "worker 1"));
        assert_int_equal(reply->jobs[0].end->outcome, JOB_END_ACKED);
        assert_true(slice_is(reply->jobs[0].end->result, "42"));
        assert_true(slice_is(reply->jobs[0].end->result_type, "text/plain"));
    }
    waiters_forget();
}

static void a_wait_returns_a_long_result(void **state)
{
    (void)state;
    NEEDS(awaits);
    char *result = malloc(JOB_RESULT_BYTES);
    assert_non_null(result);
    memset(result, 'r', JOB_RESULT_BYTES);
    for (int keeps = 0; keeps <= (int)driver()->keeps_finished; keeps++) {
        waiters_forget();
        if (keeps)
            keep_for(HOUR_MS);
        push(a_push("a"));
        waiter_begin(0, "a");
        let_waits_arrive();
        struct slice lease = take_for("a", LEASE_MS);
        assert_int_equal(ack_with(lease, slice_make(result, JOB_RESULT_BYTES), ""), QUEUE_OK);
        const struct queue_reply *reply = waiter_reply(0);
        assert_int_equal(reply->status, QUEUE_OK);
        assert_true(slice_equals(reply->jobs[0].end->result, slice_make(result, JOB_RESULT_BYTES)));
    }
    free(result);
    waiters_forget();
}

static void a_wait_for_a_finished_job_returns_immediately(void **state)
{
    (void)state;
    NEEDS(awaits);
    NEEDS(keeps_finished);
    waiters_forget();
    keep_for(HOUR_MS);
    finish("a");
    waiter_begin(0, "a");
    const struct queue_reply *reply = waiter_reply(0);
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->jobs[0].end->outcome, JOB_END_ACKED);
    waiter_begin(1, "unknown");
    assert_int_equal(waiter_reply(1)->status, QUEUE_NOT_FOUND);
    waiters_forget();
}

static void a_wait_returns_when_the_job_dies(void **state)
{
    (void)state;
    NEEDS(awaits);
    waiters_forget();
    push(a_push("a"));
    waiter_begin(0, "a");
    let_waits_arrive();
    assert_int_equal(refuse(take_for("a", LEASE_MS), "broken"), QUEUE_OK);
    const struct queue_reply *reply = waiter_reply(0);
    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->jobs[0].job.state, JOB_DEAD);
    assert_true(slice_is(reply->jobs[0].job.error, "broken"));
    assert_null(reply->jobs[0].end);
    waiter_begin(1, "a"); /* it is dead already */
    assert_int_equal(waiter_reply(1)->jobs[0].job.state, JOB_DEAD);
    push(a_push("b"));
    waiter_begin(2, "b");
    let_waits_arrive();
    assert_int_equal(answer((struct queue_answer){.verb = QUEUE_NACK,
                                                  .lease = take_for("b", LEASE_MS),
                                                  .delay_ms = -1,
                                                  .final = true,
                                                  .error = slice_of("why"),
                                                  .result = slice_of("details"),
                                                  .result_type = slice_of("text/plain")}),
                     QUEUE_OK);
    reply = waiter_reply(2);
    assert_int_equal(reply->jobs[0].job.state, JOB_DEAD);
    assert_true(slice_is(reply->jobs[0].job.error, "why"));
    assert_non_null(reply->jobs[0].end);
    assert_true(slice_is(reply->jobs[0].end->result, "details"));
    waiters_forget();
}

static void a_wait_returns_when_the_job_is_cancelled_or_expires(void **state)
{
    (void)state;
    NEEDS(awaits);
    waiters_forget();
    push(a_push_in("a", HOUR_MS));
    struct queue_push short_lived = a_push("b");
    short_lived.policy.ttl_ms = 1000;
    push(short_lived);
    waiter_begin(0, "a");
    waiter_begin(1, "b");
    let_waits_arrive();
    assert_int_equal(cancel("a"), QUEUE_CANCELLED);
    assert_int_equal(waiter_reply(0)->jobs[0].end->outcome, JOB_END_CANCELLED);
    pass(1010);
    assert_int_equal(waiter_reply(1)->jobs[0].end->outcome, JOB_END_EXPIRED);
    waiters_forget();
}

static void a_wait_ends_when_the_job_is_purged(void **state)
{
    (void)state;
    NEEDS(awaits);
    waiters_forget();
    push(a_push_in("a", HOUR_MS));
    waiter_begin(0, "a");
    let_waits_arrive();
    topic_call(QUEUE_TOPIC_PURGE);
    assert_int_equal(waiter_reply(0)->status, QUEUE_NOT_FOUND);
    waiters_forget();
}

static void a_wait_ends_when_the_job_is_replaced(void **state)
{
    (void)state;
    NEEDS(awaits);
    if (driver()->lacks & DRIVER_LACKS_END_BY_REPLACE)
        skip();
    waiters_forget();
    push(a_push_in("a", HOUR_MS));
    waiter_begin(0, "a");
    let_waits_arrive();
    assert_int_equal(push(a_push_in("a", HOUR_MS)), QUEUE_REPLACED);
    assert_int_equal(waiter_reply(0)->status, QUEUE_NOT_FOUND);
    waiters_forget();
}

static void a_cancelled_wait_ends_without_the_job(void **state)
{
    (void)state;
    NEEDS(awaits);
    waiters_forget();
    push(a_push("a"));
    waiter_begin(0, "a");
    let_waits_arrive();
    struct queue_reply_to meant = waiter_reply_to(0);
    queue_await(w->client.queue, slice_of("t"), slice_of("a"), &meant, waiter_reply_to(1));
    assert_int_equal(waiter_reply(1)->status, QUEUE_OK);
    assert_int_equal(waiter_reply(0)->status, QUEUE_CANCELLED);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    client_idle(&w->client);
    waiter_begin(2, "unknown"); /* a cancel of a wait that does not exist is answered as well */
    queue_await(w->client.queue, slice_of("t"), slice_of("a"), &meant, waiter_reply_to(3));
    assert_int_equal(waiter_reply(3)->status, QUEUE_OK);
    assert_int_equal(waiter_reply(2)->status, QUEUE_NOT_FOUND);
    waiters_forget();
}

static void a_push_waits_for_its_own_job(void **state)
{
    (void)state;
    NEEDS(awaits);
    waiters_forget();
    struct queue_reply_to ended = waiter_reply_to(0), second = waiter_reply_to(1),
                          third = waiter_reply_to(2);
    struct queue_push job = a_push("a");
    job.ended = &ended;
    assert_int_equal(push(job), QUEUE_CREATED);
    job.on_conflict = CONFLICT_KEEP;
    job.ended = &second;
    assert_int_equal(push(job), QUEUE_EXISTED); /* waits for the job that exists */
    job.on_conflict = CONFLICT_REJECT;
    job.ended = &third;
    assert_int_equal(push(job), QUEUE_CONFLICT); /* does not wait */
    let_waits_arrive();
    assert_int_equal(ack_with(take_for("a", LEASE_MS), slice_of("yes"), ""), QUEUE_OK);
    assert_true(slice_is(waiter_reply(0)->jobs[0].end->result, "yes"));
    assert_true(slice_is(waiter_reply(1)->jobs[0].end->result, "yes"));
    client_idle(&w->client);
    assert_false(waiters[2].has_reply);
    waiters_forget();
}

const struct CMUnitTest directed_finished[] = {
    CLAIM(a_finished_job_is_visible_until_it_expires),
    CLAIM(cancelled_and_expired_jobs_are_kept),
    CLAIM(a_push_decides_how_long_its_job_is_kept),
    CLAIM(a_job_that_is_pushed_again_is_kept_as_its_push_decided),
    CLAIM(a_kept_job_shows_its_meta_and_its_body_only_if_it_is_set),
    CLAIM(a_kept_job_does_not_block_its_id),
    CLAIM(dedup_and_keep_finished_end_at_their_own_times),
    CLAIM(counts_exclude_kept_jobs),
    CLAIM(purged_and_replaced_jobs_are_not_kept),
    CLAIM(the_newest_kept_job_comes_first),
    CLAIM(the_oldest_kept_jobs_are_dropped_first),
    CLAIM(kept_jobs_survive_restarts_and_checkpoints),
    CLAIM(a_result_is_returned_unchanged),
    CLAIM(an_oversized_result_leaves_the_job_leased),
    CLAIM(progress_is_shown_while_leased_and_when_finished),
    CLAIM(a_wait_returns_with_the_ack),
    CLAIM(a_wait_returns_a_long_result),
    CLAIM(a_wait_for_a_finished_job_returns_immediately),
    CLAIM(a_wait_returns_when_the_job_dies),
    CLAIM(a_wait_returns_when_the_job_is_cancelled_or_expires),
    CLAIM(a_wait_ends_when_the_job_is_purged),
    CLAIM(a_wait_ends_when_the_job_is_replaced),
    CLAIM(a_cancelled_wait_ends_without_the_job),
    CLAIM(a_push_waits_for_its_own_job),
};
const size_t directed_finished_count = sizeof directed_finished / sizeof directed_finished[0];
