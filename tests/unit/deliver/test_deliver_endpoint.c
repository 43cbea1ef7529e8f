/* Endpoints over real targets: windows, breakers, and how many there are. The guard refuses all, so
 * nothing is connected to. */
#include "base/clock.h"
#include "deliver/endpoint.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARCELS_MAX = 4096 };

struct stage {
    struct guard *guard;
    struct reactor *reactor;
    struct resolver *resolver;
    struct endpoints endpoints;
    struct target_setting setting;
    struct job job;
    bool is_giving, all_closed;
    size_t changes, given, notified, done;
};

static void on_changed(void *owner, struct endpoint *endpoint)
{
    struct stage *stage = owner;
    assert_non_null(endpoint);
    stage->changes++;
}

static void on_all_closed(void *owner)
{
    struct stage *stage = owner;
    assert_false(stage->all_closed);
    stage->all_closed = true;
}

struct parcel { /* a message given to an endpoint */
    struct endpoint_request request;
    struct stage *stage;
};

static void on_reported(struct endpoint_request *request, const struct target_report *report,
                        int64_t took_ms)
{
    struct parcel *parcel = list_entry(request, struct parcel, request);
    struct stage *stage = parcel->stage;
    free(parcel);
    assert_false(stage->is_giving);
    assert_true(took_ms >= 0);
    stage->notified++;
    stage->done += report->outcome == TARGET_DONE;
}

static struct stage *raise_stage(void)
{
    char error[GUARD_ERROR_BYTES];
    struct stage *stage = calloc(1, sizeof *stage);
    assert_int_equal(guard_open(NULL, &stage->guard, error), 0);
    stage->reactor = reactor_new(0);
    stage->resolver = resolver_new(stage->reactor, stage->guard);
    const struct target_env env = {.reactor = stage->reactor,
                                   .guard = stage->guard,
                                   .resolver = stage->resolver,
                                   .version = "0"};
    assert_true(endpoints_init(&stage->endpoints, &env));
    stage->endpoints.changed = on_changed;
    stage->endpoints.owner = stage;
    stage->setting = (struct target_setting){.max_in_flight = 8, .timeout_ms = 1000};
    stage->job = (struct job){.topic = slice_of("orders"), .id = slice_of("1"), .attempt = 1};
    return stage;
}

static void strike_stage(struct stage *stage)
{
    endpoints_fini(&stage->endpoints);
    assert_int_equal(stage->notified, stage->given);
    resolver_free(stage->resolver);
    reactor_free(stage->reactor);
    guard_free(stage->guard);
    free(stage);
}

static enum endpoint_decision give(struct stage *stage, const char *to, uint32_t window,
                                   int64_t *wait_ms)
{
    char error[TARGET_ERROR_BYTES];
    struct buffer name;
    buffer_init(&name, ENDPOINT_BYTES_MAX);
    assert_true(target_endpoint(slice_of(to), &name, error));
    const struct target_message message = {
        .job = &stage->job, .setting = &stage->setting, .to = slice_of(to)};
    struct parcel *parcel = calloc(1, sizeof *parcel);
    *parcel =
        (struct parcel){.request = {.reported = on_reported, .window = window}, .stage = stage};
    stage->is_giving = true;
    enum endpoint_decision decision =
        endpoints_give(&stage->endpoints, &parcel->request, buffer_slice(&name), &message, wait_ms);
    if (decision != ENDPOINT_SENT)
        free(parcel);
    endpoints_flush(&stage->endpoints);
    stage->is_giving = false;
    stage->given += decision == ENDPOINT_SENT;
    buffer_fini(&name);
    return decision;
}

static void run_until_reported(struct stage *stage)
{
    int64_t limit_us = clock_boot_us() + 10 * 1000 * 1000;
    while (stage->notified < stage->given && clock_boot_us() < limit_us)
        uv_run(reactor_loop(stage->reactor), UV_RUN_NOWAIT);
    assert_int_equal(stage->notified, stage->given);
}

