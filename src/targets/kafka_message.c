#include "targets/kafka_message.h"

#include "base/timestamp.h"
#include "targets/template.h"

#include <stdio.h>

enum { HEADERS_EXPECTED = 8 };

static bool topic_is_sound(struct slice topic)
{
    for (size_t i = 0; i < topic.len; i++) {
        char c = topic.at[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '.' && c != '_' && c != '-')
            return false;
    }
    return topic.len > 0 && !slice_is(topic, ".") && !slice_is(topic, "..");
}

static const char *fill_topic(struct kafka_message *out, const struct target_message *message)
{
    const char *text = message->setting->topic;
    struct buffer topic;
    const char *fault = NULL;
    buffer_init(&topic, KAFKA_TOPIC_BYTES_MAX);
    if (!template_fill(slice_of(text && *text ? text : "{topic}"), message->job, TEMPLATE_PLAIN,
                       KAFKA_TOPIC_BYTES_MAX, &topic))
        fault = "kafka: the topic's name is longer than 249 bytes";
    else if (!topic_is_sound(buffer_slice(&topic)))
        fault =
            "kafka: the topic's name is not allowed: only letters, digits, '.', '_' and '-' are";
    else
        memcpy(out->topic, topic.at, topic.len);
    buffer_fini(&topic);
    return fault;
}

const char *kafka_message_fill(struct kafka_message *out, const struct target_message *message)
{
    const char *key = message->setting->key;
    memset(out, 0, sizeof *out);
    buffer_init(&out->key, KAFKA_KEY_BYTES_MAX);
    const char *fault = fill_topic(out, message);
    if (!fault && !template_fill(slice_of(key ? key : "{id}"), message->job, TEMPLATE_PLAIN,
                                 KAFKA_KEY_BYTES_MAX, &out->key))
        fault = "kafka: the key is longer than 1024 bytes";
    return fault;
}

void kafka_message_fini(struct kafka_message *message)
{
    buffer_fini(&message->key);
}

static void add(rd_kafka_headers_t *headers, struct slice name, struct slice value)
{
    (void)rd_kafka_header_add(headers, name.at, (ssize_t)name.len, value.len ? value.at : "",
                              (ssize_t)value.len);
}

static void add_meta(rd_kafka_headers_t *headers, const struct job *job)
{
    struct slice name, value;
    for (size_t at = 0; job_meta_next(job->meta, &at, &name, &value);) {
        if (name.len >= 6 && memcmp(name.at, "tarry-", 6) == 0)
            continue;
        add(headers, slice_is(name, "content-type") ? slice_of("meta-content-type") : name, value);
    }
}

rd_kafka_headers_t *kafka_message_headers(const struct job *job)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(HEADERS_EXPECTED);
    char due[TIMESTAMP_BYTES], attempt[16];
    int len = snprintf(attempt, sizeof attempt, "%u", (unsigned)job->attempt);
    timestamp_write(due, job->due_ms);
    add(headers, slice_of("content-type"),
        job->content_type.len ? job->content_type : slice_of("application/octet-stream"));
    add(headers, slice_of("tarry-topic"), job->topic);
    add(headers, slice_of("tarry-id"), job->id);
    add(headers, slice_of("tarry-attempt"), slice_make(attempt, (size_t)len));
    add(headers, slice_of("tarry-due-at"), slice_make(due, sizeof due));
    add_meta(headers, job);
    return headers;
}
