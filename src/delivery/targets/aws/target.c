/*
 * aws_target: SQS and SNS of Amazon, and servers with the same interface: calls by HTTP, signed by
 * Signature Version 4. A path that is an ARN is a topic of SNS, any other one a queue of SQS.
 *
 * A call carries one message or several ones of the same queue, and goes through the target for
 * HTTP, which connects, checks addresses and applies timeouts. Many calls are in progress at a
 * time. A message that was sent before goes in a call of its own, so that a message that the
 * service rejects with its whole call does not affect others again.
 *
 * The keys are those of the policy file for the origin, else those of the environment
 * (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN).
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/json_read.h"
#include "base/text.h"
#include "net/signature.h"
#include "targets/aws/service.h"
#include "targets/message_id.h"
#include "targets/meta.h"
#include "targets/outbox.h"
#include "targets/place.h"
#include "targets/template.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    CALL_BYTES_MAX = 64 * 1024 * 1024,
    PATH_BYTES_MAX = 1024,
    TEXT_BYTES_MAX = 128, /* of a group and an ID of repetitions */
    REGION_BYTES_MAX = 64,
    HEADERS_BYTES_MAX = 16 * 1024,
    /* The target for HTTP has the same timeout, and reports more when it expires. */
    GRACE_MS = 2000
};

struct aws_message {
    struct outbox_message message; /* first */
    size_t index;                  /* in its call */
};

/* A call in progress. */
struct aws_call {
    const struct aws_service *service;
    size_t count;
    struct aws_message *messages[AWS_CALL_MESSAGES_MAX];
};

/* A call that is being written. */
struct aws_draft {
    struct aws_call *call; /* NULL: no call */
    struct buffer queue, body;
    const struct target_message *first;
};

struct aws {
    struct target target; /* first */
    struct outbox outbox;
    struct target *http;
    struct target_env http_env;
    struct target_place place;
    struct message_id ids;
    /* "https://host", with the port unless it is the standard one, as in the header Host */
    char origin[GUARD_ORIGIN_BYTES + 8];
};

/* ---- addresses ---- */

static const struct aws_service *service_of(struct slice path)
{
    static const char arn[] = "/arn:";
    bool is_arn = path.len >= sizeof arn - 1 && memcmp(path.at, arn, sizeof arn - 1) == 0;
    return is_arn ? &aws_sns : &aws_sqs;
}

static bool aws_parse(struct slice to, struct target_place *out, struct slice *path, char *error)
{
    struct url url;
    if (!target_place_parse(to, target_aws_schemes, &url, out, error))
        return false;
    *path = url.path;
    if (url.host_count == 1 && !url.has_query && url.path.len > 1)
        return true;
    return error_text(error, TARGET_ERROR_BYTES,
                      "write awss://HOST/ACCOUNT/QUEUE or awss://HOST/ARN, with one host");
}

/* Cuts the last label off a host. */
static struct slice cut_label(struct slice *host)
{
    const char *dot = host->len ? memrchr(host->at, '.', host->len) : NULL;
    size_t before = dot ? (size_t)(dot - host->at) : 0;
    struct slice label = dot ? slice_make(dot + 1, host->len - before - 1) : (struct slice){0};
    host->len = before;
    return label;
}

struct slice aws_region_of_host(struct slice host)
{
    static const char domain[] = ".amazonaws.com";
    const char *end = host.len ? memmem(host.at, host.len, domain, sizeof domain - 1) : NULL;
    host.len = end ? (size_t)(end - host.at) : 0;
    struct slice label = cut_label(&host);
    if (slice_is(label, "queue")) /* the older form: eu-west-1.queue.amazonaws.com */
        return host;
    return slice_is(label, "vpce") ? cut_label(&host) : label; /* sqs.eu-west-1.vpce… */
}

struct slice aws_region_of_arn(struct slice arn)
{
    size_t from = 0;
    if (arn.len < 4 || memcmp(arn.at, "arn:", 4) != 0)
        return (struct slice){0};
    for (int colons = 0; from < arn.len && colons < 3; from++)
        colons += arn.at[from] == ':';
    const char *end = from < arn.len ? memchr(arn.at + from, ':', arn.len - from) : NULL;
    return end ? slice_make(arn.at + from, (size_t)(end - arn.at) - from) : (struct slice){0};
}

