/* Claims about cancelling, rescheduling, running, looking up and waiting. */
#include "directed.h"

#include "base/clock.h"
#include "queue/waiter.h"

static void kill_job(const char *id)
{
    struct queue_push job = a_push(id);

    job.policy.max_attempts = 1;
    push(job);
    nack(take(id), -1, "boom");
}

static void a_cancelled_job_never_comes(void **state)
{
    (void)state;
    push(a_push("ready"));
    push(a_push_in("delayed", 1000));
    assert_int_equal(cancel("ready"), QUEUE_CANCELLED);
    assert_int_equal(cancel("delayed"), QUEUE_CANCELLED);
    assert_int_equal(figures().totals.cancelled, 2);
    pass(2000);
    take("");
    restart();
    take("");
}

static void a_leased_job_cannot_be_cancelled_rescheduled_or_run(void **state)
{
    struct slice lease;

    (void)state;
    push(a_push("a"));
    lease = take("a");
    assert_int_equal(cancel("a"), QUEUE_LEASED);
    assert_int_equal(reschedule_in("a", 1), QUEUE_LEASED);
    assert_int_equal(run("a"), QUEUE_LEASED);
    assert_int_equal(ack(lease), QUEUE_OK);
}

static void a_dead_job_can_be_cancelled_but_not_rescheduled_or_run(void **state)
{
    (void)state;
    kill_job("a");
    assert_int_equal(reschedule_in("a", 1), QUEUE_DEAD_STATE);
    assert_int_equal(run("a"), QUEUE_DEAD_STATE);
    assert_int_equal(cancel("a"), QUEUE_CANCELLED);
    assert_int_equal(state_of("a"), 0);
}

static void a_dead_job_is_cancelled_only_if_it_is_the_one_meant(void **state)
{
    uint64_t first;

    (void)state;
    assert_int_equal(cancel_dead("a", 0), QUEUE_NOT_FOUND);
    kill_job("a");
    first = job_of("a").delivery;
    assert_int_equal(cancel_dead("a", first + 1), QUEUE_CONFLICT);
    push(a_push_in("a", 1000)); /* another job of that id */
    assert_int_equal(cancel_dead("a", first), QUEUE_CONFLICT);
    pass(2000);
    assert_int_equal(cancel_dead("a", first), QUEUE_CONFLICT);
    refuse(take("a"), "no");
    assert_int_equal(cancel_dead("a", first), QUEUE_CONFLICT);
    restart();
    assert_int_equal(cancel_dead("a", job_of("a").delivery), QUEUE_CANCELLED);
    assert_int_equal(state_of("a"), 0);
}

/* Another text of the same form. */
static struct slice forged(struct slice lease, size_t at, char out[QUEUE_LEASE_TEXT_BYTES_MAX])
{
    memcpy(out, lease.at, lease.len);
    out[at] = out[at] == '0' ? '1' : '0';
    return slice_make(out, lease.len);
}

static void cancels_a_waiting_job_by_the_lease_of_its_last_delivery_only(void **state)
{
    char text[QUEUE_LEASE_TEXT_BYTES_MAX];
    struct slice first, lease;

    (void)state;
    if (w->client.driver->lacks & DRIVER_LACKS_CANCEL_BY_LEASE)
        skip();
    push(a_push("a"));
    push(a_push_in("b", 3600000));
    first = take("a");
    assert_int_equal(cancel_by("a", first), QUEUE_CONFLICT); /* it is leased */
    assert_int_equal(nack(first, 60000, "later"), QUEUE_OK);
    assert_int_equal(cancel_by("b", first), QUEUE_CONFLICT); /* never handed out */
    assert_int_equal(cancel_by("none", first), QUEUE_NOT_FOUND);
    for (size_t at = 0; at < first.len; at++)
        assert_int_equal(cancel_by("a", forged(first, at, text)), QUEUE_CONFLICT);
    assert_int_equal(cancel_by("a", slice_make(first.at, first.len - 1)), QUEUE_CONFLICT);
    assert_int_equal(cancel_by("a", slice_of("x")), QUEUE_CONFLICT);
    restart();
    assert_int_equal(cancel_by("b", first), QUEUE_CONFLICT);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    assert_int_equal(cancel_by("a", first), QUEUE_CANCELLED);
    assert_int_equal(state_of("a"), 0);
    push(a_push_in("a", 1000)); /* another job of that id */
    assert_int_equal(cancel_by("a", first), QUEUE_CONFLICT);
    pass(2000);
    assert_int_equal(cancel_by("a", first), QUEUE_CONFLICT);
    lease = take("a");
    pass(60001); /* its time has ended */
    assert_int_equal(cancel_by("a", first), QUEUE_CONFLICT);
    assert_int_equal(cancel_by("a", lease), QUEUE_CANCELLED);
    assert_int_equal(state_of("a"), 0);
}

