/* status: each queue_status with its stable code (as it stands in answers) and a sentence that says
 * what to do. Pure. */
#ifndef TARRY_QUEUE_STATUS_H
#define TARRY_QUEUE_STATUS_H

#include "queue/queue.h"

/* "ok", "created", "not_found", "leased", …: never changes once released. */
const char *queue_status_code(enum queue_status status);

/* For people: what happened and what to do, in one sentence without a full stop. */
const char *queue_status_sentence(enum queue_status status);

/* True where the same push may succeed later: nothing is wrong with it. */
bool queue_status_is_for_later(enum queue_status status);

/* The limit that was met, by its name; NULL: none. */
const char *queue_status_limit(enum queue_status status);

/* True for OK, CREATED, REPLACED, EXISTED, CANCELLED. */
bool queue_status_is_success(enum queue_status status);

#endif
