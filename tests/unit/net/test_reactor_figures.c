#include "net/reactor.h"

#include "base/clock.h"
#include "net/activity.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG_US = 20000 };

/* Keeps the thread busy: a sleep would do as well, but may last as long as it likes. */
static void spend(int64_t us)
{
    int64_t until_us = clock_awake_us() + us;
    while (clock_awake_us() < until_us)
        ;
}

static struct reactor_figures figures_of(const struct reactor *reactor)
{
    struct reactor_figures figures = {0};
    reactor_figures(reactor, &figures);
    return figures;
}

/* ---- iterations ---- */

struct long_letter {
    struct letter letter;
    struct reactor *reactor;
};

static void run_long(struct letter *letter)
{
    struct long_letter *self = (struct long_letter *)(void *)letter;
    spend(LONG_US);
    reactor_stop(self->reactor);
}

CLAIM(a_long_iteration_is_the_longest)
{
    struct long_letter letter = {.letter.run = run_long, .reactor = reactor_new(0)};
    reactor_post(letter.reactor, &letter.letter);
    reactor_run(letter.reactor);
    /* The loop's end is not an iteration's end; the next run's first poll is. */
    (void)uv_run(reactor_loop(letter.reactor), UV_RUN_NOWAIT);
    struct reactor_figures figures = figures_of(letter.reactor);
    assert_int_equal(figures.letters, 1);
    assert_true(figures.iterations >= 2);
    assert_int_equal(figures.iteration_us.count, figures.iterations);
    assert_true(figures.longest_us >= LONG_US);
    assert_int_equal(figures.longest_of_minute_us, figures.longest_us);
    assert_int_equal(figures.iteration_us.max, figures.longest_us);
    assert_int_equal(figures.processor_us.count, figures.iterations);
    reactor_free(letter.reactor);
}

static bool hook_long(void *ctx)
{
    (void)ctx;
    spend(LONG_US);
    return false;
}

/* Uses the processor for `us`, however long that takes. */
static void use(int64_t us)
{
    int64_t until_us = clock_thread_us() + us;
    while (clock_thread_us() < until_us)
        ;
}

static bool hook_work(void *ctx)
{
    (void)ctx;
    use(LONG_US);
    return false;
}

static bool hook_sleep(void *ctx)
{
    (void)ctx;
    (void)usleep(LONG_US);
    return false;
}

CLAIM(time_without_the_processor_is_no_processor_time)
{
    struct reactor *reactor = reactor_new(0);
    int64_t used_us = clock_thread_us();
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    reactor_at_iteration_end(reactor, hook_sleep, NULL);
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    used_us = clock_thread_us() - used_us;
    struct reactor_figures figures = figures_of(reactor);
    assert_true(figures.longest_us >= LONG_US - 1000);
    assert_true((int64_t)figures.processor_us.sum <= used_us + 1000);
    assert_int_equal(figures.longest_processor_us, figures.processor_us.max);
    reactor_free(reactor);
}

CLAIM(processor_time_of_a_hook_counts)
{
    struct reactor *reactor = reactor_new(0);
    reactor_at_iteration_end(reactor, hook_work, NULL);
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    assert_true(figures_of(reactor).longest_processor_us >= LONG_US);
    reactor_free(reactor);
}

CLAIM(hooks_at_the_end_count_for_the_iteration)
{
    struct reactor *reactor = reactor_new(0);
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    reactor_at_iteration_end(reactor, hook_long, NULL);
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    assert_true(figures_of(reactor).longest_us >= LONG_US - 1000); /* nothing marked its begin */
    reactor_free(reactor);
}

/* ---- activities of slow iterations ---- */

static bool hook_mixed(void *ctx)
{
    (void)ctx;
    activity_begin("short");
    use(100);
    activity_begin("long");
    use(LONG_US);
    activity_begin("short");
    return false;
}

static bool hook_even(void *ctx)
{
    (void)ctx;
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        activity_begin(names[i]);
        use(LONG_US);
    }
    return false;
}

static bool hook_quick(void *ctx)
{
    (void)ctx;
    activity_begin("quick");
    return false;
}

/* Runs an iteration that ends with this hook. Returns how many slow iterations counted for the activity since the start. */
static uint64_t slow_after(struct reactor *reactor, bool (*hook)(void *ctx), const char *activity)
{
    const char *name;
    uint64_t iterations;
    reactor_at_iteration_end(reactor, hook, NULL);
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    reactor_remove_at_iteration_end(reactor, hook, NULL);
    for (uint32_t i = 0; reactor_slow_activity(reactor, i, &name, &iterations); i++)
        if (strcmp(name, activity) == 0)
            return iterations;
    return 0;
}

CLAIM(a_slow_iteration_counts_for_the_activity_that_took_the_longest)
{
    struct reactor *reactor = reactor_new(0);
    uint64_t tries = 1; /* a thread that waits for the processor may do so in the short activity */
    while (!slow_after(reactor, hook_mixed, "long") && tries < 20)
        tries++;
    assert_int_equal(slow_after(reactor, hook_quick, "long"), 1);
    assert_int_equal(slow_after(reactor, hook_quick, "quick"), 0);
    assert_int_equal(slow_after(reactor, hook_work, "unknown"), 1);
    assert_true(slow_after(reactor, hook_quick, "short") < tries);
    reactor_free(reactor);
}

