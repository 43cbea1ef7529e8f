#include "grpc/frame.h"

enum frame_step frame_next(struct slice bytes, size_t bytes_max, struct slice *message,
                           size_t *used)
{
    if (bytes.len && bytes.at[0] != 0)
        return bytes.at[0] == 1 ? FRAME_COMPRESSED : FRAME_MALFORMED;
    if (bytes.len < FRAME_HEAD_BYTES)
        return FRAME_MORE;
    const unsigned char *at = (const unsigned char *)bytes.at;
    size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
    if (len > bytes_max)
        return FRAME_TOO_BIG;
    if (len > bytes.len - FRAME_HEAD_BYTES)
        return FRAME_MORE;
    *message = slice_make(bytes.at + FRAME_HEAD_BYTES, len);
    *used = FRAME_HEAD_BYTES + len;
    return FRAME_WHOLE;
}

size_t frame_begin(struct buffer *out)
{
    static const char head[FRAME_HEAD_BYTES];
    buffer_append(out, head, sizeof head);
    return out->len;
}

void frame_end(struct buffer *out, size_t begin)
{
    if (out->failed)
        return;
    size_t len = out->len - begin;
    char *at = out->at + begin - FRAME_HEAD_BYTES;
    at[1] = (char)(len >> 24);
    at[2] = (char)(len >> 16);
    at[3] = (char)(len >> 8);
    at[4] = (char)len;
}
