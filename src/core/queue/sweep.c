#include "queue/sweep.h"

#include "base/hash.h"
#include "queue/status.h"

#include <assert.h>
#include <stdlib.h>

/* A page of dead jobs is redriven by one call for each job. A list of waiting jobs may cost a walk over the topic, so its
 * pages are as large as possible. */
enum { DEAD_PAGE_JOBS = 200, PAGE_JOBS = QUEUE_LIST_MAX, CURSOR_BYTES_MAX = 512, SENT_MIN = 512 };

/* Hashes of the ids that were changed and may come again: open addressing, at most half full, 0 is free. */
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
    enum job_state state; /* of the jobs that are listed now */
    uint64_t left;        /* matches that may still be processed */
    uint32_t under_way;   /* changes in progress for this page */
    uint32_t cursor_len;  /* 0: this is the last page */
    bool is_cut;          /* some jobs of the page were not examined */
    bool is_past;         /* the jobs behind this page are due too late */
    char cursor[CURSOR_BYTES_MAX];
    struct picked picked[PAGE_JOBS];
    struct queue_change changes[PAGE_JOBS];
    char text[];
};

/* ---- ids that were changed ---- */

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
    bool is_in_scope = sweep->order.scope == SWEEP_DEAD
                           ? job->state == JOB_DEAD
                           : job->state == JOB_DELAYED || job->state == JOB_READY;
    return is_in_scope && queue_filter_matches(&sweep->order.filter, job) &&
           !sent_has(&sweep->sent, job->id);
}

/* Returns whether no job behind this one can match, since lists are ordered by due. */
static bool is_past(const struct sweep *sweep, const struct job *job)
{
    return sweep->order.filter.due_before_ms && job->due_ms >= sweep->order.filter.due_before_ms;
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
        .state = sweep->state,
        .limit = sweep->order.scope == SWEEP_DEAD ? DEAD_PAGE_JOBS : PAGE_JOBS,
        .cursor = slice_make(sweep->cursor, sweep->cursor_len),
    };
    queue_list(sweep->queue, &list, (struct queue_reply_to){.done = on_page, .owner = sweep});
}

/* Moves from the delayed jobs to the ready ones at the end of the list. Returns whether there is another page. */
static bool has_page(struct sweep *sweep)
{
    if (sweep->cursor_len && !sweep->is_past)
        return true;
    if (sweep->order.scope != SWEEP_WAITING || sweep->state == JOB_READY || sweep->is_cut)
        return false;
    sweep->state = JOB_READY;
    sweep->cursor_len = 0;
    sweep->is_past = false;
    return true;
}

