#include "server/config.h"

#include "server/secret.h"

#include "base/error.h"
#include "base/key_value.h"
#include "base/url.h"
#include "net/tls.h"
#include "trace/tracer.h"

#include <errno.h>
#include <stdlib.h>

/* ---- exposure ---- */

static bool is_proven(const struct exposure *exposure)
{
    return exposure->can_prove && exposure->options->token != LISTENER_TOKEN_NONE;
}

bool exposure_requires_token(const struct exposure *exposure)
{
    return exposure->options->token == LISTENER_TOKEN_REQUIRED || is_proven(exposure);
}

bool exposure_check(const struct exposure *exposure, char *error)
{
    const struct listener_options *options = exposure->options;
    bool is_hidden = options->tls || options->plain;
    if (options->token == LISTENER_TOKEN_REQUIRED && !exposure->can_prove)
        return error_text(
            error, LISTENER_ERROR_BYTES,
            "cannot require tokens on '%s' without a file of tokens, give --tokens FILE",
            exposure->name);
    if (exposure->is_local || exposure->is_insecure || (is_hidden && is_proven(exposure)))
        return true;
    if (!is_hidden && !is_proven(exposure))
        return error_text(error, LISTENER_ERROR_BYTES,
                          "refusing to listen on '%s', which other machines can reach without TLS "
                          "and tokens, add the word tls and give --tokens, or --insecure to allow "
                          "it",
                          exposure->name);
    if (is_hidden)
        return error_text(error, LISTENER_ERROR_BYTES,
                          "refusing to listen on '%s', which other machines can reach without "
                          "tokens, %s, or --insecure to allow it",
                          exposure->name,
                          exposure->can_prove ? "leave out no-token" : "give --tokens FILE");
    return error_text(error, LISTENER_ERROR_BYTES,
                      "refusing to listen on '%s', which other machines can reach without TLS, add "
                      "the word tls, or plain if a proxy or the network protects the traffic",
                      exposure->name);
}

const char *exposure_departure(const struct exposure *exposure)
{
    bool is_plain = !exposure->options->tls, is_open = !exposure_requires_token(exposure);
    if (exposure->is_local)
        return is_open && exposure->can_prove && exposure->options->token == LISTENER_TOKEN_NONE
                   ? "every program of this machine that may connect can do everything (no-token)"
                   : NULL;
    if (is_plain && is_open)
        return "other machines can reach this server, which requires neither TLS nor tokens on "
               "this listener";
    if (is_open)
        return "other machines can reach this server, which requires no tokens on this listener";
    if (is_plain)
        return "requests from other machines, including tokens, can be read on the network: no TLS";
    return NULL;
}

/* ---- config consistency ---- */

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

/* Checks the URL that the console makes into links. Unlike other URLs it may have a fragment, where
 * some tracers show a trace. */
static bool check_trace_url(const struct config *config, char *error)
{
    char text[OPTION_TEXT_BYTES];
    struct url url;
    if (!config->trace_url[0])
        return true;
    snprintf(text, sizeof text, "%s", config->trace_url);
    for (char *at = text; (at = strchr(at, '#')) != NULL;)
        *at = '?';
    enum url_fault fault = url_parse(slice_of(text), &url);
    if (fault != URL_OK)
        return error_text(error, CONFIG_ERROR_BYTES, "bad '--trace-url', %s",
                          url_fault_text(fault));
    if ((!url_scheme_is(&url, "https") && !url_scheme_is(&url, "http")) || url.host_count != 1 ||
        url.has_user)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "bad '--trace-url', give https:// or http:// and one host, without a "
                          "user: the console shows it to its users");
    return strstr(config->trace_url, "{trace_id}") ||
           error_text(error, CONFIG_ERROR_BYTES,
                      "bad '--trace-url', write {trace_id} in place of the id, as in "
                      "https://jaeger.example/trace/{trace_id}");
}

static bool check_beanstalk(const struct config *config, char *error)
{
    struct listener_options listen;
    return !config->beanstalk[0] || config_beanstalk(config, &listen, error);
}

