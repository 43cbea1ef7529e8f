#include "grpc/reflection.h"

#include "grpc/answer.h"
#include "grpc/frame.h"
#include "grpc/proto_texts.h"
#include "grpc/status.h"
#include "grpc/stream.h"
#include "grpc/wire.h"

#include <stdlib.h>

enum { REQUEST_BYTES_MAX = 16 * 1024, ANSWER_BYTES_MAX = 256 * 1024, FILES_MAX = 16 };

/* Fields of ServerReflectionRequest. */
enum { BY_FILENAME = 3, BY_SYMBOL = 4, BY_EXTENSION = 5, EXTENSIONS_OF = 6, LIST_SERVICES = 7 };
/* Fields of ServerReflectionResponse. */
enum { VALID_HOST = 1, ORIGINAL = 2, FILES = 4, EXTENSIONS = 5, SERVICES = 6, ERROR = 7 };
/* Fields of FileDescriptorProto. */
enum {
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6
};

/* ---- descriptors ---- */

/* Returns the first field with this number, or an empty text. */
static struct slice text_of(struct slice message, uint32_t number)
{
    struct wire_field field;
    size_t at = 0;
    while (wire_next(message, &at, &field))
        if (field.number == number && field.is_bytes)
            return field.bytes;
    return (struct slice){0};
}

/* Finds the file of that name in the set. */
static bool find_file(struct slice descriptors, struct slice name, struct slice *file)
{
    struct wire_field field;
    size_t at = 0;
    while (wire_next(descriptors, &at, &field)) {
        *file = field.bytes;
        if (field.number == 1 && slice_equals(text_of(field.bytes, FILE_NAME), name))
            return true;
    }
    return false;
}

/* Returns whether a symbol such as tarry.v1.Queue.Push is declared in the file. */
static bool declares(struct slice file, struct slice symbol)
{
    struct slice package = text_of(file, FILE_PACKAGE);
    struct wire_field field;
    size_t at = 0;
    if (symbol.len <= package.len + 1 || memcmp(symbol.at, package.at, package.len) != 0 ||
        symbol.at[package.len] != '.')
        return false;
    struct slice rest = slice_make(symbol.at + package.len + 1, symbol.len - package.len - 1);
    const char *dot = memchr(rest.at, '.', rest.len);
    struct slice first = slice_make(rest.at, dot ? (size_t)(dot - rest.at) : rest.len);
    while (wire_next(file, &at, &field))
        if ((field.number == FILE_MESSAGE || field.number == FILE_ENUM ||
             field.number == FILE_SERVICE) &&
            slice_equals(text_of(field.bytes, 1), first))
            return true;
    return false;
}

static bool find_symbol(struct slice descriptors, struct slice symbol, struct slice *file)
{
    struct wire_field field;
    size_t at = 0;
    while (wire_next(descriptors, &at, &field)) {
        *file = field.bytes;
        if (field.number == 1 && declares(field.bytes, symbol))
            return true;
    }
    return false;
}

/* ---- answers ---- */

/* Adds a file after the files that it imports, each once. */
static void add_files(struct buffer *out, struct slice descriptors, struct slice file,
                      struct slice added[FILES_MAX], size_t *count)
{
    struct wire_field field;
    struct slice import;
    size_t at = 0;
    for (size_t i = 0; i < *count; i++)
        if (added[i].at == file.at)
            return;
    if (*count == FILES_MAX)
        return;
    added[(*count)++] = file;
    wire_text(out, 1, file);
    while (wire_next(file, &at, &field))
        if (field.number == FILE_DEPENDENCY && find_file(descriptors, field.bytes, &import))
            add_files(out, descriptors, import, added, count);
}

static void answer_file(struct buffer *out, struct slice descriptors, struct slice file)
{
    struct slice added[FILES_MAX];
    size_t count = 0, begin = wire_begin(out, FILES, 8192);
    add_files(out, descriptors, file, added, &count);
    wire_end(out, begin);
}

static void answer_services(struct buffer *out, struct slice descriptors)
{
    struct wire_field file, field;
    size_t at = 0, begin = wire_begin(out, SERVICES, 120);
    while (wire_next(descriptors, &at, &file)) {
        size_t in = 0;
        while (wire_next(file.bytes, &in, &field)) {
            if (field.number != FILE_SERVICE)
                continue;
            struct slice package = text_of(file.bytes, FILE_PACKAGE),
                         name = text_of(field.bytes, 1);
            char text[128];
            if (package.len + name.len + 1 >= sizeof text)
                continue;
            memcpy(text, package.at, package.len);
            text[package.len] = '.';
            memcpy(text + package.len + 1, name.at, name.len);
            size_t service = wire_begin(out, 1, 40);
            wire_text(out, 1, slice_make(text, package.len + 1 + name.len));
            wire_end(out, service);
        }
    }
    wire_end(out, begin);
}

