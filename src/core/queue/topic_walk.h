/*
 * topic_walk: walks all topics of a queue, page by page.
 *
 * A page is one call of the queue, and there is at most one page per loop iteration, so a walk over many topics does
 * not block other calls. Topics that appear or vanish meanwhile may or may not be included. One thread, that of the
 * queue; no callback is made inside topic_walk_start.
 */
#ifndef TARRY_QUEUE_TOPIC_WALK_H
#define TARRY_QUEUE_TOPIC_WALK_H

#include "queue/queue.h"

enum { TOPIC_WALK_PAGE = 100 };

struct topic_walk_listener {
    /* Receives the next topics, by name; valid only during the call. False: ends the walk. */
    bool (*page)(void *owner, uint64_t tag, const struct queue_topic *topics, size_t count);
    /* Called once, at the end: QUEUE_OK, or the error of the queue. */
    void (*done)(void *owner, uint64_t tag, enum queue_status status);
    void *owner;
    uint64_t tag;
};

/* Starts a walk over the topics after `after`; empty: from the first. False: out of memory, and nothing is called. */
bool topic_walk_start(struct queue *queue, struct slice after,
                      const struct topic_walk_listener *listener);

#endif
