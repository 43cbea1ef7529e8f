#include "http/site.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <strings.h>

/* ---- configured origins ---- */

/* Takes the next word off a list separated by commas or blanks. */
static bool next_word(struct slice *words, struct slice *out)
{
    static const char blanks[] = ", \t";
    while (words->len && strchr(blanks, words->at[0]))
        *words = slice_make(words->at + 1, words->len - 1);
    size_t len = 0;
    while (len < words->len && !strchr(blanks, words->at[len]))
        len++;
    *out = slice_make(words->at, len);
    *words = slice_make(words->at + len, words->len - len);
    return len > 0;
}

static bool take_scheme(struct slice *origin, const char *scheme)
{
    size_t len = strlen(scheme);
    if (origin->len <= len || memcmp(origin->at, scheme, len) != 0)
        return false;
    *origin = slice_make(origin->at + len, origin->len - len);
    return true;
}

static bool holds_only(struct slice text, const char *bytes)
{
    for (size_t i = 0; i < text.len; i++)
        if (!text.at[i] || !strchr(bytes, text.at[i]))
            return false;
    return text.len > 0;
}

/* Returns whether the text is an origin as browsers send it: in lower case, without a path, and
 * with a port only if it is not the default one. */
static bool is_origin(struct slice origin)
{
    static const char digits[] = "0123456789", address[] = "0123456789abcdef:.";
    static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789-._";
    bool is_tls = take_scheme(&origin, "https://");
    if (!is_tls && !take_scheme(&origin, "http://"))
        return false;
    bool in_brackets = origin.at[0] == '[';
    const char *end = in_brackets ? memchr(origin.at, ']', origin.len) : NULL;
    const char *host_end = end ? end + 1 : memchr(origin.at, ':', origin.len);
    size_t len = host_end ? (size_t)(host_end - origin.at) : origin.len;
    struct slice host = slice_make(origin.at, len);
    struct slice port = slice_make(origin.at + len, origin.len - len);
    if (in_brackets && (!end || !holds_only(slice_make(host.at + 1, len - 2), address)))
        return false;
    if (!in_brackets && !holds_only(host, name))
        return false;
    if (!port.len)
        return true;
    return port.len <= 6 && port.at[0] == ':' &&
           holds_only(slice_make(port.at + 1, port.len - 1), digits) && port.at[1] != '0' &&
           !slice_is(port, is_tls ? ":443" : ":80");
}

bool http_cors_check(struct slice origins, struct slice *bad)
{
    while (next_word(&origins, bad))
        if (!is_origin(*bad))
            return false;
    return true;
}

uint16_t http_cors_find(struct slice origins, struct slice origin)
{
    struct slice one;
    for (uint16_t index = 1; next_word(&origins, &one); index++)
        if (slice_equals(one, origin))
            return index;
    return 0;
}

/* ---- preflight requests ---- */

bool http_cors_is_preflight(const struct http_request *request)
{
    return request->method == HTTP_METHOD_OPTIONS && request->has_origin &&
           http_request_field(request, "access-control-request-method").len;
}

/* Returns whether the API reads this header field. */
static bool is_field_of_ours(struct slice name)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    return http_is(name, "authorization") || http_is(name, "content-type") ||
           http_is(name, "accept") || http_is(name, "traceparent") || http_is(name, "tracestate") ||
           (http_begins(name, "tarry-meta-") && holds_only(name, token));
}

void http_cors_emit_preflight(const struct http_request *request, struct slice allow,
                              struct buffer *out)
{
    struct slice wanted = http_request_field(request, "access-control-request-headers"), name;
    bool is_first = true;
    buffer_append_text(out, "Access-Control-Allow-Methods: ");
    buffer_append_slice(out, allow);
    while (next_word(&wanted, &name)) {
        if (!is_field_of_ours(name))
            continue;
        buffer_append_text(out, is_first ? "\r\nAccess-Control-Allow-Headers: " : ", ");
        buffer_append_slice(out, name);
        is_first = false;
    }
    buffer_append_text(out, "\r\nAccess-Control-Max-Age: 600\r\n");
}

/* ---- header fields of answers ---- */

void http_cors_emit(struct slice origins, uint16_t index, struct buffer *out)
{
    struct slice origin;
    buffer_append_text(out, "Vary: Origin\r\n");
    if (!index)
        return;
    for (uint16_t i = 0; i < index; i++)
        (void)next_word(&origins, &origin);
    buffer_append_text(out, "Access-Control-Allow-Origin: ");
    buffer_append_slice(out, origin);
    buffer_append_text(out, "\r\nAccess-Control-Expose-Headers: *\r\n");
}

static bool name_is_same(struct slice a, struct slice b)
{
    return a.len == b.len && strncasecmp(a.at, b.at, a.len) == 0;
}

/* ---- configured names ---- */

static bool is_host_name(struct slice name)
{
    if (name.len > 2 && name.at[0] == '[')
        return name.at[name.len - 1] == ']' &&
               text_is_word(slice_make(name.at + 1, name.len - 2), ":.");
    if (name.len > 2 && name.at[0] == '*' && name.at[1] == '.')
        name = slice_make(name.at + 2, name.len - 2);
    return name.len > 0 && text_is_word(name, "._-") && name.at[0] != '.';
}

bool http_host_names_check(struct slice names, struct slice *bad)
{
    while (next_word(&names, bad))
        if (!is_host_name(*bad))
            return false;
    return true;
}

static bool is_given(struct slice names, struct slice host)
{
    struct slice name;
    while (next_word(&names, &name)) {
        if (name.at[0] == '*' && host.len >= name.len) /* "*.a" stands for "x.a", never for "a" */
            if (name_is_same(slice_make(name.at + 1, name.len - 1),
                             slice_make(host.at + host.len - (name.len - 1), name.len - 1)))
                return true;
        if (name_is_same(name, host))
            return true;
    }
    return false;
}

