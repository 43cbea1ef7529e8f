/* In a build without Redis: --store takes no URL. */
#include "base/feature.h"
#include "server/backend.h"
#include "server/config_redis.h"
#include "server/stored_tokens.h"

#include <errno.h>

bool config_redis_check(const char *store, char *error, size_t error_bytes)
{
    (void)store;
    return feature_refuse("redis", error, error_bytes);
}

bool config_redis_holds_password(const char *store)
{
    (void)store;
    return false;
}

int stored_tokens_open(struct stored_tokens *stored, const struct config *config,
                       struct reactor *reactor, char *error)
{
    (void)stored;
    (void)config;
    (void)reactor;
    (void)feature_refuse("redis", error, FETCH_ERROR_BYTES);
    return -EOPNOTSUPP;
}

void stored_tokens_look(struct stored_tokens *stored)
{
    (void)stored;
}

void stored_tokens_close(struct stored_tokens *stored)
{
    (void)stored;
}

static int on_open(struct backend *backend, const struct config *config, backend_failed *failed,
                   void *ctx, char *error)
{
    (void)backend;
    (void)config;
    (void)failed;
    (void)ctx;
    (void)feature_refuse("redis", error, BACKEND_ERROR_BYTES);
    return -EOPNOTSUPP;
}

const struct backend_ops backend_redis = {.open = on_open};
