/* config_facts: what follows from the options of a configuration. */
#ifndef TARRY_SERVER_CONFIG_FACTS_H
#define TARRY_SERVER_CONFIG_FACTS_H

#include "server/config.h"

#include <string.h>

/* Returns true if the jobs are in MariaDB or MySQL. */
static inline bool config_is_mysql(const struct config *config)
{
    return strncmp(config->store, "mysql://", 8) == 0 ||
           strncmp(config->store, "mariadb://", 10) == 0;
}

/* Returns true if the jobs are in a SQL database. */
static inline bool config_is_sql(const struct config *config)
{
    return strncmp(config->store, "postgres://", 11) == 0 ||
           strncmp(config->store, "postgresql://", 13) == 0 || config_is_mysql(config);
}

static inline bool config_is_redis(const struct config *config)
{
    return strcmp(config->store, "embedded") != 0 && !config_is_sql(config);
}

/* Returns true if the tokens are in the store, shared by all servers. */
static inline bool config_tokens_are_stored(const struct config *config)
{
    return strcmp(config->tokens, "store") == 0;
}

/* Returns the minimum memory, in which the largest batch and the largest response fit. */
static inline int64_t config_memory_bytes_least(const struct config *config)
{
    const int64_t least = INT64_C(32) << 20;
    return config->max_body_bytes * 4 > least ? config->max_body_bytes * 4 : least;
}

#endif
