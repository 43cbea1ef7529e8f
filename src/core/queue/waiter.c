/* The waiters of a reactor: lines of takes that wait for a topic, and a heap of the ends of their waits. */
#include "queue/waiter.h"

#include "base/heap.h"
#include "base/list.h"
#include "base/slab.h"
#include "base/table.h"
#include "queue/door.h"

#include <assert.h>
#include <stdlib.h>

enum {
    WINDOW_MAX = 32,
    RETURN_BATCH = 32,
    KEPT_MAX = 1024 /* empty lines */
};

/*
 * The line of takes that wait for one topic, in order of arrival. It exists while it is not empty, and if it is
 * watched, for `keep_ms` longer: the next take of the same worker then waits without a call of the queue.
 *
 * `may_have`: the queue may have jobs for the line. It is cleared only by an empty reply, and only in a watched line.
 * So either the line may take immediately, or on_ready will be called.
 *
 * `window` limits how many takes of a line are in progress. A wake-up begins with one take, for the head of the line.
 * Every reply with jobs doubles the window, and an empty one resets it. So a single job does not cause a stampede,
 * and a backlog is not handed out one by one.
 */
struct line {
    struct table_entry entry; /* in waiters.lines, by name */
    struct list todo;         /* in waiters.todo, or unlinked */
    struct list slots;        /* of struct slot, in order of arrival */
    struct list kept;         /* empty line: in waiters.kept; else unlinked */
    int64_t kept_until_ms;
    uint64_t notifications;  /* number of calls of on_ready */
    uint32_t asking;         /* its takes in progress */
    uint32_t window;         /* and their maximum */
    uint32_t count, unnamed; /* its slots, and those without a consumer's name */
    bool may_have;
    bool watched;
    char name[];
};

/* The place of a waiter in a line. */
struct slot {
    struct list node;
    struct line *line;
    struct waiter *waiter;
    uint64_t asked_notifications; /* line.notifications when the take was sent */
    bool asked;                   /* the waiter's take in progress includes this line */
};

/* A take that was not answered yet. */
struct waiter {
    uint32_t slab_link; /* used by the slab */
    uint32_t heap_at;   /* place in waiters.deadlines, from 1; 0: not in it */
    uint64_t handle;
    waiter_done *done;
    void *owner;
    uint64_t tag;
    int64_t deadline_ms;
    int64_t lease_ms;
    uint32_t max;
    enum job_way way;
    bool by_priority;
    uint8_t consumer_bytes;
    char consumer[JOB_CONSUMER_BYTES_MAX];
    uint32_t slot_count; /* 0: it does not wait */
    struct slot *slots;  /* in the order of its topics */
    struct slot only;    /* storage for the common case of one topic */
    struct list failed;  /* in waiters.failed, or unlinked */
    bool asking;         /* it has a take in progress */
    bool over;           /* its wait ended meanwhile: the reply to the take is its answer */
    bool cancelled;      /* the answer is not needed */
    bool over_limit;     /* it would wait, but the limit was reached */
    bool is_own;         /* for work of tarry itself: not counted and not limited */
};

static inline bool ends_before(struct waiter *const *a, struct waiter *const *b)
{
    return (*a)->deadline_ms < (*b)->deadline_ms;
}

static inline void place_deadline(struct waiter **waiter, size_t index)
{
    (*waiter)->heap_at = (uint32_t)index + 1;
}

HEAP_DECLARE(deadlines, struct waiter *, ends_before, place_deadline)
TABLE_DECLARE(lines, struct line, entry)

struct waiters {
    struct queue *queue;
    struct slab slab; /* of struct waiter */
    uint32_t generation;
    size_t waiting_max;
    size_t waiting; /* with slots, not cancelled, and not for work of tarry itself */
    size_t asking;
    int64_t now_ms; /* from the last call */
    bool draining;
    struct list todo;   /* lines to serve */
    struct list failed; /* waiters to be answered with out of memory */
    struct list kept;   /* empty lines, by the end of their time */
    size_t kept_count;
    int64_t keep_ms;
    int64_t (*keep_clock)(void);
    struct lines lines; /* by topic */
    struct deadlines deadlines;
};

static const struct queue_reply empty_reply = {.status = QUEUE_OK};
static const struct queue_reply no_memory_reply = {.status = QUEUE_NO_MEMORY};

static void take_replied(void *owner, uint64_t tag, const struct queue_reply *reply);

/* ---- lines ---- */

/* Returns the line of a topic, and creates it if necessary. NULL: out of memory. */
static struct line *need_line(struct waiters *waiters, struct slice topic)
{
    struct line *line = lines_find(&waiters->lines, topic);

