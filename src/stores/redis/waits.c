#include "redis/waits.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/table.h"
#include "queue/traits.h"
#include "redis/id.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    RENEW_MS = 20000, /* a note in Redis lasts 60 s (common/keeping.lua) */
    MESSAGE_MS = 2000 /* a message may arrive so long after the reply of a later call */
};

enum wait_state {
    WAIT_PUSHED = 1, /* the push is in progress */
    WAIT_ASKED,      /* it is being looked up */
    WAIT_NOTED,      /* nothing is in progress: a message ends it */
    WAIT_READ        /* the job has ended and is being read */
};

/* An end that arrived: the message, and a copy of the job in it. */
struct held_end {
    enum redis_outcome outcome;
    bool has_job;
    int64_t adjust_ms;
    size_t bytes;
    char job[];
};

struct wait {
    struct list list, /* in waits->all */
        same,         /* in awaited->waits */
        gone;         /* in waits->gone, if its job was noted and then not found */
    int64_t gone_ms;  /* until when the message of its end may arrive */
    struct awaited *awaited;
    struct redis_waits *waits;
    struct queue_reply_to reply_to;
    enum wait_state state;
    bool is_over;    /* it has its reply: freed by the reply of the call in progress */
    bool is_noted;   /* it was noted before: an unreachable store does not end it */
    bool is_doubted; /* a message may have been lost while it was looked up */
    struct held_end *held;
};

/* The waits for one job. */
struct awaited {
    struct table_entry entry; /* topic NUL id */
    struct list waits;
    size_t topic_bytes;
    char name[];
};

TABLE_DECLARE(awaited_jobs, struct awaited, entry)

/* A reply to be sent in the next step. */
struct soon {
    struct list list;
    struct queue_reply_to reply_to;
    enum queue_status status;
};

struct redis_waits {
    struct queue queue; /* first: the queue for callers */
    struct queue *below;
    struct awaited_jobs jobs;
    struct list all, soon, pushes, gone; /* gone: by time */
    bool is_stopping;
    int64_t renew_ms;
    size_t calls; /* pushes with waits, and calls about waits, without a reply */
};

static struct redis_waits *waits_of(struct queue *queue)
{
    return (struct redis_waits *)(void *)queue;
}

/* ---- replies ---- */

static void reply_soon(struct redis_waits *waits, enum queue_status status,
                       struct queue_reply_to reply_to)
{
    struct soon *soon = malloc(sizeof *soon);
    assert(soon); /* without memory even for a refusal, the server cannot continue correctly */
    *soon = (struct soon){.reply_to = reply_to, .status = status};
    list_add_last(&waits->soon, &soon->list);
}

/* ---- waits ---- */

static struct slice topic_of(const struct wait *wait)
{
    return slice_make(wait->awaited->name, wait->awaited->topic_bytes);
}

static struct slice id_of(const struct wait *wait)
{
    const struct awaited *awaited = wait->awaited;
    size_t before = awaited->topic_bytes + 1;
    return slice_make(awaited->name + before, awaited->entry.key.len - before);
}

enum { NAME_BYTES_MAX = JOB_TOPIC_BYTES_MAX + 1 + JOB_ID_BYTES_MAX };

static struct slice name_write(char room[NAME_BYTES_MAX], struct slice topic, struct slice id)
{
    memcpy(room, topic.at, topic.len);
    room[topic.len] = 0;
    memcpy(room + topic.len + 1, id.at, id.len);
    return slice_make(room, topic.len + 1 + id.len);
}

static struct awaited *awaited_find(struct redis_waits *waits, struct slice topic, struct slice id)
{
    char room[NAME_BYTES_MAX];
    return waits->jobs.table.count ? awaited_jobs_find(&waits->jobs, name_write(room, topic, id))
                                   : NULL;
}

static struct awaited *awaited_need(struct redis_waits *waits, struct slice topic, struct slice id)
{
    char room[NAME_BYTES_MAX];
    struct slice name = name_write(room, topic, id);
    struct awaited *awaited = awaited_jobs_find(&waits->jobs, name);
    if (awaited || !(awaited = calloc(1, sizeof *awaited + name.len)))
        return awaited;
    memcpy(awaited->name, name.at, name.len);
    awaited->topic_bytes = topic.len;
    awaited->entry.key = slice_make(awaited->name, name.len);
    list_init(&awaited->waits);
    awaited_jobs_add(&waits->jobs, awaited);
    return awaited;
}

