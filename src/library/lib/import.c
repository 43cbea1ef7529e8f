/* Import: reads the lines of an export. Pushes jobs in batches with their state, and creates
 * topics with their settings. */
#include "base/duration.h"
#include "base/json_read.h"
#include "base/text.h"
#include "lib/directory.h"
#include "lib/transfer.h"
#include "queue/door.h"
#include "queue/status.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>

enum { CHUNK_BYTES = 256 * 1024 };

/* Returns the maximum line length: a body in its longest JSON encoding (\u0001), plus the other
 * members. */
static size_t line_bytes_max(const struct tarry *queue)
{
    return 6 * (size_t)queue->options.body_bytes_max + 256 * 1024;
}

struct import {
    struct tarry *queue;
    struct transfer *transfer;
    struct buffer in; /* complete lines and the beginning of the next */
    /* Unescaped and decoded texts of the pushes. It has twice the size of `in`, so that it is
     * never moved. */
    struct buffer text;
    struct buffer meta, extension;
    struct queue_push *pushes; /* TARRY_BATCH_MAX */
    uint64_t *lines;           /* line number of each push */
    size_t count;
    uint64_t line; /* number of the current line */
    bool is_head, is_complete;
};

/* ---- pushes ---- */

struct push_call {
    struct directory_call call;
    struct import *import;
};

/* Counts a stored job, or records the line of a rejected one. Returns its code. */
static int results_note(struct import *import, size_t i, enum queue_status status)
{
    if (queue_status_is_success(status)) {
        import->transfer->told.jobs++;
        return TARRY_OK;
    }
    import->transfer->told.line = import->lines[i];
    return lib_code(status);
}

static void push_replied(struct directory_call *call, const struct queue_reply *reply)
{
    struct import *import = ((struct push_call *)(void *)call)->import;
    call->code = lib_code(reply->status);
    for (size_t i = 0; i < reply->result_count; i++) {
        int code = call->code;
        int of_item = code ? 0 : results_note(import, i, reply->results[i].status);
        if (of_item)
            call->code = of_item;
    }
}

static int push_directory(struct import *import)
{
    struct push_call push = {.call = {.replied = push_replied,
                                      .command = {.kind = COMMAND_PUSH,
                                                  .count = import->count,
                                                  .pushes = import->pushes}},
                             .import = import};
    int code = lib_begin(import->queue);
    if (code)
        return code;
    code = directory_run(import->queue->directory, &push.call);
    lib_end(import->queue);
    return code;
}

static int push_memory(struct import *import)
{
    struct tarry *queue = import->queue;
    int code = lib_enter(queue);
    if (code)
        return code;
    for (size_t i = 0; i < import->count && !code; i++) {
        struct queue_result result = {0};
        const struct queue_push *push = &import->pushes[i];
        result.status = push->id.len
                            ? queue_check_push(push, queue->options.body_bytes_max, &result.detail)
                            : QUEUE_BAD_ID;
        if (result.status == QUEUE_OK)
            memory_push(queue->memory, push, queue->now, &result);
        code = results_note(import, i, result.status);
    }
    lib_leave(queue);
    return code;
}

static int import_flush(struct import *import)
{
    int code = TARRY_OK;
    if (import->count)
        code = import->queue->directory ? push_directory(import) : push_memory(import);
    import->count = 0;
    return code;
}

/* ---- members of a line ---- */

static bool read_text(struct import *import, struct json_value value, struct slice *out)
{
    return value.kind == JSON_STRING && json_string_bytes(value.raw, &import->text, out);
}

static bool read_number(struct json_value value, int64_t most, int64_t *out)
{
    return value.kind == JSON_NUMBER && json_number_i64(value.raw, out) && *out >= 0 &&
           *out <= most;
}

/* Reads a duration: a text, or a number of milliseconds. */
static bool read_duration(struct import *import, struct json_value value, int64_t *out)
{
    struct slice text;
    if (value.kind == JSON_NUMBER)
        return read_number(value, POLICY_DELAY_MS_MAX, out);
    return read_text(import, value, &text) && duration_parse(text, POLICY_DELAY_MS_MAX, out);
}

/* Reads a member of a policy. Returns false if it is not one; sets *is_good if its value is
 * valid. */
