#include "server/config.h"

#include "http/front.h"
#include "redis/redis.h"
#include "server/sign_in.h"
#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const *variables; /* name, value, … NULL */

static char *environment(const char *name)
{
    for (const char *const *at = variables; at && *at; at += 2)
        if (strcmp(*at, name) == 0)
            return (char *)(uintptr_t)at[1];
    return NULL;
}

static bool load(struct config *config, const char *const *args, char *error)
{
    int count = 0;
    error[0] = '\0';
    while (args[count])
        count++;
    return config_load(config, count, (char *const *)(uintptr_t)args, environment, error);
}

static char file_path[] = "/tmp/tarry-config-XXXXXX";

static void write_file(const char *text)
{
    strcpy(strrchr(file_path, '-'), "-XXXXXX");
    int fd = mkstemp(file_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

CLAIM(defaults_match_the_manual)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES], listen[ADDRESS_TEXT_BYTES];
    variables = NULL;
    assert_true(load(&config, ARGS(NULL), error));
    address_emit(&config.listen.at[0], listen);
    assert_string_equal(listen, "127.0.0.1:8279");
    assert_string_equal(config.data, "./tarry-data");
    assert_string_equal(config.deliver, "");
    assert_int_equal(config.sync.kind, WAL_SYNC_ALWAYS);
    assert_int_equal(config.shards, 0);
    assert_int_equal(config.max_body_bytes, 1 << 20);
    assert_int_equal(config.max_memory_bytes, 0);
    assert_int_equal(config.wal_file_bytes, 64 << 20);
    assert_int_equal(config.idle_timeout_ms, 60000);
    assert_int_equal(config.log_format, CONFIG_LOG_TEXT);
    assert_int_equal(config.log_level, 2);
    assert_false(config.insecure);
    assert_false(config.core_dumps);
}

CLAIM(flags_override_the_environment_which_overrides_the_file)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    write_file(
        "# limits\nshards = 2\nmax-topics = 20   # a few\nmax-waiting=30\n\n  sync = 50ms\n");
    variables = (const char *const[]){
        "TARRY_MAX_TOPICS", "21", "TARRY_MAX_WAITING", "31", "TARRY_SYNC", "", NULL};
    assert_true(load(&config, ARGS("--config", file_path, "--max-waiting=32"), error));
    assert_int_equal(config.shards, 2);
    assert_int_equal(config.max_topics, 21);
    assert_int_equal(config.max_waiting, 32);
    assert_int_equal(config.sync.kind, WAL_SYNC_INTERVAL);
    assert_int_equal(config.sync.interval_ms, 50);
    unlink(file_path);
}

CLAIM(names_are_added_up_within_the_flags)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    variables = (const char *const[]){"TARRY_ALLOWED_HOST", "from.env", NULL};
    assert_true(load(&config, ARGS("--insecure"), error));
    assert_string_equal(config.allowed_host, "from.env");
    assert_true(load(&config, ARGS("--allowed-host", "a", "--allowed-host=b, *.c"), error));
    assert_string_equal(config.allowed_host, "a,b, *.c");
    assert_false(load(&config, ARGS("--allowed-host", "a", "--allowed-host", "http://b"), error));
    assert_non_null(strstr(error, "for '--allowed-host', give names without a port"));
    variables = NULL;
}

static void assert_listens(const struct config *config, const char *expected)
{
    char all[1024] = "", one[ADDRESS_TEXT_BYTES];
    for (uint32_t i = 0; i < config->listen.count; i++) {
        address_emit(&config->listen.at[i], one);
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", one);
    }
    assert_string_equal(all, expected);
}

CLAIM(listeners_add_up_within_a_source_and_the_nearer_source_wins)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    write_file("listen = 127.0.0.1:1\nlisten = unix:/a,mode=0660   # a file\n");
    variables = NULL;
    assert_true(load(&config, ARGS("--config", file_path), error));
    assert_listens(&config, "127.0.0.1:1 unix:/a");
    assert_int_equal(config.listen.at[1].mode, 0660);
    variables = (const char *const[]){"TARRY_LISTEN", " [::1]:2  fd:web,no-token ", NULL};
    assert_true(load(&config, ARGS("--config", file_path), error));
    assert_listens(&config, "[::1]:2 fd:web");
    assert_int_equal(config.listen.at[1].token, LISTENER_TOKEN_NONE);
    assert_true(load(
        &config, ARGS("--config", file_path, "--listen", "localhost:3", "--listen=unix:b"), error));
    assert_listens(&config, "127.0.0.1:3 unix:b");
    variables = NULL;
    assert_false(load(&config, ARGS("--listen", "unix:b", "--listen=unix:b,mode=0600"), error));
    assert_string_equal(error, "'--listen unix:b' is given twice, leave one out");
    assert_true(load(&config, ARGS("--listen", "127.0.0.1:0", "--listen=127.0.0.1:0"), error));
    unlink(file_path);
}

