#include "base/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFER_BYTES_FIRST = 64, FORMAT_BYTES_USUAL = 512, U64_DIGITS_MAX = 20 };

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
                                  "25262728293031323334353637383940414243444546474849"
                                  "50515253545556575859606162636465666768697071727374"
                                  "75767778798081828384858687888990919293949596979899";

void buffer_init(struct buffer *buffer, size_t bytes_max)
{
    *buffer = (struct buffer){.bytes_max = bytes_max};
}

void buffer_fini(struct buffer *buffer)
{
    free(buffer->at);
    *buffer = (struct buffer){.bytes_max = buffer->bytes_max};
}

void buffer_clear(struct buffer *buffer)
{
    buffer->len = 0;
    buffer->failed = false;
}

void buffer_clear_and_trim(struct buffer *buffer, size_t bytes_kept)
{
    buffer_clear(buffer);
    if (buffer->cap <= bytes_kept)
        return;
    /* Free and allocate instead of realloc: the buffer is empty, so there is nothing to copy. */
    free(buffer->at);
    buffer->at = bytes_kept > 0 ? malloc(bytes_kept) : NULL;
    buffer->cap = buffer->at ? bytes_kept : 0;
}

/* Makes room for `needed` bytes in total. At least doubles, so that appending stays linear. */
static bool buffer_grow(struct buffer *buffer, size_t needed)
{
    size_t cap = buffer->cap < BUFFER_BYTES_FIRST ? BUFFER_BYTES_FIRST : buffer->cap;
    if (buffer->cap > 0)
        cap = buffer->cap <= buffer->bytes_max / 2 ? cap * 2 : buffer->bytes_max;
    if (cap > buffer->bytes_max)
        cap = buffer->bytes_max;
    if (cap < needed)
        cap = needed;
    char *at = realloc(buffer->at, cap > 0 ? cap : 1);
    if (!at)
        return false;
    buffer->at = at;
    buffer->cap = cap;
    return true;
}

char *buffer_reserve(struct buffer *buffer, size_t bytes)
{
    assert(buffer->len <= buffer->cap);
    if (buffer->failed)
        return NULL;
    if (bytes > buffer->bytes_max || buffer->len > buffer->bytes_max - bytes) {
        buffer->failed = true;
        return NULL;
    }
    size_t needed = buffer->len + bytes;
    if ((needed > buffer->cap || !buffer->at) && !buffer_grow(buffer, needed)) {
        buffer->failed = true;
        return NULL;
    }
    return buffer->at + buffer->len;
}

/* Appends nothing, or bytes for which the buffer must grow, or that it cannot hold. */
static __attribute__((noinline)) void append_slowly(struct buffer *buffer, const void *bytes,
                                                    size_t len)
{
    char *into = len > 0 ? buffer_reserve(buffer, len) : NULL;
    if (!into)
        return;
    memcpy(into, bytes, len);
    buffer->len += len;
}

void buffer_append(struct buffer *buffer, const void *bytes, size_t len)
{
    size_t end = buffer->len + len; /* wraps only for more bytes than any maximum */
    bool has_room = end > buffer->len && end <= buffer->cap && end <= buffer->bytes_max;
    if (!has_room || buffer->failed) {
        append_slowly(buffer, bytes, len);
        return;
    }
    char *into = buffer->at + buffer->len;
    buffer->len = end;
    memcpy(into, bytes, len);
}

void buffer_append_u64(struct buffer *buffer, uint64_t value)
{
    char digits[U64_DIGITS_MAX];
    size_t from = sizeof digits;

    for (; value >= 100; value /= 100) {
        from -= 2;
        memcpy(digits + from, digit_pairs + value % 100 * 2, 2);
    }
    if (value >= 10) {
        from -= 2;
        memcpy(digits + from, digit_pairs + value * 2, 2);
    } else {
        digits[--from] = (char)('0' + value);
    }
    buffer_append(buffer, digits + from, sizeof digits - from);
}

void buffer_append_i64(struct buffer *buffer, int64_t value)
{
    char digits[1 + U64_DIGITS_MAX];
    struct buffer number = {.at = digits, .cap = sizeof digits, .bytes_max = sizeof digits};

    if (value < 0)
        buffer_append_byte(&number, '-');
    /* Negated as unsigned, because the lowest value has no positive counterpart. */
    buffer_append_u64(&number, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    buffer_append(buffer, number.at, number.len);
}

void buffer_append_format(struct buffer *buffer, const char *format, ...)
{
    char usual[FORMAT_BYTES_USUAL], *longer = NULL;
    va_list arguments;

    va_start(arguments, format);
    int len = vsnprintf(usual, sizeof usual, format, arguments);
    va_end(arguments);
    if (len >= (int)sizeof usual) {
        va_start(arguments, format);
        len = vasprintf(&longer, format, arguments);
        va_end(arguments);
    }
    if (len < 0) {
        buffer->failed = true;
        return;
    }
    buffer_append(buffer, longer ? longer : usual, (size_t)len);
    free(longer);
}
