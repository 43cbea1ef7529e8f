/*
 * duration: durations as people write them. Pure.
 *
 * Grammar: one or more of NUMBER UNIT, with the units d h m s ms in descending order, each at most
 * once ("2h30m", "1500ms", "7d"). Only 0 may be without a unit: 30 could mean seconds or
 * milliseconds. NUMBER is decimal digits. The last part may have a fraction of 1 to 9 digits
 * ("1.5s"), rounded up to a whole millisecond. No sign, no blanks.
 *
 * ISO 8601 durations of a fixed length are also accepted: "PT30M", "P1DT2H", "P2W", "PT1.5S" or
 * "PT1,5S", in capitals. Years and months have no fixed length and are refused.
 */
#ifndef TARRY_BASE_DURATION_H
#define TARRY_BASE_DURATION_H

#include "base/buffer.h"

/* Returns true and sets *ms. Returns false and leaves *ms unchanged if `text` is malformed or above
 * `ms_max`. */
bool duration_parse(struct slice text, int64_t ms_max, int64_t *ms);

/* Returns whether `text`, or a part of it between ':', ".." and ',', consists of digits only and is not
 * 0: "10", "fixed:10", "exp:1s..10", "list:1s,10". Use it to choose the text of the error when duration_parse has
 * refused. */
bool duration_lacks_unit(struct slice text);

/* Appends the exact duration, larger units first, with milliseconds not split from seconds: "0",
 * "1500ms", "30s", "2h30m", "1m1500ms". `ms` is not negative. */
void duration_emit(struct buffer *out, int64_t ms);

#endif
