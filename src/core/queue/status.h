/* status: the stable code of each queue_status, as sent in answers, and a sentence with the cause and the remedy.
 * Pure. */
#ifndef TARRY_QUEUE_STATUS_H
#define TARRY_QUEUE_STATUS_H

#include "queue/queue.h"

/* Returns the code: "ok", "created", "not_found", "leased", …; it never changes once released. */
const char *queue_status_code(enum queue_status status);

/* Returns a sentence for people: what happened and what to do, without a full stop. */
const char *queue_status_sentence(enum queue_status status);

/* Returns whether the same push may succeed later, because the push itself is valid. */
bool queue_status_is_for_later(enum queue_status status);

/* Returns the name of the limit that was exceeded; NULL: no limit. */
const char *queue_status_limit(enum queue_status status);

/* Returns true for OK, CREATED, REPLACED, EXISTED, CANCELLED. */
bool queue_status_is_success(enum queue_status status);

#endif
