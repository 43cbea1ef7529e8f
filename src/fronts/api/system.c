/* Calls about the server itself: health, info, the description of the API, problem codes, and
 * backups. */
#include "api/caller_json.h"
#include "api/clock.h"
#include "api/console.h"
#include "api/openapi.h"
#include "api/routes.h"
#include "base/clock.h"
#include "base/feature.h"
#include "base/json_write.h"
#include "http/exchange.h"
#include "queue/status.h"

static void answer_text(struct http_exchange *exchange, uint16_t status, const char *type,
                        struct slice text)
{
    buffer_append_slice(http_answer_start(exchange), text);
    http_answer_end(exchange, status, type);
}

static void get_root(struct http_call *call)
{
    if (api_console_redirect(call, "console/"))
        return;
    struct buffer *body = http_answer_start(call->exchange);
    http_answer_field(call->exchange, "X-Content-Type-Options", slice_of("nosniff"));
    http_answer_field(call->exchange, "Vary", slice_of("Accept"));
    buffer_append_text(body,
                       "{\"name\":\"tarry\",\"info\":\"/v1/info\",\"api\":\"/openapi.yaml\"}");
    http_answer_end_json(call->exchange, 200);
}

static void write_limits(struct buffer *out, const struct http_front *front)
{
    const struct http_options *options = &front->options;
    const struct {
        const char *name;
        uint64_t value;
    } limits[] = {
        {"body_bytes", options->body_bytes_max},
        {"batch_bytes", options->batch_bytes_max},
        {"batch_jobs", QUEUE_BATCH_MAX},
        {"take_jobs", QUEUE_TAKE_MAX},
        {"take_bytes", HTTP_TAKE_BYTES_MAX},
        {"take_topics", QUEUE_TAKE_TOPICS_MAX},
        {"wait_ms", HTTP_WAIT_MS_MAX},
        {"list_jobs", QUEUE_LIST_MAX},
        {"delay_ms", POLICY_DELAY_MS_MAX},
        {"topic_bytes", JOB_TOPIC_BYTES_MAX},
        {"id_bytes", JOB_ID_BYTES_MAX},
        {"content_type_bytes", JOB_CONTENT_TYPE_BYTES_MAX},
        {"meta_bytes", JOB_META_BYTES_MAX},
        {"meta_pairs", JOB_META_PAIRS_MAX},
        {"callback_bytes", HTTP_CALLBACK_BYTES_MAX},
        {"extension_bytes", TOPIC_EXTENSION_BYTES_MAX},
        {"sweeps", HTTP_SWEEPS_MAX},
        {"request_line_bytes", HTTP_LINE_BYTES_MAX},
        {"header_bytes", HTTP_HEAD_BYTES_MAX},
        {"headers", HTTP_HEADERS_MAX},
        {"header_ms", (uint64_t)options->header_ms},
        {"request_body_ms", (uint64_t)options->body_ms},
        {"idle_ms", (uint64_t)options->idle_ms},
        {"connections", options->connections_max},
        {"waiting_takes", options->waiting_max},
        {"memory_bytes", front->shared->budget.bytes_max},
        {"process_memory_bytes", front->shared->process_bytes_max},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        buffer_append_byte(out, i ? ',' : '{');
        json_write_key(out, limits[i].name);
        buffer_append_u64(out, limits[i].value);
    }
    buffer_append_byte(out, '}');
}

static void write_features(struct buffer *out)
{
    size_t count;
    const struct feature *features = feature_all(&count);
    buffer_append_byte(out, '{');
    for (size_t i = 0; i < count; i++) {
        json_write_member_bool(out, features[i].name, features[i].is_built);
    }
    buffer_append_byte(out, '}');
}

/* Writes the scope that each call requires, by the call's name in the metrics. */
static void write_scopes(struct buffer *out, const struct http_shared *shared)
{
    buffer_append_byte(out, '{');
    for (uint32_t i = 0; i < shared->route_count; i++) {
        const struct http_route *route = &shared->routes[i];
        bool is_again = i && strcmp(route->name, shared->routes[i - 1].name) == 0;
        if (is_again) /* second path of the same call */
            continue;
        json_write_member_text(out, route->name,
                               slice_of(route->scope == HTTP_FOR_EVERYBODY ? "none"
                                        : route->scope == HTTP_FOR_CALLERS
                                            ? "any"
                                            : access_scope_name(route->scope)));
    }
    buffer_append_byte(out, '}');
}

