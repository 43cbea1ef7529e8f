/*
 * exposure: which listeners may be served, and what is said of those that are open to others. Pure.
 *
 * Loopback and unix sockets are always served. What other machines reach needs TLS, or the word
 * `plain`, and a way for clients to prove themselves; without both it needs --insecure. Each
 * departure is said at every start.
 */
#ifndef TARRY_SERVER_EXPOSURE_H
#define TARRY_SERVER_EXPOSURE_H

#include "net/listener.h"

struct exposure {
    const struct listener_options *options;
    const char *name;
    bool is_local;    /* only this machine reaches it */
    bool can_prove;   /* there is a way for clients to prove themselves */
    bool is_insecure; /* --insecure */
};

/* Must clients prove themselves here? */
bool exposure_requires_token(const struct exposure *exposure);

/* False: `error` (LISTENER_ERROR_BYTES) says why it is not served, and what to do. */
bool exposure_check(const struct exposure *exposure, char *error);

/* What a listener that is served departs from, as a sentence for the log. NULL: from nothing. */
const char *exposure_departure(const struct exposure *exposure);

#endif
