/* Claims about pushing. */
#include "directed.h"

static struct queue_push with(struct queue_push push, enum record_conflict on_conflict)
{
    push.on_conflict = on_conflict;
    return push;
}

static struct queue_push at(const char *id, int64_t ms)
{
    struct queue_push job = a_push(id);

    job.when = (struct queue_when){.due = QUEUE_DUE_AT, .ms = ms};
    return job;
}

static const struct queue_result *push_result(struct queue_push job)
{
    push(job);
    return world_push(w, &job, 1)->results;
}

static void a_job_without_a_delay_is_ready_immediately(void **state)
{
    (void)state;
    assert_int_equal(push(a_push("a")), QUEUE_CREATED);
    assert_int_equal(state_of("a"), JOB_READY);
    assert_int_equal(job_of("a").due_ms, now_ms());
    take("a");
}

static void a_delayed_job_waits_and_never_comes_early(void **state)
{
    (void)state;
    push(a_push_in("a", 1800000));
    assert_int_equal(state_of("a"), JOB_DELAYED);
    pass(1799999);
    take("");
    pass(2);
    assert_int_equal(state_of("a"), JOB_READY);
    take("a");
}

static void a_delay_of_ten_years_is_kept_to_the_millisecond(void **state)
{
    (void)state;
    assert_int_equal(push(a_push_in("a", POLICY_DELAY_MS_MAX)), QUEUE_CREATED);
    pass(POLICY_DELAY_MS_MAX - 1);
    take("");
    pass(2);
    take("a");
}

static void a_delay_above_32_bits_is_not_cut(void **state)
{
    (void)state;
    push(a_push_in("a", (1LL << 32) + 5));
    pass(1000);
    take("");
    pass(1LL << 32);
    take("a");
}

static void a_delay_above_ten_years_is_refused_and_named(void **state)
{
    struct queue_push job = a_push_in("a", POLICY_DELAY_MS_MAX + 1);
    const struct queue_result *result = push_result(job);

    (void)state;
    assert_int_equal(result->status, QUEUE_BAD_OPTION);
    assert_string_equal(result->detail, "delay");
    assert_int_equal(push(at("a", now_ms() + POLICY_DELAY_MS_MAX + 1)), QUEUE_BAD_OPTION);
    assert_int_equal(push(at("a", now_ms() + POLICY_DELAY_MS_MAX)), QUEUE_CREATED);
}

static void an_absolute_time_is_met_exactly(void **state)
{
    (void)state;
    push(at("a", now_ms() + 5000));
    pass(4999);
    take("");
    pass(1);
    take("a");
}

static void an_absolute_time_in_the_past_means_now(void **state)
{
    (void)state;
    push(at("a", now_ms() - 100000));
    assert_int_equal(job_of("a").due_ms, now_ms());
    take("a");
}

static void body_type_and_meta_come_back_byte_for_byte(void **state)
{
    static const char body[] = "\0\1\2\xff bytes";
    struct queue_push job = a_push("a");

    (void)state;
    job.body = slice_make(body, sizeof body);
    job.content_type = slice_of("application/x-bytes");
    job.meta = slice_make("k\0v\0", 4);
    push(job);
    take("a");
    assert_memory_equal(job_of("a").body.at, body, sizeof body);
    restart();
}

static void an_empty_body_is_a_body(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    job.body = slice_of("");
    push(job);
    take("a");
}

static void a_body_at_the_limit_passes_and_one_above_does_not(void **state)
{
    static char bytes[WORLD_BODY_BYTES_MAX + 1];
    struct queue_push job = a_push("a");

    (void)state;
    job.body = slice_make(bytes, WORLD_BODY_BYTES_MAX);
    assert_int_equal(push(job), QUEUE_CREATED);
    job.body.len++;
    assert_int_equal(push(job), QUEUE_BODY_TOO_BIG);
}

static void the_queue_creates_a_missing_id(void **state)
{
    struct queue_push jobs[2] = {a_push(""), a_push("")};
    const struct queue_reply *reply = world_push(w, jobs, 2);

    (void)state;
    assert_string_equal(w->fault, "");
    assert_int_equal(reply->results[0].id.len, 26);
    assert_false(slice_equals(reply->results[0].id, reply->results[1].id));
}

