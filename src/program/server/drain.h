/*
 * drain: whether new jobs are refused. All reactors' queues go over to it, and whoever asked is told once
 * the last one has. What is asked meanwhile comes after it.
 */
#ifndef TARRY_SERVER_DRAIN_H
#define TARRY_SERVER_DRAIN_H

#include "net/reactor.h"
#include "queue/queue.h"

enum { DRAIN_REACTORS_MAX = 64 };

/* Zeroed: none yet. */
struct drain {
    struct drain_at {
        struct reactor *reactor;
        struct queue *queue;
    } at[DRAIN_REACTORS_MAX];
    uint32_t count;
};

/* Before the reactors run. */
void drain_add(struct drain *drain, struct reactor *reactor, struct queue *queue);
/* Any reactor's thread. `done` comes on the thread of `reactor`, once, never inside the call; NULL: nobody
 * is told. False: out of memory, and nothing is changed. */
bool drain_set(const struct drain *drain, bool on, struct reactor *reactor,
               void (*done)(void *owner, uint64_t tag), void *owner, uint64_t tag);

#endif
