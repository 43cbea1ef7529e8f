#include "trace/otlp.h"

#include "base/hex.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/url.h"

#include <stdio.h>

enum { REMOTE_KNOWN = 0x100, REMOTE = 0x200, SAMPLED = 1 }; /* SpanFlags */
enum { STATUS_ERROR = 2, ROUNDED_US = 2000 };

/* ---- attributes ---- */

struct attributes {
    struct buffer *out;
    bool has_some;
};

static void begin_attribute(struct attributes *list, const char *key)
{
    buffer_append_text(list->out, list->has_some ? ",{\"key\":\"" : "{\"key\":\"");
    buffer_append_text(list->out, key);
    buffer_append_text(list->out, "\",\"value\":{");
    list->has_some = true;
}

static void write_text(struct attributes *list, const char *key, struct slice value)
{
    if (!value.len)
        return;
    begin_attribute(list, key);
    buffer_append_text(list->out, "\"stringValue\":");
    json_write_string(list->out, value);
    buffer_append_text(list->out, "}}");
}

static void write_number(struct attributes *list, const char *key, uint64_t value)
{
    begin_attribute(list, key);
    buffer_append_format(list->out, "\"intValue\":\"%llu\"}}", (unsigned long long)value);
}

/* Writes the endpoint's host and port. */
static void write_place(struct attributes *list, const char *place)
{
    struct url url;
    if (!place || url_parse(slice_of(place), &url) != URL_OK || !url.host_count)
        return;
    write_text(list, "server.address", url.hosts[0].name);
    if (url.hosts[0].port)
        write_number(list, "server.port", url.hosts[0].port);
}

static void write_attributes(struct buffer *out, const struct trace_span *span)
{
    const struct trace_operation_about *about = trace_operation_about(span->operation);
    struct attributes list = {.out = out};
    buffer_append_text(out, ",\"attributes\":[");
    write_text(&list, "messaging.system", slice_of("tarry"));
    write_text(&list, "messaging.operation.name", slice_of(about->name));
    if (about->type)
        write_text(&list, "messaging.operation.type", slice_of(about->type));
    write_text(&list, "messaging.destination.name", slice_make(span->topic, span->topic_bytes));
    write_text(&list, "messaging.message.id", slice_make(span->id, span->id_bytes));
    if (span->jobs)
        write_number(&list, "messaging.batch.message_count", span->jobs);
    else
        write_number(&list, "messaging.message.body.size", span->body_bytes);
    if (span->attempt)
        write_number(&list, "tarry.attempt", span->attempt);
    if (span->outcome)
        write_text(&list, "tarry.outcome", slice_of(span->outcome));
    if (span->code)
        write_number(&list, "http.response.status_code", span->code);
    write_place(&list, span->place);
    if (span->is_error)
        write_text(&list, "error.type", slice_of(span->outcome ? span->outcome : "_OTHER"));
    buffer_append_byte(out, ']');
}

/* ---- one span ---- */

static void write_hex(struct buffer *out, uint64_t value)
{
    char text[16];
    hex_emit_u64(text, value, sizeof text);
    buffer_append(out, text, sizeof text);
}

static void write_time(struct buffer *out, const char *key, int64_t us)
{
    buffer_append_format(out, "\"%s\":\"%lld000\"", key, (long long)us);
}

/* Writes the event of a waiting job: the time at which it is due. Due times are whole milliseconds,
 * and converting a job's inner time to the wall clock may round differently. So a due time close to
 * the start or the end is moved there. */
static void write_events(struct buffer *out, const struct trace_span *span)
{
    int64_t due_us = span->due_us;
    if (due_us < span->start_us && span->start_us - due_us < ROUNDED_US)
        due_us = span->start_us;
    if (due_us > span->end_us && due_us - span->end_us < ROUNDED_US)
        due_us = span->end_us;
    if (span->operation != TRACE_WAIT || due_us < span->start_us || due_us > span->end_us)
        return;
    buffer_append_text(out, ",\"events\":[{");
    write_time(out, "timeUnixNano", due_us);
    buffer_append_text(out, ",\"name\":\"due\"}]");
}

static void write_status(struct buffer *out, const struct trace_span *span)
{
    if (!span->is_error)
        return;
    buffer_append_format(out, ",\"status\":{\"code\":%d", STATUS_ERROR);
    if (span->error) {
        buffer_append_text(out, ",\"message\":");
        json_write_string(out, slice_of(span->error));
    }
    buffer_append_byte(out, '}');
}

/* Writes the name: the operation, and the topic if there is one. The topic of a refused push may be
 * any text. */
static void write_name(struct buffer *out, const struct trace_span *span)
{
    const char *operation = trace_operation_about(span->operation)->name;
    char name[JOB_TOPIC_BYTES_MAX + 32];
    int len = snprintf(name, sizeof name, "%s%s%.*s", operation, span->topic_bytes ? " " : "",
                       (int)span->topic_bytes, span->topic);
    buffer_append_text(out, ",\"name\":");
    json_write_string(out, slice_make(name, (size_t)len));
}

static void write_span(struct buffer *out, const struct trace_span *span)
{
    int flags = SAMPLED | REMOTE_KNOWN;
    buffer_append_text(out, "{\"traceId\":\"");
    write_hex(out, span->self.trace_high);
    write_hex(out, span->self.trace_low);
    buffer_append_text(out, "\",\"spanId\":\"");
    write_hex(out, span->self.span);
    buffer_append_byte(out, '"');
    if (span->state) {
        buffer_append_text(out, ",\"traceState\":");
        json_write_string(out, slice_of(span->state));
    }
    if (span->parent) {
        buffer_append_text(out, ",\"parentSpanId\":\"");
        write_hex(out, span->parent);
        buffer_append_byte(out, '"');
        flags |= REMOTE;
    }
    buffer_append_format(out, ",\"flags\":%d", flags);
    write_name(out, span);
    buffer_append_format(out, ",\"kind\":%d,", (int)trace_operation_about(span->operation)->kind);
    write_time(out, "startTimeUnixNano", span->start_us);
    buffer_append_byte(out, ',');
    write_time(out, "endTimeUnixNano", span->end_us);
    write_attributes(out, span);
    write_events(out, span);
    write_status(out, span);
    buffer_append_byte(out, '}');
}

/* ---- the request ---- */

void otlp_request_write(struct buffer *out, const struct otlp_resource *resource,
                        const struct trace_span *first)
{
    struct attributes list = {.out = out};
    buffer_append_text(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    write_text(&list, "service.name", slice_of(resource->service_name));
    write_text(&list, "service.version", slice_of(resource->version));
    write_text(&list, "service.instance.id", slice_of(resource->instance));
    buffer_append_text(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"tarry\",\"version\":");
    json_write_string(out, slice_of(resource->version));
    buffer_append_text(out, "},\"spans\":[");
    for (const struct trace_span *span = first; span; span = span->next) {
        if (span != first)
            buffer_append_byte(out, ',');
        write_span(out, span);
    }
    buffer_append_text(out, "]}]}]}");
}

/* ---- the answer ---- */

uint64_t otlp_rejected(struct slice answer)
{
    struct json_value whole;
    uint64_t count = 0;
    if (!json_check(answer, &whole, NULL))
        return 0;
    struct json_value rejected = json_member(json_member(whole, "partialSuccess"), "rejectedSpans");
    struct slice text = rejected.raw; /* a string according to the JSON mapping, or a number */
    if (rejected.kind == JSON_STRING)
        text = slice_make(text.at + 1, text.len - 2);
    return text_parse_u64(text, UINT64_MAX, &count) ? count : 0;
}