static void bad_topics_and_ids_are_refused(void **state)
{
    struct queue_push job = a_push("a");
    char name[JOB_TOPIC_BYTES_MAX + 1];

    (void)state;
    memset(name, 'n', sizeof name);
    job.topic = slice_make(name, JOB_TOPIC_BYTES_MAX + 1);
    assert_int_equal(push(job), QUEUE_BAD_TOPIC);
    job.topic.len--;
    assert_int_equal(push(job), QUEUE_CREATED);
    job.topic = slice_of(".t");
    assert_int_equal(push(job), QUEUE_BAD_TOPIC);
    job = a_push("two words");
    assert_int_equal(push(job), QUEUE_BAD_ID);
    job.id = slice_make(name, JOB_ID_BYTES_MAX + 1);
    assert_int_equal(push(job), QUEUE_BAD_ID);
    job.id.len--;
    assert_int_equal(push(job), QUEUE_CREATED);
}

static void options_out_of_range_are_refused_each_by_its_name(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    job.priority = JOB_PRIORITY_MAX + 1;
    assert_string_equal(push_result(job)->detail, "priority");
    job = a_push("a");
    job.policy.lease_ms = POLICY_LEASE_MS_MIN - 1;
    assert_string_equal(push_result(job)->detail, "lease_for");
    job.policy.lease_ms = POLICY_LEASE_MS_MAX + 1;
    assert_string_equal(push_result(job)->detail, "lease_for");
    job = a_push("a");
    job.policy.max_attempts = POLICY_ATTEMPTS_MAX + 1;
    assert_string_equal(push_result(job)->detail, "max_attempts");
    job.policy.max_attempts = POLICY_ATTEMPTS_NONE - 1;
    assert_string_equal(push_result(job)->detail, "max_attempts");
    job = a_push("a");
    job.policy.backoff = (struct backoff){.kind = BACKOFF_NONE, .first_ms = 1, .max_ms = 1};
    assert_string_equal(push_result(job)->detail, "backoff");
    job = a_push("a");
    job.policy.ttl_ms = -1;
    assert_string_equal(push_result(job)->detail, "ttl");
    assert_int_equal(state_of("a"), 0);
}

static void replace_gives_a_fresh_job_that_is_counted_once(void **state)
{
    struct queue_push job = a_push_in("a", 5000);

    (void)state;
    push(a_push("a"));
    nack(take("a"), 0, "boom");
    assert_int_equal(push(job), QUEUE_REPLACED);
    assert_int_equal(job_of("a").attempt, 0);
    assert_int_equal(job_of("a").error.len, 0);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    assert_int_equal(figures().totals.pushed, 1);
    assert_int_equal(figures().totals.replaced, 1);
}

static void replacing_again_and_again_puts_the_job_off(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        push(a_push_in("a", 1000));
        pass(999);
        take("");
    }
    pass(2);
    take("a");
    take("");
}

static void the_default_on_a_conflict_is_replace(void **state)
{
    (void)state;
    push(a_push("a"));
    assert_int_equal(push(a_push_in("a", 100)), QUEUE_REPLACED);
}

static void keep_changes_nothing_and_reports_kept(void **state)
{
    (void)state;
    push(a_push_in("a", 5000));
    assert_int_equal(push(with(a_push("a"), CONFLICT_KEEP)), QUEUE_EXISTED);
    assert_int_equal(state_of("a"), JOB_DELAYED);
}

static void reject_reports_the_state_of_the_existing_job(void **state)
{
    struct queue_push job = with(a_push("a"), CONFLICT_REJECT);

    (void)state;
    push(a_push_in("a", 5000));
    assert_int_equal(world_push(w, &job, 1)->results[0].state, JOB_DELAYED);
    assert_int_equal(push(job), QUEUE_CONFLICT);
}

static void a_leased_job_cannot_be_replaced(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take("a");
    assert_int_equal(push(a_push("a")), QUEUE_LEASED);
    assert_int_equal(push(with(a_push("a"), CONFLICT_KEEP)), QUEUE_EXISTED);
    assert_int_equal(push(with(a_push("a"), CONFLICT_REJECT)), QUEUE_CONFLICT);
    assert_int_equal(ack(lease), QUEUE_OK);
}

static void a_dead_job_replaced_starts_again(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    job.policy.max_attempts = 1;
    push(job);
    nack(take("a"), -1, "boom");
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_int_equal(push(job), QUEUE_REPLACED);
    assert_int_equal(job_of("a").attempt, 0);
    take("a");
}

