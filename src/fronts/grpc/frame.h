/*
 * frame: a message of gRPC behind its five bytes: a flag, which is 0 for an uncompressed message, and the length. Pure.
 */
#ifndef TARRY_GRPC_FRAME_H
#define TARRY_GRPC_FRAME_H

#include "base/buffer.h"

enum { FRAME_HEAD_BYTES = 5 };

enum frame_step {
    FRAME_MORE = 1,   /* the message is incomplete */
    FRAME_WHOLE,      /* *message is set; the frame had *used bytes */
    FRAME_COMPRESSED, /* the message is compressed, which is not supported */
    FRAME_TOO_BIG,    /* the message is longer than `bytes_max` */
    FRAME_MALFORMED   /* the flag is unknown */
};

/* Reads the first message of `bytes`. */
enum frame_step frame_next(struct slice bytes, size_t bytes_max, struct slice *message,
                           size_t *used);

/* Begins a message at the end of `out`; returns where, for frame_end, which sets its length. */
size_t frame_begin(struct buffer *out);
void frame_end(struct buffer *out, size_t begin);

#endif
