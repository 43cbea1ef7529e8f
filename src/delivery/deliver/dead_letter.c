#include "deliver/dead_letter.h"

#include "base/duration.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/text.h"
#include "deliver/deliver.h"
#include "job/job.h"
#include "job/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES_MAX = TARGET_TO_BYTES_MAX,
    URL_BYTES_MAX = 1024 /* stored in a meta, like any callback */
};

struct dead_letter_reader {
    struct dead_letter *out;
    struct buffer scratch; /* unescaped strings */
    char *error;
};

static bool reader_fail(struct dead_letter_reader *reader, const char *what)
{
    return error_text(reader->error, DELIVER_ERROR_BYTES, "%s", what);
}

/* ---- values ---- */

static bool read_text(struct dead_letter_reader *reader, struct json_value value, struct slice *out)
{
    return value.kind == JSON_STRING && json_string_bytes(value.raw, &reader->scratch, out) &&
           out->len > 0 && out->len <= TEXT_BYTES_MAX && !memchr(out->at, 0, out->len);
}

/* Reads a string or a bare number. */
static bool read_figure(struct dead_letter_reader *reader, struct json_value value,
                        struct slice *out)
{
    if (value.kind == JSON_NUMBER) {
        *out = value.raw;
        return true;
    }
    return read_text(reader, value, out);
}

static bool copy_text(struct dead_letter_reader *reader, struct slice text, char **out)
{
    *out = strndup(text.at, text.len);
    return *out || reader_fail(reader, "out of memory");
}

static bool is_url(struct slice text)
{
    return memmem(text.at, text.len, "://", 3);
}

static bool copy_url(struct dead_letter_reader *reader, struct slice text, char **out)
{
    return text.len <= URL_BYTES_MAX
               ? copy_text(reader, text, out)
               : reader_fail(
                     reader,
                     "the URL of a dead letter or an alert is too long, at most 1024 bytes");
}

/* ---- members ---- */

typedef bool read_member(struct dead_letter_reader *reader, struct json_value value);

static bool read_count(struct dead_letter_reader *reader, struct json_value value)
{
    struct slice text;
    return (read_figure(reader, value, &text) &&
            text_parse_u64(text, UINT64_MAX >> 1, &reader->out->keep_count) &&
            reader->out->keep_count > 0) ||
           reader_fail(reader, "bad value for 'dead_letter.keep.count', give a number from 1");
}

static bool read_bytes(struct dead_letter_reader *reader, struct json_value value)
{
    struct slice text;
    return (read_figure(reader, value, &text) &&
            text_parse_bytes(text, UINT64_MAX >> 1, &reader->out->keep_bytes) &&
            reader->out->keep_bytes > 0) ||
           reader_fail(reader,
                       "bad value for 'dead_letter.keep.bytes', give a size such as 100MiB");
}

static bool read_age(struct dead_letter_reader *reader, struct json_value value)
{
    struct slice text;
    return (read_figure(reader, value, &text) &&
            duration_parse(text, POLICY_DELAY_MS_MAX, &reader->out->keep_ms) &&
            reader->out->keep_ms >= DEAD_LETTER_AGE_MS_MIN) ||
           reader_fail(
               reader,
               "bad value for 'dead_letter.keep.age', give a time of at least 1s, such as 30d");
}

static bool read_to(struct dead_letter_reader *reader, struct json_value value)
{
    struct slice text;
    if (read_text(reader, value, &text)) {
        if (is_url(text))
            return copy_url(reader, text, &reader->out->to_url);
        if (job_topic_is_valid(text))
            return copy_text(reader, text, &reader->out->to_topic);
    }
    return reader_fail(
        reader, "bad value for 'dead_letter.to', give the name of a topic or a URL of http or "
                "https");
}

static bool read_alert_to(struct dead_letter_reader *reader, struct json_value value)
{
    struct slice text;
    if (read_text(reader, value, &text) && is_url(text))
        return copy_url(reader, text, &reader->out->alert_to);
    return reader_fail(reader, "bad value for 'dead_letter.alert.to', give a URL of http or https");
}

static bool read_alert_command(struct dead_letter_reader *reader, struct json_value value)
{
    struct slice text;
    return (read_text(reader, value, &text) && text.len <= GUARD_NAME_BYTES_MAX &&
            copy_text(reader, text, &reader->out->alert_command)) ||
           reader_fail(
               reader,
               "bad value for 'dead_letter.alert.command', give the name of a command of the "
               "policy file");
}

