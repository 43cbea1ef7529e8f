/*
 * sweep: an action on the dead jobs of a topic that match a filter, for every queue.
 *
 * A queue redrives and purges either all dead jobs or one by id. A sweep lists them page by page, one page at a time,
 * and acts on the matches by id. It therefore works with every implementation, blocks no other call, and uses memory
 * for one page, and 16 bytes for each job it redrove (which may die again during the sweep and must not be redriven
 * twice).
 *
 * It is not atomic. Jobs that die while it runs may or may not be included. A job is skipped if it is no longer the
 * dead job from the page, because it was redriven or pushed again meanwhile.
 *
 * One thread: that of the queue handle.
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
    uint64_t max; /* maximum number of jobs; 0: no limit but SWEEP_JOBS_MAX */
};

struct sweep_result {
    enum queue_status status; /* QUEUE_OK, QUEUE_NOT_FOUND (no such topic), or why it ended early */
    uint64_t jobs;            /* redriven, cancelled or counted; also after an early end */
    uint64_t seen;            /* dead jobs examined */
    bool is_complete;         /* false: the sweep reached its maximum or was stopped */
};

/* Receives the result. `owner` and `tag` are those of the call. Called once, never inside the call. */
typedef void sweep_done(void *owner, uint64_t tag, const struct sweep_result *result);
/* Called before each page; false ends the sweep. */
typedef bool sweep_wanted(void *owner, uint64_t tag);

/* Starts a sweep. Pointers in `order` need only be valid during the call. False: out of memory, and `done` is not
 * called. */
bool sweep_start(struct queue *queue, const struct sweep_order *order, sweep_wanted *wanted,
                 sweep_done *done, void *owner, uint64_t tag);

#endif
