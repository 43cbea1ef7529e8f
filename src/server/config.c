#include "server/config.h"

#include "base/duration.h"
#include "base/error.h"
#include "base/key_value.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "http/cors.h"
#include "http/host.h"
#include "job/job.h"
#include "net/tls.h"
#include "server/config_jwt.h"
#include "server/config_redis.h"
#include "server/exposure.h"
#include "server/secret.h"
#include "trace/tracer.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(NAME) offsetof(struct config, NAME)
#define MIB (1024 * 1024)
/* The year 3000: far from what a job's due can be. */
#define CONFIG_TEST_CLOCK_MS_MAX INT64_C(32503680000000)

static const struct option options[] = {
    {"data", OPTION_TEXT, "DIR", FIELD(data), "./tarry-data", 0, 0,
     "where the embedded store keeps the jobs; made where missing"},
    {"listen", OPTION_LISTEN, "ADDRESS[,WORD...]", FIELD(listen), "127.0.0.1:8279", 0, 0,
     "where to serve HTTP: ADDRESS:PORT (port 0 is any free one), unix:PATH, or fd:NAME of a "
     "socket that systemd opened; words after it: tls (see --tls-cert), plain (other machines may "
     "reach it without TLS), require-token or no-token, proxy-protocol (only a proxy comes, and "
     "says who its client is), and of a unix socket mode=0660 and group=NAME; may be given again"},
    {"allowed-host", OPTION_NAMES, "NAME,...", FIELD(allowed_host), "", 0, 0,
     "further names that clients may call this server by: in the Host header only localhost and "
     "its addresses are taken, so that no web page reaches it; *.NAME is all names below; may be "
     "given again"},
    {"cors-origin", OPTION_ORIGINS, "ORIGIN,...", FIELD(cors_origin), "", 0, 0,
     "pages of other sites that may use the API from a browser, such as https://console.example; "
     "without it none may; may be given again"},
    {"store", OPTION_TEXT, "embedded|URL", FIELD(store), "embedded", 0, 0,
     "what keeps the jobs: this program, or a database that several servers share: "
     "postgres://[user@]host/database or mysql://[user@]host (see docs/sql.md), "
     "redis://[user:password@]host:6379/0, redis-sentinel://host:26379,host/master, "
     "redis-cluster://host:6379,host, redis+unix:///path/of/socket"},
    {"sync", OPTION_SYNC, "always|never|TIME", FIELD(sync), "always", 1, 60 * 1000,
     "when a push is answered: after it is on the disk; or at once, with the disk synced every "
     "TIME or never"},
    {"shards", OPTION_COUNT, "N", FIELD(shards), "0", 0, 64,
     "how many slices share the jobs: threads, or in Redis groups of keys; fixed when the store is "
     "made; 0 is as it was made, and for a new one 1, on a Redis Cluster one for each master"},
    {"deliver", OPTION_TEXT, "FILE", FIELD(deliver), "", 0, 0,
     "deliver due jobs to where their topics say, as far as this policy file allows (see "
     "docs/delivery.md); read again on SIGHUP; without it nothing is delivered"},
    {"amqp-in", OPTION_TEXT, "URL", FIELD(amqp_in), "", 0, 0,
     "take messages with a delay from a queue of RabbitMQ and publish them there when they are "
     "due: amqp://host:5672/vhost?queue=NAME; needs --deliver"},
    {"drain", OPTION_SWITCH, "", FIELD(drain), "false", 0, 0,
     "begin with new jobs refused, as 'tarry drain' does it, so that what is there is worked off"},
    {"mykit", OPTION_TEXT, "ADDRESS[,WORD...]", FIELD(mykit), "", 0, 0,
     "where to answer calls of mykit-delay, such as 127.0.0.1:6355, with words as --listen has "
     "them "
     "(see docs/moving/mykit-delay.md)"},
    {"mykit-clear", OPTION_SWITCH, "", FIELD(mykit_clear), "false", 0, 0,
     "let clearAll of mykit-delay drop all jobs but those that somebody has"},
    {"sqs", OPTION_TEXT, "REGION/ACCOUNT", FIELD(sqs), "", 0, 0,
     "answer calls of Amazon SQS (AWS JSON 1.0) at the addresses of --listen, with this region and "
     "account in ARNs and URLs, such as us-east-1/000000000000 (see docs/moving/sqs.md)"},
    {"beanstalk", OPTION_TEXT, "ADDRESS", FIELD(beanstalk), "", 0, 0,
     "where to speak beanstalkd's protocol, such as 127.0.0.1:11300, unix:PATH or fd:NAME (see "
     "docs/beanstalk.md); it knows no tokens and no TLS, so only this machine may reach it"},
    {"beanstalk-max-job", OPTION_BYTES, "SIZE", FIELD(beanstalk_job_bytes), "65535", 1, 16 * MIB,
     "largest job there, in bytes, and at most --max-body; a bigger one is answered JOB_TOO_BIG"},
    {"otlp", OPTION_TEXT, "URL", FIELD(otlp), "", 0, 0,
     "send spans of pushes, waits and deliveries to a collector by OTLP over HTTP, such as "
     "http://collector:4318 (/v1/traces is added; see docs/tracing.md); without it none are made"},
    {"otlp-headers-file", OPTION_TEXT, "FILE", FIELD(otlp_headers_file), "", 0, 0,
     "headers that go with them, one 'Name: value' a line, in a file that others may not read"},
    {"otlp-ca", OPTION_TEXT, "FILE", FIELD(otlp_ca), "", 0, 0,
     "certificates that the collector is trusted by, PEM; the system's if empty"},
    {"trace-sample", OPTION_SHARE, "RATIO", FIELD(trace_share), "0.01", 0, 0,
     "how many of the traces that begin here are sampled, from 0 to 1; a traceparent that was "
     "given "
     "says for itself"},
    {"service-name", OPTION_TEXT, "NAME", FIELD(service_name), "tarry", 0, 0,
     "what this server is called in traces"},
    {"tokens", OPTION_TEXT, "FILE|store", FIELD(tokens), "", 0, 0,
     "let in who has a token of this file (made by tarry token, see docs/security.md), or of those "
     "that all servers on one Redis or database share; followed where they change, and on SIGHUP"},
    {"tls-cert", OPTION_TEXT, "FILE", FIELD(tls_cert), "", 0, 0,
     "the certificate that listeners with the word tls show, PEM, and behind it those up to the "
     "root; read again where it changes, and on SIGHUP, without dropping connections"},
    {"tls-key", OPTION_TEXT, "FILE", FIELD(tls_key), "", 0, 0,
     "the key of --tls-cert, PEM without a passphrase, in a file that others may not read"},
    {"tls-client-ca", OPTION_TEXT, "FILE", FIELD(tls_client_ca), "", 0, 0,
     "let clients show certificates that one of these (PEM) has signed; the name in it, the first "
     "DNS name, else the common name, is who calls"},
    {"tls-client-auth", OPTION_CHOICE, "off|request|require", FIELD(tls_client_auth), "request", 0,
     0, "what of clients without a certificate, where there is --tls-client-ca"},
    {"tls-min", OPTION_CHOICE, "1.2|1.3", FIELD(tls_min), "1.2", 0, 0,
     "the oldest version of TLS that is spoken"},
    {"jwt-issuer", OPTION_TEXT, "ISSUER", FIELD(jwt_issuer), "", 0, 0,
     "let in who has a JWT of this issuer, the claim iss (see docs/security.md); needs "
     "--jwt-audience and --jwt-keys"},
    {"jwt-audience", OPTION_TEXT, "NAME", FIELD(jwt_audience), "", 0, 0,
     "what a JWT is for, in the claim aud: no token for another service is taken"},
    {"jwt-keys", OPTION_TEXT, "FILE|URL", FIELD(jwt_keys), "", 0, 0,
     "the issuer's public keys: a JWKS or PEM file, read again where it changes; or its JWKS URL, "
     "https://"},
    {"jwt-ca", OPTION_TEXT, "FILE", FIELD(jwt_ca), "", 0, 0,
     "certificates that the server of --jwt-keys is trusted by, PEM; the system's if empty"},
    {"jwt-scope-claim", OPTION_TEXT, "NAME", FIELD(jwt_scope_claim), "scope", 0, 0,
     "the claim with the scopes: push, consume, read, admin, or tarry:push, ..."},
    {"jwt-topics-claim", OPTION_TEXT, "NAME", FIELD(jwt_topics_claim), "topics", 0, 0,
     "the claim with the patterns of topics"},
    {"test-clock", OPTION_CLOCK, "TIME", FIELD(test_clock_ms), "false", 0, 0,
     "for tests: jobs go by a clock that stands still until it is told to move (tarry clock), and "
     "begins at TIME, such as 2030-01-01T00:00:00Z, or now; such a server keeps its jobs apart "
     "from "
     "those of others"},
    {"config", OPTION_TEXT, "FILE", FIELD(config), "", 0, 0, "read options from this file"},
    {"log", OPTION_TEXT, "FILE", FIELD(log), "", 0, 0,
     "where to log; standard error if empty; opened again on SIGHUP"},
    {"log-level", OPTION_CHOICE, "debug|info|warn|error", FIELD(log_level), "info", 0, 0,
     "the least that is logged"},
    {"log-format", OPTION_CHOICE, "text|json", FIELD(log_format), "text", 0, 0,
     "key=value pairs, or one JSON object a line"},
    {"audit", OPTION_TEXT, "FILE", FIELD(audit), "", 0, 0,
     "where to note who changed what, one JSON object a line, beside the log, which has it in any "
     "case; opened again on SIGHUP"},
    {"insecure", OPTION_SWITCH, "", FIELD(insecure), "false", 0, 0,
     "allow addresses that other machines reach, without TLS and tokens; said at every start"},
    {"core-dumps", OPTION_SWITCH, "", FIELD(core_dumps), "false", 0, 0,
     "allow core dumps and debuggers, which show keys, passwords and jobs"},
    {"max-body", OPTION_BYTES, "SIZE", FIELD(max_body_bytes), "1MiB", 1, 16 * MIB,
     "the largest body of a job"},
    {"max-connections", OPTION_COUNT, "N", FIELD(max_connections), "10000", 1, 1000000,
     "connections at a time; further ones are closed at once"},
    {"max-waiting", OPTION_COUNT, "N", FIELD(max_waiting), "10000", 1, 1000000,
     "takes that wait at a time"},
    {"max-memory", OPTION_BYTES, "SIZE", FIELD(max_memory_bytes), "0", 0, INT64_C(1) << 44,
     "what the whole process may use: beyond it pushes are answered 507, while takes and acks go "
     "on; 0 is 80 % of the memory of the machine, or of its control group"},
    {"max-request-memory", OPTION_BYTES, "SIZE", FIELD(max_request_memory_bytes), "0", 0,
     INT64_C(1) << 44,
     "what requests, answers and waiting takes may hold together, at least 32 MiB and four times "
     "--max-body; beyond it there is 503; 0 is a quarter of the memory of the machine, or of its "
     "control group; the store's own index is not counted"},
    {"address-rate", OPTION_RATE, "RATE", FIELD(address_rate), "", 0, 0,
     "requests that an address may make without a token, such as 100/s or 90/m; beyond it there is "
     "429; empty is any number"},
    {"address-connections", OPTION_COUNT, "N", FIELD(address_connections), "0", 0, 1000000,
     "connections that an address may have without a token; 0 is half of --max-connections, and "
     "for "
     "this machine's own addresses any number"},
    {"address-waiting", OPTION_COUNT, "N", FIELD(address_waiting), "0", 0, 1000000,
     "takes that may wait for an address without a token; 0 is half of --max-waiting, and for this "
     "machine's own addresses any number"},
    {"max-topics", OPTION_COUNT, "N", FIELD(max_topics), "10000", 1, 1000000, "topics"},
    {"metrics-topics", OPTION_COUNT, "N", FIELD(metrics_topics), "200", 0, 100000,
     "how many topics have lines of their own at /metrics; the rest is summed up; with 0 no line "
     "has a topic"},
    {"idle-timeout", OPTION_DURATION, "TIME", FIELD(idle_timeout_ms), "60s", 1000, 24 * 3600 * 1000,
     "a connection that is silent for so long is closed"},
    {"grace", OPTION_DURATION, "TIME", FIELD(grace_ms), "25s", 1000, 3600 * 1000,
     "how long a stop may take: for requests and deliveries under way, and for the store to keep "
     "all; then connections are cut"},
    {"wal-file", OPTION_BYTES, "SIZE", FIELD(wal_file_bytes), "64MiB", 4 * MIB, 1024 * MIB,
     "size of one file of the embedded store's log"},
    {"require-durability", OPTION_CHOICE, "any|memory|no|everysec|always",
     FIELD(require_durability), "any", 0, 0,
     "refuse to start on a Redis or SQL database that promises less (see docs/redis.md, "
     "docs/sql.md)"},
    {"wait-replicas", OPTION_COUNT, "N", FIELD(wait_replicas), "0", 0, 16,
     "answer a change once it has reached so many replicas of Redis"},
    {"redis-patience", OPTION_DURATION, "TIME", FIELD(redis_patience_ms), "10s", 1000, 60 * 1000,
     "how long a call waits for a Redis out of reach before it is answered 503"},
    {"migrate", OPTION_SWITCH, "", FIELD(migrate), "false", 0, 0,
     "make the schema tarry in the SQL database, or bring it to this version, before serving"},
    {"redis-password-file", OPTION_TEXT, "FILE", FIELD(redis_password_file), "", 0, 0,
     "the password of Redis, one line; so that it need not stand in --store"},
};

