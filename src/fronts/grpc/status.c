#include "grpc/status.h"

#include "base/text.h"
#include "grpc/wire.h"

#include <stdio.h>
#include <string.h>

enum { DETAILS_BYTES_MAX = 4096 };

/* The first row that matches decides. A row without a code matches all codes of its status. */
static const struct row {
    uint16_t status;
    const char *code;
    enum grpc_status grpc;
} rows[] = {
    {400, NULL, GRPC_INVALID_ARGUMENT},    {401, NULL, GRPC_UNAUTHENTICATED},
    {403, NULL, GRPC_PERMISSION_DENIED},   {404, "no_such_path", GRPC_UNIMPLEMENTED},
    {404, NULL, GRPC_NOT_FOUND},           {405, NULL, GRPC_UNIMPLEMENTED},
    {408, NULL, GRPC_DEADLINE_EXCEEDED},   {409, "conflict", GRPC_ALREADY_EXISTS},
    {409, NULL, GRPC_FAILED_PRECONDITION}, {413, NULL, GRPC_INVALID_ARGUMENT},
    {414, NULL, GRPC_INVALID_ARGUMENT},    {415, "coding_unknown", GRPC_UNIMPLEMENTED},
    {415, NULL, GRPC_INVALID_ARGUMENT},    {417, NULL, GRPC_INVALID_ARGUMENT},
    {421, NULL, GRPC_INVALID_ARGUMENT},    {429, NULL, GRPC_RESOURCE_EXHAUSTED},
    {431, NULL, GRPC_RESOURCE_EXHAUSTED},  {501, NULL, GRPC_UNIMPLEMENTED},
    {503, NULL, GRPC_UNAVAILABLE},         {505, NULL, GRPC_UNIMPLEMENTED},
    {507, NULL, GRPC_RESOURCE_EXHAUSTED},
};

enum grpc_status grpc_status_of(const char *code, uint16_t status)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status == status && (!rows[i].code || strcmp(rows[i].code, code) == 0))
            return rows[i].grpc;
    return GRPC_INTERNAL;
}

void grpc_message_write(struct buffer *out, struct slice detail)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < detail.len; i++) {
        unsigned char byte = (unsigned char)detail.at[i];
        if (byte >= 0x20 && byte <= 0x7e && byte != '%') {
            buffer_append_byte(out, (char)byte);
        } else {
            buffer_append_byte(out, '%');
            buffer_append_byte(out, hex[byte >> 4]);
            buffer_append_byte(out, hex[byte & 15]);
        }
    }
}

static void write_metadata(struct buffer *out, const char *key, struct slice value)
{
    size_t begin = wire_begin(out, 3, 64);
    wire_text(out, 1, slice_of(key));
    wire_text(out, 2, value);
    wire_end(out, begin);
}

/* Begins a google.protobuf.Any in the details. Returns the ends of both messages in `ends`. */
static void begin_any(struct buffer *out, const char *type, size_t ends[2])
{
    ends[0] = wire_begin(out, 3, 200);
    wire_text(out, 1, slice_of(type));
    ends[1] = wire_begin(out, 2, 100);
}

static void end_any(struct buffer *out, const size_t ends[2])
{
    wire_end(out, ends[1]);
    wire_end(out, ends[0]);
}

static void write_error_info(struct buffer *out, const struct http_refusal *refusal)
{
    size_t ends[2];
    char text[24];
    begin_any(out, "type.googleapis.com/google.rpc.ErrorInfo", ends);
    wire_text(out, 1, slice_of(refusal->code));
    wire_text(out, 2, slice_of("tarry"));
    if (refusal->limit_name) {
        write_metadata(out, "limit", slice_of(refusal->limit_name));
    } else if (refusal->limit) {
        int len = snprintf(text, sizeof text, "%llu", (unsigned long long)refusal->limit);
        write_metadata(out, "limit", slice_make(text, (size_t)len));
    }
    if (refusal->state)
        write_metadata(out, "state", slice_of(job_state_name(refusal->state)));
    end_any(out, ends);
}

void grpc_details_write(struct buffer *out, const struct http_refusal *refusal)
{
    size_t ends[2];
    wire_u64(out, 1, (uint64_t)grpc_status_of(refusal->code, refusal->status));
    wire_unsafe_text(out, 2, slice_of(refusal->detail));
    write_error_info(out, refusal);
    if (!refusal->retry_s)
        return;
    begin_any(out, "type.googleapis.com/google.rpc.RetryInfo", ends);
    wire_duration(out, 1, (int64_t)refusal->retry_s * 1000);
    end_any(out, ends);
}

void grpc_status_fields(const struct http_refusal *refusal,
                        void (*add)(void *ctx, const char *name, struct slice value), void *ctx)
{
    struct buffer details, text;
    char number[12];
    int len =
        snprintf(number, sizeof number, "%d", (int)grpc_status_of(refusal->code, refusal->status));
    buffer_init(&details, DETAILS_BYTES_MAX);
    buffer_init(&text, DETAILS_BYTES_MAX);
    add(ctx, "grpc-status", slice_make(number, (size_t)len));
    grpc_message_write(&text, slice_of(refusal->detail));
    add(ctx, "grpc-message", buffer_slice(&text));
    buffer_clear(&text);
    grpc_details_write(&details, refusal);
    text_base64_encode(buffer_slice(&details), &text);
    if (!details.failed && !text.failed)
        add(ctx, "grpc-status-details-bin", buffer_slice(&text));
    buffer_fini(&text);
    buffer_fini(&details);
}
