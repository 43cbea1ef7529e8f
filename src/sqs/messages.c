/* Operations on messages: send, receive, delete, change visibility, one or a batch. */
#include "base/hex.h"
#include "base/json_write.h"
#include "base/text.h"
#include "sqs/attribute.h"
#include "sqs/message_id.h"
#include "sqs/operation.h"
#include "sqs/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ID_BYTES_MAX = 80, /* of an entry of a batch */
    WAIT_BYTES = 1024,
    HANDLE_BYTES_MIN = 30,
    HANDLE_BYTES_MAX = 1024
};

#define HANDLE_SIGN '~' /* between the parts of a handle: nobody escapes it */

#define META_SENT JOB_META_OWN "sqs-sent"
#define META_TRACE JOB_META_OWN "sqs-trace"

static void fail(const struct sqs_request *request, const struct sqs_error *error)
{
    sqs_answer_error(request->exchange, error);
}

/* By the clock of the jobs, which may be a test's. */
static int64_t now_ms(const struct sqs_request *request)
{
    return queue_wall_ms(request->exchange->front->queue);
}

/* ---- batches ---- */

/* One call, or each entry of a batch: its object, and what is wrong with it. */
struct entries {
    bool is_batch;
    size_t count;
    struct json_value at[SQS_BATCH_MAX];
    struct slice ids[SQS_BATCH_MAX]; /* raw, with quotes */
    struct sqs_error errors[SQS_BATCH_MAX];
};

static bool is_entry_id(struct slice id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.at[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '-')
            return false;
    }
    return id.len > 0 && id.len <= ID_BYTES_MAX;
}

static bool read_entry(struct json_value item, struct entries *out, struct sqs_error *error)
{
    struct json_value id = sqs_member(item, "Id");
    if (id.kind != JSON_STRING || !is_entry_id(slice_make(id.raw.at + 1, id.raw.len - 2)))
        return sqs_error_set(error, SQS_BATCH_ID,
                             "A batch entry id can only contain alphanumeric characters, hyphens "
                             "and underscores. It can be at most 80 letters long.");
    for (size_t i = 0; i < out->count; i++)
        if (slice_equals(out->ids[i], id.raw))
            return sqs_error_set(error, SQS_BATCH_IDS, "Id %.*s repeated.", (int)(id.raw.len - 2),
                                 id.raw.at + 1);
    out->at[out->count] = item;
    out->ids[out->count++] = id.raw;
    return true;
}

static bool read_entries(const struct sqs_request *request, bool is_batch, struct entries *out,
                         struct sqs_error *error)
{
    struct json_value list = sqs_member(request->fields, "Entries"), item;
    struct json_cursor cursor = {0};
    size_t sent = 0;
    *out = (struct entries){.is_batch = is_batch};
    if (!is_batch) {
        out->at[out->count++] = request->fields;
        return true;
    }
    while (list.kind == JSON_ARRAY && json_next_item(list, &cursor, &item))
        sent++;
    if (sent > SQS_BATCH_MAX)
        return sqs_error_set(error, SQS_LONG_BATCH,
                             "Maximum number of entries per request are 10. You have sent %zu.",
                             sent);
    cursor = (struct json_cursor){0};
    while (list.kind == JSON_ARRAY && json_next_item(list, &cursor, &item))
        if (!read_entry(item, out, error))
            return false;
    return out->count > 0 ||
           sqs_error_set(error, SQS_EMPTY_BATCH, "There should be at least one %s in the request.",
                         request->operation->why);
}

