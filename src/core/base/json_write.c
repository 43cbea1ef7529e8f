#include "base/json_write.h"

#include "base/hex.h"
#include "base/json_scan.h"
#include "base/text.h"
#include "base/timestamp.h"

static void write_escape(struct buffer *out, unsigned char byte)
{
    static const char short_forms[' '] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char escape[6] = {'\\', (char)byte};

    if (byte >= ' ') {
        buffer_append(out, escape, 2);
    } else if (short_forms[byte]) {
        escape[1] = short_forms[byte];
        buffer_append(out, escape, 2);
    } else {
        memcpy(escape + 1, "u00", 3);
        hex_emit_u64(escape + 4, byte, 2);
        buffer_append(out, escape, 6);
    }
}

/* Writes the character at `at`, which is not a plain byte. Returns the position after it. */
static const char *write_special(struct buffer *out, const char *at, const char *end)
{
    unsigned char byte = (unsigned char)*at;

    if (byte < 0x80) {
        write_escape(out, byte);
        return at + 1;
    }
    size_t len = json_utf8_len(at, end);
    if (len == 0) {
        buffer_append_text(out, "\xef\xbf\xbd");
        return at + 1;
    }
    buffer_append(out, at, len);
    return at + len;
}

/* Writes a text without a byte that is escaped, as most are. */
static void write_plain(struct buffer *out, struct slice text)
{
    char *into = buffer_reserve(out, text.len + 2);
    if (!into)
        return;
    into[0] = '"';
    if (text.len)
        memcpy(into + 1, text.at, text.len);
    into[text.len + 1] = '"';
    out->len += text.len + 2;
}

void json_write_string(struct buffer *out, struct slice text)
{
    const char *at = text.len ? text.at : "", *end = at + text.len; /* an empty text may be NULL */
    const char *plain = at;

    at = json_plain_end(at, end);
    if (at == end) {
        write_plain(out, text);
        return;
    }
    buffer_append_byte(out, '"');
    buffer_append(out, plain, (size_t)(at - plain));
    at = write_special(out, at, end);
    while (at < end) {
        plain = at;
        at = json_plain_end(at, end);
        buffer_append(out, plain, (size_t)(at - plain));
        if (at < end)
            at = write_special(out, at, end);
    }
    buffer_append_byte(out, '"');
}

void json_write_string_or_null(struct buffer *out, struct slice text)
{
    if (text.len)
        json_write_string(out, text);
    else
        buffer_append_text(out, "null");
}

void json_write_shown(struct buffer *out, struct slice text)
{
    const char *at = text.len ? text.at : "", *end = at + text.len; /* an empty text may be NULL */
    uint32_t character;

    buffer_append_byte(out, '"');
    while (at < end) {
        unsigned char byte = (unsigned char)*at;
        size_t unshown = text_unshown_bytes(slice_make(at, (size_t)(end - at)), &character);
        bool is_whole = byte < 0x80 || json_utf8_len(at, end) == unshown;
        if (unshown && byte >= 0x7f && is_whole) {
            buffer_append_format(out, "\\u%04x", character);
            at += unshown;
        } else if (json_plain_end(at, at + 1) > at) {
            buffer_append_byte(out, *at++);
        } else {
            at = write_special(out, at, end);
        }
    }
    buffer_append_byte(out, '"');
}

void json_write_key(struct buffer *out, const char *key)
{
    size_t len = strlen(key);
    char *into = buffer_reserve(out, len + 3);
    if (!into)
        return;
    into[0] = '"';
    memcpy(into + 1, key, len);
    memcpy(into + 1 + len, "\":", 2);
    out->len += len + 3;
}

void json_write_member(struct buffer *out, const char *key)
{
    if (out->len && out->at[out->len - 1] != '{')
        buffer_append_byte(out, ',');
    json_write_key(out, key);
}

void json_write_member_text(struct buffer *out, const char *key, struct slice text)
{
    json_write_member(out, key);
    json_write_string(out, text);
}

void json_write_member_number(struct buffer *out, const char *key, uint64_t number)
{
    json_write_member(out, key);
    buffer_append_u64(out, number);
}

void json_write_member_bool(struct buffer *out, const char *key, bool value)
{
    json_write_member(out, key);
    json_write_bool(out, value);
}

void json_write_member_time(struct buffer *out, const char *key, int64_t ms)
{
    json_write_member(out, key);
    if (ms)
        json_write_time(out, ms);
    else
        buffer_append_text(out, "null");
}

void json_write_bool(struct buffer *out, bool value)
{
    buffer_append_text(out, value ? "true" : "false");
}

void json_write_time(struct buffer *out, int64_t ms)
{
    char *into = buffer_reserve(out, TIMESTAMP_BYTES + 2);
    if (!into)
        return;
    into[0] = '"';
    timestamp_write(into + 1, ms);
    into[1 + TIMESTAMP_BYTES] = '"';
    out->len += TIMESTAMP_BYTES + 2;
}

void json_write_base64(struct buffer *out, struct slice bytes)
{
    buffer_append_byte(out, '"');
    text_base64_encode(bytes, out);
    buffer_append_byte(out, '"');
}
