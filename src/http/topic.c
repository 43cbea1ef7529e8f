/* Topics: all of them, one, pause, resume, and their end. */
#include "base/json_write.h"
#include "http/job_json.h"
#include "http/private.h"

enum { PAGE_TOPICS = 1000 };

/* The first topic behind the cursor, which is the name of the last one shown. They come by name. */
static size_t first_after(const struct queue_topic *topics, size_t count, struct slice cursor)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_compare(topics[middle].name, cursor) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return;
    }
    size_t at = first_after(reply->topics, reply->topic_count, buffer_slice(&exchange->note));
    size_t end =
        reply->topic_count - at > exchange->count ? at + exchange->count : reply->topic_count;
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, "{\"topics\":[");
    for (size_t i = at; i < end; i++) {
        if (i > at)
            buffer_append_byte(body, ',');
        http_topic_write(body, &reply->topics[i]);
    }
    buffer_append_text(body, "],\"cursor\":");
    if (end < reply->topic_count)
        json_write_string(body, reply->topics[end - 1].name);
    else
        buffer_append_text(body, "null");
    buffer_append_byte(body, '}');
    http_answer_end_json(exchange, 200);
}

void http_topics(struct http_call *call)
{
    const struct http_fields *fields = &call->query->fields;
    struct http_exchange *exchange = call->exchange;
    if (fields->cursor.len && !job_topic_is_valid(fields->cursor)) {
        http_answer_refusal(exchange, QUEUE_BAD_CURSOR, NULL, 0);
        return;
    }
    exchange->count =
        http_fields_have(fields, OPTION_LIMIT) ? (uint32_t)fields->limit : PAGE_TOPICS;
    http_front_lend(exchange->front, &exchange->note);
    buffer_append_slice(&exchange->note, fields->cursor); /* the request is gone by then */
    queue_topics(call->front->queue, http_reply_to(call, on_topics));
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
    queue_topic(call->front->queue, &topic, http_reply_to(call, done));
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
