#include "targets/stomp/frame.h"

#include "base/text.h"

/* ---- reading ---- */

/* The beginning and length of a line, without its end (\n or \r\n). */
struct line {
    char *at;
    size_t len, whole; /* whole: including its end */
};

/* Finds the end of a line, with or without a carriage return. */
static bool find_line(char *bytes, size_t len, struct line *out)
{
    char *end = len ? memchr(bytes, '\n', len) : NULL;
    if (!end)
        return false;
    out->at = bytes;
    out->whole = (size_t)(end - bytes) + 1;
    out->len = out->whole - 1;
    if (out->len && bytes[out->len - 1] == '\r')
        out->len--;
    return true;
}

/* Returns the length of the head including its empty line; 0 if it is incomplete. */
static size_t head_bytes(char *bytes, size_t len)
{
    struct line line;
    size_t at = 0;
    while (find_line(bytes + at, len - at, &line)) {
        at += line.whole;
        if (line.len == 0)
            return at;
    }
    return 0;
}

/* Decodes the byte after a backslash as in the standard. Returns false if it is not allowed. */
static bool unescape_byte(char code, char *out)
{
    switch (code) {
    case 'r':
        *out = '\r';
        return true;
    case 'n':
        *out = '\n';
        return true;
    case 'c':
        *out = ':';
        return true;
    case '\\':
        *out = '\\';
        return true;
    default:
        return false;
    }
}

/* Unescapes in place: the result is never longer. */
static bool unescape(struct slice *text, char *at)
{
    size_t from = 0, to = 0;
    for (; from < text->len; from++) {
        if (at[from] != '\\')
            at[to++] = at[from];
        else if (++from == text->len || !unescape_byte(at[from], &at[to++]))
            return false;
    }
    *text = slice_make(at, to);
    return true;
}

static bool is_escaped(const struct stomp_frame *frame)
{
    return !slice_is(frame->command, "CONNECTED") && !slice_is(frame->command, "CONNECT");
}

/* Checks that a line is "name:value" with a name and valid escapes. Changes nothing. */
static bool line_is_sound(const struct stomp_frame *frame, const struct line *line)
{
    const char *colon = memchr(line->at, ':', line->len);
    char byte;
    if (!colon || colon == line->at)
        return false;
    for (size_t i = 0; is_escaped(frame) && i < line->len; i++)
        if (line->at[i] == '\\' && (++i == line->len || !unescape_byte(line->at[i], &byte)))
            return false;
    return true;
}

static void take_header(struct stomp_frame *frame, const struct line *line)
{
    char *colon = memchr(line->at, ':', line->len);
    struct stomp_header *header = &frame->headers[frame->header_count++];
    header->name = slice_make(line->at, (size_t)(colon - line->at));
    header->value = slice_make(colon + 1, (size_t)(line->at + line->len - colon - 1));
    if (!is_escaped(frame))
        return;
    (void)unescape(&header->name, line->at);
    (void)unescape(&header->value, colon + 1);
}

/* Sets the command; returns what is wrong with the head, or NULL. Changes nothing. */
static const char *look_at_head(char *bytes, size_t head, struct stomp_frame *frame)
{
    struct line line;
    size_t at, count = 0;
    (void)find_line(bytes, head, &line);
    frame->command = slice_make(line.at, line.len);
    for (size_t i = 0; i < line.len; i++)
        if (line.at[i] < 'A' || line.at[i] > 'Z')
            return "it does not begin with a command";
    for (at = line.whole; find_line(bytes + at, head - at, &line) && line.len; at += line.whole)
        if (!line_is_sound(frame, &line))
            return "it has a malformed header";
        else if (++count > STOMP_HEADERS_MAX)
            return "it has more than 64 headers";
    return NULL;
}

/* Reads the length from the original head, because it needs no escapes. Returns false if it is not
 * a number. */
static bool find_content_length(char *bytes, size_t head, uint64_t *out, bool *is_given)
{
    static const char name[] = "content-length:";
    struct line line;
    *is_given = false;
    for (size_t at = 0; find_line(bytes + at, head - at, &line); at += line.whole) {
        if (line.len < sizeof name - 1 || memcmp(line.at, name, sizeof name - 1) != 0)
            continue;
        *is_given = true;
        return text_parse_u64(slice_make(line.at + sizeof name - 1, line.len - sizeof name + 1),
                              UINT32_MAX, out);
    }
    return true;
}

static void take_headers(char *bytes, size_t head, struct stomp_frame *frame)
{
    struct line line;
    frame->header_count = 0;
    for (size_t at = 0; find_line(bytes + at, head - at, &line) && line.len; at += line.whole)
        if (at > 0)
            take_header(frame, &line);
}

