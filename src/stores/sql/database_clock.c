#include "sql/database_clock.h"

#include "base/clock.h"

void sql_clock_set(struct sql_clock *clock, int64_t database_ms)
{
    clock->offset_us = database_ms * 1000 - clock_inner_us();
}

void sql_clock_note(struct sql_clock *clock, int64_t database_ms, int64_t seen_us)
{
    enum { STEP_US = 50000 };
    int64_t offset_us = database_ms * 1000 - (seen_us ? seen_us : clock_inner_us());
    if (database_ms == clock->noted_ms) /* no new time was reported */
        return;
    clock->noted_ms = database_ms;
    /* The result was delayed on its way, so the sample with the least delay is the most accurate. A
     * larger step is accepted as it is. */
    if (offset_us > clock->offset_us || offset_us < clock->offset_us - STEP_US)
        clock->offset_us = offset_us;
    else
        clock->offset_us -= (clock->offset_us - offset_us) / 64;
}

int64_t sql_clock_ms(const struct sql_clock *clock)
{
    return (clock_inner_us() + clock->offset_us) / 1000;
}

int64_t sql_clock_inner_us(const struct sql_clock *clock, int64_t database_ms)
{
    return database_ms > INT64_MAX / 1000 ? INT64_MAX : database_ms * 1000 - clock->offset_us;
}
