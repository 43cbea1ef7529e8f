#include "base/url.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <strings.h>

static const char *const fault_texts[] = {
    [URL_OK] = "it is a URL",
    [URL_BAD_BYTE] = "it contains a blank, a backslash, a control character or a letter beyond "
                     "ASCII, write it percent-encoded",
    [URL_FRAGMENT] = "it contains a '#', leave it out or write it as %23",
    [URL_NO_SCHEME] = "it does not begin with SCHEME://",
    [URL_BAD_USER] =
        "there is more than one '@', or more than one ':' before it, write those of user "
        "and password as %40 and %3A",
    [URL_NO_HOST] = "a host is missing",
    [URL_BAD_HOST] =
        "a host is neither a name nor an address, a name has letters, digits, '.', '-' and "
        "'_', others are written as xn--…",
    [URL_NUMBER_HOST] = "a host is a number, write an address as 192.0.2.1",
    [URL_BAD_IPV6] = "an IPv6 address is malformed, write it as [2001:db8::1]",
    [URL_BAD_PORT] = "a port is not a number from 1 to 65535",
    [URL_TOO_MANY_HOSTS] = "there are more than 16 hosts",
};

/* Takes the text before the first of `marks` from the front; *rest then begins with the mark. */
static struct slice split_at(struct slice *rest, const char *marks)
{
    size_t len = 0;
    while (len < rest->len && !strchr(marks, rest->at[len]))
        len++;
    struct slice front = slice_make(rest->at, len);
    *rest = slice_make(rest->at + len, rest->len - len);
    return front;
}

static struct slice skip(struct slice text, size_t bytes)
{
    return slice_make(text.at + bytes, text.len - bytes);
}

/* Rejects bytes that may not appear in a URL. NUL is one of them, so strchr is safe after this
 * check. */
static enum url_fault check_bytes(struct slice text)
{
    enum url_fault fault = URL_OK;
    for (size_t i = 0; i < text.len && !fault; i++)
        if (text.at[i] <= ' ' || text.at[i] > '~' || text.at[i] == '\\')
            fault = URL_BAD_BYTE;
        else if (text.at[i] == '#')
            fault = URL_FRAGMENT;
    return fault;
}

static enum url_fault parse_scheme(struct slice *rest, struct url *url)
{
    url->scheme = split_at(rest, ":/?@");
    bool good = url->scheme.len > 0 && url->scheme.len <= URL_SCHEME_BYTES_MAX &&
                text_is_letter(url->scheme.at[0]) && text_is_word(url->scheme, "+-.");
    if (!good || rest->len < 3 || memcmp(rest->at, "://", 3) != 0)
        return URL_NO_SCHEME;
    *rest = skip(*rest, 3);
    return URL_OK;
}

/* Takes user and password from the front of the authority. */
static enum url_fault parse_user(struct slice *authority, struct url *url)
{
    struct slice rest = *authority;
    struct slice user = split_at(&rest, "@");
    if (rest.len == 0)
        return URL_OK;
    rest = skip(rest, 1);
    if (memchr(rest.at, '@', rest.len))
        return URL_BAD_USER;
    *authority = rest;
    url->has_user = true;
    url->user = split_at(&user, ":");
    url->has_password = user.len > 0;
    url->password = url->has_password ? skip(user, 1) : user;
    return url->password.len && memchr(url->password.at, ':', url->password.len) ? URL_BAD_USER
                                                                                 : URL_OK;
}

static bool is_ipv6(struct slice host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    return slice_copy(host, text, sizeof text) && inet_pton(AF_INET6, text, &address) == 1;
}

/* Checks a name. Libraries interpret "127.1", "0x7f000001" and "2130706433" differently, so a name
 * that ends in a number, with or without a final dot, must be a full address. */
static enum url_fault check_name(struct slice host)
{
    char text[URL_HOST_BYTES_MAX + 1];
    struct in_addr address;
    if (host.len == 0)
        return URL_NO_HOST;
    if (host.len > URL_HOST_BYTES_MAX)
        return URL_BAD_HOST;
    if (!text_is_word(host, ".-_"))
        return URL_BAD_HOST;
    memcpy(text, host.at, host.len);
    text[host.len] = '\0';
    if (text[host.len - 1] == '.')
        text[host.len - 1] = '\0';
    const char *dot = strrchr(text, '.'), *last = dot ? dot + 1 : text;
    bool is_number = text_is_digit(*last) && (strspn(last, "0123456789") == strlen(last) ||
                                              strncasecmp(last, "0x", 2) == 0);
    return is_number && inet_pton(AF_INET, text, &address) != 1 ? URL_NUMBER_HOST : URL_OK;
}

