#include "base/timestamp.h"

#include "base/text.h"

/*
 * Converts between days and dates as in Howard Hinnant, "chrono-Compatible Low-Level Date
 * Algorithms": years begin on 1 March, so that the leap day is the last day of a year and month
 * lengths follow a linear formula. 400 years are one era of 146,097 days.
 */
enum {
    DAYS_PER_ERA = 146097,
    DAYS_TO_1970 = 719468, /* from 1 March of the year 0 */
    MS_PER_DAY = 86400000
};
#define MS_LAST INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

static int64_t days_from_date(int64_t year, int64_t month, int64_t day)
{
    if (month <= 2)
        year--;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t month_from_march = (month + 9) % 12;
    int64_t day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - DAYS_TO_1970;
}

static void date_from_days(uint32_t days, uint32_t *year, uint32_t *month, uint32_t *day)
{
    uint32_t shifted = days + DAYS_TO_1970;
    uint32_t era = shifted / DAYS_PER_ERA;
    uint32_t day_of_era = shifted % DAYS_PER_ERA;
    uint32_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t month_from_march = (5 * day_of_year + 2) / 153;

    *day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    *month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    *year = era * 400 + year_of_era + (*month <= 2);
}

static bool date_is_real(int64_t year, int64_t month, int64_t day)
{
    static const char lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    if (month < 1 || month > 12 || day < 1)
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= lengths[month - 1] + (month == 2 && leap);
}

/* The rest of the text to parse. After the first fault, `bad` stays set and `at` does not move. */
struct rest {
    const char *at, *end;
    bool bad;
};

static int64_t take_digits(struct rest *rest, int count)
{
    int64_t value = 0;

    for (; count > 0; count--, rest->at++) {
        if (rest->bad || rest->at == rest->end || !text_is_digit(*rest->at)) {
            rest->bad = true;
            return 0;
        }
        value = value * 10 + (*rest->at - '0');
    }
    return value;
}

/* Takes one byte that is `either` or `or`. */
static void take_byte(struct rest *rest, char either, char or)
{
    if (!rest->bad && rest->at < rest->end && (*rest->at == either || *rest->at == or))
        rest->at++;
    else
        rest->bad = true;
}

/* Reads ".123456" as milliseconds, rounded up; 0 if there is no fraction. */
static int64_t take_fraction_ms(struct rest *rest)
{
    int64_t scale = 100, ms = 0;
    bool beyond = false;

    if (rest->bad || rest->at == rest->end || *rest->at != '.')
        return 0;
    rest->at++;
    rest->bad = rest->at == rest->end || !text_is_digit(*rest->at);
    for (; rest->at < rest->end && text_is_digit(*rest->at); rest->at++, scale /= 10) {
        ms += scale * (*rest->at - '0');
        beyond |= scale == 0 && *rest->at != '0';
    }
    return ms + beyond;
}

/* Reads "Z" or "+08:00" as minutes east of Greenwich. */
static int64_t take_offset_minutes(struct rest *rest)
{
    if (rest->bad || rest->at == rest->end || (*rest->at != '+' && *rest->at != '-')) {
        take_byte(rest, 'Z', 'z');
        return 0;
    }
    int64_t sign = *rest->at++ == '+' ? 1 : -1;
    int64_t hours = take_digits(rest, 2);
    take_byte(rest, ':', ':');
    int64_t minutes = take_digits(rest, 2);
    rest->bad |= hours > 23 || minutes > 59;
    return sign * (hours * 60 + minutes);
}

/* Parses date, time, fraction and offset, in this order and nothing else. */
static bool parse_rfc3339(struct slice text, int64_t *ms)
{
    struct rest rest = {.at = text.at, .end = text.at + text.len};

    int64_t year = take_digits(&rest, 4);
    take_byte(&rest, '-', '-');
    int64_t month = take_digits(&rest, 2);
    take_byte(&rest, '-', '-');
    int64_t day = take_digits(&rest, 2);
    take_byte(&rest, 'T', 't');
    int64_t hour = take_digits(&rest, 2);
    take_byte(&rest, ':', ':');
    int64_t minute = take_digits(&rest, 2);
    take_byte(&rest, ':', ':');
    int64_t second = take_digits(&rest, 2);
    int64_t fraction_ms = take_fraction_ms(&rest);
    int64_t offset_minutes = take_offset_minutes(&rest);

    if (rest.bad || rest.at != rest.end || !date_is_real(year, month, day))
        return false;
    if (hour > 23 || minute > 59 || second > 60)
        return false;
    int64_t minutes = days_from_date(year, month, day) * 1440 + hour * 60 + minute - offset_minutes;
    /* Leap seconds are inserted only at the end of a day, UTC. */
    if (second == 60 && (minutes + 1) % 1440 != 0)
        return false;
    *ms = minutes * 60000 + second * 1000 + fraction_ms;
    return *ms >= 0 && *ms <= MS_LAST;
}

