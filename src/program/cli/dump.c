#include "cli/dump.h"

#include "base/json_read.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "job/json.h"

#include <strings.h>

/* Reads a topic or cursor. Both are printable ASCII, so a string with an escape is invalid. */
static bool read_word(struct json_value value, char *into, size_t room)
{
    if (value.kind != JSON_STRING || value.raw.len - 2 >= room ||
        memchr(value.raw.at, '\\', value.raw.len))
        return false;
    memcpy(into, value.raw.at + 1, value.raw.len - 2);
    into[value.raw.len - 2] = '\0';
    return true;
}

/* Reads any string of at most room - 1 bytes without zero bytes. */
static bool read_text(struct json_value value, char *into, size_t room)
{
    struct buffer scratch;
    struct slice text;
    buffer_init(&scratch, 8 * DUMP_CURSOR_BYTES_MAX);
    bool is_read = value.kind == JSON_STRING && json_string_bytes(value.raw, &scratch, &text) &&
                   text.len < room && !memchr(text.at, 0, text.len);
    if (is_read) {
        memcpy(into, text.at, text.len);
        into[text.len] = '\0';
    }
    buffer_fini(&scratch);
    return is_read;
}

/* ---- reading ---- */

struct members {
    struct json_value head, end, topic, id, group, group_settings, settings, paused, paused_until,
        cursor, topics, jobs, finished, state, outcome, finished_at, at, on_conflict;
};

static void read_members(struct json_value object, struct members *out)
{
    out->head = json_member(object, "tarry_export");
    out->end = json_member(object, "tarry_export_end");
    out->topic = json_member(object, "topic");
    out->id = json_member(object, "id");
    out->group = json_member(object, "group");
    out->group_settings = json_member(object, "group_settings");
    out->settings = json_member(object, "settings");
    out->paused = json_member(object, "paused");
    out->paused_until = json_member(object, "paused_until");
    out->cursor = json_member(object, "cursor");
    out->topics = json_member(object, "topics");
    out->jobs = json_member(object, "jobs");
    out->finished = json_member(object, "finished");
    out->state = json_member(object, "state");
    out->outcome = json_member(object, "outcome");
    out->finished_at = json_member(object, "finished_at");
    out->at = json_member(object, "at");
    out->on_conflict = json_member(object, "on_conflict");
}

static bool is_finished(const struct members *of)
{
    return of->state.kind == JSON_STRING && json_string_is(of->state.raw, "finished");
}

static enum dump_kind kind_of(const struct members *of, struct dump_line *out)
{
    if (of->head.kind == JSON_NUMBER && json_number_i64(of->head.raw, &out->version))
        return DUMP_HEAD;
    if (of->end.kind != JSON_NONE)
        return DUMP_END;
    if (of->group_settings.kind == JSON_OBJECT)
        return read_word(of->topic, out->topic, sizeof out->topic) &&
                       read_text(of->group, out->group, sizeof out->group)
                   ? DUMP_GROUP
                   : DUMP_MALFORMED;
    if (of->settings.kind == JSON_OBJECT)
        return read_word(of->topic, out->topic, sizeof out->topic) ? DUMP_TOPIC : DUMP_MALFORMED;
    if (of->cursor.kind == JSON_STRING && of->id.kind == JSON_NONE &&
        read_word(of->topic, out->topic, sizeof out->topic) &&
        read_word(of->cursor, out->cursor, sizeof out->cursor))
        return DUMP_CURSOR;
    if (of->id.kind == JSON_STRING && of->outcome.kind == JSON_STRING && is_finished(of))
        return DUMP_FINISHED;
    return DUMP_JOB;
}

