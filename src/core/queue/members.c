#include "queue/members.h"

#include "queue/life.h"
#include "queue/search.h"

#include <stdlib.h>

/* The cursor: the part, the topic, a blank, the cursor of the search in it. Without a topic: at the begin. PART_NONE: the topic
 * has been searched. */
enum part { PART_LIVE = 'l', PART_FINISHED = 'f', PART_NONE = 'n' };
enum { INNER_BYTES_MAX = 512, CURSOR_BYTES_MAX = 2 + JOB_TOPIC_BYTES_MAX + INNER_BYTES_MAX };

struct members {
    struct queue *queue;
    struct members_order order; /* the texts are in this structure */
    struct members_listener listener;
    struct members_result result;
    uint32_t left;  /* members that may still be passed on */
    bool continues; /* an earlier call */
    enum part part;
    size_t topic_bytes, inner_bytes;
    char topic[JOB_TOPIC_BYTES_MAX]; /* that is being searched, or was last */
    char inner[INNER_BYTES_MAX];
    char batch_topic[JOB_TOPIC_BYTES_MAX], batch_id[JOB_ID_BYTES_MAX];
    char cursor[CURSOR_BYTES_MAX];
};

static void ask_topic(struct members *members);

static void members_finish(struct members *members, enum queue_status status, bool is_end)
{
    members->result.status = status;
    if (!is_end && members->topic_bytes) {
        size_t at = 0;
        members->cursor[at++] = (char)members->part;
        memcpy(members->cursor + at, members->topic, members->topic_bytes);
        at += members->topic_bytes;
        members->cursor[at++] = ' ';
        memcpy(members->cursor + at, members->inner, members->inner_bytes);
        members->result.cursor = slice_make(members->cursor, at + members->inner_bytes);
    }
    members->listener.done(members->listener.owner, members->listener.tag, &members->result);
    free(members);
}

static bool is_finished_outcome(enum batch_outcome outcome)
{
    return outcome == BATCH_ACKED || outcome == BATCH_CANCELLED || outcome == BATCH_EXPIRED;
}

/* Returns whether the call needs this part of a topic. */
static bool needs_part(const struct members *members, enum part part)
{
    return !members->order.has_outcome ||
           is_finished_outcome(members->order.outcome) == (part == PART_FINISHED);
}

static enum batch_outcome outcome_of(const struct queue_job *job)
{
    if (job->job.state == JOB_DEAD)
        return BATCH_DEAD;
    return job->job.state == JOB_FINISHED && job->end ? life_outcome_of(job->end->outcome)
                                                      : BATCH_UNFINISHED;
}

static void on_found(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct members *members = owner;
    (void)tag;
    if (members->order.has_outcome && outcome_of(job) != members->order.outcome)
        return;
    members->left--;
    members->listener.found(members->listener.owner, members->listener.tag, job);
}

static bool on_wanted(void *owner, uint64_t tag)
{
    const struct members *members = owner;
    (void)tag;
    return members->listener.wanted(members->listener.owner, members->listener.tag);
}

static void search_part(struct members *members);

static void on_searched(void *owner, uint64_t tag, const struct search_result *result)
{
    struct members *members = owner;
    (void)tag;
    members->result.seen += result->seen;
    members->inner_bytes = result->cursor.len < INNER_BYTES_MAX ? result->cursor.len : 0;
    if (members->inner_bytes)
        memcpy(members->inner, result->cursor.at, members->inner_bytes);
    if (result->status != QUEUE_OK && result->status != QUEUE_NOT_FOUND) {
        members_finish(members, result->status, false);
        return;
    }
    if (!members->inner_bytes)
        members->part = members->part == PART_LIVE ? PART_FINISHED : PART_NONE;
    bool goes_on = members->left && members->result.seen < SEARCH_SEEN_MAX && on_wanted(members, 0);
    if (!goes_on)
        members_finish(members, QUEUE_OK, false);
    else
        search_part(members);
}

