/* config_options: the table of all options of the server, and lookups in it. */
#include "server/config.h"

#include "base/text.h"
#include "job/job.h"

#include <stdlib.h>

#define FIELD(NAME) offsetof(struct config, NAME)
#define MIB (1024 * 1024)

static const struct option options[] = {
    {"data", OPTION_TEXT, "DIR", FIELD(data), "./tarry-data", 0, 0,
     "Directory of the embedded store; created if it is missing"},
    {"listen", OPTION_LISTEN, "ADDRESS[,WORD...]", FIELD(listen), "127.0.0.1:8279", 0, 0,
     "Serve HTTP here: ADDRESS:PORT (port 0: any free port), unix:PATH, or fd:NAME for a "
     "socket that systemd opened. Words after it: tls (see --tls-cert), plain (other "
     "machines may connect without TLS), require-token or no-token, proxy-protocol (only a "
     "proxy connects and sends the client's address), and for a unix socket mode=0660 and "
     "group=NAME. Repeatable"},
    {"allowed-host", OPTION_NAMES, "NAME,...", FIELD(allowed_host), "", 0, 0,
     "Additional names by which clients may call this server. By default the Host header "
     "must be localhost or an address of the server, so that no web page can reach it. "
     "*.NAME allows all names below. Repeatable"},
    {"cors-origin", OPTION_ORIGINS, "ORIGIN,...", FIELD(cors_origin), "", 0, 0,
     "Origins of web pages that may use the API from a browser, such as "
     "https://console.example (default: no origin). Repeatable"},
    {"store", OPTION_TEXT, "embedded|URL", FIELD(store), "embedded", 0, 0,
     "Where to store jobs: in this program, or in a database that several servers share: "
     "postgres://[user@]host/database or mysql://[user@]host (see docs/sql.md), "
     "redis://[user:password@]host:6379/0, redis-sentinel://host:26379,host/master, "
     "redis-cluster://host:6379,host, redis+unix:///path/of/socket"},
    {"sync", OPTION_SYNC, "always|never|TIME", FIELD(sync), "always", 1, 60 * 1000,
     "When to answer a push: after it is on disk; or immediately, with a sync every TIME or "
     "never"},
    {"shards", OPTION_COUNT, "N", FIELD(shards), "0", 0, 64,
     "Number of slices that share the jobs: threads, or groups of keys in Redis. Fixed when "
     "the store is created. 0: as created; for a new store 1, on a Redis Cluster one for "
     "each master"},
    {"deliver", OPTION_TEXT, "FILE", FIELD(deliver), "", 0, 0,
     "Deliver due jobs to the targets of their topics, as far as this policy file allows "
     "(see docs/delivery.md). Read again on SIGHUP (default: deliver nothing)"},
    {"tzdir", OPTION_TEXT, "DIR", FIELD(tzdir), "/usr/share/zoneinfo", 0, 0,
     "Directory of the time zones of schedules, from the package tzdata (see docs/schedules.md)"},
    {"amqp-in", OPTION_TEXT, "URL", FIELD(amqp_in), "", 0, 0,
     "Take messages with a delay from a queue of RabbitMQ and publish them there when they "
     "are due: amqp://host:5672/vhost?queue=NAME. Requires --deliver"},
    {"kafka-in", OPTION_TEXT, "URL", FIELD(kafka_in), "", 0, 0,
     "Take records with a delay from a topic of Kafka and publish them there when they are due: "
     "kafka://host:9092?from=TOPIC. Requires --deliver"},
    {"drain", OPTION_SWITCH, "", FIELD(drain), "false", 0, 0,
     "Start with new jobs rejected, like 'tarry drain', so that only existing jobs are "
     "processed"},
    {"mykit", OPTION_TEXT, "ADDRESS[,WORD...]", FIELD(mykit), "", 0, 0,
     "Answer calls of mykit-delay here, such as 127.0.0.1:6355, with words as for --listen "
     "(see docs/moving/mykit-delay.md)"},
    {"mykit-clear", OPTION_SWITCH, "", FIELD(mykit_clear), "false", 0, 0,
     "Let clearAll of mykit-delay remove all jobs that no consumer holds"},
    {"sqs", OPTION_TEXT, "REGION/ACCOUNT", FIELD(sqs), "", 0, 0,
     "Answer calls of Amazon SQS (AWS JSON 1.0) at the addresses of --listen, with this "
     "region and account in ARNs and URLs, such as us-east-1/000000000000 (see "
     "docs/moving/sqs.md)"},
    {"beanstalk", OPTION_TEXT, "ADDRESS", FIELD(beanstalk), "", 0, 0,
     "Serve beanstalkd's protocol here, such as 127.0.0.1:11300, unix:PATH or fd:NAME (see "
     "docs/beanstalk.md). It has no tokens and no TLS, so only this machine may reach it"},
    {"beanstalk-max-job", OPTION_BYTES, "SIZE", FIELD(beanstalk_job_bytes), "65535", 1, 16 * MIB,
     "Largest job over beanstalkd's protocol, in bytes, at most --max-body. Larger ones "
     "return JOB_TOO_BIG"},
    {"otlp", OPTION_TEXT, "URL", FIELD(otlp), "", 0, 0,
     "Send spans of pushes, waits and deliveries to a collector by OTLP over HTTP, such as "
     "http://collector:4318 (/v1/traces is appended; see docs/tracing.md). Default: no spans"},
    {"otlp-headers-file", OPTION_TEXT, "FILE", FIELD(otlp_headers_file), "", 0, 0,
     "File with headers for the collector, one 'Name: value' per line; others must not be "
     "able to read it"},
    {"otlp-ca", OPTION_TEXT, "FILE", FIELD(otlp_ca), "", 0, 0,
     "CA certificates to trust for the collector, PEM (default: those of the system)"},
    {"trace-sample", OPTION_SHARE, "RATIO", FIELD(trace_share), "0.01", 0, 0,
     "Share of the traces started here that are sampled, from 0 to 1. A traceparent in a "
     "request decides for itself"},
    {"trace-url", OPTION_TEXT, "URL", FIELD(trace_url), "", 0, 0,
     "Page of a trace at your tracer, such as https://jaeger.example/trace/{trace_id}: the console "
     "links the trace of a job to it (default: no link)"},
    {"service-name", OPTION_TEXT, "NAME", FIELD(service_name), "tarry", 0, 0,
     "Name of this server in traces"},
    {"tokens", OPTION_TEXT, "FILE|store", FIELD(tokens), "", 0, 0,
     "Require tokens: those in this file (made by 'tarry token', see docs/security.md), or "
     "those that all servers of a Redis or database share. Changes are followed, also on "
     "SIGHUP"},
    {"tls-cert", OPTION_TEXT, "FILE", FIELD(tls_cert), "", 0, 0,
     "Certificate of listeners with the word tls, PEM, followed by its chain. Read again "
     "when it changes, and on SIGHUP, without dropping connections"},
    {"tls-key", OPTION_TEXT, "FILE", FIELD(tls_key), "", 0, 0,
     "Key of --tls-cert, PEM without a passphrase, in a file that others cannot read"},
    {"tls-client-ca", OPTION_TEXT, "FILE", FIELD(tls_client_ca), "", 0, 0,
     "Accept client certificates signed by these CAs (PEM). The caller's name is the "
     "certificate's first DNS name, else its common name"},
    {"tls-client-auth", OPTION_CHOICE, "off|request|require", FIELD(tls_client_auth), "request", 0,
     0, "Treatment of clients without a certificate, with --tls-client-ca"},
    {"tls-min", OPTION_CHOICE, "1.2|1.3", FIELD(tls_min), "1.2", 0, 0,
     "Oldest TLS version to accept"},
    {"jwt-issuer", OPTION_TEXT, "ISSUER", FIELD(jwt_issuer), "", 0, 0,
     "Accept JWTs of this issuer, the claim iss (see docs/security.md). Requires "
     "--jwt-audience and --jwt-keys"},
    {"jwt-audience", OPTION_TEXT, "NAME", FIELD(jwt_audience), "", 0, 0,
     "Required claim aud of a JWT: tokens for other services are rejected"},
    {"jwt-keys", OPTION_TEXT, "FILE|URL", FIELD(jwt_keys), "", 0, 0,
     "The issuer's public keys: a JWKS or PEM file, read again when it changes; or its JWKS "
     "URL, https://"},
    {"jwt-ca", OPTION_TEXT, "FILE", FIELD(jwt_ca), "", 0, 0,
     "CA certificates to trust for the URL in --jwt-keys, PEM (default: those of the system)"},
    {"jwt-scope-claim", OPTION_TEXT, "NAME", FIELD(jwt_scope_claim), "scope", 0, 0,
     "Claim with the scopes: push, consume, read, admin, or tarry:push, ..."},
    {"jwt-topics-claim", OPTION_TEXT, "NAME", FIELD(jwt_topics_claim), "topics", 0, 0,
     "Claim with the topic patterns"},
    {"oidc-client", OPTION_TEXT, "ID", FIELD(oidc_client), "", 0, 0,
     "Let users log in to the console at the issuer of JWTs, by OpenID Connect. ID is the "
     "console's client id there: a public client with PKCE (see docs/security.md)"},
    {"oidc-token", OPTION_CHOICE, "access|id", FIELD(oidc_token), "access", 0, 0,
     "Token of a log-in that the console sends to the server. It must be a JWT for "
     "--jwt-audience"},
    {"oidc-parameters", OPTION_TEXT, "QUERY", FIELD(oidc_parameters), "", 0, 0,
     "Further parameters of a log-in, public, such as "
     "scope=openid%20offline_access&resource=https://tarry.example (default scope: openid)"},
    {"test-clock", OPTION_CLOCK, "TIME", FIELD(test_clock_ms), "false", 0, 0,
     "For tests: jobs use a clock that stands still until it is moved ('tarry clock'), "
     "starting at TIME, such as 2030-01-01T00:00:00Z, or now. Such a server shares no jobs "
     "with real ones"},
    {"config", OPTION_TEXT, "FILE", FIELD(config), "", 0, 0, "Read options from this file"},
    {"log", OPTION_TEXT, "FILE", FIELD(log), "", 0, 0,
     "Log file, opened again on SIGHUP (default: standard error)"},
    {"log-level", OPTION_CHOICE, "debug|info|warn|error", FIELD(log_level), "info", 0, 0,
     "Lowest level to log"},
    {"log-format", OPTION_CHOICE, "text|json", FIELD(log_format), "text", 0, 0,
     "key=value pairs, or one JSON object per line"},
    {"audit", OPTION_TEXT, "FILE", FIELD(audit), "", 0, 0,
     "Also write audit events to this file, one JSON object per line. Opened again on SIGHUP"},
    {"insecure", OPTION_SWITCH, "", FIELD(insecure), "false", 0, 0,
     "Allow addresses that other machines can reach, without TLS and tokens; logged at every "
     "start"},
    {"core-dumps", OPTION_SWITCH, "", FIELD(core_dumps), "false", 0, 0,
     "Allow core dumps and debuggers, which show keys, passwords and jobs"},
    {"max-body", OPTION_BYTES, "SIZE", FIELD(max_body_bytes), "1MiB", 1, 16 * MIB,
     "Largest body of a job"},
    {"max-result", OPTION_BYTES, "SIZE", FIELD(max_result_bytes), "64KiB", 1, MIB,
     "Largest result of a job, sent with its ack"},
    {"max-connections", OPTION_COUNT, "N", FIELD(max_connections), "10000", 1, 1000000,
     "Largest number of connections; further ones are closed immediately"},
    {"max-waiting", OPTION_COUNT, "N", FIELD(max_waiting), "10000", 1, 1000000,
     "Largest number of waiting takes"},
    {"max-memory", OPTION_BYTES, "SIZE", FIELD(max_memory_bytes), "0", 0, INT64_C(1) << 44,
     "Memory limit of the process: above it pushes return 507, while takes and acks "
     "continue. 0: 80 % of the memory of the machine, or of its control group"},
    {"max-request-memory", OPTION_BYTES, "SIZE", FIELD(max_request_memory_bytes), "0", 0,
     INT64_C(1) << 44,
     "Memory limit of requests, answers and waiting takes together, at least 32 MiB and four "
     "times --max-body; above it calls return 503. 0: a quarter of the memory of the "
     "machine, or of its control group. The store's own index is not included"},
    {"address-rate", OPTION_RATE, "RATE", FIELD(address_rate), "", 0, 0,
     "Requests per address without a token, such as 100/s or 90/m; above it calls return 429 "
     "(default: unlimited)"},
    {"address-connections", OPTION_COUNT, "N", FIELD(address_connections), "0", 0, 1000000,
     "Connections per address without a token. 0: half of --max-connections, and unlimited "
     "for this machine's own addresses"},
    {"address-waiting", OPTION_COUNT, "N", FIELD(address_waiting), "0", 0, 1000000,
     "Waiting takes per address without a token. 0: half of --max-waiting, and unlimited for "
     "this machine's own addresses"},
    {"max-topics", OPTION_COUNT, "N", FIELD(max_topics), "10000", 1, 1000000,
     "Largest number of topics"},
    {"metrics-topics", OPTION_COUNT, "N", FIELD(metrics_topics), "200", 0, 100000,
     "Number of topics with their own lines at /metrics; the others are summed up. 0: no "
     "line has a topic"},
    {"idle-timeout", OPTION_DURATION, "TIME", FIELD(idle_timeout_ms), "60s", 1000, 24 * 3600 * 1000,
     "Close a connection that is silent for this long"},
    {"grace", OPTION_DURATION, "TIME", FIELD(grace_ms), "25s", 1000, 3600 * 1000,
     "Longest time of a stop, for requests and deliveries in progress and for the store's "
     "last commit; then connections are cut"},
    {"wal-file", OPTION_BYTES, "SIZE", FIELD(wal_file_bytes), "64MiB", 4 * MIB, 1024 * MIB,
     "Size of one log file of the embedded store"},
    {"require-durability", OPTION_CHOICE, "any|memory|no|everysec|always",
     FIELD(require_durability), "any", 0, 0,
     "Reject a Redis or SQL database that promises less (see docs/redis.md, docs/sql.md)"},
    {"wait-replicas", OPTION_COUNT, "N", FIELD(wait_replicas), "0", 0, 16,
     "Answer a change after this many replicas of Redis have received it"},
    {"store-timeout", OPTION_DURATION, "TIME", FIELD(store_timeout_ms), "10s", 1000, 60 * 1000,
     "How long a call waits for a Redis that cannot be reached before it returns 503"},
    {"migrate", OPTION_SWITCH, "", FIELD(migrate), "false", 0, 0,
     "Create the schema tarry in the SQL database, or upgrade it, before serving"},
    {"redis-password-file", OPTION_TEXT, "FILE", FIELD(redis_password_file), "", 0, 0,
     "File with the password of Redis, in one line; keeps it out of --store"},
};

enum { OPTIONS = sizeof options / sizeof options[0] };

_Static_assert(JOB_BODY_BYTES_MAX == MIB, "the default of max-body");
_Static_assert((int)OPTIONS <= (int)CONFIG_OPTIONS_MAX, "a set of rows has a bit for each");

const struct option *config_options(size_t *count)
{
    *count = OPTIONS;
    return options;
}

/* ---- lookups ---- */

const struct option *config_option_find(const char *name)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

const char *config_option_nearest(const char *name)
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

size_t config_option_row(const struct option *option)
{
    return (size_t)(option - options);
}

const char *config_find_given(const struct config *config, const char *const *names)
{
    for (; *names; names++)
        if (config_rows_have(&config->given, config_option_row(config_option_find(*names))))
            return *names;
    return NULL;
}

/* ---- help text ---- */

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
