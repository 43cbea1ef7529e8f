/* Claims about taking, leases and their ends. */
#include "directed.h"

#include "base/clock.h"

static struct queue_push urgent(const char *id, int32_t priority)
{
    struct queue_push job = a_push(id);

    job.priority = priority;
    return job;
}

static struct queue_push limited(const char *id, uint32_t max_attempts)
{
    struct queue_push job = a_push(id);

    job.policy.max_attempts = max_attempts;
    job.policy.backoff = (struct backoff){.kind = BACKOFF_FIXED, .first_ms = 1000, .max_ms = 1000};
    return job;
}

static bool one_order(void)
{
    return w->client.driver->shards == 1;
}

static void ready_jobs_come_by_priority_then_due_then_push_order(void **state)
{
    (void)state;
    push(a_push_in("late", 20));
    push(a_push_in("early", 10));
    push(urgent("first", 0));
    push(urgent("last", 65535));
    push(a_push("now-1"));
    push(a_push("now-2"));
    pass(100);
    if (!one_order()) {
        assert_int_equal(take_many("t", 10), 6);
        return;
    }
    take("first");
    take("now-1");
    take("now-2");
    take("early");
    take("late");
    take("last");
}

/* A store may carry out new jobs and a replacement separately. */
static void jobs_pushed_together_keep_their_order_among_equals(void **state)
{
    (void)state;
    push(a_push_in("b", 1000));
    world_push(w, (struct queue_push[]){a_push("c"), a_push("b"), a_push("a")}, 3);
    if (!one_order()) {
        assert_int_equal(take_many("t", 10), 3);
        return;
    }
    take("c");
    take("b");
    take("a");
}

static void a_take_returns_at_most_the_requested_number(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        push(a_push(&"abcde"[i]));
    assert_int_equal(take_many("t", 2), 2);
    assert_int_equal(take_many("t", 2), 2);
    assert_int_equal(take_many("t", 2), 1);
    assert_int_equal(take_many("t", 2), 0);
}

static void a_take_from_a_topic_that_does_not_exist_is_empty(void **state)
{
    (void)state;
    assert_int_equal(take_many("nowhere", 5), 0);
    assert_int_equal(topic_call(QUEUE_TOPIC_GET), QUEUE_NOT_FOUND);
}

static void of_several_topics_the_first_named_is_served_first(void **state)
{
    struct slice topics[] = {slice_of("u"), slice_of("t")};
    struct queue_take call = {.topics = topics, .topic_count = 2, .max = 2};
    struct queue_push other = urgent("u-1", 65535);
    const struct queue_reply *reply;

    (void)state;
    other.topic = slice_of("u");
    push(urgent("t-1", 0));
    push(urgent("t-2", 0));
    push(other);
    reply = world_take(w, &call);
    assert_string_equal(w->fault, "");
    assert_int_equal(reply->job_count, 2);
    assert_true(slice_is(reply->jobs[0].job.id, "u-1"));
}

static void invalid_takes_are_rejected(void **state)
{
    struct slice topic = slice_of("t"), bad = slice_of("no blank");
    struct queue_take calls[] = {
        {.topics = &topic, .topic_count = 0, .max = 1},
        {.topics = &topic, .topic_count = 1, .max = 0},
        {.topics = &topic, .topic_count = 1, .max = QUEUE_TAKE_MAX + 1},
        {.topics = &topic, .topic_count = 1, .max = 1, .lease_ms = 1},
    };
    struct queue_take wrong = {.topics = &bad, .topic_count = 1, .max = 1};

    (void)state;
    push(a_push("a"));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(world_take(w, &calls[i])->status, QUEUE_BAD_OPTION);
    assert_int_equal(world_take(w, &wrong)->status, QUEUE_BAD_TOPIC);
    assert_string_equal(w->fault, "");
}

static void a_leased_job_has_one_holder(void **state)
{
    (void)state;
    push(a_push("a"));
    take("a");
    assert_int_equal(state_of("a"), JOB_LEASED);
    take("");
}

static void an_acked_job_is_gone(void **state)
{
    (void)state;
    push(a_push("a"));
    assert_int_equal(ack(take("a")), QUEUE_OK);
    assert_int_equal(state_of("a"), 0);
    assert_int_equal(figures().totals.acked, 1);
    restart();
    take("");
}

