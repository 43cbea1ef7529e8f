#include "sql/mysql/client.h"

#include "base/error.h"
#include "base/text.h"
#include "base/url.h"
#include "sql/mysql/wire.h"

#include <stdio.h>
#include <string.h>

enum {
    PART_BYTES = 1024,
    PORT = 3306,
    CONNECT_S = 5,
    ANSWER_S = 30,
    QUESTION_BYTES_MAX = 64 << 20
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

void mysql_place(const char *url, char *out, size_t out_bytes)
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
    error_write(error, error_bytes,
                "cannot reach MariaDB or MySQL: %s; check that it runs, and the URL",
                libmariadb.mysql_error(mysql));
    libmariadb.mysql_close(mysql);
    return NULL;
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
    bool is_mariadb = mysql_version_is_mariadb(version);
    if (strstr(version, "TiDB"))
        return error_text(error, error_bytes,
                          "the server is TiDB ('%s'), which cannot skip locked rows, use MariaDB "
                          "10.6 or MySQL 8.0 or above",
                          version);
    (void)sscanf(version, "%u.%u", &major, &minor);
    bool is_good = is_mariadb ? major > 10 || (major == 10 && minor >= 6) : major >= 8;
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
        "lc_time_names = 'en_US', default_week_format = 0, timestamp = DEFAULT, "
        "lock_wait_timeout = 86400, wait_timeout = 28800, max_error_count = 64, "
        "optimizer_switch = 'derived_merge=on'" /* else no row is deleted through a view in MySQL */
        "/*M!100600 , sql_if_exists = 0, check_constraint_checks = 1, max_statement_time = 0, "
        "idle_transaction_timeout = 0, idle_write_transaction_timeout = 0, "
        "idle_readonly_transaction_timeout = 0 */"
        "/*!80000 , max_execution_time = 0 */",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (libmariadb.mysql_real_query(mysql, texts[i], strlen(texts[i])) != 0)
            return error_text(error, error_bytes, "cannot set up the session: %s",
                              libmariadb.mysql_error(mysql));
    return true;
}

/* Returns true if a server can be written. Otherwise false with the reason in `error`. */
static bool is_writable(MYSQL *mysql, char *error, size_t error_bytes)
{
    static const char text[] = "SELECT @@global.read_only";
    MYSQL_RES *result = NULL;
    if (libmariadb.mysql_real_query(mysql, text, sizeof text - 1) == 0)
        result = libmariadb.mysql_store_result(mysql);
    MYSQL_ROW row = result ? libmariadb.mysql_fetch_row(result) : NULL;
    bool writable = row && strcmp(row[0], "0") == 0;
    if (result)
        libmariadb.mysql_free_result(result);
    return writable || error_text(error, error_bytes, "the database is read-only");
}

static void *on_connect(const char *url, char *error, size_t error_bytes)
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

static void on_disconnect(void *connection)
{
    libmariadb.mysql_close(connection);
}

/* Returns true if transactions of the session may write. The variable has two names. */
static bool has_writing_transactions(struct sql_client *client, char *error, size_t error_bytes)
{
    struct sql_rows found;
    if (!sql_ask(client,
                 "SHOW SESSION VARIABLES WHERE variable_name IN ('tx_read_only', "
                 "'transaction_read_only') AND value = 'ON'",
                 NULL, &found))
        return error_text(error, error_bytes, "cannot use %s: %s", client->dialect->product,
                          client->message);
    bool is_writing = found.count == 0;
    sql_rows_fini(&found);
    return is_writing || error_text(error, error_bytes,
                                    "transactions of new sessions are read-only (tx_read_only or "
                                    "transaction_read_only), change the setting or init_connect");
}

bool mysql_is_usable(struct sql_client *client, char *error, size_t error_bytes)
{
    return is_writable(client->connection, error, error_bytes) &&
           has_writing_transactions(client, error, error_bytes);
}

/* ---- questions ---- */