/* Returns false with `error` (CONFIG_ERROR_BYTES), which names the conflict and the remedy. */
static bool config_is_consistent(const struct config *config, char *error)
{
    if (!check_traces(config, error) || !check_trace_url(config, error))
        return false;
    if (!check_tokens(config, error))
        return false;
    if (!config_jwt_check(config, error) || !config_sign_in_check(config, error) ||
        !check_tls(config, error) || !check_listen(config, error) ||
        !check_beanstalk(config, error))
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

/* ---- config ---- */

enum { FILE_LINE_BYTES_MAX = 4096 };

/* ---- the four sources ---- */

/* Sets an option or explains what is wrong. `place` is the source: "--sync", "TARRY_SYNC",
 * "tarry.conf:3: sync". `more` is true if it was already set there. */
static bool set_or_explain(struct config *config, const struct option *option, const char *place,
                           const char *text, bool more, char *error)
{
    char right[ADDRESS_ERROR_BYTES];
    config_rows_add(&config->given, config_option_row(option));
    if (option_set(option, config, text, more, right))
        return true;
    option_describe(option, right, sizeof right);
    if (option->offset == offsetof(struct config, store))
        text = "…"; /* it may contain a password */
    return error_text(error, CONFIG_ERROR_BYTES, "bad value '%.64s' for '%s', %s", text, place,
                      right);
}

static void set_defaults(struct config *config)
{
    char unused[ADDRESS_ERROR_BYTES];
    size_t count;
    const struct option *options = config_options(&count);
    *config = (struct config){0};
    for (size_t i = 0; i < count; i++)
        option_set(&options[i], config, options[i].initial, false, unused);
}

/* Parses the flag at args[*i] and its value; advances *i past both. */
static bool next_flag(int count, char *const *args, int *i, const struct option **option,
                      const char **value, char *error)
{
    const char *arg = args[(*i)++];
    if (strncmp(arg, "--", 2) != 0 || arg[2] == '\0')
        return error_text(error, CONFIG_ERROR_BYTES,
                          "unexpected argument '%.64s', options look like --data DIR", arg);
    char name[64];
    size_t len = strcspn(arg + 2, "=");
    snprintf(name, sizeof name, "%.*s", (int)(len < 63 ? len : 63), arg + 2);
    *option = config_option_find(name);
    if (!*option) {
        const char *nearest = config_option_nearest(name);
        return error_text(error, CONFIG_ERROR_BYTES, "unknown option '--%s', %s%s", name,
                          nearest ? "did you mean --" : "see 'tarry help serve'",
                          nearest ? nearest : "");
    }
    if (arg[2 + len] == '=')
        *value = arg + 2 + len + 1;
    else if ((*option)->kind == OPTION_SWITCH || (*option)->kind == OPTION_CLOCK)
        *value = "true";
    else if (*i < count)
        *value = args[(*i)++];
    else
        return error_text(error, CONFIG_ERROR_BYTES, "option '--%s' needs a value: --%s %s", name,
                          name, (*option)->values);
    return true;
}

/* Reads the flags. A flag overrides the file and the environment, but names and listeners are added
 * to those of earlier flags of the same name. */
static bool read_flags(struct config *config, int count, char *const *args, char *error)
{
    struct config_rows seen = {0};
    for (int i = 0; i < count;) {
        const struct option *option;
        const char *value;
        char place[64], all[2 * OPTION_TEXT_BYTES];
        if (!next_flag(count, args, &i, &option, &value, error))
            return false;
        if ((option->kind == OPTION_NAMES || option->kind == OPTION_ORIGINS) &&
            config_rows_have(&seen, config_option_row(option))) {
            snprintf(all, sizeof all, "%s,%.*s", (const char *)config + option->offset,
                     OPTION_TEXT_BYTES, value);
            value = all;
        }
        snprintf(place, sizeof place, "--%s", option->name);
        if (!set_or_explain(config, option, place, value,
                            config_rows_have(&seen, config_option_row(option)), error))
            return false;
        config_rows_add(&seen, config_option_row(option));
    }
    return true;
}

static bool read_environment(struct config *config, config_environment *environment, char *error)
{
    size_t count;
    const struct option *options = config_options(&count);
    for (size_t i = 0; i < count; i++) {
        char variable[CONFIG_VARIABLE_BYTES];
        config_variable(&options[i], variable);
        const char *value = environment(variable);
        if (value && *value && !set_or_explain(config, &options[i], variable, value, false, error))
            return false;
    }
    return true;
}

/* Returns the number of bytes of the text that an error may show: the first word, which may be the
 * name of an option. The rest of the line, and every other text, may be a password. */
static int shown_bytes(const char *key)
{
    size_t len = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    return (int)(len < 64 ? len : 64);
}

/* Reads a line; `where` is FILE:LINE. */
static bool read_line(struct config *config, char *line, const char *where,
                      struct config_rows *seen, char *error)
{
    struct key_value pair;
    enum key_value_line what = key_value_parse(line, &pair);
    const char *key = pair.key;
    if (what == KEY_VALUE_NOTHING)
        return true;
    int shown = shown_bytes(key);
    const char *hidden = key[shown] ? "…" : "";
    if (what == KEY_VALUE_BAD)
        return error_text(error, CONFIG_ERROR_BYTES, "%s: no '=' in '%.*s%s', write: key = value",
                          where, shown, key, hidden);

    const struct option *option = config_option_find(key);
    if (!option) {
        const char *nearest = config_option_nearest(key);
        return error_text(error, CONFIG_ERROR_BYTES, "%s: unknown key '%.*s%s', %s%s", where, shown,
                          key, hidden, nearest ? "did you mean " : "see 'tarry help serve'",
                          nearest ? nearest : "");
    }
    if (option->offset == offsetof(struct config, config))
        return error_text(error, CONFIG_ERROR_BYTES,
                          "%s: 'config' cannot be in the file, name the file with --config", where);
    bool more = config_rows_have(seen, config_option_row(option));
    if (more && option->kind != OPTION_LISTEN)
        return error_text(error, CONFIG_ERROR_BYTES, "%s: '%s' is given twice, remove one", where,
                          key);
    config_rows_add(seen, config_option_row(option));
    char why[CONFIG_ERROR_BYTES];
    if (set_or_explain(config, option, option->name, pair.value, more, why))
        return true;
    return error_text(error, CONFIG_ERROR_BYTES, "%s: %.300s", where, why);
}

/* Returns true if --store contains a password. */
static bool holds_password(const struct config *config)
{
    const char *at = strchr(config->store, '@'), *user = strstr(config->store, "://");
    if (config_is_redis(config))
        return config_redis_holds_password(config->store);
    return config_is_sql(config) && (strstr(config->store, "password=") ||
                                     (at && memchr(user + 3, ':', (size_t)(at - user - 3))));
}

static bool read_file(struct config *config, const char *path, char *error)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_text(error, CONFIG_ERROR_BYTES, "cannot read the configuration '%.200s', %s",
                          path, strerror(errno));
    struct config_rows seen = {0};
    bool ok = true;
    char line[FILE_LINE_BYTES_MAX];
    for (int number = 1; ok && fgets(line, sizeof line, file); number++) {
        char where[160];
        size_t len = strlen(path);
        snprintf(where, sizeof where, "%.128s:%d", len > 128 ? path + len - 128 : path, number);
        if (strlen(line) == sizeof line - 1) {
            snprintf(error, CONFIG_ERROR_BYTES, "%s: line too long, at most %d bytes", where,
                     FILE_LINE_BYTES_MAX - 2);
            ok = false;
        } else {
            ok = read_line(config, line, where, &seen, error);
        }
    }
    if (ok && ferror(file)) {
        snprintf(error, CONFIG_ERROR_BYTES, "cannot read the configuration '%.200s', %s", path,
                 strerror(errno));
        ok = false;
    }
    if (ok && holds_password(config) && secret_is_open_to_others(fileno(file))) {
        snprintf(
            error, CONFIG_ERROR_BYTES,
            "others may read the password in the configuration '%.200s', run: chmod 600, or give "
            "the password with redis-password-file, or that of PostgreSQL with a passfile",
            path);
        ok = false;
    }
    fclose(file);
    return ok;
}

