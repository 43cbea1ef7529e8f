/*
 * timestamp: points in time as text. Pure.
 *
 * Parse: RFC 3339 ("2026-11-20T09:00:00Z", fraction of a second, offset "+08:00"; fractions below a
 * millisecond round up; second 60 is taken as the next minute's 0, and only at 23:59 UTC, where
 * leap seconds are), or a bare number of milliseconds since 1970 UTC. Years 1970..9999. Emit: RFC
 * 3339 UTC with milliseconds, always 24 bytes: "2026-11-20T09:00:00.000Z".
 */
#ifndef TARRY_BASE_TIMESTAMP_H
#define TARRY_BASE_TIMESTAMP_H

#include "base/buffer.h"

enum { TIMESTAMP_BYTES = 24 };

/* A bare number below is before 1973 as milliseconds, and years away as seconds: who writes it means
 * those. */
#define TIMESTAMP_BARE_MS_MIN INT64_C(94694400000)
bool timestamp_is_in_seconds(struct slice text);

/* True and *ms on success; false, *ms untouched, on anything malformed. */
bool timestamp_parse(struct slice text, int64_t *ms);

/* Writes exactly TIMESTAMP_BYTES. `ms` is clamped into years 1970..9999. */
void timestamp_write(char out[TIMESTAMP_BYTES], int64_t ms);
void timestamp_emit(struct buffer *out, int64_t ms);

#endif
