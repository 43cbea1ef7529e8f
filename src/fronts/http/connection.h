/*
 * connection: a socket, its exchanges in order, and what happens next on it. Bytes of an incomplete
 * request are its input (input.h), bytes to be sent its output (output.h), and its timeout is that
 * of its phase (phase.h).
 *
 * A connection is not changed in the middle of an event. It is put on the front's dirty list; at
 * the end of the loop iteration its output is written and its next step is decided.
 *
 * In:  all connections read into one buffer of the front, where requests are parsed. A connection
 *      stores only the rest of an incomplete request. So a connection that waits for an answer
 *      holds no input buffer.
 * Out: the answers of a loop iteration are collected per connection and written at its end with one
 *      call. The rest that the socket does not take is written later.
 */
#ifndef TARRY_HTTP_CONNECTION_H
#define TARRY_HTTP_CONNECTION_H

#include "http/connection_state.h"

/* Creates a connection for the accepted `fd` and takes ownership of it. */
void http_connection_enter(struct http_listener *listener, int fd, const struct peer *peer);

/* The functions below handle all connections of a front and are called by it. */

/* Shortens the running timeouts to the changed options of the front. */
void http_connections_hurry(struct http_front *front);
/* Closes connections whose timeout has expired, or checks whether they are alive. */
void http_connections_expire(struct http_front *front);
/* Writes the output at the end of a loop iteration. Returns true if there is more to do
 * immediately. */
bool http_connections_flush(struct http_front *front);
/* Drains the front: each connection ends after the answer to its current or next request.
 * Connections without a recent request are closed. */
void http_connections_drain(struct http_front *front);
/* Closes all connections immediately: cancels waiting takes; other exchanges lose their
 * connection. */
void http_connections_cut(struct http_front *front);

#endif