CLAIM(a_postgres_store_needs_no_directory)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    variables = (const char *const[]){"TARRY_STORE", "postgres://me@host,other/db", NULL};
    assert_true(load(&config, ARGS("--data=", "--migrate"), error));
    assert_true(config_is_sql(&config) && config.migrate);
    assert_false(config_is_redis(&config));
    variables = (const char *const[]){"TARRY_STORE", "postgresql:///db?host=/run", NULL};
    assert_true(load(&config, ARGS(NULL), error) && config_is_sql(&config) && !config.migrate);
    variables = NULL;
}

CLAIM(redis_needs_no_directory_and_no_word_of_the_embedded_store)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    variables = (const char *const[]){"TARRY_STORE", "redis://me:secret@host:6380/2", NULL};
    assert_true(
        load(&config, ARGS("--data=", "--shards=16", "--require-durability=always"), error));
    assert_true(config_is_redis(&config));
    assert_string_equal(config.store, "redis://me:secret@host:6380/2");
    assert_int_equal(config.shards, 16);
    assert_int_equal(config.require_durability, REDIS_DURABILITY_FSYNC_ALWAYS);
    assert_int_equal(config.store_timeout_ms, 10000);
    variables = NULL;
    assert_true(load(&config, ARGS(NULL), error));
    assert_false(config_is_redis(&config));
    assert_int_equal(config.require_durability, CONFIG_DURABILITY_ANY);
}

CLAIM(an_overlong_store_is_rejected_without_showing_it)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES], store[OPTION_TEXT_BYTES + 16];
    memset(store, 'x', sizeof store);
    memcpy(store, "redis://:secret@", 16);
    store[sizeof store - 1] = '\0';
    variables = NULL;
    assert_false(load(&config, ARGS("--store", store), error));
    assert_null(strstr(error, "secret"));
    assert_non_null(strstr(error, "--store"));
}

CLAIM(the_file_may_be_named_by_the_environment)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    write_file("log-format = json\n");
    variables = (const char *const[]){"TARRY_CONFIG", file_path, NULL};
    assert_true(load(&config, ARGS(NULL), error));
    assert_int_equal(config.log_format, CONFIG_LOG_JSON);
    unlink(file_path);
}