enum { OPTIONS = sizeof options / sizeof options[0], FILE_LINE_BYTES_MAX = 4096 };

_Static_assert((int)TRACER_ERROR_BYTES == (int)CONFIG_ERROR_BYTES, "one error for both");
_Static_assert((int)LISTENER_ERROR_BYTES == (int)CONFIG_ERROR_BYTES, "one error for both");
_Static_assert(JOB_BODY_BYTES_MAX == MIB, "the default of max-body");
_Static_assert((int)OPTIONS <= (int)CONFIG_OPTIONS_MAX, "`given` has a bit for each");

/* ---- one value ---- */

/* True if `text` is one of the words in "a|b|c"; *number from 1. */
static bool choice_number(const char *values, const char *text, uint32_t *number)
{
    size_t len = strlen(text);
    uint32_t n = 1;
    if (len == 0 || strchr(text, '|'))
        return false;
    for (const char *at = values;; at = strchr(at, '|') + 1, n++) {
        if (strncmp(at, text, len) == 0 && (at[len] == '|' || at[len] == '\0')) {
            *number = n;
            return true;
        }
        if (!strchr(at, '|'))
            return false;
    }
}

static bool parse_switch(const char *text, bool *out)
{
    uint32_t number;
    if (choice_number("true|yes|on|1", text, &number))
        *out = true;
    else if (choice_number("false|no|off|0", text, &number))
        *out = false;
    else
        return false;
    return true;
}

