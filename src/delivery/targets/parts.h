/*
 * parts: bytes of a message of a broker in the meta of its job: base64, split into parts of at most a
 * meta's value, each under a name that ends with its number, from 1. Pure.
 */
#ifndef TARRY_TARGETS_PARTS_H
#define TARRY_TARGETS_PARTS_H

#include "base/buffer.h"

#include <stdbool.h>

enum { TARGET_PARTS_NAME_BYTES = 64 }; /* of a name without its number, with the NUL */

/* Appends the bytes to the meta under `name`1, `name`2, …. Returns false if they do not fit. */
bool target_parts_add(struct buffer *meta, const char *name, struct slice bytes);
/* Joins and decodes the parts in order. Returns false if they are malformed. *found: there is at
 * least one. */
bool target_parts_join(struct slice meta, const char *name, struct buffer *out, bool *found);

#endif
