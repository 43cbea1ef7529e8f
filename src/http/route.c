#include "http/private.h"

/* The calls taken most often stand first. */
#define JOBS "/v1/topics/{topic}/jobs"
#define JOB JOBS "/{id}"
#define TOPIC "/v1/topics/{topic}"
#define WHEN (OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_AT) | OPTION_BIT(OPTION_PRIORITY))
#define TAKE (OPTION_BIT(OPTION_MAX) | OPTION_BIT(OPTION_WAIT) | OPTION_BIT(OPTION_LEASE_FOR))
#define NACK                                                                                       \
    (OPTION_BIT(OPTION_LEASE) | OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_ERROR) |              \
     OPTION_BIT(OPTION_FINAL))
#define EXTEND (OPTION_BIT(OPTION_LEASE) | OPTION_BIT(OPTION_LEASE_FOR))
#define LIST                                                                                       \
    (OPTION_BIT(OPTION_STATE) | OPTION_BIT(OPTION_LIMIT) | OPTION_BIT(OPTION_CURSOR) |             \
     OPTION_BIT(OPTION_BODY))
#define SWEEP (OPTIONS_FILTER | OPTION_BIT(OPTION_MAX) | OPTION_BIT(OPTION_DRY_RUN))
#define PURGE (OPTION_BIT(OPTION_STATE) | SWEEP)
#define REDRIVE (OPTION_BIT(OPTION_ID) | SWEEP)

#define ROUTE(METHOD, PATTERN, NAME, HANDLE, OPTIONS)                                              \
    {                                                                                              \
        .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = (NAME), .handle = (HANDLE),  \
        .options = (OPTIONS)                                                                       \
    }
#define ROUTE_JSON(METHOD, PATTERN, NAME, HANDLE, OPTIONS)                                         \
    {                                                                                              \
        .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = (NAME), .handle = (HANDLE),  \
        .options = (OPTIONS), .body = HTTP_BODY_SMALL                                              \
    }
#define ROUTE_PUSH(METHOD, PATTERN)                                                                \
    {                                                                                              \
        .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = "push", .handle = http_push, \
        .options = OPTIONS_PUSH, .takes_meta = true, .body = HTTP_BODY_JOB                         \
    }
#define ROUTE_BATCH(METHOD, PATTERN)                                                               \
    {                                                                                              \
        .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = "batch",                     \
        .handle = http_batch, .body = HTTP_BODY_BATCH                                              \
    }
#define ROUTE_GET(PATTERN, NAME, HANDLE, OPTIONS, ANSWER)                                          \
    {                                                                                              \
        .method = HTTP_METHOD_GET, .pattern = (PATTERN), .name = (NAME), .handle = (HANDLE),       \
        .options = (OPTIONS), .answer = HTTP_ANSWER_##ANSWER                                       \
    }
#define ROUTE_TAKE(PATTERN, OPTIONS)                                                               \
    {                                                                                              \
        .method = HTTP_METHOD_POST, .pattern = (PATTERN), .name = "take", .handle = http_take,     \
        .options = (OPTIONS), .answer = HTTP_ANSWER_TAKE                                           \
    }