CLAIM(several_activities_share_a_slow_iteration)
{
    struct reactor *reactor = reactor_new(0);
    int evenly = 0;
    for (int tries = 0; tries < 20 && !evenly; tries++) /* one of them may wait for the processor */
        evenly = (int)slow_after(reactor, hook_even, "several");
    assert_int_equal(evenly, 1);
    reactor_free(reactor);
}

static char names[REACTOR_ACTIVITIES_MAX + 3][8];

static bool hook_next_name(void *ctx)
{
    int *next = ctx;
    (void)snprintf(names[*next], sizeof names[0], "w%d", *next);
    activity_begin(names[(*next)++]);
    use(3000);
    return false;
}

CLAIM(activities_without_a_place_count_as_the_last_one)
{
    struct reactor *reactor = reactor_new(0);
    int next = 0;
    uint64_t iterations, sum = 0;
    const char *name;
    reactor_at_iteration_end(reactor, hook_next_name, &next);
    while (next < REACTOR_ACTIVITIES_MAX + 3)
        (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    for (uint32_t i = 0; reactor_slow_activity(reactor, i, &name, &iterations); i++)
        sum += iterations;
    assert_int_equal(sum, REACTOR_ACTIVITIES_MAX + 3);
    assert_int_equal(iterations, 5); /* the first place is that of several */
    assert_false(reactor_slow_activity(reactor, REACTOR_ACTIVITIES_MAX, &name, &iterations));
    reactor_free(reactor);
}

static void on_sleeper(void *ctx)
{
    reactor_stop(ctx);
}

CLAIM(sleep_does_not_count_as_loop_time)
{
    struct reactor *reactor = reactor_new(0);
    struct deadline *deadline = deadline_new(reactor, on_sleeper, reactor);
    int64_t began_us = clock_awake_us();
    deadline_set(deadline, clock_inner_ms() + 200);
    reactor_run(reactor);
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    struct reactor_figures figures = figures_of(reactor);
    assert_true(clock_awake_us() - began_us >= 199000);
    assert_true(figures.iteration_us.sum < 150000);
    deadline_free(deadline);
    reactor_free(reactor);
}

CLAIM(figures_of_several_add_up)
{
    struct reactor *one = reactor_new(0), *other = reactor_new(1);
    struct reactor_figures sum = {0};
    reactor_at_iteration_end(other, hook_long, NULL);
    (void)uv_run(reactor_loop(one), UV_RUN_NOWAIT);
    (void)uv_run(reactor_loop(other), UV_RUN_NOWAIT);
    (void)uv_run(reactor_loop(other), UV_RUN_NOWAIT);
    reactor_figures(one, &sum);
    reactor_figures(other, &sum);
    assert_int_equal(sum.iterations, 3);
    assert_int_equal(sum.iteration_us.count, 3);
    assert_int_equal(sum.longest_us, figures_of(other).longest_us);
    reactor_free(one);
    reactor_free(other);
}

/* ---- the clock of an iteration ---- */

CLAIM(the_clock_stands_still_within_an_iteration)
{
    struct reactor *reactor = reactor_new(0);
    int64_t first_us = reactor_now_us(reactor);
    spend(2000);
    assert_int_equal(reactor_now_us(reactor), first_us);
    (void)uv_run(reactor_loop(reactor), UV_RUN_NOWAIT);
    assert_true(reactor_now_us(reactor) >= first_us + 2000);
    reactor_free(reactor);
}

/* ---- lag ---- */

CLAIM(a_deadline_behind_a_long_iteration_is_late)
{
    struct reactor *reactor = reactor_new(0);
    struct deadline *deadline = deadline_new(reactor, on_sleeper, reactor);
    deadline_set_us(deadline, clock_inner_us() + 1000);
    spend(LONG_US + 1000);
    reactor_run(reactor);
    struct reactor_figures figures = figures_of(reactor);
    assert_int_equal(figures.late_us.count, 1);
    assert_true(figures.late_us.max >= LONG_US);
    deadline_free(deadline);
    reactor_free(reactor);
}

CLAIM(one_set_into_the_past_counts_from_then)
{
    struct reactor *reactor = reactor_new(0);
    struct deadline *deadline = deadline_new(reactor, on_sleeper, reactor);
    int64_t set_us = clock_inner_us();
    deadline_set(deadline, clock_inner_ms() - 3600 * 1000);
    reactor_run(reactor);
    struct reactor_figures figures = figures_of(reactor);
    assert_int_equal(figures.late_us.count, 1);
    assert_true((int64_t)figures.late_us.max <= clock_inner_us() - set_us);
    deadline_free(deadline);
    reactor_free(reactor);
}

CLAIMS_MAIN(NULL, NULL)
