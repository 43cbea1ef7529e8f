/* Stub for a build without RocketMQ: destinations with its schemes are not supported. */
#include "targets/target.h"

static const char *const schemes[] = {"rocketmq", "rocketmqs", NULL};

const struct target_ops target_rocketmq = {.schemes = schemes, .absent = "rocketmq"};
