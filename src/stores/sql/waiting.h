/*
 * waiting: jobs with a batch of their own, as replies show them: with the counts of their members,
 * and if they are taken with these counts in their meta. The database keeps the counts.
 */
#ifndef TARRY_SQL_WAITING_H
#define TARRY_SQL_WAITING_H

#include "sql/call.h"

/* Columns of a row about the batch of a waiting job. */
enum sql_waiting_figure {
    SQL_WAITING_ON_DEAD,
    SQL_WAITING_CLOSED,
    SQL_WAITING_ENDED,
    SQL_WAITING_COUNTS, /* in the order of enum batch_outcome */
    SQL_WAITING_MEMBERS = SQL_WAITING_COUNTS + BATCH_OUTCOMES,
    SQL_WAITING_WAIT,
    SQL_WAITING_CLOSE,
    SQL_WAITING_FIGURES
};

/* Adds the batch to a job of the reply, whose own batch, as a member, is already set. While the job waits, its first due is
 * the due after the wait: minus the delay, or the earliest time. Returns false
 * if out of memory. */
bool sql_waiting_show(struct sql_call *call, struct queue_job *job,
                      const int64_t figures[SQL_WAITING_FIGURES], bool is_taken);

#endif
