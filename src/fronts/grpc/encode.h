/*
 * encode: values of the queue as messages of proto/tarry/v1/queue.proto. Pure.
 */
#ifndef TARRY_GRPC_ENCODE_H
#define TARRY_GRPC_ENCODE_H

#include "base/buffer.h"
#include "http/problem.h"
#include "queue/queue.h"

/* Append the fields of a message, without its frame. */
void encode_job(struct buffer *out, const struct queue_job *job, bool with_body);
/* The same with the result and without the body. */
void encode_ended(struct buffer *out, const struct queue_job *job);
void encode_topic(struct buffer *out, const struct queue_topic *topic);
void encode_push_result(struct buffer *out, const struct queue_result *result);
void encode_answer_result(struct buffer *out, const struct queue_result *result);
/* Appends a Problem as a field. */
void encode_problem(struct buffer *out, uint32_t field, const struct http_refusal *refusal);

#endif
