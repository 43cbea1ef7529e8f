#include "base/text.h"

#include "base/hex.h"

#include <string.h>

enum { WORD_CHARS_MAX = 64 };

bool text_is_word(struct slice text, const char *beside)
{
    for (size_t i = 0; i < text.len; i++) {
        char byte = text.at[i];
        if (!text_is_letter(byte) && !text_is_digit(byte) && (!byte || !strchr(beside, byte)))
            return false;
    }
    return true;
}

bool text_parse_u64(struct slice text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (!text_is_digit(text.at[i]))
            return false;
        uint64_t digit = (uint64_t)(text.at[i] - '0');
        if (digit > max || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (text.len == 0)
        return false;
    *out = value;
    return true;
}

bool text_parse_bytes(struct slice text, uint64_t max, uint64_t *out)
{
    static const struct {
        const char *name;
        int shift;
    } units[] = {{"", 0}, {"K", 10}, {"KiB", 10}, {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
    size_t digits = 0;
    uint64_t number;

    while (digits < text.len && text_is_digit(text.at[digits]))
        digits++;
    if (digits == 0)
        return false;
    struct slice unit = slice_make(text.at + digits, text.len - digits);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!slice_is(unit, units[i].name))
            continue;
        if (!text_parse_u64(slice_make(text.at, digits), max >> units[i].shift, &number))
            return false;
        *out = number << units[i].shift;
        return true;
    }
    return false;
}

/* Returns how many bytes the text has once decoded, if all of its escapes are valid. */
static size_t decoded_bytes(struct slice in)
{
    size_t bytes = 0;
    for (size_t i = 0; i < in.len; i++, bytes++)
        if (in.at[i] == '%' && i + 2 < in.len)
            i += 2;
    return bytes;
}

bool text_percent_decode(struct slice in, bool plus_is_space, struct buffer *out)
{
    char *into = buffer_reserve(out, decoded_bytes(in)); /* an escape needs a third of its length */
    if (!into)
        return false;
    char *first = into;

    for (size_t i = 0; i < in.len; i++) {
        char byte = in.at[i];
        if (byte == '%') {
            int high = i + 2 < in.len ? hex_value(in.at[i + 1]) : -1;
            int low = i + 2 < in.len ? hex_value(in.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            byte = (char)(high << 4 | low);
            i += 2;
        } else if (byte == '+' && plus_is_space) {
            byte = ' ';
        }
        *into++ = byte;
    }
    out->len += (size_t)(into - first);
    return true;
}

void text_percent_encode(struct slice in, const char *plain, struct buffer *out)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < in.len; i++) {
        unsigned char byte = (unsigned char)in.at[i];
        if (text_is_unreserved(in.at[i]) || (byte && strchr(plain, byte))) {
            buffer_append_byte(out, in.at[i]);
        } else {
            const char escape[] = {'%', digits[byte >> 4], digits[byte & 15]};
            buffer_append(out, escape, sizeof escape);
        }
    }
}

static int base64_value(char byte)
{
    if (byte >= 'A' && byte <= 'Z')
        return byte - 'A';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 26;
    if (text_is_digit(byte))
        return byte - '0' + 52;
    return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

/* Decodes `count` (2 to 4) characters into count - 1 bytes. */
static bool base64_decode_group(const char *at, size_t count, char *into)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < 4; i++) {
        int value = i < count ? base64_value(at[i]) : 0;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
    }
    for (size_t i = 0; i + 1 < count; i++)
        into[i] = (char)(bits >> (16 - 8 * i));
    uint32_t unread = (UINT32_C(1) << (24 - 8 * (count - 1))) - 1;
    return (bits & unread) == 0;
}

