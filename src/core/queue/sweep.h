/*
 * sweep: something done to those dead jobs of a topic that match a filter, for every queue.
 *
 * A queue redrives and purges dead jobs all at once or one by id. A sweep lists them page by page,
 * one page under way at a time, and acts on those that match by their ids: so it works on every
 * implementation, holds up nobody, and costs memory for one page, and 16 bytes for each job it sent
 * round (which may die again while it runs and is not to be sent round twice).
 *
 * It is not atomic. Jobs that die while it runs may be met or not. A job that is not the dead one
 * any more that the page showed (it was redriven or pushed anew meanwhile) is passed over.
 *
 * One thread: the queue handle's.
 */
#ifndef TARRY_QUEUE_SWEEP_H
#define TARRY_QUEUE_SWEEP_H

#include "queue/filter.h"
#include "queue/queue.h"

enum { SWEEP_JOBS_MAX = 1000 * 1000 /* redriven by one sweep */ };

enum sweep_verb {
    SWEEP_COUNT = 1, /* changes nothing */
    SWEEP_REDRIVE,
    SWEEP_CANCEL
};

struct sweep_order {
    enum sweep_verb verb;
    struct slice topic;
    struct queue_filter filter;
    uint64_t max; /* at most so many; 0: no limit but SWEEP_JOBS_MAX */
};

struct sweep_result {
    enum queue_status status; /* QUEUE_OK, QUEUE_NOT_FOUND (no such topic), or what cut it short */
    uint64_t jobs;            /* redriven, cancelled or counted; also where it was cut short */
    uint64_t seen;            /* dead jobs looked at */
    bool is_complete;         /* all there were; else it met its maximum or was not wanted */
};

/* `owner` and `tag` as given. `done` comes once, never inside the call. */
typedef void sweep_done(void *owner, uint64_t tag, const struct sweep_result *result);
/* Asked before each page; false ends the sweep. */
typedef bool sweep_wanted(void *owner, uint64_t tag);

/* What `order` points at need only be valid during the call. False: out of memory, and `done` is
 * not called. */
bool sweep_start(struct queue *queue, const struct sweep_order *order, sweep_wanted *wanted,
                 sweep_done *done, void *owner, uint64_t tag);

#endif
