/* grpc_calls: the calls of gRPC, if this build has them. In another build absent/grpc.c replaces it. */
#ifndef TARRY_SERVER_GRPC_CALLS_H
#define TARRY_SERVER_GRPC_CALLS_H

struct http_shared;

/* Adds the calls. Call it after those of the API and before the first front is created. */
void grpc_calls_open(struct http_shared *shared);

#endif
