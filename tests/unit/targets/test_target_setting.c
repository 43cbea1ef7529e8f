#include "targets/target.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse(const char *json, struct target_setting *out, char error[TARGET_ERROR_BYTES])
{
    memset(error, 0, TARGET_ERROR_BYTES);
    return target_setting_parse(slice_of(json), out, error);
}

/* ---- what is read ---- */

CLAIM(missing_settings_have_defaults)
{
    struct target_setting setting;
    char error[TARGET_ERROR_BYTES];
    assert_true(parse(" {\"to\": \"https://shop.example\"} ", &setting, error));
    assert_string_equal(setting.to, "https://shop.example");
    assert_false(setting.allows_callback || setting.never_signs);
    assert_int_equal(setting.max_in_flight, TARGET_IN_FLIGHT);
    assert_int_equal(setting.timeout_ms, TARGET_TIMEOUT_MS);
    assert_true(setting.rate_per_s == 0 && setting.dead_on_count == 0);
    assert_true(!setting.sign && !setting.exchange && !setting.routing_key);
    assert_true(!setting.topic && !setting.key && !setting.destination);
    target_setting_fini(&setting);
    assert_null(setting.to);
}

CLAIM(every_member_is_read)
{
    struct target_setting setting;
    char error[TARGET_ERROR_BYTES];
    assert_true(parse("{\"to\":\"https://shop.example:8443/a/{id}?t={topic}&k={meta.kind}\","
                      "\"callback\":true,\"max_in_flight\":7,\"rate\":\"90/m\",\"timeout\":\"1m\","
                      "\"sign\":\"shop\",\"dead_on\":[410,\"400-404\",\"422\"]}",
                      &setting, error));
    assert_string_equal(setting.to, "https://shop.example:8443/a/{id}?t={topic}&k={meta.kind}");
    assert_true(setting.allows_callback);
    assert_int_equal(setting.max_in_flight, 7);
    assert_true(setting.rate_per_s == 1.5);
    assert_int_equal(setting.timeout_ms, 60000);
    assert_string_equal(setting.sign, "shop");
    assert_int_equal(setting.dead_on_count, 3);
    assert_true(setting.dead_on[0].from == 410 && setting.dead_on[0].to == 410);
    assert_true(setting.dead_on[1].from == 400 && setting.dead_on[1].to == 404);
    assert_true(setting.dead_on[2].from == 422 && setting.dead_on[2].to == 422);
    target_setting_fini(&setting);

    assert_true(parse("{\"to\":\"amqps://mq\",\"exchange\":\"or\\u0064ers\","
                      "\"routing_key\":\"{topic}.{meta.kind}\",\"timeout\":2500}",
                      &setting, error));
    assert_string_equal(setting.exchange, "orders");
    assert_string_equal(setting.routing_key, "{topic}.{meta.kind}");
    assert_int_equal(setting.timeout_ms, 2500);
    target_setting_fini(&setting);

    assert_true(parse("{\"to\":\"kafka://a:9092,b:9093\",\"topic\":\"{topic}\",\"key\":\"{id}\"}",
                      &setting, error));
    assert_string_equal(setting.topic, "{topic}");
    assert_string_equal(setting.key, "{id}");
    target_setting_fini(&setting);

    assert_true(parse("{\"to\":\"STOMP://[::1]:61613\",\"destination\":\"/queue/{topic}\"}",
                      &setting, error));
    assert_string_equal(setting.destination, "/queue/{topic}");
    target_setting_fini(&setting);

    assert_true(parse("{\"to\":\"null:\"}", &setting, error));
    assert_string_equal(setting.to, "null:");
    target_setting_fini(&setting);

    assert_true(parse("{\"callback\":true,\"sign\":false,\"dead_on\":[],\"result\":true}", &setting,
                      error));
    assert_true(!setting.to && setting.allows_callback && setting.never_signs);
    assert_true(setting.takes_result);
    target_setting_fini(&setting);

    assert_true(parse("{\"to\":\"https://h\",\"result\":false}", &setting, error));
    assert_false(setting.takes_result);
    target_setting_fini(&setting);
}

/* ---- what is refused ---- */

