/* meta: the string map of a job, and messages for its errors. Pure. */
#ifndef TARRY_HTTP_META_H
#define TARRY_HTTP_META_H

#include "base/buffer.h"
#include "http/fault.h"

/* Adds a name and a value given by a client. */
bool http_meta_add(struct buffer *meta, struct slice name, struct slice value,
                   struct http_fault *fault);

/* Splits `NAME:VALUE` or `NAME:` of an option. Returns false for other text. */
bool http_meta_split(struct slice text, struct slice *name, struct slice *value);

#endif
