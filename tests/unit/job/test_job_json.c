/* A job as JSON: what each form shows of a job, and that a line of an export is read as the same job. */
#include "job/json.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <string.h>

#define BODY slice_make("x\xff", 2)

static const char meta[] =
    "a\0b\0tarry-callback\0http://h/\0tarry-dead-delivery\0007\0tarry-pushed\0001";

static struct job full_job(enum job_state state)
{
    return (struct job){
        .topic = slice_of("t"),
        .id = slice_of("1"),
        .content_type = slice_of("text/plain"),
        .meta = slice_make(meta, sizeof meta),
        .body = slice_of("x\"y"),
        .error = slice_of("no"),
        .state = state,
        .priority = 7,
        .attempt = 3,
        .due_ms = 1700000000000,
        .lease_until_ms = 1700000060000,
        .consumer = slice_of("me"),
        .cancel_requested = true,
        .delivery = 9,
        .policy = {.lease_ms = 60000,
                   .ttl_ms = 3600000,
                   .backoff = {.kind = BACKOFF_FIXED, .first_ms = 5000, .max_ms = 5000},
                   .max_attempts = POLICY_ATTEMPTS_NONE}};
}

static struct job plain_job(enum job_state state)
{
    return (struct job){.topic = slice_of("t"),
                        .id = slice_of("1"),
                        .state = state,
                        .priority = 100,
                        .due_ms = 5,
                        .body = BODY};
}

static const struct {
    struct job (*job)(enum job_state state);
    enum job_state state;
    enum job_form form;
    enum job_form_body body;
    const char *json, *why;
} rows[] = {
    {full_job, JOB_LEASED, JOB_FORM_TAKEN, JOB_BODY_SHOWN,
     "{\"topic\":\"t\",\"id\":\"1\",\"lease\":\"L\",\"attempt\":3,\"delivery\":9,"
     "\"due_at\":\"2023-11-14T22:13:20.000Z\",\"lease_until\":\"2023-11-14T22:14:20.000Z\","
     "\"priority\":7,\"content_type\":\"text/plain\",\"meta\":{\"a\":\"b\","
     "\"tarry-dead-delivery\":\"7\"},\"callback\":\"http://h/\",\"body\":\"x\\\"y\"}",
     "a taken job"},
    {full_job, JOB_LEASED, JOB_FORM_KEPT, JOB_BODY_NONE,
     "{\"topic\":\"t\",\"id\":\"1\",\"state\":\"leased\",\"due_at\":\"2023-11-14T22:13:20.000Z\","
     "\"attempt\":3,\"delivery\":9,\"priority\":7,\"lease_until\":\"2023-11-14T22:14:20.000Z\","
     "\"consumer\":\"me\",\"cancel_requested\":true,\"last_error\":\"no\",\"lease_for\":\"1m\","
     "\"ttl\":\"1h\",\"max_attempts\":\"none\",\"backoff\":\"fixed:5s\","
     "\"content_type\":\"text/plain\",\"meta\":{\"a\":\"b\",\"tarry-dead-delivery\":\"7\"},"
     "\"callback\":\"http://h/\"}",
     "a leased job"},
    {full_job, JOB_LEASED, JOB_FORM_SENT, JOB_BODY_SHOWN,
     "{\"topic\":\"t\",\"id\":\"1\",\"attempt\":3,\"due_at\":\"2023-11-14T22:13:20.000Z\","
     "\"priority\":7,\"content_type\":\"text/plain\",\"meta\":{\"a\":\"b\"},\"body\":\"x\\\"y\"}",
     "a job on its way to a target"},
    {full_job, JOB_LEASED, JOB_FORM_EXPORTED, JOB_BODY_EXACT,
     "{\"topic\":\"t\",\"id\":\"1\",\"at\":1700000060000,\"attempt\":2,\"error\":\"no\","
     "\"priority\":7,\"lease_for\":\"1m\",\"ttl\":\"1h\",\"max_attempts\":\"none\","
     "\"backoff\":\"fixed:5s\",\"content_type\":\"text/plain\",\"meta\":{\"a\":\"b\"},"
     "\"callback\":\"http://h/\",\"body_base64\":\"eCJ5\"}",
     "an exported job that is leased"},
    {full_job, JOB_DEAD, JOB_FORM_EXPORTED, JOB_BODY_EXACT,
     "{\"topic\":\"t\",\"id\":\"1\",\"at\":1700000000000,\"attempt\":3,\"state\":\"dead\","
     "\"error\":\"no\",\"priority\":7,\"lease_for\":\"1m\",\"ttl\":\"1h\",\"max_attempts\":"
     "\"none\","
     "\"backoff\":\"fixed:5s\",\"content_type\":\"text/plain\",\"meta\":{\"a\":\"b\"},"
     "\"callback\":\"http://h/\",\"body_base64\":\"eCJ5\"}",
     "an exported job that is dead"},
    {plain_job, JOB_READY, JOB_FORM_KEPT, JOB_BODY_SHOWN,
     "{\"topic\":\"t\",\"id\":\"1\",\"state\":\"ready\",\"due_at\":\"1970-01-01T00:00:00.005Z\","
     "\"attempt\":0,\"delivery\":0,\"priority\":100,\"content_type\":\"application/octet-stream\","
     "\"meta\":{},\"body_base64\":\"eP8=\"}",
     "a job with nothing but a body"},
    {plain_job, JOB_READY, JOB_FORM_EXPORTED, JOB_BODY_EXACT,
     "{\"topic\":\"t\",\"id\":\"1\",\"at\":94694400000,\"priority\":100,\"meta\":{},"
     "\"body_base64\":\"eP8=\"}",
     "an exported job that was due long ago"},
};

