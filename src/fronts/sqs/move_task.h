/*
 * move_task: carries out a message move task (move.h) on one server. A task is a job; the server
 * that holds its lease moves messages, one batch at a time. No message is lost or duplicated,
 * whenever a server fails:
 *
 *  1. take messages from the source
 *  2. log which messages they are (move.h)
 *  3. push hidden copies to the destination: due in years, with a meta that names the delivery
 *  4. ack the messages in the source
 *  5. make the copies of acked messages due now; cancel the others
 *
 * A server that resumes the task checks the logged batch once the leases of step 1 have ended, so
 * that no ack can follow. For each message: if the source still has it, the hidden copy is
 * cancelled; if not, the copy becomes due now. A job with the same id in the source is considered
 * the message if it was delivered since and has the same content as the copy: content type, body
 * and metas. So if a client pushes another job under the id of a message that was just moved,
 * neither is lost; an identical job counts as the moved one. A message that is cancelled or
 * replaced in the source meanwhile may still be moved.
 *
 * Runs on the queue's thread only.
 */
#ifndef TARRY_SQS_MOVE_TASK_H
#define TARRY_SQS_MOVE_TASK_H

#include "base/list.h"
#include "queue/queue.h"

enum { SQS_MOVE_TASK_LEASE_MS = 6 * 1000 }; /* of the task's job; then another server continues */

struct sqs_move_task;

/* The owner of the tasks, provided by the caller; must outlive the tasks. */
struct sqs_move_owner {
    struct queue *queue;
    struct list tasks; /* tasks in progress */
    bool is_stopping;  /* tasks are returned after the current batch */
    /* Called when a task pauses: call sqs_move_task_go_on at its sqs_move_task_wake_ms. */
    void (*rested)(struct sqs_move_owner *owner);
    /* Called when a task has ended here and is no longer in the list. */
    void (*ended)(struct sqs_move_owner *owner);
};

/* Starts the task in the job that was taken, if the job is one. Returns false, with nothing done,
 * if memory runs out. */
bool sqs_move_task_start(struct sqs_move_owner *owner, const struct queue_job *taken);
/* Returns when the task of a node of owner->tasks continues, on the inner clock; 0: it waits for
 * the queue. */
int64_t sqs_move_task_wake_ms(const struct list *node);
/* Continues a paused task. */
void sqs_move_task_go_on(struct list *node);
/* Frees all tasks, whose leases end on their own. Call after the queue's last reply. */
void sqs_move_tasks_free(struct sqs_move_owner *owner);

#endif
