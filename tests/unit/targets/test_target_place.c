/* The place of a destination: one reading of its URL decides host, port and credential. */
#include "targets/place.h"

#include "targets/target.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *text, *host, *path; /* host NULL: refused */
    uint16_t port;
} urls[] = {
    {"http://a", "a", "", 80},
    {"https://shop.example/close?x=1", "shop.example", "/close?x=1", 443},
    {"HTTPS://Shop.Example.:8443?x", "shop.example", "?x", 8443},
    {"http://127.0.0.1:1/{id}", "127.0.0.1", "/{id}", 1},
    {"http://[::1]:8080/a:b@c", "::1", "/a:b@c", 8080},
    {"http://xn--bcher-kva.example", "xn--bcher-kva.example", "", 80},
    {"", NULL, NULL, 0},
    {"ftp://a/", NULL, NULL, 0},
    {"http:/a", NULL, NULL, 0},
    {"http://", NULL, NULL, 0},
    {"http:///path", NULL, NULL, 0},
    {"http://user@host/", NULL, NULL, 0},
    {"http://allowed.example\\@evil.example/", NULL, NULL, 0},
    {"http://allowed.example#@evil.example/", NULL, NULL, 0},
    {"http://allowed.example%2f@evil/", NULL, NULL, 0},
    {"http://a%2eb/", NULL, NULL, 0},
    {"http://{meta.host}/", NULL, NULL, 0},
    {"http://b\xc3\xbc"
     "cher.example/",
     NULL, NULL, 0},
    {"http://a b/", NULL, NULL, 0},
    {"http://a/\r\nEvil: yes", NULL, NULL, 0},
    {"http://a/\t", NULL, NULL, 0},
    {"http://a/#part", NULL, NULL, 0},
    {"http://a:0/", NULL, NULL, 0},
    {"http://a:65536/", NULL, NULL, 0},
    {"http://a:+80/", NULL, NULL, 0},
    {"http://a:/", NULL, NULL, 0},
    {"http://2130706433/", NULL, NULL, 0},
    {"http://0x7f000001/", NULL, NULL, 0},
    {"http://127.1/", NULL, NULL, 0},
    {"http://0177.0.0.1/", NULL, NULL, 0},
    {"http://127.0.0.1./", "127.0.0.1", "/", 80},
    {"http://[::1/", NULL, NULL, 0},
    {"http://[fe80::1%25eth0]/", NULL, NULL, 0},
    {"http://[::1]x/", NULL, NULL, 0},
    {"http://[127.0.0.1]/", NULL, NULL, 0},
};

CLAIM(all_parsers_read_the_same_host_from_a_url)
{
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        static const char *const schemes[] = {"http", "https", NULL};
        struct target_place place;
        struct url url;
        char error[TARGET_ERROR_BYTES] = "";
        bool is_good = target_place_parse(slice_of(urls[i].text), schemes, &url, &place, error);
        CASE_HOLDS(urls[i].text, is_good == (urls[i].host != NULL));
        CASE_HOLDS(urls[i].text, is_good == (error[0] == '\0'));
        if (!is_good)
            continue;
        CASE_HOLDS(urls[i].text, !strcmp(place.host, urls[i].host));
        CASE_HOLDS(urls[i].text, !strcmp(url.path.at, urls[i].path));
        CASE_HOLDS(urls[i].text, place.port == urls[i].port);
    }
}

/* Messages that share a target share its connection: so the same text must lead to the same host, the
 * same credential and the same endpoint. */
CLAIM(host_credential_and_endpoint_are_the_same)
{
    static const char *const texts[] = {
        "http://Shop.Example./x", "https://[::1]/a:b@c", "https://192.0.2.1:8443?u@h",
        "amqp://MQ:1/vhost",      "amqps://mq.example.", "kafka://a:1",
        "kafkas://A.b",           "stomp://mq/a@b",      "stomps://[2001:DB8::1]:9",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        const char *const *schemes = target_find(slice_of(texts[i]))->schemes;
        char error[TARGET_ERROR_BYTES], origin[GUARD_ORIGIN_BYTES];
        struct target_place place;
        struct url url;
        struct buffer endpoint;
        buffer_init(&endpoint, 512);
        CASE_HOLDS(texts[i], target_place_parse(slice_of(texts[i]), schemes, &url, &place, error));
        snprintf(origin, sizeof origin, strchr(place.host, ':') ? "%s%s://[%s]:%u" : "%s%s://%s:%u",
                 schemes[0], place.is_tls ? "s" : "", place.host, (unsigned)place.port);
        CASE_HOLDS(texts[i], !strcmp(origin, place.origin));
        CASE_HOLDS(texts[i], target_endpoint(slice_of(texts[i]), &endpoint, error));
        CASE_HOLDS(texts[i],
                   endpoint.len >= strlen(origin) && !memcmp(endpoint.at, origin, strlen(origin)));
        buffer_fini(&endpoint);
    }
}

CLAIM(a_virtual_host_is_one_decoded_name)
{
    static const struct {
        const char *text, *name; /* NULL: refused */
    } cases[] = {
        {"amqp://h", ""},          {"amqp://h/", ""},      {"amqp://h/%2f", "/"},
        {"amqp://h/a%20b", "a b"}, {"amqp://h/%00", NULL}, {"amqp://h/%0a", NULL},
        {"amqp://h/%z", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char name[TARGET_NAME_BYTES], error[TARGET_ERROR_BYTES];
        struct url url;
        CASE_HOLDS(cases[i].text, target_place_read(slice_of(cases[i].text), &url, error));
        bool is_good = target_place_name(&url, name);
        CASE_HOLDS(cases[i].text, is_good == (cases[i].name != NULL));
        CASE_HOLDS(cases[i].text, !is_good || !strcmp(name, cases[i].name));
    }
}

CLAIMS_MAIN(NULL, NULL)
