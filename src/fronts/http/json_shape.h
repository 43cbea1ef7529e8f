/* json_shape: checked JSON text written again: without blanks, or changed by a merge patch. Pure.
 */
#ifndef TARRY_HTTP_JSON_SHAPE_H
#define TARRY_HTTP_JSON_SHAPE_H

#include "base/json_read.h"

/* The same without white space between tokens. `raw` was checked. */
void json_shape_compact(struct slice raw, struct buffer *out);

enum { JSON_SHAPE_MEMBERS_MAX = 64 };

/* RFC 7396: `target` (kind JSON_NONE: nothing) as `patch` wants it, compact, onto `out`. False
 * where an object of the patch has more than JSON_SHAPE_MEMBERS_MAX members, or the same one twice:
 * then *twice is its raw key, else empty. */
bool json_shape_merge(struct json_value target, struct json_value patch, struct buffer *out,
                      struct slice *twice);

#endif
