/* A line of an export: a job that is read and written is read again as the same job, and a kept job
 * becomes a line that is read. */
#include "claim.h"

#include "base/json_read.h"
#include "job/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { ROOM = 1 << 20 };

struct reading {
    struct buffer line, text, meta;
    struct job_json out;
};

static bool read_line(struct reading *reading, struct slice line)
{
    struct json_value value;
    buffer_init(&reading->line, ROOM);
    buffer_init(&reading->text, 2 * ROOM);
    buffer_init(&reading->meta, JOB_META_BYTES_MAX);
    buffer_append_slice(&reading->line, line);
    CLAIM("there is room", buffer_reserve(&reading->text, 2 * line.len + 1));
    const char *at = reading->text.at;
    bool is_good = json_check(buffer_slice(&reading->line), &value, NULL) &&
                   value.kind == JSON_OBJECT &&
                   job_json_read(value, &reading->text, &reading->meta, &reading->out);
    CLAIM("the text is never moved", reading->text.at == at);
    return is_good;
}

static void reading_fini(struct reading *reading)
{
    buffer_fini(&reading->line);
    buffer_fini(&reading->text);
    buffer_fini(&reading->meta);
}

static bool is_same(const struct job *a, const struct job *b)
{
    return slice_equals(a->topic, b->topic) && slice_equals(a->id, b->id) &&
           slice_equals(a->content_type, b->content_type) && slice_equals(a->meta, b->meta) &&
           slice_equals(a->body, b->body) && slice_equals(a->error, b->error) &&
           a->state == b->state && a->priority == b->priority && a->attempt == b->attempt &&
           a->policy.lease_ms == b->policy.lease_ms && a->policy.ttl_ms == b->policy.ttl_ms &&
           a->policy.max_attempts == b->policy.max_attempts &&
           policy_backoff_equal(&a->policy.backoff, &b->policy.backoff);
}

static void write_again(const struct job *job)
{
    struct reading again;
    struct buffer line;
    buffer_init(&line, 8 * ROOM);
    job_json_write(&line, job, (struct slice){0}, JOB_FORM_EXPORTED, JOB_BODY_EXACT);
    CLAIM("a line fits", !line.failed);
    if (line.len <= ROOM) {
        CLAIM("a written line is read", read_line(&again, buffer_slice(&line)));
        CLAIM("it is the same job", is_same(job, &again.out.job));
        reading_fini(&again);
    }
    buffer_fini(&line);
}

/* The shown form is JSON, and its export is a line. */
static void show(const struct job *job)
{
    struct reading again;
    struct buffer kept, line;
    struct json_value value;
    buffer_init(&kept, 8 * ROOM);
    buffer_init(&line, 8 * ROOM);
    job_json_write(&kept, job, (struct slice){0}, JOB_FORM_KEPT, JOB_BODY_NONE);
    CLAIM("a kept job is JSON", json_check(buffer_slice(&kept), &value, NULL));
    CLAIM("a kept job is exported", job_json_export(&line, value));
    buffer_append_byte(&line, '}');
    if (line.len <= ROOM) {
        CLAIM("an exported job is read", read_line(&again, buffer_slice(&line)));
        reading_fini(&again);
    }
    buffer_fini(&kept);
    buffer_fini(&line);
}

/* Returns whether an import would reject the job: a callback is not empty, and is not written if it is. */
static bool has_empty_callback(const struct job *job)
{
    struct slice name, value;
    size_t at = 0;
    while (job_meta_next(job->meta, &at, &name, &value))
        if (slice_is(name, JOB_META_CALLBACK) && !value.len)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct reading reading;
    if (len > ROOM)
        return 0;
    if (read_line(&reading, slice_make(bytes, len)) && reading.out.job.due_ms <= JOB_AT_MS_MAX) {
        struct job shown = reading.out.job;
        shown.state = shown.state ? shown.state : JOB_READY;
        if (!has_empty_callback(&reading.out.job))
            write_again(&reading.out.job);
        show(&shown);
    }
    reading_fini(&reading);
    return 0;
}
