/* The pure part of the HTTP target: what answers mean. */
#include "targets/http/transfer.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/guard/guard_rig.h"

#include <stdlib.h>

static const int64_t now_ms = 1795000000000; /* Wed, 18 Nov 2026 11:06:40 GMT */

static const struct {
    const char *status_line, *header;
    enum target_outcome outcome;
    bool is_ailing;
    int64_t retry_after_ms;
} answers[] = {
    {"HTTP/1.1 200 OK", "", TARGET_DONE, false, -1},
    {"HTTP/2 204 ", "Retry-After: 5", TARGET_DONE, false, -1},
    {"HTTP/1.1 299", "", TARGET_DONE, false, -1},
    {"HTTP/1.1 304 Same", "", TARGET_FAILED, false, -1},
    {"HTTP/1.1 404 Nothing", "Retry-After: 5", TARGET_FAILED, false, -1},
    {"HTTP/1.1 410 Gone", "", TARGET_REFUSED, false, -1},
    {"HTTP/1.1 451 Law", "", TARGET_REFUSED, false, -1},
    {"HTTP/1.1 452 Law", "", TARGET_FAILED, false, -1},
    {"HTTP/1.1 500 Bad", "Retry-After: 5", TARGET_FAILED, true, -1},
    {"HTTP/1.1 503 Busy", "Retry-After: 5", TARGET_FAILED, true, 5000},
    {"HTTP/1.1 429 Slow", "RETRY-AFTER:\t 0 \r\n", TARGET_FAILED, false, 0},
    {"HTTP/1.1 503 Busy", "Retry-After: 99999999999999999999", TARGET_FAILED, true, 86400000},
    {"HTTP/1.1 503 Busy", "Retry-After: -5", TARGET_FAILED, true, -1},
    {"HTTP/1.1 503 Busy", "Retry-After: soon", TARGET_FAILED, true, -1},
    {"HTTP/1.1 503 Busy", "Retry-After:", TARGET_FAILED, true, -1},
    {"HTTP/1.1 503 Busy", "Retry-After: Wed, 18 Nov 2026 11:07:10 GMT", TARGET_FAILED, true, 30000},
    {"HTTP/1.1 503 Busy", "Retry-After: Wed, 18 Nov 2020 11:07:10 GMT", TARGET_FAILED, true, 0},
};

CLAIM(the_status_decides)
{
    static const struct target_codes dead_on[] = {{.from = 450, .to = 451}};
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        struct target_answer answer = {0};
        struct target_report report;
        const char *sentence = answers[i].header[0] ? answers[i].header : answers[i].status_line;
        CASE_HOLDS(sentence, target_answer_add_line(&answer, slice_of("HTTP/1.1 100 On"), now_ms));
        (void)target_answer_add_line(&answer, slice_of("Retry-After: 77\r\n"), now_ms);
        (void)target_answer_add_line(&answer, slice_of("\r\n"), now_ms);
        CASE_HOLDS(sentence, answer.status == 0);
        (void)target_answer_add_line(&answer, slice_of(answers[i].status_line), now_ms);
        (void)target_answer_add_line(&answer, slice_of(answers[i].header), now_ms);
        target_answer_evaluate(&answer, dead_on, COUNT_OF(dead_on), &report);
        CASE_HOLDS(sentence, report.outcome == answers[i].outcome);
        CASE_HOLDS(sentence, report.is_ailing == answers[i].is_ailing);
        CASE_HOLDS(sentence, report.is_limited == (report.code == 429));
        CASE_HOLDS(sentence, report.retry_after_ms == answers[i].retry_after_ms);
        CASE_HOLDS(sentence, (report.outcome == TARGET_DONE) == (report.error[0] == '\0'));
    }
}

CLAIM(a_trailer_is_ignored)
{
    static const char *const lines[] = {
        "HTTP/1.1 103 Early\r\n", "Retry-After: 1\r\n",     "\r\n", "HTTP/1.1 503 Busy\r\n",
        "X: HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK: x\r\n", "\r\n", "HTTP/1.1 200 OK: a line\r\n",
        "Retry-After: 2\r\n",
    };
    struct target_answer answer = {0};
    struct target_report report;
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        assert_true(target_answer_add_line(&answer, slice_of(lines[i]), now_ms));
    target_answer_evaluate(&answer, NULL, 0, &report);
    assert_int_equal(report.code, 503);
    assert_int_equal(report.outcome, TARGET_FAILED);
    assert_int_equal(report.retry_after_ms, -1);
}

CLAIM(an_answer_is_read_up_to_its_bound)
{
    struct target_answer answer = {0};
    static char line[1000];
    int lines = 0;
    memset(line, 'x', sizeof line);
    while (target_answer_add_line(&answer, slice_make(line, sizeof line), now_ms))
        assert_true(++lines < 100);
    assert_int_equal(lines, TARGET_ANSWER_HEADER_BYTES_MAX / 1000);
    assert_true(target_answer_add_body(&answer, TARGET_ANSWER_BODY_BYTES_MAX));
    assert_false(target_answer_add_body(&answer, 1));
}

/* With a pin that it could not parse, libcurl once failed before any connection, and the report
 * blamed the peer. */
CLAIM(a_fault_of_libcurl_is_not_blamed_on_the_peer)
{
    static const struct {
        CURLcode code;
        bool has_begun;
        enum target_outcome outcome;
        bool is_ailing;
        const char *error;
    } rows[] = {
        {CURLE_SETOPT_OPTION_SYNTAX, false, TARGET_UNSENT, false, "libcurl failed with error 49: "},
        {CURLE_BAD_FUNCTION_ARGUMENT, true, TARGET_FAILED, false, "libcurl failed with error 43: "},
        {CURLE_OUT_OF_MEMORY, false, TARGET_UNSENT, false, "out of memory"},
        {CURLE_GOT_NOTHING, true, TARGET_FAILED, true, "closed without an answer"},
        {CURLE_SSL_CONNECT_ERROR, true, TARGET_FAILED, true, "tls handshake failed"},
    };
    struct guard *guard = guard_rig_open("allow-host = *\n");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct target_transfer *transfer = target_transfer_new(guard, false, "1", NULL);
        const struct target_report *report = &transfer->report;
        transfer->has_begun = rows[i].has_begun;
        target_transfer_evaluate(transfer, rows[i].code);
        CASE_HOLDS(rows[i].error, report->outcome == rows[i].outcome);
        CASE_HOLDS(rows[i].error, report->is_ailing == rows[i].is_ailing);
        CASE_HOLDS(report->error, strstr(report->error, rows[i].error) == report->error);
        target_transfer_free(transfer);
    }
    guard_free(guard);
}

CLAIMS_MAIN(NULL, NULL)
