#include "redis/url.h"

#include "unit/cases.h"
#include "unit/claim.h"

static bool parse(const char *text, struct redis_url *url, char error[256])
{
    memset(error, 0, 256);
    return redis_url_parse(text, url, error, 256);
}

CLAIM(reads_each_kind)
{
    static const struct {
        const char *text;
        enum redis_kind kind;
        uint32_t hosts;
        const char *last_host;
        uint16_t last_port;
        const char *user, *password, *master;
        uint32_t db;
        const char *prefix;
    } rows[] = {
        {"redis://a", REDIS_SINGLE, 1, "a", 6379, "", "", "", 0, "tarry"},
        {"REDIS://a/", REDIS_SINGLE, 1, "a", 6379, "", "", "", 0, "tarry"},
        {"redis://a:1/15?prefix=x", REDIS_SINGLE, 1, "a", 1, "", "", "", 15, "x"},
        {"redis://a?db=3", REDIS_SINGLE, 1, "a", 6379, "", "", "", 3, "tarry"},
        {"redis://u:p@10.0.0.1:65535", REDIS_SINGLE, 1, "10.0.0.1", 65535, "u", "p", "", 0,
         "tarry"},
        {"redis://:p@a", REDIS_SINGLE, 1, "a", 6379, "", "p", "", 0, "tarry"},
        {"redis://u:@a", REDIS_SINGLE, 1, "a", 6379, "u", "", "", 0, "tarry"},
        {"redis://%3a%2F:%40%25%C3%bc@a", REDIS_SINGLE, 1, "a", 6379, ":/", "@%\xc3\xbc", "", 0,
         "tarry"},
        {"redis://[::1]", REDIS_SINGLE, 1, "::1", 6379, "", "", "", 0, "tarry"},
        {"redis://[fe80::1:2]:7/1", REDIS_SINGLE, 1, "fe80::1:2", 7, "", "", "", 1, "tarry"},
        {"redis-sentinel://a/m", REDIS_SENTINEL, 1, "a", 26379, "", "", "m", 0, "tarry"},
        {"redis-sentinel://:p@a:1,[::2],c:3/m%2fx/4?prefix=q.-_9", REDIS_SENTINEL, 3, "c", 3, "",
         "p", "m/x", 4, "q.-_9"},
        {"redis-sentinel://a,[::2]/m/", REDIS_SENTINEL, 2, "::2", 26379, "", "", "m", 0, "tarry"},
        {"redis-cluster://a:1,b", REDIS_CLUSTER, 2, "b", 6379, "", "", "", 0, "tarry"},
        {"redis-cluster://a/0", REDIS_CLUSTER, 1, "a", 6379, "", "", "", 0, "tarry"},
        {"redis+unix:///run/r%20s", REDIS_SINGLE, 1, "/run/r s", 0, "", "", "", 0, "tarry"},
        {"redis+unix://u:p@/run/r?db=2&prefix=y", REDIS_SINGLE, 1, "/run/r", 0, "u", "p", "", 2,
         "y"},
        {"unix:///run/@r", REDIS_SINGLE, 1, "/run/@r", 0, "", "", "", 0, "tarry"},
    };
    char error[256];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct redis_url url;
        CASE_HOLDS(rows[i].text, parse(rows[i].text, &url, error));
        CASE_HOLDS(rows[i].text, url.kind == rows[i].kind && url.host_count == rows[i].hosts);
        CASE_HOLDS(rows[i].text, !strcmp(url.hosts[url.host_count - 1].host, rows[i].last_host));
        CASE_HOLDS(rows[i].text, url.hosts[url.host_count - 1].port == rows[i].last_port);
        CASE_HOLDS(rows[i].text, !strcmp(url.user, rows[i].user));
        CASE_HOLDS(rows[i].text, !strcmp(url.password, rows[i].password));
        CASE_HOLDS(rows[i].text, !strcmp(url.master, rows[i].master));
        CASE_HOLDS(rows[i].text, url.db == rows[i].db && !strcmp(url.prefix, rows[i].prefix));
    }
}

CLAIM(a_sentinel_may_have_another_user)
{
    struct redis_url url;
    char error[256];
    assert_true(parse("redis-sentinel://a/m?sentinel-user=w&sentinel-password=%26x", &url, error));
    assert_string_equal(url.sentinel_user, "w");
    assert_string_equal(url.sentinel_password, "&x");
    assert_string_equal(url.password, "");
}

