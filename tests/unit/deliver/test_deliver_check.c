/* Checks of settings, and the names of endpoints. */
#include "deliver/deliver.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char policy_path[] = "/tmp/tarry-policy-XXXXXX";
static struct guard *guard;

static int open_policy(void **state)
{
    static const char text[] = "allow-host = shop.example\nallow-host = mq.example\n"
                               "allow-host = 127.0.0.1\nallow-host = 8.8.8.8\n"
                               "command = pager /bin/true\n"
                               "sign = shop whsec_dGFycnktZXhhbXBsZS1rZXktMjQtYnl0\n";
    char error[GUARD_ERROR_BYTES];
    (void)state;
    int fd = mkstemp(policy_path);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    if (guard_open(policy_path, &guard, error) != 0)
        fail_msg("%s", error);
    return 0;
}

static int close_policy(void **state)
{
    (void)state;
    guard_free(guard);
    unlink(policy_path);
    return 0;
}

CLAIM(equal_places_have_one_name)
{
    static const struct {
        const char *to, *endpoint; /* NULL: refused */
    } cases[] = {
        {"https://Shop.Example/close-order", "https://shop.example:443"},
        {"HTTPS://shop.example:443/", "https://shop.example:443"},
        {"https://shop.example.:443?x=1", "https://shop.example:443"},
        {"https://shop.example#part", NULL},
        {"http://shop.example/{id}", "http://shop.example:80"},
        {"http://[::1]/x", "http://[::1]:80"},
        {"http://[::1]:8080", "http://[::1]:8080"},
        {"amqp://mq.example", "amqp://mq.example:5672"},
        {"amqp://mq.example/Orders", "amqp://mq.example:5672/Orders"},
        {"amqps://mq.example/%2f?x=1", "amqps://mq.example:5671/%2f"},
        {"kafka://a,B:9093/x", "kafka://a:9092,b:9093"},
        {"stomp://mq.example/vhost", "stomp://mq.example:61613/vhost"},
        {"stomps://mq.example", "stomps://mq.example:61614"},
        {"rocketmq://A,b:9877", "rocketmq://a:9876,b:9877"},
        {"null:", "null:"},
        {"https://", NULL},
        {"https:shop.example", NULL},
        {"https://user@shop.example/", NULL},
        {"https://user:password@shop.example/", NULL},
        {"https://shop.example:0/", NULL},
        {"https://shop.example:65536/", NULL},
        {"https://shop.example:80x/", NULL},
        {"https://::1/", NULL},
        {"https://[shop.example]/", NULL},
        {"https://{meta.host}/x", NULL},
        {"https://shop.{id}.example/", NULL},
        {"https://shop .example/", NULL},
        {"https://\\shop.example/", NULL},
        {"ftp://shop.example/", NULL},
        {"shop.example", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char error[TARGET_ERROR_BYTES] = "";
        struct buffer out;
        buffer_init(&out, 512);
        bool ok = target_endpoint(slice_of(cases[i].to), &out, error);
        CASE_HOLDS(cases[i].to, ok == (cases[i].endpoint != NULL));
        CASE_HOLDS(cases[i].to, ok ? slice_is(buffer_slice(&out), cases[i].endpoint)
                                   : out.len == 0 && error[0] != '\0');
        buffer_fini(&out);
    }
}

CLAIM(an_endpoint_never_outgrows_its_buffer)
{
    char to[TARGET_TO_BYTES_MAX], error[TARGET_ERROR_BYTES];
    struct buffer out;
    memset(to, 'a', sizeof to);
    memcpy(to, "amqp://mq/", 10);
    buffer_init(&out, 256);
    assert_false(target_endpoint(slice_make(to, sizeof to), &out, error));
    assert_true(error[0] != '\0' && strlen(error) < TARGET_ERROR_BYTES);
    buffer_fini(&out);
}

CLAIM(every_scheme_finds_its_kind)
{
    struct buffer out;
    assert_ptr_equal(target_find(slice_of("null:")), &target_null);
    assert_ptr_equal(target_find(slice_of("https://x")), &target_http);
    assert_ptr_equal(target_find(slice_of("HTTP://x")), &target_http);
    assert_ptr_equal(target_find(slice_of("amqps://x")), &target_amqp);
    assert_null(target_find(slice_of("httpx://x")));
    assert_null(target_find(slice_of("://x")));
    assert_null(target_find(slice_of("")));
    buffer_init(&out, 256);
    target_emit_schemes(&out);
    assert_non_null(memmem(out.at, out.len, "http, https, amqp", 17));
    buffer_fini(&out);
}

CLAIM(settings_are_checked_with_advice)
{
    static const struct {
        const char *extension, *has_text; /* NULL: they would do */
    } cases[] = {
        {"{\"deliver\":{\"to\":\"https://shop.example/close-order\"}}", NULL},
        {"{\"deliver\":{\"callback\":true}}", NULL},
        {"{\"deliver\":{\"to\":\"null:\"}}", NULL},
        {"{\"deliver\":{\"to\":\"null:x\"}}", "deliver: "},
        {"{\"deliver\":{}}", "'to'"},
        {"{\"deliver\":{\"callback\":false}}", "'to'"},
        {"{\"deliver\":{\"to\":\"https://other.example/\"}}", "allow-host = other.example"},
        {"{\"deliver\":{\"to\":\"http://127.0.0.1/\"}}", "add it as 'allow-network'"},
        {"{\"deliver\":{\"to\":\"http://8.8.8.8/\"}}", NULL},
        {"{\"deliver\":{\"to\":\"kafka://mq.example,other.example:9092\"}}", "other.example"},
        {"{\"deliver\":{\"to\":\"gopher://shop.example\"}}", "http"},
        {"{\"deliver\":{\"to\":\"https://shop.example\",\"max_in_flight\":0}}", "max_in_flight"},
        {"{\"deliver\":{\"to\":\"https://shop.example\",\"sign\":\"shop\"}}", NULL},
        {"{\"deliver\":{\"to\":\"https://shop.example\",\"sign\":false}}", NULL},
        {"{\"deliver\":{\"callback\":true,\"sign\":\"shp\"}}", "sign = shp whsec_"},
        {"{\"deliver\":null,\"dead_letter\":null}", NULL},
        {"{}", NULL},
        {"{\"delivr\":{}}", "unknown member 'delivr'"},
        {"[]", "not a JSON object"},
        {"{\"dead_letter\":{\"to\":\"orders.dead\"}}", NULL},
        {"{\"dead_letter\":{\"to\":\"orders\"}}", "the topic itself"},
        {"{\"dead_letter\":{\"to\":\"https://other.example/x\"}}", "allow-host"},
        {"{\"dead_letter\":{\"to\":\"https://shop.example/x\"}}", NULL},
        {"{\"dead_letter\":{\"alert\":{\"command\":\"pager\"}}}", NULL},
        {"{\"dead_letter\":{\"alert\":{\"command\":\"siren\"}}}", "policy file"},
        {"{\"dead_letter\":{\"alert\":{\"to\":\"https://other.example/x\"}}}", "allow-host"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char error[DELIVER_ERROR_BYTES] = "";
        bool ok = deliver_check(guard, slice_of("orders"), slice_of(cases[i].extension), error);
        if (ok != !cases[i].has_text || (!ok && !strstr(error, cases[i].has_text)))
            fail_msg("%s: %s", cases[i].extension, ok ? "would do" : error);
    }
}

CLAIM(callbacks_must_be_http_urls)
{
    static const struct {
        const char *url, *has_text;
    } cases[] = {
        {"https://shop.example/x", NULL},
        {"HTTP://SHOP.example:8080/x", NULL},
        {"amqp://mq.example/x", "a callback is a URL of http or https"},
        {"null:", "a callback is a URL of http or https"},
        {"https://other.example/x", "allow-host"},
        {"https://shop.example@other.example/x", "user"},
        {"", "a callback is a URL"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char error[DELIVER_ERROR_BYTES] = "";
        bool ok = deliver_check_callback(guard, slice_of(cases[i].url), error);
        if (ok != !cases[i].has_text || (!ok && !strstr(error, cases[i].has_text)))
            fail_msg("%s: %s", cases[i].url, ok ? "would do" : error);
    }
}

CLAIM(a_password_is_not_repeated)
{
    static const char *const urls[] = {"http://bob:hunter2@shop.example/", "http://bob:hunter2@/",
                                       "https://bob:hun@ter2@shop.example:x/",
                                       "amqp://bob:hunter2@mq.example"};
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        char error[DELIVER_ERROR_BYTES] = "", why[TARGET_ERROR_BYTES] = "";
        struct buffer out;
        CASE_HOLDS(urls[i], !deliver_check_callback(guard, slice_of(urls[i]), error));
        CASE_HOLDS(urls[i], error[0] && !strstr(error, "hun") && !strstr(error, "ter2@"));
        buffer_init(&out, 256);
        CASE_HOLDS(urls[i], !target_endpoint(slice_of(urls[i]), &out, why));
        CASE_HOLDS(urls[i], why[0] && !strstr(why, "hun") && !strstr(why, "bob"));
        buffer_fini(&out);
    }
}

CLAIM(without_a_policy_file_nothing_would_do)
{
    struct guard *off;
    char error[DELIVER_ERROR_BYTES] = "";
    assert_int_equal(guard_open(NULL, &off, error), 0);
    static const char *const extensions[] = {"{\"deliver\":{\"to\":\"https://shop.example\"}}",
                                             "{\"deliver\":{\"callback\":true}}",
                                             "{\"deliver\":{\"to\":\"null:\"}}"};
    for (size_t i = 0; i < COUNT_OF(extensions); i++) {
        assert_false(deliver_check(off, slice_of("orders"), slice_of(extensions[i]), error));
        assert_non_null(strstr(error, "--deliver FILE"));
    }
    guard_free(off);
}

CLAIMS_MAIN(open_policy, close_policy)
