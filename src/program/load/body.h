/*
 * body: the bodies of the load generator's jobs. A body is a stamp, by which the generator recognizes
 * the job when it comes back, and letters up to the requested length.
 *
 * The stamp is text of a fixed length that never needs escaping: "t" run, "i" index, "s" sent, "d"
 * delay, in hexadecimal.
 */
#ifndef TARRY_LOAD_BODY_H
#define TARRY_LOAD_BODY_H

#include "base/buffer.h"

#include <stdint.h>

enum { LOAD_STAMP_BYTES = 44, LOAD_ID_BYTES = 26 };

struct load_stamp {
    uint32_t run;     /* distinguishes runs on the same topic */
    uint64_t index;   /* below 2^40 */
    int64_t sent_us;  /* since boot; below 2^48 */
    int64_t delay_ms; /* below 2^40 */
};

void load_stamp_write(char out[LOAD_STAMP_BYTES], const struct load_stamp *stamp);

/* Reads the stamp at the start of `body`. Returns false and leaves *stamp unchanged if the body
 * has no stamp. */
bool load_stamp_read(struct slice body, struct load_stamp *stamp);

/* Writes the id of a job that the generator names; it is as long as an id made by the server. */
void load_stamp_id(char out[LOAD_ID_BYTES], uint32_t run, uint64_t index);

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
