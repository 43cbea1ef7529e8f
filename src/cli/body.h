/* body: what the bytes of a job look like. Pure. */
#ifndef TARRY_CLI_BODY_H
#define TARRY_CLI_BODY_H

#include "base/slice.h"

/* What a body looks like: "application/json" (an object or array), text or bytes. */
const char *body_guess_type(struct slice body);

#endif
