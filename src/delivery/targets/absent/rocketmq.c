/* In a build without RocketMQ: no destination is of its schemes. */
#include "targets/target.h"

static const char *const schemes[] = {"rocketmq", "rocketmqs", NULL};

const struct target_ops target_rocketmq = {.schemes = schemes, .absent = "rocketmq"};
