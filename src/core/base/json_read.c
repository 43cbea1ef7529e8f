/* json_read: walks values that json_check has accepted. The grammar is valid, so only the ends of
 * values must be found. The search never passes the end of the value itself. */
#include "base/json_read.h"

#include "base/hex.h"
#include "base/json_scan.h"

#include <assert.h>

enum { CHARACTER_BYTES_MAX = 4 };

/* Returns the end of a string. `at` is on the opening quote. */
static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end; at += 2) {
        at = json_quote_end(at, end);
        if (at < end && *at == '"')
            return at + 1;
    }
    return end;
}

/* Returns the end of a container. `at` is on the opening bracket. */
static const char *container_end(const char *at, const char *end)
{
    int depth = 0;

    while (at < end) {
        char byte = *at;
        if (byte == '"') {
            at = string_end(at, end);
            continue;
        }
        at++;
        if (byte == '{' || byte == '[')
            depth++;
        else if ((byte == '}' || byte == ']') && --depth == 0)
            break;
    }
    return at;
}

static const char *scalar_end(const char *at, const char *end)
{
    while (at < end && *at != ',' && *at != '}' && *at != ']' && json_space_end(at, at + 1) == at)
        at++;
    return at;
}

/* Takes the value at `at`. Returns the position after it. */
static const char *take_value(const char *at, const char *end, struct json_value *value)
{
    const char *first = at;

    if (*at == '"')
        at = string_end(at, end);
    else if (*at == '{' || *at == '[')
        at = container_end(at, end);
    else
        at = scalar_end(at, end);
    *value = (struct json_value){.kind = json_kind_of(*first),
                                 .raw = slice_make(first, (size_t)(at - first))};
    return at;
}

/* Moves to the next member or item. Returns false at the closing bracket. */
static bool find_next(struct json_value container, struct json_cursor *cursor, const char *end)
{
    const char *at = cursor->at ? cursor->at : container.raw.at + 1;

    at = json_space_end(at, end);
    if (at < end && *at == ',')
        at = json_space_end(at + 1, end);
    cursor->at = at;
    return at < end && *at != '}' && *at != ']';
}

bool json_next_member(struct json_value object, struct json_cursor *cursor, struct slice *key,
                      struct json_value *value)
{
    assert(object.kind == JSON_OBJECT);
    const char *end = object.raw.at + object.raw.len;

    if (!find_next(object, cursor, end))
        return false;
    const char *key_end = string_end(cursor->at, end);
    const char *colon = json_space_end(key_end, end);
    const char *at = json_space_end(colon + 1, end);
    *key = slice_make(cursor->at, (size_t)(key_end - cursor->at));
    cursor->at = take_value(at, end, value);
    return true;
}

bool json_next_item(struct json_value array, struct json_cursor *cursor, struct json_value *item)
{
    assert(array.kind == JSON_ARRAY);
    const char *end = array.raw.at + array.raw.len;

    if (!find_next(array, cursor, end))
        return false;
    cursor->at = take_value(cursor->at, end, item);
    return true;
}

static struct slice without_quotes(struct slice raw)
{
    assert(raw.len >= 2 && raw.at[0] == '"' && raw.at[raw.len - 1] == '"');
    return slice_make(raw.at + 1, raw.len - 2);
}

static uint32_t hex4(const char *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 4 | (uint32_t)hex_value(at[i]);
    return value;
}

static size_t utf8_put(uint32_t point, char into[CHARACTER_BYTES_MAX])
{
    if (point < 0x80) {
        into[0] = (char)point;
        return 1;
    }
    size_t len = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, point >>= 6)
        into[i] = (char)(0x80 | (point & 0x3f));
    /* The first byte begins with as many ones as the sequence has bytes. */
    into[0] = (char)(0xf00 >> len | point);
    return len;
}

/* Writes the bytes of the escape at *at, and moves *at past it. */
static size_t unescape(const char **at, char into[CHARACTER_BYTES_MAX])
{
    static const char letters[] = "bfnrt", controls[] = "\b\f\n\r\t";
    char byte = (*at)[1];

    if (byte != 'u') {
        const char *letter = strchr(letters, byte);
        into[0] = letter ? controls[letter - letters] : byte;
        *at += 2;
        return 1;
    }
    uint32_t point = hex4(*at + 2);
    *at += 6;
    if (point >= 0xd800 && point <= 0xdbff) {
        point = 0x10000 + ((point - 0xd800) << 10) + (hex4(*at + 2) - 0xdc00);
        *at += 6;
    }
    return utf8_put(point, into);
}

bool json_string_is(struct slice raw, const char *text)
{
    struct slice inner = without_quotes(raw);
    const char *at = inner.at, *end = inner.at + inner.len;
    size_t left = strlen(text);

    while (at < end) {
        char character[CHARACTER_BYTES_MAX] = {*at};
        size_t len = 1;
        if (*at == '\\')
            len = unescape(&at, character);
        else
            at++;
        if (len > left || memcmp(text, character, len) != 0)
            return false;
        text += len;
        left -= len;
    }
    return left == 0;
}

struct json_value json_member(struct json_value object, const char *name)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value))
        if (json_string_is(key, name))
            return value;
    return (struct json_value){0};
}

bool json_string_bytes(struct slice raw, struct buffer *scratch, struct slice *out)
{
    struct slice inner = without_quotes(raw);
    const char *end = inner.at + inner.len;
    const char *escape = memchr(inner.at, '\\', inner.len);

    if (!escape) {
        *out = inner;
        return true;
    }
    /* An escape is never shorter than its bytes. */
    char *first = buffer_reserve(scratch, inner.len);
    if (!first)
        return false;
    char *into = first;
    const char *plain = inner.at;
    while (escape) {
        memcpy(into, plain, (size_t)(escape - plain));
        into += escape - plain;
        into += unescape(&escape, into);
        plain = escape;
        escape = memchr(plain, '\\', (size_t)(end - plain));
    }
    memcpy(into, plain, (size_t)(end - plain));
    into += end - plain;
    scratch->len += (size_t)(into - first);
    *out = slice_make(first, (size_t)(into - first));
    return true;
}

bool json_number_i64(struct slice raw, int64_t *out)
{
    bool negative = raw.len > 0 && raw.at[0] == '-';
    uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    uint64_t value = 0;

    for (size_t i = negative; i < raw.len; i++) {
        if (raw.at[i] < '0' || raw.at[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(raw.at[i] - '0');
        if (value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (raw.len == (size_t)negative)
        return false;
    /* Negated as unsigned, because the lowest value has no positive counterpart. */
    *out = (int64_t)(negative ? 0 - value : value);
    return true;
}