void dump_read(struct slice text, struct dump_line *out)
{
    struct json_value object;
    struct members members;
    int64_t jobs, topics, finished;
    *out = (struct dump_line){.kind = DUMP_MALFORMED};
    if (!json_check(text, &object, NULL) || object.kind != JSON_OBJECT)
        return;
    read_members(object, &members);
    out->kind = kind_of(&members, out);
    out->topics = members.topics.kind == JSON_ARRAY ? members.topics.raw : (struct slice){0};
    if (members.jobs.kind == JSON_NUMBER && json_number_i64(members.jobs.raw, &jobs) && jobs > 0)
        out->jobs = (uint64_t)jobs;
    if (members.topics.kind == JSON_NUMBER && json_number_i64(members.topics.raw, &topics) &&
        topics > 0)
        out->topic_lines = (uint64_t)topics;
    if (members.finished.kind == JSON_NUMBER && json_number_i64(members.finished.raw, &finished) &&
        finished > 0)
        out->finished_lines = (uint64_t)finished;
    out->is_finished = members.finished.kind == JSON_TRUE || is_finished(&members);
    out->settings = out->kind == DUMP_GROUP ? members.group_settings.raw : members.settings.raw;
    out->paused = members.paused.kind == JSON_TRUE;
    if (members.paused_until.kind == JSON_NUMBER &&
        !json_number_i64(members.paused_until.raw, &out->paused_until_ms))
        out->paused_until_ms = 0;
    if (members.at.kind == JSON_NUMBER && !json_number_i64(members.at.raw, &out->at_ms))
        out->at_ms = 0;
    if (out->kind == DUMP_FINISHED && members.finished_at.kind == JSON_STRING &&
        !timestamp_parse(
            slice_make(members.finished_at.raw.at + 1, members.finished_at.raw.len - 2),
            &out->at_ms))
        out->at_ms = 0;
    out->has_on_conflict = members.on_conflict.kind != JSON_NONE;
}

bool dump_next_name(struct slice topics, const char **at, char name[JOB_TOPIC_BYTES_MAX + 1])
{
    struct json_value array = {.kind = JSON_ARRAY, .raw = topics}, item;
    struct json_cursor cursor = {.at = *at};
    if (!topics.len || !json_next_item(array, &cursor, &item))
        return false;
    *at = cursor.at;
    return read_word(item, name, JOB_TOPIC_BYTES_MAX + 1);
}

/* ---- writing ---- */

void dump_write_head(struct buffer *out, int64_t now_ms, const struct dump_name *topics,
                     size_t count, const struct dump_contents *contents)
{
    buffer_append_text(out, "{\"tarry_export\":1,\"at\":");
    json_write_time(out, now_ms);
    buffer_append_text(out, ",\"topics\":[");
    for (size_t i = 0; i < count; i++) {
        if (i)
            buffer_append_byte(out, ',');
        json_write_string(out, slice_of(topics[i].text));
    }
    buffer_append_format(out, "],\"jobs\":%llu%s}\n", (unsigned long long)contents->jobs,
                         contents->has_finished ? ",\"finished\":true" : "");
}

void dump_write_end(struct buffer *out, size_t topics, const struct dump_contents *contents)
{
    buffer_append_format(out, "{\"tarry_export_end\":1,\"topics\":%zu,\"jobs\":%llu", topics,
                         (unsigned long long)contents->jobs);
    if (contents->has_finished)
        buffer_append_format(out, ",\"finished\":%llu", (unsigned long long)contents->finished);
    buffer_append_text(out, "}\n");
}

void dump_write_finished_begin(struct buffer *out, const char *topic)
{
    buffer_append_text(out, "{\"topic\":");
    json_write_string(out, slice_of(topic));
    buffer_append_text(out, ",\"cursor\":\"\",\"state\":\"finished\"}\n");
}

/* Appends JSON of an answer as a part of a line. Line breaks in it are between its tokens. */
static void append_in_line(struct buffer *out, struct slice json)
{
    for (size_t i = 0; i < json.len; i++)
        buffer_append_byte(out, json.at[i] == '\n' || json.at[i] == '\r' ? ' ' : json.at[i]);
}

