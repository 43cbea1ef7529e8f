/*
 * call_queue: the calls of a session that are not in a transaction: calls that wait for one, in
 * their order, and calls that are ready for their reply. A call that leaves for a transaction comes
 * back.
 *
 * Each call ends in exactly one reply. Only sql_call_queue_reply sends it, so a reply never occurs
 * inside the call that submits it. Used on the reactor's thread.
 */
#ifndef TARRY_SQL_CALL_QUEUE_H
#define TARRY_SQL_CALL_QUEUE_H

#include "sql/awaits.h"
#include "sql/call.h"

enum { SQL_RETRY_MS = 10, SQL_RETRY_MS_MAX = 500 };

struct sql_call_queue {
    struct list waiting;  /* for a transaction */
    struct list answered; /* ready for their reply */
    int64_t commands;     /* number of commands without a reply, wherever they are */
    /* timeout for a command that waits for its transaction, or for an unreachable database */
    int64_t timeout_ms;
    int64_t retry_at_ms; /* elapsed: a call that found its rows locked must not be sent before */
    bool has_clock;      /* a correction of the clock may wait, which goes first */
    struct sql_awaits *awaits; /* receives the results of pushes that are waited for */
};

void sql_call_queue_init(struct sql_call_queue *queue, int64_t timeout_ms);

/* Adds a command. If there is no memory for a copy, the call has no command. */
struct sql_call *sql_call_queue_add(struct sql_call_queue *queue, const struct command *command,
                                    struct queue_reply_to reply_to);
/* Adds an operation of the server itself. Returns NULL if out of memory. */
struct sql_call *sql_call_queue_add_own(struct sql_call_queue *queue, enum sql_call_kind kind);

/* Moves the calls that may go together now into `transaction`, which must be empty. `has_disk`: includes
 * calls that must be durable. */
void sql_call_queue_gather(struct sql_call_queue *queue, bool has_disk, struct list *transaction);
/* Returns the elapsed time at which the first delayed call may go, or INT64_MAX if no call is
 * delayed. */
int64_t sql_call_queue_next_ms(const struct sql_call_queue *queue);

/* Puts the calls of a failed transaction back at the head, in their order. */
void sql_call_queue_return(struct sql_call_queue *queue, struct list *calls);
/* Schedules another try for a call that failed in a transaction of its own. Returns false if the
 * call has timed out. */
bool sql_call_queue_retry(const struct sql_call_queue *queue, struct sql_call *call);
/* Notes how long the transaction of a retried call took, so that other calls get their share of the
 * time. */
void sql_call_queue_note_retry(struct sql_call_queue *queue, int64_t took_ms);

/* Completes a step of a call that is in no list: queues its next step, or its reply. */
void sql_call_queue_step(struct sql_call_queue *queue, struct sql_call *call);
/* Removes a call that needs no reply, or gets it elsewhere. */
void sql_call_queue_drop(struct sql_call_queue *queue, struct sql_call *call);
/* Answers a call of any list with an error. */
void sql_call_queue_refuse(struct sql_call_queue *queue, struct sql_call *call,
                           enum queue_status status);
/* Refuses the commands of the list that have timed out. */
void sql_call_queue_refuse_late(struct sql_call_queue *queue, struct list *calls);
/* Refuses all commands of the list and frees the server's own calls. */
void sql_call_queue_refuse_all(struct sql_call_queue *queue, struct list *calls);
void sql_call_queue_reply(struct sql_call_queue *queue);
/* Refuses all waiting calls and replies, also to calls that replies add, for a few rounds. */
void sql_call_queue_end(struct sql_call_queue *queue);

#endif