/* Returns NULL if memory runs out. */
static struct wait *wait_new(struct redis_waits *waits, struct slice topic, struct slice id,
                             struct queue_reply_to reply_to, enum wait_state state)
{
    struct wait *wait = calloc(1, sizeof *wait);
    struct awaited *awaited = wait ? awaited_need(waits, topic, id) : NULL;
    if (!awaited) {
        free(wait);
        return NULL;
    }
    *wait = (struct wait){.awaited = awaited, .waits = waits, .reply_to = reply_to, .state = state};
    if (list_is_empty(&waits->all))
        waits->renew_ms = clock_inner_ms() + RENEW_MS;
    list_add_last(&waits->all, &wait->list);
    list_add_last(&awaited->waits, &wait->same);
    list_init(&wait->gone);
    return wait;
}

static void wait_free(struct wait *wait)
{
    struct awaited *awaited = wait->awaited;
    list_remove(&wait->list);
    list_remove(&wait->same);
    list_remove(&wait->gone);
    if (list_is_empty(&awaited->waits)) {
        awaited_jobs_remove(&wait->waits->jobs, awaited);
        free(awaited);
    }
    free(wait->held);
    free(wait);
}

/* Marks that the wait has its reply, and frees it unless a call about it is in progress. */
static void wait_end(struct wait *wait)
{
    wait->is_over = true;
    if (wait->state == WAIT_NOTED)
        wait_free(wait);
}

/* Replies and frees the wait. No call about it is in progress. */
static void wait_reply(struct wait *wait, const struct queue_reply *reply)
{
    struct queue_reply_to to = wait->reply_to;
    wait->state = WAIT_NOTED;
    wait->reply_to = (struct queue_reply_to){0};
    to.done(to.owner, to.tag, reply);
    wait_free(wait);
}

static void wait_reply_status(struct wait *wait, enum queue_status status)
{
    wait_reply(wait, &(struct queue_reply){.status = status});
}

/* ---- an end that arrived ---- */

static void on_read(void *owner, uint64_t tag, const struct queue_reply *reply);

/* Reads the job that has ended. */
static void wait_read(struct wait *wait)
{
    struct redis_waits *waits = wait->waits;
    const struct command command = {
        .kind = COMMAND_GET, .get = {.topic = topic_of(wait), .id = id_of(wait), .finished = true}};
    wait->state = WAIT_READ;
    waits->calls++;
    waits->below->ops->submit(waits->below, &command,
                              (struct queue_reply_to){.done = on_read, .owner = wait});
}

static void wait_ask(struct wait *wait);

/* Ends the wait as the message in `held` determines. */
static void wait_take_end(struct wait *wait)
{
    struct held_end *held = wait->held;
    struct queue_end end;
    struct queue_job job = {.end = &end};
    list_remove(&wait->gone);
    if (held->outcome == REDIS_MOVED) {
        free(held);
        wait->held = NULL;
        wait_ask(wait);
        return;
    }
    if (held->outcome == REDIS_PURGED) {
        wait_reply_status(wait, QUEUE_NOT_FOUND);
        return;
    }
    if (held->outcome == REDIS_DIED || !held->has_job) {
        wait_read(wait);
        return;
    }
    if (!redis_unpack_kept(slice_make(held->job, held->bytes), held->adjust_ms, &job.job, &end)) {
        wait_reply_status(wait, QUEUE_UNAVAILABLE);
        return;
    }
    job.job.topic = topic_of(wait);
    job.job.id = id_of(wait);
    wait_reply(wait, &(struct queue_reply){.jobs = &job, .job_count = 1});
}

/* Handles the job that was read: kept, or dead. The result of a final nack came with the
 * message. */
static void on_read(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct wait *wait = owner;
    struct queue_job job;
    struct queue_end end;
    struct job ignored;
    const struct held_end *held = wait->held;
    (void)tag;
    wait->waits->calls--;
    if (wait->is_over) {
        wait_free(wait);
        return;
    }
    bool is_good = reply->status == QUEUE_OK && reply->job_count == 1;
    bool has_ended = is_good && reply->jobs[0].job.state >= JOB_DEAD;
    if (is_good && !has_ended) { /* a new job of this id: ours was dropped, or was redriven */
        wait_reply_status(wait, QUEUE_NOT_FOUND);
        return;
    }
    if (has_ended && reply->jobs[0].job.state == JOB_DEAD && held && held->has_job &&
        redis_unpack_kept(slice_make(held->job, held->bytes), held->adjust_ms, &ignored, &end)) {
        job = reply->jobs[0];
        job.end = &end;
        wait_reply(wait, &(struct queue_reply){.jobs = &job, .job_count = 1});
        return;
    }
    wait_reply(wait, reply);
}

