/*
 * search: those jobs of a topic that match a filter, for every queue.
 *
 * A search lists page by page, one page under way at a time, and hands on what matches: so it works
 * on every implementation, holds up nobody, and costs memory for one page. One call looks at
 * SEARCH_SEEN_MAX jobs at most, or at SEARCH_BYTES_MAX of bodies where it wants those, however few of
 * them match; its cursor says where the next one goes on.
 *
 * A page is looked at again, shorter, where it holds more matches than are wanted: the cursor is then
 * behind the last one that was handed on.
 *
 * One thread: the queue handle's.
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
    struct slice cursor; /* of an earlier search or list; empty: from the start */
    uint32_t limit;      /* so many matches at most; 0: no limit */
    bool with_body;
    uint32_t page_jobs; /* looked at in one turn of the loop; 0: the usual */
};

struct search_result {
    enum queue_status status; /* QUEUE_OK, QUEUE_NOT_FOUND (no such topic), or what cut it short */
    uint64_t seen;            /* jobs looked at */
    struct slice cursor;      /* empty: there is no more; good during the call */
};

/* `owner` and `tag` as given, in all of them; never inside search_start. */
struct search_listener {
    /* One that matches, in the order of the list; good during the call. */
    void (*found)(void *owner, uint64_t tag, const struct queue_job *job);
    /* Asked before each page but the first; false ends the search, with its cursor. */
    bool (*wanted)(void *owner, uint64_t tag);
    /* Once, at the end. */
    void (*done)(void *owner, uint64_t tag, const struct search_result *result);
    void *owner;
    uint64_t tag;
};

/* What `order` points at need only be valid during the call. False: out of memory, and the listener
 * hears nothing. */
bool search_start(struct queue *queue, const struct search_order *order,
                  const struct search_listener *listener);

#endif
