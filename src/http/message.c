/* The layer in front of llhttp: where a message's head and body end. See request.h. */
#include "http/chunk.h"

/* ---- lines of the head ---- */

/* RFC 9110, 5.6.2. */
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

static bool refuse(struct http_fault *fault, const char *what)
{
    return http_fault_set(fault, PROBLEM_BAD_FRAMING, 0, "%s", what);
}

/* The version is the line's last word. */
static bool check_version(struct slice line, struct http_fault *fault)
{
    static const char known[] = " HTTP/1.";
    enum { KNOWN_BYTES = sizeof known - 1 };
    const char *last = line.at + line.len - 1, *word = memrchr(line.at, ' ', line.len);
    if (last - word == KNOWN_BYTES && memcmp(word, known, KNOWN_BYTES) == 0 &&
        (*last == '0' || *last == '1'))
        return true;
    struct slice version = slice_make(word + 1, (size_t)(last - word));
    bool is_http = version.len > 5 && memcmp(version.at, "HTTP/", 5) == 0;
    return http_fault_set(fault, is_http ? PROBLEM_VERSION_UNKNOWN : PROBLEM_BAD_REQUEST, 0,
                          "only HTTP/1.0 and HTTP/1.1 are spoken here, not '%s'",
                          http_quotable(version, 20));
}

/* METHOD SP target SP version, printable ASCII. */
static bool check_request_line(struct slice line, struct http_fault *fault)
{
    size_t blanks = 0, method_bytes = 0;
    while (method_bytes < line.len && is_token(line.at[method_bytes]))
        method_bytes++;
    for (size_t i = method_bytes; i < line.len; i++) {
        if (line.at[i] == ' ')
            blanks++;
        else if (line.at[i] < 0x21 || line.at[i] > 0x7e)
            return refuse(fault, "the request line holds a byte that is not printable ASCII");
    }
    if (blanks != 2)
        return refuse(fault, "the request line must be METHOD TARGET VERSION");
    if (method_bytes == 0 || line.at[method_bytes] != ' ')
        return refuse(fault, "the method is not a word of letters");
    return check_version(line, fault);
}

static bool check_header_line(struct slice line, struct http_fault *fault)
{
    size_t i = 0;
    if (line.at[0] == ' ' || line.at[0] == '\t')
        return refuse(fault, "a header is folded over two lines");
    while (i < line.len && is_token(line.at[i]))
        i++;
    if (i == 0 || i == line.len || line.at[i] != ':')
        return refuse(fault, "a header must be NAME: VALUE, without a blank before the colon");
    for (i++; i < line.len; i++) {
        unsigned char c = (unsigned char)line.at[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return refuse(fault, "a header's value holds a control byte");
    }
    return true;
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

/* Goes on where it stopped, a whole line at a time. */
static enum http_step read_head(struct http_framing *framing, const char *bytes, size_t len,
                                struct http_fault *fault)
{
    for (;;) {
        const char *lf = memchr(bytes + framing->probed, '\n', len - framing->probed);
        size_t end = lf ? (size_t)(lf - bytes) : len;
        if (!check_limits(framing, lf ? end + 1 : len, fault))
            return HTTP_STEP_REFUSED;
        framing->probed = (uint32_t)end;
        if (!lf)
            return HTTP_STEP_MORE;

        struct slice line = slice_make(bytes + framing->line_at, end - framing->line_at);
        if (line.len == 0 || line.at[line.len - 1] != '\r')
            return (void)refuse(fault, "a line ends in LF without CR"), HTTP_STEP_REFUSED;
        line.len--;
        if (memchr(line.at, '\r', line.len))
            return (void)refuse(fault, "CR stands alone"), HTTP_STEP_REFUSED;
        framing->line_at = framing->probed = (uint32_t)end + 1;
        if (line.len == 0)
            return framing->lines ? HTTP_STEP_HEAD : HTTP_STEP_SKIP;
        if (framing->lines++ == 0 ? !check_request_line(line, fault)
                                  : !check_header_line(line, fault))
            return HTTP_STEP_REFUSED;
    }
}

/* ---- body ---- */

static enum http_step read_plain_body(struct http_framing *framing, char *bytes, size_t len,
                                      struct http_request *request, size_t *used,
                                      struct http_fault *fault)
{
    if (framing->length > framing->body_bytes_max) {
        (void)http_fault_set(fault, PROBLEM_BODY_TOO_BIG, framing->body_bytes_max,
                             "the body is longer than the %llu bytes allowed here",
                             (unsigned long long)framing->body_bytes_max);
        return HTTP_STEP_REFUSED;
    }
    if (len - framing->head_bytes < framing->length)
        return HTTP_STEP_MORE;
    request->body = slice_make(bytes + framing->head_bytes, framing->length);
    *used = framing->head_bytes + framing->length;
    return HTTP_STEP_WHOLE;
}

static enum http_step read_chunked_body(struct http_framing *framing, char *bytes, size_t *len,
                                        struct http_request *request, size_t *used,
                                        struct http_fault *fault)
{
    size_t at = framing->head_bytes + framing->decoded;
    enum http_step step = http_chunks_read(framing, bytes, *len, &at, fault);
    if (step == HTTP_STEP_MORE)
        *len = framing->head_bytes + framing->decoded;
    if (step == HTTP_STEP_WHOLE) {
        request->body = slice_make(bytes + framing->head_bytes, framing->decoded);
        *used = at;
    }
    return step;
}

enum http_step http_message_read(struct http_framing *framing, char *bytes, size_t *len,
                                 struct http_request *request, size_t *used,
                                 struct http_fault *fault)
{
    if (framing->head_bytes && framing->chunked)
        return read_chunked_body(framing, bytes, len, request, used, fault);
    if (framing->head_bytes)
        return read_plain_body(framing, bytes, *len, request, used, fault);

    enum http_step step = read_head(framing, bytes, *len, fault);
    *used = framing->line_at;
    if (step != HTTP_STEP_HEAD)
        return step;
    if (!http_request_parse(slice_make(bytes, framing->line_at), request, fault))
        return HTTP_STEP_REFUSED;
    framing->head_bytes = framing->line_at;
    framing->chunked = request->chunked;
    framing->length = request->has_length ? request->content_length : 0;
    return HTTP_STEP_HEAD;
}
