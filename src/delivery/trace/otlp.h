/*
 * otlp: spans as a collector takes them: the request of OTLP 1 over HTTP, in JSON
 * (ExportTraceServiceRequest: ids in hex, numbers of 64 bits as texts), and what its answer says. Pure.
 *
 * Attributes are named by OpenTelemetry's conventions for messaging where they have a name; what is
 * tarry's alone begins with "tarry.".
 */
#ifndef TARRY_TRACE_OTLP_H
#define TARRY_TRACE_OTLP_H

#include "trace/span.h"

struct otlp_resource { /* who sends them */
    const char *service_name, *version, *instance;
};

/* Appends the request for the spans from `first` on, linked by `next`. */
void otlp_request_write(struct buffer *out, const struct otlp_resource *resource,
                        const struct trace_span *first);

/* How many spans a good answer says that it did not take. */
uint64_t otlp_rejected(struct slice answer);

#endif
