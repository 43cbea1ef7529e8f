/* The tokens for all servers, in tarry.tokens of MariaDB or MySQL. */
#include "sql/tokens.h"

#include "base/error.h"
#include "base/hex.h"
#include "sql/mysql/greeting.h"
#include "sql/mysql/mysql.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 32 << 20 };

static void on_disconnect(void *connection)
{
    libmariadb.mysql_close(connection);
}

static void *on_connect(const char *url, char *error)
{
    return mysql_connect(url, error, SQL_TOKENS_ERROR_BYTES);
}

static int tokens_failed(MYSQL *mysql, const char *doing, char *error)
{
    enum { TABLE_DENIED = 1142, COLUMN_DENIED = 1143 };
    unsigned number = libmariadb.mysql_errno(mysql);
    if (number == TABLE_DENIED || number == COLUMN_DENIED)
        return error_result(
            -EACCES, error, SQL_TOKENS_ERROR_BYTES,
            "the database does not let this account %s the tokens: grant it SELECT, and "
            "to change them UPDATE, on tarry.tokens",
            doing);
    const bool is_of_the_client = number >= 2000 && number < 3000; /* connection errors */
    return error_result(is_of_the_client ? -EHOSTUNREACH : -EIO, error, SQL_TOKENS_ERROR_BYTES,
                        "cannot %s the tokens in the database: %s", doing,
                        libmariadb.mysql_error(mysql));
}

/* Reads the tokens. Versions consist of hexadecimal digits or a dash, so they need no quoting. */
static int on_read(void *connection, char version[SQL_TOKENS_VERSION_BYTES], struct buffer *out,
                   char *error)
{
    char text[160];
    MYSQL_RES *result = NULL;
    MYSQL_ROW row = NULL;
    int status = 0;
    (void)snprintf(text, sizeof text,
                   "SELECT version, CASE WHEN version <> '%s' THEN text END FROM tarry.tokens",
                   version);
    if (libmariadb.mysql_real_query(connection, text, strlen(text)) == 0)
        result = libmariadb.mysql_store_result(connection);
    if (result)
        row = libmariadb.mysql_fetch_row(result);
    if (!result) {
        status = tokens_failed(connection, "read", error);
    } else if (!row) {
        status = sql_tokens_absent(error);
    } else {
        if (row[1])
            buffer_append(out, row[1], libmariadb.mysql_fetch_lengths(result)[1]);
        (void)snprintf(version, SQL_TOKENS_VERSION_BYTES, "%s", row[0]);
        if (out->failed)
            status = error_result(-EFBIG, error, SQL_TOKENS_ERROR_BYTES,
                                  "the tokens in the database are too large");
    }
    if (result)
        libmariadb.mysql_free_result(result);
    return status;
}

static int on_write(void *connection, const char *version, const char *next, struct slice text,
                    char *error)
{
    struct buffer statement;
    buffer_init(&statement, TEXT_BYTES_MAX);
    buffer_append_format(&statement, "UPDATE tarry.tokens SET version = '%s', text = X'", next);
    for (size_t i = 0; i < text.len; i++) {
        char digits[2];
        hex_emit_bytes(digits, text.at + i, 1);
        buffer_append(&statement, digits, sizeof digits);
    }
    buffer_append_format(&statement, "' WHERE version = '%s'", version);
    int status = 0;
    if (statement.failed)
        status = error_result(-EFBIG, error, SQL_TOKENS_ERROR_BYTES, "too many tokens");
    else if (libmariadb.mysql_real_query(connection, statement.at, statement.len) != 0)
        status = tokens_failed(connection, "write", error);
    else if (libmariadb.mysql_affected_rows(connection) != 1)
        status = -EAGAIN;
    buffer_fini(&statement);
    return status;
}

const struct sql_tokens_ops sql_mysql_tokens = {
    .connect = on_connect, .disconnect = on_disconnect, .read = on_read, .write = on_write};
