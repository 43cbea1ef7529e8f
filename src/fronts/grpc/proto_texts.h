/* proto_texts: the description of the service, and its descriptors for the reflection, embedded by cmake/embed.cmake. */
#ifndef TARRY_GRPC_PROTO_TEXTS_H
#define TARRY_GRPC_PROTO_TEXTS_H

#include <stddef.h>

extern const char grpc_queue_text[], grpc_descriptors_text[];
extern const size_t grpc_queue_bytes, grpc_descriptors_bytes;

#endif
