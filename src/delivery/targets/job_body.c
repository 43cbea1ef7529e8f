#include "targets/job_body.h"

#include "base/json_write.h"
#include "job/json.h"
#include "targets/meta.h"
#include "targets/target.h"

enum { ESCAPED_BYTES = 6 /* per byte, at most */, AROUND_BYTES = 16 * 1024 };

static void write_meta(struct buffer *out, const struct job *job)
{
    struct slice name, value;
    bool is_first = true;
    buffer_append_text(out, ",\"meta\":{");
    for (size_t at = 0; target_meta_next(job->meta, &at, &name, &value); is_first = false) {
        buffer_append_text(out, is_first ? "" : ",");
        json_write_string(out, name);
        buffer_append_byte(out, ':');
        json_write_string(out, value);
    }
    buffer_append_byte(out, '}');
}

void target_job_body_write(struct buffer *out, const struct job *job)
{
    buffer_append_text(out, "{\"topic\":");
    json_write_string(out, job->topic);
    buffer_append_text(out, ",\"id\":");
    json_write_string(out, job->id);
    buffer_append_format(out, ",\"attempt\":%u,\"due_at\":", (unsigned)job->attempt);
    json_write_time(out, job->due_ms);
    buffer_append_format(out, ",\"priority\":%u", (unsigned)job->priority);
    job_json_content_type(out, job->content_type);
    write_meta(out, job);
    job_json_body(out, job);
    buffer_append_byte(out, '}');
}

size_t target_job_body_bytes_max(const struct job *job)
{
    return ESCAPED_BYTES * (job->body.len + job->meta.len) + AROUND_BYTES;
}
