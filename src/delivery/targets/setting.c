#include "targets/setting.h"

#include "base/duration.h"
#include "base/json_read.h"
#include "base/text.h"
#include "targets/place.h"
#include "targets/target.h"
#include "targets/template.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum {
    SIGN_BYTES_MAX = GUARD_NAME_BYTES_MAX,
    STATUS_MIN = 300, /* 2xx means done */
    STATUS_MAX = 599,
    RATE_MAX = 1000000,
    SECOND_MS = 1000
};

struct setting_reader {
    struct target_setting *out;
    const char *name; /* of the member */
    size_t offset;    /* of the member, for read_text */
    struct json_value value;
    char *error;
};

static bool refuse_value(const struct setting_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool refuse_value(const struct setting_reader *reader, const char *format, ...)
{
    va_list args;
    int len = snprintf(reader->error, TARGET_ERROR_BYTES, "bad '%s', ", reader->name);
    va_start(args, format);
    (void)vsnprintf(reader->error + len, TARGET_ERROR_BYTES - (size_t)len, format, args);
    va_end(args);
    return false;
}

/* ---- values ---- */

/* Copies a string into new memory. Returns NULL with `reader->error` on failure. */
static char *read_string(const struct setting_reader *reader, size_t bytes_max)
{
    struct buffer scratch;
    struct slice bytes;
    char *copy = NULL;
    if (reader->value.kind != JSON_STRING) {
        (void)refuse_value(reader, "it must be a string");
        return NULL;
    }
    buffer_init(&scratch, reader->value.raw.len);
    if (!json_string_bytes(reader->value.raw, &scratch, &bytes))
        (void)refuse_value(reader, "out of memory");
    else if (bytes.len > bytes_max)
        (void)refuse_value(reader, "it may have at most %zu bytes", bytes_max);
    else if (bytes.len && memchr(bytes.at, 0, bytes.len))
        (void)refuse_value(reader, "it contains a zero byte, remove it");
    else if (!(copy = calloc(1, bytes.len + 1)))
        (void)refuse_value(reader, "out of memory");
    else if (bytes.len)
        memcpy(copy, bytes.at, bytes.len);
    buffer_fini(&scratch);
    return copy;
}

static bool read_template(const struct setting_reader *reader, char **out, size_t bytes_max)
{
    char why[TARGET_ERROR_BYTES];
    char *text = read_string(reader, bytes_max);
    if (!text)
        return false;
    *out = text;
    return template_check(slice_of(text), why) || refuse_value(reader, "%.200s", why);
}

/* Reads the destination and checks that it is one. The rules of each kind are checked by that
 * kind. */
static bool read_to(const struct setting_reader *reader)
{
    char why[TARGET_ERROR_BYTES];
    struct url url;
    if (!read_template(reader, &reader->out->to, TARGET_TO_BYTES_MAX))
        return false;
    struct slice to = slice_of(reader->out->to);
    if (to.len == 0)
        return refuse_value(reader, "it is empty, write a URL or leave it out");
    if (slice_is(to, "null:"))
        return true; /* the target without a peer has no host */
    if (!target_place_read(to, &url, why))
        return refuse_value(reader, "%.200s", why);
    return !template_leads_up(to) ||
           refuse_value(reader, "it has '.' or '..' in the path, remove them");
}

static bool read_flag(const struct setting_reader *reader, bool *out)
{
    if (reader->value.kind != JSON_TRUE && reader->value.kind != JSON_FALSE)
        return refuse_value(reader, "write true or false");
    *out = reader->value.kind == JSON_TRUE;
    return true;
}

static bool read_callback(const struct setting_reader *reader)
{
    return read_flag(reader, &reader->out->allows_callback);
}

static bool read_result(const struct setting_reader *reader)
{
    return read_flag(reader, &reader->out->takes_result);
}

static bool read_max_in_flight(const struct setting_reader *reader)
{
    int64_t number;
    if (reader->value.kind != JSON_NUMBER || !json_number_i64(reader->value.raw, &number) ||
        number < 1 || number > TARGET_IN_FLIGHT_MAX)
        return refuse_value(reader, "write a number from 1 to %d", TARGET_IN_FLIGHT_MAX);
    reader->out->max_in_flight = (uint32_t)number;
    return true;
}

/* Parses "100/s", "5/m", "1000/h". */
static bool parse_rate(struct slice text, double *out)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1}, {"m", 60}, {"h", 3600}};
    const char *slash = text.len ? memchr(text.at, '/', text.len) : NULL;
    uint64_t count;
    if (!slash || !text_parse_u64(slice_make(text.at, (size_t)(slash - text.at)), RATE_MAX, &count))
        return false;
    struct slice unit = slice_make(slash + 1, text.len - (size_t)(slash + 1 - text.at));
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (count > 0 && slice_is(unit, units[i].unit)) {
            *out = (double)count / units[i].seconds;
            return true;
        }
    return false;
}

