/* Lines of events: what is written is read; what is damaged is refused, and nothing behind it is read. */
#include "sql/effect.h"

#include "unit/cases.h"
#include "unit/claim.h"

static const struct job_event whole = {
    .kind = JOB_EVENT_NACKED,
    .way = JOB_WAY_CALLBACK,
    .attempt = 7,
    .due_ms = 1700000000123,
    .lease_until_ms = 1700000000456,
    .count = 3,
    .topic = {.at = "a/b;c", .len = 5},
    .id = {.at = "%41", .len = 3},
    .error = {.at = "100 %\n\xc3\xbc\0x", .len = 10},
};

static struct buffer text, error;

static void begin(void)
{
    buffer_init(&text, 1 << 16);
    buffer_init(&error, SQL_EVENT_BYTES_MAX);
}

static void end(void)
{
    buffer_fini(&text);
    buffer_fini(&error);
}

CLAIM(an_event_survives_writing_and_reading)
{
    struct job_event out;

    begin();
    sql_event_emit(&text, &whole);
    sql_event_emit(&text, &(struct job_event){.kind = JOB_EVENT_SETTINGS, .topic = slice_of("t")});
    struct slice lines = buffer_slice(&text);
    assert_int_equal(sql_event_count(lines), 2);
    assert_true(sql_event_take(&lines, &error, &out));
    assert_int_equal(out.kind, whole.kind);
    assert_int_equal(out.way, whole.way);
    assert_int_equal(out.attempt, whole.attempt);
    assert_int_equal(out.due_ms, whole.due_ms);
    assert_int_equal(out.lease_until_ms, whole.lease_until_ms);
    assert_int_equal(out.count, whole.count);
    assert_true(slice_equals(out.topic, whole.topic));
    assert_true(slice_equals(out.id, whole.id));
    assert_true(slice_equals(out.error, whole.error));
    assert_true(sql_event_take(&lines, &error, &out));
    assert_true(slice_is(out.topic, "t"));
    assert_int_equal(out.id.len + out.error.len, 0);
    assert_false(sql_event_take(&lines, &error, &out));
    end();
}

CLAIM(a_line_never_exceeds_its_declared_length)
{
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX], long_error[2 * JOB_ERROR_BYTES_MAX];
    struct job_event event = {.kind = JOB_EVENT_DEAD,
                              .attempt = UINT32_MAX,
                              .due_ms = 999999999999999999,
                              .lease_until_ms = 999999999999999999,
                              .count = 999999999999999999,
                              .topic = {.at = topic, .len = sizeof topic},
                              .id = {.at = id, .len = sizeof id},
                              .error = {.at = long_error, .len = sizeof long_error}};
    struct job_event out;

    begin();
    memset(topic, 't', sizeof topic);
    memset(id, 'i', sizeof id);
    memset(long_error, ' ', sizeof long_error);
    sql_event_emit(&text, &event);
    assert_in_range(text.len, 1, SQL_EVENT_BYTES_MAX);
    struct slice lines = buffer_slice(&text);
    assert_true(sql_event_take(&lines, &error, &out));
    assert_int_equal(out.error.len, JOB_ERROR_BYTES_MAX);
    end();
}

CLAIM(a_truncated_or_changed_line_is_valid_or_rejected)
{
    begin();
    sql_event_emit(&text, &whole);
    for (size_t i = 0; i < text.len; i++) {
        struct job_event out;
        struct slice cut = slice_make(text.at, i), lines = buffer_slice(&text);
        char before = text.at[i];

        assert_false(sql_event_take(&cut, &error, &out));
        for (const char *byte = "9 \n%\xff-"; *byte; byte++) {
            text.at[i] = *byte;
            lines = buffer_slice(&text);
            if (sql_event_take(&lines, &error, &out))
                assert_in_range(out.kind, JOB_EVENT_PUSHED, JOB_EVENT_KINDS_END - 1);
        }
        text.at[i] = before;
    }
    end();
}

CLAIM(messages_are_cut_between_lines)
{
    size_t count = 0;

    begin();
    for (int i = 0; i < 50; i++)
        sql_event_emit(&text, &whole);
    size_t line = text.len / 50;
    struct slice lines = buffer_slice(&text);
    while (lines.len) {
        struct slice part = sql_event_take_lines(&lines, 3 * line + 1);

        assert_int_equal(part.len, lines.len || count < 48 ? 3 * line : part.len);
        count += sql_event_count(part);
    }
    assert_int_equal(count, 50);
    end();
}

CLAIMS_MAIN(NULL, NULL)
