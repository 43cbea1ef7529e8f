/* local_time: times as the user's clocks show them. */
#ifndef TARRY_CLI_LOCAL_TIME_H
#define TARRY_CLI_LOCAL_TIME_H

#include "base/timestamp.h"

#include <stdbool.h>

/* Warns, once in a run, that TZ names a time zone that the system does not know. */
void local_time_warn(void);

/* The reverse of show_time and show_time_from_now, for the value of an option `name`: RFC 3339 into
 * `out`; without an offset it is a local time. "" if the value is written in another way, which the
 * server may know. False, explained: no such local time exists, or two do. */
bool local_time_read(const char *name, const char *value, char out[TIMESTAMP_BYTES + 1]);

#endif
