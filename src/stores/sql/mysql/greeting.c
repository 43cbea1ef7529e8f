#include "sql/mysql/greeting.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/url.h"
#include "sql/mysql/link.h"
#include "sql/mysql/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PART_BYTES = 1024,
    PORT = 3306,
    CONNECT_S = 5,
    ANSWER_S = 30,
    LOCKED = 1205 /* lock wait timeout */
};

enum tls { TLS_OFF = 1, TLS_ON, TLS_VERIFY };

struct place { /* The parts of a URL. */
    struct url url;
    char user[PART_BYTES], password[PART_BYTES], database[PART_BYTES];
    char socket[PART_BYTES], ca[PART_BYTES], password_file[PART_BYTES];
    enum tls tls;
};

/* ---- URL ---- */

static bool decode(struct slice from, char out[PART_BYTES])
{
    struct buffer text;
    buffer_init(&text, PART_BYTES - 1);
    bool is_good = text_percent_decode(from, false, &text) && !text.failed;
    if (is_good && text.len)
        memcpy(out, text.at, text.len);
    out[is_good ? text.len : 0] = '\0';
    buffer_fini(&text);
    return is_good;
}

static bool read_parameter(struct place *place, struct slice name, struct slice value, char *error,
                           size_t error_bytes)
{
    char word[PART_BYTES];
    if (!decode(value, word))
        return error_text(error, error_bytes, "a parameter of the URL is too long");
    if (slice_is(name, "socket"))
        return decode(value, place->socket);
    if (slice_is(name, "ca"))
        return decode(value, place->ca);
    if (slice_is(name, "password_file"))
        return decode(value, place->password_file);
    if (!slice_is(name, "tls"))
        return error_text(error, error_bytes,
                          "unknown parameter '%.*s' in the URL, write socket, tls, ca or "
                          "password_file",
                          (int)name.len, name.at);
    place->tls = strcmp(word, "off") == 0      ? TLS_OFF
                 : strcmp(word, "on") == 0     ? TLS_ON
                 : strcmp(word, "verify") == 0 ? TLS_VERIFY
                                               : 0;
    return place->tls ||
           error_text(error, error_bytes, "tls is '%s' in the URL, write off, on or verify", word);
}

static bool read_password_file(struct place *place, char *error, size_t error_bytes)
{
    FILE *file = fopen(place->password_file, "re");
    if (!file || !fgets(place->password, sizeof place->password, file)) {
        if (file)
            fclose(file);
        return error_text(error, error_bytes, "cannot read the password file '%s'",
                          place->password_file);
    }
    fclose(file);
    place->password[strcspn(place->password, "\r\n")] = '\0';
    return true;
}

static bool place_parse(const char *text, struct place *out, char *error, size_t error_bytes)
{
    struct slice query, name, value;
    bool has_value;
    *out = (struct place){.tls = TLS_OFF};
    enum url_fault fault = url_parse(slice_of(text), &out->url);
    if (fault != URL_OK)
        return error_text(error, error_bytes, "the URL of the database is bad: %s",
                          url_fault_text(fault));
    struct slice path = out->url.path;
    if (path.len)
        path = slice_make(path.at + 1, path.len - 1);
    if (!decode(out->url.user, out->user) || !decode(out->url.password, out->password) ||
        !decode(path, out->database))
        return error_text(error, error_bytes, "a part of the URL of the database is too long");
    query = out->url.query;
    while (url_next_pair(&query, &name, &value, &has_value))
        if (!read_parameter(out, name, value, error, error_bytes))
            return false;
    if (out->url.host_count == 0 && !out->socket[0])
        return error_text(error, error_bytes,
                          "no host in the URL of the database, write mysql://HOST or add "
                          "?socket=PATH");
    return !out->password_file[0] || read_password_file(out, error, error_bytes);
}

void mysql_url_emit(const char *url, char *out, size_t out_bytes)
{
    struct url parsed;
    if (url_parse(slice_of(url), &parsed) != URL_OK) {
        (void)snprintf(out, out_bytes, "mysql://");
        return;
    }
    (void)snprintf(out, out_bytes, "mysql://%.*s%.*s", (int)parsed.authority.len,
                   parsed.authority.at, (int)parsed.path.len, parsed.path.at);
}

/* ---- connection ---- */

