#include "queue/topic_walk.h"

#include <stdlib.h>

struct topic_walk {
    struct queue *queue;
    struct topic_walk_listener listener;
    char last[JOB_TOPIC_BYTES_MAX]; /* last topic of the previous page */
    size_t last_bytes;
};

static void topic_walk_ask(struct topic_walk *walk);

static void topic_walk_finish(struct topic_walk *walk, enum queue_status status)
{
    walk->listener.done(walk->listener.owner, walk->listener.tag, status);
    free(walk);
}

/* Passes on a page. A store may return further topics; the counts of those beyond the page may be incomplete. */
static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct topic_walk *walk = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        topic_walk_finish(walk, reply->status);
        return;
    }
    size_t at = queue_topics_after(reply->topics, reply->topic_count,
                                   slice_make(walk->last, walk->last_bytes));
    size_t left = reply->topic_count - at, count = left < TOPIC_WALK_PAGE ? left : TOPIC_WALK_PAGE;
    bool is_last = left < TOPIC_WALK_PAGE;
    if (count) {
        struct slice last = reply->topics[at + count - 1].name;
        walk->last_bytes = last.len;
        memcpy(walk->last, last.at, last.len);
    }
    if (count &&
        !walk->listener.page(walk->listener.owner, walk->listener.tag, reply->topics + at, count))
        is_last = true;
    if (is_last)
        topic_walk_finish(walk, QUEUE_OK);
    else
        topic_walk_ask(walk);
}

static void topic_walk_ask(struct topic_walk *walk)
{
    const struct queue_topics_page page = {.after = slice_make(walk->last, walk->last_bytes),
                                           .limit = TOPIC_WALK_PAGE};
    queue_topics_page(walk->queue, page, (struct queue_reply_to){.done = on_page, .owner = walk});
}

bool topic_walk_start(struct queue *queue, struct slice after,
                      const struct topic_walk_listener *listener)
{
    struct topic_walk *walk = calloc(1, sizeof *walk);
    if (!walk || after.len > sizeof walk->last) {
        free(walk);
        return false;
    }
    walk->queue = queue;
    walk->listener = *listener;
    walk->last_bytes = after.len;
    if (after.len)
        memcpy(walk->last, after.at, after.len);
    topic_walk_ask(walk);
    return true;
}
