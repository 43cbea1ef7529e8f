#include "targets/event.h"

#include "base/json_read.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "job/json.h"
#include "targets/template.h"

enum { ESCAPED_BYTES = 6 /* per byte, at most */, AROUND_BYTES = 16 * 1024, ATTRIBUTES = 6 };

/* An attribute of the event with its name in the standard. */
struct attribute {
    const char *name;
    struct slice value;
};

/* The attributes of one job; the texts are filled-in templates. */
struct event {
    struct buffer source, type;
    char time[TIMESTAMP_BYTES];
    struct attribute attributes[ATTRIBUTES];
};

static bool event_fill(const char *template, const char *standard, const struct job *job,
                       enum template_escape escape, struct buffer *out)
{
    struct slice text = slice_of(template ? template : standard);
    buffer_init(out, TARGET_EVENT_TEXT_BYTES_MAX);
    return template_fill(text, job, escape, TARGET_EVENT_TEXT_BYTES_MAX, out) && out->len > 0;
}

/* Makes the attributes; event_fini frees them in any case. */
static const char *event_make(struct event *event, const struct target_event_setting *setting,
                              const struct job *job, struct slice id)
{
    bool has_source =
        event_fill(setting->source, TARGET_EVENT_SOURCE, job, TEMPLATE_URL, &event->source);
    bool has_type = event_fill(setting->type, TARGET_EVENT_TYPE, job, TEMPLATE_PLAIN, &event->type);
    timestamp_write(event->time, job->first_due_ms);
    const struct attribute attributes[ATTRIBUTES] = {
        {"specversion", slice_of("1.0")},
        {"id", id},
        {"source", buffer_slice(&event->source)},
        {"type", buffer_slice(&event->type)},
        {"subject", job->id},
        {"time", slice_make(event->time, sizeof event->time)},
    };
    memcpy(event->attributes, attributes, sizeof attributes);
    return !has_source ? "the source of its event is empty, longer than 1024 bytes, or has '..'"
           : !has_type ? "the type of its event is empty or longer than 1024 bytes"
                       : NULL;
}

static void event_fini(struct event *event)
{
    buffer_fini(&event->source);
    buffer_fini(&event->type);
}

const char *target_event_attributes(const struct target_event_setting *setting,
                                    const struct target_event_form *form, const struct job *job,
                                    struct slice id, struct buffer *out)
{
    /* The printable ASCII except the blank, '"' and '%': HTTP binding, 3.1.3.2. */
    static const char plain[] = "!#$&'()*+,/:;<=>?@[\\]^`{|}";
    struct event event;
    const char *fault = event_make(&event, setting, job, id);
    for (size_t i = 0; !fault && i < ATTRIBUTES; i++) {
        buffer_append_text(out, form->prefix);
        buffer_append_text(out, event.attributes[i].name);
        buffer_append_byte(out, '\0');
        if (form->escapes_values)
            text_percent_encode(event.attributes[i].value, plain, out);
        else
            buffer_append_slice(out, event.attributes[i].value);
        buffer_append_byte(out, '\0');
    }
    event_fini(&event);
    return fault;
}

/* Appends the data: a JSON value or a string, or base64 if the bytes are neither. */
static void append_data(struct buffer *out, struct slice type, struct slice body)
{
    struct json_value value;
    bool is_malformed = job_type_is_json(type) && !json_check(body, &value, NULL);
    job_json_write_bytes(out, "data", type, body, is_malformed ? JOB_BODY_EXACT : JOB_BODY_SHOWN);
}

const char *target_event_json(const struct target_event_setting *setting, const struct job *job,
                              struct slice id, struct buffer *out)
{
    struct event event;
    struct slice type =
        job->content_type.len ? job->content_type : slice_of("application/octet-stream");
    const char *fault = event_make(&event, setting, job, id);
    buffer_append_byte(out, '{');
    for (size_t i = 0; !fault && i < ATTRIBUTES; i++)
        json_write_member_text(out, event.attributes[i].name, event.attributes[i].value);
    /* A missing type would mean JSON. */
    json_write_member_text(out, "datacontenttype", type);
    if (job->body.len)
        append_data(out, type, job->body);
    buffer_append_byte(out, '}');
    event_fini(&event);
    return fault;
}

size_t target_event_json_bytes_max(const struct job *job)
{
    return ESCAPED_BYTES * (job->body.len + job->content_type.len) + AROUND_BYTES;
}
