#include "queue/sweep.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

enum { PAGE_JOBS = 200, CURSOR_BYTES_MAX = 512, SENT_MIN = 512 };

/* Hashes of the ids that were redriven: open addressing, at most half full, 0 is free. */
struct sent {
    uint64_t *at;
    size_t count, cap; /* cap: a power of two */
};

/* A job of the current page that matches. */
struct picked {
    struct slice id;
    uint64_t delivery;
};

struct sweep {
    struct queue *queue;
    struct sweep_order order; /* its texts are in `text` */
    sweep_wanted *wanted;
    sweep_done *done;
    void *owner;
    uint64_t tag;
    struct sweep_result result;
    struct sent sent;
    uint64_t left;       /* matches that may still be processed */
    uint32_t under_way;  /* changes in progress for this page */
    uint32_t cursor_len; /* 0: this is the last page */
    bool is_cut;         /* some jobs of the page were not examined */
    char cursor[CURSOR_BYTES_MAX];
    char text[];
};

/* ---- redriven ids ---- */

static uint64_t hash_of(struct slice id)
{
    uint64_t hash = hash_64(id.at, id.len);
    return hash ? hash : 1;
}

static size_t place_of(const struct sent *sent, uint64_t hash)
{
    size_t i = hash & (sent->cap - 1);
    while (sent->at[i] && sent->at[i] != hash)
        i = (i + 1) & (sent->cap - 1);
    return i;
}

static bool sent_has(const struct sent *sent, struct slice id)
{
    return sent->cap && sent->at[place_of(sent, hash_of(id))];
}

static bool sent_grow(struct sent *sent)
{
    struct sent larger = {.cap = sent->cap ? sent->cap * 2 : SENT_MIN, .count = sent->count};
    larger.at = calloc(larger.cap, sizeof *larger.at);
    if (!larger.at)
        return false;
    for (size_t i = 0; i < sent->cap; i++)
        if (sent->at[i])
            larger.at[place_of(&larger, sent->at[i])] = sent->at[i];
    free(sent->at);
    *sent = larger;
    return true;
}

static bool sent_add(struct sent *sent, struct slice id)
{
    if (sent->count * 2 >= sent->cap && !sent_grow(sent))
        return false;
    uint64_t hash = hash_of(id);
    sent->at[place_of(sent, hash)] = hash;
    sent->count++;
    return true;
}

/* ---- the filter ---- */

static bool matches(const struct sweep *sweep, const struct job *job)
{
    return job->state == JOB_DEAD && queue_filter_matches(&sweep->order.filter, job) &&
           !sent_has(&sweep->sent, job->id);
}

/* ---- page by page ---- */

static void sweep_finish(struct sweep *sweep)
{
    sweep->done(sweep->owner, sweep->tag, &sweep->result);
    free(sweep->sent.at);
    free(sweep);
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply);

static void ask_page(struct sweep *sweep)
{
    struct queue_list list = {
        .topic = sweep->order.topic,
        .state = JOB_DEAD,
        .limit = PAGE_JOBS,
        .cursor = slice_make(sweep->cursor, sweep->cursor_len),
    };
    queue_list(sweep->queue, &list, (struct queue_reply_to){.done = on_page, .owner = sweep});
}

/* Ends a page: requests the next one if there is one and the sweep was not stopped, else ends the sweep. */
static void next_page(struct sweep *sweep)
{
    sweep->result.is_complete =
        sweep->result.status == QUEUE_OK && !sweep->cursor_len && !sweep->is_cut;
    if (sweep->result.status != QUEUE_OK || !sweep->cursor_len || !sweep->left ||
        !sweep->wanted(sweep->owner, sweep->tag))
        sweep_finish(sweep);
    else
        ask_page(sweep);
}

static void on_redriven(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sweep *sweep = owner;
    (void)tag;
    if (reply->status == QUEUE_OK)
        sweep->result.jobs += reply->affected;
    else if (reply->status != QUEUE_NOT_FOUND) /* it is no longer dead */
        sweep->result.status = reply->status;
    if (--sweep->under_way == 0)
        next_page(sweep);
}

/* Redrives one job. Its id is stored, so that it is redriven only once, however soon it dies again. */
static void redrive_job(struct sweep *sweep, struct slice id)
{
    struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_REDRIVE, .topic = sweep->order.topic, .id = id};
    if (!sent_add(&sweep->sent, id)) {
        sweep->result.status = QUEUE_NO_MEMORY;
        return;
    }
    sweep->under_way++;
    queue_topic(sweep->queue, &call, (struct queue_reply_to){.done = on_redriven, .owner = sweep});
}

