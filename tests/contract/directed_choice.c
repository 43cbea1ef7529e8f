/* Claims about takes that choose: the best of several topics, one job by its id; and about finding jobs. */
#include "directed.h"

#include "queue/locate.h"
#include "queue/waiter.h"

#include "base/clock.h"

static bool can_choose(void)
{
    return !(w->client.driver->lacks & DRIVER_LACKS_CHOICE);
}

static struct queue_push job_in(const char *topic, const char *id, int32_t priority)
{
    struct queue_push job = a_push(id);

    job.topic = slice_of(topic);
    job.priority = priority;
    return job;
}

/* ---- by priority ---- */

static const struct queue_reply *take_best(const char *first, const char *second, uint32_t max)
{
    struct slice topics[] = {slice_of(first), slice_of(second)};
    struct queue_take call = {.topics = topics, .topic_count = 2, .max = max, .by_priority = true};
    const struct queue_reply *reply = world_take(w, &call);

    assert_string_equal(w->fault, "");
    return reply;
}

static void the_best_of_all_topics_comes_first_whichever_is_named_first(void **state)
{
    const struct queue_reply *reply;

    (void)state;
    if (!can_choose())
        return;
    push(job_in("t", "low", 200));
    push(job_in("u", "high", 1));
    push(job_in("t", "middle", 50));
    push(job_in("u", "lowest", 65535));
    reply = take_best("t", "u", 1);
    assert_true(slice_is(reply->jobs[0].job.id, "high"));
    reply = take_best("t", "u", 10);
    assert_int_equal(reply->job_count, 3);
    assert_true(slice_is(reply->jobs[0].job.id, "middle"));
    assert_true(slice_is(reply->jobs[1].job.id, "low"));
    assert_true(slice_is(reply->jobs[2].job.id, "lowest"));
    assert_int_equal(take_best("t", "u", 10)->job_count, 0);
}

static void of_one_priority_the_one_due_first_comes_first(void **state)
{
    struct queue_push late = job_in("t", "late", 7), early = job_in("u", "early", 7);

    (void)state;
    if (!can_choose())
        return;
    late.when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = 20};
    early.when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = 10};
    push(late);
    push(early);
    pass(100);
    assert_true(slice_is(take_best("t", "u", 1)->jobs[0].job.id, "early"));
    assert_true(slice_is(take_best("t", "u", 1)->jobs[0].job.id, "late"));
}

static void a_take_by_priority_skips_paused_and_missing_topics(void **state)
{
    (void)state;
    if (!can_choose())
        return;
    push(job_in("t", "held", 0));
    push(job_in("u", "free", 9));
    topic_call(QUEUE_TOPIC_PAUSE);
    assert_true(slice_is(take_best("t", "u", 5)->jobs[0].job.id, "free"));
    assert_int_equal(take_best("t", "nowhere", 5)->job_count, 0);
    topic_call(QUEUE_TOPIC_RESUME);
    assert_true(slice_is(take_best("nowhere", "t", 5)->jobs[0].job.id, "held"));
}

static void many_are_taken_in_the_order_of_their_priorities(void **state)
{
    uint32_t left = 300, last = 0;

    (void)state;
    if (!can_choose())
        return;
    w->quick = true;
    for (int i = 0; i < 300; i++) {
        char id[16];

        snprintf(id, sizeof id, "j%d", i);
        push(job_in(i % 3 ? "t" : "u", id, (i * 7919) % 10));
    }
    while (left) {
        const struct queue_reply *reply = take_best("t", "u", 120);

        assert_in_range(reply->job_count, 1, left);
        for (size_t i = 0; i < reply->job_count; i++) {
            assert_true(reply->jobs[i].job.priority >= last);
            last = reply->jobs[i].job.priority;
        }
        left -= (uint32_t)reply->job_count;
    }
}

/* ---- takes that wait ---- */

struct waited {
    char id[JOB_ID_BYTES_MAX + 1];
    size_t answers, jobs;
};

