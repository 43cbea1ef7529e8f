/* Claims about topics. */
#include "directed.h"

static void push_some(const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        char id[16];

        snprintf(id, sizeof id, "%s%d", prefix, i);
        push(a_push(id));
    }
}

static void kill_some(int count)
{
    for (int i = 0; i < count; i++) {
        char id[16];
        struct queue_push job;

        snprintf(id, sizeof id, "dead%d", i);
        job = a_push(id);
        job.policy.max_attempts = 1;
        job.priority = 0;
        push(job);
        nack(take(id), -1, "boom");
    }
}

static void a_push_makes_the_topic(void **state)
{
    (void)state;
    assert_int_equal(topic_call(QUEUE_TOPIC_GET), QUEUE_NOT_FOUND);
    push(a_push("a"));
    assert_int_equal(topic_call(QUEUE_TOPIC_GET), QUEUE_OK);
}

static void a_refused_push_makes_no_topic(void **state)
{
    struct queue_push job = a_push("two words");

    (void)state;
    push(job);
    assert_int_equal(topic_call(QUEUE_TOPIC_GET), QUEUE_NOT_FOUND);
}

static void a_put_makes_or_changes_the_topic(void **state)
{
    struct topic_settings settings = {.policy = {.lease_ms = 5000, .max_attempts = 3},
                                      .on_conflict = CONFLICT_KEEP,
                                      .has_priority = true,
                                      .priority = 0,
                                      .dedup_window_ms = 1000};

    (void)state;
    assert_int_equal(put(settings), QUEUE_CREATED);
    assert_int_equal(put(settings), QUEUE_OK);
    restart();
    assert_int_equal(put((struct topic_settings){0}), QUEUE_OK);
    assert_int_equal(figures().settings.policy.lease_ms, 0);
}

static void bad_settings_are_refused(void **state)
{
    (void)state;
    assert_int_equal(put((struct topic_settings){.policy.lease_ms = 1}), QUEUE_BAD_OPTION);
    assert_int_equal(put((struct topic_settings){.has_priority = true, .priority = -1}),
                     QUEUE_BAD_OPTION);
    assert_int_equal(put((struct topic_settings){.dedup_window_ms = -1}), QUEUE_BAD_OPTION);
    assert_int_equal(topic_call(QUEUE_TOPIC_GET), QUEUE_NOT_FOUND);
}

static void topic_settings_fill_in_missing_push_options(void **state)
{
    (void)state;
    put((struct topic_settings){.policy.max_attempts = 1, .has_priority = true, .priority = 3});
    push(a_push("a"));
    assert_int_equal(job_of("a").priority, 3);
    nack(take("a"), 0, "");
    assert_int_equal(state_of("a"), JOB_DEAD);
}

static void a_paused_topic_delivers_nothing_but_jobs_fall_due(void **state)
{
    (void)state;
    push(a_push_in("a", 1000));
    assert_int_equal(topic_call(QUEUE_TOPIC_PAUSE), QUEUE_OK);
    push(a_push("b"));
    pass(1001);
    assert_int_equal(figures().counts.ready, 2);
    take("");
    restart();
    take("");
    push_some("more", 5);
    assert_int_equal(take_many("t", 10), 0);
    assert_int_equal(topic_call(QUEUE_TOPIC_RESUME), QUEUE_OK);
    assert_int_equal(take_many("t", 10), 7);
}

static enum queue_status pause_for(int64_t ms)
{
    struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_PAUSE, .topic = slice_of("t"), .pause_ms = ms};
    enum queue_status status = world_topic(w, &call)->status;

    assert_string_equal(w->fault, "");
    return status;
}

static void a_pause_for_a_time_ends_by_itself_and_never_early(void **state)
{
    (void)state;
    push(a_push_in("a", 1000));
    push(a_push("b"));
    assert_int_equal(pause_for(10000), QUEUE_OK);
    pass(9999);
    take("");
    assert_true(figures().paused);
    pass(2);
    assert_false(figures().paused);
    assert_int_equal(figures().paused_until_ms, 0);
    assert_int_equal(take_many("t", 10), 2);
}