/* Returns false if memory runs out. */
static bool wait_hold(struct wait *wait, const struct redis_ended *ended, int64_t adjust_ms)
{
    struct held_end *held = malloc(sizeof *held + ended->job.len);
    if (!held)
        return false;
    held->outcome = ended->outcome;
    held->has_job = ended->has_job;
    held->adjust_ms = adjust_ms;
    held->bytes = ended->job.len;
    if (ended->job.len)
        memcpy(held->job, ended->job.at, ended->job.len);
    free(wait->held);
    wait->held = held;
    return true;
}

/* Returns a wait that its message can end now, or NULL. */
static struct wait *first_ended(const struct awaited *awaited)
{
    for (struct list *at = awaited->waits.next; at != &awaited->waits; at = at->next) {
        struct wait *wait = list_entry(at, struct wait, same);
        if (wait->state == WAIT_NOTED && wait->held)
            return wait;
    }
    return NULL;
}

void redis_waits_ended(struct redis_waits *waits, const struct redis_ended *ended,
                       int64_t adjust_ms)
{
    char room[REDIS_ID_ROOM_BYTES];
    struct slice id;
    struct awaited *awaited = redis_id_show(ended->stored, room, &id) && id.len <= JOB_ID_BYTES_MAX
                                  ? awaited_find(waits, ended->topic, id)
                                  : NULL;
    if (!awaited)
        return;
    for (struct list *at = awaited->waits.next; at != &awaited->waits; at = at->next) {
        struct wait *wait = list_entry(at, struct wait, same);
        if (!wait->is_over && wait->state != WAIT_READ && !wait_hold(wait, ended, adjust_ms))
            wait->is_doubted = true; /* out of memory: the next renewal looks it up */
    }
    /* A reply may cancel other waits for the job, or begin one. */
    struct wait *wait;
    while ((awaited = awaited_find(waits, ended->topic, id)) && (wait = first_ended(awaited)))
        wait_take_end(wait);
}

/* ---- looking up ---- */

static void on_asked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct wait *wait = owner;
    (void)tag;
    wait->waits->calls--;
    if (wait->is_over) {
        wait_free(wait);
        return;
    }
    wait->state = WAIT_NOTED;
    if (reply->status == QUEUE_NOT_FOUND && wait->held) {
        wait_take_end(wait);
    } else if (reply->status == QUEUE_NOT_FOUND && wait->is_noted) {
        wait->gone_ms = clock_inner_ms() + MESSAGE_MS;
        list_add_last(&wait->waits->gone, &wait->gone);
    } else if (reply->status != QUEUE_OK) {
        if (!wait->is_noted)
            wait_reply_status(wait, reply->status);
    } else if (reply->job_count) {
        wait_reply(wait, reply);
    } else if (reply->result_count && reply->results[0].state == JOB_DEAD) {
        wait_read(wait);
    } else {
        wait->is_noted = true;
        if (wait->held) { /* of an earlier job, or the job has been ended and stored again */
            free(wait->held);
            wait->held = NULL;
            wait_ask(wait);
        } else if (wait->is_doubted) {
            wait_ask(wait);
        }
    }
}

/* Notes the wait and looks its job up. */
static void wait_ask(struct wait *wait)
{
    struct redis_waits *waits = wait->waits;
    const struct command command = {.kind = COMMAND_AWAIT,
                                    .await = {.topic = topic_of(wait), .id = id_of(wait)}};
    wait->state = WAIT_ASKED;
    wait->is_doubted = false;
    waits->calls++;
    waits->below->ops->submit(waits->below, &command,
                              (struct queue_reply_to){.done = on_asked, .owner = wait});
}

