/* send: creates jobs from messages, single or in a batch. */
#include "base/hash.h"
#include "base/hex.h"
#include "base/json_write.h"
#include "base/text.h"
#include "sqs/message.h"
#include "sqs/request.h"
#include "sqs/settings.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

enum { SHA256_TEXT_BYTES = 64 };

enum { GROUP_BYTES_MAX = 128 };

/* Returns whether the body contains only characters allowed in XML, as SQS requires. */
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

/* Storage that outlives the push: bodies and metas of the entries. */
struct sending {
    struct queue_push pushes[SQS_BATCH_MAX];
    struct buffer bodies, metas[SQS_BATCH_MAX];
    size_t count, bytes; /* bytes: of all bodies, valid or not */
};

/* Adds the trace of the entry, or otherwise that of the call's HTTP header if that is short enough
 * to store. */
static bool add_trace(const struct sqs_request *request, struct json_value entry,
                      struct buffer *meta, struct sqs_error *error)
{
    struct json_value trace = sqs_member(
        sqs_member(sqs_member(entry, "MessageSystemAttributes"), "AWSTraceHeader"), "StringValue");
    if (trace.kind != JSON_STRING) {
        if (request->trace.len)
            (void)job_meta_add(meta, slice_of(SQS_META_TRACE), request->trace);
        return true;
    }
    return job_meta_add(meta, slice_of(SQS_META_TRACE),
                        slice_make(trace.raw.at + 1, trace.raw.len - 2)) == JOB_META_OK ||
           sqs_error_set(error, SQS_BAD_VALUE, "The AWSTraceHeader is too long.");
}

/* Reads the group, for fair queues: 1 to 128 printable ASCII characters without blanks. Empty: the
 * message has no group. */
static bool read_group(struct json_value entry, struct buffer *text, struct slice *out,
                       struct sqs_error *error)
{
    struct json_value group = sqs_member(entry, "MessageGroupId");
    *out = (struct slice){0};
    if (group.kind == JSON_NONE)
        return true;
    bool good = group.kind == JSON_STRING && json_string_bytes(group.raw, text, out) &&
                out->len > 0 && out->len <= GROUP_BYTES_MAX;
    for (size_t i = 0; good && i < out->len; i++)
        good = out->at[i] > ' ' && out->at[i] <= '~';
    return good || sqs_error_set(error, SQS_BAD_VALUE,
                                 "Value for parameter MessageGroupId is invalid. Reason: "
                                 "MessageGroupId can only include alphanumeric and punctuation "
                                 "characters. 1 to 128 in length.");
}

static bool refuse_for_type(struct sqs_error *error, const char *name)
{
    return sqs_error_set(error, SQS_BAD_VALUE,
                         "Value for parameter %s is invalid. Reason: The request include parameter "
                         "that is not valid for this queue type.",
                         name);
}

/* Checks what each message of a FIFO queue must have. SQS rejects the whole batch if one of them lacks it. */
static bool check_fifo_entry(struct json_value entry, const struct sqs_numbers *queue,
                             struct sqs_error *error)
{
    if (!sqs_member(entry, "MessageGroupId").kind)
        return sqs_error_set(error, SQS_MISSING,
                             "The request must contain the parameter MessageGroupId.");
    return queue->hashes_bodies || sqs_member(entry, "MessageDeduplicationId").kind ||
           sqs_error_set(error, SQS_BAD_VALUE,
                         "The queue should either have ContentBasedDeduplication enabled or "
                         "MessageDeduplicationId provided explicitly");
}

