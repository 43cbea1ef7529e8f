/*
 * statement: the statements that servers send to the database, prepared once per connection, and
 * their parameters.
 */
#ifndef TARRY_SQL_POSTGRES_STATEMENT_H
#define TARRY_SQL_POSTGRES_STATEMENT_H

#include "base/slice.h"
#include "sql/postgres/libpq.h"

#include <stdint.h>

enum sql_statement {
    SQL_BEGIN = 1,
    SQL_LAZY,  /* the commit does not wait for the disk */
    SQL_BRIEF, /* waits only briefly for a lock */
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_TICKET,
    SQL_NOW,
    SQL_PUSHES,
    SQL_CHANGES,
    SQL_ANSWERS,
    SQL_ACKS, /* answers that are only acks */
    SQL_TAKE,
    SQL_TAKE_BEST, /* by priority over all topics */
    SQL_TAKE_ONE,
    SQL_LOOK,
    SQL_GET,
    SQL_HISTORY,
    SQL_FIND,
    SQL_LIST,
    SQL_FIGURES,
    SQL_PUT,
    SQL_PAUSE,
    SQL_DELETE,
    SQL_PURGE,
    SQL_REDRIVE,
    SQL_FORECAST,
    SQL_EXPIRE,
    SQL_UPKEEP,
    SQL_ADOPT,
    SQL_GOODBYE,
    SQL_TALLY,
    SQL_NOTIFY,
    SQL_TELL, /* sends events */
    SQL_STATEMENTS
};

enum { SQL_PARAMS_MAX = 24 };

/* Parameters of a statement. The caller owns the texts and keeps them until the statement is sent. */
struct sql_params {
    int count;
    const char *values[SQL_PARAMS_MAX];
    int lengths[SQL_PARAMS_MAX], forms[SQL_PARAMS_MAX];
    char numbers[SQL_PARAMS_MAX][24];
};

void sql_params_number(struct sql_params *params, int64_t number);
void sql_params_flag(struct sql_params *params, bool flag);
void sql_params_bytes(struct sql_params *params, struct slice bytes); /* never NULL */
void sql_params_text(struct sql_params *params, const char *text);    /* in SQL syntax */
void sql_params_null(struct sql_params *params);

/* Prepares all statements on a new connection. Blocking. */
bool sql_statements_prepare(PGconn *connection, char *error, size_t error_bytes);
/* Sends a statement into the pipeline. Its result is in binary format. Returns false if out of
 * memory or if the connection is lost. */
bool sql_statement_send(PGconn *connection, enum sql_statement statement,
                        const struct sql_params *params);

#endif