static void get_info(struct http_call *call)
{
    struct http_front *front = call->front;
    struct buffer *body = http_answer_start(call->exchange);
    struct queue_info info = {0};
    /* Totals over all topics are only for callers that may read all of them. */
    bool sees_sums = access_may(call->caller, ACCESS_READ, (struct slice){0});
    queue_info(front->queue, &info);
    buffer_append_text(body, "{\"name\":\"tarry\",\"version\":");
    json_write_string(body, slice_of(front->shared->version));
    buffer_append_text(body, ",\"started_at\":");
    json_write_time(body, front->shared->started_ms);
    buffer_append_text(body, ",\"uptime_ms\":");
    buffer_append_i64(body, clock_wall_ms() - front->shared->started_ms);
    buffer_append_text(body, ",\"now\":");
    json_write_time(body, queue_wall_ms(front->queue));
    buffer_append_text(body, ",\"test_clock\":");
    if (front->shared->clock)
        api_clock_write(body, front->shared->clock);
    else
        buffer_append_text(body, "null");
    buffer_append_text(body, ",\"store\":");
    json_write_string(body, slice_of(info.store ? info.store : ""));
    buffer_append_text(body, ",\"sync\":");
    json_write_string(body, slice_of(info.sync ? info.sync : ""));
    buffer_append_text(body, ",\"durability\":");
    json_write_string(body, slice_of(info.durability ? info.durability : ""));
    buffer_append_text(body, ",\"durability_class\":");
    json_write_string(body, slice_of(info.durability_class ? info.durability_class : ""));
    buffer_append_text(body, ",\"wait_replicas\":");
    buffer_append_u64(body, info.wait_replicas);
    buffer_append_text(body, ",\"shards\":");
    buffer_append_u64(body, info.shards);
    if (sees_sums) {
        buffer_append_text(body, ",\"bytes_on_disk\":");
        buffer_append_u64(body, info.bytes_on_disk);
    }
    bool is_spent = atomic_load_explicit(&front->shared->is_memory_spent, memory_order_relaxed);
    json_write_member_bool(body, "healthy", info.healthy);
    json_write_member_bool(body, "accepting", info.accepting && !is_spent);
    json_write_member_bool(body, "draining", info.draining);
    json_write_member_bool(body, "delivers", http_delivery_is_on(front->shared->hooks));
    json_write_member(body, "trace_url");
    json_write_string_or_null(body,
                              slice_of(front->shared->trace_url ? front->shared->trace_url : ""));
    buffer_append_text(body, ",\"features\":");
    write_features(body);
    if (sees_sums) {
        buffer_append_text(body, ",\"memory_bytes\":");
        buffer_append_u64(body, http_budget_used(front->shared));
        buffer_append_text(body, ",\"process_memory_bytes\":");
        buffer_append_u64(
            body, atomic_load_explicit(&front->shared->process_bytes, memory_order_relaxed));
    }
    buffer_append_text(body, ",\"caller\":");
    buffer_append_byte(body, '{');
    api_caller_members_write(body, call->caller);
    buffer_append_byte(body, '}');
    buffer_append_text(body, ",\"scopes\":");
    write_scopes(body, front->shared);
    buffer_append_text(body, ",\"limits\":");
    write_limits(body, front);
    buffer_append_byte(body, '}');
    http_answer_end_json(call->exchange, 200);
}

static void get_healthz(struct http_call *call)
{
    answer_text(call->exchange, 200, "text/plain", slice_of("ok\n"));
}

static void get_readyz(struct http_call *call)
{
    struct http_front *front = call->front;
    struct queue_info info = {0};
    queue_info(front->queue, &info);
    bool is_up = atomic_load_explicit(&front->shared->is_ready, memory_order_acquire);
    if (is_up && info.healthy && info.accepting) {
        answer_text(call->exchange, 200, "text/plain", slice_of("ok\n"));
        return;
    }
    http_answer_problem(call->exchange, PROBLEM_NOT_READY, 0, "%s",
                        !is_up ? "the server is starting or stopping"
                        : !info.healthy
                            ? "the store cannot be reached or has failed; see the server's log"
                        : info.moved ? queue_status_sentence(QUEUE_DIRECTORY_MOVED)
                                     : "the store is full, so pushes are rejected");
}

static void get_openapi(struct http_call *call)
{
    answer_text(call->exchange, 200, "application/yaml",
                slice_make(api_openapi_text, api_openapi_bytes));
}

static void get_problem(struct http_call *call)
{
    struct http_exchange *exchange = call->exchange;
    if (http_problem_describe(http_answer_start(exchange), call->id)) {
        http_answer_end_json(exchange, 200);
        return;
    }
    http_answer_problem(exchange, PROBLEM_NO_SUCH_PATH, 0,
                        "there is no problem '%s'; /problems lists them",
                        http_quotable(call->id, 60));
}