static bool read_alert_every(struct dead_letter_reader *reader, struct json_value value)
{
    struct slice text;
    return (read_figure(reader, value, &text) &&
            duration_parse(text, POLICY_DELAY_MS_MAX, &reader->out->alert_every_ms) &&
            reader->out->alert_every_ms >= ALERT_EVERY_MS_MIN) ||
           reader_fail(
               reader,
               "bad value for 'dead_letter.alert.every', give a time of at least 1s, such as "
               "10m");
}

/* ---- objects: tables of members ---- */

struct member {
    const char *name;
    read_member *read;
};

enum { MEMBERS_MAX = 8 };

static bool fail_unknown(struct dead_letter_reader *reader, const char *of, struct slice key,
                         const struct member *members)
{
    const char *names[MEMBERS_MAX + 1] = {NULL};
    char name[64];
    for (size_t i = 0; members[i].name; i++)
        names[i] = members[i].name;
    snprintf(name, sizeof name, "%.*s", (int)(key.len > 2 ? key.len - 2 : 0), key.at + 1);
    const char *nearest = text_nearest(name, names);
    return error_text(reader->error, DELIVER_ERROR_BYTES, "unknown member '%s' in '%s', %s'%s'",
                      name, of, nearest ? "did you mean " : "the first one is ",
                      nearest ? nearest : members[0].name);
}

static bool read_object(struct dead_letter_reader *reader, const char *of, struct json_value object,
                        const struct member *members)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    uint32_t seen = 0;
    if (object.kind != JSON_OBJECT)
        return error_text(reader->error, DELIVER_ERROR_BYTES, "'%s' must be an object", of);
    while (json_next_member(object, &cursor, &key, &value)) {
        size_t i = 0;
        while (members[i].name && !json_string_is(key, members[i].name))
            i++;
        if (!members[i].name)
            return fail_unknown(reader, of, key, members);
        if (seen & (1u << i))
            return error_text(reader->error, DELIVER_ERROR_BYTES,
                              "'%s.%s' is given twice, remove one", of, members[i].name);
        seen |= 1u << i;
        if (!members[i].read(reader, value))
            return false;
    }
    return true;
}

static bool read_keep(struct dead_letter_reader *reader, struct json_value value)
{
    static const struct member members[] = {
        {"count", read_count}, {"age", read_age}, {"bytes", read_bytes}, {NULL, NULL}};
    return read_object(reader, "dead_letter.keep", value, members);
}

static bool read_alert(struct dead_letter_reader *reader, struct json_value value)
{
    static const struct member members[] = {{"to", read_alert_to},
                                            {"command", read_alert_command},
                                            {"every", read_alert_every},
                                            {NULL, NULL}};
    reader->out->alert_every_ms = ALERT_EVERY_MS;
    if (!read_object(reader, "dead_letter.alert", value, members))
        return false;
    if (!reader->out->alert_to == !reader->out->alert_command)
        return reader_fail(reader, "'dead_letter.alert' needs either 'to', a URL, or 'command'");
    return true;
}

static bool read_all(struct dead_letter_reader *reader, struct slice json)
{
    static const struct member members[] = {
        {"to", read_to}, {"keep", read_keep}, {"alert", read_alert}, {NULL, NULL}};
    struct json_value object;
    /* Reserve the space now, because several strings are in use at a time and must not move. */
    if (!buffer_reserve(&reader->scratch, json.len + 1))
        return reader_fail(reader, "out of memory");
    if (!json_check(json, &object, NULL))
        return reader_fail(reader, "'dead_letter' is malformed JSON");
    return read_object(reader, "dead_letter", object, members);
}

bool dead_letter_parse(struct slice json, struct dead_letter *out, char *error)
{
    struct dead_letter_reader reader = {.out = out, .error = error};
    *out = (struct dead_letter){0};
    buffer_init(&reader.scratch, json.len + 1);
    bool ok = read_all(&reader, json);
    buffer_fini(&reader.scratch);
    if (!ok)
        dead_letter_fini(out);
    return ok;
}

void dead_letter_fini(struct dead_letter *dead_letter)
{
    free(dead_letter->to_topic);
    free(dead_letter->to_url);
    free(dead_letter->alert_to);
    free(dead_letter->alert_command);
    *dead_letter = (struct dead_letter){0};
}