/* Writes the SHA-256 as lower-case hex. */
static void write_sha256(struct slice bytes, char out[SHA256_TEXT_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;
    (void)EVP_Digest(bytes.len ? bytes.at : "", bytes.len, digest, &len, EVP_sha256(), NULL);
    hex_emit_bytes(out, digest, SHA256_TEXT_BYTES / 2);
}

/* Reads the deduplication id of a message of a FIFO queue, or computes it from the body. */
static bool read_once(struct json_value entry, struct slice body, struct buffer *text,
                      struct slice *out, struct sqs_error *error)
{
    struct json_value id = sqs_member(entry, "MessageDeduplicationId");
    char hash[SHA256_TEXT_BYTES];
    if (!id.kind) {
        write_sha256(body, hash);
        *out = buffer_append_copy(text, slice_make(hash, sizeof hash));
        return true;
    }
    bool good = id.kind == JSON_STRING && json_string_bytes(id.raw, text, out) && out->len > 0 &&
                out->len <= JOB_ONCE_BYTES_MAX;
    for (size_t i = 0; good && i < out->len; i++)
        good = out->at[i] > ' ' && out->at[i] <= '~';
    return good || sqs_error_set(error, SQS_BAD_VALUE,
                                 "Value for parameter MessageDeduplicationId is invalid. Reason: "
                                 "MessageDeduplicationId can only include alphanumeric and "
                                 "punctuation characters. 1 to 128 in length.");
}

/* Returns the `once` of the job: the deduplication id, or a hash of group and id if ids count within a group only. */
static struct slice job_once(const struct sqs_numbers *queue, struct slice group, struct slice id,
                             struct buffer *text)
{
    char hash[SHA256_TEXT_BYTES];
    size_t start = text->len;
    if (!queue->once_by_group)
        return id;
    buffer_append_slice(text, group);
    buffer_append_byte(text, ' ');
    buffer_append_slice(text, id);
    write_sha256(slice_make(text->at + start, text->len - start), hash);
    text->len = start;
    return buffer_append_copy(text, slice_make(hash, sizeof hash));
}

/* Returns the group of the job for a group of SQS, which may be longer: then its beginning and a hash, in `text`. Empty if
 * the store has no groups: the message only keeps its attribute. */
static struct slice job_group(const struct queue *queue, struct slice group, struct buffer *text)
{
    enum { HEAD_BYTES = 47 };
    struct queue_info info = {0};
    size_t start = text->len;
    if (group.len)
        queue_info((struct queue *)(uintptr_t)queue, &info);
    if (!info.groups)
        return (struct slice){0};
    if (group.len <= JOB_GROUP_BYTES_MAX)
        return group;
    buffer_append(text, group.at, HEAD_BYTES);
    buffer_append_format(text, "~%016" PRIx64, hash_64(group.at, group.len));
    return slice_make(text->at + start, text->len - start);
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
                         const struct sqs_numbers *queue, struct sending *sending,
                         struct sqs_error *error)
{
    struct queue_push *push = &sending->pushes[sending->count];
    struct buffer *meta = &sending->metas[sending->count];
    struct json_value attributes = sqs_member(entry, "MessageAttributes");
    struct slice group, once = {0};
    char sent[24];
    int64_t delay_s;
    int len = snprintf(sent, sizeof sent, "%" PRId64, sqs_request_now_ms(request));
    *push = (struct queue_push){.topic = request->queue,
                                .content_type = slice_of("text/plain"),
                                .priority = QUEUE_PRIORITY_UNSET};
    if (!read_body(entry, queue->message_bytes, sending, &push->body, error) ||
        !sqs_number(sqs_member(entry, "DelaySeconds"), "DelaySeconds", 0,
                    POLICY_DELAY_MS_MAX / 1000, queue->delay_s, &delay_s, error) ||
        !sqs_attributes_check(attributes, error) ||
        !sqs_system_attributes_check(sqs_member(entry, "MessageSystemAttributes"), error) ||
        !read_group(entry, &sending->bodies, &group, error))
        return false;
    if (!queue->is_fifo && sqs_member(entry, "MessageDeduplicationId").kind)
        return refuse_for_type(error, "MessageDeduplicationId");
    if (queue->is_fifo && delay_s && sqs_member(entry, "DelaySeconds").kind)
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "Value %" PRId64 " for parameter DelaySeconds is invalid. Reason: The "
                             "request include parameter that is not valid for this queue type.",
                             delay_s);
    if (queue->is_fifo && !read_once(entry, push->body, &sending->bodies, &once, error))
        return false;
    if (once.len)
        push->once = job_once(queue, group, once, &sending->bodies);
    push->group = job_group(request->exchange->front->queue, group, &sending->bodies);
    buffer_init(meta, JOB_META_BYTES_MAX);
    sending->count++;
    push->when = (struct queue_when){delay_s ? QUEUE_DUE_DELAY : QUEUE_DUE_NOW, delay_s * 1000};
    bool good =
        job_meta_add(meta, slice_of(SQS_META_SENT), slice_make(sent, (size_t)len)) == JOB_META_OK &&
        sqs_attributes_keep(attributes, meta) &&
        (!group.len || job_meta_add(meta, slice_of(SQS_META_GROUP), group) == JOB_META_OK) &&
        (!once.len || job_meta_add(meta, slice_of(SQS_META_ONCE), once) == JOB_META_OK);
    if (!good)
        (void)sqs_error_set(
            error, SQS_BAD_VALUE,
            "Message attributes are too long, or contain characters that meta may not contain.");
    good = good && add_trace(request, entry, meta, error);
    push->meta = buffer_slice(meta);
    if (!good) {
        buffer_fini(meta);
        sending->count--;
    }
    return good;
}

/* Reads the messages of a call. Valid entries are the same each time, because the reply is written
 * from a second reading. */
