/*
 * Promises of every kind of target (targets/target.h), tried with its real peer.
 *
 * target_suite KIND
 */
#include "base/clock.h"
#include "guard/resolve.h"
#include "rig.h"
#include "targets/target.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    MESSAGES_MAX = 4096,
    BATCH = 50,
    TICK_MS = 5,
    TIMEOUT_MS = 20000,
    SKIPPED = 77,
    FILES = 2048
};

static const struct target_rig *rig;

struct stage {
    char policy_path[64];
    struct guard *guard;
    struct reactor *reactor;
    struct resolver *resolver;
    struct target_env env;
    struct target_setting setting;
    struct target *target;
    uv_timer_t tick;
    bool in_send, is_closed, tick_is_closed;
    size_t sent, notified;
    unsigned char reports[MESSAGES_MAX];
    struct target_report last[MESSAGES_MAX];
    size_t by_outcome[TARGET_UNSENT + 1];
};

/* ---- the stage ---- */

static void on_reported(void *owner, uint64_t tag, const struct target_report *report)
{
    struct stage *stage = owner;
    assert_false(stage->in_send);
    assert_false(stage->is_closed);
    assert_true(tag < stage->sent);
    assert_int_equal(stage->reports[tag], 0);
    assert_in_range(report->outcome, TARGET_DONE, TARGET_UNSENT);
    if (report->outcome != TARGET_DONE)
        assert_true(report->error[0] != '\0');
    stage->reports[tag]++;
    stage->last[tag] = *report;
    stage->notified++;
    stage->by_outcome[report->outcome]++;
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void write_policy(struct stage *stage, bool allows)
{
    const char *more = rig->policy ? rig->policy() : "";
    int fd = open(stage->policy_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    dprintf(fd, "allow-host = 127.0.0.1\n%s%s\n", allows ? "allow-network = 127.0.0.0/8\n" : "",
            more);
    close(fd);
}

static struct stage *raise_stage(bool allows, const char *figures)
{
    char json[2048], error[TARGET_ERROR_BYTES] = "";
    struct stage *stage = calloc(1, sizeof *stage);
    strcpy(stage->policy_path, "/tmp/tarry-policy-XXXXXX");
    int fd = mkstemp(stage->policy_path);
    assert_true(fd >= 0);
    close(fd);
    write_policy(stage, allows);
    if (guard_open(stage->policy_path, &stage->guard, error) != 0)
        fail_msg("%s", error);
    stage->reactor = reactor_new(0);
    stage->resolver = resolver_new(stage->reactor, stage->guard);
    stage->env = (struct target_env){.reactor = stage->reactor,
                                     .guard = stage->guard,
                                     .resolver = stage->resolver,
                                     .reported = on_reported,
                                     .owner = stage,
                                     .version = "0"};
    snprintf(json, sizeof json, "{\"to\":\"%s\"%s%s}", rig->to(), figures, rig->setting);
    if (!target_setting_parse(slice_of(json), &stage->setting, error))
        fail_msg("%s", error);
    const struct target_ops *ops = target_find(slice_of(stage->setting.to));
    assert_non_null(ops);
    if (!ops->check(&stage->setting, slice_of(stage->setting.to), error))
        fail_msg("%s", error);
    stage->target = ops->open(&stage->env, &stage->setting, slice_of(stage->setting.to));
    assert_non_null(stage->target);
    uv_timer_init(reactor_loop(stage->reactor), &stage->tick);
    stage->tick.data = stage;
    uv_timer_start(&stage->tick, on_tick, TICK_MS, TICK_MS);
    return stage;
}

/* Runs the loop until the count is reached. */
static void run_until(struct stage *stage, const size_t *count, size_t wanted, int64_t within_ms)
{
    int64_t limit_us = clock_boot_us() + within_ms * 1000;
    while (*count < wanted) {
        uv_run(reactor_loop(stage->reactor), UV_RUN_ONCE);
        if (clock_boot_us() > limit_us)
            fail_msg("%zu of %zu after %d ms", *count, wanted, (int)within_ms);
    }
}

static void run_for(struct stage *stage, int64_t ms)
{
    int64_t limit_us = clock_boot_us() + ms * 1000;
    while (clock_boot_us() < limit_us)
        uv_run(reactor_loop(stage->reactor), UV_RUN_ONCE);
}

static void on_closed(void *ctx)
{
    struct stage *stage = ctx;
    assert_false(stage->is_closed);
    assert_int_equal(stage->notified, stage->sent); /* what was under way is reported before */
    stage->is_closed = true;
}

static void close_target(struct stage *stage)
{
    stage->target->ops->close(stage->target, on_closed, stage);
    stage->target = NULL;
    assert_false(stage->is_closed);
    int64_t limit_us = clock_boot_us() + (int64_t)TIMEOUT_MS * 1000;
    while (!stage->is_closed && clock_boot_us() < limit_us)
        uv_run(reactor_loop(stage->reactor), UV_RUN_ONCE);
    assert_true(stage->is_closed);
}

static void on_tick_closed(uv_handle_t *handle)
{
    struct stage *stage = handle->data;
    stage->tick_is_closed = true;
}

static void strike_stage(struct stage *stage)
{
    if (stage->target)
        close_target(stage);
    uv_close((uv_handle_t *)&stage->tick, on_tick_closed);
    while (!stage->tick_is_closed)
        uv_run(reactor_loop(stage->reactor), UV_RUN_ONCE);
    resolver_free(stage->resolver);
    reactor_free(stage->reactor);
    target_setting_fini(&stage->setting);
    guard_free(stage->guard);
    unlink(stage->policy_path);
    free(stage);
}

/* Sends in batches, from memory that is freed after the call. */
static void send_some(struct stage *stage, size_t count)
{
    while (count > 0) {
        size_t now = count < BATCH ? count : BATCH;
        struct target_message *messages = calloc(now, sizeof *messages);
        struct job *jobs = calloc(now, sizeof *jobs);
        char(*ids)[24] = calloc(now, sizeof *ids);
        char *to = strdup(stage->setting.to), *body = strdup("{\"total\":12}");
        for (size_t i = 0; i < now; i++) {
            snprintf(ids[i], sizeof ids[i], "order-%zu", stage->sent + i);
            jobs[i] = (struct job){.topic = slice_of("orders"),
                                   .id = slice_of(ids[i]),
                                   .body = slice_of(body),
                                   .attempt = 1,
                                   .due_ms = clock_wall_ms(),
                                   .state = JOB_LEASED};
            messages[i] = (struct target_message){.tag = stage->sent + i,
                                                  .job = &jobs[i],
                                                  .setting = &stage->setting,
                                                  .to = slice_of(to)};
        }
        stage->sent += now;
        assert_true(stage->sent <= MESSAGES_MAX);
        stage->in_send = true;
        stage->target->ops->send(stage->target, messages, now);
        stage->in_send = false;
        free(messages);
        free(jobs);
        free(ids);
        free(to);
        free(body);
        count -= now;
    }
}

static bool is_ailing(const struct stage *stage, size_t from)
{
    for (size_t i = from; i < stage->sent; i++)
        if (!stage->last[i].is_ailing)
            return false;
    return true;
}

/* ---- claims ---- */

static void every_message_is_reported_exactly_once(void **state)
{
    (void)state;
    struct stage *stage = raise_stage(true, "");
    size_t before = rig->count();
    for (int i = 0; i < 4; i++)
        send_some(stage, 150);
    run_until(stage, &stage->notified, 600, TIMEOUT_MS);
    run_for(stage, 50); /* on_reported checks that each comes once */
    assert_int_equal(stage->by_outcome[TARGET_DONE], 600);
    if (!rig->reaches_nobody)
        assert_int_equal(rig->count() - before, 600);
    strike_stage(stage);
}

static void more_than_the_window_are_taken_all_the_same(void **state)
{
    (void)state;
    struct stage *stage = raise_stage(true, ",\"max_in_flight\":4");
    send_some(stage, 1000);
    run_until(stage, &stage->notified, 1000, TIMEOUT_MS);
    assert_int_equal(stage->by_outcome[TARGET_DONE], 1000);
    strike_stage(stage);
}

static void an_open_target_is_closed_with_nothing_sent(void **state)
{
    (void)state;
    strike_stage(raise_stage(true, ""));
}

static void a_silent_peer_costs_the_timeout(void **state)
{
    (void)state;
    if (!rig->stall)
        skip();
    struct stage *stage = raise_stage(true, ",\"timeout\":\"1s\"");
    send_some(stage, 1);
    run_until(stage, &stage->notified, 1, TIMEOUT_MS);
    rig->stall(true);
    int64_t began_us = clock_boot_us();
    send_some(stage, 20);
    run_until(stage, &stage->notified, 21, 10 * 1000); /* one after another, they would last 20 s */
    int64_t took_ms = (clock_boot_us() - began_us) / 1000;
    rig->stall(false);
    assert_true(took_ms >= 950);
    assert_int_equal(stage->by_outcome[TARGET_DONE], 1);
    assert_true(is_ailing(stage, 1));
    strike_stage(stage);
}

static void closing_reports_messages_in_flight(void **state)
{
    (void)state;
    struct stage *stage = raise_stage(true, "");
    if (rig->stall)
        rig->stall(true);
    send_some(stage, 40);
    if (rig->stall)
        run_for(stage, 100);
    close_target(stage); /* looks that all were reported */
    assert_int_equal(stage->notified, 40);
    if (rig->stall) {
        assert_int_equal(stage->by_outcome[TARGET_DONE], 0);
        rig->stop(); /* what it has read is not counted later */
        rig->start();
    }
    strike_stage(stage);
}

static void a_message_that_the_guard_rejects_never_reaches_the_peer(void **state)
{
    (void)state;
    if (rig->reaches_nobody)
        skip();
    size_t before = rig->count();
    struct stage *stage = raise_stage(false, "");
    send_some(stage, 10);
    run_until(stage, &stage->notified, 10, TIMEOUT_MS);
    assert_int_equal(stage->by_outcome[TARGET_UNSENT] + stage->by_outcome[TARGET_FAILED], 10);
    assert_true(is_ailing(stage, 0));
    assert_int_equal(rig->count(), before);
    strike_stage(stage);
}

static void a_policy_change_ends_open_connections(void **state)
{
    (void)state;
    char error[GUARD_ERROR_BYTES];
    if (rig->reaches_nobody)
        skip();
    struct stage *stage = raise_stage(true, ",\"timeout\":\"2s\"");
    send_some(stage, 10);
    run_until(stage, &stage->notified, 10, TIMEOUT_MS);
    assert_int_equal(stage->by_outcome[TARGET_DONE], 10);
    size_t before = rig->count();
    write_policy(stage, false);
    assert_int_equal(guard_reload(stage->guard, error), 0);
    for (size_t i = 0; i < 3; i++) {
        send_some(stage, 5);
        run_until(stage, &stage->notified, stage->sent, TIMEOUT_MS);
    }
    assert_int_equal(stage->by_outcome[TARGET_DONE], 10);
    assert_int_equal(rig->count(), before);
    strike_stage(stage);
}

/* Sends one after the other until one is through. */
static void send_until_done(struct stage *stage)
{
    int64_t limit_us = clock_boot_us() + rig->back_ms * 1000LL;
    size_t done = stage->by_outcome[TARGET_DONE];
    while (stage->by_outcome[TARGET_DONE] == done) {
        if (clock_boot_us() > limit_us)
            fail_msg("not through again within %d ms", rig->back_ms);
        send_some(stage, 1);
        run_until(stage, &stage->notified, stage->sent, TIMEOUT_MS);
        run_for(stage, 20);
    }
}

static void a_peer_that_comes_back_is_found_again(void **state)
{
    (void)state;
    if (rig->reaches_nobody)
        skip();
    struct stage *stage = raise_stage(true, ",\"timeout\":\"2s\"");
    send_some(stage, 10);
    run_until(stage, &stage->notified, 10, TIMEOUT_MS);
    rig->stop();
    send_some(stage, 10);
    run_until(stage, &stage->notified, 20, TIMEOUT_MS);
    assert_int_equal(stage->by_outcome[TARGET_DONE], 10);
    assert_int_equal(stage->by_outcome[TARGET_REFUSED], 0);
    assert_true(is_ailing(stage, 10));
    rig->start();
    send_until_done(stage);
    strike_stage(stage);
}

static void a_peer_that_dies_with_messages_ends_them(void **state)
{
    (void)state;
    if (!rig->stall)
        skip();
    struct stage *stage = raise_stage(true, ",\"timeout\":\"3s\"");
    rig->stall(true);
    send_some(stage, 30);
    run_for(stage, 200);
    rig->stop();
    run_until(stage, &stage->notified, 30, 6000);
    rig->start();
    assert_int_equal(stage->by_outcome[TARGET_FAILED] + stage->by_outcome[TARGET_UNSENT], 30);
    assert_true(is_ailing(stage, 0));
    send_until_done(stage);
    strike_stage(stage);
}

static int start_peer(void **state)
{
    (void)state;
    rig->start();
    return 0;
}

static int stop_peer(void **state)
{
    (void)state;
    rig->stop();
    return 0;
}

/* Connections have two ends here, and many have a soft limit of 1,024. */
static bool raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    if (limit.rlim_cur >= FILES)
        return true;
    limit.rlim_cur = FILES;
    if (limit.rlim_max >= FILES && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return true;
    fprintf(stderr, "%d open files are not allowed here, run: ulimit -Hn %d\n", FILES, FILES);
    return false;
}

int main(int count, char **args)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as programs with sockets do */
    if (!raise_files())
        return 1;
    for (size_t i = 0; rigs[i]; i++)
        if (count > 1 && strcmp(rigs[i]->name, args[1]) == 0)
            rig = rigs[i];
    const char *why = !rig ? "no such rig" : rig->missing ? rig->missing() : NULL;
    if (why) {
        printf("skipped: %s\n", why);
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_reported_exactly_once),
        cmocka_unit_test(more_than_the_window_are_taken_all_the_same),
        cmocka_unit_test(an_open_target_is_closed_with_nothing_sent),
        cmocka_unit_test(a_silent_peer_costs_the_timeout),
        cmocka_unit_test(closing_reports_messages_in_flight),
        cmocka_unit_test(a_message_that_the_guard_rejects_never_reaches_the_peer),
        cmocka_unit_test(a_policy_change_ends_open_connections),
        cmocka_unit_test(a_peer_that_comes_back_is_found_again),
        cmocka_unit_test(a_peer_that_dies_with_messages_ends_them),
    };
    return cmocka_run_group_tests_name(rig->name, tests, start_peer, stop_peer);
}
