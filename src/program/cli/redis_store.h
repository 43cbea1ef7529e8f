/* redis_store: a queue in Redis as commands are given it, by --store and --redis-password-file. */
#ifndef TARRY_CLI_REDIS_STORE_H
#define TARRY_CLI_REDIS_STORE_H

#include "redis/redis.h"

/* CLI_OK, or the exit code; said. `password_file` NULL: none. The URL is to be wiped after use. */
int redis_store_url(const char *store, const char *password_file, char url[REDIS_URL_BYTES_MAX]);

#endif
