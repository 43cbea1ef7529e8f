/* Numbers, sizes, percent escapes, base64 and nearest words. The first byte picks one of them, the
 * rest is its input. */
#include "base/text.h"

#include "base/json_write.h"
#include "claim.h"

#include <ctype.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void try_numbers(struct slice text)
{
    uint64_t number = 7, bytes = 0, again = 0;
    struct buffer written;

    if (text_parse_u64(text, UINT64_MAX, &number)) {
        CLAIM("a bare number is a size", text_parse_bytes(text, UINT64_MAX, &bytes));
        CLAIM("of as many bytes", bytes == number);
        CLAIM("exactly the limit is allowed", text_parse_u64(text, number, &again));
        CLAIM("one less is not", number == 0 || !text_parse_u64(text, number - 1, &again));
        buffer_init(&written, 32);
        buffer_append_u64(&written, number);
        CLAIM("what is written can be read",
              text_parse_u64(buffer_slice(&written), number, &again));
        CLAIM("it is the same", again == number);
        buffer_fini(&written);
    } else {
        CLAIM("refused: nothing is written", number == 7);
    }
    if (text_parse_bytes(text, UINT64_MAX, &bytes)) {
        CLAIM("a size keeps to its limit", text_parse_bytes(text, bytes, &again) && again == bytes);
        CLAIM("one less is too much", bytes == 0 || !text_parse_bytes(text, bytes - 1, &again));
    }
}

static void append_percent_encoded(struct buffer *out, struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (isalnum((unsigned char)bytes.at[i]))
            buffer_append_byte(out, bytes.at[i]);
        else
            buffer_append_format(out, "%%%02X", (unsigned char)bytes.at[i]);
    }
}

static void try_percent(struct slice text)
{
    struct buffer decoded, encoded, again;

    buffer_init(&decoded, text.len);
    buffer_init(&encoded, text.len * 3);
    buffer_init(&again, text.len * 3);
    bool good = text_percent_decode(text, true, &decoded);
    CLAIM("decoding never makes longer", !decoded.failed && decoded.len <= text.len);
    CLAIM("refused: nothing is written", good || decoded.len == 0);

    append_percent_encoded(&encoded, text);
    CLAIM("what is encoded can be decoded",
          text_percent_decode(buffer_slice(&encoded), true, &again));
    CLAIM("it is the same", slice_equals(buffer_slice(&again), text));
    buffer_fini(&decoded);
    buffer_fini(&encoded);
    buffer_fini(&again);
}

static void try_base64(struct slice text)
{
    struct buffer decoded, written;

    buffer_init(&decoded, text.len);
    buffer_init(&written, text.len * 2 + 8);
    if (text_base64_decode(text, &decoded)) {
        json_write_base64(&written, buffer_slice(&decoded));
        CLAIM("there is one way to write bytes in base64",
              slice_equals(slice_make(written.at + 1, written.len - 2), text));
    } else {
        CLAIM("refused: nothing is written", decoded.len == 0);
    }
    buffer_clear(&written);
    buffer_clear(&decoded);
    json_write_base64(&written, text);
    CLAIM("what is written can be read",
          text_base64_decode(slice_make(written.at + 1, written.len - 2), &decoded));
    CLAIM("it is the same", slice_equals(buffer_slice(&decoded), text));
    buffer_fini(&decoded);
    buffer_fini(&written);
}

static void try_nearest(struct slice text)
{
    static const char *const candidates[] = {"--listen", "--data", "take", "topics", "", NULL};
    char word[100];
    size_t len = text.len < sizeof word ? text.len : sizeof word - 1;

    if (len > 0)
        memcpy(word, text.at, len);
    word[len] = '\0';
    const char *nearest = text_nearest(word, candidates);
    for (const char *const *candidate = candidates; *candidate; candidate++)
        if (*candidate[0] && strcmp(word, *candidate) == 0)
            CLAIM("a word is nearest to itself", nearest == *candidate);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len == 0)
        return 0;
    struct slice rest = slice_make(bytes + 1, len - 1);
    switch (bytes[0] & 3) {
    case 0:
        try_numbers(rest);
        break;
    case 1:
        try_percent(rest);
        break;
    case 2:
        try_base64(rest);
        break;
    default:
        try_nearest(rest);
    }
    return 0;
}
