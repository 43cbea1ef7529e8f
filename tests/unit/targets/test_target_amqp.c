/* URLs of RabbitMQ, cut into their parts. */
#include "targets/amqp/connection.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <string.h>

CLAIM(urls_are_read)
{
    static const struct {
        const char *url, *host, *vhost, *origin;
    } cases[] = {
        {"amqp://mq", "mq", "/", "amqp://mq:5672"},
        {"AMQPS://Mq.Example:7/shop", "mq.example", "shop", "amqps://mq.example:7"},
        {"amqps://mq.example./", "mq.example", "/", "amqps://mq.example:5671"},
        {"amqp://[::1]:7000/%2f", "::1", "/", "amqp://[::1]:7000"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct target_amqp_place place;
        char error[TARGET_ERROR_BYTES] = "";
        CASE_HOLDS(cases[i].url,
                   target_amqp_place_parse(slice_of(cases[i].url), &place, NULL, error));
        CASE_HOLDS(cases[i].url, !strcmp(place.at.host, cases[i].host));
        CASE_HOLDS(cases[i].url, !strcmp(place.vhost, cases[i].vhost));
        CASE_HOLDS(cases[i].url, !strcmp(place.at.origin, cases[i].origin));
    }
}

CLAIM(invalid_urls_are_rejected)
{
    static const char *const cases[] = {
        "",           "amqp:/mq",     "http://mq",  "amqp://",      "amqp://:1",   "amqp://m:0",
        "amqp://m:x", "amqp://u:p@m", "amqp://m?x", "amqp://m/a/b", "amqp://[::1", "amqp://m/%zz"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct target_amqp_place place;
        char error[TARGET_ERROR_BYTES] = "";
        CASE_HOLDS(cases[i], !target_amqp_place_parse(slice_of(cases[i]), &place, NULL, error));
        CASE_HOLDS(cases[i], error[0] != '\0');
    }
}

CLAIMS_MAIN(NULL, NULL)