/* On and off like a switch, or the time at which it begins. */
static bool parse_clock(const char *text, int64_t *out)
{
    bool is_on;
    int64_t ms;
    if (parse_switch(text, &is_on))
        *out = is_on ? CONFIG_TEST_CLOCK_NOW : 0;
    else if (!timestamp_is_in_seconds(slice_of(text)) && timestamp_parse(slice_of(text), &ms) &&
             ms >= TIMESTAMP_BARE_MS_MIN && ms < CONFIG_TEST_CLOCK_MS_MAX)
        *out = ms;
    else
        return false;
    return true;
}

static bool parse_sync(const struct option *option, const char *text, struct option_sync *out)
{
    struct option_sync sync = {0};
    if (strcmp(text, "always") == 0)
        sync.kind = WAL_SYNC_ALWAYS;
    else if (strcmp(text, "never") == 0)
        sync.kind = WAL_SYNC_NEVER;
    else if (!duration_lacks_unit(slice_of(text)) &&
             duration_parse(slice_of(text), option->most, &sync.interval_ms) &&
             sync.interval_ms >= option->least)
        sync.kind = WAL_SYNC_INTERVAL;
    else
        return false;
    *out = sync;
    return true;
}

static bool parse_names(const char *text, char *out)
{
    struct slice bad;
    if (strlen(text) >= OPTION_TEXT_BYTES || !http_host_names_check(slice_of(text), &bad))
        return false;
    strcpy(out, text);
    return true;
}

