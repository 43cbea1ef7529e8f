/* stored_tokens: tokens in Redis. */
#include "redis/redis.h"
#include "redis/tokens.h"
#include "server/config_redis.h"
#include "server/stored_tokens.h"

#include <string.h>

_Static_assert((int)REDIS_TOKENS_ERROR_BYTES <= (int)STORED_TOKENS_ERROR_BYTES,
               "errors are handed through");

static int on_open(const struct config *config, void **out, char *error)
{
    char url[REDIS_URL_BYTES_MAX];
    struct redis_tokens *tokens = NULL;
    int result = config_redis_url(config, url, error, STORED_TOKENS_ERROR_BYTES);
    if (result == 0)
        result = redis_tokens_open(url, &tokens, error);
    explicit_bzero(url, sizeof url);
    *out = tokens;
    return result;
}

static int on_read(void *self, struct buffer *out, bool *is_changed, char *error)
{
    return redis_tokens_read(self, out, is_changed, error);
}

static int on_write(void *self, struct slice text, char *error)
{
    return redis_tokens_write(self, text, error);
}

static void on_close(void *self)
{
    redis_tokens_close(self);
}

const struct stored_tokens_ops stored_tokens_redis = {
    .open = on_open, .read = on_read, .write = on_write, .close = on_close};
