/* Claims about successors: jobs that were pushed while a consumer held the job of their id. */
#include "directed.h"

enum { LEASE_MS = 60 * 1000, HOUR_MS = 3600 * 1000 };

static struct queue_push a_push_after(const char *id, const char *body, int64_t delay_ms)
{
    struct queue_push job = delay_ms ? a_push_in(id, delay_ms) : a_push(id);
    job.on_conflict = CONFLICT_AFTER;
    job.body = slice_of(body);
    return job;
}

/* Pushes a job, takes it and pushes its successor. Returns the lease. */
static struct slice take_and_push(const char *body)
{
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    assert_int_equal(push(a_push_after("a", body, 0)), QUEUE_CREATED);
    return lease;
}

static void a_successor_starts_when_the_lease_ends(void **state)
{
    (void)state;
    struct slice lease = take_and_push("next");
    assert_int_equal(state_of("a"), JOB_LEASED);
    assert_true(slice_is(job_of("a").body, "body of a"));
    assert_int_equal(job_of("a").next_due_ms != 0, !(w->client.driver->lacks & DRIVER_HIDES_NEXT));
    assert_int_equal(figures().counts.leased, 1);
    assert_int_equal(figures().counts.ready, 0);
    take("");
    assert_int_equal(nack(lease, HOUR_MS, "no"), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_READY);
    assert_int_equal(job_of("a").next_due_ms, 0);
    assert_int_equal(job_of("a").error.len, 0);
    take_for("a", LEASE_MS);
    assert_true(slice_is(job_of("a").body, "next"));
    assert_int_equal(job_of("a").attempt, 1);
}

