#include "sqs/settings.h"

#include "base/json_write.h"
#include "base/text.h"
#include "sqs/message.h"

#include <inttypes.h>
#include <stdio.h>

enum { SECOND_MS = 1000, VISIBILITY_MS_MIN = POLICY_LEASE_MS_MIN };

/* ---- reading ---- */

static int64_t number_of(struct json_value object, const char *name, int64_t standard)
{
    struct json_value value = sqs_member(object, name);
    int64_t number;
    return value.kind == JSON_NUMBER && json_number_i64(value.raw, &number) ? number : standard;
}

/* Returns the text of a string. Texts written by tarry contain no escapes. */
static struct slice plain_text(struct json_value value)
{
    return value.kind == JSON_STRING ? slice_make(value.raw.at + 1, value.raw.len - 2)
                                     : (struct slice){0};
}

void sqs_queue_read(const struct topic_settings *settings, struct sqs_queue *out)
{
    struct json_value extension = {0}, own;
    const struct policy *policy = &settings->policy;
    if (settings->extension.len)
        (void)json_check(settings->extension, &extension, NULL);
    own = sqs_member(extension, "sqs");
    int64_t lease_ms = policy->lease_ms ? policy->lease_ms : POLICY_LEASE_MS;
    *out = (struct sqs_queue){
        .visibility_s = lease_ms / SECOND_MS,
        .retention_s = policy->ttl_ms / SECOND_MS,
        .delay_s = number_of(own, "delay", 0),
        .wait_s = number_of(own, "wait", 0),
        .message_bytes = number_of(own, "message_bytes", SQS_MESSAGE_BYTES),
        .created_s = number_of(own, "created", 0),
        .modified_s = number_of(own, "modified", 0),
        .is_fifo = sqs_member(own, "fifo").kind == JSON_TRUE,
        .hashes_bodies = sqs_member(own, "hashes_bodies").kind == JSON_TRUE,
        .once_by_group = sqs_member(own, "once_by_group").kind == JSON_TRUE,
        .is_limited_by_group = sqs_member(own, "limit_by_group").kind == JSON_TRUE,
        .allow = sqs_member(own, "allow"),
        .tags = sqs_member(own, "tags"),
        .deliver = sqs_member(extension, "deliver"),
        .dead_rules = sqs_member(extension, "dead_letter"),
    };
    out->dead_letter = plain_text(sqs_member(out->dead_rules, "to"));
    if (!job_topic_is_valid(out->dead_letter)) /* the destination is a URL */
        out->dead_letter = (struct slice){0};
    if (out->dead_letter.len && policy->max_attempts != POLICY_ATTEMPTS_NONE)
        out->receives_max = policy->max_attempts ? policy->max_attempts : POLICY_ATTEMPTS;
}

void sqs_numbers_read(const struct topic_settings *settings, struct sqs_numbers *out)
{
    struct sqs_queue queue;
    sqs_queue_read(settings, &queue);
    *out = (struct sqs_numbers){.visibility_s = queue.visibility_s,
                                .delay_s = queue.delay_s,
                                .wait_s = queue.wait_s,
                                .message_bytes = queue.message_bytes,
                                .is_fifo = queue.is_fifo,
                                .hashes_bodies = queue.hashes_bodies,
                                .once_by_group = queue.once_by_group};
}

bool sqs_queue_equals(const struct sqs_queue *a, const struct sqs_queue *b)
{
    return a->visibility_s == b->visibility_s && a->retention_s == b->retention_s &&
           a->delay_s == b->delay_s && a->wait_s == b->wait_s &&
           a->message_bytes == b->message_bytes && a->receives_max == b->receives_max &&
           a->is_fifo == b->is_fifo && a->hashes_bodies == b->hashes_bodies &&
           a->once_by_group == b->once_by_group &&
           a->is_limited_by_group == b->is_limited_by_group &&
           slice_equals(a->dead_letter, b->dead_letter) && slice_equals(a->allow.raw, b->allow.raw);
}

/* ---- changing ---- */

