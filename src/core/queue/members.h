/*
 * members: finds the members of a batch, for every queue.
 *
 * A call goes through the topics in the order of their names, and searches each for jobs of the batch (queue/search.h): first the
 * jobs that have not finished, then the kept ones. Members that have ended and are not kept are not found. A call examines
 * about SEARCH_SEEN_MAX jobs; its cursor is the position of the next call. One thread: that of the queue handle.
 */
#ifndef TARRY_QUEUE_MEMBERS_H
#define TARRY_QUEUE_MEMBERS_H

#include "queue/queue.h"

struct members_order {
    struct slice topic, id; /* of the waiting job */
    bool has_outcome;       /* only members with this outcome */
    enum batch_outcome outcome;
    struct slice cursor; /* from an earlier call; empty: from the start */
    uint32_t limit;      /* maximum number of members */
    bool with_results;   /* of finished members */
};

struct members_result {
    enum queue_status
        status;    /* QUEUE_OK, NOT_FOUND (no member and no waiting job), or why it ended early */
    uint64_t seen; /* jobs examined */
    struct slice cursor; /* empty: at the end; valid during the call */
};

/* The callbacks. `owner` and `tag` are passed to all of them; no callback runs inside members_start. */
struct members_listener {
    /* Returns whether the jobs of this topic may be shown. */
    bool (*allows)(void *owner, uint64_t tag, struct slice topic);
    void (*found)(void *owner, uint64_t tag, const struct queue_job *job);
    /* Called before each page; false ends the call, with its cursor. */
    bool (*wanted)(void *owner, uint64_t tag);
    void (*done)(void *owner, uint64_t tag, const struct members_result *result);
    void *owner;
    uint64_t tag;
};

/* Starts a call. Returns QUEUE_OK; else QUEUE_BAD_CURSOR or QUEUE_NO_MEMORY, and the listener is not called. */
enum queue_status members_start(struct queue *queue, const struct members_order *order,
                                const struct members_listener *listener);

#endif
