/* Stubs for a build without Redis: --store accepts no Redis URL. */
#include "base/feature.h"
#include "server/backend.h"
#include "server/callers.h"
#include "server/config.h"

#include <errno.h>

bool config_redis_check(const char *store, char *error, size_t error_bytes)
{
    (void)store;
    return feature_missing("redis", error, error_bytes);
}

bool config_redis_holds_password(const char *store)
{
    (void)store;
    return false;
}

static int on_open_tokens(const struct config *config, void **out, char *error)
{
    (void)config;
    (void)out;
    (void)feature_missing("redis", error, STORED_TOKENS_ERROR_BYTES);
    return -EOPNOTSUPP;
}

static void on_close_tokens(void *self)
{
    (void)self;
}

const struct stored_tokens_ops stored_tokens_redis = {.open = on_open_tokens,
                                                      .close = on_close_tokens};

static int on_open(struct backend *backend, const struct config *config, backend_failed *failed,
                   void *ctx, char *error)
{
    (void)backend;
    (void)config;
    (void)failed;
    (void)ctx;
    (void)feature_missing("redis", error, BACKEND_ERROR_BYTES);
    return -EOPNOTSUPP;
}

const struct backend_ops backend_redis = {.open = on_open};
