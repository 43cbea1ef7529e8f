/* The answers of blocking questions: rows of texts, which are copies. */
#include "sql/client.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <string.h>

static void add(struct sql_rows *rows, const char *text)
{
    if (text)
        memcpy(sql_rows_add(rows, strlen(text)), text, strlen(text));
    else
        sql_rows_add_null(rows);
}

CLAIM(rows_keep_texts_nulls_and_numbers_apart)
{
    struct sql_rows rows;
    assert_true(sql_rows_init(&rows, 2, 2, strlen("orders") + strlen("-7")));
    add(&rows, "orders");
    add(&rows, NULL);
    add(&rows, "");
    add(&rows, "-7");
    assert_true(slice_is(sql_rows_text(&rows, 0, 0), "orders"));
    assert_string_equal(sql_rows_text(&rows, 0, 0).at, "orders"); /* ends with NUL */
    assert_true(sql_rows_is_null(&rows, 0, 1));
    assert_int_equal(sql_rows_number(&rows, 0, 1), 0);
    assert_false(sql_rows_is_null(&rows, 1, 0));
    assert_int_equal(sql_rows_text(&rows, 1, 0).len, 0);
    assert_int_equal(sql_rows_number(&rows, 1, 1), -7);
    sql_rows_fini(&rows);
    assert_null(rows.cells);
}

CLAIM(an_answer_without_rows_is_empty)
{
    struct sql_rows rows;
    assert_true(sql_rows_init(&rows, 0, 3, 0));
    assert_int_equal(rows.count, 0);
    sql_rows_fini(&rows);
}

CLAIM(the_message_of_a_refusal_is_one_line)
{
    struct sql_client client = {0};
    assert_false(sql_client_refuse(&client, SQL_REFUSAL_DENIED, "no right\n\tto read\n"));
    assert_int_equal(client.refusal, SQL_REFUSAL_DENIED);
    assert_string_equal(client.message, "no right  to read");
}

CLAIMS_MAIN(NULL, NULL)
