/*
 * A deadline is a kernel timer on boot time (timerfd_create(2)), the clock that the inner clock is
 * based on. It is finer than the loop's own timers, and continues while the machine sleeps. The
 * inner clock still decides: if it has not reached the time yet (or is a test clock), the timer is
 * set again.
 *
 * A thread that stood still (a stopped or starved process, a machine that slept) finds deadlines that passed meanwhile beside
 * input that arrived in time. Such a deadline fires one iteration later, when that input was read: a request, an ack
 * or an answer that came before its time limit is not lost to the order of events.
 */
#include "base/clock.h"
#include "net/activity.h"
#include "net/reactor.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { STILL_US = 100 * 1000 };

struct deadline {
    uv_poll_t poll;
    int fd;
    struct reactor *reactor;
    void (*fire)(void *ctx);
    void *ctx;
    int64_t at_us;
    int64_t armed_us; /* the inner time that the timer is set for; INT64_MAX: not set */
    int64_t
        fair_us; /* the earliest time at which it can fire: at_us, or later if it was set later */
    bool has_waited; /* for the input that arrived before it */
};

/* Sets the timer to fire after `us`. 0 would stop the timer. */
static void set_timer(struct deadline *deadline, int64_t us)
{
    struct itimerspec when = {.it_value = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}};
    int failed = timerfd_settime(deadline->fd, 0, &when, NULL);
    assert(!failed);
    (void)failed;
}

static void arm(struct deadline *deadline)
{
    int64_t now_us = clock_inner_us(), left_us = deadline->at_us - now_us;
    set_timer(deadline, left_us > 0 ? left_us : 1);
    deadline->fair_us = left_us > 0 ? deadline->at_us : now_us;
    deadline->armed_us = deadline->at_us;
    deadline->has_waited = false;
}

/* Returns whether the deadline is so late that the thread stood still, and has not waited for input yet: it then fires in
 * the next iteration. */
static bool wait_for_input(struct deadline *deadline, int64_t late_us)
{
    if (late_us < STILL_US || deadline->has_waited || clock_is_held(&clock_process))
        return false;
    deadline->has_waited = true;
    deadline->armed_us = deadline->at_us;
    set_timer(deadline, 1);
    return true;
}

static void disarm(struct deadline *deadline)
{
    if (deadline->armed_us != INT64_MAX)
        set_timer(deadline, 0);
    deadline->armed_us = INT64_MAX;
}

static void on_timer(uv_poll_t *poll, int status, int events)
{
    struct deadline *deadline = poll->data;
    uint64_t rings;
    (void)status;
    (void)events;
    if (read(deadline->fd, &rings, sizeof rings) < 0)
        return; /* set again after it fired */
    deadline->armed_us = INT64_MAX;
    if (deadline->at_us == INT64_MAX)
        return;
    (void)reactor_now_us(deadline->reactor);
    int64_t now_us = clock_inner_us();
    if (now_us < deadline->at_us) {
        arm(deadline);
        return;
    }
    int64_t late_us =
        now_us - (deadline->at_us > deadline->fair_us ? deadline->at_us : deadline->fair_us);
    if (wait_for_input(deadline, late_us))
        return;
    deadline->has_waited = false;
    reactor_note_late(deadline->reactor, late_us);
    deadline->at_us = INT64_MAX;
    activity_begin("deadlines");
    deadline->fire(deadline->ctx);
}

struct deadline *deadline_new(struct reactor *reactor, void (*fire)(void *ctx), void *ctx)
{
    struct deadline *deadline = calloc(1, sizeof *deadline);
    if (!deadline)
        return NULL;
    deadline->reactor = reactor;
    deadline->fire = fire;
    deadline->ctx = ctx;
    deadline->at_us = deadline->armed_us = INT64_MAX;
    deadline->fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (deadline->fd < 0 || uv_poll_init(reactor_loop(reactor), &deadline->poll, deadline->fd)) {
        if (deadline->fd >= 0)
            close(deadline->fd);
        free(deadline);
        return NULL;
    }
    deadline->poll.data = deadline;
    (void)uv_poll_start(&deadline->poll, UV_READABLE, on_timer);
    return deadline;
}

/* Moves a deadline. A later time leaves the timer unchanged: it is set again when it fires.
 * INT64_MAX stops the timer, so that there is no needless wake-up. */
void deadline_set_us(struct deadline *deadline, int64_t at_us)
{
    if (at_us == deadline->at_us)
        return;
    deadline->at_us = at_us;
    if (at_us == INT64_MAX)
        disarm(deadline);
    else if (at_us < deadline->armed_us)
        arm(deadline);
}

void deadline_set(struct deadline *deadline, int64_t at_ms)
{
    deadline_set_us(deadline, at_ms < INT64_MAX / 1000 ? at_ms * 1000 : INT64_MAX);
}

static void on_closed(uv_handle_t *handle)
{
    struct deadline *deadline = handle->data;
    close(deadline->fd);
    free(deadline);
}

void deadline_free(struct deadline *deadline)
{
    if (!deadline)
        return;
    (void)uv_poll_stop(&deadline->poll);
    uv_close((uv_handle_t *)&deadline->poll, on_closed);
}
