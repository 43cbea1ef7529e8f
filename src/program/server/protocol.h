/*
 * protocol: another API whose calls this server answers on its HTTP connections, beside its own:
 * mykit-delay by --mykit, Amazon SQS by --sqs.
 *
 * A table of functions, as struct intake_ops. Life: open before the fronts are; start on the reactor's thread; stop
 * while they drain; free after them.
 */
#ifndef TARRY_SERVER_PROTOCOL_H
#define TARRY_SERVER_PROTOCOL_H

#include "http/front.h"
#include "server/config.h"

enum { PROTOCOL_ERROR_BYTES = 512 };

struct protocol_ops {
    /* Adds its calls. NULL: `error` (PROTOCOL_ERROR_BYTES) says why. */
    void *(*open)(const struct config *config, struct http_shared *shared, char *error);
    /* What works in the background begins, and ends: `stopped` once. NULL: there is nothing. */
    bool (*attach)(void *self, struct reactor *reactor, struct queue *queue,
                   struct waiters *waiters);
    void (*start)(void *self);
    void (*stop)(void *self, void (*stopped)(void *ctx), void *ctx);
    void (*free)(void *self); /* NULL is fine */
};

extern const struct protocol_ops protocol_mykit, protocol_sqs;

#endif
