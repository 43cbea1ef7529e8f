#include "server/config_jwt.h"

#include "base/error.h"
#include "server/issuer_keys.h"

bool config_jwt_keys_are_remote(const struct config *config)
{
    return strstr(config->jwt_keys, "://");
}

bool config_jwt_check(const struct config *config, char *error)
{
    bool has_issuer = config->jwt_issuer[0];
    if (!has_issuer && (config->jwt_audience[0] || config->jwt_keys[0] || config->jwt_ca[0]))
        return error_text(error, CONFIG_ERROR_BYTES, "'%s' is for JWTs, also give --jwt-issuer",
                          config->jwt_audience[0] ? "--jwt-audience"
                          : config->jwt_keys[0]   ? "--jwt-keys"
                                                  : "--jwt-ca");
    if (has_issuer && (!config->jwt_audience[0] || !config->jwt_keys[0]))
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--jwt-issuer' without '%s', give --jwt-audience and --jwt-keys: the "
                          "audience of tokens, and the keys that sign them",
                          config->jwt_audience[0] ? "--jwt-keys" : "--jwt-audience");
    if (!config->jwt_scope_claim[0] || !config->jwt_topics_claim[0])
        return error_text(error, CONFIG_ERROR_BYTES, "'%s' is empty, give the name of a claim",
                          config->jwt_scope_claim[0] ? "--jwt-topics-claim" : "--jwt-scope-claim");
    return !config_jwt_keys_are_remote(config) ||
           issuer_keys_check_url(config->jwt_keys, error, CONFIG_ERROR_BYTES);
}
