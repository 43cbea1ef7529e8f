#include "sql/schema.h"

#include "sql/dialect.h"
#include "sql/sql.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "base/vector.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DELIMITER_BYTES = 8, FINGERPRINT_BYTES = 17, SCHEMA_BYTES_MAX = 1 << 20 };

struct versions { /* Both 0: there is no schema. */
    int version, oldest_reader;
    bool is_of_this_build; /* the text of the schema is the same */
};

static void fingerprint_emit(const struct sql_questions *questions, char out[FINGERPRINT_BYTES])
{
    (void)snprintf(out, FINGERPRINT_BYTES, "%016" PRIx64,
                   hash_64(questions->schema, *questions->schema_bytes));
}

bool sql_schema_emit(const struct sql_questions *questions, struct buffer *out)
{
    char fingerprint[FINGERPRINT_BYTES];
    fingerprint_emit(questions, fingerprint);
    buffer_append(out, questions->schema, *questions->schema_bytes);
    buffer_append_format(out,
                         "UPDATE tarry.schema_version SET fingerprint = '%s' WHERE version = %d "
                         "AND fingerprint IS NULL;\n",
                         fingerprint, questions->schema_version);
    return !out->failed;
}

/* Reads the versions. Returns false if the database reports an error. */
static bool read_versions(struct sql_client *client, struct versions *out, char *error,
                          size_t error_bytes)
{
    enum { FINGERPRINT = 3 }; /* the column after the time; early builds did not have it */
    const char *exists = client->dialect->questions->schema_exists;
    struct sql_rows row = {0};
    *out = (struct versions){0};
    bool is_good = !exists || sql_ask_row(client, exists, NULL, &row);
    bool is_there = is_good && (!exists || !sql_rows_is_null(&row, 0, 0));
    sql_rows_fini(&row);
    if (is_there)
        is_good = sql_ask(
            client, "SELECT * FROM tarry.schema_version ORDER BY version DESC LIMIT 1", NULL, &row);
    if (row.count) {
        out->version = (int)sql_rows_number(&row, 0, 0);
        out->oldest_reader = (int)sql_rows_number(&row, 0, 1);
        char fingerprint[FINGERPRINT_BYTES];
        fingerprint_emit(client->dialect->questions, fingerprint);
        out->is_of_this_build =
            row.columns > FINGERPRINT && slice_is(sql_rows_text(&row, 0, FINGERPRINT), fingerprint);
    }
    sql_rows_fini(&row);
    return is_good || client->refusal == SQL_REFUSAL_ABSENT ||
           error_text(error, error_bytes, "the schema tarry cannot be read: %s", client->message);
}

/* ---- migration ---- */

static bool run(struct sql_client *client, struct slice text, char *error, size_t error_bytes)
{
    char *copy = strndup(text.at, text.len);
    bool is_done = copy && sql_ask(client, copy, NULL, NULL);
    if (!is_done)
        error_write(error, error_bytes, "cannot create the schema: %s",
                    copy ? client->message : "out of memory");
    free(copy);
    return is_done;
}

/* Takes the next statement from a text in the same way as the client programs of MariaDB: a
 * statement ends with the delimiter at the end of a line, and a line of its own may change the
 * delimiter. */
static bool next_statement(struct slice *text, char delimiter[DELIMITER_BYTES], struct slice *out)
{
    static const char word[] = "DELIMITER ";
    const char *end = text->at + text->len, *from = text->at;
    for (const char *line = from; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        const char *next = stop ? stop + 1 : end;
        size_t len = (size_t)((stop ? stop : end) - line), mark = strlen(delimiter);
        if (len > sizeof word - 1 && memcmp(line, word, sizeof word - 1) == 0 &&
            len - (sizeof word - 1) < DELIMITER_BYTES) {
            memcpy(delimiter, line + sizeof word - 1, len - (sizeof word - 1));
            delimiter[len - (sizeof word - 1)] = '\0';
            from = next;
        } else if (len >= mark && memcmp(line + len - mark, delimiter, mark) == 0) {
            *out = slice_make(from, (size_t)(line - from) + len - mark);
            *text = slice_make(next, (size_t)(end - next));
            return true;
        }
        line = next;
    }
    return false;
}