    if (line)
        return line;
    line = calloc(1, sizeof *line + topic.len);
    if (!line)
        return NULL;
    memcpy(line->name, topic.at, topic.len);
    line->entry.key = slice_make(line->name, topic.len);
    line->window = 1;
    line->may_have = true;
    list_init(&line->todo);
    list_init(&line->slots);
    list_init(&line->kept);
    lines_add(&waiters->lines, line);
    return line;
}

/* Removes a line from the kept ones. */
static void unkeep_line(struct waiters *waiters, struct line *line)
{
    waiters->kept_count -= !list_is_empty(&line->kept);
    list_remove(&line->kept);
}

/* Removes an empty line. */
static void remove_line(struct waiters *waiters, struct line *line)
{
    assert(list_is_empty(&line->slots) && line->asking == 0);
    unkeep_line(waiters, line);
    if (line->watched)
        queue_watch(waiters->queue, line->entry.key, false);
    lines_remove(&waiters->lines, line);
    list_remove(&line->todo);
    free(line);
}

/* ---- deadlines ---- */

static struct waiter *first_deadline(const struct waiters *waiters)
{
    return waiters->deadlines.count ? waiters->deadlines.at[0] : NULL;
}

/* Removes the deadline, if there is one. */
static void remove_deadline(struct waiters *waiters, struct waiter *waiter)
{
    if (waiter->heap_at)
        deadlines_remove(&waiters->deadlines, waiter->heap_at - 1);
    waiter->heap_at = 0;
}

/* ---- creation and removal of a waiter ---- */

static uint32_t id_of(uint64_t handle)
{
    return (uint32_t)handle;
}

/* Returns the waiter of a handle; NULL: it was answered. */
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

