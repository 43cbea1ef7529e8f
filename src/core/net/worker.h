/*
 * worker: a helper thread that does what a reactor must not: block.
 *
 * Jobs of work are done one after the other in the order given; each comes back to the reactor it
 * came from by its mailbox.
 */
#ifndef TARRY_NET_WORKER_H
#define TARRY_NET_WORKER_H

#include "net/reactor.h"

struct worker;

struct work {
    struct letter letter;               /* the worker's until `done` is called */
    void (*perform)(struct work *work); /* on the worker's thread */
    void (*done)(struct work *work);    /* on the reactor's thread; owns the work again */
    struct reactor *reactor;            /* set by worker_give */
    struct work *next;
};

struct worker *worker_new(struct reactor *home, const char *name);
/* The reactor's thread only. */
void worker_give(struct worker *worker, struct work *work);
/* Waits until all given work is performed and the thread has ended; letters of `done` may still be
 * in the reactor's mailbox. */
void worker_free(struct worker *worker);

#endif
