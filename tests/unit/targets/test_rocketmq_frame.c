/* Frames of RocketMQ's remoting protocol, routes, and what a job becomes. */
#include "targets/rocketmq/frame.h"
#include "targets/rocketmq/message.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>

static const struct rocketmq_login nobody = {"", ""};

CLAIM(a_request_has_its_lengths_and_fields)
{
    const struct rocketmq_field fields[] = {{"a", slice_of("x\1y")}, {"b", slice_of("z\"")}};
    static const char header[] =
        "{\"code\":310,\"flag\":0,\"language\":\"OTHER\",\"opaque\":7,"
        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407,\"extFields\":"
        "{\"a\":\"x\\u0001y\",\"b\":\"z\\\"\"}}";
    size_t len = sizeof header - 1;
    struct buffer out;
    buffer_init(&out, 1024);
    rocketmq_emit_request(&out, ROCKETMQ_SEND, 7, fields, 2, slice_of("body"), &nobody);
    assert_false(out.failed);
    assert_int_equal(out.len, 8 + len + 4);
    assert_int_equal(out.at[3], (char)(4 + len + 4));
    assert_int_equal(out.at[7], (char)len);
    assert_memory_equal(out.at + 8, header, len);
    assert_memory_equal(out.at + 8 + len, "body", 4);
    buffer_fini(&out);
}

/* HMAC-SHA1 of "key" "1" "2" "body" by "secret", as openssl dgst has it. */
CLAIM(a_signature_is_that_of_values_by_their_names_and_the_body)
{
    const struct rocketmq_field fields[] = {{"a", slice_of("1")}, {"b", slice_of("2")}};
    const struct rocketmq_login login = {"key", "secret"};
    struct buffer out;
    buffer_init(&out, 1024);
    rocketmq_emit_request(&out, ROCKETMQ_SEND, 7, fields, 2, slice_of("body"), &login);
    buffer_append_byte(&out, 0);
    assert_non_null(strstr(out.at + 8,
                           "\"extFields\":{\"AccessKey\":\"key\",\"Signature\":"
                           "\"RO+2E9a0n4A4OVx5POCCEy+V7cw=\",\"a\":\"1\",\"b\":\"2\"}}"));
    buffer_fini(&out);
}

static size_t make_answer(char *out, const char *header, const char *body)
{
    size_t head = strlen(header), all = 4 + head + strlen(body);
    memcpy(out, (char[]){0, 0, (char)(all >> 8), (char)all, 0, 0, (char)(head >> 8), (char)head},
           8);
    memcpy(out + 8, header, head);
    memcpy(out + 8 + head, body, strlen(body));
    return 4 + all;
}

CLAIM(an_answer_is_read_once_all_of_it_is_there)
{
    char text[512];
    struct rocketmq_answer answer;
    size_t used = 0;
    const char *why = "";
    size_t len = make_answer(text,
                             "{\"code\":17,\"extFields\":{\"code\":\"1\"},\"flag\":1,"
                             "\"language\":\"JAVA\",\"opaque\":9,\"remark\":\"no \\u0041\"}",
                             "xyz");
    for (size_t part = 0; part < len; part++)
        assert_int_equal(rocketmq_frame_read(text, part, &answer, &used, &why), ROCKETMQ_MORE);
    assert_int_equal(rocketmq_frame_read(text, len + 3, &answer, &used, &why), ROCKETMQ_FRAME);
    assert_int_equal(used, len);
    assert_true(answer.is_answer);
    assert_int_equal(answer.code, 17);
    assert_int_equal(answer.opaque, 9);
    assert_true(slice_is(answer.body, "xyz"));
    len = make_answer(text, "{\"code\":40,\"flag\":0,\"opaque\":9}", "");
    assert_int_equal(rocketmq_frame_read(text, len, &answer, &used, &why), ROCKETMQ_FRAME);
    assert_false(answer.is_answer);
}

