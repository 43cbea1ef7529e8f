#include "access/limits.h"

#include "base/text.h"

#define RATE_COUNT_MAX UINT64_C(1000000000)

bool access_count_parse(struct slice text, uint64_t max, uint64_t *out)
{
    uint64_t unit = 1, count;
    char last = text.len ? text.at[text.len - 1] : '\0';
    if (last == 'K' || last == 'M' || last == 'G') {
        unit = last == 'K' ? 1000 : last == 'M' ? 1000000 : 1000000000;
        text.len--;
    }
    if (!text_parse_u64(text, max / unit, &count) || count == 0)
        return false;
    *out = count * unit;
    return true;
}

/* ---- rates ---- */

static const struct {
    char name;
    int64_t ms;
} units[] = {{'s', 1000}, {'m', 60 * 1000}, {'h', 3600 * 1000}, {'d', 24 * 3600 * 1000}};
enum { UNITS = sizeof units / sizeof units[0] };

bool access_rate_parse(struct slice text, struct access_rate *out)
{
    uint64_t count;
    if (text.len < 3 || text.at[text.len - 2] != '/' ||
        !access_count_parse(slice_make(text.at, text.len - 2), RATE_COUNT_MAX, &count))
        return false;
    for (size_t i = 0; i < UNITS; i++)
        if (units[i].name == text.at[text.len - 1]) {
            *out = (struct access_rate){.count = count, .per_ms = units[i].ms};
            return true;
        }
    return false;
}

void access_rate_emit(struct access_rate rate, struct buffer *out)
{
    for (size_t i = 0; i < UNITS; i++)
        if (units[i].ms == rate.per_ms) {
            buffer_append_u64(out, rate.count);
            buffer_append_byte(out, '/');
            buffer_append_byte(out, units[i].name);
        }
}
