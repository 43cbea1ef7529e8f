#include "targets/http_url.h"

#include "base/text.h"
#include "targets/target.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>

static bool refuse(char *error, const char *why)
{
    (void)snprintf(error, TARGET_ERROR_BYTES, "%s", why);
    return false;
}

static bool starts_with(struct slice text, const char *prefix)
{
    size_t len = strlen(prefix);
    return text.len >= len && strncasecmp(text.at, prefix, len) == 0;
}

static struct slice slice_from(struct slice text, size_t at)
{
    return slice_make(text.at + at, text.len - at);
}

static bool has_bad_bytes(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~' || strchr("\\\"<>^`|#", text.at[i]))
            return true;
    return false;
}

static bool is_name(struct slice host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_";
    for (size_t i = 0; i < host.len; i++)
        if (!memchr(allowed, host.at[i], sizeof allowed - 1))
            return false;
    return host.len > 0 && host.len <= TARGET_HOST_BYTES_MAX;
}

/* "127.1", "0x7f000001", "2130706433": libraries differ in what they make of these, so only the
 * full form is an address, and nothing else whose last part is a number is a name. */
static bool is_odd_number(struct slice host)
{
    char text[TARGET_HOST_BYTES_MAX + 1];
    struct in_addr address;
    memcpy(text, host.at, host.len);
    text[host.len] = '\0';
    if (host.len > 0 && text[host.len - 1] == '.')
        text[host.len - 1] = '\0';
    const char *dot = strrchr(text, '.'), *last = dot ? dot + 1 : text;
    bool is_number =
        *last >= '0' && *last <= '9' &&
        (strspn(last, "0123456789") == strlen(last) || starts_with(slice_of(last), "0x"));
    return is_number && inet_pton(AF_INET, text, &address) != 1;
}

static bool is_ipv6(struct slice host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    if (host.len >= sizeof text)
        return false;
    memcpy(text, host.at, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1;
}

static bool parse_port(struct slice text, uint16_t *port)
{
    uint64_t number;
    if (!text_parse_u64(text, UINT16_MAX, &number) || number == 0)
        return false;
    *port = (uint16_t)number;
    return true;
}

/* "host", "host:port", "[address]:port" */
static bool parse_authority(struct slice authority, struct target_http_url *url, char *error)
{
    size_t host_bytes = 0;
    if (authority.len > 0 && authority.at[0] == '[') {
        const char *end = memchr(authority.at, ']', authority.len);
        url->is_ipv6 = true;
        url->host = end ? slice_make(authority.at + 1, (size_t)(end - authority.at) - 1)
                        : (struct slice){0};
        host_bytes = url->host.len + 2;
        if (!end || !is_ipv6(url->host))
            return refuse(error, "the host in brackets is not an IPv6 address");
    } else {
        const char *colon = memchr(authority.at, ':', authority.len);
        host_bytes = colon ? (size_t)(colon - authority.at) : authority.len;
        url->host = slice_make(authority.at, host_bytes);
        if (!is_name(url->host))
            return refuse(error, "the host is not a name or an address; a name has letters, "
                                 "digits, '.', '-' and '_', others are written as xn--…");
        if (is_odd_number(url->host))
            return refuse(error, "the host is a number; write an address as 192.0.2.1");
    }
    struct slice rest = slice_from(authority, host_bytes);
    if (rest.len > 0 && (rest.at[0] != ':' || !parse_port(slice_from(rest, 1), &url->port)))
        return refuse(error, "the port is not a number from 1 to 65535");
    return true;
}

bool target_http_url_parse(struct slice text, struct target_http_url *out, char *error)
{
    struct target_http_url url = {.is_tls = starts_with(text, "https://")};
    if (!url.is_tls && !starts_with(text, "http://"))
        return refuse(error, "not a URL of http or https, such as https://shop.example/hook");
    if (text.len > TARGET_TO_BYTES_MAX)
        return refuse(error, "the URL is too long, it may have 2048 bytes");
    if (has_bad_bytes(text))
        return refuse(error, "the URL has a blank, a '#' or a byte that must be percent-encoded");
    struct slice rest = slice_from(text, url.is_tls ? 8 : 7);
    size_t end = 0;
    while (end < rest.len && rest.at[end] != '/' && rest.at[end] != '?')
        end++;
    struct slice authority = slice_make(rest.at, end);
    if (memchr(authority.at, '@', authority.len))
        return refuse(error, "the URL has a user or a password; peers know tarry by its signature");
    if (memchr(authority.at, '{', authority.len))
        return refuse(error, "a template may stand in path and query, not in the host");
    url.port = url.is_tls ? 443 : 80;
    if (!parse_authority(authority, &url, error))
        return false;
    url.path = slice_from(rest, end);
    *out = url;
    return true;
}
