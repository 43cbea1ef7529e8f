#include "grpc/timeout.h"

enum { DIGITS_MAX = 8, MARGIN_MS = 50, MARGIN_MS_MAX = 1000, MARGIN_PART = 10 };

/* Returns the number of nanoseconds of a unit, or 0. */
static int64_t unit_ns(char unit)
{
    static const struct {
        char unit;
        int64_t ns;
    } units[] = {{'H', 3600000000000}, {'M', 60000000000}, {'S', 1000000000},
                 {'m', 1000000},       {'u', 1000},        {'n', 1}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (units[i].unit == unit)
            return units[i].ns;
    return 0;
}

bool timeout_parse(struct slice text, int64_t *ms)
{
    int64_t number = 0, unit;
    if (!text.len) {
        *ms = TIMEOUT_NONE;
        return true;
    }
    if (text.len < 2 || text.len > DIGITS_MAX + 1)
        return false;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        number = number * 10 + (text.at[i] - '0');
    }
    unit = unit_ns(text.at[text.len - 1]);
    if (!unit)
        return false;
    *ms = unit >= 1000000 ? number * (unit / 1000000)
                          : (number + 1000000 / unit - 1) / (1000000 / unit);
    return true;
}

int64_t timeout_wait_ms(int64_t timeout_ms, int64_t none_ms, int64_t most_ms)
{
    if (timeout_ms == TIMEOUT_NONE)
        return none_ms;
    int64_t margin_ms = timeout_ms / MARGIN_PART;
    margin_ms = margin_ms < MARGIN_MS       ? MARGIN_MS
                : margin_ms > MARGIN_MS_MAX ? MARGIN_MS_MAX
                                            : margin_ms;
    int64_t wait_ms = timeout_ms > margin_ms ? timeout_ms - margin_ms : 0;
    return wait_ms < most_ms ? wait_ms : most_ms;
}
