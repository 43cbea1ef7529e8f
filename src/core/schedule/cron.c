#include "schedule/cron.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "schedule/calendar.h"

#include <stdio.h>

enum cron_field {
    FIELD_SECOND = 0,
    FIELD_MINUTE,
    FIELD_HOUR,
    FIELD_DAY,
    FIELD_MONTH,
    FIELD_WEEKDAY,
    FIELD_YEAR,
    FIELDS
};

static const struct field_row {
    const char *title;
    int32_t min, max;
    int32_t hash_max;  /* of H; 0: not allowed */
    const char *names; /* three letters each */
    int32_t names_from;
    const char *remedy;
} rows[FIELDS] = {
    [FIELD_SECOND] = {"second", 0, 59, 59, NULL, 0, "write 0 to 59"},
    [FIELD_MINUTE] = {"minute", 0, 59, 59, NULL, 0, "write 0 to 59"},
    [FIELD_HOUR] = {"hour", 0, 23, 23, NULL, 0, "write 0 to 23"},
    [FIELD_DAY] = {"day of month", 1, 31, 28, NULL, 0, "write 1 to 31, L, L-3, 15W or LW"},
    [FIELD_MONTH] = {"month", 1, 12, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC", 1,
                     "write 1 to 12 or JAN to DEC"},
    [FIELD_WEEKDAY] = {"day of week", 0, 7, 6, "SUNMONTUEWEDTHUFRISAT", 0,
                       "write 0 to 7, SUN to SAT, 5L or MON#2"},
    [FIELD_YEAR] = {"year", CRON_YEAR_MIN, CRON_YEAR_MAX, 0, NULL, 0, "write 1970 to 2399"},
};

/* The parser of one field. */
struct field {
    const struct field_row *row;
    struct slice whole; /* the field, in capitals */
    const char *at, *end;
    struct slice name;
    uint64_t *set; /* word 0 has the values from row->min on for years, from 0 on else */
    struct cron *cron;
    bool is_open;     /* begins with * or ? */
    bool is_interval; /* has *, a range or a step */
    char *error;
    size_t error_bytes;
};

static bool field_fault(struct field *field, const char *why)
{
    return error_text(field->error, field->error_bytes, "bad %s '%.*s' in the cron expression: %s",
                      field->row->title, ERROR_SHOWN(field->whole, 40), why);
}

static bool field_out_of_range(struct field *field)
{
    return field_fault(field, field->row->remedy);
}

static enum cron_field field_id(const struct field *field)
{
    return (enum cron_field)(field->row - rows);
}

static bool field_peek(const struct field *field, char byte)
{
    return field->at < field->end && *field->at == byte;
}

static bool field_accept(struct field *field, char byte)
{
    bool found = field_peek(field, byte);
    field->at += found;
    return found;
}

/* Reads decimal digits, at most four. */
static bool field_number(struct field *field, int32_t *out)
{
    const char *from = field->at;
    int32_t value = 0;
    while (field->at < field->end && text_is_digit(*field->at) && field->at - from < 5)
        value = value * 10 + (*field->at++ - '0');
    *out = value;
    return field->at > from && field->at - from < 5;
}

/* Reads a number or a name within the range of the field. */
static bool field_value(struct field *field, int32_t *out)
{
    const char *names = field->row->names;
    size_t left = (size_t)(field->end - field->at);
    for (size_t i = 0; names && left >= 3 && names[i * 3]; i++)
        if (memcmp(field->at, names + i * 3, 3) == 0) {
            field->at += 3;
            *out = field->row->names_from + (int32_t)i;
            return true;
        }
    return field_number(field, out) && *out >= field->row->min && *out <= field->row->max;
}

static void field_add(struct field *field, int32_t value)
{
    if (field_id(field) == FIELD_YEAR)
        value -= CRON_YEAR_MIN;
    else if (field_id(field) == FIELD_WEEKDAY)
        value %= 7;
    field->set[value / 64] |= UINT64_C(1) << (value % 64);
}