/* `write` puts the members of entry `i` that went well, each behind a comma, without braces. */
static void answer_entries(const struct sqs_request *request, struct entries *entries,
                           void (*write)(struct buffer *out, size_t i, void *ctx), void *ctx)
{
    if (!entries->is_batch && entries->errors[0].fault) {
        fail(request, &entries->errors[0]);
        return;
    }
    struct buffer *body = http_answer_start(request->exchange);
    bool is_first = true;
    if (!entries->is_batch) {
        buffer_append_byte(body, '{');
        size_t before = body->len;
        write(body, 0, ctx);
        if (body->len > before) { /* without the comma in front */
            memmove(body->at + before, body->at + before + 1, body->len - before - 1);
            body->len--;
        }
        buffer_append_byte(body, '}');
        sqs_answer(request);
        return;
    }
    buffer_append_text(body, "{\"Successful\":[");
    for (size_t i = 0; i < entries->count; i++) {
        if (entries->errors[i].fault)
            continue;
        buffer_append_text(body, is_first ? "{\"Id\":" : ",{\"Id\":");
        buffer_append_slice(body, entries->ids[i]);
        write(body, i, ctx);
        buffer_append_byte(body, '}');
        is_first = false;
    }
    buffer_append_text(body, "],\"Failed\":[");
    is_first = true;
    for (size_t i = 0; i < entries->count; i++) {
        const struct sqs_error *error = &entries->errors[i];
        if (!error->fault)
            continue;
        buffer_append_text(body, is_first ? "{\"Id\":" : ",{\"Id\":");
        buffer_append_slice(body, entries->ids[i]);
        buffer_append_text(body, sqs_fault_is_senders(error->fault) ? ",\"SenderFault\":true"
                                                                    : ",\"SenderFault\":false");
        buffer_append_text(body, ",\"Code\":");
        json_write_string(body, slice_of(sqs_fault_code(error->fault)));
        buffer_append_text(body, ",\"Message\":");
        json_write_string(body, slice_of(error->message));
        buffer_append_byte(body, '}');
        is_first = false;
    }
    buffer_append_text(body, "]}");
    sqs_answer(request);
}

/* ---- send ---- */

/* What XML may hold, as SQS wants it. */
static bool is_text(struct slice body)
{
    for (size_t i = 0; i < body.len; i++) {
        unsigned char c = (unsigned char)body.at[i];
        if (c < ' ' && c != '\t' && c != '\n' && c != '\r')
            return false;
        if (c == 0xef && i + 2 < body.len && (unsigned char)body.at[i + 1] == 0xbf &&
            (unsigned char)body.at[i + 2] >= 0xbe)
            return false;
    }
    return true;
}

/* Room that outlives the push: bodies and metas of the entries. */
struct sending {
    struct queue_push pushes[SQS_BATCH_MAX];
    struct buffer bodies, metas[SQS_BATCH_MAX];
    size_t count, bytes; /* bytes: of all bodies, good or not */
};

static bool add_trace(struct json_value entry, struct buffer *meta, struct sqs_error *error)
{
    struct json_value trace = sqs_member(
        sqs_member(sqs_member(entry, "MessageSystemAttributes"), "AWSTraceHeader"), "StringValue");
    if (trace.kind != JSON_STRING)
        return true;
    return job_meta_add(meta, slice_of(META_TRACE),
                        slice_make(trace.raw.at + 1, trace.raw.len - 2)) == JOB_META_OK ||
           sqs_error_set(error, SQS_BAD_VALUE, "The AWSTraceHeader is too long.");
}

static bool read_body(struct json_value entry, int64_t bytes_max, struct sending *sending,
                      struct slice *out, struct sqs_error *error)
{
    struct json_value body = sqs_member(entry, "MessageBody");
    if (body.kind != JSON_STRING)
        return sqs_error_set(error, SQS_MISSING,
                             "The request must contain the parameter MessageBody.");
    if (!json_string_bytes(body.raw, &sending->bodies, out))
        return sqs_error_set(error, SQS_BUSY, "out of memory");
    sending->bytes += out->len;
    if (out->len == 0)
        return sqs_error_set(error, SQS_MISSING,
                             "The request must contain the parameter MessageBody.");
    if (!is_text(*out))
        return sqs_error_set(error, SQS_BAD_CONTENTS,
                             "Invalid characters found. Valid unicode characters are #x9 | #xA | "
                             "#xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF");
    return (int64_t)out->len <= bytes_max ||
           sqs_error_set(error, SQS_BAD_VALUE,
                         "One or more parameters are invalid. Reason: Message must be shorter than "
                         "%" PRId64 " bytes.",
                         bytes_max);
}

