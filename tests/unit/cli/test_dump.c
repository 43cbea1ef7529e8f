/* A job that an export writes is read back as the same job by a batch of pushes. */
#include "cli/dump.h"

#include "api/job_json.h"
#include "api/push.h"
#include "base/json_read.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <string.h>

enum { ROUNDS = 3000 };

static const char *const types[] = {"",
                                    "application/octet-stream",
                                    "text/plain",
                                    "text/plain; charset=utf-8",
                                    "application/json",
                                    "application/json; charset=utf-8",
                                    "application/problem+json",
                                    "text/x+json",
                                    "TEXT/JSON",
                                    "image/png"};

static const char *const bodies[] = {"",
                                     "x",
                                     "\"a\"",
                                     "\"\"",
                                     "{\"a\":1,\"a\":1.0}",
                                     " [1]",
                                     "[1]\n",
                                     "[1,\r2]",
                                     "[1,\n2]",
                                     "[[[[1]]]]",
                                     "12345678901234567890",
                                     "nul",
                                     "null",
                                     "true ",
                                     "\xff",
                                     "\xc3\xbc\xe2\x82\xac",
                                     "\xed\xa0\x80",
                                     "\x01\x1f\"\\/",
                                     "{\"a\":",
                                     "\xe2\x80\xa8",
                                     "a\nb"};

struct random_job {
    struct queue_job job;
    struct buffer meta, body;
    char id[JOB_ID_BYTES_MAX + 1];
};

/* Appends JSON as deep as it may be here, and around it. */
static void append_deep(struct buffer *body, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        buffer_append_byte(body, '[');
    for (size_t i = 0; i < depth; i++)
        buffer_append_byte(body, ']');
}

static void make_body(struct random *random, struct buffer *body)
{
    uint64_t kind = random_below(random, 4);
    if (kind == 0)
        for (uint64_t left = random_below(random, 40); left; left--)
            buffer_append_byte(body, (char)random_below(random, 256));
    else if (kind == 1)
        append_deep(body, 60 + random_below(random, 8));
    else
        buffer_append_text(body, bodies[random_below(random, COUNT_OF(bodies))]);
    if (kind == 2) /* a NUL may be in it */
        buffer_append_byte(body, '\0');
}

static void make_job(struct random *random, struct random_job *out)
{
    struct job *job = &out->job.job;
    *out = (struct random_job){0};
    buffer_init(&out->meta, JOB_META_BYTES_MAX);
    buffer_init(&out->body, 1 << 16);
    size_t id_len = 1 + random_below(random, JOB_ID_BYTES_MAX);
    for (size_t i = 0; i < id_len; i++)
        out->id[i] = (char)(0x21 + random_below(random, 0x7f - 0x21));
    make_body(random, &out->body);
    for (uint64_t i = random_below(random, 3); i; i--)
        job_meta_add(&out->meta, slice_of(i == 1 ? "one" : "two"), slice_of("\xc3\xbc\"\\"));
    job->topic = slice_of("a.topic");
    job->id = slice_make(out->id, id_len);
    job->content_type = slice_of(types[random_below(random, COUNT_OF(types))]);
    job->meta = buffer_slice(&out->meta);
    job->body = buffer_slice(&out->body);
    job->error = slice_of(random_below(random, 2) ? "no \xe2\x82\xac \"left\"" : "");
    job->state = (enum job_state)(1 + random_below(random, 4));
    job->priority = (uint16_t)random_below(random, JOB_PRIORITY_MAX + 1);
    job->attempt = (uint32_t)random_below(random, 3);
    job->due_ms = 1700000000000 + (int64_t)random_below(random, 1000000000000);
    job->lease_until_ms = job->state == JOB_LEASED ? job->due_ms + 7 : 0;
}

static void free_job(struct random_job *job)
{
    buffer_fini(&job->meta);
    buffer_fini(&job->body);
}