void text_base64_encode(struct slice bytes, struct buffer *out)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = (const unsigned char *)bytes.at;
    size_t groups = bytes.len / 3 + (bytes.len % 3 != 0);
    char *into = bytes.len < SIZE_MAX / 2 ? buffer_reserve(out, groups * 4) : NULL;
    if (!into) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < bytes.len; i += 3, into += 4) {
        size_t left = bytes.len - i;
        uint32_t bits = (uint32_t)from[i] << 16;
        bits |= left > 1 ? (uint32_t)from[i + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)from[i + 2] : 0;
        into[0] = letters[bits >> 18];
        into[1] = letters[bits >> 12 & 63];
        into[2] = left > 1 ? letters[bits >> 6 & 63] : '=';
        into[3] = left > 2 ? letters[bits & 63] : '=';
    }
    out->len += groups * 4;
}

bool text_base64_decode(struct slice in, struct buffer *out)
{
    if (in.len % 4 != 0)
        return false;
    size_t padding = 0;
    while (padding < 2 && padding < in.len && in.at[in.len - 1 - padding] == '=')
        padding++;
    size_t len = in.len / 4 * 3 - padding;
    char *into = buffer_reserve(out, len);
    if (!into)
        return false;

    for (size_t i = 0; i < in.len; i += 4, into += 3) {
        size_t count = i + 4 < in.len ? 4 : 4 - padding;
        if (!base64_decode_group(in.at + i, count, into))
            return false;
    }
    out->len += len;
    return true;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the edit distance. Three rows of the table of distances between prefixes of `a` and `b`
 * are enough: the current one and the two before. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][WORD_CHARS_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= b_len; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[b_len];
}

const char *text_nearest(const char *word, const char *const *candidates)
{
    size_t len = strlen(word);
    if (len > WORD_CHARS_MAX)
        return NULL;
    size_t near = len / 3 > 2 ? len / 3 : 2;
    const char *nearest = NULL;

    for (; *candidates; candidates++) {
        size_t candidate_len = strlen(*candidates);
        if (candidate_len > WORD_CHARS_MAX)
            continue;
        size_t away = distance(word, len, *candidates, candidate_len);
        if (away > near || away >= least(len, candidate_len))
            continue;
        nearest = *candidates;
        /* From here on, only a closer candidate counts. */
        if (away == 0)
            break;
        near = away - 1;
    }
    return nearest;
}

/* ---- characters that a terminal interprets ---- */

/* Decodes a character of 2 or 3 bytes. Returns UINT32_MAX for other characters. */
static uint32_t read_character(const unsigned char *at, size_t len)
{
    if (len >= 2 && (at[0] & 0xe0) == 0xc0)
        return (uint32_t)(at[0] & 0x1f) << 6 | (at[1] & 0x3f);
    if (len >= 3 && (at[0] & 0xf0) == 0xe0)
        return (uint32_t)(at[0] & 0x0f) << 12 | (uint32_t)(at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    return UINT32_MAX;
}

struct slice text_cut(struct slice text, size_t bytes_max)
{
    enum { REST_BYTES_MAX = 3 }; /* of a character behind its first byte */
    size_t len = bytes_max, least = bytes_max > REST_BYTES_MAX ? bytes_max - REST_BYTES_MAX : 0;
    if (text.len <= bytes_max)
        return text;
    while (len > least && ((unsigned char)text.at[len] & 0xc0) == 0x80)
        len--;
    return slice_make(text.at, len);
}

size_t text_unshown_bytes(struct slice text, uint32_t *character)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00, 0x1f},     /* C0 controls */
        {0x7f, 0x9f},     /* DEL, C1 controls */
        {0x61c, 0x61c},   /* ARABIC LETTER MARK */
        {0x200e, 0x200f}, /* direction marks */
        {0x2028, 0x202e}, /* separators, embeddings, overrides */
        {0x2066, 0x206f}, /* isolates, and deprecated marks */
    };
    const unsigned char *at = (const unsigned char *)text.at;
    if (!text.len)
        return 0;
    uint32_t found = *at < 0x80 ? *at : read_character(at, text.len);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (found >= ranges[i].first && found <= ranges[i].last) {
            *character = found;
            return found < 0x80 ? 1 : found < 0x800 ? 2 : 3;
        }
    return 0;
}
