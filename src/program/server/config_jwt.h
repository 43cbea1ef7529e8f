/* config_jwt: what the options of JWTs say together. Pure. */
#ifndef TARRY_SERVER_CONFIG_JWT_H
#define TARRY_SERVER_CONFIG_JWT_H

#include "server/config.h"

/* Are the issuer's keys at a URL? Else they are in a file. */
bool config_jwt_keys_are_remote(const struct config *config);
/* False: `error` (CONFIG_ERROR_BYTES) says what does not fit. */
bool config_jwt_check(const struct config *config, char *error);

#endif
