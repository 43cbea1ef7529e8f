#include "job/json.h"

#include "base/json_read.h"
#include "base/json_write.h"

#include <strings.h>

/* Appends a literal, whose length is a constant. */
#define PUT(OUT, TEXT) buffer_append((OUT), (TEXT), sizeof(TEXT) - 1)

struct slice job_type_plain(struct slice type)
{
    const char *semicolon = type.len ? memchr(type.at, ';', type.len) : NULL;
    if (semicolon)
        type.len = (size_t)(semicolon - type.at);
    while (type.len && (type.at[type.len - 1] == ' ' || type.at[type.len - 1] == '\t'))
        type.len--;
    return type;
}

static bool equals_folded(struct slice text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

bool job_type_is_json(struct slice type)
{
    static const size_t suffix = sizeof "+json" - 1;
    type = job_type_plain(type);
    if (equals_folded(type, "application/json"))
        return true;
    return type.len > suffix &&
           equals_folded(slice_make(type.at + type.len - suffix, suffix), "+json");
}

void job_json_body(struct buffer *out, const struct job *job)
{
    struct json_value value;
    if (job_type_is_json(job->content_type) && json_check(job->body, &value, NULL)) {
        PUT(out, ",\"body\":");
        buffer_append_slice(out, value.raw);
    } else if (json_utf8_is_valid(job->body)) {
        PUT(out, ",\"body\":");
        json_write_string(out, job->body);
    } else {
        PUT(out, ",\"body_base64\":");
        json_write_base64(out, job->body);
    }
}

void job_json_content_type(struct buffer *out, struct slice type)
{
    char text[JOB_CONTENT_TYPE_BYTES_MAX];
    size_t len = type.len < sizeof text ? type.len : sizeof text;
    for (size_t i = 0; i < len; i++)
        text[i] = type.at[i] < ' ' || type.at[i] > '~' ? '?' : type.at[i];
    PUT(out, ",\"content_type\":");
    json_write_string(out, len ? slice_make(text, len) : slice_of("application/octet-stream"));
}
