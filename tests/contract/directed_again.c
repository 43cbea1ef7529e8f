/* Claims about jobs that are acked and pushed again in one step. */
#include "directed.h"

enum { LEASE_MS = 60 * 1000, HOUR_MS = 3600 * 1000 };

static bool lacks_again(void)
{
    return w->client.driver->lacks & DRIVER_LACKS_AGAIN;
}

static struct queue_again with_body(const char *body)
{
    return (struct queue_again){.when.due = QUEUE_DUE_NOW,
                                .priority = QUEUE_PRIORITY_UNSET,
                                .has_body = true,
                                .body = slice_of(body)};
}

static void again_is_all_or_nothing(void **state)
{
    (void)state;
    if (lacks_again())
        skip();
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    struct queue_topic before = figures();
    struct queue_again too_far = with_body("new");
    too_far.when =
        (struct queue_when){.due = QUEUE_DUE_AT, .ms = now_ms() + POLICY_DELAY_MS_MAX + HOUR_MS};
    assert_int_equal(again(lease, too_far), QUEUE_BAD_OPTION);
    assert_int_equal(figures().totals.acked, before.totals.acked);
    assert_int_equal(state_of("a"), JOB_LEASED);
    assert_int_equal(again(lease, with_body("new")), QUEUE_CREATED);
    struct queue_topic after = figures();
    assert_int_equal(after.totals.acked, before.totals.acked + 1);
    assert_int_equal(after.totals.pushed, before.totals.pushed + 1);
    assert_int_equal(after.counts.ready, 1);
    assert_int_equal(after.counts.leased, 0);
    restart();
    take_for("a", LEASE_MS);
    assert_true(slice_is(job_of("a").body, "new"));
    assert_int_equal(job_of("a").attempt, 1);
}

static void again_with_an_ended_lease_changes_nothing(void **state)
{
    (void)state;
    if (lacks_again())
        skip();
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    assert_int_equal(nack(lease, 0, "no"), QUEUE_OK);
    assert_int_equal(again(lease, with_body("new")), QUEUE_LEASE_ENDED);
    assert_int_equal(state_of("a"), JOB_READY);
    assert_true(slice_is(job_of("a").body, "body of a"));
    lease = take_for("a", LEASE_MS);
    pass(LEASE_MS + 2);
    assert_int_equal(again(lease, with_body("new")), QUEUE_LEASE_ENDED);
    assert_true(slice_is(job_of("a").body, "body of a"));
    assert_int_equal(figures().totals.pushed, 1);
}

static void again_keeps_members_that_are_not_given(void **state)
{
    struct queue_push job = a_push("a");
    struct buffer meta;
    (void)state;
    if (lacks_again())
        skip();
    buffer_init(&meta, JOB_META_BYTES_MAX);
    job_meta_add(&meta, slice_of("k"), slice_of("v"));
    job.content_type = slice_of("text/plain");
    job.meta = buffer_slice(&meta);
    job.priority = 7;
    job.policy = (struct policy){.max_attempts = 5, .lease_ms = 5000, .ttl_ms = HOUR_MS};
    push(job);
    buffer_fini(&meta);
    assert_int_equal(again_in(take_for("a", LEASE_MS), 1000), QUEUE_CREATED);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    pass(1002);
    assert_int_equal(job_of("a").priority, 7);
    struct queue_again other = with_body("{}");
    other.content_type = slice_of("application/json");
    other.priority = 3;
    assert_int_equal(again(take_for("a", LEASE_MS), other), QUEUE_CREATED);
    assert_true(slice_is(job_of("a").content_type, "application/json"));
    assert_int_equal(job_of("a").priority, 3);
    assert_int_equal(job_of("a").policy.max_attempts, 5);
    assert_int_equal(again(take_for("a", LEASE_MS), with_body("")), QUEUE_CREATED);
    assert_int_equal(job_of("a").body.len, 0);
}

static void again_restarts_the_attempts_and_the_history(void **state)
{
    struct job_attempt history[JOB_HISTORY_MAX];
    (void)state;
    if (lacks_again())
        skip();
    push(a_push("a"));
    assert_int_equal(nack(take_for("a", LEASE_MS), 0, "no"), QUEUE_OK);
    assert_int_equal(history_of("a", history), 1);
    assert_int_equal(again_in(take_for("a", LEASE_MS), 0), QUEUE_CREATED);
    assert_int_equal(history_of("a", history), 0);
    assert_int_equal(job_of("a").attempt, 0);
    assert_int_equal(job_of("a").error.len, 0);
}

