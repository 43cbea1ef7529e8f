#include "cli/token_store.h"

#include "access/token_list.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
            args[count++] = (char *)(uintptr_t)values[i]; /* read only */
        }
    if (!config_load(&store->config, count, args, getenv, error))
        return cli_usage("%s", error);
    bool is_file = store->config.tokens[0] && !config_tokens_are_stored(&store->config);
    store->is_redis =
        config_is_redis(&store->config) && (!is_file || (flags->store && !flags->tokens));
    if (!is_file && !store->is_redis)
        return cli_usage(
            "no place for tokens is known, give --tokens FILE or --store URL, or set TARRY_TOKENS");
    snprintf(store->place, sizeof store->place, "%s",
             store->is_redis ? "redis" : store->config.tokens);
    return CLI_OK;
}

int token_store_read(const struct token_store *store, struct buffer *out)
{
    struct token_file_mark mark;
    char error[ACCESS_ERROR_BYTES];
    const char *path = store->config.tokens;
    if (store->is_redis)
        return token_store_redis_read(store, out);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return CLI_OK;
    return token_file_read(path, out, &mark, error) == 0 ? CLI_OK : cli_error("%s", error);
}

int token_store_edit(const struct token_store *store, token_file_editor *edit, void *ctx)
{
    char error[ACCESS_ERROR_BYTES];
    if (store->is_redis)
        return token_store_redis_edit(store, edit, ctx);
    int result = token_file_edit(store->config.tokens, edit, ctx, error);
    return result >= 0 ? result : cli_error("%s", error);
}
