/* redis_store: a queue in Redis as commands are given it, by --store and --redis-password-file; and
 * what they say where it failed. */
#ifndef TARRY_CLI_REDIS_STORE_H
#define TARRY_CLI_REDIS_STORE_H

#include "redis/redis.h"

/* CLI_OK, or the exit code; said. `password_file` NULL: none. The URL is to be wiped after use. */
int redis_store_url(const char *store, const char *password_file, char url[REDIS_URL_BYTES_MAX]);
/* Says it; the exit code for a negative errno of redis/fsck.h or redis/reshard.h. */
int redis_store_error(int result, const char *error);

#endif