CLAIM(invalid_answers_are_rejected)
{
    static const struct {
        const char *bytes, *why;
    } cases[] = {
        {"\0\0\0\4\1\0\0\0", "its header is not JSON"},
        {"\0\0\0\3\0\0\0\0", "its length cannot be"},
        {"\0\0\0\4\0\0\0\1", "its length cannot be"},
        {"\377\377\377\377\0\0\0\1", "its length cannot be"},
        {"\0\2\0\4\0\2\0\0", "its length cannot be"},
        {"\0\0\0\4\0\0\0\0", "its header cannot be read"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct rocketmq_answer answer;
        size_t used = 0;
        const char *why = "";
        CASE_HOLDS(cases[i].why,
                   rocketmq_frame_read(cases[i].bytes, 8, &answer, &used, &why) == ROCKETMQ_BROKEN);
        assert_string_equal(why, cases[i].why);
    }
}

CLAIM(a_remark_is_shown_without_java)
{
    static const struct {
        const char *remark, *shown;
    } cases[] = {
        {"\"org.x.AclException: Check failed, {}\\n\\tat org.x\"", "Check failed, {}"},
        {"\"CODE: 13  DESC: too \\u00e9\"", "CODE: 13  DESC: too ??"},
        {"\"0123456789012345678901234567890123456789\"", "0123456789012345678901234567890"},
        {"\"\"", ""},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char out[32];
        rocketmq_emit_remark(slice_of(cases[i].remark), out, sizeof out);
        assert_string_equal(out, cases[i].shown);
    }
}

#define QUEUES(NAME, PERMISSION)                                                                   \
    "{\"brokerName\":\"" NAME "\",\"perm\":" #PERMISSION                                           \
    ",\"readQueueNums\":9,\"topicSysFlag\":0,\"writeQueueNums\":4}"

/* Name servers before 4.9.4 send numbers as bare keys; "1:2" in a string is not such a key. */
CLAIM(a_route_is_the_masters_that_take_messages)
{
    static const char json[] =
        "{\"brokerDatas\":["
        "{\"brokerAddrs\":{0:\"10.0.0.1:10911\",1:\"10.0.0.2:10911\"},\"brokerName\":\"a\"},"
        "{\"brokerAddrs\":{\"0\":\"[::1]:1\"},\"brokerName\":\"b,1:2\\\"3:4\"},"
        "{\"brokerAddrs\":{1:\"10.0.0.4:10911\"},\"brokerName\":\"slave\"},"
        "{\"brokerAddrs\":{0:\"10.0.0.5:10911\"},\"brokerName\":\"readonly\"}],"
        "\"filterServerTable\":{},\"queueDatas\":[" QUEUES("a", 6) "," QUEUES(
            "b,1:2\\\"3:4", 2) "," QUEUES("slave", 6) "," QUEUES("readonly", 4) "," QUEUES("c",
                                                                                           6) "]}";
    struct rocketmq_master masters[ROCKETMQ_BROKERS_MAX];
    size_t count = 0;
    assert_true(rocketmq_route_parse(slice_of(json), masters, &count));
    assert_int_equal(count, 2);
    assert_string_equal(masters[0].address, "10.0.0.1:10911");
    assert_int_equal(masters[0].queues, 4);
    assert_string_equal(masters[1].name, "b,1:2\"3:4");
    assert_string_equal(masters[1].address, "[::1]:1");
}

CLAIM(invalid_routes_are_rejected)
{
    static const char *const cases[] = {"", "[]", "{", "{\"brokerDatas\":[]}",
                                        "{\"brokerDatas\":{},\"queueDatas\":[]}"};
    struct rocketmq_master masters[ROCKETMQ_BROKERS_MAX];
    size_t count = 9;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CASE_HOLDS(cases[i], !rocketmq_route_parse(slice_of(cases[i]), masters, &count));
    assert_true(
        rocketmq_route_parse(slice_of("{\"brokerDatas\":[],\"queueDatas\":[]}"), masters, &count));
    assert_int_equal(count, 0);
}

/* ---- messages ---- */

static const char *fill(struct rocketmq_message *out, const char *body)
{
    static struct target_setting setting;
    static struct job job;
    job = (struct job){
        .topic = slice_of("orders"), .id = slice_of("o 1"), .body = slice_of(body), .attempt = 2};
    return rocketmq_message_fill(out, &(struct target_message){.job = &job, .setting = &setting});
}

CLAIM(a_job_is_a_message_with_keys_and_properties)
{
    struct rocketmq_message message;
    assert_null(fill(&message, "x"));
    assert_string_equal(message.topic, "orders");
    assert_int_equal(message.tags.len, 0);
    buffer_append_byte(&message.properties, 0);
    assert_string_equal(message.properties.at,
                        "KEYS\1o 1\2WAIT\1true\2content-type\1application/octet-stream\2"
                        "tarry-topic\1orders\2tarry-id\1o 1\2tarry-attempt\0012\2"
                        "tarry-due-at\0011970-01-01T00:00:00.000Z\2");
    rocketmq_message_fini(&message);
}

CLAIM(a_job_without_a_body_is_refused)
{
    struct rocketmq_message message;
    assert_non_null(fill(&message, ""));
    rocketmq_message_fini(&message);
}

CLAIMS_MAIN(NULL, NULL)
