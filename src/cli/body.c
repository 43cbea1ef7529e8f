#include "cli/body.h"

#include "base/json_read.h"
#include "base/text.h"

enum { SCRATCH_BYTES_MAX = 64 << 20 };

const char *body_guess_type(struct slice body)
{
    struct json_value value;
    if (json_check(body, &value, NULL) && (value.kind == JSON_OBJECT || value.kind == JSON_ARRAY))
        return "application/json";
    return json_utf8_is_valid(body) ? "text/plain; charset=utf-8" : "application/octet-stream";
}

static bool is_json_type(struct slice type)
{
    static const char json[] = "application/json";
    size_t len = sizeof(json) - 1;
    return type.len >= len && memcmp(type.at, json, len) == 0 &&
           (type.len == len || type.at[len] == ';' || type.at[len] == ' ');
}

/* A string member's bytes. The scratch must not move while slices point into it: it is as large as
 * the job's text from the start. */
static bool read_string(struct json_value value, struct buffer *scratch, struct slice *out)
{
    return value.kind == JSON_STRING && json_string_bytes(value.raw, scratch, out);
}

static bool read_base64(struct json_value value, struct buffer *scratch, struct slice *out)
{
    struct slice text;
    if (!read_string(value, scratch, &text))
        return false;
    size_t start = scratch->len;
    if (!text_base64_decode(text, scratch))
        return false;
    *out = slice_make(scratch->at + start, scratch->len - start);
    return true;
}

static bool read_job(struct json_value object, struct buffer *scratch, struct body_job *job)
{
    struct json_cursor cursor = {0};
    struct json_value value, body = {0};
    struct slice key;
    bool ok = true;
    *job = (struct body_job){0};
    while (ok && json_next_member(object, &cursor, &key, &value)) {
        if (json_string_is(key, "topic"))
            ok = read_string(value, scratch, &job->topic);
        else if (json_string_is(key, "id"))
            ok = read_string(value, scratch, &job->id);
        else if (json_string_is(key, "lease"))
            ok = read_string(value, scratch, &job->lease);
        else if (json_string_is(key, "lease_until"))
            ok = read_string(value, scratch, &job->lease_until);
        else if (json_string_is(key, "content_type"))
            ok = read_string(value, scratch, &job->content_type);
        else if (json_string_is(key, "attempt"))
            job->attempt = value.raw;
        else if (json_string_is(key, "body_base64"))
            ok = read_base64(value, scratch, &job->body);
        else if (json_string_is(key, "body"))
            body = value;
    }
    /* JSON is the value itself; other text stands as a string. */
    if (ok && body.kind && (body.kind != JSON_STRING || is_json_type(job->content_type)))
        job->body = body.raw;
    else if (ok && body.kind)
        ok = read_string(body, scratch, &job->body);
    return ok && job->lease.len > 0;
}

static bool find_jobs(struct slice json, struct json_value *jobs)
{
    struct json_cursor cursor = {0};
    struct json_value root, value;
    struct slice key;
    if (!json_check(json, &root, NULL) || root.kind != JSON_OBJECT)
        return false;
    while (json_next_member(root, &cursor, &key, &value))
        if (json_string_is(key, "jobs") && value.kind == JSON_ARRAY) {
            *jobs = value;
            return true;
        }
    return false;
}

bool body_each_job(struct slice json, void (*each)(void *ctx, const struct body_job *job),
                   void *ctx)
{
    struct json_value jobs, item;
    struct json_cursor cursor = {0};
    struct buffer scratch;
    bool ok = find_jobs(json, &jobs);
    buffer_init(&scratch, SCRATCH_BYTES_MAX);
    while (ok && json_next_item(jobs, &cursor, &item)) {
        struct body_job job;
        buffer_clear(&scratch);
        ok = item.kind == JSON_OBJECT && buffer_reserve(&scratch, item.raw.len * 2 + 64) &&
             read_job(item, &scratch, &job);
        if (ok)
            each(ctx, &job);
    }
    buffer_fini(&scratch);
    return ok;
}
