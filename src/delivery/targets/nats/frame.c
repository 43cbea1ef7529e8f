#include "targets/nats/frame.h"

#include "base/json_read.h"
#include "base/json_write.h"
#include "base/text.h"

#include <strings.h>

#define VERSION "NATS/1.0"
static const char version_line[] = VERSION "\r\n";

/* ---- reading ---- */

enum { WORDS_MAX = 5 }; /* HMSG subject sid reply headers total, without the verb */

static enum nats_read broken(const char **why, const char *what)
{
    *why = what;
    return NATS_BROKEN;
}

/* Cuts the next word off a line. It is empty at the end. */
static struct slice next_word(struct slice *line)
{
    while (line->len && (line->at[0] == ' ' || line->at[0] == '\t'))
        *line = slice_make(line->at + 1, line->len - 1);
    size_t len = 0;
    while (len < line->len && line->at[len] != ' ' && line->at[len] != '\t')
        len++;
    struct slice word = slice_make(line->at, len);
    *line = slice_make(line->at + len, line->len - len);
    return word;
}

static bool word_is(struct slice word, const char *verb)
{
    return word.len == strlen(verb) && strncasecmp(word.at, verb, word.len) == 0;
}

/* Returns the line without its quotes and the blanks around it. */
static struct slice error_text_of(struct slice line)
{
    while (line.len && (line.at[0] == ' ' || line.at[0] == '\''))
        line = slice_make(line.at + 1, line.len - 1);
    while (line.len && (line.at[line.len - 1] == ' ' || line.at[line.len - 1] == '\''))
        line.len--;
    return line;
}

/* Reads the sizes at the end of the words; the number of words tells whether there is a reply. */
static bool read_sizes(struct slice line, bool has_headers, struct slice *subject,
                       uint64_t *header_bytes, uint64_t *total)
{
    struct slice words[WORDS_MAX], word;
    size_t count = 0, sizes = has_headers ? 2 : 1;
    while ((word = next_word(&line)).len) {
        if (count == WORDS_MAX)
            return false;
        words[count++] = word;
    }
    if (count != 2 + sizes && count != 3 + sizes)
        return false;
    *subject = words[0];
    *header_bytes = 0;
    return text_parse_u64(words[count - 1], UINT32_MAX, total) &&
           (!has_headers || text_parse_u64(words[count - 2], *total, header_bytes));
}

/* Reads MSG or HMSG; `rest` are its words, `head` the bytes of its line. */
static enum nats_read read_message(const char *bytes, size_t len, size_t head, struct slice rest,
                                   bool has_headers, struct nats_frame *frame, size_t *used,
                                   const char **why)
{
    uint64_t header_bytes = 0, total = 0;
    frame->verb = NATS_MSG;
    if (!read_sizes(rest, has_headers, &frame->subject, &header_bytes, &total))
        return broken(why, "it has a malformed line");
    if (total > NATS_PAYLOAD_BYTES_MAX)
        return broken(why, "its payload is longer than 64 KiB");
    if (len - head < total + 2)
        return NATS_MORE;
    if (memcmp(bytes + head + total, "\r\n", 2) != 0)
        return broken(why, "its payload is longer than announced");
    frame->headers = slice_make(bytes + head, header_bytes);
    frame->payload = slice_make(bytes + head + header_bytes, total - header_bytes);
    *used = head + total + 2;
    return NATS_FRAME;
}

enum nats_read nats_frame_read(const char *bytes, size_t len, struct nats_frame *frame,
                               size_t *used, const char **why)
{
    static const struct {
        const char *word;
        enum nats_verb verb;
    } verbs[] = {{"INFO", NATS_INFO},
                 {"PING", NATS_PING},
                 {"PONG", NATS_PONG},
                 {"+OK", NATS_OK},
                 {"-ERR", NATS_ERROR}};
    const char *end = len ? memchr(bytes, '\n', len) : NULL;
    if (!end)
        return len > NATS_LINE_BYTES_MAX ? broken(why, "it has a line longer than 64 KiB")
                                         : NATS_MORE;
    size_t head = (size_t)(end - bytes) + 1;
    if (head > NATS_LINE_BYTES_MAX)
        return broken(why, "it has a line longer than 64 KiB");
    if (head < 2 || end[-1] != '\r')
        return broken(why, "it has a line without its end");
    struct slice line = slice_make(bytes, head - 2);
    struct slice verb = next_word(&line);
    *frame = (struct nats_frame){0};
    if (word_is(verb, "MSG") || word_is(verb, "HMSG"))
        return read_message(bytes, len, head, line, verb.len == 4, frame, used, why);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (word_is(verb, verbs[i].word)) {
            frame->verb = verbs[i].verb;
            frame->text = frame->verb == NATS_ERROR ? error_text_of(line) : line;
            *used = head;
            return NATS_FRAME;
        }
    return broken(why, "it begins with an unknown word");
}

