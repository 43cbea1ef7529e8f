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

void model_remember(struct model *model, const struct model_job *job, int64_t window_ms)
{
    struct model_memory memory = {.until = model_after(model, window_ms, window_ms)};

    memcpy(memory.topic, job->topic, sizeof memory.topic);
    memcpy(memory.id, job->id, sizeof memory.id);
    model->memories =
        model_grow(model->memories, model->memory_count, &model->memory_cap, sizeof memory);
    model->memories[model->memory_count++] = memory;
}

bool model_is_known(struct model *model, const struct queue_push *push, bool seems_known)
{
    struct model_memory *memory = find_memory(model, push->topic, push->id);

    if (!memory)
        return false;
    if (model->now_ms < memory->until.least_ms || seems_known)
        return true;
    forget(model, memory);
    return false;
}
