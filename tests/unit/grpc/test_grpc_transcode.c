/* Messages as the JSON of HTTP, and back. */
#include "grpc/fields.h"
#include "grpc/transcode.h"

#include "unit/claim.h"

#include <string.h>

static struct buffer out, scratch;

static int set_up(void **state)
{
    (void)state;
    buffer_init(&out, 1 << 16);
    buffer_init(&scratch, 1 << 16);
    assert_true(buffer_reserve(&scratch, 1 << 15));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buffer_fini(&out);
    buffer_fini(&scratch);
    return 0;
}

static Tarry__V1__ScheduleSpec *read_spec(const char *json)
{
    struct json_value object;
    assert_true(json_check(slice_of(json), &object, NULL));
    buffer_clear(&out);
    transcode_fields(&out, object, &tarry__v1__schedule_spec__descriptor, &scratch);
    Tarry__V1__ScheduleSpec *spec =
        tarry__v1__schedule_spec__unpack(NULL, out.len, (const uint8_t *)out.at);
    assert_non_null(spec);
    return spec;
}

static void expect_text(const ProtobufCMessage *message, const char *field, const char *json)
{
    struct http_fault fault;
    const char *const without[] = {"no_such_field", field, NULL};
    buffer_clear(&out);
    buffer_append_byte(&out, '{');
    assert_true(transcode_members(&out, message, without, &fault));
    buffer_append_byte(&out, '}');
    buffer_append_byte(&out, '\0');
    assert_string_equal(out.at, json);
}

CLAIM_BETWEEN(each_kind_of_field_is_its_json_and_back, set_up, tear_down)
{
    static const char json[] =
        "{\"name\":\"n\",\"topic\":\"t\",\"cron\":[\"0 2 * * *\",\"@daily\"],\"every\":\"1500ms\","
        "\"start\":\"2026-11-20T09:00:00.001Z\",\"count\":5000000000,\"paused\":true,\"body_"
        "base64\":\"AP8=\",\"content_type\":\"a/b\",\"meta\":{\"k\":\"\\\"\"},\"priority\":0,"
        "\"max_attempts\":\"none\"}";
    Tarry__V1__ScheduleSpec *spec = read_spec(json);
    expect_text(&spec->base, NULL, json);
    tarry__v1__schedule_spec__free_unpacked(spec, NULL);
}

CLAIM_BETWEEN(a_body_may_be_json_and_has_its_type_then, set_up, tear_down)
{
    Tarry__V1__ScheduleSpec *spec = read_spec("{\"cron\":\"@daily\",\"body\":{\"a\":1},\"max_"
                                              "attempts\":3,\"zone\":null,\"new\":[1]}");
    expect_text(&spec->base, NULL,
                "{\"cron\":[\"@daily\"],\"body_base64\":\"eyJhIjoxfQ==\",\"content_type\":"
                "\"application/json\",\"max_attempts\":3}");
    tarry__v1__schedule_spec__free_unpacked(spec, NULL);
}

CLAIM_BETWEEN(values_of_another_kind_are_left_out, set_up, tear_down)
{
    Tarry__V1__ScheduleSpec *spec =
        read_spec("{\"topic\":1,\"every\":7,\"start\":\"soon\",\"count\":\"x\",\"paused\":\"true\","
                  "\"meta\":[],\"cron\":{},\"body_base64\":\"*\",\"end\":{}}");
    expect_text(&spec->base, NULL, "{}");
    tarry__v1__schedule_spec__free_unpacked(spec, NULL);
}

CLAIM_BETWEEN(an_enum_is_its_word, set_up, tear_down)
{
    struct http_fault fault;
    Tarry__V1__PushRequest push = TARRY__V1__PUSH_REQUEST__INIT;
    push.on_conflict = TARRY__V1__ON_CONFLICT__ON_CONFLICT_KEEP;
    push.topic = (char[]){"t"};
    expect_text(&push.base, "topic", "{\"on_conflict\":\"keep\"}");
    push.on_conflict = (Tarry__V1__OnConflict)99;
    assert_false(transcode_members(&out, &push.base, NULL, &fault));
    assert_int_equal(fault.problem, PROBLEM_BAD_OPTION);
}

CLAIM_BETWEEN(an_invalid_time_is_a_fault, set_up, tear_down)
{
    struct http_fault fault;
    Google__Protobuf__Duration duration = GOOGLE__PROTOBUF__DURATION__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Tarry__V1__PushRequest push = TARRY__V1__PUSH_REQUEST__INIT;
    push.delay = &duration;
    duration.nanos = -1;
    assert_false(transcode_members(&out, &push.base, NULL, &fault));
    push.delay = NULL;
    push.at = &time;
    time.seconds = -1;
    assert_false(transcode_members(&out, &push.base, NULL, &fault));
    time.seconds = 0;
    assert_true(transcode_members(&out, &push.base, NULL, &fault));
}

CLAIMS_MAIN(NULL, NULL)