static void unknown_and_finished_jobs_are_not_found(void **state)
{
    (void)state;
    assert_int_equal(cancel("a"), QUEUE_NOT_FOUND);
    push(a_push("a"));
    ack(take("a"));
    assert_int_equal(cancel("a"), QUEUE_NOT_FOUND);
    assert_int_equal(reschedule_in("a", 1), QUEUE_NOT_FOUND);
    assert_int_equal(run("a"), QUEUE_NOT_FOUND);
    put((struct topic_settings){.dedup_window_ms = 60000});
    push(a_push("b"));
    ack(take("b"));
    assert_int_equal(cancel("b"), QUEUE_NOT_FOUND);
    assert_int_equal(state_of("b"), 0);
}

static void a_job_can_be_put_off_and_brought_forward(void **state)
{
    (void)state;
    push(a_push_in("a", 60000));
    assert_int_equal(reschedule_in("a", 1000), QUEUE_OK);
    pass(999);
    assert_int_equal(reschedule_in("a", 5000), QUEUE_OK);
    pass(4999);
    take("");
    pass(2);
    take("a");
}

static void a_ready_job_put_off_is_delayed_again(void **state)
{
    (void)state;
    push(a_push("a"));
    reschedule_in("a", 5000);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    take("");
    restart();
    pass(5001);
    take("a");
}

static void rescheduling_keeps_the_attempts(void **state)
{
    (void)state;
    push(a_push("a"));
    nack(take("a"), 60000, "boom");
    reschedule_in("a", 1000);
    assert_int_equal(figures().counts.retrying, 1);
    pass(1001);
    take("a");
    assert_int_equal(job_of("a").attempt, 2);
}

static void the_priority_can_be_changed_without_the_due_time(void **state)
{
    struct queue_change change = {.verb = QUEUE_RESCHEDULE,
                                  .topic = slice_of("t"),
                                  .id = slice_of("a"),
                                  .when.due = QUEUE_DUE_UNCHANGED,
                                  .priority = 7};

    (void)state;
    push(a_push_in("a", 5000));
    world_change(w, &change, 1);
    assert_string_equal(w->fault, "");
    assert_int_equal(job_of("a").priority, 7);
    change.priority = JOB_PRIORITY_MAX + 1;
    assert_int_equal(world_change(w, &change, 1)->results[0].status, QUEUE_BAD_OPTION);
    pass(5001);
    take("a");
}

static void run_makes_a_delayed_job_ready_now(void **state)
{
    (void)state;
    push(a_push_in("a", 60000));
    assert_int_equal(run("a"), QUEUE_OK);
    assert_int_equal(state_of("a"), JOB_READY);
    assert_int_equal(run("a"), QUEUE_OK);
    restart();
    take("a");
}

static void run_also_ends_the_wait_for_a_retry(void **state)
{
    (void)state;
    push(a_push("a"));
    nack(take("a"), 60000, "");
    run("a");
    take("a");
    assert_int_equal(job_of("a").attempt, 2);
}

static void a_list_is_ordered_by_due_time_and_continues_at_its_cursor(void **state)
{
    struct queue_list list = {.topic = slice_of("t"), .limit = 3};

    (void)state;
    for (int i = 0; i < 10; i++) {
        char id[16];

        snprintf(id, sizeof id, "%d", i);
        push(a_push_in(id, 1000 * ((i * 7) % 5)));
    }
    for (list.limit = 1; list.limit < 12; list.limit++)
        world_list(w, &list);
    list.with_body = true;
    world_list(w, &list);
    assert_string_equal(w->fault, "");
}

static void a_list_may_select_one_state(void **state)
{
    struct queue_list list = {.topic = slice_of("t"), .limit = 100};

    (void)state;
    kill_job("dead");
    push(a_push("leased"));
    take("leased");
    push(a_push("ready"));
    push(a_push_in("delayed", 1000));
    for (int i = 0; i <= JOB_DEAD; i++) {
        list.state = (enum job_state)i;
        world_list(w, &list);
    }
    assert_string_equal(w->fault, "");
}

static void a_list_rejects_invalid_arguments(void **state)
{
    struct queue_list list = {.topic = slice_of("t"), .limit = QUEUE_LIST_MAX + 1};

    (void)state;
    push(a_push("a"));
    world_list(w, &list);
    assert_string_equal(w->fault, "");
    list.limit = 1;
    list.cursor = slice_of("not a cursor");
    if (w->client.driver != &driver_naive)
        assert_int_equal(client_list(&w->client, &list)->status, QUEUE_BAD_CURSOR);
}

/* ---- the clocks ---- */

static void an_absolute_time_follows_the_wall_clock(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    if (w->client.driver == &driver_naive || w->client.driver->clock_is_elsewhere)
        skip();
    job.when = (struct queue_when){.due = QUEUE_DUE_AT, .ms = now_ms() + 3600000};
    push(job);
    w->quick = true;
    clock_fake_step_wall(3600000);
    w->client.driver->moved(w->client.self);
    assert_int_equal(state_of("a"), JOB_READY);
}

