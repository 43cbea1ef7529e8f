/* The check of a queue in a database, on one snapshot, while servers are running. Blocking, for a
 * command. */
#include "base/buffer.h"
#include "base/error.h"
#include "base/json_write.h"
#include "base/vector.h"
#include "sql/dialect.h"
#include "sql/schema.h"
#include "sql/sql.h"

#include <errno.h>
#include <stdio.h>

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
        printf("%s: %llu jobs%s\n", findings->at[i].text, (unsigned long long)findings->at[i].jobs,
               findings->at[i].mended ? ", mended" : "");
    if (!json) {
        if (!findings->count)
            printf("no faults found\n");
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
