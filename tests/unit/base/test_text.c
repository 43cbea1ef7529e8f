#include "base/text.h"

#include "base/json_write.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#define ROW(LITERAL)                                                                               \
    {                                                                                              \
        LITERAL, sizeof(LITERAL) - 1                                                               \
    }

CLAIM(reads_numbers_up_to_a_limit)
{
    static const struct {
        const char *text;
        uint64_t max;
        bool good;
        uint64_t number;
        const char *sentence;
    } rows[] = {
        {"0", 0, true, 0, "zero, where no more is allowed"},
        {"1", 0, false, 0, "one, where only zero is allowed"},
        {"007", 9, true, 7, "zeroes in front"},
        {"65535", 65535, true, 65535, "exactly the limit"},
        {"65536", 65535, false, 0, "one more"},
        {"18446744073709551615", UINT64_MAX, true, UINT64_MAX, "all 64 bits"},
        {"18446744073709551616", UINT64_MAX, false, 0, "one more than 64 bits"},
        {"99999999999999999999999", UINT64_MAX, false, 0, "digits without end"},
        {"", 9, false, 0, "nothing"},
        {"-1", 9, false, 0, "a sign"},
        {"+1", 9, false, 0, "a plus"},
        {" 1", 9, false, 0, "a blank in front"},
        {"1 ", 9, false, 0, "a blank behind"},
        {"0x1", 9, false, 0, "hexadecimal"},
        {"1.0", 9, false, 0, "a fraction"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t number = 0;
        bool good = text_parse_u64(slice_of(rows[i].text), rows[i].max, &number);
        CASE_HOLDS(rows[i].sentence, good == rows[i].good && number == rows[i].number);
    }
}

CLAIM(reads_sizes)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t bytes;
        const char *sentence;
    } rows[] = {
        {"0", true, 0, "zero"},
        {"1000", true, 1000, "a bare number"},
        {"64K", true, 65536, "K"},
        {"64KiB", true, 65536, "KiB"},
        {"16M", true, 16 << 20, "M"},
        {"16MiB", true, 16 << 20, "MiB"},
        {"4G", true, UINT64_C(4) << 30, "G"},
        {"4GiB", true, UINT64_C(4) << 30, "GiB"},
        {"1024G", true, UINT64_C(1) << 40, "exactly the limit"},
        {"1025G", false, 0, "above the limit"},
        {"18446744073709551615G", false, 0, "a size that overflows"},
        {"17179869184G", false, 0, "a size that overflows to zero"},
        {"", false, 0, "nothing"},
        {"K", false, 0, "a unit without a number"},
        {"64KB", false, 0, "KB: 1000 or 1024?"},
        {"64k", false, 0, "a small k"},
        {"64 K", false, 0, "a blank between"},
        {"-1K", false, 0, "a sign"},
        {"1.5G", false, 0, "a fraction"},
        {"1K1", false, 0, "something behind the unit"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t bytes = 0;
        bool good = text_parse_bytes(slice_of(rows[i].text), UINT64_C(1) << 40, &bytes);
        CASE_HOLDS(rows[i].sentence, good == rows[i].good && bytes == rows[i].bytes);
    }
}

CLAIM(percent_encoding_round_trips)
{
    char bytes[255];
    struct buffer encoded, decoded;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i + 1);
    buffer_init(&encoded, 4096);
    buffer_init(&decoded, 4096);
    text_percent_encode(slice_make(bytes, sizeof bytes), "", &encoded);
    assert_int_equal(encoded.len, 66 + 3 * (sizeof bytes - 66)); /* 26 + 26 + 10 + 4 stay */
    assert_true(text_percent_decode(buffer_slice(&encoded), true, &decoded));
    assert_true(slice_equals(buffer_slice(&decoded), slice_make(bytes, sizeof bytes)));
    buffer_clear(&encoded);
    text_percent_encode(slice_make("a/b c\0%", 7), "/", &encoded);
    assert_true(slice_is(buffer_slice(&encoded), "a/b%20c%00%25"));
    buffer_fini(&encoded);
    buffer_fini(&decoded);
}

