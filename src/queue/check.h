/* check: is an item of a command one that any queue would take? Pure. Every implementation asks
 * here first, so that all refuse alike. */
#ifndef TARRY_QUEUE_CHECK_H
#define TARRY_QUEUE_CHECK_H

#include "queue/queue.h"

/* QUEUE_OK or the refusal; *detail then names the option for QUEUE_BAD_OPTION. An empty id passes:
 * the queue makes one. */
enum queue_status queue_check_push(const struct queue_push *push, uint64_t body_bytes_max,
                                   const char **detail);
enum queue_status queue_check_change(const struct queue_change *change, const char **detail);
enum queue_status queue_check_answer(const struct queue_answer *answer, const char **detail);
enum queue_status queue_check_take(const struct queue_take *take, const char **detail);
enum queue_status queue_check_list(const struct queue_list *list, const char **detail);
enum queue_status queue_check_topic(const struct queue_topic_call *call, const char **detail);

#endif