static void waited_for(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct waited *waited = owner;

    (void)tag;
    (void)refused;
    waited->answers++;
    waited->jobs += reply->job_count;
    if (reply->job_count)
        memcpy(waited->id, reply->jobs[0].job.id.at, reply->jobs[0].job.id.len);
}

static void a_take_by_priority_waits_for_the_first_of_its_topics(void **state)
{
    struct slice topics[] = {slice_of("t"), slice_of("u")};
    struct queue_take call = {.topics = topics, .topic_count = 2, .max = 1, .by_priority = true};
    struct waiters *waiters;
    struct waited waited = {0};
    struct queue_push best = job_in("u", "best", 1);

    (void)state;
    if (!can_choose())
        return;
    waiters = waiters_new(w->client.queue, 4);
    assert_non_null(waiters);
    assert_true(waiter_take(waiters, &call, 60000, now_ms(), waited_for, &waited, 0));
    client_idle(&w->client);
    assert_int_equal(waited.answers, 0);
    client_push(&w->client, &best, 1);
    for (int i = 0; i < 1000 && !waited.answers; i++)
        client_idle(&w->client);
    assert_int_equal(waited.jobs, 1);
    assert_string_equal(waited.id, "best");
    waiters_free(waiters);
}

/* ---- one job by its id ---- */

static const struct queue_reply *pick_reply(const char *id, int64_t lease_ms)
{
    struct slice topic = slice_of("t");
    struct queue_take call = {.topics = &topic,
                              .topic_count = 1,
                              .id = slice_of(id),
                              .max = 1,
                              .lease_ms = lease_ms,
                              .consumer = slice_of("picker")};
    const struct queue_reply *reply = world_take(w, &call);

    assert_string_equal(w->fault, "");
    return reply;
}

/* Its lease, good until the next pick. */
static struct slice pick(const char *id)
{
    static char lease[QUEUE_LEASE_TEXT_BYTES_MAX + 1];
    const struct queue_reply *reply = pick_reply(id, 5000);

    assert_int_equal(reply->status, QUEUE_OK);
    assert_int_equal(reply->job_count, 1);
    memcpy(lease, reply->jobs[0].lease.at, reply->jobs[0].lease.len);
    return slice_make(lease, reply->jobs[0].lease.len);
}

static void a_job_is_taken_by_its_id_however_many_come_before_it(void **state)
{
    (void)state;
    if (!can_choose())
        return;
    push(a_push("a"));
    push(job_in("t", "b", 65535));
    assert_int_equal(ack(pick("b")), QUEUE_OK);
    assert_int_equal(state_of("b"), 0);
    take("a");
    take("");
}

static void a_delayed_job_that_is_taken_was_due_now(void **state)
{
    (void)state;
    if (!can_choose())
        return;
    push(a_push_in("a", 60000));
    give_back(pick("a"));
    assert_int_equal(state_of("a"), JOB_READY);
    restart();
    take("a");
    assert_int_equal(job_of("a").attempt, 1);
}

static void a_dead_job_can_be_taken_and_dies_again_if_it_fails(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    if (!can_choose())
        return;
    job.policy.max_attempts = 1;
    push(job);
    nack(take("a"), -1, "boom");
    assert_int_equal(state_of("a"), JOB_DEAD);
    nack(pick("a"), -1, "again");
    assert_int_equal(state_of("a"), JOB_DEAD);
    assert_int_equal(job_of("a").attempt, 2);
    assert_int_equal(figures().totals.died, 2);
    assert_int_equal(ack(pick("a")), QUEUE_OK);
    assert_int_equal(state_of("a"), 0);
}

static void leased_and_unknown_jobs_cannot_be_taken_by_id(void **state)
{
    (void)state;
    if (!can_choose())
        return;
    push(a_push("a"));
    take("a");
    assert_int_equal(pick_reply("a", 0)->status, QUEUE_LEASED);
    assert_int_equal(pick_reply("b", 0)->status, QUEUE_NOT_FOUND);
    put((struct topic_settings){.dedup_window_ms = 60000});
    push(a_push("c"));
    ack(pick("c"));
    assert_int_equal(pick_reply("c", 0)->status, QUEUE_NOT_FOUND);
}

