/*
 * calls: what calls do in a transaction: to rows, by the rules, and by statements of their own.
 */
#ifndef TARRY_SQL_MYSQL_CALLS_H
#define TARRY_SQL_MYSQL_CALLS_H

#include "queue/queue.h"
#include "sql/call.h"
#include "sql/mysql/libmariadb.h"

struct mysql_link;
struct mysql_row;

/* ---- rules (rules.c): transitions of jobs ---- */

/* Marks topics that pushes must create. A push whose time is too far ahead does not create its
 * topic. */
void mysql_mark_new_topics(struct mysql_link *link);
/* Applies all calls to the rows, which are locked, in the order of the calls. */
void mysql_decide(struct mysql_link *link);
/* Cancels a job that waits. */
void mysql_row_cancel(struct mysql_link *link, struct mysql_row *row);
/* Requests the cancel of a leased job, and drops its successor. */
void mysql_row_request_cancel(struct mysql_row *row);
/* Ends the wait for members. `is_run`: the job is due now, else after its delay, or at its time. */
void mysql_row_wait_ends(struct mysql_link *link, struct mysql_row *row, bool is_run);

/* ---- calls with statements of their own (calls.c) ---- */

void mysql_append_calls(struct mysql_link *link);
/* Appends, after the commit of each tenth upkeep, queries of the health. If the account lacks the
 * right to see all transactions, they are not sent again. */
void mysql_append_health(struct mysql_link *link);
/* Appends statements that run after the rows of the transaction are written. */
void mysql_append_call_ends(struct mysql_link *link);
/* Ends a step of a purge or redrive, and determines whether another one must follow. */
void mysql_call_steps_on(struct mysql_link *link, struct sql_call *call);
#endif