static enum stomp_read broken(const char **why, const char *what)
{
    *why = what;
    return STOMP_BROKEN;
}

/* Finds the body. `left` is the number of bytes after the head. `body` is set if it is complete. */
static enum stomp_read find_body(char *at, size_t left, bool is_given, uint64_t length,
                                 struct slice *body, const char **why)
{
    if (is_given && length > STOMP_BODY_BYTES_MAX)
        return broken(why, "its body is longer than 64 KiB");
    if (is_given && left <= length)
        return STOMP_MORE;
    if (is_given && at[length] != 0)
        return broken(why, "its body is longer than its content-length");
    const char *end = is_given ? at + length : left ? memchr(at, 0, left) : NULL;
    if (!end && left <= STOMP_BODY_BYTES_MAX)
        return STOMP_MORE;
    if (!end || end - at > STOMP_BODY_BYTES_MAX)
        return broken(why, "its body is longer than 64 KiB");
    *body = slice_make(at, (size_t)(end - at));
    return STOMP_FRAME;
}

enum stomp_read stomp_frame_read(char *bytes, size_t len, struct stomp_frame *frame, size_t *used,
                                 const char **why)
{
    uint64_t length = 0;
    bool is_given;
    struct line line;
    if (len && (bytes[0] == '\n' || bytes[0] == '\r')) {
        if (bytes[0] == '\r' && len == 1)
            return STOMP_MORE;
        if (!find_line(bytes, len, &line) || line.len)
            return broken(why, "it begins with a bare carriage return");
        *used = line.whole;
        return STOMP_HEART_BEAT;
    }
    size_t head = head_bytes(bytes, len < STOMP_HEAD_BYTES_MAX ? len : STOMP_HEAD_BYTES_MAX);
    if (!head)
        return len < STOMP_HEAD_BYTES_MAX ? STOMP_MORE
                                          : broken(why, "its headers are longer than 16 KiB");
    const char *fault = look_at_head(bytes, head, frame);
    if (fault)
        return broken(why, fault);
    if (!find_content_length(bytes, head, &length, &is_given))
        return broken(why, "its content-length is not a number");
    enum stomp_read read = find_body(bytes + head, len - head, is_given, length, &frame->body, why);
    if (read == STOMP_FRAME) {
        take_headers(bytes, head, frame);
        *used = head + frame->body.len + 1;
    }
    return read;
}

struct slice stomp_frame_header(const struct stomp_frame *frame, const char *name)
{
    for (size_t i = 0; i < frame->header_count; i++)
        if (slice_is(frame->headers[i].name, name))
            return frame->headers[i].value;
    return (struct slice){0};
}

bool stomp_frame_heart_beat(struct slice text, int64_t *sends_ms, int64_t *wants_ms)
{
    const char *comma = text.len ? memchr(text.at, ',', text.len) : NULL;
    uint64_t sends, wants;
    if (!comma)
        return false;
    size_t first = (size_t)(comma - text.at);
    if (!text_parse_u64(slice_make(text.at, first), INT32_MAX, &sends) ||
        !text_parse_u64(slice_make(comma + 1, text.len - first - 1), INT32_MAX, &wants))
        return false;
    *sends_ms = (int64_t)sends;
    *wants_ms = (int64_t)wants;
    return true;
}

/* ---- writing ---- */

void stomp_emit_command(struct buffer *out, const char *command)
{
    buffer_append_text(out, command);
    buffer_append_byte(out, '\n');
}

static void emit_escaped(struct buffer *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        const char *escape = byte == '\r'   ? "\\r"
                             : byte == '\n' ? "\\n"
                             : byte == ':'  ? "\\c"
                             : byte == '\\' ? "\\\\"
                                            : NULL;
        if (escape)
            buffer_append_text(out, escape);
        else if (byte)
            buffer_append_byte(out, byte);
    }
}

void stomp_emit_header(struct buffer *out, struct slice name, struct slice value)
{
    emit_escaped(out, name);
    buffer_append_byte(out, ':');
    emit_escaped(out, value);
    buffer_append_byte(out, '\n');
}

bool stomp_emit_plain_header(struct buffer *out, const char *name, struct slice value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] == '\r' || value.at[i] == '\n' || !value.at[i])
            return false;
    buffer_append_text(out, name);
    buffer_append_byte(out, ':');
    buffer_append_slice(out, value);
    buffer_append_byte(out, '\n');
    return true;
}

void stomp_emit_body(struct buffer *out, struct slice body)
{
    buffer_append_byte(out, '\n');
    buffer_append_slice(out, body);
    buffer_append_byte(out, 0);
}
