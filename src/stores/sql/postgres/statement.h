/*
 * statement: the statements that servers send to the database, prepared once per connection, and
 * their parameters.
 */
#ifndef TARRY_SQL_POSTGRES_STATEMENT_H
#define TARRY_SQL_POSTGRES_STATEMENT_H

#include "base/slice.h"
#include "sql/postgres/client.h"

#include <stdint.h>

enum postgres_statement {
    POSTGRES_BEGIN = 1,
    POSTGRES_LAZY,  /* the commit does not wait for the disk */
    POSTGRES_BRIEF, /* waits only briefly for a lock */
    POSTGRES_COMMIT,
    POSTGRES_ROLLBACK,
    POSTGRES_TICKET,
    POSTGRES_NOW,
    POSTGRES_PUSHES,
    POSTGRES_CHANGES,
    POSTGRES_ANSWERS,
    POSTGRES_AGAINS,
    POSTGRES_ACKS, /* answers that are only acks */
    POSTGRES_TAKE,
    POSTGRES_TAKE_BEST, /* by priority over all topics */
    POSTGRES_TAKE_ONE,
    POSTGRES_LOOK,
    POSTGRES_GET,
    POSTGRES_HISTORY,
    POSTGRES_FIND,
    POSTGRES_LIST,
    POSTGRES_FIGURES,
    POSTGRES_PUT,
    POSTGRES_PAUSE,
    POSTGRES_DELETE,
    POSTGRES_PURGE,
    POSTGRES_REDRIVE,
    POSTGRES_FORECAST,
    POSTGRES_SOON, /* the forecast of the first minutes of a topic */
    POSTGRES_EXPIRE,
    POSTGRES_UPKEEP,
    POSTGRES_SET_CLOCK,
    POSTGRES_ADOPT,
    POSTGRES_GOODBYE,
    POSTGRES_TALLY,
    POSTGRES_AWAIT,    /* adds and removes awaited jobs, and returns those that have ended */
    POSTGRES_REGISTER, /* adds the awaited jobs of pushes */
    POSTGRES_ENDED,    /* sets how awaited jobs have ended */
    POSTGRES_NOTIFY,
    POSTGRES_SEND_EVENTS, /* sends events */
    POSTGRES_GROUP_PUT,   /* sets or resets the settings of a group */
    POSTGRES_GROUPS,
    POSTGRES_COUNT_BATCHES, /* adds up what became of members */
    POSTGRES_STATEMENTS
};

enum { POSTGRES_PARAMS_MAX = 32 };

/* Parameters of a statement. The caller owns the texts and keeps them until the statement is sent. */
struct postgres_params {
    int count;
    const char *values[POSTGRES_PARAMS_MAX];
    int lengths[POSTGRES_PARAMS_MAX], forms[POSTGRES_PARAMS_MAX];
    char numbers[POSTGRES_PARAMS_MAX][24];
};

void postgres_params_number(struct postgres_params *params, int64_t number);
void postgres_params_flag(struct postgres_params *params, bool flag);
void postgres_params_bytes(struct postgres_params *params, struct slice bytes); /* never NULL */
void postgres_params_text(struct postgres_params *params, const char *text);    /* in SQL syntax */
void postgres_params_null(struct postgres_params *params);

/* Prepares all statements on a new connection. Blocking. */
bool postgres_statements_prepare(PGconn *connection, char *error, size_t error_bytes);
/* Sends a statement into the pipeline. Its result is in binary format. Returns false if out of
 * memory or if the connection is lost. */
bool postgres_statement_send(PGconn *connection, enum postgres_statement statement,
                             const struct postgres_params *params);

#endif
