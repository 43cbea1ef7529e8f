/*
 * buffer: bytes that grow at the end, never past a ceiling.
 *
 * Owner: the caller's storage; the bytes are on the heap. Not for sharing between threads.
 * What can go wrong: the ceiling is met or memory runs out. Then `failed` is set, the content stays
 * as it was before the append that failed, and every later append does nothing: check once, at the
 * end.
 */
#ifndef TARRY_BASE_BUFFER_H
#define TARRY_BASE_BUFFER_H

#include "base/slice.h"

#include <stdint.h>

struct buffer {
    char *at;
    size_t len;       /* bytes in use */
    size_t cap;       /* bytes allocated */
    size_t bytes_max; /* the ceiling */
    bool failed;
};

void buffer_init(struct buffer *buffer, size_t bytes_max);
void buffer_fini(struct buffer *buffer);

/* Empties it; keeps the memory and forgets a failure. */
void buffer_clear(struct buffer *buffer);

/* Empties it and gives memory beyond `bytes_kept` back. */
void buffer_shrink(struct buffer *buffer, size_t bytes_kept);

/* Room for `bytes` more at the end; returns where they go, or NULL (failed). Advance with `len +=`.
 */
char *buffer_reserve(struct buffer *buffer, size_t bytes);

void buffer_append(struct buffer *buffer, const void *bytes, size_t len);
void buffer_append_slice(struct buffer *buffer, struct slice slice);
void buffer_append_text(struct buffer *buffer, const char *text);
void buffer_append_u64(struct buffer *buffer, uint64_t value); /* decimal */
void buffer_append_i64(struct buffer *buffer, int64_t value);  /* decimal */
void buffer_append_format(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline void buffer_append_byte(struct buffer *buffer, char byte)
{
    if (buffer->len < buffer->cap && !buffer->failed)
        buffer->at[buffer->len++] = byte;
    else
        buffer_append(buffer, &byte, 1);
}

/* Where it lies then. It is lost when the buffer grows: who keeps several reserves room for all of them first. */
static inline struct slice buffer_append_copy(struct buffer *buffer, struct slice slice)
{
    const char *at = buffer->at + buffer->len;
    buffer_append_slice(buffer, slice);
    return slice_make(at, slice.len);
}

static inline struct slice buffer_slice(const struct buffer *buffer)
{
    return (struct slice){.at = buffer->at, .len = buffer->len};
}

#endif
