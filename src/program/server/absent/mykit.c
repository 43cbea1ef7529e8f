/* Stubs for a build without mykit-delay: --mykit is refused. */
#include "base/feature.h"
#include "server/protocol.h"

static void *refuse(const struct config *config, struct http_shared *shared, char *error)
{
    (void)config;
    (void)shared;
    (void)feature_missing("mykit", error, PROTOCOL_ERROR_BYTES);
    return NULL;
}

static void nothing(void *self)
{
    (void)self;
}

const struct protocol_ops protocol_mykit = {.open = refuse, .free = nothing};
