#include "schedule/spec.h"

#include "base/duration.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "base/timestamp.h"
#include "schedule/calendar.h"

#include <inttypes.h>
#include <stdio.h>

/* The reader of an object. */
struct reader {
    struct spec *spec;
    struct slice name;
    struct buffer *arena;
    char *error;
    uint64_t seen; /* one bit per row */
};

struct member;
typedef bool member_read(struct reader *reader, const struct member *member,
                         struct json_value value);
typedef void member_write(struct buffer *out, const struct member *member, const struct spec *spec);

static const struct member {
    const char *name;
    member_read *read;
    member_write *write; /* appends the value; not called for a default */
    size_t offset;
    int64_t min, max, usual; /* of durations and numbers */
    const char *values;      /* valid values */
    const char *words[5];    /* of enums, from 1 on; the first is the default */
} members[];

/* ---- errors ---- */

static bool refuse(struct reader *reader, const struct member *member, struct slice value)
{
    if (value.len > 1 && value.at[0] == '"') { /* without its quotes */
        value.at++;
        value.len -= 2;
    }
    return error_text(reader->error, SPEC_ERROR_BYTES, "'%s' is '%.*s' but must be %s",
                      member->name, ERROR_SHOWN(value, 60), member->values);
}

static bool refuse_memory(struct reader *reader)
{
    return error_text(reader->error, SPEC_ERROR_BYTES, "out of memory, nothing was changed");
}

static bool read_string(struct reader *reader, const struct member *member, struct json_value value,
                        struct slice *out)
{
    if (value.kind != JSON_STRING)
        return refuse(reader, member, value.raw);
    return json_string_bytes(value.raw, reader->arena, out) || refuse_memory(reader);
}

static void *field_of(const struct member *member, const struct spec *spec)
{
    return (void *)(uintptr_t)((const char *)spec + member->offset);
}

/* ---- durations, times, numbers, words, texts ---- */

static bool read_duration(struct reader *reader, const struct member *member,
                          struct json_value value)
{
    struct slice text;
    int64_t ms;
    if (!read_string(reader, member, value, &text))
        return false;
    if (!duration_parse(text, member->max, &ms) || ms < member->min)
        return refuse(reader, member, value.raw);
    *(int64_t *)field_of(member, reader->spec) = ms;
    return true;
}

static void write_duration(struct buffer *out, const struct member *member, const struct spec *spec)
{
    buffer_append_byte(out, '"');
    duration_emit(out, *(const int64_t *)field_of(member, spec));
    buffer_append_byte(out, '"');
}

static bool read_time(struct reader *reader, const struct member *member, struct json_value value)
{
    struct slice text;
    int64_t ms;
    if (!read_string(reader, member, value, &text))
        return false;
    if (!timestamp_parse(text, &ms) || timestamp_is_in_seconds(text) || ms <= 0 ||
        ms >= TIMETABLE_END_MS)
        return refuse(reader, member, value.raw);
    *(int64_t *)field_of(member, reader->spec) = ms;
    return true;
}

static void write_time(struct buffer *out, const struct member *member, const struct spec *spec)
{
    json_write_time(out, *(const int64_t *)field_of(member, spec));
}

static bool read_count(struct reader *reader, const struct member *member, struct json_value value)
{
    int64_t number;
    if (value.kind != JSON_NUMBER || !json_number_i64(value.raw, &number) || number < member->min ||
        number > member->max)
        return refuse(reader, member, value.raw);
    *(uint64_t *)field_of(member, reader->spec) = (uint64_t)number;
    return true;
}

static void write_count(struct buffer *out, const struct member *member, const struct spec *spec)
{
    buffer_append_u64(out, *(const uint64_t *)field_of(member, spec));
}

static bool read_flag(struct reader *reader, const struct member *member, struct json_value value)
{
    if (value.kind != JSON_TRUE && value.kind != JSON_FALSE)
        return refuse(reader, member, value.raw);
    *(bool *)field_of(member, reader->spec) = value.kind == JSON_TRUE;
    return true;
}

static void write_flag(struct buffer *out, const struct member *member, const struct spec *spec)
{
    json_write_bool(out, *(const bool *)field_of(member, spec));
}

static bool read_word(struct reader *reader, const struct member *member, struct json_value value)
{
    for (unsigned i = 0; value.kind == JSON_STRING && member->words[i]; i++)
        if (json_string_is(value.raw, member->words[i])) {
            *(unsigned *)field_of(member, reader->spec) = i + 1;
            return true;
        }
    return refuse(reader, member, value.raw);
}

static void write_word(struct buffer *out, const struct member *member, const struct spec *spec)
{
    unsigned word = *(const unsigned *)field_of(member, spec);
    json_write_string(out, slice_of(member->words[word - 1]));
}