static bool same(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static void assert_same(const struct job *job, const struct queue_push *push)
{
    struct slice type =
        job->content_type.len ? job->content_type : slice_of("application/octet-stream");
    assert_true(same(push->topic, job->topic));
    assert_true(same(push->id, job->id));
    assert_true(same(push->body, job->body));
    assert_true(same(push->meta, job->meta));
    assert_true(same(
        push->content_type.len ? push->content_type : slice_of("application/octet-stream"), type));
    assert_int_equal(push->when.due, QUEUE_DUE_AT);
    assert_true(push->when.ms == (job->state == JOB_LEASED ? job->lease_until_ms : job->due_ms));
    assert_int_equal(push->priority, job->priority);
    bool counts = job->state != JOB_LEASED || job->attempt == 0;
    assert_int_equal(push->past.attempt, job->attempt - !counts);
    assert_int_equal(push->past.dead, job->state == JOB_DEAD);
    assert_true(same(push->past.error, job->error));
}

/* The page of a list that holds this job. */
static void write_answer(struct buffer *answer, const struct queue_job *job, const char *cursor)
{
    buffer_append_text(answer, "{\"jobs\":[");
    api_job_write(answer, job, API_VIEW_EXACT);
    buffer_append_format(answer, "],\"cursor\":%s}", cursor);
}

CLAIM(a_job_comes_out_of_a_dump_as_it_went_in)
{
    struct random random = seed_random(__func__);
    struct buffer answer, lines, scratch, arena, meta;
    buffer_init(&answer, 1 << 20);
    buffer_init(&lines, 1 << 20);
    buffer_init(&scratch, 1 << 20);
    buffer_init(&arena, 1 << 20);
    buffer_init(&meta, JOB_META_BYTES_MAX);
    for (int i = 0; i < ROUNDS; i++) {
        struct random_job job;
        struct queue_push push = {0};
        struct http_fault fault = {0};
        struct json_value value;
        struct dump_line line;
        char cursor[DUMP_CURSOR_BYTES_MAX];
        uint64_t jobs = 0;
        make_job(&random, &job);
        buffer_clear(&answer);
        buffer_clear(&lines);
        buffer_clear(&arena);
        buffer_clear(&meta);
        write_answer(&answer, &job.job, "null");
        assert_true(dump_write_page(&lines, buffer_slice(&answer), false, &scratch, &jobs, cursor));
        assert_true(jobs == 1 && cursor[0] == '\0');
        struct slice text = slice_make(lines.at, lines.len - 1);
        assert_int_equal(lines.at[lines.len - 1], '\n');
        assert_null(memchr(text.at, '\n', text.len));
        dump_read(text, &line);
        assert_int_equal(line.kind, DUMP_JOB);
        assert_true(json_check(text, &value, NULL));
        assert_non_null(buffer_reserve(&arena, 2 * text.len + 64));
        if (!api_item_parse(value, &push, NULL, &arena, &meta, NULL, &fault))
            fail_msg("%s: %.*s", fault.detail, (int)text.len, text.at);
        assert_same(&job.job.job, &push);
        free_job(&job);
    }
    buffer_fini(&answer);
    buffer_fini(&lines);
    buffer_fini(&scratch);
    buffer_fini(&arena);
    buffer_fini(&meta);
}

CLAIM(a_content_type_of_other_bytes_can_be_pushed_again)
{
    static const char *const kept[] = {"text/plain; n=\xc3\xa4", "text/plain; n=\xe4\x80"};
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
        struct queue_job job = {.job = {.topic = slice_of("a"),
                                        .id = slice_of("b"),
                                        .content_type = slice_of(kept[i]),
                                        .state = JOB_READY,
                                        .body = slice_of("x")}};
        struct queue_push push = {0};
        struct http_fault fault = {0};
        struct buffer answer, line, scratch, arena, meta;
        struct json_value value;
        char cursor[DUMP_CURSOR_BYTES_MAX];
        uint64_t jobs = 0;
        buffer_init(&answer, 1 << 16);
        buffer_init(&line, 1 << 16);
        buffer_init(&scratch, 1 << 16);
        buffer_init(&arena, 1 << 16);
        buffer_init(&meta, JOB_META_BYTES_MAX);
        write_answer(&answer, &job, "null");
        assert_true(dump_write_page(&line, buffer_slice(&answer), false, &scratch, &jobs, cursor));
        assert_true(json_check(slice_make(line.at, line.len - 1), &value, NULL));
        assert_non_null(buffer_reserve(&arena, 2 * line.len + 64));
        if (!api_item_parse(value, &push, NULL, &arena, &meta, NULL, &fault))
            fail_msg("%s", fault.detail);
        assert_true(slice_is(push.content_type, "text/plain; n=??"));
        buffer_fini(&answer);
        buffer_fini(&line);
        buffer_fini(&scratch);
        buffer_fini(&arena);
        buffer_fini(&meta);
    }
}