/* Removes a waiter from all its lines, and schedules the lines for those behind it. */
static void leave_lines(struct waiters *waiters, struct waiter *waiter)
{
    for (uint32_t i = 0; i < waiter->slot_count; i++) {
        struct slot *slot = &waiter->slots[i];

        assert(!slot->asked);
        list_remove(&slot->node);
        slot->line->count--;
        slot->line->unnamed -= !waiter->consumer_bytes;
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
    if (waiter->slot_count > 0 && !waiter->cancelled && !waiter->is_own)
        waiters->waiting--;
    leave_lines(waiters, waiter);
    remove_deadline(waiters, waiter);
    list_remove(&waiter->failed);
    slab_remove(&waiters->slab, id_of(waiter->handle));
}

/* Removes a waiter, then answers its taker, which may take again in the callback. */
static void finish_waiter(struct waiters *waiters, struct waiter *waiter,
                          const struct queue_reply *reply, bool refused)
{
    struct waiter gone = *waiter;

    remove_waiter(waiters, waiter);
    if (!gone.cancelled)
        gone.done(gone.owner, gone.tag, reply, refused);
}

/* ---- takes from the queue ---- */

static struct slot *first_not_asked(const struct line *line)
{
    for (struct list *node = line->slots.next; node != &line->slots; node = node->next) {
        struct slot *slot = list_entry(node, struct slot, node);

        if (!slot->asked)
            return slot;
    }
    return NULL;
}

/* Returns whether this waiter is the next for which the line may take. */
static bool is_next_in_line(const struct slot *slot)
{
    const struct line *line = slot->line;

    return line->may_have && line->asking < line->window && first_not_asked(line) == slot;
}

/* Sends a take past the door, because it was checked on arrival; `status` is the result. */
static void send_take(struct waiters *waiters, struct waiter *waiter, const struct queue_take *take,
                      enum queue_status status)
{
    struct queue_reply_to to = {.done = take_replied, .owner = waiters, .tag = waiter->handle};
    struct command command = {.kind = COMMAND_TAKE, .status = status, .take = *take};

    waiter->asking = true;
    waiters->asking++;
    waiters->queue->ops->submit(waiters->queue, &command, to);
}

/* Takes from all topics for which the waiter is next in line. */
static void ask_queue(struct waiters *waiters, struct waiter *waiter)
{
    struct slice topics[QUEUE_TAKE_TOPICS_MAX];
    struct queue_take take = {.topics = topics,
                              .by_priority = waiter->by_priority,
                              .max = waiter->max,
                              .lease_ms = waiter->lease_ms,
                              .consumer = slice_make(waiter->consumer, waiter->consumer_bytes),
                              .way = waiter->way};

    for (uint32_t i = 0; i < waiter->slot_count; i++) {
        struct slot *slot = &waiter->slots[i];

        if (!is_next_in_line(slot))
            continue;
        slot->asked = true;
        slot->asked_notifications = slot->line->notifications;
        slot->line->asking++;
        topics[take.topic_count++] = slot->line->entry.key;
    }
    assert(take.topic_count > 0);
    send_take(waiters, waiter, &take, QUEUE_OK);
}

/* Starts as many takes as the window allows. A waiter that has a take in progress elsewhere keeps its place: its
 * reply returns to this line. */
static void serve_line(struct waiters *waiters, struct line *line)
{
    struct slot *slot;

    while (line->may_have && line->asking < line->window) {
        slot = first_not_asked(line);
        if (!slot || slot->waiter->asking)
            return;
        ask_queue(waiters, slot->waiter);
    }
}

/* Keeps an empty line that was found drained: the next take then waits without a call. Returns false if the line must be removed. */
static bool keep_line(struct waiters *waiters, struct line *line)
{
    if (!list_is_empty(&line->kept))
        return true;
    if (!waiters->keep_ms || waiters->draining || !line->watched || line->may_have ||
        waiters->kept_count == KEPT_MAX)
        return false;
    line->kept_until_ms = waiters->keep_clock() + waiters->keep_ms;
    list_add_last(&waiters->kept, &line->kept);
    waiters->kept_count++;
    return true;
}

/* Serves the lines that have changed, and removes the empty ones. */
static void run_todo(struct waiters *waiters)
{
    while (!list_is_empty(&waiters->todo)) {
        struct line *line = list_entry(waiters->todo.next, struct line, todo);

        list_remove(&line->todo);
        if (!list_is_empty(&line->slots)) {
            serve_line(waiters, line);
        } else if (!keep_line(waiters, line)) {
            remove_line(waiters, line);
        }
    }
}

/* ---- replies of the queue ---- */

static void nobody_minds(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

/* Returns the jobs of a take whose taker is gone. */
static void return_jobs(struct queue *queue, const struct queue_reply *reply)
{
    struct queue_answer answers[RETURN_BATCH];
    struct queue_reply_to to = {.done = nobody_minds};
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

/* Handles a take that found no job for this line, or left none in it: the line is watched from now on, unless jobs
 * became ready meanwhile. */
static void line_is_empty(struct waiters *waiters, struct slot *slot)
{
    struct line *line = slot->line;

    line->window = 1;
    if (slot->asked_notifications != line->notifications)
        return;
    line->may_have = false;
    if (!line->watched) {
        line->watched = true;
        queue_watch(waiters->queue, line->entry.key, true);
    }
}

static void line_had_some(struct line *line)
{
    line->may_have = true;
    line->window = line->window * 2 < WINDOW_MAX ? line->window * 2 : WINDOW_MAX;
}

/* Updates the lines of a take. A rejection shows nothing about the line: the next waiter sends its own take. */
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
        if (reply->job_count > 0 && !reply->drained)
            line_had_some(slot->line);
        else if (reply->status == QUEUE_OK)
            line_is_empty(waiters, slot);
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
        return_jobs(waiters->queue, reply);
    if (!is_empty || waiter->over || waiter->cancelled || waiter->slot_count == 0)
        finish_waiter(waiters, waiter, reply, is_empty && waiter->over_limit);
    run_todo(waiters);
}

static void line_has_notification(struct waiters *waiters, struct line *line)
{
    line->notifications++;
    line->may_have = true;
    list_remove(&line->todo);
    list_add_last(&waiters->todo, &line->todo);
}

/* Handles a notification (on_ready) that a watched topic, or any of them, may have ready jobs. */
static void topic_is_ready(void *owner, struct slice topic)
{
    struct waiters *waiters = owner;
    struct line *line = topic.len ? lines_find(&waiters->lines, topic) : NULL;

    if (line)
        line_has_notification(waiters, line);
    for (line = topic.len ? NULL : lines_first(&waiters->lines); line;
         line = lines_next(&waiters->lines, line))
        line_has_notification(waiters, line);
    run_todo(waiters);
}

static void nobody_waits(void *owner, struct slice topic)
{
    (void)owner;
    (void)topic;
}

/* ---- takes ---- */

/* Puts a waiter at the end of the line of a topic. False: out of memory. */
static bool join_line(struct waiters *waiters, struct waiter *waiter, struct slice topic)
{
    struct line *line = need_line(waiters, topic);
    struct slot *slot = &waiter->slots[waiter->slot_count];

    if (!line)
        return false;
    if (!list_is_empty(&line->slots) &&
        list_entry(line->slots.prev, struct slot, node)->waiter == waiter)
        return true; /* the topic was named twice */
    unkeep_line(waiters, line);
    *slot = (struct slot){.line = line, .waiter = waiter};
    list_add_last(&line->slots, &slot->node);
    line->count++;
    line->unnamed += !waiter->consumer_bytes;
    list_remove(&line->todo);
    list_add_last(&waiters->todo, &line->todo);
    waiter->slot_count++;
    return true;
}

/* Puts a waiter into its lines. False: out of memory, and it is in no line. */
static bool join_lines(struct waiters *waiters, struct waiter *waiter,
                       const struct queue_take *take)
{
    waiter->slots =
        take->topic_count == 1 ? &waiter->only : calloc(take->topic_count, sizeof(struct slot));
    if (!waiter->slots || !deadlines_reserve(&waiters->deadlines, waiters->deadlines.count + 1))
        goto fail;
    for (size_t i = 0; i < take->topic_count; i++)
        if (!join_line(waiters, waiter, take->topics[i]))
            goto fail;
    (void)deadlines_add(&waiters->deadlines, waiter); /* room was reserved */
    if (!waiter->is_own)
        waiters->waiting++;
    return true;

fail:
    leave_lines(waiters, waiter);
    return false;
}

static int64_t deadline_of(int64_t now_ms, int64_t wait_ms)
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
    waiter->way = take->way;
    waiter->is_own = take->topic_count == 1 && job_topic_is_own(take->topics[0]);
    waiter->by_priority = take->by_priority;
    if (status == QUEUE_OK && take->consumer.len) {
        waiter->consumer_bytes = (uint8_t)take->consumer.len;
        memcpy(waiter->consumer, take->consumer.at, take->consumer.len);
    }
    waiter->deadline_ms = deadline_of(now_ms, wait_ms);
    /* A take that the queue will reject is rejected now rather than after the wait. */
    if (wait_ms <= 0 || waiters->draining || status != QUEUE_OK || take->id.len) {
        send_take(waiters, waiter, take, status);
    } else if (waiters->waiting >= waiters->waiting_max && !waiter->is_own) {
        waiter->over_limit = true;
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
    if (waiter->slot_count > 0 && !waiter->is_own)
        waiters->waiting--;
    waiter->cancelled = true;
    remove_deadline(waiters, waiter);
    if (!waiter->asking)
        remove_waiter(waiters, waiter);
    run_todo(waiters);
}

/* ---- time ---- */

static struct line *first_kept(const struct waiters *waiters)
{
    return list_is_empty(&waiters->kept) ? NULL : list_entry(waiters->kept.next, struct line, kept);
}

int64_t waiters_next_ms(const struct waiters *waiters)
{
    const struct waiter *first = first_deadline(waiters);
    const struct line *kept = first_kept(waiters);
    int64_t next_ms = first ? first->deadline_ms : INT64_MAX;

    if (!list_is_empty(&waiters->failed) || (waiters->draining && (first || kept)))
        return waiters->now_ms;
    return kept && kept->kept_until_ms < next_ms ? kept->kept_until_ms : next_ms;
}

/* Ends a wait: it is answered with no jobs, or with the reply to the take in progress. */
static void end_wait(struct waiters *waiters, struct waiter *waiter)
{
    remove_deadline(waiters, waiter);
    if (waiter->asking)
        waiter->over = true;
    else
        finish_waiter(waiters, waiter, &empty_reply, false);
}

void waiters_expire(struct waiters *waiters, int64_t now_ms)
{
    struct waiter *first;
    struct line *kept;

    waiters->now_ms = now_ms;
    while (!list_is_empty(&waiters->failed))
        finish_waiter(waiters, list_entry(waiters->failed.next, struct waiter, failed),
                      &no_memory_reply, false);
    while ((first = first_deadline(waiters)) && (first->deadline_ms <= now_ms || waiters->draining))
        end_wait(waiters, first);
    run_todo(waiters);
    while ((kept = first_kept(waiters)) && (kept->kept_until_ms <= now_ms || waiters->draining))
        remove_line(waiters, kept);
}

void waiters_keep(struct waiters *waiters, int64_t keep_ms, int64_t (*clock)(void))
{
    waiters->keep_ms = keep_ms;
    waiters->keep_clock = clock;
}

void waiters_drain(struct waiters *waiters)
{
    waiters->draining = true;
}

size_t waiters_count(const struct waiters *waiters)
{
    return waiters->waiting;
}

uint32_t waiters_of_topic(const struct waiters *waiters, struct slice topic, uint32_t *unnamed)
{
    const struct line *line = lines_find(&waiters->lines, topic);

    *unnamed = line ? line->unnamed : 0;
    return line ? line->count : 0;
}

/* ---- lifetime ---- */

/* Allocates the first chunk, so that thousands of takes need no further memory, if only to be rejected. */
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
    if (!reserve_some(waiters)) {
        slab_fini(&waiters->slab);
        free(waiters);
        return NULL;
    }
    waiters->queue = queue;
    waiters->waiting_max = waiting_max;
    list_init(&waiters->todo);
    list_init(&waiters->failed);
    list_init(&waiters->kept);
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
    assert(waiters->lines.table.count == 0);
    lines_fini(&waiters->lines);
    deadlines_fini(&waiters->deadlines);
    slab_fini(&waiters->slab);
    free(waiters);
}
