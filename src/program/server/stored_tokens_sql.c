/* stored_tokens: tokens in a SQL database. */
#include "server/stored_tokens.h"
#include "sql/tokens.h"

_Static_assert((int)SQL_TOKENS_ERROR_BYTES <= (int)STORED_TOKENS_ERROR_BYTES,
               "errors are handed through");

static int on_open(const struct config *config, void **out, char *error)
{
    struct sql_tokens *tokens = NULL;
    int result = sql_tokens_open(config->store, &tokens, error);
    *out = tokens;
    return result;
}

static int on_read(void *self, struct buffer *out, bool *is_changed, char *error)
{
    return sql_tokens_read(self, out, is_changed, error);
}

static int on_write(void *self, struct slice text, char *error)
{
    return sql_tokens_write(self, text, error);
}

static void on_close(void *self)
{
    sql_tokens_close(self);
}

const struct stored_tokens_ops stored_tokens_sql = {
    .open = on_open, .read = on_read, .write = on_write, .close = on_close};
