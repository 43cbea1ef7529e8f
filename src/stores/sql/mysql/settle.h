/*
 * settle: the stages of a transaction for batches of jobs.
 *
 * The rules count what the calls do to members (batch.h). Then the rows of these batches are locked, in the order of their numbers,
 * and read with what users' transactions have added (tarry.batch_add). What this means is decided by the rules of life_batch_…: a
 * batch closes, the wait of its job ends, or its members are cancelled. It is written with the rows. A transaction without members
 * and waiting jobs has no such statement.
 *
 * Lock order: rows of jobs, which are never waited for; rows of batches; the rest with SKIP LOCKED.
 */
#ifndef TARRY_SQL_MYSQL_SETTLE_H
#define TARRY_SQL_MYSQL_SETTLE_H

#include <stdbool.h>

struct mysql_link;

bool mysql_names_batches(const struct mysql_link *link);
/* Appends queries for the batches that pushes name, and keeps them from being closed. */
void mysql_append_batch_names(struct mysql_link *link);
/* Appends a query for the batches of the rows that calls name. */
void mysql_append_own_batches(struct mysql_link *link);
bool mysql_batches_are_counted(const struct mysql_link *link);
/* Appends queries that lock and read the counted batches. */
void mysql_append_batch_locks(struct mysql_link *link);
/* Appends queries for what they need: their waiting jobs, members that are cancelled, the permission to close. */
void mysql_append_batch_needs(struct mysql_link *link);
void mysql_decide_batches(struct mysql_link *link);
/* Appends the new rows of batches and members, after those of the jobs. */
void mysql_append_batches(struct mysql_link *link);

#endif
