/* template: {topic}, {id}, {meta.NAME} in a text, filled in from a job. Pure. */
#ifndef TARRY_TARGET_TEMPLATE_H
#define TARRY_TARGET_TEMPLATE_H

#include "base/buffer.h"
#include "job/job.h"

enum template_escape {
    TEMPLATE_PLAIN = 1,
    TEMPLATE_URL /* what is filled in is percent-encoded: it cannot become another path or host */
};

/* False: `error` (TARGET_ERROR_BYTES) says where and what would be right. */
bool template_check(struct slice text, char *error);
bool template_has_fields(struct slice text);
/* A meta that the job does not have fills in nothing. False: the result passes `bytes_max`. */
bool template_fill(struct slice text, const struct job *job, enum template_escape escape,
                   size_t bytes_max, struct buffer *out);

#endif
