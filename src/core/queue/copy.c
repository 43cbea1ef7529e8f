/* Both kinds of copy run the same code twice: first without memory, to determine the size, then with it. */
#include "queue/copy.h"

#include <stdlib.h>

struct space {
    char *at; /* NULL: only measure */
    size_t used;
};

static void *place(struct space *space, const void *from, size_t bytes)
{
    size_t at = (space->used + 7) & ~(size_t)7;
    space->used = at + bytes;
    if (!space->at)
        return NULL;
    if (bytes)
        memcpy(space->at + at, from, bytes);
    return space->at + at;
}

static void place_slice(struct space *space, struct slice *into, struct slice from)
{
    void *at = from.len ? place(space, from.at, from.len) : NULL;
    if (space->at)
        *into = slice_make(at, from.len);
}

/* Copies a slice. While measuring, COPY is not written to. */
#define PLACE_SLICE(SPACE, COPY, FROM, FIELD)                                                      \
    do {                                                                                           \
        struct slice fresh_ = {0};                                                                 \
        place_slice((SPACE), &fresh_, (FROM)->FIELD);                                              \
        if ((SPACE)->at)                                                                           \
            (COPY)->FIELD = fresh_;                                                                \
    } while (0)

static void place_push(struct space *space, struct queue_push *copy, const struct queue_push *push)
{
    PLACE_SLICE(space, copy, push, topic);
    PLACE_SLICE(space, copy, push, id);
    PLACE_SLICE(space, copy, push, content_type);
    PLACE_SLICE(space, copy, push, meta);
    PLACE_SLICE(space, copy, push, body);
    PLACE_SLICE(space, copy, push, past.error);
    if (push->once.len)
        PLACE_SLICE(space, copy, push, once);
    if (push->group.len)
        PLACE_SLICE(space, copy, push, group);
    struct queue_batch *batch = push->batch ? place(space, push->batch, sizeof *batch) : NULL;
    if (push->batch) {
        PLACE_SLICE(space, batch, push->batch, topic);
        PLACE_SLICE(space, batch, push->batch, id);
        PLACE_SLICE(space, batch, push->batch, parent);
    }
    const void *ended = push->ended ? place(space, push->ended, sizeof *push->ended) : NULL;
    if (copy)
        copy->ended = ended;
    if (copy)
        copy->batch = batch;
}

static void place_pushes(struct space *space, struct command *into, const struct command *from)
{
    struct queue_push *copies = place(space, from->pushes, from->count * sizeof *copies);
    for (size_t i = 0; i < from->count; i++)
        place_push(space, copies ? &copies[i] : NULL, &from->pushes[i]);
    if (into)
        into->pushes = copies;
}

static void place_answers(struct space *space, struct command *into, const struct command *from)
{
    struct queue_answer *copies = place(space, from->answers, from->count * sizeof *copies);
    for (size_t i = 0; i < from->count; i++) {
        struct queue_answer *copy = copies ? &copies[i] : NULL;
        PLACE_SLICE(space, copy, &from->answers[i], lease);
        PLACE_SLICE(space, copy, &from->answers[i], error);
        const struct queue_again *again = from->answers[i].again;
        struct queue_again *later = again ? place(space, again, sizeof *again) : NULL;
        if (again) {
            PLACE_SLICE(space, later, again, content_type);
            PLACE_SLICE(space, later, again, body);
        }
        if (copy)
            copy->again = later;
        if (from->answers[i].result.len + from->answers[i].progress.len) {
            PLACE_SLICE(space, copy, &from->answers[i], result);
            PLACE_SLICE(space, copy, &from->answers[i], result_type);
            PLACE_SLICE(space, copy, &from->answers[i], progress);
        }
    }
    if (into)
        into->answers = copies;
}

