/* dead_letter: the settings of a topic for its dead jobs, row by row. */
#include "deliver/dead_letter.h"
#include "deliver/deliver.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdlib.h>

static bool parse(const char *json, struct dead_letter *out, char *error)
{
    memset(error, 0, DELIVER_ERROR_BYTES);
    return dead_letter_parse(slice_of(json), out, error);
}

CLAIM(reads_only_present_settings)
{
    struct dead_letter letter;
    char error[DELIVER_ERROR_BYTES];
    assert_true(parse("{}", &letter, error));
    assert_true(letter.keep_count == 0 && letter.keep_bytes == 0 && letter.keep_ms == 0);
    assert_true(!letter.to_topic && !letter.to_url && !letter.alert_to && !letter.alert_command);
    dead_letter_fini(&letter);
    assert_true(parse("{\"keep\":{\"count\":5,\"age\":\"30d\",\"bytes\":\"2MiB\"},"
                      "\"to\":\"orders.dead\",\"alert\":{\"command\":\"pager\"}}",
                      &letter, error));
    assert_int_equal(letter.keep_count, 5);
    assert_int_equal(letter.keep_bytes, 2 << 20);
    assert_int_equal(letter.keep_ms, 30LL * 24 * 3600 * 1000);
    assert_string_equal(letter.to_topic, "orders.dead");
    assert_null(letter.to_url);
    assert_string_equal(letter.alert_command, "pager");
    assert_int_equal(letter.alert_every_ms, ALERT_EVERY_MS);
    dead_letter_fini(&letter);
}

CLAIM(a_text_with_a_scheme_is_a_url)
{
    struct dead_letter letter;
    char error[DELIVER_ERROR_BYTES];
    assert_true(parse("{\"to\":\"https:\\/\\/a.example/x\","
                      "\"alert\":{\"every\":\"1s\",\"to\":\"https://b.example\"}}",
                      &letter, error));
    assert_string_equal(letter.to_url, "https://a.example/x");
    assert_null(letter.to_topic);
    assert_string_equal(letter.alert_to, "https://b.example");
    assert_int_equal(letter.alert_every_ms, 1000);
    dead_letter_fini(&letter);
}

static const struct {
    const char *json, *has_text;
} bad[] = {
    {"[]", "must be an object"},
    {"{", "malformed"},
    {"{\"keeps\":{}}", "did you mean 'keep'"},
    {"{\"keep\":5}", "'dead_letter.keep' must be an object"},
    {"{\"keep\":{\"count\":0}}", "from 1"},
    {"{\"keep\":{\"count\":-1}}", "from 1"},
    {"{\"keep\":{\"count\":1.5}}", "from 1"},
    {"{\"keep\":{\"count\":99999999999999999999}}", "from 1"},
    {"{\"keep\":{\"count\":1,\"count\":2}}", "given twice"},
    {"{\"keep\":{\"age\":\"999ms\"}}", "at least 1s"},
    {"{\"keep\":{\"age\":\"a day\"}}", "at least 1s"},
    {"{\"keep\":{\"bytes\":\"10KB\"}}", "a size"},
    {"{\"keep\":{\"size\":1}}", "unknown member 'size'"},
    {"{\"to\":\"\"}", "the name of a topic"},
    {"{\"to\":\".hidden\"}", "the name of a topic"},
    {"{\"to\":\"two words\"}", "the name of a topic"},
    {"{\"to\":7}", "the name of a topic"},
    {"{\"to\":\"a\\u0000b\"}", "the name of a topic"},
    {"{\"alert\":{}}", "needs either"},
    {"{\"alert\":{\"to\":\"https://a.example\",\"command\":\"x\"}}", "needs either"},
    {"{\"alert\":{\"to\":\"a.example\"}}", "URL"},
    {"{\"alert\":{\"command\":\"x\",\"every\":\"999ms\"}}", "at least 1s"},
};

CLAIM(names_the_error)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct dead_letter letter;
        char error[DELIVER_ERROR_BYTES];
        if (parse(bad[i].json, &letter, error))
            fail_msg("taken: %s", bad[i].json);
        if (!strstr(error, bad[i].has_text))
            fail_msg("%s: '%s' does not say '%s'", bad[i].json, error, bad[i].has_text);
        assert_true(!letter.to_topic && !letter.to_url && !letter.alert_to &&
                    !letter.alert_command);
    }
}

CLAIMS_MAIN(NULL, NULL)
