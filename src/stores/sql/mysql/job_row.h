/*
 * job_row: a job as a row of tarry.job shows it to a caller. Pure.
 */
#ifndef TARRY_SQL_MYSQL_JOB_ROW_H
#define TARRY_SQL_MYSQL_JOB_ROW_H

#include "job/job.h"
#include "sql/mysql/libmariadb.h"
#include "sql/waiting.h"

/* Columns for mysql_job_read, from tarry.job j. */
extern const char mysql_job_columns[];
/* The same for takes, which read the own batch afterwards: a statement with a stored function, or with another table,
 * costs more for each job. Without and with the name of the group. */
extern const char mysql_taken_columns[], mysql_taken_group_columns[];
void mysql_job_read(struct job *job, MYSQL_ROW row, const unsigned long *lengths, int64_t now_ms);
uint64_t mysql_body_bytes(MYSQL_ROW row);
/* Returns the own batch of the job as text (tarry.server_waiting); or NULL. */
const char *mysql_waiting_text(MYSQL_ROW row);

/* Parses what tarry.server_waiting returns. Returns false for NULL. */
bool mysql_waiting_read(const char *text, int64_t figures[SQL_WAITING_FIGURES]);

#endif