static bool refuse_value(struct sqs_error *error, const char *name)
{
    return sqs_error_set(error, SQS_BAD_ATTRIBUTE_VALUE, "Invalid value for the parameter %s.",
                         name);
}

struct attribute_row {
    const char *name;
    size_t offset; /* of an int64_t in struct sqs_queue */
    int64_t least, most;
};

#define FIELD(NAME) offsetof(struct sqs_queue, NAME)

static const struct attribute_row numbers[] = {
    {"VisibilityTimeout", FIELD(visibility_s), 0, SQS_VISIBILITY_S_MAX},
    {"MessageRetentionPeriod", FIELD(retention_s), 60, 1209600},
    {"DelaySeconds", FIELD(delay_s), 0, POLICY_DELAY_MS_MAX / SECOND_MS},
    {"ReceiveMessageWaitTimeSeconds", FIELD(wait_s), 0, SQS_WAIT_S_MAX},
    {"MaximumMessageSize", FIELD(message_bytes), 1024, SQS_MESSAGE_BYTES},
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static bool change_number(struct sqs_queue *queue, const struct attribute_row *row,
                          struct json_value value, struct sqs_error *error)
{
    struct sqs_error ignored;
    int64_t number;
    if (!sqs_number(value, row->name, row->least, row->most, 0, &number, &ignored))
        return refuse_value(error, row->name);
    *(int64_t *)(void *)((char *)queue + row->offset) = number;
    return true;
}

/* Reads {"deadLetterTargetArn":"arn:…:NAME","maxReceiveCount":"5"}, as a string; "" removes the
 * policy. */
static bool change_redrive(struct sqs_queue *queue, struct slice text, struct sqs_error *error)
{
    struct json_value policy;
    struct sqs_error ignored;
    if (text.len == 0) {
        queue->receives_max = 0;
        queue->dead_letter = (struct slice){0};
        return true;
    }
    if (!json_check(text, &policy, NULL) || policy.kind != JSON_OBJECT)
        return refuse_value(error, "RedrivePolicy");
    struct slice arn = plain_text(sqs_member(policy, "deadLetterTargetArn"));
    const char *colon = arn.len ? memrchr(arn.at, ':', arn.len) : NULL;
    struct json_value count = sqs_member(policy, "maxReceiveCount");
    struct slice name =
        colon ? slice_make(colon + 1, arn.len - (size_t)(colon + 1 - arn.at)) : (struct slice){0};
    if (count.kind == JSON_NONE ||
        !sqs_number(count, "maxReceiveCount", 1, 1000, 0, &queue->receives_max, &ignored))
        return refuse_value(error, "maxReceiveCount");
    if (!job_topic_is_valid(name) || job_topic_is_own(name))
        return refuse_value(error, "deadLetterTargetArn");
    queue->dead_letter = name;
    return true;
}

static const char *const refused[] = {"Policy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds",
                                      NULL};

/* The attributes that only FIFO queues have, each with two values. */
static const struct fifo_row {
    const char *name, *is_false, *is_true;
    size_t offset; /* of a bool in struct sqs_queue */
} fifo_rows[] = {
    {"ContentBasedDeduplication", "false", "true", FIELD(hashes_bodies)},
    {"DeduplicationScope", "queue", "messageGroup", FIELD(once_by_group)},
    {"FifoThroughputLimit", "perQueue", "perMessageGroupId", FIELD(is_limited_by_group)},
};
enum { FIFO_ROWS = sizeof fifo_rows / sizeof fifo_rows[0] };

/* Changes an attribute of FIFO queues. *is_known: it is one of those. */
static bool change_fifo(struct sqs_queue *queue, struct slice key, struct slice text,
                        bool *is_known, struct sqs_error *error)
{
    *is_known = queue->is_fifo;
    if (queue->is_fifo && json_string_is(key, "FifoQueue"))
        return slice_is(text, "true") || refuse_value(error, "FifoQueue");
    for (size_t i = 0; queue->is_fifo && i < FIFO_ROWS; i++) {
        const struct fifo_row *row = &fifo_rows[i];
        if (!json_string_is(key, row->name))
            continue;
        bool is_true = slice_is(text, row->is_true);
        *(bool *)(void *)((char *)queue + row->offset) = is_true;
        return is_true || slice_is(text, row->is_false) || refuse_value(error, row->name);
    }
    *is_known = false;
    return true;
}

static bool is_refused(struct slice key)
{
    for (size_t i = 0; refused[i]; i++)
        if (json_string_is(key, refused[i]))
            return true;
    return false;
}

/* Removes trailing blanks from a name and keeps the quotes. */
static struct slice without_blanks(struct slice key)
{
    static _Thread_local char text[64];
    size_t len = key.len - 1;
    while (len > 1 && key.at[len - 1] == ' ')
        len--;
    if (len == key.len - 1 || len + 1 > sizeof text)
        return key;
    memcpy(text, key.at, len);
    text[len] = '"';
    return slice_make(text, len + 1);
}

static bool change_one(struct sqs_queue *queue, struct slice key, struct json_value value,
                       struct buffer *scratch, struct sqs_error *error)
{
    struct slice text = {0};
    key = without_blanks(key);
    for (size_t i = 0; i < NUMBERS; i++)
        if (json_string_is(key, numbers[i].name))
            return change_number(queue, &numbers[i], value, error);
    if (value.kind != JSON_STRING || !json_string_bytes(value.raw, scratch, &text))
        return refuse_value(error, "Attributes");
    if (json_string_is(key, "RedrivePolicy"))
        return change_redrive(queue, text, error);
    if (json_string_is(key, "RedriveAllowPolicy")) {
        queue->allow = text.len ? value : (struct json_value){0};
        return true;
    }
    if (json_string_is(key, "SqsManagedSseEnabled"))
        return slice_is(text, "false") || slice_is(text, "true") ||
               refuse_value(error, "SqsManagedSseEnabled");
    bool is_known, is_good = change_fifo(queue, key, text, &is_known, error);
    if (is_known)
        return is_good;
    if (is_refused(key) && (text.len == 0 || slice_is(text, "false")))
        return true;
    if (is_refused(key))
        return sqs_error_set(
            error, SQS_BAD_ATTRIBUTE_VALUE,
            "%.*s is not supported: this server has no policies and no keys of KMS.",
            (int)(key.len - 2), key.at + 1);
    return sqs_error_set(error, SQS_BAD_ATTRIBUTE_NAME, "Unknown Attribute %.*s.",
                         (int)(key.len < 80 ? key.len - 2 : 78), key.at + 1);
}

bool sqs_wants_fifo(struct json_value attributes)
{
    struct json_value value = sqs_member(attributes, "FifoQueue");
    return value.kind == JSON_STRING && json_string_is(value.raw, "true");
}

bool sqs_queue_change(struct sqs_queue *queue, struct json_value attributes, struct buffer *scratch,
                      struct sqs_error *error)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (attributes.kind == JSON_OBJECT && json_next_member(attributes, &cursor, &key, &value))
        if (!change_one(queue, key, value, scratch, error))
            return false;
    return !queue->is_limited_by_group || queue->once_by_group ||
           sqs_error_set(error, SQS_BAD_ATTRIBUTE_VALUE,
                         "FifoThroughputLimit can be set to perMessageGroupId only when "
                         "DeduplicationScope is set to messageGroup.");
}