static void get_problems(struct http_call *call)
{
    http_problems_list(http_answer_start(call->exchange));
    http_answer_end_json(call->exchange, 200);
}

/* ---- backups of a running store: begin, renew, end; the caller copies the files ---- */

static void on_backup_done(void *owner, uint64_t tag, enum queue_status status, struct slice json)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (status == QUEUE_CONFLICT) {
        http_answer_problem(exchange, PROBLEM_TOO_MANY_BACKUPS, 0,
                            "other backups are in progress; wait until one of them is done");
    } else if (status == QUEUE_NOT_FOUND) {
        http_answer_refusal(exchange, status,
                            "there is no such backup, or it was not renewed in time and its files "
                            "may be gone: make another one",
                            (enum job_state)0);
    } else if (status != QUEUE_OK) {
        http_answer_refusal(exchange, status, NULL, (enum job_state)0);
    } else {
        buffer_append_slice(http_answer_start(exchange), json);
        http_answer_end_json(exchange, 200);
    }
}

/* Handles the backup calls. The verb of the route is the enum http_backup. */
static void call_backup(struct http_call *call)
{
    struct http_front *front = call->front;
    const struct http_backup_hooks *hooks = front->shared->backup;
    if (!hooks) {
        http_answer_problem(call->exchange, PROBLEM_NO_BACKUP, 0,
                            "this server's jobs are in Redis: back up Redis with its own tools");
        return;
    }
    hooks->backup(hooks->ctx, front->reactor, (enum http_backup)call->exchange->route->verb,
                  call->id, on_backup_done, front, http_exchange_tag(call->exchange));
}

/* ---- draining: refusing new jobs ---- */

static void on_drained(void *owner, uint64_t tag)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    buffer_append_text(http_answer_start(exchange),
                       exchange->route->verb ? "{\"draining\":true}" : "{\"draining\":false}");
    http_answer_end_json(exchange, 200);
}

/* Starts or stops draining, by the verb of the route. */
static void call_drain(struct http_call *call)
{
    struct http_front *front = call->front;
    const struct http_drain_hooks *hooks = front->shared->drain;
    if (!hooks || !hooks->drain(hooks->ctx, call->exchange->route->verb, front->reactor, on_drained,
                                front, http_exchange_tag(call->exchange)))
        http_answer_problem(call->exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
}

/* ---- calls ---- */

#define GET_CALL(PATTERN, NAME, FOR, HANDLE)                                                       \
    {                                                                                              \
        .method = HTTP_METHOD_GET, .pattern = (PATTERN), .name = (NAME), .handle = (HANDLE),       \
        .scope = HTTP_FOR_##FOR, .topics = HTTP_TOPICS_NONE                                        \
    }
#define BACKUP(METHOD, PATTERN, VERB, AUDIT)                                                       \
    {                                                                                              \
        .method = HTTP_METHOD_##METHOD, .pattern = (PATTERN), .name = "backup", .audit = (AUDIT),  \
        .scope = ACCESS_ADMIN, .topics = HTTP_TOPICS_ALL, .handle = call_backup,                   \
        .verb = HTTP_BACKUP_##VERB                                                                 \
    }

#define DRAIN(METHOD, ON, AUDIT)                                                                   \
    {                                                                                              \
        .method = HTTP_METHOD_##METHOD, .pattern = "/v1/drain", .name = "drain", .audit = (AUDIT), \
        .scope = ACCESS_ADMIN, .topics = HTTP_TOPICS_ALL, .handle = call_drain, .verb = (ON)       \
    }

const struct http_route api_system_routes[] = {
    GET_CALL("/healthz", "healthz", EVERYBODY, get_healthz),
    GET_CALL("/readyz", "readyz", EVERYBODY, get_readyz),
    GET_CALL("/v1/info", "info", CALLERS, get_info),
    BACKUP(POST, "/v1/backup", BEGIN, "backup begun"),
    BACKUP(PUT, "/v1/backup/{id}", RENEW, "backup renewed"),
    BACKUP(DELETE, "/v1/backup/{id}", END, "backup ended"),
    DRAIN(POST, 1, "new jobs refused"),
    DRAIN(DELETE, 0, "new jobs accepted again"),
    GET_CALL("/openapi.yaml", "openapi", CALLERS, get_openapi),
    GET_CALL("/problems", "problem", CALLERS, get_problems),
    GET_CALL("/problems/{id}", "problem", CALLERS, get_problem),
    GET_CALL("/", "root", EVERYBODY, get_root),
    {0},
};
