#include "sql/postgres/schema.h"

#include "base/error.h"
#include "sql/postgres/schema_texts.h"

#include <stdlib.h>
#include <string.h>

struct slice postgres_schema_text(void)
{
    return slice_make(postgres_migration_1_text, postgres_migration_1_bytes);
}

static bool do_text(PGconn *connection, const char *text, char *error, size_t error_bytes)
{
    PGresult *result = libpq.PQexec(connection, text);
    ExecStatusType status = libpq.PQresultStatus(result);
    bool is_done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (!is_done)
        error_write(error, error_bytes, "%s", libpq.PQresultErrorMessage(result));
    libpq.PQclear(result);
    return is_done;
}

/* Reads the version, 0 if there is no schema. Returns false if the database reports an error. */
static bool read_version(PGconn *connection, int *version, int *oldest, char *error,
                         size_t error_bytes)
{
    PGresult *result = libpq.PQexec(connection, "SELECT to_regclass('tarry.schema_version')");
    bool is_good = libpq.PQresultStatus(result) == PGRES_TUPLES_OK;
    bool exists = is_good && !libpq.PQgetisnull(result, 0, 0);
    *version = *oldest = 0;
    if (exists) {
        libpq.PQclear(result);
        result = libpq.PQexec(connection, "SELECT version, oldest_reader FROM tarry.schema_version "
                                          "ORDER BY version DESC LIMIT 1");
        is_good = libpq.PQresultStatus(result) == PGRES_TUPLES_OK;
        if (is_good && libpq.PQntuples(result) == 1) {
            *version = atoi(libpq.PQgetvalue(result, 0, 0));
            *oldest = atoi(libpq.PQgetvalue(result, 0, 1));
        }
    }
    if (!is_good)
        error_write(error, error_bytes, "the schema tarry cannot be read: %s",
                    libpq.PQresultErrorMessage(result));
    libpq.PQclear(result);
    return is_good;
}

static bool migrate_from(PGconn *connection, int version, char *error, size_t error_bytes)
{
    if (version >= POSTGRES_SCHEMA_VERSION)
        return true;
    char *text = strndup(postgres_migration_1_text, postgres_migration_1_bytes);
    bool is_done = text && do_text(connection, text, error, error_bytes);
    free(text);
    return is_done;
}

static bool migrate_locked(PGconn *connection, char *error, size_t error_bytes)
{
    int version, oldest;
    return do_text(connection, "BEGIN", error, error_bytes) &&
           do_text(connection, "SELECT pg_advisory_xact_lock(7827201, 0)", error, error_bytes) &&
           read_version(connection, &version, &oldest, error, error_bytes) &&
           migrate_from(connection, version, error, error_bytes) &&
           do_text(connection, "COMMIT", error, error_bytes);
}

bool postgres_schema_check(PGconn *connection, bool migrate, char *error, size_t error_bytes)
{
    int version, oldest;
    if (!read_version(connection, &version, &oldest, error, error_bytes))
        return false;
    if (version < POSTGRES_SCHEMA_VERSION && migrate) {
        if (!migrate_locked(connection, error, error_bytes)) {
            (void)do_text(connection, "ROLLBACK", NULL, 0);
            return false;
        }
        if (!read_version(connection, &version, &oldest, error, error_bytes))
            return false;
    }
    if (version == 0)
        return error_text(error, error_bytes,
                          "the database has no schema 'tarry', run 'tarry sql "
                          "migrate URL', or start with --migrate");
    if (version < POSTGRES_SCHEMA_VERSION)
        return error_text(error, error_bytes,
                          "the schema 'tarry' has version %d, this tarry requires %d, run 'tarry "
                          "sql migrate URL'",
                          version, POSTGRES_SCHEMA_VERSION);
    if (oldest > POSTGRES_SCHEMA_VERSION)
        return error_text(error, error_bytes,
                          "the schema 'tarry' has version %d, which this tarry is too old for",
                          version);
    return true;
}