/* Parses "host", "host:port", "[address]" or "[address]:port". */
static enum url_fault parse_host(struct slice text, struct url_host *host)
{
    enum url_fault fault = URL_OK;
    uint64_t port = 0;
    host->is_ipv6 = text.len && text.at[0] == '[';
    if (host->is_ipv6) {
        text = skip(text, 1);
        host->name = split_at(&text, "]");
        if (text.len == 0 || !is_ipv6(host->name))
            return URL_BAD_IPV6;
        text = skip(text, 1);
        if (text.len && text.at[0] != ':')
            return URL_BAD_IPV6;
    } else {
        host->name = split_at(&text, ":");
        fault = check_name(host->name);
    }
    if (!fault && text.len && (!text_parse_u64(skip(text, 1), UINT16_MAX, &port) || port == 0))
        fault = URL_BAD_PORT;
    host->port = (uint16_t)port;
    return fault;
}

/* Parses HOST[:PORT], separated by commas. An empty authority has no hosts. */
static enum url_fault parse_hosts(struct slice authority, struct url *url)
{
    enum url_fault fault = URL_OK;
    url->authority = authority;
    /* "unix:///path" has no hosts, "user@/path" lacks one. */
    bool more = authority.len > 0;
    while (more && !fault) {
        struct slice text = split_at(&authority, ",");
        more = authority.len > 0;
        authority = skip(authority, more);
        fault = url->host_count == URL_HOSTS_MAX ? URL_TOO_MANY_HOSTS
                                                 : parse_host(text, &url->hosts[url->host_count++]);
    }
    return fault;
}

enum url_fault url_parse(struct slice text, struct url *out)
{
    struct url url = {0};
    struct slice rest = text;
    enum url_fault fault = check_bytes(text);
    if (!fault)
        fault = parse_scheme(&rest, &url);
    if (fault)
        return fault;
    struct slice authority = split_at(&rest, "/?");
    fault = parse_user(&authority, &url);
    if (!fault)
        fault = parse_hosts(authority, &url);
    if (fault)
        return fault;
    url.path = split_at(&rest, "?");
    url.has_query = rest.len > 0;
    url.query = skip(rest, url.has_query);
    *out = url;
    return URL_OK;
}

const char *url_fault_text(enum url_fault fault)
{
    assert((size_t)fault < sizeof fault_texts / sizeof fault_texts[0]);
    return fault_texts[fault];
}

bool url_scheme_is(const struct url *url, const char *scheme)
{
    return url->scheme.len == strlen(scheme) &&
           strncasecmp(url->scheme.at, scheme, url->scheme.len) == 0;
}

bool url_next_pair(struct slice *query, struct slice *name, struct slice *value, bool *has_value)
{
    if (query->len == 0)
        return false;
    struct slice pair = split_at(query, "&");
    *query = skip(*query, query->len > 0);
    *name = split_at(&pair, "=");
    *has_value = pair.len > 0;
    *value = skip(pair, *has_value);
    return true;
}

static void append_small(struct slice text, struct buffer *out)
{
    for (size_t i = 0; i < text.len; i++)
        buffer_append_byte(out, text.at[i] >= 'A' && text.at[i] <= 'Z'
                                    ? (char)(text.at[i] - 'A' + 'a')
                                    : text.at[i]);
}

void url_emit_host(const struct url_host *host, uint16_t port, struct buffer *out)
{
    struct slice name = host->name;
    if (name.len > 1 && name.at[name.len - 1] == '.')
        name.len--;
    if (host->is_ipv6)
        buffer_append_byte(out, '[');
    append_small(name, out);
    buffer_append_text(out, host->is_ipv6 ? "]:" : ":");
    buffer_append_format(out, "%u", (unsigned)(host->port ? host->port : port));
}

void url_emit_origin(const struct url *url, size_t host, uint16_t port, struct buffer *out)
{
    assert(host < url->host_count);
    append_small(url->scheme, out);
    buffer_append_text(out, "://");
    url_emit_host(&url->hosts[host], port, out);
}
