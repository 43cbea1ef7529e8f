/*
 * kept: the ends of jobs in a transaction: rows of finished jobs that are kept, and the rows of those who
 * wait for an end.
 */
#ifndef TARRY_SQL_MYSQL_KEPT_H
#define TARRY_SQL_MYSQL_KEPT_H

#include "queue/cursor.h"
#include "sql/call.h"
#include "sql/mysql/wire.h"

struct mysql_link;
struct mysql_row;
struct mysql_topic;

/* Records that a job ends: `outcome` is an enum job_end, or MYSQL_END_…. Counts it if it is kept. */
void mysql_row_ends(struct mysql_row *row, int outcome, const struct queue_answer *answer,
                    int64_t counts[SQL_COUNTS]);
/* Records that a push stores a new job under the id of a row, which a kept job may have. */
void mysql_row_takes_id(struct mysql_row *row, int64_t counts[SQL_COUNTS]);

/* Appends statements that store kept jobs, before their jobs are deleted, and that remove kept jobs
 * whose ids have a job again. */
void mysql_append_kept(struct mysql_link *link);
/* Appends a query that finds which ended jobs are awaited. */
void mysql_append_awaited(struct mysql_link *link);
/* Appends statements that set how awaited jobs have ended, and those that add the rows of pushes. Ends
 * the rows that SQL_CALL_AWAIT returns. */
void mysql_append_ended(struct mysql_link *link);

/* Appends the look-up of a kept job, and a page of them, newest first. */
void mysql_append_kept_get(struct mysql_link *link, struct sql_call *call);
void mysql_append_kept_list(struct mysql_link *link, struct sql_call *call,
                            const struct mysql_topic *topic, const struct queue_cursor *cursor);
/* Appends the statements of SQL_CALL_AWAIT and SQL_CALL_PEEK. */
void mysql_append_await(struct mysql_link *link, struct sql_call *call);
void mysql_append_peek(struct mysql_link *link, struct sql_call *call);

#endif
