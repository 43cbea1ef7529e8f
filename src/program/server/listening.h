/*
 * listening: where this server listens: for the API, and for a protocol that is spoken at a listener of its
 * own. Each is judged before it is served (exposure.h).
 *
 * Before the reactors run, but for listening_close, which is on the first one's thread.
 */
#ifndef TARRY_SERVER_LISTENING_H
#define TARRY_SERVER_LISTENING_H

#include "server/config.h"

struct listening { /* zeroed: closed */
    struct listeners api;
    struct listeners side; /* none or one, of the side front */
};

/* False: `error` (LISTENER_ERROR_BYTES) says why one may or can not be; what is open is still to be closed. */
bool listening_open(struct listening *listening, const struct config *config, char *error);
/* Clients of the API can prove themselves, and so must, where nothing else is said. */
void listening_require_tokens(struct listening *listening);
/* Says where, but for the first. */
void listening_log_others(const struct listening *listening);
/* May be called again. */
void listening_close(struct listening *listening);

#endif
