/*
 * Wakes waiters when the wall clock is set while a job waits that is due by it. Uses a timer that
 * never expires but is cancelled by a change of the clock (timerfd_create(2),
 * TFD_TIMER_CANCEL_ON_SET). No thread is woken otherwise.
 */
#include "lib/state.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

int lib_wall_watch_open(void)
{
    return timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void lib_wall_watch_set(int fd, bool is_on)
{
    /* The latest time that fits a 32-bit time_t, which older parts of the kernel use. */
    struct itimerspec when = {.it_value.tv_sec = is_on ? INT32_MAX : 0};
    int flags = TFD_TIMER_ABSTIME | (is_on ? TFD_TIMER_CANCEL_ON_SET : 0);
    int failed = timerfd_settime(fd, flags, &when, NULL);
    assert(!failed || errno == ECANCELED); /* the clock was just set: readable */
    (void)failed;
}

/* Makes an event, or a timer that is cancelled or not, unreadable. */
static void descriptor_drain(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof count) < 0)
        assert(errno == ECANCELED || errno == EAGAIN);
}

void lib_wall_watch_clear(int fd)
{
    descriptor_drain(fd);
}

/* Opens the descriptors when they are first needed. Returns false if they are unavailable. */
static bool leader_fds_open(struct tarry *queue)
{
    if (queue->wake_fd >= 0)
        return true;
    queue->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    queue->watch_fd = queue->wake_fd < 0 ? -1 : lib_wall_watch_open();
    if (queue->watch_fd >= 0) {
        lib_wall_watch_set(queue->watch_fd, true);
        return true;
    }
    if (queue->wake_fd >= 0)
        close(queue->wake_fd);
    queue->wake_fd = -1;
    return false;
}

bool lib_leader_sleep(struct tarry *queue, struct waiter *waiter, int64_t until_ms)
{
    bool is_first = queue->wake_fd < 0;
    if (!leader_fds_open(queue))
        return false;
    if (is_first) /* the clock may have been set just before: the caller checks again */
        return true;
    struct pollfd fds[] = {{.fd = queue->wake_fd, .events = POLLIN},
                           {.fd = queue->watch_fd, .events = POLLIN}};
    int64_t left_us = until_ms * 1000 - clock_inner_us_of(&queue->clock);
    if (left_us < 0)
        left_us = 0;
    struct timespec left = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
    waiter->polls = true;
    pthread_mutex_unlock(&queue->lock);
    ppoll(fds, sizeof fds / sizeof fds[0], &left, NULL);
    pthread_mutex_lock(&queue->lock);
    waiter->polls = false;
    descriptor_drain(queue->wake_fd);
    if (fds[1].revents)
        lib_wall_watch_clear(queue->watch_fd);
    lib_wall_watch_set(queue->watch_fd, true);
    return true;
}

void lib_waiter_wake(struct tarry *queue, struct waiter *waiter)
{
    uint64_t one = 1;
    if (!waiter->polls)
        pthread_cond_signal(waiter->wake);
    else if (write(queue->wake_fd, &one, sizeof one) < 0)
        assert(errno == EAGAIN);
}

void lib_leader_fds_close(struct tarry *queue)
{
    if (queue->wake_fd >= 0)
        close(queue->wake_fd);
    if (queue->watch_fd >= 0)
        close(queue->watch_fd);
}
