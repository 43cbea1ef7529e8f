/* lines: a file or pipe, line by line, without waiting where nothing is there yet. One thread. */
#ifndef TARRY_CLI_LINES_H
#define TARRY_CLI_LINES_H

#include "base/buffer.h"

enum { LINES_BYTES_MAX = 256 << 20 }; /* of one line */

struct lines {
    int fd;
    struct buffer bytes;
    size_t at;      /* what is before it was handed out */
    size_t scanned; /* no line end before it */
    bool is_over;
    int error; /* errno; 0: none */
};

void lines_init(struct lines *lines, int fd);
void lines_fini(struct lines *lines);

enum lines_next { LINES_ONE = 1, LINES_NONE_YET, LINES_OVER, LINES_FAILED };

/* LINES_ONE: *out is the next one, without its end, good until the next call; *bytes is what it
 * took in the file. LINES_NONE_YET: wait until fd is readable. */
enum lines_next lines_next(struct lines *lines, struct slice *out, size_t *bytes);

#endif
