/* The stub of a build without gRPC: its paths do not exist. */
#include "server/grpc_calls.h"

void grpc_calls_open(struct http_shared *shared)
{
    (void)shared;
}
