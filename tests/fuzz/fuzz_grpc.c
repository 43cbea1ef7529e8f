/* Decoders of gRPC: frames in any pieces, messages into each decoder, timeouts, messages of errors, reflection. The first
 * byte chooses. */
#include "grpc/arena.h"
#include "grpc/fields.h"
#include "grpc/frame.h"
#include "grpc/proto_texts.h"
#include "grpc/reflection.h"
#include "grpc/status.h"
#include "grpc/timeout.h"
#include "grpc/transcode.h"
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

/* A message as the JSON of HTTP. */
static void try_transcode(const ProtobufCMessage *message)
{
    struct http_fault fault = {0};
    struct buffer out;
    struct json_value object;
    buffer_init(&out, 1 << 20);
    buffer_append_byte(&out, '{');
    bool is_good = transcode_members(&out, message, NULL, &fault);
    buffer_append_byte(&out, '}');
    CLAIM("a refusal has a reason", is_good || fault.problem);
    CLAIM("a message is JSON",
          !is_good || out.failed || json_check(buffer_slice(&out), &object, NULL));
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
    if (message)
        try_transcode(message);
    arena_fini(&arena);
}

/* An answer of a handler as a message. */
static void try_answer(struct slice text)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &tarry__v1__schedule__descriptor, &tarry__v1__list_schedules_response__descriptor,
        &tarry__v1__next_fires_response__descriptor, &tarry__v1__push_request__descriptor};
    struct json_value object;
    struct buffer out, scratch;
    if (!json_check(text, &object, NULL))
        return;
    buffer_init(&out, 1 << 20);
    buffer_init(&scratch, 4 * text.len + 64);
    CLAIM("memory is there", buffer_reserve(&scratch, 4 * text.len + 64));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        buffer_clear(&out);
        buffer_clear(&scratch);
        transcode_fields(&out, object, types[i], &scratch);
        CLAIM("the scratch is large enough", !scratch.failed);
        ProtobufCMessage *message = protobuf_c_message_unpack(
            types[i], NULL, out.len, (const uint8_t *)(out.len ? out.at : ""));
        CLAIM("an answer is a message", out.failed || message);
        if (message)
            protobuf_c_message_free_unpacked(message, NULL);
    }
    buffer_fini(&out);
    buffer_fini(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &tarry__v1__push_request__descriptor,      &tarry__v1__push_many_request__descriptor,
        &tarry__v1__take_request__descriptor,      &tarry__v1__answer_request__descriptor,
        &tarry__v1__change_request__descriptor,    &tarry__v1__list_request__descriptor,
        &tarry__v1__put_topic_request__descriptor, &tarry__v1__work_request__descriptor,
        &tarry__v1__redrive_request__descriptor,   &tarry__v1__push_batch_request__descriptor,
        &tarry__v1__wait_request__descriptor,      &tarry__v1__apply_schedules_request__descriptor,
        &tarry__v1__watch_request__descriptor,
    };
    static void (*const tries[])(struct slice) = {try_timeout, try_frames,     try_error,
                                                  try_wire,    try_reflection, try_answer};
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
