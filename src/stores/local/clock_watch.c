/*
 * A timer on the wall clock that never expires, and is cancelled when that clock is set
 * (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET). The read then fails with ECANCELED, and the loop
 * has been woken, which is the only purpose.
 */
#include "local/shard_core.h"

#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct clock_watch {
    uv_poll_t poll;
    int fd;
};

static int clock_watch_arm(int fd)
{
    /* The furthest time in a 32-bit time_t, which older parts of the kernel use. If the timer
     * expires, it is set again. */
    struct itimerspec never = {.it_value.tv_sec = INT32_MAX};
    return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL);
}

static void clock_watch_on_set(uv_poll_t *poll, int status, int events)
{
    struct clock_watch *watch = poll->data;
    uint64_t rings;
    (void)status;
    (void)events;
    if (read(watch->fd, &rings, sizeof rings) < 0)
        clock_watch_arm(watch->fd);
}

struct clock_watch *clock_watch_new(struct reactor *reactor)
{
    struct clock_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (watch->fd < 0 || clock_watch_arm(watch->fd) ||
        uv_poll_init(reactor_loop(reactor), &watch->poll, watch->fd)) {
        if (watch->fd >= 0)
            close(watch->fd);
        free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    uv_poll_start(&watch->poll, UV_READABLE, clock_watch_on_set);
    return watch;
}

static void clock_watch_on_closed(uv_handle_t *handle)
{
    struct clock_watch *watch = handle->data;
    close(watch->fd);
    free(watch);
}

void clock_watch_free(struct clock_watch *watch)
{
    if (watch)
        uv_close((uv_handle_t *)&watch->poll, clock_watch_on_closed);
}
