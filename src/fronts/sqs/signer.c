#include "sqs/signer.h"

#include "base/clock.h"
#include "http/channel.h"
#include "sqs/request.h"

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

int sqs_admit(struct http_connection *connection, const struct http_route *route, bool is_whole,
              struct http_admission *out)
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

void sqs_refuse(struct http_exchange *exchange, const struct http_fault *fault)
{
    struct sqs_error error;
    (void)sqs_error_set(&error, fault_of(fault), "%s", fault->detail);
    sqs_answer_error(exchange, &error);
}
