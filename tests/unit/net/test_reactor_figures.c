#include "net/reactor.h"

#include "base/clock.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdlib.h>
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

/* Uses the processor for LONG_US, however long that takes. */
static bool hook_work(void *ctx)
{
    (void)ctx;
    int64_t until_us = clock_thread_us() + LONG_US;
    while (clock_thread_us() < until_us)
        ;
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
