/* command: any call of queue.h as a value. What it points at is the caller's, as in the call. */
#ifndef TARRY_QUEUE_COMMAND_H
#define TARRY_QUEUE_COMMAND_H

#include "queue/queue.h"

enum command_kind {
    COMMAND_PUSH = 1,
    COMMAND_ANSWER,
    COMMAND_CHANGE,
    COMMAND_TAKE,
    COMMAND_GET,
    COMMAND_LIST,
    COMMAND_TOPIC,
    COMMAND_TOPICS
};

struct command {
    enum command_kind kind;
    size_t count; /* push, answer, change */
    union {
        const struct queue_push *pushes;
        const struct queue_answer *answers;
        const struct queue_change *changes;
        struct queue_take take;
        struct {
            struct slice topic, id;
        } get;
        struct queue_list list;
        struct queue_topic_call topic;
    };
};

/* Makes the call. */
void command_send(struct queue *queue, const struct command *command,
                  struct queue_reply_to reply_to);

#endif
