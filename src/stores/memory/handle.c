#include "memory/handle.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/random.h"
#include "queue/copy.h"
#include "queue/door.h"
#include "queue/traits.h"
#include "queue/watch.h"

#include <assert.h>
#include <stdlib.h>

/* A notification for the next memory_handle_step: a reply, or an event of a topic. */
struct notification {
    struct list list;
    struct queue_reply_to reply_to;
    struct queue_reply *reply; /* NULL: an event */
    enum queue_event event;    /* 0: the topic has ready jobs */
    size_t topic_bytes;
    char topic[];
};

/* A wait for the end of a job (COMMAND_AWAIT, queue_push.ended). */
struct handle_await {
    struct list list;
    struct memory_wait wait;
    struct memory_handle *handle;
    struct queue_reply_to reply_to;
};

struct memory_handle {
    struct queue queue;
    struct memory *memory;
    struct memory_options options;
    struct watch_table *watches;
    struct list replies, events;
    struct list awaits;
};

/* ---- notifications ---- */

/* Adds an event, unless the topic already has one of the same kind. */
static void event_add(struct memory_handle *handle, enum queue_event event, struct slice topic)
{
    for (struct list *at = handle->events.next; at != &handle->events; at = at->next) {
        const struct notification *known = list_entry(at, struct notification, list);
        if (known->event == event &&
            slice_equals(slice_make(known->topic, known->topic_bytes), topic))
            return;
    }
    struct notification *notification = malloc(sizeof *notification + topic.len);
    assert(notification); /* a wake-up must not be lost */
    *notification = (struct notification){.event = event, .topic_bytes = topic.len};
    memcpy(notification->topic, topic.at, topic.len);
    list_add_last(&handle->events, &notification->list);
}

static void handle_on_ready(void *ctx, struct slice topic)
{
    struct memory_handle *handle = ctx;
    if (watch_find(handle->watches, topic))
        event_add(handle, 0, topic);
}

static void handle_on_died(void *ctx, struct slice topic)
{
    event_add(ctx, QUEUE_EVENT_DEAD, topic);
}

/* Queues a copy of the reply for the next memory_handle_step. */
static void reply_add(struct memory_handle *handle, const struct queue_reply *reply,
                      struct queue_reply_to reply_to)
{
    struct notification *notification = malloc(sizeof *notification);
    struct queue_reply *copy = copy_reply(reply);
    assert(notification &&
           copy); /* without memory for a reply, there is no correct way to continue */
    *notification = (struct notification){.reply = copy, .reply_to = reply_to};
    list_add_last(&handle->replies, &notification->list);
}

static void status_add(struct memory_handle *handle, enum queue_status status,
                       struct queue_reply_to reply_to)
{
    reply_add(handle, &(struct queue_reply){.status = status}, reply_to);
}

/* ---- waits for the end of a job ---- */

static void handle_await_free(struct handle_await *await)
{
    list_remove(&await->list);
    free(await);
}

static void handle_await_ended(struct memory_wait *wait, const struct queue_job *job)
{
    struct handle_await *await = list_entry(wait, struct handle_await, wait);
    if (job)
        reply_add(await->handle, &(struct queue_reply){.jobs = job, .job_count = 1},
                  await->reply_to);
    else
        status_add(await->handle, QUEUE_NOT_FOUND, await->reply_to);
    handle_await_free(await);
}

