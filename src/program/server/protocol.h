/*
 * protocol: a further API that the server offers on its HTTP connections: mykit-delay (--mykit),
 * Amazon SQS (--sqs).
 *
 * A table of functions like struct intake_ops. Life: open before the fronts; start on the reactor's
 * thread; stop while the fronts drain; free after them.
 */
#ifndef TARRY_SERVER_PROTOCOL_H
#define TARRY_SERVER_PROTOCOL_H

#include "http/front.h"
#include "server/config.h"

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
