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
struct mysql_step;

/* ---- rules (rules.c): transitions of jobs ---- */

/* Returns true if the time is beyond the maximum delay of a job. */
bool mysql_is_far(int64_t now_ms, const struct queue_when *when);
/* Applies the items of a call to the rows, which are locked. */
void mysql_decide(struct mysql_link *link, struct sql_call *call);
/* Applies a purge, redrive or expire to a row that it has selected. */
void mysql_decide_own(struct mysql_link *link, struct sql_call *call, struct mysql_row *row);

/* ---- calls (calls.c): calls with statements of their own ---- */

/* Appends the statements of a call. */
void mysql_append_call(struct mysql_link *link, struct sql_call *call);
/* Columns for mysql_job_read, from tarry.job j. */
extern const char mysql_job_columns[];
void mysql_job_read(struct job *job, MYSQL_ROW row, const unsigned long *lengths, int64_t now_ms);
uint64_t mysql_body_bytes(MYSQL_ROW row);
/* Appends statements that run after the rows of the transaction are written. */
void mysql_append_call_end(struct mysql_link *link, struct sql_call *call);
/* Ends a step of a purge or redrive, and determines whether another one must follow. */
void mysql_call_steps_on(struct mysql_link *link, struct sql_call *call);

#endif
