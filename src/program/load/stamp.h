/*
 * load_stamp: what the generator writes at the start of each body, to know the job again when it
 * comes back. Pure.
 *
 * Text of a fixed length that needs no escaping anywhere: "t" run, "i" index, "s" sent, "d" delay,
 * in hexadecimal.
 */
#ifndef TARRY_LOAD_STAMP_H
#define TARRY_LOAD_STAMP_H

#include "base/slice.h"

#include <stdint.h>

enum { LOAD_STAMP_BYTES = 44, LOAD_ID_BYTES = 26 };

struct load_stamp {
    uint32_t run;     /* told apart from other runs on the same topic */
    uint64_t index;   /* below 2^40 */
    int64_t sent_us;  /* since boot; below 2^48 */
    int64_t delay_ms; /* below 2^40 */
};

void load_stamp_write(char out[LOAD_STAMP_BYTES], const struct load_stamp *stamp);

/* False, *stamp untouched, where `body` does not begin with a stamp. */
bool load_stamp_read(struct slice body, struct load_stamp *stamp);

/* What a job is called where the generator names it: as long as an id made by the server. */
void load_stamp_id(char out[LOAD_ID_BYTES], uint32_t run, uint64_t index);

#endif
