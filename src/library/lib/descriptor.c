/*
 * The descriptor for external event loops: an epoll set with an event, set while callbacks are
 * pending, and a timer, set while submitted takes wait for a time.
 */
#include "lib/state.h"

#include <assert.h>
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Sets the event. A failed write or read of an eventfd is harmless: the event is set, or
 * cleared, already. */
void lib_event_set(struct tarry *queue)
{
    uint64_t one = 1;
    if (queue->event_fd >= 0 && write(queue->event_fd, &one, sizeof one) < 0)
        assert(errno == EAGAIN);
}

void lib_event_clear(int fd)
{
    uint64_t count;
    if (fd >= 0 && read(fd, &count, sizeof count) < 0)
        assert(errno == EAGAIN);
}

/* Watches the wall clock while both submitted takes and jobs that are due by the wall clock
 * wait. */
static void watch_wall(struct tarry *queue)
{
    bool is_on = queue->submitted_waiters && memory_waits_for_wall(queue->memory, queue->now);
    if (is_on == queue->is_wall_watched)
        return;
    queue->is_wall_watched = is_on;
    lib_wall_watch_set(queue->wall_fd, is_on);
}

void lib_set_timer(struct tarry *queue, int64_t next_ms)
{
    if (queue->submitted_waiters && queue->waits_ms < next_ms)
        next_ms = queue->waits_ms;
    if (queue->timer_fd < 0 || queue->has_test_clock)
        return;
    watch_wall(queue);
    if (next_ms == queue->timer_ms)
        return;
    struct itimerspec at = {0};
    if (next_ms != INT64_MAX) {
        int64_t left_us = next_ms * 1000 - clock_inner_us_of(&queue->clock);
        if (left_us < 1)
            left_us = 1; /* zero would disarm it */
        at.it_value =
            (struct timespec){.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
    }
    queue->timer_ms = next_ms;
    int failed = timerfd_settime(queue->timer_fd, 0, &at, NULL);
    assert(!failed);
    (void)failed;
}

void lib_descriptors_close(struct tarry *queue)
{
    int *const fds[] = {&queue->epoll_fd, &queue->event_fd, &queue->timer_fd, &queue->wall_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

bool lib_descriptors_open(struct tarry *queue)
{
    struct epoll_event readable = {.events = EPOLLIN};
    queue->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    queue->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* This clock keeps running while the machine sleeps, as job delays do. */
    queue->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    queue->wall_fd = lib_wall_watch_open();
    if (queue->epoll_fd >= 0 && queue->event_fd >= 0 && queue->timer_fd >= 0 &&
        queue->wall_fd >= 0 &&
        !epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, queue->wall_fd, &readable) &&
        !epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, queue->event_fd, &readable) &&
        !epoll_ctl(queue->epoll_fd, EPOLL_CTL_ADD, queue->timer_fd, &readable))
        return true;
    int failed = errno;
    lib_descriptors_close(queue);
    errno = failed;
    return false;
}
