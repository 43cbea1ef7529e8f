/* Stubs for a build without the web console: --oidc-client is refused. */
#include "base/feature.h"
#include "server/sign_in.h"

bool config_sign_in_check(const struct config *config, char *error)
{
    return !config->oidc_client[0] || feature_missing("console", error, CONFIG_ERROR_BYTES);
}

bool sign_in_read(const struct config *config, struct http_sign_in *out)
{
    (void)config;
    (void)out;
    return false;
}
