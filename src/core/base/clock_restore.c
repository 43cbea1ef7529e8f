#include "base/clock_restore.h"

void clock_restore(struct clock *clock, int64_t boot_offset_ms)
{
    atomic_store(&clock->offset_us, boot_offset_ms * 1000);
}

int64_t clock_boot_offset_ms(struct clock *clock)
{
    (void)clock_inner_us_of(clock); /* fixes the offset of a clock that was not started */
    int64_t offset_us = atomic_load(&clock->offset_us);
    return offset_us / 1000 - (offset_us % 1000 < 0);
}

int64_t clock_skew_ms_since(struct clock *clock, int64_t last_ms)
{
    int64_t inner_ms, wall_ms;
    clock_both_ms_of(clock, &inner_ms, &wall_ms);
    int64_t step_ms = wall_ms - inner_ms - last_ms;
    bool is_noise = step_ms <= CLOCK_SKEW_NOISE_MS && step_ms >= -CLOCK_SKEW_NOISE_MS;
    return is_noise ? last_ms : last_ms + step_ms;
}
