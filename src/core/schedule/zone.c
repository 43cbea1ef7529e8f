#include "schedule/zone.h"

#include "base/hash.h"
#include "base/text.h"
#include "schedule/calendar.h"

#include <stdlib.h>

/* ---- the bytes of a file (RFC 8536) ---- */

struct reader {
    const unsigned char *at, *end;
    bool bad;
};

static const unsigned char *reader_skip(struct reader *reader, uint64_t bytes)
{
    const unsigned char *at = reader->at;
    if (reader->bad || bytes > (uint64_t)(reader->end - reader->at)) {
        reader->bad = true;
        return NULL;
    }
    reader->at += bytes;
    return at;
}

static uint64_t big_endian(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

struct header {
    unsigned char version;
    uint32_t isut, isstd, leaps, times, types, chars;
};

static bool reader_header(struct reader *reader, struct header *out)
{
    const unsigned char *at = reader_skip(reader, 44);
    if (!at || memcmp(at, "TZif", 4) != 0)
        return false;
    out->version = at[4];
    out->isut = (uint32_t)big_endian(at + 20, 4);
    out->isstd = (uint32_t)big_endian(at + 24, 4);
    out->leaps = (uint32_t)big_endian(at + 28, 4);
    out->times = (uint32_t)big_endian(at + 32, 4);
    out->types = (uint32_t)big_endian(at + 36, 4);
    out->chars = (uint32_t)big_endian(at + 40, 4);
    return true;
}

/* ---- the rule at the end: a TZ string of POSIX ---- */

struct text {
    const char *at, *end;
};

static bool text_accept(struct text *text, char byte)
{
    bool found = text->at < text->end && *text->at == byte;
    text->at += found;
    return found;
}

static bool text_number(struct text *text, int32_t max, int32_t *out)
{
    const char *from = text->at;
    int32_t value = 0;
    while (text->at < text->end && text_is_digit(*text->at) && text->at - from < 4)
        value = value * 10 + (*text->at++ - '0');
    *out = value;
    return text->at > from && value <= max;
}

/* Skips an abbreviation: letters, or any text in angle brackets. */
static bool text_abbreviation(struct text *text)
{
    const char *from = text->at;
    if (text_accept(text, '<')) {
        while (text->at < text->end && *text->at != '>')
            text->at++;
        return text_accept(text, '>');
    }
    while (text->at < text->end &&
           ((*text->at >= 'a' && *text->at <= 'z') || (*text->at >= 'A' && *text->at <= 'Z')))
        text->at++;
    return text->at - from >= 3;
}

/* Reads [+-]hh[:mm[:ss]]. */
static bool text_time(struct text *text, int32_t *out)
{
    int32_t hours, minutes = 0, seconds = 0;
    bool negative = text_accept(text, '-');
    if (!negative)
        (void)text_accept(text, '+');
    if (!text_number(text, 167, &hours))
        return false;
    if (text_accept(text, ':') && !text_number(text, 59, &minutes))
        return false;
    if (text_accept(text, ':') && !text_number(text, 59, &seconds))
        return false;
    *out = hours * 3600 + minutes * 60 + seconds;
    if (negative)
        *out = -*out;
    return true;
}

static bool text_rule(struct text *text, struct zone_rule *out)
{
    *out = (struct zone_rule){.kind = ZONE_RULE_DAY, .time_s = 2 * 3600};
    if (!text_accept(text, ','))
        return false;
    if (text_accept(text, 'M')) {
        out->kind = ZONE_RULE_WEEKDAY;
        if (!text_number(text, 12, &out->month) || out->month < 1 || !text_accept(text, '.') ||
            !text_number(text, 5, &out->week) || out->week < 1 || !text_accept(text, '.') ||
            !text_number(text, 6, &out->day))
            return false;
    } else {
        if (text_accept(text, 'J'))
            out->kind = ZONE_RULE_JULIAN;
        if (!text_number(text, 365, &out->day) || (out->kind == ZONE_RULE_JULIAN && out->day < 1))
            return false;
    }
    return !text_accept(text, '/') || text_time(text, &out->time_s);
}

static bool zone_parse_rule(struct text text, struct zone *out)
{
    if (text.at == text.end) /* no rule: the last offset continues */
        return true;
    if (!text_abbreviation(&text) || !text_time(&text, &out->standard_s))
        return false;
    out->standard_s = -out->standard_s;
    out->has_rule = true;
    if (text.at == text.end)
        return true;
    out->has_summer = true;
    out->summer_s = out->standard_s + 3600;
    if (!text_abbreviation(&text))
        return false;
    if (text.at < text.end && *text.at != ',') {
        if (!text_time(&text, &out->summer_s))
            return false;
        out->summer_s = -out->summer_s;
    }
    return text_rule(&text, &out->summer_start) && text_rule(&text, &out->summer_end) &&
           text.at == text.end;
}

/* ---- the whole file ---- */

/* Reads the changes of the block with times of 64 bits. */
static bool zone_read_changes(struct reader *reader, const struct header *header, struct zone *out)
{
    const unsigned char *times = reader_skip(reader, (uint64_t)header->times * 8);
    const unsigned char *indices = reader_skip(reader, header->times);
    const unsigned char *types = reader_skip(reader, (uint64_t)header->types * 6);
    (void)reader_skip(reader, (uint64_t)header->chars + header->isstd + header->isut);
    if (reader->bad || header->types == 0 || header->leaps)
        return false;
    out->changes = calloc(header->times + 1, sizeof *out->changes);
    if (!out->changes)
        return false;
    int32_t offset_s = (int32_t)big_endian(types, 4);
    int64_t before_s = INT64_MIN;
    out->first_offset_s = offset_s;
    for (size_t i = 0; i < header->times; i++) {
        int64_t at_s = (int64_t)big_endian(times + i * 8, 8);
        if (indices[i] >= header->types || (i && at_s <= before_s))
            return false;
        before_s = at_s;
        int32_t next_s = (int32_t)big_endian(types + indices[i] * 6, 4);
        if (next_s < -90000 || next_s > 93600)
            return false;
        if (at_s < 0)
            out->first_offset_s = next_s;
        else if (next_s != offset_s)
            out->changes[out->change_count++] =
                (struct zone_change){.at_s = at_s, .offset_s = next_s};
        offset_s = next_s;
    }
    return out->first_offset_s >= -90000 && out->first_offset_s <= 93600;
}

static bool zone_read(struct reader reader, struct zone *out)
{
    struct header header;
    if (!reader_header(&reader, &header) || header.version < '2')
        return false;
    (void)reader_skip(&reader, (uint64_t)header.times * 5 + (uint64_t)header.types * 6 +
                                   header.chars + (uint64_t)header.leaps * 8 + header.isstd +
                                   header.isut);
    if (reader.bad || !reader_header(&reader, &header) || !zone_read_changes(&reader, &header, out))
        return false;
    struct text rule = {.at = (const char *)reader.at, .end = (const char *)reader.end};
    if (!text_accept(&rule, '\n') || rule.at == rule.end || rule.end[-1] != '\n')
        return false;
    rule.end--;
    return zone_parse_rule(rule, out);
}

bool zone_parse(struct slice bytes, struct zone *out)
{
    struct reader reader = {.at = (const unsigned char *)bytes.at,
                            .end = (const unsigned char *)bytes.at + bytes.len};
    *out = (struct zone){0};
    if (bytes.len && bytes.len <= ZONE_FILE_BYTES_MAX && zone_read(reader, out)) {
        out->digest = hash_64(bytes.at, bytes.len);
        return true;
    }
    zone_fini(out);
    return false;
}

void zone_fini(struct zone *zone)
{
    free(zone->changes);
    *zone = (struct zone){0};
}

/* ---- spans ---- */

/* Returns the day of a rule in a year, counted from 1970-01-01. */
static int64_t rule_day(const struct zone_rule *rule, int32_t year)
{
    int64_t first = calendar_days(year, 1, 1);
    if (rule->kind == ZONE_RULE_DAY)
        return first + rule->day;
    if (rule->kind == ZONE_RULE_JULIAN)
        return first + rule->day - 1 + (rule->day > 59 && calendar_is_leap(year));
    first = calendar_days(year, rule->month, 1);
    int32_t day = (rule->day - calendar_weekday(first) + 7) % 7 + 7 * (rule->week - 1);
    while (day >= calendar_month_days(year, rule->month))
        day -= 7;
    return first + day;
}

static int64_t rule_at(const struct zone_rule *rule, int32_t year, int32_t offset_s)
{
    return rule_day(rule, year) * CALENDAR_DAY_S + rule->time_s - offset_s;
}

/* Ends the span at the next change, or lets a change begin it. The changes come in order. */
static bool span_pass(struct zone_span *span, int64_t at_s, const struct zone_change *change)
{
    if (change->at_s <= span->start_s || change->offset_s == span->offset_s)
        return true;
    if (change->at_s > at_s) {
        span->end_s = change->at_s;
        span->after_s = change->offset_s;
        return false;
    }
    span->before_s = span->offset_s;
    span->offset_s = change->offset_s;
    span->start_s = change->at_s;
    return true;
}

/* Finds the span after the last change of the file, from which `span` begins. */
static void span_by_rule(const struct zone *zone, int64_t at_s, struct zone_span *span)
{
    int32_t year = calendar_date(calendar_day_of(at_s)).year;
    for (int32_t y = year - 1; y <= year + 2; y++) {
        struct zone_change changes[2] = {
            {rule_at(&zone->summer_start, y, zone->standard_s), zone->summer_s},
            {rule_at(&zone->summer_end, y, zone->summer_s), zone->standard_s}};
        size_t first = changes[0].at_s > changes[1].at_s;
        if (!span_pass(span, at_s, &changes[first]) || !span_pass(span, at_s, &changes[!first]))
            return;
    }
}

void zone_span_at(const struct zone *zone, int64_t at_s, struct zone_span *out)
{
    size_t low = 0, high = zone ? zone->change_count : 0;
    *out = (struct zone_span){.start_s = INT64_MIN, .end_s = INT64_MAX};
    if (!zone)
        return;
    while (low < high) { /* the first change after at_s */
        size_t middle = (low + high) / 2;
        if (zone->changes[middle].at_s <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    out->offset_s = out->before_s = zone->first_offset_s;
    if (low > 0) {
        out->start_s = zone->changes[low - 1].at_s;
        out->offset_s = zone->changes[low - 1].offset_s;
        if (low > 1)
            out->before_s = zone->changes[low - 2].offset_s;
    }
    out->after_s = out->offset_s;
    if (low < zone->change_count) {
        out->end_s = zone->changes[low].at_s;
        out->after_s = zone->changes[low].offset_s;
    } else if (zone->has_rule && zone->has_summer) {
        span_by_rule(zone, at_s, out);
    }
}

bool zone_name_is_valid(struct slice name)
{
    if (!name.len || name.len > ZONE_NAME_BYTES_MAX || name.at[0] == '/' ||
        name.at[name.len - 1] == '/' || slice_is(name, "localtime") || slice_is(name, "posixrules"))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char byte = name.at[i];
        bool begins = i == 0 || name.at[i - 1] == '/';
        if ((begins && (byte == '.' || byte == '/')) ||
            !text_is_word(slice_make(name.at + i, 1), "_+-/."))
            return false;
    }
    return true;
}
