/* media: media types, as far as they change how a body is shown. Pure. */
#ifndef TARRY_HTTP_MEDIA_H
#define TARRY_HTTP_MEDIA_H

#include "base/slice.h"

/* application/json or something+json, with or without parameters. */
bool http_media_is_json(struct slice type);
/* application/x-ndjson and its other names. */
bool http_media_is_lines(struct slice type);
/* Printable ASCII, so that it can stand in a header. */
bool http_media_is_valid(struct slice type);

#endif