CLAIM(lines_are_recognised_by_their_members)
{
    static const struct {
        const char *sentence, *text;
        enum dump_kind kind;
    } rows[] = {
        {"a head", "{\"tarry_export\":1,\"topics\":[\"a\"]}", DUMP_HEAD},
        {"a topic", "{\"topic\":\"a\",\"settings\":{},\"paused\":true}", DUMP_TOPIC},
        {"a job", "{\"topic\":\"a\",\"id\":\"b\"}", DUMP_JOB},
        {"a job whose body looks like a topic", "{\"topic\":\"a\",\"body\":{\"settings\":{}}}",
         DUMP_JOB},
        {"a job with an id that has a cursor", "{\"topic\":\"a\",\"id\":\"b\",\"cursor\":\"c\"}",
         DUMP_JOB},
        {"a finished job",
         "{\"topic\":\"a\",\"id\":\"b\",\"state\":\"finished\",\"outcome\":\"acked\"}",
         DUMP_FINISHED},
        {"a dead job", "{\"topic\":\"a\",\"id\":\"b\",\"state\":\"dead\",\"at\":1}", DUMP_JOB},
        {"a cursor", "{\"topic\":\"a\",\"cursor\":\"c\"}", DUMP_CURSOR},
        {"where finished jobs begin", "{\"topic\":\"a\",\"cursor\":\"\",\"state\":\"finished\"}",
         DUMP_CURSOR},
        {"the end", "{\"tarry_export_end\":1}", DUMP_END},
        {"not even an object", "[1]", DUMP_MALFORMED},
        {"nothing", "", DUMP_MALFORMED},
        {"cut short", "{\"topic\":\"a\",\"id\":\"b", DUMP_MALFORMED},
        {"two on a line", "{\"topic\":\"a\"}{}", DUMP_MALFORMED},
        {"the settings of nobody", "{\"settings\":{}}", DUMP_MALFORMED},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct dump_line line;
        dump_read(slice_of(rows[i].text), &line);
        CASE_HOLDS(rows[i].sentence, line.kind == rows[i].kind);
    }
}

CLAIM(a_head_names_its_topics_and_how_much_is_to_come)
{
    static const struct dump_name names[] = {{"a"}, {"b.c"}, {"d"}};
    struct buffer out;
    struct dump_line line;
    const char *at = NULL;
    char name[JOB_TOPIC_BYTES_MAX + 1];
    buffer_init(&out, 4096);
    const struct dump_contents contents = {.jobs = 42, .has_finished = true};
    dump_write_head(&out, 1700000000000, names, COUNT_OF(names), &contents);
    dump_read(slice_make(out.at, out.len - 1), &line);
    assert_true(line.kind == DUMP_HEAD && line.version == 1 && line.jobs == 42);
    assert_true(line.is_finished);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_true(dump_next_name(line.topics, &at, name));
        assert_string_equal(name, names[i].text);
    }
    assert_false(dump_next_name(line.topics, &at, name));
    buffer_fini(&out);
}

CLAIM(a_page_has_the_cursor_of_the_next_one)
{
    struct random random = seed_random(__func__);
    struct random_job job;
    struct buffer answer, lines, scratch;
    struct dump_line line;
    char cursor[DUMP_CURSOR_BYTES_MAX];
    uint64_t jobs = 0;
    buffer_init(&answer, 1 << 20);
    buffer_init(&lines, 1 << 20);
    buffer_init(&scratch, 1 << 20);
    make_job(&random, &job);
    write_answer(&answer, &job.job, "\"next-1\"");
    assert_true(dump_write_page(&lines, buffer_slice(&answer), false, &scratch, &jobs, cursor));
    assert_string_equal(cursor, "next-1");
    const char *second = (const char *)memchr(lines.at, '\n', lines.len) + 1;
    dump_read(slice_make(second, (size_t)(lines.at + lines.len - second) - 1), &line);
    assert_int_equal(line.kind, DUMP_CURSOR);
    assert_string_equal(line.topic, "a.topic");
    assert_string_equal(line.cursor, "next-1");
    free_job(&job);
    buffer_fini(&answer);
    buffer_fini(&lines);
    buffer_fini(&scratch);
}

