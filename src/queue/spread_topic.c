/* Topic calls over several parts that are more than the same call to each of them. */
#include "queue/copy.h"
#include "queue/spread_private.h"

#include <stdlib.h>

struct spread_topic {
    struct spread *spread;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy */
    uint32_t asked;          /* redrive: parts */
    uint64_t affected;
    enum queue_status status; /* redrive: OK once a part knew the topic */
};

static struct spread_topic *spread_topic_new(struct spread *spread, const struct command *command,
                                             struct queue_reply_to reply_to)
{
    struct spread_topic *topic = calloc(1, sizeof *topic);
    struct command *copy = copy_command(command);
    if (!topic || !copy) {
        free(topic);
        free(copy);
        spread_refuse(spread, QUEUE_NO_MEMORY, reply_to);
        return NULL;
    }
    *topic = (struct spread_topic){
        .spread = spread, .reply_to = reply_to, .command = copy, .status = QUEUE_NOT_FOUND};
    return topic;
}

static void spread_topic_free(struct spread_topic *topic)
{
    free(topic->command);
    free(topic);
}

static void finish(struct spread_topic *topic, const struct queue_reply *reply)
{
    topic->reply_to.done(topic->reply_to.owner, topic->reply_to.tag, reply);
    spread_topic_free(topic);
}

/* ---- pause ---- */

static void topic_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct spread_topic *topic = owner;
    (void)tag;
    if (reply->status != QUEUE_OK) {
        finish(topic, reply);
        return;
    }
    spread_sum(topic->spread, topic->command, topic->reply_to);
    spread_topic_free(topic);
}

/* A part that has no job of the topic yet must know of the pause as well, before its first one
 * comes. But a topic that no part knows is not made. */
void spread_pause(struct spread *spread, const struct command *command,
                  struct queue_reply_to reply_to)
{
    struct command show = {.kind = COMMAND_TOPIC,
                           .topic = {.verb = QUEUE_TOPIC_GET, .topic = command->topic.topic}};
    struct spread_topic *topic = spread_topic_new(spread, command, reply_to);
    if (!topic)
        return;
    topic->command->topic.makes = true;
    spread_sum(spread, &show, (struct queue_reply_to){.done = topic_shown, .owner = topic});
}

/* ---- a redrive of at most so many ---- */

static void redrive_next(struct spread_topic *topic);

static void part_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct spread_topic *topic = owner;
    (void)tag;
    topic->affected += reply->affected;
    if (reply->status != QUEUE_NOT_FOUND)
        topic->status = reply->status;
    redrive_next(topic);
}

static void redrive_next(struct spread_topic *topic)
{
    const struct queue_topic_call *call = &topic->command->topic;
    bool may_go_on = topic->status == QUEUE_OK || topic->status == QUEUE_NOT_FOUND;
    if (!may_go_on || topic->asked == topic->spread->part_count || topic->affected >= call->max) {
        struct queue_reply reply = {.status = topic->status, .affected = topic->affected};
        finish(topic, &reply);
        return;
    }
    struct command part = {.kind = COMMAND_TOPIC, .topic = *call};
    part.topic.max = call->max - topic->affected;
    spread_send(topic->spread, topic->asked++, &part,
                (struct queue_reply_to){.done = part_done, .owner = topic});
}

/* One part after the other, so that no more are sent round than was asked for. */
void spread_redrive(struct spread *spread, const struct command *command,
                    struct queue_reply_to reply_to)
{
    struct spread_topic *topic = spread_topic_new(spread, command, reply_to);
    if (topic)
        redrive_next(topic);
}