static void on_cancelled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sweep *sweep = owner;
    (void)tag;
    if (reply->status != QUEUE_OK)
        sweep->result.status = reply->status;
    for (size_t i = 0; i < reply->result_count; i++) {
        enum queue_status status = reply->results[i].status;
        if (status == QUEUE_CANCELLED)
            sweep->result.jobs++;
        else if (status != QUEUE_NOT_FOUND && status != QUEUE_CONFLICT && status != QUEUE_LEASED)
            sweep->result.status = status;
    }
    sweep->under_way = 0;
    next_page(sweep);
}

/* Cancels the jobs of a page, each only if it is still the dead job that was listed. */
static void cancel_jobs(struct sweep *sweep, const struct picked *picked, size_t count)
{
    struct queue_change changes[PAGE_JOBS];
    for (size_t i = 0; i < count; i++)
        changes[i] = (struct queue_change){.verb = QUEUE_CANCEL,
                                           .topic = sweep->order.topic,
                                           .id = picked[i].id,
                                           .when = {.due = QUEUE_DUE_UNCHANGED},
                                           .priority = QUEUE_PRIORITY_UNSET,
                                           .only_dead = true,
                                           .delivery = picked[i].delivery};
    sweep->under_way = 1;
    queue_change(sweep->queue, changes, count,
                 (struct queue_reply_to){.done = on_cancelled, .owner = sweep});
}

/* Selects the matches of a page, up to the maximum. */
static size_t pick_jobs(struct sweep *sweep, const struct queue_reply *page, struct picked *picked)
{
    size_t count = 0, i = 0;
    for (; i < page->job_count && sweep->left; i++) {
        sweep->result.seen++;
        if (!matches(sweep, &page->jobs[i].job))
            continue;
        picked[count++] =
            (struct picked){.id = page->jobs[i].job.id, .delivery = page->jobs[i].job.delivery};
        sweep->left--;
    }
    sweep->is_cut = i < page->job_count;
    return count;
}

/* Carries out the order on the selected jobs. */
static void act_on(struct sweep *sweep, const struct picked *picked, size_t count)
{
    switch (sweep->order.verb) {
    case SWEEP_COUNT:
        sweep->result.jobs += count;
        break;
    case SWEEP_REDRIVE:
        for (size_t i = 0; i < count && sweep->result.status == QUEUE_OK; i++)
            redrive_job(sweep, picked[i].id);
        break;
    case SWEEP_CANCEL:
        if (count)
            cancel_jobs(sweep, picked, count);
        break;
    }
    if (!sweep->under_way)
        next_page(sweep);
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sweep *sweep = owner;
    struct picked picked[PAGE_JOBS];
    (void)tag;
    if (reply->status != QUEUE_OK) {
        sweep->result.status = reply->status;
        sweep_finish(sweep);
        return;
    }
    assert(reply->cursor.len <= sizeof sweep->cursor && reply->job_count <= PAGE_JOBS);
    sweep->cursor_len = (uint32_t)reply->cursor.len;
    if (reply->cursor.len)
        memcpy(sweep->cursor, reply->cursor.at, reply->cursor.len);
    size_t count = pick_jobs(sweep, reply, picked);
    act_on(sweep, picked, count);
}

/* ---- start ---- */

bool sweep_start(struct queue *queue, const struct sweep_order *order, sweep_wanted *wanted,
                 sweep_done *done, void *owner, uint64_t tag)
{
    struct sweep *sweep =
        calloc(1, sizeof *sweep + order->topic.len + queue_filter_bytes(&order->filter));
    if (!sweep)
        return false;
    *sweep = (struct sweep){.queue = queue,
                            .order = *order,
                            .wanted = wanted,
                            .done = done,
                            .owner = owner,
                            .tag = tag,
                            .left = UINT64_MAX};
    if (order->verb == SWEEP_REDRIVE)
        sweep->left = SWEEP_JOBS_MAX;
    if (order->max && order->max < sweep->left)
        sweep->left = order->max;
    char *at = queue_filter_move(&sweep->order.filter, sweep->text);
    sweep->order.topic = queue_text_move(&at, order->topic);
    ask_page(sweep);
    return true;
}