static void an_answer_counts_once(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take("a");
    assert_int_equal(ack(lease), QUEUE_OK);
    assert_int_equal(ack(lease), QUEUE_LEASE_ENDED);
    assert_int_equal(nack(lease, 0, ""), QUEUE_LEASE_ENDED);
    assert_int_equal(extend(lease, 0), QUEUE_LEASE_ENDED);
    assert_int_equal(give_back(lease), QUEUE_LEASE_ENDED);
}

static void a_lease_that_never_was_is_not_good(void **state)
{
    (void)state;
    assert_int_equal(ack(slice_of("")), QUEUE_LEASE_ENDED);
    assert_int_equal(ack(slice_of("x")), QUEUE_LEASE_ENDED);
    assert_int_equal(
        ack(slice_of("0123456789012345678901234567890123456789012345678901234567890123456789")),
        QUEUE_LEASE_ENDED);
}

static void a_nacked_job_waits_by_backoff_and_is_counted_as_retrying(void **state)
{
    int64_t wait_ms;

    (void)state;
    push(a_push("a"));
    assert_int_equal(nack(take("a"), -1, "boom"), QUEUE_OK);
    assert_int_equal(figures().counts.retrying, 1);
    assert_int_equal(figures().counts.delayed, 0);
    assert_true(slice_is(job_of("a").error, "boom"));
    wait_ms = job_of("a").due_ms - now_ms();
    assert_in_range(wait_ms, 800, 1201);
    pass(wait_ms - 1);
    take("");
    pass(1);
    take("a");
    assert_int_equal(job_of("a").attempt, 2);
}

static void backoff_doubles_up_to_its_limit(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    job.policy.backoff =
        (struct backoff){.kind = BACKOFF_EXPONENTIAL, .first_ms = 1000, .max_ms = 5000};
    push(job);
    for (int64_t plain_ms = 1000; plain_ms < 100000; plain_ms *= 2) {
        int64_t most_ms = plain_ms < 5000 ? plain_ms : 5000, wait_ms;

        nack(take("a"), -1, "");
        wait_ms = job_of("a").due_ms - now_ms();
        assert_in_range(wait_ms, most_ms * 8 / 10, most_ms * 12 / 10 + 1);
        pass(wait_ms);
    }
}

static void a_nack_may_set_the_delay(void **state)
{
    (void)state;
    push(a_push("a"));
    nack(take("a"), 30000, "");
    pass(29999);
    take("");
    pass(2);
    nack(take("a"), 0, "");
    assert_int_equal(state_of("a"), JOB_READY);
    assert_int_equal(nack(take("a"), POLICY_DELAY_MS_MAX + 1, ""), QUEUE_BAD_OPTION);
}

static void a_long_error_is_cut(void **state)
{
    char error[JOB_ERROR_BYTES_MAX * 2 + 1];

    (void)state;
    memset(error, 'e', sizeof error - 1);
    error[sizeof error - 1] = '\0';
    push(a_push("a"));
    nack(take("a"), 0, error);
    assert_int_equal(job_of("a").error.len, JOB_ERROR_BYTES_MAX);
    restart();
}

static void attempts_rise_by_one_and_the_last_failure_is_death(void **state)
{
    (void)state;
    push(limited("a", 3));
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        struct slice lease = take("a");

        assert_int_equal(job_of("a").attempt, attempt);
        nack(lease, 0, "boom");
    }
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_int_equal(figures().totals.died, 1);
    take("");
    restart();
    assert_int_equal(state_of("a"), JOB_DEAD);
}

static void the_default_is_sixteen_attempts(void **state)
{
    (void)state;
    push(a_push("a"));
    for (int i = 0; i < POLICY_ATTEMPTS; i++) {
        assert_int_equal(state_of("a"), JOB_READY);
        nack(take("a"), 0, "");
    }
    assert_int_equal(state_of("a"), JOB_DEAD);
}

static void a_lease_that_ends_is_a_failed_attempt(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take_for("a", 5000);
    pass(4999);
    assert_int_equal(state_of("a"), JOB_LEASED);
    pass(2);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    assert_true(slice_is(job_of("a").error, "lease ended"));
    assert_int_equal(figures().totals.lease_ended, 1);
    assert_int_equal(ack(lease), QUEUE_LEASE_ENDED);
}