static void a_timed_pause_survives_a_restart_and_ends_while_the_queue_is_closed(void **state)
{
    (void)state;
    push_some("a", 3);
    pause_for(10000);
    restart();
    take("");
    pass(5000);
    restart();
    take("");
    assert_true(figures().paused);
    pass(5002);
    restart();
    assert_false(figures().paused);
    assert_int_equal(take_many("t", 10), 3);
    restart();
}

static void a_pause_takes_the_place_of_the_one_before(void **state)
{
    (void)state;
    push(a_push("a"));
    pause_for(1000);
    pause_for(60000);
    pass(30000);
    take("");
    pause_for(1000); /* shorter */
    pass(1001);
    take("a");
    push(a_push("b"));
    pause_for(1000);
    assert_int_equal(topic_call(QUEUE_TOPIC_PAUSE), QUEUE_OK); /* for ever */
    pass(5000);
    take("");
    pause_for(1000);
    assert_int_equal(topic_call(QUEUE_TOPIC_RESUME), QUEUE_OK);
    take("b");
    topic_call(QUEUE_TOPIC_PAUSE);
    pass(5000); /* the end of the replaced pause has no effect */
    assert_true(figures().paused);
}

static void a_pause_for_a_time_out_of_range_is_refused(void **state)
{
    (void)state;
    push(a_push("a"));
    assert_int_equal(pause_for(POLICY_DELAY_MS_MAX + 1), QUEUE_BAD_OPTION);
    assert_int_equal(pause_for(-1), QUEUE_BAD_OPTION);
    take("a");
}

static void a_deleted_topic_takes_its_pause_along(void **state)
{
    (void)state;
    push(a_push("a"));
    pause_for(5000);
    assert_int_equal(topic_call(QUEUE_TOPIC_DELETE), QUEUE_OK);
    push(a_push("b"));
    take("b");
    topic_call(QUEUE_TOPIC_PAUSE);
    pass(6000);
    assert_true(figures().paused);
}

static uint64_t count_all(void)
{
    struct queue_counts counts = figures().counts;
    return counts.delayed + counts.retrying + counts.ready + counts.leased + counts.dead;
}

/* With several shards each accepts its share, rounded up. */
static void a_full_topic_refuses_new_jobs_and_nothing_else(void **state)
{
    uint64_t shards = w->client.driver->shards;
    (void)state;
    put((struct topic_settings){.max_jobs = 6 * shards, .policy.max_attempts = 1});
    push_some("job", (int)(60 * shards));
    assert_in_range(count_all(), 1, 6 * shards);
    if (shards > 1)
        return;
    assert_int_equal(count_all(), 6);
    restart();
    push(a_push("one more"));
    push(a_push("onemore"));
    assert_int_equal(count_all(), 6);
    push(a_push("job0")); /* takes its own place */
    nack(take("job1"), -1, "boom");
    push(a_push("onemore"));
    assert_int_equal(count_all(), 6);
    pass(5);
    assert_int_equal(topic_call(QUEUE_TOPIC_REDRIVE), QUEUE_OK);
    put((struct topic_settings){.max_jobs = 2});
    assert_int_equal(count_all(), 6);
    ack(take("job2"));
    ack(take("job3"));
    ack(take("job4"));
    ack(take("job5"));
    push(a_push("onemore"));
    assert_int_equal(count_all(), 2);
    ack(take("job0"));
    push(a_push("onemore"));
    assert_int_equal(count_all(), 2);
    put((struct topic_settings){0});
    push_some("job", 8);
    assert_int_equal(count_all(), 9);
}

static void calls_to_an_unknown_topic_are_not_found(void **state)
{
    (void)state;
    for (int verb = QUEUE_TOPIC_DELETE; verb <= QUEUE_TOPIC_REDRIVE; verb++)
        assert_int_equal(topic_call((enum queue_topic_verb)verb), QUEUE_NOT_FOUND);
}

static void purge_spares_the_leased(void **state)
{
    struct slice lease;

    (void)state;
    kill_some(1);
    push(a_push("leased"));
    lease = take("leased");
    push(a_push("ready"));
    push(a_push_in("delayed", 5000));
    assert_int_equal(topic_call(QUEUE_TOPIC_PURGE), QUEUE_OK);
    assert_int_equal(affected(), 3);
    assert_int_equal(figures().totals.cancelled, 3);
    restart();
    assert_int_equal(ack(lease), QUEUE_OK);
}