static void a_relative_time_does_not_follow_the_wall_clock(void **state)
{
    (void)state;
    if (w->client.driver == &driver_naive)
        skip();
    push(a_push_in("a", 3600000));
    w->quick = true;
    clock_fake_step_wall(7200000);
    w->client.driver->moved(w->client.self);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    clock_fake_advance(3600001);
    w->client.driver->moved(w->client.self);
    assert_int_equal(state_of("a"), JOB_READY);
}

static void a_wall_clock_put_back_keeps_an_absolute_time_late_rather_than_early(void **state)
{
    struct queue_push job = a_push("a");

    (void)state;
    if (w->client.driver == &driver_naive || w->client.driver->clock_is_elsewhere)
        skip();
    job.when = (struct queue_when){.due = QUEUE_DUE_AT, .ms = now_ms() + 10000};
    push(job);
    w->quick = true;
    clock_fake_step_wall(-5000);
    clock_fake_advance(10001);
    w->client.driver->moved(w->client.self);
    assert_int_equal(state_of("a"), JOB_DELAYED);
    clock_fake_advance(5000);
    w->client.driver->moved(w->client.self);
    assert_int_equal(state_of("a"), JOB_READY);
}

/* ---- waiting ---- */

static size_t waited_jobs, waited_answers;

static void waited(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    (void)owner;
    (void)tag;
    (void)refused;
    waited_answers++;
    waited_jobs += reply->job_count;
}

static void let_run(void)
{
    for (int i = 0; i < 50; i++)
        client_idle(&w->client);
}

static void a_waiting_take_is_notified_when_a_job_becomes_ready(void **state)
{
    struct slice topic = slice_of("t");
    struct queue_take call = {.topics = &topic, .topic_count = 1, .max = 1};
    struct waiters *waiters = waiters_new(w->client.queue, 10);

    (void)state;
    w->quick = true;
    waited_jobs = waited_answers = 0;
    for (int i = 0; i < 3; i++)
        waiter_take(waiters, &call, 60000, now_ms(), waited, NULL, 0);
    let_run();
    assert_int_equal(waited_answers, 0);
    client_push(&w->client, (struct queue_push[]){a_push_in("later", 1000), a_push("now")}, 2);
    let_run();
    assert_int_equal(waited_jobs, 1);
    clock_fake_advance(1001);
    w->client.driver->moved(w->client.self);
    let_run();
    assert_int_equal(waited_jobs, 2);
    waiters_expire(waiters, now_ms() + 60000);
    assert_int_equal(waited_answers, 3);
    waiters_free(waiters);
    let_run();
}

static void a_waiting_take_is_notified_on_resume(void **state)
{
    struct slice topic = slice_of("t");
    struct queue_take call = {.topics = &topic, .topic_count = 1, .max = 10};
    struct queue_topic_call resume = {.verb = QUEUE_TOPIC_RESUME, .topic = topic};
    struct waiters *waiters = waiters_new(w->client.queue, 10);

    (void)state;
    waited_jobs = waited_answers = 0;
    push(a_push("a"));
    topic_call(QUEUE_TOPIC_PAUSE);
    waiter_take(waiters, &call, 60000, now_ms(), waited, NULL, 0);
    let_run();
    assert_int_equal(waited_answers, 0);
    client_topic(&w->client, &resume);
    let_run();
    assert_int_equal(waited_jobs, 1);
    waiters_free(waiters);
    let_run();
}

const struct CMUnitTest directed_change[] = {
    CLAIM(a_cancelled_job_never_comes),
    CLAIM(a_leased_job_cannot_be_cancelled_rescheduled_or_run),
    CLAIM(a_dead_job_can_be_cancelled_but_not_rescheduled_or_run),
    CLAIM(a_dead_job_is_cancelled_only_if_it_is_the_one_meant),
    CLAIM(cancels_a_waiting_job_by_the_lease_of_its_last_delivery_only),
    CLAIM(unknown_and_finished_jobs_are_not_found),
    CLAIM(a_job_can_be_put_off_and_brought_forward),
    CLAIM(a_ready_job_put_off_is_delayed_again),
    CLAIM(rescheduling_keeps_the_attempts),
    CLAIM(the_priority_can_be_changed_without_the_due_time),
    CLAIM(run_makes_a_delayed_job_ready_now),
    CLAIM(run_also_ends_the_wait_for_a_retry),
    CLAIM(a_list_is_ordered_by_due_time_and_continues_at_its_cursor),
    CLAIM(a_list_may_select_one_state),
    CLAIM(a_list_rejects_invalid_arguments),
    CLAIM(an_absolute_time_follows_the_wall_clock),
    CLAIM(a_relative_time_does_not_follow_the_wall_clock),
    CLAIM(a_wall_clock_put_back_keeps_an_absolute_time_late_rather_than_early),
    CLAIM(a_waiting_take_is_notified_when_a_job_becomes_ready),
    CLAIM(a_waiting_take_is_notified_on_resume),
};
const size_t directed_change_count = sizeof directed_change / sizeof directed_change[0];
