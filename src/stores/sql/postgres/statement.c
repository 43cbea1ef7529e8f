#include "sql/postgres/statement.h"

#include "base/error.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define CALL "SELECT * FROM tarry."

static const char *const texts[SQL_STATEMENTS] = {
    [SQL_BEGIN] = "BEGIN",
    [SQL_LAZY] = "SET LOCAL synchronous_commit = off",
    [SQL_BRIEF] = "SET LOCAL lock_timeout = '20ms'",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_TICKET] = CALL "_ticket($1, $2, $3)",
    [SQL_NOW] = CALL "now_ms()",
    [SQL_PUSHES] = CALL "_pushes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, "
                        "$16, $17, $18, $19, $20, $21, $22, $23, $24)",
    [SQL_CHANGES] = CALL "_changes($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    [SQL_ANSWERS] = CALL "_answers($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    [SQL_ACKS] = CALL "_acks($1, $2, $3, $4, $5, $6, $7, $8)",
    [SQL_TAKE] = CALL "_take($1, $2, $3, $4, $5, $6)",
    [SQL_TAKE_BEST] = CALL "_take_best($1, $2, $3, $4, $5, $6) ORDER BY priority, due, seq",
    [SQL_TAKE_ONE] = CALL "_take_one($1, $2, $3, $4, $5)",
    [SQL_LOOK] = CALL "_look($1, $2)",
    [SQL_GET] = CALL "_get($1, $2)",
    [SQL_HISTORY] = CALL "_history($1, $2, $3)",
    [SQL_FIND] = CALL "_find($1, $2)",
    [SQL_LIST] = CALL "_list($1, $2, $3, $4, $5, $6)",
    [SQL_FIGURES] = CALL "_figures($1, $2, $3)",
    [SQL_PUT] =
        CALL "_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
    [SQL_PAUSE] = CALL "_pause($1, $2, $3)",
    [SQL_DELETE] = CALL "_delete($1)",
    [SQL_PURGE] = CALL "_purge($1, $2, $3)",
    [SQL_REDRIVE] = CALL "_redrive($1, $2, $3)",
    [SQL_FORECAST] = CALL "_forecast($1, $2)",
    [SQL_EXPIRE] = CALL "_expire($1, $2)",
    [SQL_UPKEEP] = CALL "_upkeep($1, $2)",
    [SQL_ADOPT] = CALL "_adopt($1)",
    [SQL_GOODBYE] = CALL "_goodbye($1)",
    [SQL_TALLY] = "INSERT INTO tarry.tally AS t (topic, slot, counts) VALUES ($1, $2, $3) "
                  "ON CONFLICT (topic, slot) "
                  "DO UPDATE SET counts = tarry._sum(t.counts, excluded.counts)",
    [SQL_NOTIFY] = "SELECT pg_notify('tarry', $1)",
    [SQL_TELL] = "SELECT pg_notify('tarry_events', $1)",
};

static int params_next(struct sql_params *params)
{
    assert(params->count < SQL_PARAMS_MAX);
    return params->count++;
}

void sql_params_number(struct sql_params *params, int64_t number)
{
    int i = params_next(params);
    (void)snprintf(params->numbers[i], sizeof params->numbers[i], "%" PRId64, number);
    params->values[i] = params->numbers[i];
    params->forms[i] = 0;
}

void sql_params_flag(struct sql_params *params, bool flag)
{
    sql_params_text(params, flag ? "t" : "f");
}

void sql_params_bytes(struct sql_params *params, struct slice bytes)
{
    int i = params_next(params);
    params->values[i] = bytes.at ? bytes.at : "";
    params->lengths[i] = (int)bytes.len;
    params->forms[i] = 1;
}

void sql_params_text(struct sql_params *params, const char *text)
{
    int i = params_next(params);
    params->values[i] = text;
    params->forms[i] = 0;
}

void sql_params_null(struct sql_params *params)
{
    sql_params_text(params, NULL);
}

static void statement_name(enum sql_statement statement, char name[12])
{
    (void)snprintf(name, 12, "tarry_%d", (int)statement);
}

bool sql_statements_prepare(PGconn *connection, char *error, size_t error_bytes)
{
    for (enum sql_statement i = SQL_BEGIN; i < SQL_STATEMENTS; i++) {
        char name[12];
        statement_name(i, name);
        PGresult *result = libpq.PQprepare(connection, name, texts[i], 0, NULL);
        bool is_good = libpq.PQresultStatus(result) == PGRES_COMMAND_OK;
        if (!is_good)
            error_write(error, error_bytes, "the schema tarry is damaged: %s",
                        libpq.PQresultErrorMessage(result));
        libpq.PQclear(result);
        if (!is_good)
            return false;
    }
    return true;
}

bool sql_statement_send(PGconn *connection, enum sql_statement statement,
                        const struct sql_params *params)
{
    char name[12];
    statement_name(statement, name);
    return libpq.PQsendQueryPrepared(
               connection, name, params ? params->count : 0, params ? params->values : NULL,
               params ? params->lengths : NULL, params ? params->forms : NULL, 1) == 1;
}
