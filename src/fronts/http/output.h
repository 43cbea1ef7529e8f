/*
 * output: bytes of answers to be sent on a connection. The output of a loop iteration is written at
 * its end, long output in pieces that alternate with those of other connections
 * (net/outflow.h). The rest that the socket does not take is written later; until then
 * nothing else is written.
 *
 * The bytes are counted in the budget of requests. Leases in answers that were never sent go back
 * to the queue. Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_OUTPUT_H
#define TARRY_HTTP_OUTPUT_H

#include "http/connection.h"

/* Called when the rest of a write has been sent, or, if not `is_good`, when it cannot be sent
 * because the peer is gone. */
typedef void http_output_written(struct http_connection *connection, bool is_good);

/* Writes as much of connection->socket.out as the socket takes. Returns false if the peer is gone. Calls
 * `written` when the rest is written, unless it was dropped. */
bool http_output_write(struct http_connection *connection, http_output_written *written);
/* Returns how many bytes of a write in progress the socket has not taken yet. */
size_t http_output_left(const struct http_connection *connection);
/* Drops unwritten output when the connection ends. */
void http_output_drop(struct http_connection *connection);

#endif
