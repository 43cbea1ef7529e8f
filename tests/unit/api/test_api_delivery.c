/* Delivery in calls: extensions and callbacks, merge patches, shown settings. */
#include "api/job_json.h"
#include "api/json_shape.h"
#include "api/push.h"
#include "api/settings.h"
#include "http/problem.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- json_shape ---- */

static const char *text_of(struct buffer *buffer)
{
    assert_false(buffer->failed);
    buffer_append_byte(buffer, 0);
    return buffer->at;
}

static struct json_value checked(const char *text)
{
    struct json_value value = {0};
    if (*text)
        assert_true(json_check(slice_of(text), &value, NULL));
    return value;
}

CLAIM(spaces_outside_strings_are_removed)
{
    static const struct {
        const char *sentence, *json, *compact;
    } rows[] = {
        {"nothing to do", "{\"a\":1}", "{\"a\":1}"},
        {"all kinds", " { \"a\" :\t[ 1 ,\r\n 2 ] , \"b\" : null } ", "{\"a\":[1,2],\"b\":null}"},
        {"in strings they stay", "[ \"a b\" , \"c\\\" d\" , \"\\\\\" , \" \" ]",
         "[\"a b\",\"c\\\" d\",\"\\\\\",\" \"]"},
        {"empty", "{ }", "{}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct buffer out;
        buffer_init(&out, 1000);
        json_shape_compact(slice_of(rows[i].json), &out);
        CASE_HOLDS(rows[i].sentence, strcmp(text_of(&out), rows[i].compact) == 0);
        buffer_fini(&out);
    }
}

/* The cases of RFC 7396, appendix A, where target and result are written in our order; then ours.
 */
CLAIM(a_merge_patch_follows_the_rfc)
{
    static const struct {
        const char *sentence, *target, *patch, *result;
    } rows[] = {
        {"a value", "{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"a new member", "{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"null takes away", "{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"only that one", "{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"an array is a value", "{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"also the other way", "{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"objects are merged", "{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}",
         "{\"a\":{\"b\":\"d\"}}"},
        {"arrays are not", "{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"arrays as a whole", "[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
        {"an array for an object", "{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
        {"null as a whole", "{\"a\":\"foo\"}", "null", "null"},
        {"a string as a whole", "{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
        {"a null that was there stays", "{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"an object for an array", "[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"nulls of what is new go", "{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
        {"out of nothing", "", "{\"a\":{\"b\":null,\"c\":1}}", "{\"a\":{\"c\":1}}"},
        {"an empty patch", "{\"a\":1}", "{}", "{\"a\":1}"},
        {"an escaped key", "{\"ab\":1}", "{\"\\u0061b\":2}", "{\"ab\":2}"},
        {"no prefix of a key", "{\"ab\":1}", "{\"a\":2}", "{\"ab\":1,\"a\":2}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct buffer out;
        struct slice twice;
        buffer_init(&out, 1000);
        CASE_HOLDS(rows[i].sentence,
                   json_shape_merge(checked(rows[i].target), checked(rows[i].patch), &out, &twice));
        CASE_HOLDS(rows[i].sentence, strcmp(text_of(&out), rows[i].result) == 0);
        buffer_fini(&out);
    }
}

CLAIM(a_patch_rejects_duplicates_and_excess)
{
    struct buffer out, many;
    struct slice twice;
    buffer_init(&out, 10000);
    assert_false(json_shape_merge(checked("{}"), checked("{\"x\":{\"a\":1,\"b\":2,\"\\u0061\":3}}"),
                                  &out, &twice));
    assert_true(slice_is(twice, "\"\\u0061\""));
    for (int count = JSON_SHAPE_MEMBERS_MAX; count <= JSON_SHAPE_MEMBERS_MAX + 1; count++) {
        buffer_init(&many, 10000);
        for (int i = 0; i < count; i++)
            buffer_append_format(&many, "%c\"m%d\":%d", i ? ',' : '{', i, i);
        buffer_append_byte(&many, '}');
        assert_int_equal(json_shape_merge(checked("{}"), checked(text_of(&many)), &out, &twice),
                         count == JSON_SHAPE_MEMBERS_MAX);
        assert_int_equal(twice.len, 0);
        buffer_fini(&many);
    }
    buffer_fini(&out);
}

/* ---- settings ---- */

CLAIM(settings_read_and_patched_are_shown_as_they_should)
{
    static const char held[] =
        "{\"ttl\":\"1h\", \"max_attempts\":5,\"deliver\":{\"to\": \"https://a/b c\",\"rate\":1},"
        "\"dead_letter\":{ }}";
    static const struct {
        const char *sentence, *patch, *shown, *code;
    } rows[] = {
        {"nothing", "{}",
         "{\"dead_letter_expired\":false,\"ttl\":\"1h\",\"max_attempts\":5,"
         "\"deliver\":{\"to\":\"https://a/b c\",\"rate\":1},\"dead_letter\":{}}",
         NULL},
        {"one setting goes, one comes", "{\"ttl\":null,\"priority\":0}",
         "{\"dead_letter_expired\":false,\"priority\":0,\"max_attempts\":5,"
         "\"deliver\":{\"to\":\"https://a/b c\",\"rate\":1},\"dead_letter\":{}}",
         NULL},
        {"within deliver", "{\"deliver\":{\"max_in_flight\":9,\"rate\":null}}",
         "{\"dead_letter_expired\":false,\"ttl\":\"1h\",\"max_attempts\":5,"
         "\"deliver\":{\"to\":\"https://a/b c\",\"max_in_flight\":9},\"dead_letter\":{}}",
         NULL},
        {"delivery goes", "{\"deliver\":null,\"dead_letter\":null}",
         "{\"dead_letter_expired\":false,\"ttl\":\"1h\",\"max_attempts\":5}", NULL},
        {"one of the two", "{\"deliver\":null}",
         "{\"dead_letter_expired\":false,\"ttl\":\"1h\",\"max_attempts\":5,\"dead_letter\":{}}",
         NULL},
        {"a flag goes back to its default", "{\"dead_letter_expired\":null}",
         "{\"dead_letter_expired\":false,\"ttl\":\"1h\",\"max_attempts\":5,"
         "\"deliver\":{\"to\":\"https://a/b c\",\"rate\":1},\"dead_letter\":{}}",
         NULL},
        {"no object", "[]", NULL, "bad_json"},
        {"no JSON", "{", NULL, "bad_json"},
        {"unknown", "{\"tll\":1}", NULL, "unknown_option"},
        {"a wrong value", "{\"ttl\":\"x\"}", NULL, "bad_option"},
        {"twice", "{\"ttl\":1,\"ttl\":2}", NULL, "option_twice"},
        {"deliver is no object", "{\"deliver\":\"https://a/\"}", NULL, "bad_delivery"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_fields fields = {0};
        struct topic_settings settings;
        struct buffer scratch, extension, merged, again, shown;
        struct http_fault fault = {0};
        buffer_init(&scratch, 10000);
        buffer_init(&extension, 10000);
        buffer_init(&merged, 10000);
        buffer_init(&again, 10000);
        buffer_init(&shown, 10000);
        assert_non_null(buffer_reserve(&scratch, 10000));
        assert_true(api_settings_read(slice_of(held), &fields, &scratch, &extension, &fault));
        api_fields_settings(&fields, &settings);
        settings.extension = buffer_slice(&extension);
        fields = (struct http_fields){0};
        bool good = api_settings_patch(&settings, slice_of(rows[i].patch), &merged, &fault) &&
                    api_settings_read(buffer_slice(&merged), &fields, &scratch, &again, &fault);
        CASE_HOLDS(rows[i].sentence, good == !rows[i].code);
        if (good) {
            api_fields_settings(&fields, &settings);
            settings.extension = buffer_slice(&again);
            api_settings_write(&shown, &settings);
            CASE_HOLDS(rows[i].sentence, strcmp(text_of(&shown), rows[i].shown) == 0);
        } else {
            CASE_HOLDS(rows[i].sentence,
                       strcmp(http_problem_code(fault.problem), rows[i].code) == 0);
        }
        buffer_fini(&scratch);
        buffer_fini(&extension);
        buffer_fini(&merged);
        buffer_fini(&again);
        buffer_fini(&shown);
    }
}

/* ---- extension and callback ---- */

static bool judge(void *ctx, struct slice topic, struct slice extension, char *error)
{
    (void)ctx;
    (void)snprintf(error, HTTP_HOOK_ERROR_BYTES, "'%.*s' of '%.*s'", (int)extension.len,
                   extension.at, (int)topic.len, topic.at);
    return memmem(extension.at, extension.len, "bad", 3) == NULL;
}

static bool evaluate_callback(void *ctx, struct slice url, char *error)
{
    (void)ctx;
    (void)snprintf(error, HTTP_HOOK_ERROR_BYTES, "host is not allowed");
    return url.len && url.at[0] == 'h';
}

static bool write_off(void *ctx)
{
    (void)ctx;
    return false;
}

static const struct http_hooks hooks = {.check_extension = judge,
                                        .check_callback = evaluate_callback};

CLAIM(an_extension_is_kept_short_and_judged_by_the_hooks)
{
    static const struct http_hooks off = {
        .is_on = write_off, .check_extension = judge, .check_callback = evaluate_callback};
    struct http_fault fault;
    struct slice topic = slice_of("t"), bad = slice_of("{\"deliver\":{\"bad\":1}}");
    assert_true(api_extension_check(&hooks, topic, slice_of("{\"deliver\":{}}"), &fault));
    assert_false(api_extension_check(&hooks, topic, bad, &fault));
    assert_string_equal(http_problem_code(fault.problem), "bad_delivery");
    assert_string_equal(fault.detail, "'{\"deliver\":{\"bad\":1}}' of 't'");
    assert_false(api_extension_check(NULL, topic, slice_of("{\"deliver\":{}}"), &fault));
    assert_string_equal(http_problem_code(fault.problem), "delivery_is_off");
    assert_non_null(strstr(fault.detail, "--deliver FILE"));
    assert_false(api_extension_check(&off, topic, slice_of("{\"deliver\":{}}"), &fault));
    assert_string_equal(http_problem_code(fault.problem), "delivery_is_off");
    assert_true(api_extension_check(NULL, topic, slice_of(""), &fault));
}

CLAIM(an_extension_has_a_limit)
{
    for (int over = 0; over <= 1; over++) {
        struct http_fields fields = {0};
        struct buffer json, scratch, extension;
        struct http_fault fault;
        buffer_init(&json, 10000);
        buffer_init(&scratch, 10000);
        buffer_init(&extension, 10000);
        assert_non_null(buffer_reserve(&scratch, 10000));
        buffer_append_text(&json, "{ \"deliver\" : { \"to\" : \"");
        size_t around = strlen("{\"deliver\":{\"to\":\"\"}}");
        for (size_t i = 0; i < TOPIC_EXTENSION_BYTES_MAX - around + (size_t)over; i++)
            buffer_append_byte(&json, 'x');
        buffer_append_text(&json, "\" } }");
        bool good = api_settings_read(buffer_slice(&json), &fields, &scratch, &extension, &fault);
        assert_int_equal(good, !over);
        if (over) {
            assert_int_equal(fault.problem, PROBLEM_BAD_DELIVERY);
            assert_int_equal(fault.limit, TOPIC_EXTENSION_BYTES_MAX);
            assert_non_null(strstr(fault.detail, "4097"));
        } else {
            assert_int_equal(extension.len, TOPIC_EXTENSION_BYTES_MAX);
        }
        buffer_fini(&json);
        buffer_fini(&scratch);
        buffer_fini(&extension);
    }
}

CLAIM(a_callback_is_judged_and_carried_as_meta)
{
    struct buffer meta;
    struct http_fault fault;
    buffer_init(&meta, JOB_META_BYTES_MAX);
    assert_false(api_callback_add(&meta, slice_of("ftp://x"), &hooks, &fault));
    assert_string_equal(http_problem_code(fault.problem), "bad_callback");
    assert_string_equal(fault.detail, "host is not allowed");
    assert_false(api_callback_add(&meta, slice_of("https://x"), NULL, &fault));
    assert_string_equal(http_problem_code(fault.problem), "delivery_is_off");
    assert_false(api_callback_add(&meta, slice_of("h\n"), &hooks, &fault));
    assert_string_equal(http_problem_code(fault.problem), "bad_callback");
    assert_int_equal(meta.len, 0);
    assert_int_equal(job_meta_add(&meta, slice_of("k"), slice_of("v")), JOB_META_OK);
    assert_true(api_callback_add(&meta, slice_of("https://x"), &hooks, &fault));
    assert_int_equal(meta.len, sizeof "k\0v" + sizeof JOB_META_CALLBACK "\0https://x");
    assert_non_null(memmem(meta.at, meta.len, JOB_META_CALLBACK "\0https://x",
                           sizeof JOB_META_CALLBACK "\0https://x"));
    buffer_fini(&meta);
}

/* ---- a job ---- */

CLAIM(a_job_shows_its_callback_and_its_history_as_far_as_it_can_be_read)
{
    char history[JOB_HISTORY_BYTES_MAX * 2];
    struct buffer out;
    struct queue_job job = {
        .job = {.topic = slice_of("t"),
                .id = slice_of("1"),
                .state = JOB_DEAD,
                .attempt = 2,
                .meta = slice_make("a\0b\0tarry-callback\0https://x\0c\0d\0", 33)}};
    size_t len = job_history_add((struct slice){0},
                                 &(struct job_attempt){.attempt = 1,
                                                       .started_ms = 1000,
                                                       .duration_ms = 12,
                                                       .outcome = JOB_OUTCOME_FAILED,
                                                       .error = slice_of("http 500")},
                                 history);
    memset(history + len, 0xff, 5); /* and what cannot be read */
    job.job.history = slice_make(history, len + 5);
    buffer_init(&out, 10000);
    api_job_write(&out, &job, API_VIEW_LISTED);
    const char *text = text_of(&out);
    assert_non_null(strstr(text, "\"meta\":{\"a\":\"b\",\"c\":\"d\"},\"callback\":\"https://x\""));
    assert_non_null(strstr(text, ",\"history\":[{\"attempt\":1,\"at\":\"1970-01-01T00:00:01.000Z\","
                                 "\"duration_ms\":12,\"outcome\":\"failed\",\"error\":\"http "
                                 "500\"}],"));
    struct json_value value;
    assert_true(json_check(slice_of(text), &value, NULL));
    buffer_clear(&out);
    job.job.history = slice_make(history + len, 5);
    api_job_write(&out, &job, API_VIEW_WHOLE);
    text = text_of(&out);
    assert_null(strstr(text, "history"));
    assert_true(json_check(slice_of(text), &value, NULL));
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
