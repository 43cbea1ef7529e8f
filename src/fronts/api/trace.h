/*
 * trace: the trace of a request, by its headers traceparent and tracestate, and the spans of its
 * work, if the server creates spans.
 */
#ifndef TARRY_API_TRACE_H
#define TARRY_API_TRACE_H

#include "http/exchange.h"
#include "trace/carry.h"

/* Reads the trace context. Several tracestate fields form one list. Returns false if the context is
 * missing or malformed; *out is then unspecified. */
bool api_trace_read(const struct http_request *request, struct trace_carry *out);

/* Adds to the meta of a single job the context that the job carries, before it is pushed. Needed
 * only if the request or the server traces (api_trace_is_on). */
void api_trace_push(struct http_call *call, struct buffer *meta);
static inline bool api_trace_is_on(const struct http_call *call)
{
    return call->request->has_trace || call->front->shared->tracer;
}

/* Starts the trace of a batch before it is read. Returns false if its items get no context. */
bool api_trace_batch(struct http_call *call, struct trace_carry *out);
/* Completes the trace of a batch that is about to be pushed. `carried` jobs have the request's
 * context. */
void api_trace_batch_read(struct http_exchange *exchange, const struct queue_push *pushes,
                          size_t count, uint32_t carried);
/* Ends the span of the exchange, if it has one, after the queue has answered. `results` are those
 * of all jobs. */
void api_trace_pushed(struct http_exchange *exchange, const struct queue_result *results,
                      size_t count);

/* The functions below trace consumers. They require a tracer. */
void api_trace_taken(struct http_front *front, const struct queue_job *jobs, size_t count);
void api_trace_answering(struct http_front *front, const struct queue_answer *answers,
                         size_t count);
void api_trace_answered(struct http_front *front, enum queue_verb verb, struct slice lease,
                        const struct queue_result *result);

#endif
