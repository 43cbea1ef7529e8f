/* token_store: the tokens that all servers on one Redis share. */
#include "access/token_list.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/redis_store.h"
#include "cli/token_store.h"
#include "redis/tokens.h"
#include "server/config_redis.h"

#include <errno.h>
#include <string.h>

enum { TRIES_MAX = 100 }; /* others who change them at the same time */

static int open_tokens(const struct token_store *store, struct redis_tokens **out)
{
    char url[REDIS_URL_BYTES_MAX], error[REDIS_TOKENS_ERROR_BYTES];
    int result = config_redis_url(&store->config, url, error, sizeof error);
    if (result == 0)
        result = redis_tokens_open(url, out, error);
    explicit_bzero(url, sizeof url);
    return result == 0 ? CLI_OK : redis_store_error(result, error);
}

int token_store_redis_read(const struct token_store *store, struct buffer *out)
{
    char error[REDIS_TOKENS_ERROR_BYTES] = "";
    struct redis_tokens *tokens;
    bool is_changed;
    int exit_code = open_tokens(store, &tokens);
    if (exit_code != CLI_OK)
        return exit_code;
    int result = redis_tokens_read(tokens, out, &is_changed, error);
    redis_tokens_close(tokens);
    return result == 0 ? CLI_OK : redis_store_error(result, error);
}

/* Once, from what is there now. Negative errno, said but for -EAGAIN, or an exit code. */
static int edit_once(struct redis_tokens *tokens, struct buffer *before, token_file_editor *edit,
                     void *ctx)
{
    char error[REDIS_TOKENS_ERROR_BYTES] = "";
    struct buffer after;
    bool is_changed;
    buffer_init(&after, TOKEN_LIST_BYTES_MAX);
    int result = redis_tokens_read(tokens, before, &is_changed, error);
    int exit_code = result == 0 ? edit(ctx, buffer_slice(before), &after) : CLI_OK;
    if (result == 0 && exit_code == CLI_OK)
        result = after.failed
                     ? error_result(-EFBIG, error, sizeof error,
                                    "too many tokens, at most %d bytes", TOKEN_LIST_BYTES_MAX)
                     : redis_tokens_write(tokens, buffer_slice(&after), error);
    buffer_fini(&after);
    if (result == 0 || result == -EAGAIN)
        return result == 0 ? exit_code : result;
    return redis_store_error(result, error);
}

int token_store_redis_edit(const struct token_store *store, token_file_editor *edit, void *ctx)
{
    struct redis_tokens *tokens;
    struct buffer before;
    int exit_code = open_tokens(store, &tokens);
    if (exit_code != CLI_OK)
        return exit_code;
    buffer_init(&before, TOKEN_LIST_BYTES_MAX + 1);
    exit_code = -EAGAIN;
    for (int i = 0; exit_code == -EAGAIN && i < TRIES_MAX; i++) {
        buffer_clear(&before);
        exit_code = edit_once(tokens, &before, edit, ctx);
    }
    buffer_fini(&before);
    redis_tokens_close(tokens);
    return exit_code == -EAGAIN ? cli_error("others change the tokens all the time, try again")
                                : exit_code;
}