static const struct {
    unsigned number;
    enum sql_refusal refusal;
} refusals[] = {
    {1205, SQL_REFUSAL_LOCKED}, /* lock wait timeout */
    {1049, SQL_REFUSAL_ABSENT}, /* no such database */
    {1146, SQL_REFUSAL_ABSENT}, /* no such table */
    {1142, SQL_REFUSAL_DENIED}, /* table */
    {1143, SQL_REFUSAL_DENIED}, /* column */
};

static bool refuse(struct sql_client *client)
{
    enum { FUNCTION_NOT_TRUSTED = 1419 }; /* creation of functions with a binary log */
    unsigned number = libmariadb.mysql_errno(client->connection);
    const bool is_of_the_client = number >= 2000 && number < 3000; /* connection errors */
    enum sql_refusal refusal = is_of_the_client ? SQL_REFUSAL_LOST : SQL_REFUSAL_OTHER;
    char message[SQL_REFUSAL_BYTES];
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (refusals[i].number == number)
            refusal = refusals[i].refusal;
    error_write(message, sizeof message, "%s%s", libmariadb.mysql_error(client->connection),
                number == FUNCTION_NOT_TRUSTED
                    ? "; set log_bin_trust_function_creators to 1 while the schema is created, or "
                      "create it with an account that has SUPER"
                    : "");
    return sql_client_refuse(client, refusal, message);
}

static void append_arg(struct buffer *out, const struct sql_arg *arg)
{
    if (arg->kind == SQL_ARG_NUMBER) {
        buffer_append_i64(out, arg->number);
        return;
    }
    if (arg->kind == SQL_ARG_BYTES)
        buffer_append_text(out, "_binary");
    mysql_quote(out, arg->text);
}

/* Puts the arguments into the text. */
static void append_question(struct buffer *out, const char *text, const struct sql_args *args)
{
    for (const char *at = text; *at; at++) {
        size_t index = *at == '$' ? (size_t)(at[1] - '1') : SQL_ARGS_MAX;
        if (args && index < args->count) {
            append_arg(out, &args->at[index]);
            at++;
        } else {
            buffer_append_byte(out, *at);
        }
    }
}

static bool copy_rows(MYSQL_RES *result, struct sql_rows *rows)
{
    size_t count = (size_t)libmariadb.mysql_num_rows(result), bytes = 0;
    unsigned columns = libmariadb.mysql_num_fields(result);
    MYSQL_ROW row;
    while ((row = libmariadb.mysql_fetch_row(result)))
        for (unsigned i = 0; i < columns; i++)
            bytes += libmariadb.mysql_fetch_lengths(result)[i];
    if (!sql_rows_init(rows, count, columns, bytes))
        return false;
    libmariadb.mysql_data_seek(result, 0);
    while ((row = libmariadb.mysql_fetch_row(result))) {
        const unsigned long *lengths = libmariadb.mysql_fetch_lengths(result);
        for (unsigned i = 0; i < columns; i++) {
            if (row[i])
                memcpy(sql_rows_add(rows, lengths[i]), row[i], lengths[i]);
            else
                sql_rows_add_null(rows);
        }
    }
    return true;
}

/* Reads the result of a statement. A procedure has a result with rows and one without. */
static bool read_result(struct sql_client *client, struct sql_rows *rows)
{
    MYSQL *mysql = client->connection;
    MYSQL_RES *result = libmariadb.mysql_store_result(mysql);
    if (!result) {
        rows->changed = libmariadb.mysql_affected_rows(mysql);
        return libmariadb.mysql_errno(mysql) == 0 || refuse(client);
    }
    sql_rows_fini(rows);
    bool is_good =
        copy_rows(result, rows) || sql_client_refuse(client, SQL_REFUSAL_OTHER, "out of memory");
    libmariadb.mysql_free_result(result);
    return is_good;
}

