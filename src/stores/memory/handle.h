/*
 * handle: a queue in memory behind the interface of queue/queue.h.
 *
 * Calls are executed inside queue_submit. Their replies and notifications are delivered in order by
 * memory_handle_step. Everything runs on one thread.
 */
#ifndef TARRY_MEMORY_HANDLE_H
#define TARRY_MEMORY_HANDLE_H

#include "memory/memory.h"

struct memory_handle;

/* Creates a handle. It replaces the hooks in the options. Returns NULL if out of memory. */
struct memory_handle *memory_handle_new(const struct memory_options *options);
/* Frees the handle and drops pending replies. */
void memory_handle_free(struct memory_handle *handle);

struct queue *memory_handle_queue(struct memory_handle *handle);
struct memory *memory_handle_memory(struct memory_handle *handle);

/* Advances the queue to the current time and runs callbacks. */
void memory_handle_step(struct memory_handle *handle);
/* Returns when (inner clock) memory_handle_step should run next if there are no calls meanwhile.
 * INT64_MAX: never. */
int64_t memory_handle_next_ms(const struct memory_handle *handle);

#endif
