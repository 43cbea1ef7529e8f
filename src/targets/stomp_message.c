#include "targets/stomp_message.h"

#include "base/timestamp.h"
#include "targets/stomp_frame.h"
#include "targets/template.h"

#include <inttypes.h>
#include <stdio.h>

enum { DESTINATION_BYTES_MAX = 1024 };

#define DESTINATION "/queue/{topic}"

static bool is_ours(struct slice name)
{
    static const char *const ours[] = {"destination", "receipt",      "persistent",
                                       "transaction", "content-type", "content-length",
                                       "receipt-id"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (slice_is(name, ours[i]))
            return true;
    return name.len >= 6 && memcmp(name.at, "tarry-", 6) == 0;
}

/* A meta that would change what the frame says goes by another name; tarry's own are not for the
 * broker. */
static void emit_meta(struct buffer *out, const struct job *job)
{
    struct slice name, value;
    char other[80];
    for (size_t at = 0; job_meta_next(job->meta, &at, &name, &value);) {
        if (name.len >= 6 && memcmp(name.at, "tarry-", 6) == 0)
            continue;
        if (is_ours(name)) {
            int len = snprintf(other, sizeof other, "meta-%.*s", (int)name.len, name.at);
            name = slice_make(other, (size_t)len);
        }
        stomp_emit_header(out, name, value);
    }
}

static void emit_number(struct buffer *out, const char *name, uint64_t number)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, number);
    stomp_emit_header(out, slice_of(name), slice_make(text, (size_t)len));
}

static void emit_frame(struct buffer *out, const struct job *job, struct slice destination,
                       uint64_t receipt)
{
    char due[TIMESTAMP_BYTES];
    timestamp_write(due, job->due_ms);
    stomp_emit_command(out, "SEND");
    stomp_emit_header(out, slice_of("destination"), destination);
    emit_number(out, "receipt", receipt);
    stomp_emit_header(out, slice_of("persistent"), slice_of("true"));
    stomp_emit_header(out, slice_of("content-type"),
                      job->content_type.len ? job->content_type
                                            : slice_of("application/octet-stream"));
    emit_number(out, "content-length", job->body.len);
    stomp_emit_header(out, slice_of("tarry-topic"), job->topic);
    stomp_emit_header(out, slice_of("tarry-id"), job->id);
    emit_number(out, "tarry-attempt", job->attempt);
    stomp_emit_header(out, slice_of("tarry-due-at"), slice_make(due, sizeof due));
    emit_meta(out, job);
    stomp_emit_body(out, job->body);
}

/* What brokers read as more than a name: several destinations, patterns, options. */
static size_t count_signs(struct slice text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] && strchr(",*>?", text.at[i]);
    return count;
}

const char *stomp_message_emit(struct buffer *out, const struct target_message *message,
                               uint64_t receipt)
{
    const char *text = message->setting->destination, *fault = NULL;
    if (!text || !*text)
        text = DESTINATION;
    struct buffer destination;
    buffer_init(&destination, DESTINATION_BYTES_MAX);
    if (!template_fill(slice_of(text), message->job, TEMPLATE_PLAIN, DESTINATION_BYTES_MAX,
                       &destination))
        fault = "the destination is longer than 1024 bytes";
    else if (destination.len == 0)
        fault = "the destination is empty";
    else if (count_signs(buffer_slice(&destination)) > count_signs(slice_of(text)))
        fault = "what fills in the destination holds ',', '*', '>' or '?'";
    else
        emit_frame(out, message->job, buffer_slice(&destination), receipt);
    if (!fault && message->explained)
        buffer_append_format(message->explained, "destination '%.*s', %zu bytes with headers\n",
                             (int)destination.len, destination.at, out->len);
    buffer_fini(&destination);
    return fault;
}
