/* Pages of other sites that may use the API, and the answers to their browsers. */

#include "http/site.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

CLAIM(origins_are_as_browsers_send_them)
{
    static const char *const good[] = {
        "",
        "https://console.example",
        "http://localhost:3000",
        "https://a,http://b:8080 https://c",
        "https://[::1]:8443",
        "https://127.0.0.1",
        "http://a:443",
        "https://a:80",
    };
    static const char *const bad[] = {
        "*",
        "null",
        "console.example",
        "https://",
        "https://Console.example",
        "https://a/",
        "https://a/b",
        "https://a?b",
        "https://u@a",
        "https://a:",
        "https://a:0",
        "https://a:443",
        "http://a:80",
        "https://a:123456",
        "https://a:1a",
        "ftp://a",
        "HTTPS://a",
        "https://*.a",
        "https://[::1",
        "https://[]",
        "https://[::1]x",
        "https://a,*",
        "https:// a",
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct slice wrong;
        CASE_HOLDS(good[i], http_cors_check(slice_of(good[i]), &wrong));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct slice wrong;
        CASE_HOLDS(bad[i], !http_cors_check(slice_of(bad[i]), &wrong) && wrong.len);
    }
}

CLAIM(only_the_very_origin_is_found)
{
    struct slice origins = slice_of("https://a.example, http://localhost:3000");
    static const char *const others[] = {
        "",
        "null",
        "https://a.example.evil",
        "https://a.example:8443",
        "http://a.example",
        "https://evil.a.example",
        "https://A.example",
        "http://localhost:30000",
        "http://localhost",
        "https://a.example,",
        "https://a.example, http://localhost:3000",
    };
    assert_int_equal(http_cors_find(origins, slice_of("https://a.example")), 1);
    assert_int_equal(http_cors_find(origins, slice_of("http://localhost:3000")), 2);
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        CASE_HOLDS(others[i], http_cors_find(origins, slice_of(others[i])) == 0);
        CASE_HOLDS(others[i], http_cors_find(slice_of(""), slice_of(others[i])) == 0);
    }
}

CLAIM(an_answer_names_the_one_origin)
{
    struct slice origins = slice_of("https://a.example, http://localhost:3000");
    struct buffer out;
    buffer_init(&out, 4096);
    http_cors_emit(origins, 2, &out);
    assert_true(slice_is(buffer_slice(&out),
                         "Vary: Origin\r\nAccess-Control-Allow-Origin: http://localhost:3000\r\n"
                         "Access-Control-Expose-Headers: *\r\n"));
    buffer_clear(&out);
    http_cors_emit(origins, 0, &out);
    assert_true(slice_is(buffer_slice(&out), "Vary: Origin\r\n"));
    buffer_fini(&out);
}

CLAIM(a_preflight_lists_only_supported_methods_and_headers)
{
    static const char head[] = "OPTIONS /v1/x HTTP/1.1\r\nHost: localhost\r\n"
                               "Origin: https://a.example\r\n"
                               "Access-Control-Request-Method: PUT\r\n"
                               "Access-Control-Request-Headers: authorization,x-other, "
                               "Tarry-Meta-Color,tarry-meta-\"q\",cookie\r\n\r\n";
    struct http_request request;
    struct http_fault fault;
    struct buffer out;
    buffer_init(&out, 4096);
    assert_true(http_request_parse(slice_of(head), &request, &fault));
    assert_true(http_cors_is_preflight(&request));
    http_cors_emit_preflight(&request, slice_of("PUT, DELETE"), &out);
    assert_true(slice_is(buffer_slice(&out),
                         "Access-Control-Allow-Methods: PUT, DELETE\r\n"
                         "Access-Control-Allow-Headers: authorization, Tarry-Meta-Color\r\n"
                         "Access-Control-Max-Age: 600\r\n"));
    buffer_fini(&out);
    assert_true(http_request_parse(slice_of("OPTIONS /v1/x HTTP/1.1\r\nHost: localhost\r\n"
                                            "Origin: https://a.example\r\n\r\n"),
                                   &request, &fault));
    assert_false(http_cors_is_preflight(&request));
}

static bool is_let_in(const char *method, const char *origin)
{
    struct http_hosts hosts;
    struct http_request request;
    struct http_fault fault;
    char head[300];
    http_hosts_init(&hosts, true, NULL, "https://a.example");
    (void)snprintf(head, sizeof head,
                   "%s /v1/topics/t/purge HTTP/1.1\r\nHost: localhost\r\nOrigin: %s\r\n"
                   "Sec-Fetch-Site: cross-site\r\n\r\n",
                   method, origin);
    assert_true(http_request_parse(slice_of(head), &request, &fault));
    return http_hosts_admit(&hosts, &request, &fault);
}

CLAIM(calls_of_its_page_are_let_in_and_of_no_other)
{
    assert_true(is_let_in("POST", "https://a.example"));
    assert_true(is_let_in("OPTIONS", "https://a.example"));
    assert_false(is_let_in("POST", "https://b.example"));
    assert_false(is_let_in("OPTIONS", "https://b.example"));
    assert_false(is_let_in("DELETE", "null"));
    assert_true(is_let_in("GET", "https://b.example")); /* whose page cannot read the answer */
}

CLAIMS_MAIN(NULL, NULL)
