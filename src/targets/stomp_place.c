#include "targets/stomp_place.h"

#include "base/text.h"
#include "targets/target.h"

#include <stdio.h>

static bool refuse(char *error, const char *what)
{
    (void)snprintf(error, TARGET_ERROR_BYTES, "%s, write stomp://host:61613 or stomps://host:61614",
                   what);
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

/* What comes before the first of `stops`; the rest begins with it. */
static struct slice take_until(struct slice *rest, const char *stops)
{
    size_t len = 0;
    while (len < rest->len && (!rest->at[len] || !strchr(stops, rest->at[len])))
        len++;
    struct slice taken = slice_make(rest->at, len);
    *rest = slice_make(rest->at + len, rest->len - len);
    return taken;
}

static bool host_is_sound(struct slice host)
{
    for (size_t i = 0; i < host.len; i++)
        if (host.at[i] <= ' ' || host.at[i] > '~' || strchr("/@[]\\\"<>%", host.at[i]))
            return false;
    return host.len > 0 && host.len < STOMP_HOST_BYTES;
}

static bool take_host(struct slice *rest, struct stomp_place *out)
{
    bool is_ipv6 = take_prefix(rest, "[");
    struct slice host = take_until(rest, is_ipv6 ? "]" : ":/");
    if (!host_is_sound(host) || (is_ipv6 && !take_prefix(rest, "]")))
        return false;
    if (!is_ipv6 && host.len > 1 && host.at[host.len - 1] == '.') /* no certificate has it */
        host.len--;
    memcpy(out->host, host.at, host.len);
    out->host[host.len] = 0;
    return true;
}

static bool take_port(struct slice *rest, struct stomp_place *out)
{
    uint64_t port;
    out->port = out->is_tls ? STOMP_TLS_PORT : STOMP_PORT;
    if (!take_prefix(rest, ":"))
        return true;
    if (!text_parse_u64(take_until(rest, "/"), UINT16_MAX, &port) || port == 0)
        return false;
    out->port = (uint16_t)port;
    return true;
}

static bool take_virtual_host(struct slice rest, struct stomp_place *out)
{
    struct buffer name;
    if (rest.len && !take_prefix(&rest, "/"))
        return false;
    buffer_init(&name, STOMP_HOST_BYTES - 1);
    bool good = text_percent_decode(rest, false, &name) &&
                !(name.len && (memchr(name.at, '\n', name.len) || memchr(name.at, '\r', name.len) ||
                               memchr(name.at, 0, name.len)));
    if (good && name.len)
        (void)snprintf(out->virtual_host, sizeof out->virtual_host, "%.*s", (int)name.len, name.at);
    else
        (void)snprintf(out->virtual_host, sizeof out->virtual_host, "%s", out->host);
    buffer_fini(&name);
    return good;
}

bool stomp_place_parse(struct slice url, struct stomp_place *out, char *error)
{
    struct stomp_place place = {0};
    struct slice rest = url;
    place.is_tls = take_prefix(&rest, "stomps://");
    if (!place.is_tls && !take_prefix(&rest, "stomp://"))
        return refuse(error, "it is no URL of a STOMP broker");
    if (rest.len && memchr(rest.at, '@', rest.len))
        return refuse(error, "users and passwords belong into the policy file");
    if (rest.len && (memchr(rest.at, '?', rest.len) || memchr(rest.at, '#', rest.len)))
        return refuse(error, "a STOMP broker's URL has no query");
    if (!take_host(&rest, &place))
        return refuse(error, "there is no host in it");
    if (!take_port(&rest, &place))
        return refuse(error, "its port is none");
    if (!take_virtual_host(rest, &place))
        return refuse(error, "its virtual host is none");
    (void)snprintf(place.origin, sizeof place.origin,
                   strchr(place.host, ':') ? "%s://[%s]:%u" : "%s://%s:%u",
                   place.is_tls ? "stomps" : "stomp", place.host, (unsigned)place.port);
    *out = place;
    return true;
}