/* Returns the region for signatures: of the settings, of the host or the ARN, of the
 * environment. */
static struct slice region_of(const struct aws *aws, const struct target_setting *setting,
                              struct slice queue)
{
    struct slice host = aws_region_of_host(slice_of(aws->place.host));
    if (!host.len)
        host = aws_region_of_arn(queue);
    const char *named = setting->region && setting->region[0] ? setting->region : NULL;
    const char *given = getenv("AWS_REGION");
    return named      ? slice_of(named)
           : host.len ? host
                      : slice_of(given && *given ? given : "us-east-1");
}

static bool aws_check(const struct target_setting *setting, struct slice to,
                      char error[TARGET_ERROR_BYTES])
{
    struct target_place place;
    struct slice path;
    if (!aws_parse(to, &place, &path, error) || !template_check(path, error))
        return false;
    if (!setting)
        return true;
    const char *const texts[] = {setting->message_group, setting->deduplication};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i] && !template_check(slice_of(texts[i]), error))
            return false;
    const char *region = setting->region ? setting->region : "";
    if (strlen(region) > REGION_BYTES_MAX ||
        region[strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-")])
        return error_text(error, TARGET_ERROR_BYTES, "bad 'region', write one such as eu-west-1");
    return true;
}

/* ---- outcomes ---- */

static bool is_one_of(const char *code, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(code, *names) == 0)
            return true;
    return false;
}

void aws_evaluate(const struct aws_answer *answer, uint32_t status, struct target_report *out)
{
    /* Sources: the common errors, and the errors of SendMessageBatch and Publish, in the API
     * references of SQS and SNS. */
    static const char *const login[] = {"UnrecognizedClientException",
                                        "InvalidClientTokenId",
                                        "SignatureDoesNotMatch",
                                        "InvalidSignatureException",
                                        "IncompleteSignature",
                                        "MissingAuthenticationToken",
                                        "MissingAuthenticationTokenException",
                                        "ExpiredToken",
                                        "ExpiredTokenException",
                                        "InvalidAccessKeyId",
                                        "OptInRequired",
                                        NULL};
    static const char *const limits[] = {"RequestThrottled",
                                         "Throttling",
                                         "ThrottlingException",
                                         "Throttled",
                                         "ThrottledException",
                                         "TooManyRequestsException",
                                         "OverLimit",
                                         "KMSThrottlingException",
                                         NULL};
    static const char *const refusals[] = {"InvalidMessageContents",
                                           "InvalidParameterValue",
                                           "InvalidParameterValueException",
                                           "InvalidParameter",
                                           "InvalidParameterException",
                                           "InvalidAttributeValue",
                                           "ParameterValueInvalid",
                                           "ParameterValueInvalidException",
                                           "MissingParameter",
                                           "InvalidBatchEntryId",
                                           "BatchRequestTooLong",
                                           "BatchRequestTooLongException",
                                           "AWS.SimpleQueueService.BatchRequestTooLong",
                                           "MessageTooLong",
                                           "UnsupportedOperation",
                                           "ValidationError",
                                           NULL};
    *out = (struct target_report){.outcome = TARGET_FAILED, .retry_after_ms = -1, .code = status};
    (void)snprintf(out->error, sizeof out->error, "%s%s%s", answer->code,
                   answer->text[0] ? ": " : "", answer->text);
    if (is_one_of(answer->code, login)) {
        out->outcome = TARGET_UNSENT;
        out->is_ailing = true;
    } else if (is_one_of(answer->code, limits) || status == 429) {
        out->is_limited = true;
    } else if (is_one_of(answer->code, refusals)) {
        out->outcome = TARGET_REFUSED;
    } else {
        out->is_ailing = !answer->is_our_fault || status >= 500;
    }
}

/* ---- signing ---- */

static void add_header(struct buffer *out, const char *name, struct slice value)
{
    buffer_append(out, name, strlen(name) + 1);
    buffer_append_slice(out, value);
    buffer_append_byte(out, '\0');
}

