/*
 * caller: on whose behalf a call of a queue is made, and the rules that apply to it. The door (queue/door.h) applies
 * them once, for all protocols and all stores.
 *
 * A front has one structure for its callers that begins with a `struct queue_caller`, and passes it with each call
 * (queue_reply_to.caller). It need only be valid during the call. A call without a caller is made by tarry itself: no
 * rule applies.
 *
 * One thread: that of the handle.
 */
#ifndef TARRY_QUEUE_CALLER_H
#define TARRY_QUEUE_CALLER_H

#include "queue/queue.h"

struct queue_caller {
    const struct queue_rules *rules;
};

struct queue_rules {
    /* Returns whether the caller may carry out item `i` of a push or change, or a call that changes a topic.
     * Called once for each valid item, in their order. An admitted item is charged to the caller. False: all
     * members of *out are set to the reason. */
    bool (*admit)(const struct queue_caller *caller, const struct command *command, size_t i,
                  struct queue_check *out);
    /* Called at the start of a call that changes a topic, admitted or not. Its result is passed to `end` with the
     * reply, before the caller receives the reply; the caller may be gone by then. NULL: `end` is not called. */
    void *(*begin)(const struct queue_caller *caller, const struct command *command);
    void (*end)(void *begun, const struct queue_reply *reply);
};

#endif
