/*
 * callers: loads the callers of the server: tokens and the keys of an issuer, as configured. They
 * are checked for changes every second and on request.
 *
 * Life: callers_open before the reactors run, callers_start when they do, callers_close after they
 * have ended. All functions run on the first reactor's thread; `access` may be used on any thread.
 */
#ifndef TARRY_SERVER_CALLERS_H
#define TARRY_SERVER_CALLERS_H

#include "server/config.h"
#include "server/fetch.h"
#include "server/issuer_keys.h"

#include "access/access.h"
#include "net/reactor.h"

/*
 * stored_tokens: follows the tokens that all servers of a store share. They are read on a separate
 * thread once a second. The last tokens stay in force while the store is unavailable.
 *
 * Each kind of store that can hold tokens has a table of functions, which commands also use.
 *
 * Life: stored_tokens_open before the reactor runs, stored_tokens_look on its thread,
 * stored_tokens_close after it has ended.
 */

enum { STORED_TOKENS_ERROR_BYTES = FETCH_ERROR_BYTES };

/* Blocking functions, for one thread at a time. They return 0, or negative errno with `error`
 * (STORED_TOKENS_ERROR_BYTES): -EACCES if this user of the store lacks the right; -EHOSTUNREACH,
 * … */
struct stored_tokens_ops {
    int (*open)(const struct config *config, void **out, char *error); /* does not connect yet */
    /* Appends the text if it has changed since the last call (*is_changed). */
    int (*read)(void *self, struct buffer *out, bool *is_changed, char *error);
    /* Replaces the text that was read last. Returns -EAGAIN, without an error text, if it was
     * changed since by another process; read it again then. */
    int (*write)(void *self, struct slice text, char *error);
    void (*close)(void *self); /* accepts NULL */
};

/* In a build without one of these stores, absent/redis.c or absent/sql.c replaces it. */
extern const struct stored_tokens_ops stored_tokens_redis, stored_tokens_sql;

/* Returns the functions of the configured store, or NULL if it holds no tokens. */
const struct stored_tokens_ops *stored_tokens_ops_of(const struct config *config);

struct stored_tokens { /* zeroed: closed */
    const struct stored_tokens_ops *ops;
    struct fetch fetch;
    void *tokens;
    bool is_changed;
    void (*got)(void *ctx, struct slice text, const char *error);
    void *ctx;
};

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