static void purge_by_state_takes_only_that_state(void **state)
{
    struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_PURGE, .topic = slice_of("t"), .state = JOB_DEAD};

    (void)state;
    kill_some(2);
    push(a_push("ready"));
    push(a_push_in("delayed", 5000));
    assert_int_equal(world_topic(w, &call)->affected, 2);
    call.state = JOB_DELAYED;
    assert_int_equal(world_topic(w, &call)->affected, 1);
    call.state = JOB_READY;
    assert_int_equal(world_topic(w, &call)->affected, 1);
    call.state = JOB_LEASED;
    assert_int_equal(world_topic(w, &call)->status, QUEUE_BAD_OPTION);
    assert_string_equal(w->fault, "");
}

static void a_purged_id_is_not_remembered(void **state)
{
    (void)state;
    put((struct topic_settings){.dedup_window_ms = 60000});
    push(a_push("a"));
    topic_call(QUEUE_TOPIC_PURGE);
    assert_int_equal(push(a_push("a")), QUEUE_CREATED);
}

static void redrive_sends_the_dead_round_again_from_the_first_attempt(void **state)
{
    (void)state;
    kill_some(3);
    assert_int_equal(topic_call(QUEUE_TOPIC_REDRIVE), QUEUE_OK);
    assert_int_equal(affected(), 3);
    assert_int_equal(job_of("dead0").attempt, 0);
    restart();
    assert_int_equal(take_many("t", 10), 3);
    assert_int_equal(figures().totals.redriven, 3);
}

static void redrive_may_be_bounded(void **state)
{
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_REDRIVE, .topic = slice_of("t"), .max = 2};

    (void)state;
    kill_some(5);
    assert_int_equal(world_topic(w, &call)->affected, 2);
    assert_string_equal(w->fault, "");
    assert_int_equal(figures().counts.dead, 3);
}

static void redrive_may_name_one_job(void **state)
{
    struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_REDRIVE, .topic = slice_of("t"), .id = slice_of("dead1")};

    (void)state;
    kill_some(3);
    assert_int_equal(world_topic(w, &call)->affected, 1);
    assert_string_equal(w->fault, "");
    assert_int_equal(state_of("dead1"), JOB_READY);
    assert_int_equal(state_of("dead0"), JOB_DEAD);
}

static void a_redriven_job_has_its_whole_ttl_again(void **state)
{
    (void)state;
    put((struct topic_settings){.dead_letter_expired = true, .policy.ttl_ms = 10000});
    push(a_push("a"));
    pass(10001);
    assert_int_equal(state_of("a"), JOB_DEAD);
    topic_call(QUEUE_TOPIC_REDRIVE);
    pass(9999);
    assert_int_equal(state_of("a"), JOB_READY);
    pass(2);
    assert_int_equal(state_of("a"), JOB_DEAD);
}

static void delete_removes_all_jobs_including_leased_ones(void **state)
{
    struct slice lease;

    (void)state;
    put((struct topic_settings){.dedup_window_ms = 60000});
    push(a_push("leased"));
    lease = take("leased");
    push(a_push("gone"));
    ack(take("gone"));
    kill_some(1);
    push_some("ready", 3);
    assert_int_equal(topic_call(QUEUE_TOPIC_DELETE), QUEUE_OK);
    assert_int_equal(affected(), 5);
    assert_int_equal(ack(lease), QUEUE_LEASE_ENDED);
    assert_int_equal(topic_call(QUEUE_TOPIC_GET), QUEUE_NOT_FOUND);
    restart();
    assert_int_equal(topic_call(QUEUE_TOPIC_GET), QUEUE_NOT_FOUND);
}

