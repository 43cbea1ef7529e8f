/* settings: a topic's settings between JSON and the queue. Pure. */
#ifndef TARRY_HTTP_SETTINGS_H
#define TARRY_HTTP_SETTINGS_H

#include "http/query.h"

enum { HTTP_PATCH_BYTES_MAX = 16 * 1024 }; /* of a patch, and of what it makes */

/* Reads a JSON object of settings as GET shows them, on top of what `fields` hold. Unescapes into
 * `scratch`, which has room for the text; `deliver` and `dead_letter` go onto `extension`. */
bool http_settings_read(struct slice json, struct http_fields *fields, struct buffer *scratch,
                        struct buffer *extension, struct http_fault *fault);

/* `,"lease_for":…` and what else is set. */
void http_policy_write(struct buffer *out, const struct policy *policy);
/* The object. */
void http_settings_write(struct buffer *out, const struct topic_settings *settings);

/* `settings` as the merge patch wants them: an object for http_settings_read, onto `out`. */
bool http_settings_patch(const struct topic_settings *settings, struct slice patch,
                         struct buffer *out, struct http_fault *fault);

#endif
