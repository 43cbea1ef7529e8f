#include "sql/mysql/fsck.h"

#include "base/error.h"
#include "sql/mysql/greeting.h"
#include "sql/mysql/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Queries that each find one kind of damage. Columns: the problem, the number of affected jobs, and
 * the statements that repair it, or NULL. A difference of counts remains correct after the
 * snapshot, since later transactions change jobs and counts alike. */
static const char *const checks[] = {
    "SELECT CONCAT('topic ', QUOTE(t.name), ': its counts of waiting, retrying, leased and dead "
    "jobs and of dead bytes differ by (', CONCAT_WS(', ', d.fresh, d.retry, d.leased, d.dead, "
    "d.dead_bytes), ')'), ABS(d.fresh) + ABS(d.retry) + ABS(d.leased) + ABS(d.dead), "
    "CONCAT('INSERT INTO tarry.tally_add (topic, fresh, retry, leased, dead, dead_bytes) VALUES "
    "(', CONCAT_WS(', ', t.topic, d.fresh, d.retry, d.leased, d.dead, d.dead_bytes), ')') "
    "FROM tarry.topic t JOIN (SELECT x.topic, SUM(x.fresh) fresh, SUM(x.retry) retry, "
    "SUM(x.leased) leased, SUM(x.dead) dead, SUM(x.dead_bytes) dead_bytes FROM ("
    "SELECT topic, SUM(state = 1 AND attempt = 0) fresh, SUM(state = 1 AND attempt > 0) retry, "
    "SUM(state = 3) leased, SUM(state = 4) dead, SUM(IF(state = 4, body_bytes + "
    "COALESCE(LENGTH(meta), 0) + LENGTH(id) + 64, 0)) dead_bytes FROM tarry.job GROUP BY topic "
    "UNION ALL SELECT topic, -SUM(fresh), -SUM(retry), -SUM(leased), -SUM(dead), -SUM(dead_bytes) "
    "FROM tarry.tally GROUP BY topic "
    "UNION ALL SELECT topic, -SUM(fresh), -SUM(retry), -SUM(leased), -SUM(dead), -SUM(dead_bytes) "
    "FROM tarry.tally_add GROUP BY topic) x GROUP BY x.topic) d ON d.topic = t.topic "
    "WHERE t.name IS NOT NULL AND (d.fresh <> 0 OR d.retry <> 0 OR d.leased <> 0 OR d.dead <> 0 OR "
    "d.dead_bytes <> 0) ORDER BY t.name",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': its priority ', j.lane, ' is not listed, so its "
    "jobs are never taken'), COUNT(*), CONCAT('INSERT IGNORE INTO tarry.lane VALUES (', t.topic, "
    "', ', j.lane, '); INSERT INTO tarry.news (at, server, what, name, due) VALUES "
    "(tarry.now_ms(), 0, ''r'', ', QUOTE(t.name), ', 0)') "
    "FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT NULL "
    "WHERE j.lane <> 70000 AND NOT EXISTS (SELECT 1 FROM tarry.lane l WHERE l.topic = j.topic AND "
    "l.lane = j.lane) GROUP BY t.topic, t.name, j.lane ORDER BY t.name, j.lane",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': the state of jobs does not match their partition'), "
    "COUNT(*), NULL FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT "
    "NULL WHERE j.state NOT IN (1, 3, 4) OR (j.state = 4) <> (j.lane = 70000) OR (j.state <> 4 AND "
    "j.lane <> j.priority) OR (j.state = 3 AND (j.delivery = 0 OR j.lease_until = 0)) "
    "GROUP BY t.name ORDER BY t.name",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': rows break the rules of a push, so their jobs are "
    "not delivered: correct or delete them'), COUNT(*), NULL FROM tarry.job j JOIN tarry.topic t "
    "ON "
    "t.topic = j.topic AND t.name IS NOT NULL WHERE j.id RLIKE '[^!-~]' OR j.body_bytes > 16777216 "
    "OR HEX(j.content_type) RLIKE '^(..)*([01].|7F|[89A-F].)' OR LENGTH(j.meta) > 4096 OR "
    "LENGTH(j.error) > 256 OR "
    "j.priority NOT BETWEEN 0 AND 65535 OR j.due NOT BETWEEN 0 AND 253402300799999 OR j.first_due "
    "NOT BETWEEN 0 AND 253402300799999 GROUP BY t.name ORDER BY t.name",

    "SELECT 'jobs of topics that do not exist', COUNT(*), NULL FROM tarry.job j WHERE NOT EXISTS "
    "(SELECT 1 FROM tarry.topic t WHERE t.topic = j.topic) HAVING COUNT(*) > 0",

    "SELECT 'leases ended more than a minute ago: no server is running, or all of them are too "
    "slow', COUNT(*), NULL FROM tarry.job WHERE state = 3 AND lease_until < "
    "(SELECT tarry.now_ms() - 60000) HAVING COUNT(*) > 0",

    "SELECT 'the row of the tokens is missing: a new one is empty', 0, 'INSERT INTO "
    "tarry.tokens (version, text) VALUES (MD5(CONCAT(UUID(), RAND())), '''')' "
    "FROM tarry.store WHERE NOT EXISTS (SELECT 1 FROM tarry.tokens)",
};

