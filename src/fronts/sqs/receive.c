/* receive: takes jobs and writes them as SQS messages. */
#include "base/json_write.h"
#include "base/text.h"
#include "http/unsent.h"
#include "sqs/message.h"
#include "sqs/request.h"
#include "sqs/settings.h"

#include <inttypes.h>
#include <stdio.h>

enum { WAIT_BYTES = 1024 };

/* The requested system attributes. The list has had two names. */
struct wanted {
    struct json_value names[2];
};

static struct wanted wanted_of(const struct sqs_request *request)
{
    return (struct wanted){{sqs_member(request->fields, "AttributeNames"),
                            sqs_member(request->fields, "MessageSystemAttributeNames")}};
}

static void write_system(const struct wanted *wanted, struct buffer *out, const char *name,
                         struct slice value)
{
    if (!value.len || (!sqs_names_have(wanted->names[0], slice_of(name)) &&
                       !sqs_names_have(wanted->names[1], slice_of(name))))
        return;
    json_write_member(out, name);
    json_write_string(out, value);
}

/* Returns the receive count, which for a dead letter includes that of its original queue. */
static uint64_t receives_of(const struct job *job)
{
    uint64_t before;
    struct slice text = job_meta_find(job->meta, slice_of(JOB_META_DEAD_ATTEMPT));
    return job->attempt + (text_parse_u64(text, UINT32_MAX, &before) ? before : 0);
}

static void write_source(const struct sqs_request *request, const struct wanted *wanted,
                         const struct job *job, struct buffer *out)
{
    struct slice topic = job_meta_find(job->meta, slice_of(JOB_META_DEAD_TOPIC));
    struct buffer arn;
    buffer_init(&arn, 2 * JOB_TOPIC_BYTES_MAX);
    if (job_topic_is_valid(topic))
        sqs_write_arn(request->options, topic, &arn);
    write_system(wanted, out, "DeadLetterQueueSourceArn", buffer_slice(&arn));
    buffer_fini(&arn);
}

/* Writes what only messages of FIFO queues have. */
static void write_fifo(const struct wanted *wanted, const struct job *job, struct buffer *out)
{
    struct slice once = job_meta_find(job->meta, slice_of(SQS_META_ONCE));
    char number[SQS_SEQUENCE_BYTES];
    write_system(wanted, out, "MessageDeduplicationId", once);
    if (once.len && sqs_sequence_number(job->id, number))
        write_system(wanted, out, "SequenceNumber", slice_make(number, sizeof number));
}

/* Writes the system attributes. The first receive time is known only for the first delivery, where
 * it is now. For later ones the time of sending is shown. */
static void write_system_attributes(const struct sqs_request *request, const struct wanted *wanted,
                                    const struct job *job, struct buffer *out)
{
    if (!wanted->names[0].kind && !wanted->names[1].kind)
        return;
    char count[24], now[24], due[24];
    uint64_t receives = receives_of(job);
    struct slice sent = job_meta_find(job->meta, slice_of(SQS_META_SENT));
    size_t before = out->len;
    (void)snprintf(count, sizeof count, "%" PRIu64, receives);
    (void)snprintf(now, sizeof now, "%" PRId64, sqs_request_now_ms(request));
    (void)snprintf(due, sizeof due, "%" PRId64, job->due_ms);
    buffer_append_text(out, ",\"Attributes\":{");
    size_t empty = out->len;
    write_system(wanted, out, "SenderId", slice_of(request->options->account));
    write_system(wanted, out, "SentTimestamp", sent.len ? sent : slice_of(due));
    write_system(wanted, out, "ApproximateReceiveCount", slice_of(count));
    write_system(wanted, out, "ApproximateFirstReceiveTimestamp",
                 receives > 1 && sent.len ? sent : slice_of(now));
    write_system(wanted, out, "AWSTraceHeader", job_meta_find(job->meta, slice_of(SQS_META_TRACE)));
    write_system(wanted, out, "MessageGroupId", job_meta_find(job->meta, slice_of(SQS_META_GROUP)));
    write_fifo(wanted, job, out);
    write_source(request, wanted, job, out);
    if (out->len == empty)
        out->len = before;
    else
        buffer_append_byte(out, '}');
}

