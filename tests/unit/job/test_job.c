/* States, names and meta. */
#include "job/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void every_state_has_a_name_that_parses(void **unused)
{
    (void)unused;
    for (int state = JOB_DELAYED; state <= JOB_FINISHED; state++)
        assert_int_equal(job_state_parse(slice_of(job_state_name((enum job_state)state))), state);
    assert_string_equal(job_state_name(JOB_LEASED), "leased");
    assert_int_equal(job_state_parse(slice_of("")), 0);
    assert_int_equal(job_state_parse(slice_of("read")), 0);
    assert_int_equal(job_state_parse(slice_of("Ready")), 0);
    assert_int_equal(job_state_parse(slice_of("ready ")), 0);
}

struct name_row {
    const char *name, *why;
    bool topic, id;
};

static const struct name_row names[] = {
    {"", "empty", false, false},
    {"orders", "plain", true, true},
    {"a", "one byte", true, true},
    {"Orders.unpaid_v2-eu", "every kind of byte", true, true},
    {".hidden", "leading dot", false, true},
    {"a.", "dot at the end", true, true},
    {".", "a dot, as stored by older versions", false, true},
    {"..", "two dots, as stored by older versions", false, true},
    {"-a", "leading dash", true, true},
    {"a b", "blank", false, false},
    {"a/b", "slash", true, true},
    {"x+y;z", "plus and semicolon", true, true},
    {"random$(test)", "dollar and brackets", true, true},
    {"!~", "first and last printable", false, true},
    {"a\x7f", "delete", false, false},
    {"a\n", "line feed", false, false},
    {"\xc3\xa4", "not ASCII", false, false},
    {"\xff", "high byte", false, false},
};

static void names_of_topics_and_jobs_are_judged_byte_by_byte(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct name_row *row = &names[i];

        if (job_topic_is_valid(slice_of(row->name)) != row->topic)
            fail_msg("as a topic: %s", row->why);
        if (job_id_is_valid(slice_of(row->name)) != row->id)
            fail_msg("as an id: %s", row->why);
    }
    assert_true(job_id_is_dots(slice_of(".")) && job_id_is_dots(slice_of("..")));
    assert_false(job_id_is_dots(slice_of("...")) || job_id_is_dots(slice_of(".a")));
    assert_false(job_topic_is_valid(slice_make("a\0b", 3)));
    assert_false(job_id_is_valid(slice_make("a\0b", 3)));
}

static void names_may_be_as_long_as_their_limit_and_no_longer(void **unused)
{
    char text[JOB_TOPIC_BYTES_MAX + 1];

    (void)unused;
    memset(text, 'x', sizeof text);
    assert_true(job_topic_is_valid(slice_make(text, JOB_TOPIC_BYTES_MAX)));
    assert_false(job_topic_is_valid(slice_make(text, JOB_TOPIC_BYTES_MAX + 1)));
    assert_true(job_id_is_valid(slice_make(text, JOB_ID_BYTES_MAX)));
    assert_false(job_id_is_valid(slice_make(text, JOB_ID_BYTES_MAX + 1)));
}

/* ---- meta ---- */

static enum job_meta_fault add(struct buffer *meta, const char *name, const char *value)
{
    return job_meta_add(meta, slice_of(name), slice_of(value));
}

static void meta_gives_back_its_pairs_in_order(void **unused)
{
    struct buffer meta;
    struct slice name, value;
    size_t at = 0;

    (void)unused;
    buffer_init(&meta, JOB_META_BYTES_MAX);
    assert_false(job_meta_next(buffer_slice(&meta), &at, &name, &value));
    assert_int_equal(add(&meta, "trace-id", "a b c"), JOB_META_OK);
    assert_int_equal(add(&meta, "empty", ""), JOB_META_OK);
    assert_int_equal(add(&meta, "name", "J\xc3\xbcrgen"), JOB_META_OK);
    assert_true(job_meta_next(buffer_slice(&meta), &at, &name, &value));
    assert_true(slice_is(name, "trace-id") && slice_is(value, "a b c"));
    assert_true(job_meta_next(buffer_slice(&meta), &at, &name, &value));
    assert_true(slice_is(name, "empty") && slice_is(value, ""));
    assert_true(job_meta_next(buffer_slice(&meta), &at, &name, &value));
    assert_true(slice_is(name, "name") && slice_is(value, "J\xc3\xbcrgen"));
    assert_false(job_meta_next(buffer_slice(&meta), &at, &name, &value));
    assert_int_equal(at, meta.len);
    buffer_fini(&meta);
}

