/*
 * body: the bodies of the load generator's jobs. A body is a stamp (stamp.h) and letters up to the
 * requested length.
 */
#ifndef TARRY_LOAD_BODY_H
#define TARRY_LOAD_BODY_H

#include "base/buffer.h"
#include "load/stamp.h"

struct load_body {
    struct buffer filler; /* the text after the stamp */
};

/* Initializes a body. `bytes` is the total length, LOAD_STAMP_BYTES to LOAD_BODY_BYTES_MAX. Returns
 * false if it is longer or memory is short; call load_body_fini in both cases. */
bool load_body_init(struct load_body *body, size_t bytes);
void load_body_fini(struct load_body *body);

/* Appends a body: the stamp and the filler. */
void load_body_append(const struct load_body *body, const struct load_stamp *stamp,
                      struct buffer *out);

#endif
