/*
 * phase: what a connection is waited for, and how long.
 *
 * Each phase has one timeout, and a list of its connections in the front: in order of time by itself.
 * The front has one alarm, for the first of all. The reactor's thread.
 */
#ifndef TARRY_HTTP_PHASE_H
#define TARRY_HTTP_PHASE_H

#include "http/connection.h"

/* How long a connection may stay in it. */
int64_t http_phase_timeout_ms(const struct http_front *front, enum http_phase phase);

/* The connection is in this phase from now on. */
void http_phase_begin(struct http_connection *connection, enum http_phase phase);
/* The same, unless it is in it already. */
static inline void http_phase_enter(struct http_connection *connection, enum http_phase phase)
{
    if (connection->phase != phase)
        http_phase_begin(connection, phase);
}

/* Of all connections of a front: */

/* The timeouts are others now: nobody is waited for longer than that. */
void http_phases_shorten(struct http_front *front);
/* One whose time is over; NULL: there is none. */
struct http_connection *http_phases_find_over(const struct http_front *front, int64_t now_ms);
/* For the first one whose time will be over. */
void http_phases_set_alarm(struct http_front *front);

#endif
