#include "queue/door.h"
#include "queue/waiter_private.h"

#include <assert.h>
#include <stdlib.h>

enum { WINDOW_MAX = 32, RETURN_BATCH = 32 };

static const struct queue_reply empty_reply = {.status = QUEUE_OK};
static const struct queue_reply no_memory_reply = {.status = QUEUE_NO_MEMORY};

static void take_replied(void *owner, uint64_t tag, const struct queue_reply *reply);

/* ---- making and forgetting a waiter ---- */

static uint32_t id_of(uint64_t handle)
{
    return (uint32_t)handle;
}

static struct waiter *find_waiter(const struct waiters *waiters, uint64_t handle)
{
    struct waiter *waiter;

    if (id_of(handle) == 0 || id_of(handle) > waiters->slab.top)
        return NULL;
    waiter = slab_at(&waiters->slab, id_of(handle));
    return waiter->handle == handle ? waiter : NULL;
}

static struct waiter *add_waiter(struct waiters *waiters)
{
    uint32_t id = slab_add(&waiters->slab);
    struct waiter *waiter;

    if (!id)
        return NULL;
    waiter = slab_at(&waiters->slab, id);
    waiter->handle = (uint64_t)++waiters->generation << 32 | id;
    list_init(&waiter->failed);
    return waiter;
}

static void leave_lines(struct waiters *waiters, struct waiter *waiter)
{
    for (uint32_t i = 0; i < waiter->slot_count; i++) {
        struct slot *slot = &waiter->slots[i];

        assert(!slot->asked);
        list_remove(&slot->node);
        list_remove(&slot->line->todo);
        list_add_last(&waiters->todo, &slot->line->todo);
    }
    if (waiter->slots != &waiter->only)
        free(waiter->slots);
    waiter->slots = NULL;
    waiter->slot_count = 0;
}

static void remove_waiter(struct waiters *waiters, struct waiter *waiter)
{
    assert(!waiter->asking);
    if (waiter->slot_count > 0 && !waiter->cancelled)
        waiters->waiting--;
    leave_lines(waiters, waiter);
    waiter_heap_remove(waiters, waiter);
    list_remove(&waiter->failed);
    slab_remove(&waiters->slab, id_of(waiter->handle));
}

/* Tells the taker last, when nothing of the waiter is left: the taker may take again from there. */
static void finish(struct waiters *waiters, struct waiter *waiter, const struct queue_reply *reply,
                   bool refused)
{
    struct waiter gone = *waiter;

    remove_waiter(waiters, waiter);
    if (!gone.cancelled)
        gone.done(gone.owner, gone.tag, reply, refused);
}

/* ---- asking the queue ---- */

static struct slot *first_not_asked(const struct line *line)
{
    for (struct list *node = line->slots.next; node != &line->slots; node = node->next) {
        struct slot *slot = list_entry(node, struct slot, node);

        if (!slot->asked)
            return slot;
    }
    return NULL;
}

static bool is_its_turn(const struct slot *slot)
{
    const struct line *line = slot->line;

    return line->may_have && line->asking < line->window && first_not_asked(line) == slot;
}

/* The waiters are a door of their own: a take that goes through was checked when it came, which is what
 * `status` says. */
static void send_take(struct waiters *waiters, struct waiter *waiter, const struct queue_take *take,
                      enum queue_status status)
{
    struct queue_reply_to to = {take_replied, waiters, waiter->handle};
    struct command command = {.kind = COMMAND_TAKE, .status = status, .take = *take};

    waiter->asking = true;
    waiters->asking++;
    waiters->queue->ops->submit(waiters->queue, &command, to);
}

/* Asks for all its topics where it is the next to be served. */
static void ask(struct waiters *waiters, struct waiter *waiter)
{
    struct slice topics[QUEUE_TAKE_TOPICS_MAX];
    struct queue_take take = {.topics = topics, .max = waiter->max, .lease_ms = waiter->lease_ms};

    for (uint32_t i = 0; i < waiter->slot_count; i++) {
        struct slot *slot = &waiter->slots[i];

        if (!is_its_turn(slot))
            continue;
        slot->asked = true;
        slot->asked_news = slot->line->news;
        slot->line->asking++;
        topics[take.topic_count++] = slot->line->name;
    }
    assert(take.topic_count > 0);
    send_take(waiters, waiter, &take, QUEUE_OK);
}

/* Lets as many ask as may. One that is asking elsewhere holds its place: its answer comes back to
 * this line. */
static void go_on(struct waiters *waiters, struct line *line)
{
    struct slot *slot;

    while (line->may_have && line->asking < line->window) {
        slot = first_not_asked(line);
        if (!slot || slot->waiter->asking)
            return;
        ask(waiters, slot->waiter);
    }
}

