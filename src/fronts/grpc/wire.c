#include "grpc/wire.h"

#include "base/json_read.h"

#include <assert.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5, VARINT_BYTES_MAX = 10 };

/* ---- writing ---- */

static size_t varint_bytes(uint64_t value)
{
    size_t bytes = 1;
    while (value >>= 7)
        bytes++;
    return bytes;
}

static size_t varint_write(char *out, uint64_t value)
{
    size_t len = 0;
    while (value >= 0x80) {
        out[len++] = (char)(value | 0x80);
        value >>= 7;
    }
    out[len++] = (char)value;
    return len;
}

static void varint_append(struct buffer *out, uint64_t value)
{
    char text[VARINT_BYTES_MAX];
    buffer_append(out, text, varint_write(text, value));
}

static void key_append(struct buffer *out, uint32_t field, uint32_t type)
{
    varint_append(out, (uint64_t)field << 3 | type);
}

void wire_u64(struct buffer *out, uint32_t field, uint64_t value)
{
    if (!value)
        return;
    key_append(out, field, WIRE_VARINT);
    varint_append(out, value);
}

void wire_flag(struct buffer *out, uint32_t field, bool value)
{
    wire_u64(out, field, value);
}

void wire_text(struct buffer *out, uint32_t field, struct slice text)
{
    if (!text.len)
        return;
    key_append(out, field, WIRE_BYTES);
    varint_append(out, text.len);
    buffer_append_slice(out, text);
}

void wire_unsafe_text(struct buffer *out, uint32_t field, struct slice text)
{
    size_t start = out->len;
    wire_text(out, field, text);
    if (out->failed || out->len == start || json_utf8_is_valid(text))
        return;
    for (size_t i = out->len - text.len; i < out->len; i++)
        if ((unsigned char)out->at[i] & 0x80)
            out->at[i] = '?';
}

/* Writes seconds and nanoseconds, which both types have. Times before 1970 do not occur. */
static void write_moment(struct buffer *out, uint32_t field, int64_t ms)
{
    if (ms <= 0)
        return;
    size_t begin = wire_begin(out, field, 16);
    wire_u64(out, 1, (uint64_t)(ms / 1000));
    wire_u64(out, 2, (uint64_t)(ms % 1000 * 1000000));
    wire_end(out, begin);
}

void wire_time(struct buffer *out, uint32_t field, int64_t ms)
{
    write_moment(out, field, ms);
}

void wire_duration(struct buffer *out, uint32_t field, int64_t ms)
{
    write_moment(out, field, ms);
}

/* The place of a length that is not known yet is as long as the length of `bytes`. The number of its bytes is in front of
 * the message while it is written: in its first byte. */
size_t wire_begin(struct buffer *out, uint32_t field, size_t bytes)
{
    char place[VARINT_BYTES_MAX] = {0};
    size_t len = varint_bytes(bytes);
    key_append(out, field, WIRE_BYTES);
    place[len - 1] = (char)len;
    buffer_append(out, place, len);
    return out->len;
}

void wire_end(struct buffer *out, size_t begin)
{
    if (out->failed)
        return;
    size_t bytes = out->len - begin, has = (size_t)out->at[begin - 1], needs = varint_bytes(bytes);
    assert(has >= 1 && has <= VARINT_BYTES_MAX);
    if (needs > has && !buffer_reserve(out, needs - has))
        return;
    if (needs != has)
        memmove(out->at + begin - has + needs, out->at + begin, bytes);
    out->len = begin - has + needs + bytes;
    (void)varint_write(out->at + begin - has, bytes);
}

/* ---- reading ---- */

static bool read_varint(struct slice message, size_t *at, uint64_t *out)
{
    *out = 0;
    for (uint32_t shift = 0; shift < 64 && *at < message.len; shift += 7) {
        unsigned char byte = (unsigned char)message.at[(*at)++];
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool read_bytes(struct slice message, size_t *at, uint64_t len, struct slice *out)
{
    if (len > message.len - *at)
        return false;
    *out = slice_make(message.at + *at, len);
    *at += len;
    return true;
}

/* Reads one field at *at. */
static bool read_field(struct slice message, size_t *at, struct wire_field *out)
{
    uint64_t key, len;
    *out = (struct wire_field){0};
    if (!read_varint(message, at, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
        return false;
    out->number = (uint32_t)(key >> 3);
    switch (key & 7) {
    case WIRE_VARINT:
        return read_varint(message, at, &out->value);
    case WIRE_FIXED64:
        return read_bytes(message, at, 8, &out->bytes);
    case WIRE_FIXED32:
        return read_bytes(message, at, 4, &out->bytes);
    case WIRE_BYTES:
        out->is_bytes = true;
        return read_varint(message, at, &len) && read_bytes(message, at, len, &out->bytes);
    default:
        return false;
    }
}

bool wire_next(struct slice message, size_t *at, struct wire_field *out)
{
    size_t next = *at;
    if (next >= message.len || !read_field(message, &next, out))
        return false;
    *at = next;
    return true;
}
