#include "grpc/request.h"

static const struct request_bound *bound_of(const struct http_exchange *exchange)
{
    return exchange->route->about;
}

const struct method *request_method(const struct http_exchange *exchange)
{
    return bound_of(exchange)->method;
}

void request_rest(struct http_call *call)
{
    bound_of(call->exchange)->handle(call);
}
