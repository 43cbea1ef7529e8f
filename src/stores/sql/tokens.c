#include "sql/tokens.h"

#include "base/error.h"
#include "base/hex.h"
#include "base/random.h"
#include "sql/dialect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sql_tokens {
    const struct sql_tokens_ops *ops;
    char *url;
    void *connection;                       /* NULL: not connected */
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
    tokens->ops = dialect->tokens;
    *out = tokens;
    return 0;
}

int sql_tokens_absent(char *error)
{
    return error_result(-EIO, error, SQL_TOKENS_ERROR_BYTES,
                        "the row of tarry.tokens is missing, run: tarry fsck --repair");
}

static void tokens_disconnect(struct sql_tokens *tokens)
{
    if (tokens->connection)
        tokens->ops->disconnect(tokens->connection);
    tokens->connection = NULL;
}

void sql_tokens_close(struct sql_tokens *tokens)
{
    if (!tokens)
        return;
    tokens_disconnect(tokens);
    explicit_bzero(tokens->url, strlen(tokens->url));
    free(tokens->url);
    free(tokens);
}

static int tokens_connect(struct sql_tokens *tokens, char *error)
{
    if (!tokens->connection)
        tokens->connection = tokens->ops->connect(tokens->url, error);
    return tokens->connection ? 0 : -EHOSTUNREACH;
}

/* Closes the connection after an error. The next call connects again, perhaps to another machine. */
static int tokens_done(struct sql_tokens *tokens, int result)
{
    if (result != 0 && result != -EAGAIN)
        tokens_disconnect(tokens);
    return result;
}

int sql_tokens_read(struct sql_tokens *tokens, struct buffer *out, bool *is_changed, char *error)
{
    char version[SQL_TOKENS_VERSION_BYTES] = "-"; /* not the version of any text */
    *is_changed = false;
    int result = tokens_connect(tokens, error);
    if (tokens->was_read)
        memcpy(version, tokens->version, sizeof version);
    if (result == 0)
        result = tokens_done(tokens, tokens->ops->read(tokens->connection, version, out, error));
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
    result = tokens_done(
        tokens, tokens->ops->write(tokens->connection, tokens->version, next, text, error));
    if (result == 0)
        memcpy(tokens->version, next, sizeof next);
    return result;
}