CLAIM(an_invalid_page_is_rejected)
{
    static const char *const answers[] = {
        "",
        "[]",
        "{}",
        "{\"jobs\":{}}",
        "{\"jobs\":[1],\"cursor\":null}",
        "{\"jobs\":[{\"topic\":\"a\",\"id\":\"b\",\"due_at\":\"x\"}],\"cursor\":null}",
        "{\"jobs\":[],\"cursor\":\"goes on without a job\"}",
        "{\"jobs\":[]}",
        ("{\"jobs\":[{\"topic\":\"a\",\"id\":\"b\",\"due_at\":\"2026-01-01T00:00:00Z\"}],"
         "\"cursor\":null}")};
    struct buffer lines, scratch;
    buffer_init(&lines, 4096);
    buffer_init(&scratch, 4096);
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        char cursor[DUMP_CURSOR_BYTES_MAX];
        uint64_t jobs = 0;
        CASE_HOLDS(answers[i],
                   !dump_write_page(&lines, slice_of(answers[i]), false, &scratch, &jobs, cursor));
    }
    buffer_fini(&lines);
    buffer_fini(&scratch);
}

CLAIM(line_breaks_of_an_answer_do_not_break_a_line)
{
    struct buffer out;
    char cursor[DUMP_CURSOR_BYTES_MAX];
    uint64_t jobs = 0;

    buffer_init(&out, 1 << 16);
    assert_true(
        dump_write_topic(&out, slice_of("{\"topic\":\"a\",\"settings\":{\"priority\":\n\r7}}")));
    buffer_append_byte(&out, '\0');
    assert_string_equal(out.at,
                        "{\"topic\":\"a\",\"settings\":{\"priority\":  7},\"paused\":false}\n");
    buffer_clear(&out);
    assert_true(dump_write_page(
        &out, slice_of("{\"jobs\":[{\"topic\":\"a\"\n,\"id\":\"1\"}],\"cursor\":null}"), true, NULL,
        &jobs, cursor));
    buffer_append_byte(&out, '\0');
    assert_string_equal(out.at, "{\"topic\":\"a\" ,\"id\":\"1\"}\n");
    assert_int_equal(jobs, 1);
    buffer_fini(&out);
}

CLAIM(a_dump_keeps_callbacks_and_omits_internal_metas)
{
    static const char answer[] =
        "{\"jobs\":[{\"topic\":\"t\",\"id\":\"1\",\"due_at\":\"1970-01-01T00:00:01.000Z\","
        "\"meta\":{\"tarry-dead-delivery\":\"7\",\"a\":\"b\",\"tarry-x\":\"\",\"c\":\"d\"},"
        "\"callback\":\"https://x/\",\"history\":[{\"attempt\":1}],\"body_base64\":\"\"},"
        "{\"topic\":\"t\",\"id\":\"2\",\"due_at\":\"1970-01-01T00:00:01.000Z\","
        "\"meta\":{\"tarry-x\":\"\"},\"body_base64\":\"\"}],\"cursor\":null}";
    static const char expected[] =
        "{\"topic\":\"t\",\"id\":\"1\",\"at\":94694400000,\"callback\":\"https://x/\","
        "\"meta\":{\"a\":\"b\",\"c\":\"d\"},\"body_base64\":\"\"}\n"
        "{\"topic\":\"t\",\"id\":\"2\",\"at\":94694400000,\"meta\":{},\"body_base64\":\"\"}\n";
    struct buffer lines, scratch;
    char cursor[DUMP_CURSOR_BYTES_MAX];
    uint64_t jobs = 0;
    buffer_init(&lines, 4096);
    buffer_init(&scratch, 4096);
    assert_true(dump_write_page(&lines, slice_of(answer), false, &scratch, &jobs, cursor));
    buffer_append_byte(&lines, 0);
    assert_string_equal(lines.at, expected);
    buffer_fini(&lines);
    buffer_fini(&scratch);
}

CLAIMS_MAIN(NULL, NULL)