/* ---- writing ---- */

static void write_members(struct buffer *out, struct json_value object, const char *except)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value)) {
        if (json_string_is(key, except))
            continue;
        buffer_append_byte(out, ',');
        buffer_append_slice(out, key);
        buffer_append_byte(out, ':');
        buffer_append_slice(out, value.raw);
    }
}

static void write_dead_letter(const struct sqs_queue *queue, struct buffer *out)
{
    struct buffer members;
    buffer_init(&members, TOPIC_EXTENSION_BYTES_MAX);
    if (queue->dead_letter.len) {
        buffer_append_text(&members, ",\"to\":");
        json_write_string(&members, queue->dead_letter);
    }
    bool goes_to_url = !job_topic_is_valid(plain_text(sqs_member(queue->dead_rules, "to")));
    write_members(&members, queue->dead_rules, goes_to_url && !queue->dead_letter.len ? "" : "to");
    if (members.len) {
        json_write_member(out, "dead_letter");
        buffer_append_byte(out, '{');
        buffer_append(out, members.at + 1, members.len - 1);
        buffer_append_byte(out, '}');
    }
    buffer_fini(&members);
}

static void write_own(const struct sqs_queue *queue, struct buffer *out)
{
    buffer_append_format(
        out,
        "\"sqs\":{\"delay\":%" PRId64 ",\"wait\":%" PRId64 ",\"message_bytes\":%" PRId64
        ",\"created\":%" PRId64 ",\"modified\":%" PRId64,
        queue->delay_s, queue->wait_s, queue->message_bytes, queue->created_s, queue->modified_s);
    buffer_append_text(out, queue->is_fifo ? ",\"fifo\":true" : "");
    buffer_append_text(out, queue->hashes_bodies ? ",\"hashes_bodies\":true" : "");
    buffer_append_text(out, queue->once_by_group ? ",\"once_by_group\":true" : "");
    buffer_append_text(out, queue->is_limited_by_group ? ",\"limit_by_group\":true" : "");
    if (queue->allow.kind) {
        buffer_append_text(out, ",\"allow\":");
        buffer_append_slice(out, queue->allow.raw);
    }
    if (queue->tags.kind) {
        buffer_append_text(out, ",\"tags\":");
        buffer_append_slice(out, queue->tags.raw);
    }
    buffer_append_byte(out, '}');
}