static void write_message_attributes(const struct sqs_request *request, const struct job *job,
                                     bool is_encoded, struct buffer *out)
{
    static const char encoded[] =
        "{\"tarry.encoding\":{\"DataType\":\"String\",\"StringValue\":\"base64\"}}";
    struct json_value attributes, chosen;
    struct buffer text, selected;
    char md5[SQS_MD5_TEXT_BYTES];
    buffer_init(&text, JOB_META_BYTES_MAX);
    buffer_init(&selected, 2 * JOB_META_BYTES_MAX);
    sqs_attributes_restore(job->meta, &text);
    if (is_encoded)
        buffer_append_text(&selected, encoded);
    else if (text.len && json_check(buffer_slice(&text), &attributes, NULL))
        sqs_attributes_select(attributes, sqs_member(request->fields, "MessageAttributeNames"),
                              &selected);
    if (selected.len && json_check(buffer_slice(&selected), &chosen, NULL) &&
        sqs_attributes_md5(chosen, md5)) {
        buffer_append_text(out, ",\"MessageAttributes\":");
        buffer_append_slice(out, chosen.raw);
        buffer_append_format(out, ",\"MD5OfMessageAttributes\":\"%.*s\"", SQS_MD5_TEXT_BYTES, md5);
    }
    buffer_fini(&text);
    buffer_fini(&selected);
}

/* Writes the body. Bytes that are not text, pushed over another interface, are encoded in
 * base64. */
static void write_body(const struct job *job, bool is_encoded, struct buffer *out)
{
    struct buffer encoded;
    struct slice body = job->body;
    char md5[SQS_MD5_TEXT_BYTES];
    buffer_init(&encoded, 2 * job->body.len + 8);
    if (is_encoded) {
        json_write_base64(&encoded, job->body);
        body = slice_make(encoded.at + 1, encoded.len - 2);
    }
    sqs_md5(body, md5);
    buffer_append_format(out, ",\"MD5OfBody\":\"%.*s\",\"Body\":", SQS_MD5_TEXT_BYTES, md5);
    json_write_string(out, body);
    buffer_fini(&encoded);
}

static void write_message(const struct sqs_request *request, const struct wanted *wanted,
                          const struct queue_job *taken, struct buffer *out)
{
    const struct job *job = &taken->job;
    char id[SQS_MESSAGE_ID_BYTES];
    bool is_encoded = !json_utf8_is_valid(job->body);
    sqs_message_id(job->topic, job->id, id);
    buffer_append_format(out, "{\"MessageId\":\"%.*s\",\"ReceiptHandle\":", SQS_MESSAGE_ID_BYTES,
                         id);
    sqs_handle_write(taken, out);
    write_body(job, is_encoded, out);
    write_system_attributes(request, wanted, job, out);
    write_message_attributes(request, job, is_encoded, out);
    buffer_append_byte(out, '}');
}

/* Sends the reply and returns the number of messages in it. *is_seen: with a visibility timeout of
 * 0, they are only shown. */
static size_t answer_messages(const struct sqs_request *request, const struct queue_reply *reply,
                              bool *is_seen)
{
    struct http_exchange *exchange = request->exchange;
    *is_seen = exchange->count != 0;
    struct sqs_error error;
    size_t bytes = 0, used = 0;
    for (size_t i = 0; i < reply->job_count; i++)
        bytes += reply->jobs[i].job.body.len;
    if (!http_budget_has(exchange->front, bytes)) {
        (void)sqs_error_set(&error, SQS_BUSY,
                            "The server has no memory for the answer at the moment.");
        sqs_answer_error(request->exchange, &error);
        return 0;
    }
    const struct wanted wanted = wanted_of(request);
    struct buffer *body = http_answer_start(exchange);
    buffer_append_text(body, reply->job_count ? "{\"Messages\":[" : "{");
    for (; used < reply->job_count; used++) {
        buffer_append_text(body, used ? "," : "");
        write_message(request, &wanted, &reply->jobs[used], body);
    }
    buffer_append_text(body, used ? "]}" : "}");
    if (used &&
        (body->failed || (!exchange->count && !http_lease_note(exchange, reply->jobs, used)))) {
        (void)sqs_error_set(&error, SQS_BUSY, "out of memory");
        sqs_answer_error(request->exchange, &error);
        return 0;
    }
    sqs_answer(request);
    return used;
}

