/* stored_tokens: those in Redis. */
#include "access/token_list.h"
#include "redis/redis.h"
#include "redis/tokens.h"
#include "server/config_redis.h"
#include "server/stored_tokens.h"

#include <errno.h>
#include <string.h>

_Static_assert((int)REDIS_TOKENS_ERROR_BYTES <= (int)FETCH_ERROR_BYTES,
               "errors are handed through");

static int get(void *ctx, struct fetch *fetch)
{
    struct stored_tokens *stored = ctx;
    return redis_tokens_read(stored->tokens, &fetch->text, &stored->is_changed, fetch->error);
}

static void got(void *ctx, struct fetch *fetch)
{
    struct stored_tokens *stored = ctx;
    if (fetch->result != 0)
        stored->got(stored->ctx, slice_make(NULL, 0), fetch->error);
    else if (stored->is_changed)
        stored->got(stored->ctx, buffer_slice(&fetch->text), NULL);
}

static int open_tokens(struct stored_tokens *stored, const struct config *config, char *error)
{
    char url[REDIS_URL_BYTES_MAX];
    int result = config_redis_url(config, url, error, FETCH_ERROR_BYTES);
    if (result == 0)
        result = redis_tokens_open(url, &stored->tokens, error);
    explicit_bzero(url, sizeof url);
    return result;
}

int stored_tokens_open(struct stored_tokens *stored, const struct config *config,
                       struct reactor *reactor, char *error)
{
    stored->fetch = (struct fetch){.get = get, .got = got, .ctx = stored};
    int result = open_tokens(stored, config, error);
    if (result != 0)
        return result;
    if (!fetch_open(&stored->fetch, reactor, "stored-tokens", TOKEN_LIST_BYTES_MAX)) {
        strcpy(error, "out of memory");
        return -ENOMEM;
    }
    stored->fetch.result = get(stored, &stored->fetch); /* nobody else has begun */
    if (stored->fetch.result != 0)
        memcpy(error, stored->fetch.error, FETCH_ERROR_BYTES);
    else
        got(stored, &stored->fetch);
    return stored->fetch.result;
}

void stored_tokens_look(struct stored_tokens *stored)
{
    fetch_begin(&stored->fetch);
}

void stored_tokens_close(struct stored_tokens *stored)
{
    if (stored->fetch.worker)
        fetch_close(&stored->fetch);
    redis_tokens_close(stored->tokens);
    *stored = (struct stored_tokens){0};
}
