/* Claims about changes of waiting jobs by a filter (queue/sweep.h), on every store. They call the queue past the model,
 * which knows no filters. */
#include "directed.h"

#include "base/clock.h"
#include "queue/sweep.h"

#include <stdio.h>

enum { HOUR_MS = 3600 * 1000, WAITING = 450, READY_EACH = 3, PATIENCE_US = 60 * 1000 * 1000 };

/* ---- jobs ---- */

/* Pushes 450 jobs: every third is ready, the others are delayed by 1 to 449 hours; every second begins with "odd-". */
static void fill(void)
{
    static char ids[WAITING][24];
    static struct queue_push pushes[WAITING];
    for (int i = 0; i < WAITING; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%s-%d", i % 2 ? "odd" : "even", i);
        pushes[i] = a_push_in(ids[i], i % READY_EACH ? (int64_t)i * HOUR_MS : 0);
    }
    const struct queue_reply *reply = client_push(&w->client, pushes, WAITING);
    for (size_t i = 0; i < reply->result_count; i++)
        assert_int_equal(reply->results[i].status, QUEUE_CREATED);
    assert_int_equal(reply->result_count, WAITING);
}

/* Counts the jobs of the topic in a state that are due at or after a time. */
static size_t count(enum job_state state, int64_t due_ms)
{
    const struct queue_list list = {
        .topic = slice_of("t"), .state = state, .limit = QUEUE_LIST_MAX};
    const struct queue_reply *reply = client_list(&w->client, &list);
    size_t found = 0;
    for (size_t i = 0; i < reply->job_count; i++)
        found += reply->jobs[i].job.due_ms >= due_ms;
    return found;
}

/* ---- sweeps ---- */

static struct sweep_result last;
static bool is_done;

static bool is_wanted(void *owner, uint64_t tag)
{
    (void)owner;
    (void)tag;
    return true;
}

static void on_done(void *owner, uint64_t tag, const struct sweep_result *result)
{
    (void)owner;
    (void)tag;
    last = *result;
    is_done = true;
}

/* Runs a sweep and returns how many jobs it changed. */
static uint64_t sweep(struct sweep_order order)
{
    int64_t until_us = clock_boot_us() + PATIENCE_US;
    order.topic = slice_of("t");
    is_done = false;
    assert_true(sweep_start(w->client.queue, &order, is_wanted, on_done, NULL, 0));
    while (!is_done && clock_boot_us() < until_us) {
        client_idle(&w->client);
        if (!is_done)
            driver_rest();
    }
    assert_true(is_done);
    assert_int_equal(last.status, QUEUE_OK);
    assert_true(last.is_complete);
    return last.jobs;
}

/* ---- claims ---- */

static void a_filter_cancels_the_waiting_jobs_that_match(void **state)
{
    (void)state;
    fill();
    struct sweep_order order = {
        .verb = SWEEP_COUNT,
        .scope = SWEEP_WAITING,
        .filter = {.id_prefix = slice_of("odd-"), .due_before_ms = now_ms() + 200 * HOUR_MS}};
    /* odd ids: 75 of the ready jobs, and those of the delays 1, 5, 7, 11, … 199 */
    assert_int_equal(sweep(order), 75 + 67);
    assert_int_equal(count(0, 0), WAITING);
    order.verb = SWEEP_CANCEL;
    assert_int_equal(sweep(order), 75 + 67);
    assert_int_equal(count(0, 0), WAITING - 75 - 67);
    assert_int_equal(sweep(order), 0);
    order = (struct sweep_order){.verb = SWEEP_CANCEL, .scope = SWEEP_READY};
    assert_int_equal(sweep(order), 75);
    assert_int_equal(count(JOB_READY, 0), 0);
}

static void a_filter_moves_each_job_once(void **state)
{
    (void)state;
    fill();
    int64_t far_ms = now_ms() + 1000LL * HOUR_MS;
    assert_int_equal(sweep((struct sweep_order){.verb = SWEEP_RESCHEDULE,
                                                .scope = SWEEP_WAITING,
                                                .when = {QUEUE_DUE_DELAY, 1001LL * HOUR_MS},
                                                .priority = QUEUE_PRIORITY_UNSET}),
                     WAITING);
    assert_int_equal(count(JOB_DELAYED, far_ms), WAITING);
    assert_int_equal(sweep((struct sweep_order){.verb = SWEEP_RESCHEDULE,
                                                .scope = SWEEP_DELAYED,
                                                .filter.id_prefix = slice_of("even-"),
                                                .when = {QUEUE_DUE_AT, now_ms()},
                                                .priority = QUEUE_PRIORITY_UNSET}),
                     WAITING / 2);
    assert_int_equal(count(JOB_DELAYED, far_ms), WAITING / 2);
}

static void a_filter_runs_the_delayed_jobs_that_match(void **state)
{
    (void)state;
    fill();
    assert_int_equal(sweep((struct sweep_order){.verb = SWEEP_RUN,
                                                .scope = SWEEP_DELAYED,
                                                .filter.due_after_ms = now_ms() + 300 * HOUR_MS}),
                     100);
    assert_int_equal(count(JOB_READY, 0), WAITING / READY_EACH + 100);
    assert_int_equal(count(JOB_DELAYED, now_ms() + 300 * HOUR_MS), 0);
}

static void a_filter_spares_leased_and_dead_jobs(void **state)
{
    (void)state;
    push(a_push("dead"));
    refuse(take("dead"), "no");
    push(a_push("leased"));
    take("leased");
    fill();
    assert_int_equal(sweep((struct sweep_order){.verb = SWEEP_CANCEL, .scope = SWEEP_WAITING}),
                     WAITING);
    assert_int_equal(count(JOB_DEAD, 0), 1);
    assert_int_equal(count(JOB_LEASED, 0), 1);
}

const struct CMUnitTest directed_sweep[] = {
    CLAIM(a_filter_cancels_the_waiting_jobs_that_match),
    CLAIM(a_filter_moves_each_job_once),
    CLAIM(a_filter_runs_the_delayed_jobs_that_match),
    CLAIM(a_filter_spares_leased_and_dead_jobs),
};
const size_t directed_sweep_count = sizeof directed_sweep / sizeof directed_sweep[0];