CLAIM(all_that_was_given_is_reported_once)
{
    struct stage *stage = raise_stage();
    int64_t wait_ms;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(give(stage, "null:", 0, &wait_ms), ENDPOINT_SENT);
    assert_int_equal(stage->notified, 0);
    run_until_reported(stage);
    assert_int_equal(stage->done, 1000);
    assert_int_equal(stage->endpoints.open, 1);
    strike_stage(stage);
}

CLAIM(a_full_window_sends_back_each_a_little_later)
{
    struct stage *stage = raise_stage();
    int64_t wait_ms, before_ms = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(give(stage, "null:", 4, &wait_ms), ENDPOINT_SENT);
    /* A wait counts from its call, so it is shorter by the time since the call before. */
    int64_t begin_ms = clock_inner_ms(), last_ms = begin_ms;
    for (int i = 0; i < 1000; i++) {
        int64_t now_ms = clock_inner_ms();
        assert_int_equal(give(stage, "null:", 4, &wait_ms), ENDPOINT_CONGESTED);
        assert_true(wait_ms >= 10 && wait_ms + (clock_inner_ms() - last_ms) + 5 >= before_ms &&
                    wait_ms <= ENDPOINT_CONGESTION_MS_MAX);
        before_ms = wait_ms;
        last_ms = now_ms;
    }
    /* a step of a millisecond over the window, 1,000 times */
    assert_true(before_ms + (clock_inner_ms() - begin_ms) >= 200);
    assert_int_equal(give(stage, "null:", 0, &wait_ms),
                     ENDPOINT_SENT); /* has a window of its own */
    run_until_reported(stage);
    assert_int_equal(give(stage, "null:", 4, &wait_ms), ENDPOINT_SENT);
    strike_stage(stage);
}

CLAIM(a_repeatedly_failing_endpoint_pauses)
{
    static const char to[] = "http://127.0.0.1:9/x";
    struct stage *stage = raise_stage();
    int64_t wait_ms, next_ms = 0;
    for (int i = 0; i < BREAKER_RUN; i++) {
        assert_int_equal(give(stage, to, 0, &wait_ms), ENDPOINT_SENT);
        run_until_reported(stage);
    }
    assert_int_equal(stage->changes, 1);
    assert_int_equal(stage->endpoints.resting, 1);
    assert_int_equal(give(stage, to, 0, &wait_ms), ENDPOINT_RESTS);
    assert_in_range(wait_ms, 500, 3000);
    assert_int_equal(endpoints_ask(&stage->endpoints, slice_of("http://127.0.0.1:9"),
                                   slice_of("http://127.0.0.1:9/x"), &next_ms),
                     BREAKER_WAIT);
    assert_true(next_ms > clock_inner_ms());
    const struct endpoint_tally *tally =
        endpoint_tally_table_find(&stage->endpoints.tallies.table, slice_of("http://127.0.0.1:9"));
    assert_non_null(tally);
    if (!tally) /* gcc does not know that the assertion does not return */
        return;
    assert_int_equal(tally->state, ENDPOINT_OPEN);
    assert_int_equal(tally->wait_until_ms, next_ms);
    assert_int_equal(tally->sums.outcomes[TARGET_FAILED] + tally->sums.outcomes[TARGET_UNSENT],
                     BREAKER_RUN);
    assert_true(tally->error[0]);
    assert_int_equal(tally->in_flight, 0);
    assert_int_equal(give(stage, "null:", 0, &wait_ms), ENDPOINT_SENT); /* others do not */
    strike_stage(stage);
}

