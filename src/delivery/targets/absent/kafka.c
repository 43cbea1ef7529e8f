/* In a build without Kafka: no destination is of its schemes. */
#include "targets/target.h"

static const char *const schemes[] = {"kafka", "kafkas", NULL};

const struct target_ops target_kafka = {.schemes = schemes, .absent = "kafka"};