static bool next_header(const void *headers, size_t index, struct slice *name, struct slice *value)
{
    const struct buffer *all = headers;
    size_t at = 0;
    for (size_t i = 0; i <= index; i++)
        if (!job_meta_next(buffer_slice(all), &at, name, value))
            return false;
    return true;
}

/* The keys for a call; wiped after it. */
struct aws_keys {
    struct guard_credential pair;
    const char *session; /* or NULL */
};

static bool find_keys(const struct aws *aws, struct aws_keys *out)
{
    const char *id = getenv("AWS_ACCESS_KEY_ID"), *secret = getenv("AWS_SECRET_ACCESS_KEY");
    const char *session = getenv("AWS_SESSION_TOKEN");
    *out = (struct aws_keys){0};
    if (guard_find_credential(aws->outbox.env->guard, aws->place.origin, &out->pair))
        return true;
    if (!id || !*id || !secret || !*secret)
        return false;
    (void)snprintf(out->pair.user, sizeof out->pair.user, "%s", id);
    (void)snprintf(out->pair.password, sizeof out->pair.password, "%s", secret);
    out->session = session && *session ? session : NULL;
    return true;
}

/* Appends the Authorization header. Returns false when out of memory, or if the secret is too
 * long. */
static bool sign_headers(const struct aws_keys *keys, const struct signature_request *request,
                         struct signature *signature, const char *time, struct buffer *headers)
{
    unsigned char key[SIGNATURE_BYTES], made[SIGNATURE_BYTES];
    char hex[2 * SIGNATURE_BYTES];
    struct buffer canonical, line;
    buffer_init(&canonical, 2 * HEADERS_BYTES_MAX);
    buffer_init(&line, HEADERS_BYTES_MAX);
    bool is_made = signature_key(slice_of(keys->pair.password), signature, key) &&
                   signature_canonical(signature, request, &canonical) &&
                   signature_make(key, signature, slice_of(time), buffer_slice(&canonical), made);
    explicit_bzero(key, sizeof key);
    if (is_made) {
        hex_emit_bytes(hex, made, sizeof made);
        buffer_append_format(
            &line, "AWS4-HMAC-SHA256 Credential=%s/%.*s, SignedHeaders=%.*s, Signature=%.*s",
            keys->pair.user, (int)signature->scope.len, signature->scope.at,
            (int)signature->headers.len, signature->headers.at, (int)sizeof hex, hex);
        add_header(headers, "authorization", buffer_slice(&line));
        is_made = !line.failed;
    }
    buffer_fini(&canonical);
    buffer_fini(&line);
    return is_made;
}

/* Writes the headers of a call, the last one its signature. */
static bool write_headers(const struct aws *aws, const struct aws_service *service,
                          const struct aws_keys *keys, struct slice region, struct slice body,
                          struct buffer *headers)
{
    char time[SIGNATURE_TIME_BYTES + 1], scope[REGION_BYTES_MAX + 64], names[128];
    time_t now_s = (time_t)(clock_wall_ms() / 1000);
    struct tm parts;
    (void)gmtime_r(&now_s, &parts);
    (void)strftime(time, sizeof time, "%Y%m%dT%H%M%SZ", &parts);
    int len = snprintf(scope, sizeof scope, "%.8s/%.*s/%s/aws4_request", time, (int)region.len,
                       region.at, service->name);
    struct signature signature = {.key_id = slice_of(keys->pair.user),
                                  .scope = slice_make(scope, (size_t)len),
                                  .day = slice_make(time, 8),
                                  .region = region,
                                  .service = slice_of(service->name)};
    const char *host = aws->origin + (aws->place.is_tls ? sizeof "https://" : sizeof "http://") - 1;
    (void)snprintf(names, sizeof names, "content-type;host;x-amz-date%s%s",
                   keys->session ? ";x-amz-security-token" : "",
                   service->action ? ";x-amz-target" : "");
    signature.headers = slice_of(names);
    add_header(headers, "content-type", slice_of(service->content_type));
    add_header(headers, "host", slice_of(host));
    add_header(headers, "x-amz-date", slice_of(time));
    if (keys->session)
        add_header(headers, "x-amz-security-token", slice_of(keys->session));
    if (service->action)
        add_header(headers, "x-amz-target", slice_of(service->action));
    const struct signature_request request = {.method = slice_of("POST"),
                                              .path = slice_of("/"),
                                              .body = body,
                                              .headers = headers,
                                              .next_header = next_header};
    return sign_headers(keys, &request, &signature, time, headers) && !headers->failed;
}

