#include "peers/sqs.h"

#include "load/http.h"
#include "load/socket.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH_MAX = 10, WAIT_S = 20, TEXT_BYTES_MAX = 4096, LENGTH_DIGITS = 9 };

struct load_speech {
    unsigned take_max;
    struct buffer head;  /* of each request, up to the operation */
    struct buffer queue; /* "{"QueueUrl":"…"," */
    struct load_body body;
};

/* ---- requests ---- */

/* Appends a request up to its length, which is only known afterwards. Returns the beginning of the body. */
static size_t request_begin(struct load_speech *speech, struct buffer *out, const char *operation)
{
    buffer_append_slice(out, buffer_slice(&speech->head));
    buffer_append_text(out, operation);
    buffer_append_text(out, "\r\nContent-Length: 000000000\r\n\r\n");
    return out->len;
}

static void request_end(struct buffer *out, size_t body_at)
{
    if (out->failed)
        return;
    size_t length = out->len - body_at;
    char *digit = out->at + body_at - 4;
    for (int i = 0; i < LENGTH_DIGITS; i++, length /= 10)
        *--digit = (char)('0' + length % 10);
}

static bool is_whole(struct slice answer)
{
    struct load_http_frame frame;
    size_t need;
    return answer.len && load_http_frame(answer, &frame, &need) != LOAD_PARTIAL;
}

/* Creates the queue; changes nothing if it exists. */
static bool make_queue(struct load_speech *speech, const struct load_plan *plan,
                       char problem[LOAD_TEXT_BYTES_MAX])
{
    struct buffer request, answer;
    struct load_http_frame frame = {0};
    size_t need;
    buffer_init(&request, TEXT_BYTES_MAX);
    buffer_init(&answer, LOAD_BODY_BYTES_MAX);
    size_t body_at = request_begin(speech, &request, "CreateQueue");
    buffer_append_format(&request, "{\"QueueName\":\"%s\"}", plan->topic);
    request_end(&request, body_at);
    bool done = load_socket_call(plan, buffer_slice(&request), &answer, is_whole, problem);
    if (done && (load_http_frame(buffer_slice(&answer), &frame, &need) != LOAD_ANSWER ||
                 frame.status != 200)) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "no queue: %.*s",
                 (int)(answer.len < 200 ? answer.len : 200), answer.at);
        done = false;
    }
    buffer_fini(&request);
    buffer_fini(&answer);
    return done;
}

static void sqs_close(struct load_speech *speech)
{
    if (!speech)
        return;
    buffer_fini(&speech->head);
    buffer_fini(&speech->queue);
    load_body_fini(&speech->body);
    free(speech);
}

static struct load_speech *sqs_open(const struct load_plan *plan, uint32_t run,
                                    char problem[LOAD_TEXT_BYTES_MAX])
{
    (void)run;
    struct load_speech *speech = calloc(1, sizeof *speech);
    if (!speech) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "out of memory");
        return NULL;
    }
    speech->take_max = plan->take_max < BATCH_MAX ? plan->take_max : BATCH_MAX;
    buffer_init(&speech->head, TEXT_BYTES_MAX);
    buffer_init(&speech->queue, TEXT_BYTES_MAX);
    buffer_append_format(
        &speech->head,
        "POST / HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/x-amz-json-1.0\r\n"
        "X-Amz-Date: 20260101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 "
        "Credential=any/20260101/us-east-1/sqs/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=%064d\r\n"
        "X-Amz-Target: AmazonSQS.",
        plan->host, plan->port, 0);
    buffer_append_format(&speech->queue, "{\"QueueUrl\":\"http://%s:%s/000000000000/%s\",",
                         plan->host, plan->port, plan->topic);
    load_body_init(&speech->body, plan->body_bytes);
    if (make_queue(speech, plan, problem))
        return speech;
    sqs_close(speech);
    return NULL;
}

