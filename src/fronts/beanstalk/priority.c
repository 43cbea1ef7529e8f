#include "beanstalk/priority.h"

enum { EXACT = 1 << 12, MANTISSA_BITS = 11, MANTISSA = (1 << MANTISSA_BITS) - 1 };

/* Packs numbers from EXACT upwards as 1.mantissa times a power of two, beginning with 2^12. */
uint16_t beanstalk_priority_pack(uint32_t priority)
{
    if (priority < EXACT)
        return (uint16_t)priority;
    uint32_t exponent = 31 - (uint32_t)__builtin_clz(priority);
    uint32_t mantissa = priority >> (exponent - MANTISSA_BITS) & MANTISSA;
    return (uint16_t)(EXACT + ((exponent - 12) << MANTISSA_BITS) + mantissa);
}

uint32_t beanstalk_priority_unpack(uint16_t packed)
{
    if (packed < EXACT)
        return packed;
    uint32_t exponent = ((uint32_t)packed - EXACT) >> MANTISSA_BITS;
    uint32_t mantissa = ((uint32_t)packed - EXACT) & MANTISSA;
    if (exponent > 31 - 12) /* no priority has this packed value */
        return UINT32_MAX;
    return (1u << MANTISSA_BITS | mantissa) << (exponent + 1);
}
