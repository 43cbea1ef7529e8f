/*
 * transfer: where an export goes and an import comes from, a descriptor or a function of the caller's, and what it tells. This
 * room only. The form of the lines is that of `tarry export`.
 */
#ifndef TARRY_LIB_TRANSFER_H
#define TARRY_LIB_TRANSFER_H

#include "base/buffer.h"
#include "lib/state.h"

struct transfer {
    struct tarry_transfer asked;
    struct tarry_transfer told; /* only what it tells counts */
};

/* Reads what the caller asks for; TARRY_BAD_OPTION. */
int transfer_begin(struct transfer *transfer, const struct tarry_transfer *from, bool reads);
/* Writes what it tells into the caller's struct, and returns the code. */
int transfer_end(const struct transfer *transfer, struct tarry_transfer *into, int code);

/* All of it: TARRY_OK or TARRY_IO_FAILED. */
int transfer_write(const struct transfer *transfer, const struct buffer *lines);
/* Appends up to so many bytes; *is_end: there is nothing more. */
int transfer_read(const struct transfer *transfer, struct buffer *into, size_t bytes, bool *is_end);

#endif