struct meta_row {
    const char *name, *value, *why;
    enum job_meta_fault fault;
};

static const struct meta_row meta_rows[] = {
    {"", "v", "no name", JOB_META_BAD_NAME},
    {"Trace", "v", "upper case", JOB_META_BAD_NAME},
    {"a_b", "v", "underscore", JOB_META_BAD_NAME},
    {"a b", "v", "blank", JOB_META_BAD_NAME},
    {"n\xc3\xa4me", "v", "name that is not ASCII", JOB_META_BAD_NAME},
    {"n", "a\nb", "line feed: would break a header", JOB_META_BAD_VALUE},
    {"n", "\t", "tab", JOB_META_BAD_VALUE},
    {"n", "\x7f", "delete", JOB_META_BAD_VALUE},
    {"n", "\xc3", "cut UTF-8", JOB_META_BAD_VALUE},
    {"n", "\xc0\x80", "overlong UTF-8", JOB_META_BAD_VALUE},
    {"there", "v", "name that is there already", JOB_META_TWICE},
    {"n0-9", " ~\xf0\x9f\x98\x80", "all of this is allowed", JOB_META_OK},
};

static void a_rejected_pair_leaves_meta_unchanged(void **unused)
{
    struct buffer meta;

    (void)unused;
    buffer_init(&meta, JOB_META_BYTES_MAX);
    assert_int_equal(add(&meta, "there", ""), JOB_META_OK);
    for (size_t i = 0; i < sizeof meta_rows / sizeof meta_rows[0]; i++) {
        const struct meta_row *row = &meta_rows[i];
        size_t len = meta.len;

        if (add(&meta, row->name, row->value) != row->fault)
            fail_msg("meta: %s", row->why);
        assert_true((meta.len == len) == (row->fault != JOB_META_OK));
    }
    assert_int_equal(job_meta_add(&meta, slice_of("n"), slice_make("a\0b", 3)), JOB_META_BAD_VALUE);
    buffer_fini(&meta);
}

static void meta_keeps_its_limits(void **unused)
{
    struct buffer meta;
    char text[1025], name[] = "n00";

    (void)unused;
    memset(text, 'x', sizeof text);
    buffer_init(&meta, 2 * JOB_META_BYTES_MAX);
    assert_int_equal(job_meta_add(&meta, slice_make(text, 65), slice_of("")), JOB_META_BAD_NAME);
    assert_int_equal(job_meta_add(&meta, slice_of("n"), slice_make(text, 1025)),
                     JOB_META_BAD_VALUE);
    assert_int_equal(job_meta_add(&meta, slice_make(text, 64), slice_make(text, 1024)),
                     JOB_META_OK);
    for (int i = 0; i < 2; i++, name[2]++)
        assert_int_equal(job_meta_add(&meta, slice_of(name), slice_make(text, 1024)), JOB_META_OK);
    assert_int_equal(meta.len, 3148); /* 948 left */
    assert_int_equal(job_meta_add(&meta, slice_of("b"), slice_make(text, 946)), JOB_META_TOO_MUCH);
    assert_int_equal(job_meta_add(&meta, slice_of("b"), slice_make(text, 945)), JOB_META_OK);
    assert_int_equal(meta.len, JOB_META_BYTES_MAX);

    buffer_clear(&meta);
    for (int i = 0; i < JOB_META_PAIRS_MAX; i++) {
        name[1] = (char)('0' + i / 10);
        name[2] = (char)('0' + i % 10);
        assert_int_equal(add(&meta, name, "v"), JOB_META_OK);
    }
    assert_int_equal(add(&meta, "one-more", "v"), JOB_META_TOO_MUCH);
    buffer_fini(&meta);
}

static void meta_that_is_cut_ends_early(void **unused)
{
    static const char pair[] = "name\0value"; /* with the NUL at its end */
    struct slice name, value;

    (void)unused;
    for (size_t len = 0; len < sizeof pair; len++) {
        size_t at = 0;

        assert_false(job_meta_next(slice_make(pair, len), &at, &name, &value));
        assert_int_equal(at, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_has_a_name_that_parses),
        cmocka_unit_test(names_of_topics_and_jobs_are_judged_byte_by_byte),
        cmocka_unit_test(names_may_be_as_long_as_their_limit_and_no_longer),
        cmocka_unit_test(meta_gives_back_its_pairs_in_order),
        cmocka_unit_test(a_rejected_pair_leaves_meta_unchanged),
        cmocka_unit_test(meta_keeps_its_limits),
        cmocka_unit_test(meta_that_is_cut_ends_early),
    };

    return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