static void sqs_push(struct load_speech *speech, struct buffer *out,
                     const struct load_stamp *stamps, unsigned count)
{
    size_t body_at = request_begin(speech, out, "SendMessageBatch");
    buffer_append_slice(out, buffer_slice(&speech->queue));
    buffer_append_text(out, "\"Entries\":[");
    for (unsigned i = 0; i < count; i++) {
        buffer_append_format(out, "%s{\"Id\":\"%u\",\"DelaySeconds\":%lld,\"MessageBody\":\"",
                             i ? "," : "", i, (long long)stamps[i].delay_ms / 1000);
        load_body_append(&speech->body, &stamps[i], out);
        buffer_append_text(out, "\"}");
    }
    buffer_append_text(out, "]}");
    request_end(out, body_at);
}

static unsigned sqs_take(struct load_speech *speech, struct buffer *out, unsigned got_last_time)
{
    (void)got_last_time;
    size_t body_at = request_begin(speech, out, "ReceiveMessage");
    buffer_append_slice(out, buffer_slice(&speech->queue));
    buffer_append_format(
        out, "\"MaxNumberOfMessages\":%u,\"VisibilityTimeout\":120,\"WaitTimeSeconds\":%d}",
        speech->take_max, WAIT_S);
    request_end(out, body_at);
    return 1;
}

static unsigned sqs_ack(struct load_speech *speech, struct buffer *out,
                        const struct load_item *items, unsigned count)
{
    size_t body_at = request_begin(speech, out, "DeleteMessageBatch");
    buffer_append_slice(out, buffer_slice(&speech->queue));
    buffer_append_text(out, "\"Entries\":[");
    for (unsigned i = 0; i < count; i++) {
        buffer_append_format(out, "%s{\"Id\":\"%u\",\"ReceiptHandle\":\"", i ? "," : "", i);
        buffer_append_slice(out, items[i].lease);
        buffer_append_text(out, "\"}");
    }
    buffer_append_text(out, "]}");
    request_end(out, body_at);
    return 1;
}

/* ---- answers ---- */

/* The string of the next member of this name, at or after `at`. */
static const char *find_member(const char *at, const char *end, const char *name, struct slice *out)
{
    size_t name_len = strlen(name);
    const char *found = memmem(at, (size_t)(end - at), name, name_len);
    const char *from = found ? found + name_len : NULL;
    const char *quote = from ? memchr(from, '"', (size_t)(end - from)) : NULL;
    if (!quote)
        return NULL;
    *out = slice_make(from, (size_t)(quote - from));
    return quote + 1;
}

/* Messages are objects of an array, with handle and body in any order. */
static void find_messages(struct slice body, struct load_answer *answer)
{
    const char *end = body.at + body.len, *handle_at = body.at, *body_at = body.at;
    struct load_item item = {0};
    while (answer->item_count < BATCH_MAX &&
           (handle_at = find_member(handle_at, end, "\"ReceiptHandle\":\"", &item.lease)) &&
           (body_at = find_member(body_at, end, "\"Body\":\"", &item.body)))
        answer->items[answer->item_count++] = item;
}

static uint64_t count_failed(struct slice body)
{
    const char *at = body.at, *end = body.at + body.len;
    uint64_t count = 0;
    struct slice code;
    while ((at = find_member(at, end, "\"Code\":\"", &code)))
        count++;
    return count;
}

static enum load_outcome sqs_parse(struct load_speech *speech, enum load_kind kind, uint32_t count,
                                   struct slice bytes, struct load_answer *answer)
{
    (void)speech;
    struct load_http_frame frame;
    enum load_outcome outcome = load_http_frame(bytes, &frame, &answer->need);
    answer->problem = bytes;
    answer->failed = 0;
    answer->item_count = 0;
    if (outcome != LOAD_ANSWER)
        return outcome;
    answer->bytes = frame.bytes;
    answer->problem = slice_make(bytes.at, frame.bytes);
    if (frame.status != 200)
        answer->failed = count ? count : 1;
    else if (kind == LOAD_TAKE)
        find_messages(frame.body, answer);
    else
        answer->failed = count_failed(frame.body);
    return LOAD_ANSWER;
}

const struct load_protocol load_sqs = {
    .name = "sqs",
    .port = "9324",
    .delay_unit_ms = 1000,
    .batch_max = BATCH_MAX,
    .open = sqs_open,
    .close = sqs_close,
    .push = sqs_push,
    .take = sqs_take,
    .ack = sqs_ack,
    .parse = sqs_parse,
};
