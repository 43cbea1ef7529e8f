#include "http/request.h"

#include "base/hex.h"

#include <assert.h>
#include <llhttp.h>

/* State of the callbacks of llhttp. */
struct head_reading {
    struct http_request *request;
    struct http_fault *fault;
    struct slice target;
    bool in_value, has_host, has_connection_close, has_connection_keep;
};

/* ---- comparison ---- */

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

/* ---- headers that affect parsing ---- */

static bool read_length(struct head_reading *reading, struct slice value)
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

static bool read_transfer(struct head_reading *reading, struct slice value)
{
    if (reading->request->chunked)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Transfer-Encoding' is given more than once");
    if (!http_is(value, "chunked"))
        return http_fault_set(reading->fault, PROBLEM_TRANSFER_CODING_UNKNOWN, 0,
                              "the only supported 'Transfer-Encoding' is 'chunked'");
    reading->request->chunked = true;
    return true;
}

static bool read_host(struct head_reading *reading, struct slice value)
{
    if (reading->has_host)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Host' is given more than once, name one");
    reading->has_host = true;
    reading->request->host = value;
    return true;
}

static bool read_connection(struct head_reading *reading, struct slice value)
{
    reading->has_connection_close |= http_list_has(value, "close");
    reading->has_connection_keep |= http_list_has(value, "keep-alive");
    return true;
}

static bool read_expect(struct head_reading *reading, struct slice value)
{
    if (!http_is(value, "100-continue"))
        return http_fault_set(reading->fault, PROBLEM_EXPECTATION_UNKNOWN, 0,
                              "the only supported expectation is '100-continue'");
    reading->request->expects_continue = true;
    return true;
}

static bool read_once(struct head_reading *reading, struct slice value, bool *has,
                      struct slice *into, const char *name)
{
    if (*has)
        return http_fault_set(reading->fault, PROBLEM_BAD_REQUEST, 0, "%s is given more than once",
                              name);
    *has = true;
    *into = value;
    return true;
}

static bool read_type(struct head_reading *reading, struct slice value)
{
    struct http_request *request = reading->request;
    return read_once(reading, value, &request->has_type, &request->content_type, "Content-Type");
}

static bool read_accept(struct head_reading *reading, struct slice value)
{
    if (!reading->request->has_accept)
        reading->request->accept = value;
    reading->request->has_accept = true;
    return true;
}

static bool read_origin(struct head_reading *reading, struct slice value)
{
    struct http_request *request = reading->request;
    request->has_marks = true;
    return read_once(reading, value, &request->has_origin, &request->origin, "Origin");
}

static bool read_fetch_site(struct head_reading *reading, struct slice value)
{
    struct http_request *request = reading->request;
    request->has_marks = true;
    return read_once(reading, value, &request->has_fetch_site, &request->fetch_site,
                     "Sec-Fetch-Site");
}

/* Reads Authorization, which may be given only once: two fields would be two callers. */
static bool read_authorization(struct head_reading *reading, struct slice value)
{
    struct http_request *request = reading->request;
    return read_once(reading, value, &request->has_authorization, &request->authorization,
                     "Authorization");
}

static bool read_coding(struct head_reading *reading, struct slice value)
{
    return http_is(value, "identity") ||
           http_fault_set(reading->fault, PROBLEM_CODING_UNKNOWN, 0,
                          "bodies are stored as they arrive, without their Content-Encoding: send "
                          "the body plain, or name the encoding in Content-Type");
}

static const struct known {
    const char *name;
    size_t name_len;
    bool (*read)(struct head_reading *reading, struct slice value);
} known[] = {
    {"host", 4, read_host},
    {"accept", 6, read_accept},
    {"expect", 6, read_expect},
    {"origin", 6, read_origin},
    {"connection", 10, read_connection},
    {"content-type", 12, read_type},
    {"authorization", 13, read_authorization},
    {"content-length", 14, read_length},
    {"sec-fetch-site", 14, read_fetch_site},
    {"content-encoding", 16, read_coding},
    {"transfer-encoding", 17, read_transfer},
};

/* Records the presence of headers that are read later. */
static void note_header(struct http_request *request, struct slice name)
{
    if (http_begins(name, "tarry-"))
        request->has_tarry_headers = true;
    else if (http_is(name, "traceparent"))
        request->has_trace = true;
}