static bool read_rate(const struct setting_reader *reader)
{
    bool is_right = false;
    if (reader->value.kind == JSON_STRING) {
        char *text = read_string(reader, TARGET_TEMPLATE_BYTES_MAX);
        if (!text)
            return false;
        is_right = parse_rate(slice_of(text), &reader->out->rate_per_s);
        free(text);
    }
    return is_right || refuse_value(reader,
                                    "write 1 to %d and /s, /m or /h, such as \"100/s\"; to stop "
                                    "delivery pause the topic",
                                    RATE_MAX);
}

/* Reads "10s", or a number of milliseconds. */
static bool read_timeout(const struct setting_reader *reader)
{
    int64_t ms = 0;
    bool is_right = false;
    if (reader->value.kind == JSON_NUMBER) {
        is_right = json_number_i64(reader->value.raw, &ms);
    } else {
        char *text = read_string(reader, TARGET_TEMPLATE_BYTES_MAX);
        if (!text)
            return false;
        is_right = duration_parse(slice_of(text), TARGET_TIMEOUT_MS_MAX, &ms);
        free(text);
    }
    if (!is_right || ms < TARGET_TIMEOUT_MS_MIN || ms > TARGET_TIMEOUT_MS_MAX)
        return refuse_value(reader, "write a time from %dms to %ds, such as \"10s\"",
                            TARGET_TIMEOUT_MS_MIN, TARGET_TIMEOUT_MS_MAX / SECOND_MS);
    reader->out->timeout_ms = ms;
    return true;
}

static bool read_body(const struct setting_reader *reader)
{
    bool is_string = reader->value.kind == JSON_STRING;
    reader->out->sends_job = is_string && json_string_is(reader->value.raw, "job");
    return reader->out->sends_job || (is_string && json_string_is(reader->value.raw, "raw")) ||
           refuse_value(reader, "write \"raw\" for the job's body as it is, or \"job\" for the "
                                "whole job as JSON");
}

static bool read_sign(const struct setting_reader *reader)
{
    if (reader->value.kind == JSON_FALSE) {
        reader->out->never_signs = true;
        return true;
    }
    if (reader->value.kind != JSON_STRING)
        return refuse_value(reader, "write the name of a key of the policy file, or false");
    char *name = read_string(reader, SIGN_BYTES_MAX);
    if (!name)
        return false;
    reader->out->sign = name;
    for (const char *at = name; *at; at++)
        if (*at <= ' ' || *at > '~')
            return refuse_value(reader, "a name may have letters, digits, '.', '_' and '-'");
    return true;
}

/* ---- dead_on ---- */

static bool parse_codes(struct slice text, struct target_codes *out)
{
    const char *dash = text.len ? memchr(text.at, '-', text.len) : NULL;
    size_t len = dash ? (size_t)(dash - text.at) : text.len;
    uint64_t from, to;
    if (!text_parse_u64(slice_make(text.at, len), STATUS_MAX, &from))
        return false;
    to = from;
    if (dash && !text_parse_u64(slice_make(dash + 1, text.len - len - 1), STATUS_MAX, &to))
        return false;
    *out = (struct target_codes){(uint16_t)from, (uint16_t)to};
    return from >= STATUS_MIN && from <= to;
}

/* Reads one entry of `dead_on`: a status or a range. */
static bool read_codes(const struct setting_reader *item, struct target_codes *out)
{
    bool is_right = false;
    if (item->value.kind == JSON_NUMBER) {
        is_right = parse_codes(item->value.raw, out);
    } else {
        char *text = read_string(item, TARGET_TEMPLATE_BYTES_MAX);
        if (!text)
            return false;
        is_right = parse_codes(slice_of(text), out);
        free(text);
    }
    return is_right ||
           refuse_value(item, "write statuses from %d to %d, such as [410, \"400-404\"]",
                        STATUS_MIN, STATUS_MAX);
}