bool dump_write_topic(struct buffer *out, struct slice answer)
{
    struct json_value topic, name, settings;
    if (!json_check(answer, &topic, NULL))
        return false;
    name = json_member(topic, "topic");
    settings = json_member(topic, "settings");
    if (name.kind != JSON_STRING || settings.kind != JSON_OBJECT)
        return false;
    buffer_append_text(out, "{\"topic\":");
    buffer_append_slice(out, name.raw);
    buffer_append_text(out, ",\"settings\":");
    append_in_line(out, settings.raw);
    bool is_paused = json_member(topic, "paused").kind == JSON_TRUE;
    buffer_append_text(out, is_paused ? ",\"paused\":true" : ",\"paused\":false");
    struct json_value until = json_member(topic, "paused_until");
    int64_t until_ms;
    if (is_paused && until.kind == JSON_STRING && until.raw.len > 2 &&
        timestamp_parse(slice_make(until.raw.at + 1, until.raw.len - 2), &until_ms)) {
        buffer_append_text(out, ",\"paused_until\":");
        buffer_append_i64(out, until_ms);
    }
    buffer_append_text(out, "}\n");
    return true;
}

bool dump_write_groups(struct buffer *out, const char *topic, struct slice answer,
                       char cursor[DUMP_CURSOR_BYTES_MAX])
{
    struct json_value page, list, group, next, unused;
    struct slice unused_key;
    struct json_cursor at = {0};
    cursor[0] = '\0';
    if (!json_check(answer, &page, NULL) || (list = json_member(page, "groups")).kind != JSON_ARRAY)
        return false;
    while (json_next_item(list, &at, &group)) {
        struct json_value name = json_member(group, "group"),
                          settings = json_member(group, "settings");
        struct json_cursor first = {0};
        if (name.kind != JSON_STRING || settings.kind != JSON_OBJECT)
            return false;
        if (!json_next_member(settings, &first, &unused_key, &unused))
            continue;
        buffer_append_text(out, "{\"topic\":");
        json_write_string(out, slice_of(topic));
        buffer_append_text(out, ",\"group\":");
        buffer_append_slice(out, name.raw);
        buffer_append_text(out, ",\"group_settings\":");
        append_in_line(out, settings.raw);
        buffer_append_text(out, "}\n");
    }
    next = json_member(page, "cursor");
    return next.kind == JSON_NULL || read_text(next, cursor, DUMP_CURSOR_BYTES_MAX);
}

/* ---- a job ---- */

/* Returns whether the body can be written as JSON. The import keeps the bytes of JSON that is
 * not a string, whatever the content type. */
static bool is_plain_json(struct slice body)
{
    struct json_value value;
    return body.len && !memchr(body.at, '\n', body.len) && !memchr(body.at, '\r', body.len) &&
           json_check(body, &value, NULL) && value.kind != JSON_STRING && value.raw.len == body.len;
}

/* Returns whether the body can be written as a string. The import takes a string as text, unless
 * the content type is JSON. */
static bool is_plain_text(struct slice body, struct slice raw_type)
{
    static const size_t least = sizeof "\"text/" - 1;
    if (raw_type.len <= least || memcmp(raw_type.at, "\"text/", least) != 0 ||
        !json_utf8_is_valid(body))
        return false;
    for (size_t i = least; i + 4 <= raw_type.len; i++)
        if (strncasecmp(raw_type.at + i, "json", 4) == 0)
            return false;
    return true;
}

static void write_base64(struct buffer *out, struct slice raw)
{
    buffer_append_text(out, ",\"body_base64\":");
    buffer_append_slice(out, raw);
}

