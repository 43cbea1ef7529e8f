/* media: media types, as far as they affect how a body is shown. Pure. */
#ifndef TARRY_API_MEDIA_H
#define TARRY_API_MEDIA_H

#include "base/slice.h"

/* Returns whether the type is application/x-ndjson or one of its aliases. */
bool api_media_is_lines(struct slice type);
/* Returns whether the type is the one of HTML forms, which curl also sends by default. */
bool api_media_is_form(struct slice type);
/* Returns whether the type is printable ASCII, so that a header can hold it. */
bool api_media_is_valid(struct slice type);

/* Returns whether a client that sends `accept` prefers the first of two media types. Each is given
 * with its `version`, a parameter: an item of the header with another version does not match. If
 * both are equally preferred, the first wins; if the header does not name the first, it loses.
 * Wildcards do not count. */
bool api_media_prefers(struct slice accept, const char *first, const char *first_version,
                       const char *second, const char *second_version);

#endif
