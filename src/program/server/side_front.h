/*
 * side_front: what the server speaks beside HTTP, at a listener of its own. One kind, beanstalkd's
 * protocol, by --beanstalk.
 *
 * A table of functions, as struct intake_ops, with the same life. All on the thread of the one
 * reactor that it is given.
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
    struct queue *queue; /* of that reactor, as the waiters are */
    struct waiters *waiters;
    struct listener *listener; /* open */
    struct quota *quota;       /* what limits of pushes are held against */
    struct budget *budget;     /* outlives it */
    uint32_t job_bytes_max, connections_max;
};

struct side_front_ops {
    /* NULL: `error` (SIDE_FRONT_ERROR_BYTES) says why. */
    void *(*open)(const struct side_front_options *options, char *error);
    void (*start)(void *self);
    /* Connections end; `stopped` once, never inside the call. */
    void (*stop)(void *self, void (*stopped)(void *ctx), void *ctx);
    void (*free)(void *self); /* NULL is fine */
};

extern const struct side_front_ops side_front_beanstalk;

#endif
