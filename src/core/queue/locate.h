/*
 * locate: finds the jobs of an id over all topics, for every queue.
 *
 * An id identifies a job within its topic, so several topics may have a job of that id. The call walks the topics
 * page by page, by name, looks up the jobs of a page together (COMMAND_FIND), and reads those that exist one after
 * the other. It therefore works with every implementation, blocks no other call, and uses memory for one page. A
 * topic or job that appears or vanishes meanwhile may or may not be found.
 *
 * One thread: that of the queue handle.
 */
#ifndef TARRY_QUEUE_LOCATE_H
#define TARRY_QUEUE_LOCATE_H

#include "queue/queue.h"

struct locate_result {
    enum queue_status status; /* QUEUE_OK, or the reason for an early end */
    bool is_complete;         /* false: there may be more jobs than the limit, or it ended early */
};

/* The callbacks of a call. `owner` and `tag` are passed to all of them; no callback runs inside locate_start. */
struct locate_listener {
    /* Returns whether to search this topic. NULL: search every topic. */
    bool (*looks_at)(void *owner, uint64_t tag, struct slice topic);
    /* Receives a job with its body, in the order of topic names; valid during the call. */
    void (*found)(void *owner, uint64_t tag, const struct queue_job *job);
    /* Called before each page and each job; false ends the search. */
    bool (*wanted)(void *owner, uint64_t tag);
    /* Called once, at the end. */
    void (*done)(void *owner, uint64_t tag, const struct locate_result *result);
    void *owner;
    uint64_t tag;
    bool finished; /* kept jobs are also found; costs a call per topic that has some */
};

/* Finds up to `limit` jobs. `id` need only be valid during the call. False: out of memory, and the listener is not
 * called. */
bool locate_start(struct queue *queue, struct slice id, uint32_t limit,
                  const struct locate_listener *listener);

#endif
