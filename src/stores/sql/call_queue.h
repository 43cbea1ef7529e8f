/*
 * call_queue: the calls of a session that are in no turn: those that wait for one, in their order, and
 * those whose replies are to be given. A call that leaves it for a turn comes back.
 *
 * Each call ends in one reply, given by sql_call_queue_reply and nowhere else, so never inside the
 * call that submits it. The reactor's thread.
 */
#ifndef TARRY_SQL_CALL_QUEUE_H
#define TARRY_SQL_CALL_QUEUE_H

#include "sql/call.h"

enum { SQL_RETRY_MS = 10, SQL_RETRY_MS_MAX = 500 };

struct sql_call_queue {
    struct list waiting;  /* for a turn */
    struct list answered; /* whose replies are to be given */
    int64_t commands;     /* without a reply, wherever they are */
    int64_t patience_ms;  /* so long a command waits for its turn, or a database out of reach */
    int64_t retry_at_ms;  /* elapsed: no call that found its rows locked goes before */
};

void sql_call_queue_init(struct sql_call_queue *queue, int64_t patience_ms);

/* A command comes in; where there is no room for a copy of it the call has none. */
struct sql_call *sql_call_queue_add(struct sql_call_queue *queue, const struct command *command,
                                    struct queue_reply_to reply_to);
/* Something of the server's own. NULL: out of memory. */
struct sql_call *sql_call_queue_add_own(struct sql_call_queue *queue, enum sql_call_kind kind);

/* Moves those that may go now into `turn`, which is empty, as many as may go together. `has_disk`:
 * also what is to be durable. */
void sql_call_queue_gather(struct sql_call_queue *queue, bool has_disk, struct list *turn);
/* Elapsed time at which the first one may go that waits for a moment; INT64_MAX: none does. */
int64_t sql_call_queue_next_ms(const struct sql_call_queue *queue);

/* A turn came to nothing: its calls go to the head, in their order. */
void sql_call_queue_return(struct sql_call_queue *queue, struct list *calls);
/* A call alone in its turn failed, and another try may do: when that is. False: it has had its time. */
bool sql_call_queue_retry(const struct sql_call_queue *queue, struct sql_call *call);
/* A turn of a call that found its rows locked took so long; the rest has its share of the time. */
void sql_call_queue_note_retry(struct sql_call_queue *queue, int64_t took_ms);

/* A call in no list has what it wanted from its turn: its next step waits, or it is answered. */
void sql_call_queue_step(struct sql_call_queue *queue, struct sql_call *call);
/* A call of any list gets this in place of an answer. */
void sql_call_queue_refuse(struct sql_call_queue *queue, struct sql_call *call,
                           enum queue_status status);
/* Commands of the list that have waited for too long. */
void sql_call_queue_refuse_late(struct sql_call_queue *queue, struct list *calls);
/* All of the list: the server's own just go. */
void sql_call_queue_refuse_all(struct sql_call_queue *queue, struct list *calls);
void sql_call_queue_reply(struct sql_call_queue *queue);
/* Refuses all that waits and replies, also to calls that a reply adds, in a few rounds. */
void sql_call_queue_end(struct sql_call_queue *queue);

#endif
