#include "server/sign_in.h"

#include "base/error.h"
#include "base/url.h"
#include "http/front.h"

/* Parameters that the console sets itself, or that must not be in a public configuration. */
static const char *const own_parameters[] = {
    "client_id", "client_secret", "code",         "code_challenge", "code_challenge_method",
    "nonce",     "redirect_uri",  "grant_type",   "refresh_token",  "response_mode",
    "state",     "code_verifier", "response_type"};

static bool is_own_parameter(struct slice name)
{
    for (size_t i = 0; i < sizeof own_parameters / sizeof own_parameters[0]; i++)
        if (slice_is(name, own_parameters[i]))
            return true;
    return false;
}

static bool check_parameters(const char *text, char *error)
{
    struct slice rest = slice_of(text), name, value;
    bool has_value;
    if (strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%+:/&=") !=
        rest.len)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "bad '--oidc-parameters', write them as in a query: "
                          "scope=openid%%20profile&resource=https://tarry.example");
    while (url_next_pair(&rest, &name, &value, &has_value))
        if (!has_value || !name.len)
            return error_text(error, CONFIG_ERROR_BYTES,
                              "bad '--oidc-parameters', give NAME=VALUE, separated by &");
        else if (is_own_parameter(name))
            return error_text(error, CONFIG_ERROR_BYTES,
                              "bad '--oidc-parameters', leave out '%.*s': %s", (int)name.len,
                              name.at,
                              slice_is(name, "client_secret")
                                  ? "anyone can read it; register the console as a public client"
                                  : "the console sets it");
    return true;
}

/* Parses an issuer whose origin can be named in a content security policy. */
static bool issuer_parse(const char *text, struct url *url, char *error)
{
    enum url_fault fault = url_parse(slice_of(text), url);
    if (fault != URL_OK)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "bad '--jwt-issuer' for --oidc-client, %s; the console finds the "
                          "identity provider by this URL",
                          url_fault_text(fault));
    if (url->host_count != 1 || url->has_user || url->has_query || url->hosts[0].is_ipv6)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "bad '--jwt-issuer' for --oidc-client, give a URL of one host by name, "
                          "without a user and a query");
    bool is_here =
        slice_is(url->hosts[0].name, "localhost") || slice_is(url->hosts[0].name, "127.0.0.1");
    if (url_scheme_is(url, "https") || (url_scheme_is(url, "http") && is_here))
        return true;
    return error_text(error, CONFIG_ERROR_BYTES,
                      "bad '--jwt-issuer' for --oidc-client, give https:// (http:// only for "
                      "localhost)");
}

bool config_sign_in_check(const struct config *config, char *error)
{
    static const char *const others[] = {"oidc-token", "oidc-parameters", NULL};
    struct url url;
    const char *other = config_find_given(config, others);
    if (!config->oidc_client[0])
        return !other || error_text(error, CONFIG_ERROR_BYTES,
                                    "'--%s' is for logging in, also give --oidc-client", other);
    if (!config->jwt_issuer[0])
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--oidc-client' needs the issuer whose tokens the server accepts, also "
                          "give --jwt-issuer");
    return issuer_parse(config->jwt_issuer, &url, error) &&
           check_parameters(config->oidc_parameters, error);
}

bool sign_in_read(const struct config *config, struct http_sign_in *out)
{
    char error[CONFIG_ERROR_BYTES];
    struct url url;
    struct buffer origin;
    if (!config->oidc_client[0] || !issuer_parse(config->jwt_issuer, &url, error))
        return false;
    *out = (struct http_sign_in){.issuer = config->jwt_issuer,
                                 .client = config->oidc_client,
                                 .parameters = config->oidc_parameters,
                                 .uses_id_token = config->oidc_token == CONFIG_OIDC_ID};
    buffer_init(&origin, HTTP_ORIGIN_BYTES_MAX);
    url_emit_origin(&url, 0, url_scheme_is(&url, "https") ? 443 : 80, &origin);
    bool is_whole = !origin.failed;
    if (is_whole)
        snprintf(out->origin, sizeof out->origin, "%.*s", (int)origin.len, origin.at);
    buffer_fini(&origin);
    return is_whole;
}
