#include "intake/kafka/source.h"
#include "targets/kafka/record.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdlib.h>

/* ---- addresses ---- */

CLAIM(a_source_is_a_url_with_a_topic)
{
    static const char text[] = "KAFKA://A.example,b:9093?from=in.x&to=out&group=g%201&topic=t";
    struct kafka_in_source source;
    char error[INTAKE_ERROR_BYTES];
    assert_true(kafka_in_source_parse(slice_of(text), &source, error));
    assert_string_equal(source.cluster.servers, "a.example:9092,b:9093");
    assert_string_equal(source.from, "in.x");
    assert_string_equal(source.to, "out");
    assert_string_equal(source.group, "g 1");
    assert_string_equal(source.topic, "t");
    assert_true(slice_is(source.place, "KAFKA://A.example,b:9093"));
}

CLAIM(missing_parts_have_defaults)
{
    struct kafka_in_source source;
    char error[INTAKE_ERROR_BYTES];
    assert_true(kafka_in_source_parse(slice_of("kafkas://h?from=orders.delayed"), &source, error));
    assert_string_equal(source.to, "orders");
    assert_string_equal(source.group, "tarry");
    assert_string_equal(source.topic, "kafka-in");
    assert_true(kafka_in_source_parse(slice_of("kafka://h?from=.delayed"), &source, error));
    assert_string_equal(source.to, "");
}

CLAIM(an_invalid_source_is_rejected_with_advice)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"kafka://h", "add ?from=NAME"},
        {"kafka://h?from=", "topic in Kafka"},
        {"kafka://h?from=a/b", "topic in Kafka"},
        {"kafka://h?from=..", "topic in Kafka"},
        {"kafka://h?from=a&to=a", "would return"},
        {"kafka://h?from=a&group=", "consumer group"},
        {"kafka://h?from=a&topic=.x", "name of a topic"},
        {"kafka://h?from=a&queue=q", "unknown parameter"},
        {"kafka://h?from", "NAME=VALUE"},
        {"kafka://h?from=%zz", "percent-encoded"},
        {"kafka://u:p@h?from=a", "policy file"},
        {"kafka://h/path?from=a", "path"},
        {"amqp://h?from=a", "not a URL of kafka or kafkas"},
    };
    struct kafka_in_source source;
    char error[INTAKE_ERROR_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        error[0] = '\0';
        if (kafka_in_source_parse(slice_of(cases[i].text), &source, error) ||
            !strstr(error, cases[i].word))
            fail_msg("'%s': '%s' does not contain '%s'", cases[i].text, error, cases[i].word);
    }
}

/* ---- records in a meta ---- */

static bool drops_none(struct slice name)
{
    (void)name;
    return false;
}

static bool drops_two(struct slice name, void *ctx)
{
    *(int *)ctx += 1;
    return slice_is(name, "two");
}

static void encode(struct buffer *out)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
    rd_kafka_header_add(headers, "one", -1, "\0\xff", 2);
    rd_kafka_header_add(headers, "two", -1, "", 0);
    rd_kafka_header_add(headers, "", -1, NULL, 0);
    const struct kafka_record_parts parts = {.key = slice_make("k\0y", 3), .has_body = false};
    kafka_record_encode(out, &parts, headers, drops_none);
    rd_kafka_headers_destroy(headers);
}

CLAIM(a_record_keeps_bytes_and_missing_values)
{
    struct buffer encoded;
    struct kafka_record_parts parts;
    rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
    const char *name;
    const void *value;
    size_t bytes;
    int seen = 0;
    buffer_init(&encoded, 1024);
    encode(&encoded);
    assert_true(kafka_record_decode(buffer_slice(&encoded), &parts, headers, drops_two, &seen));
    assert_true(slice_equals(parts.key, slice_make("k\0y", 3)) && !parts.has_body);
    assert_int_equal(seen, 3);
    assert_int_equal(rd_kafka_header_get_all(headers, 0, &name, &value, &bytes), 0);
    assert_string_equal(name, "one");
    assert_memory_equal(value, "\0\xff", 2);
    assert_int_equal(rd_kafka_header_get_all(headers, 1, &name, &value, &bytes), 0);
    assert_string_equal(name, "");
    assert_null(value);
    assert_int_not_equal(rd_kafka_header_get_all(headers, 2, &name, &value, &bytes), 0);
    rd_kafka_headers_destroy(headers);
    buffer_fini(&encoded);
}

CLAIM(no_part_of_a_record_and_no_other_byte_is_read_beyond_its_end)
{
    struct buffer encoded;
    buffer_init(&encoded, 1024);
    encode(&encoded);
    for (size_t len = 0; len <= encoded.len; len++)
        for (int spoiled = -1; spoiled < 256; spoiled += 17) {
            struct kafka_record_parts parts;
            char *copy = malloc(len ? len : 1); /* of this size, for the sanitizer */
            int seen = 0;
            memcpy(copy, encoded.at, len);
            if (len && spoiled >= 0)
                copy[len - 1] = (char)spoiled;
            rd_kafka_headers_t *headers = rd_kafka_headers_new(4);
            bool good =
                kafka_record_decode(slice_make(copy, len), &parts, headers, drops_two, &seen);
            assert_true(len == 0 ? !good : seen <= 4);
            rd_kafka_headers_destroy(headers);
            free(copy);
        }
    buffer_fini(&encoded);
}

CLAIMS_MAIN(NULL, NULL)
