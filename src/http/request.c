#include "http/request.h"

#include <llhttp.h>

/* What llhttp's callbacks work on. */
struct reading {
    struct http_request *request;
    struct http_fault *fault;
    struct slice target;
    bool in_value, has_host, has_connection_close, has_connection_keep;
};

/* ---- comparing ---- */

static char lower_of(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

bool http_begins(struct slice text, const char *lower)
{
    size_t i = 0;
    for (; lower[i]; i++)
        if (i == text.len || lower_of(text.at[i]) != lower[i])
            return false;
    return true;
}

bool http_is(struct slice text, const char *lower)
{
    return strlen(lower) == text.len && http_begins(text, lower);
}

static struct slice trimmed(struct slice text)
{
    while (text.len && (text.at[0] == ' ' || text.at[0] == '\t'))
        text.at++, text.len--;
    while (text.len && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

bool http_list_has(struct slice list, const char *lower)
{
    while (list.len) {
        const char *comma = memchr(list.at, ',', list.len);
        size_t len = comma ? (size_t)(comma - list.at) : list.len;
        if (http_is(trimmed(slice_make(list.at, len)), lower))
            return true;
        if (!comma)
            break;
        list = slice_make(comma + 1, list.len - len - 1);
    }
    return false;
}

/* ---- headers that mean something to the reading itself ---- */

static bool read_length(struct reading *reading, struct slice value)
{
    struct http_request *request = reading->request;
    if (request->has_length)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Content-Length' is given more than once");
    if (value.len == 0 || value.len > 18)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Content-Length' must be 1 to 18 digits");
    uint64_t length = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                                  "'Content-Length' must be digits and nothing else");
        length = length * 10 + (uint64_t)(value.at[i] - '0');
    }
    request->content_length = length;
    request->has_length = true;
    return true;
}

static bool read_transfer(struct reading *reading, struct slice value)
{
    if (reading->request->chunked)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Transfer-Encoding' is given more than once");
    if (!http_is(value, "chunked"))
        return http_fault_set(reading->fault, PROBLEM_TRANSFER_CODING_UNKNOWN, 0,
                              "the only 'Transfer-Encoding' known here is 'chunked'");
    reading->request->chunked = true;
    return true;
}

static bool read_host(struct reading *reading, struct slice value)
{
    if (reading->has_host)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Host' is given more than once, name one");
    reading->has_host = true;
    reading->request->host = value;
    return true;
}

static bool read_connection(struct reading *reading, struct slice value)
{
    reading->has_connection_close |= http_list_has(value, "close");
    reading->has_connection_keep |= http_list_has(value, "keep-alive");
    return true;
}

static bool read_expect(struct reading *reading, struct slice value)
{
    if (!http_is(value, "100-continue"))
        return http_fault_set(reading->fault, PROBLEM_EXPECTATION_UNKNOWN, 0,
                              "the only expectation known here is '100-continue'");
    reading->request->expects_continue = true;
    return true;
}

static bool read_once(struct reading *reading, struct slice value, bool *has, struct slice *into,
                      const char *name)
{
    if (*has)
        return http_fault_set(reading->fault, PROBLEM_BAD_REQUEST, 0, "%s is given more than once",
                              name);
    *has = true;
    *into = value;
    return true;
}

static bool read_type(struct reading *reading, struct slice value)
{
    struct http_request *request = reading->request;
    return read_once(reading, value, &request->has_type, &request->content_type, "Content-Type");
}

static bool read_accept(struct reading *reading, struct slice value)
{
    if (!reading->request->has_accept)
        reading->request->accept = value;
    reading->request->has_accept = true;
    return true;
}

static bool read_origin(struct reading *reading, struct slice value)
{
    struct http_request *request = reading->request;
    request->has_marks = true;
    return read_once(reading, value, &request->has_origin, &request->origin, "Origin");
}

static bool read_fetch_site(struct reading *reading, struct slice value)
{
    struct http_request *request = reading->request;
    request->has_marks = true;
    return read_once(reading, value, &request->has_fetch_site, &request->fetch_site,
                     "Sec-Fetch-Site");
}

static bool read_coding(struct reading *reading, struct slice value)
{
    return http_is(value, "identity") ||
           http_fault_set(reading->fault, PROBLEM_CODING_UNKNOWN, 0,
                          "bodies are kept as they come, without their Content-Encoding: send the "
                          "body plain, or say in Content-Type what it is");
}

static const struct known {
    const char *name;
    size_t name_len;
    bool (*read)(struct reading *reading, struct slice value);
} known[] = {
    {"host", 4, read_host},
    {"accept", 6, read_accept},
    {"expect", 6, read_expect},
    {"origin", 6, read_origin},
    {"connection", 10, read_connection},
    {"content-type", 12, read_type},
    {"content-length", 14, read_length},
    {"sec-fetch-site", 14, read_fetch_site},
    {"content-encoding", 16, read_coding},
    {"transfer-encoding", 17, read_transfer},
};

static bool read_header(struct reading *reading, struct http_header *header)
{
    header->value = trimmed(header->value);
    if (http_begins(header->name, "tarry-")) {
        reading->request->has_tarry_headers = true;
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].name_len == header->name.len && http_is(header->name, known[i].name))
            return known[i].read(reading, header->value);
    return true;
}

