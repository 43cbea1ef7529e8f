/*
 * callers: loads the callers of the server: tokens and the keys of an issuer, as configured. They
 * are checked for changes every second and on request.
 *
 * Life: callers_open before the reactors run, callers_start when they do, callers_close after they
 * have ended. All functions run on the first reactor's thread; `access` may be used on any thread.
 */
#ifndef TARRY_SERVER_CALLERS_H
#define TARRY_SERVER_CALLERS_H

#include "access/access.h"
#include "net/reactor.h"
#include "server/config.h"
#include "server/issuer_keys.h"
#include "server/stored_tokens.h"

struct callers { /* zeroed: closed */
    struct access *access;
    const struct config *config;
    struct deadline *look; /* time of the next check; NULL if there is nothing to check */
    struct issuer_keys keys;
    struct stored_tokens stored;
    bool has_key_url, follows_store;
    /* The last error of each kind, which is logged once. */
    char complaint[ACCESS_ERROR_BYTES], key_complaint[ACCESS_ERROR_BYTES];
};

/* Returns false with `error` (ACCESS_ERROR_BYTES), which names the problem and the remedy. */
bool callers_open(struct callers *callers, const struct config *config, struct reactor *reactor,
                  char *error);
/* Checks the configured files. Returns false with `error` (ACCESS_ERROR_BYTES), which names the
 * problem and the remedy. */
bool callers_check(const struct config *config, char *error);
void callers_start(struct callers *callers);
/* Reads everything again and logs the result. */
void callers_reload(struct callers *callers);
void callers_close(struct callers *callers);

#endif
