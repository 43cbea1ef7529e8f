/*
 * config: the configuration of the server. Pure, except for reading the configuration file.
 *
 * All options are in one table (config.c). An option `max-body` is the flag --max-body, the
 * environment variable TARRY_MAX_BODY and the key `max-body` of the file; the help text is also
 * generated from the table. Flags override the environment, which overrides the file, which
 * overrides the defaults. An empty variable counts as not set.
 *
 * The file has one `key = value` per line. # begins a comment at the start of a line or after a
 * blank. Each key may occur once, except `listen`. Possible errors are an unknown name, an invalid
 * value and an unreadable file. The error names the place, the most similar known name and a valid
 * value.
 */
#ifndef TARRY_SERVER_CONFIG_H
#define TARRY_SERVER_CONFIG_H

#include "server/config_rows.h"
#include "server/option.h"

#include "net/listener.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { CONFIG_NAMES_BYTES = 1200, CONFIG_ERROR_BYTES = 512, CONFIG_VARIABLE_BYTES = 64 };

enum config_log_format { CONFIG_LOG_TEXT = 1, CONFIG_LOG_JSON };

/* Protocol of a listener, in addition to tarry's own API. */
enum config_protocol { CONFIG_PROTOCOL_API = 0, CONFIG_PROTOCOL_MYKIT };

/* The token of a log-in that the console sends to the server. */
enum config_oidc_token { CONFIG_OIDC_ACCESS = 1, CONFIG_OIDC_ID };

enum config_tls { CONFIG_TLS_1_2 = 1, CONFIG_TLS_1_3 };

/* The other values are those of enum redis_durability. */
enum { CONFIG_DURABILITY_ANY = 1 };

struct config {
    char data[OPTION_TEXT_BYTES];
    int64_t test_clock_ms;           /* start time; OPTION_CLOCK_NOW; 0: no test clock */
    char config[OPTION_TEXT_BYTES];  /* path of the file, or empty */
    char log[OPTION_TEXT_BYTES];     /* empty: standard error */
    char audit[OPTION_TEXT_BYTES];   /* empty: the log only */
    char deliver[OPTION_TEXT_BYTES]; /* path of the policy file, or empty */
    char tzdir[OPTION_TEXT_BYTES];   /* directory of time zones */
    char tokens[OPTION_TEXT_BYTES];  /* path of the file of tokens, or "store", or empty */
    char jwt_issuer[OPTION_TEXT_BYTES], jwt_audience[OPTION_TEXT_BYTES]; /* may be empty */
    char jwt_keys[OPTION_TEXT_BYTES]; /* a file, or a URL if it has a scheme */
    char jwt_ca[OPTION_TEXT_BYTES];   /* empty: the system's CAs */
    char jwt_scope_claim[OPTION_TEXT_BYTES], jwt_topics_claim[OPTION_TEXT_BYTES];
    char oidc_client[OPTION_TEXT_BYTES]; /* empty: the console only accepts pasted tokens */
    char oidc_parameters[OPTION_TEXT_BYTES];
    uint32_t oidc_token;               /* enum config_oidc_token */
    char amqp_in[OPTION_TEXT_BYTES];   /* a queue of RabbitMQ, or empty */
    char kafka_in[OPTION_TEXT_BYTES];  /* a topic of Kafka, or empty */
    char mykit[OPTION_TEXT_BYTES];     /* address for calls of mykit-delay, or empty */
    char sqs[OPTION_TEXT_BYTES];       /* "REGION/ACCOUNT"; empty: SQS is off */
    char beanstalk[OPTION_TEXT_BYTES]; /* address for beanstalkd's protocol, or empty */
    int64_t beanstalk_job_bytes;
    char otlp[OPTION_TEXT_BYTES]; /* destination of spans; empty: tracing is off */
    char otlp_headers_file[OPTION_TEXT_BYTES],
        otlp_ca[OPTION_TEXT_BYTES]; /* empty: no headers; the system's CAs */
    char service_name[OPTION_TEXT_BYTES];
    char trace_url[OPTION_TEXT_BYTES]; /* page of a trace, with {trace_id}; empty: no link */
    uint32_t trace_share;              /* share of new traces to sample, in billionths */
    struct option_listen listen;
    /* host names that clients may use; empty: the server's own */
    char allowed_host[OPTION_TEXT_BYTES];
    /* origins of web pages that may use the API, or empty */
    char cors_origin[OPTION_TEXT_BYTES];
    struct option_sync sync;
    /* "embedded", or the URL of Redis or PostgreSQL; may contain a password */
    char store[OPTION_TEXT_BYTES];
    char redis_password_file[OPTION_TEXT_BYTES];
    uint32_t require_durability; /* CONFIG_DURABILITY_ANY or enum redis_durability */
    uint32_t wait_replicas;
    int64_t store_timeout_ms;
    char tls_cert[OPTION_TEXT_BYTES], tls_key[OPTION_TEXT_BYTES]; /* empty: no TLS */
    char tls_client_ca[OPTION_TEXT_BYTES]; /* empty: client certificates are not requested */
    uint32_t tls_client_auth;              /* enum tls_client_auth plus 1 */
    uint32_t tls_min;                      /* enum config_tls */
    uint32_t log_level;
    uint32_t log_format; /* enum config_log_format */
    uint32_t shards;     /* 0: as in the store */
    uint32_t max_connections, max_waiting, max_topics, metrics_topics;
    int64_t max_body_bytes, max_result_bytes, wal_file_bytes;
    int64_t max_memory_bytes;         /* limit of the process; 0: 80 % of the available memory */
    int64_t max_request_memory_bytes; /* 0: a quarter of the available memory */
    struct access_rate address_rate;
    uint32_t address_connections, address_waiting; /* 0: half of the total, except for loopback */
    int64_t idle_timeout_ms;
    int64_t grace_ms;
    bool insecure, core_dumps, migrate, mykit_clear, drain;
    struct config_rows given; /* rows that were set */
};

