#include "http/batch.h"

#include "base/json_write.h"
#include "http/job_json.h"
#include "http/media.h"
#include "http/private.h"
#include "queue/status.h"

#include <assert.h>
#include <stdlib.h>

/* ---- parsing ---- */

static bool begin_item(struct http_batch *batch, struct http_fault *fault)
{
    if (batch->item_count == QUEUE_BATCH_MAX)
        return http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_BATCH_MAX,
                              "a batch has at most %d jobs: send several", QUEUE_BATCH_MAX);
    batch->item_count++;
    return true;
}

static void set_aside(struct http_batch *batch, const struct http_fault *fault)
{
    struct http_item_fault item = {.index = batch->item_count - 1, .fault = *fault};
    buffer_append(batch->faults, &item, sizeof item);
}

static void add_item(struct http_batch *batch, struct json_value value)
{
    struct http_fault fault;
    if (http_item_parse(value, &batch->pushes[batch->push_count], batch->arena, batch->meta,
                        batch->hooks, &fault))
        batch->push_count++;
    else
        set_aside(batch, &fault);
}

static bool refuse_json(struct http_fault *fault, size_t at)
{
    return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", at);
}

/* One line. False: the whole is refused. A line that is no JSON is set aside like any bad item; but
 * in what was announced as one JSON value (`is_json`) it shows that the value is malformed. */
static bool parse_line(struct slice line, bool is_json, struct http_batch *batch,
                       struct http_fault *fault)
{
    struct json_value value;
    struct http_fault item_fault;
    size_t error_at;
    if (!begin_item(batch, fault))
        return false;
    if (json_check(line, &value, &error_at) && (value.kind == JSON_OBJECT || !is_json)) {
        add_item(batch, value);
        return true;
    }
    if (is_json)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "the body must be a JSON array of jobs, or one object a line");
    (void)refuse_json(&item_fault, error_at);
    set_aside(batch, &item_fault);
    return true;
}

static bool parse_lines(struct slice body, bool is_json, struct http_batch *batch,
                        struct http_fault *fault)
{
    const char *at = body.at, *end = body.at + body.len;
    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        struct slice line = slice_make(at, (size_t)((lf ? lf : end) - at));
        at = lf ? lf + 1 : end;
        if (line.len && line.at[line.len - 1] == '\r')
            line.len--;
        if (line.len && !parse_line(line, is_json, batch, fault))
            return false;
    }
    return batch->item_count || !is_json || refuse_json(fault, body.len);
}

static bool parse_array(struct slice body, struct http_batch *batch, struct http_fault *fault)
{
    struct json_cursor cursor = {0};
    struct json_value array, value;
    size_t error_at;
    if (!json_check(body, &array, &error_at))
        return refuse_json(fault, error_at);
    while (json_next_item(array, &cursor, &value)) {
        if (!begin_item(batch, fault))
            return false;
        add_item(batch, value);
    }
    return true;
}

static bool begins_array(struct slice body)
{
    size_t i = 0;
    while (i < body.len &&
           (body.at[i] == ' ' || body.at[i] == '\t' || body.at[i] == '\r' || body.at[i] == '\n'))
        i++;
    return i < body.len && body.at[i] == '[';
}

bool http_batch_parse(struct slice body, struct slice type, struct http_batch *batch,
                      struct http_fault *fault)
{
    batch->push_count = batch->item_count = 0;
    buffer_clear(batch->arena);
    buffer_clear(batch->faults);
    /* All text that is unescaped or copied is shorter than where it stands in the body. */
    if (!buffer_reserve(batch->arena, body.len + 1))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    const char *arena_at = batch->arena->at;
    bool parsed = begins_array(body) && !http_media_is_lines(type)
                      ? parse_array(body, batch, fault)
                      : parse_lines(body, http_media_is_json(type), batch, fault);
    assert(batch->arena->at == arena_at);
    (void)arena_at;
    if (parsed && batch->faults->failed)
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    return parsed;
}

/* ---- the call ---- */

static void write_fault(struct buffer *out, const struct http_fault *fault)
{
    buffer_append_text(out, "{\"result\":\"");
    buffer_append_text(out, http_problem_code(fault->problem));
    buffer_append_byte(out, '"');
    http_fault_members_write(out, fault);
    buffer_append_byte(out, '}');
}

static void write_result(struct http_exchange *exchange, struct buffer *out,
                         const struct queue_result *result)
{
    buffer_append_byte(out, '{');
    http_result_members_write(out, result);
    if (!queue_status_is_success(result->status)) {
        uint64_t limit =
            result->status == QUEUE_BODY_TOO_BIG ? exchange->front->options.body_bytes_max : 0;
        http_refusal_members_write(out, result->status, result->detail, 0, limit);
    }
    buffer_append_byte(out, '}');
}

/* Results of the queue and faults found here, woven back into the order of the items. */
static void answer(struct http_exchange *exchange, const struct queue_result *results, size_t count)
{
    const struct http_item_fault *fault = (const void *)exchange->note.at;
    const struct http_item_fault *faults_end =
        (const void *)(exchange->note.at + exchange->note.len);
    struct buffer *out = http_answer_start(exchange);
    bool lines = exchange->wants_lines;
    size_t next = 0;
    if (!lines)
        buffer_append_text(out, "{\"results\":[");
    for (uint32_t i = 0; i < exchange->count; i++) {
        if (i && !lines)
            buffer_append_byte(out, ',');
        if (exchange->note.len && fault < faults_end && fault->index == i) {
            write_fault(out, &fault++->fault);
        } else {
            assert(next < count);
            write_result(exchange, out, &results[next++]);
        }
        if (lines)
            buffer_append_byte(out, '\n');
    }
    if (!lines)
        buffer_append_text(out, "]}");
    if (lines)
        http_answer_end(exchange, 200, "application/x-ndjson");
    else
        http_answer_end_json(exchange, 200);
}

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK)
        http_answer_refusal(exchange, reply->status, NULL, 0);
    else
        answer(exchange, reply->results, reply->result_count);
}

void http_batch(struct http_call *call)
{
    struct http_front *front = call->front;
    struct http_exchange *exchange = call->exchange;
    struct http_fault fault;
    if (!front->pushes)
        front->pushes = calloc(QUEUE_BATCH_MAX, sizeof *front->pushes);
    buffer_init(&exchange->note, QUEUE_BATCH_MAX * sizeof(struct http_item_fault));
    struct http_batch batch = {.pushes = front->pushes,
                               .faults = &exchange->note,
                               .arena = &front->arena,
                               .meta = &front->meta,
                               .hooks = front->shared->hooks};
    if (!front->pushes)
        (void)http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!front->pushes ||
        !http_batch_parse(call->request->body, call->request->content_type, &batch, &fault)) {
        http_answer_fault(exchange, &fault);
        return;
    }
    exchange->count = batch.item_count;
    exchange->wants_lines = http_media_is_lines(call->request->accept);
    if (batch.push_count)
        queue_push(front->queue, front->pushes, batch.push_count, http_reply_to(call, on_pushed));
    else
        answer(exchange, NULL, 0);
    if (front->arena.cap > HTTP_READ_BYTES)
        buffer_shrink(&front->arena, HTTP_READ_BYTES);
}
