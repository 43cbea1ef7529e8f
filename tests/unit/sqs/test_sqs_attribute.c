/* Message attributes of SQS and ids of messages, against values that Python's own hashlib and uuid gave. */
#include "sqs/message.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>

static struct json_value parse(const char *text)
{
    struct json_value value = {0};
    if (*text)
        assert_true(json_check(slice_of(text), &value, NULL));
    return value;
}

static const char three[] = "{ \"b\":{\"DataType\":\"Binary.x\",\"BinaryValue\":\"AAE=\"},"
                            "\"n\":{\"DataType\":\"Number.int\",\"StringValue\":\"12\"},\n"
                            "\"Z\":{\"DataType\":\"String\",\"StringValue\":\"v\\u00e4\"}}";

CLAIM(the_digest_is_that_of_attributes_by_their_names)
{
    char md5[SQS_MD5_TEXT_BYTES + 1] = "";
    assert_true(sqs_attributes_md5(parse(three), md5));
    assert_string_equal(md5, "25a80c90b4fe757fe2e00db3cf63e229");
    assert_false(sqs_attributes_md5(parse("{}"), md5));
    assert_false(sqs_attributes_md5(parse(""), md5));
    sqs_md5(slice_of(""), md5);
    assert_string_equal(md5, "d41d8cd98f00b204e9800998ecf8427e");
}

CLAIM(attributes_of_any_length_survive_storing)
{
    static char text[SQS_ATTRIBUTES_BYTES_MAX + 1];
    static const size_t lengths[] = {1, 900, 970, 980, 990, 1000, 1010, 1024, 2048, 3400};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        struct buffer meta, back;
        char expected[SQS_MD5_TEXT_BYTES], md5[SQS_MD5_TEXT_BYTES];
        int len = snprintf(text, sizeof text, "{\"a\":{\"DataType\":\"String\",\"StringValue\":\"");
        for (size_t bytes = 0; bytes + 2 <= lengths[i]; bytes += 2)
            len += snprintf(text + len, sizeof text - (size_t)len, "ä");
        snprintf(text + len, sizeof text - (size_t)len, "x\"}}");
        buffer_init(&meta, JOB_META_BYTES_MAX);
        buffer_init(&back, JOB_META_BYTES_MAX);
        assert_true(sqs_attributes_keep(parse(text), &meta));
        sqs_attributes_restore(buffer_slice(&meta), &back);
        assert_true(slice_is(buffer_slice(&back), text));
        assert_true(sqs_attributes_md5(parse(text), expected));
        buffer_append_byte(&back, 0);
        assert_true(sqs_attributes_md5(parse(back.at), md5));
        assert_memory_equal(expected, md5, SQS_MD5_TEXT_BYTES);
        buffer_fini(&meta);
        buffer_fini(&back);
    }
}

CLAIM(names_choose_attributes)
{
    static const struct {
        const char *names, *chosen;
    } cases[] = {
        {"[\"All\"]", "{\"a.x\":{},\"a.y\":{},\"b\":{}}"},
        {"[\"*\"]", "{\"a.x\":{},\"a.y\":{},\"b\":{}}"},
        {"[\".*\"]", "{\"a.x\":{},\"a.y\":{},\"b\":{}}"},
        {"[\"a.*\"]", "{\"a.x\":{},\"a.y\":{}}"},
        {"[\"b\",\"none\"]", "{\"b\":{}}"},
        {"[\"a\"]", ""},
        {"[]", ""},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buffer out;
        buffer_init(&out, 256);
        sqs_attributes_select(parse("{\"a.x\":{},\"a.y\":{},\"b\":{}}"), parse(cases[i].names),
                              &out);
        CASE_HOLDS(cases[i].names, slice_is(buffer_slice(&out), cases[i].chosen));
        buffer_fini(&out);
    }
}

#define STRING(VALUE) "{\"DataType\":\"String\",\"StringValue\":\"" VALUE "\"}"

#define ONE(NAME) "\"" NAME "\":" STRING("x")
#define ELEVEN                                                                                     \
    "{" ONE("0") "," ONE("1") "," ONE("2") "," ONE("3") "," ONE("4") "," ONE("5") "," ONE(         \
        "6") "," ONE("7") "," ONE("8") "," ONE("9") "," ONE("10") "}"

CLAIM(invalid_attributes_are_rejected)
{
    static const struct {
        const char *json, *part;
    } cases[] = {
        {"{\"a b\":" STRING("x") "}", "'a b' is invalid"},
        {"{\"\":" STRING("x") "}", "'' is invalid"},
        {"{\"a\":{\"StringValue\":\"x\"}}", "non-empty message attribute type"},
        {"{\"a\":{\"DataType\":\"Text\",\"StringValue\":\"x\"}}", "supported type prefixes"},
        {"{\"a\":" STRING("") "}", "non-empty message attribute value"},
        {"{\"a\":{\"DataType\":\"Binary\",\"StringValue\":\"x\"}}", "attribute value"},
        {"{\"a\":{\"DataType\":\"Binary\",\"BinaryValue\":\"*\"}}", "cannot be read"},
        {"{\"a\":7}", "cannot be read"},
        {ELEVEN, "maximum [10]"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sqs_error error = {0};
        CASE_HOLDS(cases[i].json, !sqs_attributes_check(parse(cases[i].json), &error));
        CASE_HOLDS(cases[i].json, strstr(error.message, cases[i].part));
    }
    struct sqs_error error = {0};
    assert_true(sqs_attributes_check(parse(three), &error));
}

CLAIM(an_id_is_a_uuid_of_the_same_bits_or_of_version_5)
{
    char id[SQS_MESSAGE_ID_BYTES + 1] = "";
    sqs_message_id(slice_of("orders"), slice_of("01ARZ3NDEKTSV4RRFFQ69G5FAV"), id);
    assert_string_equal(id, "01563e3a-b5d3-d676-4c61-efb99302bd5b");
    sqs_message_id(slice_of("orders"), slice_of("o-1"), id);
    assert_string_equal(id, "c3cf1155-0066-54cf-b4f4-571a112a9e7a");
    sqs_message_id(slice_of("orders"), slice_of("81ARZ3NDEKTSV4RRFFQ69G5FAV"), id);
    assert_int_equal(id[14], '5');
}

CLAIMS_MAIN(NULL, NULL)