CLAIM(beyond_the_most_the_longest_idle_goes)
{
    struct stage *stage = raise_stage();
    int64_t wait_ms;
    char to[64];
    for (int i = 0; i < ENDPOINTS_MAX + 100; i++) {
        snprintf(to, sizeof to, "http://127.0.0.1:%d/x", 1000 + i);
        assert_int_equal(give(stage, to, 0, &wait_ms), ENDPOINT_SENT);
        run_until_reported(stage);
        assert_true(stage->endpoints.table.table.count <= ENDPOINTS_MAX);
    }
    assert_null(endpoint_table_find(&stage->endpoints.table, slice_of("http://127.0.0.1:1000")));
    assert_non_null(
        endpoint_table_find(&stage->endpoints.table, slice_of("http://127.0.0.1:1100")));
    strike_stage(stage);
}

CLAIM(new_endpoints_wait_while_all_are_busy)
{
    struct stage *stage = raise_stage();
    int64_t wait_ms = 0;
    char to[64];
    for (int i = 0; i < ENDPOINTS_MAX; i++) {
        snprintf(to, sizeof to, "http://127.0.0.1:%d/x", 1000 + i);
        assert_int_equal(give(stage, to, 0, &wait_ms), ENDPOINT_SENT);
    }
    assert_int_equal(give(stage, "null:", 0, &wait_ms), ENDPOINT_LATER);
    assert_true(wait_ms > 0);
    assert_int_equal(give(stage, "http://127.0.0.1:1000/x", 0, &wait_ms), ENDPOINT_SENT);
    run_until_reported(stage);
    assert_int_equal(give(stage, "null:", 0, &wait_ms), ENDPOINT_SENT);
    strike_stage(stage);
}

CLAIM(too_many_endpoints_are_admitted_one_after_the_other)
{
    struct stage *stage = raise_stage();
    int64_t first_ms = 0, wait_ms = 0, before_ms = 0;
    char to[64];
    for (int i = 0; i < ENDPOINTS_MAX; i++) {
        snprintf(to, sizeof to, "http://127.0.0.1:%d/x", 1000 + i);
        assert_int_equal(give(stage, to, 0, &wait_ms), ENDPOINT_SENT);
    }
    stage->endpoints.congestion.usual_ms = 10 * 1000; /* they are slow */
    clock_fake_start(clock_inner_ms(), clock_wall_ms());
    for (int i = 0; i < 10 * ENDPOINTS_MAX; i++) {
        snprintf(to, sizeof to, "http://127.0.0.2:%d/x", 1000 + i);
        assert_int_equal(give(stage, to, 0, &wait_ms), ENDPOINT_LATER);
        assert_true(wait_ms >= before_ms && wait_ms <= ENDPOINT_CONGESTION_MS_MAX);
        before_ms = wait_ms;
        first_ms = i == 0 ? wait_ms : first_ms;
    }
    clock_fake_end();
    /* Ten times as many as there is room for: ten times as long, about. */
    assert_true(wait_ms - first_ms > 80 * 1000 && wait_ms - first_ms < 120 * 1000);
    run_until_reported(stage);
    assert_int_equal(give(stage, "null:", 0, &wait_ms), ENDPOINT_SENT);
    run_until_reported(stage);
    strike_stage(stage);
}

CLAIM(a_paused_endpoint_is_kept_while_others_are_idle)
{
    struct stage *stage = raise_stage();
    int64_t wait_ms = 0;
    char to[64];
    for (int i = 0; i < ENDPOINTS_MAX + 10; i++) {
        snprintf(to, sizeof to, "http://127.0.0.1:%d/x", 1000 + i);
        assert_int_equal(give(stage, to, 0, &wait_ms), ENDPOINT_SENT);
        run_until_reported(stage);
        struct endpoint *first =
            endpoint_table_find(&stage->endpoints.table, slice_of("http://127.0.0.1:1000"));
        assert_non_null(first);
        if (i == 0) {
            first->breaker.is_open = true;
            first->breaker.wait_until_ms = clock_inner_ms() + 60 * 1000;
            stage->endpoints.resting++;
        }
    }
    assert_null(endpoint_table_find(&stage->endpoints.table, slice_of("http://127.0.0.1:1001")));
    strike_stage(stage);
}

