/*
 * copy: commands and replies that must live longer than the call they came with: on their way to
 * another thread, or waiting for room.
 *
 * A copy is one block of memory with all it points at. Made by copy_…, given back by free().
 */
#ifndef TARRY_LOCAL_COPY_H
#define TARRY_LOCAL_COPY_H

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

/* Any call of queue.h as a value. */
struct command {
    enum command_kind kind;
    size_t count;     /* push, answer, change */
    bool makes_topic; /* pause: also where the shard does not know the topic yet */
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

/* NULL: out of memory. */
struct command *copy_command(const struct command *command);
struct queue_reply *copy_reply(const struct queue_reply *reply);

#endif
