#include "server/config_redis.h"

#include "base/error.h"
#include "redis/redis.h"
#include "redis/url.h"
#include "server/config.h"

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
