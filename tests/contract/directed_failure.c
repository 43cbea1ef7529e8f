/* How attempts end, and what is remembered of them. */
#include "directed.h"

#include <stdio.h>

static const struct topic_settings patient = {
    .policy = {.max_attempts = 100,
               .backoff = {.kind = BACKOFF_FIXED, .first_ms = 1000, .max_ms = 1000}}};

/* ---- final nacks ---- */

static void a_final_nack_makes_the_job_dead_despite_remaining_attempts(void **state)
{
    (void)state;
    push(a_push("a"));
    assert_int_equal(refuse(take("a"), "no such order"), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_true(slice_is(job_of("a").error, "no such order"));
    assert_int_equal(job_of("a").attempt, 1);
    assert_int_equal(figures().totals.died, 1);
    assert_int_equal(figures().totals.nacked, 1);
    pass(3600000);
    restart();
    assert_int_equal(state_of("a"), JOB_DEAD);
    take("");
}

static void a_job_refused_for_good_can_be_redriven_like_any_dead_one(void **state)
{
    (void)state;
    push(a_push("a"));
    refuse(take("a"), "no");
    assert_int_equal(topic_call(QUEUE_TOPIC_REDRIVE), QUEUE_OK);
    assert_int_equal(affected(), 1);
    assert_int_equal(ack(take("a")), QUEUE_OK);
}

static void final_means_nothing_to_an_ack_an_extension_or_a_return(void **state)
{
    struct queue_answer answer = {.verb = QUEUE_EXTEND, .lease_ms = 5000, .final = true};

    (void)state;
    push(a_push("a"));
    answer.lease = take("a");
    world_answer(w, &answer, 1);
    assert_int_equal(state_of("a"), JOB_LEASED);
    answer.verb = QUEUE_RETURN;
    world_answer(w, &answer, 1);
    assert_int_equal(state_of("a"), JOB_READY);
    answer.verb = QUEUE_ACK;
    answer.lease = take("a");
    world_answer(w, &answer, 1);
    assert_int_equal(state_of("a"), 0);
}

/* ---- attempts without end, and no wait between them ---- */

static const struct policy tireless = {.max_attempts = POLICY_ATTEMPTS_NONE,
                                       .backoff = {.kind = BACKOFF_NONE}};

static void without_most_attempts_a_job_is_tried_for_ever(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    job.policy = tireless;
    job.past.attempt = POLICY_ATTEMPTS_MAX;
    push(job);
    for (int i = 0; i < 20; i++)
        assert_int_equal(nack(take("a"), -1, "again"), QUEUE_OK);
    restart();
    assert_int_equal(job_of("a").attempt, POLICY_ATTEMPTS_MAX + 20);
    assert_int_equal(figures().totals.died, 0);
    assert_int_equal(refuse(take("a"), "now it is enough"), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_DEAD);
}

static void without_a_backoff_a_failed_job_is_ready_immediately(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    job.policy.backoff.kind = BACKOFF_NONE;
    push(job);
    assert_int_equal(nack(take("a"), -1, "boom"), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_READY);
    assert_int_equal(nack(take("a"), 5000, "wait"), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    pass(5001);
    take_for("a", 1000);
    pass(1001);
    assert_int_equal(figures().totals.lease_ended, 1);
    assert_int_equal(state_of("a"), JOB_READY);
    take("a");
    assert_int_equal(job_of("a").attempt, 4);
}

/* ---- a list of waits ---- */

static const struct backoff a_list = {
    .kind = BACKOFF_LIST, .step_count = 3, .steps_ms = {10000, 60000, 1000}};

static void has_backoff(const char *id, const struct backoff *expected)
{
    struct job job = job_of(id);

    assert_true(policy_backoff_equal(&job.policy.backoff, expected));
}

static void topic_has_backoff(const struct backoff *expected)
{
    struct queue_topic topic = figures();

    assert_true(policy_backoff_equal(&topic.settings.policy.backoff, expected));
}

/* Fails the job 5 times. After each failure it waits as the list has it; the last wait repeats. */
static void fail_by_the_list(void)
{
    static const int64_t waits_ms[] = {10000, 60000, 1000, 1000, 1000};

    for (size_t i = 0; i < sizeof waits_ms / sizeof waits_ms[0]; i++) {
        int64_t wait_ms;

        if (i == 1) { /* the end of a lease counts as a failure */
            take_for("a", 1000);
            pass(1001);
        } else {
            assert_int_equal(nack(take("a"), -1, "boom"), QUEUE_OK);
        }
        wait_ms = job_of("a").due_ms - now_ms();
        assert_in_range(wait_ms, waits_ms[i] * 8 / 10 - (i == 1), waits_ms[i] * 12 / 10 + 1);
        restart();
        pass(wait_ms + 1);
    }
}

static void a_list_has_a_wait_for_each_retry_and_repeats_the_last(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    job.policy.backoff = a_list;
    push(job);
    has_backoff("a", &a_list);
    restart();
    has_backoff("a", &a_list);
    fail_by_the_list();
    has_backoff("a", &a_list);
}

static void a_topic_may_have_a_list_of_waits(void **state)
{
    const struct backoff longest = {
        .kind = BACKOFF_LIST,
        .step_count = BACKOFF_STEPS_MAX,
        .steps_ms = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, BACKOFF_STEP_MS_MAX}};

    (void)state;
    put((struct topic_settings){.policy.backoff = a_list, .max_jobs = 7});
    push(a_push("a"));
    restart();
    topic_has_backoff(&a_list);
    assert_int_equal(figures().settings.max_jobs, 7);
    fail_by_the_list();
    put((struct topic_settings){.policy.backoff = longest});
    topic_has_backoff(&longest);
    put((struct topic_settings){
        .policy.backoff = {.kind = BACKOFF_FIXED, .first_ms = 5000, .max_ms = 5000}});
    nack(take("a"), -1, "boom");
    assert_in_range(job_of("a").due_ms - now_ms(), 4000, 6001);
}

static void jobs_with_and_without_a_list_are_pushed_together(void **state)
{
    struct queue_push jobs[] = {a_push("a"), a_push("b"), a_push("c"), a_push("d")};

    (void)state;
    jobs[1].policy.backoff = jobs[3].policy.backoff = a_list;
    jobs[3].policy.backoff.steps_ms[0] = 500;
    world_push(w, jobs, sizeof jobs / sizeof jobs[0]);
    restart();
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        const char *ids[] = {"a", "b", "c", "d"};

        has_backoff(ids[i], &jobs[i].policy.backoff);
    }
}

