#include "grpc/health.h"

#include "grpc/answer.h"
#include "grpc/frame.h"
#include "grpc/stream.h"
#include "grpc/wire.h"

#include <stdlib.h>

enum { REQUEST_BYTES_MAX = 1024 };
/* The enum ServingStatus. */
enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

static bool is_known(struct slice service)
{
    return !service.len || slice_is(service, "tarry.v1.Queue");
}

static uint64_t status_of(const struct http_front *front)
{
    return atomic_load_explicit(&front->shared->is_ready, memory_order_acquire) ? SERVING
                                                                                : NOT_SERVING;
}

/* Reads the service of a HealthCheckRequest. */
static bool read_service(struct slice message, struct slice *service, struct http_fault *fault)
{
    struct wire_field field;
    size_t at = 0;
    *service = (struct slice){0};
    while (wire_next(message, &at, &field))
        if (field.number == 1)
            *service = field.bytes;
    return at == message.len ||
           http_fault_set(fault, PROBLEM_BAD_REQUEST, 0, "the message is malformed");
}

/* ---- Check ---- */

static bool read_check(struct http_call *call, struct slice *service, struct http_fault *fault)
{
    struct slice message, body = call->request->body;
    size_t used = 0;
    if (!call->request->is_http_2)
        return http_fault_set(fault, PROBLEM_VERSION_UNKNOWN, 0,
                              "gRPC needs HTTP/2, but the request is HTTP/1.1");
    if (frame_next(body, REQUEST_BYTES_MAX, &message, &used) != FRAME_WHOLE || used != body.len)
        return http_fault_set(fault, PROBLEM_BAD_FRAMING, 0, "the body is not a message of gRPC");
    return read_service(message, service, fault);
}

void health_check(struct http_call *call)
{
    struct http_fault fault;
    struct slice service;
    if (!read_check(call, &service, &fault)) {
        http_answer_fault(call->exchange, &fault);
    } else if (!is_known(service)) {
        answer_not_found(call->exchange, "there is no such service");
    } else {
        wire_u64(answer_begin(call->exchange), 1, status_of(call->front));
        answer_end(call->exchange, (struct slice){0});
    }
}

/* ---- Watch ---- */

struct watch {
    struct http2_call *call;
    struct http_front *front;
    struct buffer in;
    bool has_service, has_ended;
};

static void send_status(struct watch *watch, uint64_t status)
{
    struct buffer out;
    buffer_init(&out, 64);
    (void)frame_begin(&out);
    wire_u64(&out, 1, status);
    frame_end(&out, FRAME_HEAD_BYTES);
    if (!out.failed)
        (void)http2_send(watch->call, buffer_slice(&out));
    buffer_fini(&out);
}

static void on_data(void *ctx, struct slice bytes)
{
    struct watch *watch = ctx;
    struct http_fault fault = {0};
    struct slice message, service;
    size_t at = 0;
    http2_consumed(watch->call, bytes.len);
    if (watch->has_ended || watch->has_service)
        return;
    bool is_good = stream_add(&watch->in, bytes, REQUEST_BYTES_MAX, &fault);
    if (is_good && stream_next(&watch->in, &at, REQUEST_BYTES_MAX, &message, &fault)) {
        is_good = read_service(message, &service, &fault);
        watch->has_service = is_good;
        if (is_good)
            send_status(watch, is_known(service) ? status_of(watch->front) : SERVICE_UNKNOWN);
    }
    if (is_good && !fault.problem)
        return;
    watch->has_ended = true;
    stream_refuse_fault(watch->call, &fault);
}

/* A client half-closes when it has sent its request, and continues to watch. */
static void on_end(void *ctx)
{
    struct watch *watch = ctx;
    struct http_fault fault;
    if (watch->has_service || watch->has_ended)
        return;
    (void)http_fault_set(&fault, PROBLEM_BAD_FRAMING, 0, "the message is missing");
    watch->has_ended = true;
    stream_refuse_fault(watch->call, &fault);
}

static void on_drain(void *ctx)
{
    struct watch *watch = ctx;
    if (watch->has_ended)
        return;
    send_status(watch, NOT_SERVING);
    watch->has_ended = true;
    stream_end(watch->call);
}

static void on_close(void *ctx, uint64_t written, bool is_whole)
{
    struct watch *watch = ctx;
    (void)written;
    (void)is_whole;
    buffer_fini(&watch->in);
    free(watch);
}

void health_watch(struct http_call *call)
{
    static const struct http2_receiver receiver = {
        .on_data = on_data, .on_end = on_end, .on_drain = on_drain, .on_close = on_close};
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch) {
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
        return;
    }
    watch->front = call->front;
    (void)http_answer_start(call->exchange);
    watch->call = http2_open(call->exchange, access_anyone(), GRPC_CONTENT_TYPE, &receiver, watch);
    if (!watch->call)
        free(watch);
}
