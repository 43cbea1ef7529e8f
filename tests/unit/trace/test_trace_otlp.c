#include "trace/otlp.h"

#include "base/json_read.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdlib.h>

static const struct otlp_resource resource = {
    .service_name = "tarry \"1\"", .version = "9.9", .instance = "abc"};

static const struct trace_context parent = {
    .trace_high = 0x0123, .trace_low = 0x4567, .span = 0x89, .is_sampled = true};

/* The request for these spans, ended by NUL; to be freed. */
static char *request_of(const struct trace_span *first)
{
    struct buffer out;
    struct json_value value;
    buffer_init(&out, 1 << 20);
    otlp_request_write(&out, &resource, first);
    assert_true(json_check(buffer_slice(&out), &value, NULL));
    buffer_append_byte(&out, '\0');
    assert_false(out.failed);
    return out.at;
}

static struct trace_span *new_span(enum trace_operation operation)
{
    struct trace_span *span = trace_span_new(operation, &parent, slice_of("a=1"), 0xfedc);
    assert_non_null(span);
    span->start_us = 10000;
    span->end_us = 30000;
    trace_span_set_topic(span, slice_of("orders"));
    return span;
}

CLAIM(a_span_is_written_as_the_protocol_has_it)
{
    static const char *const parts[] = {
        "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"tarry \\\"1\\\"\"}}",
        "\"traceId\":\"00000000000001230000000000004567\"",
        "\"spanId\":\"000000000000fedc\"",
        "\"parentSpanId\":\"0000000000000089\"",
        "\"traceState\":\"a=1\"",
        "\"flags\":769",
        "\"name\":\"callback orders\"",
        "\"kind\":3",
        "\"startTimeUnixNano\":\"10000000\"",
        "\"endTimeUnixNano\":\"30000000\"",
        "{\"key\":\"messaging.message.id\",\"value\":{\"stringValue\":\"i\\\"d\"}}",
        "{\"key\":\"http.response.status_code\",\"value\":{\"intValue\":\"503\"}}",
        "{\"key\":\"server.address\",\"value\":{\"stringValue\":\"::1\"}}",
        "{\"key\":\"server.port\",\"value\":{\"intValue\":\"8080\"}}",
        "{\"key\":\"error.type\",\"value\":{\"stringValue\":\"nacked\"}}",
        "\"status\":{\"code\":2,\"message\":\"\\\"bad\\\"\xef\xbf\xbd\"}",
    };
    struct trace_span *span = new_span(TRACE_CALLBACK);
    trace_span_set_id(span, slice_of("i\"d"));
    trace_span_set_error(span, slice_of("\"bad\"\xff"));
    trace_span_set_place(span, slice_of("https://[::1]:8080"));
    span->code = 503;
    span->outcome = "nacked";
    span->is_error = true;
    char *text = request_of(span);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        CASE_HOLDS(parts[i], strstr(text, parts[i]));
    free(text);
    trace_span_free(span);
}

CLAIM(the_first_of_a_trace_has_no_parent)
{
    struct trace_context root = parent;
    root.span = 0;
    struct trace_span *span = trace_span_new(TRACE_PUSH, &root, slice_of(""), 7);
    char *text = request_of(span);
    assert_null(strstr(text, "parentSpanId"));
    assert_null(strstr(text, "traceState"));
    assert_null(strstr(text, "status"));
    assert_non_null(strstr(text, "\"name\":\"push\""));
    assert_non_null(strstr(text, "\"flags\":257"));
    free(text);
    trace_span_free(span);
}

CLAIM(a_due_time_outside_the_wait_adds_no_event)
{
    static const struct {
        const char *sentence;
        enum trace_operation operation;
        int64_t due_us;
        bool is_event;
    } rows[] = {
        {"within", TRACE_WAIT, 20000, true},
        {"at its begin", TRACE_WAIT, 10000, true},
        {"a rounding before it", TRACE_WAIT, 8001, true},
        {"before it", TRACE_WAIT, 8000, false},
        {"a rounding behind it", TRACE_WAIT, 31999, true},
        {"behind it", TRACE_WAIT, 32000, false},
        {"of another span", TRACE_TAKE, 20000, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct trace_span *span = new_span(rows[i].operation);
        span->due_us = rows[i].due_us;
        char *text = request_of(span);
        CASE_HOLDS(rows[i].sentence, (strstr(text, "\"events\"") != NULL) == rows[i].is_event);
        free(text);
        trace_span_free(span);
    }
}

CLAIM(many_spans_are_one_request)
{
    struct trace_span *first = new_span(TRACE_WAIT), *second = new_span(TRACE_TAKE);
    first->next = second;
    char *text = request_of(first);
    assert_non_null(strstr(text, "},{\"traceId\""));
    assert_non_null(strstr(text, "wait orders"));
    assert_non_null(strstr(text, "take orders"));
    free(text);
    trace_span_free(first);
    trace_span_free(second);
}

/* The largest of each text: a full batch stays far below what a request may have. */
CLAIM(the_largest_span_has_a_bound)
{
    char wide[1024];
    memset(wide, '\x01', sizeof wide); /* six bytes each, once escaped */
    struct trace_span *span = trace_span_new(TRACE_CALLBACK, &parent, slice_make(wide, 512), 1);
    struct slice text = slice_make(wide, sizeof wide);
    trace_span_set_topic(span, text);
    trace_span_set_id(span, text);
    trace_span_set_error(span, text);
    assert_int_equal(span->topic_bytes, JOB_TOPIC_BYTES_MAX);
    assert_int_equal(span->id_bytes, JOB_ID_BYTES_MAX);
    assert_int_equal(strlen(span->error), JOB_ERROR_BYTES_MAX);
    span->is_error = true;
    char *request = request_of(span);
    assert_true(strlen(request) < 12 * 1024); /* 512 of them in less than 8 MiB */
    free(request);
    trace_span_free(span);
}

CLAIM(rejected_spans_are_read_from_the_answer)
{
    static const struct {
        const char *answer;
        uint64_t rejected;
    } rows[] = {
        {"{\"partialSuccess\":{\"rejectedSpans\":\"7\",\"errorMessage\":\"x\"}}", 7},
        {"{\"partialSuccess\":{\"rejectedSpans\":7}}", 7},
        {"{\"partialSuccess\":{\"errorMessage\":\"only a warning\"}}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":-1}}", 0},
        {"{\"partialSuccess\":null}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"\"}}", 0},
        {"{}", 0},
        {"[]", 0},
        {"", 0},
        {"ok", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].answer, otlp_rejected(slice_of(rows[i].answer)) == rows[i].rejected);
}

CLAIMS_MAIN(NULL, NULL)
