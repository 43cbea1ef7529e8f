/*
 * traced: the span of a delivery whose job's trace is sampled, and the job as it then goes out: with that span
 * as the parent in its meta. One thread, the reactor's.
 */
#ifndef TARRY_DELIVER_TRACED_H
#define TARRY_DELIVER_TRACED_H

#include "targets/target.h"
#include "trace/tracer.h"

struct traced;

/* NULL: there is no tracer, or the job is not sampled. What the message points at must stay until
 * traced_sent. */
struct traced *traced_new(struct tracer *tracer, const struct target_message *message,
                          struct slice endpoint);
/* NULL is fine; a span that was not ended is forgotten. */
void traced_free(struct traced *traced);
/* The job that goes out; stays as long as what was given to traced_new and this one. */
const struct job *traced_job(const struct traced *traced);
/* It is on its way: its wait is over. */
void traced_sent(struct traced *traced);
/* What became of it; once. */
void traced_end(struct traced *traced, const struct target_report *report);

#endif
