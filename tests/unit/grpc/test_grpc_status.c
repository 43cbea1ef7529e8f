/* The status of gRPC for each problem of REST. */
#include "grpc/status.h"
#include "grpc/wire.h"
#include "queue/status.h"

#include "unit/claim.h"

#include <string.h>

static enum grpc_status of_problem(enum http_problem problem)
{
    struct http_refusal refusal;
    struct http_fault fault = {.problem = problem};
    http_refusal_of_fault(&refusal, &fault);
    return grpc_status_of(refusal.code, refusal.status);
}

static enum grpc_status of_queue(enum queue_status status)
{
    struct http_refusal refusal;
    http_refusal_of(&refusal, status, NULL, 0);
    return grpc_status_of(refusal.code, refusal.status);
}

CLAIM(each_problem_code_maps_to_its_status)
{
    static const struct {
        enum http_problem problem;
        enum grpc_status status;
    } rows[] = {
        {PROBLEM_BAD_OPTION, GRPC_INVALID_ARGUMENT},
        {PROBLEM_BODY_TOO_BIG, GRPC_INVALID_ARGUMENT},
        {PROBLEM_TOO_MANY_ITEMS, GRPC_INVALID_ARGUMENT},
        {PROBLEM_UNAUTHORIZED, GRPC_UNAUTHENTICATED},
        {PROBLEM_FORBIDDEN, GRPC_PERMISSION_DENIED},
        {PROBLEM_NO_SUCH_PATH, GRPC_UNIMPLEMENTED},
        {PROBLEM_METHOD_NOT_ALLOWED, GRPC_UNIMPLEMENTED},
        {PROBLEM_NO_TARGET, GRPC_NOT_FOUND},
        {PROBLEM_CODING_UNKNOWN, GRPC_UNIMPLEMENTED},
        {PROBLEM_NO_DELIVERY, GRPC_UNIMPLEMENTED},
        {PROBLEM_TOO_MANY_REQUESTS, GRPC_RESOURCE_EXHAUSTED},
        {PROBLEM_NOT_READY, GRPC_UNAVAILABLE},
        {PROBLEM_REQUEST_TIMEOUT, GRPC_DEADLINE_EXCEEDED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(of_problem(rows[i].problem), rows[i].status);
    for (int problem = PROBLEM_NONE + 1; problem < PROBLEM_COUNT; problem++) {
        assert_int_not_equal(of_problem((enum http_problem)problem), GRPC_OK);
        if (of_problem((enum http_problem)problem) == GRPC_INTERNAL)
            fail_msg("'%s' has no status", http_problem_code((enum http_problem)problem));
    }
}

CLAIM(each_refusal_of_the_queue_maps_to_its_status)
{
    static const struct {
        enum queue_status status;
        enum grpc_status grpc;
    } rows[] = {
        {QUEUE_NOT_FOUND, GRPC_NOT_FOUND},           {QUEUE_CONFLICT, GRPC_ALREADY_EXISTS},
        {QUEUE_LEASED, GRPC_FAILED_PRECONDITION},    {QUEUE_LEASE_ENDED, GRPC_FAILED_PRECONDITION},
        {QUEUE_BAD_ID, GRPC_INVALID_ARGUMENT},       {QUEUE_NO_SPACE, GRPC_RESOURCE_EXHAUSTED},
        {QUEUE_TOPIC_FULL, GRPC_RESOURCE_EXHAUSTED}, {QUEUE_TOO_FAST, GRPC_RESOURCE_EXHAUSTED},
        {QUEUE_STOPPING, GRPC_UNAVAILABLE},          {QUEUE_UNAVAILABLE, GRPC_UNAVAILABLE},
        {QUEUE_UNSUPPORTED, GRPC_UNIMPLEMENTED},     {QUEUE_FORBIDDEN, GRPC_PERMISSION_DENIED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(of_queue(rows[i].status), rows[i].grpc);
    for (int status = QUEUE_NOT_FOUND; status < QUEUE_STATUSES; status++)
        if (status != QUEUE_REQUESTED && of_queue((enum queue_status)status) == GRPC_INTERNAL)
            fail_msg("'%s' has no status", queue_status_code((enum queue_status)status));
}

/* Returns the bytes of a field of a message. */
static struct slice field_of(struct slice message, uint32_t number)
{
    struct wire_field field;
    size_t at = 0;
    while (wire_next(message, &at, &field))
        if (field.number == number)
            return field.bytes;
    return (struct slice){0};
}

CLAIM(the_details_have_the_code_and_when_to_try_again)
{
    const struct http_refusal refusal = {.code = "too_many_requests",
                                         .detail = "100 requests per second are allowed",
                                         .status = 429,
                                         .limit = 100,
                                         .retry_s = 3};
    struct buffer out;
    struct wire_field field;
    size_t at = 0;
    uint32_t anys = 0;
    buffer_init(&out, 4096);
    grpc_details_write(&out, &refusal);
    while (wire_next(buffer_slice(&out), &at, &field)) {
        if (field.number == 1)
            assert_int_equal(field.value, GRPC_RESOURCE_EXHAUSTED);
        if (field.number != 3)
            continue;
        struct slice type = field_of(field.bytes, 1), value = field_of(field.bytes, 2);
        if (anys++ == 0) {
            assert_true(slice_is(type, "type.googleapis.com/google.rpc.ErrorInfo"));
            assert_true(slice_is(field_of(value, 1), "too_many_requests"));
            assert_true(slice_is(field_of(value, 2), "tarry"));
            assert_true(slice_is(field_of(field_of(value, 3), 2), "100"));
        } else {
            assert_true(slice_is(type, "type.googleapis.com/google.rpc.RetryInfo"));
            assert_int_equal(field_of(value, 1).len, 2);
        }
    }
    assert_int_equal(at, out.len);
    assert_int_equal(anys, 2);
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