static bool read_message(const struct sqs_request *request, struct json_value entry,
                         const struct sqs_queue *queue, struct sending *sending,
                         struct sqs_error *error)
{
    struct queue_push *push = &sending->pushes[sending->count];
    struct buffer *meta = &sending->metas[sending->count];
    struct json_value attributes = sqs_member(entry, "MessageAttributes");
    char sent[24];
    int64_t delay_s;
    int len = snprintf(sent, sizeof sent, "%" PRId64, now_ms(request));
    *push = (struct queue_push){.topic = request->queue,
                                .content_type = slice_of("text/plain"),
                                .priority = QUEUE_PRIORITY_UNSET};
    if (!read_body(entry, queue->message_bytes, sending, &push->body, error) ||
        !sqs_number(sqs_member(entry, "DelaySeconds"), "DelaySeconds", 0,
                    POLICY_DELAY_MS_MAX / 1000, queue->delay_s, &delay_s, error) ||
        !sqs_attributes_check(attributes, error))
        return false;
    if (sqs_member(entry, "MessageGroupId").kind)
        return sqs_error_set(
            error, SQS_BAD_VALUE,
            "The parameter MessageGroupId is for FIFO queues, which are not here.");
    buffer_init(meta, JOB_META_BYTES_MAX);
    sending->count++;
    push->when = (struct queue_when){delay_s ? QUEUE_DUE_DELAY : QUEUE_DUE_NOW, delay_s * 1000};
    bool good =
        job_meta_add(meta, slice_of(META_SENT), slice_make(sent, (size_t)len)) == JOB_META_OK &&
        sqs_attributes_keep(attributes, meta);
    if (!good)
        (void)sqs_error_set(error, SQS_BAD_VALUE,
                            "Message attributes are too long, or hold what no meta may.");
    good = good && add_trace(entry, meta, error);
    push->meta = buffer_slice(meta);
    if (!good) {
        buffer_fini(meta);
        sending->count--;
    }
    return good;
}

/* The same entries come out good each time: the answer is written by a second reading. */
static bool read_messages(const struct sqs_request *request, const struct sqs_queue *queue,
                          struct entries *entries, struct sending *sending, struct sqs_error *error)
{
    bool is_batch =
        sqs_member(request->fields, "Entries").kind != JSON_NONE || request->operation->why != NULL;
    sending->count = sending->bytes = 0;
    buffer_init(&sending->bodies, request->exchange->note.len + 1);
    if (!buffer_reserve(&sending->bodies, request->exchange->note.len + 1))
        return sqs_error_set(error, SQS_BUSY, "out of memory");
    if (!read_entries(request, is_batch, entries, error))
        return false;
    for (size_t i = 0; i < entries->count; i++)
        (void)read_message(request, entries->at[i], queue, sending, &entries->errors[i]);
    return true;
}

static void sending_fini(struct sending *sending)
{
    for (size_t i = 0; i < sending->count; i++)
        buffer_fini(&sending->metas[i]);
    buffer_fini(&sending->bodies);
}

struct sent {
    const struct sqs_request *request;
    const struct entries *entries;
    const struct queue_result *results;
    size_t which[SQS_BATCH_MAX]; /* of the results, for each entry */
};

static void write_sent(struct buffer *out, size_t i, void *ctx)
{
    const struct sent *sent = ctx;
    struct json_value entry = sent->entries->at[i],
                      attributes = sqs_member(entry, "MessageAttributes");
    const struct queue_result *result = &sent->results[sent->which[i]];
    char md5[SQS_MD5_TEXT_BYTES], id[SQS_MESSAGE_ID_BYTES];
    sqs_message_id(result->topic, result->id, id);
    sqs_md5(sqs_text(sent->request, sqs_member(entry, "MessageBody")), md5);
    buffer_append_format(out, ",\"MessageId\":\"%.*s\",\"MD5OfMessageBody\":\"%.*s\"",
                         SQS_MESSAGE_ID_BYTES, id, SQS_MD5_TEXT_BYTES, md5);
    if (sqs_attributes_md5(attributes, md5))
        buffer_append_format(out, ",\"MD5OfMessageAttributes\":\"%.*s\"", SQS_MD5_TEXT_BYTES, md5);
}

static void on_sent(void *front, uint64_t tag, const struct queue_reply *reply)
{
    static const struct sqs_queue any = {.message_bytes = INT64_MAX};
    struct sqs_request request;
    struct sqs_error error = {0};
    struct entries entries;
    struct sending sending = {0};
    if (!sqs_request_find(front, tag, &request))
        return;
    struct sqs_queue queue = any;
    queue.message_bytes = request.exchange->count;
    struct sent sent = {.request = &request, .entries = &entries, .results = reply->results};
    bool good = sqs_error_of(&error, reply->status) &&
                read_messages(&request, &queue, &entries, &sending, &error);
    if (!good) {
        fail(&request, &error);
        sending_fini(&sending);
        return;
    }
    for (size_t i = 0, next = 0; i < entries.count; i++) {
        if (entries.errors[i].fault || next == reply->result_count)
            continue;
        sent.which[i] = next;
        (void)sqs_error_of(&entries.errors[i], reply->results[next++].status);
    }
    answer_entries(&request, &entries, write_sent, &sent);
    sending_fini(&sending);
}