/* Compares a name with a known one of the same length. A name has token characters only; this bit
 * turns only letters into letters, and only a hyphen into a hyphen. */
static bool name_is(const char *name, const char *lower, size_t len)
{
    uint64_t one, other;
    size_t i = 0;
    for (; i + sizeof one <= len; i += sizeof one) {
        memcpy(&one, name + i, sizeof one);
        memcpy(&other, lower + i, sizeof other);
        if ((one | UINT64_C(0x2020202020202020)) != other)
            return false;
    }
    for (; i < len; i++)
        if ((name[i] | 0x20) != lower[i])
            return false;
    return true;
}

static bool read_header(struct head_reading *reading, struct http_header *header)
{
    header->value = trimmed(header->value);
    if ((*header->name.at | 0x20) == 't')
        note_header(reading->request, header->name);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].name_len == header->name.len &&
            name_is(header->name.at, known[i].name, known[i].name_len))
            return known[i].read(reading, header->value);
    return true;
}

/* Returns an empty header, or NULL with a fault if there are too many. */
static struct http_header *add_header(struct head_reading *reading)
{
    struct http_request *request = reading->request;
    if (request->header_count == HTTP_HEADERS_MAX) {
        (void)http_fault_set(reading->fault, PROBLEM_HEADER_TOO_BIG, HTTP_HEADERS_MAX,
                             "more than %d headers, send fewer", HTTP_HEADERS_MAX);
        return NULL;
    }
    struct http_header *header = &request->headers[request->header_count++];
    *header = (struct http_header){0};
    return header;
}

/* ---- llhttp ---- */

static void extend_slice(struct slice *slice, const char *at, size_t len)
{
    if (!slice->at)
        slice->at = at;
    slice->len = (size_t)(at + len - slice->at);
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct head_reading *reading = parser->data;
    extend_slice(&reading->target, at, len);
    return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t len)
{
    struct head_reading *reading = parser->data;
    struct http_request *request = reading->request;
    if (reading->in_value || request->header_count == 0) {
        if (!add_header(reading))
            return HPE_USER;
        reading->in_value = false;
    }
    extend_slice(&request->headers[request->header_count - 1].name, at, len);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct head_reading *reading = parser->data;
    struct http_request *request = reading->request;
    reading->in_value = true;
    if (request->header_count)
        extend_slice(&request->headers[request->header_count - 1].value, at, len);
    return 0;
}

static int on_value_complete(llhttp_t *parser)
{
    struct head_reading *reading = parser->data;
    struct http_request *request = reading->request;
    reading->in_value = true;
    if (request->header_count == 0)
        return HPE_USER;
    return read_header(reading, &request->headers[request->header_count - 1]) ? 0 : HPE_USER;
}

/* Stops llhttp before the body, which http_message_read splits off. */
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
    case HTTP_OPTIONS:
        return HTTP_METHOD_OPTIONS;
    default:
        return HTTP_METHOD_OTHER;
    }
}

/* Splits a target in absolute form, "http://host:port/path?query". The authority ends at the first
 * of path, query and fragment. */
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
                          "the target has a user before its host, which is not supported");
}

/* Splits a target. "http://host/path?query" is treated as "/path?query". */
static bool split_target(struct slice target, struct http_request *out, struct http_fault *fault)
{
    /* Refused rather than cut off: a proxy with path rules may treat it as part of the path. */
    if (memchr(target.at, '#', target.len))
        return http_fault_set(fault, PROBLEM_BAD_REQUEST, 0,
                              "the target has a '#': leave the fragment out, or write %%23");
    if (target.at[0] != '/' &&
        (http_begins(target, "http://") || http_begins(target, "https://")) &&
        !split_authority(&target, out, fault))
        return false;
    const char *mark = memchr(target.at, '?', target.len);
    out->path = slice_make(target.at, mark ? (size_t)(mark - target.at) : target.len);
    out->query = mark ? slice_make(mark + 1, target.len - out->path.len - 1) : (struct slice){0};
    if (!out->path.len)
        out->path = slice_of("/");
    return true;
}

