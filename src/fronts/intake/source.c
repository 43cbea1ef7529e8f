#include "intake/source.h"

#include "base/buffer.h"
#include "base/error.h"
#include "base/text.h"
#include "base/url.h"
#include "intake/intake.h"
#include "job/job.h"

bool intake_source_fail(char *error, const char *what, struct slice subject, const char *advice)
{
    return error_text(error, INTAKE_ERROR_BYTES, "%s '%.*s', %s", what, ERROR_SHOWN(subject, 80),
                      advice);
}

bool intake_source_copy(struct slice value, char *out, size_t out_bytes)
{
    if (value.len >= out_bytes || (value.len && memchr(value.at, 0, value.len)))
        return false;
    if (value.len)
        memcpy(out, value.at, value.len);
    out[value.len] = '\0';
    return true;
}

bool intake_source_topic(struct slice name, struct slice value, char *out, char *error)
{
    return (job_topic_is_valid(value) && !job_topic_is_own(value) &&
            intake_source_copy(value, out, JOB_TOPIC_BYTES_MAX + 1)) ||
           intake_source_fail(error, "malformed parameter", name, "give the name of a topic");
}

bool intake_source_read(struct slice query,
                        bool (*set)(void *ctx, struct slice name, struct slice value, char *error),
                        void *ctx, char *error)
{
    struct slice name, given;
    bool has_value, ok = true;
    while (ok && url_next_pair(&query, &name, &given, &has_value)) {
        struct buffer value;
        if (!has_value)
            return intake_source_fail(error, "malformed parameter", name, "give NAME=VALUE");
        buffer_init(&value, 1024);
        ok = text_percent_decode(given, false, &value)
                 ? set(ctx, name, buffer_slice(&value), error)
                 : intake_source_fail(error, "malformed parameter", name,
                                      "write it percent-encoded");
        buffer_fini(&value);
    }
    return ok;
}
