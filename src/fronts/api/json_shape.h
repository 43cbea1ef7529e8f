/* json_shape: rewrites checked JSON text: without white space, or changed by a merge patch.
 * Pure. */
#ifndef TARRY_API_JSON_SHAPE_H
#define TARRY_API_JSON_SHAPE_H

#include "base/json_read.h"

/* Writes `raw`, which was checked, without white space between tokens. */
void json_shape_compact(struct slice raw, struct buffer *out);

enum { JSON_SHAPE_MEMBERS_MAX = 64 };

/* Applies a merge patch (RFC 7396) to `target` (kind JSON_NONE: missing) and appends the compact
 * result to `out`. Returns false if an object of the patch has more than JSON_SHAPE_MEMBERS_MAX
 * members, or the same member twice: then *twice is its raw key, else empty. */
bool json_shape_merge(struct json_value target, struct json_value patch, struct buffer *out,
                      struct slice *twice);

#endif
