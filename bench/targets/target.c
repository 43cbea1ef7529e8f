/*
 * target: how fast a target takes messages, without a queue before it.
 *
 * bench_target POLICY SETTING COUNT WINDOW [BYTES]
 *
 * POLICY is a file as for --deliver, SETTING a topic's `deliver` as JSON. COUNT messages of BYTES
 * (200) are sent, WINDOW of them under way at a time; one that failed or did not leave is sent
 * again. Prints one JSON object.
 */
#include "targets/target.h"
#include "base/clock.h"
#include "guard/resolve.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH_MAX = 256 };

struct bench {
    struct target_env env;
    struct target_setting setting;
    struct target *target;
    struct deadline *again; /* a short pause after a failure, which may come immediately */
    uint64_t wanted, sent, under_way, window;
    uint64_t outcomes[TARGET_UNSENT + 1];
    char error[TARGET_ERROR_BYTES];
    char *body;
    size_t body_bytes;
    int64_t started_us, ended_us;
};

static void on_closed(void *ctx)
{
    struct bench *bench = ctx;
    reactor_stop(bench->env.reactor);
}

static void send_more(struct bench *bench)
{
    static uint64_t number;
    struct target_message messages[BATCH_MAX];
    struct job jobs[BATCH_MAX];
    char ids[BATCH_MAX][24];
    size_t count = 0;
    for (; count < BATCH_MAX && bench->sent < bench->wanted && bench->under_way < bench->window;
         count++, bench->sent++, bench->under_way++) {
        snprintf(ids[count], sizeof ids[count], "job-%llu", (unsigned long long)++number);
        jobs[count] = (struct job){.topic = slice_of("bench"),
                                   .id = slice_of(ids[count]),
                                   .body = slice_make(bench->body, bench->body_bytes),
                                   .attempt = 1,
                                   .due_ms = clock_wall_ms()};
        messages[count] = (struct target_message){.tag = number,
                                                  .job = &jobs[count],
                                                  .setting = &bench->setting,
                                                  .to = slice_of(bench->setting.to)};
    }
    if (count > 0)
        bench->target->ops->send(bench->target, messages, count);
}

static void on_again(void *ctx)
{
    struct bench *bench = ctx;
    uint64_t before;
    do {
        before = bench->sent;
        send_more(bench);
    } while (bench->sent > before);
}

static void on_reported(void *owner, uint64_t tag, const struct target_report *report)
{
    struct bench *bench = owner;
    (void)tag;
    bench->under_way--;
    bench->outcomes[report->outcome]++;
    if (report->outcome != TARGET_DONE)
        memcpy(bench->error, report->error, sizeof bench->error);
    if (report->outcome == TARGET_FAILED || report->outcome == TARGET_UNSENT)
        bench->sent--;
    if (bench->sent == bench->wanted && bench->under_way == 0) {
        bench->ended_us = clock_boot_us();
        bench->target->ops->close(bench->target, on_closed, bench);
    } else if (report->outcome != TARGET_DONE) {
        deadline_set(bench->again, clock_inner_ms() + 10);
    } else if (bench->under_way <= bench->window - bench->window / 4) {
        on_again(bench);
    }
}

static int fail(const char *error)
{
    fprintf(stderr, "bench_target: %s\n", error);
    return 2;
}

static void print(const struct bench *bench)
{
    double seconds = (double)(bench->ended_us - bench->started_us) / 1e6;
    printf("{\"seconds\":%.3f,\"per_s\":%.0f,\"done\":%llu,\"failed\":%llu,\"refused\":%llu,"
           "\"unsent\":%llu,\"error\":\"%s\"}\n",
           seconds, (double)bench->outcomes[TARGET_DONE] / seconds,
           (unsigned long long)bench->outcomes[TARGET_DONE],
           (unsigned long long)bench->outcomes[TARGET_FAILED],
           (unsigned long long)bench->outcomes[TARGET_REFUSED],
           (unsigned long long)bench->outcomes[TARGET_UNSENT], bench->error);
}

static int run(struct bench *bench, const struct target_ops *ops)
{
    bench->target = ops->open(&bench->env, &bench->setting, slice_of(bench->setting.to));
    bench->again = deadline_new(bench->env.reactor, on_again, bench);
    if (!bench->target || !bench->again)
        return fail("out of memory");
    bench->started_us = clock_boot_us();
    deadline_set(bench->again, clock_inner_ms());
    reactor_run(bench->env.reactor);
    print(bench);
    deadline_free(bench->again);
    return 0;
}

int main(int count, char **args)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as programs with sockets do */
    struct bench bench = {0};
    char error[TARGET_ERROR_BYTES] = "bench_target POLICY SETTING COUNT WINDOW [BYTES]";
    if (count < 5)
        return fail(error);
    bench.wanted = strtoull(args[3], NULL, 10);
    bench.window = strtoull(args[4], NULL, 10);
    bench.body_bytes = count > 5 ? strtoull(args[5], NULL, 10) : 200;
    bench.body = calloc(1, bench.body_bytes + 1);
    if (guard_open(args[1], &bench.env.guard, error) != 0 ||
        !target_setting_parse(slice_of(args[2]), &bench.setting, error))
        return fail(error);
    const struct target_ops *ops =
        bench.setting.to ? target_find(slice_of(bench.setting.to)) : NULL;
    if (!ops || !ops->check(&bench.setting, slice_of(bench.setting.to), error))
        return fail(error);
    bench.env.reactor = reactor_new(0);
    bench.env.resolver = resolver_new(bench.env.reactor, bench.env.guard);
    bench.env.reported = on_reported;
    bench.env.owner = &bench;
    bench.env.version = "bench";
    int code = run(&bench, ops);
    resolver_free(bench.env.resolver);
    reactor_free(bench.env.reactor);
    guard_free(bench.env.guard);
    target_setting_fini(&bench.setting);
    free(bench.body);
    return code;
}
