#include "queue/locate.h"

#include <assert.h>
#include <stdlib.h>

enum { PAGE_TOPICS = 500 };

struct locate {
    struct queue *queue;
    struct locate_listener listener;
    uint32_t left; /* jobs that may still be returned */
    char id[JOB_ID_BYTES_MAX];
    size_t id_bytes;
    /* Of the current page: the topics to search, then those that have the job or may keep it. */
    struct queue_find finds[PAGE_TOPICS];
    char names[PAGE_TOPICS][JOB_TOPIC_BYTES_MAX];
    bool keeps[PAGE_TOPICS]; /* the topic has finished jobs */
    size_t count, next;      /* of finds; index of the next one to get */
    char last[JOB_TOPIC_BYTES_MAX];
    size_t last_bytes; /* last topic of the page: the next page begins after it */
    bool is_last_page;
};

static void locate_finish(struct locate *locate, enum queue_status status, bool is_complete)
{
    const struct locate_result result = {.status = status, .is_complete = is_complete};
    locate->listener.done(locate->listener.owner, locate->listener.tag, &result);
    free(locate);
}

static bool locate_is_wanted(const struct locate *locate)
{
    return locate->listener.wanted(locate->listener.owner, locate->listener.tag);
}

static struct slice locate_id(const struct locate *locate)
{
    return slice_make(locate->id, locate->id_bytes);
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply);
static void locate_get_next(struct locate *locate);

static void locate_ask_page(struct locate *locate)
{
    const struct queue_topics_page page = {.after = slice_make(locate->last, locate->last_bytes),
                                           .limit = PAGE_TOPICS};
    queue_topics_page(locate->queue, page,
                      (struct queue_reply_to){.done = on_page, .owner = locate});
}

static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct locate *locate = owner;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        locate_finish(locate, reply->status, false);
        return;
    }
    if (reply->job_count) {
        locate->listener.found(locate->listener.owner, locate->listener.tag, &reply->jobs[0]);
        locate->left--;
    }
    locate_get_next(locate);
}

/* Gets the remaining jobs of the page, then requests the next page. */
static void locate_get_next(struct locate *locate)
{
    bool is_over = locate->next == locate->count && locate->is_last_page;
    if (is_over || !locate->left || !locate_is_wanted(locate)) {
        locate_finish(locate, QUEUE_OK, is_over);
    } else if (locate->next == locate->count) {
        locate_ask_page(locate);
    } else {
        const struct queue_find *find = &locate->finds[locate->next++];
        const struct queue_reply_to reply_to = {.done = on_got, .owner = locate};
        if (locate->listener.finished)
            queue_get_finished(locate->queue, find->topic, find->id, reply_to);
        else
            queue_get(locate->queue, find->topic, find->id, reply_to);
    }
}

/* Keeps the topics of the page that have the job, and those that may keep it as a finished one. */
static void on_found(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct locate *locate = owner;
    size_t count = 0;
    (void)tag;
    for (size_t i = 0; i < locate->count; i++) {
        enum queue_status status =
            i < reply->result_count ? reply->results[i].status : reply->status;
        if (status != QUEUE_OK && status != QUEUE_NOT_FOUND) {
            locate_finish(locate, status, false);
            return;
        }
        if (status == QUEUE_OK || locate->keeps[i])
            locate->finds[count++] = locate->finds[i];
    }
    locate->count = count;
    locate_get_next(locate);
}

static void locate_look_at(struct locate *locate, const struct queue_topic *shown)
{
    struct slice topic = shown->name;
    const struct locate_listener *listener = &locate->listener;
    if (listener->looks_at && !listener->looks_at(listener->owner, listener->tag, topic))
        return;
    char *name = locate->names[locate->count];
    locate->keeps[locate->count] = listener->finished && shown->counts.finished > 0;
    memcpy(name, topic.at, topic.len);
    locate->finds[locate->count++] =
        (struct queue_find){.topic = slice_make(name, topic.len), .id = locate_id(locate)};
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct locate *locate = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        locate_finish(locate, reply->status, false);
        return;
    }
    size_t at = queue_topics_after(reply->topics, reply->topic_count,
                                   slice_make(locate->last, locate->last_bytes));
    size_t left = reply->topic_count - at, count = left < PAGE_TOPICS ? left : PAGE_TOPICS;
    locate->is_last_page = left < PAGE_TOPICS;
    locate->count = locate->next = 0;
    for (size_t i = 0; i < count; i++)
        locate_look_at(locate, &reply->topics[at + i]);
    if (count) {
        struct slice last = reply->topics[at + count - 1].name;
        memcpy(locate->last, last.at, last.len);
        locate->last_bytes = last.len;
    }
    if (locate->count)
        queue_find(locate->queue, locate->finds, locate->count,
                   (struct queue_reply_to){.done = on_found, .owner = locate});
    else
        locate_get_next(locate);
}

bool locate_start(struct queue *queue, struct slice id, uint32_t limit,
                  const struct locate_listener *listener)
{
    struct locate *locate =
        malloc(sizeof *locate); /* its pages are touched only when they are used */
    assert(id.len <= JOB_ID_BYTES_MAX && limit);
    if (!locate)
        return false;
    locate->queue = queue;
    locate->listener = *listener;
    locate->left = limit;
    locate->id_bytes = id.len;
    memcpy(locate->id, id.at, id.len);
    locate->count = locate->next = locate->last_bytes = 0;
    locate->is_last_page = false;
    locate_ask_page(locate);
    return true;
}
