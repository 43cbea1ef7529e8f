/*
 * job_row: a job as a row of tarry.job shows it to a caller. Pure.
 */
#ifndef TARRY_SQL_MYSQL_JOB_ROW_H
#define TARRY_SQL_MYSQL_JOB_ROW_H

#include "job/job.h"
#include "sql/mysql/libmariadb.h"

/* Columns for mysql_job_read, from tarry.job j. */
extern const char mysql_job_columns[];
void mysql_job_read(struct job *job, MYSQL_ROW row, const unsigned long *lengths, int64_t now_ms);
uint64_t mysql_body_bytes(MYSQL_ROW row);

#endif
