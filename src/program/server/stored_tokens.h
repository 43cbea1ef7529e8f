/*
 * stored_tokens: the tokens that all servers on one store share, followed: looked at on a thread of
 * their own, once a second. What was read last stays in force while the store is away.
 *
 * Each kind of store that keeps any is a table of functions; commands use these, too.
 *
 * Life: stored_tokens_open before the reactor runs, stored_tokens_look on its thread,
 * stored_tokens_close after it has ended.
 */
#ifndef TARRY_SERVER_STORED_TOKENS_H
#define TARRY_SERVER_STORED_TOKENS_H

#include "server/config.h"
#include "server/fetch.h"

enum { STORED_TOKENS_ERROR_BYTES = FETCH_ERROR_BYTES };

/* Blocking, one thread at a time. Results are 0 or negative errno, with `error`
 * (STORED_TOKENS_ERROR_BYTES): -EACCES: this user of the store may not; -EHOSTUNREACH, … */
struct stored_tokens_ops {
    int (*open)(const struct config *config, void **out, char *error); /* connects to nobody yet */
    /* Appends the text where it is another than at the last call (*is_changed). */
    int (*read)(void *self, struct buffer *out, bool *is_changed, char *error);
    /* Puts `text` in the place of what was read last. -EAGAIN, and no error: another one has changed
     * it since, read again. */
    int (*write)(void *self, struct slice text, char *error);
    void (*close)(void *self); /* NULL: nothing */
};

/* In a build without one of these stores, absent/redis.c and absent/sql.c stand in. */
extern const struct stored_tokens_ops stored_tokens_redis, stored_tokens_sql;

/* Of the configured store; NULL: it keeps no tokens. */
const struct stored_tokens_ops *stored_tokens_ops_of(const struct config *config);

struct stored_tokens { /* zeroed: closed */
    const struct stored_tokens_ops *ops;
    struct fetch fetch;
    void *tokens;
    bool is_changed;
    void (*got)(void *ctx, struct slice text, const char *error);
    void *ctx;
};

/* `got` and `ctx` are set; `got` is called where the text has changed, or could not be read. It comes
 * once inside this call, with the text there is. 0, or negative errno with `error`. */
int stored_tokens_open(struct stored_tokens *stored, const struct config *config,
                       struct reactor *reactor, char *error);
void stored_tokens_look(struct stored_tokens *stored);
void stored_tokens_close(struct stored_tokens *stored);

#endif
