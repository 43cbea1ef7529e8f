/* local_time: times in the user's time zone. */
#ifndef TARRY_CLI_LOCAL_TIME_H
#define TARRY_CLI_LOCAL_TIME_H

#include "base/timestamp.h"

#include <stdbool.h>

/* Warns once per run if TZ names an unknown time zone. */
void local_time_warn(void);

/* Reverses show_time and show_time_from_now for the value of option `name`. Writes RFC 3339 to
 * `out`; a value without an offset is a local time. Writes "" if the value has another form,
 * which the server may accept. Returns false after printing an error if the local time does not
 * exist or is ambiguous. */
bool local_time_read(const char *name, const char *value, char out[TIMESTAMP_BYTES + 1]);

#endif
