/*
 * The null implementation of queue.h: the model, asked and answered. It keeps nothing on disk, so a
 * reopen finds what the close left in memory. It also carries the faults by which the suite proves
 * that it can fail.
 */
#include "naive.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const fault_texts[FAULT_END] = {
    [FAULT_ATTEMPT_TWICE] = "a delivery counts as two attempts",
    [FAULT_ACK_DROPPED] = "an ack is answered and not done",
    [FAULT_EARLY] = "a job is ready a millisecond early",
    [FAULT_NO_PRIORITY] = "priorities are ignored",
    [FAULT_NO_ERROR] = "the error of a nack is not kept",
    [FAULT_ANY_LEASE] = "a lease is good after its end",
    [FAULT_DELAY_LOST] = "a nack's delay is not kept",
    [FAULT_ATTEMPTS_KEPT] = "a replaced job keeps its attempts",
    [FAULT_JOB_LOST_AT_REOPEN] = "a job is lost at a restart",
    [FAULT_LEASES_RENEWED_AT_REOPEN] = "leases start again at a restart",
    [FAULT_PAUSE_LOST_AT_REOPEN] = "a pause is forgotten at a restart",
    [FAULT_IDS_FORGOTTEN_AT_REOPEN] = "finished ids are forgotten at a restart",
    [FAULT_NO_TTL] = "ready jobs never expire",
    [FAULT_TOTAL_TWICE] = "an ack is counted twice",
    [FAULT_BODY_CHANGED] = "a byte of a body is changed",
    [FAULT_LIST_SHORT] = "a list leaves out the last job",
    [FAULT_INSIDE] = "the answer comes inside the call",
    [FAULT_TWICE] = "a call is answered twice",
    [FAULT_PAUSE_IGNORED] = "a paused topic delivers",
    [FAULT_DELIVERY_SAME] = "delivery numbers do not rise",
    [FAULT_NOT_FINAL] = "a final nack is one like any other",
    [FAULT_RETURN_AT_ONCE] = "a returned job does not wait",
    [FAULT_HISTORY_SHORT] = "the oldest attempt is missing in the history",
    [FAULT_HISTORY_LOST_AT_REOPEN] = "the history is lost at a restart",
    [FAULT_EXTENSION_LOST_AT_REOPEN] = "a topic's extension is lost at a restart",
    [FAULT_DEAD_BYTES_KEPT] = "the dead's bytes only grow",
    [FAULT_DEATH_EVENT_MISSING] = "no event for dead jobs",
    [FAULT_PAUSE_FOR_EVER] = "a pause for a time has no end",
    [FAULT_CONSUMER_LOST] = "nobody is known to hold a lease",
    [FAULT_NACK_PRIORITY_LOST] = "the priority of a nack is not kept",
    [FAULT_NAMED_ORDER] = "a take by priority takes the first named topic first",
    [FAULT_PICK_NOT_DUE] = "a job that is taken by its id keeps its due",
    [FAULT_AGAIN_KEEPS_BODY] = "a job that is pushed again keeps its old body",
    [FAULT_ONCE_IGNORED] = "a repeated push with a once stores another job",
    [FAULT_NEXT_LOST] = "the successor of a leased job is lost",
    [FAULT_FIND_BLIND] = "a job that is leased is not found",
    [FAULT_REQUEST_FORGOTTEN] = "a request to cancel is forgotten",
    [FAULT_FORECAST_LATE] = "a forecast leaves out the first minute",
    [FAULT_TOPIC_EVENT_MISSING] = "no event for changed settings",
};
static struct naive *kept; /* as the last close left it */

static void naive_info(struct queue *queue, struct queue_info *out)
{
    *out = (struct queue_info){.store = "naive",
                               .durability = "nothing survives the process",
                               .sync = "never",
                               .shards = 1,
                               .body_bytes_max = naive_of(queue)->model.body_bytes_max,
                               .healthy = true,
                               .accepting = true};
}

/* Checks everything itself, as the reference of others: the result of the door is ignored. */
static void naive_submit(struct queue *queue, const struct command *command,
                         struct queue_reply_to to)
{
    switch (command->kind) {
    case COMMAND_PUSH:
        naive_push(queue, command->pushes, command->count, to);
        return;
    case COMMAND_ANSWER:
        naive_answer(queue, command->answers, command->count, to);
        return;
    case COMMAND_CHANGE:
        naive_change(queue, command->changes, command->count, to);
        return;
    case COMMAND_TAKE:
        naive_take(queue, &command->take, to);
        return;
    case COMMAND_GET:
        naive_get(queue, command->get.topic, command->get.id, to);
        return;
    case COMMAND_FIND:
        naive_find(queue, command->finds, command->count, to);
        return;
    case COMMAND_LIST:
        naive_list(queue, &command->list, to);
        return;
    case COMMAND_TOPIC:
        naive_topic(queue, &command->topic, to);
        return;
    case COMMAND_TOPICS:
        naive_topics(queue, to);
        return;
    case COMMAND_FORECAST:
        naive_forecast(queue, &command->forecast, to);
        return;
    case COMMAND_AWAIT: /* only in stores with info.awaits */
    case COMMAND_GROUP: /* and with info.groups */
    case COMMAND_GROUPS:
    case COMMAND_BATCH: /* only between parts of a queue */
        return;
    }
}

