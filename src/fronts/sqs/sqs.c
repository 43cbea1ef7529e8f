#include "sqs/sqs.h"

#include "sqs/request.h"
#include "sqs/topics.h"

#include "audit/change.h"
#include "base/clock.h"
#include "base/text.h"
#include "http/channel.h"
#include "net/activity.h"

#include <assert.h>
#include <stdio.h>

/* ---- the caller ----
 *
 * SDKs sign their calls with an access key (net/signature.h). If the server has no access keys,
 * it ignores signatures, and only the listener's settings may require a caller. Tokens and
 * certificates identify callers here as elsewhere. */

static bool next_header(const void *headers, size_t index, struct slice *name, struct slice *value)
{
    const struct http_request *request = headers;
    if (index >= request->header_count)
        return false;
    *name = request->headers[index].name;
    *value = request->headers[index].value;
    return true;
}

static int admit_signed(struct http_connection *connection, const struct sqs_options *options,
                        bool is_whole, struct http_admission *out)
{
    const struct http_request *request = &connection->front->request;
    const struct signature_request parts = {.method = slice_of("POST"),
                                            .path = request->path,
                                            .query = request->query,
                                            .body = request->body,
                                            .headers = request,
                                            .next_header = next_header};
    const struct access_signed asked = {.authorization = request->authorization,
                                        .request = &parts,
                                        .is_whole = is_whole,
                                        .region = options->region,
                                        .service = "sqs",
                                        .now_ms = clock_wall_ms()};
    return (int)access_admit_signed(connection->front->shared->access, &asked, &out->caller,
                                    &out->why);
}

static int sqs_admit(struct http_connection *connection, const struct http_route *route,
                     bool is_whole, struct http_admission *out)
{
    struct access *access = connection->front->shared->access;
    struct access_asked asked = {.authorization = connection->front->request.authorization,
                                 .certificate =
                                     http_channel_certificate(connection->socket.channel),
                                 .needs_caller = connection->listener->about->requires_token,
                                 .now_ms = clock_wall_ms()};
    bool is_signed = signature_is_claimed(asked.authorization);
    if (is_signed && access_has_keys(access))
        return admit_signed(connection, route->about, is_whole, out);
    if (is_signed)
        asked.authorization = (struct slice){0};
    enum access_refusal refusal = access_admit(access, &asked, &out->caller);
    out->is_by_header = !is_signed;
    if (is_signed && refusal == ACCESS_MISSING) {
        out->why =
            "This server has no access keys: create one with 'tarry token new NAME --access-key'.";
        return ACCESS_UNKNOWN;
    }
    return (int)refusal;
}

static enum sqs_fault fault_of_refusal(int refusal)
{
    switch (refusal) {
    case ACCESS_MISSING:
        return SQS_UNSIGNED;
    case ACCESS_MALFORMED:
        return SQS_INCOMPLETE_SIGNATURE;
    case ACCESS_FORGED:
    case ACCESS_CLAIMS:
    case ACCESS_SKEW:
        return SQS_BAD_SIGNATURE;
    default:
        return SQS_UNKNOWN_KEY;
    }
}

static enum sqs_fault fault_of(const struct http_fault *fault)
{
    switch (fault->problem) {
    case PROBLEM_UNAUTHORIZED:
        return fault_of_refusal(fault->refusal);
    case PROBLEM_FORBIDDEN:
    case PROBLEM_CROSS_SITE:
        return SQS_DENIED;
    case PROBLEM_TOO_MANY_REQUESTS:
    case PROBLEM_TOO_MANY_CONNECTIONS:
    case PROBLEM_TOO_MANY_WAITING:
        return SQS_THROTTLED;
    case PROBLEM_NO_MEMORY:
    case PROBLEM_TOO_MUCH_MEMORY:
    case PROBLEM_NOT_READY:
    case PROBLEM_ACCESS_UNAVAILABLE:
        return SQS_BUSY;
    default:
        return SQS_BAD_VALUE;
    }
}

