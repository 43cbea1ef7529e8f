/* The statements of blocking questions to PostgreSQL. */
#include "sql/postgres/postgres.h"
#include "sql/postgres/schema_texts.h"

/* The function repairs what it can by itself. */
static const char *const checks[] = {
    "SELECT finding, jobs, CASE WHEN mended THEN '' END FROM tarry._fsck($1)",
    NULL,
};

const struct sql_questions postgres_questions = {
    .schema = postgres_migration_1_text,
    .schema_bytes = &postgres_migration_1_bytes,
    .schema_version = 1,
    .schema_exists = "SELECT to_regclass('tarry.schema_version')",
    .schema_lock = "BEGIN; SELECT pg_advisory_xact_lock(7827201, 0)",
    .schema_unlock = "COMMIT",
    .schema_undo = "ROLLBACK",
    .hello = "SELECT * FROM tarry._hello($1)",
    .keep_time = "SELECT now, 1, adjust FROM tarry._keep_time($1, $2, $3)",
    .ticket = "UPDATE tarry.ticket SET connection = connection + 1 WHERE server = $1 "
              "RETURNING number, at, connection",
    .tokens_begin = "SET statement_timeout = '5s'; SET lock_timeout = '2s'; "
                    "SET default_transaction_isolation = 'read committed'; "
                    "SET search_path = pg_catalog",
    .fsck_begin = "BEGIN ISOLATION LEVEL REPEATABLE READ",
    .fsck_checks = checks,
};
