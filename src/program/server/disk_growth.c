#include "server/disk_growth.h"

static uint32_t place(const struct disk_growth *growth, uint32_t i)
{
    return (growth->first + i) % DISK_GROWTH_SAMPLES;
}

bool disk_growth_wants(const struct disk_growth *growth, int64_t now_ms)
{
    return !growth->count ||
           now_ms - growth->samples[place(growth, growth->count - 1)].at_ms >= DISK_GROWTH_APART_MS;
}

void disk_growth_note(struct disk_growth *growth, int64_t now_ms, uint64_t bytes)
{
    if (growth->count == DISK_GROWTH_SAMPLES) {
        growth->first = place(growth, 1);
        growth->count--;
    }
    uint32_t at = place(growth, growth->count++);
    growth->samples[at].at_ms = now_ms;
    growth->samples[at].bytes = bytes;
}

/* Measures from the last sample that is at least an hour old, because that was the usage an hour
 * ago; otherwise from the oldest sample. */
bool disk_growth_per_hour(const struct disk_growth *growth, int64_t now_ms, uint64_t bytes,
                          int64_t *per_hour)
{
    int64_t hour_ago_ms = now_ms - DISK_GROWTH_HOUR_MS;
    if (!growth->count)
        return false;
    uint32_t i = 0;
    while (i + 1 < growth->count && growth->samples[place(growth, i + 1)].at_ms <= hour_ago_ms)
        i++;
    uint32_t at = place(growth, i);
    int64_t from_ms = growth->samples[at].at_ms;
    if (from_ms < hour_ago_ms)
        from_ms = hour_ago_ms;
    if (now_ms - from_ms < DISK_GROWTH_APART_MS)
        return false;
    double grown = (double)bytes - (double)growth->samples[at].bytes;
    *per_hour = (int64_t)(grown * DISK_GROWTH_HOUR_MS / (double)(now_ms - from_ms));
    return true;
}
