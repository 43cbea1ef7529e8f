/*
 * frequency: so many in a second, a minute or an hour, as people write it: "1000/s", "90/m", "1/h".
 * Pure.
 */
#ifndef TARRY_BASE_FREQUENCY_H
#define TARRY_BASE_FREQUENCY_H

#include "base/buffer.h"

enum frequency_unit { FREQUENCY_SECOND = 1, FREQUENCY_MINUTE, FREQUENCY_HOUR };

enum { FREQUENCY_COUNT_MAX = 1000000000 };

/* Zeroed: none. */
struct frequency {
    uint32_t count; /* 1 to FREQUENCY_COUNT_MAX */
    enum frequency_unit unit;
};

/* A number without a unit is by the second. False, *out untouched: it is none, or 0, or too much. */
bool frequency_parse(struct slice text, struct frequency *out);
void frequency_emit(struct buffer *out, struct frequency frequency);

int64_t frequency_unit_ms(enum frequency_unit unit);

static inline bool frequency_equal(struct frequency a, struct frequency b)
{
    return a.count == b.count && a.unit == b.unit;
}

/* What may have been read from somewhere: is it none, or one that can be? */
static inline bool frequency_is_valid(struct frequency frequency)
{
    if (!frequency.count)
        return !frequency.unit;
    return frequency.count <= FREQUENCY_COUNT_MAX && frequency.unit >= FREQUENCY_SECOND &&
           frequency.unit <= FREQUENCY_HOUR;
}

#endif