static bool read_dead_on(const struct setting_reader *reader)
{
    struct target_setting *out = reader->out;
    struct json_cursor cursor = {0};
    struct setting_reader item = *reader;
    if (reader->value.kind != JSON_ARRAY)
        return refuse_value(reader, "it must be a list such as [410, \"400-404\"]");
    while (json_next_item(reader->value, &cursor, &item.value)) {
        if (out->dead_on_count == TARGET_DEAD_ON_MAX)
            return refuse_value(reader, "it may have at most %d entries", TARGET_DEAD_ON_MAX);
        if (!read_codes(&item, &out->dead_on[out->dead_on_count]))
            return false;
        out->dead_on_count++;
    }
    return true;
}

/* ---- headers ---- */

static const char token_bytes[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* Returns true if tarry writes the header itself, if it belongs to the connection, or if it is a
 * credential, which the policy file keeps from readers of the settings. A '*' ends a prefix. */
static bool is_reserved_header(const char *name)
{
    static const char *const reserved[] = {"authorization", "connection", "content-length",
                                           "content-type",  "cookie",     "expect",
                                           "host",          "keep-alive", "proxy-*",
                                           "tarry-*",       "te",         "traceparent",
                                           "tracestate",    "trailer",    "transfer-encoding",
                                           "upgrade",       "webhook-*"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        size_t len = strlen(reserved[i]);
        bool is_prefix = reserved[i][len - 1] == '*';
        if (is_prefix ? strncasecmp(name, reserved[i], len - 1) == 0
                      : strcasecmp(name, reserved[i]) == 0)
            return true;
    }
    return false;
}

static bool read_header_name(const struct setting_reader *reader, struct slice raw, char **out)
{
    struct setting_reader key = *reader;
    key.value = (struct json_value){.kind = JSON_STRING, .raw = raw};
    char *name = read_string(&key, TARGET_HEADER_NAME_BYTES_MAX);
    if (!name)
        return false;
    *out = name;
    if (!name[0] || name[strspn(name, token_bytes)])
        return refuse_value(reader, "a header's name has letters, digits and '-'");
    if (is_reserved_header(name))
        return refuse_value(reader, "'%s' is set by the server or the policy file, leave it out",
                            name);
    return true;
}

static bool has_header(const struct target_setting *setting, const char *name)
{
    for (size_t i = 0; i < setting->header_count; i++)
        if (strcasecmp(setting->headers[i].name, name) == 0)
            return true;
    return false;
}

static bool read_headers(const struct setting_reader *reader)
{
    struct target_setting *out = reader->out;
    struct json_cursor cursor = {0};
    struct setting_reader item = *reader;
    struct slice name;
    if (reader->value.kind != JSON_OBJECT)
        return refuse_value(reader, "it is an object such as {\"ce-id\": \"{id}\"}");
    while (json_next_member(reader->value, &cursor, &name, &item.value)) {
        if (out->header_count == TARGET_HEADER_LINES_MAX)
            return refuse_value(reader, "it has at most %d headers", TARGET_HEADER_LINES_MAX);
        struct target_header *header = &out->headers[out->header_count];
        bool is_right = read_header_name(reader, name, &header->name);
        bool is_double = is_right && has_header(out, header->name);
        if (header->name)
            out->header_count++; /* target_setting_fini frees it */
        if (!is_right)
            return false;
        if (is_double)
            return refuse_value(reader, "'%s' is given twice, remove one", header->name);
        if (!read_template(&item, &header->value, TARGET_TEMPLATE_BYTES_MAX))
            return false;
    }
    return true;
}

/* ---- cloudevents ---- */

/* Reads the source, which becomes a reference to a URI; inserted values are percent-encoded. */
static bool read_event_source(const struct setting_reader *reader)
{
    char **source = &reader->out->event.source;
    if (!read_template(reader, source, TARGET_TEMPLATE_BYTES_MAX))
        return false;
    for (const char *at = *source; *at; at++)
        if (*at <= ' ' || *at > '~' || strchr("\"<>\\^`|", *at))
            return refuse_value(reader, "its 'source' must be a URI or a path");
    return **source || refuse_value(reader, "its 'source' is empty");
}

static bool read_event_type(const struct setting_reader *reader)
{
    char **type = &reader->out->event.type;
    return read_template(reader, type, TARGET_TEMPLATE_BYTES_MAX) &&
           (**type || refuse_value(reader, "its 'type' is empty"));
}

static bool read_event_mode(const struct setting_reader *reader)
{
    bool is_string = reader->value.kind == JSON_STRING;
    bool is_binary = is_string && json_string_is(reader->value.raw, "binary");
    if (!is_binary && !(is_string && json_string_is(reader->value.raw, "structured")))
        return refuse_value(reader, "its 'mode' is \"binary\" or \"structured\"");
    reader->out->event.mode = is_binary ? TARGET_EVENT_BINARY : TARGET_EVENT_STRUCTURED;
    return true;
}

/* Reads {"mode", "source", "type"}, each of them optional and given once. */
static bool read_event(const struct setting_reader *reader)
{
    static const struct {
        const char *name;
        bool (*read)(const struct setting_reader *reader);
    } parts[] = {
        {"mode", read_event_mode}, {"source", read_event_source}, {"type", read_event_type}};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    struct json_cursor cursor = {0};
    struct setting_reader part = *reader;
    struct slice key;
    bool seen[PARTS] = {false};
    if (reader->value.kind != JSON_OBJECT)
        return refuse_value(reader, "it is an object such as {\"type\": \"{meta.kind}\"}");
    reader->out->event.mode = TARGET_EVENT_BINARY;
    while (json_next_member(reader->value, &cursor, &key, &part.value)) {
        size_t i = 0;
        while (i < PARTS && !json_string_is(key, parts[i].name))
            i++;
        if (i == PARTS || seen[i])
            return refuse_value(reader, "it has 'mode', 'source' and 'type', each once");
        seen[i] = true;
        if (!parts[i].read(&part))
            return false;
    }
    return true;
}

/* ---- members ---- */

static bool read_text(const struct setting_reader *reader)
{
    char *members = (char *)reader->out;
    return read_template(reader, (char **)(members + reader->offset), TARGET_TEMPLATE_BYTES_MAX);
}

#define TEXT(NAME, KINDS) {#NAME, read_text, KINDS, offsetof(struct target_setting, NAME)},

static const struct member {
    const char *name;
    bool (*read)(const struct setting_reader *reader);
    const char *kinds; /* joined by " and "; NULL: all kinds */
    size_t offset;     /* of read_text */
} members[] = {{"to", read_to, NULL, 0},
               {"callback", read_callback, NULL, 0},
               {"max_in_flight", read_max_in_flight, NULL, 0},
               {"rate", read_rate, NULL, 0},
               {"timeout", read_timeout, NULL, 0},
               {"body", read_body, NULL, 0},
               {"cloudevents", read_event, NULL, 0},
               {"sign", read_sign, "http", 0},
               {"dead_on", read_dead_on, "http", 0},
               {"result", read_result, "http", 0},
               {"headers", read_headers, "http", 0},
               TARGET_TEXT_ROWS(TEXT)};
enum { MEMBERS = sizeof members / sizeof members[0], SEEN_ALL = 32 };
_Static_assert((int)MEMBERS <= (int)SEEN_ALL, "`seen` has a bit for each");

static size_t find_member(struct slice key)
{
    size_t i = 0;
    while (i < MEMBERS && !json_string_is(key, members[i].name))
        i++;
    return i;
}

/* Rejects an unknown member; names the most similar known one. */
static bool refuse_member(struct slice raw, char *error)
{
    const char *names[MEMBERS + 1] = {0};
    char word[64];
    for (size_t i = 0; i < MEMBERS; i++)
        names[i] = members[i].name;
    struct slice key = slice_make(raw.at + 1, raw.len - 2); /* without its quotes */
    (void)snprintf(word, sizeof word, "%.*s", (int)(key.len < 60 ? key.len : 60), key.at);
    const char *nearest = text_nearest(word, names);
    if (nearest)
        (void)snprintf(error, TARGET_ERROR_BYTES, "unknown member '%s', did you mean '%s'", word,
                       nearest);
    else
        (void)snprintf(
            error, TARGET_ERROR_BYTES,
            "unknown member '%s', use to, callback, max_in_flight, rate, timeout, "
            "body, cloudevents, sign, dead_on, result, headers, and those of a kind of target",
            word);
    return false;
}

/* Reads each member according to its row; rejects repeated ones. */
static bool read_members(struct json_value object, struct target_setting *out, uint32_t *seen,
                         char *error)
{
    struct json_cursor cursor = {0};
    struct slice key;
    struct setting_reader reader = {.out = out, .error = error};
    while (json_next_member(object, &cursor, &key, &reader.value)) {
        size_t i = find_member(key);
        if (i == MEMBERS)
            return refuse_member(key, error);
        reader.name = members[i].name;
        reader.offset = members[i].offset;
        if (*seen & UINT32_C(1) << i)
            return refuse_value(&reader, "it is given twice, remove one");
        *seen |= UINT32_C(1) << i;
        if (!members[i].read(&reader))
            return false;
    }
    return true;
}

/* ---- the whole object ---- */

/* Returns true if the setting is of that kind. Members for http also apply to callbacks. */
static bool suits(const struct target_setting *setting, struct slice kind)
{
    if (slice_is(kind, "http") && setting->allows_callback)
        return true;
    return setting->to && strncasecmp(setting->to, kind.at, kind.len) == 0;
}

static bool member_suits(const struct member *member, const struct target_setting *setting)
{
    static const char between[] = " and ";
    const char *kind = member->kinds;
    for (const char *end; kind; kind = end ? end + sizeof between - 1 : NULL) {
        end = strstr(kind, between);
        if (suits(setting, slice_make(kind, end ? (size_t)(end - kind) : strlen(kind))))
            return true;
    }
    return !member->kinds;
}

/* Checks the whole object: it has a destination, and its members suit the kind. */
static bool check_whole(const struct target_setting *setting, uint32_t seen, char *error)
{
    if (!setting->to && !setting->allows_callback) {
        (void)snprintf(error, TARGET_ERROR_BYTES,
                       "no 'to', write the URL to deliver to, or \"callback\": true");
        return false;
    }
    for (size_t i = 0; setting->event.mode == TARGET_EVENT_BINARY && i < setting->header_count; i++)
        if (strncasecmp(setting->headers[i].name, "ce-", 3) == 0) {
            (void)snprintf(error, TARGET_ERROR_BYTES,
                           "header '%s' is set by 'cloudevents', leave one of them out",
                           setting->headers[i].name);
            return false;
        }
    for (size_t i = 0; i < MEMBERS; i++)
        if (seen & UINT32_C(1) << i && !member_suits(&members[i], setting)) {
            (void)snprintf(error, TARGET_ERROR_BYTES,
                           "'%s' is for targets of %s, leave it out or change 'to'",
                           members[i].name, members[i].kinds);
            return false;
        }
    return true;
}

static bool parse(struct slice json, struct target_setting *out, char *error)
{
    struct json_value object;
    size_t error_at;
    uint32_t seen = 0;
    if (!json_check(json, &object, &error_at)) {
        (void)snprintf(error, TARGET_ERROR_BYTES, "malformed JSON at byte %zu", error_at);
        return false;
    }
    if (object.kind != JSON_OBJECT) {
        (void)snprintf(
            error, TARGET_ERROR_BYTES,
            "it must be an object such as {\"to\": \"https://shop.example/close-order\"}");
        return false;
    }
    return read_members(object, out, &seen, error) && check_whole(out, seen, error);
}

bool target_setting_parse(struct slice json, struct target_setting *out, char *error)
{
    *out =
        (struct target_setting){.max_in_flight = TARGET_IN_FLIGHT, .timeout_ms = TARGET_TIMEOUT_MS};
    if (parse(json, out, error))
        return true;
    target_setting_fini(out);
    return false;
}

void target_setting_fini(struct target_setting *setting)
{
    free(setting->to);
    free(setting->sign);
    free(setting->event.source);
    free(setting->event.type);
#define FREE(NAME, KINDS) free(setting->NAME);
    TARGET_TEXT_ROWS(FREE)
#undef FREE
    for (size_t i = 0; i < setting->header_count; i++) {
        free(setting->headers[i].name);
        free(setting->headers[i].value);
    }
    *setting = (struct target_setting){0};
}
