#include "server/stored_tokens.h"

#include "access/token_list.h"
#include "server/config_facts.h"

#include <errno.h>
#include <string.h>

const struct stored_tokens_ops *stored_tokens_ops_of(const struct config *config)
{
    if (config_is_sql(config))
        return &stored_tokens_sql;
    return config_is_redis(config) ? &stored_tokens_redis : NULL;
}

static int get(void *ctx, struct fetch *fetch)
{
    struct stored_tokens *stored = ctx;
    return stored->ops->read(stored->tokens, &fetch->text, &stored->is_changed, fetch->error);
}

static void got(void *ctx, struct fetch *fetch)
{
    struct stored_tokens *stored = ctx;
    if (fetch->result != 0)
        stored->got(stored->ctx, slice_make(NULL, 0), fetch->error);
    else if (stored->is_changed)
        stored->got(stored->ctx, buffer_slice(&fetch->text), NULL);
}

int stored_tokens_open(struct stored_tokens *stored, const struct config *config,
                       struct reactor *reactor, char *error)
{
    stored->ops = stored_tokens_ops_of(config);
    stored->fetch = (struct fetch){.get = get, .got = got, .ctx = stored};
    int result = stored->ops->open(config, &stored->tokens, error);
    if (result != 0)
        return result;
    if (!fetch_open(&stored->fetch, reactor, "stored-tokens", TOKEN_LIST_BYTES_MAX)) {
        strcpy(error, "out of memory");
        return -ENOMEM;
    }
    stored->fetch.result = get(stored, &stored->fetch); /* no other thread has started yet */
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
    if (stored->ops)
        stored->ops->close(stored->tokens);
    *stored = (struct stored_tokens){0};
}
