#include "base/duration.h"

#include "base/text.h"

#include <assert.h>

enum { FRACTION_DIGITS_MAX = 9 };

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};
enum { UNIT_COUNT = sizeof units / sizeof units[0] };

/* ISO 8601 units before and after the T. */
static const struct unit iso_days[] = {{"W", 604800000}, {"D", 86400000}};
static const struct unit iso_hours[] = {{"H", 3600000}, {"M", 60000}, {"S", 1000}};

struct number {
    int64_t whole;
    int64_t fraction, fraction_scale; /* fraction / fraction_scale; 0 / 1 if there is no fraction */
};

/* Takes digits from the front of *text. Returns false if there are no digits or the value exceeds
 * `max`. */
static bool take_digits(struct slice *text, int64_t max, int64_t *value)
{
    size_t taken = 0;
    int64_t sum = 0;

    for (; taken < text->len && text_is_digit(text->at[taken]); taken++) {
        int digit = text->at[taken] - '0';
        if (digit > max || sum > (max - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *text = slice_make(text->at + taken, text->len - taken);
    *value = sum;
    return taken > 0;
}

/* Takes a number from the front of *text. `points` are the bytes that may begin a fraction. */
static bool take_number(struct slice *text, int64_t max, const char *points, struct number *number)
{
    *number = (struct number){.fraction_scale = 1};
    if (!take_digits(text, max, &number->whole))
        return false;
    if (text->len == 0 || !text->at[0] || !strchr(points, text->at[0]))
        return true;

    *text = slice_make(text->at + 1, text->len - 1);
    size_t before = text->len;
    if (!take_digits(text, INT64_MAX, &number->fraction) ||
        before - text->len > FRACTION_DIGITS_MAX)
        return false;
    for (size_t digits = before - text->len; digits > 0; digits--)
        number->fraction_scale *= 10;
    return true;
}

/* Takes a unit that comes after unit number `last`. Returns its number or -1. */
static int take_unit(struct slice *text, int last)
{
    size_t len = 0;
    while (len < text->len && !text_is_digit(text->at[len]))
        len++;
    for (int i = last + 1; i < UNIT_COUNT; i++) {
        if (!slice_is(slice_make(text->at, len), units[i].name))
            continue;
        *text = slice_make(text->at + len, text->len - len);
        return i;
    }
    return -1;
}

static bool add_part(int64_t *total, struct number number, int64_t unit_ms, int64_t ms_max)
{
    if (number.whole > (ms_max - *total) / unit_ms)
        return false;
    int64_t sum = *total + number.whole * unit_ms;
    int64_t scale = number.fraction_scale;
    /* No overflow: at most FRACTION_DIGITS_MAX digits times a week. */
    int64_t part = (number.fraction * unit_ms + scale - 1) / scale;
    if (part > ms_max - sum)
        return false;
    *total = sum + part;
    return true;
}

/* Parses one side of the T: units in descending order, one byte each, each at most once. Returns
 * true if there is at least one unit and nothing else. Only the last number of the whole text may
 * have a fraction. */
static bool parse_iso_side(struct slice text, const struct unit *names, size_t count,
                           int64_t ms_max, int64_t *total, bool *has_fraction)
{
    size_t next = 0;
    if (text.len == 0)
        return false;
    while (text.len > 0) {
        struct number number;
        if (*has_fraction || !take_number(&text, ms_max, ".,", &number) || text.len == 0)
            return false;
        while (next < count && names[next].name[0] != text.at[0])
            next++;
        if (next == count || !add_part(total, number, names[next++].ms, ms_max))
            return false;
        *has_fraction = number.fraction_scale > 1;
        text = slice_make(text.at + 1, text.len - 1);
    }
    return true;
}

/* Parses what follows the "P" of ISO 8601: each unit at most once and in descending order. */
static bool parse_iso(struct slice text, int64_t ms_max, int64_t *ms)
{
    const char *t = memchr(text.at, 'T', text.len);
    struct slice days = slice_make(text.at, t ? (size_t)(t - text.at) : text.len);
    int64_t total = 0;
    bool has_fraction = false;
    if ((days.len > 0 || !t) && !parse_iso_side(days, iso_days, 2, ms_max, &total, &has_fraction))
        return false;
    if (t && !parse_iso_side(slice_make(t + 1, text.len - days.len - 1), iso_hours, 3, ms_max,
                             &total, &has_fraction))
        return false;
    *ms = total;
    return true;
}

bool duration_parse(struct slice text, int64_t ms_max, int64_t *ms)
{
    struct number number;
    int64_t total = 0;
    int unit = -1;

    if (text.len == 0 || ms_max < 0)
        return false;
    if (text.at[0] == 'P')
        return parse_iso(slice_make(text.at + 1, text.len - 1), ms_max, ms);
    struct slice rest = text;
    if (take_digits(&rest, 0, &total) && rest.len == 0) {
        *ms = 0;
        return true;
    }
    for (total = 0; text.len > 0;) {
        if (!take_number(&text, ms_max, ".", &number))
            return false;
        unit = take_unit(&text, unit);
        if (unit < 0 || !add_part(&total, number, units[unit].ms, ms_max))
            return false;
        if (number.fraction_scale > 1 && text.len > 0)
            return false;
    }
    *ms = total;
    return true;
}

static bool is_nonzero_digits(struct slice text)
{
    bool is_zero = true;
    for (size_t i = 0; i < text.len; i++) {
        if (!text_is_digit(text.at[i]))
            return false;
        is_zero &= text.at[i] == '0';
    }
    return !is_zero;
}

bool duration_lacks_unit(struct slice text)
{
    const char *colon = text.len ? memchr(text.at, ':', text.len) : NULL;
    if (colon)
        text = slice_make(colon + 1, text.len - (size_t)(colon + 1 - text.at));
    while (text.len) {
        const char *dots = memmem(text.at, text.len, "..", 2);
        const char *comma = memchr(text.at, ',', text.len);
        const char *end = dots ? dots : comma ? comma : text.at + text.len;
        if (is_nonzero_digits(slice_make(text.at, (size_t)(end - text.at))))
            return true;
        size_t used = (size_t)(end - text.at) + (dots ? 2 : comma ? 1 : 0);
        text = slice_make(text.at + used, text.len - used);
    }
    return false;
}

void duration_emit(struct buffer *out, int64_t ms)
{
    assert(ms >= 0);
    if (ms == 0)
        buffer_append_byte(out, '0');
    for (int i = 0; i < UNIT_COUNT; i++) {
        /* Seconds that have milliseconds are written in milliseconds: "1500ms", not "1s500ms". */
        if (units[i].ms == 1000 && ms % 1000 != 0)
            continue;
        if (ms < units[i].ms)
            continue;
        buffer_append_i64(out, ms / units[i].ms);
        buffer_append_text(out, units[i].name);
        ms %= units[i].ms;
    }
}
