/* view: a schedule and its fires as JSON, and the schedule that a reply has. */
#ifndef TARRY_CADENCE_VIEW_H
#define TARRY_CADENCE_VIEW_H

#include "cadence/stored.h"
#include "http/exchange.h"

/* Appends a schedule: its specification, its next fire, its last fires and its totals. */
void view_write(struct buffer *out, struct slice name, const struct stored *stored, int64_t now_ms);

/* Appends `"fires":[…],"complete":…`: at most `count` fires after a time. */
void view_write_fires(struct buffer *out, const struct schedule *schedule, int64_t after_ms,
                      uint32_t count);

/* Answers that the schedule does not exist. */
void cadence_answer_no_schedule(struct http_exchange *exchange, struct slice name);
/* Reads the schedule of a reply. Answers the call and returns NULL if that fails, or if the caller may
 * not see it. The caller frees the result with stored_free. */
struct stored *cadence_read_reply(struct http_exchange *exchange, const struct queue_reply *reply);

#endif