static bool parse_origins(const char *text, char *out)
{
    struct slice bad;
    if (strlen(text) >= OPTION_TEXT_BYTES || !http_cors_check(slice_of(text), &bad))
        return false;
    strcpy(out, text);
    return true;
}

static bool parse_number(const struct option *option, const char *text, int64_t *out)
{
    uint64_t most = (uint64_t)option->most, natural = 0;
    int64_t number = 0;
    bool ok = option->kind == OPTION_DURATION
                  ? !duration_lacks_unit(slice_of(text)) &&
                        duration_parse(slice_of(text), option->most, &number)
              : option->kind == OPTION_BYTES ? text_parse_bytes(slice_of(text), most, &natural)
                                             : text_parse_u64(slice_of(text), most, &natural);
    if (option->kind != OPTION_DURATION)
        number = (int64_t)natural;
    if (!ok || number < option->least)
        return false;
    *out = number;
    return true;
}

/* "0.01": at most one digit before the point and nine behind it. */
static bool parse_share(const char *text, uint32_t *out)
{
    enum { ALL = 1000000000 };
    uint64_t share = 0, unit = ALL;
    if ((text[0] != '0' && text[0] != '1') || (text[1] && text[1] != '.'))
        return false;
    share = text[0] == '1' ? ALL : 0;
    for (const char *at = text[1] ? text + 2 : text + 1; *at; at++) {
        unit /= 10;
        if (*at < '0' || *at > '9' || unit == 0)
            return false;
        share += (uint64_t)(*at - '0') * unit;
    }
    if (share > ALL || (text[1] && !text[2]))
        return false;
    *out = (uint32_t)share;
    return true;
}

/* One or several, with blanks between; added to those that are there where there are to be `more`. */
static bool parse_listen(const char *text, bool more, struct option_listen *out, char *why)
{
    struct option_listen listen = {0};
    if (more)
        listen = *out;
    for (text += strspn(text, " \t"); *text; text += strspn(text, " \t")) {
        struct slice one = slice_make(text, strcspn(text, " \t"));
        if (listen.count == OPTION_LISTEN_MAX)
            return error_text(why, ADDRESS_ERROR_BYTES, "give at most %d", OPTION_LISTEN_MAX);
        if (!address_parse(one, &listen.at[listen.count++], why))
            return false;
        text += one.len;
    }
    if (listen.count == 0)
        return address_parse(slice_of(""), out->at, why);
    *out = listen;
    return true;
}

