/* The answers of consumers: ack, nack, extend and return. */
#include "api/answers.h"

#include "api/job_json.h"
#include "api/media.h"
#include "api/push.h"
#include "api/routes.h"
#include "api/state.h"
#include "api/trace.h"
#include "base/json_write.h"
#include "base/text.h"
#include "http/exchange.h"
#include "http/route.h"
#include "job/json.h"
#include "queue/status.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- leases and their answers ---- */

struct answers_reading {
    struct http_call *call;
    struct queue_answer *answers; /* room for QUEUE_BATCH_MAX */
    uint32_t count;
    struct queue_answer common; /* values that each answer starts from */
    struct http_fault *fault;
};

/* Adds the answer for one more lease. */
static bool add_answer(struct answers_reading *reading, struct queue_answer answer)
{
    if (reading->count == QUEUE_BATCH_MAX)
        return http_fault_set(reading->fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_BATCH_MAX,
                              "too many leases in one call, at most %d: make several calls",
                              QUEUE_BATCH_MAX);
    reading->answers[reading->count++] = answer;
    return true;
}

void api_fields_answer(const struct http_fields *fields, struct queue_answer *answer)
{
    if (http_fields_have(fields, OPTION_DELAY))
        answer->delay_ms = fields->delay_ms;
    if (http_fields_have(fields, OPTION_ERROR))
        answer->error = fields->error;
    if (http_fields_have(fields, OPTION_LEASE_FOR))
        answer->lease_ms = fields->policy.lease_ms;
    if (http_fields_have(fields, OPTION_FINAL))
        answer->final = fields->final;
    if (http_fields_have(fields, OPTION_HOLD))
        answer->hold_ms = fields->hold_ms;
    if (http_fields_have(fields, OPTION_PROGRESS))
        answer->progress = fields->progress;
    if (http_fields_have(fields, OPTION_PRIORITY)) {
        answer->has_priority = true;
        answer->priority = (uint16_t)fields->priority;
    }
}

static bool read_lease(struct answers_reading *reading, struct json_value value, struct slice *out)
{
    if (value.kind != JSON_STRING)
        return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, 0, "a lease must be a string");
    if (!json_string_bytes(value.raw, &reading->call->front->arena, out))
        return http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    return true;
}

/* Returns whether the answers of the call may have a result. A nack must be final. */
static bool takes_result(const struct answers_reading *reading, const struct queue_answer *answer)
{
    return reading->common.verb == QUEUE_ACK ||
           (reading->common.verb == QUEUE_NACK && answer->final);
}

bool api_result_check(const struct http_front *front, struct slice type, struct slice result,
                      struct http_fault *fault)
{
    uint64_t most = front->options.result_bytes_max;
    if (type.len > JOB_CONTENT_TYPE_BYTES_MAX)
        return http_fault_set(fault, PROBLEM_BAD_OPTION, JOB_CONTENT_TYPE_BYTES_MAX,
                              "the content type has more than %d bytes",
                              JOB_CONTENT_TYPE_BYTES_MAX);
    if (!api_media_is_valid(type))
        return http_fault_set(fault, PROBLEM_BAD_ITEM, 0,
                              "the content type of a result must be printable ASCII");
    return result.len <= most ||
           http_fault_set(fault, PROBLEM_RESULT_TOO_BIG, most,
                          "the result has %zu bytes, but the limit is %" PRIu64
                          "; the job stays leased, keep the result elsewhere and send a "
                          "reference",
                          result.len, most);
}

static bool check_result(const struct answers_reading *reading, const struct queue_answer *answer)
{
    if (answer->result.len && !takes_result(reading, answer))
        return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, 0,
                              "only an ack or a final nack has a result");
    return api_result_check(reading->call->front, answer->result_type, answer->result,
                            reading->fault);
}

