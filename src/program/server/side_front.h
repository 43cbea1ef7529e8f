/*
 * side_front: a protocol other than HTTP on its own listener. There is one kind, the protocol of
 * beanstalkd (--beanstalk).
 *
 * A table of functions like struct intake_ops, with the same life. All functions run on the thread
 * of its reactor.
 */
#ifndef TARRY_SERVER_SIDE_FRONT_H
#define TARRY_SERVER_SIDE_FRONT_H

#include "net/listener.h"
#include "net/reactor.h"
#include "queue/waiter.h"

struct quota;

enum { SIDE_FRONT_ERROR_BYTES = LISTENER_ERROR_BYTES };

struct side_front_options {
    struct reactor *reactor;
    struct queue *queue; /* queue and waiters of that reactor */
    struct waiters *waiters;
    struct listener *listener; /* open */
    struct quota *quota;       /* quota for the limits of pushes */
    struct budget *budget;     /* must outlive the front */
    uint32_t job_bytes_max, connections_max;
};

struct side_front_ops {
    /* Returns NULL with `error` (SIDE_FRONT_ERROR_BYTES) on failure. */
    void *(*open)(const struct side_front_options *options, char *error);
    void (*start)(void *self);
    /* Closes the connections; calls `stopped` once, never inside the call. */
    void (*stop)(void *self, void (*stopped)(void *ctx), void *ctx);
    void (*free)(void *self); /* accepts NULL */
};

extern const struct side_front_ops side_front_beanstalk;

#endif