/* Adds first, first + step, … to last. If last is before first, the range wraps around. */
static void field_add_range(struct field *field, int32_t first, int32_t last, int32_t step)
{
    int32_t max = field_id(field) == FIELD_WEEKDAY ? 6 : field->row->max;
    int32_t size = max - field->row->min + 1;
    int32_t length = last >= first ? last - first : last + size - first;
    for (int32_t i = 0; i <= length; i += step) {
        int32_t value = first + i;
        field_add(field, value > max && last < first ? value - size : value);
    }
}

static bool field_step(struct field *field, int32_t *step)
{
    *step = 1;
    if (!field_accept(field, '/'))
        return true;
    field->is_interval = true;
    if (!field_number(field, step) || *step < 1)
        return field_fault(field, "write a step such as */15");
    if (*step > field->row->max)
        return field_fault(field, "the step is longer than the range of the field; for such an "
                                  "interval use 'every', such as \"90m\"");
    return true;
}

/* Derives a value from the name and the field. */
static int32_t field_hash(const struct field *field, int32_t first, int32_t last)
{
    char key[256];
    int len =
        snprintf(key, sizeof key, "%s:%.*s", field->row->title, ERROR_SHOWN(field->name, 200));
    uint64_t hash = hash_64(key, (size_t)len < sizeof key ? (size_t)len : sizeof key - 1);
    return first + (int32_t)(hash % (uint64_t)(last - first + 1));
}

/* Parses the rest of H, H(a-b), H/n and H(a-b)/n. */
static bool field_hashed(struct field *field)
{
    int32_t first = field->row->min, last = field->row->hash_max, step;
    if (!last)
        return field_fault(field, "H is not allowed in this field");
    if (field_accept(field, '(') &&
        (!field_value(field, &first) || !field_accept(field, '-') || !field_value(field, &last) ||
         !field_accept(field, ')') || first > last))
        return field_fault(field, "write a range such as H(0-29)");
    bool has_step = field_peek(field, '/');
    if (!field_step(field, &step))
        return false;
    if (!has_step)
        field_add(field, field_hash(field, first, last));
    else
        field_add_range(field,
                        field_hash(field, first, first + step - 1 < last ? first + step - 1 : last),
                        last, step);
    return true;
}

/* Parses the rest of L, L-n, LW and L-nW. */
static bool field_last_day(struct field *field)
{
    int32_t before = 0;
    if (field_accept(field, '-') && (!field_number(field, &before) || before > 30))
        return field_fault(field, "write a number from 0 to 30 after L-");
    uint64_t *into =
        field_accept(field, 'W') ? &field->cron->days_near_last : &field->cron->days_last;
    *into |= UINT64_C(1) << before;
    return true;
}

/* Parses what may follow a single weekday: L, #L and #n. Sets *found if it was there. */
static bool field_weekday_kind(struct field *field, int32_t weekday, bool *found)
{
    int32_t nth;
    weekday %= 7;
    *found = true;
    if (field_accept(field, 'L')) {
        field->cron->weekdays_last |= UINT64_C(1) << weekday;
    } else if (field_accept(field, '#')) {
        if (field_accept(field, 'L'))
            field->cron->weekdays_last |= UINT64_C(1) << weekday;
        else if (!field_number(field, &nth) || nth < 1 || nth > 5)
            return field_fault(field, "write a number from 1 to 5, or L, after '#'");
        else
            field->cron->weekdays_nth |= UINT64_C(1) << (7 * (nth - 1) + weekday);
    } else {
        *found = false;
    }
    return true;
}