/* Searches the current part of the current topic, or the next topic. */
static void search_part(struct members *members)
{
    struct queue_info info = {0};
    queue_info(members->queue, &info);
    if (members->part == PART_LIVE && !needs_part(members, PART_LIVE))
        members->part = PART_FINISHED;
    if (members->part == PART_NONE ||
        (members->part == PART_FINISHED &&
         (!needs_part(members, PART_FINISHED) || !info.keeps_finished))) {
        ask_topic(members);
        return;
    }
    bool is_dead = members->order.has_outcome && members->order.outcome == BATCH_DEAD;
    const struct search_order order = {
        .topic = slice_make(members->topic, members->topic_bytes),
        .state = members->part == PART_FINISHED ? JOB_FINISHED
                 : is_dead                      ? JOB_DEAD
                                                : 0,
        .filter = {.batch_topic = members->order.topic, .batch_id = members->order.id},
        .cursor = slice_make(members->inner, members->inner_bytes),
        .limit = members->left,
        .with_body = members->order.with_results};
    if (!search_start(
            members->queue, &order,
            &(struct search_listener){
                .found = on_found, .wanted = on_wanted, .done = on_searched, .owner = members}))
        members_finish(members, QUEUE_NO_MEMORY, false);
}

static void on_looked_up(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    members_finish(owner, reply->status, true);
}

/* Ends the list. If it is empty from the start to the end, its job must exist. */
static void finish_list(struct members *members)
{
    if (members->left < members->order.limit || members->continues) {
        members_finish(members, QUEUE_OK, true);
        return;
    }
    queue_get_finished(members->queue, members->order.topic, members->order.id,
                       (struct queue_reply_to){.done = on_looked_up, .owner = members});
}

/* Receives the topic after the current one. */
static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct members *members = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        members_finish(members, reply->status, false);
        return;
    }
    size_t at = queue_topics_after(reply->topics, reply->topic_count,
                                   slice_make(members->topic, members->topic_bytes));
    if (at == reply->topic_count) {
        finish_list(members);
        return;
    }
    struct slice name = reply->topics[at].name;
    memcpy(members->topic, name.at, name.len);
    members->topic_bytes = name.len;
    members->inner_bytes = 0;
    members->part = PART_LIVE;
    members->result.seen++; /* so that a call over many topics ends */
    bool allows = members->listener.allows(members->listener.owner, members->listener.tag, name);
    if (allows)
        search_part(members);
    else
        ask_topic(members);
}

static void ask_topic(struct members *members)
{
    const struct queue_topics_page page = {
        .after = slice_make(members->topic, members->topic_bytes), .limit = 1};
    queue_topics_page(members->queue, page,
                      (struct queue_reply_to){.done = on_topic, .owner = members});
}

/* Reads a cursor. Returns false if it is not one. */
static bool read_cursor(struct members *members, struct slice cursor)
{
    const char *blank = cursor.len ? memchr(cursor.at, ' ', cursor.len) : NULL;
    if (!cursor.len)
        return true;
    if (!blank || !memchr("lfn", cursor.at[0], 3))
        return false;
    members->part = (enum part)cursor.at[0];
    struct slice topic = slice_make(cursor.at + 1, (size_t)(blank - cursor.at) - 1);
    struct slice inner = slice_make(blank + 1, cursor.len - (size_t)(blank + 1 - cursor.at));
    if (!job_topic_is_valid(topic) || inner.len > INNER_BYTES_MAX)
        return false;
    members->topic_bytes = topic.len;
    memcpy(members->topic, topic.at, topic.len);
    members->inner_bytes = inner.len;
    if (inner.len)
        memcpy(members->inner, inner.at, inner.len);
    return true;
}

enum queue_status members_start(struct queue *queue, const struct members_order *order,
                                const struct members_listener *listener)
{
    struct members *members = calloc(1, sizeof *members);
    if (!members)
        return QUEUE_NO_MEMORY;
    members->queue = queue;
    members->order = *order;
    members->listener = *listener;
    members->left = order->limit;
    members->part = PART_LIVE;
    members->continues = order->cursor.len;
    if (!read_cursor(members, order->cursor) || order->topic.len > sizeof members->batch_topic ||
        order->id.len > sizeof members->batch_id) {
        free(members);
        return QUEUE_BAD_CURSOR;
    }
    memcpy(members->batch_topic, order->topic.at, order->topic.len);
    memcpy(members->batch_id, order->id.at, order->id.len);
    members->order.topic = slice_make(members->batch_topic, order->topic.len);
    members->order.id = slice_make(members->batch_id, order->id.len);
    /* A page of topics answers in a later step, so no callback runs here; a search does, too. */
    if (members->topic_bytes)
        search_part(members);
    else
        ask_topic(members);
    return QUEUE_OK;
}