static bool on_ask(struct sql_client *client, const char *text, const struct sql_args *args,
                   struct sql_rows *rows)
{
    MYSQL *mysql = client->connection;
    struct buffer question;
    buffer_init(&question, QUESTION_BYTES_MAX);
    append_question(&question, text, args);
    bool is_good =
        !question.failed || sql_client_refuse(client, SQL_REFUSAL_OTHER, "out of memory");
    bool has_more = is_good;
    if (is_good && libmariadb.mysql_real_query(mysql, question.at, question.len) != 0)
        is_good = has_more = refuse(client);
    buffer_fini(&question);
    while (has_more) {
        is_good = read_result(client, rows) && is_good;
        int next = libmariadb.mysql_next_result(mysql);
        has_more = next == 0;
        if (next > 0)
            is_good = refuse(client);
    }
    return is_good;
}

const struct sql_client_ops mysql_client = {
    .connect = on_connect, .disconnect = on_disconnect, .ask = on_ask};

/* ---- setup of a session ---- */

static bool set_up_failed(const struct sql_client *client, struct sql_greeting *out)
{
    return error_text(out->error, sizeof out->error, "cannot set up the session: %s",
                      client->message);
}

/* Sets up the session. Lists of keys are short and exact, so the optimizer need not estimate them. */
static bool set_session(struct sql_client *client, struct sql_greeting *out)
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
    (void)sql_ask(client, "SET SESSION binlog_row_image = 'MINIMAL'", NULL, NULL);
    /* Without the text of each statement, on MariaDB. */
    (void)sql_ask(client, "SET SESSION binlog_annotate_row_events = 0", NULL, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!sql_ask(client, texts[i], NULL, NULL))
            return set_up_failed(client, out);
    return true;
}

static bool read_durability(struct sql_client *client, struct sql_greeting *out)
{
    enum { FLUSH_LOG, HAS_LOG, SYNC_LOG, DOUBLEWRITE, FORMAT };
    struct sql_rows row;
    if (!sql_ask_row(client,
                     "SELECT @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, "
                     "@@global.sync_binlog, @@global.innodb_doublewrite, @@global.binlog_format",
                     NULL, &row))
        return set_up_failed(client, out);
    const char *flush_log = sql_rows_text(&row, 0, FLUSH_LOG).at;
    const char *sync_log = sql_rows_text(&row, 0, SYNC_LOG).at;
    bool has_log = !slice_is(sql_rows_text(&row, 0, HAS_LOG), "0");
    struct slice doublewrite = sql_rows_text(&row, 0, DOUBLEWRITE);
    bool is_written_twice = !slice_is(doublewrite, "0") && !slice_is(doublewrite, "OFF");
    (void)snprintf(out->sync, sizeof out->sync, "flush_log=%s sync_binlog=%s doublewrite=%s",
                   flush_log, has_log ? sync_log : "none", is_written_twice ? "on" : "off");
    out->is_durable =
        strcmp(flush_log, "1") == 0 && (!has_log || strcmp(sync_log, "1") == 0) && is_written_twice;
    bool is_good = !has_log || !slice_is(sql_rows_text(&row, 0, FORMAT), "STATEMENT") ||
                   error_text(out->error, sizeof out->error,
                              "binlog_format is STATEMENT, which does not work with READ "
                              "COMMITTED, set it to ROW or MIXED");
    sql_rows_fini(&row);
    return is_good;
}

/* Reads the largest packet that the database accepts. The database closes the connection over a
 * larger one. */
static bool read_packet_max(struct sql_client *client, struct sql_greeting *out)
{
    enum { PACKET_BYTES_MIN = 256 * 1024 };
    struct sql_rows row;
    if (!sql_ask_row(client, "SELECT @@max_allowed_packet", NULL, &row))
        return set_up_failed(client, out);
    out->packet_bytes_max = (size_t)sql_rows_number(&row, 0, 0);
    sql_rows_fini(&row);
    return out->packet_bytes_max >= PACKET_BYTES_MIN ||
           error_text(out->error, sizeof out->error,
                      "max_allowed_packet is %zu, which is too small, set it to %d or above",
                      out->packet_bytes_max, PACKET_BYTES_MIN);
}

bool mysql_set_up(struct sql_client *client, struct sql_greeting *out)
{
    return set_session(client, out) && read_durability(client, out) && read_packet_max(client, out);
}