static void again_keeps_the_priority_of_a_nack(void **state)
{
    (void)state;
    if (lacks_again() || w->client.driver->lacks & DRIVER_LACKS_NACK_PRIORITY)
        skip();
    push(a_push("a"));
    struct queue_answer answer = {
        .verb = QUEUE_NACK, .lease = take_for("a", LEASE_MS), .has_priority = true, .priority = 9};
    world_answer(w, &answer, 1);
    assert_int_equal(again_in(take_for("a", LEASE_MS), 0), QUEUE_CREATED);
    assert_int_equal(job_of("a").priority, 9);
}

static void again_is_not_remembered_as_finished(void **state)
{
    (void)state;
    if (lacks_again())
        skip();
    put((struct topic_settings){.dedup_window_ms = HOUR_MS});
    push(a_push("a"));
    assert_int_equal(again_in(take_for("a", LEASE_MS), 0), QUEUE_CREATED);
    assert_int_equal(push(a_push("a")), QUEUE_REPLACED);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(push(a_push("a")), QUEUE_EXISTED);
}

static void again_has_room_in_a_topic_that_is_too_full(void **state)
{
    (void)state;
    if (lacks_again())
        skip();
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    push(a_push("b"));
    put((struct topic_settings){.max_jobs = 1});
    assert_int_equal(again_in(lease, 0), QUEUE_CREATED);
    assert_int_equal(figures().counts.ready, 2);
}

static void second_of_two_answers_in_one_call_finds_the_lease_ended(void **state)
{
    (void)state;
    if (lacks_again())
        skip();
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    const struct queue_again later = with_body("new");
    const struct queue_answer answers[2] = {{.verb = QUEUE_AGAIN, .lease = lease, .again = &later},
                                            {.verb = QUEUE_ACK, .lease = lease}};
    const struct queue_reply *reply = world_answer(w, answers, 2);
    assert_string_equal(w->fault, "");
    assert_int_equal(reply->results[0].status, QUEUE_CREATED);
    assert_int_equal(reply->results[1].status, QUEUE_LEASE_ENDED);
    assert_int_equal(state_of("a"), JOB_READY);
}

/* A store may find the jobs of such a call by the places that they had when they were taken. */
static void agains_in_one_call_find_extended_and_ended_leases(void **state)
{
    enum { JOBS = 6, EXTENDED = 1, ENDED = 3, CANCELLED = 4 };
    static const char *const ids[JOBS] = {"a", "b", "c", "d", "e", "f"};
    struct queue_answer answers[JOBS];
    struct slice leases[JOBS];
    const struct queue_again later = with_body("new");
    (void)state;
    if (lacks_again())
        skip();
    for (size_t i = 0; i < JOBS; i++) {
        push(a_push(ids[i]));
        leases[i] = take_for(ids[i], LEASE_MS);
        answers[i] =
            (struct queue_answer){.verb = QUEUE_AGAIN, .lease = leases[i], .again = &later};
    }
    assert_int_equal(extend(leases[EXTENDED], 2 * LEASE_MS), QUEUE_OK);
    assert_int_equal(nack(leases[ENDED], 0, "no"), QUEUE_OK);
    assert_int_equal(request_cancel(ids[CANCELLED]), QUEUE_REQUESTED);
    struct queue_topic before = figures();
    const struct queue_reply *reply = world_answer(w, answers, JOBS);
    assert_string_equal(w->fault, "");
    for (size_t i = 0; i < JOBS; i++)
        assert_int_equal(reply->results[i].status, i == ENDED       ? QUEUE_LEASE_ENDED
                                                   : i == CANCELLED ? QUEUE_CANCELLED
                                                                    : QUEUE_CREATED);
    struct queue_topic after = figures();
    assert_int_equal(after.totals.acked, before.totals.acked + JOBS - 2);
    assert_int_equal(after.totals.pushed, before.totals.pushed + JOBS - 2);
    assert_int_equal(after.counts.ready, JOBS - 1);
    assert_int_equal(after.counts.leased, 0);
    assert_true(slice_is(job_of("b").body, "new"));
    assert_true(slice_is(job_of("d").body, "body of d"));
    assert_int_equal(state_of("e"), 0);
}

const struct CMUnitTest directed_again[] = {
    CLAIM(again_is_all_or_nothing),
    CLAIM(again_with_an_ended_lease_changes_nothing),
    CLAIM(again_keeps_members_that_are_not_given),
    CLAIM(again_restarts_the_attempts_and_the_history),
    CLAIM(again_keeps_the_priority_of_a_nack),
    CLAIM(again_is_not_remembered_as_finished),
    CLAIM(again_has_room_in_a_topic_that_is_too_full),
    CLAIM(second_of_two_answers_in_one_call_finds_the_lease_ended),
    CLAIM(agains_in_one_call_find_extended_and_ended_leases),
};
const size_t directed_again_count = sizeof directed_again / sizeof directed_again[0];