static void answer_error(struct buffer *out, enum grpc_status status, const char *text)
{
    size_t begin = wire_begin(out, ERROR, 60);
    wire_u64(out, 1, (uint64_t)status);
    wire_text(out, 2, slice_of(text));
    wire_end(out, begin);
}

static void answer_one(struct buffer *out, struct slice descriptors, const struct wire_field *asked)
{
    struct slice file;
    switch (asked->number) {
    case BY_FILENAME:
        if (find_file(descriptors, asked->bytes, &file))
            answer_file(out, descriptors, file);
        else
            answer_error(out, GRPC_NOT_FOUND, "there is no such file");
        return;
    case BY_SYMBOL:
        if (find_symbol(descriptors, asked->bytes, &file))
            answer_file(out, descriptors, file);
        else
            answer_error(out, GRPC_NOT_FOUND, "there is no such symbol");
        return;
    case EXTENSIONS_OF:
        if (find_symbol(descriptors, asked->bytes, &file)) {
            size_t begin = wire_begin(out, EXTENSIONS, 40);
            wire_text(out, 1, asked->bytes);
            wire_end(out, begin);
        } else {
            answer_error(out, GRPC_NOT_FOUND, "there is no such type");
        }
        return;
    case LIST_SERVICES:
        answer_services(out, descriptors);
        return;
    default:
        answer_error(out, asked->number == BY_EXTENSION ? GRPC_NOT_FOUND : GRPC_UNIMPLEMENTED,
                     "there are no extensions");
    }
}

bool reflection_answer(struct slice descriptors, struct slice request, struct buffer *out)
{
    struct wire_field field, asked = {0};
    size_t at = 0;
    while (wire_next(request, &at, &field)) {
        if (field.number == 1)
            wire_unsafe_text(out, VALID_HOST, field.bytes);
        if (field.number >= BY_FILENAME && field.number <= LIST_SERVICES && field.is_bytes)
            asked = field;
    }
    if (at != request.len)
        return false;
    wire_text(out, ORIGINAL, request);
    answer_one(out, descriptors, &asked);
    return true;
}

/* ---- the call ---- */

struct reflection {
    struct http2_call *call;
    struct buffer in;
    bool has_ended;
};

static bool answer_message(struct reflection *reflection, struct slice message,
                           struct http_fault *fault)
{
    struct buffer out;
    buffer_init(&out, ANSWER_BYTES_MAX);
    (void)frame_begin(&out);
    bool is_good =
        reflection_answer(slice_make(grpc_descriptors_text, grpc_descriptors_bytes), message, &out);
    frame_end(&out, FRAME_HEAD_BYTES);
    if (!is_good)
        (void)http_fault_set(fault, PROBLEM_BAD_REQUEST, 0, "the message is malformed");
    else if (out.failed)
        is_good = http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (is_good)
        (void)http2_send(reflection->call, buffer_slice(&out));
    buffer_fini(&out);
    return is_good;
}

static void on_data(void *ctx, struct slice bytes)
{
    struct reflection *reflection = ctx;
    struct http_fault fault = {0};
    struct slice message;
    size_t at = 0;
    http2_consumed(reflection->call, bytes.len);
    if (reflection->has_ended)
        return;
    bool is_good = stream_add(&reflection->in, bytes, REQUEST_BYTES_MAX, &fault);
    while (is_good && stream_next(&reflection->in, &at, REQUEST_BYTES_MAX, &message, &fault))
        is_good = answer_message(reflection, message, &fault);
    stream_drop(&reflection->in, at);
    if (is_good && !fault.problem)
        return;
    reflection->has_ended = true;
    stream_refuse_fault(reflection->call, &fault);
}

static void on_end(void *ctx)
{
    struct reflection *reflection = ctx;
    if (!reflection->has_ended)
        stream_end(reflection->call);
    reflection->has_ended = true;
}

static void on_close(void *ctx, uint64_t written, bool is_whole)
{
    struct reflection *reflection = ctx;
    (void)written;
    (void)is_whole;
    buffer_fini(&reflection->in);
    free(reflection);
}

void reflection_begin(struct http_call *call)
{
    static const struct http2_receiver receiver = {
        .on_data = on_data, .on_end = on_end, .on_drain = on_end, .on_close = on_close};
    struct reflection *reflection = calloc(1, sizeof *reflection);
    if (!reflection) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    (void)http_answer_start(call->exchange);
    reflection->call =
        http2_open(call->exchange, call->caller, GRPC_CONTENT_TYPE, &receiver, reflection);
    if (!reflection->call)
        free(reflection);
}