static void on_shown(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

/* Makes messages available again after they were shown with a visibility timeout of 0. */
static void show_again(struct http_front *front, const struct queue_reply *reply)
{
    struct queue_answer answers[SQS_BATCH_MAX];
    size_t count = reply->job_count < SQS_BATCH_MAX ? reply->job_count : SQS_BATCH_MAX;
    for (size_t i = 0; i < count; i++)
        answers[i] = (struct queue_answer){.verb = QUEUE_NACK, .lease = reply->jobs[i].lease};
    if (count)
        queue_answer(front->queue, answers, count, (struct queue_reply_to){.done = on_shown});
}

static void on_received(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct http_front *front = owner;
    struct sqs_request request;
    struct sqs_error error;
    size_t used = 0;
    bool is_seen = false;
    (void)refused;
    if (sqs_request_find(front, tag, &request)) {
        request.exchange->waiter = 0;
        if (request.exchange->caller && !http_gate_holds(request.exchange))
            http_gate_refuse_ended(request.exchange);
        else if (sqs_error_of(&error, reply->status))
            used = answer_messages(&request, reply, &is_seen);
        else
            sqs_answer_error(request.exchange, &error);
    }
    if (is_seen)
        show_again(front, reply);
    if (used && front->shared->lateness)
        lateness_add(front->shared->lateness, JOB_WAY_TAKE, reply->jobs, used,
                     queue_wall_ms(front->queue));
    for (size_t i = used; i < reply->job_count; i++)
        http_lease_return(front, &reply->jobs[i].lease, 1);
}

/* Counts the exchange as a waiting one, like any take. */
static bool begin_wait(struct http_exchange *exchange, struct sqs_error *error)
{
    struct http_fault fault;
    if (!http_quota_wait(exchange, &fault))
        return sqs_error_set(error, SQS_BUSY, "Too many receive calls are waiting.");
    struct access_caller *caller = exchange->caller;
    exchange->caller = NULL;
    http_gate_wait(exchange, caller, WAIT_BYTES);
    access_caller_release(caller);
    return true;
}

static void receive(const struct sqs_request *request, int64_t max, int64_t wait_ms,
                    int64_t lease_ms)
{
    struct http_exchange *exchange = request->exchange;
    struct http_front *front = exchange->front;
    struct sqs_error error;
    const struct queue_take take = {.topics = &request->queue,
                                    .topic_count = 1,
                                    .max = (uint32_t)max,
                                    .lease_ms = lease_ms,
                                    .way = JOB_WAY_TAKE};
    if (!exchange->connection) { /* the client left while the queue was looked up */
        (void)sqs_error_set(&error, SQS_BUSY, "The client is gone.");
        sqs_answer_error(exchange, &error);
        return;
    }
    if (wait_ms && (http_budget_is_spent(front) || exchange->connection->socket.peer_ended))
        wait_ms = 0;
    if (wait_ms && !begin_wait(exchange, &error)) {
        sqs_answer_error(request->exchange, &error);
        return;
    }
    int64_t now_ms = http_front_now_ms(front);
    exchange->waiter = waiter_take(front->waiters, &take, wait_ms ? wait_ms + 1 : 0, now_ms,
                                   on_received, front, http_exchange_tag(exchange));
    if (exchange->waiter && wait_ms)
        http_front_wake_by(front, now_ms + wait_ms + 1);
    if (exchange->waiter)
        return;
    (void)sqs_error_set(&error, SQS_BUSY, "out of memory");
    sqs_answer_error(request->exchange, &error);
}

void sqs_receive(struct sqs_request *request, const struct sqs_numbers *queue)
{
    struct sqs_error error;
    int64_t max, wait_s, visibility_s;
    struct json_value visibility = sqs_member(request->fields, "VisibilityTimeout");
    if (!sqs_number(sqs_member(request->fields, "MaxNumberOfMessages"), "MaxNumberOfMessages", 1,
                    SQS_BATCH_MAX, 1, &max, &error) ||
        !sqs_number(sqs_member(request->fields, "WaitTimeSeconds"), "WaitTimeSeconds", 0,
                    SQS_WAIT_S_MAX, queue->wait_s, &wait_s, &error) ||
        !sqs_number(visibility, "VisibilityTimeout", 0, SQS_VISIBILITY_S_MAX, 0, &visibility_s,
                    &error)) {
        sqs_answer_error(request->exchange, &error);
        return;
    }
    int64_t lease_ms = visibility_s * 1000;
    if (visibility.kind && lease_ms < POLICY_LEASE_MS_MIN)
        lease_ms = POLICY_LEASE_MS_MIN;
    request->exchange->count = !(visibility.kind ? visibility_s : queue->visibility_s);
    receive(request, max, wait_s * 1000, lease_ms);
}
