/* Topic calls over several shards that are more than the same call to each of them. */
#include "local/handle.h"

#include <stdlib.h>

struct gather_topic {
    struct handle *handle;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy */
    uint32_t asked;          /* redrive: shards */
    uint64_t affected;
    enum queue_status status; /* redrive: OK once a shard knew the topic */
};

static struct gather_topic *gather_topic_new(struct handle *handle, const struct command *command,
                                             struct queue_reply_to reply_to)
{
    struct gather_topic *gather = calloc(1, sizeof *gather);
    struct command *copy = copy_command(command);
    if (!gather || !copy) {
        free(gather);
        free(copy);
        route_refuse(handle, QUEUE_NO_MEMORY, reply_to);
        return NULL;
    }
    *gather = (struct gather_topic){
        .handle = handle, .reply_to = reply_to, .command = copy, .status = QUEUE_NOT_FOUND};
    return gather;
}

static void gather_topic_free(struct gather_topic *gather)
{
    free(gather->command);
    free(gather);
}

static void finish(struct gather_topic *gather, const struct queue_reply *reply)
{
    gather->reply_to.done(gather->reply_to.owner, gather->reply_to.tag, reply);
    gather_topic_free(gather);
}

/* ---- pause ---- */

static void topic_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct gather_topic *gather = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        finish(gather, reply);
        return;
    }
    gather_all(gather->handle, gather->command, gather->reply_to);
    gather_topic_free(gather);
}

/* A shard that has no job of the topic yet must know of the pause as well, before its first one
 * comes. But a topic that no shard knows is not made. */
void gather_pause(struct handle *handle, const struct command *command,
                  struct queue_reply_to reply_to)
{
    struct command show = {.kind = COMMAND_TOPIC,
                           .topic = {.verb = QUEUE_TOPIC_GET, .topic = command->topic.topic}};
    struct gather_topic *gather = gather_topic_new(handle, command, reply_to);
    if (!gather)
        return;
    gather->command->makes_topic = true;
    gather_all(handle, &show, (struct queue_reply_to){.done = topic_shown, .owner = gather});
}

/* ---- a redrive of at most so many ---- */

static void redrive_next(struct gather_topic *gather);

static void part_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct gather_topic *gather = owner;
    (void)tag;
    gather->affected += reply->affected;
    if (reply->status != QUEUE_NOT_FOUND)
        gather->status = reply->status;
    redrive_next(gather);
}

static void redrive_next(struct gather_topic *gather)
{
    const struct queue_topic_call *call = &gather->command->topic;
    bool may_go_on = gather->status == QUEUE_OK || gather->status == QUEUE_NOT_FOUND;
    if (!may_go_on || gather->asked == gather->handle->local->shard_count ||
        gather->affected >= call->max) {
        struct queue_reply reply = {.status = gather->status, .affected = gather->affected};
        finish(gather, &reply);
        return;
    }
    struct command part = {.kind = COMMAND_TOPIC, .topic = *call};
    part.topic.max = call->max - gather->affected;
    route_send(gather->handle, gather->asked++, &part,
               (struct queue_reply_to){.done = part_done, .owner = gather});
}

/* One shard after the other, so that no more are sent round than was asked for. */
void gather_redrive(struct handle *handle, const struct command *command,
                    struct queue_reply_to reply_to)
{
    struct gather_topic *gather = gather_topic_new(handle, command, reply_to);
    if (gather)
        redrive_next(gather);
}
