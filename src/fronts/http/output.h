/*
 * output: bytes of answers on their way out of a connection. Those of a turn are written at its end with
 * one call; what the socket does not take follows by itself, and until then nothing else is written.
 *
 * What it holds is counted in the budget of what requests may hold. Leases in answers that were never
 * sent go back to the queue. The reactor's thread.
 */
#ifndef TARRY_HTTP_OUTPUT_H
#define TARRY_HTTP_OUTPUT_H

#include "http/connection.h"

/* What the socket had not taken is out; not good: it will never be, and the peer is gone. */
typedef void http_output_written(struct http_connection *connection, bool is_good);

/* Writes what the socket takes now of connection->out. False: the peer is gone. `written` is told of the
 * rest, unless it was dropped. */
bool http_output_write(struct http_connection *connection, http_output_written *written);
/* The connection ends: what was not written is not written any more. */
void http_output_drop(struct http_connection *connection);

/* Counts what waits to be written in the budget: at once, so that many answers of one turn do not exceed it. */
static inline void http_output_count(struct http_connection *connection)
{
    if (connection->out.cap > BUDGET_SMALL_BYTES)
        budget_recount(&connection->front->shared->budget, &connection->out_counted,
                       connection->out.cap);
}

#endif
