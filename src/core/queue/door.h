/*
 * door: where every call of a queue comes in, once. What is wrong with it is found out here, and
 * nowhere behind; pushes without an id get one. The rules of the caller (queue/caller.h) are applied here,
 * for all protocols: scopes, rates, numbers of jobs, memory, the audit. queue_submit (queue/queue.h) goes
 * through it.
 *
 * A door belongs to the handle that fronts get, and to its thread. Whoever makes the handle makes
 * its door and frees it.
 */
#ifndef TARRY_QUEUE_DOOR_H
#define TARRY_QUEUE_DOOR_H

#include "queue/queue.h"

/* With the one limit that is the queue's own, and how ids are made: from a seed out of a good
 * source and the wall clock. NULL: out of memory. */
struct queue_door *queue_door_new(uint64_t body_bytes_max, uint64_t seed, int64_t (*wall_ms)(void));
void queue_door_free(struct queue_door *door);

/* From now on pushes of new jobs are refused as DRAINING, but for tarry's own; or not any more. All else
 * goes on. On the handle's thread. */
void queue_drain(struct queue *queue, bool on);

/* What the door asks of an item: QUEUE_OK or the refusal; *detail then names the option for
 * QUEUE_BAD_OPTION. An empty id passes. Pure. */
enum queue_status queue_check_push(const struct queue_push *push, uint64_t body_bytes_max,
                                   const char **detail);
enum queue_status queue_check_change(const struct queue_change *change, const char **detail);
enum queue_status queue_check_answer(const struct queue_answer *answer, const char **detail);
enum queue_status queue_check_take(const struct queue_take *take, const char **detail);
enum queue_status queue_check_list(const struct queue_list *list, const char **detail);
enum queue_status queue_check_topic(const struct queue_topic_call *call, const char **detail);

#endif
