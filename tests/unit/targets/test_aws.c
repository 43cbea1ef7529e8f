/* Answers of SQS and SNS, and the regions that addresses name. */
#include "targets/aws/service.h"

#include "unit/cases.h"
#include "unit/claim.h"

CLAIM(errors_have_their_outcomes)
{
    static const struct {
        const char *code;
        bool is_our_fault;
        uint32_t status;
        enum target_outcome outcome;
        bool is_ailing, is_limited;
    } rows[] = {
        {"InvalidMessageContents", true, 400, TARGET_REFUSED, false, false},
        {"AWS.SimpleQueueService.BatchRequestTooLong", true, 400, TARGET_REFUSED, false, false},
        {"SignatureDoesNotMatch", true, 403, TARGET_UNSENT, true, false},
        {"ExpiredTokenException", true, 400, TARGET_UNSENT, true, false},
        {"QueueDoesNotExist", true, 400, TARGET_FAILED, false, false},
        {"AccessDenied", true, 403, TARGET_FAILED, false, false},
        {"RequestThrottled", true, 400, TARGET_FAILED, false, true},
        {"Odd", true, 429, TARGET_FAILED, false, true},
        {"InternalFailure", true, 500, TARGET_FAILED, true, false},
        {"Odd", false, 400, TARGET_FAILED, true, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct aws_answer answer = {.is_our_fault = rows[i].is_our_fault, .text = "why"};
        struct target_report report;
        strcpy(answer.code, rows[i].code);
        aws_evaluate(&answer, rows[i].status, &report);
        CASE_HOLDS(rows[i].code, report.outcome == rows[i].outcome);
        CASE_HOLDS(rows[i].code, report.is_ailing == rows[i].is_ailing);
        CASE_HOLDS(rows[i].code, report.is_limited == rows[i].is_limited);
        CASE_HOLDS(rows[i].code, strstr(report.error, ": why") && report.code == rows[i].status);
    }
}

CLAIM(a_batch_is_read_entry_by_entry)
{
    const struct slice body =
        slice_of("{\"Successful\":[{\"Id\":\"0\",\"MessageId\":\"m\"}],\"Failed\":[{\"Id\":\"2\","
                 "\"SenderFault\":true,\"Code\":\"InvalidMessageContents\",\"Message\":\"a\\u0007"
                 "b\"}]}");
    struct aws_answer answer = {0};
    assert_true(aws_sqs.read(body, 0, &answer) && answer.is_done);
    assert_false(aws_sqs.read(body, 1, &answer));
    assert_true(aws_sqs.read(body, 2, &answer));
    assert_true(!answer.is_done && answer.is_our_fault);
    assert_string_equal(answer.code, "InvalidMessageContents");
    assert_string_equal(answer.text, "a?b");
    assert_false(aws_sqs.read(slice_of("<html>"), 0, &answer));
}

CLAIM(errors_of_a_whole_call_are_read)
{
    struct aws_answer answer = {0};
    aws_sqs.read_error(slice_of("{\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\","
                                "\"message\":\"gone\"}"),
                       &answer);
    assert_string_equal(answer.code, "QueueDoesNotExist");
    assert_string_equal(answer.text, "gone");
    answer = (struct aws_answer){0};
    aws_sns.read_error(slice_of("<ErrorResponse><Error><Type>Receiver</Type><Code>InternalFailure"
                                "</Code><Message>m</Message></Error></ErrorResponse>"),
                       &answer);
    assert_string_equal(answer.code, "InternalFailure");
    assert_false(answer.is_our_fault);
    answer = (struct aws_answer){0};
    aws_sns.read_error(slice_of("<Code>cut"), &answer);
    assert_string_equal(answer.code, "");
}

CLAIM(hosts_and_arns_name_their_region)
{
    static const struct {
        const char *host, *region;
    } rows[] = {{"sqs.eu-west-1.amazonaws.com", "eu-west-1"},
                {"sns.cn-north-1.amazonaws.com.cn", "cn-north-1"},
                {"eu-west-1.queue.amazonaws.com", "eu-west-1"},
                {"vpce-1.sqs.us-east-1.vpce.amazonaws.com", "us-east-1"},
                {"127.0.0.1", ""},
                {"", ""}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].host,
                   slice_is(aws_region_of_host(slice_of(rows[i].host)), rows[i].region));
    assert_true(slice_is(aws_region_of_arn(slice_of("arn:aws:sns:eu-west-1:1:t")), "eu-west-1"));
    assert_true(slice_is(aws_region_of_arn(slice_of("arn:aws:sns:eu-west-1")), ""));
    assert_true(slice_is(aws_region_of_arn(slice_of("http://a")), ""));
}

CLAIMS_MAIN(NULL, NULL)
