/*
 * copy: commands and replies that must live longer than the call they came with: on their way to
 * another thread, waiting for room, or for other parts.
 *
 * A copy is one block of memory with all it points at. Made by copy_…, given back by free().
 */
#ifndef TARRY_QUEUE_COPY_H
#define TARRY_QUEUE_COPY_H

#include "queue/queue.h"

/* NULL: out of memory. */
struct command *copy_command(const struct command *command);
struct queue_reply *copy_reply(const struct queue_reply *reply);

#endif
