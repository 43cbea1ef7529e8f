/*
 * template: a text with {topic}, {id}, {group} and {meta.NAME}, which are filled in from a job; "{{" and
 * "}}" are literal braces. Pure.
 */
#ifndef TARRY_TARGETS_TEMPLATE_H
#define TARRY_TARGETS_TEMPLATE_H

#include "base/buffer.h"
#include "job/job.h"

enum template_escape {
    TEMPLATE_PLAIN = 1,
    /* Values are percent-encoded. Neither a value nor the result may form a "." or ".." in the
     * path, which some servers interpret as a parent directory even if encoded. */
    TEMPLATE_URL
};

/* Checks a text: no control bytes, only known fields. Returns false with `error`
 * (TARGET_ERROR_BYTES), which names the place and a valid form. */
bool template_check(struct slice text, char *error);
/* Checks the text of a member that becomes a name, and the name that it is with values of one letter:
 * `fault` returns NULL, or what is wrong with a name. A missing or empty text is valid. */
bool template_check_name(const char *text, const char *member,
                         const char *(*fault)(struct slice name), char *error);
/* Returns false if filling in does not change the text. */
bool template_has_fields(struct slice text);
/* Appends the filled-in text, which must have been checked. A meta or group that the job does not have
 * is empty. Returns false and appends nothing if the result exceeds `bytes_max` or its path would lead
 * to a parent directory. */
bool template_fill(struct slice text, const struct job *job, enum template_escape escape,
                   size_t bytes_max, struct buffer *out);

/* Returns true if the known part of the URL's path has a segment "." or "..", in any encoding. */
bool template_leads_up(struct slice url);

#endif
