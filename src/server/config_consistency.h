/*
 * config_consistency: whether options, each of which is good by itself, go together. Pure.
 */
#ifndef TARRY_SERVER_CONFIG_CONSISTENCY_H
#define TARRY_SERVER_CONFIG_CONSISTENCY_H

#include "server/config.h"

/* False: `error` (CONFIG_ERROR_BYTES) says what does not, and what to do. */
bool config_is_consistent(const struct config *config, char *error);

#endif
