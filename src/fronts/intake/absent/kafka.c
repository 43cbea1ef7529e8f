/* Stub for a build without the kind: --kafka-in is rejected. */
#include "base/feature.h"
#include "intake/kind.h"

static bool on_check(struct slice url, char *error)
{
    (void)url;
    return feature_missing("kafka", error, INTAKE_ERROR_BYTES);
}

const struct intake_kind intake_kafka = {.name = "kafka-in", .check = on_check};
