/*
 * answers: reads the results of a transaction's statements into its calls and effects.
 */
#ifndef TARRY_SQL_POSTGRES_ANSWERS_H
#define TARRY_SQL_POSTGRES_ANSWERS_H

#include "sql/postgres/calls.h"
#include "sql/postgres/client.h"

#include <stdint.h>

/* Reads a number or boolean in PostgreSQL's binary format. NULL is read as 0. */
int64_t postgres_row_number(const PGresult *result, int row, int column);

/* Reads the result of one statement and takes ownership of `rows`. Returns false if out of memory. */
bool postgres_step_read(const struct postgres_step *step, struct postgres_link *link,
                        PGresult *rows);
/* Reads the jobs that the end of the transaction made due (postgres_batches_send). */
void postgres_batches_read(struct postgres_link *link, const PGresult *result);

#endif
