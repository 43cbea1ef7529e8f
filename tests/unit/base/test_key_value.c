/* Lines of `key = value`, and errors as text. */
#include "base/key_value.h"

#include "base/error.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <string.h>

CLAIM(lines_follow_the_format)
{
    static const struct {
        const char *what, *line;
        enum key_value_line is;
        const char *key, *value;
    } cases[] = {
        {"plain", "key = value", KEY_VALUE_PAIR, "key", "value"},
        {"no blanks", "key=value", KEY_VALUE_PAIR, "key", "value"},
        {"many blanks", " \t key \t=  some value \t\r\n", KEY_VALUE_PAIR, "key", "some value"},
        {"a second '='", "key = a=b", KEY_VALUE_PAIR, "key", "a=b"},
        {"no value", "key =  ", KEY_VALUE_PAIR, "key", ""},
        {"no key", "= value", KEY_VALUE_PAIR, "", "value"},
        {"a comment behind a blank", "key = value # why", KEY_VALUE_PAIR, "key", "value"},
        {"a '#' within a word", "key = a#b", KEY_VALUE_PAIR, "key", "a#b"},
        {"the value is a comment", "key = # why", KEY_VALUE_PAIR, "key", ""},
        {"empty", "", KEY_VALUE_NOTHING, "", ""},
        {"blanks", " \t\r\n", KEY_VALUE_NOTHING, "", ""},
        {"a comment", "# key = value", KEY_VALUE_NOTHING, "", ""},
        {"a comment behind blanks", "  # key = value", KEY_VALUE_NOTHING, "", ""},
        {"no '='", " key value ", KEY_VALUE_BAD, "key value", ""},
        {"the '=' is in the comment", "key # = value", KEY_VALUE_BAD, "key", ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char line[64];
        struct key_value pair;
        strcpy(line, cases[i].line);
        CASE_HOLDS(cases[i].what, key_value_parse(line, &pair) == cases[i].is);
        CASE_HOLDS(cases[i].what, strcmp(pair.key, cases[i].key) == 0);
        CASE_HOLDS(cases[i].what, strcmp(pair.value, cases[i].value) == 0);
        CASE_HOLDS(cases[i].what, pair.has_comment == (strstr(cases[i].line, "# ") != NULL));
    }
}

CLAIM(an_error_is_cut_to_its_room)
{
    char error[12];
    struct slice host = slice_of("example.com");
    assert_false(error_text(error, sizeof error, "bad '%.*s'", ERROR_SHOWN(host, 4)));
    assert_string_equal(error, "bad 'exam'");
    assert_false(error_text(error, sizeof error, "bad '%.*s'", ERROR_SHOWN(host, 64)));
    assert_string_equal(error, "bad 'exampl");
    assert_int_equal(error_result(-22, error, sizeof error, "at %d", 7), -22);
    assert_string_equal(error, "at 7");
    host = (struct slice){0};
    assert_false(error_text(error, sizeof error, "'%.*s'", ERROR_SHOWN(host, 64)));
    assert_string_equal(error, "''");
    assert_false(error_text(NULL, 0, "nobody"));
    assert_int_equal(error_result(-1, NULL, 0, "nobody"), -1);
}

CLAIMS_MAIN(NULL, NULL)
