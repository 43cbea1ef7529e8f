/*
 * priority: a client's 32 bits in a job's 16, in the same order. Pure.
 *
 * Up to 4095 exact; above that 11 bits of mantissa and 5 of exponent: jobs whose priorities fall
 * together go by their due.
 */
#ifndef TARRY_BEANSTALK_PRIORITY_H
#define TARRY_BEANSTALK_PRIORITY_H

#include <stdint.h>

uint16_t beanstalk_priority_pack(uint32_t priority);
/* The least that is packed so. */
uint32_t beanstalk_priority_unpack(uint16_t packed);

#endif
