/* The model's remembered ids: those that finished within their topic's dedup_window. */
#include "model_private.h"

#include <string.h>

static struct model_memory *find_memory(struct model *model, struct slice topic, struct slice id)
{
    for (size_t i = 0; i < model->memory_count; i++)
        if (slice_is(topic, model->memories[i].topic) && slice_is(id, model->memories[i].id))
            return &model->memories[i];
    return NULL;
}

static void forget(struct model *model, struct model_memory *memory)
{
    *memory = model->memories[--model->memory_count];
}

void model_forget_topic(struct model *model, const char *topic)
{
    for (size_t i = model->memory_count; i-- > 0;)
        if (strcmp(model->memories[i].topic, topic) == 0)
            forget(model, &model->memories[i]);
}

void model_forget_old(struct model *model)
{
    for (size_t i = model->memory_count; i-- > 0;)
        if (model->memories[i].until.most_ms <= model->now_ms)
            forget(model, &model->memories[i]);
}

static void remember(struct model *model, struct slice topic, struct slice id, int64_t window_ms)
{
    struct model_memory memory = {.until = model_after(model, window_ms, window_ms)};

    memcpy(memory.topic, topic.at, topic.len);
    memcpy(memory.id, id.at, id.len);
    model->memories =
        model_grow(model->memories, model->memory_count, &model->memory_cap, sizeof memory);
    model->memories[model->memory_count++] = memory;
}

void model_remember(struct model *model, const struct model_job *job, int64_t window_ms)
{
    remember(model, slice_of(job->topic), slice_of(job->id), window_ms);
}

void model_remember_once(struct model *model, const struct queue_push *push)
{
    char room[QUEUE_ONCE_ID_BYTES_MAX];

    if (push->once.len)
        remember(model, push->topic, queue_once_id(push->once, room),
                 push->once_for_ms ? push->once_for_ms : QUEUE_ONCE_MS);
}

static bool knows(struct model *model, struct slice topic, struct slice id, bool seems_known)
{
    struct model_memory *memory = find_memory(model, topic, id);

    if (!memory)
        return false;
    if (model->now_ms < memory->until.least_ms || seems_known)
        return true;
    forget(model, memory);
    return false;
}

bool model_recall(struct model *model, const struct queue_push *push, bool seems_known)
{
    char room[QUEUE_ONCE_ID_BYTES_MAX];

    if (push->once.len && knows(model, push->topic, queue_once_id(push->once, room), seems_known))
        return true;
    return knows(model, push->topic, push->id, seems_known);
}
