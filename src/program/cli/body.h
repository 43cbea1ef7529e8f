/* body: what a job's body is, and where it comes from. */
#ifndef TARRY_CLI_BODY_H
#define TARRY_CLI_BODY_H

#include "base/buffer.h"

enum { BODY_BYTES_MAX = 64 << 20 };

/* "application/json" for an object or array, "text/plain; charset=utf-8" for other UTF-8, else
 * "application/octet-stream". Pure. */
const char *body_guess_type(struct slice body);

/* The whole of a file, or of standard input for "-", onto `out`. An exit code, explained. */
int body_read(const char *path, struct buffer *out);

#endif
