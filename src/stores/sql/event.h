/*
 * event: what happened to a job or topic, as a line of text: so it goes from server to server by way
 * of the database. Pure.
 *
 *     KIND ATTEMPT DUE LEASE_UNTIL COUNT WAY TOPIC ID ERROR
 *
 * with one blank between, numbers decimal, what is not known 0 or empty; the error percent-encoded. The
 * schema writes such lines, too.
 */
#ifndef TARRY_SQL_EVENT_H
#define TARRY_SQL_EVENT_H

#include "base/buffer.h"
#include "job/event.h"

enum { SQL_EVENT_BYTES_MAX = 1400 }; /* of a line */

void sql_event_emit(struct buffer *out, const struct job_event *event);

/* Takes the next one from `lines`; its error is decoded into `error`, whose ceiling is
 * SQL_EVENT_BYTES_MAX, and is good as long as that. False: there is none that could be read. */
bool sql_event_take(struct slice *lines, struct buffer *error, struct job_event *out);
/* Whole lines, as many as fit into so many bytes, one of SQL_EVENT_BYTES_MAX at least. */
struct slice sql_event_take_lines(struct slice *lines, size_t bytes_max);
size_t sql_event_count(struct slice lines);
/* A decimal number and the byte behind it. */
bool sql_event_take_number(struct slice *rest, char end, uint64_t *out);

#endif
