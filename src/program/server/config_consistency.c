#include "server/config_consistency.h"

#include "base/error.h"
#include "net/tls.h"
#include "server/config_facts.h"
#include "server/config_jwt.h"
#include "server/config_options.h"
#include "server/config_redis.h"
#include "server/exposure.h"
#include "trace/tracer.h"

_Static_assert((int)TRACER_ERROR_BYTES == (int)CONFIG_ERROR_BYTES, "one error for both");
_Static_assert((int)LISTENER_ERROR_BYTES == (int)CONFIG_ERROR_BYTES, "one error for both");

static bool check_embedded(const struct config *config, char *error)
{
    static const char *const foreign[] = {"require-durability", "wait-replicas", "store-timeout",
                                          "redis-password-file", NULL};
    const char *given = config_find_given(config, foreign);
    if (config->migrate)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'migrate' is for jobs in a SQL database, leave it out or give --store "
                          "postgres://HOST/DATABASE or mysql://HOST");
    if (given)
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "'%s' is for jobs in Redis, leave it out or give --store redis://HOST:PORT", given);
    if (!config->data[0])
        return error_text(error, CONFIG_ERROR_BYTES, "no data directory, give --data DIR");
    /* half a file must have room for a job */
    if (config->wal_file_bytes < 4 * config->max_body_bytes) {
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "'--wal-file' is too small for '--max-body', give at least four times as much");
    }
    return true;
}

static bool check_sql(const struct config *config, char *error)
{
    if (config->test_clock_ms)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--test-clock' is for the embedded store and for Redis, a database uses "
                          "its own clock; leave it or --store out");
    static const char *const foreign[] = {
        "sync", "wal-file", "shards", "wait-replicas", "store-timeout", "redis-password-file",
        NULL};
    const char *given = config_find_given(config, foreign);
    return !given || error_text(error, CONFIG_ERROR_BYTES,
                                "'%s' is for other stores than SQL databases, leave it out", given);
}

static bool check_redis(const struct config *config, char *error)
{
    static const char *const foreign[] = {"sync", "wal-file", NULL};
    const char *given = config_find_given(config, foreign);
    if (!strstr(config->store, "://"))
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "bad value '%.64s' for '--store', give embedded or a URL that begins with redis://, "
            "rediss://, redis-sentinel://, redis-cluster://, unix://, postgres://, mysql:// or "
            "mariadb://",
            strchr(config->store, '@') ? "…" : config->store);
    if (!config_redis_check(config->store, error, CONFIG_ERROR_BYTES))
        return false;
    if (config->test_clock_ms == OPTION_CLOCK_NOW)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--test-clock' on Redis needs a start time that is the same for all "
                          "servers: give --test-clock=2030-01-01T00:00:00Z");
    if (given) {
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'%s' is for the embedded store, leave it out; durability is set in "
                          "Redis (appendonly, appendfsync), and --require-durability checks it",
                          given);
    }
    return true;
}

/* Returns true if callers are configured. */
static bool knows_callers(const struct config *config)
{
    return config->tokens[0] || config->jwt_issuer[0];
}

static bool requires_certificate(const struct config *config,
                                 const struct listener_options *listener)
{
    return listener->tls && config->tls_client_ca[0] &&
           config->tls_client_auth == TLS_CLIENT_AUTH_REQUIRE + 1;
}

bool config_can_prove(const struct config *config, const struct listener_options *listener)
{
    return knows_callers(config) || requires_certificate(config, listener);
}

bool config_certificate_will_do(const struct config *config,
                                const struct listener_options *listener)
{
    return !knows_callers(config) && requires_certificate(config, listener);
}

/* Checks that TLS is configured exactly if a listener uses it. */
static bool check_tls(const struct config *config, char *error)
{
    static const char *const all[] = {"tls-cert",        "tls-key", "tls-client-ca",
                                      "tls-client-auth", "tls-min", NULL};
    static const char *const auth[] = {"tls-client-auth", NULL};
    const struct option_listen *listen = &config->listen;
    const char *given = config_find_given(config, all);
    char name[ADDRESS_TEXT_BYTES];
    bool has_both = config->tls_cert[0] && config->tls_key[0], speaks = false;
    for (uint32_t i = 0; i < listen->count && !has_both; i++) {
        address_emit(&listen->at[i], name);
        if (listen->at[i].tls)
            return error_text(error, CONFIG_ERROR_BYTES,
                              "cannot use TLS on '%s' without a certificate, give --tls-cert "
                              "FILE and --tls-key FILE",
                              name);
    }
    for (uint32_t i = 0; i < listen->count; i++)
        speaks |= listen->at[i].tls;
    if (given && !speaks)
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "'--%s' without a TLS listener, add the word tls to one: --listen 0.0.0.0:8443,tls",
            given);
    if (config_find_given(config, auth) && config->tls_client_auth != TLS_CLIENT_AUTH_OFF + 1 &&
        !config->tls_client_ca[0])
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--tls-client-auth' without --tls-client-ca, give the file of CA "
                          "certificates that sign them");
    return true;
}

