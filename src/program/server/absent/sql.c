/* Stubs for a build without PostgreSQL: --store accepts no PostgreSQL URL. */
#include "base/feature.h"
#include "server/backend.h"
#include "server/callers.h"

#include <errno.h>

static int on_open(struct backend *backend, const struct config *config, backend_failed *failed,
                   void *ctx, char *error)
{
    (void)backend;
    (void)config;
    (void)failed;
    (void)ctx;
    (void)feature_missing("sql", error, BACKEND_ERROR_BYTES);
    return -EOPNOTSUPP;
}

const struct backend_ops backend_sql = {.open = on_open};

static int on_open_tokens(const struct config *config, void **out, char *error)
{
    (void)config;
    (void)out;
    (void)feature_missing("sql", error, STORED_TOKENS_ERROR_BYTES);
    return -EOPNOTSUPP;
}

static void on_close_tokens(void *self)
{
    (void)self;
}

const struct stored_tokens_ops stored_tokens_sql = {.open = on_open_tokens,
                                                    .close = on_close_tokens};
