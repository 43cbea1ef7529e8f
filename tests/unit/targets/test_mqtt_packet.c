/* Packets of MQTT 5, and URLs of its brokers. */
#include "targets/mqtt/connection.h"

#include "unit/cases.h"
#include "unit/claim.h"

#define TEXT(LITERAL) LITERAL, sizeof(LITERAL) - 1

static struct mqtt_packet packet;
static size_t used;
static const char *why;

static enum mqtt_read read_bytes(const char *bytes, size_t len)
{
    used = 0;
    why = "";
    return mqtt_packet_read(bytes, len, &packet, &used, &why);
}

CLAIM(an_answer_to_a_login_has_the_limits_of_the_broker)
{
    static const char text[] = "\x20\x16\0\0\x13\x21\0\x0a\x27\0\0\x01\0\x13\0\x3c\x24\0\x12\0\x03"
                               "abc\xd0";
    assert_int_equal(read_bytes(TEXT(text)), MQTT_PACKET);
    assert_int_equal(used, sizeof text - 2);
    assert_int_equal(packet.type, MQTT_CONNACK);
    assert_int_equal(packet.receive_max, 10);
    assert_int_equal(packet.packet_bytes_max, 256);
    assert_int_equal(packet.keep_alive_s, 60);
    assert_true(packet.has_keep_alive && packet.lacks_qos1);
}

CLAIM(an_acknowledgement_may_be_short)
{
    assert_int_equal(read_bytes(TEXT("\x40\x02\x12\x34")), MQTT_PACKET);
    assert_true(packet.id == 0x1234 && packet.reason == 0);
    assert_int_equal(read_bytes(TEXT("\x40\x03\x12\x34\x87")), MQTT_PACKET);
    assert_int_equal(packet.reason, MQTT_NOT_AUTHORIZED);
    assert_int_equal(read_bytes(TEXT("\x40\x0e\x12\x34\x97\x0a\x1f\0\x02no\x26\0\0\0\0")),
                     MQTT_PACKET);
    assert_true(slice_is(packet.remark, "no"));
}

CLAIM(every_part_of_a_packet_is_not_enough)
{
    static const char text[] = "\x40\x09\x12\x34\x97\x05\x1f\0\x02no";
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_int_equal(read_bytes(text, len), MQTT_MORE);
    assert_int_equal(read_bytes(TEXT(text)), MQTT_PACKET);
}

CLAIM(invalid_packets_are_rejected)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *sentence;
    } rows[] = {{TEXT("\x40\x80\x80\x80\x80\x01"), "a length of five bytes"},
                {TEXT("\x40\xff\xff\xff\x7f"), "a length above the limit"},
                {TEXT("\x40\x01\x12"), "half an ID"},
                {TEXT("\x20\x01\0"), "a login without a reason"},
                {TEXT("\x40\x05\x12\x34\x80\x01\x7f"), "an unknown property"},
                {TEXT("\x40\x07\x12\x34\x80\x03\x1f\0\x09"), "a text beyond its end"},
                {TEXT("\x40\x05\x12\x34\x80\x05\x1f"), "properties beyond their end"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].sentence, read_bytes(rows[i].bytes, rows[i].len) == MQTT_BROKEN && *why);
}

CLAIM(a_message_has_its_topic_properties_and_body)
{
    struct buffer properties, out;
    size_t id_at = 0;
    buffer_init(&properties, 100);
    buffer_init(&out, 1000);
    mqtt_emit_expiry(&properties, 0x10203);
    mqtt_emit_pair(&properties, slice_of("a"), slice_of("b"));
    const struct mqtt_message message = {slice_of("t"), buffer_slice(&properties), slice_of("xy")};
    mqtt_emit_publish(&out, &message, &id_at);
    mqtt_set_id(&out, id_at, 0x1234);
    assert_true(
        slice_equals(buffer_slice(&out),
                     slice_make(TEXT("\x32\x14\0\x01t\x12\x34\x0c\x02\0\x01\x02\x03\x26\0\x01"
                                     "a\0\x01"
                                     "bxy"))));
    buffer_fini(&properties);
    buffer_fini(&out);
}

CLAIM(a_login_has_user_and_password)
{
    struct buffer out;
    buffer_init(&out, 1000);
    mqtt_emit_connect(&out, 20, "u", "p");
    assert_true(slice_equals(buffer_slice(&out),
                             slice_make(TEXT("\x10\x18\0\x04MQTT\x05\xc2\0\x14\x05\x27\0\x01\0\0"
                                             "\0\0\0\x01u\0\x01p"))));
    buffer_fini(&out);
}

CLAIM(topics_are_names_without_patterns)
{
    static const char *const good[] = {"a", "/", "a//b", "$x", "grüße 1"};
    static const char *const bad[] = {"", "+", "a/#", "a+", "a\nb"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CASE_HOLDS(good[i], !mqtt_topic_fault(slice_of(good[i])));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CASE_HOLDS(bad[i], mqtt_topic_fault(slice_of(bad[i])));
}

CLAIM(a_url_has_hosts_and_nothing_else)
{
    struct target_places places;
    char error[TARGET_ERROR_BYTES];
    assert_true(mqtt_places_parse(slice_of("mqtts://A.b/"), &places, error));
    assert_int_equal(places.count, 1);
    assert_string_equal(places.at[0].origin, "mqtts://a.b:8883");
    assert_true(mqtt_places_parse(slice_of("mqtt://a,b:7"), &places, error));
    assert_int_equal(places.count, 2);
    assert_string_equal(places.at[1].origin, "mqtt://b:7");
    assert_false(mqtt_places_parse(slice_of("mqtt://a/orders"), &places, error));
    assert_false(mqtt_places_parse(slice_of("mqtt://a?b=c"), &places, error));
    assert_false(mqtt_places_parse(slice_of("nats://a"), &places, error));
}

CLAIMS_MAIN(NULL, NULL)
