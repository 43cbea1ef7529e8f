#include "queue/command.h"

#include <assert.h>

void command_send(struct queue *queue, const struct command *command,
                  struct queue_reply_to reply_to)
{
    const struct queue_ops *ops = queue->ops;
    switch (command->kind) {
    case COMMAND_PUSH:
        ops->push(queue, command->pushes, command->count, reply_to);
        return;
    case COMMAND_ANSWER:
        ops->answer(queue, command->answers, command->count, reply_to);
        return;
    case COMMAND_CHANGE:
        ops->change(queue, command->changes, command->count, reply_to);
        return;
    case COMMAND_TAKE:
        ops->take(queue, &command->take, reply_to);
        return;
    case COMMAND_GET:
        ops->get(queue, command->get.topic, command->get.id, reply_to);
        return;
    case COMMAND_LIST:
        ops->list(queue, &command->list, reply_to);
        return;
    case COMMAND_TOPIC:
        ops->topic(queue, &command->topic, reply_to);
        return;
    case COMMAND_TOPICS:
        ops->topics(queue, reply_to);
        return;
    }
    assert(false); /* not a command */
}
