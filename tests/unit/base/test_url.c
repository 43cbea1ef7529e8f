#include "base/url.h"

#include "unit/cases.h"
#include "unit/claim.h"

#define TEXT_BYTES 4096

struct row {
    const char *text;
    enum url_fault fault;
    const char *sentence;
};

static const struct row rows[] = {
    {"http://a", URL_OK, "a scheme and a host"},
    {"HTTP://A.example:80/p?q=1", URL_OK, "all parts"},
    {"redis+unix:///tmp/redis.sock", URL_OK, "no host at all"},
    {"kafka://a,b:9092,[::1]:9093", URL_OK, "several hosts"},
    {"redis://:secret@a", URL_OK, "a password without a user"},
    {"redis://user@a", URL_OK, "a user without a password"},
    {"http://192.0.2.1/", URL_OK, "an address in full"},
    {"http://a./", URL_OK, "a final dot"},
    {"http://a/p@q:r,s", URL_OK, "marks in the path are only bytes"},
    {"http://a?@", URL_OK, "marks in the query too"},
    {"http://a/{id}", URL_OK, "templates in the path"},
    {"http://1password.example", URL_OK, "a name that begins with a digit"},
    {"http://a_b.example", URL_OK, "an underscore"},

    {"", URL_NO_SCHEME, "nothing"},
    {"a", URL_NO_SCHEME, "a word"},
    {"://a", URL_NO_SCHEME, "no scheme before the mark"},
    {"http:/a", URL_NO_SCHEME, "one slash"},
    {"1http://a", URL_NO_SCHEME, "a scheme that begins with a digit"},
    {"ht tp://a", URL_BAD_BYTE, "a blank"},
    {"http://a\\b", URL_BAD_BYTE, "a backslash, which browsers take for a slash"},
    {"http://a\tb", URL_BAD_BYTE, "a tab, which browsers drop"},
    {"http://a/\x7f", URL_BAD_BYTE, "a delete"},
    {"http://b\xc3\xbc"
     "cher.example",
     URL_BAD_BYTE, "a letter beyond ASCII"},
    {"http://a#b", URL_FRAGMENT, "a fragment"},
    {"http://a#@b", URL_FRAGMENT, "a fragment that some take for a user"},
    {"http://a@b@c", URL_BAD_USER, "two at signs"},
    {"http://a:b:c@d", URL_BAD_USER, "two colons before the at sign"},
    {"http://user@", URL_OK, "a user and no host: the caller says whether one is needed"},
    {"http://:80", URL_NO_HOST, "a port without a host"},
    {"kafka://a,,b", URL_NO_HOST, "nothing between two commas"},
    {"kafka://,a", URL_NO_HOST, "nothing before the first comma"},
    {"http://a%2eb", URL_BAD_HOST, "an escape in the host"},
    {"http://{host}/", URL_BAD_HOST, "a template in the host"},
    {"http://a:b:80", URL_BAD_PORT, "two colons: an address without brackets"},
    {"http://::1/", URL_NO_HOST, "an address without brackets"},
    {"http://127.1/", URL_NUMBER_HOST, "an address that is not in full"},
    {"http://2130706433/", URL_NUMBER_HOST, "an address as one number"},
    {"http://0x7f000001/", URL_NUMBER_HOST, "an address as one hexadecimal number"},
    {"http://a.0x7f/", URL_NUMBER_HOST, "a name whose last part is a number"},
    {"http://127.0.0.01/", URL_NUMBER_HOST, "a zero in front: octal for some"},
    {"http://127.1./", URL_NUMBER_HOST, "the same with a final dot"},
    {"http://[::1/", URL_BAD_IPV6, "brackets that are not closed"},
    {"http://[::1]a/", URL_BAD_IPV6, "something behind the bracket"},
    {"http://[127.0.0.1]/", URL_BAD_IPV6, "an IPv4 address in brackets"},
    {"http://[fe80::1%25eth0]/", URL_BAD_IPV6, "a zone"},
    {"http://a:0/", URL_BAD_PORT, "port 0"},
    {"http://a:/", URL_BAD_PORT, "an empty port"},
    {"http://a:65536/", URL_BAD_PORT, "a port too great"},
    {"http://a:+80/", URL_BAD_PORT, "a sign"},
};

