/* check: is an item of a command one that any queue would take? Pure. Asked once for each call: at the
 * door (queue.c), or by the waiters for takes that come through them. */
#ifndef TARRY_QUEUE_CHECK_H
#define TARRY_QUEUE_CHECK_H

#include "queue/queue.h"

/* Whether nothing is wrong with the call, nor with any of its items. */
bool queue_check_command(const struct command *command, uint64_t body_bytes_max);
/* Writes what is wrong into the command: into its `status`, or into `checks`, one for each item, which
 * must live as long as it does. */
void queue_check_note(struct command *command, uint64_t body_bytes_max,
                      struct queue_check checks[QUEUE_BATCH_MAX]);

/* QUEUE_OK or the refusal; *detail then names the option for QUEUE_BAD_OPTION. An empty id passes:
 * the door makes one. */
enum queue_status queue_check_push(const struct queue_push *push, uint64_t body_bytes_max,
                                   const char **detail);
enum queue_status queue_check_change(const struct queue_change *change, const char **detail);
enum queue_status queue_check_answer(const struct queue_answer *answer, const char **detail);
enum queue_status queue_check_take(const struct queue_take *take, const char **detail);
enum queue_status queue_check_list(const struct queue_list *list, const char **detail);
enum queue_status queue_check_topic(const struct queue_topic_call *call, const char **detail);

#endif
