#include "queue/ends.h"

#include "base/heap.h"
#include "base/list.h"
#include "queue/copy.h"

#include <assert.h>
#include <stdlib.h>

struct ends_item {
    struct ends_wait *wait;
    struct queue_reply_to reply_to; /* of the queue's reply about this job */
    struct queue_find name;
    struct queue_reply *reply; /* copy; NULL: none, or out of memory */
    size_t counted;            /* bytes of it */
    enum queue_status status;
    bool is_open;   /* a reply of the queue is still to come */
    bool has_ended; /* it has come and is not CANCELLED */
};

struct ends_wait {
    struct list list;
    struct ends *ends;
    int64_t until_ms;
    size_t place; /* in the heap, from 1; 0: the wait is over */
    size_t count, open, ended;
    bool any;
    bool is_late;    /* its time ended before the reply of its push */
    bool is_pushing; /* ends_pushed is still to come, which then closes or frees it */
    bool is_known;   /* its push had happened before */
    ends_done *done;
    void *owner;
    uint64_t tag;
    struct ends_item items[]; /* the names follow */
};

struct due_wait {
    int64_t until_ms;
    struct ends_wait *wait;
};
static inline bool due_before(const struct due_wait *a, const struct due_wait *b)
{
    return a->until_ms < b->until_ms;
}
static inline void due_at(const struct due_wait *due, size_t place)
{
    due->wait->place = place + 1;
}
HEAP_DECLARE(due_waits, struct due_wait, due_before, due_at)

struct ends {
    struct queue *queue;
    size_t waiting_max;
    bool is_drained;
    bool (*count_bytes)(void *ctx, int64_t bytes); /* NULL: they are not counted */
    void *count_ctx;
    struct due_waits due;
    struct list waits; /* all, also those that are over and whose replies are still to come */
};

struct ends *ends_new(struct queue *queue, size_t waiting_max)
{
    struct ends *ends = calloc(1, sizeof *ends);
    if (!ends)
        return NULL;
    ends->queue = queue;
    ends->waiting_max = waiting_max;
    list_init(&ends->waits);
    return ends;
}

void ends_count_bytes(struct ends *ends, bool (*count)(void *ctx, int64_t bytes), void *ctx)
{
    ends->count_bytes = count;
    ends->count_ctx = ctx;
}

static void wait_free(struct ends_wait *wait)
{
    const struct ends *ends = wait->ends;
    list_remove(&wait->list);
    for (size_t i = 0; i < wait->count; i++) {
        if (wait->items[i].counted)
            (void)ends->count_bytes(ends->count_ctx, -(int64_t)wait->items[i].counted);
        free(wait->items[i].reply);
    }
    free(wait);
}

void ends_free(struct ends *ends)
{
    if (!ends)
        return;
    while (!list_is_empty(&ends->waits))
        wait_free(list_entry(ends->waits.next, struct ends_wait, list));
    due_waits_fini(&ends->due);
    free(ends);
}

/* ---- the end of a wait ---- */

static void on_cancelled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

/* Takes the wait out of the heap: its caller is no longer called. */
static void wait_leave(struct ends_wait *wait)
{
    assert(wait->place);
    due_waits_remove(&wait->ends->due, wait->place - 1);
    wait->place = 0;
}

/* Cancels the calls of the queue that are left. The wait is freed with the last of their replies. A wait whose push has
 * no reply yet is closed with that reply. */
static void wait_close(struct ends_wait *wait)
{
    struct queue *queue = wait->ends->queue;
    if (wait->is_pushing)
        return;
    if (!wait->open) {
        wait_free(wait);
        return;
    }
    for (size_t i = 0; i < wait->count; i++) {
        const struct ends_item *item = &wait->items[i];
        if (item->is_open)
            queue_await(queue, item->name.topic, item->name.id, &item->reply_to,
                        (struct queue_reply_to){.done = on_cancelled});
    }
}

/* Calls the caller back and ends the wait. */
static void wait_finish(struct ends_wait *wait)
{
    struct ends_job few[4], *jobs = few;
    size_t count = wait->count;
    if (count > sizeof few / sizeof few[0] && !(jobs = malloc(count * sizeof *jobs)))
        count = 1; /* only the first is shown */
    if (!jobs)
        jobs = few;
    for (size_t i = 0; i < count; i++) {
        const struct ends_item *item = &wait->items[i];
        bool has_job = item->has_ended && item->reply && item->reply->job_count;
        jobs[i] = (struct ends_job){.topic = item->name.topic,
                                    .id = item->name.id,
                                    .status = item->has_ended ? item->status : QUEUE_CANCELLED,
                                    .job = has_job ? &item->reply->jobs[0] : NULL};
    }
    wait_leave(wait);
    wait->done(wait->owner, wait->tag, jobs, count);
    if (jobs != few)
        free(jobs);
    wait_close(wait);
}

/* Copies the job of a reply. If the wait continues, its result and body are counted, and left out without room for them. */
static void item_keep(struct ends_item *item, const struct queue_reply *reply, bool continues)
{
    const struct ends *ends = item->wait->ends;
    struct queue_job job = reply->jobs[0];
    struct queue_end end = {0};
    struct queue_reply kept = {.status = reply->status, .jobs = &job, .job_count = 1};
    if (job.end) {
        end = *job.end;
        job.end = &end;
    }
    size_t bytes = job.job.body.len + end.result.len;
    if (continues && bytes && ends->count_bytes) {
        if (ends->count_bytes(ends->count_ctx, (int64_t)bytes)) {
            item->counted = bytes;
        } else {
            end.omitted_bytes = end.result.len;
            job.job.body = end.result = (struct slice){0};
            end.has_body = false;
        }
    }
    item->reply = copy_reply(&kept);
}