/* Adds the listener of another protocol, which has to meet the same rules as the other
 * listeners. */
static bool add_protocols(struct config *config, char *error)
{
    struct option_listen *listen = &config->listen;
    char why[ADDRESS_ERROR_BYTES];
    if (config->mykit_clear && !config->mykit[0])
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "'--mykit-clear' without --mykit, also give --mykit and the address of its calls");
    if (!config->mykit[0])
        return true;
    if (listen->count == OPTION_LISTEN_MAX)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "too many listeners with '--mykit', give at most %d", OPTION_LISTEN_MAX);
    struct listener_options *mykit = &listen->at[listen->count];
    *mykit = (struct listener_options){0};
    if (!address_parse(slice_of(config->mykit), mykit, why))
        return error_text(error, CONFIG_ERROR_BYTES, "bad value '%s' for '--mykit', %s",
                          config->mykit, why);
    mykit->protocol = CONFIG_PROTOCOL_MYKIT;
    listen->count++;
    return true;
}

bool config_load(struct config *out, int arg_count, char *const *args,
                 config_environment *environment, char error[CONFIG_ERROR_BYTES])
{
    /* Reads flags and environment twice: first to find the file, then to override it. */
    for (int pass = 1; pass <= 2; pass++) {
        char path[OPTION_TEXT_BYTES] = "";
        if (pass == 2)
            strcpy(path, out->config);
        set_defaults(out);
        if (path[0] && !read_file(out, path, error))
            return false;
        if (!read_environment(out, environment, error) || !read_flags(out, arg_count, args, error))
            return false;
    }
    return add_protocols(out, error) && config_is_consistent(out, error);
}

