#include "server/process.h"

#include "base/clock.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- systemd's end of it ---- */

static char path[64];

/* A socket for notifications, as systemd has one. */
static int listen_as_systemd(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(path, sizeof path, "/tmp/test_watchdog.%d", (int)getpid());
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
    setenv("NOTIFY_SOCKET", path, 1);
    setenv("WATCHDOG_USEC", "60000", 1);
    unsetenv("WATCHDOG_PID");
    return fd;
}

/* Returns the number of notifications so far. */
static int notifications(int fd)
{
    char text[64];
    int count = 0;
    for (ssize_t len; (len = recv(fd, text, sizeof text, 0)) > 0;)
        count += len == 10 && memcmp(text, "WATCHDOG=1", 10) == 0;
    return count;
}

static void stop_listening(int fd)
{
    close(fd);
    unlink(path);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
}

enum { LOOK_MS = 200, LOOKS = 100 };

/* The end of a run: after LOOK_MS, and later if fewer notifications arrived than wanted. */
struct run_end {
    struct reactor *reactor;
    struct deadline *alarm;
    int fd, count, wanted, looks;
};

static void on_end(void *ctx)
{
    struct run_end *end = ctx;
    end->count += notifications(end->fd);
    if (end->count >= end->wanted || ++end->looks == LOOKS)
        reactor_stop(end->reactor);
    else
        deadline_set(end->alarm, clock_inner_ms() + LOOK_MS);
}

/* Runs the first reactor for a while, with a second one that runs or does not. Returns the number of notifications. */
static int run_watched(bool is_stuck, int fd, int wanted)
{
    struct watchdog watchdog = {0};
    struct reactor *first = reactor_new(0), *second = reactor_new(1);
    assert_true(watchdog_open(&watchdog, first));
    watchdog_add(&watchdog, second);
    struct run_end end = {.reactor = first, .fd = fd, .wanted = wanted};
    end.alarm = deadline_new(first, on_end, &end);
    deadline_set(end.alarm, clock_inner_ms() + LOOK_MS);
    watchdog_start(&watchdog);
    if (!is_stuck)
        assert_int_equal(reactor_start(second), 0);
    reactor_run(first);
    if (!is_stuck) {
        reactor_stop(second);
        reactor_join(second);
    }
    watchdog_close(&watchdog);
    deadline_free(end.alarm);
    reactor_free(second);
    reactor_free(first);
    return end.count + notifications(fd);
}

CLAIM(systemd_is_notified_while_all_reactors_run)
{
    int fd = listen_as_systemd();
    assert_true(run_watched(false, fd, 3) >= 3);
    stop_listening(fd);
}

CLAIM(systemd_is_not_notified_while_a_reactor_is_stuck)
{
    int fd = listen_as_systemd();
    assert_int_equal(run_watched(true, fd, 0), 1);
    stop_listening(fd);
}

CLAIM(a_watchdog_of_another_process_is_not_notified)
{
    int fd = listen_as_systemd();
    assert_int_equal(watchdog_interval_ms(), 60);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(watchdog_interval_ms(), 0);
    assert_int_equal(run_watched(false, fd, 0), 0);
    unsetenv("WATCHDOG_PID");
    setenv("WATCHDOG_USEC", "soon", 1);
    assert_int_equal(watchdog_interval_ms(), 0);
    stop_listening(fd);
}

CLAIMS_MAIN(NULL, NULL)
