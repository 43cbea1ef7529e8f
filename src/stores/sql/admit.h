/*
 * admit: the check of rows that an application wrote past the functions of the schema.
 *
 * Such a row has passed neither the door of the queue nor tarry.push. Its job is left out of takes,
 * lookups and lists, since a body, a name or a time beyond the limits would break answers and
 * protocols. A take has leased it: its lease ends by time, and its attempts end by the policy. The
 * row is logged and reported in the status (TROUBLE_DATABASE_ROWS). Pure but for that.
 */
#ifndef TARRY_SQL_ADMIT_H
#define TARRY_SQL_ADMIT_H

#include "sql/call.h"

/* Returns the name of the first member that breaks a rule, or NULL. */
const char *sql_admit_fault(const struct job *job);

/* Removes jobs that break a rule from the reply of a take, a lookup or a list. */
void sql_admit_jobs(struct sql_call *call);

#endif