static MYSQL *dial(const struct place *place, size_t host, char *error, size_t error_bytes)
{
    MYSQL *mysql = libmariadb.mysql_init(NULL);
    const struct url_host *at = host < place->url.host_count ? &place->url.hosts[host] : NULL;
    char name[URL_HOST_BYTES_MAX + 1] = "localhost";
    unsigned connect_s = CONNECT_S, answer_s = ANSWER_S, tcp = MYSQL_PROTOCOL_TCP;
    my_bool yes = 1, no = 0;
    if (!mysql) {
        error_write(error, error_bytes, "out of memory");
        return NULL;
    }
    if (at)
        (void)snprintf(name, sizeof name, "%.*s", (int)at->name.len, at->name.at);
    if (at && !place->socket[0]) /* the library would use a socket for localhost */
        libmariadb.mysql_options(mysql, MYSQL_OPT_PROTOCOL, &tcp);
    libmariadb.mysql_options(mysql, MYSQL_OPT_NONBLOCK, NULL);
    libmariadb.mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    libmariadb.mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &answer_s);
    libmariadb.mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &answer_s);
    libmariadb.mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    libmariadb.mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT,
                             place->tls == TLS_VERIFY ? &yes : &no);
    if (place->tls != TLS_OFF) {
        libmariadb.mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
        if (place->ca[0])
            libmariadb.mysql_options(mysql, MYSQL_OPT_SSL_CA, place->ca);
    }
    if (libmariadb.mysql_real_connect(
            mysql, place->socket[0] ? NULL : name, place->user,
            place->password[0] ? place->password : NULL,
            place->database[0] ? place->database : NULL, at && at->port ? at->port : PORT,
            place->socket[0] ? place->socket : NULL, CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS))
        return mysql;
    error_write(error, error_bytes, "cannot reach MariaDB or MySQL: %s",
                libmariadb.mysql_error(mysql));
    libmariadb.mysql_close(mysql);
    return NULL;
}

/* Runs a query that returns one row at most, as texts. Returns NULL on failure, with the reason in
 * `error`. The caller frees the result. */
static MYSQL_RES *ask(MYSQL *mysql, const char *text, MYSQL_ROW *row, char *error,
                      size_t error_bytes)
{
    MYSQL_RES *result = NULL;
    if (libmariadb.mysql_real_query(mysql, text, strlen(text)) == 0)
        result = libmariadb.mysql_store_result(mysql);
    *row = result ? libmariadb.mysql_fetch_row(result) : NULL;
    if (*row)
        return result;
    if (result)
        libmariadb.mysql_free_result(result);
    if (libmariadb.mysql_errno(mysql) == LOCKED)
        error_write(error, error_bytes,
                    "the last transaction of this server is still running, waiting for its end");
    else
        error_write(error, error_bytes, "cannot use MariaDB or MySQL: %s",
                    libmariadb.mysql_error(mysql));
    return NULL;
}

static void drain(MYSQL *mysql) /* reads the remaining results of a procedure */
{
    while (libmariadb.mysql_next_result(mysql) == 0) {
        MYSQL_RES *result = libmariadb.mysql_store_result(mysql);
        if (result)
            libmariadb.mysql_free_result(result);
    }
}

static bool is_writable(MYSQL *mysql, char *error, size_t error_bytes)
{
    MYSQL_ROW row;
    MYSQL_RES *result = ask(mysql, "SELECT @@global.read_only", &row, error, error_bytes);
    bool writable = result && strcmp(row[0], "0") == 0;
    if (result)
        libmariadb.mysql_free_result(result);
    return writable || error_text(error, error_bytes, "the database is read-only");
}

/* ---- versions ---- */

bool mysql_version_is_mariadb(const char *version)
{
    return strstr(version, "MariaDB") != NULL;
}

/* Checks the version. Both databases support SKIP LOCKED from these versions on. TiDB identifies
 * itself as MySQL 8, but only parses SKIP LOCKED. */
bool mysql_version_check(const char *version, char *error, size_t error_bytes)
{
    unsigned major = 0, minor = 0;
    bool is_maria = mysql_version_is_mariadb(version);
    if (strstr(version, "TiDB"))
        return error_text(error, error_bytes,
                          "the server is TiDB ('%s'), which cannot skip locked rows, use MariaDB "
                          "10.6 or MySQL 8.0 or above",
                          version);
    (void)sscanf(version, "%u.%u", &major, &minor);
    bool is_good = is_maria ? major > 10 || (major == 10 && minor >= 6) : major >= 8;
    return is_good || error_text(error, error_bytes,
                                 "the server has version '%s', which is too old, use MariaDB 10.6 "
                                 "or MySQL 8.0 or above",
                                 version);
}

/* Sets all options on which the meaning of tarry's SQL depends, for every connection. The
 * database's defaults or its init_connect may differ. */
