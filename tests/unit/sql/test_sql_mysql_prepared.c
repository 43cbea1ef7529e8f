/* Prepared statements of a connection to MariaDB: the form of a statement, its values, and when it is prepared. */
#include "sql/mysql/link.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <string.h>

static struct mysql_link link;

static void begin(bool is_mariadb)
{
    link = (struct mysql_link){.is_mariadb = is_mariadb, .packet_bytes_max = 1 << 20};
    buffer_init(&link.wire.text, 1 << 20);
    mysql_prepared_init(&link.prepared, !is_mariadb);
}

static void end(void)
{
    mysql_prepared_free(&link.prepared);
    mysql_steps_fini(&link.wire.steps);
    mysql_ends_fini(&link.wire.ends);
    mysql_ends_fini(&link.wire.packet_steps);
    buffer_fini(&link.wire.text);
}

/* Returns the pipeline of one statement. `is_read`: its statements succeed. */
static const char *sent(const char *text, bool is_read)
{
    static char copy[4 * MYSQL_FORM_BYTES_MAX];
    mysql_pipeline_begin(&link);
    buffer_append_text(mysql_statement_repeated(&link, NULL), text);
    (void)mysql_statement(&link, NULL); /* ends it */
    assert_false(link.wire.text.failed);
    assert_true(link.wire.text.len < sizeof copy);
    memcpy(copy, link.wire.text.at, link.wire.text.len);
    copy[link.wire.text.len - 1] = '\0'; /* without the last semicolon */
    for (size_t i = 0; is_read && i < link.wire.steps.count; i++)
        if (link.wire.steps.at[i].read)
            assert_true(link.wire.steps.at[i].read(&link, &link.wire.steps.at[i], NULL));
    return copy;
}

CLAIM(a_form_is_prepared_when_it_comes_again)
{
    begin(true);
    assert_string_equal(sent("UPDATE t SET a=10 WHERE b=20", true), "UPDATE t SET a=10 WHERE b=20");
    assert_string_equal(
        sent("UPDATE t SET a=11 WHERE b=21", true),
        "PREPARE tarry_0 FROM 'UPDATE t SET a=? WHERE b=?';EXECUTE tarry_0 USING 11,21");
    assert_int_equal(link.wire.steps.count, 3); /* and the one that ended it */
    assert_string_equal(sent("UPDATE t SET a=12 WHERE b=22", true), "EXECUTE tarry_0 USING 12,22");
    assert_string_equal(sent("COMMIT", true), "COMMIT");
    assert_string_equal(sent("COMMIT", true), "PREPARE tarry_1 FROM 'COMMIT';EXECUTE tarry_1");
    end();
}

CLAIM(a_preparation_that_did_not_run_is_repeated)
{
    begin(true);
    (void)sent("DO 10", true);
    assert_string_equal(sent("DO 11", false),
                        "PREPARE tarry_0 FROM 'DO ?';EXECUTE tarry_0 USING 11");
    assert_string_equal(sent("DO 12", true),
                        "PREPARE tarry_0 FROM 'DO ?';EXECUTE tarry_0 USING 12");
    assert_string_equal(sent("DO 13", true), "EXECUTE tarry_0 USING 13");
    end();
}

CLAIM(values_are_numbers_and_quoted_texts)
{
    static const struct {
        const char *sentence, *text, *form, *values;
    } cases[] = {
        {"one digit stays", "SELECT SYSDATE(3),x-1", "SELECT SYSDATE(3),x-1", ""},
        {"digits of names stay", "SELECT t10.a20,@v30 FROM utf8mb4",
         "SELECT t10.a20,@v30 FROM utf8mb4", ""},
        {"a decimal stays", "SELECT 10.25,1e10", "SELECT 10.25,1e10", ""},
        {"a sign stays", "a=-12", "a=-?", "-"},
        {"a text", "id='a;b'", "id=?", "'a;b'"},
        {"an empty text", "id=''", "id=?", "''"},
        {"a quote in a text", "id='it\\'s 12',12", "id=?,?", "'it\\'s 12',12"},
        {"a backslash at the end", "id='\\\\',12", "id=?,?", "'\\\\',12"},
        {"a mark in a text", "id='?',12", "id=?,?", "'?',12"},
        {"bytes", "body=_binary'x\\0'", "body=?", "_binary'x\\0'"},
        {"no wait", "SET STATEMENT innodb_lock_wait_timeout=0 FOR DELETE FROM t WHERE a=12",
         "SET STATEMENT innodb_lock_wait_timeout=0 FOR DELETE FROM t WHERE a=?", "12"},
    };
    char expected[512];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        begin(true);
        const char *values = strcmp(cases[i].values, "-") == 0 ? "12" : cases[i].values;
        (void)snprintf(expected, sizeof expected, "PREPARE tarry_0 FROM '%s';EXECUTE tarry_0%s%s",
                       cases[i].form, *values ? " USING " : "", values);
        (void)sent(cases[i].text, true);
        CASE_HOLDS(cases[i].sentence, strcmp(sent(cases[i].text, true), expected) == 0);
        end();
    }
}

CLAIM(the_least_recently_used_form_is_replaced)
{
    char text[64];
    begin(true);
    (void)sent("DO 10", true);
    (void)sent("DO 10", true);
    for (int i = 0; i < MYSQL_FORMS_MAX - 1; i++) {
        (void)snprintf(text, sizeof text, "DO a%d", i);
        (void)sent(text, true);
        assert_string_equal(sent("DO 10", true), "EXECUTE tarry_0 USING 10");
    }
    (void)sent("DO b", true); /* in the place of the first a */
    assert_string_equal(sent("DO b", true), "PREPARE tarry_1 FROM 'DO b';EXECUTE tarry_1");
    assert_string_equal(sent("DO a0", true), "DO a0");
    assert_string_equal(sent("DO 10", true), "EXECUTE tarry_0 USING 10");
    end();
}

CLAIM(mysql_and_long_statements_use_texts)
{
    char text[MYSQL_FORM_BYTES_MAX + 64] = "DO 10";
    begin(false);
    for (int i = 0; i < 3; i++)
        assert_string_equal(sent(text, true), text);
    end();
    begin(true);
    memset(text + 3, 'x', MYSQL_FORM_BYTES_MAX);
    for (int i = 0; i < 3; i++)
        assert_string_equal(sent(text, true), text);
    end();
}

CLAIM(a_refusal_ends_the_preparation)
{
    begin(true);
    (void)sent("DO 10", true);
    assert_false(mysql_prepared_stop(&link.prepared, 1213)); /* a deadlock */
    assert_string_equal(sent("DO 11", true),
                        "PREPARE tarry_0 FROM 'DO ?';EXECUTE tarry_0 USING 11");
    assert_true(mysql_prepared_stop(&link.prepared, 1243));
    assert_string_equal(sent("DO 12", true), "DO 12");
    assert_false(mysql_prepared_stop(&link.prepared, 1213));
    assert_false(
        mysql_prepared_stop(&link.prepared, 1615)); /* of a text: no reason to repeat it at once */
    end();
}

CLAIMS_MAIN(NULL, NULL)
