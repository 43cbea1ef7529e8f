#include "server/grpc_calls.h"

#include "grpc/service.h"

void grpc_calls_open(struct http_shared *shared)
{
    grpc_add(shared);
}