CLAIM(rejects_flags_with_a_reason)
{
    static const struct {
        const char *args[4];
        const char *error;
        const char *sentence;
    } rows[] = {
        {{"--dta", "x"}, "unknown option '--dta', did you mean --data", "a slip of the finger"},
        {{"--frobnicate"}, "unknown option '--frobnicate', see 'tarry help serve'", "no idea"},
        {{"data"}, "unexpected argument 'data', options look like --data DIR", "no dashes"},
        {{"--data"}, "option '--data' needs a value: --data DIR", "no value"},
        {{"--data="}, "no data directory, give --data DIR", "an empty directory"},
        {{"--sync", "sometimes"},
         "bad value 'sometimes' for '--sync', give always, never or a time from 1ms to 1m, such as "
         "50ms",
         "an unknown sync"},
        {{"--sync", "2m"},
         "bad value '2m' for '--sync', give always, never or a time from 1ms to 1m, such as 50ms",
         "a sync that is too rare"},
        {{"--shards", "65"},
         "bad value '65' for '--shards', give a number from 0 to 64",
         "one shard more than there may be"},
        {{"--shards", "-1"}, "bad value '-1' for '--shards', give a number from 0 to 64", "a sign"},
        {{"--max-body", "17MiB"},
         "bad value '17MiB' for '--max-body', give a size from 1 to 16MiB, such as 64KiB",
         "a body beyond the limit"},
        {{"--max-request-memory", "31MiB"},
         "'--max-request-memory' is too small, give at least 32MiB and four times --max-body, or 0 "
         "for a "
         "quarter of the machine's memory",
         "less than the largest batch needs"},
        {{"--max-body=16MiB", "--max-request-memory=63MiB"},
         "'--max-request-memory' is too small, give at least 32MiB and four times --max-body, or 0 "
         "for a "
         "quarter of the machine's memory",
         "less than large jobs need"},
        {{"--max-body=8MiB", "--wal-file=31MiB"},
         "'--wal-file' is too small for '--max-body', give at least four times as much",
         "a log whose files cannot hold a job"},
        {{"--idle-timeout", "10ms"},
         "bad value '10ms' for '--idle-timeout', give a time from 1s to 1d, such as 30s",
         "an impatient server"},
        {{"--log-level", "loud"},
         "bad value 'loud' for '--log-level', give one of debug|info|warn|error",
         "an unknown level"},
        {{"--log-level", "debug|info"},
         "bad value 'debug|info' for '--log-level', give one of debug|info|warn|error",
         "two levels"},
        {{"--store", "floppy"},
         "bad value 'floppy' for '--store', give embedded or a URL that begins with redis://, "
         "rediss://, redis-sentinel://, redis-cluster://, unix://, postgres://, mysql:// or "
         "mariadb://",
         "no such store"},
        {{"--store=me:secret@host"},
         "bad value '…' for '--store', give embedded or a URL that begins with redis://, "
         "rediss://, redis-sentinel://, redis-cluster://, unix://, postgres://, mysql:// or "
         "mariadb://",
         "no scheme, and maybe a password that must not be shown"},
        {{"--store=redis://host", "--sync=50ms"},
         "'sync' is for the embedded store, leave it out; durability is set in Redis "
         "(appendonly, appendfsync), and --require-durability checks it",
         "a sync for Redis"},
        {{"--store=redis://host", "--wal-file=64MiB"},
         "'wal-file' is for the embedded store, leave it out; durability is set in Redis "
         "(appendonly, appendfsync), and --require-durability checks it",
         "a log's size for Redis"},
        {{"--wait-replicas=1"},
         "'wait-replicas' is for jobs in Redis, leave it out or give --store redis://HOST:PORT",
         "replicas of a directory"},
        {{"--store=postgres://host/db", "--sync=always"},
         "'sync' is for other stores than SQL databases, leave it out",
         "a word of the embedded store for PostgreSQL"},
        {{"--migrate"},
         "'migrate' is for jobs in a SQL database, leave it out or give --store "
         "postgres://HOST/DATABASE or mysql://HOST",
         "a schema without a database"},
        {{"--require-durability", "some"},
         "bad value 'some' for '--require-durability', give one of any|memory|no|everysec|always",
         "an unknown durability"},
        {{"--insecure=maybe"}, "bad value 'maybe' for '--insecure', give true or false", "a maybe"},
        {{"--listen", "example.org:80"},
         "bad value 'example.org:80' for '--listen', give an address and a port, such as "
         "127.0.0.1:8279 or [::1]:8279, or a unix socket, such as unix:/run/tarry/tarry.sock",
         "a name"},
        {{"--listen", "0.0.0.0:8279"},
         "refusing to listen on '0.0.0.0:8279', which other machines can reach without TLS and "
         "tokens, add the word tls and give --tokens, or --insecure to allow it",
         "an address that others reach"},
        {{"--config", "/nonexistent/tarry.conf"},
         "cannot read the configuration '/nonexistent/tarry.conf', No such file or directory",
         "a file that is not there"},
    };
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    variables = NULL;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CASE_HOLDS(rows[i].sentence, !load(&config, rows[i].args, error));
        if (strcmp(error, rows[i].error) != 0)
            fail_msg("%s: %s", rows[i].sentence, error);
    }
}

CLAIM(a_ratio_is_a_number_from_0_to_1)
{
    static const struct {
        const char *text;
        int64_t billionths; /* -1: refused */
    } rows[] = {
        {"0", 0},
        {"1", 1000000000},
        {"0.01", 10000000},
        {"0.5", 500000000},
        {"1.0", 1000000000},
        {"0.000000001", 1},
        {"1.000000001", -1},
        {"0.0000000001", -1},
        {"2", -1},
        {"01", -1},
        {".5", -1},
        {"0.", -1},
        {"-0", -1},
        {"0,5", -1},
        {"50%", -1},
        {"1e-3", -1},
    };
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    variables = NULL;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool ok = load(&config, ARGS("--otlp", "http://c", "--trace-sample", rows[i].text), error);
        CASE_HOLDS(rows[i].text, ok == (rows[i].billionths >= 0));
        CASE_HOLDS(rows[i].text, !ok || config.trace_share == rows[i].billionths);
    }
    assert_true(load(&config, ARGS("--otlp", "http://c"), error));
    assert_int_equal(config.trace_share, 10000000);
    assert_string_equal(config.service_name, "tarry");
}

