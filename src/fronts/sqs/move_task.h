/*
 * move_task: a message move task (move.h) as one server carries it out. A task is a job; whoever holds its lease moves
 * messages, a batch at a time, and no message is lost or doubled, wherever a server dies:
 *
 *   1. takes messages of the source
 *   2. writes down which they are (move_log.h)
 *   3. pushes copies to where they go, hidden: due in years, with a meta that says which delivery they were
 *   4. acks those of the source
 *   5. lets the copies whose message was acked be due now; cancels the others
 *
 * Whoever takes the task up again looks at the batch that was written down, once the leases of step 1 are over, so
 * that nobody can ack any more: of each message either the source still has it, then a hidden copy is cancelled, or it
 * has not, then the copy is due now. What the source has under its id is the message where it was delivered since
 * and has what the copy has: content type, body and metas. So where somebody pushes another one under the id of
 * one that was just moved, neither is lost; one that is the same to the byte counts as the one that was moved. And
 * a message that somebody cancels or replaces in the source meanwhile may be moved all the same.
 *
 * One thread: the queue's.
 */
#ifndef TARRY_SQS_MOVE_TASK_H
#define TARRY_SQS_MOVE_TASK_H

#include "base/list.h"
#include "queue/queue.h"

enum { SQS_MOVE_TASK_LEASE_MS = 6 * 1000 }; /* of the task's job: so soon another server goes on */

struct sqs_move_task;

/* Who takes tasks: the owner's storage, which outlives them. */
struct sqs_move_owner {
    struct queue *queue;
    struct list tasks; /* what is under way */
    bool is_stopping;  /* tasks are given back as soon as a batch is done */
    /* The task rests: sqs_move_task_go_on is to be called at its sqs_move_task_wake_ms. */
    void (*rested)(struct sqs_move_owner *owner);
    /* One of the tasks is over here, and no longer among them. */
    void (*ended)(struct sqs_move_owner *owner);
};

/* Carries out the job that was taken, if it is a task. False: no memory, and nothing has happened. */
bool sqs_move_task_start(struct sqs_move_owner *owner, const struct queue_job *taken);
/* Of a node of owner->tasks: when it goes on, inner clock; 0: it waits for the queue. */
int64_t sqs_move_task_wake_ms(const struct list *node);
/* Of one that rests. */
void sqs_move_task_go_on(struct list *node);
/* Forgets all of them, whose leases end by themselves: after the queue's last reply. */
void sqs_move_tasks_free(struct sqs_move_owner *owner);

#endif
