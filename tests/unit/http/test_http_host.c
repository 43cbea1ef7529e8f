#include "http/problem.h"
#include "http/site.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

static struct http_hosts hosts_of(bool is_local, const char *names)
{
    struct http_hosts hosts;
    http_hosts_init(&hosts, is_local, names, NULL);
    return hosts;
}

/* ---- names ---- */

CLAIM(a_server_accepts_its_own_and_configured_names)
{
    static const struct {
        const char *sentence, *host;
        bool on_loopback, on_all; /* is it let in where the server listens so? */
    } rows[] = {
        {"localhost", "localhost", true, true},
        {"with a port", "localhost:8279", true, true},
        {"with an empty port, which is the scheme's", "localhost:", true, true},
        {"in capitals", "LocalHost", true, true},
        {"with the dot of the root", "localhost.:80", true, true},
        {"loopback", "127.0.0.1:8279", true, true},
        {"all of loopback", "127.99.1.2", true, true},
        {"loopback of version 6", "[::1]:8279", true, true},
        {"the same, written out", "[0:0:0:0:0:0:0:1]", true, true},
        {"loopback, mapped", "[::ffff:127.0.0.1]", true, true},
        {"a name that was given", "queue.internal:80", true, true},
        {"in capitals too", "QUEUE.internal", true, true},
        {"a name below one that was given", "a.b.corp.example", true, true},
        {"an address that was given", "[fd00::1]:80", true, true},
        {"another address", "10.0.0.5:8279", false, true},
        {"another address of version 6", "[2001:db8::1]", false, true},
        {"what is no address to a program", "0.0.0.0:8279", false, true},
        {"a stranger", "evil.example", false, false},
        {"a stranger that sounds like us", "localhost.evil.example", false, false},
        {"below localhost", "evil.localhost", false, false},
        {"a name that begins like one given", "queue.internal.evil.example", false, false},
        {"a name that ends like one given", "evilqueue.internal", false, false},
        {"only the names below were given", "corp.example", false, false},
        {"ends like those below", "evilcorp.example", false, false},
        {"an address that is a name", "127.0.0.1.evil.example", false, false},
        {"an address as only some write it", "127.1", false, false},
        {"a number", "2130706433", false, false},
    };

    const char *names = "queue.internal, *.corp.example,[fd00::1]";
    struct http_hosts loopback = hosts_of(true, names), all = hosts_of(false, names);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct slice host = slice_of(rows[i].host);
        bool bad;
        CASE_HOLDS(rows[i].sentence,
                   http_hosts_have(&loopback, host, &bad) == rows[i].on_loopback && !bad);
        CASE_HOLDS(rows[i].sentence, http_hosts_have(&all, host, &bad) == rows[i].on_all);
    }
}

CLAIM(invalid_hosts_are_distinguished)
{
    static const char *const rows[] = {"",       ":80",     "a b",           "a/b",         "a:b",
                                       "a:80:1", "[::1",    "[::1]x",        "localhost@a", "a\"b",
                                       "::1",    "local\\", "localhost:80 ", "[]x"};
    struct http_hosts hosts = hosts_of(true, NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool bad = false;
        CASE_HOLDS(rows[i], !http_hosts_have(&hosts, slice_of(rows[i]), &bad));
        CASE_HOLDS(rows[i], bad);
    }
}

CLAIM(given_names_are_checked)
{
    static const struct {
        const char *names, *bad;
    } rows[] = {
        {"", NULL},          {"a", NULL},
        {"a,b", NULL},       {" a , *.b.c\t", NULL},
        {"my_app-1", NULL},  {"10.0.0.5", NULL},
        {"[fd00::1]", NULL}, {"a:80", "a:80"},
        {"*", "*"},          {"*.", "*."},
        {"a*.b", "a*.b"},    {"a,http://b", "http://b"},
        {"a,.b", ".b"},      {"fd00::1", "fd00::1"},
        {"a,b/c", "b/c"},
    };
    struct slice bad;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool good = http_host_names_check(slice_of(rows[i].names), &bad);
        CASE_HOLDS(rows[i].names, good == !rows[i].bad);
        CASE_HOLDS(rows[i].names, good || slice_is(bad, rows[i].bad));
    }
}

/* ---- requests ---- */