static void a_take_by_id_ignores_a_pause(void **state)
{
    (void)state;
    if (!can_choose())
        return;
    push(a_push("a"));
    topic_call(QUEUE_TOPIC_PAUSE);
    take("");
    assert_int_equal(ack(pick("a")), QUEUE_OK);
}

static void a_job_taken_by_its_id_is_leased_like_any_other(void **state)
{
    struct slice lease;

    (void)state;
    if (!can_choose())
        return;
    push(a_push_in("a", 60000));
    lease = pick("a");
    assert_true(slice_is(job_of("a").consumer, "picker"));
    assert_int_equal(extend(lease, 10000), QUEUE_OK);
    restart();
    pass(10001);
    assert_int_equal(ack(lease), QUEUE_LEASE_ENDED);
    assert_int_equal(figures().totals.lease_ended, 1);
    assert_int_equal(figures().counts.retrying + figures().counts.ready, 1);
}

static void invalid_choosing_takes_are_rejected(void **state)
{
    struct slice topics[] = {slice_of("t"), slice_of("u")};
    struct queue_take call = {.topics = topics, .topic_count = 2, .max = 1, .id = slice_of("a")};

    (void)state;
    if (!can_choose())
        return;
    assert_int_equal(world_take(w, &call)->status, QUEUE_BAD_OPTION);
    call.topic_count = 1;
    call.id = slice_of("a blank");
    assert_int_equal(world_take(w, &call)->status, QUEUE_BAD_ID);
    assert_string_equal(w->fault, "");
}

static void a_store_without_choosing_takes_reports_that(void **state)
{
    struct slice topic = slice_of("t");
    struct queue_take call = {.topics = &topic, .topic_count = 1, .max = 1, .by_priority = true};

    (void)state;
    if (can_choose() || w->client.driver->lacks & DRIVER_LACKS_FIND)
        return;
    push(a_push("a"));
    assert_int_equal(client_take(&w->client, &call)->status, QUEUE_UNSUPPORTED);
    call = (struct queue_take){.topics = &topic, .topic_count = 1, .max = 1, .id = slice_of("a")};
    assert_int_equal(client_take(&w->client, &call)->status, QUEUE_UNSUPPORTED);
    take("a");
}

/* ---- the priority of a nack ---- */

static void nack_at(struct slice lease, uint16_t priority, bool final)
{
    struct queue_answer call = {.verb = QUEUE_NACK,
                                .lease = lease,
                                .delay_ms = 0,
                                .final = final,
                                .has_priority = true,
                                .priority = priority};

    world_answer(w, &call, 1);
    assert_string_equal(w->fault, "");
}

static void a_nack_may_change_the_priority(void **state)
{
    (void)state;
    if (w->client.driver->lacks & DRIVER_LACKS_NACK_PRIORITY)
        return;
    push(a_push("a"));
    nack_at(take("a"), 65535, false);
    restart();
    assert_int_equal(job_of("a").priority, 65535);
    push(a_push("b"));
    if (w->client.driver->shards == 1)
        take("b");
    while (take_many("t", 2))
        continue;
    push(a_push("c"));
    nack_at(take("c"), 3, true);
    assert_int_equal(state_of("c"), JOB_DEAD);
    assert_int_equal(job_of("c").priority, 3);
    topic_call(QUEUE_TOPIC_REDRIVE);
    assert_int_equal(job_of("c").priority, 3);
    take("c");
}

/* ---- finding ---- */

static void jobs_are_found_in_whichever_topic_they_are(void **state)
{
    const struct queue_find finds[] = {{slice_of("t"), slice_of("a")},
                                       {slice_of("u"), slice_of("a")},
                                       {slice_of("none"), slice_of("a")},
                                       {slice_of("t"), slice_of("b")},
                                       {slice_of("no blank"), slice_of("a")}};
    const struct queue_reply *reply;

    (void)state;
    if (w->client.driver->lacks & DRIVER_LACKS_FIND)
        return;
    push(a_push_in("a", 60000));
    push(job_in("u", "a", 5));
    take_many("u", 1);
    reply = world_find(w, finds, 4);
    assert_string_equal(w->fault, "");
    assert_int_equal(reply->results[0].state, JOB_DELAYED);
    assert_int_equal(reply->results[1].state, JOB_LEASED);
    reply = client_find(&w->client, finds, 5);
    assert_int_equal(reply->results[3].status, QUEUE_NOT_FOUND);
    assert_int_equal(reply->results[4].status, QUEUE_BAD_TOPIC);
}