static bool run(MYSQL *mysql, const char *text, size_t len, char *error, size_t error_bytes)
{
    bool is_done = libmariadb.mysql_real_query(mysql, text, len) == 0;
    while (is_done && libmariadb.mysql_more_results(mysql))
        is_done = libmariadb.mysql_next_result(mysql) == 0;
    return is_done || error_text(error, error_bytes, "the database cannot be checked: %s",
                                 libmariadb.mysql_error(mysql));
}

static bool run_text(MYSQL *mysql, const char *text, char *error, size_t error_bytes)
{
    return run(mysql, text, strlen(text), error, error_bytes);
}

/* Returns all rows of one check. Returns NULL on failure, with the reason in `error`. */
static MYSQL_RES *ask(MYSQL *mysql, const char *check, char *error, size_t error_bytes)
{
    MYSQL_RES *rows = NULL;
    if (libmariadb.mysql_real_query(mysql, check, strlen(check)) == 0)
        rows = libmariadb.mysql_store_result(mysql);
    if (!rows)
        error_write(error, error_bytes, "the database cannot be checked: %s",
                    libmariadb.mysql_error(mysql));
    return rows;
}

static bool check_one(MYSQL *mysql, const char *check, bool mend, struct sql_findings *out,
                      char *error, size_t error_bytes)
{
    enum { TEXT, JOBS, MENDING };
    MYSQL_RES *rows = ask(mysql, check, error, error_bytes);
    MYSQL_ROW row;
    bool is_good = rows != NULL;
    while (is_good && (row = libmariadb.mysql_fetch_row(rows))) {
        struct sql_finding finding = {.jobs = strtoull(row[JOBS], NULL, 10),
                                      .mended = mend && row[MENDING]};
        (void)snprintf(finding.text, sizeof finding.text, "%s", row[TEXT]);
        if (finding.mended)
            is_good = run_text(mysql, row[MENDING], error, error_bytes);
        if (is_good && !sql_findings_add(out, finding))
            is_good = error_text(error, error_bytes, "out of memory");
    }
    if (rows)
        libmariadb.mysql_free_result(rows);
    return is_good;
}

static bool check_all(MYSQL *mysql, bool mend, struct sql_findings *out, char *error,
                      size_t error_bytes)
{
    bool is_good =
        run_text(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", error,
                 error_bytes) &&
        run_text(mysql, "START TRANSACTION WITH CONSISTENT SNAPSHOT", error, error_bytes);
    for (size_t i = 0; is_good && i < sizeof checks / sizeof checks[0]; i++)
        is_good = check_one(mysql, checks[i], mend, out, error, error_bytes);
    return is_good && run_text(mysql, "COMMIT", error, error_bytes);
}

bool mysql_fsck(const char *url, bool mend, struct sql_findings *out, char *error,
                size_t error_bytes)
{
    MYSQL *mysql = mysql_connect(url, error, error_bytes);
    bool is_done = mysql && mysql_schema_check(mysql, false, error, error_bytes) &&
                   check_all(mysql, mend, out, error, error_bytes);
    if (mysql)
        libmariadb.mysql_close(mysql); /* uncommitted repairs are rolled back */
    return is_done;
}
