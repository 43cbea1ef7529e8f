#include "http/cors.h"

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