static void send_messages(struct sqs_request *request, const struct queue_topic *topic)
{
    struct sqs_error error = {0};
    struct sqs_queue queue;
    struct entries entries;
    struct sending sending = {0};
    sqs_queue_read(&topic->settings, &queue);
    request->exchange->count = (uint32_t)queue.message_bytes; /* for the second reading */
    bool good = read_messages(request, &queue, &entries, &sending, &error);
    if (good && entries.is_batch && sending.bytes > SQS_MESSAGE_BYTES)
        good = sqs_error_set(&error, SQS_BATCH_BYTES,
                             "Batch requests cannot be longer than %d bytes. You have sent %zu "
                             "bytes.",
                             SQS_MESSAGE_BYTES, sending.bytes);
    if (!good)
        fail(request, &error);
    else if (sending.count)
        queue_push(request->exchange->front->queue, sending.pushes, sending.count,
                   sqs_reply_to(request, on_sent));
    else
        answer_entries(request, &entries, write_sent, NULL);
    sending_fini(&sending);
}

/* ---- receive ---- */

static struct slice meta_of(const struct job *job, const char *wanted)
{
    struct slice name, value;
    for (size_t at = 0; job_meta_next(job->meta, &at, &name, &value);)
        if (slice_is(name, wanted))
            return value;
    return (struct slice){0};
}

/* The system attributes that a request asks for, under either of the two names that the list has had. */
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

/* When a message was first received is known of its first delivery alone: later on it is when it was
 * sent, at the latest now. */
static void write_system_attributes(const struct sqs_request *request, const struct wanted *wanted,
                                    const struct job *job, struct buffer *out)
{
    if (!wanted->names[0].kind && !wanted->names[1].kind)
        return;
    char count[16], now[24], due[24];
    struct slice sent = meta_of(job, META_SENT);
    size_t before = out->len;
    (void)snprintf(count, sizeof count, "%u", (unsigned)job->attempt);
    (void)snprintf(now, sizeof now, "%" PRId64, now_ms(request));
    (void)snprintf(due, sizeof due, "%" PRId64, job->due_ms);
    buffer_append_text(out, ",\"Attributes\":{");
    size_t empty = out->len;
    write_system(wanted, out, "SenderId", slice_of(request->options->account));
    write_system(wanted, out, "SentTimestamp", sent.len ? sent : slice_of(due));
    write_system(wanted, out, "ApproximateReceiveCount", slice_of(count));
    write_system(wanted, out, "ApproximateFirstReceiveTimestamp",
                 job->attempt > 1 && sent.len ? sent : slice_of(now));
    write_system(wanted, out, "AWSTraceHeader", meta_of(job, META_TRACE));
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

/* Bytes that are no text, pushed by another way, come in base64. */
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

/* The lease, and what it was a lease of: see late_delete. */
static void write_handle(const struct queue_job *taken, struct buffer *out)
{
    struct buffer text;
    buffer_init(&text, QUEUE_LEASE_TEXT_BYTES_MAX + JOB_ID_BYTES_MAX + 32);
    buffer_append_slice(&text, taken->lease);
    buffer_append_format(&text, "%c%" PRIx64 "%c", HANDLE_SIGN, taken->job.delivery, HANDLE_SIGN);
    buffer_append_slice(&text, taken->job.id);
    json_write_string(out, buffer_slice(&text));
    buffer_fini(&text);
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
    write_handle(taken, out);
    write_body(job, is_encoded, out);
    write_system_attributes(request, wanted, job, out);
    write_message_attributes(request, job, is_encoded, out);
    buffer_append_byte(out, '}');
}

/* Returns how many the answer has; *is_seen: they are shown, and no more. */
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
        (void)sqs_error_set(&error, SQS_BUSY, "The server has no memory for the answer now.");
        fail(request, &error);
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
        fail(request, &error);
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

/* With no time to work on them messages are there again as soon as they were shown. */
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
            fail(&request, &error);
    }
    if (is_seen)
        show_again(front, reply);
    if (used && front->shared->lateness)
        lateness_add(front->shared->lateness, JOB_WAY_TAKE, reply->jobs, used,
                     queue_wall_ms(front->queue));
    for (size_t i = used; i < reply->job_count; i++)
        http_lease_return(front, &reply->jobs[i].lease, 1);
}