CLAIM(takes_and_refuses)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct url url = {.host_count = 77};
        enum url_fault fault = url_parse(slice_of(rows[i].text), &url);
        CASE_HOLDS(rows[i].sentence, fault == rows[i].fault);
        CASE_HOLDS("nothing is written where it is refused", !fault || url.host_count == 77);
        CASE_HOLDS("each fault has its sentence", *url_fault_text(fault));
    }
}

CLAIM(splits)
{
    struct url url;
    assert_int_equal(
        url_parse(slice_of("redis-sentinel://me:p%40ss@a.example:1,[::1],b/master/0?x=1&y"), &url),
        URL_OK);
    assert_true(url_scheme_is(&url, "Redis-Sentinel") && !url_scheme_is(&url, "redis"));
    assert_true(url.has_user && slice_is(url.user, "me"));
    assert_true(url.has_password && slice_is(url.password, "p%40ss"));
    assert_true(slice_is(url.authority, "a.example:1,[::1],b"));
    assert_int_equal(url.host_count, 3);
    assert_true(slice_is(url.hosts[0].name, "a.example") && url.hosts[0].port == 1);
    assert_true(slice_is(url.hosts[1].name, "::1") && url.hosts[1].is_ipv6 && !url.hosts[1].port);
    assert_true(slice_is(url.hosts[2].name, "b"));
    assert_true(slice_is(url.path, "/master/0"));
    assert_true(url.has_query && slice_is(url.query, "x=1&y"));

    struct slice name, value;
    bool has_value;
    assert_true(url_next_pair(&url.query, &name, &value, &has_value));
    assert_true(slice_is(name, "x") && has_value && slice_is(value, "1"));
    assert_true(url_next_pair(&url.query, &name, &value, &has_value));
    assert_true(slice_is(name, "y") && !has_value);
    assert_false(url_next_pair(&url.query, &name, &value, &has_value));
}

CLAIM(distinguishes_a_missing_host_from_an_empty_one)
{
    struct url url;
    assert_int_equal(url_parse(slice_of("unix:///tmp/s@:1,2"), &url), URL_OK);
    assert_true(url.host_count == 0 && slice_is(url.path, "/tmp/s@:1,2") && !url.has_query);
    assert_int_equal(url_parse(slice_of("redis+unix://:secret@/tmp/s"), &url), URL_OK);
    assert_true(url.host_count == 0 && slice_is(url.password, "secret"));
}

CLAIM(hosts_have_a_limit)
{
    char text[TEXT_BYTES] = "kafka://h";
    struct url url;
    for (int i = 1; i < URL_HOSTS_MAX; i++)
        strcat(text, ",h");
    assert_int_equal(url_parse(slice_of(text), &url), URL_OK);
    assert_int_equal(url.host_count, URL_HOSTS_MAX);
    strcat(text, ",h");
    assert_int_equal(url_parse(slice_of(text), &url), URL_TOO_MANY_HOSTS);

    strcpy(text, "http://");
    memset(text + 7, 'a', URL_HOST_BYTES_MAX);
    text[7 + URL_HOST_BYTES_MAX] = '\0';
    assert_int_equal(url_parse(slice_of(text), &url), URL_OK);
    strcat(text, "a");
    assert_int_equal(url_parse(slice_of(text), &url), URL_BAD_HOST);
}

CLAIM(one_peer_has_one_origin)
{
    static const struct {
        const char *text, *origin;
    } origins[] = {
        {"HTTPS://Shop.Example/x", "https://shop.example:443"},
        {"https://shop.example.:443?y", "https://shop.example:443"},
        {"https://user:pass@shop.example:8443", "https://shop.example:8443"},
        {"https://[2001:DB8::1]", "https://[2001:db8::1]:443"},
    };
    for (size_t i = 0; i < COUNT_OF(origins); i++) {
        struct url url;
        struct buffer out;
        buffer_init(&out, TEXT_BYTES);
        assert_int_equal(url_parse(slice_of(origins[i].text), &url), URL_OK);
        url_emit_origin(&url, 0, 443, &out);
        CASE_HOLDS(origins[i].text, slice_is(buffer_slice(&out), origins[i].origin));
        buffer_fini(&out);
    }
}

CLAIMS_MAIN(NULL, NULL)