CLAIM(a_sign_in_needs_an_issuer_that_the_page_may_name)
{
    static const struct {
        const char *issuer, *parameters, *origin, *error;
    } rows[] = {
        {"https://id.example", "", "https://id.example:443", ""},
        {"https://ID.example/realms/one", "", "https://id.example:443", ""},
        {"https://id.example:8443/", "a=b&resource=https://x", "https://id.example:8443", ""},
        {"http://localhost:9/x", "scope=openid%20email", "http://localhost:9", ""},
        {"http://127.0.0.1", "", "http://127.0.0.1:80", ""},
        {"http://id.example", "", "", "give https://"},
        {"id.example", "", "", "bad '--jwt-issuer'"},
        {"https://a b; script-src *", "", "", "bad '--jwt-issuer'"},
        {"https://id.example;script-src", "", "", "bad '--jwt-issuer'"},
        {"https://[::1]", "", "", "one host by name"},
        {"https://a,b", "", "", "one host by name"},
        {"https://u@id.example", "", "", "without a user"},
        {"https://id.example?tenant=x", "", "", "without a user and a query"},
        {"https://id.example", "scope", "", "give NAME=VALUE"},
        {"https://id.example", "=x", "", "give NAME=VALUE"},
        {"https://id.example", "a=b c", "", "as in a query"},
        {"https://id.example", "a=b#c", "", "as in a query"},
        {"https://id.example", "a=b&state=x", "", "leave out 'state'"},
        {"https://id.example", "client_secret=x", "", "leave out 'client_secret': anyone can"},
    };
    struct config config;
    struct http_sign_in sign_in;
    char error[CONFIG_ERROR_BYTES];
    variables = NULL;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool ok = load(&config,
                       ARGS("--jwt-issuer", rows[i].issuer, "--jwt-audience", "a", "--jwt-keys",
                            "/k", "--oidc-client", "c", "--oidc-parameters", rows[i].parameters),
                       error);
        CASE_HOLDS(rows[i].issuer, ok == (rows[i].error[0] == '\0'));
        CASE_HOLDS(rows[i].issuer, ok || strstr(error, rows[i].error));
        CASE_HOLDS(rows[i].issuer, !ok || (sign_in_read(&config, &sign_in) &&
                                           strcmp(sign_in.origin, rows[i].origin) == 0));
    }
    assert_true(load(&config, ARGS(NULL), error));
    assert_false(sign_in_read(&config, &sign_in));
    assert_false(load(&config, ARGS("--oidc-client", "c"), error));
    assert_non_null(strstr(error, "also give --jwt-issuer"));
    assert_false(load(&config, ARGS("--oidc-token", "id"), error));
    assert_string_equal(error, "'--oidc-token' is for logging in, also give --oidc-client");
}

CLAIM(the_page_of_a_trace_is_a_url_with_a_place_for_the_id)
{
    static const struct {
        const char *url, *error; /* empty: accepted */
    } rows[] = {
        {"https://jaeger.example/trace/{trace_id}", ""},
        {"http://127.0.0.1:16686/trace/{trace_id}?uiEmbed=v0", ""},
        {"https://apm.example/app#/trace/{trace_id}", ""},
        {"https://jaeger.example/trace/", "write {trace_id}"},
        {"javascript:alert('{trace_id}')", "bad '--trace-url'"},
        {"javascript://x/%0aalert('{trace_id}')", "give https://"},
        {"ftp://jaeger.example/{trace_id}", "give https://"},
        {"https://ops:secret@jaeger.example/{trace_id}", "without a user"},
        {"https://a,b/{trace_id}", "one host"},
        {"https://{trace_id}.example/", "bad '--trace-url'"},
        {"https://jaeger.example/{trace_id} x", "bad '--trace-url'"},
        {"https://jaeger.example/#{trace_id}\\", "bad '--trace-url'"},
        {"jaeger.example/{trace_id}", "bad '--trace-url'"},
    };
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    variables = NULL;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool ok = load(&config, ARGS("--trace-url", rows[i].url), error);
        CASE_HOLDS(rows[i].url, ok == (rows[i].error[0] == '\0'));
        CASE_HOLDS(rows[i].url, ok ? strcmp(config.trace_url, rows[i].url) == 0
                                   : strstr(error, rows[i].error) != NULL);
        CASE_HOLDS(rows[i].url, ok || !strstr(error, "secret"));
    }
}

