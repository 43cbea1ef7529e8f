/*
 * drain: refuses new jobs on all reactors, or accepts them again. The queues of all reactors are
 * changed, and the requester is notified after the last one. Later requests take effect after it.
 */
#ifndef TARRY_SERVER_DRAIN_H
#define TARRY_SERVER_DRAIN_H

#include "net/reactor.h"
#include "queue/queue.h"

enum { DRAIN_REACTORS_MAX = 64 };

/* The queues to change. Zeroed at the beginning. */
struct drain {
    struct drain_at {
        struct reactor *reactor;
        struct queue *queue;
    } at[DRAIN_REACTORS_MAX];
    uint32_t count;
};

/* Adds a queue, before the reactors run. */
void drain_add(struct drain *drain, struct reactor *reactor, struct queue *queue);
/* Changes all queues; any reactor's thread. `done` is called once on the thread of `reactor`, never
 * inside the call; it may be NULL. Returns false when out of memory; then nothing is changed. */
bool drain_set(const struct drain *drain, bool on, struct reactor *reactor,
               void (*done)(void *owner, uint64_t tag), void *owner, uint64_t tag);

#endif
