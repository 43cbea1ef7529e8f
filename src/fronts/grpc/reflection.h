/*
 * reflection: the descriptors of the services, for clients without the .proto file, such as grpcurl.
 *
 * An answer is a function of the request and of the embedded descriptors. Versions v1 and v1alpha have the same messages.
 */
#ifndef TARRY_GRPC_REFLECTION_H
#define TARRY_GRPC_REFLECTION_H

#include "base/buffer.h"

struct http_call;

/* Appends the ServerReflectionResponse for a ServerReflectionRequest. Pure. Returns false if the request is malformed. */
bool reflection_answer(struct slice descriptors, struct slice request, struct buffer *out);

/* Handles the call: http_route.handle, with takes_frames. */
void reflection_begin(struct http_call *call);

#endif