static void the_last_lease_that_ends_is_death(void **state)
{
    (void)state;
    push(limited("a", 1));
    take_for("a", 1000);
    pass(1001);
    assert_int_equal(state_of("a"), JOB_DEAD);
}

static void an_answer_after_the_lease_end_is_too_late_before_the_end_is_processed(void **state)
{
    struct queue_answer late = {.verb = QUEUE_ACK};

    (void)state;
    push(a_push("a"));
    late.lease = take_for("a", 1000);
    clock_fake_advance(1001);
    assert_int_equal(client_answer(&w->client, &late, 1)->results[0].status, QUEUE_LEASE_ENDED);
    pass(0);
    assert_int_equal(state_of("a"), JOB_DELAYED);
}

static void a_late_consumer_is_fenced_by_the_delivery_number(void **state)
{
    struct slice first, second;
    uint64_t number;

    (void)state;
    push(limited("a", 5));
    first = take_for("a", 1000);
    number = job_of("a").delivery;
    pass(1001);
    pass(1201);
    second = take("a");
    assert_true(job_of("a").delivery > number);
    assert_int_equal(ack(first), QUEUE_LEASE_ENDED);
    restart();
    assert_int_equal(ack(second), QUEUE_OK);
}

static void delivery_numbers_rise_over_a_restart(void **state)
{
    (void)state;
    push(a_push("a"));
    nack(take("a"), 0, "");
    restart();
    nack(take("a"), 0, "");
    restart();
    take("a");
}

static void the_lease_length_comes_from_take_job_topic_or_default(void **state)
{
    struct queue_push job = a_push("b");

    (void)state;
    push(a_push("a"));
    take("a");
    assert_in_range(job_of("a").lease_until_ms - now_ms(), POLICY_LEASE_MS, POLICY_LEASE_MS + 1);
    put((struct topic_settings){.policy.lease_ms = 7000});
    job.policy.lease_ms = 3000;
    push(job);
    take("b");
    assert_in_range(job_of("b").lease_until_ms - now_ms(), 3000, 3001);
    push(a_push("c"));
    take("c");
    assert_in_range(job_of("c").lease_until_ms - now_ms(), 7000, 7001);
    push(job = a_push("d"));
    take_for("d", 2000);
    assert_in_range(job_of("d").lease_until_ms - now_ms(), 2000, 2001);
}

static void an_extended_lease_lasts_longer(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take_for("a", 5000);
    pass(4000);
    assert_int_equal(extend(lease, 10000), QUEUE_OK);
    pass(9999);
    assert_int_equal(state_of("a"), JOB_LEASED);
    assert_int_equal(extend(lease, 1), QUEUE_BAD_OPTION);
    assert_int_equal(ack(lease), QUEUE_OK);
}

static void extend_without_a_time_repeats_the_length_of_the_take(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take_for("a", 5000);
    pass(4000);
    extend(lease, 0);
    assert_in_range(job_of("a").lease_until_ms - now_ms(), 5000, 5001);
    extend(lease, 9000);
    extend(lease, 0);
    assert_in_range(job_of("a").lease_until_ms - now_ms(), 5000, 5001);
    restart();
    assert_int_equal(extend(lease, 0), QUEUE_OK);
}

static void a_lease_may_be_extended_to_end_sooner(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take_for("a", 60000);
    extend(lease, 1000);
    pass(1001);
    assert_int_equal(state_of("a"), JOB_DELAYED);
}

static void a_lease_survives_a_restart_with_the_time_it_had_left(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take_for("a", 10000);
    pass(6000);
    restart();
    pass(3999);
    assert_int_equal(state_of("a"), JOB_LEASED);
    assert_int_equal(extend(lease, 1000), QUEUE_OK);
    pass(1001);
    assert_int_equal(state_of("a"), JOB_DELAYED);
}

static void a_returned_job_is_ready_again_and_the_attempt_does_not_count(void **state)
{
    (void)state;
    push(limited("a", 1));
    for (int i = 0; i < 3; i++)
        assert_int_equal(give_back(take("a")), QUEUE_OK);
    assert_int_equal(job_of("a").attempt, 0);
    restart();
    take("a");
    assert_int_equal(job_of("a").attempt, 1);
}