static void place_changes(struct space *space, struct command *into, const struct command *from)
{
    struct queue_change *copies = place(space, from->changes, from->count * sizeof *copies);
    for (size_t i = 0; i < from->count; i++) {
        struct queue_change *copy = copies ? &copies[i] : NULL;
        PLACE_SLICE(space, copy, &from->changes[i], topic);
        PLACE_SLICE(space, copy, &from->changes[i], id);
        PLACE_SLICE(space, copy, &from->changes[i], lease);
    }
    if (into)
        into->changes = copies;
}

static void place_finds(struct space *space, struct command *into, const struct command *from)
{
    struct queue_find *copies = place(space, from->finds, from->count * sizeof *copies);
    for (size_t i = 0; i < from->count; i++) {
        struct queue_find *copy = copies ? &copies[i] : NULL;
        PLACE_SLICE(space, copy, &from->finds[i], topic);
        PLACE_SLICE(space, copy, &from->finds[i], id);
    }
    if (into)
        into->finds = copies;
}

static void place_batches(struct space *space, struct command *into, const struct command *from)
{
    struct queue_batch_call *copies = place(space, from->batches, from->count * sizeof *copies);
    for (size_t i = 0; i < from->count; i++) {
        struct queue_batch_call *copy = copies ? &copies[i] : NULL;
        PLACE_SLICE(space, copy, &from->batches[i], topic);
        PLACE_SLICE(space, copy, &from->batches[i], id);
        PLACE_SLICE(space, copy, &from->batches[i], lease);
    }
    if (into)
        into->batches = copies;
}

static void place_take(struct space *space, struct command *into, const struct command *from)
{
    struct slice *copies = place(space, from->take.topics, from->take.topic_count * sizeof *copies);
    for (size_t i = 0; i < from->take.topic_count; i++)
        place_slice(space, copies ? &copies[i] : NULL, from->take.topics[i]);
    if (into)
        into->take.topics = copies;
    PLACE_SLICE(space, into, from, take.id);
    PLACE_SLICE(space, into, from, take.consumer);
}

static void place_command(struct space *space, const struct command *from)
{
    struct command *into = place(space, from, sizeof *from);
    if (from->checks) {
        const void *checks = place(space, from->checks, from->count * sizeof *from->checks);
        if (into)
            into->checks = checks;
    }
    switch (from->kind) {
    case COMMAND_PUSH:
        place_pushes(space, into, from);
        break;
    case COMMAND_ANSWER:
        place_answers(space, into, from);
        break;
    case COMMAND_CHANGE:
        place_changes(space, into, from);
        break;
    case COMMAND_FIND:
        place_finds(space, into, from);
        break;
    case COMMAND_TAKE:
        place_take(space, into, from);
        break;
    case COMMAND_GET:
        PLACE_SLICE(space, into, from, get.topic);
        PLACE_SLICE(space, into, from, get.id);
        break;
    case COMMAND_AWAIT: {
        const struct queue_reply_to *cancels = from->await.cancels;
        const void *copy = cancels ? place(space, cancels, sizeof *cancels) : NULL;
        PLACE_SLICE(space, into, from, await.topic);
        PLACE_SLICE(space, into, from, await.id);
        if (into)
            into->await.cancels = copy;
        break;
    }
    case COMMAND_LIST:
        PLACE_SLICE(space, into, from, list.topic);
        PLACE_SLICE(space, into, from, list.cursor);
        break;
    case COMMAND_TOPIC:
        PLACE_SLICE(space, into, from, topic.topic);
        PLACE_SLICE(space, into, from, topic.id);
        PLACE_SLICE(space, into, from, topic.settings.extension);
        break;
    case COMMAND_TOPICS:
        PLACE_SLICE(space, into, from, topics.after);
        break;
    case COMMAND_GROUP:
        PLACE_SLICE(space, into, from, group.topic);
        PLACE_SLICE(space, into, from, group.group);
        break;
    case COMMAND_GROUPS:
        PLACE_SLICE(space, into, from, groups.topic);
        PLACE_SLICE(space, into, from, groups.cursor);
        break;
    case COMMAND_FORECAST:
        PLACE_SLICE(space, into, from, forecast.topic);
        break;
    case COMMAND_BATCH:
        place_batches(space, into, from);
        break;
    }
}