static const struct queue_ops naive_ops = {
    .submit = naive_submit,
    .watch = naive_watch,
    .info = naive_info,
};
/* ---- the driver ---- */

static void spoil_at_reopen(struct naive *naive)
{
    struct model *model = &naive->model;

    if (naive->fault == FAULT_JOB_LOST_AT_REOPEN && model->job_count) {
        free(model->jobs[0].bytes);
        free(model->jobs[0].next);
        model->jobs[0] = model->jobs[--model->job_count];
    }
    for (size_t i = 0; i < model->job_count; i++)
        if (naive->fault == FAULT_HISTORY_LOST_AT_REOPEN)
            model->jobs[i].history_count = 0;
        else if (naive->fault == FAULT_LEASES_RENEWED_AT_REOPEN)
            model->jobs[i].lease_until.least_ms = model->jobs[i].lease_until.most_ms =
                clock_inner_ms() + model->jobs[i].lease_ms + 1;
    for (size_t i = 0; i < model->topic_count; i++)
        if (naive->fault == FAULT_PAUSE_LOST_AT_REOPEN)
            model->topics[i].paused = false;
        else if (naive->fault == FAULT_EXTENSION_LOST_AT_REOPEN)
            model->topics[i].settings.extension.len = 0;
    if (naive->fault == FAULT_IDS_FORGOTTEN_AT_REOPEN)
        model->memory_count = 0;
}

static void *open_with(const struct driver_options *options, enum fault fault)
{
    struct naive *naive = kept;

    kept = NULL;
    if (naive && strcmp(naive->dir, options->dir) != 0) {
        model_fini(&naive->model);
        free(naive);
        naive = NULL;
    }
    if (naive) {
        spoil_at_reopen(naive);
        return naive;
    }
    naive = calloc(1, sizeof *naive);
    assert(naive);
    naive->queue.ops = &naive_ops;
    naive->fault = fault;
    naive->last = &naive->first;
    ulid_init(&naive->ulid, 1);
    snprintf(naive->dir, sizeof naive->dir, "%s", options->dir);
    model_init(&naive->model, clock_inner_ms(), options->body_bytes_max, options->topics_max);
    return naive;
}

static void *naive_open(const struct driver_options *options)
{
    return open_with(options, FAULT_NONE);
}

static struct queue *naive_queue(void *self)
{
    return &((struct naive *)self)->queue;
}

static void report_events(struct naive *naive)
{
    struct queue *queue = &naive->queue;
    struct model *model = &naive->model;
    enum queue_event kept_quiet = naive->fault == FAULT_DEATH_EVENT_MISSING   ? QUEUE_EVENT_DEAD
                                  : naive->fault == FAULT_TOPIC_EVENT_MISSING ? QUEUE_EVENT_TOPIC
                                                                              : 0;

    for (size_t i = 0; i < model->event_count; i++)
        if (queue->on_event && model->events[i].event != kept_quiet)
            queue->on_event(queue->on_event_owner, model->events[i].event,
                            slice_of(model->events[i].topic));
    model->event_count = 0;
}

static void naive_pump(void *self)
{
    struct naive *naive = self;
    struct pending *pending = naive->first;

    naive->first = NULL;
    naive->last = &naive->first;
    while (pending) {
        struct pending *next = pending->next;

        pending->to.done(pending->to.owner, pending->to.tag, &pending->outcome.reply);
        outcome_free(&pending->outcome);
        free(pending);
        pending = next;
    }
    for (size_t i = 0; i < naive->watched_count; i++) {
        bool report = naive->watched[i].report && naive->watched[i].count;

        naive->watched[i].report = false;
        if (report)
            naive->queue.on_ready(naive->queue.on_ready_owner, slice_of(naive->watched[i].name));
    }
    report_events(naive);
}

static void naive_moved(void *self)
{
    naive_report_watchers(naive_begin(&((struct naive *)self)->queue));
}

static void naive_close(void *self)
{
    struct naive *naive = self;

    naive_pump(self);
    if (kept) {
        model_fini(&kept->model);
        free(kept);
    }
    naive->watched_count = 0;
    kept = naive;
}

const struct driver driver_naive = {
    .name = "naive",
    .shards = 1,
    .is_at_once = true,
    .open = naive_open,
    .queue = naive_queue,
    .pump = naive_pump,
    .moved = naive_moved,
    .close = naive_close,
};

static enum fault chosen_fault;

static void *faulty_open(const struct driver_options *options)
{
    return open_with(options, chosen_fault);
}

const struct driver *driver_faulty(size_t number, const char **what)
{
    static const struct driver driver = {
        .name = "faulty",
        .shards = 1,
        .is_at_once = true,
        .open = faulty_open,
        .queue = naive_queue,
        .pump = naive_pump,
        .moved = naive_moved,
        .close = naive_close,
    };

    if (number + 1 >= FAULT_END)
        return NULL;
    chosen_fault = (enum fault)(number + 1);
    *what = fault_texts[chosen_fault];
    return &driver;
}
