/*
 * body: the bytes of jobs, as they were pushed. Pure.
 *
 * Apart from the rest because a job's body must reach a command byte for byte, which a JSON tree
 * does not promise.
 */
#ifndef TARRY_CLI_BODY_H
#define TARRY_CLI_BODY_H

#include "base/buffer.h"

/* What a body looks like: "application/json" (an object or array), text or bytes. */
const char *body_guess_type(struct slice body);

struct body_job { /* one of a take's answer; slices are good as long as the answer and `scratch` */
    struct slice topic, id, lease, body, content_type, lease_until;
    struct slice attempt; /* digits */
};

/* Calls `each` for every job of the answer `json` ({"jobs": […]}). False where it is no such
 * answer. */
bool body_each_job(struct slice json, void (*each)(void *ctx, const struct body_job *job),
                   void *ctx);

#endif