static void handle_await_add(struct memory_handle *handle, struct slice topic, struct slice id,
                             struct queue_reply_to reply_to)
{
    struct handle_await *await = malloc(sizeof *await);
    if (await)
        *await = (struct handle_await){
            .wait.ended = handle_await_ended, .handle = handle, .reply_to = reply_to};
    if (!await || !memory_await(handle->memory, topic, id, &await->wait)) {
        free(await);
        status_add(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    list_add_last(&handle->awaits, &await->list);
}

/* Ends the wait with this destination, if it still waits. */
static void handle_await_cancel(struct memory_handle *handle, struct slice topic, struct slice id,
                                const struct queue_reply_to *reply_to)
{
    for (struct list *at = handle->awaits.next; at != &handle->awaits; at = at->next) {
        struct handle_await *await = list_entry(at, struct handle_await, list);
        const struct queue_reply_to *own = &await->reply_to;
        if (own->done != reply_to->done || own->owner != reply_to->owner ||
            own->tag != reply_to->tag)
            continue;
        memory_await_cancel(handle->memory, topic, id, &await->wait);
        status_add(handle, QUEUE_CANCELLED, await->reply_to);
        handle_await_free(await);
        return;
    }
}

/* ---- calls ---- */

static void run_push(struct memory_handle *handle, const struct queue_push *push,
                     struct engine_now now, struct queue_result *result)
{
    memory_push(handle->memory, push, now, result);
    if (push->ended && queue_push_awaits(result))
        handle_await_add(handle, push->topic, push->id, *push->ended);
}

static void run_items(struct memory_handle *handle, const struct command *command,
                      struct engine_now now, struct queue_reply_to reply_to)
{
    struct queue_result *results = calloc(command->count + 1, sizeof *results);
    if (!results) {
        status_add(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    for (size_t i = 0; i < command->count; i++) {
        struct queue_result *result = &results[i];
        bool is_good = command_item_is_good(command, i, result);
        if (is_good && command->kind == COMMAND_PUSH)
            run_push(handle, &command->pushes[i], now, result);
        else if (is_good && command->kind == COMMAND_CHANGE)
            memory_change(handle->memory, &command->changes[i], now, result);
        else if (is_good && command->kind == COMMAND_FIND)
            memory_look(handle->memory, &command->finds[i], now, result);
        else if (is_good)
            memory_answer(handle->memory, &command->answers[i], now, result);
        if (command->kind == COMMAND_ANSWER)
            continue;
        struct queue_find name = command_item_name(command, i);
        result->topic = name.topic;
        result->id = name.id;
    }
    reply_add(handle, &(struct queue_reply){.results = results, .result_count = command->count},
              reply_to);
    free(results);
}

/* Replies to take, get and list: sends the jobs and frees them. */
static void reply_jobs(struct memory_handle *handle, enum queue_status status,
                       struct memory_job **found, size_t count, struct slice cursor,
                       struct queue_reply_to reply_to)
{
    struct queue_job *jobs = malloc((count + 1) * sizeof *jobs);
    assert(jobs);
    for (size_t i = 0; i < count; i++)
        jobs[i] = found[i]->shown;
    reply_add(
        handle,
        &(struct queue_reply){.status = status, .jobs = jobs, .job_count = count, .cursor = cursor},
        reply_to);
    for (size_t i = 0; i < count; i++)
        memory_job_free(found[i]);
    free(jobs);
}

static void run_take(struct memory_handle *handle, const struct command *command,
                     struct engine_now now, struct queue_reply_to reply_to)
{
    struct memory_job **found = malloc(command->take.max * sizeof *found);
    size_t count;
    if (!found) {
        status_add(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    enum queue_status status = memory_take(handle->memory, &command->take, now, found, &count);
    for (size_t i = 0; i < count; i++)
        memory_job_lease(found[i]);
    reply_jobs(handle, status, found, count, (struct slice){0}, reply_to);
    free((void *)found);
}

static void run_list(struct memory_handle *handle, const struct command *command,
                     struct engine_now now, struct queue_reply_to reply_to)
{
    struct memory_job **found = malloc(command->list.limit * sizeof *found);
    char text[QUEUE_CURSOR_BYTES_MAX];
    struct slice cursor;
    size_t count;
    if (!found) {
        status_add(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    enum queue_status status =
        memory_list(handle->memory, &command->list, now, found, &count, text, &cursor);
    reply_jobs(handle, status, found, count, cursor, reply_to);
    free((void *)found);
}

static void run_get(struct memory_handle *handle, const struct command *command,
                    struct engine_now now, struct queue_reply_to reply_to)
{
    struct memory_job *found;
    enum queue_status status = memory_get(handle->memory, command->get.topic, command->get.id,
                                          command->get.finished, now, &found);
    reply_jobs(handle, status, &found, status == QUEUE_OK, (struct slice){0}, reply_to);
}

/* Begins or ends a wait. A job that is dead or kept has ended. */
static void run_await(struct memory_handle *handle, const struct command *command,
                      struct engine_now now, struct queue_reply_to reply_to)
{
    struct slice topic = command->await.topic, id = command->await.id;
    struct memory_job *found;
    if (command->await.cancels) {
        handle_await_cancel(handle, topic, id, command->await.cancels);
        status_add(handle, QUEUE_OK, reply_to);
        return;
    }
    enum queue_status status = memory_get(handle->memory, topic, id, true, now, &found);
    bool waits = status == QUEUE_OK && found->shown.job.state != JOB_FINISHED &&
                 found->shown.job.state != JOB_DEAD;
    if (!waits) {
        reply_jobs(handle, status, &found, status == QUEUE_OK, (struct slice){0}, reply_to);
        return;
    }
    memory_job_free(found);
    handle_await_add(handle, topic, id, reply_to);
}

static void run_topic(struct memory_handle *handle, const struct command *command,
                      struct engine_now now, struct queue_reply_to reply_to)
{
    const struct queue_topic_call *call = &command->topic;
    struct queue_topic topic = {0};
    struct queue_reply reply = {0};
    reply.status = memory_topic(handle->memory, call, now, &topic, &reply.affected);
    bool is_done = reply.status == QUEUE_OK || reply.status == QUEUE_CREATED;
    reply.topics = &topic;
    reply.topic_count = is_done && topic.name.len;
    if (is_done && (call->verb == QUEUE_TOPIC_PUT || call->verb == QUEUE_TOPIC_DELETE))
        event_add(handle, QUEUE_EVENT_TOPIC, call->topic);
    reply_add(handle, &reply, reply_to);
}

static void run_topics(struct memory_handle *handle, const struct command *command,
                       struct engine_now now, struct queue_reply_to reply_to)
{
    struct queue_reply reply = {0};
    struct queue_topic *topics = NULL;
    if (!memory_topics(handle->memory, command->topics, now, &topics, &reply.topic_count)) {
        status_add(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    reply.topics = topics;
    reply_add(handle, &reply, reply_to);
    free(topics);
}

static void run_group(struct memory_handle *handle, const struct command *command,
                      struct engine_now now, struct queue_reply_to reply_to)
{
    struct queue_group group;
    struct queue_reply reply = {.status =
                                    memory_group(handle->memory, &command->group, now, &group)};
    if (reply.status == QUEUE_OK) {
        reply.groups = &group;
        reply.group_count = 1;
    }
    reply_add(handle, &reply, reply_to);
}

static void run_groups(struct memory_handle *handle, const struct command *command,
                       struct engine_now now, struct queue_reply_to reply_to)
{
    struct queue_reply reply = {0};
    struct groups_page page;
    if (!groups_page_init(&page, &command->groups)) {
        status_add(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    if (memory_groups(handle->memory, command->groups.topic, now, &page))
        groups_page_end(&page, &reply);
    else
        reply.status = QUEUE_NOT_FOUND;
    reply_add(handle, &reply, reply_to);
    groups_page_fini(&page);
}

static void run_forecast(struct memory_handle *handle, const struct command *command,
                         struct engine_now now, struct queue_reply_to reply_to)
{
    struct queue_forecast forecast;
    struct queue_reply reply = {0};
    reply.status = memory_forecast(handle->memory, &command->forecast, now, &forecast);
    if (reply.status == QUEUE_OK)
        reply.forecast = &forecast;
    reply_add(handle, &reply, reply_to);
}

static void handle_submit(struct queue *queue, const struct command *command,
                          struct queue_reply_to reply_to)
{
    struct memory_handle *handle = (struct memory_handle *)(void *)queue;
    struct engine_now now = memory_now(handle->memory);
    memory_advance(handle->memory, now);
    if (command->status != QUEUE_OK) {
        status_add(handle, command->status, reply_to);
        return;
    }
    switch (command->kind) {
    case COMMAND_PUSH:
    case COMMAND_ANSWER:
    case COMMAND_CHANGE:
    case COMMAND_FIND:
        run_items(handle, command, now, reply_to);
        return;
    case COMMAND_TAKE:
        run_take(handle, command, now, reply_to);
        return;
    case COMMAND_GET:
        run_get(handle, command, now, reply_to);
        return;
    case COMMAND_LIST:
        run_list(handle, command, now, reply_to);
        return;
    case COMMAND_TOPIC:
        run_topic(handle, command, now, reply_to);
        return;
    case COMMAND_TOPICS:
        run_topics(handle, command, now, reply_to);
        return;
    case COMMAND_FORECAST:
        run_forecast(handle, command, now, reply_to);
        return;
    case COMMAND_AWAIT:
        run_await(handle, command, now, reply_to);
        return;
    case COMMAND_GROUP:
        run_group(handle, command, now, reply_to);
        return;
    case COMMAND_GROUPS:
        run_groups(handle, command, now, reply_to);
        return;
    case COMMAND_BATCH: /* only between parts of a queue */
        break;
    }
    assert(false); /* not a command */
}

static void handle_watch(struct queue *queue, struct slice topic, bool on)
{
    struct memory_handle *handle = (struct memory_handle *)(void *)queue;
    bool set = watch_set(handle->watches, topic, 0, on);
    assert(set);
    (void)set;
    if (on && memory_topic_has_ready(handle->memory, topic))
        event_add(handle, 0, topic);
}

static void handle_info(struct queue *queue, struct queue_info *out)
{
    const struct memory_handle *handle = (struct memory_handle *)(void *)queue;
    *out = (struct queue_info){.store = "memory",
                               .durability = "nothing survives the process",
                               .durability_class = "memory",
                               .sync = "never",
                               .shards = 1,
                               .body_bytes_max = handle->options.body_bytes_max,
                               .spare_bytes = memory_spare_bytes(handle->memory),
                               .keeps_finished = true,
                               .awaits = true,
                               .groups = true,
                               .batches = true,
                               .strict_groups = true,
                               .group_max_jobs = true,
                               .one_shard = true,
                               .healthy = true,
                               .accepting = true};
    for (int reason = 0; reason < QUEUE_DROPS; reason++)
        out->finished_dropped[reason] = memory_dropped(handle->memory, (enum queue_drop)reason);
}

static const struct queue_ops handle_ops = {
    .submit = handle_submit,
    .watch = handle_watch,
    .info = handle_info,
};

/* ---- delivering notifications ---- */

static void notification_free(struct notification *notification)
{
    list_remove(&notification->list);
    free(notification->reply);
    free(notification);
}

static void event_notify(struct memory_handle *handle, const struct notification *notification)
{
    struct queue *queue = &handle->queue;
    struct slice topic = slice_make(notification->topic, notification->topic_bytes);
    if (!notification->event && watch_find(handle->watches, topic))
        queue_report_ready(queue, topic);
    else if (notification->event)
        queue_report_event(queue, notification->event, topic);
}

void memory_handle_step(struct memory_handle *handle)
{
    struct list replies, events;
    memory_advance(handle->memory, memory_now(handle->memory));
    /* Calls made by the callbacks are answered by the next memory_handle_step. */
    list_take_all(&replies, &handle->replies);
    list_take_all(&events, &handle->events);
    list_init(&handle->replies);
    list_init(&handle->events);
    while (!list_is_empty(&events)) {
        struct notification *notification = list_entry(events.next, struct notification, list);
        event_notify(handle, notification);
        notification_free(notification);
    }
    while (!list_is_empty(&replies)) {
        struct notification *notification = list_entry(replies.next, struct notification, list);
        notification->reply_to.done(notification->reply_to.owner, notification->reply_to.tag,
                                    notification->reply);
        notification_free(notification);
    }
}

int64_t memory_handle_next_ms(const struct memory_handle *handle)
{
    bool has_notices = !list_is_empty(&handle->replies) || !list_is_empty(&handle->events);
    return has_notices ? 0 : memory_next_ms(handle->memory);
}

/* ---- creating and freeing ---- */

struct memory_handle *memory_handle_new(const struct memory_options *options)
{
    struct memory_handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    list_init(&handle->replies);
    list_init(&handle->events);
    list_init(&handle->awaits);
    handle->options = *options;
    handle->options.ready = handle_on_ready;
    handle->options.died = handle_on_died;
    handle->options.ctx = handle;
    handle->queue.ops = &handle_ops;
    handle->watches = watch_table_new();
    handle->memory = memory_new(&handle->options);
    handle->queue.door = queue_door_new(options->body_bytes_max, random_u64(), clock_wall_ms);
    if (!handle->watches || !handle->memory || !handle->queue.door) {
        memory_handle_free(handle);
        return NULL;
    }
    return handle;
}

void memory_handle_free(struct memory_handle *handle)
{
    if (!handle)
        return;
    while (!list_is_empty(&handle->replies))
        notification_free(list_entry(handle->replies.next, struct notification, list));
    while (!list_is_empty(&handle->events))
        notification_free(list_entry(handle->events.next, struct notification, list));
    queue_door_free(handle->queue.door);
    memory_free(handle->memory);
    while (!list_is_empty(&handle->awaits))
        handle_await_free(list_entry(handle->awaits.next, struct handle_await, list));
    watch_table_free(handle->watches);
    free(handle);
}

struct queue *memory_handle_queue(struct memory_handle *handle)
{
    return &handle->queue;
}

struct memory *memory_handle_memory(struct memory_handle *handle)
{
    return handle->memory;
}