/* Ends a page: requests the next one if there is one and the sweep was not stopped, else ends the sweep. */
static void next_page(struct sweep *sweep)
{
    bool has_more = has_page(sweep);
    sweep->result.is_complete = sweep->result.status == QUEUE_OK && !has_more && !sweep->is_cut;
    if (sweep->result.status != QUEUE_OK || !has_more || !sweep->left ||
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

/* Returns whether a change was refused because the job is no longer the one from the page. */
static bool is_skipped(enum queue_status status)
{
    return status == QUEUE_NOT_FOUND || status == QUEUE_CONFLICT || status == QUEUE_LEASED ||
           status == QUEUE_DEAD_STATE;
}

static void on_changed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sweep *sweep = owner;
    (void)tag;
    if (reply->status != QUEUE_OK)
        sweep->result.status = reply->status;
    for (size_t i = 0; i < reply->result_count; i++) {
        enum queue_status status = reply->results[i].status;
        if (queue_status_is_success(status))
            sweep->result.jobs++;
        else if (!is_skipped(status))
            sweep->result.status = status;
    }
    sweep->under_way = 0;
    next_page(sweep);
}

static enum queue_change_verb change_verb(enum sweep_verb verb)
{
    return verb == SWEEP_CANCEL       ? QUEUE_CANCEL
           : verb == SWEEP_RESCHEDULE ? QUEUE_RESCHEDULE
                                      : QUEUE_RUN;
}

/* Changes the jobs of a page. A dead one is cancelled only if it is still the one that was listed. The id of a job that
 * is moved is stored, so that it is moved only once. */
static void change_jobs(struct sweep *sweep, size_t count)
{
    struct queue_change *changes = sweep->changes;
    const struct picked *picked = sweep->picked;
    const struct sweep_order *order = &sweep->order;
    bool is_move = order->verb != SWEEP_CANCEL;
    for (size_t i = 0; i < count; i++) {
        changes[i] = (struct queue_change){.verb = change_verb(order->verb),
                                           .topic = order->topic,
                                           .id = picked[i].id,
                                           .when = {.due = QUEUE_DUE_UNCHANGED},
                                           .priority = QUEUE_PRIORITY_UNSET,
                                           .only_dead = order->scope == SWEEP_DEAD,
                                           .delivery = picked[i].delivery};
        if (order->verb == SWEEP_RESCHEDULE) {
            changes[i].when = order->when;
            changes[i].priority = order->priority;
        }
        if (is_move && !sent_add(&sweep->sent, picked[i].id)) {
            sweep->result.status = QUEUE_NO_MEMORY;
            return;
        }
    }
    sweep->under_way = 1;
    queue_change(sweep->queue, changes, count,
                 (struct queue_reply_to){.done = on_changed, .owner = sweep});
}

/* Selects the matches of a page, up to the maximum. */
static size_t pick_jobs(struct sweep *sweep, const struct queue_reply *page)
{
    size_t count = 0, i = 0;
    for (; i < page->job_count && sweep->left && !sweep->is_past; i++) {
        sweep->is_past = is_past(sweep, &page->jobs[i].job);
        sweep->result.seen++;
        if (!matches(sweep, &page->jobs[i].job))
            continue;
        sweep->picked[count++] =
            (struct picked){.id = page->jobs[i].job.id, .delivery = page->jobs[i].job.delivery};
        sweep->left--;
    }
    sweep->is_cut = i < page->job_count && !sweep->is_past;
    return count;
}

/* Carries out the order on the selected jobs. */
static void act_on(struct sweep *sweep, size_t count)
{
    switch (sweep->order.verb) {
    case SWEEP_COUNT:
        sweep->result.jobs += count;
        break;
    case SWEEP_REDRIVE:
        for (size_t i = 0; i < count && sweep->result.status == QUEUE_OK; i++)
            redrive_job(sweep, sweep->picked[i].id);
        break;
    case SWEEP_CANCEL:
    case SWEEP_RESCHEDULE:
    case SWEEP_RUN:
        if (count)
            change_jobs(sweep, count);
        break;
    }
    if (!sweep->under_way)
        next_page(sweep);
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sweep *sweep = owner;
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
    act_on(sweep, pick_jobs(sweep, reply));
}

/* ---- start ---- */

static enum job_state first_state(enum sweep_scope scope)
{
    return scope == SWEEP_DEAD ? JOB_DEAD : scope == SWEEP_READY ? JOB_READY : JOB_DELAYED;
}

bool sweep_start(struct queue *queue, const struct sweep_order *order, sweep_wanted *wanted,
                 sweep_done *done, void *owner, uint64_t tag)
{
    struct sweep *sweep =
        calloc(1, sizeof *sweep + order->topic.len + queue_filter_bytes(&order->filter));
    if (!sweep)
        return false;
    sweep->queue =
        queue; /* not one assignment, which could need a copy of the arrays on the stack */
    sweep->order = *order;
    sweep->wanted = wanted;
    sweep->done = done;
    sweep->owner = owner;
    sweep->tag = tag;
    sweep->state = first_state(order->scope);
    sweep->left = UINT64_MAX;
    if (order->verb != SWEEP_CANCEL && order->verb != SWEEP_COUNT)
        sweep->left = SWEEP_JOBS_MAX;
    if (order->max && order->max < sweep->left)
        sweep->left = order->max;
    char *at = queue_filter_copy_texts(&sweep->order.filter, sweep->text);
    sweep->order.topic = queue_text_copy(&at, order->topic);
    ask_page(sweep);
    return true;
}
