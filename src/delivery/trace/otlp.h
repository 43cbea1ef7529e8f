/*
 * otlp: the request of OTLP 1 over HTTP in JSON (ExportTraceServiceRequest: IDs in hex, 64-bit
 * numbers as strings), and its answer. Pure.
 *
 * Attributes have the names of OpenTelemetry's messaging conventions if there is one; tarry's own
 * begin with "tarry.".
 */
#ifndef TARRY_TRACE_OTLP_H
#define TARRY_TRACE_OTLP_H

#include "trace/span.h"

struct otlp_resource { /* the sender */
    const char *service_name, *version, *instance;
};

/* Appends the request for the spans from `first` on, linked by `next`. */
void otlp_request_write(struct buffer *out, const struct otlp_resource *resource,
                        const struct trace_span *first);

/* Returns the number of spans that a successful answer reports as rejected. */
uint64_t otlp_rejected(struct slice answer);

#endif
