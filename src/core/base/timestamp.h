/*
 * timestamp: points in time as text. Pure.
 *
 * Parses RFC 3339 ("2026-11-20T09:00:00Z", with an optional fraction of a second and offset
 * "+08:00") or a bare number of milliseconds since 1970 UTC. Fractions below a millisecond round
 * up. Second 60 is read as second 0 of the next minute, and only at 23:59 UTC, where leap seconds
 * occur. Years 1970..9999. Emits RFC 3339 UTC with milliseconds, always 24 bytes:
 * "2026-11-20T09:00:00.000Z".
 */
#ifndef TARRY_BASE_TIMESTAMP_H
#define TARRY_BASE_TIMESTAMP_H

#include "base/buffer.h"

enum { TIMESTAMP_BYTES = 24 };

/* The minimum bare number. A smaller number is before 1973 as milliseconds but decades later as
 * seconds, so the user probably meant seconds. */
#define TIMESTAMP_BARE_MS_MIN INT64_C(94694400000)
bool timestamp_is_in_seconds(struct slice text);

/* Returns true and sets *ms. Returns false and leaves *ms unchanged if `text` is malformed. */
bool timestamp_parse(struct slice text, int64_t *ms);

/* Returns whether the text would be a time if it had an offset, as in "2026-11-20T09:00". */
bool timestamp_lacks_zone(struct slice text);

/* Writes exactly TIMESTAMP_BYTES. `ms` is clamped to the years 1970..9999. */
void timestamp_write(char out[TIMESTAMP_BYTES], int64_t ms);
void timestamp_emit(struct buffer *out, int64_t ms);

#endif
