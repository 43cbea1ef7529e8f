/*
 * prepared: the statements that a connection to MariaDB has prepared.
 *
 * A statement whose step repeats (wire.h) has a form, which is its text with a question mark for
 * each value. The second time that a form comes, it is prepared in the same pipeline. From then on
 * the database receives EXECUTE with the values, and parses only these. A form keeps numbers of one
 * digit, which are mostly constants.
 *
 * The database itself prepares a statement again if a table has changed. If it refuses to prepare,
 * or no longer knows a statement, the connection sends texts from then on: see
 * mysql_prepared_stop.
 *
 * MySQL accepts only variables of the session as values of EXECUTE, so there all statements are
 * texts.
 */
#ifndef TARRY_SQL_MYSQL_PREPARED_H
#define TARRY_SQL_MYSQL_PREPARED_H

#include "base/buffer.h"
#include "base/table.h"

enum { MYSQL_FORMS_MAX = 128, MYSQL_FORM_BYTES_MAX = 2048 };

struct mysql_form { /* A form, and the name of its statement: its index. */
    struct table_entry by_text;
    char *text; /* owned; NULL: unused */
    uint64_t id;
    uint64_t used; /* time of its last use, by `uses` */
    bool is_prepared;
};
TABLE_DECLARE(mysql_form_table, struct mysql_form, by_text)

struct mysql_prepared {
    struct mysql_form_table table;
    struct mysql_form forms[MYSQL_FORMS_MAX];
    struct buffer form, values; /* of the statement in hand */
    uint64_t uses;
    bool is_off;
};

void mysql_prepared_init(struct mysql_prepared *prepared, bool is_off);
void mysql_prepared_free(struct mysql_prepared *prepared);
/* Replaces a statement, the text of `out` from `from` on, if its form is prepared or comes for the
 * second time. Returns the id of the form if the text begins with its preparation, which is a
 * statement of its own; else 0. */
uint64_t mysql_prepared_use(struct mysql_prepared *prepared, struct buffer *out, size_t from);
/* Records that the database has prepared the form. */
void mysql_prepared_done(struct mysql_prepared *prepared, uint64_t id);
/* Sends texts from now on, because the database has reported this error for a prepared statement.
 * Returns false if the error has another cause. */
bool mysql_prepared_stop(struct mysql_prepared *prepared, unsigned error);

#endif
