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

bool request_refuse_malformed(const ProtobufCMessageDescriptor *type, struct http_fault *fault)
{
    return http_fault_set(fault, PROBLEM_BAD_REQUEST, 0,
                          "the message is malformed; it must be a %s", type->name);
}

const void *request_decode(struct arena *arena, const ProtobufCMessageDescriptor *type,
                           struct slice message, struct http_fault *fault)
{
    const void *decoded = protobuf_c_message_unpack(
        type, &arena->allocator, message.len, (const uint8_t *)(message.len ? message.at : ""));
    if (!decoded && arena->is_full)
        (void)http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, 0,
                             "the message has too many fields: send less at a time");
    else if (!decoded)
        (void)request_refuse_malformed(type, fault);
    return decoded;
}
