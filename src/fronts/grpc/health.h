/*
 * health: the health check of gRPC, grpc.health.v1. The server serves if /readyz answers 200.
 */
#ifndef TARRY_GRPC_HEALTH_H
#define TARRY_GRPC_HEALTH_H

struct http_call;

/* Handle the calls: http_route.handle; health_watch with takes_frames. */
void health_check(struct http_call *call);
void health_watch(struct http_call *call);

#endif
