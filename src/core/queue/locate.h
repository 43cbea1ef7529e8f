/*
 * locate: where jobs of an id are, over all topics, for every queue.
 *
 * A job's id names it within its topic, so several topics may have one. A call goes from page to page
 * of the topics, by name, asks for the jobs of a page at once (COMMAND_FIND), and gets those that are
 * there, one after the other: so it works on every implementation, holds up nobody, and costs memory
 * for one page. A topic or job that comes or goes meanwhile is found or is not.
 *
 * One thread: the queue handle's.
 */
#ifndef TARRY_QUEUE_LOCATE_H
#define TARRY_QUEUE_LOCATE_H

#include "queue/queue.h"

struct locate_result {
    enum queue_status status; /* QUEUE_OK, or what cut it short */
    bool is_complete; /* false: there may be more than were asked for, or it was cut short */
};

/* `owner` and `tag` as given, in all of them; never inside locate_start. */
struct locate_listener {
    /* Whether this topic is looked at. NULL: each is. */
    bool (*looks_at)(void *owner, uint64_t tag, struct slice topic);
    /* A job that was found, with its body; by the name of its topic; good during the call. */
    void (*found)(void *owner, uint64_t tag, const struct queue_job *job);
    /* Asked before each page and each job; false ends the call. */
    bool (*wanted)(void *owner, uint64_t tag);
    /* Once, at the end. */
    void (*done)(void *owner, uint64_t tag, const struct locate_result *result);
    void *owner;
    uint64_t tag;
};

/* Up to `limit` jobs. `id` need only be valid during the call. False: out of memory, and the listener
 * hears nothing. */
bool locate_start(struct queue *queue, struct slice id, uint32_t limit,
                  const struct locate_listener *listener);

#endif
