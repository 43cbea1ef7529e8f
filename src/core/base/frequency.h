/*
 * frequency: a number per second, minute or hour, as people write it: "1000/s", "90/m", "1/h".
 * Pure.
 */
#ifndef TARRY_BASE_FREQUENCY_H
#define TARRY_BASE_FREQUENCY_H

#include "base/buffer.h"

enum frequency_unit { FREQUENCY_SECOND = 1, FREQUENCY_MINUTE, FREQUENCY_HOUR };

enum { FREQUENCY_COUNT_MAX = 1000000000 };

/* A frequency. Zeroed: not set. */
struct frequency {
    uint32_t count; /* 1 to FREQUENCY_COUNT_MAX */
    enum frequency_unit unit;
};

/* Parses a frequency. A number without a unit is per second. Returns false and leaves *out
 * unchanged if the text is malformed, 0 or too large. */
bool frequency_parse(struct slice text, struct frequency *out);
void frequency_emit(struct buffer *out, struct frequency frequency);

int64_t frequency_unit_ms(enum frequency_unit unit);

static inline bool frequency_equal(struct frequency a, struct frequency b)
{
    return a.count == b.count && a.unit == b.unit;
}

/* Returns whether a frequency from an untrusted source is unset or valid. */
static inline bool frequency_is_valid(struct frequency frequency)
{
    if (!frequency.count)
        return !frequency.unit;
    return frequency.count <= FREQUENCY_COUNT_MAX && frequency.unit >= FREQUENCY_SECOND &&
           frequency.unit <= FREQUENCY_HOUR;
}

#endif
