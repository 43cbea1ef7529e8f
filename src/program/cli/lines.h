/* lines: reads a file or pipe line by line, without waiting for input. One thread. */
#ifndef TARRY_CLI_LINES_H
#define TARRY_CLI_LINES_H

#include "base/buffer.h"

enum { LINES_BYTES_MAX = 256 << 20 }; /* maximum length of one line */

struct lines {
    int fd;
    struct buffer bytes;
    size_t at;      /* bytes before it were returned */
    size_t scanned; /* there is no line end before it */
    bool is_over;
    int error; /* errno; 0: no error */
};

void lines_init(struct lines *lines, int fd);
void lines_fini(struct lines *lines);

enum lines_next { LINES_ONE = 1, LINES_NONE_YET, LINES_OVER, LINES_FAILED };

/* Returns LINES_ONE with the next line in *out, without its line end and valid until the next
 * call, and the bytes that it used in the file in *bytes. Returns LINES_NONE_YET if the caller
 * must wait until fd is readable. */
enum lines_next lines_next(struct lines *lines, struct slice *out, size_t *bytes);

#endif
