/* config_jwt: checks the JWT options together. Pure. */
#ifndef TARRY_SERVER_CONFIG_JWT_H
#define TARRY_SERVER_CONFIG_JWT_H

#include "server/config.h"

/* Returns true if the issuer's keys are at a URL, false if they are in a file. */
bool config_jwt_keys_are_remote(const struct config *config);
/* Returns false with `error` (CONFIG_ERROR_BYTES) if the options conflict. */
bool config_jwt_check(const struct config *config, char *error);

#endif