CLAIM(decodes_percent_escapes)
{
    static const struct {
        const char *in;
        bool plus_is_space, good;
        struct slice out;
        const char *sentence;
    } rows[] = {
        {"", false, true, ROW(""), "nothing"},
        {"order-1", false, true, ROW("order-1"), "nothing escaped"},
        {"a%20b", false, true, ROW("a b"), "a blank"},
        {"%41%6a%6A", false, true, ROW("Ajj"), "hex digits small and capital"},
        {"%00%ff", false, true, ROW("\0\xff"), "any byte"},
        {"a+b", false, true, ROW("a+b"), "a plus in a path"},
        {"a+b%2B", true, true, ROW("a b+"), "a plus in a query"},
        {"%2541", false, true, ROW("%41"), "decoded once only"},
        {"100%", false, false, ROW(""), "a percent sign at the end"},
        {"100%4", false, false, ROW(""), "half an escape"},
        {"%4g", false, false, ROW(""), "a digit that is not hex"},
        {"%g4", false, false, ROW(""), "a first digit that is not hex"},
        {"% 41", false, false, ROW(""), "a blank in an escape"},
        {"ok%zz", false, false, ROW(""), "good bytes before a bad escape are not kept"},
    };
    struct buffer out;

    buffer_init(&out, 100);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        buffer_clear(&out);
        bool good = text_percent_decode(slice_of(rows[i].in), rows[i].plus_is_space, &out);
        CASE_HOLDS(rows[i].sentence, good == rows[i].good);
        CASE_HOLDS(rows[i].sentence, slice_equals(buffer_slice(&out), rows[i].out));
    }
    buffer_fini(&out);
}

CLAIM(decodes_base64)
{
    static const struct {
        const char *in;
        bool good;
        struct slice out;
        const char *sentence;
    } rows[] = {
        {"", true, ROW(""), "nothing"},
        {"Zg==", true, ROW("f"), "one byte"},
        {"Zm8=", true, ROW("fo"), "two bytes"},
        {"Zm9v", true, ROW("foo"), "three bytes"},
        {"Zm9vYg==", true, ROW("foob"), "four bytes"},
        {"//4A", true, ROW("\xff\xfe\0"), "any byte"},
        {"+/+/", true, ROW("\xfb\xff\xbf"), "both signs"},
        {"Zg", false, ROW(""), "no padding"},
        {"Zg=", false, ROW(""), "half the padding"},
        {"Zm9v=", false, ROW(""), "padding where none belongs"},
        {"Zg==Zg==", false, ROW(""), "padding in the middle"},
        {"Z===", false, ROW(""), "too much padding"},
        {"====", false, ROW(""), "only padding"},
        {"Zh==", false, ROW(""), "bits that nobody reads, of one byte"},
        {"Zm9=", false, ROW(""), "bits that nobody reads, of two"},
        {"Zm9\n", false, ROW(""), "a line break"},
        {"Zm 9", false, ROW(""), "a blank"},
        {"-_-_", false, ROW(""), "the alphabet for URLs"},
        {"Zm=v", false, ROW(""), "padding inside a group"},
    };
    struct buffer out;

    buffer_init(&out, 100);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        buffer_clear(&out);
        CASE_HOLDS(rows[i].sentence,
                   text_base64_decode(slice_of(rows[i].in), &out) == rows[i].good);
        CASE_HOLDS(rows[i].sentence, slice_equals(buffer_slice(&out), rows[i].out));
    }
    buffer_fini(&out);
}

CLAIM(decodes_the_base64_it_writes)
{
    struct random random = seed_random("decodes_the_base64_it_writes");
    struct buffer text, out;
    char bytes[100];

    buffer_init(&text, 1000);
    buffer_init(&out, 1000);
    for (int i = 0; i < 20000; i++) {
        struct slice given = {.at = bytes, .len = random_below(&random, sizeof bytes)};
        for (size_t j = 0; j < given.len; j++)
            bytes[j] = (char)random_next(&random);
        buffer_clear(&text);
        buffer_clear(&out);
        json_write_base64(&text, given);
        assert_true(text_base64_decode(slice_make(text.at + 1, text.len - 2), &out));
        assert_true(slice_equals(buffer_slice(&out), given));
    }
    buffer_fini(&text);
    buffer_fini(&out);
}

