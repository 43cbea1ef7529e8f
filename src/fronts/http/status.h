/* status: the statuses of answers, and their lines in HTTP/1.1. Pure. */
#ifndef TARRY_HTTP_STATUS_H
#define TARRY_HTTP_STATUS_H

#include <stddef.h>
#include <stdint.h>

/* Returns the index of a status in the counters, below HTTP_STATUSES; that of 500 if it is not
 * listed. */
size_t http_status_index(uint16_t status);
/* Returns the HTTP status at an index, or 0 at the end. */
uint16_t http_status_at(size_t index);
/* Returns the status line and the name of the field that always follows it. */
const char *http_status_line(uint16_t status);

#endif
