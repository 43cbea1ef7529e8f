/*
 * wall: times of callers, which are those of the database's wall clock, and times of the queue, which
 * differ by the adjustment of the database's clock (database_clock.h).
 */
#ifndef TARRY_SQL_WALL_H
#define TARRY_SQL_WALL_H

#include "sql/call.h"

/* Converts the times of a command from the wall clock. */
void sql_wall_read(struct command *command, int64_t adjust_ms);
/* Converts the times of a reply to the wall clock. */
void sql_wall_write(struct sql_call *call, int64_t adjust_ms);

#endif
