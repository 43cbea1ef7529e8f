/*
 * duration: lengths of time as people write them. Pure.
 *
 * Grammar: one or more of NUMBER UNIT, units d h m s ms in falling order, each at most once
 * ("2h30m", "1500ms", "7d"); or 0, the only number that needs no unit: of any other one it is not
 * known whether seconds or milliseconds are meant. NUMBER is decimal digits, with a fraction of 1 to 9
 * digits allowed in the last part ("1.5s"), rounded up to a whole millisecond. No sign, no blanks.
 *
 * Or as ISO 8601 writes those whose length is known: "PT30M", "P1DT2H", "P2W", "PT1.5S" or "PT1,5S",
 * in capitals. Years and months have no length of their own and are refused.
 */
#ifndef TARRY_BASE_DURATION_H
#define TARRY_BASE_DURATION_H

#include "base/buffer.h"

/* True and *ms on success; false, *ms untouched, on anything malformed or above `ms_max`. */
bool duration_parse(struct slice text, int64_t ms_max, int64_t *ms);

/* Whether `text` is a number other than 0 without a unit, or holds one as "fixed:10" and "exp:1s..10" do.
 * Why duration_parse refused it, for an error. */
bool duration_lacks_unit(struct slice text);

/* Exact, the larger units first, and milliseconds not split from seconds: "0", "1500ms", "30s",
 * "2h30m", "1m1500ms". `ms` is not negative. */
void duration_emit(struct buffer *out, int64_t ms);

#endif
