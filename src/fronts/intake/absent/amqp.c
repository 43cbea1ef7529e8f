/* Stub for a build without the kind: --amqp-in is rejected. */
#include "base/feature.h"
#include "intake/kind.h"

static bool on_check(struct slice url, char *error)
{
    (void)url;
    return feature_missing("amqp", error, INTAKE_ERROR_BYTES);
}

const struct intake_kind intake_amqp = {.name = "amqp-in", .check = on_check};