static bool read_policy(struct import *import, struct slice key, struct json_value value,
                        struct policy *policy, bool *is_good)
{
    struct slice text;
    int64_t number;
    if (json_string_is(key, "lease_for")) {
        *is_good = read_duration(import, value, &policy->lease_ms);
    } else if (json_string_is(key, "ttl")) {
        *is_good = read_duration(import, value, &policy->ttl_ms);
    } else if (json_string_is(key, "max_attempts") && value.kind == JSON_STRING) {
        *is_good = json_string_is(value.raw, "none");
        policy->max_attempts = POLICY_ATTEMPTS_NONE;
    } else if (json_string_is(key, "max_attempts")) {
        *is_good = read_number(value, POLICY_ATTEMPTS_MAX, &number);
        policy->max_attempts = *is_good ? (uint32_t)number : 0;
    } else if (json_string_is(key, "backoff")) {
        *is_good = read_text(import, value, &text) && policy_parse_backoff(text, &policy->backoff);
    } else {
        return false;
    }
    return true;
}

static bool read_conflict(struct json_value value, enum record_conflict *out)
{
    if (value.kind != JSON_STRING)
        return false;
    *out = json_string_is(value.raw, "replace")  ? CONFLICT_REPLACE
           : json_string_is(value.raw, "keep")   ? CONFLICT_KEEP
           : json_string_is(value.raw, "reject") ? CONFLICT_REJECT
                                                 : 0;
    return *out != 0;
}

/* ---- a topic ---- */

static bool read_setting(struct import *import, struct slice key, struct json_value value,
                         struct topic_settings *out)
{
    struct slice text;
    int64_t number = 0;
    bool is_good = true;
    if (read_policy(import, key, value, &out->policy, &is_good))
        return is_good;
    if (json_string_is(key, "dead_letter_expired")) {
        out->dead_letter_expired = value.kind == JSON_TRUE;
        return value.kind == JSON_TRUE || value.kind == JSON_FALSE;
    }
    if (json_string_is(key, "dedup_window"))
        return read_duration(import, value, &out->dedup_window_ms);
    if (json_string_is(key, "on_conflict"))
        return read_conflict(value, &out->on_conflict);
    if (json_string_is(key, "push_rate"))
        return read_text(import, value, &text) && frequency_parse(text, &out->push_rate);
    if (json_string_is(key, "priority")) {
        out->has_priority = read_number(value, JOB_PRIORITY_MAX, &number);
        out->priority = (int32_t)number;
        return out->has_priority;
    }
    if (json_string_is(key, "max_jobs")) {
        is_good = read_number(value, (int64_t)TOPIC_JOBS_MAX, &number);
        out->max_jobs = (uint64_t)number;
        return is_good;
    }
    if (!json_string_is(key, "deliver") && !json_string_is(key, "dead_letter"))
        return false;
    /* Stored unchanged, for a server that opens the directory. */
    struct buffer *extension = &import->extension;
    buffer_append_byte(extension, extension->len ? ',' : '{');
    buffer_append_slice(extension, key);
    buffer_append_byte(extension, ':');
    buffer_append_slice(extension, value.raw);
    return !extension->failed;
}

static int import_topic(struct import *import, struct slice name, struct json_value settings,
                        bool is_paused, int64_t until_ms)
{
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT, .topic = name};
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    int code = import_flush(import);
    buffer_clear(&import->extension);
    while (!code && json_next_member(settings, &cursor, &key, &value))
        if (!read_setting(import, key, value, &put.settings))
            code = TARRY_BAD_OPTION;
    if (!code && import->extension.len) {
        buffer_append_byte(&import->extension, '}');
        put.settings.extension = buffer_slice(&import->extension);
    }
    if (!code && import->extension.failed)
        code = TARRY_BAD_OPTION;
    if (!code)
        code = lib_topic_call(import->queue, &put, NULL, NULL);
    if (code > TARRY_CREATED)
        return code;
    int64_t now_ms = clock_wall_ms_of(&import->queue->clock);
    struct queue_topic_call pause = {.verb = QUEUE_TOPIC_PAUSE, .topic = name};
    if (is_paused && (!until_ms || until_ms > now_ms)) {
        pause.pause_ms = until_ms ? until_ms - now_ms : 0;
        code = lib_topic_call(import->queue, &pause, NULL, NULL);
    }
    import->transfer->told.topics += code <= TARRY_CREATED;
    return code <= TARRY_CREATED ? TARRY_OK : code;
}

/* ---- a job ---- */

static bool read_meta(struct import *import, struct json_value meta)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key, name, text;
    bool is_good = meta.kind == JSON_OBJECT;
    while (is_good && json_next_member(meta, &cursor, &key, &value)) {
        is_good = read_text(import, (struct json_value){JSON_STRING, key}, &name) &&
                  read_text(import, value, &text) &&
                  !(name.len >= strlen(JOB_META_OWN) &&
                    !memcmp(name.at, JOB_META_OWN, strlen(JOB_META_OWN))) &&
                  job_meta_add(&import->meta, name, text) == JOB_META_OK;
    }
    return is_good;
}