static void a_deleted_topic_made_again_starts_from_nothing(void **state)
{
    (void)state;
    put((struct topic_settings){.dedup_window_ms = 60000});
    push(a_push("a"));
    ack(take("a"));
    topic_call(QUEUE_TOPIC_PAUSE);
    topic_call(QUEUE_TOPIC_DELETE);
    assert_int_equal(push(a_push("a")), QUEUE_CREATED);
    assert_int_equal(figures().totals.pushed, 1);
    restart();
    take("a");
}

static void topics_above_the_limit_are_refused(void **state)
{
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_PUT};
    char name[32];

    (void)state;
    for (int i = 0; i < 16; i++) {
        snprintf(name, sizeof name, "topic%d", i);
        call.topic = slice_of(name);
        world_topic(w, &call);
        assert_string_equal(w->fault, "");
    }
    call.topic = slice_of("one-more");
    assert_int_equal(world_topic(w, &call)->status, QUEUE_TOO_MANY_TOPICS);
    assert_int_equal(push(a_push("a")), QUEUE_TOO_MANY_TOPICS);
    assert_string_equal(w->fault, "");
}

static void counts_and_totals_survive_a_restart(void **state)
{
    (void)state;
    kill_some(2);
    push_some("ready", 3);
    push(a_push_in("delayed", 1000));
    push(a_push_in("cancelled", 1000));
    cancel("cancelled");
    push(a_push_in("delayed", 2000));
    restart();
    assert_int_equal(figures().totals.pushed, 7);
    assert_int_equal(figures().totals.replaced, 1);
    restart();
    restart();
}

static void same_ids_in_other_topics_are_other_jobs(void **state)
{
    struct queue_push other = a_push("a");

    (void)state;
    other.topic = slice_of("u");
    assert_int_equal(push(a_push("a")), QUEUE_CREATED);
    assert_int_equal(push(other), QUEUE_CREATED);
    topic_call(QUEUE_TOPIC_DELETE);
    assert_int_equal(take_many("u", 5), 1);
}

static void the_queue_reports_its_guarantees(void **state)
{
    struct queue_info info = {0};

    (void)state;
    queue_info(w->client.queue, &info);
    assert_non_null(info.store);
    assert_non_null(info.durability);
    assert_non_null(info.sync);
    assert_int_equal(info.shards, w->client.driver->shards);
    assert_int_equal(info.body_bytes_max, WORLD_BODY_BYTES_MAX);
    assert_true(info.healthy);
    assert_true(info.accepting);
}

const struct CMUnitTest directed_topic[] = {
    CLAIM(a_push_makes_the_topic),
    CLAIM(a_refused_push_makes_no_topic),
    CLAIM(a_put_makes_or_changes_the_topic),
    CLAIM(bad_settings_are_refused),
    CLAIM(topic_settings_fill_in_missing_push_options),
    CLAIM(a_paused_topic_delivers_nothing_but_jobs_fall_due),
    CLAIM(a_pause_for_a_time_ends_by_itself_and_never_early),
    CLAIM(a_timed_pause_survives_a_restart_and_ends_while_the_queue_is_closed),
    CLAIM(a_pause_takes_the_place_of_the_one_before),
    CLAIM(a_pause_for_a_time_out_of_range_is_refused),
    CLAIM(a_deleted_topic_takes_its_pause_along),
    CLAIM(a_full_topic_refuses_new_jobs_and_nothing_else),
    CLAIM(calls_to_an_unknown_topic_are_not_found),
    CLAIM(purge_spares_the_leased),
    CLAIM(purge_by_state_takes_only_that_state),
    CLAIM(a_purged_id_is_not_remembered),
    CLAIM(redrive_sends_the_dead_round_again_from_the_first_attempt),
    CLAIM(redrive_may_be_bounded),
    CLAIM(redrive_may_name_one_job),
    CLAIM(a_redriven_job_has_its_whole_ttl_again),
    CLAIM(delete_removes_all_jobs_including_leased_ones),
    CLAIM(a_deleted_topic_made_again_starts_from_nothing),
    CLAIM(topics_above_the_limit_are_refused),
    CLAIM(counts_and_totals_survive_a_restart),
    CLAIM(same_ids_in_other_topics_are_other_jobs),
    CLAIM(the_queue_reports_its_guarantees),
};
const size_t directed_topic_count = sizeof directed_topic / sizeof directed_topic[0];