static void a_ready_job_expires_after_its_ttl_and_not_before(void **state)
{
    struct queue_push job = a_push_in("a", 5000);

    (void)state;
    job.policy.ttl_ms = 10000;
    push(job);
    pass(5001);
    pass(9998);
    assert_int_equal(state_of("a"), JOB_READY);
    pass(2);
    assert_int_equal(state_of("a"), 0);
    assert_int_equal(figures().totals.expired, 1);
    restart();
    take("");
}

static void a_leased_job_does_not_expire_but_its_retry_may(void **state)
{
    struct queue_push job = a_push("a");
    struct slice lease;

    (void)state;
    job.policy.ttl_ms = 1000;
    push(job);
    lease = take("a");
    pass(5000);
    assert_int_equal(state_of("a"), JOB_LEASED);
    nack(lease, 1000, "");
    assert_int_equal(state_of("a"), JOB_DELAYED);
    pass(1001);
    assert_int_equal(state_of("a"), 0);
}

static void an_expired_job_becomes_dead_if_the_topic_is_set_so(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    put((struct topic_settings){.dead_letter_expired = true, .policy.ttl_ms = 1000});
    push(job);
    pass(1001);
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_true(slice_is(job_of("a").error, "expired"));
    assert_int_equal(figures().totals.expired, 0);
    restart();
    assert_int_equal(state_of("a"), JOB_DEAD);
}

static void many_jobs_due_in_one_millisecond_all_come(void **state)
{
    static char ids[500][16];
    static struct queue_push jobs[500];

    (void)state;
    w->quick = true;
    for (int i = 0; i < 500; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        jobs[i] = a_push_in(ids[i], 3600000);
        jobs[i].body = slice_of(ids[i]);
    }
    world_push(w, jobs, 500);
    pass(3599999);
    take("");
    pass(2);
    assert_int_equal(take_many("t", QUEUE_TAKE_MAX), 500);
}

const struct CMUnitTest directed_deliver[] = {
    CLAIM(ready_jobs_come_by_priority_then_due_then_push_order),
    CLAIM(jobs_pushed_together_keep_their_order_among_equals),
    CLAIM(a_take_returns_at_most_the_requested_number),
    CLAIM(a_take_from_a_topic_that_does_not_exist_is_empty),
    CLAIM(of_several_topics_the_first_named_is_served_first),
    CLAIM(invalid_takes_are_rejected),
    CLAIM(a_leased_job_has_one_holder),
    CLAIM(an_acked_job_is_gone),
    CLAIM(an_answer_counts_once),
    CLAIM(a_lease_that_never_was_is_not_good),
    CLAIM(a_nacked_job_waits_by_backoff_and_is_counted_as_retrying),
    CLAIM(backoff_doubles_up_to_its_limit),
    CLAIM(a_nack_may_set_the_delay),
    CLAIM(a_long_error_is_cut),
    CLAIM(attempts_rise_by_one_and_the_last_failure_is_death),
    CLAIM(the_default_is_sixteen_attempts),
    CLAIM(a_lease_that_ends_is_a_failed_attempt),
    CLAIM(the_last_lease_that_ends_is_death),
    CLAIM(an_answer_after_the_lease_end_is_too_late_before_the_end_is_processed),
    CLAIM(a_late_consumer_is_fenced_by_the_delivery_number),
    CLAIM(delivery_numbers_rise_over_a_restart),
    CLAIM(the_lease_length_comes_from_take_job_topic_or_default),
    CLAIM(an_extended_lease_lasts_longer),
    CLAIM(extend_without_a_time_repeats_the_length_of_the_take),
    CLAIM(a_lease_may_be_extended_to_end_sooner),
    CLAIM(a_lease_survives_a_restart_with_the_time_it_had_left),
    CLAIM(a_returned_job_is_ready_again_and_the_attempt_does_not_count),
    CLAIM(a_ready_job_expires_after_its_ttl_and_not_before),
    CLAIM(a_leased_job_does_not_expire_but_its_retry_may),
    CLAIM(an_expired_job_becomes_dead_if_the_topic_is_set_so),
    CLAIM(many_jobs_due_in_one_millisecond_all_come),
};
const size_t directed_deliver_count = sizeof directed_deliver / sizeof directed_deliver[0];
