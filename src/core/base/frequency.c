#include "base/frequency.h"

#include "base/text.h"

static const char units[] = {
    [FREQUENCY_SECOND] = 's', [FREQUENCY_MINUTE] = 'm', [FREQUENCY_HOUR] = 'h'};

bool frequency_parse(struct slice text, struct frequency *out)
{
    enum frequency_unit unit = FREQUENCY_SECOND;
    uint64_t count;
    if (text.len > 2 && text.at[text.len - 2] == '/') {
        while (unit <= FREQUENCY_HOUR && units[unit] != text.at[text.len - 1])
            unit++;
        if (unit > FREQUENCY_HOUR)
            return false;
        text.len -= 2;
    }
    if (!text_parse_u64(text, FREQUENCY_COUNT_MAX, &count) || count == 0)
        return false;
    *out = (struct frequency){(uint32_t)count, unit};
    return true;
}

void frequency_emit(struct buffer *out, struct frequency frequency)
{
    buffer_append_u64(out, frequency.count);
    buffer_append_byte(out, '/');
    buffer_append_byte(out, units[frequency.unit]);
}

int64_t frequency_unit_ms(enum frequency_unit unit)
{
    static const int64_t lengths[] = {
        [FREQUENCY_SECOND] = 1000, [FREQUENCY_MINUTE] = 60000, [FREQUENCY_HOUR] = 3600000};
    return lengths[unit];
}
