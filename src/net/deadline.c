/*
 * Deadlines stand on the loop's timers, whose clock is another one than ours and is cut to
 * milliseconds elsewhere. So a timer is only a wish to be woken: who decides is the inner clock,
 * and where that is not there yet the timer is set again.
 */
#include "base/clock.h"
#include "net/reactor.h"

#include <assert.h>
#include <stdlib.h>

/* The loop's clock stands still while the machine sleeps, ours does not: look again at least so
 * often. */
enum { NAP_MS_MAX = 60 * 1000 };

struct deadline {
    uv_timer_t timer;
    void (*fire)(void *ctx);
    void *ctx;
    int64_t at_ms;
    int64_t armed_ms; /* the inner time the timer is set for; INT64_MAX: not set */
};

static void on_timer(uv_timer_t *timer);

static void arm(struct deadline *deadline)
{
    int64_t now_ms = clock_inner_ms();
    int64_t nap_ms = deadline->at_ms > now_ms ? deadline->at_ms - now_ms : 0;
    if (nap_ms > NAP_MS_MAX)
        nap_ms = NAP_MS_MAX;
    deadline->armed_ms = now_ms + nap_ms;
    uv_update_time(deadline->timer.loop);
    (void)uv_timer_start(&deadline->timer, on_timer, (uint64_t)nap_ms, 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct deadline *deadline = timer->data;
    deadline->armed_ms = INT64_MAX;
    if (deadline->at_ms == INT64_MAX)
        return;
    if (clock_inner_ms() < deadline->at_ms) {
        arm(deadline);
        return;
    }
    deadline->at_ms = INT64_MAX;
    deadline->fire(deadline->ctx);
}

struct deadline *deadline_new(struct reactor *reactor, void (*fire)(void *ctx), void *ctx)
{
    struct deadline *deadline = calloc(1, sizeof *deadline);
    if (!deadline)
        return NULL;
    (void)uv_timer_init(reactor_loop(reactor), &deadline->timer);
    deadline->timer.data = deadline;
    deadline->fire = fire;
    deadline->ctx = ctx;
    deadline->at_ms = deadline->armed_ms = INT64_MAX;
    return deadline;
}

/* A deadline that moves later leaves the timer alone: when it rings it is set again. One that is
 * gone stops it, so that nobody is woken for nothing. */
void deadline_set(struct deadline *deadline, int64_t at_ms)
{
    if (at_ms == deadline->at_ms)
        return;
    deadline->at_ms = at_ms;
    if (at_ms == INT64_MAX) {
        (void)uv_timer_stop(&deadline->timer);
        deadline->armed_ms = INT64_MAX;
    } else if (at_ms < deadline->armed_ms) {
        arm(deadline);
    }
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void deadline_free(struct deadline *deadline)
{
    if (!deadline)
        return;
    (void)uv_timer_stop(&deadline->timer);
    uv_close((uv_handle_t *)&deadline->timer, on_closed);
}
