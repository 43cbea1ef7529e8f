/* take: what every front notes when it hands out jobs. */
#ifndef TARRY_API_TAKE_H
#define TARRY_API_TAKE_H

#include "http/state.h"

/* Records jobs that are about to be sent: their lateness, their consumer, and their traces. All have the same
 * consumer. */
void api_take_note(struct http_front *front, const struct queue_job *jobs, size_t count);

#endif