static bool type_is_json(struct slice type)
{
    static const size_t suffix = sizeof "+json" - 1;
    const char *end = type.len ? memchr(type.at, ';', type.len) : NULL;
    if (end)
        type.len = (size_t)(end - type.at);
    while (type.len && type.at[type.len - 1] == ' ')
        type.len--;
    return (type.len == strlen("application/json") &&
            !strncasecmp(type.at, "application/json", type.len)) ||
           (type.len > suffix && !strncasecmp(type.at + type.len - suffix, "+json", suffix));
}

static bool read_base64(struct import *import, struct json_value value, struct slice *out)
{
    struct slice text;
    if (!read_text(import, value, &text))
        return false;
    size_t start = import->text.len;
    if (!text_base64_decode(text, &import->text))
        return false;
    *out = slice_make(import->text.at + start, import->text.len - start);
    return true;
}

/* Reads a body. A string is its text, unless the content type is JSON; any other value is kept
 * as JSON. */
static bool read_body(struct import *import, struct json_value body, struct queue_push *push)
{
    if (body.kind == JSON_STRING && !type_is_json(push->content_type)) {
        if (!push->content_type.len)
            push->content_type = slice_of("text/plain; charset=utf-8");
        return read_text(import, body, &push->body);
    }
    if (!push->content_type.len)
        push->content_type = slice_of("application/json");
    push->body = body.raw;
    return true;
}

static bool read_job_member(struct import *import, struct slice key, struct json_value value,
                            struct queue_push *push, struct json_value *body)
{
    struct slice text;
    int64_t number = 0;
    bool is_good = true;
    if (read_policy(import, key, value, &push->policy, &is_good))
        return is_good;
    if (json_string_is(key, "topic"))
        return read_text(import, value, &push->topic);
    if (json_string_is(key, "id"))
        return read_text(import, value, &push->id);
    if (json_string_is(key, "content_type"))
        return read_text(import, value, &push->content_type);
    if (json_string_is(key, "error"))
        return read_text(import, value, &push->past.error);
    if (json_string_is(key, "body_base64"))
        return read_base64(import, value, &push->body);
    if (json_string_is(key, "on_conflict"))
        return read_conflict(value, &push->on_conflict);
    if (json_string_is(key, "meta"))
        return read_meta(import, value);
    if (json_string_is(key, "callback"))
        return read_text(import, value, &text) &&
               job_meta_add(&import->meta, slice_of(JOB_META_CALLBACK), text) == JOB_META_OK;
    if (json_string_is(key, "state"))
        return push->past.dead = value.kind == JSON_STRING && json_string_is(value.raw, "dead");
    if (json_string_is(key, "body")) {
        *body = value;
        return true;
    }
    if (json_string_is(key, "at")) {
        push->when.due = QUEUE_DUE_AT;
        return read_number(value, INT64_MAX, &push->when.ms);
    }
    if (json_string_is(key, "delay")) {
        push->when.due = QUEUE_DUE_DELAY;
        return read_duration(import, value, &push->when.ms);
    }
    if (json_string_is(key, "priority")) {
        is_good = read_number(value, JOB_PRIORITY_MAX, &number);
        push->priority = (int32_t)number;
        return is_good;
    }
    if (!json_string_is(key, "attempt") || !read_number(value, UINT32_MAX, &number))
        return false;
    push->past.attempt = (uint32_t)number;
    return true;
}

static int import_job(struct import *import, struct json_value object)
{
    struct queue_push *push = &import->pushes[import->count];
    struct json_cursor cursor = {0};
    struct json_value value, body = {0};
    struct slice key;
    *push = (struct queue_push){.when.due = QUEUE_DUE_NOW, .priority = QUEUE_PRIORITY_UNSET};
    buffer_clear(&import->meta);
    while (json_next_member(object, &cursor, &key, &value))
        if (!read_job_member(import, key, value, push, &body))
            return TARRY_BAD_OPTION;
    if (body.kind && !read_body(import, body, push))
        return TARRY_BAD_OPTION;
    if (import->meta.len) {
        push->meta = slice_make(import->text.at + import->text.len, import->meta.len);
        buffer_append_slice(&import->text, buffer_slice(&import->meta));
    }
    if (import->text.failed)
        return TARRY_NO_MEMORY;
    if (!push->id.len)
        return TARRY_BAD_ID;
    if (!push->on_conflict)
        push->on_conflict =
            import->transfer->asked.on_conflict == TARRY_REPLACE ? CONFLICT_REPLACE : CONFLICT_KEEP;
    import->lines[import->count++] = import->line;
    return import->count == TARRY_BATCH_MAX ? import_flush(import) : TARRY_OK;
}

/* ---- a line ---- */