/* ---- llhttp ---- */

static void extend(struct slice *slice, const char *at, size_t len)
{
    if (!slice->at)
        slice->at = at;
    slice->len = (size_t)(at + len - slice->at);
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct reading *reading = parser->data;
    extend(&reading->target, at, len);
    return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
    struct reading *reading = parser->data;
    struct http_request *request = reading->request;
    if (reading->in_value || request->header_count == 0) {
        if (request->header_count == HTTP_HEADERS_MAX) {
            (void)http_fault_set(reading->fault, PROBLEM_HEADER_TOO_BIG, HTTP_HEADERS_MAX,
                                 "more than %d headers, send fewer", HTTP_HEADERS_MAX);
            return HPE_USER;
        }
        request->headers[request->header_count++] = (struct http_header){0};
        reading->in_value = false;
    }
    extend(&request->headers[request->header_count - 1].name, at, len);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct reading *reading = parser->data;
    struct http_request *request = reading->request;
    reading->in_value = true;
    if (request->header_count)
        extend(&request->headers[request->header_count - 1].value, at, len);
    return 0;
}

static int on_value_complete(llhttp_t *parser)
{
    struct reading *reading = parser->data;
    struct http_request *request = reading->request;
    reading->in_value = true;
    if (request->header_count == 0)
        return HPE_USER;
    return read_header(reading, &request->headers[request->header_count - 1]) ? 0 : HPE_USER;
}

/* The body is not llhttp's: it is split off by http_message_read. */
static int on_head_complete(llhttp_t *parser)
{
    (void)parser;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_head_complete,
};

/* ---- after llhttp ---- */

static enum http_method method_of(uint8_t method)
{
    switch (method) {
    case HTTP_GET:
        return HTTP_METHOD_GET;
    case HTTP_HEAD:
        return HTTP_METHOD_HEAD;
    case HTTP_PUT:
        return HTTP_METHOD_PUT;
    case HTTP_POST:
        return HTTP_METHOD_POST;
    case HTTP_PATCH:
        return HTTP_METHOD_PATCH;
    case HTTP_DELETE:
        return HTTP_METHOD_DELETE;
    default:
        return HTTP_METHOD_OTHER;
    }
}

/* "http://host:port/path?query": the authority ends where path, query or fragment begin, whichever
 * comes first. */
static bool split_authority(struct slice *target, struct http_request *out,
                            struct http_fault *fault)
{
    size_t start = (size_t)((const char *)memchr(target->at, ':', target->len) - target->at) + 3;
    size_t end = start;
    while (end < target->len && !strchr("/?#", target->at[end]))
        end++;
    out->authority = slice_make(target->at + start, end - start);
    out->has_marks = true;
    *target = slice_make(target->at + end, target->len - end);
    if (!out->authority.len)
        return http_fault_set(fault, PROBLEM_BAD_REQUEST, 0, "the target has no host");
    return !memchr(out->authority.at, '@', out->authority.len) ||
           http_fault_set(fault, PROBLEM_BAD_REQUEST, 0,
                          "the target has a user before its host, and none is known here");
}