/* ---- the end of a call ---- */

static void call_settle(struct aws *aws, struct aws_call *call, const struct target_report *report)
{
    for (size_t i = 0; i < call->count; i++) {
        struct outbox_message *message = &call->messages[i]->message;
        if (message->stage == OUTBOX_WAITING || message->stage == OUTBOX_SENT)
            outbox_settle(&aws->outbox, message, report);
        if (message->is_held)
            outbox_return(&aws->outbox, message);
    }
    free(call);
}

static void call_fail(struct aws *aws, struct aws_call *call, enum target_outcome outcome,
                      bool is_ailing, const char *error)
{
    struct target_report report = {
        .outcome = outcome, .is_ailing = is_ailing, .retry_after_ms = -1};
    (void)snprintf(report.error, sizeof report.error, "%s", error);
    call_settle(aws, call, &report);
}

/* Settles each message of an accepted call by its own answer. */
static void call_read(struct aws *aws, const struct aws_call *call,
                      const struct target_report *report)
{
    for (size_t i = 0; i < call->count; i++) {
        struct outbox_message *message = &call->messages[i]->message;
        struct target_report own = {.outcome = TARGET_DONE, .retry_after_ms = -1};
        struct aws_answer answer = {0};
        bool is_read = !report->loss && call->service->read(report->result, i, &answer);
        own.code = report->code;
        if (!is_read) {
            own.outcome = TARGET_FAILED;
            own.is_ailing = true;
            (void)snprintf(own.error, sizeof own.error, "the answer cannot be read");
        } else if (!answer.is_done) {
            aws_evaluate(&answer, answer.is_our_fault ? 400 : 500, &own);
        }
        if (message->stage == OUTBOX_SENT)
            outbox_settle(&aws->outbox, message, &own);
    }
}

/* Handles the end of a call. A message that was rejected together with others is sent alone the
 * next time. */
static void on_reported(void *owner, uint64_t tag, const struct target_report *report)
{
    struct aws *aws = owner;
    struct aws_call *call = (struct aws_call *)(uintptr_t)tag;
    struct target_report own = *report;
    struct aws_answer answer = {.is_our_fault = true};
    own.result = own.result_type = (struct slice){0};
    if (report->outcome == TARGET_DONE) {
        call_read(aws, call, report);
    } else if (report->code && !report->loss) {
        call->service->read_error(report->result, &answer);
        if (answer.code[0])
            aws_evaluate(&answer, report->code, &own);
        if (own.outcome == TARGET_REFUSED && call->count > 1)
            own.outcome = TARGET_FAILED;
    }
    own.loss = 0;
    call_settle(aws, call, &own);
}

/* ---- sending ---- */

static void draft_drop(struct aws_draft *draft)
{
    draft->call = NULL;
    buffer_clear(&draft->body);
    buffer_clear(&draft->queue);
}