static void the_topic_setting_decides_conflicts(void **state)
{
    (void)state;
    put((struct topic_settings){.on_conflict = CONFLICT_REJECT});
    push(a_push("a"));
    assert_int_equal(push(a_push("a")), QUEUE_CONFLICT);
    assert_int_equal(push(with(a_push("a"), CONFLICT_REPLACE)), QUEUE_REPLACED);
}

static void a_batch_is_carried_out_in_its_order(void **state)
{
    struct queue_push jobs[] = {a_push("a"), with(a_push("a"), CONFLICT_KEEP), a_push("two words"),
                                a_push("a"), a_push("b")};
    const struct queue_reply *reply = world_push(w, jobs, 5);

    (void)state;
    assert_string_equal(w->fault, "");
    assert_int_equal(reply->results[0].status, QUEUE_CREATED);
    assert_int_equal(reply->results[1].status, QUEUE_EXISTED);
    assert_int_equal(reply->results[2].status, QUEUE_BAD_ID);
    assert_int_equal(reply->results[3].status, QUEUE_REPLACED);
    assert_int_equal(reply->results[4].status, QUEUE_CREATED);
}

static void a_batch_of_a_thousand_is_stored_completely(void **state)
{
    static char ids[QUEUE_BATCH_MAX][16];
    static struct queue_push jobs[QUEUE_BATCH_MAX];

    (void)state;
    w->quick = true;
    for (int i = 0; i < QUEUE_BATCH_MAX; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        jobs[i] = a_push(ids[i]);
        jobs[i].body = slice_of(ids[i]);
    }
    world_push(w, jobs, QUEUE_BATCH_MAX);
    restart();
    assert_int_equal(figures().counts.ready, QUEUE_BATCH_MAX);
    assert_int_equal(take_many("t", QUEUE_TAKE_MAX), QUEUE_TAKE_MAX);
}

static void a_finished_id_is_remembered_within_the_window_and_not_beyond(void **state)
{
    (void)state;
    put((struct topic_settings){.dedup_window_ms = 10000});
    push(a_push("a"));
    ack(take("a"));
    assert_int_equal(push(a_push("a")), QUEUE_EXISTED);
    assert_int_equal(push(with(a_push("a"), CONFLICT_REJECT)), QUEUE_EXISTED);
    restart();
    pass(9999);
    assert_int_equal(push(a_push("a")), QUEUE_EXISTED);
    take("");
    pass(2);
    assert_int_equal(push(a_push("a")), QUEUE_CREATED);
    take("a");
}

static void without_a_window_a_finished_id_is_free_again(void **state)
{
    (void)state;
    push(a_push("a"));
    ack(take("a"));
    assert_int_equal(push(a_push("a")), QUEUE_CREATED);
}

/* ---- jobs that come from another queue ---- */

static struct queue_push with_past(struct queue_push push, uint32_t attempt, bool dead,
                                   const char *error)
{
    push.past = (struct queue_past){.attempt = attempt, .dead = dead, .error = slice_of(error)};
    return push;
}

static void a_job_with_attempts_waits_for_its_retry_and_counts_on(void **state)
{
    (void)state;
    assert_int_equal(push(with_past(a_push_in("a", 5000), 3, false, "boom")), QUEUE_CREATED);
    assert_int_equal(figures().counts.retrying, 1);
    assert_int_equal(figures().totals.pushed, 1);
    assert_int_equal(figures().totals.delivered, 0);
    assert_int_equal(job_of("a").attempt, 3);
    assert_true(slice_is(job_of("a").error, "boom"));
    restart();
    pass(5001);
    take("a");
    assert_int_equal(job_of("a").attempt, 4);
}

static void attempts_made_elsewhere_count_towards_the_last(void **state)
{
    struct queue_push job = with_past(a_push("a"), 4, false, "");

    (void)state;
    job.policy.max_attempts = 5;
    push(job);
    nack(take("a"), 0, "once more");
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_int_equal(figures().totals.died, 1);
}

