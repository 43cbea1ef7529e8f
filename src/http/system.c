/* About the server itself: info, health, its own description. */
#include "base/clock.h"
#include "base/json_write.h"
#include "http/delivery.h"
#include "http/openapi.h"
#include "http/private.h"
#include "queue/status.h"

static void answer_text(struct http_exchange *exchange, uint16_t status, const char *type,
                        struct slice text)
{
    buffer_append_slice(http_answer_start(exchange), text);
    http_answer_end(exchange, status, type);
}

void http_root(struct http_call *call)
{
    struct buffer *body = http_answer_start(call->exchange);
    buffer_append_text(body, "{\"name\":\"tarry\",\"version\":");
    json_write_string(body, slice_of(call->front->shared->version));
    buffer_append_text(body, ",\"info\":\"/v1/info\",\"api\":\"/openapi.yaml\"}");
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
        {"memory_bytes", front->shared->memory_bytes_max},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        buffer_append_byte(out, i ? ',' : '{');
        json_write_key(out, limits[i].name);
        buffer_append_u64(out, limits[i].value);
    }
    buffer_append_byte(out, '}');
}

void http_info(struct http_call *call)
{
    struct http_front *front = call->front;
    struct buffer *body = http_answer_start(call->exchange);
    struct queue_info info = {0};
    queue_info(front->queue, &info);
    buffer_append_text(body, "{\"name\":\"tarry\",\"version\":");
    json_write_string(body, slice_of(front->shared->version));
    buffer_append_text(body, ",\"started_at\":");
    json_write_time(body, front->shared->started_ms);
    buffer_append_text(body, ",\"uptime_ms\":");
    buffer_append_i64(body, clock_wall_ms() - front->shared->started_ms);
    buffer_append_text(body, ",\"now\":");
    json_write_time(body, clock_wall_ms());
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
    buffer_append_text(body, ",\"bytes_on_disk\":");
    buffer_append_u64(body, info.bytes_on_disk);
    buffer_append_text(body, ",\"healthy\":");
    buffer_append_text(body, info.healthy ? "true" : "false");
    buffer_append_text(body, ",\"accepting\":");
    buffer_append_text(body, info.accepting ? "true" : "false");
    buffer_append_text(body, ",\"delivers\":");
    buffer_append_text(body, http_delivery_is_on(front->shared->hooks) ? "true" : "false");
    buffer_append_text(body, ",\"memory_bytes\":");
    buffer_append_u64(body, http_budget_used(front->shared));
    buffer_append_text(body, ",\"limits\":");
    write_limits(body, front);
    buffer_append_byte(body, '}');
    http_answer_end_json(call->exchange, 200);
}

void http_healthz(struct http_call *call)
{
    answer_text(call->exchange, 200, "text/plain", slice_of("ok\n"));
}

void http_readyz(struct http_call *call)
{
    struct http_front *front = call->front;
    struct queue_info info = {0};
    struct http_fault fault;
    queue_info(front->queue, &info);
    bool is_up = atomic_load_explicit(&front->shared->is_ready, memory_order_acquire);
    if (is_up && info.healthy && info.accepting) {
        answer_text(call->exchange, 200, "text/plain", slice_of("ok\n"));
        return;
    }
    (void)http_fault_set(&fault, PROBLEM_NOT_READY, 0, "%s",
                         !is_up ? "the server is starting or stopping"
                         : !info.healthy
                             ? "the store cannot be reached or has failed; see the server's log"
                         : info.moved ? queue_status_sentence(QUEUE_DIRECTORY_MOVED)
                                      : "the store is full, so pushes are refused");
    http_answer_fault(call->exchange, &fault);
}

void http_openapi(struct http_call *call)
{
    answer_text(call->exchange, 200, "application/yaml",
                slice_make(http_openapi_text, http_openapi_bytes));
}

/* ---- what the codes of problems mean ---- */

static void write_problem(struct http_exchange *exchange, const char *code, const char *title,
                          uint16_t status, const char *detail)
{
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"code\":");
    json_write_string(body, slice_of(code));
    buffer_append_text(body, ",\"title\":");
    json_write_string(body, slice_of(title));
    buffer_append_text(body, ",\"status\":");
    buffer_append_u64(body, status);
    if (detail) {
        buffer_append_text(body, ",\"detail\":");
        json_write_string(body, slice_of(detail));
    }
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

void http_problem_get(struct http_call *call)
{
    struct http_fault fault;
    for (int i = QUEUE_NOT_FOUND; i <= QUEUE_UNAVAILABLE; i++) {
        enum queue_status status = (enum queue_status)i;
        if (slice_is(call->id, queue_status_code(status))) {
            write_problem(call->exchange, queue_status_code(status), http_refusal_title(status),
                          http_refusal_status(status), queue_status_sentence(status));
            return;
        }
    }
    for (int i = PROBLEM_NONE + 1; i < PROBLEM_COUNT; i++) {
        enum http_problem problem = (enum http_problem)i;
        if (slice_is(call->id, http_problem_code(problem))) {
            write_problem(call->exchange, http_problem_code(problem), http_problem_title(problem),
                          http_problem_status(problem), NULL);
            return;
        }
    }
    (void)http_fault_set(&fault, PROBLEM_NO_SUCH_PATH, 0, "there is no problem '%s'",
                         http_quotable(call->id, 60));
    http_answer_fault(call->exchange, &fault);
}