static const struct http_route routes[] = {
    ROUTE_PUSH(PUT, JOB),
    ROUTE_JSON(POST, "/v1/ack", "ack", http_ack, OPTION_BIT(OPTION_LEASE)),
    ROUTE_TAKE(TOPIC "/take", TAKE),
    ROUTE_PUSH(POST, JOBS),
    ROUTE_BATCH(POST, "/v1/jobs"),
    ROUTE_TAKE("/v1/take", TAKE | OPTION_BIT(OPTION_TOPIC)),
    ROUTE_JSON(POST, "/v1/nack", "nack", http_nack, NACK),
    ROUTE_JSON(POST, "/v1/extend", "extend", http_extend, EXTEND),
    ROUTE(DELETE, JOB, "cancel", http_job_cancel, 0),
    ROUTE_GET(JOB, "get", http_job_get, OPTION_BIT(OPTION_BODY), JOB),
    ROUTE(PATCH, JOB, "reschedule", http_job_reschedule, WHEN),
    ROUTE(POST, JOB "/run", "run", http_job_run, 0),
    ROUTE_GET(JOBS, "list", http_list, LIST, LONG),
    ROUTE_GET("/v1/topics", "topics", http_topics,
              OPTION_BIT(OPTION_LIMIT) | OPTION_BIT(OPTION_CURSOR), LONG),
    ROUTE(GET, TOPIC, "topic", http_topic_get, 0),
    ROUTE_JSON(PUT, TOPIC, "topic_put", http_topic_put, OPTIONS_TOPIC),
    ROUTE_JSON(PATCH, TOPIC, "topic_patch", http_topic_patch, 0),
    ROUTE(DELETE, TOPIC, "topic_delete", http_topic_delete, 0),
    ROUTE(POST, TOPIC "/pause", "pause", http_topic_pause, 0),
    ROUTE(POST, TOPIC "/resume", "resume", http_topic_resume, 0),
    ROUTE(POST, TOPIC "/purge", "purge", http_topic_purge, PURGE),
    ROUTE(POST, TOPIC "/redrive", "redrive", http_topic_redrive, REDRIVE),
    {.method = HTTP_METHOD_POST,
     .pattern = TOPIC "/deliver-test",
     .name = "deliver_test",
     .handle = http_deliver_test,
     .body = HTTP_BODY_JOB},
    ROUTE(GET, "/healthz", "healthz", http_healthz, 0),
    ROUTE(GET, "/readyz", "readyz", http_readyz, 0),
    ROUTE_GET("/metrics", "metrics", http_metrics, 0, LONG),
    ROUTE(GET, "/v1/info", "info", http_info, 0),
    ROUTE(POST, "/v1/backup", "backup", http_backup_begin, 0),
    ROUTE(PUT, "/v1/backup/{id}", "backup", http_backup_renew, 0),
    ROUTE(DELETE, "/v1/backup/{id}", "backup", http_backup_end, 0),
    ROUTE(GET, "/openapi.yaml", "openapi", http_openapi, 0),
    ROUTE(GET, "/problems/{id}", "problem", http_problem_get, 0),
    ROUTE(GET, "/", "root", http_root, 0),
};
enum { ROUTES = sizeof routes / sizeof routes[0] };
_Static_assert((int)ROUTES < (int)HTTP_ROUTES_MAX,
               "the last place is for requests without a route");

const struct http_route *http_route_at(uint32_t index)
{
    return index < ROUTES ? &routes[index] : NULL;
}

uint32_t http_route_index(const struct http_route *route)
{
    return (uint32_t)(route - routes);
}

/* A {word} of the pattern stands for one segment that is not empty. */
static bool matches(const char *pattern, struct slice path, struct http_match *out)
{
    const char *at = path.at, *end = path.at + path.len;
    out->topic = out->id = (struct slice){0};
    while (*pattern) {
        if (*pattern != '{') {
            if (at == end || *at++ != *pattern++)
                return false;
            continue;
        }
        const char *slash = memchr(at, '/', (size_t)(end - at));
        struct slice segment = slice_make(at, (size_t)((slash ? slash : end) - at));
        if (segment.len == 0)
            return false;
        if (pattern[1] == 't')
            out->topic = segment;
        else
            out->id = segment;
        at += segment.len;
        pattern = strchr(pattern, '}') + 1;
    }
    return at == end;
}

static const char *method_name(enum http_method method)
{
    static const char *const names[] = {
        [HTTP_METHOD_GET] = "GET, HEAD",  [HTTP_METHOD_HEAD] = "HEAD",
        [HTTP_METHOD_PUT] = "PUT",        [HTTP_METHOD_POST] = "POST",
        [HTTP_METHOD_PATCH] = "PATCH",    [HTTP_METHOD_DELETE] = "DELETE",
        [HTTP_METHOD_OTHER] = "no other",
    };
    return names[method];
}

static bool refuse(const struct http_request *request, struct buffer *allow,
                   struct http_fault *fault)
{
    struct http_match ignored;
    buffer_clear(allow);
    for (size_t i = 0; i < ROUTES; i++) {
        if (!matches(routes[i].pattern, request->path, &ignored))
            continue;
        if (allow->len)
            buffer_append_text(allow, ", ");
        buffer_append_text(allow, method_name(routes[i].method));
    }
    if (!allow->len)
        return http_fault_set(fault, PROBLEM_NO_SUCH_PATH, 0,
                              "there is nothing at '%s'; /openapi.yaml says what there is",
                              http_quotable(request->path, 80));
    return http_fault_set(fault, PROBLEM_METHOD_NOT_ALLOWED, 0, "'%s' has only %.*s",
                          http_quotable(request->path, 80), (int)allow->len, allow->at);
}

bool http_route_find(const struct http_request *request, struct http_match *out,
                     struct buffer *allow, struct http_fault *fault)
{
    enum http_method method =
        request->method == HTTP_METHOD_HEAD ? HTTP_METHOD_GET : request->method;
    for (size_t i = 0; i < ROUTES; i++)
        if (routes[i].method == method && matches(routes[i].pattern, request->path, out)) {
            out->route = &routes[i];
            return true;
        }
    return refuse(request, allow, fault);
}