struct located {
    char topics[64];
    size_t jobs, ends;
    bool is_complete;
};

static void located_one(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct located *located = owner;
    size_t used = strlen(located->topics);

    (void)tag;
    located->jobs++;
    snprintf(located->topics + used, sizeof located->topics - used, "%.*s ",
             (int)job->job.topic.len, job->job.topic.at);
}

static bool located_goes_on(void *owner, uint64_t tag)
{
    (void)owner;
    (void)tag;
    return true;
}

static bool located_looks_at(void *owner, uint64_t tag, struct slice topic)
{
    (void)owner;
    (void)tag;
    return !slice_is(topic, "hidden");
}

static void located_all(void *owner, uint64_t tag, const struct locate_result *result)
{
    struct located *located = owner;

    (void)tag;
    assert_int_equal(result->status, QUEUE_OK);
    located->ends++;
    located->is_complete = result->is_complete;
}

static struct located locate(const char *id, uint32_t limit)
{
    struct located located = {0};
    const struct locate_listener listener = {.looks_at = located_looks_at,
                                             .found = located_one,
                                             .wanted = located_goes_on,
                                             .done = located_all,
                                             .owner = &located};

    assert_true(locate_start(w->client.queue, slice_of(id), limit, &listener));
    assert_int_equal(located.ends, 0);
    for (int i = 0; i < 100000 && !located.ends; i++)
        client_idle(&w->client);
    assert_int_equal(located.ends, 1);
    return located;
}

static void a_job_is_located_over_all_topics_that_may_be_looked_at(void **state)
{
    static const char *const topics[] = {"t", "u", "hidden", "a/b", "x;y+$(z)"};
    struct located located;

    (void)state;
    if (w->client.driver->lacks & DRIVER_LACKS_FIND)
        return;
    for (size_t i = 0; i < 5; i++)
        push(job_in(topics[i], "same", 1));
    push(a_push("other"));
    located = locate("same", 10);
    assert_string_equal(located.topics, "a/b t u x;y+$(z) ");
    assert_true(located.is_complete);
    located = locate("same", 2);
    assert_string_equal(located.topics, "a/b t ");
    assert_false(located.is_complete);
    located = locate("nobody", 10);
    assert_int_equal(located.jobs, 0);
    assert_true(located.is_complete);
}

const struct CMUnitTest directed_choice[] = {
    CLAIM(the_best_of_all_topics_comes_first_whichever_is_named_first),
    CLAIM(of_one_priority_the_one_due_first_comes_first),
    CLAIM(a_take_by_priority_skips_paused_and_missing_topics),
    CLAIM(many_are_taken_in_the_order_of_their_priorities),
    CLAIM(a_take_by_priority_waits_for_the_first_of_its_topics),
    CLAIM(a_job_is_taken_by_its_id_however_many_come_before_it),
    CLAIM(a_delayed_job_that_is_taken_was_due_now),
    CLAIM(a_dead_job_can_be_taken_and_dies_again_if_it_fails),
    CLAIM(leased_and_unknown_jobs_cannot_be_taken_by_id),
    CLAIM(a_take_by_id_ignores_a_pause),
    CLAIM(a_job_taken_by_its_id_is_leased_like_any_other),
    CLAIM(invalid_choosing_takes_are_rejected),
    CLAIM(a_store_without_choosing_takes_reports_that),
    CLAIM(a_nack_may_change_the_priority),
    CLAIM(jobs_are_found_in_whichever_topic_they_are),
    CLAIM(a_job_is_located_over_all_topics_that_may_be_looked_at),
};
const size_t directed_choice_count = sizeof directed_choice / sizeof directed_choice[0];
