#include "server/config_redis.h"

#include "base/error.h"
#include "redis/redis.h"
#include "redis/url.h"
#include "server/config.h"
#include "server/secret.h"

#include <errno.h>
#include <string.h>

_Static_assert(REDIS_DURABILITY_MEMORY == CONFIG_DURABILITY_ANY + 1 && REDIS_DURABILITY_ALWAYS == 5,
               "the choices of require-durability");

bool config_redis_check(const char *store, char *error, size_t error_bytes)
{
    struct redis_url url;
    char why[CONFIG_ERROR_BYTES - 16];
    if (!redis_url_parse(store, &url, why, sizeof why))
        return error_text(error, error_bytes, "bad '--store', %s", why);
    explicit_bzero(&url, sizeof url);
    return true;
}

bool config_redis_holds_password(const char *store)
{
    struct redis_url url;
    char error[CONFIG_ERROR_BYTES];
    bool holds = redis_url_parse(store, &url, error, sizeof error) &&
                 (url.password[0] || url.sentinel_password[0]);
    explicit_bzero(&url, sizeof url);
    return holds;
}

int config_redis_url(const struct config *config, char *url, char *error, size_t error_bytes)
{
    char secret[REDIS_SECRET_BYTES];
    if (strlen(config->store) >= REDIS_URL_BYTES_MAX)
        return error_result(-EINVAL, error, error_bytes,
                            "'--store' is too long, give at most %d bytes",
                            REDIS_URL_BYTES_MAX - 1);
    strcpy(url, config->store);
    if (!config->redis_password_file[0])
        return 0;
    int result =
        secret_read(config->redis_password_file, secret, sizeof secret, error, error_bytes);
    if (result == 0)
        result =
            secret_into_url(config->store, secret, url, REDIS_URL_BYTES_MAX, error, error_bytes);
    explicit_bzero(secret, sizeof secret);
    return result;
}