static bool check_request(const struct head_reading *reading)
{
    const struct http_request *request = reading->request;
    if (request->chunked && request->has_length)
        return http_fault_set(
            reading->fault, PROBLEM_BAD_FRAMING, 0,
            "both 'Content-Length' and 'Transfer-Encoding' are given, choose one");
    if (request->chunked && request->is_http_1_0)
        return http_fault_set(reading->fault, PROBLEM_BAD_FRAMING, 0,
                              "'Transfer-Encoding' is not in HTTP/1.0, send a 'Content-Length'");
    if (reading->has_host && !request->host.len)
        return http_fault_set(reading->fault, PROBLEM_BAD_REQUEST, 0,
                              "'Host' is empty, name the server");
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

static bool refuse_target_form(struct head_reading *reading, struct slice head)
{
    const char *blank = memchr(head.at, ' ', head.len);
    struct slice target = slice_make(blank + 1, head.len - (size_t)(blank + 1 - head.at));
    const char *end = memchr(target.at, ' ', target.len);
    target.len = end ? (size_t)(end - target.at) : target.len;
    return http_fault_set(
        reading->fault, PROBLEM_BAD_REQUEST, 0,
        "the target is '%s' but must be a path such as /v1/topics, optionally after http://HOST",
        http_quotable(target, 60));
}

static bool refuse_llhttp(struct head_reading *reading, const llhttp_t *parser,
                          enum llhttp_errno error, struct slice head)
{
    if (error == HPE_INVALID_URL)
        return refuse_target_form(reading, head);
    bool is_framing = error == HPE_INVALID_CONTENT_LENGTH ||
                      error == HPE_UNEXPECTED_CONTENT_LENGTH ||
                      error == HPE_INVALID_TRANSFER_ENCODING;
    return http_fault_set(reading->fault, is_framing ? PROBLEM_BAD_FRAMING : PROBLEM_BAD_REQUEST, 0,
                          "malformed request: %s",
                          error == HPE_OK ? "it ends too early" : llhttp_get_error_reason(parser));
}

/* Parses the head from `from` on, without the known line. Between lines llhttp is always in the
 * same state. */
static enum llhttp_errno execute_llhttp(llhttp_t *parser, struct slice head, size_t from,
                                        const struct http_framing *framing)
{
    size_t cut = framing->known_at;
    if (!cut)
        return llhttp_execute(parser, head.at + from, head.len - from);
    enum llhttp_errno error = llhttp_execute(parser, head.at + from, cut - from);
    if (error != HPE_OK)
        return error;
    cut += framing->known_bytes;
    return llhttp_execute(parser, head.at + cut, head.len - cut);
}

static enum llhttp_errno run_llhttp(struct head_reading *reading, llhttp_t *parser,
                                    struct slice head, const struct http_framing *framing)
{
    llhttp_init(parser, HTTP_REQUEST, &settings);
    parser->data = reading;
    enum llhttp_errno error = execute_llhttp(parser, head, 0, framing);
    /* llhttp has a fixed list of methods, including ones of RTSP and ICE. An unknown method is
     * treated as one that no path has, so that the answer lists the methods of the path. */
    bool is_method = error == HPE_INVALID_METHOD || error == HPE_INVALID_CONSTANT;
    const char *blank = is_method ? memchr(head.at, ' ', head.len) : NULL;
    if (!blank || reading->request->header_count)
        return error;
    reading->target = (struct slice){0};
    llhttp_init(parser, HTTP_REQUEST, &settings);
    parser->data = reading;
    (void)llhttp_execute(parser, "PROPFIND", 8);
    return execute_llhttp(parser, head, (size_t)(blank - head.at), framing);
}

/* Reads the head by llhttp. */
static bool read_by_llhttp(struct head_reading *reading, struct slice head,
                           const struct http_framing *framing)
{
    struct http_request *request = reading->request;
    llhttp_t parser;
    enum llhttp_errno error = run_llhttp(reading, &parser, head, framing);
    if (reading->fault->problem)
        return false;
    if (error != HPE_PAUSED)
        return refuse_llhttp(reading, &parser, error, head);
    if (parser.http_major != 1 || parser.http_minor > 1)
        return http_fault_set(reading->fault, PROBLEM_VERSION_UNKNOWN, 0,
                              "only HTTP/1.0 and HTTP/1.1 are supported");
    request->is_http_1_0 = parser.http_minor == 0;
    request->method = method_of(parser.method);
    return true;
}

/* ---- heads of HTTP/2 ---- */

static enum http_method common_method(struct slice word)
{
    static const struct {
        const char *word;
        enum http_method method;
    } rows[] = {{"POST", HTTP_METHOD_POST},   {"GET", HTTP_METHOD_GET},
                {"PUT", HTTP_METHOD_PUT},     {"DELETE", HTTP_METHOD_DELETE},
                {"PATCH", HTTP_METHOD_PATCH}, {"HEAD", HTTP_METHOD_HEAD}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (slice_is(word, rows[i].word))
            return rows[i].method;
    return HTTP_METHOD_OTHER;
}

/* Splits the request line, which read_head has checked. Returns the start of the next line, or NULL if the line has another
 * form than those that HTTP/2 usually has. */
static const char *split_request_line(struct head_reading *reading, struct slice head)
{
    static const char version[] = " HTTP/1.1\r\n";
    enum { VERSION_BYTES = sizeof version - 1 };
    const char *blank = memchr(head.at, ' ', head.len), *lf = memchr(head.at, '\n', head.len);
    if (!blank || !lf || lf + 1 - blank <= VERSION_BYTES + 1 || blank[1] != '/' ||
        memcmp(lf + 1 - VERSION_BYTES, version, VERSION_BYTES) != 0)
        return NULL;
    reading->request->method = common_method(slice_make(head.at, (size_t)(blank - head.at)));
    reading->target = slice_make(blank + 1, (size_t)(lf - blank) - VERSION_BYTES);
    return reading->request->method == HTTP_METHOD_OTHER ? NULL : lf + 1;
}

/* Reads the lines after the first one, which are "NAME: VALUE": read_head has checked them. */
static bool split_lines(struct head_reading *reading, const char *at, struct slice head,
                        const struct http_framing *framing)
{
    const char *known_line = framing->known_at ? head.at + framing->known_at : NULL;
    const char *end = head.at + head.len - 2; /* the empty line */
    while (at < end) {
        if (at == known_line) {
            at += framing->known_bytes;
            continue;
        }
        const char *colon = memchr(at, ':', (size_t)(end - at));
        assert(colon);
        const char *lf = memchr(colon, '\n', (size_t)(end - colon));
        assert(lf);
        struct http_header *header = add_header(reading);
        if (!header)
            return false;
        header->name = slice_make(at, (size_t)(colon - at));
        header->value = slice_make(colon + 1, (size_t)(lf - 1 - (colon + 1)));
        if (!read_header(reading, header))
            return false;
        at = lf + 1;
    }
    return true;
}

/* ---- known line ---- */

enum { AUTHORIZATION_NAME_BYTES = sizeof "authorization:" - 1 };

struct slice http_request_authorization_line(const struct http_request *request)
{
    struct slice value = request->authorization;
    if (!value.len || memcmp(value.at + value.len, "\r\n", 2) != 0)
        return (struct slice){0};
    const char *start = value.at;
    while (start[-1] == ' ' || start[-1] == '\t')
        start--;
    start -= AUTHORIZATION_NAME_BYTES;
    return slice_make(start, (size_t)(value.at + value.len + 2 - start));
}

struct slice http_request_field(const struct http_request *request, const char *lower)
{
    for (uint32_t i = 0; i < request->header_count; i++)
        if (http_is(request->headers[i].name, lower))
            return request->headers[i].value;
    return (struct slice){0};
}

static void read_known_line(struct slice head, const struct http_framing *framing,
                            struct http_request *out)
{
    const char *value = head.at + framing->known_at + AUTHORIZATION_NAME_BYTES;
    const char *end = head.at + framing->known_at + framing->known_bytes - 2;
    while (*value == ' ' || *value == '\t')
        value++;
    out->authorization = slice_make(value, (size_t)(end - value));
    out->has_authorization = out->is_known = true;
}

static inline uint64_t pair_differs(const char *one, const char *other)
{
    uint64_t a[2], b[2];
    memcpy(a, one, sizeof a);
    memcpy(b, other, sizeof b);
    return (a[0] ^ b[0]) | (a[1] ^ b[1]);
}

/* Compares two lines in constant time. The known line may belong to another client whose requests
 * use the same connection through a proxy. */
static bool lines_are_same(const char *one, const char *other, size_t len)
{
    enum { PAIR = 2 * sizeof(uint64_t) };
    assert(len >= PAIR); /* its name, a byte, and its end */
    uint64_t differs = pair_differs(one + len - PAIR, other + len - PAIR);
    for (size_t i = 0; i + PAIR < len; i += PAIR)
        differs |= pair_differs(one + i, other + i);
    return differs == 0;
}

/* Skips the known line. A second one is parsed as any line and refused as a duplicate. */
static bool skip_known_line(struct http_framing *framing, const char *bytes, size_t len)
{
    struct slice line = framing->known;
    const char *at = bytes + framing->line_at;
    if (!line.len || !framing->lines || framing->known_at || len - framing->line_at < line.len ||
        *at != *line.at || !lines_are_same(at, line.at, line.len))
        return false;
    framing->known_at = framing->line_at;
    framing->known_bytes = (uint32_t)line.len;
    framing->line_at += (uint32_t)line.len;
    framing->lines++;
    return true;
}

/* ---- head ---- */

static bool parse_head(struct slice head, const struct http_framing *framing,
                       struct http_request *out, struct http_fault *fault)
{
    struct head_reading reading = {.request = out, .fault = fault};
    memset(out, 0, offsetof(struct http_request, headers));
    fault->problem = PROBLEM_NONE;

    if (framing->known_at)
        read_known_line(head, framing, out);
    const char *lines = framing->is_http_2 ? split_request_line(&reading, head) : NULL;
    if (!lines)
        reading.target = (struct slice){0};
    if (!(lines ? split_lines(&reading, lines, head, framing)
                : read_by_llhttp(&reading, head, framing)))
        return false;
    out->keeps_alive =
        !reading.has_connection_close && (!out->is_http_1_0 || reading.has_connection_keep);
    return check_request(&reading) && split_target(reading.target, out, fault);
}

bool http_request_parse(struct slice head, struct http_request *out, struct http_fault *fault)
{
    static const struct http_framing nothing_known;
    return parse_head(head, &nothing_known, out, fault);
}

/* ---- framing: lines of the head ---- */

/* Token characters (RFC 9110, 5.6.2). */
static const bool token_bytes[256] = {
    ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['!'] = true,  ['#'] = true,
    ['$'] = true,         ['%'] = true,         ['&'] = true,         ['\''] = true, ['*'] = true,
    ['+'] = true,         ['-'] = true,         ['.'] = true,         ['^'] = true,  ['_'] = true,
    ['`'] = true,         ['|'] = true,         ['~'] = true,
};

static bool is_token(char c)
{
    return token_bytes[(unsigned char)c];
}

static bool refuse_framing(struct http_fault *fault, const char *what)
{
    return http_fault_set(fault, PROBLEM_BAD_FRAMING, 0, "%s", what);
}

/* Checks the version, which is the last word of the line, with the blank before it. */
static bool check_version(struct slice line, const char *word, struct http_fault *fault)
{
    static const char spoken[] = " HTTP/1.";
    enum { SPOKEN_BYTES = sizeof spoken - 1 };
    const char *last = line.at + line.len - 1;
    if (last - word == SPOKEN_BYTES && memcmp(word, spoken, SPOKEN_BYTES) == 0 &&
        (*last == '0' || *last == '1'))
        return true;
    struct slice version = slice_make(word + 1, (size_t)(last - word));
    bool is_http = version.len > 5 && memcmp(version.at, "HTTP/", 5) == 0;
    return http_fault_set(fault, is_http ? PROBLEM_VERSION_UNKNOWN : PROBLEM_BAD_REQUEST, 0,
                          "only HTTP/1.0 and HTTP/1.1 are supported, not '%s'",
                          http_quotable(version, 20));
}

/* Returns the length of a prefix of whole words in which all bytes are from 0x20 to 0x7e. */
static size_t printable_words(struct slice text)
{
    uint64_t word;
    size_t i = 0;
    for (; i + sizeof word <= text.len; i += sizeof word) {
        memcpy(&word, text.at + i, sizeof word);
        /* Below 0x20 the subtraction sets the top bit of a byte, above 0x7e the addition does. */
        if (((word - UINT64_C(0x2020202020202020)) | (word + UINT64_C(0x0101010101010101)) | word) &
            UINT64_C(0x8080808080808080))
            break;
    }
    return i;
}

/* Returns the second blank of a text that has exactly two, else NULL. The first one is not before `from`. */
static const char *find_second_blank(struct slice text, size_t from)
{
    const char *end = text.at + text.len;
    const char *first = memchr(text.at + from, ' ', text.len - from);
    const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    return second && !memchr(second + 1, ' ', (size_t)(end - second - 1)) ? second : NULL;
}

/* Checks a request line: METHOD SP target SP version, printable ASCII. */
static bool check_request_line(struct slice line, struct http_fault *fault)
{
    size_t method_bytes = 0;
    for (size_t i = printable_words(line); i < line.len; i++)
        if (line.at[i] < 0x20 || line.at[i] > 0x7e)
            return refuse_framing(fault,
                                  "the request line contains a byte that is not printable ASCII");
    while (method_bytes < line.len && is_token(line.at[method_bytes]))
        method_bytes++;
    const char *second_blank = find_second_blank(line, method_bytes);
    if (!second_blank)
        return refuse_framing(fault, "the request line must be METHOD TARGET VERSION");
    if (method_bytes == 0 || line.at[method_bytes] != ' ')
        return refuse_framing(fault, "the method is not a word of letters");
    return check_version(line, second_blank, fault);
}

/* Bytes allowed in a field value: no control bytes except tab. */
static const bool value_bytes[256] = {
    ['\t'] = true, [0x20 ... 0x7e] = true, [0x80 ... 0xff] = true};

static inline bool check_value(struct slice value)
{
    for (size_t i = printable_words(value); i < value.len; i++)
        if (!value_bytes[(unsigned char)value.at[i]])
            return false;
    return true;
}

static inline bool check_header_line(struct slice line, struct http_fault *fault)
{
    size_t i = 0;
    if (line.at[0] == ' ' || line.at[0] == '\t')
        return refuse_framing(fault, "a header is folded over two lines");
    while (i < line.len && is_token(line.at[i]))
        i++;
    if (i == 0 || i == line.len || line.at[i] != ':')
        return refuse_framing(fault,
                              "a header must be NAME: VALUE, without a blank before the colon");
    return check_value(slice_make(line.at + i + 1, line.len - i - 1)) ||
           refuse_framing(fault, "a header's value contains a control byte");
}

static bool check_limits(const struct http_framing *framing, size_t head_bytes,
                         struct http_fault *fault)
{
    if (framing->lines == 0 && head_bytes > HTTP_LINE_BYTES_MAX)
        return http_fault_set(fault, PROBLEM_TARGET_TOO_LONG, HTTP_LINE_BYTES_MAX,
                              "the request line is longer than %d bytes", HTTP_LINE_BYTES_MAX);
    if (head_bytes > HTTP_HEAD_BYTES_MAX)
        return http_fault_set(fault, PROBLEM_HEADER_TOO_BIG, HTTP_HEAD_BYTES_MAX,
                              "request line and headers are longer than %d bytes",
                              HTTP_HEAD_BYTES_MAX);
    if (framing->lines > HTTP_HEADERS_MAX + 1)
        return http_fault_set(fault, PROBLEM_HEADER_TOO_BIG, HTTP_HEADERS_MAX,
                              "more than %d headers, send fewer", HTTP_HEADERS_MAX);
    return true;
}

/* A line of the message without its end; `next` is the start of the following line. */
struct line {
    struct slice text;
    size_t next;
    bool has_cr;
};

/* Finds the line at `at`. Returns false if its LF has not arrived; then `text` is the received
 * part. Bytes searched in an earlier call are not searched again. */
static inline bool find_line(struct http_framing *framing, const char *bytes, size_t len, size_t at,
                             struct line *out)
{
    size_t from = framing->probed > at ? framing->probed : at;
    const char *lf = memchr(bytes + from, '\n', len - from);
    size_t end = lf ? (size_t)(lf - bytes) : len;
    framing->probed = end;
    out->next = end + 1;
    out->has_cr = end > at && bytes[end - 1] == '\r';
    out->text = slice_make(bytes + at, end - at - out->has_cr);
    return lf != NULL;
}

static inline bool check_line_end(const struct line *line, struct http_fault *fault)
{
    return line->has_cr || refuse_framing(fault, "a line ends in LF without CR");
}

/* Continues to read the head, by whole lines. */
static enum http_step read_head(struct http_framing *framing, const char *bytes, size_t len,
                                struct http_fault *fault)
{
    for (;;) {
        struct line line;
        if (skip_known_line(framing, bytes, len))
            continue;
        bool is_whole = find_line(framing, bytes, len, framing->line_at, &line);
        if (!check_limits(framing, is_whole ? line.next : len, fault))
            return HTTP_STEP_REFUSED;
        if (!is_whole)
            return HTTP_STEP_MORE;
        if (!check_line_end(&line, fault))
            return HTTP_STEP_REFUSED;
        framing->line_at = (uint32_t)line.next;
        if (line.text.len == 0)
            return framing->lines ? HTTP_STEP_HEAD : HTTP_STEP_SKIP;
        bool is_good = framing->lines++ == 0 ? check_request_line(line.text, fault)
                                             : check_header_line(line.text, fault);
        if (!is_good && memchr(line.text.at, '\r', line.text.len))
            (void)refuse_framing(fault, "a CR is not followed by LF");
        if (!is_good)
            return HTTP_STEP_REFUSED;
    }
}

/* ---- framing: chunks ---- */

enum {
    CHUNK_DIGITS_MAX = 16,
    CHUNK_LINE_BYTES_MAX = CHUNK_DIGITS_MAX + 1 + HTTP_CHUNK_NOTES_BYTES_MAX
};

/* The next part of a chunked body. */
enum chunk_state {
    CHUNK_SIZE = 0, /* a line with the size of a chunk */
    CHUNK_DATA,
    CHUNK_DATA_END, /* the empty line after the data */
    CHUNK_TRAILER,  /* lines after the last chunk, up to an empty one */
    CHUNK_END
};

static bool refuse_chunk(struct http_fault *fault, const char *what)
{
    return http_fault_set(fault, PROBLEM_BAD_FRAMING, 0, "malformed chunked body: %s", what);
}

static bool refuse_length(const struct http_framing *framing, struct http_fault *fault)
{
    return http_fault_set(fault, PROBLEM_BODY_TOO_BIG, framing->body_bytes_max,
                          "the body is longer than the %llu bytes allowed here",
                          (unsigned long long)framing->body_bytes_max);
}

/* Counts extensions and trailers, which are ignored but limited. */
static bool count_notes(struct http_framing *framing, size_t bytes, struct http_fault *fault)
{
    if (bytes > HTTP_CHUNK_NOTES_BYTES_MAX - (size_t)framing->chunk_notes)
        return refuse_chunk(fault, "its extensions and trailers are too long");
    framing->chunk_notes += (uint16_t)bytes;
    return true;
}

/* Reads "SIZE" or "SIZE;extension". The limit is checked after each digit, so the size cannot
 * overflow. */
static bool read_chunk_size(struct http_framing *framing, struct slice line,
                            struct http_fault *fault)
{
    size_t i = 0;
    framing->length = 0;
    for (int digit; i < line.len && (digit = hex_value(line.at[i])) >= 0; i++) {
        framing->length = framing->length * 16 + (uint64_t)digit;
        if (framing->decoded + framing->length > framing->body_bytes_max)
            return refuse_length(framing, fault);
        if (i == CHUNK_DIGITS_MAX)
            return refuse_chunk(fault, "a chunk's size has too many digits");
    }
    if (i == 0 || (i < line.len && line.at[i] != ';'))
        return refuse_chunk(fault, "a chunk's size must be hexadecimal digits");
    if (i == line.len)
        return true;
    struct slice extension = slice_make(line.at + i + 1, line.len - i - 1);
    return check_value(extension)
               ? count_notes(framing, extension.len, fault)
               : refuse_chunk(fault, "a chunk extension contains a control byte");
}

/* Checks a line outside the data, complete or partly received. */
static bool check_chunk_line(const struct http_framing *framing, struct slice line,
                             struct http_fault *fault)
{
    if (framing->chunk_state == CHUNK_DATA_END && line.len)
        return refuse_chunk(fault, "a chunk is longer than its size");
    return line.len <= CHUNK_LINE_BYTES_MAX ||
           refuse_chunk(fault, "its extensions and trailers are too long");
}

/* Reads a complete line outside the data. */
static bool read_chunk_line(struct http_framing *framing, struct slice line,
                            struct http_fault *fault)
{
    switch (framing->chunk_state) {
    case CHUNK_SIZE:
        if (!read_chunk_size(framing, line, fault))
            return false;
        framing->chunk_state = framing->length ? CHUNK_DATA : CHUNK_TRAILER;
        return true;
    case CHUNK_DATA_END:
        framing->chunk_state = CHUNK_SIZE;
        return true;
    default: /* CHUNK_TRAILER */
        if (!line.len)
            framing->chunk_state = CHUNK_END;
        return !line.len ||
               (count_notes(framing, line.len, fault) && check_header_line(line, fault));
    }
}

static void move_chunk_data(struct http_framing *framing, char *bytes, size_t len, size_t *at)
{
    uint64_t here = len - *at < framing->length ? len - *at : framing->length;
    memmove(bytes + framing->head_bytes + framing->decoded, bytes + *at, here);
    framing->decoded += here;
    framing->length -= here;
    *at += here;
    if (framing->length == 0)
        framing->chunk_state = CHUNK_DATA_END;
}

/* Decodes a chunked body (RFC 9112, 7.1) in place: moves its data down to the end of the head.
 * Unread bytes follow it. */
static enum http_step read_chunks(struct http_framing *framing, char *bytes, size_t *len,
                                  size_t *used, struct http_fault *fault)
{
    size_t at = framing->head_bytes + framing->decoded;
    while (at < *len) {
        struct line line;
        if (framing->chunk_state == CHUNK_DATA) {
            move_chunk_data(framing, bytes, *len, &at);
            continue;
        }
        bool is_whole = find_line(framing, bytes, *len, at, &line);
        if (!check_chunk_line(framing, line.text, fault))
            return HTTP_STEP_REFUSED;
        if (!is_whole)
            break;
        if (!read_chunk_line(framing, line.text, fault) || !check_line_end(&line, fault))
            return HTTP_STEP_REFUSED;
        at = *used = line.next;
        if (framing->chunk_state == CHUNK_END)
            return HTTP_STEP_WHOLE;
    }
    size_t end = framing->head_bytes + framing->decoded;
    memmove(bytes + end, bytes + at, *len - at);
    *len -= at - end;
    framing->probed = *len;
    return HTTP_STEP_MORE;
}

/* ---- framing: bodies ---- */

static enum http_step read_plain_body(struct http_framing *framing, size_t len, size_t *used,
                                      struct http_fault *fault)
{
    if (framing->length > framing->body_bytes_max)
        return (void)refuse_length(framing, fault), HTTP_STEP_REFUSED;
    *used = framing->head_bytes + framing->length;
    return len < *used ? HTTP_STEP_MORE : HTTP_STEP_WHOLE;
}

/* Reads the body. If the head was parsed in an earlier call, its slices are invalid, and it is
 * parsed again when the body is complete. */
static enum http_step read_body(struct http_framing *framing, char *bytes, size_t *len,
                                struct http_request *request, size_t *used,
                                struct http_fault *fault)
{
    enum http_step step = framing->chunked ? read_chunks(framing, bytes, len, used, fault)
                                           : read_plain_body(framing, *len, used, fault);
    if (step == HTTP_STEP_WHOLE && framing->is_stale &&
        !parse_head(slice_make(bytes, framing->head_bytes), framing, request, fault))
        return HTTP_STEP_REFUSED; /* unreachable: the head was valid before */
    request->body = slice_make(bytes + framing->head_bytes,
                               framing->chunked ? framing->decoded : framing->length);
    framing->is_stale = true;
    return step;
}

enum http_step http_message_read(struct http_framing *framing, char *bytes, size_t *len,
                                 struct http_request *request, size_t *used,
                                 struct http_fault *fault)
{
    if (framing->head_bytes)
        return read_body(framing, bytes, len, request, used, fault);

    enum http_step step = read_head(framing, bytes, *len, fault);
    *used = framing->line_at;
    if (step != HTTP_STEP_HEAD)
        return step;
    if (!parse_head(slice_make(bytes, framing->line_at), framing, request, fault))
        return HTTP_STEP_REFUSED;
    framing->head_bytes = framing->line_at;
    framing->chunked = request->chunked;
    framing->length = request->has_length ? request->content_length : 0;
    return HTTP_STEP_HEAD;
}
