/*
 * aws_sns: topics of Amazon SNS. A call is Publish of the query protocol, because SNS has no
 * JSON protocol.
 */
#include "base/text.h"
#include "targets/aws/service.h"
#include "targets/meta.h"

#include <stdio.h>

/* Returns the ARN: the path without its slash. Inserted values are percent-encoded, which leaves
 * the letters of a topic's name as they are. */
static struct slice sns_queue(struct slice origin, struct slice path, struct buffer *scratch)
{
    (void)origin;
    if (!text_percent_decode(slice_make(path.at + 1, path.len - 1), false, scratch))
        scratch->failed = true;
    return buffer_slice(scratch);
}

static void append_pair(struct buffer *out, const char *name, struct slice value)
{
    buffer_append_byte(out, '&');
    buffer_append_text(out, name);
    buffer_append_byte(out, '=');
    text_percent_encode(value, "", out);
}

static void sns_begin(struct buffer *out, struct slice queue)
{
    buffer_append_text(out, "Action=Publish&Version=2010-03-31");
    append_pair(out, "TopicArn", queue);
}

static void sns_append(struct buffer *out, const struct aws_entry *entry)
{
    char name[64];
    append_pair(out, "Message", entry->body);
    for (size_t i = 0; i < entry->attribute_count; i++) {
        (void)snprintf(name, sizeof name, "MessageAttributes.entry.%zu.Name", i + 1);
        append_pair(out, name, entry->attributes[i].name);
        (void)snprintf(name, sizeof name, "MessageAttributes.entry.%zu.Value.DataType", i + 1);
        append_pair(out, name, slice_of("String"));
        (void)snprintf(name, sizeof name, "MessageAttributes.entry.%zu.Value.StringValue", i + 1);
        append_pair(out, name, entry->attributes[i].value);
    }
    if (entry->group.len)
        append_pair(out, "MessageGroupId", entry->group);
    if (entry->repeat.len)
        append_pair(out, "MessageDeduplicationId", entry->repeat);
}

static void sns_end(struct buffer *out)
{
    (void)out;
}

/* ---- answers: XML, of which single texts are needed ---- */

/* Returns the text between <NAME> and </NAME>; empty if it is missing. */
static struct slice text_of(struct slice xml, const char *name)
{
    char begin[32], end[32];
    int begin_len = snprintf(begin, sizeof begin, "<%s>", name);
    int end_len = snprintf(end, sizeof end, "</%s>", name);
    const char *from = xml.len ? memmem(xml.at, xml.len, begin, (size_t)begin_len) : NULL;
    if (!from)
        return (struct slice){0};
    from += begin_len;
    const char *to = memmem(from, xml.len - (size_t)(from - xml.at), end, (size_t)end_len);
    return to ? slice_make(from, (size_t)(to - from)) : (struct slice){0};
}

static bool sns_read(struct slice body, size_t index, struct aws_answer *out)
{
    (void)index;
    out->is_done = text_of(body, "MessageId").len > 0;
    return out->is_done;
}

static void sns_read_error(struct slice body, struct aws_answer *out)
{
    target_remark_write(text_of(body, "Code"), out->code, sizeof out->code);
    target_remark_write(text_of(body, "Message"), out->text, sizeof out->text);
    out->is_our_fault = !slice_is(text_of(body, "Type"), "Receiver");
}

const struct aws_service aws_sns = {.name = "sns",
                                    .content_type =
                                        "application/x-www-form-urlencoded; charset=utf-8",
                                    .messages_max = 1,
                                    .queue = sns_queue,
                                    .begin = sns_begin,
                                    .append = sns_append,
                                    .end = sns_end,
                                    .read = sns_read,
                                    .read_error = sns_read_error};
