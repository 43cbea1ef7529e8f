#include "sqs/entries.h"

#include "base/json_write.h"

enum { ID_BYTES_MAX = 80 };

static bool is_entry_id(struct slice id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.at[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '-')
            return false;
    }
    return id.len > 0 && id.len <= ID_BYTES_MAX;
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
        buffer_append_text(body, sqs_fault_is_senders(error->fault) ? ",\"SenderFault\":true"
                                                                    : ",\"SenderFault\":false");
        buffer_append_text(body, ",\"Code\":");
        json_write_string(body, slice_of(sqs_fault_code(error->fault)));
        buffer_append_text(body, ",\"Message\":");
        json_write_string(body, slice_of(error->message));
        buffer_append_byte(body, '}');
        is_first = false;
    }
    buffer_append_text(body, "]}");
    sqs_answer(request);
}