static void a_list_stays_with_again_and_goes_with_a_successor(void **state)
{
    struct queue_push job = a_push("a"), next = a_push("a");

    (void)state;
    job.policy.backoff = a_list;
    next.policy.backoff = a_list;
    next.policy.backoff.steps_ms[0] = 40000;
    next.on_conflict = CONFLICT_AFTER;
    push(job);
    if (!(w->client.driver->lacks & DRIVER_LACKS_AGAIN)) {
        struct queue_again other = {.when.due = QUEUE_DUE_NOW,
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .has_body = true,
                                    .body = slice_of("other")};

        assert_int_equal(again(take("a"), other), QUEUE_CREATED);
        assert_true(slice_is(job_of("a").body, "other"));
    }
    has_backoff("a", &a_list);
    struct slice lease = take("a");
    assert_int_equal(push(next), QUEUE_CREATED);
    assert_int_equal(push(next), QUEUE_REPLACED);
    restart();
    nack(lease, -1, "boom");
    has_backoff("a", &next.policy.backoff);
    nack(take("a"), -1, "boom");
    assert_in_range(job_of("a").due_ms - now_ms(), 32000, 48001);
    push(a_push("a"));
    assert_int_equal(job_of("a").policy.backoff.kind, 0);
}

static void a_bad_list_is_rejected(void **state)
{
    const struct backoff bad[] = {
        {.kind = BACKOFF_LIST},
        {.kind = BACKOFF_LIST, .step_count = 2, .steps_ms = {1}},
        {.kind = BACKOFF_LIST, .step_count = 1, .steps_ms = {(uint32_t)BACKOFF_STEP_MS_MAX + 1}},
        {.kind = BACKOFF_LIST, .step_count = 1, .steps_ms = {1}, .first_ms = 1, .max_ms = 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct queue_push job = a_push("a");

        job.policy.backoff = bad[i];
        assert_int_equal(push(job), QUEUE_BAD_OPTION);
    }
}

static void a_topic_may_have_no_backoff_and_no_most_attempts(void **state)
{
    (void)state;
    put((struct topic_settings){.policy = tireless});
    assert_int_equal(figures().settings.policy.max_attempts, POLICY_ATTEMPTS_NONE);
    assert_int_equal(figures().settings.policy.backoff.kind, BACKOFF_NONE);
    push(a_push("a"));
    for (int i = 0; i < POLICY_ATTEMPTS + 1; i++)
        nack(take("a"), -1, "boom");
    restart();
    take("a");
    pass(POLICY_LEASE_MS + 1);
    take("a");
}

/* ---- return with a delay ---- */

static void a_job_returned_with_a_delay_waits_without_an_attempt(void **state)
{
    (void)state;
    push(a_push("a"));
    assert_int_equal(give_back_for(take("a"), 5000), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    assert_int_equal(job_of("a").attempt, 0);
    assert_int_equal(figures().counts.delayed, 1);
    assert_int_equal(figures().counts.retrying, 0);
    pass(4999);
    take("");
    restart();
    take("");
    pass(2);
    assert_int_equal(ack(take("a")), QUEUE_OK);
}

static void a_retry_returned_with_a_delay_is_still_a_retry(void **state)
{
    (void)state;
    push(a_push("a"));
    nack(take("a"), 0, "first");
    give_back_for(take("a"), 5000);
    assert_int_equal(job_of("a").attempt, 1);
    assert_int_equal(figures().counts.retrying, 1);
    assert_true(slice_is(job_of("a").error, "first"));
    assert_int_equal(cancel("a"), QUEUE_CANCELLED);
}

static void a_job_returned_without_a_delay_is_ready_immediately(void **state)
{
    (void)state;
    push(a_push("a"));
    give_back_for(take("a"), 0);
    give_back_for(take("a"), -1);
    give_back(take("a"));
    assert_int_equal(state_of("a"), JOB_READY);
    assert_int_equal(job_of("a").attempt, 0);
}

static void a_return_s_delay_has_the_limits_of_a_nack_s(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take("a");
    assert_int_equal(give_back_for(lease, POLICY_DELAY_MS_MAX + 1), QUEUE_BAD_OPTION);
    assert_int_equal(give_back_for(lease, -2), QUEUE_BAD_OPTION);
    assert_int_equal(give_back_for(lease, POLICY_DELAY_MS_MAX), QUEUE_OK);
}

static void ttl_continues_while_a_returned_job_waits(void **state)
{
    struct queue_push push_it = a_push("a");

    (void)state;
    push_it.policy.ttl_ms = 10000;
    push(push_it);
    give_back_for(take("a"), 20000);
    pass(15000);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    pass(5001);
    assert_int_equal(state_of("a"), 0);
    assert_int_equal(figures().totals.expired, 1);
}

/* A job pushed for a time of day counts its ttl from there, also once a delay has taken its
 * place. */
static void ttl_of_a_job_with_a_fixed_time_continues_while_it_waits(void **state)
{
    struct queue_push push_it = a_push("a");

    (void)state;
    push_it.when = (struct queue_when){.due = QUEUE_DUE_AT, .ms = now_ms() + 1000};
    push_it.policy.ttl_ms = 10000;
    push(push_it);
    pass(2000);
    give_back_for(take("a"), 4000);
    pass(4001);
    assert_int_equal(state_of("a"), JOB_READY);
    restart();
    pass(5000);
    assert_int_equal(state_of("a"), 0);
}

/* ---- history ---- */

static void a_job_that_never_failed_has_no_history(void **state)
{
    (void)state;
    push(a_push("a"));
    assert_int_equal(job_of("a").history.len, 0);
    give_back(take("a"));
    take("a");
    assert_int_equal(job_of("a").history.len, 0);
}

static void history_has_start_duration_and_outcome_of_each_attempt(void **state)
{
    struct job_attempt attempts[JOB_HISTORY_MAX];
    int64_t first_ms, second_ms, third_ms;

    (void)state;
    put(patient);
    push(a_push("a"));
    first_ms = now_ms();
    struct slice lease = take("a");
    pass(250);
    nack(lease, 0, "timed out");
    second_ms = now_ms();
    take_for("a", 2000);
    pass(60000); /* it ended after two seconds, whenever that is noticed */
    pass(1300);
    third_ms = now_ms();
    refuse(take("a"), "gone");
    for (int i = 0; i < 2; i++, restart()) {
        assert_int_equal(history_of("a", attempts), 3);
        assert_int_equal(attempts[0].attempt, 1);
        assert_int_equal(attempts[0].started_ms, first_ms);
        assert_int_equal(attempts[0].duration_ms, 250);
        assert_int_equal(attempts[0].outcome, JOB_OUTCOME_FAILED);
        assert_true(slice_is(attempts[0].error, "timed out"));
        assert_int_equal(attempts[1].attempt, 2);
        assert_int_equal(attempts[1].started_ms, second_ms);
        assert_in_range(attempts[1].duration_ms, 2000, 2001);
        assert_int_equal(attempts[1].outcome, JOB_OUTCOME_LEASE_ENDED);
        assert_true(slice_is(attempts[1].error, "lease ended"));
        assert_int_equal(attempts[2].attempt, 3);
        assert_int_equal(attempts[2].started_ms, third_ms);
        assert_int_equal(attempts[2].duration_ms, 0);
        assert_int_equal(attempts[2].outcome, JOB_OUTCOME_REFUSED);
        assert_true(slice_is(attempts[2].error, "gone"));
    }
}

static void an_attempt_that_ends_after_a_restart_keeps_its_start(void **state)
{
    struct job_attempt attempts[JOB_HISTORY_MAX];
    int64_t taken_ms;

    (void)state;
    push(a_push("a"));
    taken_ms = now_ms();
    struct slice lease = take_for("a", 10000);
    pass(3000);
    extend(lease, 50000);
    restart();
    pass(4000);
    nack(lease, -1, "late");
    assert_int_equal(history_of("a", attempts), 1);
    assert_int_equal(attempts[0].started_ms, taken_ms);
    assert_int_equal(attempts[0].duration_ms, 7000);
}

static void history_keeps_the_last_attempts_only(void **state)
{
    struct job_attempt attempts[JOB_HISTORY_MAX];
    char error[24];

    (void)state;
    put(patient);
    push(a_push("a"));
    for (int i = 1; i <= JOB_HISTORY_MAX + 3; i++) {
        snprintf(error, sizeof error, "error %d", i);
        nack(take("a"), 0, error);
    }
    assert_int_equal(history_of("a", attempts), JOB_HISTORY_MAX);
    assert_int_equal(attempts[0].attempt, 4);
    assert_true(slice_is(attempts[0].error, "error 4"));
    assert_int_equal(attempts[JOB_HISTORY_MAX - 1].attempt, JOB_HISTORY_MAX + 3);
}

static void history_cuts_errors_and_keeps_empty_ones(void **state)
{
    static char error[JOB_ERROR_BYTES_MAX + 10];
    struct job_attempt attempts[JOB_HISTORY_MAX];

    (void)state;
    memset(error, 'x', sizeof error - 1);
    put(patient);
    push(a_push("a"));
    nack(take("a"), 0, error);
    nack(take("a"), 0, "");
    assert_int_equal(history_of("a", attempts), 2);
    assert_int_equal(attempts[0].error.len, JOB_HISTORY_ERROR_BYTES_MAX);
    assert_int_equal(attempts[1].error.len, 0);
    assert_int_equal(job_of("a").error.len, 0);
}

static void redrive_keeps_the_history_and_replace_clears_it(void **state)
{
    struct job_attempt attempts[JOB_HISTORY_MAX];

    (void)state;
    push(a_push("a"));
    refuse(take("a"), "one");
    topic_call(QUEUE_TOPIC_REDRIVE);
    assert_int_equal(history_of("a", attempts), 1);
    refuse(take("a"), "two");
    assert_int_equal(history_of("a", attempts), 2);
    assert_int_equal(attempts[0].attempt, 1);
    assert_int_equal(attempts[1].attempt, 1);
    push(a_push("a"));
    assert_int_equal(history_of("a", attempts), 0);
    restart();
    assert_int_equal(history_of("a", attempts), 0);
}

static void a_reschedule_and_a_run_keep_the_history(void **state)
{
    struct job_attempt attempts[JOB_HISTORY_MAX];

    (void)state;
    put(patient);
    push(a_push("a"));
    nack(take("a"), 1000, "one");
    reschedule_in("a", 5000);
    run("a");
    restart();
    assert_int_equal(history_of("a", attempts), 1);
    nack(take("a"), 1000, "two");
    assert_int_equal(history_of("a", attempts), 2);
}

static void a_job_that_expires_keeps_its_history(void **state)
{
    struct topic_settings settings = patient;
    struct job_attempt attempts[JOB_HISTORY_MAX];

    (void)state;
    settings.policy.ttl_ms = 5000;
    settings.dead_letter_expired = true;
    put(settings);
    push(a_push("a"));
    nack(take("a"), 0, "one");
    pass(6000);
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_true(slice_is(job_of("a").error, "expired"));
    restart();
    assert_int_equal(history_of("a", attempts), 1);
    assert_true(slice_is(attempts[0].error, "one"));
}

static void lists_and_takes_show_the_history(void **state)
{
    struct queue_list list = {.topic = slice_of("t"), .limit = 10};

    (void)state;
    put(patient);
    for (int i = 0; i < 3; i++) {
        push(a_push("a"));
        nack(take("a"), 0, "again");
        world_list(w, &list);
        nack(take("a"), 0, "and again"); /* every take and list is held against the model */
        world_list(w, &list);
        cancel("a");
    }
}

/* ---- what the dead take up ---- */

static void dead_bytes_rise_and_fall_with_the_dead(void **state)
{
    uint64_t one, two;

    (void)state;
    push(a_push("a"));
    assert_int_equal(figures().counts.dead_bytes, 0);
    refuse(take("a"), "no");
    one = figures().counts.dead_bytes;
    push(a_push("b"));
    refuse(take("b"), "no");
    two = figures().counts.dead_bytes;
    assert_true(one > 0 && two > one);
    restart();
    assert_int_equal(figures().counts.dead_bytes, two);
    assert_int_equal(cancel("b"), QUEUE_CANCELLED);
    assert_int_equal(figures().counts.dead_bytes, one);
    topic_call(QUEUE_TOPIC_REDRIVE);
    assert_int_equal(figures().counts.dead_bytes, 0);
    refuse(take("a"), "no");
    assert_int_equal(figures().counts.dead_bytes, one);
    topic_call(QUEUE_TOPIC_PURGE);
    assert_int_equal(figures().counts.dead_bytes, 0);
}

static void dead_bytes_count_jobs_that_are_replaced_or_came_dead(void **state)
{
    struct queue_push dead = a_push("a");

    (void)state;
    dead.past = (struct queue_past){.attempt = 3, .dead = true, .error = slice_of("was dead")};
    push(dead);
    assert_true(figures().counts.dead_bytes > 0);
    push(a_push("a"));
    assert_int_equal(figures().counts.dead_bytes, 0);
}

const struct CMUnitTest directed_failure[] = {
    CLAIM(without_most_attempts_a_job_is_tried_for_ever),
    CLAIM(without_a_backoff_a_failed_job_is_ready_immediately),
    CLAIM(a_topic_may_have_no_backoff_and_no_most_attempts),
    CLAIM(a_list_has_a_wait_for_each_retry_and_repeats_the_last),
    CLAIM(a_topic_may_have_a_list_of_waits),
    CLAIM(jobs_with_and_without_a_list_are_pushed_together),
    CLAIM(a_list_stays_with_again_and_goes_with_a_successor),
    CLAIM(a_bad_list_is_rejected),
    CLAIM(a_final_nack_makes_the_job_dead_despite_remaining_attempts),
    CLAIM(a_job_refused_for_good_can_be_redriven_like_any_dead_one),
    CLAIM(final_means_nothing_to_an_ack_an_extension_or_a_return),
    CLAIM(a_job_returned_with_a_delay_waits_without_an_attempt),
    CLAIM(a_retry_returned_with_a_delay_is_still_a_retry),
    CLAIM(a_job_returned_without_a_delay_is_ready_immediately),
    CLAIM(a_return_s_delay_has_the_limits_of_a_nack_s),
    CLAIM(ttl_continues_while_a_returned_job_waits),
    CLAIM(ttl_of_a_job_with_a_fixed_time_continues_while_it_waits),
    CLAIM(a_job_that_never_failed_has_no_history),
    CLAIM(history_has_start_duration_and_outcome_of_each_attempt),
    CLAIM(an_attempt_that_ends_after_a_restart_keeps_its_start),
    CLAIM(history_keeps_the_last_attempts_only),
    CLAIM(history_cuts_errors_and_keeps_empty_ones),
    CLAIM(redrive_keeps_the_history_and_replace_clears_it),
    CLAIM(a_reschedule_and_a_run_keep_the_history),
    CLAIM(a_job_that_expires_keeps_its_history),
    CLAIM(lists_and_takes_show_the_history),
    CLAIM(dead_bytes_rise_and_fall_with_the_dead),
    CLAIM(dead_bytes_count_jobs_that_are_replaced_or_came_dead),
};
const size_t directed_failure_count = sizeof directed_failure / sizeof directed_failure[0];
