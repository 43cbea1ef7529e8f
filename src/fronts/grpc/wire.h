/*
 * wire: the encoding of protobuf, written in place into a buffer, and read field by field.
 *
 * Answers are written directly from the values of the queue, whose texts have no terminating NUL. Requests of the queue
 * are decoded by the generated code (arena.h); wire_next reads only small messages. Pure.
 */
#ifndef TARRY_GRPC_WIRE_H
#define TARRY_GRPC_WIRE_H

#include "base/buffer.h"

/* ---- writing: zero and empty values are left out, as in proto3 ---- */

void wire_u64(struct buffer *out, uint32_t field, uint64_t value);
void wire_flag(struct buffer *out, uint32_t field, bool value);
void wire_text(struct buffer *out, uint32_t field, struct slice text);
/* Writes a text of unknown origin. Bytes that are not UTF-8 become '?', because clients reject a message with them. */
void wire_unsafe_text(struct buffer *out, uint32_t field, struct slice text);
/* Write a google.protobuf.Timestamp or Duration; 0 is left out. */
void wire_time(struct buffer *out, uint32_t field, int64_t ms);
void wire_duration(struct buffer *out, uint32_t field, int64_t ms);

/* Begins a nested message of about `bytes`; returns where it begins, for wire_end. An empty message is kept. */
size_t wire_begin(struct buffer *out, uint32_t field, size_t bytes);
void wire_end(struct buffer *out, size_t begin);

/* ---- reading ---- */

struct wire_field {
    uint32_t number;
    bool is_bytes;
    uint64_t value;     /* of a number */
    struct slice bytes; /* of a text, bytes or message */
};

/* Reads the next field and advances *at. Returns false at the end, and if the message is malformed; then *at is not
 * message.len. */
bool wire_next(struct slice message, size_t *at, struct wire_field *out);

#endif