CLAIM(each_form_shows_the_members_of_its_rows)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct job job = rows[i].job(rows[i].state);
        struct buffer out;
        buffer_init(&out, 4096);
        job_json_write(&out, &job, slice_of("L"), rows[i].form, rows[i].body);
        buffer_append_byte(&out, '\0');
        if (strcmp(out.at, rows[i].json) != 0)
            fail_msg("%s:\n%s\n%s", rows[i].why, out.at, rows[i].json);
        buffer_fini(&out);
    }
}

struct reading {
    struct buffer line, text, meta;
    struct job_json out;
    bool is_good;
};

static void read_line(struct reading *reading, struct slice line)
{
    struct json_value value;
    buffer_init(&reading->line, 1 << 16);
    buffer_init(&reading->text, 1 << 16);
    buffer_init(&reading->meta, JOB_META_BYTES_MAX);
    buffer_append_slice(&reading->line, line);
    assert_true(json_check(buffer_slice(&reading->line), &value, NULL));
    assert_non_null(buffer_reserve(&reading->text, 2 * line.len + 1));
    reading->is_good = job_json_read(value, &reading->text, &reading->meta, &reading->out);
}

static void reading_fini(struct reading *reading)
{
    buffer_fini(&reading->line);
    buffer_fini(&reading->text);
    buffer_fini(&reading->meta);
}

CLAIM(an_exported_job_is_read_as_it_was)
{
    struct job job = full_job(JOB_DEAD);
    struct reading reading;
    struct buffer line;
    buffer_init(&line, 4096);
    job_json_write(&line, &job, (struct slice){0}, JOB_FORM_EXPORTED, JOB_BODY_EXACT);
    read_line(&reading, buffer_slice(&line));
    const struct job *out = &reading.out.job;
    assert_true(reading.is_good);
    assert_true(reading.out.has_at && reading.out.has_priority && !reading.out.has_delay);
    assert_true(slice_equals(out->topic, job.topic) && slice_equals(out->id, job.id));
    assert_true(slice_equals(out->content_type, job.content_type));
    assert_true(slice_equals(out->body, job.body) && slice_equals(out->error, job.error));
    assert_true(out->state == JOB_DEAD && out->attempt == 3 && out->priority == 7);
    assert_true(out->due_ms == job.due_ms);
    assert_memory_equal(&out->policy, &job.policy, sizeof job.policy);
    assert_true(slice_is(job_meta_find(out->meta, slice_of("a")), "b"));
    assert_true(slice_is(job_meta_find(out->meta, slice_of(JOB_META_CALLBACK)), "http://h/"));
    assert_null(job_meta_find(out->meta, slice_of(JOB_META_PUSHED)).at);
    reading_fini(&reading);
    buffer_fini(&line);
}

