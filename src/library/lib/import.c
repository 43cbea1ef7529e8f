/* Import: reads the lines of an export. Pushes jobs in batches with their state, and creates
 * topics with their settings. */
#include "base/json_read.h"
#include "job/json.h"
#include "lib/directory.h"
#include "lib/transfer.h"
#include "queue/door.h"
#include "queue/status.h"

#include <errno.h>
#include <stdlib.h>

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
    struct queue_batch *rooms; /* as many, for the batches of jobs */
    uint64_t *lines;           /* line number of each push */
    struct slice *texts;       /* line of each push */
    struct buffer aside;       /* members whose waiting job comes later: number, blank, line */
    struct slice text_now;     /* the current line */
    size_t count;
    uint64_t line; /* number of the current line */
    bool is_head, is_complete;
};

/* ---- pushes ---- */

struct push_call {
    struct directory_call call;
    struct import *import;
};

/* Sets a member aside whose waiting job is not there yet. */
static int member_set_aside(struct import *import, size_t i)
{
    buffer_append_u64(&import->aside, import->lines[i]);
    buffer_append_byte(&import->aside, ' ');
    buffer_append_slice(&import->aside, import->texts[i]);
    buffer_append_byte(&import->aside, '\n');
    return import->aside.failed ? TARRY_NO_MEMORY : TARRY_OK;
}