/* Has the signature of getenv, so that tests need no real environment. */
typedef char *config_environment(const char *name);

/* Loads the configuration. `args` are the arguments after the subcommand. Returns false with
 * `error` (CONFIG_ERROR_BYTES); *out is then unspecified. */
bool config_load(struct config *out, int arg_count, char *const *args,
                 config_environment *environment, char error[CONFIG_ERROR_BYTES]);

/*
 * Applies a changed configuration while the server runs. Options that may change at run time take
 * the new value; the others in `fresh` are reset to their value in `before`. *taken and *kept are
 * the rows of the changed options.
 */
void config_take(const struct config *before, struct config *fresh, struct config_rows *taken,
                 struct config_rows *kept);
/* Writes the names of those rows, separated by commas. */
void config_names(const struct config_rows *rows, char *out, size_t out_bytes);

/*
 * Reports all errors of the configuration, not only the first: calls `report` for each. Returns their
 * number. If it is 0, *out is the configuration.
 */
uint32_t config_check(struct config *out, int arg_count, char *const *args,
                      config_environment *environment, void (*report)(void *ctx, const char *fault),
                      void *ctx);

/*
 * exposure: decides which listeners may be served, and which are logged because they are exposed.
 * Pure.
 *
 * Loopback and Unix sockets are always served. Addresses that other machines can reach require TLS
 * or the attribute `plain`, and a way for clients to authenticate. Otherwise they require
 * --insecure. Each exception is logged at every start.
 */

struct exposure {
    const struct listener_options *options;
    const char *name;
    bool is_local;    /* reachable only from this machine */
    bool can_prove;   /* clients have a way to authenticate */
    bool is_insecure; /* --insecure */
};

/* Returns true if clients must authenticate on this listener. */
bool exposure_requires_token(const struct exposure *exposure);

/* Returns false with `error` (LISTENER_ERROR_BYTES) if the listener is not served; the error names
 * the reason and the remedy. */
bool exposure_check(const struct exposure *exposure, char *error);

/* Returns a sentence for the log if the served listener is an exception to the rules, otherwise
 * NULL. */
const char *exposure_departure(const struct exposure *exposure);

/*
 * config_consistency: checks the combination of options that are valid individually, and derives
 * values that depend on several options. Pure.
 */

/* Parses the address of --beanstalk. Returns false with `error` (CONFIG_ERROR_BYTES). */
bool config_beanstalk(const struct config *config, struct listener_options *out, char *error);

/* Returns true if clients of this listener have a way to authenticate. */
bool config_can_prove(const struct config *config, const struct listener_options *listener);
/* Returns true if a valid certificate, which the handshake already requires, is sufficient
 * authentication on this listener. */
bool config_certificate_will_do(const struct config *config,
                                const struct listener_options *listener);

/* config_facts: what follows from the options of a configuration. */

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

/* ---- config_options.c: the table of all options of the server, and lookups in it ---- */

/* Returns the table, to generate pages from it. */
const struct option *config_options(size_t *count);

/* Writes the name of the environment variable of an option: TARRY_MAX_BODY for max-body. */
void config_variable(const struct option *option, char out[CONFIG_VARIABLE_BYTES]);

/* Prints every option with its flag, default and description. */
void config_print_help(FILE *out);

/* Returns NULL if there is no option of that name. */
const struct option *config_option_find(const char *name);
/* Returns the most similar option name, or NULL. */
const char *config_option_nearest(const char *name);
/* Returns the row in the table, for a set of rows. */
size_t config_option_row(const struct option *option);
/* Returns the first of the named options that was set, or NULL. */
const char *config_find_given(const struct config *config, const char *const *names);

/* ---- backend_redis.c: checks of --store if it is the URL of a Redis server ---- */

/* Returns false with `error` if the URL is invalid. */
bool config_redis_check(const char *store, char *error, size_t error_bytes);
bool config_redis_holds_password(const char *store);

/* Writes the URL of --store with the password of --redis-password-file to `url`
 * (REDIS_URL_BYTES_MAX), which has to be wiped after use. Returns 0, or negative errno with
 * `error`. */
int config_redis_url(const struct config *config, char *url, char *error, size_t error_bytes);

/* ---- issuer_keys.c: checks the JWT options together ---- */

/* Returns true if the issuer's keys are at a URL, false if they are in a file. */
bool config_jwt_keys_are_remote(const struct config *config);
/* Returns false with `error` (CONFIG_ERROR_BYTES) if the options conflict. */
bool config_jwt_check(const struct config *config, char *error);

/* ---- sign_in.c: checks the options for logging in to the console ---- */

/* Returns false with `error` (CONFIG_ERROR_BYTES) if an option is invalid, or lacks another one. */
bool config_sign_in_check(const struct config *config, char *error);

#endif
