/*
 * ulid: ids created by the server: 48 bits of time, 80 random bits, 26 characters of Crockford base
 * 32 (github.com/ulid/spec). Pure.
 *
 * The ids of one generator rise strictly, also within a millisecond (the random part is
 * incremented) and when time goes back.
 */
#ifndef TARRY_JOB_ULID_H
#define TARRY_JOB_ULID_H

#include "base/random.h"

enum { ULID_BYTES = 26 };

struct ulid {
    uint64_t ms;
    uint16_t chance_high;
    uint64_t chance_low;
    struct random random;
};

/* Initializes a generator. `seed` is from a good source; generators with the same seed make the
 * same ids. */
void ulid_init(struct ulid *ulid, uint64_t seed);
void ulid_write(struct ulid *ulid, int64_t now_ms, char out[ULID_BYTES]);

#endif
