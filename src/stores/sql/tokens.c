#include "sql/tokens.h"

#include "base/error.h"
#include "base/hex.h"
#include "base/random.h"
#include "sql/dialect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sql_tokens {
    const struct sql_dialect *dialect;
    char *url;
    struct sql_client client;
    char version[SQL_TOKENS_VERSION_BYTES]; /* version of the text that was read last */
    bool was_read;
};

int sql_tokens_open(const char *url, struct sql_tokens **out, char *error)
{
    const struct sql_dialect *dialect = sql_dialect_of(url);
    if (!dialect)
        return error_result(-EINVAL, error, SQL_TOKENS_ERROR_BYTES,
                            "the store has no tokens, give a file of tokens");
    struct sql_tokens *tokens = calloc(1, sizeof *tokens);
    if (!tokens || !(tokens->url = strdup(url))) {
        free(tokens);
        return error_result(-ENOMEM, error, SQL_TOKENS_ERROR_BYTES, "out of memory");
    }
    tokens->dialect = dialect;
    *out = tokens;
    return 0;
}

void sql_tokens_close(struct sql_tokens *tokens)
{
    if (!tokens)
        return;
    sql_client_close(&tokens->client);
    explicit_bzero(tokens->url, strlen(tokens->url));
    free(tokens->url);
    free(tokens);
}

static int tokens_connect(struct sql_tokens *tokens, char *error)
{
    const char *begin = tokens->dialect->questions->tokens_begin;
    if (tokens->client.connection)
        return 0;
    if (!sql_client_open(&tokens->client, tokens->dialect, tokens->url, error,
                         SQL_TOKENS_ERROR_BYTES))
        return -EHOSTUNREACH;
    if (begin)
        (void)sql_ask(&tokens->client, begin, NULL, NULL);
    return 0;
}

/* Closes the connection after an error. The next call connects again, perhaps to another machine. */
static int tokens_done(struct sql_tokens *tokens, int result)
{
    if (result != 0 && result != -EAGAIN)
        sql_client_close(&tokens->client);
    return result;
}

static int tokens_failed(const struct sql_tokens *tokens, const char *doing, char *error)
{
    const struct sql_client *client = &tokens->client;
    if (client->refusal == SQL_REFUSAL_DENIED)
        return error_result(
            -EACCES, error, SQL_TOKENS_ERROR_BYTES,
            "the database does not let this %s %s the tokens: grant it SELECT, and to "
            "change them UPDATE, on tarry.tokens",
            tokens->dialect->account, doing);
    return error_result(client->refusal == SQL_REFUSAL_LOST ? -EHOSTUNREACH : -EIO, error,
                        SQL_TOKENS_ERROR_BYTES, "cannot %s the tokens in the database: %s", doing,
                        client->message);
}

/* Sets the current version, and appends the text if it differs from the one passed in `version`. */
static int read_text(struct sql_tokens *tokens, char version[SQL_TOKENS_VERSION_BYTES],
                     struct buffer *out, char *error)
{
    enum { VERSION, TEXT };
    const struct sql_args args = {1, {sql_arg_text(version)}};
    struct sql_rows rows;
    int status = 0;
    if (!sql_ask(&tokens->client,
                 "SELECT version, CASE WHEN version <> $1 THEN text END FROM tarry.tokens", &args,
                 &rows))
        return tokens_failed(tokens, "read", error);
    if (rows.count != 1) {
        status = error_result(-EIO, error, SQL_TOKENS_ERROR_BYTES,
                              "the row of tarry.tokens is missing, run: tarry fsck --repair");
    } else {
        (void)snprintf(version, SQL_TOKENS_VERSION_BYTES, "%s",
                       sql_rows_text(&rows, 0, VERSION).at);
        buffer_append_slice(out, sql_rows_text(&rows, 0, TEXT));
        if (out->failed)
            status = error_result(-EFBIG, error, SQL_TOKENS_ERROR_BYTES,
                                  "the tokens in the database are too large");
    }
    sql_rows_fini(&rows);
    return status;
}

/* Sets the version to `next` if it is still that of the text that was read last. Returns -EAGAIN
 * otherwise. */
static int write_text(struct sql_tokens *tokens, const char *next, struct slice text, char *error)
{
    const struct sql_args args = {
        3, {sql_arg_text(tokens->version), sql_arg_text(next), sql_arg_bytes(text)}};
    struct sql_rows rows;
    if (!sql_ask(&tokens->client,
                 "UPDATE tarry.tokens SET version = $2, text = $3 WHERE version = $1", &args,
                 &rows))
        return tokens_failed(tokens, "write", error);
    int status = rows.changed == 1 ? 0 : -EAGAIN;
    sql_rows_fini(&rows);
    return status;
}

int sql_tokens_read(struct sql_tokens *tokens, struct buffer *out, bool *is_changed, char *error)
{
    char version[SQL_TOKENS_VERSION_BYTES] = "-"; /* not the version of any text */
    *is_changed = false;
    int result = tokens_connect(tokens, error);
    if (tokens->was_read)
        memcpy(version, tokens->version, sizeof version);
    if (result == 0)
        result = tokens_done(tokens, read_text(tokens, version, out, error));
    if (result != 0)
        return result;
    *is_changed = !tokens->was_read || strcmp(version, tokens->version) != 0;
    memcpy(tokens->version, version, sizeof version);
    tokens->was_read = true;
    return 0;
}

int sql_tokens_write(struct sql_tokens *tokens, struct slice text, char *error)
{
    char next[SQL_TOKENS_VERSION_BYTES] = "";
    int result = tokens_connect(tokens, error);
    if (result != 0)
        return result;
    hex_emit_u64(next, random_u64(), 16);
    hex_emit_u64(next + 16, random_u64(), 16);
    result = tokens_done(tokens, write_text(tokens, next, text, error));
    if (result == 0)
        memcpy(tokens->version, next, sizeof next);
    return result;
}
