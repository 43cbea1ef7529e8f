/*
 * priority: maps a client's 32-bit priority to a job's 16 bits and keeps the order. Pure.
 *
 * Priorities up to 4095 are exact. Larger ones keep 11 bits of mantissa and 5 bits of exponent.
 * Jobs whose priorities map to the same value are ordered by due time.
 */
#ifndef TARRY_BEANSTALK_PRIORITY_H
#define TARRY_BEANSTALK_PRIORITY_H

#include <stdint.h>

uint16_t beanstalk_priority_pack(uint32_t priority);
/* Returns the smallest priority with this packed value. */
uint32_t beanstalk_priority_unpack(uint16_t packed);

#endif