static void on_end(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct ends_item *item = owner;
    struct ends_wait *wait = item->wait;
    (void)tag;
    assert(item->is_open);
    item->is_open = false;
    wait->open--;
    if (!wait->place) { /* over */
        if (!wait->open && !wait->is_pushing)
            wait_free(wait);
        return;
    }
    item->has_ended = reply->status != QUEUE_CANCELLED;
    item->status =
        wait->is_known && reply->status == QUEUE_NOT_FOUND ? QUEUE_EXISTED : reply->status;
    wait->ended += item->has_ended && item->status != QUEUE_NOT_FOUND;
    bool is_over = !wait->open || (wait->any && wait->ended > 0);
    if (reply->job_count) {
        item_keep(item, reply, !is_over);
        if (!item->reply)
            item->status = QUEUE_NO_MEMORY;
    }
    if (is_over)
        wait_finish(wait);
}

/* ---- beginning ---- */

static struct ends_wait *wait_new(struct ends *ends, const struct ends_order *order, int64_t now_ms)
{
    size_t text = 0;
    assert(order->count >= 1 && order->count <= ENDS_JOBS_MAX);
    if (ends->is_drained || ends->due.count >= ends->waiting_max ||
        !due_waits_reserve(&ends->due, ends->due.count + 1))
        return NULL;
    for (size_t i = 0; i < order->count; i++)
        text += order->names[i].topic.len + order->names[i].id.len;
    struct ends_wait *wait = calloc(1, sizeof *wait + order->count * sizeof wait->items[0] + text);
    if (!wait)
        return NULL;
    *wait = (struct ends_wait){.ends = ends,
                               .until_ms = now_ms + order->wait_ms,
                               .count = order->count,
                               .open = order->count,
                               .any = order->any,
                               .done = order->done,
                               .owner = order->owner,
                               .tag = order->tag};
    char *at = (char *)&wait->items[order->count];
    for (size_t i = 0; i < order->count; i++) {
        const struct queue_find *name = &order->names[i];
        struct ends_item *item = &wait->items[i];
        *item = (struct ends_item){.wait = wait, .is_open = true};
        item->reply_to =
            (struct queue_reply_to){.done = on_end, .owner = item, .caller = order->caller};
        memcpy(at, name->topic.at, name->topic.len);
        memcpy(at + name->topic.len, name->id.at, name->id.len);
        item->name.topic = slice_make(at, name->topic.len);
        item->name.id = slice_make(at + name->topic.len, name->id.len);
        at += name->topic.len + name->id.len;
    }
    list_add_last(&ends->waits, &wait->list);
    (void)due_waits_add(&ends->due, (struct due_wait){wait->until_ms, wait});
    return wait;
}

struct ends_wait *ends_wait(struct ends *ends, const struct ends_order *order, int64_t now_ms)
{
    struct ends_wait *wait = wait_new(ends, order, now_ms);
    if (!wait)
        return NULL;
    for (size_t i = 0; i < wait->count; i++) {
        const struct ends_item *item = &wait->items[i];
        queue_await(ends->queue, item->name.topic, item->name.id, NULL, item->reply_to);
    }
    return wait;
}

struct ends_wait *ends_wait_push(struct ends *ends, const struct ends_order *order, int64_t now_ms,
                                 const struct queue_reply_to **ended)
{
    struct ends_wait *wait = wait_new(ends, order, now_ms);
    if (!wait)
        return NULL;
    assert(wait->count == 1);
    wait->is_pushing = true;
    *ended = &wait->items[0].reply_to;
    return wait;
}

void ends_pushed(struct ends_wait *wait, bool awaits)
{
    wait->is_pushing = false;
    if (!awaits) { /* no reply comes */
        wait->open = 0;
        wait->items[0].is_open = false;
        if (wait->place)
            wait_leave(wait);
        wait_free(wait);
    } else if (!wait->place) { /* it ended before the push was carried out */
        wait_close(wait);
    } else if (wait->is_late) {
        wait_finish(wait);
    }
}

void ends_pushed_before(struct ends_wait *wait)
{
    struct ends_item *item = wait->items;
    wait->is_known = true;
    if (wait->place && !wait->is_late) {
        wait->is_pushing = false;
        queue_await(wait->ends->queue, item->name.topic, item->name.id, NULL, item->reply_to);
        return;
    }
    wait->open = 0; /* no reply comes */
    item->is_open = false;
    ends_pushed(wait, wait->place);
}

void ends_end(struct ends_wait *wait)
{
    struct due_waits *due = &wait->ends->due;
    if (!wait->is_pushing) {
        wait_finish(wait);
        return;
    }
    due_waits_remove(due, wait->place - 1);
    wait->is_late = true; /* the reply of the push ends it */
    (void)due_waits_add(due, (struct due_wait){INT64_MAX, wait});
}

void ends_cancel(struct ends_wait *wait)
{
    wait_leave(wait);
    wait_close(wait);
}

/* ---- time ---- */

int64_t ends_next_ms(const struct ends *ends)
{
    return ends->due.count ? ends->due.at[0].until_ms : INT64_MAX;
}

void ends_expire(struct ends *ends, int64_t now_ms)
{
    while (ends->due.count && ends->due.at[0].until_ms <= now_ms)
        ends_end(ends->due.at[0].wait);
}

void ends_drain(struct ends *ends)
{
    ends->is_drained = true;
    ends_expire(ends, INT64_MAX - 1);
}

size_t ends_count(const struct ends *ends)
{
    return ends->due.count;
}
