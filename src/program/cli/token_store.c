#include "cli/token_store.h"

#include "access/token_list.h"
#include "base/error.h"
#include "cli/cli.h"
#include "server/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TRIES_MAX = 100 }; /* attempts while others change the tokens concurrently */

int token_store_find(struct token_store *store, const struct token_store_flags *flags)
{
    char error[CONFIG_ERROR_BYTES];
    char names[][24] = {"--tokens", "--config", "--store", "--redis-password-file"};
    const char *const values[] = {flags->tokens, flags->config, flags->store, flags->password_file};
    char *args[2 * sizeof values / sizeof values[0]];
    int count = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (values[i]) {
            args[count++] = names[i];
            args[count++] = (char *)(uintptr_t)values[i]; /* only read */
        }
    if (!config_load(&store->config, count, args, getenv, error))
        return cli_usage("%s", error);
    bool is_file = store->config.tokens[0] && !config_tokens_are_stored(&store->config);
    store->ops =
        !is_file || (flags->store && !flags->tokens) ? stored_tokens_ops_of(&store->config) : NULL;
    if (!is_file && !store->ops)
        return cli_usage("no place for tokens is configured, give --tokens FILE or --store URL, or "
                         "set TARRY_TOKENS");
    snprintf(store->place, sizeof store->place, "%s",
             !store->ops                     ? store->config.tokens
             : config_is_sql(&store->config) ? "the database"
                                             : "redis");
    return CLI_OK;
}

/* ---- tokens in a store ---- */

static int read_stored(const struct token_store *store, struct buffer *out)
{
    char error[STORED_TOKENS_ERROR_BYTES] = "";
    void *tokens = NULL;
    bool is_changed;
    int result = store->ops->open(&store->config, &tokens, error);
    if (result == 0)
        result = store->ops->read(tokens, out, &is_changed, error);
    store->ops->close(tokens);
    return result == 0 ? CLI_OK : cli_store_error(result, error);
}

/* Edits the current tokens once. Returns an exit code or a negative errno; errors are printed
 * except -EAGAIN. */
static int edit_once(const struct stored_tokens_ops *ops, void *tokens, struct buffer *before,
                     token_file_editor *edit, void *ctx)
{
    char error[STORED_TOKENS_ERROR_BYTES] = "";
    struct buffer after;
    bool is_changed;
    buffer_init(&after, TOKEN_LIST_BYTES_MAX);
    int result = ops->read(tokens, before, &is_changed, error);
    int exit_code = result == 0 ? edit(ctx, buffer_slice(before), &after) : CLI_OK;
    if (result == 0 && exit_code == CLI_OK)
        result = after.failed
                     ? error_result(-EFBIG, error, sizeof error,
                                    "too many tokens, at most %d bytes", TOKEN_LIST_BYTES_MAX)
                     : ops->write(tokens, buffer_slice(&after), error);
    buffer_fini(&after);
    if (result == 0 || result == -EAGAIN)
        return result == 0 ? exit_code : result;
    return cli_store_error(result, error);
}

static int edit_stored(const struct token_store *store, token_file_editor *edit, void *ctx)
{
    char error[STORED_TOKENS_ERROR_BYTES] = "";
    void *tokens = NULL;
    struct buffer before;
    int result = store->ops->open(&store->config, &tokens, error);
    if (result != 0)
        return cli_store_error(result, error);
    buffer_init(&before, TOKEN_LIST_BYTES_MAX + 1);
    int exit_code = -EAGAIN;
    for (int i = 0; exit_code == -EAGAIN && i < TRIES_MAX; i++) {
        buffer_clear(&before);
        exit_code = edit_once(store->ops, tokens, &before, edit, ctx);
    }
    buffer_fini(&before);
    store->ops->close(tokens);
    return exit_code == -EAGAIN ? cli_error("the tokens are being changed by others, try again")
                                : exit_code;
}

/* ---- tokens in a file or a store ---- */

int token_store_read(const struct token_store *store, struct buffer *out)
{
    struct token_file_mark mark;
    char error[ACCESS_ERROR_BYTES];
    const char *path = store->config.tokens;
    if (store->ops)
        return read_stored(store, out);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return CLI_OK;
    return token_file_read(path, out, &mark, error) == 0 ? CLI_OK : cli_error("%s", error);
}

int token_store_edit(const struct token_store *store, token_file_editor *edit, void *ctx)
{
    char error[ACCESS_ERROR_BYTES];
    if (store->ops)
        return edit_stored(store, edit, ctx);
    int result = token_file_edit(store->config.tokens, edit, ctx, error);
    return result >= 0 ? result : cli_error("%s", error);
}