static void sqs_refuse(struct http_exchange *exchange, const struct http_fault *fault)
{
    struct sqs_error error;
    (void)sqs_error_set(&error, fault_of(fault), "%s", fault->detail);
    sqs_answer_error(exchange, &error);
}

static const char target_prefix[] = "AmazonSQS.";

/* ---- the operation ---- */

static const struct sqs_operation sqs_message_operations[] = {
    {"SendMessage", SQS_NAMES_URL, ACCESS_PUSH, NULL, sqs_send, NULL, NULL},
    {"SendMessageBatch", SQS_NAMES_URL, ACCESS_PUSH, NULL, sqs_send, "SendMessageBatchRequestEntry",
     NULL},
    {"ReceiveMessage", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_receive, NULL, NULL},
    {"DeleteMessage", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_release, NULL, NULL},
    {"DeleteMessageBatch", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_release,
     "DeleteMessageBatchRequestEntry", NULL},
    {"ChangeMessageVisibility", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_release, NULL, NULL},
    {"ChangeMessageVisibilityBatch", SQS_NAMES_URL, ACCESS_CONSUME, NULL, sqs_release,
     "ChangeMessageVisibilityBatchRequestEntry", NULL},
    {0},
};

static const struct sqs_operation *const tables[] = {sqs_message_operations, sqs_queue_operations,
                                                     sqs_move_operations};

static const struct sqs_operation *find_operation(struct slice target)
{
    size_t prefix = sizeof target_prefix - 1;
    if (target.len <= prefix || memcmp(target.at, target_prefix, prefix) != 0)
        return NULL;
    target = slice_make(target.at + prefix, target.len - prefix);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const struct sqs_operation *row = tables[i]; row->name; row++)
            if (slice_is(target, row->name))
                return row;
    return NULL;
}

/* ---- the queue ---- */

/* Returns the last part of a URL, or the name itself. */
static struct slice last_part(struct slice url)
{
    const char *slash = url.len ? memrchr(url.at, '/', url.len) : NULL;
    return slash ? slice_make(slash + 1, url.len - (size_t)(slash + 1 - url.at)) : url;
}

static bool is_new_name(struct slice name, struct sqs_error *error)
{
    size_t checked = name.len - (sqs_name_is_fifo(name) ? strlen(".fifo") : 0);
    return (name.len > 0 && name.len <= SQS_NAME_BYTES_MAX &&
            text_is_word(slice_make(name.at, checked), "_-")) ||
           sqs_error_set(error, SQS_BAD_VALUE,
                         "Can only include alphanumeric characters, hyphens, or underscores. 1 to "
                         "80 in length");
}

/* Finds the queue that the call names. The name is stored in the front's arena. */
static bool find_queue(const struct sqs_request *request, const struct sqs_operation *operation,
                       struct slice *queue, struct sqs_error *error)
{
    bool by_url = operation->names == SQS_NAMES_URL;
    const char *member = by_url ? "QueueUrl" : "QueueName";
    *queue = (struct slice){0};
    if (operation->names == SQS_NAMES_NOTHING)
        return true;
    struct slice text = sqs_text(request, sqs_member(request->fields, member));
    if (text.len == 0 &&
        (operation->names != SQS_NAMES_NEW || !sqs_member(request->fields, member).kind))
        return sqs_error_set(error, SQS_MISSING, "The request must contain the parameter %s.",
                             member);
    *queue = by_url ? last_part(text) : text;
    if (operation->names == SQS_NAMES_NEW)
        return is_new_name(*queue, error);
    return job_topic_is_valid(*queue) ||
           sqs_error_set(error, SQS_NO_QUEUE, "The specified queue does not exist.");
}

/* ---- the call ---- */

/* Checks for an Authorization header, which a form on a web page cannot send. */
static bool is_signed(const struct http_call *call, struct sqs_error *error)
{
    return call->request->has_authorization ||
           sqs_error_set(error, SQS_UNSIGNED,
                         "Request is missing Authentication Token; this server accepts any");
}