static bool read_result_type(struct answers_reading *reading, struct json_value value,
                             struct slice *type)
{
    if (value.kind != JSON_STRING ||
        !json_string_bytes(value.raw, &reading->call->front->arena, type))
        return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, 0,
                              "'result_type' must be a string");
    return api_result_check(reading->call->front, *type, (struct slice){0}, reading->fault);
}

/* Reads the member "result", any JSON value whose text is its string, "result_base64" or "result_type", which is stored in *type. Sets *is_one if it is one. */
static bool read_result(struct answers_reading *reading, struct slice key, struct json_value value,
                        struct queue_answer *answer, struct slice *type, bool *is_one)
{
    struct buffer *arena = &reading->call->front->arena;
    bool is_plain = json_string_is(key, "result"), done = true;
    bool is_type = json_string_is(key, "result_type");
    *is_one = is_plain || is_type || json_string_is(key, "result_base64");
    if (!*is_one)
        return true;
    if (is_type)
        return read_result_type(reading, value, type);
    if (answer->result.len)
        return http_fault_set(reading->fault, PROBLEM_OPTION_TWICE, 0,
                              "the result is given more than once");
    if (is_plain) {
        done = job_json_read_body(value, arena, &answer->result_type, &answer->result);
    } else {
        struct slice base64;
        if (value.kind != JSON_STRING || !json_string_bytes(value.raw, arena, &base64))
            return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, 0,
                                  "'result_base64' must be a string");
        size_t start = arena->len;
        if (!text_base64_decode(base64, arena))
            return http_fault_set(reading->fault, PROBLEM_BAD_ITEM, 0,
                                  "'result_base64' is not valid base64");
        answer->result = slice_make(arena->at + start, arena->len - start);
    }
    return done || http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}

/* Reads an item: "lease" or {"lease":"…","delay":"10s","error":"…","final":true,"priority":0}. */
static bool read_answer(struct answers_reading *reading, struct json_value item)
{
    static const char *const beside[] = {"lease", NULL};
    bool is_result;
    struct queue_answer answer = reading->common;
    struct http_fields fields = {0};
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key, type = {0};
    http_options allowed = reading->call->exchange->route->options & ~OPTION_BIT(OPTION_LEASE);
    if (item.kind != JSON_OBJECT)
        return read_lease(reading, item, &answer.lease) && add_answer(reading, answer);
    while (json_next_member(item, &cursor, &key, &value)) {
        if (!read_result(reading, key, value, &answer, &type, &is_result))
            return false;
        if (is_result)
            continue;
        if (json_string_is(key, "lease") && !answer.lease.at) {
            if (!read_lease(reading, value, &answer.lease))
                return false;
        } else if (!http_option_set_member(&fields, allowed, beside, key, value,
                                           &reading->call->front->arena, reading->fault)) {
            return false;
        }
    }
    if (!answer.lease.at)
        return http_fault_set(reading->fault, PROBLEM_OPTION_MISSING, 0,
                              "'lease' is missing, write {\"lease\":\"...\"}");
    if (!http_fields_check(&fields, reading->fault))
        return false;
    api_fields_answer(&fields, &answer);
    if (type.len)
        answer.result_type = type;
    return check_result(reading, &answer) && add_answer(reading, answer);
}

static bool read_leases(struct answers_reading *reading, struct json_value leases)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    if (leases.kind != JSON_ARRAY)
        return http_fault_set(reading->fault, PROBLEM_BAD_JSON, 0,
                              "'leases' must be an array such as [\"...\"]");
    while (json_next_item(leases, &cursor, &item))
        if (!read_answer(reading, item))
            return false;
    return true;
}

