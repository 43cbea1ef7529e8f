/*
 * event: what happened to a job or topic, as a line of text. Servers exchange events in this form
 * through the database. Pure.
 *
 *     KIND ATTEMPT DUE LEASE_UNTIL COUNT WAY TOPIC ID ERROR
 *
 * Fields are separated by one blank, numbers are decimal, unknown values are 0 or empty, and the
 * error is percent-encoded. The schema also writes such lines.
 */
#ifndef TARRY_SQL_EVENT_H
#define TARRY_SQL_EVENT_H

#include "base/buffer.h"
#include "job/event.h"

enum { SQL_EVENT_BYTES_MAX = 1400 }; /* per line */

void sql_event_emit(struct buffer *out, const struct job_event *event);

/* Parses the next event from `lines`. Its error is decoded into `error`, whose capacity limit is
 * SQL_EVENT_BYTES_MAX, and points there. Returns false if no event could be parsed. */
bool sql_event_take(struct slice *lines, struct buffer *error, struct job_event *out);
/* Takes as many whole lines as fit into `bytes_max`, which must be at least SQL_EVENT_BYTES_MAX. */
struct slice sql_event_take_lines(struct slice *lines, size_t bytes_max);
size_t sql_event_count(struct slice lines);
/* Parses a decimal number and the byte `end` after it. */
bool sql_event_take_number(struct slice *rest, char end, uint64_t *out);

#endif
