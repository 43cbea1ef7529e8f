/* Topics: all of them, one, pause, resume, and their end. */
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
    http_answer_end_json(exchange, 200);
}

void http_topics(struct http_call *call)
{
    call->front->queue->ops->topics(call->front->queue, http_reply_to(call, on_topics));
}

/* get, put, pause, resume: the topic as it is now. */
void http_answer_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    http_change_end(exchange, reply->status, 0);
    if ((reply->status != QUEUE_OK && reply->status != QUEUE_CREATED) || reply->topic_count == 0) {
        http_answer_refusal(exchange, reply->status ? reply->status : QUEUE_NOT_FOUND, NULL, 0);
        return;
    }
    http_topic_write(http_answer_start(exchange), &reply->topics[0]);
    http_answer_end_json(exchange, reply->status == QUEUE_CREATED ? 201 : 200);
}

/* delete, purge, redrive: how many jobs it concerned. */
void http_answer_affected(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    http_change_end(exchange, reply->status, reply->status == QUEUE_OK ? reply->affected : 0);
    if (reply->status != QUEUE_OK) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"topic\":");
    json_write_string(body, http_noted_topic(exchange));
    buffer_append_text(body, ",\"result\":\"ok\",\"jobs\":");
    buffer_append_u64(body, reply->affected);
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

static void call_topic(struct http_call *call, struct queue_topic_call topic, queue_done *done)
{
    topic.topic = call->topic;
    http_note_subject(call, HTTP_SUBJECT_TOPIC, (struct slice){0});
    call->front->queue->ops->topic(call->front->queue, &topic, http_reply_to(call, done));
}

void http_topic_get(struct http_call *call)
{
    call_topic(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_GET}, http_answer_topic);
}

void http_topic_delete(struct http_call *call)
{
    http_change_begin(call, "topic deleted", true);
    call_topic(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_DELETE}, http_answer_affected);
}

void http_topic_pause(struct http_call *call)
{
    http_change_begin(call, "topic paused", false);
    call_topic(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_PAUSE}, http_answer_topic);
}

void http_topic_resume(struct http_call *call)
{
    http_change_begin(call, "topic resumed", false);
    call_topic(call, (struct queue_topic_call){.verb = QUEUE_TOPIC_RESUME}, http_answer_topic);
}