static void write_policy(const struct sqs_queue *queue, bool is_new, struct policy *out,
                         const struct sqs_queue *held)
{
    int64_t lease_ms = queue->visibility_s * SECOND_MS;
    if (is_new || queue->visibility_s != held->visibility_s)
        out->lease_ms = lease_ms > VISIBILITY_MS_MIN ? lease_ms : VISIBILITY_MS_MIN;
    if (is_new || queue->retention_s != held->retention_s)
        out->ttl_ms = queue->retention_s * SECOND_MS;
    if (is_new || queue->receives_max != held->receives_max)
        out->max_attempts =
            queue->receives_max ? (uint32_t)queue->receives_max : POLICY_ATTEMPTS_NONE;
    if (is_new)
        out->backoff = (struct backoff){.kind = BACKOFF_NONE};
}

bool sqs_queue_write(const struct sqs_queue *queue, bool is_new, struct topic_settings *out,
                     struct buffer *text, struct sqs_error *error)
{
    struct sqs_queue held;
    sqs_queue_read(out, &held);
    write_policy(queue, is_new, &out->policy, &held);
    if (is_new && queue->is_fifo)
        out->flow.group_order = FLOW_STRICT;
    buffer_append_byte(text, '{');
    if (queue->deliver.kind) {
        buffer_append_text(text, "\"deliver\":");
        buffer_append_slice(text, queue->deliver.raw);
    }
    write_dead_letter(queue, text);
    buffer_append_text(text, text->len > 1 ? "," : "");
    write_own(queue, text);
    buffer_append_byte(text, '}');
    out->extension = buffer_slice(text);
    return (!text->failed && text->len <= TOPIC_EXTENSION_BYTES_MAX) ||
           sqs_error_set(error, SQS_BAD_ATTRIBUTE_VALUE,
                         "Attributes and tags have at most %d bytes together on this server.",
                         TOPIC_EXTENSION_BYTES_MAX);
}

/* ---- reporting ---- */

void sqs_write_arn(const struct sqs_options *options, struct slice name, struct buffer *out)
{
    buffer_append_format(out, "arn:aws:sqs:%s:%s:%.*s", options->region, options->account,
                         (int)name.len, name.at);
}