/* Texts have no control characters. */
static bool read_text(struct reader *reader, const struct member *member, struct json_value value)
{
    struct slice text;
    if (!read_string(reader, member, value, &text))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < ' ' || text.at[i] == 0x7f)
            return refuse(reader, member, value.raw);
    if (text.len < (size_t)member->min || text.len > (size_t)member->max)
        return refuse(reader, member, value.raw);
    *(struct slice *)field_of(member, reader->spec) = text;
    return true;
}

static bool read_zone(struct reader *reader, const struct member *member, struct json_value value)
{
    if (!read_text(reader, member, value))
        return false;
    struct slice *zone = field_of(member, reader->spec);
    if (!zone_name_is_valid(*zone))
        return refuse(reader, member, value.raw);
    if (slice_is(*zone, "UTC"))
        zone->len = 0;
    return true;
}

static void write_text(struct buffer *out, const struct member *member, const struct spec *spec)
{
    json_write_string(out, *(const struct slice *)field_of(member, spec));
}

/* ---- expressions ---- */

/* Calls `each` for a string, or for each item of a list of strings. */
static bool read_list(struct reader *reader, const struct member *member, struct json_value value,
                      bool (*each)(struct reader *, const struct member *, struct json_value))
{
    struct json_cursor cursor = {0};
    struct json_value item;
    size_t count = 0;
    if (value.kind == JSON_STRING)
        return each(reader, member, value);
    if (value.kind != JSON_ARRAY)
        return refuse(reader, member, value.raw);
    for (; json_next_item(value, &cursor, &item); count++)
        if (item.kind != JSON_STRING || !each(reader, member, item))
            return item.kind == JSON_STRING ? false : refuse(reader, member, value.raw);
    return count || refuse(reader, member, value.raw);
}

/* Reads an expression into *cron and its text into *text. The error names the member. */
static bool read_expression(struct reader *reader, const struct member *member,
                            struct json_value value, struct cron *cron, struct slice *text)
{
    char why[300] = "";
    return read_string(reader, member, value, text) &&
           (cron_parse(*text, reader->name, cron, why, sizeof why) ||
            error_text(reader->error, SPEC_ERROR_BYTES, "'%s': %s", member->name, why));
}

static bool read_cron(struct reader *reader, const struct member *member, struct json_value value)
{
    struct spec *spec = reader->spec;
    size_t *count = &spec->table.cron_count;
    if (*count == TIMETABLE_CRONS_MAX)
        return error_text(reader->error, SPEC_ERROR_BYTES,
                          "'cron' has more than %d expressions, use several schedules",
                          TIMETABLE_CRONS_MAX);
    return read_expression(reader, member, value, &spec->table.crons[*count],
                           &spec->crons[*count]) &&
           ++*count;
}

static bool read_crons(struct reader *reader, const struct member *member, struct json_value value)
{
    return read_list(reader, member, value, read_cron);
}

static void write_crons(struct buffer *out, const struct member *member, const struct spec *spec)
{
    size_t count = spec->table.cron_count;
    (void)member;
    for (size_t i = 0; i < count; i++) {
        if (count > 1)
            buffer_append_byte(out, i ? ',' : '[');
        json_write_string(out, spec->crons[i]);
    }
    if (count > 1)
        buffer_append_byte(out, ']');
}

/* Reads a date such as 2026-12-24, which must exist. */
static bool parse_date(struct slice text, int32_t *day)
{
    char copy[12];
    int year, month, date, used = 0;
    if (text.len != 10 || !slice_copy(text, copy, sizeof copy) ||
        sscanf(copy, "%4d-%2d-%2d%n", &year, &month, &date, &used) != 3 || used != 10 ||
        year < CRON_YEAR_MIN || year > CRON_YEAR_MAX || month < 1 || month > 12 || date < 1 ||
        date > calendar_month_days(year, month))
        return false;
    *day = (int32_t)calendar_days(year, month, date);
    return true;
}

static bool read_except(struct reader *reader, const struct member *member, struct json_value value)
{
    struct timetable *table = &reader->spec->table;
    struct slice text;
    int32_t day;
    if (!read_string(reader, member, value, &text))
        return false;
    bool is_date = text.len >= 5 && text.at[4] == '-' && !memchr(text.at, ' ', text.len);
    if (is_date && !parse_date(text, &day))
        return error_text(reader->error, SPEC_ERROR_BYTES,
                          "'except' has the date '%.*s', which does not exist, write one such as "
                          "2026-12-24",
                          ERROR_SHOWN(text, 40));
    if (is_date ? table->day_count == TIMETABLE_DAYS_MAX
                : table->except_count == TIMETABLE_EXCEPT_MAX)
        return error_text(reader->error, SPEC_ERROR_BYTES,
                          "'except' has more than %d dates or %d expressions",
                          (int)TIMETABLE_DAYS_MAX, (int)TIMETABLE_EXCEPT_MAX);
    if (is_date) {
        table->days[table->day_count++] = day;
        return true;
    }
    return read_expression(reader, member, value, &table->except[table->except_count],
                           &reader->spec->excepts[table->except_count]) &&
           ++table->except_count;
}

