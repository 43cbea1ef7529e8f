#include "sql/postgres/statement.h"

#include "base/error.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define CALL "SELECT * FROM tarry."

static const char *const texts[POSTGRES_STATEMENTS] = {
    [POSTGRES_BEGIN] = "BEGIN",
    [POSTGRES_LAZY] = "SET LOCAL synchronous_commit = off",
    [POSTGRES_BRIEF] = "SET LOCAL lock_timeout = '20ms'",
    [POSTGRES_COMMIT] = "COMMIT",
    [POSTGRES_ROLLBACK] = "ROLLBACK",
    [POSTGRES_TICKET] = CALL "_ticket($1, $2, $3)",
    [POSTGRES_NOW] = CALL "_clock()",
    [POSTGRES_PUSHES] =
        CALL "_pushes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, "
             "$16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32)",
    [POSTGRES_CHANGES] = CALL "_changes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    [POSTGRES_ANSWERS] =
        CALL "_answers($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, "
             "$17)",
    [POSTGRES_AGAINS] = CALL "_agains($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    [POSTGRES_ACKS] = CALL "_acks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    [POSTGRES_TAKE] = CALL "_take($1, $2, $3, $4, $5, $6)",
    [POSTGRES_TAKE_BEST] = CALL "_take_best($1, $2, $3, $4, $5, $6) ORDER BY priority, due, seq",
    [POSTGRES_TAKE_ONE] = CALL "_take_one($1, $2, $3, $4, $5)",
    [POSTGRES_LOOK] = CALL "_look($1, $2)",
    [POSTGRES_GET] = CALL "_get($1, $2, $3)",
    [POSTGRES_HISTORY] = CALL "_history($1, $2, $3)",
    [POSTGRES_FIND] = CALL "_find($1, $2)",
    [POSTGRES_LIST] = CALL "_list($1, $2, $3, $4, $5, $6)",
    [POSTGRES_FIGURES] = CALL "_figures($1, $2, $3)",
    [POSTGRES_PUT] =
        CALL "_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, "
             "$18, $19, $20, $21, $22, $23)",
    [POSTGRES_PAUSE] = CALL "_pause($1, $2, $3)",
    [POSTGRES_DELETE] = CALL "_delete($1)",
    [POSTGRES_PURGE] = CALL "_purge($1, $2, $3)",
    [POSTGRES_REDRIVE] = CALL "_redrive($1, $2, $3)",
    [POSTGRES_FORECAST] = CALL "_forecast($1, $2)",
    [POSTGRES_SOON] = CALL "_soon($1, $2)",
    [POSTGRES_EXPIRE] = CALL "_expire($1, $2)",
    [POSTGRES_UPKEEP] = CALL "_upkeep($1, $2, $3, $4, $5)",
    [POSTGRES_SET_CLOCK] = CALL "_set_clock($1, $2)",
    [POSTGRES_ADOPT] = CALL "_adopt($1)",
    [POSTGRES_GOODBYE] = CALL "_goodbye($1)",
    [POSTGRES_TALLY] = "INSERT INTO tarry.tally AS t (topic, slot, counts) VALUES ($1, $2, $3) "
                       "ON CONFLICT (topic, slot) "
                       "DO UPDATE SET counts = tarry._sum(t.counts, excluded.counts)",
    [POSTGRES_AWAIT] = CALL "_await($1, $2, $3, $4, $5)",
    [POSTGRES_REGISTER] = "INSERT INTO tarry.awaited (topic, id, server) "
                          "SELECT DISTINCT u.topic, u.id, $3::bigint FROM unnest($1::text[], "
                          "$2::text[]) u(topic, id) ON CONFLICT DO NOTHING",
    [POSTGRES_ENDED] = CALL "_end_awaited($1, $2, $3, $4, $5, $6)",
    [POSTGRES_NOTIFY] = "SELECT pg_notify('tarry', $1)",
    [POSTGRES_GROUP_PUT] = "SELECT tarry._group_put($1, $2, $3, $4)",
    [POSTGRES_GROUPS] = CALL "_groups($1, $2, $3, $4, $5, $6)",
    [POSTGRES_COUNT_BATCHES] = CALL "_count_batches($1, $2, $3, $4, $5, $6, $7, $8)",
    [POSTGRES_SEND_EVENTS] = "SELECT pg_notify('tarry_events', $1)",
};

static int params_next(struct postgres_params *params)
{
    assert(params->count < POSTGRES_PARAMS_MAX);
    return params->count++;
}

void postgres_params_number(struct postgres_params *params, int64_t number)
{
    int i = params_next(params);
    (void)snprintf(params->numbers[i], sizeof params->numbers[i], "%" PRId64, number);
    params->values[i] = params->numbers[i];
    params->forms[i] = 0;
}

void postgres_params_flag(struct postgres_params *params, bool flag)
{
    postgres_params_text(params, flag ? "t" : "f");
}

void postgres_params_bytes(struct postgres_params *params, struct slice bytes)
{
    int i = params_next(params);
    params->values[i] = bytes.at ? bytes.at : "";
    params->lengths[i] = (int)bytes.len;
    params->forms[i] = 1;
}

void postgres_params_text(struct postgres_params *params, const char *text)
{
    int i = params_next(params);
    params->values[i] = text;
    params->forms[i] = 0;
}

void postgres_params_null(struct postgres_params *params)
{
    postgres_params_text(params, NULL);
}

static void statement_name(enum postgres_statement statement, char name[12])
{
    (void)snprintf(name, 12, "tarry_%d", (int)statement);
}

bool postgres_statements_prepare(PGconn *connection, char *error, size_t error_bytes)
{
    for (enum postgres_statement i = POSTGRES_BEGIN; i < POSTGRES_STATEMENTS; i++) {
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

bool postgres_statement_send(PGconn *connection, enum postgres_statement statement,
                             const struct postgres_params *params)
{
    char name[12];
    statement_name(statement, name);
    return libpq.PQsendQueryPrepared(
               connection, name, params ? params->count : 0, params ? params->values : NULL,
               params ? params->lengths : NULL, params ? params->forms : NULL, 1) == 1;
}