static bool agree(MYSQL *mysql, char *error, size_t error_bytes)
{
    static const char *const texts[] = {
        "SET NAMES utf8mb4",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00', "
        "sql_safe_updates = 0, sql_select_limit = DEFAULT, sql_big_selects = 1, "
        "sql_auto_is_null = 0, completion_type = 'NO_CHAIN', foreign_key_checks = 1, "
        "unique_checks = 1, div_precision_increment = 4, group_concat_max_len = 1000000, "
        "lc_time_names = 'en_US', default_week_format = 0"
        "/*M!100600 , sql_if_exists = 0, check_constraint_checks = 1 */",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (libmariadb.mysql_real_query(mysql, texts[i], strlen(texts[i])) != 0)
            return error_text(error, error_bytes, "cannot set up the session: %s",
                              libmariadb.mysql_error(mysql));
    return true;
}

MYSQL *mysql_connect(const char *url, char *error, size_t error_bytes)
{
    struct place place;
    MYSQL *mysql = NULL;
    if (!libmariadb_load(error, error_bytes) || !place_parse(url, &place, error, error_bytes))
        return NULL;
    size_t hosts = place.url.host_count ? place.url.host_count : 1;
    for (size_t host = 0; host < hosts; host++) {
        mysql = dial(&place, host, error, error_bytes);
        if (mysql && (hosts == 1 || is_writable(mysql, error, error_bytes)))
            break;
        if (mysql)
            libmariadb.mysql_close(mysql);
        mysql = NULL;
    }
    explicit_bzero(&place, sizeof place);
    if (!mysql ||
        (mysql_version_check(libmariadb.mysql_get_server_info(mysql), error, error_bytes) &&
         agree(mysql, error, error_bytes)))
        return mysql;
    libmariadb.mysql_close(mysql);
    return NULL;
}

/* ---- greeting ---- */

/* Sets up the session. Lists of keys are short and exact, so the optimizer need not estimate them. */
static bool set_up(MYSQL *mysql, char *error, size_t error_bytes)
{
    static const char *const texts[] = {
        "USE tarry",
        "SET SESSION innodb_lock_wait_timeout = 1, eq_range_index_dive_limit = 1"
        "/*M!100600 , idle_transaction_timeout = 5, max_statement_time = 10, "
        "in_predicate_conversion_threshold = 0 */"
        /* MySQL has no timeout that applies to idle transactions only */
        "/*!80000 , wait_timeout = 10 */",
    };
    /* With this setting the binary log omits the body of a changed row. An account without the
     * permission continues with full images. */
    static const char images[] = "SET SESSION binlog_row_image = 'MINIMAL'";
    (void)libmariadb.mysql_real_query(mysql, images, sizeof images - 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (libmariadb.mysql_real_query(mysql, texts[i], strlen(texts[i])) != 0)
            return error_text(error, error_bytes, "cannot set up the session: %s",
                              libmariadb.mysql_error(mysql));
    return true;
}

static bool read_durability(MYSQL *mysql, struct sql_greeting *out)
{
    MYSQL_ROW row;
    MYSQL_RES *result = ask(
        mysql,
        "SELECT @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog, "
        "@@global.innodb_doublewrite, @@global.binlog_format",
        &row, out->error, sizeof out->error);
    if (!result)
        return false;
    bool has_log = strcmp(row[1], "0") != 0,
         is_written_twice = strcmp(row[3], "0") != 0 && strcmp(row[3], "OFF") != 0;
    (void)snprintf(out->sync, sizeof out->sync, "flush_log=%s sync_binlog=%s doublewrite=%s",
                   row[0], has_log ? row[2] : "none", is_written_twice ? "on" : "off");
    out->is_durable =
        strcmp(row[0], "1") == 0 && (!has_log || strcmp(row[2], "1") == 0) && is_written_twice;
    bool is_good = !has_log || strcmp(row[4], "STATEMENT") != 0 ||
                   error_text(out->error, sizeof out->error,
                              "binlog_format is STATEMENT, which does not work with READ "
                              "COMMITTED, set it to ROW or MIXED");
    libmariadb.mysql_free_result(result);
    return is_good;
}

/* Columns that server_hello returns. */
enum { HELLO_SERVER, HELLO_NOW, HELLO_NAME, HELLO_KEY, HELLO_MACHINE, HELLO_KNOWN, HELLO_ADJUST };

/* Adjusts the database's clock to this server's record of its progress. The record was taken before
 * the new clock was read, so the result is late rather than early, and no job is delivered
 * early. */
static bool keep_time(MYSQL *mysql, MYSQL_ROW hello, int64_t expected_ms, struct sql_greeting *out)
{
    bool is_first = hello[HELLO_KNOWN][0] == '\0'; /* first of all servers */
    int64_t moved_ms = expected_ms && !is_first ? expected_ms - out->now_ms : 0;
    struct buffer text;
    MYSQL_ROW row = NULL;
    MYSQL_RES *result = NULL;
    if (strcmp(hello[HELLO_MACHINE], hello[HELLO_KNOWN]) == 0)
        return true;
    buffer_init(&text, 4 * PART_BYTES);
    buffer_append_text(&text, "CALL tarry.server_keep_time(");
    mysql_quote(&text, slice_of(hello[HELLO_MACHINE]));
    buffer_append_byte(&text, ',');
    mysql_quote(&text, slice_of(hello[HELLO_KNOWN]));
    buffer_append_format(&text, ",%lld)",
                         (long long)(strtoll(hello[HELLO_ADJUST], NULL, 10) + moved_ms));
    buffer_append_byte(&text, '\0');
    if (text.failed)
        error_write(out->error, sizeof out->error, "out of memory");
    else
        result = ask(mysql, text.at, &row, out->error, sizeof out->error);
    buffer_fini(&text);
    if (!result)
        return false;
    out->now_ms = strtoll(row[0], NULL, 10);
    out->moved_ms = strcmp(row[1], "1") == 0 ? moved_ms : 0;
    libmariadb.mysql_free_result(result);
    drain(mysql);
    return true;
}

/* Skips delivery numbers if the database is not durable. A crash may have lost the last ones, and
 * they must not be reused. */
static bool leap(MYSQL *mysql, struct sql_greeting *out)
{
    static const char text[] = "CALL tarry.server_leap()";
    return out->is_durable || libmariadb.mysql_real_query(mysql, text, sizeof text - 1) == 0 ||
           error_text(out->error, sizeof out->error, "cannot use MariaDB or MySQL: %s",
                      libmariadb.mysql_error(mysql));
}

static bool introduce(MYSQL *mysql, const struct sql_wish *wish, struct sql_greeting *out)
{
    int64_t expected_ms = wish->knows_time ? (clock_inner_us() + wish->offset_us) / 1000 : 0;
    char text[80];
    MYSQL_ROW row;
    (void)snprintf(text, sizeof text, "CALL tarry.server_hello(%lld)", (long long)wish->server);
    MYSQL_RES *result = ask(mysql, text, &row, out->error, sizeof out->error);
    if (!result)
        return false;
    unsigned long *lengths = libmariadb.mysql_fetch_lengths(result);
    out->server = strtoll(row[HELLO_SERVER], NULL, 10);
    out->now_ms = strtoll(row[HELLO_NOW], NULL, 10);
    (void)snprintf(out->name, sizeof out->name, "%s", row[HELLO_NAME]);
    if (lengths[HELLO_KEY] == sizeof out->key)
        memcpy(&out->key, row[HELLO_KEY], sizeof out->key);
    drain(mysql);
    bool is_kept = leap(mysql, out) && keep_time(mysql, row, expected_ms, out);
    libmariadb.mysql_free_result(result);
    return is_kept;
}

/* Reads the ticket under a lock. If a thread of the database still runs this server's last
 * transaction, it holds the row. The call then fails, and is retried until that transaction has
 * ended. */
static bool read_ticket(MYSQL *mysql, struct sql_greeting *out)
{
    char text[100];
    MYSQL_ROW row;
    (void)snprintf(text, sizeof text,
                   "SELECT number FROM tarry.ticket WHERE server = %lld FOR UPDATE",
                   (long long)out->server);
    MYSQL_RES *result = ask(mysql, text, &row, out->error, sizeof out->error);
    if (!result)
        return false;
    out->ticket = strtoll(row[0], NULL, 10);
    libmariadb.mysql_free_result(result);
    return true;
}

/* Reads the largest packet that the database accepts. The database closes the connection over a larger one. */
static bool read_packet_max(MYSQL *mysql, size_t *packet_bytes_max, struct sql_greeting *out)
{
    MYSQL_ROW row;
    MYSQL_RES *result =
        ask(mysql, "SELECT @@max_allowed_packet", &row, out->error, sizeof out->error);
    if (!result)
        return false;
    *packet_bytes_max = (size_t)strtoull(row[0], NULL, 10);
    libmariadb.mysql_free_result(result);
    enum { PACKET_BYTES_MIN = 256 * 1024 };
    return *packet_bytes_max >= PACKET_BYTES_MIN ||
           error_text(out->error, sizeof out->error,
                      "max_allowed_packet is %zu, which is too small, set it to %d or above",
                      *packet_bytes_max, PACKET_BYTES_MIN);
}

bool mysql_greet(const struct sql_wish *wish, struct sql_greeting *out, MYSQL **mysql,
                 size_t *packet_bytes_max)
{
    *out = (struct sql_greeting){0};
    char *error = out->error;
    *mysql = mysql_connect(wish->url, error, sizeof out->error);
    if (!*mysql)
        return false;
    if (is_writable(*mysql, error, sizeof out->error) &&
        mysql_schema_check(*mysql, wish->migrate, error, sizeof out->error) &&
        set_up(*mysql, error, sizeof out->error) && read_durability(*mysql, out) &&
        read_packet_max(*mysql, packet_bytes_max, out) && introduce(*mysql, wish, out) &&
        read_ticket(*mysql, out))
        return true;
    libmariadb.mysql_close(*mysql);
    *mysql = NULL;
    return false;
}
