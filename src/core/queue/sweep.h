/*
 * sweep: an action on the dead or the waiting jobs of a topic that match a filter, for every queue.
 *
 * A queue changes either all jobs or one by id. A sweep lists them page by page, one page at a time, and acts on the
 * matches by id. It therefore works with every implementation, blocks no other call, and uses memory for one page, and
 * 16 bytes for each job that it redrove, moved or ran. Such a job may come again in a later page and must not be changed
 * twice.
 *
 * It is not atomic. Jobs that die or are pushed while it runs may or may not be included. A dead job is skipped if it is
 * no longer the one from the page, because it was redriven or pushed again meanwhile. A waiting job is skipped if it was
 * taken or has ended meanwhile; a job that was pushed under its id in that moment is changed in its place.
 *
 * Waiting jobs are the delayed ones, then the ready ones, so that a job that falls due during the sweep is found.
 *
 * One thread: that of the queue handle.
 */
#ifndef TARRY_QUEUE_SWEEP_H
#define TARRY_QUEUE_SWEEP_H

#include "queue/filter.h"
#include "queue/queue.h"

enum { SWEEP_JOBS_MAX = 1000 * 1000 /* redriven, moved or run by one sweep */ };

enum sweep_verb {
    SWEEP_COUNT = 1, /* changes nothing */
    SWEEP_REDRIVE,
    SWEEP_CANCEL,
    SWEEP_RESCHEDULE, /* waiting jobs only */
    SWEEP_RUN         /* delayed jobs only */
};

/* The jobs that a sweep examines. */
enum sweep_scope { SWEEP_DEAD = 1, SWEEP_WAITING, SWEEP_DELAYED, SWEEP_READY };

struct sweep_order {
    enum sweep_verb verb;
    enum sweep_scope scope;
    struct slice topic;
    struct queue_filter filter;
    struct queue_when when; /* reschedule */
    int32_t priority;       /* reschedule; or QUEUE_PRIORITY_UNSET */
    uint64_t max;           /* maximum number of jobs; 0: no limit but SWEEP_JOBS_MAX */
};

struct sweep_result {
    enum queue_status status; /* QUEUE_OK, QUEUE_NOT_FOUND (no such topic), or why it ended early */
    uint64_t jobs;            /* changed or counted; also after an early end */
    uint64_t seen;            /* jobs examined */
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
