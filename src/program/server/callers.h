/*
 * callers: who the server lets in: tokens and an issuer's keys as the configuration names them,
 * looked at again each second and when told to.
 *
 * Life: callers_open before the reactors run, callers_start when they do, callers_close after they
 * have ended. All of it on the first reactor's thread; `access` may be asked on any.
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
    struct deadline *look; /* the next one; NULL: there is nothing to look at */
    struct issuer_keys keys;
    struct stored_tokens stored;
    bool has_key_url, follows_store;
    /* The last complaint of each kind, said once. */
    char complaint[ACCESS_ERROR_BYTES], key_complaint[ACCESS_ERROR_BYTES];
};

/* False: `error` (ACCESS_ERROR_BYTES) says what and what to do. */
bool callers_open(struct callers *callers, const struct config *config, struct reactor *reactor,
                  char *error);
/* Would the files that it names do? False: `error` (ACCESS_ERROR_BYTES) says what and what to do. */
bool callers_check(const struct config *config, char *error);
void callers_start(struct callers *callers);
/* Reads all of it again, and says what became of it. */
void callers_reload(struct callers *callers);
void callers_close(struct callers *callers);

#endif
