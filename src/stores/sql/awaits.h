/*
 * awaits: the clients of this server that wait for the end of jobs.
 *
 * Each awaited job has a row in the database, tarry.awaited. The transaction that ends the job sets
 * that row. A call of the server itself, SQL_CALL_AWAIT, adds rows, removes rows that no client
 * needs any more, and returns the jobs that have ended. After a new connection all rows are added
 * again, so that no end is missed.
 *
 * Used on the reactor's thread. A wait owns a copy of its names; the clients end it by its
 * destination.
 */
#ifndef TARRY_SQL_AWAITS_H
#define TARRY_SQL_AWAITS_H

#include "base/list.h"
#include "base/table.h"
#include "queue/queue.h"

/* State of a job that another transaction is about to change: the call is repeated soon. */
enum {
    SQL_AWAIT_LOCKED = 100,
    SQL_AWAIT_ITEMS_MAX = 1000, /* per call */
    SQL_AWAITED_KEY_BYTES_MAX = JOB_TOPIC_BYTES_MAX + 1 + JOB_ID_BYTES_MAX
};

struct sql_awaited { /* A job that clients wait for. */
    struct table_entry entry;
    struct list place; /* in `fresh` or `left`, or unlinked */
    struct list waits; /* of struct sql_wait; empty: its row is to be removed */
    bool is_sent;      /* its row is being added or removed */
    size_t topic_bytes;
    char key[SQL_AWAITED_KEY_BYTES_MAX]; /* topic, a line feed, id */
};
TABLE_DECLARE(sql_awaited_jobs, struct sql_awaited, entry)

struct sql_awaits {
    struct sql_awaited_jobs jobs;
    struct list fresh;     /* jobs whose rows are to be added */
    struct list left;      /* jobs whose rows are to be removed */
    struct list cancelled; /* waits that were ended, and whose reply comes soon */
    bool is_notified;      /* a row was set */
    int64_t locked_ms;     /* elapsed: not before this time, if another transaction holds a job */
};

void sql_awaits_init(struct sql_awaits *awaits);
/* Ends all waits without a reply. */
void sql_awaits_fini(struct sql_awaits *awaits);

/* Begins a wait. Returns false if out of memory. */
bool sql_awaits_add(struct sql_awaits *awaits, struct slice topic, struct slice id,
                    struct queue_reply_to reply_to);
/* Ends the wait with this destination, whose reply, CANCELLED, comes with sql_awaits_reply. Returns
 * false if no such wait exists. */
bool sql_awaits_cancel(struct sql_awaits *awaits, struct slice topic, struct slice id,
                       const struct queue_reply_to *reply_to);
/* Begins the waits of the pushes of a command, before it is sent; the transaction of a push adds its
 * row. Returns false if out of memory. */
bool sql_awaits_push(struct sql_awaits *awaits, const struct command *command);
/* Notes the reply of the pushes: waits whose push stored or found a job continue, others end without
 * a reply. `results` is NULL if all failed. */
void sql_awaits_pushed(struct sql_awaits *awaits, const struct command *command,
                       const struct queue_result *results);
/* Answers the waits that were cancelled. */
void sql_awaits_reply(struct sql_awaits *awaits);
/* Ends all waits with a status. */
void sql_awaits_refuse(struct sql_awaits *awaits, enum queue_status status);

/* Notes that rows may have been lost or set, since the connection is a new one. */
void sql_awaits_doubt(struct sql_awaits *awaits);
/* Returns when the next SQL_CALL_AWAIT is due, in elapsed time; INT64_MAX: not needed. */
int64_t sql_awaits_next_ms(const struct sql_awaits *awaits);

/* Marks the first SQL_AWAIT_ITEMS_MAX jobs of a list as sent: of `fresh`, whose rows the call adds, or
 * of `left`, whose rows it removes. Returns their number. */
size_t sql_awaits_send(struct list *list);
static inline struct sql_awaited *sql_awaited_at(struct list *place)
{
    return list_entry(place, struct sql_awaited, place);
}
static inline struct slice sql_awaited_topic(const struct sql_awaited *job)
{
    return slice_make(job->key, job->topic_bytes);
}
static inline struct slice sql_awaited_id(const struct sql_awaited *job)
{
    return slice_make(job->key + job->topic_bytes + 1, job->entry.key.len - job->topic_bytes - 1);
}

/* The reply to SQL_CALL_AWAIT, whose jobs have ended: answers their waits. `owner` is the awaits. */
queue_done sql_awaits_receive;

#endif
