/*
 * worker: a helper thread for work that blocks and so cannot run on a reactor.
 *
 * Works are performed one after the other in the order given. Each returns to its reactor by the
 * mailbox.
 */
#ifndef TARRY_NET_WORKER_H
#define TARRY_NET_WORKER_H

#include "net/reactor.h"

struct worker;

struct work {
    struct letter letter;               /* owned by the worker until `done` is called */
    void (*perform)(struct work *work); /* on the worker's thread */
    void (*done)(struct work *work);    /* on the reactor's thread, which owns the work again */
    struct reactor *reactor;            /* set by worker_give */
    struct work *next;
};

struct worker *worker_new(struct reactor *home, const char *name);
/* Gives work to the worker. Only on the reactor's thread. */
void worker_give(struct worker *worker, struct work *work);
/* Waits until all given work is performed and the thread has ended. Letters for `done` may still be
 * in the reactor's mailbox. */
void worker_free(struct worker *worker);

#endif