/* Reads the body: {"leases":[…]}, and next to it the options for all of them. */
static bool read_answers_body(struct answers_reading *reading)
{
    static const char *const beside[] = {"leases", NULL};
    struct http_call *call = reading->call;
    struct json_value object, value, leases = {0};
    struct json_cursor cursor = {0};
    struct slice key, body = call->request->body;
    size_t error_at;
    http_options allowed = call->exchange->route->options & ~OPTION_BIT(OPTION_LEASE);
    struct buffer *arena = &call->front->arena;

    buffer_clear(arena);
    if (!buffer_reserve(arena, 2 * body.len + 1))
        return http_fault_set(reading->fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!json_check(body, &object, &error_at))
        return http_fault_set(reading->fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu",
                              error_at);
    if (object.kind != JSON_OBJECT)
        return http_fault_set(reading->fault, PROBLEM_BAD_JSON, 0,
                              "the body must be {\"leases\":[\"...\"]}");
    while (json_next_member(object, &cursor, &key, &value)) {
        if (json_string_is(key, "leases") && !leases.kind)
            leases = value;
        else if (!http_option_set_member(&call->query->fields, allowed, beside, key, value, arena,
                                         reading->fault))
            return false;
    }
    if (!http_fields_check(&call->query->fields, reading->fault))
        return false;
    api_fields_answer(&call->query->fields, &reading->common);
    if (!leases.kind)
        return http_fault_set(reading->fault, PROBLEM_OPTION_MISSING, 0,
                              "'leases' is missing, write {\"leases\":[\"...\"]}");
    return read_leases(reading, leases);
}

/* Returns whether the body is null or {}, which generated clients send for an unset optional
 * body. */
static bool is_nothing(struct slice body)
{
    struct json_cursor cursor = {0};
    struct json_value value, member;
    struct slice key;
    return !body.len ||
           (json_check(body, &value, NULL) &&
            (value.kind == JSON_NULL ||
             (value.kind == JSON_OBJECT && !json_next_member(value, &cursor, &key, &member))));
}

/* Returns whether the body of the call is the result of the one lease in its query. */
static bool body_is_result(const struct answers_reading *reading)
{
    const struct http_call *call = reading->call;
    return call->query->lease_count == 1 && takes_result(reading, &reading->common) &&
           (call->exchange->route->format ? call->request->body.len > 0
                                          : !is_nothing(call->request->body));
}

/* Takes the body as the result. A form is the default content type of curl, so it is not stored. */
static bool take_result(struct answers_reading *reading)
{
    const struct http_call *call = reading->call;
    struct slice type = call->request->content_type;
    struct queue_answer *answer = &reading->answers[0];
    answer->result = call->request->body;
    answer->result_type = api_media_is_form(type) ? (struct slice){0} : type;
    return check_result(reading, answer);
}

static bool read_answers(struct answers_reading *reading)
{
    struct http_call *call = reading->call;
    api_fields_answer(&call->query->fields, &reading->common);
    for (uint32_t i = 0; i < call->query->lease_count; i++) {
        reading->common.lease = call->query->leases[i];
        if (!add_answer(reading, reading->common))
            return false;
    }
    reading->common.lease = (struct slice){0};
    if (body_is_result(reading))
        return take_result(reading);
    bool is_named = reading->count > 0; /* given in the query */
    if (call->request->body.len && !(is_named && is_nothing(call->request->body)) &&
        !read_answers_body(reading))
        return false;
    return reading->count ||
           http_fault_set(reading->fault, PROBLEM_OPTION_MISSING, 0,
                          "'lease' is missing: give the lease that the take returned");
}

/* ---- results ---- */

/* Stores the leases in the note, since the answer lists them and the request is gone by then. */
static bool note_leases(struct http_exchange *exchange, const struct queue_answer *answers,
                        uint32_t count)
{
    struct buffer *note = &exchange->note;
    http_front_lend(exchange->front, note);
    for (uint32_t i = 0; i < count; i++) {
        struct slice lease = answers[i].lease;
        uint16_t len =
            (uint16_t)(lease.len < QUEUE_LEASE_TEXT_BYTES_MAX ? lease.len
                                                              : QUEUE_LEASE_TEXT_BYTES_MAX);
        buffer_append(note, &len, sizeof len);
        buffer_append(note, lease.at, len);
    }
    return !note->failed;
}

