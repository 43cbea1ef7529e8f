/* config_redis: checks of --store if it is the URL of a Redis server. */
#ifndef TARRY_SERVER_CONFIG_REDIS_H
#define TARRY_SERVER_CONFIG_REDIS_H

#include <stdbool.h>
#include <stddef.h>

/* Returns false with `error` if the URL is invalid. */
bool config_redis_check(const char *store, char *error, size_t error_bytes);
bool config_redis_holds_password(const char *store);

struct config;
/* Writes the URL of --store with the password of --redis-password-file to `url`
 * (REDIS_URL_BYTES_MAX), which has to be wiped after use. Returns 0, or negative errno with
 * `error`. */
int config_redis_url(const struct config *config, char *url, char *error, size_t error_bytes);

#endif
