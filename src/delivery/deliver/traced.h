/*
 * traced: the span of a delivery whose job's trace is sampled, and the job as it is sent, with that
 * span as the parent in its meta. Used on the reactor's thread.
 */
#ifndef TARRY_DELIVER_TRACED_H
#define TARRY_DELIVER_TRACED_H

#include "targets/target.h"
#include "trace/tracer.h"

struct traced;

/* Returns NULL if there is no tracer or the job is not sampled. The data that the message points to
 * has to stay valid until traced_sent. */
struct traced *traced_new(struct tracer *tracer, const struct target_message *message,
                          struct slice endpoint);
/* Accepts NULL; a span that was not ended is discarded. */
void traced_free(struct traced *traced);
/* Returns the job to send; valid as long as the data passed to traced_new and the span. */
const struct job *traced_job(const struct traced *traced);
/* Records that the job was sent, which ends its wait. */
void traced_sent(struct traced *traced);
/* Records the result; called once. */
void traced_end(struct traced *traced, const struct target_report *report);

#endif
