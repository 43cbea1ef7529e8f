/*
 * load_stamp: a stamp at the start of each body, by which the generator recognizes the job when it
 * comes back. Pure.
 *
 * It is text of a fixed length that never needs escaping: "t" run, "i" index, "s" sent, "d" delay,
 * in hexadecimal.
 */
#ifndef TARRY_LOAD_STAMP_H
#define TARRY_LOAD_STAMP_H

#include "base/slice.h"

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

#endif
