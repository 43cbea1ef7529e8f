#include "grpc/answer.h"

#include "base/json_levels.h"
#include "grpc/encode.h"
#include "grpc/frame.h"
#include "grpc/request.h"
#include "grpc/status.h"
#include "grpc/transcode.h"
#include "grpc/wire.h"

enum { LIST_FIELD = 1, CLOSED_FIELD = 14, CURSOR_FIELD = 15, RESULT_PROBLEM_FIELD = 6 };
/* Clients reject messages over 4 MiB, unless they are told otherwise. */
enum { TAKE_BYTES_MAX = 3584 * 1024 };
enum { JSON_BYTES_MAX = 16 << 20 }; /* of the answer of a handler */

struct buffer *answer_begin(struct http_exchange *exchange)
{
    struct buffer *out = http_answer_start(exchange);
    (void)frame_begin(out);
    return out;
}

void answer_end(struct http_exchange *exchange, struct slice cursor)
{
    struct buffer *out = &exchange->front->body;
    wire_text(out, CURSOR_FIELD, cursor);
    frame_end(out, FRAME_HEAD_BYTES);
    http_answer_trailer(exchange, "grpc-status", slice_of("0"));
    http_answer_end(exchange, 200, GRPC_CONTENT_TYPE);
}

/* ---- refusals ---- */

static void add_field(void *exchange, const char *name, struct slice value)
{
    http_answer_field(exchange, name, value);
}

static void refuse(struct http_exchange *exchange, const struct http_refusal *refusal)
{
    (void)http_answer_start(exchange);
    exchange->status_counted = refusal->status;
    grpc_status_fields(refusal, add_field, exchange);
    if (strcmp(refusal->code, "coding_unknown") == 0)
        http_answer_field(exchange, "grpc-accept-encoding", slice_of("identity"));
    http_answer_end(exchange, 200, GRPC_CONTENT_TYPE);
}

void answer_refuse_fault(struct http_exchange *exchange, const struct http_fault *fault)
{
    struct http_refusal refusal;
    http_refusal_of_fault(&refusal, fault);
    if (refusal.status == 503 && !refusal.retry_s)
        refusal.retry_s = 1;
    refuse(exchange, &refusal);
}

void answer_not_found(struct http_exchange *exchange, const char *detail)
{
    struct http_refusal refusal;
    http_refusal_of(&refusal, QUEUE_NOT_FOUND, detail, 0);
    refuse(exchange, &refusal);
}

/* ---- items of a list ---- */

static void add_job(struct buffer *out, const struct queue_job *job, bool with_body)
{
    size_t begin = wire_begin(out, LIST_FIELD, (with_body ? job->job.body.len : 0) + 150);
    encode_job(out, job, with_body);
    wire_end(out, begin);
}

static void add_ended(struct buffer *out, const struct queue_job *job)
{
    size_t begin = wire_begin(out, LIST_FIELD, 200 + (job->end ? job->end->result.len : 0));
    encode_ended(out, job);
    wire_end(out, begin);
}

static void add_closed(struct buffer *out, bool is_closed)
{
    wire_flag(out, CLOSED_FIELD, is_closed);
}

static void add_topic(struct buffer *out, const struct queue_topic *topic)
{
    size_t begin = wire_begin(out, LIST_FIELD, 150);
    encode_topic(out, topic);
    wire_end(out, begin);
}

static void add_answer_result(struct buffer *out, const struct queue_result *result)
{
    size_t begin = wire_begin(out, LIST_FIELD, 50);
    encode_answer_result(out, result);
    wire_end(out, begin);
}

void answer_add_push(struct http_exchange *exchange, struct buffer *out,
                     const struct queue_result *result)
{
    struct queue_result known = *result;
    if (known.status == QUEUE_BODY_TOO_BIG && !known.limit)
        known.limit = exchange->front->options.body_bytes_max;
    size_t begin = wire_begin(out, LIST_FIELD, 60);
    encode_push_result(out, &known);
    wire_end(out, begin);
}

void answer_add_fault(struct buffer *out, const struct http_fault *fault)
{
    struct http_refusal refusal;
    http_refusal_of_fault(&refusal, fault);
    size_t begin = wire_begin(out, LIST_FIELD, 120);
    encode_problem(out, RESULT_PROBLEM_FIELD, &refusal);
    wire_end(out, begin);
}

/* ---- single answers ---- */

static void answer_job(struct http_exchange *exchange, const struct queue_job *job)
{
    encode_job(answer_begin(exchange), job, true);
    answer_end(exchange, (struct slice){0});
}

static void answer_topic(struct http_exchange *exchange, const struct queue_topic *topic)
{
    encode_topic(answer_begin(exchange), topic);
    answer_end(exchange, (struct slice){0});
}

/* A push has its result as the message, a change has a list of one. */
static void answer_result(struct http_exchange *exchange, const struct queue_result *result)
{
    struct buffer *out = answer_begin(exchange);
    if (request_method(exchange)->message == &tarry__v1__push_request__descriptor)
        encode_push_result(out, result);
    else
        answer_add_push(exchange, out, result);
    answer_end(exchange, (struct slice){0});
}

static void answer_affected(struct http_exchange *exchange, uint64_t jobs, uint64_t seen,
                            bool is_complete)
{
    (void)seen;
    (void)is_complete;
    wire_u64(answer_begin(exchange), 1, jobs);
    answer_end(exchange, (struct slice){0});
}

/* Refuses a call whose handler wrote malformed JSON, which is a fault of the server. */
static void refuse_malformed(struct http_exchange *exchange)
{
    const struct http_refusal refusal = {
        .code = "internal", .detail = "the answer is malformed: report this fault", .status = 500};
    exchange->outcome = refusal.code;
    refuse(exchange, &refusal);
}

/* Rewrites the JSON of a handler, which the front still has, as the message of the method. It may show a body within
 * more levels than a client may send. */
static void answer_json(struct http_exchange *exchange)
{
    struct buffer text, scratch, *body = &exchange->front->body;
    struct json_value object = {0};
    buffer_init(&text, JSON_BYTES_MAX);
    buffer_init(&scratch, 4 * JSON_BYTES_MAX);
    buffer_append_slice(&text, buffer_slice(body));
    if (body->failed || text.failed || !buffer_reserve(&scratch, 4 * text.len + 64)) {
        http_answer_problem(exchange, PROBLEM_NO_MEMORY, 0, "out of memory");
    } else if (json_check_levels(buffer_slice(&text), JSON_LEVELS_MAX, &object, NULL) ==
               JSON_MALFORMED) {
        refuse_malformed(exchange);
    } else {
        struct buffer *out = answer_begin(exchange);
        transcode_fields(out, object, request_method(exchange)->result, &scratch);
        out->failed |= scratch.failed;
        answer_end(exchange, (struct slice){0});
    }
    buffer_fini(&text);
    buffer_fini(&scratch);
}

const struct http_format answer_format = {
    .begin = answer_begin,
    .add_job = add_job,
    .add_ended = add_ended,
    .add_topic = add_topic,
    .add_result = add_answer_result,
    .add_push = answer_add_push,
    .add_closed = add_closed,
    .end = answer_end,
    .job = answer_job,
    .topic = answer_topic,
    .result = answer_result,
    .affected = answer_affected,
    .json = answer_json,
    .refuse = refuse,
    .take_bytes_max = TAKE_BYTES_MAX,
};