/* ---- all errors ---- */

struct faults {
    void (*report)(void *ctx, const char *fault);
    void *ctx;
    uint32_t count;
};

static void note_fault(struct faults *faults, bool is_good, const char *error)
{
    if (is_good)
        return;
    faults->count++;
    faults->report(faults->ctx, error);
}

/* Checks each line separately. */
static void check_lines(struct config *scratch, const char *path, struct faults *faults)
{
    char line[FILE_LINE_BYTES_MAX], error[CONFIG_ERROR_BYTES], where[160];
    struct config_rows seen = {0};
    FILE *file = fopen(path, "re");
    size_t len = strlen(path);
    if (!file) {
        snprintf(error, sizeof error, "cannot read the configuration '%.200s', %s", path,
                 strerror(errno));
        note_fault(faults, false, error);
        return;
    }
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        snprintf(where, sizeof where, "%.128s:%d", len > 128 ? path + len - 128 : path, number);
        note_fault(faults, read_line(scratch, line, where, &seen, error), error);
    }
    fclose(file);
}

static void check_variables(struct config *scratch, config_environment *environment,
                            struct faults *faults)
{
    char variable[CONFIG_VARIABLE_BYTES], error[CONFIG_ERROR_BYTES];
    size_t count;
    const struct option *options = config_options(&count);
    for (size_t i = 0; i < count; i++) {
        config_variable(&options[i], variable);
        const char *value = environment(variable);
        if (value && *value)
            note_fault(faults, set_or_explain(scratch, &options[i], variable, value, false, error),
                       error);
    }
}

static void check_flags(struct config *scratch, int count, char *const *args, struct faults *faults)
{
    char error[CONFIG_ERROR_BYTES], place[64];
    struct config_rows seen = {0};
    for (int i = 0; i < count;) {
        const struct option *option;
        const char *value;
        bool is_good = next_flag(count, args, &i, &option, &value, error);
        if (is_good) {
            snprintf(place, sizeof place, "--%s", option->name);
            is_good = set_or_explain(scratch, option, place, value,
                                     config_rows_have(&seen, config_option_row(option)), error);
            config_rows_add(&seen, config_option_row(option));
        }
        note_fault(faults, is_good, error);
    }
}

uint32_t config_check(struct config *out, int arg_count, char *const *args,
                      config_environment *environment, void (*report)(void *ctx, const char *fault),
                      void *ctx)
{
    struct faults faults = {.report = report, .ctx = ctx};
    struct config *scratch = malloc(sizeof *scratch);
    char error[CONFIG_ERROR_BYTES];
    if (!scratch) {
        note_fault(&faults, false, "out of memory");
        return faults.count;
    }
    set_defaults(scratch);
    check_variables(scratch, environment, &faults);
    check_flags(scratch, arg_count, args, &faults);
    if (scratch->config[0])
        check_lines(scratch, scratch->config, &faults);
    free(scratch);
    /* Check the combination of all options. */
    if (!faults.count)
        note_fault(&faults, config_load(out, arg_count, args, environment, error), error);
    return faults.count;
}