static bool migrate_from(struct sql_client *client, int version, char *error, size_t error_bytes)
{
    const struct sql_questions *questions = client->dialect->questions;
    char delimiter[DELIMITER_BYTES] = ";";
    struct slice text, statement;
    struct buffer whole;
    if (version >= questions->schema_version)
        return true;
    buffer_init(&whole, SCHEMA_BYTES_MAX);
    bool is_done = sql_schema_emit(questions, &whole) ||
                   error_text(error, error_bytes, "cannot create the schema: out of memory");
    text = buffer_slice(&whole);
    if (is_done && !questions->schema_has_delimiters)
        is_done = run(client, text, error, error_bytes);
    while (is_done && questions->schema_has_delimiters &&
           next_statement(&text, delimiter, &statement))
        is_done = run(client, statement, error, error_bytes);
    buffer_fini(&whole);
    return is_done;
}

static bool migrate_locked(struct sql_client *client, char *error, size_t error_bytes)
{
    const struct sql_questions *questions = client->dialect->questions;
    struct versions versions;
    bool is_done = run(client, slice_of(questions->schema_lock), error, error_bytes) &&
                   read_versions(client, &versions, error, error_bytes) &&
                   migrate_from(client, versions.version, error, error_bytes) &&
                   run(client, slice_of(questions->schema_unlock), error, error_bytes);
    if (!is_done)
        (void)sql_ask(client, questions->schema_undo, NULL, NULL);
    return is_done;
}

bool sql_schema_check(struct sql_client *client, bool migrate, char *error, size_t error_bytes)
{
    const int required = client->dialect->questions->schema_version;
    struct versions found;
    if (!read_versions(client, &found, error, error_bytes))
        return false;
    if (found.version < required && migrate &&
        (!migrate_locked(client, error, error_bytes) ||
         !read_versions(client, &found, error, error_bytes)))
        return false;
    if (found.version == 0)
        return error_text(error, error_bytes,
                          "the database has no schema 'tarry', run 'tarry sql migrate URL', or "
                          "start with --migrate");
    if (found.version < required)
        return error_text(error, error_bytes,
                          "the schema 'tarry' has version %d, this tarry requires %d, run 'tarry "
                          "sql migrate URL'",
                          found.version, required);
    if (found.version == required && !found.is_of_this_build)
        return error_text(error, error_bytes,
                          "the schema 'tarry' was created by another build of this version, use "
                          "that build, or export the jobs, drop the schema and run 'tarry sql "
                          "migrate URL'");
    if (found.oldest_reader > required)
        return error_text(error, error_bytes,
                          "the schema 'tarry' has version %d, which this tarry is too old for",
                          found.version);
    return true;
}

/* ---- the check of a queue ---- */

struct finding {
    char text[400];
    uint64_t jobs;
    bool mended;
};
VECTOR_DECLARE(findings, struct finding)

/* ---- the checks ---- */

static bool check_failed(const struct sql_client *client, char *error, size_t error_bytes)
{
    return error_text(error, error_bytes, "the database cannot be checked: %s", client->message);
}

/* Notes a problem, and repairs it if `mend` is set and a repair is known. The repair is either part
 * of the check, or a text in the row. */
static bool note_finding(struct sql_client *client, const struct sql_rows *rows, size_t row,
                         bool mend, struct findings *out, char *error, size_t error_bytes)
{
    enum { TEXT, JOBS, REPAIR };
    struct slice text = sql_rows_text(rows, row, TEXT), repair = sql_rows_text(rows, row, REPAIR);
    struct finding finding = {.jobs = (uint64_t)sql_rows_number(rows, row, JOBS),
                              .mended = mend && repair.at};
    (void)snprintf(finding.text, sizeof finding.text, "%.*s", (int)text.len,
                   text.at ? text.at : "");
    if (finding.mended && repair.len && !sql_ask(client, repair.at, NULL, NULL))
        return check_failed(client, error, error_bytes);
    return findings_add(out, finding) || error_text(error, error_bytes, "out of memory");
}

