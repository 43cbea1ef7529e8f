/* Claims about the holder of a lease, and about requests to give a job up. */
#include "directed.h"

static bool is_held_by(const char *id, const char *consumer)
{
    return slice_is(job_of(id).consumer, consumer);
}

static void a_lease_shows_its_holder(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    assert_true(is_held_by("a", ""));
    lease = take_as("a", "worker 1", 0);
    assert_true(is_held_by("a", "worker 1"));
    assert_int_equal(extend(lease, 5000), QUEUE_OK);
    assert_true(is_held_by("a", "worker 1"));
    assert_int_equal(nack(lease, 1000, "busy"), QUEUE_OK);
    assert_true(is_held_by("a", ""));
}

static void the_next_holder_takes_the_place_of_the_last(void **state)
{
    (void)state;
    push(a_push("a"));
    nack(take_as("a", "a-long-name-that-the-first-one-has", 0), 0, "boom");
    pass(10);
    give_back(take_as("a", "second", 0));
    take_as("a", "", 0);
    assert_true(is_held_by("a", ""));
    pass(60001);
    pass(60000);
    take_as("a", "fourth", 0);
    assert_true(is_held_by("a", "fourth"));
}

static void the_holder_survives_a_restart(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    nack(take("a"), 0, "an error that is kept beside it");
    pass(10);
    lease = take_as("a", "worker 1", 0);
    restart();
    assert_true(is_held_by("a", "worker 1"));
    assert_int_equal(extend(lease, 0), QUEUE_OK);
    assert_int_equal(ack(lease), QUEUE_OK);
}

static void an_extend_reports_the_request_to_cancel(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take_as("a", "worker 1", 0);
    assert_int_equal(extend(lease, 5000), QUEUE_OK);
    assert_false(is_asked_to_cancel());
    assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    assert_int_equal(state_of("a"), JOB_LEASED);
    assert_true(job_of("a").cancel_requested);
    assert_int_equal(extend(lease, 5000), QUEUE_OK);
    assert_true(is_asked_to_cancel());
    assert_int_equal(extend(lease, 5000), QUEUE_OK);
    assert_true(is_asked_to_cancel());
    assert_true(is_held_by("a", "worker 1"));
}

static void an_ack_wins_over_a_request_to_cancel(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take("a");
    assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    assert_int_equal(ack(lease), QUEUE_OK);
    assert_int_equal(state_of("a"), 0);
    assert_int_equal(figures().totals.acked, 1);
    assert_int_equal(figures().totals.cancelled, 0);
}

/* Answered by any but an ack it is cancelled, and counts as that and nothing else. */
static void cancelled_by(enum queue_status (*answer_it)(struct slice lease))
{
    struct queue_topic before;
    struct slice lease;

    push(a_push("a"));
    before = figures();
    lease = take("a");
    assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    assert_int_equal(answer_it(lease), QUEUE_CANCELLED);
    assert_int_equal(state_of("a"), 0);
    assert_int_equal(figures().totals.cancelled, before.totals.cancelled + 1);
    assert_int_equal(figures().totals.nacked, before.totals.nacked);
    assert_int_equal(figures().totals.died, before.totals.died);
    assert_int_equal(ack(lease), QUEUE_LEASE_ENDED);
    take("");
}

static enum queue_status nack_it(struct slice lease)
{
    return nack(lease, -1, "boom");
}

static enum queue_status refuse_it(struct slice lease)
{
    return refuse(lease, "never");
}

static void a_job_with_a_request_to_cancel_is_not_retried(void **state)
{
    (void)state;
    cancelled_by(nack_it);
    cancelled_by(refuse_it);
    cancelled_by(give_back);
}

static void the_end_of_its_lease_cancels_it(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take_for("a", 1000);
    assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    pass(1001);
    assert_int_equal(state_of("a"), 0);
    assert_int_equal(figures().totals.cancelled, 1);
    assert_int_equal(figures().totals.lease_ended, 0);
    assert_int_equal(ack(lease), QUEUE_LEASE_ENDED);
    pass(3600000);
    take("");
}

static void a_request_to_cancel_outlives_a_restart(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take_as("a", "worker 1", 10000);
    push(a_push("b"));
    take_for("b", 10000);
    assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    assert_int_equal(request_cancel("b"), QUEUE_REQUESTED);
    restart();
    assert_int_equal(extend(lease, 1000), QUEUE_OK);
    assert_true(is_asked_to_cancel());
    restart();
    pass(10001);
    assert_int_equal(state_of("a"), 0);
    assert_int_equal(state_of("b"), 0);
    restart();
    assert_int_equal(figures().totals.cancelled, 2);
    take("");
}

static void a_request_cancels_an_unleased_job_immediately(void **state)
{
    (void)state;
    push(a_push("ready"));
    push(a_push_in("delayed", 1000));
    assert_int_equal(request_cancel("ready"), QUEUE_CANCELLED);
    assert_int_equal(request_cancel("delayed"), QUEUE_CANCELLED);
    assert_int_equal(request_cancel("ready"), QUEUE_NOT_FOUND);
    push(a_push("again"));
    take("again");
    assert_int_equal(cancel("again"), QUEUE_LEASED);
    assert_false(job_of("again").cancel_requested);
}

static void a_later_delivery_has_no_earlier_request_to_cancel(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take("a");
    assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    assert_int_equal(ack(lease), QUEUE_OK);
    push(a_push("a"));
    lease = take("a");
    assert_int_equal(extend(lease, 5000), QUEUE_OK);
    assert_false(is_asked_to_cancel());
    assert_int_equal(nack(lease, 0, "boom"), QUEUE_OK);
}

const struct CMUnitTest directed_holder[] = {
    CLAIM(a_lease_shows_its_holder),
    CLAIM(the_next_holder_takes_the_place_of_the_last),
    CLAIM(the_holder_survives_a_restart),
    CLAIM(an_extend_reports_the_request_to_cancel),
    CLAIM(an_ack_wins_over_a_request_to_cancel),
    CLAIM(a_job_with_a_request_to_cancel_is_not_retried),
    CLAIM(the_end_of_its_lease_cancels_it),
    CLAIM(a_request_to_cancel_outlives_a_restart),
    CLAIM(a_request_cancels_an_unleased_job_immediately),
    CLAIM(a_later_delivery_has_no_earlier_request_to_cancel),
};
const size_t directed_holder_count = sizeof directed_holder / sizeof directed_holder[0];