/* Every row that has a password has "sesame" in it. */
CLAIM(reads_how_connections_are_encrypted)
{
    struct redis_url url;
    char error[256], text[256];
    assert_true(parse("redis://a", &url, error) && !url.tls.is_on);
    assert_true(parse("rediss-sentinel://:p@a/m?ca=/etc/ca%20s.pem&cert=/c.pem&key=/"
                      "k.pem&tls-name=redis.internal",
                      &url, error));
    assert_true(url.tls.is_on && url.kind == REDIS_SENTINEL && url.hosts[0].port == 26379);
    assert_string_equal(url.tls.ca_file, "/etc/ca s.pem");
    assert_string_equal(url.tls.certificate_file, "/c.pem");
    assert_string_equal(url.tls.key_file, "/k.pem");
    assert_string_equal(url.tls.name, "redis.internal");
    assert_null(url.tls.context);
    redis_url_emit(&url, text, sizeof text);
    assert_string_equal(text, "rediss-sentinel://a:26379/m");
    assert_true(parse("rediss-cluster://a,b", &url, error) && url.kind == REDIS_CLUSTER);
    redis_url_emit(&url, text, sizeof text);
    assert_string_equal(text, "rediss-cluster://a:6379,b:6379");
}

CLAIM(names_the_error_and_never_a_password)
{
    static const struct {
        const char *text, *reports;
    } rows[] = {
        {"", "not a URL"},
        {"sesame", "not a URL"},
        {"user:sesame@host:6379", "not a URL"},
        {"http://a", "unknown kind of URL: write"},
        {"sesame://a", "unknown kind of URL: write"},
        {"redis-clutser://a", "did you mean 'redis-cluster://'"},
        {"redis://:sesame@a?ca=/ca.pem", "'ca' is only for TLS"},
        {"rediss://:sesame@a?tls-name", "'tls-name' has no value"},
        {"rediss://a?key=/k&key=/k", "given twice"},
        {"redis-tls://a", "unknown kind"},
        {"redis://", "a host is missing"},
        {"redis:///0", "a host is missing"},
        {"redis://:6379", "a host is missing"},
        {"redis-cluster://a,,b", "a host is missing"},
        {"redis-cluster://a,", "a host is missing"},
        {"redis://a:0", "a port is not"},
        {"redis://a:65536", "a port is not"},
        {"redis://a:", "a port is not"},
        {"redis-cluster://a:1,b:x", "a port is not"},
        {"redis://user:sesame", "a port is not"},
        {"redis-cluster://user:12,sesame:ame", "a port is not"},
        {"redis://::1", "an IPv6 address as [::1]:6379"},
        {"redis://[::1", "an IPv6 address is malformed"},
        {"redis://[::1]6379", "an IPv6 address is malformed"},
        {"redis://[]", "an IPv6 address is malformed"},
        {"redis://[host]", "an IPv6 address is malformed"},
        {"redis://h!st", "a host is neither"},
        {"redis://127.1", "a host is a number"},
        {"redis://a,b", "redis-cluster://"},
        {"redis://sesame@a", "a ':' is missing"},
        {"redis://u:open:sesame@a", "%3A"},
        {"redis://:open@sesame@a", "%40"},
        {"redis-cluster://u:sesame@a,u:sesame@b", "%40"},
        {"redis://:open/sesame@a", "%2F"},
        {"redis://:open?sesame@a", "%3F"},
        {"redis://:open#sesame@a", "%23"},
        {"redis://:open sesame@a", "percent-encoded"},
        {"redis://:open\\sesame@a", "percent-encoded"},
        {"redis://:open%sesame@a", "%25"},
        {"redis://:open%00sesame@a", "zero byte"},
        {"redis://a/x", "the database is not a number"},
        {"redis://a/-1", "the database is not a number"},
        {"redis://a/2147483648", "the database is not a number"},
        {"redis://a/1?db=1", "twice"},
        {"redis-cluster://a/1", "only database 0"},
        {"redis-cluster://a?db=1", "only database 0"},
        {"redis-sentinel://a", "the master's name is missing"},
        {"redis-sentinel://a//1", "the master's name is missing"},
        {"redis-sentinel://a/m?sentinel-password=s%esame", "%25"},
        {"redis-sentinel://a/m?sentinel-password=open@sesame", "%40"},
        {"redis-sentinel://a/m?sentinel-password=open&sesame", "%26"},
        {"redis://a?sentinel-password=sesame", "only for redis-sentinel://"},
        {"redis://a?password=sesame", "unknown option"},
        {"redis://a?sesame", "unknown option"},
        {"redis://a?prefix=x&prefix=y", "twice"},
        {"redis://a?prefix", "no value"},
        {"redis://a?prefix=", "the prefix is not"},
        {"redis://a?prefix={x}", "the prefix is not"},
        {"redis://a?prefix=123456789012345678901234567890123", "the prefix is too long"},
        {"redis+unix://a/run/r", "a socket has no host"},
        {"redis+unix://:open/sesame@/run/r", "a socket has no host"},
        {"redis+unix://:sesame@", "the path of the socket is missing"},
        {"unix://", "the path of the socket is missing"},
        {"unix:///", "the path of the socket is missing"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct redis_url url = {.db = 77};
        char error[256];
        CASE_HOLDS(rows[i].text, !parse(rows[i].text, &url, error));
        if (!strstr(error, rows[i].reports))
            fail_msg("'%s': '%s' does not say '%s'", rows[i].text, error, rows[i].reports);
        CASE_HOLDS(rows[i].text, !strstr(error, "sesame") && !strstr(error, "open"));
        CASE_HOLDS(rows[i].text, error[255] == 0 && strlen(error) < 255);
        CASE_HOLDS(rows[i].text, url.db == 77 && url.host_count == 0);
    }
}

CLAIM(each_text_has_its_limit)
{
    static const struct {
        const char *before, *after;
        size_t fits;
    } rows[] = {
        {"redis://", ":x@a", REDIS_SECRET_BYTES - 1},
        {"redis://:", "@a", REDIS_SECRET_BYTES - 1},
        {"redis-sentinel://a/", "", REDIS_MASTER_BYTES - 1},
        {"redis-sentinel://a/m?sentinel-user=", "", REDIS_SECRET_BYTES - 1},
        {"redis-sentinel://a/m?sentinel-password=", "", REDIS_SECRET_BYTES - 1},
        {"redis://a?prefix=", "", REDIS_PREFIX_BYTES - 1},
        {"unix:///", "", 106},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t more = 0; more < 2; more++) {
            struct redis_url url;
            char text[400], error[256];
            size_t before = strlen(rows[i].before), len = rows[i].fits + more;
            strcpy(text, rows[i].before);
            memset(text + before, 'x', len);
            strcpy(text + before + len, rows[i].after);
            CASE_HOLDS(rows[i].before, parse(text, &url, error) == (more == 0));
            CASE_HOLDS(rows[i].before, more == 0 || strstr(error, "too long"));
        }
}

CLAIM(a_name_is_as_long_as_names_are)
{
    struct redis_url url;
    char text[400], error[256];
    memset(text, 'x', sizeof text);
    memcpy(text, "redis://", 8);
    text[8 + 254] = 0;
    assert_false(parse(text, &url, error));
    assert_non_null(strstr(error, "a host is neither"));
    text[8 + 253] = 0;
    assert_true(parse(text, &url, error));
    assert_int_equal(strlen(url.hosts[0].host), 253);
}

CLAIM(so_many_hosts_and_no_more)
{
    struct redis_url url;
    char text[200] = "redis-cluster://h", error[256];
    for (int i = 1; i < REDIS_HOSTS_MAX; i++)
        strcat(text, ",h");
    assert_true(parse(text, &url, error));
    assert_int_equal(url.host_count, REDIS_HOSTS_MAX);
    strcat(text, ",h");
    assert_false(parse(text, &url, error));
    assert_non_null(strstr(error, "more than 16 hosts"));
}

CLAIM(is_written_without_its_secrets)
{
    static const struct {
        const char *text, *written;
    } rows[] = {
        {"redis://u:sesame@a", "redis://a:6379"},
        {"redis://:sesame@[::1]:7/3?prefix=p", "redis://[::1]:7/3?prefix=p"},
        {"redis-sentinel://:p@a,b:2/m%2Fn%20/1?sentinel-user=u&sentinel-password=p",
         "redis-sentinel://a:26379,b:2/m%2Fn%20/1"},
        {"redis-cluster://u:p@a,b?prefix=p", "redis-cluster://a:6379,b:6379?prefix=p"},
        {"unix://u:p@/run/a%3fb", "redis+unix:///run/a%3Fb"},
        {"redis+unix:///run/r?prefix=p&db=2", "redis+unix:///run/r?db=2&prefix=p"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct redis_url url;
        char error[256], written[200];
        CASE_HOLDS(rows[i].text, parse(rows[i].text, &url, error));
        redis_url_emit(&url, written, sizeof written);
        if (strcmp(written, rows[i].written) != 0)
            fail_msg("'%s' is written as '%s'", rows[i].text, written);
    }
}

CLAIM(is_truncated_to_the_buffer)
{
    struct redis_url url;
    char error[256], written[12];
    assert_true(parse("redis://a.long.name.of.a.host", &url, error));
    for (size_t room = 1; room <= sizeof written; room++) {
        memset(written, '#', sizeof written);
        redis_url_emit(&url, written, room);
        assert_true(strlen(written) < room);
        assert_int_equal(strncmp(written, "redis://", strlen(written)), 0);
    }
}

CLAIMS_MAIN(NULL, NULL)
