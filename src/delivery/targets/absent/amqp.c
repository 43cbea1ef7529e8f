/* In a build without AMQP: no destination is of its schemes. */
#include "targets/target.h"

static const char *const schemes[] = {"amqp", "amqps", NULL};

const struct target_ops target_amqp = {.schemes = schemes, .absent = "amqp"};