static void a_successor_starts_when_its_time_comes(void **state)
{
    (void)state;
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    assert_int_equal(push(a_push_after("a", "next", HOUR_MS)), QUEUE_CREATED);
    assert_int_equal(ack(lease), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    pass(HOUR_MS + 2);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(state_of("a"), 0);
}

static void a_successor_starts_when_a_lease_ends_by_itself(void **state)
{
    (void)state;
    struct slice lease = take_and_push("next");
    pass(LEASE_MS + 2);
    assert_int_equal(state_of("a"), JOB_READY);
    assert_true(slice_is(job_of("a").body, "next"));
    assert_int_equal(ack(lease), QUEUE_LEASE_ENDED);
}

static void the_newest_successor_wins(void **state)
{
    (void)state;
    struct slice lease = take_and_push("first");
    assert_int_equal(push(a_push_after("a", "second", 0)), QUEUE_REPLACED);
    assert_true(slice_is(job_of("a").body, "body of a"));
    assert_int_equal(ack(lease), QUEUE_OK);
    assert_true(slice_is(job_of("a").body, "second"));
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(state_of("a"), 0);
}

static void cancel_removes_only_the_successor(void **state)
{
    (void)state;
    struct slice lease = take_and_push("next");
    assert_int_equal(cancel("a"), QUEUE_LEASED);
    assert_int_equal(job_of("a").next_due_ms, 0);
    restart();
    assert_int_equal(nack(lease, 0, "no"), QUEUE_OK);
    assert_true(slice_is(job_of("a").body, "body of a"));
    lease = take_for("a", LEASE_MS);
    push(a_push_after("a", "next", 0));
    assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    assert_int_equal(nack(lease, 0, "no"), QUEUE_CANCELLED);
    assert_int_equal(state_of("a"), 0);
}

static void successors_survive_a_restart(void **state)
{
    struct buffer meta;
    (void)state;
    struct queue_push next = a_push_after("a", "next", 0);
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    buffer_init(&meta, JOB_META_BYTES_MAX);
    job_meta_add(&meta, slice_of("k"), slice_of("v"));
    next.meta = buffer_slice(&meta);
    next.content_type = slice_of("text/plain");
    next.priority = 7;
    next.policy = (struct policy){.max_attempts = 5, .ttl_ms = HOUR_MS};
    push(next);
    buffer_fini(&meta);
    restart();
    assert_int_equal(state_of("a"), JOB_LEASED);
    assert_int_equal(ack(lease), QUEUE_OK);
    restart();
    assert_int_equal(state_of("a"), JOB_READY);
    assert_int_equal(job_of("a").policy.max_attempts, 5);
    assert_int_equal(job_of("a").priority, 7);
    lease = take_for("a", LEASE_MS);
    assert_int_equal(push(a_push_after("a", "third", 0)), QUEUE_CREATED);
    restart();
    assert_true(slice_is(job_of("a").body, "next"));
    pass(LEASE_MS + 2);
    assert_true(slice_is(job_of("a").body, "third"));
    restart();
    assert_true(slice_is(job_of("a").body, "third"));
}

static void the_successor_wins_over_a_push_again(void **state)
{
    (void)state;
    if (w->client.driver->lacks & DRIVER_LACKS_AGAIN)
        skip();
    struct slice lease = take_and_push("next");
    assert_int_equal(again_in(lease, HOUR_MS), QUEUE_REPLACED);
    assert_int_equal(state_of("a"), JOB_READY);
    assert_true(slice_is(job_of("a").body, "next"));
}

static void a_successor_needs_no_room_in_a_full_topic(void **state)
{
    (void)state;
    put((struct topic_settings){.max_jobs = 1});
    assert_int_equal(ack(take_and_push("next")), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_READY);
}

static void an_id_with_a_successor_is_not_remembered_as_finished(void **state)
{
    (void)state;
    put((struct topic_settings){.dedup_window_ms = HOUR_MS});
    assert_int_equal(ack(take_and_push("next")), QUEUE_OK);
    assert_int_equal(push(a_push("a")), QUEUE_REPLACED);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(push(a_push("a")), QUEUE_EXISTED);
}

static void a_purge_keeps_the_successor_and_a_delete_removes_it(void **state)
{
    (void)state;
    struct slice lease = take_and_push("next");
    topic_call(QUEUE_TOPIC_PURGE);
    assert_int_equal(ack(lease), QUEUE_OK);
    assert_true(slice_is(job_of("a").body, "next"));
    take_for("a", LEASE_MS);
    push(a_push_after("a", "third", 0));
    topic_call(QUEUE_TOPIC_DELETE);
    assert_int_equal(state_of("a"), 0);
    push(a_push("a"));
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(state_of("a"), 0);
}

static void a_repeated_once_stores_no_successor(void **state)
{
    (void)state;
    if (w->client.driver->lacks & DRIVER_LACKS_ONCE)
        skip();
    struct queue_push next = a_push_after("a", "next", 0);
    push(a_push("a"));
    struct slice lease = take_for("a", LEASE_MS);
    next.once = slice_of("a");
    assert_int_equal(push(next), QUEUE_CREATED);
    assert_int_equal(push(next), QUEUE_EXISTED);
    assert_int_equal(ack(lease), QUEUE_OK);
    assert_int_equal(push(next), QUEUE_EXISTED);
    assert_int_equal(ack(take_for("a", LEASE_MS)), QUEUE_OK);
    assert_int_equal(state_of("a"), 0);
}

static void no_topic_has_after_as_its_setting(void **state)
{
    (void)state;
    assert_int_equal(put((struct topic_settings){.on_conflict = CONFLICT_AFTER}), QUEUE_BAD_OPTION);
}

const struct CMUnitTest directed_after[] = {
    CLAIM(a_successor_starts_when_the_lease_ends),
    CLAIM(a_successor_starts_when_its_time_comes),
    CLAIM(a_successor_starts_when_a_lease_ends_by_itself),
    CLAIM(the_newest_successor_wins),
    CLAIM(cancel_removes_only_the_successor),
    CLAIM(successors_survive_a_restart),
    CLAIM(the_successor_wins_over_a_push_again),
    CLAIM(a_successor_needs_no_room_in_a_full_topic),
    CLAIM(an_id_with_a_successor_is_not_remembered_as_finished),
    CLAIM(a_purge_keeps_the_successor_and_a_delete_removes_it),
    CLAIM(a_repeated_once_stores_no_successor),
    CLAIM(no_topic_has_after_as_its_setting),
};
const size_t directed_after_count = sizeof directed_after / sizeof directed_after[0];