static void a_job_that_died_elsewhere_is_dead_here_until_it_is_redriven(void **state)
{
    (void)state;
    assert_int_equal(push(with_past(a_push("a"), 16, true, "boom")), QUEUE_CREATED);
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_int_equal(figures().counts.dead, 1);
    assert_int_equal(figures().totals.pushed, 1);
    assert_int_equal(figures().totals.died, 0);
    take("");
    restart();
    assert_int_equal(run("a"), QUEUE_DEAD_STATE);
    assert_true(slice_is(job_of("a").error, "boom"));
    assert_int_equal(topic_call(QUEUE_TOPIC_REDRIVE), QUEUE_OK);
    take("a");
    assert_int_equal(job_of("a").attempt, 1);
}

static void a_dead_job_of_the_future_stays_dead_when_its_time_comes(void **state)
{
    (void)state;
    push(with_past(a_push_in("a", 5000), 0, true, "expired"));
    pass(5001);
    assert_int_equal(state_of("a"), JOB_DEAD);
    take("");
    assert_int_equal(cancel("a"), QUEUE_CANCELLED);
}

static void a_push_that_replaces_brings_its_own_past_and_drops_the_other(void **state)
{
    (void)state;
    push(a_push("a"));
    assert_int_equal(push(with_past(a_push("a"), 7, true, "boom")), QUEUE_REPLACED);
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_int_equal(push(a_push("a")), QUEUE_REPLACED);
    assert_int_equal(job_of("a").attempt, 0);
    assert_int_equal(job_of("a").error.len, 0);
    take("a");
}

static void a_past_out_of_range_is_refused_by_its_name(void **state)
{
    static char error[JOB_ERROR_BYTES_MAX + 1];
    struct queue_push job = with_past(a_push("a"), JOB_PAST_ATTEMPTS_MAX + 1, false, "");

    (void)state;
    memset(error, 'e', sizeof error);
    assert_string_equal(push_result(job)->detail, "attempt");
    job.past.attempt = 1;
    job.past.error = slice_make(error, sizeof error);
    assert_string_equal(push_result(job)->detail, "error");
    job.past.error.len--;
    assert_int_equal(push(job), QUEUE_CREATED);
}

const struct CMUnitTest directed_push[] = {
    CLAIM(a_job_without_a_delay_is_ready_immediately),
    CLAIM(a_delayed_job_waits_and_never_comes_early),
    CLAIM(a_delay_of_ten_years_is_kept_to_the_millisecond),
    CLAIM(a_delay_above_32_bits_is_not_cut),
    CLAIM(a_delay_above_ten_years_is_refused_and_named),
    CLAIM(an_absolute_time_is_met_exactly),
    CLAIM(an_absolute_time_in_the_past_means_now),
    CLAIM(body_type_and_meta_come_back_byte_for_byte),
    CLAIM(an_empty_body_is_a_body),
    CLAIM(a_body_at_the_limit_passes_and_one_above_does_not),
    CLAIM(the_queue_creates_a_missing_id),
    CLAIM(bad_topics_and_ids_are_refused),
    CLAIM(options_out_of_range_are_refused_each_by_its_name),
    CLAIM(replace_gives_a_fresh_job_that_is_counted_once),
    CLAIM(replacing_again_and_again_puts_the_job_off),
    CLAIM(the_default_on_a_conflict_is_replace),
    CLAIM(keep_changes_nothing_and_reports_kept),
    CLAIM(reject_reports_the_state_of_the_existing_job),
    CLAIM(a_leased_job_cannot_be_replaced),
    CLAIM(a_dead_job_replaced_starts_again),
    CLAIM(the_topic_setting_decides_conflicts),
    CLAIM(a_batch_is_carried_out_in_its_order),
    CLAIM(a_batch_of_a_thousand_is_stored_completely),
    CLAIM(a_finished_id_is_remembered_within_the_window_and_not_beyond),
    CLAIM(without_a_window_a_finished_id_is_free_again),
    CLAIM(a_job_with_attempts_waits_for_its_retry_and_counts_on),
    CLAIM(attempts_made_elsewhere_count_towards_the_last),
    CLAIM(a_job_that_died_elsewhere_is_dead_here_until_it_is_redriven),
    CLAIM(a_dead_job_of_the_future_stays_dead_when_its_time_comes),
    CLAIM(a_push_that_replaces_brings_its_own_past_and_drops_the_other),
    CLAIM(a_past_out_of_range_is_refused_by_its_name),
};
const size_t directed_push_count = sizeof directed_push / sizeof directed_push[0];