static bool read_excepts(struct reader *reader, const struct member *member,
                         struct json_value value)
{
    return read_list(reader, member, value, read_except);
}

static void write_excepts(struct buffer *out, const struct member *member, const struct spec *spec)
{
    const char *comma = "[";
    (void)member;
    for (size_t i = 0; i < spec->table.except_count; i++, comma = ",") {
        buffer_append_text(out, comma);
        json_write_string(out, spec->excepts[i]);
    }
    for (size_t i = 0; i < spec->table.day_count; i++, comma = ",") {
        struct calendar_date date = calendar_date(spec->table.days[i]);
        buffer_append_format(out, "%s\"%04d-%02d-%02d\"", comma, (int)date.year, (int)date.month,
                             (int)date.day);
    }
    buffer_append_byte(out, ']');
}

/* ---- the table ---- */

#define INTO(FIELD) .offset = offsetof(struct spec, FIELD)
static const struct member members[] = {
    {"cron", read_crons, write_crons,
     .values = "a cron expression such as \"0 9 * * MON-FRI\", or a "
               "list of expressions"},
    {"every", read_duration, write_duration, INTO(table.every_ms), SPEC_EVERY_MS_MIN, SPEC_YEAR_MS,
     0, "a duration from 1s to 365d, such as \"15m\""},
    {"phase", read_duration, write_duration, INTO(table.phase_ms), 0, SPEC_YEAR_MS, 0,
     "a duration shorter than 'every'"},
    {"zone", read_zone, write_text, INTO(zone), 1, ZONE_NAME_BYTES_MAX, 0,
     "the name of a time zone such as \"Europe/Berlin\", or \"UTC\""},
    {"except", read_excepts, write_excepts,
     .values = "a list of dates such as \"2026-12-24\" and of cron expressions"},
    {"start", read_time, write_time, INTO(table.start_ms),
     .values = "a time such as \"2026-11-20T09:00:00Z\""},
    {"end", read_time, write_time, INTO(table.end_ms),
     .values = "a time such as \"2026-11-20T09:00:00Z\""},
    {"count", read_count, write_count, INTO(count), 1, 1000000000, 0,
     "a number from 1 to 1000000000"},
    {"gap", read_word, write_word, INTO(table.gap), .usual = GAP_AFTER,
     .values = "\"after\" or \"skip\"", .words = {"after", "skip"}},
    {"fold", read_word, write_word, INTO(table.fold), .usual = FOLD_FIRST,
     .values = "\"first\", \"last\" or \"both\"", .words = {"first", "last", "both"}},
    {"jitter", read_duration, write_duration, INTO(jitter_ms), 0, SPEC_JITTER_MS_MAX, 0,
     "a duration up to 24h"},
    {"missed", read_word, write_word, INTO(missed), .usual = MISSED_LAST,
     .values = "\"last\", \"all\" or \"none\"", .words = {"last", "all", "none"}},
    {"catch_up", read_duration, write_duration, INTO(catch_up_ms), 0, 10 * SPEC_YEAR_MS,
     SPEC_CATCH_UP_MS, "a duration up to 3650d, such as \"24h\""},
    {"grace", read_duration, write_duration, INTO(grace_ms), 1000, SPEC_YEAR_MS, SPEC_GRACE_MS,
     "a duration from 1s to 365d, such as \"1m\""},
    {"overlap", read_word, write_word, INTO(overlap), .usual = OVERLAP_ALLOW,
     .values = "\"allow\", \"skip\", \"after\" or \"replace\"",
     .words = {"allow", "skip", "after", "replace"}},
    {"paused", read_flag, write_flag, INTO(paused), .values = "true or false"},
    {"note", read_text, write_text, INTO(note), 0, SPEC_NOTE_BYTES_MAX, 0,
     "a text of at most 500 bytes without control characters"},
    {"owner", read_text, write_text, INTO(owner), 1, SPEC_OWNER_BYTES_MAX, 0,
     "a text of 1 to 100 bytes without control characters"},
};
#undef INTO
enum { MEMBERS = sizeof members / sizeof members[0] };

static const struct member *find_member(struct slice raw_key)
{
    for (size_t i = 0; i < MEMBERS; i++)
        if (json_string_is(raw_key, members[i].name))
            return &members[i];
    return NULL;
}

bool spec_has_member(struct slice raw_key)
{
    return find_member(raw_key);
}

