/* config_redis: what the configuration asks about --store, where it is the URL of a Redis. Pure. */
#ifndef TARRY_SERVER_CONFIG_REDIS_H
#define TARRY_SERVER_CONFIG_REDIS_H

#include <stdbool.h>
#include <stddef.h>

/* False: `error` says what is wrong with it. */
bool config_redis_check(const char *store, char *error, size_t error_bytes);
bool config_redis_holds_password(const char *store);

#endif
