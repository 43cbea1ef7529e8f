#include "grpc/stream.h"

#include "grpc/frame.h"
#include "grpc/status.h"

bool stream_add(struct buffer *in, struct slice bytes, size_t message_bytes_max,
                struct http_fault *fault)
{
    if (!in->cap && !in->bytes_max)
        buffer_init(in, 2 * (message_bytes_max + FRAME_HEAD_BYTES) + 64 * 1024);
    buffer_append_slice(in, bytes);
    return !in->failed || http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

bool stream_next(const struct buffer *in, size_t *at, size_t message_bytes_max,
                 struct slice *message, struct http_fault *fault)
{
    size_t used = 0;
    fault->problem = PROBLEM_NONE;
    switch (
        frame_next(slice_make(in->at + *at, in->len - *at), message_bytes_max, message, &used)) {
    case FRAME_WHOLE:
        *at += used;
        return true;
    case FRAME_MORE:
        return false;
    case FRAME_COMPRESSED:
        return http_fault_set(fault, PROBLEM_CODING_UNKNOWN, 0,
                              "the message is compressed: send it uncompressed");
    case FRAME_TOO_BIG:
        return http_fault_set(fault, PROBLEM_BODY_TOO_BIG, message_bytes_max,
                              "a message of this stream has at most %zu bytes", message_bytes_max);
    case FRAME_MALFORMED:
    default:
        return http_fault_set(fault, PROBLEM_BAD_FRAMING, 0,
                              "the bytes are not messages of gRPC: a flag, a length, and so many "
                              "bytes");
    }
}

void stream_drop(struct buffer *in, size_t at)
{
    if (!at)
        return;
    memmove(in->at, in->at + at, in->len - at);
    in->len -= at;
    if (!in->len)
        buffer_fini(in);
    if (!in->at)
        *in = (struct buffer){0};
}

static void add_trailer(void *call, const char *name, struct slice value)
{
    http2_trailer(call, name, value);
}

void stream_end(struct http2_call *call)
{
    http2_trailer(call, "grpc-status", slice_of("0"));
    http2_end(call);
}

void stream_refuse(struct http2_call *call, const struct http_refusal *refusal)
{
    grpc_status_fields(refusal, add_trailer, call);
    http2_end(call);
}

void stream_refuse_fault(struct http2_call *call, const struct http_fault *fault)
{
    struct http_refusal refusal;
    http_refusal_of_fault(&refusal, fault);
    stream_refuse(call, &refusal);
}
