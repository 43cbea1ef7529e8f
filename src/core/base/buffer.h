/*
 * buffer: a byte buffer that grows at the end, up to a maximum size.
 *
 * The caller owns the structure; the bytes are on the heap. Not thread-safe. If the maximum is
 * reached or memory runs out, `failed` is set, the content stays as it was before the failed
 * append, and every later append does nothing. So one check at the end is enough.
 */
#ifndef TARRY_BASE_BUFFER_H
#define TARRY_BASE_BUFFER_H

#include "base/slice.h"

#include <stdint.h>
#include <string.h>

struct buffer {
    char *at;
    size_t len;       /* bytes in use */
    size_t cap;       /* bytes allocated */
    size_t bytes_max; /* the maximum size */
    bool failed;
};

void buffer_init(struct buffer *buffer, size_t bytes_max);
void buffer_fini(struct buffer *buffer);

/* Empties the buffer. Keeps the memory and clears a failure. */
void buffer_clear(struct buffer *buffer);

/* Empties the buffer and frees memory beyond `bytes_kept`. Clears a failure. */
void buffer_clear_and_trim(struct buffer *buffer, size_t bytes_kept);

/* Reserves `bytes` more at the end. Returns their address, or NULL (failed). Advance with `len
 * +=`. */
char *buffer_reserve(struct buffer *buffer, size_t bytes);

void buffer_append(struct buffer *buffer, const void *bytes, size_t len);
void buffer_append_u64(struct buffer *buffer, uint64_t value); /* decimal */
void buffer_append_i64(struct buffer *buffer, int64_t value);  /* decimal */
void buffer_append_format(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void buffer_append_slice(struct buffer *buffer, struct slice slice)
{
    buffer_append(buffer, slice.at, slice.len);
}

static inline void buffer_append_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

static inline void buffer_append_byte(struct buffer *buffer, char byte)
{
    if (buffer->len < buffer->cap && !buffer->failed)
        buffer->at[buffer->len++] = byte;
    else
        buffer_append(buffer, &byte, 1);
}

/* Appends `slice` and returns the copy; an empty slice if that failed. An append that grows the
 * buffer invalidates all earlier copies: to keep several, reserve space for all of them first. */
static inline struct slice buffer_append_copy(struct buffer *buffer, struct slice slice)
{
    buffer_append_slice(buffer, slice);
    return buffer->failed ? slice_make(NULL, 0)
                          : slice_make(buffer->at + buffer->len - slice.len, slice.len);
}

static inline struct slice buffer_slice(const struct buffer *buffer)
{
    return (struct slice){.at = buffer->at, .len = buffer->len};
}

#endif
