/* Stubs for a build without JWTs: --jwt-issuer is refused. */
#include "base/feature.h"
#include "server/config.h"
#include "server/issuer_keys.h"

bool config_jwt_keys_are_remote(const struct config *config)
{
    (void)config;
    return false;
}

bool config_jwt_check(const struct config *config, char *error)
{
    bool is_asked = config->jwt_issuer[0] || config->jwt_audience[0] || config->jwt_keys[0];
    return !is_asked || feature_missing("jwt", error, CONFIG_ERROR_BYTES);
}

bool issuer_keys_open(struct issuer_keys *keys, struct reactor *reactor, const char *url,
                      const char *ca_file)
{
    (void)keys;
    (void)reactor;
    (void)url;
    (void)ca_file;
    return false;
}

void issuer_keys_look(struct issuer_keys *keys, bool is_wished)
{
    (void)keys;
    (void)is_wished;
}

void issuer_keys_ask_again(struct issuer_keys *keys)
{
    (void)keys;
}

void issuer_keys_close(struct issuer_keys *keys)
{
    (void)keys;
}
