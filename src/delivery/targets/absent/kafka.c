/* Stub for a build without Kafka: destinations with its schemes are not supported. */
#include "targets/target.h"

static const char *const schemes[] = {"kafka", "kafkas", NULL};

const struct target_ops target_kafka = {.schemes = schemes, .absent = "kafka"};