static bool check_one(struct sql_client *client, const char *check, bool mend, struct findings *out,
                      char *error, size_t error_bytes)
{
    const struct sql_args args = {1, {sql_arg_text(mend ? "true" : "false")}};
    struct sql_rows rows;
    if (!sql_ask(client, check, &args, &rows))
        return check_failed(client, error, error_bytes);
    bool is_good = true;
    for (size_t i = 0; i < rows.count && is_good; i++)
        is_good = note_finding(client, &rows, i, mend, out, error, error_bytes);
    sql_rows_fini(&rows);
    return is_good;
}

/* Runs all checks in one transaction. If one fails, the end of the connection rolls it back. */
static bool check_all(struct sql_client *client, bool mend, struct findings *out, char *error,
                      size_t error_bytes)
{
    const struct sql_questions *questions = client->dialect->questions;
    const char *const *checks = questions->fsck_checks;
    bool is_good = sql_ask(client, questions->fsck_begin, NULL, NULL) ||
                   check_failed(client, error, error_bytes);
    for (size_t i = 0; is_good && checks[i]; i++)
        is_good = check_one(client, checks[i], mend, out, error, error_bytes);
    return is_good &&
           (sql_ask(client, "COMMIT", NULL, NULL) || check_failed(client, error, error_bytes));
}

static void print_findings(const struct findings *findings, bool json)
{
    for (size_t i = 0; i < findings->count && !json; i++)
        printf("%s: %llu job%s%s\n", findings->at[i].text, (unsigned long long)findings->at[i].jobs,
               findings->at[i].jobs == 1 ? "" : "s", findings->at[i].mended ? ", repaired" : "");
    if (!json) {
        if (!findings->count)
            printf("clean\n");
        return;
    }
    struct buffer text;
    buffer_init(&text, 1 << 20);
    buffer_append_text(&text, "{\"findings\":[");
    for (size_t i = 0; i < findings->count; i++) {
        buffer_append_text(&text, i ? ",{\"text\":" : "{\"text\":");
        json_write_string(&text, slice_of(findings->at[i].text));
        buffer_append_format(&text, ",\"jobs\":%llu,\"mended\":%s}",
                             (unsigned long long)findings->at[i].jobs,
                             findings->at[i].mended ? "true" : "false");
    }
    buffer_append_text(&text, "]}");
    printf("%.*s\n", (int)text.len, text.at);
    buffer_fini(&text);
}

int sql_fsck(const char *url, bool mend, bool json, char *error, size_t error_bytes)
{
    const struct sql_dialect *dialect = sql_dialect_of(url);
    struct findings findings = {0};
    struct sql_client client;
    int left = 0;
    if (!dialect) {
        error_write(error, error_bytes, "this kind of database has no check");
        return -EINVAL;
    }
    if (sql_client_open(&client, dialect, url, error, error_bytes) &&
        sql_schema_check(&client, false, error, error_bytes) &&
        check_all(&client, mend, &findings, error, error_bytes)) {
        print_findings(&findings, json);
        for (size_t i = 0; i < findings.count; i++)
            left += !findings.at[i].mended;
    } else {
        left = -EPROTO;
    }
    sql_client_close(&client);
    findings_fini(&findings);
    return left;
}

/* ---- greeting ---- */

/* Asks for one row. Returns false with the reason in the greeting's error. */
static bool ask(struct sql_client *client, struct sql_greeting *out, const char *text,
                const struct sql_args *args, struct sql_rows *row)
{
    if (sql_ask_row(client, text, args, row))
        return true;
    if (client->refusal == SQL_REFUSAL_LOCKED)
        return error_text(out->error, sizeof out->error,
                          "the last transaction of this server is still running, waiting for its "
                          "end");
    return error_text(out->error, sizeof out->error, "cannot use %s: %s", client->dialect->product,
                      client->message);
}

/* Columns of the first answer. A machine that cannot be known is empty or 0. */
enum { SERVER, NOW, NAME, KEY, MACHINE, KNOWN, ADJUST };

static bool is_unknown(struct slice machine)
{
    return machine.len == 0 || slice_is(machine, "0");
}

/* Notes the database's time, which was requested at times.sent_us. */
static void note_times(struct sql_greeting *out, int64_t now_ms, int64_t adjust_ms)
{
    out->times.came_us = clock_inner_us();
    out->times.first_ms = out->times.last_ms = now_ms;
    out->times.adjust_ms = adjust_ms;
}