bool config_beanstalk(const struct config *config, struct listener_options *out, char *error)
{
    char why[ADDRESS_ERROR_BYTES];
    if (!address_parse(slice_of(config->beanstalk), out, why))
        return error_text(error, CONFIG_ERROR_BYTES, "cannot use '--beanstalk %s', %s",
                          config->beanstalk, why);
    const struct peer address = peer_of_socket(&out->address);
    bool is_local = out->kind != LISTENER_TCP || peer_is_loopback(&address);
    if (out->tls || out->plain || out->proxy_protocol || out->token != LISTENER_TOKEN_AUTO)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "cannot use '--beanstalk %s', the protocol has no TLS and no tokens, "
                          "give only an address, for a unix socket also mode= and group=",
                          config->beanstalk);
    return is_local || config->insecure ||
           error_text(error, CONFIG_ERROR_BYTES,
                      "refusing to listen on '--beanstalk %s', which other machines can reach "
                      "without TLS and tokens, give --insecure to allow it",
                      config->beanstalk);
}

/* Checks the listeners as far as possible before they are open. */
static bool check_listen(const struct config *config, char *error)
{
    const struct option_listen *listen = &config->listen;
    for (uint32_t i = 0; i < listen->count; i++) {
        char text[ADDRESS_TEXT_BYTES], other[ADDRESS_TEXT_BYTES];
        const struct peer address = peer_of_socket(&listen->at[i].address);
        address_emit(&listen->at[i], text);
        const struct exposure exposure = {
            .options = &listen->at[i],
            .name = text,
            .is_local = listen->at[i].kind != LISTENER_TCP || peer_is_loopback(&address),
            .can_prove = config_can_prove(config, &listen->at[i]),
            .is_insecure = config->insecure,
        };
        if (!exposure_check(&exposure, error))
            return false;
        for (uint32_t j = 0; j < i; j++) {
            address_emit(&listen->at[j], other);
            if (strcmp(text, other) == 0 && (address.kind != PEER_ADDRESS || address.port))
                return error_text(error, CONFIG_ERROR_BYTES,
                                  "'--listen %s' is given twice, leave one out", text);
        }
    }
    return true;
}

static bool check_tokens(const struct config *config, char *error)
{
    return !config_tokens_are_stored(config) || config_is_redis(config) || config_is_sql(config) ||
           error_text(error, CONFIG_ERROR_BYTES,
                      "'--tokens store' stores tokens in a shared store, give --store and its URL, "
                      "or name a file");
}

static bool check_traces(const struct config *config, char *error)
{
    static const char *const beside[] = {"otlp-headers-file", "otlp-ca", "trace-sample",
                                         "service-name", NULL};
    const char *given = config_find_given(config, beside);
    if (!config->otlp[0])
        return !given ||
               error_text(error, CONFIG_ERROR_BYTES,
                          "'--%s' is for traces, also give --otlp and the collector's URL", given);
    return tracer_check_endpoint(config->otlp, error);
}

static bool check_beanstalk(const struct config *config, char *error)
{
    struct listener_options listen;
    return !config->beanstalk[0] || config_beanstalk(config, &listen, error);
}

bool config_is_consistent(const struct config *config, char *error)
{
    if (!check_traces(config, error))
        return false;
    if (!check_tokens(config, error))
        return false;
    if (!config_jwt_check(config, error) || !check_tls(config, error) ||
        !check_listen(config, error) || !check_beanstalk(config, error))
        return false;
    if (config->max_request_memory_bytes &&
        config->max_request_memory_bytes < config_memory_bytes_least(config))
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--max-request-memory' is too small, give at least 32MiB and four times "
                          "--max-body, or 0 "
                          "for a quarter of the machine's memory");
    if (config_is_sql(config))
        return check_sql(config, error);
    return config_is_redis(config) ? check_redis(config, error) : check_embedded(config, error);
}
