/* The target of a topic: the endpoints that receive its jobs, and a sample sent to it. */
#include "api/routes.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "http/exchange.h"

/* Returns the member `deliver` of the topic's extension, or JSON_NONE. */
static struct json_value deliver_of(struct slice extension)
{
    struct json_value object = {0};
    if (extension.len)
        (void)json_check(extension, &object, NULL);
    return json_member(object, "deliver");
}

static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_front *front = owner;
    struct http_exchange *exchange = http_exchange_find(front, tag);
    const struct http_hooks *hooks = front->shared->hooks;
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK || !reply->topic_count) {
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
        return;
    }
    struct slice extension = reply->topics[0].settings.extension;
    struct json_value target = deliver_of(extension);
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"target\":");
    if (target.kind)
        buffer_append_slice(body, target.raw);
    else
        buffer_append_text(body, "null");
    json_write_member_bool(body, "delivers", http_delivery_is_on(hooks));
    buffer_append_text(body, ",\"endpoints\":[");
    if (target.kind && http_delivery_is_on(hooks) && hooks->write_endpoints)
        hooks->write_endpoints(hooks->ctx, extension, exchange->caller->has_all_topics, body);
    buffer_append_text(body, "]}");
    http_answer_end_json(exchange, 200);
}

static void get_endpoints(struct http_call *call)
{
    struct queue_topic_call topic = {.verb = QUEUE_TOPIC_GET, .topic = call->topic};
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    http_gate_keep(call->exchange, call->caller);
    queue_topic(call->front->queue, &topic, http_reply_to(call, on_topic));
}

/* ---- sending a sample to the target ---- */

static void on_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (status == QUEUE_NOT_FOUND) {
        http_answer_problem(
            exchange, PROBLEM_NO_TARGET, 0,
            "there is no such topic, or it names no target: set 'deliver' in its settings, "
            "such as {\"deliver\":{\"to\":\"https://shop.example/close-order\"}}");
    } else if (status != QUEUE_OK) {
        http_answer_refusal(exchange, status, NULL, 0);
    } else {
        buffer_append_slice(http_answer_start(exchange), json);
        http_answer_end_json(exchange, 200);
    }
}

static void test_delivery(struct http_call *call)
{
    struct http_front *front = call->front;
    const struct http_hooks *hooks = front->shared->hooks;
    if (!http_delivery_is_on(hooks) || !hooks->test) {
        http_answer_problem(call->exchange, PROBLEM_NO_DELIVERY, 0,
                            "this server does not deliver: start it with --deliver FILE, a policy "
                            "file with the allowed hosts");
        return;
    }
    call->exchange->waits = true; /* not in request durations: waits for the target */
    hooks->test(hooks->ctx, front->reactor, call->topic, call->request->body, on_tested, front,
                http_exchange_tag(call->exchange));
}

const struct http_route api_delivery_routes[] = {
    {.method = HTTP_METHOD_GET,
     .pattern = HTTP_TOPIC_PATH "/endpoints",
     .name = "endpoints",
     .scope = ACCESS_READ,
     .topics = HTTP_TOPICS_PATH,
     .handle = get_endpoints},
    {.method = HTTP_METHOD_POST,
     .pattern = HTTP_TOPIC_PATH "/deliver-test",
     .name = "deliver_test",
     .scope = ACCESS_ADMIN,
     .topics = HTTP_TOPICS_PATH,
     .audit = "sample sent",
     .handle = test_delivery,
     .body = HTTP_BODY_JOB},
    {0},
};