static bool write_body(struct buffer *out, struct json_value job, struct buffer *scratch,
                       bool *is_base64)
{
    struct slice type = json_member(job, "content_type").raw, text, body;
    struct json_value base64 = json_member(job, "body_base64");
    buffer_clear(scratch);
    /* Room for the text, if it has escapes, and for its bytes: the text must not move. */
    if (base64.kind != JSON_STRING || !buffer_reserve(scratch, 2 * base64.raw.len) ||
        !json_string_bytes(base64.raw, scratch, &text))
        return false;
    size_t start = scratch->len;
    if (!text_base64_decode(text, scratch))
        return false;
    body = slice_make(scratch->at + start, scratch->len - start);
    if (is_plain_json(body)) {
        buffer_append_text(out, ",\"body\":");
        buffer_append_slice(out, body);
    } else if (is_plain_text(body, type)) {
        buffer_append_text(out, ",\"body\":");
        json_write_string(out, body);
    } else {
        write_base64(out, base64.raw);
        *is_base64 = true;
    }
    return true;
}

static bool has_json_type(struct json_value job)
{
    struct json_value type = json_member(job, "content_type");
    return type.kind == JSON_STRING &&
           job_type_is_json(slice_make(type.raw.at + 1, type.raw.len - 2));
}

/* Writes one job of a list as the line that pushes it again. */
static bool write_job(struct buffer *out, struct json_value job, struct buffer *scratch,
                      bool as_base64)
{
    if (!job_json_export(out, job))
        return false;
    if (as_base64)
        write_base64(out, json_member(job, "body_base64").raw);
    else if (!write_body(out, job, scratch, &as_base64))
        return false;
    /* Marks the job of an export, whose body may nest deeper than that of a push. */
    if (as_base64 && !job_json_attempts(job) && has_json_type(job))
        buffer_append_text(out, ",\"attempt\":0");
    buffer_append_text(out, "}\n");
    return true;
}

static bool write_line(struct buffer *out, struct json_value job, struct buffer *scratch)
{
    struct json_value line;
    size_t start = out->len;
    if (!write_job(out, job, scratch, false))
        return false;
    /* A body with the maximum JSON nesting is too deep inside a line. */
    if (!out->failed && !json_check(slice_make(out->at + start, out->len - start), &line, NULL)) {
        out->len = start;
        return write_job(out, job, scratch, true);
    }
    return true;
}

/* Writes a finished job as it is. */
static bool write_finished(struct buffer *out, struct json_value job)
{
    if (job.kind != JSON_OBJECT)
        return false;
    append_in_line(out, job.raw);
    buffer_append_byte(out, '\n');
    return true;
}

/* Reads the cursor of a page, and writes it as a line unless it is the last one. */
static bool write_cursor(struct buffer *out, struct json_value page, struct json_value topic,
                         const char *members, char cursor[DUMP_CURSOR_BYTES_MAX])
{
    struct json_value next = json_member(page, "cursor");
    if (next.kind == JSON_NULL)
        return true;
    if (!read_word(next, cursor, DUMP_CURSOR_BYTES_MAX) || topic.kind != JSON_STRING)
        return false;
    buffer_append_text(out, "{\"topic\":");
    buffer_append_slice(out, topic.raw);
    buffer_append_text(out, ",\"cursor\":");
    buffer_append_slice(out, next.raw);
    buffer_append_text(out, members);
    buffer_append_text(out, "}\n");
    return true;
}

bool dump_write_page(struct buffer *out, struct slice answer, bool is_finished,
                     struct buffer *scratch, uint64_t *jobs, char cursor[DUMP_CURSOR_BYTES_MAX])
{
    struct json_value page, list, job, topic = {0};
    struct json_cursor at = {0};
    cursor[0] = '\0';
    if (!json_check(answer, &page, NULL) || (list = json_member(page, "jobs")).kind != JSON_ARRAY)
        return false;
    while (json_next_item(list, &at, &job)) {
        if (!(is_finished ? write_finished(out, job) : write_line(out, job, scratch)))
            return false;
        topic = json_member(job, "topic");
        ++*jobs;
    }
    return write_cursor(out, page, topic, is_finished ? ",\"state\":\"finished\"" : "", cursor);
}
