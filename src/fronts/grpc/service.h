/*
 * service: the service tarry.v1.Queue, with the health check and the reflection of gRPC, on the HTTP connections of the
 * server. It needs HTTP/2.
 */
#ifndef TARRY_GRPC_SERVICE_H
#define TARRY_GRPC_SERVICE_H

#include "http/front.h"

/* Adds the calls. Call it after those of the API, whose rows it copies, and before the first front is created. */
void grpc_add(struct http_shared *shared);

#endif
