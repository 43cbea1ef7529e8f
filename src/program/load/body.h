/*
 * load_body: what the generator pushes: a stamp (stamp.h), and behind it letters up to the length that was asked
 * for.
 */
#ifndef TARRY_LOAD_BODY_H
#define TARRY_LOAD_BODY_H

#include "base/buffer.h"
#include "load/stamp.h"

struct load_body {
    struct buffer filler; /* what comes after the stamp */
};

/* `bytes`: of the whole, LOAD_STAMP_BYTES to LOAD_BODY_BYTES_MAX. */
void load_body_init(struct load_body *body, size_t bytes);
void load_body_fini(struct load_body *body);

void load_body_append(const struct load_body *body, const struct load_stamp *stamp,
                      struct buffer *out);

#endif