static const struct {
    const char *json, *has_text;
} slips[] = {
    {"", "malformed JSON at byte 0"},
    {"{\"to\":\"https://h\",}", "malformed JSON at byte 18"},
    {"[]", "it must be an object such as"},
    {"\"https://h\"", "it must be an object such as"},
    {"{}", "no 'to', write the URL to deliver"},
    {"{\"callback\":false}", "no 'to', write the URL to deliver"},
    {"{\"max_inflight\":1}", "unknown member 'max_inflight', did you mean 'max_in_flight'"},
    {"{\"url\":\"https://h\"}", "unknown member 'url', use to, callback"},
    {"{\"\":1}", "unknown member '', use to"},
    {"{\"to\":\"https://h\",\"to\":\"https://h\"}", "bad 'to', it is given twice"},
    {"{\"to\":7}", "bad 'to', it must be a string"},
    {"{\"to\":null}", "bad 'to', it must be a string"},
    {"{\"to\":\"\"}", "bad 'to', it is empty"},
    {"{\"to\":\"shop.example\"}", "bad 'to', write a URL such as"},
    {"{\"to\":\"https:/h\"}", "bad 'to', write a URL such as"},
    {"{\"to\":\"null\"}", "bad 'to', write a URL such as"},
    {"{\"to\":\"null:x\"}", "bad 'to', write a URL such as"},
    {"{\"to\":\"//h/x\"}", "bad 'to', write a URL such as"},
    {"{\"to\":\"7up://h/x\"}", "bad 'to', write a URL such as"},
    {"{\"to\":\"ht_tp://h/x\"}", "bad 'to', write a URL such as"},
    {"{\"to\":\"https://\"}", "no host in it"},
    {"{\"to\":\"https:///x\"}", "no host in it"},
    {"{\"to\":\"https://?x\"}", "no host in it"},
    {"{\"to\":\"kafka://a,,b\"}", "no host in it"},
    {"{\"to\":\"kafka://a,\"}", "no host in it"},
    {"{\"to\":\"https://user:pass@h/\"}", "move the credential to the policy file"},
    {"{\"to\":\"https://user@h/\"}", "move the credential to the policy file"},
    {"{\"to\":\"https://{id}.example/\"}", "a template in the host"},
    {"{\"to\":\"https://h:{meta.port}/\"}", "a template in the host"},
    {"{\"to\":\"{meta.scheme}://h/\"}", "write a URL such as"},
    {"{\"to\":\"https://h%2eexample/\"}", "a host is neither a name nor an address"},
    {"{\"to\":\"https://h:0/\"}", "a port is not a number from 1 to 65535"},
    {"{\"to\":\"https://h:65536/\"}", "a port is not a number from 1 to 65535"},
    {"{\"to\":\"https://h:/\"}", "a port is not a number from 1 to 65535"},
    {"{\"to\":\"kafka://a:1,b:x\"}", "a port is not a number from 1 to 65535"},
    {"{\"to\":\"https://h/a b\"}", "a letter beyond ASCII, write it percent-encoded"},
    {"{\"to\":\"https://h\\\\evil/\"}", "a letter beyond ASCII, write it percent-encoded"},
    {"{\"to\":\"https://h/\xc3\xb6\"}", "a letter beyond ASCII, write it percent-encoded"},
    {"{\"to\":\"https://h/<b>\"}", "that a URL cannot contain"},
    {"{\"to\":\"https://127.1/\"}", "a host is a number"},
    {"{\"to\":\"https://h/#x\"}", "leave it out or write it as %23"},
    {"{\"to\":\"https://h/\\r\\nHost: evil\"}", "control character at byte 10"},
    {"{\"to\":\"https://h/\\u0000\"}", "it contains a zero byte"},
    {"{\"to\":\"https://h/\\u007f\"}", "control character at byte 10"},
    {"{\"to\":\"https://h/a/../b\"}", "'.' or '..' in the path"},
    {"{\"to\":\"https://h/a/%2E%2e\"}", "'.' or '..' in the path"},
    {"{\"to\":\"https://h/./b\"}", "'.' or '..' in the path"},
    {"{\"to\":\"https://h/{meta.Kind}\"}", "bad field '{meta.Kind}' at byte 10"},
    {"{\"to\":\"https://h\",\"callback\":1}", "bad 'callback', write true or false"},
    {"{\"to\":\"https://h\",\"callback\":\"true\"}", "bad 'callback', write true or false"},
    {"{\"to\":\"https://h\",\"max_in_flight\":0}", "bad 'max_in_flight', write a number from 1"},
    {"{\"to\":\"https://h\",\"max_in_flight\":1.5}", "bad 'max_in_flight', write a number from 1"},
    {"{\"to\":\"https://h\",\"max_in_flight\":\"7\"}", "bad 'max_in_flight', write a number"},
    {"{\"to\":\"https://h\",\"rate\":100}", "bad 'rate', write 1 to 1000000 and /s, /m or /h"},
    {"{\"to\":\"https://h\",\"rate\":\"100\"}", "bad 'rate', write 1 to 1000000 and /s, /m or /h"},
    {"{\"to\":\"https://h\",\"rate\":\"0/s\"}", "pause the topic"},
    {"{\"to\":\"https://h\",\"rate\":\"-1/s\"}", "bad 'rate'"},
    {"{\"to\":\"https://h\",\"rate\":\"1/d\"}", "bad 'rate'"},
    {"{\"to\":\"https://h\",\"rate\":\"1/s \"}", "bad 'rate'"},
    {"{\"to\":\"https://h\",\"timeout\":\"soon\"}",
     "bad 'timeout', write a time from 100ms to 300s"},
    {"{\"to\":\"https://h\",\"timeout\":-1}", "bad 'timeout', write a time"},
    {"{\"to\":\"https://h\",\"timeout\":1e3}", "bad 'timeout', write a time"},
    {"{\"to\":\"https://h\",\"timeout\":true}", "bad 'timeout', it must be a string"},
    {"{\"to\":\"https://h\",\"sign\":true}", "bad 'sign', write the name of a key"},
    {"{\"to\":\"https://h\",\"sign\":\"a b\"}", "bad 'sign', a name may have letters"},
    {"{\"to\":\"https://h\",\"result\":\"yes\"}", "bad 'result', write true or false"},
    {"{\"to\":\"kafka://a\",\"result\":true}", "'result' is for targets of http"},
    {"{\"to\":\"https://h\",\"dead_on\":410}", "bad 'dead_on', it must be a list"},
    {"{\"to\":\"https://h\",\"dead_on\":[true]}", "bad 'dead_on', it must be a string"},
    {"{\"to\":\"https://h\",\"dead_on\":[\"404-400\"]}", "write statuses from 300 to 599"},
    {"{\"to\":\"https://h\",\"dead_on\":[\"4xx\"]}", "write statuses from 300 to 599"},
    {"{\"to\":\"https://h\",\"dead_on\":[4e2]}", "write statuses from 300 to 599"},
    {"{\"to\":\"https://h\",\"headers\":[]}", "bad 'headers', it is an object"},
    {"{\"to\":\"https://h\",\"headers\":{\"a\":1}}", "bad 'headers', it must be a string"},
    {"{\"to\":\"https://h\",\"headers\":{\"\":\"1\"}}", "a header's name has letters"},
    {"{\"to\":\"https://h\",\"headers\":{\"a b\":\"1\"}}", "a header's name has letters"},
    {"{\"to\":\"https://h\",\"headers\":{\"a\\r\\nb\":\"1\"}}", "a header's name has letters"},
    {"{\"to\":\"https://h\",\"headers\":{\"a:\":\"1\"}}", "a header's name has letters"},
    {"{\"to\":\"https://h\",\"headers\":{\"a\":\"x\\r\\nb: c\"}}", "control character at byte 1"},
    {"{\"to\":\"https://h\",\"headers\":{\"a\":\"{ids}\"}}", "bad field '{ids}' at byte 0"},
    {"{\"to\":\"https://h\",\"headers\":{\"a\":\"1\",\"A\":\"2\"}}", "'A' is given twice"},
    {"{\"to\":\"https://h\",\"headers\":{\"hOST\":\"x\"}}", "'hOST' is set by the server"},
    {"{\"to\":\"https://h\",\"headers\":{\"Authorization\":\"x\"}}", "is set by the server"},
    {"{\"to\":\"https://h\",\"headers\":{\"Tarry-Id\":\"x\"}}", "is set by the server"},
    {"{\"to\":\"https://h\",\"headers\":{\"webhook-id\":\"x\"}}", "is set by the server"},
    {"{\"to\":\"amqp://h\",\"headers\":{\"a\":\"x\"}}", "'headers' is for targets of http"},
    {"{\"to\":\"https://h\",\"exchange\":\"x\"}", "'exchange' is for targets of amqp"},
    {"{\"to\":\"amqp://h\",\"key\":\"x\"}", "'key' is for targets of kafka"},
    {"{\"to\":\"rocketmq://h\",\"key\":\"x\"}", "'key' is for targets of kafka"},
    {"{\"to\":\"kafka://h\",\"tags\":\"x\"}", "'tags' is for targets of rocketmq"},
    {"{\"to\":\"amqp://h\",\"body\":\"whole\"}", "bad 'body', write \"raw\""},
    {"{\"to\":\"amqp://h\",\"body\":true}", "bad 'body', write \"raw\""},
    {"{\"to\":\"amqp://h\",\"topic\":\"x\"}", "'topic' is for targets of kafka and rocketmq"},
    {"{\"to\":\"amqp://h\",\"sign\":\"x\"}", "'sign' is for targets of http"},
    {"{\"callback\":true,\"destination\":\"x\"}", "'destination' is for targets of stomp"},
    {"{\"to\":\"amqp://h\",\"exchange\":\"a\\nb\"}", "bad 'exchange', control character at byte 1"},
    {"{\"to\":\"amqp://h\",\"routing_key\":\"{\"}", "bad 'routing_key', bad field '{' at byte 0"},
    {"{\"to\":\"kafka://h\",\"topic\":\"{ids}\"}", "bad 'topic', bad field '{ids}' at byte 0"},
};

