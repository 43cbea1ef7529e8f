#include "grpc/service.h"

#include "grpc/answer.h"
#include "grpc/frame.h"
#include "grpc/health.h"
#include "grpc/methods.h"
#include "grpc/proto_texts.h"
#include "grpc/reflection.h"
#include "grpc/timeout.h"
#include "grpc/watch.h"
#include "grpc/work.h"

#include "audit/change.h"
#include "http/connection.h"

#include <assert.h>

#define SERVICE "/tarry.v1.Queue/"

/* ---- the table of calls ---- */

enum { METHODS_MAX = 40 };
enum { TEXT_BYTES_MAX = 64 * 1024 * 1024 }; /* a body of REST; messages have at most 16 MiB */

/* The same for every server of the process. */
static struct request_bound bounds[METHODS_MAX];

/* ---- one call ---- */

/* Reads the fields of gRPC in the head. */
static bool read_head(struct request *request)
{
    const struct http_request *head = request->call->request;
    struct slice coding = http_request_field(head, "grpc-encoding");
    if (!head->is_http_2)
        return http_fault_set(request->fault, PROBLEM_VERSION_UNKNOWN, 0,
                              "gRPC needs HTTP/2, but the request is HTTP/1.1");
    if (!http_begins(head->content_type, GRPC_CONTENT_TYPE))
        return http_fault_set(request->fault, PROBLEM_CODING_UNKNOWN, 0,
                              "the content type of a gRPC call is application/grpc");
    if (coding.len && !http_is(coding, "identity"))
        return http_fault_set(request->fault, PROBLEM_CODING_UNKNOWN, 0,
                              "messages in '%s' are not supported: send them uncompressed",
                              http_quotable(coding, 40));
    if (!timeout_parse(http_request_field(head, "grpc-timeout"), &request->timeout_ms))
        return http_fault_set(request->fault, PROBLEM_BAD_REQUEST, 0,
                              "'grpc-timeout' must be 1 to 8 digits and a unit, such as 250m");
    return request->timeout_ms != 0 || http_fault_set(request->fault, PROBLEM_REQUEST_TIMEOUT, 0,
                                                      "the deadline has passed, nothing was done");
}

/* Extracts the only message of the body. */
static bool read_frame(struct request *request, struct slice *message)
{
    struct slice body = request->call->request->body;
    size_t used = 0;
    switch (frame_next(body, body.len, message, &used)) {
    case FRAME_WHOLE:
        break;
    case FRAME_COMPRESSED:
        return http_fault_set(request->fault, PROBLEM_CODING_UNKNOWN, 0,
                              "the message is compressed: send it uncompressed");
    default:
        return http_fault_set(request->fault, PROBLEM_BAD_FRAMING, 0,
                              "the body is not a message of gRPC: a flag, a length, and so many "
                              "bytes");
    }
    return used == body.len || http_fault_set(request->fault, PROBLEM_BAD_FRAMING, 0,
                                              "the call takes one message, but more bytes follow");
}

/* Prepares the call for its handler. Returns the decoded message, or NULL with *fault. */
static const void *read_call(struct request *request, const struct method *method,
                             struct slice frame)
{
    struct http_call *call = request->call;
    arena_init(request->arena, frame.len);
    const void *message = request_decode(request->arena, method->message, frame, request->fault);
    if (!message)
        return NULL;
    /* The handlers of REST read the rest of a call from here. */
    call->front->request.body = call->front->request.content_type = (struct slice){0};
    call->query->meta = &call->front->meta;
    bool is_good = method->read(request, message);
    if (call->exchange->change)
        audit_change_name(call->exchange->change, call->topic, (struct slice){0});
    return is_good && http_fields_check(&call->query->fields, request->fault) &&
                   (!method->names_topic ||
                    http_gate_allows(call->front, call->caller, call->exchange->route, call->topic,
                                     request->fault))
               ? message
               : NULL;
}

/* Carries out a call whose message is decoded at once. */
static void act(struct request *request, const struct request_bound *bound, struct slice frame)
{
    struct arena arena;
    arena.blocks = NULL;
    request->arena = &arena;
    buffer_init(&request->text, TEXT_BYTES_MAX);
    const void *message = read_call(request, bound->method, frame);
    if (!message)
        http_answer_fault(request->call->exchange, request->fault);
    else if (bound->method->act)
        bound->method->act(request, message);
    else
        bound->handle(request->call);
    buffer_fini(&request->text);
    arena_fini(&arena);
}

static void handle(struct http_call *call)
{
    const struct request_bound *bound = call->exchange->route->about;
    struct http_fault fault;
    struct slice frame;
    struct request request = {
        .call = call, .fields = {.out = &call->query->fields, .fault = &fault}, .fault = &fault};
    if (!read_head(&request) || !read_frame(&request, &frame))
        http_answer_fault(call->exchange, &fault);
    else if (bound->method->begin)
        bound->method->begin(call, frame);
    else
        act(&request, bound, frame);
}

