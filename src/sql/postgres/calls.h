/*
 * calls: the calls of a turn as statements of PostgreSQL, and what those answered.
 */
#ifndef TARRY_SQL_POSTGRES_CALLS_H
#define TARRY_SQL_POSTGRES_CALLS_H

#include "sql/call.h"
#include "sql/dialect.h"
#include "sql/postgres/statement.h"

struct postgres_step {     /* one statement of a turn */
    struct sql_call *call; /* NULL: it is none of a call's */
    size_t item;
    enum sql_statement statement;
};
VECTOR_DECLARE(postgres_steps, struct postgres_step)

struct postgres_link {
    struct sql_link link; /* first: the handle is the struct */
    PGconn *connection;   /* non-blocking, in pipeline mode, all statements prepared */
    struct sql_context *context;
    struct postgres_steps steps;
    size_t step; /* which statement is being answered */
    bool is_in_flight, wants_write;
};

/* Its statements, into the pipeline and `steps`. False: out of memory, or the connection is gone. */
bool postgres_call_send(struct sql_call *call, struct postgres_link *link);
/* One of them was answered with `result`, which is the call's from then on. False: out of memory. */
bool postgres_call_read(struct sql_call *call, struct postgres_link *link,
                        const struct postgres_step *step, PGresult *result);

#endif
