/* front_rig: a front on a real socket, before a queue of the test's own. The reactor has its own
 * thread; the test is the client. */
#ifndef TARRY_TESTS_FRONT_RIG_H
#define TARRY_TESTS_FRONT_RIG_H

#include "api/api.h"
#include "http/front.h"

#include "unit/cases.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct front_rig {
    struct reactor *reactor;
    struct waiters *waiters;
    struct http_shared *shared;
    struct http_front *front;
    struct listeners listeners;
};

/* Do rigs that are opened from now on listen with TLS? They have no certificate. */
static bool front_rig_has_tls;
/* Adds routes of a rig to the API, or NULL. */
static void (*front_rig_add)(struct http_shared *shared);

/* The reactor does not run yet. */
static inline void front_rig_open(struct front_rig *rig, struct queue *queue,
                                  struct http_options options)
{
    char error[LISTENER_ERROR_BYTES];
    struct listener_options loopback = {.kind = LISTENER_TCP, .tls = front_rig_has_tls};
    struct sockaddr_in *address = (struct sockaddr_in *)&loopback.address;
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(listeners_open(&rig->listeners, &loopback, 1, error));
    options.listeners = &rig->listeners;
    options.allowed_hosts = "a";
    rig->reactor = reactor_new(0);
    rig->waiters = waiters_new(queue, options.waiting_max ? options.waiting_max : 10);
    rig->shared = http_shared_new("test");
    assert_true(api_open(rig->shared));
    if (front_rig_add)
        front_rig_add(rig->shared);
    http_shared_set_ready(rig->shared, true);
    assert_int_equal(http_front_new(rig->reactor, queue, rig->waiters, &options, rig->shared,
                                    &rig->front, error),
                     0);
}

static inline void front_rig_halt(struct front_rig *rig)
{
    reactor_stop(rig->reactor);
    reactor_join(rig->reactor);
}

/* Halted before. */
static inline void front_rig_close(struct front_rig *rig)
{
    http_front_free(rig->front);
    listeners_close(&rig->listeners);
    for (int i = 0; i < 10; i++)
        (void)uv_run(reactor_loop(rig->reactor), UV_RUN_NOWAIT);
    waiters_free(rig->waiters);
    http_shared_free(rig->shared);
    reactor_free(rig->reactor);
}

static inline int front_rig_dial(const struct front_rig *rig)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(rig->listeners.at[0].address.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval timeout = {.tv_sec = 10};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* ---- what every such queue has ---- */

static inline void front_rig_watch(struct queue *queue, struct slice topic, bool on)
{
    (void)queue;
    (void)topic;
    (void)on;
}

static inline void front_rig_info(struct queue *queue, struct queue_info *out)
{
    (void)queue;
    *out = (struct queue_info){.store = "fake", .healthy = true, .accepting = true};
}

#endif