/* Parses a value, what belongs to it, a range or a step. */
static bool field_values(struct field *field)
{
    int32_t first, last, step;
    bool done = false;
    if (!field_value(field, &first))
        return field_out_of_range(field);
    if (field_id(field) == FIELD_DAY && field_accept(field, 'W')) {
        field->cron->days_near |= UINT64_C(1) << first;
        return true;
    }
    if (field_id(field) == FIELD_WEEKDAY && !field_weekday_kind(field, first, &done))
        return false;
    if (done)
        return true;
    last = first;
    bool has_range = field_accept(field, '-');
    if (has_range && !field_value(field, &last))
        return field_out_of_range(field);
    bool has_step = field_peek(field, '/');
    if (!field_step(field, &step))
        return false;
    if (has_range && last < first && field_id(field) == FIELD_YEAR)
        return field_fault(field, "the range ends before it begins");
    field->is_interval |= has_range;
    if (has_step && !has_range)
        last = field_id(field) == FIELD_WEEKDAY ? 6 : field->row->max;
    if (field_id(field) == FIELD_WEEKDAY && first == 7 && last != 7)
        first = 0;
    if (field_id(field) == FIELD_WEEKDAY && last == 0 && first > 0)
        last = 7; /* SAT-SUN */
    field_add_range(field, first, last, step);
    return true;
}

static bool field_element(struct field *field)
{
    enum cron_field id = field_id(field);
    int32_t step;
    bool is_day = id == FIELD_DAY || id == FIELD_WEEKDAY;
    if (field_accept(field, '*')) {
        field->is_interval = true;
        if (!field_step(field, &step))
            return false;
        field_add_range(field, field->row->min, id == FIELD_WEEKDAY ? 6 : field->row->max, step);
        return true;
    }
    if (is_day && field_accept(field, '?')) {
        field_add_range(field, field->row->min, id == FIELD_WEEKDAY ? 6 : field->row->max, 1);
        return true;
    }
    if (field_accept(field, 'H'))
        return field_hashed(field);
    if (id == FIELD_DAY && field_accept(field, 'L'))
        return field_last_day(field);
    return field_values(field);
}

static bool field_parse(struct field *field)
{
    if (field_id(field) == FIELD_WEEKDAY && field_accept(field, '+'))
        field->cron->either_day = false;
    field->is_open = field_peek(field, '*') || field_peek(field, '?');
    do {
        if (!field_element(field))
            return false;
    } while (field_accept(field, ','));
    return field->at == field->end || field_out_of_range(field);
}

/* ---- the whole expression ---- */

static const struct {
    const char *name, *fields;
} nicknames[] = {
    {"@YEARLY", "0 0 1 1 *"}, {"@ANNUALLY", "0 0 1 1 *"}, {"@MONTHLY", "0 0 1 * *"},
    {"@WEEKLY", "0 0 * * 0"}, {"@DAILY", "0 0 * * *"},    {"@MIDNIGHT", "0 0 * * *"},
    {"@HOURLY", "0 * * * *"},
};