CLAIM(slips_are_named)
{
    for (size_t i = 0; i < COUNT_OF(slips); i++) {
        struct target_setting setting, zero = {0};
        char error[TARGET_ERROR_BYTES];
        CASE_HOLDS(slips[i].json, !parse(slips[i].json, &setting, error));
        CASE_HOLDS(slips[i].json, memcmp(&setting, &zero, sizeof zero) == 0);
        if (!strstr(error, slips[i].has_text))
            fail_msg("%s: '%s' does not say '%s'", slips[i].json, error, slips[i].has_text);
        CASE_HOLDS(slips[i].json, !strstr(error, "pass@"));
    }
}

/* ---- limits: at each, and one beyond ---- */

CLAIM(numbers_have_their_limits)
{
    static const struct {
        const char *member, *good, *beyond;
    } rows[] = {
        {"max_in_flight", "1", "0"},
        {"max_in_flight", "10000", "10001"},
        {"rate", "\"1/h\"", "\"0/h\""},
        {"rate", "\"1000000/s\"", "\"1000001/s\""},
        {"timeout", "100", "99"},
        {"timeout", "300000", "300001"},
        {"timeout", "\"100ms\"", "\"99ms\""},
        {"timeout", "\"5m\"", "\"5m1ms\""},
        {"dead_on", "[300]", "[299]"},
        {"dead_on", "[599]", "[600]"},
        {"dead_on", "[\"300-599\"]", "[\"300-600\"]"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct target_setting setting;
        char error[TARGET_ERROR_BYTES], json[256];
        for (int beyond = 0; beyond < 2; beyond++) {
            snprintf(json, sizeof json, "{\"to\":\"https://h\",\"%s\":%s}", rows[i].member,
                     beyond ? rows[i].beyond : rows[i].good);
            CASE_HOLDS(json, parse(json, &setting, error) == !beyond);
            target_setting_fini(&setting);
        }
    }
}

CLAIM(lists_have_their_limit)
{
    for (int count = TARGET_DEAD_ON_MAX; count <= TARGET_DEAD_ON_MAX + 1; count++) {
        struct target_setting setting;
        char error[TARGET_ERROR_BYTES], json[256] = "{\"to\":\"https://h\",\"dead_on\":[";
        for (int i = 0; i < count; i++)
            strcat(json, i ? ",404" : "404");
        strcat(json, "]}");
        assert_int_equal(parse(json, &setting, error), count <= TARGET_DEAD_ON_MAX);
        target_setting_fini(&setting);
    }
}

CLAIM(texts_have_their_limits)
{
    static const struct {
        const char *before;
        size_t bytes_max, there; /* `there` bytes of the member are in `before` */
    } rows[] = {
        {"{\"to\":\"https://h/", TARGET_TO_BYTES_MAX, 10},
        {"{\"to\":\"https://h\",\"sign\":\"", GUARD_NAME_BYTES_MAX, 0},
        {"{\"to\":\"amqp://h\",\"exchange\":\"", TARGET_TEMPLATE_BYTES_MAX, 0},
        {"{\"to\":\"amqp://h\",\"routing_key\":\"", TARGET_TEMPLATE_BYTES_MAX, 0},
        {"{\"to\":\"kafka://h\",\"topic\":\"", TARGET_TEMPLATE_BYTES_MAX, 0},
        {"{\"to\":\"kafka://h\",\"key\":\"", TARGET_TEMPLATE_BYTES_MAX, 0},
        {"{\"to\":\"stomp://h\",\"destination\":\"", TARGET_TEMPLATE_BYTES_MAX, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t more = 0; more < 2; more++) {
            struct target_setting setting;
            char error[TARGET_ERROR_BYTES], json[8192], filler[4096], has_text[64];
            memset(filler, 'x', sizeof filler);
            filler[rows[i].bytes_max - rows[i].there + more] = 0;
            snprintf(json, sizeof json, "%s%s\"}", rows[i].before, filler);
            CASE_HOLDS(rows[i].before, parse(json, &setting, error) == !more);
            snprintf(has_text, sizeof has_text, "it may have at most %zu bytes", rows[i].bytes_max);
            CASE_HOLDS(rows[i].before, !more || strstr(error, has_text));
            target_setting_fini(&setting);
        }
}

CLAIMS_MAIN(NULL, NULL)