/* Adjusts the database's clock to this server's record of its progress. The record was taken before
 * the new clock was read, so the result is late rather than early, and no job is delivered early. */
static bool keep_time(struct sql_client *client, const struct sql_rows *hello, int64_t expected_ms,
                      struct sql_greeting *out)
{
    struct slice machine = sql_rows_text(hello, 0, MACHINE), known = sql_rows_text(hello, 0, KNOWN);
    struct sql_rows row;
    /* no clock to keep if this is the first of all servers */
    int64_t moved_ms = expected_ms && !is_unknown(known) ? expected_ms - out->times.last_ms : 0;
    if (slice_equals(machine, known) || is_unknown(machine))
        return true;
    const struct sql_args args = {3,
                                  {sql_arg_text(machine.at), sql_arg_text(known.at),
                                   sql_arg_number(sql_rows_number(hello, 0, ADJUST) + moved_ms)}};
    out->times.sent_us = clock_inner_us();
    if (!ask(client, out, client->dialect->questions->keep_time, &args, &row))
        return false;
    note_times(out, sql_rows_number(&row, 0, 0), sql_rows_number(&row, 0, 2));
    out->moved_ms = sql_rows_number(&row, 0, 1) ? moved_ms : 0;
    sql_rows_fini(&row);
    return true;
}

/* Skips delivery numbers if the database is not durable. A crash may have lost the last ones, and
 * they must not be reused. */
static bool leap(struct sql_client *client, struct sql_greeting *out)
{
    const char *text = client->dialect->questions->leap;
    return !text || out->is_durable || sql_ask(client, text, NULL, NULL) ||
           error_text(out->error, sizeof out->error, "cannot use %s: %s", client->dialect->product,
                      client->message);
}

static bool introduce(struct sql_client *client, const struct sql_wish *wish,
                      struct sql_greeting *out)
{
    const struct sql_args args = {1, {sql_arg_number(wish->server)}};
    int64_t expected_ms = wish->knows_time ? (clock_inner_us() + wish->offset_us) / 1000 : 0;
    struct sql_rows row;
    out->times.sent_us = clock_inner_us();
    if (!ask(client, out, client->dialect->questions->hello, &args, &row))
        return false;
    struct slice key = sql_rows_text(&row, 0, KEY), name = sql_rows_text(&row, 0, NAME);
    out->server = sql_rows_number(&row, 0, SERVER);
    note_times(out, sql_rows_number(&row, 0, NOW), sql_rows_number(&row, 0, ADJUST));
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)name.len, name.at ? name.at : "");
    if (key.len == sizeof out->key)
        memcpy(&out->key, key.at, sizeof out->key);
    bool is_kept = leap(client, out) && keep_time(client, &row, expected_ms, out);
    sql_rows_fini(&row);
    return is_kept;
}

/* Reads the ticket under a lock. If the database still runs this server's last transaction, that
 * transaction holds the row. The call then fails, and is retried until the transaction has ended. */
static bool read_ticket(struct sql_client *client, struct sql_greeting *out)
{
    enum { NUMBER, AT, CONNECTION };
    const struct sql_args args = {1, {sql_arg_number(out->server)}};
    struct sql_rows row;
    if (!ask(client, out, client->dialect->questions->ticket, &args, &row))
        return false;
    out->ticket = sql_rows_number(&row, 0, NUMBER);
    out->ticket_ms = sql_rows_number(&row, 0, AT);
    out->connection = sql_rows_number(&row, 0, CONNECTION);
    sql_rows_fini(&row);
    return true;
}

bool sql_greet(const struct sql_dialect *dialect, const struct sql_wish *wish,
               struct sql_greeting *out)
{
    struct sql_client client;
    *out = (struct sql_greeting){0};
    if (!sql_client_open(&client, dialect, wish->url, out->error, sizeof out->error))
        return false;
    bool is_ready = dialect->is_usable(&client, out->error, sizeof out->error) &&
                    sql_schema_check(&client, wish->migrate, out->error, sizeof out->error) &&
                    dialect->set_up(&client, out) && introduce(&client, wish, out) &&
                    read_ticket(&client, out) && dialect->open(&client, wish->url, out);
    sql_client_close(&client); /* unless the link has taken its connection */
    return is_ready;
}
