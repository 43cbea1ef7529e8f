#include "queue/traits.h"

#include <assert.h>
#include <stddef.h>

#define ITEM(TYPE) .has_items = true, .item_bytes = sizeof(struct TYPE)
#define NAMES(TYPE)                                                                                \
    .has_names = true, .topic_at = offsetof(struct TYPE, topic), .id_at = offsetof(struct TYPE, id)

const struct command_traits command_traits[COMMAND_BATCH + 1] = {
    [COMMAND_PUSH] = {ITEM(queue_push), NAMES(queue_push), .writes = true, .is_ruled = true},
    [COMMAND_ANSWER] = {ITEM(queue_answer), .writes = true},
    [COMMAND_CHANGE] = {ITEM(queue_change), NAMES(queue_change), .writes = true, .is_ruled = true},
    [COMMAND_FIND] = {ITEM(queue_find), NAMES(queue_find)},
    [COMMAND_TAKE] = {.takes = true},
    [COMMAND_TOPIC] = {.writes = true, .is_ruled = true},
    [COMMAND_GET] = {0},
    [COMMAND_LIST] = {0},
    [COMMAND_TOPICS] = {0},
    [COMMAND_FORECAST] = {0},
    [COMMAND_AWAIT] = {0},
    [COMMAND_GROUP] = {.writes = true, .is_ruled = true},
    [COMMAND_GROUPS] = {0},
    [COMMAND_BATCH] = {ITEM(queue_batch_call), .writes = true},
};

/* Returns the job of a call without items; an empty id: the call names no job. */
static struct queue_find single_name(const struct command *command)
{
    switch (command->kind) {
    case COMMAND_GET:
        return (struct queue_find){command->get.topic, command->get.id};
    case COMMAND_AWAIT:
        return (struct queue_find){command->await.topic, command->await.id};
    case COMMAND_TAKE:
        return (struct queue_find){command->take.topics[0], command->take.id};
    case COMMAND_TOPIC:
        if (command->topic.verb == QUEUE_TOPIC_REDRIVE)
            return (struct queue_find){command->topic.topic, command->topic.id};
        break;
    default:
        break;
    }
    return (struct queue_find){0};
}

size_t command_name_count(const struct command *command)
{
    if (command_traits[command->kind].has_names)
        return command->count;
    return single_name(command).id.len ? 1 : 0;
}

struct queue_find command_name(const struct command *command, size_t i)
{
    if (command_traits[command->kind].has_names)
        return command_item_name(command, i);
    assert(i == 0);
    return single_name(command);
}