/* Parses milliseconds since 1970. */
static bool parse_bare(struct slice text, int64_t *ms)
{
    int64_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (!text_is_digit(text.at[i]))
            return false;
        value = value * 10 + (text.at[i] - '0');
        if (value > MS_LAST)
            return false;
    }
    *ms = value;
    return text.len > 0;
}

bool timestamp_lacks_zone(struct slice text)
{
    static const char *const ends[] = {"Z", ":00Z"};
    char whole[48];
    int64_t ms;

    if (!text.len || text.len > sizeof whole - sizeof ":00Z")
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        memcpy(whole, text.at, text.len);
        memcpy(whole + text.len, ends[i], strlen(ends[i]));
        if (parse_rfc3339(slice_make(whole, text.len + strlen(ends[i])), &ms))
            return true;
    }
    return false;
}

bool timestamp_is_in_seconds(struct slice text)
{
    int64_t ms;
    return parse_bare(text, &ms) && ms < TIMESTAMP_BARE_MS_MIN;
}

bool timestamp_parse(struct slice text, int64_t *ms)
{
    int64_t parsed;

    if (text.len == 0 || (!parse_bare(text, &parsed) && !parse_rfc3339(text, &parsed)))
        return false;
    *ms = parsed;
    return true;
}

static char *put_pair(char *at, uint32_t value, char after)
{
    at[0] = (char)('0' + value / 10);
    at[1] = (char)('0' + value % 10);
    at[2] = after;
    return at + 3;
}

/* Writes the part up to the minute, such as 2026-11-20T09:00: */
static void write_minute(char *out, uint64_t minute)
{
    uint32_t year, month, day, minute_of_day = (uint32_t)(minute % (24 * 60));

    date_from_days((uint32_t)(minute / (24 * 60)), &year, &month, &day);
    (void)put_pair(out, year / 100, 0);
    out = put_pair(out + 2, year % 100, '-');
    out = put_pair(out, month, '-');
    out = put_pair(out, day, 'T');
    out = put_pair(out, minute_of_day / 60, ':');
    (void)put_pair(out, minute_of_day % 60, ':');
}

/* Answers have many times of few minutes, so the thread keeps the text of some minutes. */
void timestamp_write(char out[TIMESTAMP_BYTES], int64_t ms)
{
    enum { MINUTE_BYTES = sizeof "2026-11-20T09:00:" - 1, MINUTES = 4 };
    static _Thread_local struct {
        uint64_t after; /* the minute after it; 0: empty */
        char text[MINUTE_BYTES];
    } minutes[MINUTES];

    ms = ms < 0 ? 0 : ms > MS_LAST ? MS_LAST : ms;
    uint64_t minute = (uint64_t)ms / 60000;
    uint32_t ms_of_minute = (uint32_t)((uint64_t)ms - minute * 60000);
    char *kept = minutes[minute % MINUTES].text;

    if (minutes[minute % MINUTES].after != minute + 1) {
        write_minute(kept, minute);
        minutes[minute % MINUTES].after = minute + 1;
    }
    memcpy(out, kept, MINUTE_BYTES);
    out = put_pair(out + MINUTE_BYTES, ms_of_minute / 1000, '.');
    *out++ = (char)('0' + ms_of_minute % 1000 / 100);
    (void)put_pair(out, ms_of_minute % 100, 'Z');
}

void timestamp_emit(struct buffer *out, int64_t ms)
{
    char text[TIMESTAMP_BYTES];

    timestamp_write(text, ms);
    buffer_append(out, text, sizeof text);
}