/* The exchange is counted as one that waits, as any take is. */
static bool begin_wait(struct http_exchange *exchange, struct sqs_error *error)
{
    struct http_fault fault;
    if (!http_quota_wait(exchange, &fault))
        return sqs_error_set(error, SQS_BUSY, "Too many receive calls wait already.");
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
    if (wait_ms && (http_budget_is_spent(front) || exchange->connection->peer_ended))
        wait_ms = 0;
    if (wait_ms && !begin_wait(exchange, &error)) {
        fail(request, &error);
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
    fail(request, &error);
}

static void receive_messages(struct sqs_request *request, const struct queue_topic *topic)
{
    struct sqs_error error;
    struct sqs_queue queue;
    int64_t max, wait_s, visibility_s;
    sqs_queue_read(&topic->settings, &queue);
    struct json_value visibility = sqs_member(request->fields, "VisibilityTimeout");
    if (!sqs_number(sqs_member(request->fields, "MaxNumberOfMessages"), "MaxNumberOfMessages", 1,
                    SQS_BATCH_MAX, 1, &max, &error) ||
        !sqs_number(sqs_member(request->fields, "WaitTimeSeconds"), "WaitTimeSeconds", 0,
                    SQS_WAIT_S_MAX, queue.wait_s, &wait_s, &error) ||
        !sqs_number(visibility, "VisibilityTimeout", 0, SQS_VISIBILITY_S_MAX, 0, &visibility_s,
                    &error)) {
        fail(request, &error);
        return;
    }
    int64_t lease_ms = visibility_s * 1000;
    if (visibility.kind && lease_ms < POLICY_LEASE_MS_MIN)
        lease_ms = POLICY_LEASE_MS_MIN;
    request->exchange->count = !(visibility.kind ? visibility_s : queue.visibility_s);
    receive(request, max, wait_s * 1000, lease_ms);
}

/* ---- delete and change visibility ---- */

/* A receipt handle, "LEASE~DELIVERY~ID", in raw JSON; the id with quotes where there is one. */
struct handle {
    struct slice lease, id;
    uint64_t delivery;
};

/* Leases of all stores are letters and digits with signs between. */
static bool is_lease(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((!text_is_unreserved(text.at[i]) && text.at[i] != ':') || text.at[i] == HANDLE_SIGN)
            return false;
    return text.len >= HANDLE_BYTES_MIN && text.len <= QUEUE_LEASE_TEXT_BYTES_MAX;
}

static bool read_handle(struct slice text, struct handle *out)
{
    const char *sign = memchr(text.at, HANDLE_SIGN, text.len), *end = text.at + text.len;
    *out = (struct handle){.lease = text};
    if (text.len > HANDLE_BYTES_MAX)
        return false;
    if (!sign)
        return is_lease(text);
    out->lease.len = (size_t)(sign - text.at);
    const char *digits = sign + 1, *next = memchr(digits, HANDLE_SIGN, (size_t)(end - digits));
    if (!next || !is_lease(out->lease) || next - digits > 16 ||
        !hex_parse_u64(digits, (size_t)(next - digits), &out->delivery) || next + 1 == end)
        return false;
    out->id = slice_make(next + 1, (size_t)(end - next - 1));
    return true;
}

static bool is_change(const struct sqs_operation *operation)
{
    return operation->name[0] == 'C';
}

static bool refuse_handle(struct slice handle, bool is_batch, struct sqs_error *error)
{
    if (!is_batch)
        return sqs_error_set(error, SQS_BAD_HANDLE, "The input receipt handle is invalid.");
    return sqs_error_set(error, SQS_BAD_HANDLE,
                         "The input receipt handle \"%.*s\" is not a valid receipt handle.",
                         (int)(handle.len < 80 ? handle.len : 80), handle.at);
}

static bool read_answer(struct json_value entry, const struct sqs_operation *operation,
                        struct queue_answer *out, struct sqs_error *error)
{
    struct json_value handle = sqs_member(entry, "ReceiptHandle"),
                      timeout = sqs_member(entry, "VisibilityTimeout");
    int64_t seconds = 0;
    *out = (struct queue_answer){.verb = QUEUE_ACK, .delay_ms = -1};
    if (handle.kind != JSON_STRING)
        return sqs_error_set(error, SQS_MISSING,
                             "The request must contain the parameter ReceiptHandle.");
    struct slice text = slice_make(handle.raw.at + 1, handle.raw.len - 2);
    struct handle parts;
    if (!read_handle(text, &parts))
        return refuse_handle(text, operation->why != NULL, error);
    out->lease = parts.lease;
    if (!is_change(operation))
        return true;
    if (timeout.kind == JSON_NONE)
        return sqs_error_set(error, SQS_MISSING,
                             "The request must contain the parameter VisibilityTimeout.");
    if (!sqs_number(timeout, "VisibilityTimeout", 0, SQS_VISIBILITY_S_MAX, 0, &seconds, error))
        return false;
    out->verb = seconds ? QUEUE_EXTEND : QUEUE_NACK;
    out->delay_ms = 0;
    out->lease_ms = seconds * 1000;
    return true;
}

static size_t read_answers(const struct sqs_request *request, struct entries *entries,
                           struct queue_answer answers[SQS_BATCH_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < entries->count; i++)
        count +=
            read_answer(entries->at[i], request->operation, &answers[count], &entries->errors[i]);
    return count;
}

static void write_nothing(struct buffer *out, size_t i, void *ctx)
{
    (void)out;
    (void)i;
    (void)ctx;
}

/* ---- delete by a handle whose lease has ended ---- */

/*
 * SQS deletes a message by its newest handle also after its time is over, where nobody else has it by then. So each
 * such job is looked up, and cancelled where it was not delivered since. Whatever comes of it, the call went well.
 */
struct late_delete {
    struct http_front *front;
    uint64_t tag;
    struct sqs_error errors[SQS_BATCH_MAX]; /* of the entries */
    size_t count, at;
    struct late_job {
        char id[JOB_ID_BYTES_MAX];
        size_t id_bytes;
        uint64_t delivery;
    } jobs[SQS_BATCH_MAX];
};

static void late_delete_next(struct late_delete *late, const struct sqs_request *request);

static void write_nothing(struct buffer *out, size_t i, void *ctx);

static void late_delete_end(struct late_delete *late)
{
    struct sqs_request request;
    struct entries entries;
    struct sqs_error error;
    if (sqs_request_find(late->front, late->tag, &request) &&
        read_entries(&request, request.operation->why != NULL, &entries, &error)) {
        memcpy(entries.errors, late->errors, sizeof entries.errors);
        answer_entries(&request, &entries, write_nothing, NULL);
    }
    free(late);
}

static void on_late_cancelled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct late_delete *late = owner;
    struct sqs_request request;
    (void)tag;
    (void)reply;
    late->at++;
    if (sqs_request_find(late->front, late->tag, &request))
        late_delete_next(late, &request);
    else
        late_delete_end(late);
}

