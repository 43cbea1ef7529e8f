/* redis_store: a queue in Redis as given to commands by --store and --redis-password-file. */
#ifndef TARRY_CLI_REDIS_STORE_H
#define TARRY_CLI_REDIS_STORE_H

#include "redis/redis.h"

/* Builds the URL. Returns CLI_OK, or the exit code after printing the error. `password_file` may
 * be NULL. The caller wipes the URL after use. */
int redis_store_url(const char *store, const char *password_file, char url[REDIS_URL_BYTES_MAX]);

#endif
