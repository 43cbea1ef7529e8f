/*
 * listening: a front's listeners: who is let in, by whom, and how it ends.
 *
 * Fronts that share a descriptor see to it that each has its share. Where no connection can be let
 * in, those that come wait in the system. One thread: the reactor's.
 */
#ifndef TARRY_HTTP_LISTENING_H
#define TARRY_HTTP_LISTENING_H

#include "http/state.h"

/* All listeners of the front's options. 0 or negative errno, then `error` (LISTENER_ERROR_BYTES)
 * says why; what is open then is closed by http_listening_close. */
int http_listening_open(struct http_front *front, char *error);

/* Lets in what has come, and closes: at once where nobody has come for a while, else after some
 * HTTP_POLITE_MS, without a handshake cut short. What waits at a socket that was inherited stays
 * there, for whoever inherits it next. */
void http_listening_drain(struct http_front *front);

/* The front's options have other names or origins: listeners go by them from now on. */
void http_listening_rename(struct http_front *front);

/* At once. May be called again. */
void http_listening_close(struct http_front *front);

#endif
