/*
 * stream: the messages of a call that streams, from bytes that arrive in any pieces, and the end of such a call.
 */
#ifndef TARRY_GRPC_STREAM_H
#define TARRY_GRPC_STREAM_H

#include "base/buffer.h"
#include "http/http2_call.h"

/* Adds received bytes to those that are incomplete. Zeroed `in`: empty. Returns false with *fault if out of memory. */
bool stream_add(struct buffer *in, struct slice bytes, size_t message_bytes_max,
                struct http_fault *fault);
/* Takes the next whole message: returns true, and advances *at. Returns false if there is none, or with *fault if the
 * bytes are not messages; fault->problem is 0 otherwise. */
bool stream_next(const struct buffer *in, size_t *at, size_t message_bytes_max,
                 struct slice *message, struct http_fault *fault);
/* Drops the bytes before `at`. */
void stream_drop(struct buffer *in, size_t at);

/* End the call with OK, or with a refusal. */
void stream_end(struct http2_call *call);
void stream_refuse(struct http2_call *call, const struct http_refusal *refusal);
void stream_refuse_fault(struct http2_call *call, const struct http_fault *fault);

#endif
