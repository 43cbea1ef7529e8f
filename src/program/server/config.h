/*
 * config: what the server may be told. Pure but for reading the one configuration file.
 *
 * One table of options (config_options.c). An option `max-body` is the flag --max-body, the variable
 * TARRY_MAX_BODY and the key `max-body` of the file; the help text is made from the table too. A
 * flag beats the environment, which beats the file, which beats the default. An empty variable
 * counts as not set.
 *
 * File: `key = value` a line; # begins a comment at the start of a line or after a blank; each key
 * at most once, but `listen`. What can go wrong: an unknown name, a bad value, an unreadable file; the error
 * names the place, the nearest known name and what would be right.
 */
#ifndef TARRY_SERVER_CONFIG_H
#define TARRY_SERVER_CONFIG_H

#include "server/option.h"

#include <stdio.h>
#include <string.h>

enum {
    CONFIG_NAMES_BYTES = 1200,
    CONFIG_ERROR_BYTES = 512,
    CONFIG_OPTIONS_MAX = 64,
    CONFIG_VARIABLE_BYTES = 64
};

enum config_log_format { CONFIG_LOG_TEXT = 1, CONFIG_LOG_JSON };

/* Whose calls are made at a listener, beside the API's own. */
enum config_protocol { CONFIG_PROTOCOL_API = 0, CONFIG_PROTOCOL_MYKIT };

enum config_tls { CONFIG_TLS_1_2 = 1, CONFIG_TLS_1_3 };

/* The rest of the choices are enum redis_durability's. */
enum { CONFIG_DURABILITY_ANY = 1 };

struct config {
    char data[OPTION_TEXT_BYTES];
    int64_t test_clock_ms;           /* where it begins; OPTION_CLOCK_NOW; 0: there is none */
    char config[OPTION_TEXT_BYTES];  /* the file; empty: none */
    char log[OPTION_TEXT_BYTES];     /* empty: standard error */
    char audit[OPTION_TEXT_BYTES];   /* empty: the log only */
    char deliver[OPTION_TEXT_BYTES]; /* the policy file; empty: none */
    char tokens[OPTION_TEXT_BYTES];  /* the file of tokens, or "store"; empty: none */
    char jwt_issuer[OPTION_TEXT_BYTES], jwt_audience[OPTION_TEXT_BYTES]; /* empty: none */
    char jwt_keys[OPTION_TEXT_BYTES]; /* a file, or where its scheme says so a URL */
    char jwt_ca[OPTION_TEXT_BYTES];   /* empty: the system's */
    char jwt_scope_claim[OPTION_TEXT_BYTES], jwt_topics_claim[OPTION_TEXT_BYTES];
    char amqp_in[OPTION_TEXT_BYTES];   /* a queue of RabbitMQ; empty: none */
    char mykit[OPTION_TEXT_BYTES];     /* where calls of mykit-delay are made; empty: nowhere */
    char sqs[OPTION_TEXT_BYTES];       /* "REGION/ACCOUNT"; empty: no calls of SQS */
    char beanstalk[OPTION_TEXT_BYTES]; /* where beanstalkd's protocol is spoken; empty: nowhere */
    int64_t beanstalk_job_bytes;
    char otlp[OPTION_TEXT_BYTES]; /* where spans go; empty: there are none */
    char otlp_headers_file[OPTION_TEXT_BYTES],
        otlp_ca[OPTION_TEXT_BYTES]; /* empty: none; the system's */
    char service_name[OPTION_TEXT_BYTES];
    uint32_t trace_share; /* of traces that begin here, in billionths */
    struct option_listen listen;
    char allowed_host[OPTION_TEXT_BYTES]; /* names that clients may call it by; empty: its own */
    char cors_origin[OPTION_TEXT_BYTES];  /* of pages that may use the API; empty: none */
    struct option_sync sync;
    char store[OPTION_TEXT_BYTES]; /* "embedded", or where Redis or PostgreSQL is: may hold a
                                      password */
    char redis_password_file[OPTION_TEXT_BYTES];
    uint32_t require_durability; /* CONFIG_DURABILITY_ANY or enum redis_durability */
    uint32_t wait_replicas;
    int64_t store_timeout_ms;
    char tls_cert[OPTION_TEXT_BYTES], tls_key[OPTION_TEXT_BYTES]; /* empty: no TLS */
    char tls_client_ca[OPTION_TEXT_BYTES]; /* empty: clients show no certificates */
    uint32_t tls_client_auth;              /* enum tls_client_auth, and 1 */
    uint32_t tls_min;                      /* enum config_tls */
    uint32_t log_level;
    uint32_t log_format; /* enum config_log_format */
    uint32_t shards;     /* 0: what the store has */
    uint32_t max_connections, max_waiting, max_topics, metrics_topics;
    int64_t max_body_bytes, wal_file_bytes;
    int64_t max_memory_bytes;         /* of the process; 0: 80 % of what there is */
    int64_t max_request_memory_bytes; /* 0: a quarter of what there is */
    struct access_rate address_rate;
    uint32_t address_connections, address_waiting; /* 0: half of all, but for loopback */
    int64_t idle_timeout_ms;
    int64_t grace_ms;
    bool insecure, core_dumps, migrate, mykit_clear, drain;
    uint64_t given; /* a bit for each row of the table that was said somewhere */
};

/* getenv's shape, so that tests need no real environment. */
typedef char *config_environment(const char *name);

/* `args` is what follows the subcommand. False: `error` (CONFIG_ERROR_BYTES) says why; *out is then
 * unspecified. */
bool config_load(struct config *out, int arg_count, char *const *args,
                 config_environment *environment, char error[CONFIG_ERROR_BYTES]);

/* Are the jobs in MariaDB or MySQL? */
static inline bool config_is_mysql(const struct config *config)
{
    return strncmp(config->store, "mysql://", 8) == 0 ||
           strncmp(config->store, "mariadb://", 10) == 0;
}

/* Are the jobs in a SQL database? */
static inline bool config_is_sql(const struct config *config)
{
    return strncmp(config->store, "postgres://", 11) == 0 ||
           strncmp(config->store, "postgresql://", 13) == 0 || config_is_mysql(config);
}

static inline bool config_is_redis(const struct config *config)
{
    return strcmp(config->store, "embedded") != 0 && !config_is_sql(config);
}

/* Are the tokens kept in the store, for all servers there? */
static inline bool config_tokens_are_stored(const struct config *config)
{
    return strcmp(config->tokens, "store") == 0;
}

/* With less than that the largest batch and the largest answer would not fit. */
static inline int64_t config_memory_bytes_least(const struct config *config)
{
    const int64_t least = INT64_C(32) << 20;
    return config->max_body_bytes * 4 > least ? config->max_body_bytes * 4 : least;
}

/*
 * What was configured anew while the server serves. Options that may change so are taken over; of
 * the others `fresh` gets back what they were in `before`. *taken and *kept are their names, a bit for
 * each row of the table, as in `given`.
 */
void config_take(const struct config *before, struct config *fresh, uint64_t *taken,
                 uint64_t *kept);
/* The names of those rows, with commas between. */
void config_names(uint64_t rows, char *out, size_t out_bytes);

/*
 * Every fault there is in what was said, not the first alone: `tell` gets each. Returns how many.
 * Where there is none *out is the configuration.
 */
uint32_t config_check(struct config *out, int arg_count, char *const *args,
                      config_environment *environment, void (*tell)(void *ctx, const char *fault),
                      void *ctx);

#endif