static bool read_messages(const struct sqs_request *request, const struct sqs_numbers *queue,
                          struct sqs_entries *entries, struct sending *sending,
                          struct sqs_error *error)
{
    sending->count = sending->bytes = 0;
    const size_t room =
        request->exchange->note.len + 1 +
        (size_t)SQS_BATCH_MAX * (JOB_GROUP_BYTES_MAX + 2 * JOB_ONCE_BYTES_MAX + GROUP_BYTES_MAX);
    buffer_init(&sending->bodies, room);
    if (!buffer_reserve(&sending->bodies, room))
        return sqs_error_set(error, SQS_BUSY, "out of memory");
    if (!sqs_entries_read(request, entries, error))
        return false;
    for (size_t i = 0; queue->is_fifo && i < entries->count; i++)
        if (!check_fifo_entry(entries->at[i], queue, error))
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

enum { IS_FIFO = 1u << 28, HASHES_BODIES = 1u << 29, ONCE_BY_GROUP = 1u << 30 };
_Static_assert((int)SQS_MESSAGE_BYTES < (int)IS_FIFO, "the size and the bits fit into one number");

/* The settings that the second reading needs, as a number. */
static uint32_t numbers_keep(const struct sqs_numbers *queue)
{
    return (uint32_t)queue->message_bytes | (queue->is_fifo ? IS_FIFO : 0u) |
           (queue->hashes_bodies ? HASHES_BODIES : 0u) |
           (queue->once_by_group ? ONCE_BY_GROUP : 0u);
}

static struct sqs_numbers numbers_kept(uint32_t kept)
{
    return (struct sqs_numbers){.message_bytes = kept & (IS_FIFO - 1u),
                                .is_fifo = kept & IS_FIFO,
                                .hashes_bodies = kept & HASHES_BODIES,
                                .once_by_group = kept & ONCE_BY_GROUP};
}

struct sent {
    const struct sqs_request *request;
    const struct sqs_entries *entries;
    const struct queue_result *results;
    size_t which[SQS_BATCH_MAX]; /* index of the result for each entry */
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
    char number[SQS_SEQUENCE_BYTES];
    if (sqs_name_is_fifo(sent->request->queue) && result->status != QUEUE_EXISTED &&
        sqs_sequence_number(result->id, number))
        buffer_append_format(out, ",\"SequenceNumber\":\"%.*s\"", SQS_SEQUENCE_BYTES, number);
    if (sqs_attributes_md5(attributes, md5))
        buffer_append_format(out, ",\"MD5OfMessageAttributes\":\"%.*s\"", SQS_MD5_TEXT_BYTES, md5);
    if (sqs_attributes_md5(sqs_member(entry, "MessageSystemAttributes"), md5))
        buffer_append_format(out, ",\"MD5OfMessageSystemAttributes\":\"%.*s\"", SQS_MD5_TEXT_BYTES,
                             md5);
}

static void on_sent(void *front, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_request request;
    struct sqs_error error = {0};
    struct sqs_entries entries;
    struct sending sending = {0};
    if (!sqs_request_find(front, tag, &request))
        return;
    const struct sqs_numbers queue = numbers_kept(request.exchange->count);
    struct sent sent = {.request = &request, .entries = &entries, .results = reply->results};
    bool good = sqs_error_of(&error, reply->status) &&
                read_messages(&request, &queue, &entries, &sending, &error);
    if (!good) {
        sqs_answer_error(request.exchange, &error);
        sending_fini(&sending);
        return;
    }
    for (size_t i = 0, next = 0; i < entries.count; i++) {
        if (entries.errors[i].fault || next == reply->result_count)
            continue;
        sent.which[i] = next;
        (void)sqs_error_of(&entries.errors[i], reply->results[next++].status);
    }
    sqs_entries_answer(&request, &entries, write_sent, &sent);
    sending_fini(&sending);
}

void sqs_send(struct sqs_request *request, const struct sqs_numbers *queue)
{
    struct sqs_error error = {0};
    struct sqs_entries entries;
    struct sending sending = {0};
    request->exchange->count = numbers_keep(queue);
    bool good = read_messages(request, queue, &entries, &sending, &error);
    if (good && entries.is_batch && sending.bytes > SQS_MESSAGE_BYTES)
        good = sqs_error_set(&error, SQS_BATCH_BYTES,
                             "Batch requests cannot be longer than %d bytes. You have sent %zu "
                             "bytes.",
                             SQS_MESSAGE_BYTES, sending.bytes);
    if (!good)
        sqs_answer_error(request->exchange, &error);
    else if (sending.count)
        queue_push(request->exchange->front->queue, sending.pushes, sending.count,
                   sqs_reply_to(request, on_sent));
    else
        sqs_entries_answer(request, &entries, write_sent, NULL);
    sending_fini(&sending);
}