/* Returns whether the request is a call of gRPC, whatever its path: its client can read no other form of error. */
static bool claims(const struct http_request *request)
{
    return request->is_http_2 && http_begins(request->content_type, GRPC_CONTENT_TYPE);
}

/* ---- the routes ---- */

static const struct http_route *find_rest(const struct http_shared *shared,
                                          const struct method *method)
{
    for (uint32_t i = 0; i < shared->route_count; i++)
        if (strcmp(shared->routes[i].name, method->rest) == 0 &&
            (!method->pattern || strcmp(shared->routes[i].pattern, method->pattern) == 0))
            return &shared->routes[i];
    return NULL;
}

static void add_method(struct http_shared *shared, const struct method *method,
                       const struct http_route *rest, struct request_bound *bound)
{
    assert(strlen(SERVICE) + strlen(method->name) < sizeof bound->pattern);
    struct http_route row = *rest;
    bound->method = method;
    bound->handle = rest->handle;
    (void)strcat(strcpy(bound->pattern, SERVICE), method->name);
    row.method = HTTP_METHOD_POST;
    row.pattern = bound->pattern;
    if (row.topics == HTTP_TOPICS_PATH)
        row.topics = HTTP_TOPICS_EACH;
    row.body = method->body;
    row.options = OPTION_BIT(OPTION_FOREIGN);
    row.takes_meta = true;
    row.handle = handle;
    row.refuse = answer_refuse_fault;
    row.format = &answer_format;
    row.claims = claims;
    http_shared_add_routes(shared, (const struct http_route[]){row, {0}}, bound);
}

/* Shows the description of the service. */
static void show_proto(struct http_call *call)
{
    struct buffer *body = http_answer_start(call->exchange);
    buffer_append(body, grpc_queue_text, grpc_queue_bytes);
    http_answer_end(call->exchange, 200, "text/plain; charset=utf-8");
}

/* Begins a call that streams, which needs HTTP/2. */
static void begin_stream(struct http_call *call)
{
    struct http_fault fault;
    void (*const begins[])(struct http_call *) = {work_begin, reflection_begin, health_watch,
                                                  watch_begin};
    if (call->request->is_http_2) {
        begins[call->exchange->route->verb](call);
        return;
    }
    (void)http_fault_set(&fault, PROBLEM_VERSION_UNKNOWN, 0,
                         "gRPC needs HTTP/2, but the request is HTTP/1.1");
    http_answer_fault(call->exchange, &fault);
}

#define STREAM(PATTERN, NAME, INDEX, SCOPE, TOPICS)                                                \
    {                                                                                              \
        .method = HTTP_METHOD_POST, .pattern = (PATTERN), .name = (NAME), .verb = (INDEX),         \
        .scope = (SCOPE), .topics = HTTP_TOPICS_##TOPICS, .options = OPTION_BIT(OPTION_FOREIGN),   \
        .answer = HTTP_ANSWER_STREAM, .takes_frames = true, .handle = begin_stream,                \
        .refuse = answer_refuse_fault, .claims = claims                                            \
    }

static const struct http_route own_routes[] = {
    STREAM(SERVICE "Work", "work", 0, ACCESS_CONSUME, EACH),
    STREAM(SERVICE "Watch", "events", 3, ACCESS_READ, SHOWN),
    STREAM("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "grpc_reflection", 1,
           HTTP_FOR_CALLERS, NONE),
    STREAM("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "grpc_reflection", 1,
           HTTP_FOR_CALLERS, NONE),
    STREAM("/grpc.health.v1.Health/Watch", "grpc_health", 2, HTTP_FOR_EVERYBODY, NONE),
    {.method = HTTP_METHOD_POST,
     .pattern = "/grpc.health.v1.Health/Check",
     .name = "grpc_health",
     .scope = HTTP_FOR_EVERYBODY,
     .topics = HTTP_TOPICS_NONE,
     .options = OPTION_BIT(OPTION_FOREIGN),
     .body = HTTP_BODY_SMALL,
     .handle = health_check,
     .refuse = answer_refuse_fault,
     .claims = claims},
    {.method = HTTP_METHOD_GET,
     .pattern = "/tarry.proto",
     .name = "proto",
     .scope = HTTP_FOR_CALLERS,
     .topics = HTTP_TOPICS_NONE,
     .handle = show_proto},
    {0},
};

void grpc_add(struct http_shared *shared)
{
    static const struct http_route *const tables[] = {own_routes, NULL};
    static const struct http_part part = {
        .tables = tables, .open = work_open_front, .close = work_close_front};
    static const struct method *const methods[] = {grpc_push_methods, grpc_methods,
                                                   grpc_batch_methods, grpc_schedule_methods};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        for (const struct method *method = methods[i]; method->name; method++) {
            const struct http_route *rest = find_rest(shared, method);
            assert(count < METHODS_MAX && (rest || methods[i] == grpc_schedule_methods));
            if (rest) /* a build may lack the schedules */
                add_method(shared, method, rest, &bounds[count++]);
        }
    http_shared_add_part(shared, &part);
}