CLAIM(a_word_holds_letters_digits_and_the_given_signs)
{
    const char nul[] = {'a', 0, 'b'};
    assert_true(text_is_word(slice_of("aZ09"), ""));
    assert_true(text_is_word(slice_of("a-Z_0.9"), "_-."));
    assert_true(text_is_word(slice_of(""), ""));
    assert_false(text_is_word(slice_of("a-b"), ""));
    assert_false(text_is_word(slice_of("a b"), "_-."));
    assert_false(text_is_word(slice_of("\xc3\xa9"), "_-."));
    assert_false(text_is_word(slice_make(nul, sizeof nul), "_-."));
}

CLAIM(decodes_escapes_into_a_buffer_of_the_decoded_size)
{
    struct buffer out;

    buffer_init(&out, 4);
    assert_true(text_percent_decode(slice_of("%40%40a%40"), false, &out));
    assert_true(slice_is(buffer_slice(&out), "@@a@"));
    buffer_clear(&out);
    assert_false(text_percent_decode(slice_of("%40%40a%40b"), false, &out));
    assert_true(out.failed && out.len == 0);
    buffer_fini(&out);
}

CLAIM(appends_nothing_when_the_buffer_is_full)
{
    struct buffer out;

    buffer_init(&out, 4);
    buffer_append_text(&out, "ab");
    assert_false(text_percent_decode(slice_of("cde"), false, &out));
    assert_true(out.failed && slice_is(buffer_slice(&out), "ab"));
    buffer_clear(&out);
    assert_true(text_base64_decode(slice_of("Zm9vYg=="), &out));
    assert_false(text_base64_decode(slice_of("Zg=="), &out));
    assert_true(out.failed && slice_is(buffer_slice(&out), "foob"));
    buffer_fini(&out);
}

CLAIM(finds_the_word_that_was_meant)
{
    static const char *const candidates[] = {"--listen", "--data", "--store", "--sync", "--help",
                                             "take",     "ack",    "nack",    "go",     NULL};
    static const struct {
        const char *word, *nearest, *sentence;
    } rows[] = {
        {"--lisen", "--listen", "a letter left out"},
        {"--listten", "--listen", "a letter put in"},
        {"--lizten", "--listen", "a letter changed"},
        {"--litsen", "--listen", "two letters swapped"},
        {"--dta", "--data", "a short word"},
        {"--listen", "--listen", "the word itself"},
        {"acj", "ack", "ack is nearer than nack"},
        {"aack", "ack", "of equals the first wins"},
        {"--verbose", NULL, "nothing like it"},
        {"tk", NULL, "all of its letters would have to change"},
        {"x", NULL, "a letter"},
        {"", NULL, "nothing"},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL,
         "longer than any option"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *nearest = text_nearest(rows[i].word, candidates);
        CASE_HOLDS(rows[i].sentence, !nearest == !rows[i].nearest);
        CASE_HOLDS(rows[i].sentence, !nearest || strcmp(nearest, rows[i].nearest) == 0);
    }
}

CLAIM(cuts_between_characters)
{
    static const struct {
        const char *text;
        size_t bytes_max, len;
        const char *sentence;
    } rows[] = {
        {"abc", 3, 3, "it fits"},
        {"abc", 2, 2, "plain letters"},
        {"abc", 0, 0, "nothing is left"},
        {"a\xc3\xa9", 2, 1, "half of two bytes"},
        {"a\xc3\xa9z", 3, 3, "just behind two bytes"},
        {"\xe4\xb8\xad", 2, 0, "a part of the only character"},
        {"ab\xf0\x9f\x98\x80", 5, 2, "three of four bytes"},
        {"ab\xf0\x9f\x98\x80!", 6, 6, "just behind four bytes"},
        {"\x80\x80\x80\x80\x80\x80\x80\x80", 7, 4, "no character at all: up to three bytes less"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct slice cut = text_cut(slice_of(rows[i].text), rows[i].bytes_max);
        CASE_HOLDS(rows[i].sentence, cut.len == rows[i].len);
    }
}

CLAIMS_MAIN(NULL, NULL)
