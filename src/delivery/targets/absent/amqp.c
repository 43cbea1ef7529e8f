/* Stub for a build without AMQP: destinations with its schemes are not supported. */
#include "targets/target.h"

static const char *const schemes[] = {"amqp", "amqps", NULL};

const struct target_ops target_amqp = {.schemes = schemes, .absent = "amqp"};
