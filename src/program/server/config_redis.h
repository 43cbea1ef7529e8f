/* config_redis: what the configuration asks about --store, where it is the URL of a Redis. */
#ifndef TARRY_SERVER_CONFIG_REDIS_H
#define TARRY_SERVER_CONFIG_REDIS_H

#include <stdbool.h>
#include <stddef.h>

/* False: `error` says what is wrong with it. */
bool config_redis_check(const char *store, char *error, size_t error_bytes);
bool config_redis_holds_password(const char *store);

struct config;
/* The URL of --store with the password of --redis-password-file, into REDIS_URL_BYTES_MAX; to be wiped
 * after use. 0, or negative errno with `error`. */
int config_redis_url(const struct config *config, char *url, char *error, size_t error_bytes);

#endif