/* "http://host/path?query" means what "/path?query" means. */
static bool split_target(struct slice target, struct http_request *out, struct http_fault *fault)
{
    if (target.at[0] != '/' &&
        (http_begins(target, "http://") || http_begins(target, "https://")) &&
        !split_authority(&target, out, fault))
        return false;
    const char *hash = memchr(target.at, '#', target.len);
    if (hash)
        target.len = (size_t)(hash - target.at);
    const char *mark = memchr(target.at, '?', target.len);
    out->path = slice_make(target.at, mark ? (size_t)(mark - target.at) : target.len);
    out->query = mark ? slice_make(mark + 1, target.len - out->path.len - 1) : (struct slice){0};
    if (!out->path.len)
        out->path = slice_of("/");
    return true;
}

static bool check_request(const struct reading *reading, const llhttp_t *parser)
{
    const struct http_request *request = reading->request;
    if (parser->http_major != 1 || parser->http_minor > 1)
        return http_fault_set(reading->fault, PROBLEM_VERSION_UNKNOWN, 0,
                              "only HTTP/1.0 and HTTP/1.1 are spoken here");
    if (request->chunked && request->has_length)
        return http_fault_set(
            reading->fault, PROBLEM_BAD_FRAMING, 0,
            "both 'Content-Length' and 'Transfer-Encoding' are given, choose one");
    if (request->chunked && request->is_http_1_0)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Transfer-Encoding' is not in HTTP/1.0, send a 'Content-Length'");
    if (!reading->has_host && !request->is_http_1_0)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Host' is missing, name the server");
    if (!reading->target.len)
        return http_fault_set(reading->fault, PROBLEM_BAD_REQUEST, 0, "the target is missing");
    if (request->method == HTTP_METHOD_HEAD && (request->chunked || request->content_length))
        return http_fault_set(reading->fault, PROBLEM_BAD_REQUEST, 0,
                              "HEAD has no body: leave it out, or call with another method");
    return true;
}

static bool refuse_llhttp(struct reading *reading, const llhttp_t *parser, enum llhttp_errno error)
{
    bool is_framing = error == HPE_INVALID_CONTENT_LENGTH ||
                      error == HPE_UNEXPECTED_CONTENT_LENGTH ||
                      error == HPE_INVALID_TRANSFER_ENCODING;
    return http_fault_set(reading->fault, is_framing ? PROBLEM_BAD_FRAMING : PROBLEM_BAD_REQUEST, 0,
                          "malformed request: %s",
                          error == HPE_OK ? "it ends too early" : llhttp_get_error_reason(parser));
}

static enum llhttp_errno run_llhttp(struct reading *reading, llhttp_t *parser, struct slice head)
{
    llhttp_init(parser, HTTP_REQUEST, &settings);
    parser->data = reading;
    enum llhttp_errno error = llhttp_execute(parser, head.at, head.len);
    /* llhttp has a list of methods, and others for RTSP and ICE. What it does not take is read as a
     * method that no path has, so that its path is found and the answer says what it has instead.
     */
    const char *blank = memchr(head.at, ' ', head.len);
    bool is_method = error == HPE_INVALID_METHOD || error == HPE_INVALID_CONSTANT;
    if (!is_method || !blank || reading->request->header_count)
        return error;
    reading->target = (struct slice){0};
    llhttp_init(parser, HTTP_REQUEST, &settings);
    parser->data = reading;
    (void)llhttp_execute(parser, "PROPFIND", 8);
    return llhttp_execute(parser, blank, head.len - (size_t)(blank - head.at));
}

bool http_request_parse(struct slice head, struct http_request *out, struct http_fault *fault)
{
    struct reading reading = {.request = out, .fault = fault};
    llhttp_t parser;
    memset(out, 0, offsetof(struct http_request, headers));
    fault->problem = PROBLEM_NONE;

    enum llhttp_errno error = run_llhttp(&reading, &parser, head);
    if (fault->problem)
        return false;
    if (error != HPE_PAUSED)
        return refuse_llhttp(&reading, &parser, error);

    out->is_http_1_0 = parser.http_major == 1 && parser.http_minor == 0;
    out->keeps_alive =
        !reading.has_connection_close && (!out->is_http_1_0 || reading.has_connection_keep);
    out->method = method_of(parser.method);
    return check_request(&reading, &parser) && split_target(reading.target, out, fault);
}
