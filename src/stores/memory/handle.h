/*
 * handle: a queue in memory as others see one: the interface of queue/queue.h.
 *
 * Calls are carried out inside queue_submit; their replies, and what there is to tell, come in handle_turn,
 * in their order. Everything on one thread.
 */
#ifndef TARRY_MEMORY_HANDLE_H
#define TARRY_MEMORY_HANDLE_H

#include "memory/memory.h"

struct memory_handle;

/* The options' hooks are the handle's own. NULL: out of memory. */
struct memory_handle *memory_handle_new(const struct memory_options *options);
void memory_handle_free(struct memory_handle *handle); /* replies under way are not told */

struct queue *memory_handle_queue(struct memory_handle *handle);
struct memory *memory_handle_memory(struct memory_handle *handle);

/* Lets happen what is due, and calls back. */
void memory_handle_turn(struct memory_handle *handle);
/* Inner clock: when the next turn is wanted if nothing is called meanwhile. INT64_MAX: never. */
int64_t memory_handle_next_ms(const struct memory_handle *handle);

#endif
