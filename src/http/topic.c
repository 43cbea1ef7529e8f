/* Topics: all of them, one, its settings, pause, resume, purge, redrive. */
#include "base/json_write.h"
#include "http/job_json.h"
#include "http/private.h"

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"topics\":[");
    for (size_t i = 0; i < reply->topic_count; i++) {
        if (i)
            buffer_append_byte(body, ',');
        http_topic_write(body, &reply->topics[i]);
    }
    buffer_append_text(body, "]}");
    http_answer_end(exchange, 200, "application/json");
}

void http_topics(struct http_call *call)
{
    call->front->queue->ops->topics(call->front->queue, http_reply_to(call, on_topics));
}

/* get, put, pause, resume: the topic as it is now. */
static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if ((reply->status != QUEUE_OK && reply->status != QUEUE_CREATED) || reply->topic_count == 0) {
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
        return;
    }
    http_topic_write(http_answer_start(exchange), &reply->topics[0]);
    http_answer_end(exchange, reply->status == QUEUE_CREATED ? 201 : 200, "application/json");
}

/* delete, purge, redrive: how many jobs it concerned. */
static void on_affected(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"topic\":");
    json_write_string(body, buffer_slice(&exchange->note));
    buffer_append_text(body, ",\"result\":\"ok\",\"jobs\":");
    buffer_append_u64(body, reply->affected);
    buffer_append_byte(body, '}');
    http_answer_end(exchange, 200, "application/json");
}

static void call_topic(struct http_call *call, struct queue_topic_call topic, queue_done *done)
{
    topic.topic = call->topic;
    http_front_lend(call->front, &call->exchange->note);
    buffer_append_slice(&call->exchange->note, call->topic);
    call->front->queue->ops->topic(call->front->queue, &topic, http_reply_to(call, done));
}

void http_topic_get(struct http_call *call)
{
    call_topic(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_GET}, on_topic);
}

/* Settings may stand in the query, or in a JSON object as `GET` shows them. */
static bool read_settings(struct http_call *call, struct http_fault *fault)
{
    struct slice body = call->request->body, key;
    struct json_cursor cursor = {0};
    struct json_value object, value;
    size_t error_at;
    if (body.len == 0)
        return true;
    buffer_clear(&call->front->arena);
    if (!buffer_reserve(&call->front->arena, body.len + 1))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    if (!json_check(body, &object, &error_at))
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", error_at);
    if (object.kind != JSON_OBJECT)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "the body must be an object of settings such as "
                              "{\"max_attempts\":5,\"backoff\":\"exp:1s..10m\"}");
    while (json_next_member(object, &cursor, &key, &value))
        if (!http_option_set_member(&call->query->fields, OPTIONS_TOPIC, key, value,
                                    &call->front->arena, fault))
            return false;
    return true;
}

void http_topic_put(struct http_call *call)
{
    struct queue_topic_call put = {.verb = QUEUE_TOPIC_PUT};
    struct http_fault fault;
    if (!read_settings(call, &fault)) {
        http_answer_fault(call->exchange, &fault);
        return;
    }
    http_fields_settings(&call->query->fields, &put.settings);
    call_topic(call, put, on_topic);
}

void http_topic_delete(struct http_call *call)
{
    call_topic(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_DELETE}, on_affected);
}

void http_topic_pause(struct http_call *call)
{
    call_topic(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_PAUSE}, on_topic);
}

void http_topic_resume(struct http_call *call)
{
    call_topic(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_RESUME}, on_topic);
}

void http_topic_purge(struct http_call *call)
{
    call_topic(
        call,
        (struct queue_topic_call){.verb = QUEUE_TOPIC_PURGE, .state = call->query->fields.state},
        on_affected);
}

void http_topic_redrive(struct http_call *call)
{
    call_topic(call,
               (struct queue_topic_call){.verb = QUEUE_TOPIC_REDRIVE,
                                         .id = call->query->fields.id,
                                         .max = (uint64_t)call->query->fields.max},
               on_affected);
}