/* ---- Host of a request ---- */

/* Removes the port, and the dot that may end a name. */
static bool split_host(struct slice *host)
{
    size_t len = 0;
    if (host->at[0] == '[') {
        const char *end = memchr(host->at, ']', host->len);
        len = end ? (size_t)(end - host->at) + 1 : 0;
    } else {
        while (len < host->len && host->at[len] != ':')
            len++;
    }
    if (len == 0 || (len < host->len && host->at[len] != ':'))
        return false;
    for (size_t i = len + 1; i < host->len; i++)
        if (!text_is_digit(host->at[i]))
            return false;
    host->len = len;
    if (host->at[0] != '[' && !text_is_word(*host, "._-~!$&'()*+,;=%"))
        return false;
    if (host->len > 1 && host->at[host->len - 1] == '.')
        host->len--;
    return true;
}

static bool is_address_v4(const char *text, bool *is_loopback)
{
    struct in_addr v4;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    *is_loopback = ntohl(v4.s_addr) >> 24 == 127;
    return true;
}

static bool is_address_v6(const char *text, bool *is_loopback)
{
    struct in6_addr v6;
    if (inet_pton(AF_INET6, text, &v6) != 1)
        return false;
    *is_loopback =
        IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    return true;
}

static bool is_address(struct slice host, bool *is_loopback)
{
    char text[INET6_ADDRSTRLEN];
    bool in_brackets = host.at[0] == '[';
    if (in_brackets)
        host = slice_make(host.at + 1, host.len - 2);
    if (!slice_copy(host, text, sizeof text))
        return false;
    return in_brackets ? is_address_v6(text, is_loopback) : is_address_v4(text, is_loopback);
}

void http_hosts_init(struct http_hosts *hosts, bool is_local, const char *names,
                     const char *origins)
{
    *hosts = (struct http_hosts){.names = slice_of(names ? names : ""),
                                 .origins = slice_of(origins ? origins : ""),
                                 .has_any_address = !is_local};
}

bool http_hosts_have(const struct http_hosts *hosts, struct slice host, bool *is_malformed)
{
    bool is_loopback = false;
    *is_malformed = host.len == 0 || !split_host(&host);
    if (*is_malformed)
        return false;
    return name_is_same(host, slice_of("localhost")) ||
           (is_address(host, &is_loopback) && (is_loopback || hosts->has_any_address)) ||
           is_given(hosts->names, host);
}

/* ---- a request ---- */

static bool check_host_name(const struct http_hosts *hosts, struct slice host,
                            struct http_fault *fault)
{
    bool is_malformed;
    if (http_hosts_have(hosts, host, &is_malformed))
        return true;
    if (is_malformed)
        return http_fault_set(fault, PROBLEM_BAD_REQUEST, 0,
                              "'Host' is '%s' but must be NAME or NAME:PORT",
                              http_quotable(host, 60));
    (void)split_host(&host);
    const char *name = http_quotable(host, 60);
    return http_fault_set(fault, PROBLEM_HOST_UNKNOWN, 0,
                          "'%s' is not a name of this server: use localhost or its address, or "
                          "start it with --allowed-host %s",
                          name, name);
}

/* Checks Host. Only HTTP/1.0 may omit it, which no browser uses. */
static bool check_host_names(struct http_hosts *hosts, const struct http_request *request,
                             struct http_fault *fault)
{
    struct slice host = request->host;
    if (request->authority.len && !check_host_name(hosts, request->authority, fault))
        return false;
    if (!host.len)
        return true;
    if (!check_host_name(hosts, host, fault))
        return false;
    if (host.len <= sizeof hosts->last) {
        memcpy(hosts->last, host.at, host.len);
        hosts->last_len = host.len;
    }
    return true;
}

/* Returns whether `origin`, "http://name:port" of the page that makes the request, is the server's
 * own. "null" is a page that hides its origin. */
static bool is_own_origin(struct slice origin, struct slice host)
{
    const char *colon = memchr(origin.at, ':', origin.len);
    size_t start = colon ? (size_t)(colon - origin.at) + 3 : 0;
    return colon && start < origin.len && memcmp(colon, "://", 3) == 0 &&
           name_is_same(slice_make(origin.at + start, origin.len - start), host);
}

static bool check_site(const struct http_hosts *hosts, const struct http_request *request,
                       struct http_fault *fault)
{
    struct slice host = request->authority.len ? request->authority : request->host;
    bool is_own = !request->has_fetch_site || http_is(request->fetch_site, "same-origin") ||
                  http_is(request->fetch_site, "none");
    if (is_own && request->has_origin)
        is_own = request->origin.len && is_own_origin(request->origin, host);
    if (is_own || (request->has_origin && http_cors_find(hosts->origins, request->origin)))
        return true;
    char from[80] = "";
    if (request->has_origin)
        (void)snprintf(from, sizeof from, " ('%s')", http_quotable(request->origin, 60));
    return http_fault_set(fault, PROBLEM_CROSS_SITE, 0,
                          "a page of another site%s made this call, which changes or takes jobs: "
                          "only programs (without Origin and Sec-Fetch-Site), pages of this server "
                          "and pages of --cors-origin may make it",
                          from);
}

bool http_hosts_evaluate(struct http_hosts *hosts, const struct http_request *request,
                         struct http_fault *fault)
{
    bool is_marked = request->has_origin || request->has_fetch_site;
    return check_host_names(hosts, request, fault) &&
           (!is_marked || request->method == HTTP_METHOD_GET ||
            request->method == HTTP_METHOD_HEAD || check_site(hosts, request, fault));
}
