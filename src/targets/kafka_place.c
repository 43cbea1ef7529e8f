#include "targets/kafka_place.h"

#include "base/text.h"
#include "targets/target.h"

#include <stdio.h>

enum { PORT = 9092, TLS_PORT = 9093 };

static bool refuse(char *error, const char *what)
{
    (void)snprintf(error, TARGET_ERROR_BYTES, "%s, write kafka://host:9092,host:9092", what);
    return false;
}

static bool take_prefix(struct slice *rest, const char *prefix)
{
    size_t len = strlen(prefix);
    if (rest->len < len || memcmp(rest->at, prefix, len) != 0)
        return false;
    *rest = slice_make(rest->at + len, rest->len - len);
    return true;
}

/* Splits "host", "host:port", "[v6]:port"; `host` keeps its brackets. */
static bool split(struct slice text, struct slice *host, struct slice *port)
{
    const char *bracket = text.len && text.at[0] == '[' ? memchr(text.at, ']', text.len) : NULL;
    const char *colon = bracket ? bracket + 1 : text.len ? memchr(text.at, ':', text.len) : NULL;
    const char *end = text.at + text.len;
    if (text.len && text.at[0] == '[' && !bracket)
        return false;
    if (!colon || colon == end) {
        *host = text;
        *port = (struct slice){0};
        return true;
    }
    *host = slice_make(text.at, (size_t)(colon - text.at));
    *port = slice_make(colon, (size_t)(end - colon));
    return take_prefix(port, ":") && port->len > 0;
}

static bool host_is_sound(struct slice host)
{
    bool in_brackets = host.len && host.at[0] == '[';
    for (size_t i = 0; i < host.len; i++)
        if (host.at[i] <= ' ' || host.at[i] > '~' || strchr("@\\\"<>%/", host.at[i]) ||
            (!in_brackets && strchr(":[]", host.at[i])))
            return false;
    return host.len > (in_brackets ? 2 : 0) && host.len <= KAFKA_HOST_BYTES_MAX;
}

static bool add_server(struct slice text, struct kafka_place *place)
{
    struct slice host, port;
    uint64_t number = place->is_tls ? TLS_PORT : PORT;
    size_t len = strlen(place->servers);
    if (!split(text, &host, &port) || !host_is_sound(host) ||
        (port.len && !text_parse_u64(port, UINT16_MAX, &number)) || number == 0)
        return false;
    if (host.len > 1 && host.at[host.len - 1] == '.') /* no certificate has it */
        host.len--;
    (void)snprintf(place->servers + len, sizeof place->servers - len, "%s%.*s:%u", len ? "," : "",
                   (int)host.len, host.at, (unsigned)number);
    if (!place->origin[0])
        (void)snprintf(place->origin, sizeof place->origin, "%s://%.*s:%u",
                       place->is_tls ? "kafkas" : "kafka", (int)host.len, host.at,
                       (unsigned)number);
    return true;
}

static bool add_servers(struct slice rest, struct kafka_place *place, char *error)
{
    for (size_t count = 1;; count++) {
        const char *comma = rest.len ? memchr(rest.at, ',', rest.len) : NULL;
        size_t len = comma ? (size_t)(comma - rest.at) : rest.len;
        if (count > KAFKA_BROKERS_MAX)
            return refuse(error, "more than 16 brokers");
        if (!add_server(slice_make(rest.at, len), place))
            return refuse(error, "a broker's host or port is none");
        if (!comma)
            return true;
        rest = slice_make(comma + 1, rest.len - len - 1);
    }
}

bool kafka_place_parse(struct slice url, struct kafka_place *out, char *error)
{
    struct kafka_place place = {0};
    struct slice rest = url;
    place.is_tls = take_prefix(&rest, "kafkas://");
    if (!place.is_tls && !take_prefix(&rest, "kafka://"))
        return refuse(error, "it is no URL of a Kafka cluster");
    if (rest.len && memchr(rest.at, '@', rest.len))
        return refuse(error, "users and passwords belong into the policy file");
    if (rest.len && rest.at[rest.len - 1] == '/')
        rest.len--;
    for (size_t i = 0; i < rest.len; i++)
        if (strchr("/?#", rest.at[i]) || !rest.at[i])
            return refuse(error, "it has a path or a query, the topic goes into 'topic'");
    if (!add_servers(rest, &place, error))
        return false;
    *out = place;
    return true;
}
