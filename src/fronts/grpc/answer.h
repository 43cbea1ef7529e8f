/*
 * answer: the answers of calls in gRPC: one message, then the status in the trailers. A refused call has only the head.
 */
#ifndef TARRY_GRPC_ANSWER_H
#define TARRY_GRPC_ANSWER_H

#include "http/exchange.h"
#include "http/route.h"

#define GRPC_CONTENT_TYPE "application/grpc"

extern const struct http_format answer_format;

/* Begins the message of an answer. */
struct buffer *answer_begin(struct http_exchange *exchange);
/* Add a PushResult to a list of results: of the queue, or of an item that was refused here. */
void answer_add_push(struct http_exchange *exchange, struct buffer *out,
                     const struct queue_result *result);
void answer_add_fault(struct buffer *out, const struct http_fault *fault);
/* Ends the answer with OK. `cursor` is the field of a page, or empty. */
void answer_end(struct http_exchange *exchange, struct slice cursor);

/* Refuses a call: http_route.refuse. */
void answer_refuse_fault(struct http_exchange *exchange, const struct http_fault *fault);
/* Answers that the object does not exist. */
void answer_not_found(struct http_exchange *exchange, const char *detail);
#endif