CLAIM(names_file_and_line_of_a_fault)
{
    static const struct {
        const char *text, *error, *sentence;
    } rows[] = {
        {"data = /x\nshard = 2\n", ":2: unknown key 'shard', did you mean shards", "unknown key"},
        {"\n\nshards 2\n", ":3: no '=' in 'shards…', write: key = value", "no equals sign"},
        {"shards\n", ":1: no '=' in 'shards', write: key = value", "only a key"},
        {"store redis://:sesame@h\n", ":1: no '=' in 'store…', write: key = value",
         "no password in an error"},
        {"redis://:sesame@h/?x=1\n", ":1: unknown key 'redis…', see 'tarry help serve'",
         "no password of a lone URL"},
        {"shards = 1\nshards = 2\n", ":2: 'shards' is given twice, remove one", "a key twice"},
        {"max-topics = 0\n", ":1: bad value '0' for 'max-topics', give a number from 1 to 1000000",
         "bad value"},
        {"config = /other\n", ":1: 'config' cannot be in the file, name the file with --config",
         "a file in a file"},
    };
    struct config config;
    char error[CONFIG_ERROR_BYTES], right[CONFIG_ERROR_BYTES];
    variables = NULL;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        write_file(rows[i].text);
        CASE_HOLDS(rows[i].sentence, !load(&config, ARGS("--config", file_path), error));
        snprintf(right, sizeof right, "%s%s", file_path, rows[i].error);
        if (strcmp(error, right) != 0)
            fail_msg("%s: %s", rows[i].sentence, error);
        unlink(file_path);
    }
}

CLAIM(a_set_of_rows_has_a_bit_for_each_option)
{
    struct config_rows rows = {0};
    for (size_t added = 0; added < CONFIG_OPTIONS_MAX; added++) {
        assert_int_equal(config_rows_are_empty(&rows), added == 0);
        config_rows_add(&rows, added);
        for (size_t row = 0; row < CONFIG_OPTIONS_MAX; row++)
            assert_int_equal(config_rows_have(&rows, row), row <= added);
    }
}

CLAIM(each_option_that_is_set_is_found_and_no_other)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    size_t count;
    const struct option *options = config_options(&count);
    variables = NULL;
    assert_true(
        load(&config,
             ARGS("--redis-password-file", "/x", "--listen", "127.0.0.1:1", "--store", "redis://h"),
             error));
    for (size_t i = 0; i < count; i++) {
        const char *names[] = {options[i].name, NULL};
        bool is_given = strcmp(options[i].name, "redis-password-file") == 0 ||
                        strcmp(options[i].name, "listen") == 0 ||
                        strcmp(options[i].name, "store") == 0;
        if ((config_find_given(&config, names) != NULL) != is_given)
            fail_msg("%s", options[i].name);
    }
}

CLAIM(names_the_variable_of_a_fault)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES];
    variables = (const char *const[]){"TARRY_WAL_FILE", "tiny", NULL};
    assert_false(load(&config, ARGS(NULL), error));
    assert_string_equal(error, "bad value 'tiny' for 'TARRY_WAL_FILE', give a size from 4MiB to "
                               "1024MiB, such as 64MiB");
}

CLAIM(refuses_a_line_or_a_text_without_end)
{
    struct config config;
    char error[CONFIG_ERROR_BYTES], text[6000];
    variables = NULL;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    write_file(text);
    assert_false(load(&config, ARGS("--config", file_path), error));
    assert_non_null(strstr(error, ":1: line too long"));
    unlink(file_path);
    text[OPTION_TEXT_BYTES] = '\0';
    assert_false(load(&config, ARGS("--data", text), error));
    text[OPTION_TEXT_BYTES - 1] = '\0';
    assert_true(load(&config, ARGS("--data", text), error));
}

CLAIMS_MAIN(NULL, NULL)
