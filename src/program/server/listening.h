/*
 * listening: the addresses on which this server listens: for the API, and for a protocol with its
 * own listener. Each is checked before it is served (config.h).
 *
 * All functions are called before the reactors run, except listening_close, which is called on the
 * first reactor's thread.
 */
#ifndef TARRY_SERVER_LISTENING_H
#define TARRY_SERVER_LISTENING_H

#include "server/config.h"

struct listening { /* zeroed: closed */
    struct listeners api;
    struct listeners side; /* of the side front, at most one */
};

/* Opens the listeners. Returns false with `error` (LISTENER_ERROR_BYTES) if one is not allowed or
 * cannot be opened; the open ones still have to be closed. */
bool listening_open(struct listening *listening, const struct config *config, char *error);
/* Requires tokens from clients of the API, unless the listener has another rule. */
void listening_require_tokens(struct listening *listening);
/* Logs all addresses except the first. */
void listening_log_others(const struct listening *listening);
/* Closes all listeners; may be called again. */
void listening_close(struct listening *listening);

#endif