void redis_waits_check(struct redis_waits *waits)
{
    waits->renew_ms = clock_inner_ms() + RENEW_MS;
    for (struct list *at = waits->all.next; at != &waits->all; at = at->next) {
        struct wait *wait = list_entry(at, struct wait, list);
        if (!list_is_empty(&wait->gone))
            continue;
        if (wait->state == WAIT_NOTED)
            wait_ask(wait);
        else
            wait->is_doubted = true;
    }
}

/* ---- pushes that wait ---- */

/* A push with waits, until its reply. */
struct waiting_push {
    struct list list; /* in waits->pushes */
    struct redis_waits *waits;
    struct queue_reply_to reply_to;
    size_t count;
    struct wait *items[]; /* NULL: the item does not wait */
};

/* Ends the part of the push in a wait: the wait continues, or there is none. */
static void wait_pushed(struct wait *wait, enum queue_status status, enum job_state state)
{
    const struct queue_result result = {.status = status, .state = state};
    wait->state = WAIT_NOTED;
    if (wait->is_over || !queue_push_awaits(&result)) {
        wait_free(wait);
        return;
    }
    wait->is_noted = true;
    if (wait->waits->is_stopping)
        wait_reply_status(wait, QUEUE_STOPPING);
    else if (status == QUEUE_EXISTED || wait->held || wait->is_doubted)
        wait_ask(wait);
}

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct waiting_push *push = owner;
    struct redis_waits *waits = push->waits;
    struct queue_reply_to to = push->reply_to;
    size_t count = push->count;
    struct {
        enum queue_status status;
        enum job_state state;
    } *ends = calloc(count, sizeof *ends);
    (void)tag;
    assert(ends); /* a wait must not be lost */
    for (size_t i = 0; i < count; i++) {
        bool has = reply->status == QUEUE_OK && i < reply->result_count;
        ends[i].status = has ? reply->results[i].status : QUEUE_UNAVAILABLE;
        ends[i].state = has ? reply->results[i].state : 0;
    }
    waits->calls--;
    to.done(to.owner, to.tag, reply);
    for (size_t i = 0; i < count; i++)
        if (push->items[i])
            wait_pushed(push->items[i], ends[i].status, ends[i].state);
    free(ends);
    list_remove(&push->list);
    free(push);
}

static bool push_waits(const struct command *command)
{
    for (size_t i = 0; i < command->count; i++)
        if (__builtin_expect(command->pushes[i].ended != NULL, 0))
            return true;
    return false;
}

static void submit_waiting_push(struct redis_waits *waits, const struct command *command,
                                struct queue_reply_to reply_to)
{
    struct waiting_push *push = calloc(1, sizeof *push + command->count * sizeof(struct wait *));
    assert(push);
    push->waits = waits;
    push->reply_to = reply_to;
    push->count = command->count;
    list_add_last(&waits->pushes, &push->list);
    for (size_t i = 0; i < command->count; i++) {
        const struct queue_push *item = &command->pushes[i];
        struct queue_result unused;
        if (!item->ended || !command_item_is_good(command, i, &unused))
            continue;
        push->items[i] = wait_new(waits, item->topic, item->id, *item->ended, WAIT_PUSHED);
        assert(push->items[i]);
    }
    waits->calls++;
    waits->below->ops->submit(waits->below, command,
                              (struct queue_reply_to){.done = on_pushed, .owner = push});
}

/* ---- the queue ---- */

static bool is_same_destination(const struct queue_reply_to *a, const struct queue_reply_to *b)
{
    return a->done == b->done && a->owner == b->owner && a->tag == b->tag;
}

static void cancel(struct redis_waits *waits, const struct command *command,
                   struct queue_reply_to reply_to)
{
    struct awaited *awaited = awaited_find(waits, command->await.topic, command->await.id);
    for (struct list *at = awaited ? awaited->waits.next : NULL; at && at != &awaited->waits;
         at = at->next) {
        struct wait *wait = list_entry(at, struct wait, same);
        if (wait->is_over || !is_same_destination(&wait->reply_to, command->await.cancels))
            continue;
        reply_soon(waits, QUEUE_CANCELLED, wait->reply_to);
        wait_end(wait);
        break;
    }
    reply_soon(waits, QUEUE_OK, reply_to);
}

