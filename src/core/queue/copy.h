/*
 * copy: commands and replies that must outlive their call: on the way to another thread, while they wait for room, or
 * for other parts.
 *
 * A copy is one block of memory that includes everything it points at. Made by copy_…, freed by free().
 */
#ifndef TARRY_QUEUE_COPY_H
#define TARRY_QUEUE_COPY_H

#include "queue/queue.h"

/* Return a copy. NULL: out of memory. */
struct command *copy_command(const struct command *command);
struct queue_reply *copy_reply(const struct queue_reply *reply);

#endif