/* Counts a stored job, or records the line of a rejected one. Returns its code. */
static int results_note(struct import *import, size_t i, enum queue_status status)
{
    if (queue_status_is_success(status)) {
        import->transfer->report.jobs++;
        return TARRY_OK;
    }
    if (status == QUEUE_NO_BATCH)
        return member_set_aside(import, i);
    import->transfer->report.line = import->lines[i];
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

/* ---- a topic ---- */

static bool read_setting(struct import *import, struct slice key, struct json_value value,
                         struct topic_settings *out)
{
    struct slice text;
    int64_t number = 0;
    bool is_good = true;
    if (job_json_read_policy(key, value, &import->text, &out->policy, &is_good))
        return is_good;
    if (job_json_read_flow(key, value, &import->text, &out->flow, &is_good))
        return is_good;
    if (json_string_is(key, "dead_letter_expired")) {
        out->dead_letter_expired = value.kind == JSON_TRUE;
        return value.kind == JSON_TRUE || value.kind == JSON_FALSE;
    }
    if (json_string_is(key, "dedup_window"))
        return job_json_read_duration(value, &import->text, &out->dedup_window_ms);
    if (json_string_is(key, "on_conflict"))
        return job_json_read_conflict(value, &out->on_conflict);
    if (json_string_is(key, "push_rate"))
        return job_json_read_text(value, &import->text, &text) &&
               frequency_parse(text, &out->push_rate);
    if (json_string_is(key, "priority")) {
        out->has_priority = job_json_read_number(value, JOB_PRIORITY_MAX, &number);
        out->priority = (int32_t)number;
        return out->has_priority;
    }
    if (json_string_is(key, "max_jobs")) {
        is_good = job_json_read_number(value, (int64_t)TOPIC_JOBS_MAX, &number);
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
    import->transfer->report.topics += code <= TARRY_CREATED;
    return code <= TARRY_CREATED ? TARRY_OK : code;
}

/* ---- a job ---- */

static struct queue_push push_of(const struct job_json *line)
{
    const struct job *job = &line->job;
    return (struct queue_push){
        .topic = job->topic,
        .id = job->id,
        .group = job->group,
        .content_type = job->content_type,
        .meta = job->meta,
        .body = job->body,
        .when = {.due = line->has_at      ? QUEUE_DUE_AT
                        : line->has_delay ? QUEUE_DUE_DELAY
                                          : QUEUE_DUE_NOW,
                 .ms = line->has_at ? job->due_ms : line->delay_ms},
        .priority = line->has_priority ? job->priority : QUEUE_PRIORITY_UNSET,
        .on_conflict = line->on_conflict,
        .policy = job->policy,
        .past = {.attempt = job->attempt, .dead = job->state == JOB_DEAD, .error = job->error}};
}

static int import_job(struct import *import, struct json_value object)
{
    struct queue_push *push = &import->pushes[import->count];
    struct job_json line;
    if (!job_json_read(object, &import->text, &import->meta, &line))
        return import->text.failed ? TARRY_NO_MEMORY : TARRY_BAD_OPTION;
    *push = push_of(&line);
    if (line.batch.waits || line.batch.id.len) {
        struct queue_batch *room = &import->rooms[import->count];
        *room = (struct queue_batch){.topic = line.batch.topic,
                                     .id = line.batch.id,
                                     .waits = line.batch.waits,
                                     .on_dead = line.batch.on_dead,
                                     .members = line.batch.members,
                                     .wait_at_most_ms = line.batch.wait_ms,
                                     .close_within_ms = line.batch.close_ms};
        if (line.batch.waits)
            room->past = line.ended;
        push->batch = room;
    }
    if (!push->id.len)
        return TARRY_BAD_ID;
    if (!push->on_conflict)
        push->on_conflict =
            import->transfer->asked.on_conflict == TARRY_REPLACE ? CONFLICT_REPLACE : CONFLICT_KEEP;
    import->texts[import->count] = import->text_now;
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
    import->transfer->report.line = ++import->line;
    import->text_now = text;
    if (!json_check(text, &object, NULL) || object.kind != JSON_OBJECT || import->is_complete)
        return TARRY_BAD_OPTION;
    members_read(object, &of);
    if (!import->is_head) {
        import->is_head = job_json_read_number(of.head, INT64_MAX, &number) && number == 1;
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
    if (of.paused_until.kind && !job_json_read_number(of.paused_until, INT64_MAX, &number))
        return TARRY_BAD_OPTION;
    return job_json_read_text(of.topic, &import->text, &name)
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
    uint64_t line = import->transfer->report.line;
    if (!code)
        code = import_flush(import);
    if (!code) {
        import->transfer->report.line = line;
        memmove(in->at, in->at + at, in->len - at);
        in->len -= at;
    }
    return code;
}

static struct slice slice_after(struct slice slice, size_t bytes)
{
    return slice_make(slice.at + bytes, slice.len - bytes);
}

/* Imports a line that was set aside. */
static int import_member(struct import *import, struct slice line)
{
    struct json_value object;
    const char *blank = memchr(line.at, ' ', line.len);
    import->line = strtoull(line.at, NULL, 10);
    import->transfer->report.line = import->line;
    import->text_now = slice_after(line, (size_t)(blank - line.at) + 1);
    return json_check(import->text_now, &object, NULL) ? import_job(import, object)
                                                       : TARRY_BAD_OPTION;
}

static int import_members(struct import *import, struct slice lines)
{
    int code = TARRY_OK;
    buffer_clear(&import->text);
    if (!buffer_reserve(&import->text, 2 * lines.len + 1))
        return TARRY_NO_MEMORY;
    while (!code && lines.len) {
        const char *end = memchr(lines.at, '\n', lines.len);
        size_t bytes = (size_t)(end - lines.at);
        code = import_member(import, slice_make(lines.at, bytes));
        lines = slice_after(lines, bytes + 1);
    }
    return code ? code : import_flush(import);
}

/* Imports the members that were set aside, as long as this stores one of them: a waiting job may be a member itself. */
static int import_aside(struct import *import)
{
    int code = TARRY_OK;
    size_t before = SIZE_MAX;
    while (!code && import->aside.len && import->aside.len < before) {
        struct buffer lines = import->aside;
        buffer_init(&import->aside, SIZE_MAX / 4);
        before = lines.len;
        code = import_members(import, buffer_slice(&lines));
        buffer_fini(&lines);
    }
    if (code || !import->aside.len)
        return code;
    import->transfer->report.line = strtoull(import->aside.at, NULL, 10);
    return TARRY_NO_BATCH;
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
        return import_aside(import);
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
    buffer_init(&import.aside, SIZE_MAX / 4);
    buffer_init(&import.meta, JOB_META_BYTES_MAX);
    buffer_init(&import.extension, TOPIC_EXTENSION_BYTES_MAX);
    import.pushes = malloc(TARRY_BATCH_MAX * sizeof *import.pushes);
    import.lines = malloc(TARRY_BATCH_MAX * sizeof *import.lines);
    import.texts = malloc(TARRY_BATCH_MAX * sizeof *import.texts);
    import.rooms = malloc(TARRY_BATCH_MAX * sizeof *import.rooms);
    code = import.pushes && import.lines && import.texts && import.rooms ? import_all(&import)
                                                                         : TARRY_NO_MEMORY;
    int failed = errno;
    free(import.pushes);
    free(import.lines);
    free(import.texts);
    free(import.rooms);
    buffer_fini(&import.aside);
    buffer_fini(&import.in);
    buffer_fini(&import.text);
    buffer_fini(&import.meta);
    buffer_fini(&import.extension);
    errno = failed;
    return transfer_end(&mine, transfer, code);
}
