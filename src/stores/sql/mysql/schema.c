#include "sql/mysql/schema.h"

#include "base/error.h"
#include "sql/mysql/schema_texts.h"

#include <stdlib.h>
#include <string.h>

enum {
    NO_SUCH_DATABASE = 1049,
    NO_SUCH_TABLE = 1146,
    NOT_TRUSTED = 1419, /* function creation with a binary log */
    DELIMITER_BYTES = 8
};

struct slice mysql_schema_text(void)
{
    return slice_make(mysql_migration_1_text, mysql_migration_1_bytes);
}

/* Reads the version, 0 if there is no schema. Returns false if the database reports another error. */
static bool read_version(MYSQL *mysql, int *version, int *oldest, char *error, size_t error_bytes)
{
    static const char text[] = "SELECT version, oldest_reader FROM tarry.schema_version "
                               "ORDER BY version DESC LIMIT 1";
    *version = *oldest = 0;
    if (libmariadb.mysql_real_query(mysql, text, sizeof text - 1) != 0) {
        unsigned fault = libmariadb.mysql_errno(mysql);
        return fault == NO_SUCH_DATABASE || fault == NO_SUCH_TABLE ||
               error_text(error, error_bytes, "the schema tarry cannot be read: %s",
                          libmariadb.mysql_error(mysql));
    }
    MYSQL_RES *result = libmariadb.mysql_store_result(mysql);
    MYSQL_ROW row = result ? libmariadb.mysql_fetch_row(result) : NULL;
    if (row) {
        *version = atoi(row[0]);
        *oldest = atoi(row[1]);
    }
    if (result)
        libmariadb.mysql_free_result(result);
    return true;
}

static bool do_text(MYSQL *mysql, struct slice text, char *error, size_t error_bytes)
{
    if (libmariadb.mysql_real_query(mysql, text.at, text.len) != 0) {
        bool is_not_trusted = libmariadb.mysql_errno(mysql) == NOT_TRUSTED;
        return error_text(
            error, error_bytes, "cannot create the schema: %s%s", libmariadb.mysql_error(mysql),
            is_not_trusted ? "; set log_bin_trust_function_creators to 1 while the schema is "
                             "created, or create it with an account that has SUPER"
                           : "");
    }
    do {
        MYSQL_RES *result = libmariadb.mysql_store_result(mysql);
        if (result)
            libmariadb.mysql_free_result(result);
        else if (libmariadb.mysql_field_count(mysql) > 0)
            return error_text(error, error_bytes, "%s", libmariadb.mysql_error(mysql));
    } while (libmariadb.mysql_next_result(mysql) == 0);
    return true;
}

/* Takes the next statement from a text in the same way as the client programs: a statement ends
 * with the delimiter at the end of a line, and a line of its own may change the delimiter. */
static bool next_statement(struct slice *text, char delimiter[DELIMITER_BYTES], struct slice *out)
{
    static const char word[] = "DELIMITER ";
    const char *end = text->at + text->len, *from = text->at;
    for (const char *line = from; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const char *next = stop ? stop + 1 : end;
        size_t len = (size_t)((stop ? stop : end) - line), mark = strlen(delimiter);
        if (len > sizeof word - 1 && memcmp(line, word, sizeof word - 1) == 0 &&
            len - (sizeof word - 1) < DELIMITER_BYTES) {
            memcpy(delimiter, line + sizeof word - 1, len - (sizeof word - 1));
            delimiter[len - (sizeof word - 1)] = '\0';
            from = next;
        } else if (len >= mark && memcmp(line + len - mark, delimiter, mark) == 0) {
            *out = slice_make(from, (size_t)(line - from) + len - mark);
            *text = slice_make(next, (size_t)(end - next));
            return true;
        }
        line = next;
    }
    return false;
}

static bool migrate_from(MYSQL *mysql, int version, char *error, size_t error_bytes)
{
    char delimiter[DELIMITER_BYTES] = ";";
    struct slice text = mysql_schema_text(), statement;
    if (version >= MYSQL_SCHEMA_VERSION)
        return true;
    while (next_statement(&text, delimiter, &statement))
        if (!do_text(mysql, statement, error, error_bytes))
            return false;
    return true;
}

static bool migrate_locked(MYSQL *mysql, char *error, size_t error_bytes)
{
    int version, oldest;
    bool is_done =
        do_text(mysql, slice_of("DO GET_LOCK('tarry.migrate', 60)"), error, error_bytes) &&
        read_version(mysql, &version, &oldest, error, error_bytes) &&
        migrate_from(mysql, version, error, error_bytes);
    return do_text(mysql, slice_of("DO RELEASE_LOCK('tarry.migrate')"), NULL, 0) && is_done;
}

bool mysql_schema_check(MYSQL *mysql, bool migrate, char *error, size_t error_bytes)
{
    int version, oldest;
    if (!read_version(mysql, &version, &oldest, error, error_bytes))
        return false;
    if (version < MYSQL_SCHEMA_VERSION && migrate &&
        (!migrate_locked(mysql, error, error_bytes) ||
         !read_version(mysql, &version, &oldest, error, error_bytes)))
        return false;
    if (version == 0)
        return error_text(error, error_bytes,
                          "the server has no schema 'tarry', run 'tarry sql migrate URL', or start "
                          "with --migrate");
    if (version < MYSQL_SCHEMA_VERSION)
        return error_text(error, error_bytes,
                          "the schema 'tarry' has version %d, this tarry requires %d, run 'tarry "
                          "sql migrate URL'",
                          version, MYSQL_SCHEMA_VERSION);
    if (oldest > MYSQL_SCHEMA_VERSION)
        return error_text(error, error_bytes,
                          "the schema 'tarry' has version %d, which this tarry is too old for",
                          version);
    return true;
}