uint32_t nats_headers_status(struct slice headers)
{
    size_t skipped = sizeof VERSION - 1;
    uint64_t status = 0;
    if (headers.len < skipped || memcmp(headers.at, VERSION, skipped) != 0)
        return 0;
    struct slice rest = slice_make(headers.at + skipped, headers.len - skipped);
    const char *end = rest.len ? memchr(rest.at, '\r', rest.len) : NULL;
    rest.len = end ? (size_t)(end - rest.at) : rest.len;
    return text_parse_u64(next_word(&rest), 999, &status) ? (uint32_t)status : 0;
}

/* ---- JSON of the server ---- */

static bool json_object(struct slice text, struct json_value *out)
{
    return json_check(text, out, NULL) && out->kind == JSON_OBJECT;
}

static bool is_true(struct json_value object, const char *name)
{
    return json_member(object, name).kind == JSON_TRUE;
}

/* Returns a member that is a number from 0, or 0. */
static uint64_t number_of(struct json_value object, const char *name)
{
    struct json_value value = json_member(object, name);
    int64_t number = 0;
    return value.kind == JSON_NUMBER && json_number_i64(value.raw, &number) && number > 0
               ? (uint64_t)number
               : 0;
}

bool nats_info_parse(struct slice json, struct nats_server *out)
{
    struct json_value object;
    if (!json_object(json, &object))
        return false;
    *out = (struct nats_server){.max_payload = number_of(object, "max_payload"),
                                .has_headers = is_true(object, "headers"),
                                .needs_tls = is_true(object, "tls_required"),
                                .offers_tls = is_true(object, "tls_available")};
    out->offers_tls = out->offers_tls || out->needs_tls;
    return true;
}

bool nats_ack_parse(struct slice json, struct nats_ack *out)
{
    struct json_value object;
    if (!json_object(json, &object))
        return false;
    struct json_value error = json_member(object, "error");
    *out = (struct nats_ack){.code = (uint32_t)number_of(error, "code"),
                             .error = (uint32_t)number_of(error, "err_code")};
    struct json_value text = json_member(error, "description");
    if (text.kind == JSON_STRING)
        out->description = text.raw;
    out->is_stored = error.kind == JSON_NONE && number_of(object, "seq") > 0 &&
                     json_member(object, "stream").kind == JSON_STRING;
    return out->is_stored || error.kind == JSON_OBJECT;
}

/* ---- writing ---- */

void nats_emit_connect(struct buffer *out, const struct nats_login *login)
{
    buffer_append_text(out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"c\","
                            "\"name\":\"tarry\",\"protocol\":1,\"echo\":false,\"headers\":true,"
                            "\"no_responders\":true");
    buffer_append_text(out, login->is_tls ? ",\"tls_required\":true" : ",\"tls_required\":false");
    json_write_member_text(out, "version", slice_of(login->version));
    if (login->user)
        json_write_member_text(out, "user", slice_of(login->user));
    if (login->password)
        json_write_member_text(out, "pass", slice_of(login->password));
    if (login->token)
        json_write_member_text(out, "auth_token", slice_of(login->token));
    buffer_append_text(out, "}\r\n");
}

void nats_emit_headers_begin(struct buffer *out)
{
    buffer_append_text(out, version_line);
}

void nats_emit_headers_end(struct buffer *out)
{
    buffer_append_text(out, "\r\n");
}

void nats_emit_header(struct buffer *out, struct slice name, struct slice value)
{
    buffer_append_slice(out, name);
    buffer_append_text(out, ": ");
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char)value.at[i];
        buffer_append_byte(out, byte < ' ' || byte == 0x7f ? '?' : value.at[i]);
    }
    buffer_append_text(out, "\r\n");
}

void nats_emit_publish(struct buffer *out, struct slice subject, struct slice reply,
                       struct slice headers, struct slice body)
{
    buffer_append_text(out, "HPUB ");
    buffer_append_slice(out, subject);
    buffer_append_byte(out, ' ');
    buffer_append_slice(out, reply);
    buffer_append_byte(out, ' ');
    buffer_append_u64(out, headers.len);
    buffer_append_byte(out, ' ');
    buffer_append_u64(out, headers.len + body.len);
    buffer_append_text(out, "\r\n");
    buffer_append_slice(out, headers);
    buffer_append_slice(out, body);
    buffer_append_text(out, "\r\n");
}

const char *nats_subject_fault(struct slice subject)
{
    size_t token = 0; /* bytes of the current one */
    for (size_t i = 0; i < subject.len; i++) {
        unsigned char byte = (unsigned char)subject.at[i];
        if (byte <= ' ' || byte == 0x7f)
            return "the subject contains a blank or a control byte";
        if (byte == '*' || byte == '>')
            return "the subject contains '*' or '>'";
        if (byte == '.' && token == 0)
            return "the subject has an empty part between dots";
        token = byte == '.' ? 0 : token + 1;
    }
    return token         ? NULL
           : subject.len ? "the subject has an empty part between dots"
                         : "the subject is empty";
}