/* Returns whether the value differs from its default. */
static bool is_given(const struct member *member, const struct spec *spec)
{
    if (member->read == read_crons)
        return spec->table.cron_count > 0;
    if (member->read == read_excepts)
        return spec->table.except_count + spec->table.day_count > 0;
    if (member->read == read_text || member->read == read_zone)
        return ((const struct slice *)field_of(member, spec))->len > 0;
    if (member->read == read_flag)
        return *(const bool *)field_of(member, spec);
    if (member->read == read_word)
        return *(const unsigned *)field_of(member, spec) != (unsigned)member->usual;
    return *(const int64_t *)field_of(member, spec) != member->usual;
}

bool spec_name_is_valid(struct slice name)
{
    if (!name.len || name.len > SPEC_NAME_BYTES_MAX || slice_is(name, ".") || slice_is(name, ".."))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] < '!' || name.at[i] > '~' || name.at[i] == '@')
            return false;
    return true;
}

static bool check_together(const struct spec *spec, char *error)
{
    const struct timetable *table = &spec->table;
    if (!table->cron_count && !table->every_ms)
        return error_text(error, SPEC_ERROR_BYTES,
                          "'cron' and 'every' are missing, give one of them, such as "
                          "\"cron\":\"0 9 * * *\" or \"every\":\"15m\"");
    if (table->cron_count && table->every_ms)
        return error_text(error, SPEC_ERROR_BYTES, "'cron' and 'every' are both given, choose one");
    if (table->phase_ms && table->phase_ms >= (table->every_ms ? table->every_ms : 1))
        return error_text(error, SPEC_ERROR_BYTES,
                          "'phase' must be shorter than 'every', and applies only to 'every'");
    if (table->end_ms && table->end_ms < table->start_ms)
        return error_text(error, SPEC_ERROR_BYTES, "'end' is before 'start', exchange them");
    return true;
}

bool spec_read(struct json_value object, struct slice name, struct buffer *arena, struct spec *out,
               char *error)
{
    struct reader reader = {.spec = out, .name = name, .arena = arena, .error = error};
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    *out = (struct spec){.table = {.gap = GAP_AFTER, .fold = FOLD_FIRST},
                         .missed = MISSED_LAST,
                         .overlap = OVERLAP_ALLOW,
                         .catch_up_ms = SPEC_CATCH_UP_MS,
                         .grace_ms = SPEC_GRACE_MS};
    while (json_next_member(object, &cursor, &key, &value)) {
        const struct member *member = find_member(key);
        if (!member)
            continue;
        uint64_t bit = UINT64_C(1) << (member - members);
        if (reader.seen & bit)
            return error_text(error, SPEC_ERROR_BYTES, "'%s' is given more than once, remove one",
                              member->name);
        reader.seen |= bit;
        if (!member->read(&reader, member, value))
            return false;
    }
    return check_together(out, error);
}

void spec_write(struct buffer *out, const struct spec *spec)
{
    const char *comma = "";
    for (size_t i = 0; i < MEMBERS; i++) {
        if (!is_given(&members[i], spec))
            continue;
        buffer_append_text(out, comma);
        json_write_key(out, members[i].name);
        members[i].write(out, &members[i], spec);
        comma = ",";
    }
}

bool spec_check(const struct spec *spec, const struct zone *zone, int64_t after_ms, char *error)
{
    struct timetable_fire fire, next;
    enum timetable_found found = timetable_next(&spec->table, zone, after_ms, &fire);
    if (found == TIMETABLE_NONE)
        return error_text(error, SPEC_ERROR_BYTES,
                          "the schedule never fires: no fire is between now or 'start' and %s that "
                          "is not in 'except', change the expression",
                          spec->table.end_ms ? "'end'" : "the year 2400");
    for (int i = 0; spec->jitter_ms && found == TIMETABLE_FIRE && i < 100; i++, fire = next) {
        found = timetable_next(&spec->table, zone, fire.at_ms, &next);
        if (found == TIMETABLE_FIRE && next.at_ms - fire.at_ms < spec->jitter_ms)
            return error_text(error, SPEC_ERROR_BYTES,
                              "'jitter' is longer than the %" PRId64
                              " s between two fires, make it shorter",
                              (next.at_ms - fire.at_ms) / 1000);
    }
    return true;
}

int64_t spec_jitter(const struct spec *spec, struct slice name, int64_t at_ms)
{
    char key[SPEC_NAME_BYTES_MAX + 32];
    if (!spec->jitter_ms)
        return 0;
    int len =
        snprintf(key, sizeof key, "%.*s@%" PRId64, ERROR_SHOWN(name, SPEC_NAME_BYTES_MAX), at_ms);
    return (int64_t)(hash_64(key, (size_t)len) % (uint64_t)(spec->jitter_ms + 1));
}
