/* In a build without STOMP: no destination is of its schemes. */
#include "targets/target.h"

static const char *const schemes[] = {"stomp", "stomps", NULL};

const struct target_ops target_stomp = {.schemes = schemes, .absent = "stomp"};
