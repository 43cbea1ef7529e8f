/*
 * aws_sqs: queues of Amazon SQS, and of servers with its JSON protocol. A call is
 * SendMessageBatch.
 */
#include "base/json_read.h"
#include "base/json_write.h"
#include "targets/aws/service.h"
#include "targets/meta.h"

#include <stdio.h>

enum { ANSWER_TEXT_BYTES = 16 * 1024 };

static struct slice sqs_queue(struct slice origin, struct slice path, struct buffer *scratch)
{
    buffer_append_slice(scratch, origin);
    buffer_append_slice(scratch, path);
    return buffer_slice(scratch);
}

static void sqs_begin(struct buffer *out, struct slice queue)
{
    buffer_append_byte(out, '{');
    json_write_member_text(out, "QueueUrl", queue);
    json_write_member(out, "Entries");
    buffer_append_byte(out, '[');
}

static void sqs_append(struct buffer *out, const struct aws_entry *entry)
{
    buffer_append_format(out, "%s{\"Id\":\"%zu\"", entry->index ? "," : "", entry->index);
    json_write_member_text(out, "MessageBody", entry->body);
    json_write_member(out, "MessageAttributes");
    buffer_append_byte(out, '{');
    for (size_t i = 0; i < entry->attribute_count; i++) {
        if (i > 0)
            buffer_append_byte(out, ',');
        json_write_string(out, entry->attributes[i].name);
        buffer_append_text(out, ":{\"DataType\":\"String\",\"StringValue\":");
        json_write_string(out, entry->attributes[i].value);
        buffer_append_byte(out, '}');
    }
    buffer_append_byte(out, '}');
    if (entry->group.len)
        json_write_member_text(out, "MessageGroupId", entry->group);
    if (entry->repeat.len)
        json_write_member_text(out, "MessageDeduplicationId", entry->repeat);
    buffer_append_byte(out, '}');
}

static void sqs_end(struct buffer *out)
{
    buffer_append_text(out, "]}");
}

/* ---- answers ---- */

/* Copies a member that is a string, as it is shown to users. */
static void copy_text(struct json_value object, const char *name, char *out, size_t bytes)
{
    struct json_value value = json_member(object, name);
    struct buffer scratch;
    struct slice text = {0};
    buffer_init(&scratch, ANSWER_TEXT_BYTES);
    if (value.kind != JSON_STRING || !json_string_bytes(value.raw, &scratch, &text))
        text = (struct slice){0};
    target_remark_write(text, out, bytes);
    buffer_fini(&scratch);
}

/* Finds the entry of a list with this ID. */
static bool find_entry(struct json_value list, const char *id, struct json_value *out)
{
    struct json_cursor cursor = {0};
    if (list.kind != JSON_ARRAY)
        return false;
    while (json_next_item(list, &cursor, out)) {
        struct json_value own = json_member(*out, "Id");
        if (own.kind == JSON_STRING && json_string_is(own.raw, id))
            return true;
    }
    return false;
}

static bool sqs_read(struct slice body, size_t index, struct aws_answer *out)
{
    struct json_value object, entry;
    char id[24];
    (void)snprintf(id, sizeof id, "%zu", index);
    if (!json_check(body, &object, NULL))
        return false;
    out->is_done = find_entry(json_member(object, "Successful"), id, &entry);
    if (out->is_done)
        return true;
    if (!find_entry(json_member(object, "Failed"), id, &entry))
        return false;
    out->is_our_fault = json_member(entry, "SenderFault").kind == JSON_TRUE;
    copy_text(entry, "Code", out->code, sizeof out->code);
    copy_text(entry, "Message", out->text, sizeof out->text);
    return true;
}

/* Reads {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "…"}. */
static void sqs_read_error(struct slice body, struct aws_answer *out)
{
    struct json_value object;
    char type[128];
    if (!json_check(body, &object, NULL))
        return;
    copy_text(object, "__type", type, sizeof type);
    const char *sign = strrchr(type, '#');
    (void)snprintf(out->code, sizeof out->code, "%.63s", sign ? sign + 1 : type);
    copy_text(object, "message", out->text, sizeof out->text);
    if (!out->text[0])
        copy_text(object, "Message", out->text, sizeof out->text);
}

const struct aws_service aws_sqs = {.name = "sqs",
                                    .content_type = "application/x-amz-json-1.0",
                                    .action = "AmazonSQS.SendMessageBatch",
                                    .messages_max = AWS_CALL_MESSAGES_MAX,
                                    .queue = sqs_queue,
                                    .begin = sqs_begin,
                                    .append = sqs_append,
                                    .end = sqs_end,
                                    .read = sqs_read,
                                    .read_error = sqs_read_error};