/* Returns the next lease of the note and advances *at. */
static struct slice noted_lease(const struct http_exchange *exchange, size_t *at)
{
    uint16_t len;
    memcpy(&len, exchange->note.at + *at, sizeof len);
    struct slice lease = slice_make(exchange->note.at + *at + sizeof len, len);
    *at += sizeof len + len;
    return lease;
}

static void write_result(struct buffer *out, struct slice lease, const struct queue_result *result)
{
    buffer_append_text(out, "{\"lease\":");
    json_write_string(out, lease);
    if (result->id.len) {
        buffer_append_text(out, ",\"id\":");
        json_write_string(out, result->id);
    }
    buffer_append_text(out, ",\"result\":\"");
    buffer_append_text(out, queue_status_code(result->status));
    buffer_append_byte(out, '"');
    if (result->state && result->state != JOB_FINISHED) {
        buffer_append_text(out, ",\"state\":\"");
        buffer_append_text(out, job_state_name(result->state));
        buffer_append_byte(out, '"');
    }
    if (result->due_ms) {
        buffer_append_text(out, ",\"due_at\":");
        json_write_time(out, result->due_ms);
    }
    if (result->lease_until_ms) {
        buffer_append_text(out, ",\"lease_until\":");
        json_write_time(out, result->lease_until_ms);
    }
    if (result->cancel_requested)
        buffer_append_text(out, ",\"cancel_requested\":true");
    if (!queue_status_is_success(result->status))
        http_refusal_members_write(out, result->status, result->detail, 0, 0);
    buffer_append_byte(out, '}');
}

/* Ends the deliveries in the trace. */
static void trace_answers(struct http_exchange *exchange, const struct queue_reply *reply)
{
    enum queue_verb verb = (enum queue_verb)exchange->route->verb;
    size_t at = 0;
    for (size_t i = 0; i < reply->result_count; i++)
        api_trace_answered(exchange->front, verb, noted_lease(exchange, &at), &reply->results[i]);
}

/* Answers in the format of the route. */
static void answer_results(struct http_exchange *exchange, const struct queue_reply *reply)
{
    const struct http_format *format = exchange->route->format;
    struct buffer *out = format->begin(exchange);
    for (size_t i = 0; i < reply->result_count; i++)
        format->add_result(out, &reply->results[i]);
    format->end(exchange, (struct slice){0});
}

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_replied(owner, tag, reply);
    const struct queue_result *results = reply->results;
    if (!exchange)
        return;
    if (exchange->front->shared->tracer)
        trace_answers(exchange, reply);
    if (exchange->is_single && !queue_status_is_success(results->status)) {
        http_answer_refusal(exchange, results->status, results->detail, results->state);
        return;
    }
    if (exchange->route->format) {
        answer_results(exchange, reply);
        return;
    }
    struct buffer *out = http_answer_start(exchange);
    size_t at = 0;
    buffer_append_text(out, "{\"results\":[");
    for (size_t i = 0; i < reply->result_count; i++) {
        struct slice lease = noted_lease(exchange, &at);
        if (i)
            buffer_append_byte(out, ',');
        write_result(out, lease, &results[i]);
    }
    buffer_append_text(out, "]}");
    http_answer_end_json(exchange, 200);
}

/* Handles ack, nack, extend and return. The verb of the route is the enum queue_verb. */
static void answer_leases(struct http_call *call)
{
    struct http_front *front = call->front;
    struct http_fault fault;
    struct answers_reading reading = {
        .call = call,
        .answers = api_room_for_answers(front),
        .common = {.verb = (enum queue_verb)call->exchange->route->verb, .delay_ms = -1},
        .fault = &fault};
    bool done = reading.answers != NULL;
    if (!done)
        (void)http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    done = done && read_answers(&reading);
    if (done && !note_leases(call->exchange, reading.answers, reading.count))
        done = http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!done) {
        http_answer_fault(call->exchange, &fault);
        return;
    }
    call->exchange->is_single =
        reading.count == 1 && call->query->lease_count == 1 && !call->exchange->is_plural;
    if (front->shared->tracer)
        api_trace_answering(front, reading.answers, reading.count);
    queue_answer(front->queue, reading.answers, reading.count, http_reply_to(call, on_answered));
}