/* Sets the field of `option` within `base` from text; `more`: it was set in the same place before.
 * False, nothing changed, where it will not do; `why` may say what would. */
static bool option_set(const struct option *option, void *base, const char *text, bool more,
                       char why[ADDRESS_ERROR_BYTES])
{
    void *field = (char *)base + option->offset;
    int64_t number = 0;
    switch (option->kind) {
    case OPTION_TEXT:
        if (strlen(text) >= OPTION_TEXT_BYTES)
            return false;
        strcpy(field, text);
        return true;
    case OPTION_NAMES:
        return parse_names(text, field);
    case OPTION_ORIGINS:
        return parse_origins(text, field);
    case OPTION_LISTEN:
        return parse_listen(text, more, field, why);
    case OPTION_SYNC:
        return parse_sync(option, text, field);
    case OPTION_CHOICE:
        return choice_number(option->values, text, field);
    case OPTION_SWITCH:
        return parse_switch(text, field);
    case OPTION_CLOCK:
        return parse_clock(text, field);
    case OPTION_COUNT:
        if (!parse_number(option, text, &number))
            return false;
        *(uint32_t *)field = (uint32_t)number;
        return true;
    case OPTION_SHARE:
        return parse_share(text, field);
    case OPTION_RATE:
        if (text[0])
            return access_rate_parse(slice_of(text), field);
        *(struct access_rate *)field = (struct access_rate){0};
        return true;
    case OPTION_BYTES:
    case OPTION_DURATION:
        if (!parse_number(option, text, &number))
            return false;
        *(int64_t *)field = number;
        return true;
    }
    return false;
}

static void bytes_emit(char *out, size_t out_bytes, int64_t bytes)
{
    if (bytes >= (1 << 20) && bytes % (1 << 20) == 0)
        snprintf(out, out_bytes, "%lldMiB", (long long)(bytes / (1 << 20)));
    else
        snprintf(out, out_bytes, "%lld", (long long)bytes);
}

/* Says what would do: "give a number from 1 to 64". */
static void option_describe(const struct option *option, char *out, size_t out_bytes)
{
    char least[32], most[32];
    struct buffer text;
    switch (option->kind) {
    case OPTION_TEXT:
        snprintf(out, out_bytes, "give at most %d bytes", OPTION_TEXT_BYTES - 1);
        break;
    case OPTION_NAMES:
        snprintf(out, out_bytes,
                 "give names without a port, such as queue.internal or *.internal, with commas "
                 "between");
        break;
    case OPTION_ORIGINS:
        snprintf(out, out_bytes,
                 "give origins as a browser sends them, such as https://console.example or "
                 "http://localhost:3000, with commas between");
        break;
    case OPTION_LISTEN: /* address_parse has said it */
        break;
    case OPTION_SYNC:
        snprintf(out, out_bytes, "give always, never or a time from 1ms to 1m, such as 50ms");
        break;
    case OPTION_CHOICE:
        snprintf(out, out_bytes, "give %s%s", strchr(option->values, '|') ? "one of " : "",
                 option->values);
        break;
    case OPTION_SWITCH:
        snprintf(out, out_bytes, "give true or false");
        break;
    case OPTION_CLOCK:
        snprintf(out, out_bytes,
                 "give true, false or a time from 1973 to 2999, such as "
                 "2030-01-01T00:00:00Z");
        break;
    case OPTION_COUNT:
        snprintf(out, out_bytes, "give a number from %lld to %lld", (long long)option->least,
                 (long long)option->most);
        break;
    case OPTION_BYTES:
        bytes_emit(least, sizeof least, option->least);
        bytes_emit(most, sizeof most, option->most);
        snprintf(out, out_bytes, "give a size from %s to %s, such as %s", least, most,
                 option->most > (64 << 20) ? "64MiB" : "64KiB");
        break;
    case OPTION_SHARE:
        snprintf(out, out_bytes, "give a number from 0 to 1, such as 0.01");
        break;
    case OPTION_RATE:
        snprintf(out, out_bytes, "give a rate such as 100/s, 90/m or 5K/h");
        break;
    case OPTION_DURATION:
        buffer_init(&text, out_bytes);
        buffer_append_text(&text, "give a time from ");
        duration_emit(&text, option->least);
        buffer_append_text(&text, " to ");
        duration_emit(&text, option->most);
        buffer_append_text(&text, ", such as 30s");
        snprintf(out, out_bytes, "%.*s", (int)text.len, text.at);
        buffer_fini(&text);
        break;
    }
}

/* ---- names ---- */

static const struct option *find_option(const char *name)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

static const char *nearest_option(const char *name)
{
    const char *names[OPTIONS + 1];
    for (size_t i = 0; i < OPTIONS; i++)
        names[i] = options[i].name;
    names[OPTIONS] = NULL;
    return text_nearest(name, names);
}

