/*
 * peak: the greatest value since the start and within the last minute. Pure: time is an argument.
 *
 * One thread notes values, any thread reads. The minute is kept in slots of ten seconds, so the
 * result covers the last 60 to 70 seconds. Larger values than 2^32 - 1 count as 2^32 - 1. Zeroed:
 * empty.
 */
#ifndef TARRY_BASE_PEAK_H
#define TARRY_BASE_PEAK_H

#include "base/counter.h"

enum { PEAK_SLOT_US = 10 * 1000 * 1000, PEAK_SLOTS = 7 };

struct peak {
    _Atomic uint64_t greatest;
    _Atomic uint64_t slots[PEAK_SLOTS]; /* number of its ten seconds; 32 bits of value */
};

static inline uint64_t peak_slot_number(int64_t now_us)
{
    return (uint64_t)now_us / PEAK_SLOT_US & UINT32_MAX;
}

static inline void peak_note(struct peak *peak, uint64_t value, int64_t now_us)
{
    uint64_t number = peak_slot_number(now_us);
    _Atomic uint64_t *slot = &peak->slots[number % PEAK_SLOTS];
    uint64_t noted = number << 32 | (value < UINT32_MAX ? value : UINT32_MAX);
    if (noted > counter_get(slot) || counter_get(slot) >> 32 != number)
        counter_set(slot, noted);
    if ((uint32_t)noted > counter_get(&peak->greatest))
        counter_set(&peak->greatest, (uint32_t)noted);
}

/* Returns the greatest value of the last minute; 0 if no value was noted. */
static inline uint64_t peak_of_minute(const struct peak *peak, int64_t now_us)
{
    uint64_t number = peak_slot_number(now_us), greatest = 0;
    for (int i = 0; i < PEAK_SLOTS; i++) {
        uint64_t noted = counter_get(&peak->slots[i]);
        if (number - (noted >> 32) < PEAK_SLOTS && (uint32_t)noted > greatest)
            greatest = (uint32_t)noted;
    }
    return greatest;
}

#endif
