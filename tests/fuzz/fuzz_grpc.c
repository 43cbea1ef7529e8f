/* Decoders of gRPC: frames in any pieces, messages into each decoder, timeouts, messages of errors, reflection. The first
 * byte chooses. */
#include "grpc/arena.h"
#include "grpc/fields.h"
#include "grpc/frame.h"
#include "grpc/proto_texts.h"
#include "grpc/reflection.h"
#include "grpc/status.h"
#include "grpc/timeout.h"
#include "grpc/wire.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void try_timeout(struct slice text)
{
    int64_t ms = 0;
    if (!timeout_parse(text, &ms))
        return;
    CLAIM("a timeout is not negative", ms >= 0 || (ms == TIMEOUT_NONE && !text.len));
    int64_t wait_ms = timeout_wait_ms(ms, 0, 240000);
    CLAIM("a wait ends before its deadline", wait_ms >= 0 && (ms < 0 || wait_ms <= ms));
}

static void try_frames(struct slice bytes)
{
    struct slice message;
    size_t used = 0;
    while (frame_next(bytes, 1000, &message, &used) == FRAME_WHOLE) {
        CLAIM("a message is within its frame", used == message.len + FRAME_HEAD_BYTES &&
                                                   message.at + message.len == bytes.at + used);
        bytes = slice_make(bytes.at + used, bytes.len - used);
    }
}

static void try_error(struct slice text)
{
    struct buffer out;
    buffer_init(&out, 3 * text.len + 16);
    grpc_message_write(&out, text);
    CLAIM("an escaped text fits", !out.failed);
    for (size_t i = 0; i < out.len; i++)
        CLAIM("an escaped text is printable", out.at[i] >= 0x20 && out.at[i] <= 0x7e);
    buffer_fini(&out);
}

static void try_wire(struct slice message)
{
    struct wire_field field;
    size_t at = 0, before = 0;
    while (wire_next(message, &at, &field)) {
        CLAIM("a field is within the message", at > before && at <= message.len);
        before = at;
    }
}

static void try_reflection(struct slice request)
{
    struct buffer out;
    buffer_init(&out, 1 << 20);
    if (reflection_answer(slice_make(grpc_descriptors_text, grpc_descriptors_bytes), request,
                          &out)) {
        struct wire_field field;
        size_t at = 0;
        while (wire_next(buffer_slice(&out), &at, &field))
            continue;
        CLAIM("an answer is a message", at == out.len && !out.failed);
    }
    buffer_fini(&out);
}

static void try_message(const ProtobufCMessageDescriptor *type, struct slice bytes)
{
    struct arena arena;
    arena_init(&arena, bytes.len);
    ProtobufCMessage *message = protobuf_c_message_unpack(
        type, &arena.allocator, bytes.len, (const uint8_t *)(bytes.len ? bytes.at : ""));
    CLAIM("memory is limited", arena.used <= 3 * bytes.len + (2 << 20));
    CLAIM("a decoded message is whole", !message || protobuf_c_message_check(message));
    if (message && type == &tarry__v1__push_request__descriptor) {
        const Tarry__V1__PushRequest *push = (const void *)message;
        struct http_fields options = {0};
        struct http_fault fault = {0};
        struct fields fields = {.out = &options, .fault = &fault};
        bool is_good = fields_duration(&fields, OPTION_DELAY, push->delay) &&
                       fields_time(&fields, OPTION_AT, push->at) &&
                       fields_priority(&fields, push->priority) &&
                       fields_conflict(&fields, push->on_conflict) &&
                       fields_attempts(&fields, push->max_attempts) &&
                       fields_text(&fields, OPTION_BACKOFF, push->backoff);
        CLAIM("a refusal has a reason", is_good || fault.problem);
    }
    arena_fini(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &tarry__v1__push_request__descriptor,      &tarry__v1__push_many_request__descriptor,
        &tarry__v1__take_request__descriptor,      &tarry__v1__answer_request__descriptor,
        &tarry__v1__change_request__descriptor,    &tarry__v1__list_request__descriptor,
        &tarry__v1__put_topic_request__descriptor, &tarry__v1__work_request__descriptor,
        &tarry__v1__redrive_request__descriptor,
    };
    static void (*const tries[])(struct slice) = {try_timeout, try_frames, try_error, try_wire,
                                                  try_reflection};
    enum { TRIES = sizeof tries / sizeof tries[0], TYPES = sizeof types / sizeof types[0] };
    if (!len)
        return 0;
    size_t which = bytes[0] % (TRIES + TYPES);
    struct slice rest = slice_make(bytes + 1, len - 1);
    if (which < TRIES)
        tries[which](rest);
    else
        try_message(types[which - TRIES], rest);
    return 0;
}
