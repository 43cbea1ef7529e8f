/*
 * search: finds the jobs of a topic that match a filter, for every queue.
 *
 * A search lists page by page, one page at a time, and passes on the matches. It therefore works with every
 * implementation, blocks no other call, and uses memory for one page. One call examines at most SEARCH_SEEN_MAX jobs,
 * or SEARCH_BYTES_MAX of bodies and results if they are requested, however few of them match; its cursor is the position of the
 * next call.
 *
 * If a page has more matches than requested, it is listed again with a smaller limit, so that the cursor is right
 * after the last match that was passed on.
 *
 * One thread: that of the queue handle.
 */
#ifndef TARRY_QUEUE_SEARCH_H
#define TARRY_QUEUE_SEARCH_H

#include "queue/filter.h"
#include "queue/queue.h"

enum { SEARCH_SEEN_MAX = 10000, SEARCH_BYTES_MAX = 8 << 20 };

struct search_order {
    struct slice topic;
    enum job_state state; /* 0: all states */
    struct queue_filter filter;
    struct slice cursor; /* from an earlier search or list; empty: from the start */
    uint32_t limit;      /* maximum number of matches; 0: no limit */
    bool with_body;
    uint32_t
        page_jobs; /* jobs examined per loop iteration; 0: 100, later more, up to QUEUE_LIST_MAX, without bodies */
};

struct search_result {
    enum queue_status status; /* QUEUE_OK, QUEUE_NOT_FOUND (no such topic), or why it ended early */
    uint64_t seen;            /* jobs examined */
    struct slice cursor;      /* empty: at the end; valid during the call */
};

/* The callbacks of a search. `owner` and `tag` are passed to all of them; no callback runs inside search_start. */
struct search_listener {
    /* Receives a match, in the order of the list; valid during the call. */
    void (*found)(void *owner, uint64_t tag, const struct queue_job *job);
    /* Called before each page but the first; false ends the search, with its cursor. */
    bool (*wanted)(void *owner, uint64_t tag);
    /* Called once, at the end. */
    void (*done)(void *owner, uint64_t tag, const struct search_result *result);
    void *owner;
    uint64_t tag;
};

/* Starts a search. Pointers in `order` need only be valid during the call. False: out of memory, and the listener
 * is not called. */
bool search_start(struct queue *queue, const struct search_order *order,
                  const struct search_listener *listener);

#endif
