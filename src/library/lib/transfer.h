/*
 * transfer: the destination of an export or the source of an import, either a descriptor or a
 * function of the caller's, and the progress it reports. Used only in this room.
 *
 * The line format is that of `tarry export`.
 */
#ifndef TARRY_LIB_TRANSFER_H
#define TARRY_LIB_TRANSFER_H

#include "base/buffer.h"
#include "lib/state.h"

struct transfer {
    struct tarry_transfer asked;
    struct tarry_transfer report; /* only the reported fields are used */
};

/* Reads the caller's options. Returns TARRY_OK or TARRY_BAD_OPTION. */
int transfer_begin(struct transfer *transfer, const struct tarry_transfer *from, bool reads);
/* Writes the reported fields into the caller's struct and returns `code`. */
int transfer_end(const struct transfer *transfer, struct tarry_transfer *into, int code);

/* Writes all lines. Returns TARRY_OK or TARRY_IO_FAILED. */
int transfer_write(const struct transfer *transfer, const struct buffer *lines);
/* Appends up to `bytes` bytes to `into`; sets *is_end at the end of the input. */
int transfer_read(const struct transfer *transfer, struct buffer *into, size_t bytes, bool *is_end);

#endif
