/* JSON read and written: tables, then jansson as the judge over thousands of damaged documents. */
#include "base/json_levels.h"
#include "base/json_read.h"
#include "base/json_write.h"

#include "judge_jansson.h"
#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/mutate.h"
#include "unit/seed.h"

#define BYTES(LITERAL)                                                                             \
    {                                                                                              \
        LITERAL, sizeof(LITERAL) - 1                                                               \
    }

CLAIM(accepts_the_texts_of_rfc8259)
{
    static const struct {
        struct slice text;
        enum json_kind kind;
        const char *sentence;
    } rows[] = {
        {BYTES("null"), JSON_NULL, "null alone"},
        {BYTES(" true\r\n\t "), JSON_TRUE, "white space around"},
        {BYTES("false"), JSON_FALSE, "false"},
        {BYTES("0"), JSON_NUMBER, "zero"},
        {BYTES("-0"), JSON_NUMBER, "minus zero"},
        {BYTES("-12.50e+03"), JSON_NUMBER, "all parts of a number"},
        {BYTES("1E5"), JSON_NUMBER, "a capital exponent"},
        {BYTES("\"\""), JSON_STRING, "an empty string"},
        {BYTES("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\""), JSON_STRING, "every escape"},
        {BYTES("\"\\ud83d\\ude00\""), JSON_STRING, "a surrogate pair"},
        {BYTES("\"\\u0000\""), JSON_STRING, "an escaped NUL"},
        {BYTES("\"\x7f\""), JSON_STRING, "DEL is no control byte here"},
        {BYTES("\"\xc2\x80\xe0\xa0\x80\xf0\x90\x80\x80\""), JSON_STRING,
         "the least of each length"},
        {BYTES("\"\xdf\xbf\xef\xbf\xbf\xf4\x8f\xbf\xbf\""), JSON_STRING, "the greatest of each"},
        {BYTES("\"\xed\x9f\xbf\xee\x80\x80\""), JSON_STRING, "what surrounds the surrogates"},
        {BYTES("[]"), JSON_ARRAY, "an empty array"},
        {BYTES("[ ]"), JSON_ARRAY, "an array of white space"},
        {BYTES("{}"), JSON_OBJECT, "an empty object"},
        {BYTES("{\"a\":1,\"a\":2}"), JSON_OBJECT, "a key twice"},
        {BYTES("[[],{},[{}],{\"\":[]}]"), JSON_ARRAY, "empties within"},
        {BYTES(" { \"a\" : [ 1 , 2 ] , \"b\" : { } } "), JSON_OBJECT, "white space everywhere"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json_value value;
        CASE_HOLDS(rows[i].sentence, json_check(rows[i].text, &value, NULL));
        CASE_HOLDS(rows[i].sentence, value.kind == rows[i].kind);
    }
}

CLAIM(rejects_other_texts_with_their_position)
{
    static const struct {
        struct slice text;
        size_t error_at;
        const char *sentence;
    } rows[] = {
        {BYTES(""), 0, "nothing"},
        {BYTES("  "), 2, "only white space"},
        {BYTES("nul"), 3, "half a literal"},
        {BYTES("nulL"), 3, "a misspelt literal"},
        {BYTES("nullx"), 4, "something behind a literal"},
        {BYTES("1 2"), 2, "two values"},
        {BYTES("01"), 1, "a zero in front"},
        {BYTES("-"), 1, "a sign alone"},
        {BYTES("+1"), 0, "a plus"},
        {BYTES(".5"), 0, "no whole"},
        {BYTES("1."), 2, "no fraction"},
        {BYTES("1e"), 2, "no exponent"},
        {BYTES("1e+"), 3, "a sign for an exponent"},
        {BYTES("0x10"), 1, "hexadecimal"},
        {BYTES("NaN"), 0, "no number"},
        {BYTES("'a'"), 0, "single quotes"},
        {BYTES("\"abc"), 4, "an open string"},
        {BYTES("\"a\tb\""), 2, "a tab in a string"},
        {BYTES("\"a\0b\""), 2, "a NUL in a string"},
        {BYTES("\"\\x\""), 2, "an escape there is not"},
        {BYTES("\"\\"), 2, "an open escape"},
        {BYTES("\"\\u12g4\""), 5, "an escape that is not hex"},
        {BYTES("\"\\u12"), 5, "an escape cut short"},
        {BYTES("\"\\ud800\""), 3, "the first half of a pair"},
        {BYTES("\"\\udc00\""), 3, "the second half of a pair"},
        {BYTES("\"\\ud800\\u0041\""), 3, "a first half and something else"},
        {BYTES("\"abcdefg\x80\""), 8, "a continuation byte alone"},
        {BYTES("\"\xc0\x80\""), 1, "an overlong NUL"},
        {BYTES("\"\xe0\x9f\xbf\""), 1, "an overlong form of three"},
        {BYTES("\"\xf0\x8f\xbf\xbf\""), 1, "an overlong form of four"},
        {BYTES("\"\xed\xa0\x80\""), 1, "a surrogate in UTF-8"},
        {BYTES("\"\xf4\x90\x80\x80\""), 1, "above U+10FFFF"},
        {BYTES("\"\xe2\x82\""), 1, "a sequence cut short by a quote"},
        {BYTES("\"\xe2\x82"), 1, "a sequence cut short by the end"},
        {BYTES("\xef\xbb\xbf[]"), 0, "a byte order mark"},
        {BYTES("["), 1, "an open array"},
        {BYTES("]"), 0, "an end without a beginning"},
        {BYTES("[1,]"), 3, "a trailing comma"},
        {BYTES("[,1]"), 1, "a leading comma"},
        {BYTES("[1 2]"), 3, "no comma"},
        {BYTES("[1}"), 2, "brackets that do not match"},
        {BYTES("{\"a\":1]"), 6, "braces that do not match"},
        {BYTES("{\"a\":1,}"), 7, "a trailing comma in an object"},
        {BYTES("{\"a\"}"), 4, "a key without a value"},
        {BYTES("{\"a\":}"), 5, "a colon without a value"},
        {BYTES("{a:1}"), 1, "a key without quotes"},
        {BYTES("{1:1}"), 1, "a key that is a number"},
        {BYTES("{\"a\" 1}"), 5, "no colon"},
        {BYTES("[1,\"a\":2]"), 6, "a member in an array"},
        {BYTES("[] // done"), 3, "a comment"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct json_value value = {0};
        size_t error_at = 999;
        CASE_HOLDS(rows[i].sentence, !json_check(rows[i].text, &value, &error_at));
        if (error_at != rows[i].error_at)
            fail_msg("%s: fault at %zu", rows[i].sentence, error_at);
        CASE_HOLDS(rows[i].sentence, value.kind == JSON_NONE);
    }
}

/* Arrays and objects in turn; the innermost is empty. */
static void append_nested(struct buffer *out, int depth)
{
    for (int i = 0; i < depth; i++)
        buffer_append_text(out, i % 2 ? "[" : i == depth - 1 ? "{" : "{\"a\":");
    for (int i = depth - 1; i >= 0; i--)
        buffer_append_text(out, i % 2 ? "]" : "}");
}

CLAIM(rejects_deep_nesting)
{
    struct buffer text;
    struct json_value value;
    size_t error_at = 0;

    buffer_init(&text, 1 << 21);
    append_nested(&text, JSON_DEPTH_MAX);
    assert_true(json_check(buffer_slice(&text), &value, NULL));
    buffer_clear(&text);
    append_nested(&text, JSON_DEPTH_MAX + 1);
    assert_false(json_check(buffer_slice(&text), &value, NULL));
    buffer_clear(&text);
    for (int i = 0; i < 1000000; i++)
        buffer_append_byte(&text, '[');
    assert_false(json_check(buffer_slice(&text), &value, &error_at));
    assert_int_equal(error_at, JSON_DEPTH_MAX);
    buffer_fini(&text);
}

CLAIM(hands_out_members_byte_for_byte)
{
    static const char text[] = "{ \"id\" : \"a\\\"}b\" ,\"n\":-1.50,\"o\":{ \"x\":[1,{}] },"
                               "\"l\":[ 1 ,2],\"t\":true , \"\":null}";
    static const struct {
        const char *key, *raw;
        enum json_kind kind;
    } rows[] = {
        {"id", "\"a\\\"}b\"", JSON_STRING},
        {"n", "-1.50", JSON_NUMBER},
        {"o", "{ \"x\":[1,{}] }", JSON_OBJECT},
        {"l", "[ 1 ,2]", JSON_ARRAY},
        {"t", "true", JSON_TRUE},
        {"", "null", JSON_NULL},
    };
    struct json_value object, value;
    struct json_cursor cursor = {0};
    struct slice key;

    assert_true(json_check(slice_of(text), &object, NULL));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_true(json_next_member(object, &cursor, &key, &value));
        CASE_HOLDS(rows[i].key, json_string_is(key, rows[i].key));
        CASE_HOLDS(rows[i].key, slice_is(value.raw, rows[i].raw));
        CASE_HOLDS(rows[i].key, value.kind == rows[i].kind);
    }
    assert_false(json_next_member(object, &cursor, &key, &value));
    assert_false(json_next_member(object, &cursor, &key, &value));
}

CLAIM(finds_the_first_member_of_a_name)
{
    struct json_value object = {0};
    assert_int_equal(json_member(object, "a").kind, JSON_NONE);
    assert_true(json_check(slice_of("{\"ab\":1,\"\\u0061\":2,\"a\":3,\"n\":null}"), &object, NULL));
    assert_true(slice_is(json_member(object, "a").raw, "2"));
    assert_int_equal(json_member(object, "n").kind, JSON_NULL);
    assert_int_equal(json_member(object, "b").kind, JSON_NONE);
    assert_int_equal(json_member(json_member(object, "ab"), "a").kind, JSON_NONE);
}

CLAIM(compares_strings_after_unescaping)
{
    static const struct {
        const char *raw, *text;
        bool same;
    } rows[] = {
        {"\"topic\"", "topic", true},
        {"\"topic\"", "topics", false},
        {"\"topics\"", "topic", false},
        {"\"\"", "", true},
        {"\"to\\u0070ic\"", "topic", true},
        {"\"to\\u0070i\"", "topic", false},
        {"\"\\u00e9\"", "\xc3\xa9", true},
        {"\"\\u20ac\"", "\xe2\x82\xac", true},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", true},
        {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98", false},
        {"\"a\\u0000\"", "a", false},
        {"\"\\/\\n\"", "/\n", true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].raw,
                   json_string_is(slice_of(rows[i].raw), rows[i].text) == rows[i].same);
}

CLAIM(copies_only_strings_with_escapes)
{
    static const char plain[] = "\"caf\xc3\xa9\"",
                      escaped[] = "\"\\b\\f\\n\\r\\t\\\"\\\\\\/x\\u0000y\"";
    struct buffer scratch;
    struct slice bytes;

    buffer_init(&scratch, 100);
    assert_true(json_string_bytes(slice_of(plain), &scratch, &bytes));
    assert_ptr_equal(bytes.at, plain + 1);
    assert_int_equal(scratch.len, 0);
    assert_true(json_string_bytes(slice_of(escaped), &scratch, &bytes));
    assert_true(slice_equals(bytes, slice_make("\b\f\n\r\t\"\\/x\0y", 11)));
    scratch.bytes_max = scratch.len;
    assert_false(json_string_bytes(slice_of(escaped), &scratch, &bytes));
    buffer_fini(&scratch);
}

CLAIM(reads_whole_numbers_that_fit)
{
    static const struct {
        const char *raw;
        bool fits;
        int64_t number;
    } rows[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"-17", true, -17},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999999", false, 0},
        {"1.0", false, 0},
        {"1e2", false, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t number = 0;
        CASE_HOLDS(rows[i].raw, json_number_i64(slice_of(rows[i].raw), &number) == rows[i].fits);
        CASE_HOLDS(rows[i].raw, number == rows[i].number);
    }
}

CLAIM(escapes_special_characters)
{
    struct buffer out;

    buffer_init(&out, 1000);
    buffer_append_byte(&out, '{');
    json_write_key(&out, "due_at");
    json_write_time(&out, 1795165200000);
    buffer_append_byte(&out, ',');
    json_write_key(&out, "body_base64");
    json_write_base64(&out, slice_make("\xff\xfe\0ab", 5));
    buffer_append_byte(&out, ',');
    json_write_key(&out, "error");
    json_write_string(&out, slice_make("\"\\/\b\f\n\r\t\x01\x1f\x7f \xc3\xa9 \xff\xe2\x82", 18));
    buffer_append_byte(&out, '}');
    assert_true(slice_is(buffer_slice(&out),
                         "{\"due_at\":\"2026-11-20T09:00:00.000Z\",\"body_base64\":\"//4AYWI=\","
                         "\"error\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f \xc3\xa9 "
                         "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}"));
    buffer_fini(&out);
}

CLAIM(members_are_separated_by_commas)
{
    struct buffer out;

    buffer_init(&out, 1000);
    buffer_append_byte(&out, '{');
    json_write_member_text(&out, "text", slice_of("{"));
    json_write_member(&out, "inner");
    buffer_append_byte(&out, '{');
    json_write_member_number(&out, "number", UINT64_MAX);
    buffer_append_byte(&out, '}');
    json_write_member_number(&out, "none", 0);
    buffer_append_byte(&out, '}');
    assert_true(slice_is(buffer_slice(&out), "{\"text\":\"{\",\"inner\":{\"number\":"
                                             "18446744073709551615},\"none\":0}"));
    buffer_fini(&out);
}

/* At every place in a word, and with every byte. */
CLAIM(finds_the_one_byte_that_is_not_plain)
{
    for (size_t at = 1; at < 30; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[32];
            struct json_value value;
            size_t error_at = 0;
            memset(text, 'x', sizeof text);
            text[0] = text[31] = '"';
            text[at] = (char)byte;
            bool plain = byte >= ' ' && byte < 0x80 && byte != '"' && byte != '\\';
            assert_int_equal(json_check(slice_make(text, sizeof text), &value, &error_at), plain);
            if (!plain)
                assert_int_equal(error_at, byte == '"' || byte == '\\' ? at + 1 : at);
        }
    }
}

CLAIM(reads_back_any_bytes_it_wrote)
{
    struct random random = seed_random("reads_back_any_bytes_it_wrote");
    struct buffer out, scratch;

    buffer_init(&out, 4096);
    buffer_init(&scratch, 4096);
    for (int i = 0; i < 20000; i++) {
        char bytes[64];
        struct json_value value;
        struct slice read = {.len = random_below(&random, sizeof bytes), .at = bytes}, again;
        uint64_t mask = random_below(&random, 2) ? 0x7f : 0xff;
        for (size_t j = 0; j < read.len; j++)
            bytes[j] = (char)(random_next(&random) & mask);
        buffer_clear(&out);
        buffer_clear(&scratch);
        json_write_string(&out, read);
        assert_true(json_check(buffer_slice(&out), &value, NULL));
        assert_true(json_string_bytes(value.raw, &scratch, &again));
        if (json_utf8_is_valid(read))
            assert_true(slice_equals(read, again));
        else
            assert_non_null(memmem(again.at, again.len, "\xef\xbf\xbd", 3));
    }
    buffer_fini(&out);
    buffer_fini(&scratch);
}

static const char *const documents[] = {
    "{\"topic\":\"orders\",\"id\":\"order-1\",\"delay\":\"30m\",\"body\":{\"amount\":12.50,"
    "\"paid\":false}}",
    "[{\"a\":[1,2,3,{\"b\":null}]},[],{},\"x\",-1.5e-3,true]",
    "\"\\u00e9\\ud83d\\ude00\\n\\\\ \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
    "{\"\":{\"\":{\"\":[[[[[[[0]]]]]]]}}}",
    "[0,-0,1,-1,9223372036854775807,1e10,0.1,1E-2,10]",
    " [ \"a\" , \"b\\\"c\" ,\t{ \"k\" : \"v\" }\r\n] ",
    "{\"leases\":[\"abc\",\"def\"],\"wait\":\"1h30m\",\"long\":"
    "\"abcdefghijklmnopqrstuvwxyz0123456789\"}",
};

CLAIM(agrees_with_jansson_on_damaged_documents)
{
    struct random random = seed_random("agrees_with_jansson_on_damaged_documents");
    const struct slice palette = slice_of("{}[]\",:\\u0123456789dDeE+-.ntfb /\xc3\xa9\xed\xa0\x80");
    struct buffer text;
    int decisions[4] = {0};

    buffer_init(&text, 4096);
    for (int i = 0; i < 60000; i++) {
        buffer_clear(&text);
        buffer_append_text(&text, documents[random_below(&random, COUNT_OF(documents))]);
        for (uint64_t rounds = 1 + random_below(&random, 3); rounds > 0; rounds--)
            mutate_once(&text, &random, palette);
        struct json_value value;
        json_t *tree;
        enum decision decision = judge_json(buffer_slice(&text), &tree);
        bool ours = json_check(buffer_slice(&text), &value, NULL);
        decisions[decision]++;
        if ((decision == DECISION_YES && (!ours || !judge_same(value, tree))) ||
            (decision == DECISION_NO && ours))
            fail_msg("judged %d, ours %d: %.*s", decision, ours, (int)text.len, text.at);
        json_decref(tree);
    }
    buffer_fini(&text);
    assert_true(decisions[DECISION_YES] > 1000 && decisions[DECISION_NO] > 1000);
}

/* Checks a text in pieces of `bytes`, each piece in a copy of its own. Returns the number of pieces. */
static int check_in_pieces(struct slice text, int levels, size_t bytes, enum json_finding *finding,
                           size_t *end)
{
    struct json_scan scan = {0};
    int pieces = 0;
    do {
        char *copy = test_malloc(text.len + 1);
        memcpy(copy, text.at, text.len);
        *finding = json_scan_some(&scan, slice_make(copy, text.len), levels, bytes, end);
        pieces++;
        test_free(copy);
    } while (*finding == JSON_UNFINISHED);
    return pieces;
}

CLAIM(a_check_in_pieces_finds_the_same_as_a_whole_one)
{
    struct random random = seed_random("a_check_in_pieces_finds_the_same_as_a_whole_one");
    const struct slice palette = slice_of("{}[]\",:\\u0123456789dDeE+-.ntfb /\xc3\xa9\xed\xa0\x80");
    struct buffer text;
    int found[JSON_UNFINISHED] = {0}, paused = 0;

    buffer_init(&text, 4096);
    for (int i = 0; i < 10000; i++) {
        buffer_clear(&text);
        buffer_append_text(&text, documents[random_below(&random, COUNT_OF(documents))]);
        for (uint64_t rounds = random_below(&random, 3); rounds > 0; rounds--)
            mutate_once(&text, &random, palette);
        int levels = 1 + (int)random_below(&random, 8);
        size_t whole_end, end;
        enum json_finding finding,
            whole = json_check_first(buffer_slice(&text), levels, &whole_end);
        paused += check_in_pieces(buffer_slice(&text), levels, 1 + random_below(&random, 9),
                                  &finding, &end) > 1;
        found[finding]++;
        if (finding != whole || end != whole_end)
            fail_msg("whole %d at %zu, pieces %d at %zu: %.*s", whole, whole_end, finding, end,
                     (int)text.len, text.at);
    }
    buffer_fini(&text);
    assert_true(paused > 1000);
    assert_true(found[JSON_SOUND] > 500 && found[JSON_TOO_DEEP] > 500 &&
                found[JSON_MALFORMED] > 500);
}

/* Fills with `unit` again and again, behind `begin`. */
static void fill_with(struct buffer *text, const char *begin, const char *unit)
{
    buffer_clear(text);
    buffer_append_text(text, begin);
    while (text->len < 1 << 20)
        buffer_append_text(text, unit);
}

CLAIM(a_long_value_is_checked_in_short_pieces)
{
    static const struct {
        const char *begin, *unit;
    } values[] = {{"[", "1,"},        {"", "["},
                  {"[\"", "\\u00e9"}, {"\"", "\xe2\x82\xac"},
                  {"{\"", "\\n"},     {"[[[", "{\"a\":[\"]\"]},"}};
    const size_t piece = 1 << 16;
    struct buffer text;

    buffer_init(&text, 1 << 21);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        struct json_scan scan = {0};
        size_t before = 0, end = 0;
        fill_with(&text, values[i].begin, values[i].unit);
        while (json_scan_some(&scan, buffer_slice(&text), 3, piece, &end) == JSON_UNFINISHED) {
            assert_true(end >= before + piece && end < before + piece + 32);
            before = end;
        }
        assert_true(before > text.len - 2 * piece);
    }
    buffer_fini(&text);
}

CLAIMS_MAIN(NULL, NULL)