struct members {
    struct json_value head, end, topic, id, settings, paused, paused_until, cursor;
};

static void members_read(struct json_value object, struct members *out)
{
    static const struct {
        const char *name;
        size_t at;
    } rows[] = {
        {"tarry_export", offsetof(struct members, head)},
        {"tarry_export_end", offsetof(struct members, end)},
        {"topic", offsetof(struct members, topic)},
        {"id", offsetof(struct members, id)},
        {"settings", offsetof(struct members, settings)},
        {"paused", offsetof(struct members, paused)},
        {"paused_until", offsetof(struct members, paused_until)},
        {"cursor", offsetof(struct members, cursor)},
    };
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    *out = (struct members){0};
    while (json_next_member(object, &cursor, &key, &value))
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            if (json_string_is(key, rows[i].name))
                *(struct json_value *)(void *)((char *)out + rows[i].at) = value;
}

static int import_line(struct import *import, struct slice text)
{
    struct json_value object;
    struct members of;
    struct slice name;
    int64_t number = 0;
    import->transfer->told.line = ++import->line;
    if (!json_check(text, &object, NULL) || object.kind != JSON_OBJECT || import->is_complete)
        return TARRY_BAD_OPTION;
    members_read(object, &of);
    if (!import->is_head) {
        import->is_head = read_number(of.head, INT64_MAX, &number) && number == 1;
        return import->is_head ? TARRY_OK : TARRY_BAD_OPTION;
    }
    if (of.end.kind) {
        import->is_complete = true;
        return TARRY_OK;
    }
    if (of.cursor.kind && !of.id.kind) /* used to resume an interrupted export */
        return TARRY_OK;
    if (of.settings.kind != JSON_OBJECT)
        return import_job(import, object);
    if (of.paused_until.kind && !read_number(of.paused_until, INT64_MAX, &number))
        return TARRY_BAD_OPTION;
    return read_text(import, of.topic, &name)
               ? import_topic(import, name, of.settings, of.paused.kind == JSON_TRUE, number)
               : TARRY_BAD_OPTION;
}

/* Imports all complete lines and moves the rest to the front. */
static int import_lines(struct import *import)
{
    struct buffer *in = &import->in;
    size_t at = 0;
    int code = TARRY_OK;
    buffer_clear(&import->text);
    if (!buffer_reserve(&import->text, 2 * in->len + 1))
        return TARRY_NO_MEMORY;
    while (!code) {
        const char *end = in->len > at ? memchr(in->at + at, '\n', in->len - at) : NULL;
        if (!end)
            break;
        size_t bytes = (size_t)(end - in->at) - at;
        if (bytes)
            code = import_line(import, slice_make(in->at + at, bytes));
        at += bytes + 1;
    }
    uint64_t line = import->transfer->told.line;
    if (!code)
        code = import_flush(import);
    if (!code) {
        import->transfer->told.line = line;
        memmove(in->at, in->at + at, in->len - at);
        in->len -= at;
    }
    return code;
}

static int import_all(struct import *import)
{
    size_t most = line_bytes_max(import->queue);
    for (bool is_end = false; !is_end;) {
        size_t bytes = import->in.len < CHUNK_BYTES ? CHUNK_BYTES : import->in.len;
        if (import->in.len > most)
            return TARRY_BODY_TOO_BIG;
        int code = transfer_read(import->transfer, &import->in, bytes, &is_end);
        if (!code)
            code = import_lines(import);
        if (code)
            return code;
    }
    if (import->is_complete && !import->in.len)
        return TARRY_OK;
    errno = ENODATA; /* the export is incomplete */
    return TARRY_IO_FAILED;
}

int tarry_import(tarry *queue, struct tarry_transfer *transfer)
{
    struct transfer mine;
    int code = transfer_begin(&mine, transfer, true);
    if (code)
        return code;
    struct import import = {.queue = queue, .transfer = &mine};
    buffer_init(&import.in, SIZE_MAX / 4);
    buffer_init(&import.text, SIZE_MAX / 4);
    buffer_init(&import.meta, JOB_META_BYTES_MAX);
    buffer_init(&import.extension, TOPIC_EXTENSION_BYTES_MAX);
    import.pushes = malloc(TARRY_BATCH_MAX * sizeof *import.pushes);
    import.lines = malloc(TARRY_BATCH_MAX * sizeof *import.lines);
    code = import.pushes && import.lines ? import_all(&import) : TARRY_NO_MEMORY;
    int failed = errno;
    free(import.pushes);
    free(import.lines);
    buffer_fini(&import.in);
    buffer_fini(&import.text);
    buffer_fini(&import.meta);
    buffer_fini(&import.extension);
    errno = failed;
    return transfer_end(&mine, transfer, code);
}