struct command *copy_command(const struct command *command)
{
    struct space space = {0};
    place_command(&space, command);
    if (!(space.at = malloc(space.used)))
        return NULL;
    space.used = 0;
    place_command(&space, command);
    return (struct command *)(void *)space.at;
}

/* ---- replies ---- */

static void place_results(struct space *space, struct queue_reply *into,
                          const struct queue_reply *from)
{
    struct queue_result *copies = place(space, from->results, from->result_count * sizeof *copies);
    for (size_t i = 0; i < from->result_count; i++) {
        struct queue_result *copy = copies ? &copies[i] : NULL;
        PLACE_SLICE(space, copy, &from->results[i], topic);
        PLACE_SLICE(space, copy, &from->results[i], id);
        PLACE_SLICE(space, copy, &from->results[i], group);
    }
    if (into)
        into->results = copies;
}

static void place_end(struct space *space, struct queue_job *job, const struct queue_end *end)
{
    struct queue_end *copy = place(space, end, sizeof *end);
    PLACE_SLICE(space, copy, end, result);
    PLACE_SLICE(space, copy, end, result_type);
    if (job)
        job->end = copy;
}

static void place_jobs(struct space *space, struct queue_reply *into,
                       const struct queue_reply *from)
{
    struct queue_job *copies = place(space, from->jobs, from->job_count * sizeof *copies);
    for (size_t i = 0; i < from->job_count; i++) {
        const struct queue_job *job = &from->jobs[i];
        struct queue_job *copy = copies ? &copies[i] : NULL;
        PLACE_SLICE(space, copy, job, job.topic);
        PLACE_SLICE(space, copy, job, job.id);
        PLACE_SLICE(space, copy, job, job.content_type);
        PLACE_SLICE(space, copy, job, job.meta);
        PLACE_SLICE(space, copy, job, job.body);
        PLACE_SLICE(space, copy, job, job.error);
        PLACE_SLICE(space, copy, job, job.history);
        PLACE_SLICE(space, copy, job, job.consumer);
        PLACE_SLICE(space, copy, job, job.progress);
        PLACE_SLICE(space, copy, job, lease);
        if (job->job.group.len)
            PLACE_SLICE(space, copy, job, job.group);
        if (job->job.batch.len)
            PLACE_SLICE(space, copy, job, job.batch);
        if (job->end)
            place_end(space, copy, job->end);
        const void *waiting =
            job->waiting ? place(space, job->waiting, sizeof *job->waiting) : NULL;
        if (copy)
            copy->waiting = waiting;
    }
    if (into)
        into->jobs = copies;
}

static void place_reply(struct space *space, const struct queue_reply *from)
{
    struct queue_reply *into = place(space, from, sizeof *from);
    place_results(space, into, from);
    place_jobs(space, into, from);
    struct queue_topic *topics = place(space, from->topics, from->topic_count * sizeof *topics);
    for (size_t i = 0; i < from->topic_count; i++) {
        struct queue_topic *copy = topics ? &topics[i] : NULL;
        PLACE_SLICE(space, copy, &from->topics[i], name);
        PLACE_SLICE(space, copy, &from->topics[i], settings.extension);
    }
    if (into)
        into->topics = topics;
    struct queue_group *groups = place(space, from->groups, from->group_count * sizeof *groups);
    for (size_t i = 0; i < from->group_count; i++)
        PLACE_SLICE(space, groups ? &groups[i] : NULL, &from->groups[i], name);
    if (into)
        into->groups = groups;
    const void *forecast =
        from->forecast ? place(space, from->forecast, sizeof *from->forecast) : NULL;
    if (into)
        into->forecast = forecast;
    PLACE_SLICE(space, into, from, cursor);
}

struct queue_reply *copy_reply(const struct queue_reply *reply)
{
    struct space space = {0};
    place_reply(&space, reply);
    if (!(space.at = malloc(space.used)))
        return NULL;
    space.used = 0;
    place_reply(&space, reply);
    return (struct queue_reply *)(void *)space.at;
}
