/*
 * phase: what the front waits for on a connection, and for how long.
 *
 * Each phase has one timeout and one list of its connections in the front, which is ordered by time
 * without sorting. The front has one alarm, for the first timeout of all. Runs on the reactor
 * thread.
 */
#ifndef TARRY_HTTP_PHASE_H
#define TARRY_HTTP_PHASE_H

#include "http/connection.h"

/* Returns how long a connection may stay in the phase. */
int64_t http_phase_timeout_ms(const struct http_front *front, enum http_phase phase);

/* Puts the connection into this phase. */
void http_phase_begin(struct http_connection *connection, enum http_phase phase);
/* Puts the connection into this phase unless it is in it already. */
static inline void http_phase_enter(struct http_connection *connection, enum http_phase phase)
{
    if (connection->phase != phase)
        http_phase_begin(connection, phase);
}

/* The functions below handle all connections of a front. */

/* Shortens the running timeouts to the changed options. */
void http_phases_shorten(struct http_front *front);
/* Returns a connection whose timeout has expired, or NULL. */
struct http_connection *http_phases_find_over(const struct http_front *front, int64_t now_ms);
/* Sets the alarm to the first timeout. */
void http_phases_set_alarm(struct http_front *front);

#endif
