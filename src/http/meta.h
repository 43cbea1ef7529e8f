/* meta: the small map of strings of a job, from headers and from JSON; faults said in words. Pure.
 */
#ifndef TARRY_HTTP_META_H
#define TARRY_HTTP_META_H

#include "base/json_read.h"
#include "http/problem.h"

bool http_meta_add(struct buffer *meta, struct slice name, struct slice value,
                   struct http_fault *fault);

/* All members of {"name":"value",…}. Unescapes into `scratch`. */
bool http_meta_add_object(struct buffer *meta, struct json_value object, struct buffer *scratch,
                          struct http_fault *fault);

#endif