/* ---- again ---- */

/* Reads the new body. Without one the old body stays. A form is the default content type of curl, so it does not
 * replace that of the job. */
static bool read_again(const struct http_call *call, struct queue_again *again,
                       struct http_fault *fault)
{
    const struct http_fields *fields = &call->query->fields;
    struct slice type = call->request->content_type;
    if (api_media_is_form(type))
        type = (struct slice){0};
    if (call->query->lease_count != 1)
        return http_fault_set(
            fault, call->query->lease_count ? PROBLEM_OPTION_CLASH : PROBLEM_OPTION_MISSING, 0,
            call->query->lease_count
                ? "several leases are given: give one, since the body belongs to "
                  "one job"
                : "'lease' is missing: give the lease that the take returned");
    *again = (struct queue_again){.when = http_fields_when(fields, QUEUE_DUE_NOW),
                                  .priority = http_fields_have(fields, OPTION_PRIORITY)
                                                  ? (int32_t)fields->priority
                                                  : QUEUE_PRIORITY_UNSET,
                                  .has_body = call->request->body.len > 0,
                                  .content_type = type,
                                  .body = call->request->body};
    return api_body_check(type, again->body, fault);
}

/* Acks a job and pushes it again in one step. */
static void push_again(struct http_call *call)
{
    struct queue_again again;
    struct queue_answer answer = {.verb = QUEUE_AGAIN, .again = &again};
    struct http_fault fault;
    bool done = read_again(call, &again, &fault);
    answer.lease = call->query->leases[0];
    if (done && !note_leases(call->exchange, &answer, 1))
        done = http_fault_set(&fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!done) {
        http_answer_fault(call->exchange, &fault);
        return;
    }
    call->exchange->is_single = true;
    if (call->front->shared->tracer)
        api_trace_answering(call->front, &answer, 1);
    queue_answer(call->front->queue, &answer, 1, http_reply_to(call, on_answered));
}

#define ANSWER(PATTERN, NAME, VERB, OPTIONS)                                                       \
    {                                                                                              \
        .method = HTTP_METHOD_POST, .pattern = (PATTERN), .name = (NAME), .handle = answer_leases, \
        .verb = (VERB), .options = OPTION_BIT(OPTION_LEASE) | (OPTIONS), .body = HTTP_BODY_SMALL,  \
        .scope = ACCESS_CONSUME, .topics = HTTP_TOPICS_LEASE                                       \
    }

const struct http_route api_answers_routes[] = {
    ANSWER("/v1/ack", "ack", QUEUE_ACK, OPTION_BIT(OPTION_HOLD)),
    ANSWER("/v1/nack", "nack", QUEUE_NACK,
           OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_ERROR) | OPTION_BIT(OPTION_FINAL) |
               OPTION_BIT(OPTION_PRIORITY) | OPTION_BIT(OPTION_HOLD)),
    ANSWER("/v1/extend", "extend", QUEUE_EXTEND,
           OPTION_BIT(OPTION_LEASE_FOR) | OPTION_BIT(OPTION_PROGRESS)),
    ANSWER("/v1/return", "return", QUEUE_RETURN,
           OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_HOLD)),
    {.method = HTTP_METHOD_POST,
     .pattern = "/v1/again",
     .name = "again",
     .handle = push_again,
     .verb = QUEUE_AGAIN,
     .options = OPTION_BIT(OPTION_LEASE) | OPTION_BIT(OPTION_DELAY) | OPTION_BIT(OPTION_AT) |
                OPTION_BIT(OPTION_PRIORITY),
     .body = HTTP_BODY_JOB,
     .scope = ACCESS_CONSUME,
     .topics = HTTP_TOPICS_LEASE},
    {0},
};