/* Signs the call and passes it to the target for HTTP. */
static void draft_send(struct aws *aws, struct aws_draft *draft)
{
    struct aws_call *call = draft->call;
    struct aws_keys keys;
    struct buffer headers;
    char to[sizeof aws->origin + 1];
    if (!call)
        return;
    draft->call = NULL;
    call->service->end(&draft->body);
    buffer_init(&headers, HEADERS_BYTES_MAX);
    const struct target_setting setting = {.timeout_ms = draft->first->setting->timeout_ms,
                                           .never_signs = true};
    const struct job job = {.topic = draft->first->job->topic,
                            .id = draft->first->job->id,
                            .content_type = slice_of(call->service->content_type),
                            .body = buffer_slice(&draft->body)};
    bool has_keys = find_keys(aws, &keys);
    bool is_made = has_keys && !draft->body.failed &&
                   write_headers(aws, call->service, &keys,
                                 region_of(aws, draft->first->setting, buffer_slice(&draft->queue)),
                                 buffer_slice(&draft->body), &headers);
    explicit_bzero(&keys, sizeof keys);
    if (is_made) {
        /* The content type and the host are those of the request itself. */
        size_t skipped = 0;
        struct slice name, value;
        for (int i = 0; i < 2; i++)
            (void)job_meta_next(buffer_slice(&headers), &skipped, &name, &value);
        (void)snprintf(to, sizeof to, "%s/", aws->origin);
        const struct target_message message = {
            .tag = (uint64_t)(uintptr_t)call,
            .job = &job,
            .setting = &setting,
            .attributes = slice_make(headers.at + skipped, headers.len - skipped),
            .to = slice_of(to),
            .is_call = true,
            .is_test = draft->first->is_test,
            .explained = draft->first->explained};
        for (size_t i = 0; i < call->count; i++) {
            call->messages[i]->message.is_held = true;
            outbox_mark_sent(&aws->outbox, &call->messages[i]->message);
        }
        aws->http->ops->send(aws->http, &message, 1);
    } else {
        call_fail(aws, call, TARGET_UNSENT, !has_keys,
                  has_keys ? "out of memory, or the secret key is longer than 128 bytes"
                           : "no access key, add a 'credential' to the policy file or set "
                             "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    }
    if (headers.at)
        explicit_bzero(headers.at, headers.cap);
    buffer_fini(&headers);
    draft_drop(draft);
}

/* Returns true if the bytes are text that a message may have: the characters of XML 1.0. */
static bool is_text(struct slice body)
{
    for (size_t i = 0; i < body.len; i++) {
        unsigned char byte = (unsigned char)body.at[i];
        if (byte < ' ' && byte != '\t' && byte != '\n' && byte != '\r')
            return false;
        if (byte == 0xef && i + 2 < body.len && (unsigned char)body.at[i + 1] == 0xbf &&
            (unsigned char)body.at[i + 2] >= 0xbe) /* U+FFFE, U+FFFF */
            return false;
    }
    return json_utf8_is_valid(body);
}

static void add_attribute(struct aws_entry *entry, struct slice name, struct slice value)
{
    if (value.len && entry->attribute_count < AWS_ATTRIBUTES_MAX)
        entry->attributes[entry->attribute_count++] = (struct aws_attribute){name, value};
}

/* Adds the attributes: tarry's, then the metas. Returns false if there are too many. With
 * "body": "job" the metas are in the body. */
static bool add_attributes(struct aws_entry *entry, const struct target_message *message,
                           const char *attempt)
{
    const struct job *job = message->job;
    struct slice name, value;
    size_t at = 0;
    add_attribute(entry, slice_of("tarry-topic"), job->topic);
    add_attribute(entry, slice_of("tarry-id"), job->id);
    add_attribute(entry, slice_of("tarry-attempt"), slice_of(attempt));
    add_attribute(entry, slice_of("content-type"),
                  job->content_type.len ? job->content_type : slice_of("application/octet-stream"));
    while (!message->setting->sends_job && target_meta_next(job->meta, &at, &name, &value)) {
        if (value.len && entry->attribute_count == AWS_ATTRIBUTES_MAX)
            return false;
        add_attribute(entry, slice_is(name, "content-type") ? slice_of("meta-content-type") : name,
                      value);
    }
    return true;
}

/* The texts of one entry. */
struct aws_texts {
    struct buffer path, queue, group, repeat, body;
    char id[MESSAGE_ID_BYTES], attempt[16];
};

static void texts_init(struct aws_texts *texts, const struct job *job)
{
    buffer_init(&texts->path, PATH_BYTES_MAX);
    buffer_init(&texts->queue, 2 * PATH_BYTES_MAX + GUARD_ORIGIN_BYTES);
    buffer_init(&texts->group, TEXT_BYTES_MAX);
    buffer_init(&texts->repeat, TEXT_BYTES_MAX);
    buffer_init(&texts->body, 2 * job->body.len + 16);
    (void)snprintf(texts->attempt, sizeof texts->attempt, "%" PRIu32, job->attempt);
}

static void texts_fini(struct aws_texts *texts)
{
    buffer_fini(&texts->path);
    buffer_fini(&texts->queue);
    buffer_fini(&texts->group);
    buffer_fini(&texts->repeat);
    buffer_fini(&texts->body);
}

static bool fill(const char *text, const char *standard, const struct job *job, struct buffer *out)
{
    return template_fill(slice_of(text && *text ? text : standard), job, TEMPLATE_PLAIN,
                         TEXT_BYTES_MAX, out);
}

static bool is_fifo(struct slice queue)
{
    return queue.len > 5 && memcmp(queue.at + queue.len - 5, ".fifo", 5) == 0;
}

/* Fills in group and ID of repetitions: of a FIFO queue always, of others only if the topic names
 * them. */
static bool fill_order(struct aws *aws, const struct target_message *message,
                       struct aws_texts *texts, struct slice queue)
{
    const struct target_setting *setting = message->setting;
    bool fifo = is_fifo(queue);
    if ((fifo || setting->message_group) &&
        !fill(setting->message_group, TARGET_STANDARD_message_group, message->job, &texts->group))
        return false;
    if (!fifo)
        return true;
    if (!message_id_write(&aws->ids, message->job, texts->id))
        texts->repeat.failed = true;
    return fill(setting->deduplication, texts->id, message->job, &texts->repeat);
}

/* Makes the entry of a message. Returns NULL, or the reason why it is refused. Out of memory sets
 * the failure flag of texts->queue. */
static const char *make_entry(struct aws *aws, const struct target_message *message,
                              struct aws_texts *texts, struct aws_entry *entry)
{
    const struct job *job = message->job;
    struct target_place place;
    struct slice path;
    char error[TARGET_ERROR_BYTES];
    *entry = (struct aws_entry){.body = job->body};
    if (!aws_parse(message->to, &place, &path, error) ||
        strcmp(place.origin, aws->place.origin) != 0)
        return "the URL is at another endpoint";
    if (!template_fill(path, job, TEMPLATE_URL, PATH_BYTES_MAX, &texts->path))
        return "the queue's name is longer than 1024 bytes, or has '..'";
    if (!job->body.len)
        return "the body is empty, which the service does not accept";
    entry->service = service_of(buffer_slice(&texts->path));
    entry->queue =
        entry->service->queue(slice_of(aws->origin), buffer_slice(&texts->path), &texts->queue);
    if (!fill_order(aws, message, texts, entry->queue))
        return "the message group or the deduplication ID is longer than 128 bytes";
    entry->group = buffer_slice(&texts->group);
    entry->repeat = buffer_slice(&texts->repeat);
    if (is_fifo(entry->queue) && (!entry->group.len || !entry->repeat.len))
        return "the message group or the deduplication ID is empty";
    if (!is_text(job->body)) {
        text_base64_encode(job->body, &texts->body);
        entry->body = buffer_slice(&texts->body);
        add_attribute(entry, slice_of("content-transfer-encoding"), slice_of("base64"));
    }
    if (!add_attributes(entry, message, texts->attempt))
        return "it has too many metas, the service accepts 10 attributes; use \"body\": \"job\"";
    texts->queue.failed = texts->queue.failed || texts->body.failed || texts->repeat.failed;
    return NULL;
}

/* Returns true if the message may go in the same call as those before it. */
static bool draft_takes(const struct aws_draft *draft, const struct target_message *message,
                        const struct aws_entry *entry)
{
    return draft->call && draft->call->count < draft->call->service->messages_max &&
           message->job->attempt <= 1 && draft->first->job->attempt <= 1 && !message->is_test &&
           slice_equals(buffer_slice(&draft->queue), entry->queue) &&
           draft->first->setting->timeout_ms == message->setting->timeout_ms &&
           draft->body.len + entry->body.len + 2048 < AWS_CALL_BYTES_MAX;
}

static void draft_add(struct aws *aws, struct aws_draft *draft,
                      const struct target_message *message, struct aws_message *sending,
                      struct aws_entry *entry)
{
    if (!draft_takes(draft, message, entry))
        draft_send(aws, draft);
    if (!draft->call) {
        draft->call = calloc(1, sizeof *draft->call);
        assert(draft->call); /* some hundred bytes: the failure could not be reported either */
        draft->call->service = entry->service;
        draft->first = message;
        buffer_append_slice(&draft->queue, entry->queue);
        entry->service->begin(&draft->body, entry->queue);
    }
    entry->index = draft->call->count;
    entry->service->append(&draft->body, entry);
    draft->call->messages[draft->call->count++] = sending;
}

static void add_message(struct aws *aws, struct aws_draft *draft,
                        const struct target_message *message)
{
    struct aws_message *sending = calloc(1, sizeof *sending);
    struct aws_texts texts;
    struct aws_entry entry;
    assert(sending);
    texts_init(&texts, message->job);
    outbox_add(&aws->outbox, &sending->message, message, GRACE_MS);
    const char *fault = make_entry(aws, message, &texts, &entry);
    if (fault)
        outbox_settle_as(&aws->outbox, &sending->message, TARGET_REFUSED, false, fault);
    else if (texts.queue.failed)
        outbox_settle_as(&aws->outbox, &sending->message, TARGET_UNSENT, false, "out of memory");
    else
        draft_add(aws, draft, message, sending, &entry);
    texts_fini(&texts);
}

static void aws_send(struct target *target, const struct target_message *messages, size_t count)
{
    struct aws *aws = (struct aws *)target;
    struct aws_draft draft = {0};
    buffer_init(&draft.queue, 2 * PATH_BYTES_MAX + GUARD_ORIGIN_BYTES);
    buffer_init(&draft.body, CALL_BYTES_MAX);
    for (size_t i = 0; i < count; i++)
        add_message(aws, &draft, &messages[i]);
    draft_send(aws, &draft);
    buffer_fini(&draft.queue);
    buffer_fini(&draft.body);
}

/* ---- events of the outbox ---- */

static void on_overdue(void *ctx, struct outbox_message *message)
{
    struct aws *aws = ctx;
    outbox_lose_overdue(&aws->outbox, message);
}

static void on_explain(void *ctx, const struct outbox_message *message)
{
    (void)ctx;
    if (message->report.outcome == TARGET_DONE)
        buffer_append_text(message->explained, "the service accepted the message\n");
}

/* ---- life ---- */

static void aws_free(void *ctx)
{
    struct aws *aws = ctx;
    message_id_fini(&aws->ids);
    free(aws);
}

static void write_origin(struct aws *aws)
{
    const char *host = strstr(aws->place.origin, "://") + 3;
    bool is_standard = aws->place.port == (aws->place.is_tls ? 443 : 80);
    size_t len = is_standard ? (size_t)(strrchr(host, ':') - host) : strlen(host);
    (void)snprintf(aws->origin, sizeof aws->origin, "%s://%.*s",
                   aws->place.is_tls ? "https" : "http", (int)len, host);
}

static struct target *aws_open(const struct target_env *env, const struct target_setting *setting,
                               struct slice to)
{
    static const struct outbox_kind kind = {
        .overdue = on_overdue, .explain = on_explain, .free_target = aws_free};
    struct slice path;
    char error[TARGET_ERROR_BYTES];
    struct aws *aws = calloc(1, sizeof *aws);
    if (!aws || !aws_parse(to, &aws->place, &path, error)) {
        free(aws);
        return NULL;
    }
    write_origin(aws);
    aws->target.ops = &target_aws;
    aws->http_env = *env;
    aws->http_env.reported = on_reported;
    aws->http_env.owner = aws;
    bool is_made = message_id_init(&aws->ids, env->store_name, env->store);
    if (is_made && outbox_init(&aws->outbox, env, &kind, aws)) {
        aws->http = target_http.open(&aws->http_env, setting, slice_of(aws->origin));
        if (aws->http)
            return &aws->target;
        outbox_fini(&aws->outbox);
    }
    aws_free(aws);
    return NULL;
}

static void on_http_closed(void *ctx)
{
    struct aws *aws = ctx;
    outbox_gone(&aws->outbox);
}

static void aws_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct aws *aws = (struct aws *)target;
    outbox_close(&aws->outbox, closed, ctx);
    aws->http->ops->close(aws->http, on_http_closed, aws);
}

const struct target_ops target_aws = {.schemes = target_aws_schemes,
                                      .check = aws_check,
                                      .open = aws_open,
                                      .send = aws_send,
                                      .close = aws_close};
