/*
 * exposure: decides which listeners may be served, and which are logged because they are exposed.
 * Pure.
 *
 * Loopback and Unix sockets are always served. Addresses that other machines can reach require TLS
 * or the attribute `plain`, and a way for clients to authenticate. Otherwise they require
 * --insecure. Each exception is logged at every start.
 */
#ifndef TARRY_SERVER_EXPOSURE_H
#define TARRY_SERVER_EXPOSURE_H

#include "net/listener.h"

struct exposure {
    const struct listener_options *options;
    const char *name;
    bool is_local;    /* reachable only from this machine */
    bool can_prove;   /* clients have a way to authenticate */
    bool is_insecure; /* --insecure */
};

/* Returns true if clients must authenticate on this listener. */
bool exposure_requires_token(const struct exposure *exposure);

/* Returns false with `error` (LISTENER_ERROR_BYTES) if the listener is not served; the error names
 * the reason and the remedy. */
bool exposure_check(const struct exposure *exposure, char *error);

/* Returns a sentence for the log if the served listener is an exception to the rules, otherwise
 * NULL. */
const char *exposure_departure(const struct exposure *exposure);

#endif