static bool may(const struct http_call *call, const struct sqs_operation *operation,
                struct slice queue, struct sqs_error *error)
{
    unsigned scopes = operation->scopes;
    bool allowed = queue.len ? access_may_as_any(call->caller, scopes, queue)
                             : (call->caller->scopes & scopes) != 0;
    return allowed || sqs_error_set(error, SQS_DENIED, "Access to the resource %.*s is denied.",
                                    (int)queue.len, queue.len ? queue.at : "");
}

/* Reads the call and checks access. */
static bool read_call(struct http_call *call, const struct sqs_operation **operation,
                      struct slice *queue, struct slice *fields, struct sqs_error *error)
{
    struct slice target = http_request_field(call->request, "x-amz-target");
    struct sqs_request request = {.exchange = call->exchange,
                                  .options = call->exchange->route->about};
    if (!is_signed(call, error))
        return false;
    *operation = find_operation(target);
    if (!*operation)
        return sqs_error_set(error, SQS_UNKNOWN, "The action %.*s is not valid for this endpoint.",
                             (int)(target.len < 60 ? target.len : 60), target.at);
    activity_begin((*operation)->name);
    if ((*operation)->audit)
        http_change_begin(call->exchange, (*operation)->audit, call->caller, (struct slice){0});
    if (!json_check(call->request->body, &request.fields, NULL) ||
        request.fields.kind != JSON_OBJECT)
        return sqs_error_set(error, SQS_BAD_VALUE, "The body is not a JSON object.");
    *fields = request.fields.raw;
    if (!(*operation)->act && !(*operation)->message)
        return sqs_error_set(error, SQS_UNSUPPORTED, "%s", (*operation)->why);
    if (!find_queue(&request, *operation, queue, error))
        return false;
    audit_change_name(call->exchange->change, *queue, (struct slice){0});
    return may(call, *operation, *queue, error);
}

static void handle(struct http_call *call)
{
    struct http_exchange *exchange = call->exchange;
    const struct sqs_operation *operation = NULL;
    struct sqs_error error = {0};
    struct slice queue, fields;
    if (!http_request_field(call->request, "x-amz-target").len) {
        sqs_answer_query_error(exchange);
        return;
    }
    if (!read_call(call, &operation, &queue, &fields, &error)) {
        sqs_answer_error(exchange, &error);
        return;
    }
    if (!sqs_request_keep(call, operation, queue, fields)) {
        (void)sqs_error_set(&error, SQS_BUSY, "out of memory");
        sqs_answer_error(exchange, &error);
        return;
    }
    struct sqs_request request = sqs_request_of(exchange);
    if (operation->names == SQS_NAMES_NOTHING)
        operation->act(&request, NULL);
    else
        sqs_look_up(&request);
}

/* Returns whether the request is an SQS call, whatever its host, method and path: an SDK can read
 * no other form of error. */
static bool claims(const struct http_request *request)
{
    struct slice target = http_request_field(request, "x-amz-target");
    size_t prefix = sizeof target_prefix - 1;
    return target.len > prefix && memcmp(target.at, target_prefix, prefix) == 0;
}

#define CALL(PATTERN)                                                                              \
    {                                                                                              \
        .method = HTTP_METHOD_POST, .pattern = (PATTERN), .name = "sqs", .handle = handle,         \
        .scope = HTTP_FOR_CALLERS, .topics = HTTP_TOPICS_EACH, .body = HTTP_BODY_BATCH,            \
        .answer = HTTP_ANSWER_JOB, .options = OPTION_BIT(OPTION_FOREIGN), .admit = sqs_admit,      \
        .refuse = sqs_refuse, .claims = claims                                                     \
    }

/* The routes: SDKs post to the endpoint, and some to the QueueUrl. */
static const struct http_route routes[] = {CALL("/"), CALL("/{topic}/{id}"), CALL("/{id}"), {0}};

/* Asserts that all administrative operations are recorded in the audit log. */
static void check_audit(const struct sqs_operation *rows)
{
    for (; rows->name; rows++)
        assert(rows->audit || rows->scopes != ACCESS_ADMIN);
}

void sqs_add(struct http_shared *shared, const struct sqs_options *options)
{
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        check_audit(tables[i]);
    http_shared_add_routes(shared, routes, options);
}
