/* Stub for a build without STOMP: destinations with its schemes are not supported. */
#include "targets/target.h"

static const char *const schemes[] = {"stomp", "stomps", NULL};

const struct target_ops target_stomp = {.schemes = schemes, .absent = "stomp"};