void config_variable(const struct option *option, char out[CONFIG_VARIABLE_BYTES])
{
    size_t len = (size_t)snprintf(out, CONFIG_VARIABLE_BYTES, "TARRY_%s", option->name);
    for (size_t i = 6; i < len; i++)
        out[i] = (char)(out[i] == '-'                    ? '_'
                        : out[i] >= 'a' && out[i] <= 'z' ? out[i] - 32
                                                         : out[i]);
}

/* ---- the four sources ---- */

/* `place` is where it was said: "--sync", "TARRY_SYNC", "tarry.conf:3: sync"; `more`: not for the
 * first time. */
static bool set_or_explain(struct config *config, const struct option *option, const char *place,
                           const char *text, bool more, char *error)
{
    char right[ADDRESS_ERROR_BYTES];
    config->given |= UINT64_C(1) << (option - options);
    if (option_set(option, config, text, more, right))
        return true;
    option_describe(option, right, sizeof right);
    if (option->offset == FIELD(store))
        text = "…"; /* a password may be in it */
    return error_text(error, CONFIG_ERROR_BYTES, "bad value '%.64s' for '%s', %s", text, place,
                      right);
}

static void set_defaults(struct config *config)
{
    char unused[ADDRESS_ERROR_BYTES];
    *config = (struct config){0};
    for (size_t i = 0; i < OPTIONS; i++)
        option_set(&options[i], config, options[i].initial, false, unused);
}

/* The flag at args[*i] and its value; *i moves past both. */
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
    *option = find_option(name);
    if (!*option) {
        const char *nearest = nearest_option(name);
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

/* A flag beats what the file and the environment say, but names and listeners are added to those of
 * the same flag before it. */
static bool read_flags(struct config *config, int count, char *const *args, char *error)
{
    bool seen[OPTIONS] = {false};
    for (int i = 0; i < count;) {
        const struct option *option;
        const char *value;
        char place[64], all[2 * OPTION_TEXT_BYTES];
        if (!next_flag(count, args, &i, &option, &value, error))
            return false;
        if ((option->kind == OPTION_NAMES || option->kind == OPTION_ORIGINS) &&
            seen[option - options]) {
            snprintf(all, sizeof all, "%s,%.*s", (const char *)config + option->offset,
                     OPTION_TEXT_BYTES, value);
            value = all;
        }
        snprintf(place, sizeof place, "--%s", option->name);
        if (!set_or_explain(config, option, place, value, seen[option - options], error))
            return false;
        seen[option - options] = true;
    }
    return true;
}

static bool read_environment(struct config *config, config_environment *environment, char *error)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        char variable[CONFIG_VARIABLE_BYTES];
        config_variable(&options[i], variable);
        const char *value = environment(variable);
        if (value && *value && !set_or_explain(config, &options[i], variable, value, false, error))
            return false;
    }
    return true;
}

/* `where` is FILE:LINE. */
static bool read_line(struct config *config, char *line, const char *where, bool *seen, char *error)
{
    struct key_value pair;
    enum key_value_line what = key_value_parse(line, &pair);
    const char *key = pair.key;
    if (what == KEY_VALUE_NOTHING)
        return true;
    if (what == KEY_VALUE_BAD)
        return error_text(error, CONFIG_ERROR_BYTES, "%s: no '=' in '%.64s', write: key = value",
                          where, key);

    const struct option *option = find_option(key);
    if (!option) {
        const char *nearest = nearest_option(key);
        return error_text(error, CONFIG_ERROR_BYTES, "%s: unknown key '%.64s', %s%s", where, key,
                          nearest ? "did you mean " : "see 'tarry help serve'",
                          nearest ? nearest : "");
    }
    if (option->offset == FIELD(config))
        return error_text(error, CONFIG_ERROR_BYTES,
                          "%s: 'config' cannot be here, name the file by --config", where);
    bool more = seen[option - options];
    if (more && option->kind != OPTION_LISTEN)
        return error_text(error, CONFIG_ERROR_BYTES, "%s: '%s' is given twice, remove one", where,
                          key);
    seen[option - options] = true;
    char why[CONFIG_ERROR_BYTES];
    if (set_or_explain(config, option, option->name, pair.value, more, why))
        return true;
    return error_text(error, CONFIG_ERROR_BYTES, "%s: %.300s", where, why);
}

/* Is there a secret in --store? */
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
    bool seen[OPTIONS] = {false};
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
            ok = read_line(config, line, where, seen, error);
        }
    }
    if (ok && ferror(file)) {
        snprintf(error, CONFIG_ERROR_BYTES, "cannot read the configuration '%.200s', %s", path,
                 strerror(errno));
        ok = false;
    }
    if (ok && holds_password(config) && secret_is_open_to_others(fileno(file))) {
        snprintf(error, CONFIG_ERROR_BYTES,
                 "others may read the password in the configuration '%.200s', run: chmod 600, or "
                 "give it by redis-password-file, that of PostgreSQL by a passfile",
                 path);
        ok = false;
    }
    fclose(file);
    return ok;
}