static void on_late_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct late_delete *late = owner;
    const struct late_job *wanted = &late->jobs[late->at];
    const struct job *job = reply->job_count == 1 ? &reply->jobs[0].job : NULL;
    struct sqs_request request;
    (void)tag;
    if (!sqs_request_find(late->front, late->tag, &request)) {
        late_delete_end(late);
        return;
    }
    if (!job || job->delivery != wanted->delivery ||
        (job->state != JOB_READY && job->state != JOB_DELAYED)) {
        late->at++;
        late_delete_next(late, &request);
        return;
    }
    const struct queue_change cancel = {.verb = QUEUE_CANCEL,
                                        .topic = request.queue,
                                        .id = slice_make(wanted->id, wanted->id_bytes),
                                        .priority = QUEUE_PRIORITY_UNSET};
    queue_change(late->front->queue, &cancel, 1,
                 (struct queue_reply_to){.done = on_late_cancelled, .owner = late});
}

static void late_delete_next(struct late_delete *late, const struct sqs_request *request)
{
    const struct late_job *job = &late->jobs[late->at];
    if (late->at == late->count)
        late_delete_end(late);
    else
        queue_get(late->front->queue, request->queue, slice_make(job->id, job->id_bytes),
                  (struct queue_reply_to){.done = on_late_seen, .owner = late});
}