static const struct {
    const char *json, *why;
    bool is_good;
} lines[] = {
    {"{}", "nothing", true},
    {"{\"delay\":\"1h\"}", "a delay", true},
    {"{\"delay\":1000}", "a delay in milliseconds", true},
    {"{\"delay\":-1}", "a negative delay", false},
    {"{\"ttl\":\"11y\"}", "a unit that does not exist", false},
    {"{\"priority\":65535}", "the last priority", true},
    {"{\"priority\":65536}", "a priority out of range", false},
    {"{\"priority\":\"7\"}", "a number as a text", false},
    {"{\"max_attempts\":\"none\"}", "unlimited attempts", true},
    {"{\"max_attempts\":\"all\"}", "attempts by another word", false},
    {"{\"backoff\":\"exp:1s..10m\"}", "a backoff", true},
    {"{\"state\":\"dead\"}", "a dead job", true},
    {"{\"state\":\"ready\"}", "a state that follows from the due", false},
    {"{\"on_conflict\":\"keep\"}", "a conflict", true},
    {"{\"on_conflict\":\"drop\"}", "an unknown conflict", false},
    {"{\"meta\":{\"a\":\"b\"}}", "a meta", true},
    {"{\"meta\":{\"A\":\"b\"}}", "a meta with an invalid name", false},
    {"{\"meta\":{\"tarry-x\":\"b\"}}", "a meta of tarry's own", false},
    {"{\"meta\":[]}", "metas that are not an object", false},
    {"{\"body_base64\":\"eP8=\"}", "base64", true},
    {"{\"body_base64\":\"e\"}", "damaged base64", false},
    {"{\"body\":[1]}", "a body of JSON", true},
    {"{\"delivery\":1}", "a member that only answers have", false},
    {"{\"what\":1}", "an unknown member", false},
};

CLAIM(a_line_with_an_unknown_member_or_an_invalid_value_is_rejected)
{
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct reading reading;
        read_line(&reading, slice_of(lines[i].json));
        CASE_HOLDS(lines[i].why, reading.is_good == lines[i].is_good);
        reading_fini(&reading);
    }
}

static const struct {
    const char *json, *type, *body, *why;
} bodies[] = {
    {"{\"body\":\"a\\u0041\"}", "text/plain; charset=utf-8", "aA", "a string is a text"},
    {"{\"body\":[1, 2]}", "application/json", "[1, 2]", "another value is JSON"},
    {"{\"body\":\"a\",\"content_type\":\"x/y+json\"}", "x/y+json", "\"a\"",
     "a string stays JSON if the type is JSON"},
    {"{\"content_type\":\"text/html\",\"body\":\"a\"}", "text/html", "a", "a type of its own"},
};

CLAIM(the_type_decides_the_meaning_of_a_body)
{
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct reading reading;
        read_line(&reading, slice_of(bodies[i].json));
        CASE_HOLDS(bodies[i].why, reading.is_good);
        CASE_HOLDS(bodies[i].why, slice_is(reading.out.job.content_type, bodies[i].type));
        CASE_HOLDS(bodies[i].why, slice_is(reading.out.job.body, bodies[i].body));
        reading_fini(&reading);
    }
}

CLAIM(a_kept_job_becomes_the_line_that_pushes_it_again)
{
    static const char expected[] =
        "{\"topic\":\"t\",\"id\":\"1\",\"at\":1700000060000,\"attempt\":2,\"error\":\"no\","
        "\"priority\":7,\"lease_for\":\"1m\",\"ttl\":\"1h\",\"max_attempts\":\"none\","
        "\"backoff\":\"fixed:5s\",\"callback\":\"http://h/\",\"content_type\":\"text/plain\","
        "\"meta\":{\"a\":\"b\"}";
    struct job job = full_job(JOB_LEASED);
    struct buffer kept, line;
    struct json_value value;
    buffer_init(&kept, 4096);
    buffer_init(&line, 4096);
    job_json_write(&kept, &job, (struct slice){0}, JOB_FORM_KEPT, JOB_BODY_NONE);
    assert_true(json_check(buffer_slice(&kept), &value, NULL));
    assert_true(job_json_export(&line, value));
    buffer_append_byte(&line, '\0');
    assert_string_equal(line.at, expected);
    buffer_fini(&kept);
    buffer_fini(&line);
}

CLAIM(flow_settings_are_read_as_they_are_written)
{
    const struct topic_flow given = {.topic = {5, {10, FREQUENCY_SECOND}, 4},
                                     .group = {1, {90, FREQUENCY_MINUTE}, 2},
                                     .group_max_jobs = 1000,
                                     .group_order = FLOW_STRICT,
                                     .one_shard = true};
    struct topic_flow read = {0};
    struct json_value object, value;
    struct json_cursor cursor = {0};
    struct slice key;
    struct buffer out, text;
    bool is_good;
    buffer_init(&out, 4096);
    buffer_init(&text, 4096);
    assert_non_null(buffer_reserve(&text, 1000));
    job_json_write_flow(&out, &given);
    buffer_append_byte(&out, '}');
    out.at[0] = '{';
    assert_true(json_check(buffer_slice(&out), &object, NULL));
    while (json_next_member(object, &cursor, &key, &value)) {
        is_good = false;
        assert_true(job_json_read_flow(key, value, &text, &read, &is_good));
        assert_true(is_good);
    }
    assert_true(topic_flow_equal(&given, &read));
    buffer_fini(&out);
    buffer_fini(&text);
}

CLAIMS_MAIN(NULL, NULL)