static void run_todo(struct waiters *waiters)
{
    struct queue *queue = waiters->queue;

    while (!list_is_empty(&waiters->todo)) {
        struct line *line = list_entry(waiters->todo.next, struct line, todo);

        list_remove(&line->todo);
        if (!list_is_empty(&line->slots)) {
            go_on(waiters, line);
            continue;
        }
        if (line->watched)
            queue_watch(queue, line->name, false);
        waiter_line_remove(waiters, line);
    }
}

/* ---- the queue answers ---- */

static void nobody_minds(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

static void give_back(struct queue *queue, const struct queue_reply *reply)
{
    struct queue_answer answers[RETURN_BATCH];
    struct queue_reply_to to = {nobody_minds, NULL, 0};
    size_t count = 0;

    for (size_t i = 0; i < reply->job_count; i++) {
        answers[count++] =
            (struct queue_answer){.verb = QUEUE_RETURN, .lease = reply->jobs[i].lease};
        if (count == RETURN_BATCH || i + 1 == reply->job_count) {
            queue_answer(queue, answers, count, to);
            count = 0;
        }
    }
}

static void line_had_none(struct waiters *waiters, struct slot *slot)
{
    struct line *line = slot->line;

    line->window = 1;
    if (slot->asked_news != line->news)
        return;
    line->may_have = false;
    if (!line->watched) {
        line->watched = true;
        queue_watch(waiters->queue, line->name, true);
    }
}

static void line_had_some(struct line *line)
{
    line->may_have = true;
    line->window = line->window * 2 < WINDOW_MAX ? line->window * 2 : WINDOW_MAX;
}

/* A refusal says nothing about the line: the next one asks for itself. */
static void settle_lines(struct waiters *waiters, struct waiter *waiter,
                         const struct queue_reply *reply)
{
    for (uint32_t i = 0; i < waiter->slot_count; i++) {
        struct slot *slot = &waiter->slots[i];

        list_remove(&slot->line->todo);
        list_add_last(&waiters->todo, &slot->line->todo);
        if (!slot->asked)
            continue;
        slot->asked = false;
        slot->line->asking--;
        if (reply->job_count > 0)
            line_had_some(slot->line);
        else if (reply->status == QUEUE_OK)
            line_had_none(waiters, slot);
    }
}

static void take_replied(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct waiters *waiters = owner;
    struct waiter *waiter = find_waiter(waiters, tag);
    bool is_empty = reply->status == QUEUE_OK && reply->job_count == 0;

    assert(waiter && waiter->asking);
    waiter->asking = false;
    waiters->asking--;
    settle_lines(waiters, waiter, reply);
    if (waiter->cancelled)
        give_back(waiters->queue, reply);
    if (!is_empty || waiter->over || waiter->cancelled || waiter->slot_count == 0)
        finish(waiters, waiter, reply, is_empty && waiter->crowded_out);
    run_todo(waiters);
}

static void topic_is_ready(void *owner, struct slice topic)
{
    struct waiters *waiters = owner;
    struct line *line = waiter_line_find(waiters, topic);

    if (!line)
        return;
    line->news++;
    line->may_have = true;
    list_remove(&line->todo);
    list_add_last(&waiters->todo, &line->todo);
    run_todo(waiters);
}

static void nobody_waits(void *owner, struct slice topic)
{
    (void)owner;
    (void)topic;
}

/* ---- taking ---- */

static bool join(struct waiters *waiters, struct waiter *waiter, struct slice topic)
{
    struct line *line = waiter_line_need(waiters, topic);
    struct slot *slot = &waiter->slots[waiter->slot_count];

    if (!line)
        return false;
    if (!list_is_empty(&line->slots) &&
        list_entry(line->slots.prev, struct slot, node)->waiter == waiter)
        return true; /* named twice */
    *slot = (struct slot){.line = line, .waiter = waiter};
    list_add_last(&line->slots, &slot->node);
    list_remove(&line->todo);
    list_add_last(&waiters->todo, &line->todo);
    waiter->slot_count++;
    return true;
}

/* False: out of memory, and it stands in no line. */
static bool join_lines(struct waiters *waiters, struct waiter *waiter,
                       const struct queue_take *take)
{
    waiter->slots =
        take->topic_count == 1 ? &waiter->only : calloc(take->topic_count, sizeof(struct slot));
    if (!waiter->slots || !waiter_heap_reserve(waiters))
        goto fail;
    for (size_t i = 0; i < take->topic_count; i++)
        if (!join(waiters, waiter, take->topics[i]))
            goto fail;
    waiter_heap_add(waiters, waiter);
    waiters->waiting++;
    return true;

fail:
    leave_lines(waiters, waiter);
    return false;
}

static int64_t later(int64_t now_ms, int64_t wait_ms)
{
    return wait_ms < INT64_MAX - now_ms ? now_ms + wait_ms : INT64_MAX - 1;
}

uint64_t waiter_take(struct waiters *waiters, const struct queue_take *take, int64_t wait_ms,
                     int64_t now_ms, waiter_done *done, void *owner, uint64_t tag)
{
    struct waiter *waiter = add_waiter(waiters);
    uint64_t handle;
    const char *detail;
    enum queue_status status = queue_check_take(take, &detail);

    if (!waiter)
        return 0;
    handle = waiter->handle;
    waiters->now_ms = now_ms;
    waiter->done = done;
    waiter->owner = owner;
    waiter->tag = tag;
    waiter->max = take->max;
    waiter->lease_ms = take->lease_ms;
    waiter->deadline_ms = later(now_ms, wait_ms);
    /* What the queue will refuse is better refused at once than after the wait. */
    if (wait_ms <= 0 || waiters->draining || status != QUEUE_OK) {
        send_take(waiters, waiter, take, status);
    } else if (waiters->waiting >= waiters->waiting_max) {
        waiter->crowded_out = true;
        send_take(waiters, waiter, take, status);
    } else if (!join_lines(waiters, waiter, take)) {
        list_add_last(&waiters->failed, &waiter->failed);
    }
    run_todo(waiters);
    return handle;
}

void waiter_cancel(struct waiters *waiters, uint64_t handle)
{
    struct waiter *waiter = find_waiter(waiters, handle);

    if (!waiter || waiter->cancelled)
        return;
    if (waiter->slot_count > 0)
        waiters->waiting--;
    waiter->cancelled = true;
    waiter_heap_remove(waiters, waiter);
    if (!waiter->asking)
        remove_waiter(waiters, waiter);
    run_todo(waiters);
}

/* ---- time ---- */

int64_t waiters_next_ms(const struct waiters *waiters)
{
    const struct waiter *first = waiter_heap_first(waiters);

    if (!list_is_empty(&waiters->failed) || (waiters->draining && first))
        return waiters->now_ms;
    return first ? first->deadline_ms : INT64_MAX;
}

static void end_wait(struct waiters *waiters, struct waiter *waiter)
{
    waiter_heap_remove(waiters, waiter);
    if (waiter->asking)
        waiter->over = true;
    else
        finish(waiters, waiter, &empty_reply, false);
}

void waiters_expire(struct waiters *waiters, int64_t now_ms)
{
    struct waiter *first;

    waiters->now_ms = now_ms;
    while (!list_is_empty(&waiters->failed))
        finish(waiters, list_entry(waiters->failed.next, struct waiter, failed), &no_memory_reply,
               false);
    while ((first = waiter_heap_first(waiters)) &&
           (first->deadline_ms <= now_ms || waiters->draining))
        end_wait(waiters, first);
    run_todo(waiters);
}

void waiters_drain(struct waiters *waiters)
{
    waiters->draining = true;
}

size_t waiters_count(const struct waiters *waiters)
{
    return waiters->waiting;
}

/* ---- the whole ---- */

/* From the first chunk on, thousands of takes need no memory to be remembered, if only to be
 * refused. */
static bool reserve_some(struct waiters *waiters)
{
    uint32_t id;

    slab_init(&waiters->slab, sizeof(struct waiter));
    id = slab_add(&waiters->slab);
    if (id)
        slab_remove(&waiters->slab, id);
    return id != 0;
}

struct waiters *waiters_new(struct queue *queue, size_t waiting_max)
{
    struct waiters *waiters = calloc(1, sizeof *waiters);

    if (!waiters)
        return NULL;
    if (!waiter_lines_init(waiters) || !reserve_some(waiters)) {
        slab_fini(&waiters->slab);
        waiter_lines_fini(waiters);
        free(waiters);
        return NULL;
    }
    waiters->queue = queue;
    waiters->waiting_max = waiting_max;
    list_init(&waiters->todo);
    list_init(&waiters->failed);
    queue->on_ready_owner = waiters;
    queue->on_ready = topic_is_ready;
    return waiters;
}

void waiters_free(struct waiters *waiters)
{
    if (!waiters)
        return;
    assert(waiters->asking == 0);
    waiters_drain(waiters);
    waiters_expire(waiters, waiters->now_ms);
    assert(waiters->waiting == 0 && waiters->asking == 0);
    waiters->queue->on_ready = nobody_waits;
    waiters->queue->on_ready_owner = NULL;
    waiter_lines_fini(waiters);
    free(waiters->heap);
    slab_fini(&waiters->slab);
    free(waiters);
}
