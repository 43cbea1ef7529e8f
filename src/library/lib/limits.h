/* limits: the limits of deliveries of tarry.h, converted to and from those of job/flow.h. Pure. */
#ifndef TARRY_LIB_LIMITS_H
#define TARRY_LIB_LIMITS_H

#include "job/flow.h"

#include <tarry.h>

_Static_assert((int)TARRY_PER_SECOND == (int)FREQUENCY_SECOND &&
                   (int)TARRY_PER_MINUTE == (int)FREQUENCY_MINUTE &&
                   (int)TARRY_PER_HOUR == (int)FREQUENCY_HOUR &&
                   (int)TARRY_STRICT == (int)FLOW_STRICT &&
                   (int)TARRY_HELD_BY_CONSUMER == (int)FLOW_HELD_HOLD,
               "the numbers are those of the queue");

/* Returns whether the rate has its unit. The queue checks the numbers. */
static inline bool lib_limits_are_good(const struct tarry_limits *limits)
{
    return limits->rate_unit <= TARRY_PER_HOUR && !limits->rate == !limits->rate_unit;
}

static inline struct flow_limits lib_limits_read(const struct tarry_limits *limits)
{
    return (struct flow_limits){.limit = limits->limit,
                                .rate = {limits->rate, (enum frequency_unit)limits->rate_unit},
                                .burst = limits->burst};
}

static inline struct tarry_limits lib_limits_write(const struct flow_limits *limits)
{
    return (struct tarry_limits){.limit = limits->limit,
                                 .rate = limits->rate.count,
                                 .rate_unit = limits->rate.count ? (uint32_t)limits->rate.unit : 0,
                                 .burst = limits->burst};
}

#endif