CLAIM(pages_of_other_sites_change_nothing)
{
    static const struct {
        const char *sentence, *method, *fields, *code; /* NULL: let in */
    } rows[] = {
        {"a program", "POST", "Host: localhost:1\r\n", NULL},
        {"a stranger's name", "GET", "Host: evil.example:1\r\n", "host_unknown"},
        {"also to change something", "POST", "Host: evil.example\r\n", "host_unknown"},
        {"a name that is none", "GET", "Host: a b\r\n", "bad_request"},
        {"an empty name", "GET", "Host:\r\n", "bad_request"},
        {"an own page", "POST",
         "Host: localhost:1\r\nOrigin: http://localhost:1\r\nSec-Fetch-Site: same-origin\r\n",
         NULL},
        {"an own page behind TLS", "POST", "Host: Localhost:1\r\nOrigin: https://localhost:1\r\n",
         NULL},
        {"what a person typed", "POST", "Host: localhost\r\nSec-Fetch-Site: none\r\n", NULL},
        {"another port is another page", "POST",
         "Host: localhost:1\r\nOrigin: http://localhost:2\r\n", "cross_site"},
        {"another page", "POST", "Host: localhost:1\r\nOrigin: http://evil.example\r\n",
         "cross_site"},
        {"a page that hides", "POST", "Host: localhost:1\r\nOrigin: null\r\n", "cross_site"},
        {"a page without a name", "POST", "Host: localhost:1\r\nOrigin:\r\n", "cross_site"},
        {"an origin that is none", "POST", "Host: localhost:1\r\nOrigin: localhost:1\r\n",
         "cross_site"},
        {"an origin with more behind it", "POST",
         "Host: localhost:1\r\nOrigin: http://localhost:1/\r\n", "cross_site"},
        {"a page of a neighbour", "PUT", "Host: localhost:1\r\nSec-Fetch-Site: same-site\r\n",
         "cross_site"},
        {"a page of a stranger", "DELETE", "Host: localhost:1\r\nSec-Fetch-Site: cross-site\r\n",
         "cross_site"},
        {"a mark that does not exist yet", "PATCH", "Host: localhost:1\r\nSec-Fetch-Site: x\r\n",
         "cross_site"},
        {"one mark is enough", "POST",
         "Host: localhost:1\r\nOrigin: http://localhost:1\r\nSec-Fetch-Site: cross-site\r\n",
         "cross_site"},
        {"a mark does not make up for an origin", "POST",
         "Host: localhost:1\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n",
         "cross_site"},
        {"two origins", "POST",
         "Host: localhost:1\r\nOrigin: http://localhost:1\r\nOrigin: http://evil\r\n",
         "bad_request"},
        {"a link to what only shows", "GET",
         "Host: localhost:1\r\nOrigin: http://evil\r\nSec-Fetch-Site: cross-site\r\n", NULL},
        {"its head", "HEAD", "Host: localhost:1\r\nSec-Fetch-Site: cross-site\r\n", NULL},
        {"a question before the call", "OPTIONS", "Host: localhost:1\r\nOrigin: http://evil\r\n",
         "cross_site"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_hosts hosts = hosts_of(true, NULL);
        struct http_request request;
        struct http_fault fault;
        char head[400];
        int len =
            snprintf(head, sizeof head, "%s /x HTTP/1.1\r\n%s\r\n", rows[i].method, rows[i].fields);
        for (int again = 0; again < 2; again++) { /* a Host that was let in is remembered */
            bool is_in = http_request_parse(slice_make(head, (size_t)len), &request, &fault) &&
                         http_hosts_admit(&hosts, &request, &fault);
            CASE_HOLDS(rows[i].sentence, is_in == !rows[i].code);
            CASE_HOLDS(rows[i].sentence,
                       is_in || strcmp(http_problem_code(fault.problem), rows[i].code) == 0);
        }
    }
}

static bool is_let_in(struct http_hosts *hosts, const char *head)
{
    struct http_request request;
    struct http_fault fault;
    assert_true(http_request_parse(slice_of(head), &request, &fault));
    return http_hosts_admit(hosts, &request, &fault);
}

CLAIM(only_accepted_hosts_are_remembered)
{
    struct http_hosts hosts = hosts_of(true, "a-name-so-long-that-it-is-not-remembered-"
                                             "at-all-but-looked-up-each-time.example");
    for (int i = 0; i < 3; i++) {
        assert_false(is_let_in(&hosts, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"));
        assert_true(is_let_in(&hosts, "GET / HTTP/1.1\r\nHost: 127.0.0.01:1\r\n\r\n") == false);
        assert_true(is_let_in(&hosts, "GET / HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n"));
        assert_true(is_let_in(&hosts, "GET / HTTP/1.1\r\nHost: a-name-so-long-that-it-is-not-"
                                      "remembered-at-all-but-looked-up-each-time.example\r\n\r\n"));
        assert_true(is_let_in(&hosts, "GET / HTTP/1.0\r\n\r\n"));
    }
}

CLAIM(the_target_may_contain_a_host)
{
    struct http_hosts hosts = hosts_of(true, NULL);
    assert_true(
        is_let_in(&hosts, "GET http://localhost:1/x HTTP/1.1\r\nHost: localhost:1\r\n\r\n"));
    assert_false(is_let_in(&hosts, "GET http://evil/x HTTP/1.1\r\nHost: localhost:1\r\n\r\n"));
    assert_false(is_let_in(&hosts, "GET http://localhost:1/x HTTP/1.1\r\nHost: evil\r\n\r\n"));
    assert_false(is_let_in(&hosts, "GET http://evil?x=/v1/info HTTP/1.0\r\n\r\n"));
    assert_true(is_let_in(&hosts, "POST http://localhost:1/x HTTP/1.1\r\nHost: localhost:2\r\n"
                                  "Origin: http://localhost:1\r\n\r\n"));
    assert_false(is_let_in(&hosts, "POST http://localhost:1/x HTTP/1.1\r\nHost: localhost:2\r\n"
                                   "Origin: http://localhost:2\r\n\r\n"));
}

CLAIMS_MAIN(NULL, NULL)
