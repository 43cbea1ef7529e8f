/* media: media types, as far as they change how a body is shown. Pure. */
#ifndef TARRY_HTTP_MEDIA_H
#define TARRY_HTTP_MEDIA_H

#include "base/slice.h"

/* application/x-ndjson and its other names. */
bool http_media_is_lines(struct slice type);
/* What HTML forms send, and curl where no type is given. */
bool http_media_is_form(struct slice type);
/* Printable ASCII, so that it can stand in a header. */
bool http_media_is_valid(struct slice type);

/*
 * Does a client that sends `accept` rather have the first of two media types? Each is given with its
 * `version`, a parameter: an item of the header with another version does not mean it. Where it wants
 * both alike it gets the first one; where the header does not name the first, it does not. Wildcards
 * do not count.
 */
bool http_media_prefers(struct slice accept, const char *first, const char *first_version,
                        const char *second, const char *second_version);

#endif
