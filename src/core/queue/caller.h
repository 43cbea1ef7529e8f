/*
 * caller: on whose behalf a call of a queue is made, and the rules that it is subject to. The door (queue/door.h) applies them, once,
 * whatever protocol the call came by and whatever store is behind the door.
 *
 * A front has one structure for its callers that begins with a `struct queue_caller`, and gives it with each call
 * (queue_reply_to.caller). It need only be valid during the call. A call without a caller is tarry's own: no rule applies.
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
    /* May the caller do this: item `i` of a push or change, or a call that changes a topic? Called once for each that is well
     * formed, in their order. An item that is admitted is charged. False: *out says why not, in all its members. */
    bool (*admit)(const struct queue_caller *caller, const struct command *command, size_t i,
                  struct queue_check *out);
    /* A call that changes a topic begins, admitted or not. What is returned is handed to `end` with the reply, before the
     * caller gets that; the caller may be gone by then. NULL: nothing was begun. */
    void *(*begin)(const struct queue_caller *caller, const struct command *command);
    void (*end)(void *begun, const struct queue_reply *reply);
};

#endif
