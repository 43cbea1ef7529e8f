#include "targets/rocketmq/message.h"

#include "base/text.h"
#include "base/timestamp.h"
#include "targets/meta.h"
#include "targets/template.h"

#include <stdio.h>

enum {
    FIELD_BYTES_MAX = 1024,
    /* The largest frame that a broker accepts by default, less the data around a body. A larger one
     * would end the connection for all messages. */
    BODY_BYTES_MAX = 16 * 1024 * 1024 - 256 * 1024
};

/* ---- topic ---- */

/* Returns true for the characters in names of namespaces, retry topics and dead-letter topics. */
static bool is_sign(char c)
{
    return c == '%' || c == '|';
}

static size_t count_signs(struct slice text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += is_sign(text.at[i]);
    return count;
}

const char *rocketmq_topic_fault(struct slice name)
{
    bool is_sound =
        name.len > 0 && name.len <= ROCKETMQ_TOPIC_BYTES_MAX && text_is_word(name, "_-%|");
    return is_sound ? NULL : "a RocketMQ topic's name is 1 to 127 letters, digits, '_' and '-'";
}

static const char *fill_topic(const char *text, const struct job *job, char *out)
{
    struct buffer name;
    buffer_init(&name, ROCKETMQ_TOPIC_BYTES_MAX);
    /* without a text if it is too long */
    (void)template_fill(slice_of(text), job, TEMPLATE_PLAIN, ROCKETMQ_TOPIC_BYTES_MAX, &name);
    const char *fault = rocketmq_topic_fault(buffer_slice(&name));
    if (!fault && count_signs(buffer_slice(&name)) > count_signs(slice_of(text)))
        fault = "the values in the RocketMQ topic contain '%' or '|'";
    if (!fault)
        (void)snprintf(out, ROCKETMQ_TOPIC_BYTES_MAX + 1, "%.*s", (int)name.len, name.at);
    buffer_fini(&name);
    return fault;
}

/* ---- properties ---- */

/* Appends a property. Metas, IDs and templates are UTF-8 without control bytes (job.h), so values
 * never end early. */
static void emit_property(struct buffer *out, struct slice name, struct slice value)
{
    buffer_append_slice(out, name);
    buffer_append_byte(out, 1);
    buffer_append_slice(out, value);
    buffer_append_byte(out, 2);
}

static void emit_named(struct buffer *out, const char *name, struct slice value)
{
    emit_property(out, slice_of(name), value);
}

/* Appends the metas. RocketMQ's own properties are in capital letters and metas are not, so they
 * cannot collide. */
static void emit_meta(struct buffer *out, const struct job *job)
{
    struct slice name, value;
    for (size_t at = 0; target_meta_next(job->meta, &at, &name, &value);)
        emit_property(out, slice_is(name, "content-type") ? slice_of("meta-content-type") : name,
                      value);
}

static void emit_properties(struct rocketmq_message *message, const struct job *job)
{
    struct buffer *out = &message->properties;
    char due[TIMESTAMP_BYTES], attempt[16];
    int len = snprintf(attempt, sizeof attempt, "%u", (unsigned)job->attempt);
    timestamp_write(due, job->due_ms);
    if (message->keys.len)
        emit_named(out, "KEYS", buffer_slice(&message->keys));
    if (message->tags.len)
        emit_named(out, "TAGS", buffer_slice(&message->tags));
    emit_named(out, "WAIT", slice_of("true"));
    emit_named(out, "content-type",
               job->content_type.len ? job->content_type : slice_of("application/octet-stream"));
    emit_named(out, "tarry-topic", job->topic);
    emit_named(out, "tarry-id", job->id);
    emit_named(out, "tarry-attempt", slice_make(attempt, (size_t)len));
    emit_named(out, "tarry-due-at", slice_make(due, sizeof due));
    emit_meta(out, job);
}

/* ---- the whole message ---- */

static bool fill_field(const char *text, const struct job *job, struct buffer *out)
{
    return !text || !*text ||
           template_fill(slice_of(text), job, TEMPLATE_PLAIN, FIELD_BYTES_MAX, out);
}

const char *rocketmq_message_fill(struct rocketmq_message *out, const struct target_message *from)
{
    const struct target_setting *setting = from->setting;
    const struct job *job = from->job;
    const char *topic = setting->topic && *setting->topic ? setting->topic : TARGET_STANDARD_topic;
    buffer_init(&out->tags, FIELD_BYTES_MAX);
    buffer_init(&out->keys, FIELD_BYTES_MAX);
    buffer_init(&out->properties, ROCKETMQ_PROPERTIES_BYTES_MAX);
    const char *fault = fill_topic(topic, job, out->topic);
    if (fault)
        return fault;
    if (!fill_field(setting->tags, job, &out->tags) ||
        !fill_field(setting->keys ? setting->keys : TARGET_STANDARD_keys, job, &out->keys))
        return "its tags or keys are longer than 1024 bytes";
    if (job->body.len == 0)
        return "RocketMQ accepts no message without a body";
    if (job->body.len > BODY_BYTES_MAX)
        return "the body is too long for a RocketMQ frame, which has at most 16 MiB";
    emit_properties(out, job);
    return out->properties.failed ? "its properties have more than 32767 bytes" : NULL;
}

void rocketmq_message_fini(struct rocketmq_message *message)
{
    buffer_fini(&message->tags);
    buffer_fini(&message->keys);
    buffer_fini(&message->properties);
}
