/*
 * stored_tokens: follows the tokens that all servers of a store share. They are read on a separate
 * thread once a second. The last tokens stay in force while the store is unavailable.
 *
 * Each kind of store that can hold tokens has a table of functions, which commands also use.
 *
 * Life: stored_tokens_open before the reactor runs, stored_tokens_look on its thread,
 * stored_tokens_close after it has ended.
 */
#ifndef TARRY_SERVER_STORED_TOKENS_H
#define TARRY_SERVER_STORED_TOKENS_H

#include "server/config.h"
#include "server/fetch.h"

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

/* Opens the follower; `got` and `ctx` are set. `got` is called when the text has changed or could
 * not be read. It is called once inside this call, with the current text. Returns 0, or negative
 * errno with `error`. */
int stored_tokens_open(struct stored_tokens *stored, const struct config *config,
                       struct reactor *reactor, char *error);
void stored_tokens_look(struct stored_tokens *stored);
void stored_tokens_close(struct stored_tokens *stored);

#endif
