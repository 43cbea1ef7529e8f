#include "server/config_options.h"

#include "base/text.h"
#include "job/job.h"

#include <stdlib.h>

#define FIELD(NAME) offsetof(struct config, NAME)
#define MIB (1024 * 1024)

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

enum { OPTIONS = sizeof options / sizeof options[0] };

_Static_assert(JOB_BODY_BYTES_MAX == MIB, "the default of max-body");
_Static_assert((int)OPTIONS <= (int)CONFIG_OPTIONS_MAX, "`given` has a bit for each");

const struct option *config_options(size_t *count)
{
    *count = OPTIONS;
    return options;
}

/* ---- looked up ---- */

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
        if (config->given & (UINT64_C(1) << (config_option_row(config_option_find(*names)))))
            return *names;
    return NULL;
}

/* ---- as text ---- */

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
