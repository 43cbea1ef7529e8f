/*
 * stored_tokens: the tokens that all servers on one Redis share, followed: looked at on a thread of
 * their own, once a second. What was read last stays in force while Redis is away.
 *
 * Life: stored_tokens_open before the reactor runs, stored_tokens_look on its thread,
 * stored_tokens_close after it has ended.
 */
#ifndef TARRY_SERVER_STORED_TOKENS_H
#define TARRY_SERVER_STORED_TOKENS_H

#include "server/config.h"
#include "server/fetch.h"

struct redis_tokens;

struct stored_tokens { /* zeroed: closed */
    struct fetch fetch;
    struct redis_tokens *tokens;
    bool is_changed;
    void (*got)(void *ctx, struct slice text, const char *error);
    void *ctx;
};

/* `got` and `ctx` are set; `got` is called where the text has changed, or could not be read. It comes
 * once inside this call, with the text there is. 0, or negative errno with `error`
 * (FETCH_ERROR_BYTES). */
int stored_tokens_open(struct stored_tokens *stored, const struct config *config,
                       struct reactor *reactor, char *error);
void stored_tokens_look(struct stored_tokens *stored);
void stored_tokens_close(struct stored_tokens *stored);

#endif
