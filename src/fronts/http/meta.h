/* meta: the small map of strings of a job; faults said in words. Pure. */
#ifndef TARRY_HTTP_META_H
#define TARRY_HTTP_META_H

#include "base/buffer.h"
#include "http/fault.h"

/* One pair that a client gives. */
bool http_meta_add(struct buffer *meta, struct slice name, struct slice value,
                   struct http_fault *fault);

/* `NAME:VALUE` or `NAME:`, of an option. False: it is neither. */
bool http_meta_split(struct slice text, struct slice *name, struct slice *value);

#endif
