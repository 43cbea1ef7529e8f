/* buffer_put: appends literals to a buffer. Their length is a constant, so the copy is a few moves: for the text of
 * frequent answers. */
#ifndef TARRY_BASE_BUFFER_PUT_H
#define TARRY_BASE_BUFFER_PUT_H

#include "base/buffer.h"

#define BUFFER_PUT(BUFFER, TEXT) buffer_put((BUFFER), (TEXT), sizeof(TEXT) - 1)

static inline __attribute__((always_inline)) void buffer_put(struct buffer *buffer,
                                                             const char *text, size_t len)
{
    size_t end = buffer->len + len;
    if (buffer->failed || end > buffer->cap || end > buffer->bytes_max) {
        buffer_append(buffer, text, len);
        return;
    }
    memcpy(buffer->at + buffer->len, text, len);
    buffer->len = end;
}

#endif
