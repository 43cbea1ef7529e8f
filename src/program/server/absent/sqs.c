/* Stubs for a build without SQS: --sqs is refused. */
#include "base/feature.h"
#include "server/protocol.h"

static void *refuse(const struct config *config, struct http_shared *shared, char *error)
{
    (void)config;
    (void)shared;
    (void)feature_missing("sqs", error, PROTOCOL_ERROR_BYTES);
    return NULL;
}

static bool refuse_option(const struct config *config, char *error)
{
    (void)config;
    return feature_missing("sqs", error, PROTOCOL_ERROR_BYTES);
}

static void nothing(void *self)
{
    (void)self;
}

const struct protocol_ops protocol_sqs = {.check = refuse_option, .open = refuse, .free = nothing};
