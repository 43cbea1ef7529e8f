/* body: reading a job's body and guessing its content type. */
#ifndef TARRY_CLI_BODY_H
#define TARRY_CLI_BODY_H

#include "base/buffer.h"

enum { BODY_BYTES_MAX = 64 << 20 };

/* Returns "application/json" for an object or array, "text/plain; charset=utf-8" for other
 * UTF-8, and "application/octet-stream" for anything else. Pure. */
const char *body_guess_type(struct slice body);

/* Checks that a body with a JSON content type is JSON. Returns an exit code; errors are printed. */
int body_check(const char *type, struct slice body);

/* Appends a whole file, or standard input for "-", to `out`. Returns an exit code; errors are
 * printed. */
int body_read(const char *path, struct buffer *out);

#endif
