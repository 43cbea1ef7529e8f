/*
 * topic_walk: all topics of a queue, page by page.
 *
 * A page is one call of the queue, and so at most one in a turn of the loop: whoever looks at many topics holds
 * up nobody. Topics that come or go meanwhile may or may not be met. The queue's thread; no callback comes
 * inside topic_walk_start.
 */
#ifndef TARRY_QUEUE_TOPIC_WALK_H
#define TARRY_QUEUE_TOPIC_WALK_H

#include "queue/queue.h"

enum { TOPIC_WALK_PAGE = 100 };

struct topic_walk_listener {
    /* The next topics, by name; good during the call only. False: no more are wanted. */
    bool (*page)(void *owner, uint64_t tag, const struct queue_topic *topics, size_t count);
    /* The end, once: QUEUE_OK, or what the queue refused. */
    void (*done)(void *owner, uint64_t tag, enum queue_status status);
    void *owner;
    uint64_t tag;
};

/* Those behind `after`; empty: from the first on. False: out of memory, and nothing is called. */
bool topic_walk_start(struct queue *queue, struct slice after,
                      const struct topic_walk_listener *listener);

#endif
