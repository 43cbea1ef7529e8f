/*
 * protocol: a further API that the server offers on its HTTP connections: mykit-delay (--mykit),
 * Amazon SQS (--sqs).
 *
 * A table of functions. Life: open before the fronts; start on the reactor's
 * thread; stop while the fronts drain; free after them.
 */
#ifndef TARRY_SERVER_PROTOCOL_H
#define TARRY_SERVER_PROTOCOL_H

#include "server/config.h"

#include "http/front.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "queue/waiter.h"

/*
 * side_front: a protocol other than HTTP on its own listener. There is one kind, the protocol of
 * beanstalkd (--beanstalk).
 *
 * A table of functions with the life of an intake (intake/intake.h). All functions run on the thread
 * of its reactor.
 */

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

enum { PROTOCOL_ERROR_BYTES = 512 };

struct protocol_ops {
    /* Checks the option. Returns false with `error` (PROTOCOL_ERROR_BYTES). NULL: nothing to
     * check. */
    bool (*check)(const struct config *config, char *error);
    /* Registers the calls. Returns NULL with `error` (PROTOCOL_ERROR_BYTES) on failure. */
    void *(*open)(const struct config *config, struct http_shared *shared, char *error);
    /* Start and stop background work; `stopped` is called once. NULL if there is no such work. */
    bool (*attach)(void *self, struct reactor *reactor, struct queue *queue,
                   struct waiters *waiters);
    void (*start)(void *self);
    void (*stop)(void *self, void (*stopped)(void *ctx), void *ctx);
    void (*free)(void *self); /* accepts NULL */
};

extern const struct protocol_ops protocol_mykit, protocol_sqs;

#endif
