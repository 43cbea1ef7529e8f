/*
 * trace: which trace a request belongs to, by its headers traceparent and tracestate, and the spans of what it
 * does, where the server makes some.
 */
#ifndef TARRY_HTTP_TRACE_H
#define TARRY_HTTP_TRACE_H

#include "http/exchange.h"
#include "trace/carry.h"

/* False: the request has no context, or a malformed one; *out is then unspecified. Of tracestate there may be
 * several, which are one list. */
bool http_trace_read(const struct http_request *request, struct trace_carry *out);

/* A push of one job, about to go to the queue: its meta gets what the job is to carry. The request is
 * traced, or the server traces: nothing else is to be done otherwise (http_trace_is_on). */
void http_trace_push(struct http_call *call, struct buffer *meta);
static inline bool http_trace_is_on(const struct http_call *call)
{
    return call->request->has_trace || call->front->shared->tracer;
}

/* A push of many, about to be read. False: its items are given nothing. */
bool http_trace_batch(struct http_call *call, struct trace_carry *out);
/* It goes to the queue. `carried`: so many of the jobs have the request's context. */
void http_trace_batch_read(struct http_exchange *exchange, const struct queue_push *pushes,
                           size_t count, uint32_t carried);
/* The queue has answered; `results` of all its jobs. Where the exchange has a span. */
void http_trace_pushed(struct http_exchange *exchange, const struct queue_result *results,
                       size_t count);

/* Consumers. Where there is a tracer. */
void http_trace_taken(struct http_front *front, const struct queue_job *jobs, size_t count);
void http_trace_answering(struct http_front *front, const struct queue_answer *answers,
                          size_t count);
void http_trace_answered(struct http_front *front, enum queue_verb verb, struct slice lease,
                         const struct queue_result *result);

#endif