/* ---- as a whole ---- */

/* The first of the named options that was said somewhere; NULL: none. */
static const char *find_given(const struct config *config, const char *const *names)
{
    for (; *names; names++)
        if (config->given & (UINT64_C(1) << (find_option(*names) - options)))
            return *names;
    return NULL;
}

static bool check_embedded(const struct config *config, char *error)
{
    static const char *const foreign[] = {"require-durability", "wait-replicas", "redis-patience",
                                          "redis-password-file", NULL};
    const char *given = find_given(config, foreign);
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
    if (config->wal_file_bytes < 4 * config->max_body_bytes) { /* a job must fit half a file */
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "'--wal-file' is too small for '--max-body', give at least four times as much");
    }
    return true;
}

static bool check_sql(const struct config *config, char *error)
{
    if (config->test_clock_ms)
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "'--test-clock' is for the embedded store and for Redis, the database's own "
            "clock goes on; leave it or --store out");
    static const char *const foreign[] = {
        "sync", "wal-file", "shards", "wait-replicas", "redis-patience", "redis-password-file",
        NULL};
    const char *given = find_given(config, foreign);
    return !given || error_text(error, CONFIG_ERROR_BYTES,
                                "'%s' is for other stores than SQL databases, leave it out", given);
}

static bool check_redis(const struct config *config, char *error)
{
    static const char *const foreign[] = {"sync", "wal-file", NULL};
    const char *given = find_given(config, foreign);
    if (!strstr(config->store, "://"))
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "bad value '%.64s' for 'store', give embedded or a URL that begins with redis://, "
            "redis-sentinel://, redis-cluster://, redis+unix://, postgres:// or mysql://",
            strchr(config->store, '@') ? "…" : config->store);
    if (!config_redis_check(config->store, error, CONFIG_ERROR_BYTES))
        return false;
    if (config->test_clock_ms == CONFIG_TEST_CLOCK_NOW)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--test-clock' on Redis needs the time at which it begins, the same for "
                          "all servers: give --test-clock=2030-01-01T00:00:00Z");
    if (given) {
        return error_text(
            error, CONFIG_ERROR_BYTES,
            "'%s' is for the embedded store, leave it out; what Redis keeps is set there "
            "(appendonly, appendfsync), --require-durability makes sure of it",
            given);
    }
    return true;
}

/* Is it known who may call? */
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

/* TLS where it is asked for, and nowhere else. */
static bool check_tls(const struct config *config, char *error)
{
    static const char *const all[] = {"tls-cert",        "tls-key", "tls-client-ca",
                                      "tls-client-auth", "tls-min", NULL};
    static const char *const auth[] = {"tls-client-auth", NULL};
    const struct option_listen *listen = &config->listen;
    const char *given = find_given(config, all);
    char name[ADDRESS_TEXT_BYTES];
    bool has_both = config->tls_cert[0] && config->tls_key[0], speaks = false;
    for (uint32_t i = 0; i < listen->count && !has_both; i++) {
        address_emit(&listen->at[i], name);
        if (listen->at[i].tls)
            return error_text(error, CONFIG_ERROR_BYTES,
                              "cannot speak TLS on '%s' without a certificate, give --tls-cert "
                              "FILE and --tls-key FILE",
                              name);
    }
    for (uint32_t i = 0; i < listen->count; i++)
        speaks |= listen->at[i].tls;
    if (given && !speaks)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--%s' without a listener that speaks TLS, give one the word: "
                          "--listen 0.0.0.0:8443,tls",
                          given);
    if (find_given(config, auth) && config->tls_client_auth != TLS_CLIENT_AUTH_OFF + 1 &&
        !config->tls_client_ca[0])
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--tls-client-auth' without --tls-client-ca, name the file of those "
                          "who sign the certificates");
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
                          "cannot use '--beanstalk %s', the protocol knows no TLS and no tokens, "
                          "give an address, or of a unix socket mode= and group= too",
                          config->beanstalk);
    return is_local || config->insecure ||
           error_text(error, CONFIG_ERROR_BYTES,
                      "refusing to listen on '--beanstalk %s', which other machines reach without "
                      "TLS and tokens, give --insecure if that is meant",
                      config->beanstalk);
}

/* What can be said of listeners before they are open. */
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
           error_text(
               error, CONFIG_ERROR_BYTES,
               "'--tokens store' keeps tokens in a shared store, give --store and its URL, or "
               "name a file");
}

