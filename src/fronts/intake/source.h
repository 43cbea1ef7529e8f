/* source: the parameters of a source URL, ?NAME=VALUE&…, percent-encoded. Pure. */
#ifndef TARRY_INTAKE_SOURCE_H
#define TARRY_INTAKE_SOURCE_H

#include "base/slice.h"

#include <stdbool.h>

/* Sets the parameters one after the other. `set` receives decoded values and returns false with
 * `error` (INTAKE_ERROR_BYTES), as this does. */
bool intake_source_read(struct slice query,
                        bool (*set)(void *ctx, struct slice name, struct slice value, char *error),
                        void *ctx, char *error);
/* Copies a value with a NUL. Returns false if it does not fit or contains a NUL. */
bool intake_source_copy(struct slice value, char *out, size_t out_bytes);
/* Copies the name of a topic of jobs. Returns false with `error`; `name` is that of the parameter. */
bool intake_source_topic(struct slice name, struct slice value, char *out, char *error);
/* Sets `error` (INTAKE_ERROR_BYTES). Returns false. */
bool intake_source_fail(char *error, const char *what, struct slice subject, const char *advice);

#endif