static bool cron_nickname(struct slice *text, char *error, size_t error_bytes)
{
    for (size_t i = 0; i < sizeof nicknames / sizeof nicknames[0]; i++)
        if (slice_is(*text, nicknames[i].name)) {
            *text = slice_of(nicknames[i].fields);
            return true;
        }
    if (slice_is(*text, "@REBOOT"))
        return error_text(error, error_bytes,
                          "a schedule cannot fire at '@reboot': use a cron expression or 'every'");
    return error_text(error, error_bytes,
                      "unknown abbreviation '%.*s' in place of a cron expression, use @hourly, "
                      "@daily, @weekly, @monthly or @yearly",
                      ERROR_SHOWN(*text, 40));
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* Copies the text in capitals, without blanks at its ends. */
static bool cron_copy(struct slice text, char out[CRON_TEXT_BYTES_MAX + 1], struct slice *copy)
{
    while (text.len && is_blank(text.at[0])) {
        text.at++;
        text.len--;
    }
    while (text.len && is_blank(text.at[text.len - 1]))
        text.len--;
    if (text.len > CRON_TEXT_BYTES_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++)
        out[i] = text.at[i] >= 'a' && text.at[i] <= 'z' ? (char)(text.at[i] - 32) : text.at[i];
    *copy = slice_make(out, text.len);
    return true;
}

/* Splits the text at blanks. Returns the number of fields, or FIELDS + 1 if there are more. */
static size_t cron_split(struct slice text, struct slice fields[FIELDS])
{
    size_t count = 0;
    for (size_t at = 0; at < text.len;) {
        size_t from = at;
        while (at < text.len && !is_blank(text.at[at]))
            at++;
        if (count == FIELDS)
            return FIELDS + 1;
        fields[count++] = slice_make(text.at + from, at - from);
        while (at < text.len && is_blank(text.at[at]))
            at++;
    }
    return count;
}

/* Returns whether any day until CRON_YEAR_MAX matches. */
static bool cron_has_day(const struct cron *cron)
{
    int64_t found, end = calendar_days(CRON_YEAR_MAX + 1, 1, 1) * CALENDAR_DAY_S;
    return cron_next(cron, 0, end, &found);
}

static bool cron_parse_fields(struct slice fields[FIELDS], size_t count, struct slice name,
                              struct cron *out, char *error, size_t error_bytes)
{
    uint64_t *const sets[FIELDS] = {&out->seconds, &out->minutes,  &out->hours, &out->days,
                                    &out->months,  &out->weekdays, out->years};
    bool is_open[FIELDS] = {0};
    size_t from = count == 5 ? FIELD_MINUTE : FIELD_SECOND;
    out->has_seconds = from == FIELD_SECOND;
    out->either_day = true;
    if (!out->has_seconds)
        out->seconds = 1;
    if (count < FIELDS)
        memset(out->years, 0xff, sizeof out->years);
    for (size_t i = 0; i < count; i++) {
        struct field field = {.row = &rows[from + i],
                              .whole = fields[i],
                              .at = fields[i].at,
                              .end = fields[i].at + fields[i].len,
                              .name = name,
                              .set = sets[from + i],
                              .cron = out,
                              .error = error,
                              .error_bytes = error_bytes};
        if (!field_parse(&field))
            return false;
        is_open[from + i] = field.is_open;
        out->is_interval |= field.is_interval && from + i <= FIELD_HOUR;
    }
    out->either_day &= !is_open[FIELD_DAY] && !is_open[FIELD_WEEKDAY];
    return true;
}

bool cron_parse(struct slice text, struct slice name, struct cron *out, char *error,
                size_t error_bytes)
{
    char capitals[CRON_TEXT_BYTES_MAX + 1];
    struct slice copy, fields[FIELDS];
    struct cron cron = {0};
    if (!cron_copy(text, capitals, &copy))
        return error_text(error, error_bytes,
                          "the cron expression has more than %d bytes, shorten it or write a list",
                          CRON_TEXT_BYTES_MAX);
    if (copy.len && copy.at[0] == '@' && !cron_nickname(&copy, error, error_bytes))
        return false;
    size_t count = cron_split(copy, fields);
    if (count < 5 || count > FIELDS)
        return error_text(error, error_bytes,
                          "the cron expression '%.*s' has %s, write 5 (minute hour day month "
                          "weekday), 6 (seconds first) or 7 (year last)",
                          ERROR_SHOWN(text, 80),
                          count == 0   ? "no fields"
                          : count == 1 ? "one field"
                          : count < 5  ? "too few fields"
                                       : "more than 7 fields");
    if (!cron_parse_fields(fields, count, name, &cron, error, error_bytes))
        return false;
    if (!cron_has_day(&cron))
        return error_text(error, error_bytes,
                          "the cron expression '%.*s' never fires: no such date exists until the "
                          "year %d, change the day, the month or the year",
                          ERROR_SHOWN(text, 80), CRON_YEAR_MAX);
    *out = cron;
    return true;
}

/* ---- matching ---- */

static bool has_bit(uint64_t set, int32_t at)
{
    return at >= 0 && at < 64 && set >> at & 1;
}

/* Returns the weekday, Monday to Friday, nearest to a day of the same month; 0: no such day. */
static int32_t nearest_weekday(int64_t first_day, int32_t day, int32_t month_days)
{
    if (day < 1 || day > month_days)
        return 0;
    int32_t weekday = calendar_weekday(first_day + day - 1);
    if (weekday == 6)
        return day > 1 ? day - 1 : day + 2;
    if (weekday == 0)
        return day < month_days ? day + 1 : day - 2;
    return day;
}

static bool cron_day_near(const struct cron *cron, struct calendar_date date, int32_t month_days,
                          int64_t first_day)
{
    for (int32_t day = 1; day <= 31; day++) {
        if (has_bit(cron->days_near, day) &&
            nearest_weekday(first_day, day, month_days) == date.day)
            return true;
        if (has_bit(cron->days_near_last, day - 1) &&
            nearest_weekday(first_day, month_days - (day - 1), month_days) == date.day)
            return true;
    }
    return false;
}

static bool cron_day_matches(const struct cron *cron, struct calendar_date date, int64_t day)
{
    int32_t month_days = calendar_month_days(date.year, date.month);
    int32_t weekday = calendar_weekday(day);
    bool by_day = has_bit(cron->days, date.day) ||
                  has_bit(cron->days_last, month_days - date.day) ||
                  ((cron->days_near || cron->days_near_last) &&
                   cron_day_near(cron, date, month_days, day - date.day + 1));
    bool by_weekday = has_bit(cron->weekdays, weekday) ||
                      (has_bit(cron->weekdays_last, weekday) && date.day + 7 > month_days) ||
                      has_bit(cron->weekdays_nth, 7 * ((date.day - 1) / 7) + weekday);
    return cron->either_day ? by_day || by_weekday : by_day && by_weekday;
}

static bool cron_year_matches(const struct cron *cron, int32_t year)
{
    int32_t at = year - CRON_YEAR_MIN;
    return at >= 0 && year <= CRON_YEAR_MAX && cron->years[at / 64] >> (at % 64) & 1;
}

/* Returns the first value of a set from `from` on, or -1. */
static int32_t first_from(uint64_t set, int32_t from)
{
    uint64_t left = from < 64 ? set & ~UINT64_C(0) << from : 0;
    return left ? __builtin_ctzll(left) : -1;
}

/* Finds the first time of a day from `second` on. */
static bool cron_time(const struct cron *cron, int32_t second, int32_t *out)
{
    int32_t hour = second / 3600, minute = second / 60 % 60, left = second % 60;
    for (int32_t h = first_from(cron->hours, hour); h >= 0; h = first_from(cron->hours, h + 1)) {
        int32_t m = first_from(cron->minutes, h == hour ? minute : 0);
        for (; m >= 0; m = first_from(cron->minutes, m + 1)) {
            int32_t s = first_from(cron->seconds, h == hour && m == minute ? left : 0);
            if (s >= 0) {
                *out = h * 3600 + m * 60 + s;
                return true;
            }
        }
    }
    return false;
}

bool cron_next(const struct cron *cron, int64_t from_s, int64_t before_s, int64_t *out_s)
{
    int64_t day = calendar_day_of(from_s), found;
    int32_t second = (int32_t)(from_s - day * CALENDAR_DAY_S), time;
    while (day * CALENDAR_DAY_S < before_s) {
        struct calendar_date date = calendar_date(day);
        int64_t next = day + 1;
        if (date.year > CRON_YEAR_MAX)
            return false;
        if (!cron_year_matches(cron, date.year))
            next = calendar_days(date.year + 1, 1, 1);
        else if (!has_bit(cron->months, date.month))
            next = day - date.day + 1 + calendar_month_days(date.year, date.month);
        else if (cron_day_matches(cron, date, day) && cron_time(cron, second, &time)) {
            found = day * CALENDAR_DAY_S + time;
            if (found >= before_s)
                return false;
            *out_s = found;
            return true;
        }
        day = next;
        second = 0;
    }
    return false;
}

bool cron_covers(const struct cron *cron, int64_t local_s)
{
    int64_t day = calendar_day_of(local_s);
    int32_t second = (int32_t)(local_s - day * CALENDAR_DAY_S);
    struct calendar_date date = calendar_date(day);
    return cron_year_matches(cron, date.year) && has_bit(cron->months, date.month) &&
           cron_day_matches(cron, date, day) && has_bit(cron->hours, second / 3600) &&
           has_bit(cron->minutes, second / 60 % 60) &&
           (!cron->has_seconds || has_bit(cron->seconds, second % 60));
}
