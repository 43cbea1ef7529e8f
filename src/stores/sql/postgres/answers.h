/*
 * answers: what the statements of a turn's calls answered, read into the calls and the turn's effects.
 */
#ifndef TARRY_SQL_POSTGRES_ANSWERS_H
#define TARRY_SQL_POSTGRES_ANSWERS_H

#include "sql/postgres/calls.h"

/* One of the turn's statements was answered with `rows`, which are taken over. False: out of memory. */
bool postgres_step_read(const struct postgres_step *step, struct postgres_link *link,
                        PGresult *rows);

#endif