static bool check_traces(const struct config *config, char *error)
{
    static const char *const beside[] = {"otlp-headers-file", "otlp-ca", "trace-sample",
                                         "service-name", NULL};
    const char *given = find_given(config, beside);
    if (!config->otlp[0])
        return !given || error_text(error, CONFIG_ERROR_BYTES,
                                    "'--%s' is for traces, give --otlp and the collector's URL "
                                    "too",
                                    given);
    return tracer_check_endpoint(config->otlp, error);
}

static bool check_beanstalk(const struct config *config, char *error)
{
    struct listener_options listen;
    return !config->beanstalk[0] || config_beanstalk(config, &listen, error);
}

static bool check(const struct config *config, char *error)
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

/* Another protocol's listener is one of them from here on, with all that is asked of those. */
static bool add_protocols(struct config *config, char *error)
{
    struct option_listen *listen = &config->listen;
    char why[ADDRESS_ERROR_BYTES];
    if (config->mykit_clear && !config->mykit[0])
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--mykit-clear' without --mykit, name the address of its calls too");
    if (!config->mykit[0])
        return true;
    if (listen->count == OPTION_LISTEN_MAX)
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--mykit' is one listener more than there may be, give at most %d",
                          OPTION_LISTEN_MAX);
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
    /* Flags and environment are read twice: first to learn which file, then to beat it. */
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
    return add_protocols(out, error) && check(out, error);
}

/* ---- all faults ---- */

struct faults {
    void (*tell)(void *ctx, const char *fault);
    void *ctx;
    uint32_t count;
};

static void note_fault(struct faults *faults, bool is_good, const char *error)
{
    if (is_good)
        return;
    faults->count++;
    faults->tell(faults->ctx, error);
}

/* Each line by itself. */
static void check_lines(struct config *scratch, const char *path, struct faults *faults)
{
    char line[FILE_LINE_BYTES_MAX], error[CONFIG_ERROR_BYTES], where[160];
    bool seen[OPTIONS] = {false};
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
        note_fault(faults, read_line(scratch, line, where, seen, error), error);
    }
    fclose(file);
}

static void check_variables(struct config *scratch, config_environment *environment,
                            struct faults *faults)
{
    char variable[CONFIG_VARIABLE_BYTES], error[CONFIG_ERROR_BYTES];
    for (size_t i = 0; i < OPTIONS; i++) {
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
    bool seen[OPTIONS] = {false};
    for (int i = 0; i < count;) {
        const struct option *option;
        const char *value;
        bool is_good = next_flag(count, args, &i, &option, &value, error);
        if (is_good) {
            snprintf(place, sizeof place, "--%s", option->name);
            is_good = set_or_explain(scratch, option, place, value, seen[option - options], error);
            seen[option - options] = true;
        }
        note_fault(faults, is_good, error);
    }
}

uint32_t config_check(struct config *out, int arg_count, char *const *args,
                      config_environment *environment, void (*tell)(void *ctx, const char *fault),
                      void *ctx)
{
    struct faults faults = {.tell = tell, .ctx = ctx};
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
    /* What only shows in the whole. */
    if (!faults.count)
        note_fault(&faults, config_load(out, arg_count, args, environment, error), error);
    return faults.count;
}

/* ---- out ---- */

static void print_wrapped(FILE *out, const char *text, int indent, int width)
{
    while (*text) {
        int len = (int)strlen(text);
        if (len > width) {
            len = width;
            while (len > 0 && text[len] != ' ')
                len--;
            if (len == 0)
                len = width;
        }
        fprintf(out, "%*s%.*s\n", indent, "", len, text);
        text += len;
        text += strspn(text, " ");
    }
}

const struct option *config_options(size_t *count)
{
    *count = OPTIONS;
    return options;
}

void config_print_help(FILE *out)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option *option = &options[i];
        bool is_switch = option->kind == OPTION_SWITCH, is_clock = option->kind == OPTION_CLOCK;
        fprintf(out, is_clock ? "  --%s[%s%s]" : "  --%s%s%s", option->name,
                is_clock    ? "="
                : is_switch ? ""
                            : " ",
                option->values);
        if (option->initial[0] && !is_switch && !is_clock)
            fprintf(out, "  (%s)", option->initial);
        fputc('\n', out);
        print_wrapped(out, option->help, 6, 90);
    }
}

void config_sync_emit(const struct option_sync *sync, char *out, size_t out_bytes)
{
    struct buffer text;
    switch (sync->kind) {
    case WAL_SYNC_ALWAYS:
        snprintf(out, out_bytes, "always");
        break;
    case WAL_SYNC_NEVER:
        snprintf(out, out_bytes, "never");
        break;
    case WAL_SYNC_INTERVAL:
        buffer_init(&text, 64);
        duration_emit(&text, sync->interval_ms);
        snprintf(out, out_bytes, "%.*s", (int)text.len, text.at);
        buffer_fini(&text);
        break;
    }
}
