#include "queue/sharded_private.h"

#include <assert.h>
#include <stdlib.h>

static struct sharded *sharded_of(struct queue *queue)
{
    return (struct sharded *)(void *)queue;
}

void sharded_send(struct sharded *sharded, uint32_t part, const struct command *command,
                  struct queue_reply_to reply_to)
{
    struct queue *queue = sharded->parts[part].queue;
    queue->ops->submit(queue, command, reply_to);
}

void sharded_refuse(struct sharded *sharded, enum queue_status status,
                    struct queue_reply_to reply_to)
{
    sharded->options.refuse(sharded->options.ctx, status, reply_to);
}

uint32_t sharded_part_of_job(const struct sharded *sharded, struct slice topic, struct slice id)
{
    uint32_t part = sharded->options.part_of_job(sharded->options.ctx, topic, id);
    assert(part < sharded->part_count);
    return part;
}

static void sharded_get(struct sharded *sharded, const struct command *command,
                        struct queue_reply_to reply_to)
{
    uint32_t part = sharded_part_of_job(sharded, command->get.topic, command->get.id);
    sharded_send(sharded, part, command, reply_to);
}

/* How each kind of call is spread over the parts. */
static void (*const spreads[])(struct sharded *sharded, const struct command *command,
                               struct queue_reply_to reply_to) = {
    [COMMAND_PUSH] = sharded_items,   [COMMAND_ANSWER] = sharded_items,
    [COMMAND_CHANGE] = sharded_items, [COMMAND_TAKE] = sharded_take,
    [COMMAND_GET] = sharded_get,      [COMMAND_LIST] = sharded_list,
    [COMMAND_TOPIC] = sharded_topic,  [COMMAND_TOPICS] = sharded_sum,
};

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    if (command->status != QUEUE_OK)
        sharded_refuse(sharded, command->status, reply_to);
    else
        spreads[command->kind](sharded, command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    struct sharded *sharded = sharded_of(queue);
    for (uint32_t i = 0; i < sharded->part_count; i++)
        queue_watch(sharded->parts[i].queue, topic, on);
}

static void on_ready(void *owner, struct slice topic)
{
    struct sharded_part *part = owner;
    struct sharded *sharded = part->sharded;
    sharded->take_from = (uint32_t)(part - sharded->parts);
    if (sharded->queue.on_ready)
        sharded->queue.on_ready(sharded->queue.on_ready_owner, topic);
}

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct queue *whole = &((struct sharded_part *)owner)->sharded->queue;
    if (whole->on_event)
        whole->on_event(whole->on_event_owner, event, topic);
}

/* What all parts have in common is the first one's word. */
static void on_info(struct queue *queue, struct queue_info *out)
{
    struct sharded *sharded = sharded_of(queue);
    for (uint32_t i = 0; i < sharded->part_count; i++) {
        struct queue_info part = {0};
        queue_info(sharded->parts[i].queue, &part);
        if (i == 0) {
            *out = part;
            continue;
        }
        out->shards += part.shards;
        out->bytes_on_disk += part.bytes_on_disk;
        out->cold_jobs += part.cold_jobs;
        out->runs += part.runs;
        out->checkpoints += part.checkpoints;
        out->checkpoints_failed += part.checkpoints_failed;
        out->healthy &= part.healthy;
        out->accepting &= part.accepting;
        out->moved |= part.moved;
    }
}

static const struct queue_ops sharded_ops = {
    .submit = on_submit, .watch = on_watch, .info = on_info};

struct sharded *sharded_new(const struct sharded_options *options)
{
    assert(options->part_count >= 2 && options->part_count <= SHARDED_PARTS_MAX);
    assert(options->home < options->part_count);
    struct sharded *sharded = calloc(1, sizeof *sharded);
    if (!sharded)
        return NULL;
    sharded->queue.ops = &sharded_ops;
    sharded->options = *options;
    sharded->part_count = options->part_count;
    sharded->take_from = options->home;
    for (uint32_t i = 0; i < sharded->part_count; i++) {
        struct sharded_part *part = &sharded->parts[i];
        *part = (struct sharded_part){.sharded = sharded, .queue = options->parts[i]};
        part->queue->on_ready = on_ready;
        part->queue->on_ready_owner = part;
        part->queue->on_event = on_event;
        part->queue->on_event_owner = part;
    }
    return sharded;
}

void sharded_free(struct sharded *sharded)
{
    free(sharded);
}

struct queue *sharded_queue(struct sharded *sharded)
{
    return &sharded->queue;
}