/* Notes the job of an entry's handle; one that names none is left alone. */
static void late_delete_add(struct late_delete *late, const struct sqs_request *request,
                            struct json_value entry)
{
    struct slice text = sqs_text(request, sqs_member(entry, "ReceiptHandle"));
    struct late_job *job = &late->jobs[late->count];
    struct handle handle;
    if (!text.len || !read_handle(text, &handle) || handle.id.len == 0 ||
        handle.id.len > JOB_ID_BYTES_MAX)
        return;
    memcpy(job->id, handle.id.at, handle.id.len);
    job->id_bytes = handle.id.len;
    job->delivery = handle.delivery;
    late->count++;
}

/* The entries whose lease had ended. False: there is nothing more to do. */
static bool late_delete_begin(const struct sqs_request *request, const struct entries *entries,
                              const bool has_ended[SQS_BATCH_MAX])
{
    struct late_delete *late = calloc(1, sizeof *late);
    if (!late)
        return false;
    late->front = request->exchange->front;
    late->tag = http_exchange_tag(request->exchange);
    memcpy(late->errors, entries->errors, sizeof late->errors);
    for (size_t i = 0; i < entries->count; i++)
        if (has_ended[i])
            late_delete_add(late, request, entries->at[i]);
    bool has_jobs = late->count != 0;
    if (has_jobs)
        late_delete_next(late, request);
    else
        free(late);
    return has_jobs;
}

/* By an old handle nothing need be left to delete, and that is well; it cannot be given more time. */
static void on_answered(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct queue_answer answers[SQS_BATCH_MAX];
    struct sqs_request request;
    struct sqs_error error = {0};
    struct entries entries;
    size_t next = 0;
    bool has_ended[SQS_BATCH_MAX] = {false};
    if (!sqs_request_find(front, tag, &request))
        return;
    if (!sqs_error_of(&error, reply->status) ||
        !read_entries(&request, request.operation->why != NULL, &entries, &error)) {
        fail(&request, &error);
        return;
    }
    (void)read_answers(&request, &entries, answers);
    for (size_t i = 0; i < entries.count; i++) {
        if (entries.errors[i].fault || next == reply->result_count)
            continue;
        enum queue_status status = reply->results[next++].status;
        if (status == QUEUE_LEASE_ENDED && is_change(request.operation))
            (void)sqs_error_set(&entries.errors[i], SQS_NOT_IN_FLIGHT,
                                "The message referred to isn't in flight.");
        else if (status != QUEUE_LEASE_ENDED)
            (void)sqs_error_of(&entries.errors[i], status);
        else
            has_ended[i] = true;
    }
    if (late_delete_begin(&request, &entries, has_ended))
        return;
    answer_entries(&request, &entries, write_nothing, NULL);
}

static void answer_jobs(struct sqs_request *request, const struct queue_topic *topic)
{
    struct queue_answer answers[SQS_BATCH_MAX];
    struct sqs_error error = {0};
    struct entries entries;
    (void)topic;
    if (!read_entries(request, request->operation->why != NULL, &entries, &error)) {
        fail(request, &error);
        return;
    }
    size_t count = read_answers(request, &entries, answers);
    if (count)
        queue_answer(request->exchange->front->queue, answers, count,
                     sqs_reply_to(request, on_answered));
    else
        answer_entries(request, &entries, write_nothing, NULL);
}

/* ---- the table: of a batch `why` is what its entries are called ---- */

const struct sqs_operation sqs_message_operations[] = {
    {"SendMessage", SQS_NAMES_URL, ACCESS_PUSH, send_messages, NULL},
    {"SendMessageBatch", SQS_NAMES_URL, ACCESS_PUSH, send_messages, "SendMessageBatchRequestEntry"},
    {"ReceiveMessage", SQS_NAMES_URL, ACCESS_CONSUME, receive_messages, NULL},
    {"DeleteMessage", SQS_NAMES_URL, ACCESS_CONSUME, answer_jobs, NULL},
    {"DeleteMessageBatch", SQS_NAMES_URL, ACCESS_CONSUME, answer_jobs,
     "DeleteMessageBatchRequestEntry"},
    {"ChangeMessageVisibility", SQS_NAMES_URL, ACCESS_CONSUME, answer_jobs, NULL},
    {"ChangeMessageVisibilityBatch", SQS_NAMES_URL, ACCESS_CONSUME, answer_jobs,
     "ChangeMessageVisibilityBatchRequestEntry"},
    {0},
};
