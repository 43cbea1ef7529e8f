#include "sqs/request.h"

#include "base/error.h"
#include "base/json_write.h"
#include "base/random.h"
#include "base/text.h"
#include "queue/status.h"

#include <stdarg.h>
#include <stdio.h>

#define TYPE "application/x-amz-json-1.0"
#define SQS "com.amazonaws.sqs#"
#define CORAL "com.amazon.coral.service#"

/* ---- errors ---- */

static const struct fault_row {
    const char *shape, *code;
    uint16_t status;
} faults[] = {
    [SQS_OK] = {"", "", 200},
    [SQS_NO_QUEUE] = {SQS "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400},
    [SQS_QUEUE_EXISTS] = {SQS "QueueNameExists", "QueueAlreadyExists", 400},
    [SQS_BAD_VALUE] = {CORAL "InvalidParameterValueException", "InvalidParameterValue", 400},
    [SQS_MISSING] = {CORAL "MissingRequiredParameterException", "MissingParameter", 400},
    [SQS_BAD_ATTRIBUTE_NAME] = {SQS "InvalidAttributeName", "InvalidAttributeName", 400},
    [SQS_BAD_ATTRIBUTE_VALUE] = {SQS "InvalidAttributeValue", "InvalidAttributeValue", 400},
    [SQS_BAD_CONTENTS] = {SQS "InvalidMessageContents", "InvalidMessageContents", 400},
    [SQS_BAD_HANDLE] = {SQS "ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 400},
    [SQS_NOT_IN_FLIGHT] = {SQS "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight",
                           400},
    [SQS_EMPTY_BATCH] = {SQS "EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", 400},
    [SQS_LONG_BATCH] = {SQS "TooManyEntriesInBatchRequest",
                        "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", 400},
    [SQS_BATCH_IDS] = {SQS "BatchEntryIdsNotDistinct",
                       "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400},
    [SQS_BATCH_ID] = {SQS "InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", 400},
    [SQS_BATCH_BYTES] = {SQS "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong",
                         400},
    [SQS_UNSUPPORTED] = {SQS "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation",
                         400},
    [SQS_UNKNOWN] = {CORAL "UnknownOperationException", "InvalidAction", 400},
    [SQS_DENIED] = {CORAL "AccessDeniedException", "AccessDeniedException", 403},
    [SQS_UNSIGNED] = {CORAL "MissingAuthenticationTokenException", "MissingAuthenticationToken",
                      403},
    [SQS_INCOMPLETE_SIGNATURE] = {CORAL "IncompleteSignatureException", "IncompleteSignature", 400},
    [SQS_BAD_SIGNATURE] = {CORAL "InvalidSignatureException", "SignatureDoesNotMatch", 403},
    [SQS_UNKNOWN_KEY] = {CORAL "UnrecognizedClientException", "InvalidClientTokenId", 403},
    [SQS_THROTTLED] = {SQS "RequestThrottled", "RequestThrottled", 400},
    [SQS_NO_RESOURCE] = {SQS "ResourceNotFoundException", "ResourceNotFoundException", 400},
    [SQS_BUSY] = {CORAL "ServiceUnavailableException", "ServiceUnavailable", 503},
    [SQS_BROKEN] = {CORAL "InternalFailure", "InternalFailure", 500},
};

/* Returns the error code as used in batches and in the query protocol. */
static const char *fault_code(enum sqs_fault fault)
{
    return faults[fault].code;
}

/* Returns whether the sender is at fault, which replies also report. */
static bool fault_is_senders(enum sqs_fault fault)
{
    return fault != SQS_BUSY && fault != SQS_BROKEN;
}

bool sqs_error_set(struct sqs_error *error, enum sqs_fault fault, const char *format, ...)
{
    va_list args;
    error->fault = fault;
    va_start(args, format);
    (void)vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return false;
}

static enum sqs_fault fault_of(enum queue_status status)
{
    switch (status) {
    case QUEUE_NOT_FOUND:
        return SQS_NO_QUEUE;
    case QUEUE_BAD_TOPIC:
    case QUEUE_BAD_OPTION:
    case QUEUE_BODY_TOO_BIG:
        return SQS_BAD_VALUE;
    case QUEUE_FORBIDDEN:
    case QUEUE_OWN_TOPIC:
        return SQS_DENIED;
    case QUEUE_TOO_FAST:
    case QUEUE_TOPIC_TOO_FAST:
    case QUEUE_CALLER_FULL:
        return SQS_THROTTLED;
    default:
        return SQS_BUSY;
    }
}

bool sqs_error_of(struct sqs_error *error, enum queue_status status)
{
    if (queue_status_is_success(status))
        return true;
    return sqs_error_set(error, fault_of(status), "%s",
                         status == QUEUE_NOT_FOUND ? "The specified queue does not exist."
                                                   : queue_status_sentence(status));
}

/* ---- stored parameters ---- */

struct note_head {
    const struct sqs_operation *operation;
    size_t queue_bytes, host_bytes, trace_bytes, fields_bytes;
};

bool sqs_request_keep(struct http_call *call, const struct sqs_operation *operation,
                      struct slice queue, struct slice fields)
{
    struct buffer *note = &call->exchange->note;
    struct slice host =
        call->request->authority.len ? call->request->authority : call->request->host;
    struct slice trace = http_request_field(call->request, "x-amzn-trace-id");
    const struct note_head head = {operation, queue.len, host.len, trace.len, fields.len};
    http_front_lend(call->front, note);
    buffer_append(note, &head, sizeof head);
    buffer_append_slice(note, queue);
    buffer_append_slice(note, host);
    buffer_append_slice(note, trace);
    buffer_append_slice(note, fields);
    http_gate_keep(call->exchange, call->caller);
    return !note->failed;
}

struct sqs_request sqs_request_of(struct http_exchange *exchange)
{
    struct note_head head;
    struct sqs_request out = {.exchange = exchange, .options = exchange->route->about};
    memcpy(&head, exchange->note.at, sizeof head);
    size_t before = sizeof head + head.queue_bytes + head.host_bytes + head.trace_bytes;
    out.operation = head.operation;
    out.queue = slice_make(exchange->note.at + sizeof head, head.queue_bytes);
    out.host = slice_make(out.queue.at + head.queue_bytes, head.host_bytes);
    out.trace = slice_make(out.host.at + head.host_bytes, head.trace_bytes);
    out.fields.kind = JSON_OBJECT; /* checked before it was stored */
    out.fields.raw = slice_make(exchange->note.at + before, head.fields_bytes);
    before += head.fields_bytes;
    out.learned = slice_make(exchange->note.at + before, exchange->note.len - before);
    return out;
}

bool sqs_request_learn(struct sqs_request *request, struct slice learned)
{
    struct http_exchange *exchange = request->exchange;
    buffer_append_slice(&exchange->note, learned);
    bool is_kept = !exchange->note.failed;
    *request = sqs_request_of(exchange);
    return is_kept;
}

bool sqs_request_find(void *front, uint64_t tag, struct sqs_request *out)
{
    struct http_exchange *exchange = http_exchange_find(front, tag);
    if (exchange)
        *out = sqs_request_of(exchange);
    return exchange != NULL;
}

int64_t sqs_request_now_ms(const struct sqs_request *request)
{
    return queue_wall_ms(request->exchange->front->queue);
}

struct queue_reply_to sqs_reply_to(const struct sqs_request *request, queue_done *done)
{
    return http_exchange_reply_to(request->exchange, done);
}

/* ---- members ---- */

struct json_value sqs_member(struct json_value object, const char *name)
{
    struct json_value value = json_member(object, name);
    return value.kind == JSON_NULL ? (struct json_value){0} : value;
}

struct slice sqs_text(const struct sqs_request *request, struct json_value value)
{
    struct buffer *arena = &request->exchange->front->arena;
    struct slice out;
    if (value.kind != JSON_STRING)
        return (struct slice){0};
    buffer_clear(arena);
    if (!buffer_reserve(arena, value.raw.len) || !json_string_bytes(value.raw, arena, &out))
        return (struct slice){0};
    return out;
}

bool sqs_number(struct json_value value, const char *name, int64_t least, int64_t most,
                int64_t standard, int64_t *out, struct sqs_error *error)
{
    struct slice text = value.raw;
    *out = standard;
    if (value.kind == JSON_NONE)
        return true;
    if (value.kind == JSON_STRING)
        text = slice_make(text.at + 1, text.len - 2);
    if ((value.kind == JSON_STRING || value.kind == JSON_NUMBER) && json_number_i64(text, out) &&
        *out >= least && *out <= most)
        return true;
    return sqs_error_set(error, SQS_BAD_VALUE,
                         "Value %.*s for parameter %s is invalid. Reason: Must be between %lld and "
                         "%lld, if provided.",
                         (int)(text.len < 40 ? text.len : 40), text.at, name, (long long)least,
                         (long long)most);
}

/* ---- replies ---- */

static void write_request_id(struct http_exchange *exchange)
{
    char text[40];
    unsigned long long high = random_u64(), low = random_u64();
    int len = snprintf(text, sizeof text, "%08llx-%04llx-%04llx-%04llx-%012llx", high >> 32,
                       high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffffffffffff);
    http_answer_field(exchange, "x-amzn-RequestId", slice_make(text, (size_t)len));
}

void sqs_answer(const struct sqs_request *request)
{
    write_request_id(request->exchange);
    http_answer_end(request->exchange, 200, TYPE);
}

void sqs_answer_error(struct http_exchange *exchange, const struct sqs_error *error)
{
    const struct fault_row *row = &faults[error->fault];
    char code[96];
    int len = snprintf(code, sizeof code, "%s;%s", row->code,
                       fault_is_senders(error->fault) ? "Sender" : "Receiver");
    struct buffer *body = http_answer_start(exchange);
    exchange->outcome = row->code;
    buffer_append_text(body, "{\"__type\":");
    json_write_string(body, slice_of(row->shape));
    buffer_append_text(body, ",\"message\":");
    json_write_string(body, slice_of(error->message));
    buffer_append_byte(body, '}');
    http_answer_field(exchange, "x-amzn-query-error", slice_make(code, (size_t)len));
    write_request_id(exchange);
    http_answer_end(exchange, row->status, TYPE);
}

void sqs_answer_query_error(struct http_exchange *exchange)
{
    buffer_append_text(
        http_answer_start(exchange),
        "<?xml version=\"1.0\"?><ErrorResponse "
        "xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error><Type>Sender</"
        "Type><Code>AWS.SimpleQueueService.UnsupportedOperation</Code><Message>This server does "
        "not support the query protocol; use an SDK with AWS JSON 1.0, as released since November "
        "2023.</Message><Detail/></Error><RequestId>0</RequestId></ErrorResponse>");
    write_request_id(exchange);
    http_answer_end(exchange, 400, "text/xml");
}

/* ---- entries ---- */

enum { ID_BYTES_MAX = 80 };

static bool is_entry_id(struct slice id)
{
    return id.len > 0 && id.len <= ID_BYTES_MAX && text_is_word(id, "_-");
}

static bool read_entry(struct json_value item, struct sqs_entries *out, struct sqs_error *error)
{
    struct json_value id = sqs_member(item, "Id");
    if (id.kind != JSON_STRING || !is_entry_id(slice_make(id.raw.at + 1, id.raw.len - 2)))
        return sqs_error_set(error, SQS_BATCH_ID,
                             "A batch entry id can only contain alphanumeric characters, hyphens "
                             "and underscores. It can be at most 80 letters long.");
    for (size_t i = 0; i < out->count; i++)
        if (slice_equals(out->ids[i], id.raw))
            return sqs_error_set(error, SQS_BATCH_IDS, "Id %.*s repeated.", (int)(id.raw.len - 2),
                                 id.raw.at + 1);
    out->at[out->count] = item;
    out->ids[out->count++] = id.raw;
    return true;
}

bool sqs_entries_read(const struct sqs_request *request, struct sqs_entries *out,
                      struct sqs_error *error)
{
    bool is_batch = request->operation->why != NULL;
    struct json_value list = sqs_member(request->fields, "Entries"), item;
    struct json_cursor cursor = {0};
    size_t sent = 0;
    *out = (struct sqs_entries){.is_batch = is_batch};
    if (!is_batch) {
        out->at[out->count++] = request->fields;
        return true;
    }
    while (list.kind == JSON_ARRAY && json_next_item(list, &cursor, &item))
        sent++;
    if (sent > SQS_BATCH_MAX)
        return sqs_error_set(error, SQS_LONG_BATCH,
                             "Maximum number of entries per request are 10. You have sent %zu.",
                             sent);
    cursor = (struct json_cursor){0};
    while (list.kind == JSON_ARRAY && json_next_item(list, &cursor, &item))
        if (!read_entry(item, out, error))
            return false;
    return out->count > 0 ||
           sqs_error_set(error, SQS_EMPTY_BATCH, "There should be at least one %s in the request.",
                         request->operation->why);
}

void sqs_entries_answer(const struct sqs_request *request, struct sqs_entries *entries,
                        void (*write)(struct buffer *out, size_t i, void *ctx), void *ctx)
{
    if (!entries->is_batch && entries->errors[0].fault) {
        sqs_answer_error(request->exchange, &entries->errors[0]);
        return;
    }
    struct buffer *body = http_answer_start(request->exchange);
    bool is_first = true;
    if (!entries->is_batch) {
        buffer_append_byte(body, '{');
        size_t before = body->len;
        if (write)
            write(body, 0, ctx);
        if (body->len > before) { /* without the leading comma */
            memmove(body->at + before, body->at + before + 1, body->len - before - 1);
            body->len--;
        }
        buffer_append_byte(body, '}');
        sqs_answer(request);
        return;
    }
    buffer_append_text(body, "{\"Successful\":[");
    for (size_t i = 0; i < entries->count; i++) {
        if (entries->errors[i].fault)
            continue;
        buffer_append_text(body, is_first ? "{\"Id\":" : ",{\"Id\":");
        buffer_append_slice(body, entries->ids[i]);
        if (write)
            write(body, i, ctx);
        buffer_append_byte(body, '}');
        is_first = false;
    }
    buffer_append_text(body, "],\"Failed\":[");
    is_first = true;
    for (size_t i = 0; i < entries->count; i++) {
        const struct sqs_error *error = &entries->errors[i];
        if (!error->fault)
            continue;
        buffer_append_text(body, is_first ? "{\"Id\":" : ",{\"Id\":");
        buffer_append_slice(body, entries->ids[i]);
        buffer_append_text(body, fault_is_senders(error->fault) ? ",\"SenderFault\":true"
                                                                : ",\"SenderFault\":false");
        buffer_append_text(body, ",\"Code\":");
        json_write_string(body, slice_of(fault_code(error->fault)));
        buffer_append_text(body, ",\"Message\":");
        json_write_string(body, slice_of(error->message));
        buffer_append_byte(body, '}');
        is_first = false;
    }
    buffer_append_text(body, "]}");
    sqs_answer(request);
}