static const char *const shown[] = {"ApproximateNumberOfMessages",
                                    "ApproximateNumberOfMessagesNotVisible",
                                    "ApproximateNumberOfMessagesDelayed",
                                    "CreatedTimestamp",
                                    "LastModifiedTimestamp",
                                    "VisibilityTimeout",
                                    "MessageRetentionPeriod",
                                    "DelaySeconds",
                                    "ReceiveMessageWaitTimeSeconds",
                                    "MaximumMessageSize",
                                    "SqsManagedSseEnabled",
                                    "QueueArn",
                                    "RedrivePolicy",
                                    "RedriveAllowPolicy",
                                    "FifoQueue",
                                    "ContentBasedDeduplication",
                                    "DeduplicationScope",
                                    "FifoThroughputLimit",
                                    NULL};

bool sqs_attribute_name_is_known(struct slice name)
{
    for (size_t i = 0; shown[i]; i++)
        if (slice_is(name, shown[i]))
            return true;
    for (size_t i = 0; refused[i]; i++)
        if (slice_is(name, refused[i]))
            return true;
    return slice_is(name, "All");
}

struct show {
    struct buffer *out;
    struct json_value names;
};

/* Returns true if the attribute is selected; the caller then writes its value as a JSON string. */
static bool show_next(const struct show *show, const char *name)
{
    if (!sqs_names_have(show->names, slice_of(name)))
        return false;
    json_write_member(show->out, name);
    return true;
}

static void show_number(const struct show *show, const char *name, uint64_t number)
{
    if (show_next(show, name))
        buffer_append_format(show->out, "\"%" PRIu64 "\"", number);
}

static void show_redrive(const struct sqs_request *request, const struct sqs_queue *queue,
                         const struct show *show)
{
    struct buffer text;
    buffer_init(&text, 1024);
    if (queue->receives_max && show_next(show, "RedrivePolicy")) {
        buffer_append_text(&text, "{\"deadLetterTargetArn\":\"");
        sqs_write_arn(request->options, queue->dead_letter, &text);
        buffer_append_format(&text, "\",\"maxReceiveCount\":%" PRId64 "}", queue->receives_max);
        json_write_string(show->out, buffer_slice(&text));
    }
    buffer_fini(&text);
}

static void show_fifo(const struct show *show, const struct sqs_queue *queue)
{
    if (show_next(show, "FifoQueue"))
        buffer_append_text(show->out, "\"true\"");
    for (size_t i = 0; i < FIFO_ROWS; i++) {
        const struct fifo_row *row = &fifo_rows[i];
        bool is_true = *(const bool *)(const void *)((const char *)queue + row->offset);
        if (show_next(show, row->name))
            buffer_append_format(show->out, "\"%s\"", is_true ? row->is_true : row->is_false);
    }
}

void sqs_queue_show(const struct sqs_request *request, const struct queue_topic *topic,
                    struct json_value names, struct buffer *out)
{
    const struct show show = {out, names};
    const struct queue_counts *counts = &topic->counts;
    struct sqs_queue queue;
    sqs_queue_read(&topic->settings, &queue);
    buffer_append_byte(out, '{');
    show_number(&show, shown[0], counts->ready);
    show_number(&show, shown[1], counts->leased);
    show_number(&show, shown[2], counts->delayed + counts->retrying);
    show_number(&show, shown[3], (uint64_t)queue.created_s);
    show_number(&show, shown[4], (uint64_t)queue.modified_s);
    show_number(&show, shown[5], (uint64_t)queue.visibility_s);
    show_number(&show, shown[6], (uint64_t)queue.retention_s);
    show_number(&show, shown[7], (uint64_t)queue.delay_s);
    show_number(&show, shown[8], (uint64_t)queue.wait_s);
    show_number(&show, shown[9], (uint64_t)queue.message_bytes);
    if (show_next(&show, shown[10]))
        buffer_append_text(out, "\"false\"");
    if (show_next(&show, shown[11])) {
        buffer_append_byte(out, '"');
        sqs_write_arn(request->options, topic->name, out);
        buffer_append_byte(out, '"');
    }
    show_redrive(request, &queue, &show);
    if (queue.allow.kind && show_next(&show, shown[13]))
        buffer_append_slice(out, queue.allow.raw);
    if (queue.is_fifo)
        show_fifo(&show, &queue);
    buffer_append_byte(out, '}');
}
