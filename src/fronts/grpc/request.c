#include "grpc/request.h"

#include "grpc/timeout.h"

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

int64_t request_wait_ms(const struct request *request, bool has_wait)
{
    int64_t most_ms = has_wait ? request->call->query->fields.wait_ms : HTTP_WAIT_MS_MAX;
    return timeout_wait_ms(request->timeout_ms, has_wait ? most_ms : 0, most_ms);
}

void request_body(const struct request *request, struct slice content_type, struct slice body)
{
    struct http_request *out = &request->call->front->request;
    out->content_type = content_type;
    out->body = body;
}

bool request_text_is_body(struct request *request)
{
    if (request->text.failed)
        return http_fault_set(request->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    request_body(request, slice_of("application/json"), buffer_slice(&request->text));
    return true;
}
