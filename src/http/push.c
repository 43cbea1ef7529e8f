#include "http/delivery.h"
#include "http/job_json.h"
#include "http/media.h"
#include "http/private.h"

#include "queue/status.h"

struct queue_reply_to http_reply_to(struct http_call *call, queue_done *done)
{
    return (struct queue_reply_to){
        .done = done, .owner = call->front, .tag = http_exchange_tag(call->exchange)};
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* Where the job is found again. */
static void write_location(struct http_exchange *exchange, const struct queue_result *result)
{
    static const char hex[] = "0123456789ABCDEF";
    char path[64 + JOB_TOPIC_BYTES_MAX + 3 * JOB_ID_BYTES_MAX];
    struct slice topic = result->topic, id = result->id;
    size_t len = 0;
    if (topic.len > JOB_TOPIC_BYTES_MAX || id.len > JOB_ID_BYTES_MAX)
        return;
    memcpy(path, "/v1/topics/", 11);
    memcpy(path + 11, topic.at, topic.len);
    len = 11 + topic.len;
    memcpy(path + len, "/jobs/", 6);
    len += 6;
    for (size_t i = 0; i < id.len; i++) {
        unsigned char c = (unsigned char)id.at[i];
        if (is_unreserved(id.at[i])) {
            path[len++] = id.at[i];
        } else {
            path[len++] = '%';
            path[len++] = hex[c >> 4];
            path[len++] = hex[c & 15];
        }
    }
    http_answer_field(exchange, "Location", slice_make(path, len));
}

static void on_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct http_exchange *exchange = http_exchange_find(owner, tag);
    const struct queue_result *result = reply->results;
    if (!exchange)
        return;
    if (reply->status != QUEUE_OK) {
        http_answer_refusal(exchange, reply->status, NULL, 0);
        return;
    }
    if (!queue_status_is_success(result->status)) {
        http_answer_refusal(exchange, result->status, result->detail, result->state);
        return;
    }
    struct buffer *body = http_answer_start(exchange);
    bool is_new = result->status != QUEUE_EXISTED;
    buffer_append_byte(body, '{');
    http_result_members_write(body, result);
    buffer_append_byte(body, '}');
    if (is_new)
        write_location(exchange, result);
    http_answer_end_json(exchange, is_new ? 201 : 200);
}

void http_push(struct http_call *call)
{
    struct queue_push push = {.topic = call->topic,
                              .id = call->id,
                              .content_type = call->request->content_type,
                              .meta = buffer_slice(&call->front->meta),
                              .body = call->request->body};
    struct http_fault fault;
    if (!http_media_is_valid(push.content_type)) {
        http_fault_set(&fault, PROBLEM_BAD_OPTION, 0,
                       "the Content-Type must be printable ASCII; other letters go as %%XX, as in "
                       "name*=UTF-8''%%C3%%A4");
        http_answer_fault(call->exchange, &fault);
        return;
    }
    if (http_fields_have(&call->query->fields, OPTION_CALLBACK)) {
        if (!http_callback_add(&call->front->meta, call->query->fields.callback,
                               call->front->shared->hooks, &fault)) {
            http_answer_fault(call->exchange, &fault);
            return;
        }
        push.meta = buffer_slice(&call->front->meta);
    }
    http_fields_push(&call->query->fields, &push);
    queue_push(call->front->queue, &push, 1, http_reply_to(call, on_pushed));
}
