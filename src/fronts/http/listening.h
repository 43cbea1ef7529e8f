/*
 * listening: the listeners of a front: accepting connections, and the end of it.
 *
 * Fronts that share a descriptor distribute its connections evenly. While no connection can be
 * accepted, new ones wait in the kernel. Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_LISTENING_H
#define TARRY_HTTP_LISTENING_H

#include "http/state.h"

/* Opens all listeners of the front's options. Returns 0 or a negative errno; then `error`
 * (LISTENER_ERROR_BYTES) describes the problem, and http_listening_close closes those already
 * open. */
int http_listening_open(struct http_front *front, char *error);

/* Accepts the connections that have arrived, and closes: immediately if no connection came
 * recently, else after about HTTP_POLITE_MS, so that no handshake is interrupted. Connections on an
 * inherited socket stay in its queue for the next process that inherits it. */
void http_listening_drain(struct http_front *front);

/* Applies changed names or origins of the front's options to the listeners. */
void http_listening_rename(struct http_front *front);

/* Closes the listeners immediately. May be called repeatedly. */
void http_listening_close(struct http_front *front);

#endif