/* Reports the message that was given last in place of its target, which has not got it yet. */
static void report_pending(struct stage *stage, enum target_outcome outcome, bool is_ailing)
{
    struct endpoints *endpoints = &stage->endpoints;
    const struct target_report report = {
        .outcome = outcome, .is_ailing = is_ailing, .retry_after_ms = -1};
    assert_int_equal(endpoints->pending_count, 1);
    uint64_t tag = endpoints->pending[0].tag;
    endpoints->pending_count = 0;
    endpoints->pending_for = NULL;
    endpoints->env.reported(endpoints->env.owner, tag, &report);
}

static enum endpoint_decision load(struct stage *stage, const char *name)
{
    int64_t wait_ms;
    const struct target_message message = {
        .job = &stage->job, .setting = &stage->setting, .to = slice_of(name)};
    struct parcel *parcel = calloc(1, sizeof *parcel);
    *parcel = (struct parcel){.request.reported = on_reported, .stage = stage};
    enum endpoint_decision decision =
        endpoints_give(&stage->endpoints, &parcel->request, slice_of(name), &message, &wait_ms);
    stage->given += decision == ENDPOINT_SENT;
    if (decision != ENDPOINT_SENT)
        free(parcel);
    return decision;
}

CLAIM(unsent_messages_do_not_count_against_the_endpoint)
{
    struct stage *stage = raise_stage();
    for (int i = 0; i < BREAKER_RUN; i++) { /* also no success between them */
        assert_int_equal(load(stage, "null:"), ENDPOINT_SENT);
        report_pending(stage, TARGET_UNSENT, false);
        assert_int_equal(load(stage, "null:"), ENDPOINT_SENT);
        report_pending(stage, TARGET_FAILED, true);
    }
    struct endpoint *endpoint = endpoint_table_find(&stage->endpoints.table, slice_of("null:"));
    assert_true(endpoint->breaker.is_open);
    assert_int_equal(load(stage, "null:"), ENDPOINT_RESTS);

    endpoint->breaker.wait_until_ms = 0;
    endpoint->breaker.pause_ms = 8000;
    size_t changes = stage->changes;
    assert_int_equal(load(stage, "null:"), ENDPOINT_SENT); /* the probe */
    report_pending(stage, TARGET_UNSENT, false);
    assert_true(endpoint->breaker.is_open);
    assert_int_equal(stage->changes, changes + 1);          /* another dispatcher may probe */
    assert_int_equal(load(stage, "null:"), ENDPOINT_RESTS); /* but not immediately */
    assert_int_equal(endpoint->breaker.pause_ms, 8000);

    endpoint->breaker.wait_until_ms = 0;
    assert_int_equal(load(stage, "null:"), ENDPOINT_SENT);
    report_pending(stage, TARGET_DONE, false);
    assert_false(endpoint->breaker.is_open);
    strike_stage(stage);
}

CLAIM(closing_all_reports_messages_in_flight)
{
    struct stage *stage = raise_stage();
    int64_t wait_ms;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(give(stage, "null:", 0, &wait_ms), ENDPOINT_SENT);
        assert_int_equal(give(stage, "http://127.0.0.1:9/x", 0, &wait_ms), ENDPOINT_SENT);
    }
    assert_true(endpoints_close_all(&stage->endpoints, on_all_closed, stage));
    assert_false(stage->all_closed);
    for (int i = 0; i < 1000 && !stage->all_closed; i++)
        uv_run(reactor_loop(stage->reactor), UV_RUN_NOWAIT);
    assert_true(stage->all_closed);
    assert_int_equal(stage->notified, 20);
    assert_int_equal(stage->endpoints.open, 0);
    assert_false(endpoints_close_all(&stage->endpoints, on_all_closed, stage));
    strike_stage(stage);
}

CLAIMS_MAIN(NULL, NULL)
