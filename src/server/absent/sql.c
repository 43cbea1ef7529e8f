/* In a build without PostgreSQL: --store takes no URL of one. */
#include "base/feature.h"
#include "server/backend.h"

#include <errno.h>

static int on_open(struct backend *backend, const struct config *config, backend_failed *failed,
                   void *ctx, char *error)
{
    (void)backend;
    (void)config;
    (void)failed;
    (void)ctx;
    (void)feature_refuse("sql", error, BACKEND_ERROR_BYTES);
    return -EOPNOTSUPP;
}

const struct backend_ops backend_sql = {.open = on_open};