static void begin(struct redis_waits *waits, const struct command *command,
                  struct queue_reply_to reply_to)
{
    struct wait *wait =
        wait_new(waits, command->await.topic, command->await.id, reply_to, WAIT_ASKED);
    if (wait)
        wait_ask(wait);
    else
        reply_soon(waits, QUEUE_NO_MEMORY, reply_to);
}

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct redis_waits *waits = waits_of(queue);
    if (command->kind == COMMAND_AWAIT && command->status != QUEUE_OK)
        reply_soon(waits, command->status, reply_to);
    else if (command->kind == COMMAND_AWAIT && command->await.cancels)
        cancel(waits, command, reply_to);
    else if (command->kind == COMMAND_AWAIT)
        begin(waits, command, reply_to);
    else if (command->kind == COMMAND_PUSH && push_waits(command))
        submit_waiting_push(waits, command, reply_to);
    else
        waits->below->ops->submit(waits->below, command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    queue_watch(waits_of(queue)->below, topic, on);
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    queue_info(waits_of(queue)->below, out);
}

static bool same_part(const struct queue *queue, struct slice topic, struct slice id,
                      struct slice once)
{
    const struct redis_waits *waits = (const struct redis_waits *)(const void *)queue;
    return queue_is_same_part(waits->below, topic, id, once);
}

static const struct queue_ops ops = {
    .submit = on_submit, .watch = on_watch, .info = on_info, .same_part = same_part};

/* ---- steps and life cycle ---- */

static struct wait *first_gone(struct redis_waits *waits)
{
    return list_is_empty(&waits->gone) ? NULL : list_entry(waits->gone.next, struct wait, gone);
}

int64_t redis_waits_step(struct redis_waits *waits, int64_t now_ms)
{
    size_t left = 0;
    for (const struct list *at = waits->soon.next; at != &waits->soon; at = at->next)
        left++;
    while (left-- && !list_is_empty(&waits->soon)) {
        struct soon *soon = list_entry(waits->soon.next, struct soon, list);
        struct queue_reply_to to = soon->reply_to;
        struct queue_reply reply = {.status = soon->status};
        list_remove(&soon->list);
        free(soon);
        to.done(to.owner, to.tag, &reply);
    }
    struct wait *gone;
    while ((gone = first_gone(waits)) && now_ms >= gone->gone_ms)
        wait_reply_status(gone, QUEUE_NOT_FOUND);
    if (!list_is_empty(&waits->all) && now_ms >= waits->renew_ms)
        redis_waits_check(waits);
    if (!list_is_empty(&waits->soon))
        return now_ms;
    if (gone && gone->gone_ms < waits->renew_ms)
        return gone->gone_ms;
    return list_is_empty(&waits->all) ? INT64_MAX : waits->renew_ms;
}

void redis_waits_stop(struct redis_waits *waits)
{
    struct list *next;
    waits->is_stopping = true;
    for (struct list *at = waits->all.next; at != &waits->all; at = next) {
        struct wait *wait = list_entry(at, struct wait, list);
        next = at->next;
        if (wait->is_over || wait->state == WAIT_PUSHED)
            continue;
        reply_soon(waits, QUEUE_STOPPING, wait->reply_to);
        wait_end(wait);
    }
}

bool redis_waits_are_done(const struct redis_waits *waits)
{
    return waits->calls == 0 && list_is_empty(&waits->soon);
}

struct queue *redis_waits_queue(struct redis_waits *waits)
{
    return &waits->queue;
}

struct redis_waits *redis_waits_new(struct queue *below)
{
    struct redis_waits *waits = calloc(1, sizeof *waits);
    if (!waits)
        return NULL;
    waits->queue.ops = &ops;
    waits->below = below;
    list_init(&waits->all);
    list_init(&waits->soon);
    list_init(&waits->pushes);
    list_init(&waits->gone);
    queue_report_as(below, &waits->queue);
    return waits;
}

void redis_waits_free(struct redis_waits *waits)
{
    if (!waits)
        return;
    while (!list_is_empty(&waits->all))
        wait_free(list_entry(waits->all.next, struct wait, list));
    while (!list_is_empty(&waits->soon)) {
        struct soon *soon = list_entry(waits->soon.next, struct soon, list);
        list_remove(&soon->list);
        free(soon);
    }
    while (!list_is_empty(&waits->pushes)) {
        struct waiting_push *push = list_entry(waits->pushes.next, struct waiting_push, list);
        list_remove(&push->list);
        free(push);
    }
    awaited_jobs_fini(&waits->jobs);
    free(waits);
}
