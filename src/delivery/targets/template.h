/*
 * template: {topic}, {id}, {meta.NAME} in a text, filled in from a job; "{{" and "}}" stand for
 * braces. Pure.
 */
#ifndef TARRY_TARGETS_TEMPLATE_H
#define TARRY_TARGETS_TEMPLATE_H

#include "base/buffer.h"
#include "job/job.h"

enum template_escape {
    TEMPLATE_PLAIN = 1,
    /* What is filled in is percent-encoded, and neither it nor the whole may become a "." or ".."
     * of the path, which some servers take for a way up even where it is encoded. */
    TEMPLATE_URL
};

/* Text without control bytes, and only known fields. False: `error` (TARGET_ERROR_BYTES) says where
 * and what would be right. */
bool template_check(struct slice text, char *error);
/* False: the text is what it would be filled in to. */
bool template_has_fields(struct slice text);
/* Appends; `text` has been checked. A meta that the job does not have fills in nothing. False: the
 * result passes `bytes_max`, or its path would lead up; nothing is appended. */
bool template_fill(struct slice text, const struct job *job, enum template_escape escape,
                   size_t bytes_max, struct buffer *out);

/* Has the path of this URL (or what of it is known) a segment "." or "..", however encoded? */
bool template_leads_up(struct slice url);

#endif
