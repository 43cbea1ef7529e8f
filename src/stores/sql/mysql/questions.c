/* The statements of blocking questions to MariaDB and MySQL. */
#include "sql/mysql/mysql.h"
#include "sql/mysql/schema_texts.h"

#include <stdlib.h>

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

    "SELECT CONCAT('topic ', QUOTE(t.name), ': its counts of kept finished jobs and of their bytes "
    "differ by ', d.kept, ' and ', d.bytes), ABS(d.kept), CONCAT('INSERT INTO tarry.tally_add "
    "(topic, kept, kept_bytes) VALUES (', CONCAT_WS(', ', t.topic, d.kept, d.bytes), ')') "
    "FROM tarry.topic t JOIN (SELECT x.topic, SUM(x.kept) kept, SUM(x.bytes) bytes FROM ("
    "SELECT topic, COUNT(*) kept, SUM(bytes) bytes FROM tarry.kept GROUP BY topic "
    "UNION ALL SELECT topic, -SUM(kept), -SUM(kept_bytes) FROM tarry.tally GROUP BY topic "
    "UNION ALL SELECT topic, -SUM(kept), -SUM(kept_bytes) FROM tarry.tally_add GROUP BY topic) x "
    "GROUP BY x.topic) d ON d.topic = t.topic WHERE t.name IS NOT NULL AND (d.kept <> 0 OR "
    "d.bytes <> 0) ORDER BY t.name",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': ids of finished jobs that are kept have a job "
    "again'), COUNT(*), NULL FROM tarry.kept k JOIN tarry.job_key j ON j.topic = k.topic AND j.id "
    "= "
    "k.id JOIN tarry.topic t ON t.topic = k.topic AND t.name IS NOT NULL GROUP BY t.name ORDER BY "
    "t.name",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': its priority ', j.level, ' is not listed, so its "
    "jobs are never taken'), COUNT(*), CONCAT('INSERT IGNORE INTO tarry.level VALUES (', t.topic, "
    "', ', j.level, '); INSERT INTO tarry.notification (at, server, what, name, due) VALUES "
    "(tarry.now_ms(), 0, ''r'', ', QUOTE(t.name), ', 0)') "
    "FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT NULL "
    "WHERE j.level <> 70000 AND NOT EXISTS (SELECT 1 FROM tarry.level l WHERE l.topic = j.topic "
    "AND "
    "l.level = j.level) GROUP BY t.topic, t.name, j.level ORDER BY t.name, j.level",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': the state of jobs does not match their level'), "
    "COUNT(*), NULL FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT "
    "NULL WHERE j.state NOT IN (1, 3, 4) OR (j.state = 4) <> (j.level = 70000) OR (j.state <> 4 "
    "AND "
    "j.level <> j.priority) OR (j.state = 3 AND (j.delivery = 0 OR j.lease_until = 0)) "
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

    "SELECT 'ids that no job has, so no job can get them', COUNT(*), 'DELETE FROM tarry.job_key "
    "WHERE NOT EXISTS (SELECT 1 FROM tarry.job j WHERE j.topic = tarry.job_key.topic AND j.id = "
    "tarry.job_key.id)' "
    "FROM tarry.job_key k WHERE NOT EXISTS (SELECT 1 FROM tarry.job j WHERE j.topic = k.topic AND "
    "j.id = k.id) HAVING COUNT(*) > 0",

    "SELECT 'jobs whose id is not listed, so another job can get it', COUNT(*), 'INSERT IGNORE "
    "INTO tarry.job_key SELECT topic, id FROM tarry.job' FROM tarry.job j JOIN tarry.topic t ON "
    "t.topic = j.topic WHERE NOT EXISTS (SELECT 1 FROM tarry.job_key k WHERE k.topic = j.topic AND "
    "k.id = j.id) HAVING COUNT(*) > 0",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': the number of leases of ', IF(d.grp = 1, 'the "
    "topic', "
    "IF(d.grp = 2, 'jobs without a group', CONCAT('group ', QUOTE(d.name)))), ' differs by ', "
    "d.diff), "
    "ABS(d.diff), CONCAT('INSERT INTO tarry.grp_note (topic, grp, freed) VALUES (', CONCAT_WS(', "
    "', "
    "d.topic, d.grp, -d.diff), ')') FROM (SELECT k.topic, k.grp, k.name, COALESCE(j.leases, 0) - "
    "k.in_flight + COALESCE(n.freed, 0) diff FROM tarry.grp k LEFT JOIN ("
    "SELECT topic, COALESCE(grp, 2) grp, COUNT(*) leases FROM tarry.job WHERE state = 3 AND slot & "
    "1 "
    "GROUP BY topic, COALESCE(grp, 2) "
    "UNION ALL SELECT topic, 1, COUNT(*) FROM tarry.job WHERE state = 3 AND slot & 2 GROUP BY "
    "topic) "
    "j ON j.topic = k.topic AND j.grp = k.grp LEFT JOIN (SELECT topic, grp, SUM(freed) freed FROM "
    "tarry.grp_note GROUP BY topic, grp) n ON n.topic = k.topic AND n.grp = k.grp) d "
    "JOIN tarry.topic t ON t.topic = d.topic AND t.name IS NOT NULL WHERE d.diff <> 0 ORDER BY "
    "t.name, d.name",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': jobs are not listed in their groups, so they are "
    "never "
    "taken'), COUNT(*), CONCAT('INSERT IGNORE INTO tarry.job_grp SELECT topic, COALESCE(grp, 2), "
    "level, due, seq FROM tarry.job WHERE state <> 4 AND topic = ', t.topic, '; UPDATE tarry.grp "
    "SET "
    "next_due = 0, open_at = 0 WHERE grp > 1 AND topic = ', t.topic) "
    "FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT NULL AND t.flow & "
    "1 "
    "WHERE j.state <> 4 AND NOT EXISTS (SELECT 1 FROM tarry.job_grp g WHERE g.topic = j.topic AND "
    "g.grp = COALESCE(j.grp, 2) AND g.level = j.level AND g.due = j.due AND g.seq = j.seq) GROUP "
    "BY "
    "t.topic, t.name ORDER BY t.name",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': jobs are not listed as tried, so the order of their "
    "groups is wrong'), COUNT(*), CONCAT('INSERT IGNORE INTO tarry.job_tried SELECT topic, "
    "COALESCE(grp, 2), level, due, seq FROM tarry.job WHERE attempt >= IF(state = 3, 2, 1) AND "
    "state <> 4 AND topic = ', t.topic) FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic "
    "AND t.name IS NOT NULL AND t.flow & 32 WHERE j.state <> 4 AND j.attempt >= IF(j.state = 3, 2, "
    "1) AND NOT EXISTS (SELECT 1 FROM tarry.job_tried x WHERE x.topic = j.topic AND x.grp = "
    "COALESCE(j.grp, 2) AND x.level = j.level AND x.due = j.due AND x.seq = j.seq) GROUP BY "
    "t.topic, t.name ORDER BY t.name",

    "SELECT 'entries of tried jobs without a job', COUNT(*), CONCAT('DELETE FROM tarry.job_tried "
    "WHERE NOT EXISTS (SELECT 1 FROM tarry.job j WHERE j.topic = tarry.job_tried.topic AND "
    "j.level = tarry.job_tried.level AND j.due = tarry.job_tried.due AND j.seq = "
    "tarry.job_tried.seq AND j.attempt >= IF(j.state = 3, 2, 1)); UPDATE tarry.grp SET next_due = "
    "0, open_at = 0 WHERE grp > 1') FROM tarry.job_tried x JOIN tarry.topic t ON t.topic = x.topic "
    "AND t.name IS NOT NULL WHERE NOT EXISTS (SELECT 1 FROM tarry.job j WHERE j.topic = x.topic "
    "AND j.level = x.level AND j.due = x.due AND j.seq = x.seq AND j.attempt >= IF(j.state = 3, 2, "
    "1)) HAVING COUNT(*) > 0",

    "SELECT 'entries of groups without a job', COUNT(*), 'DELETE FROM tarry.job_grp WHERE NOT "
    "EXISTS "
    "(SELECT 1 FROM tarry.job j WHERE j.topic = tarry.job_grp.topic AND j.level = "
    "tarry.job_grp.level "
    "AND j.due = tarry.job_grp.due AND j.seq = tarry.job_grp.seq)' FROM tarry.job_grp g JOIN "
    "tarry.topic t ON t.topic = g.topic AND t.name IS NOT NULL WHERE NOT EXISTS (SELECT 1 FROM "
    "tarry.job j WHERE j.topic = g.topic AND j.level = g.level AND j.due = g.due AND j.seq = "
    "g.seq) "
    "HAVING COUNT(*) > 0",

    "SELECT 'jobs of groups that do not exist', COUNT(*), NULL FROM tarry.job j JOIN tarry.topic t "
    "ON "
    "t.topic = j.topic AND t.name IS NOT NULL WHERE j.grp IS NOT NULL AND NOT EXISTS (SELECT 1 "
    "FROM "
    "tarry.grp k WHERE k.topic = j.topic AND k.grp = j.grp) HAVING COUNT(*) > 0",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': the members of the batch of ', QUOTE(b.id), ' that "
    "have "
    "not ended and those that are dead differ by ', d.unfinished, ' and ', d.dead), "
    "ABS(d.unfinished) + ABS(d.dead), CONCAT('INSERT INTO tarry.batch_add (batch, unfinished, "
    "dead) VALUES (', CONCAT_WS(', ', b.batch, d.unfinished, d.dead), ')') FROM (SELECT x.batch, "
    "COALESCE(m.live, 0) - x.unfinished - COALESCE(a.unfinished, 0) unfinished, COALESCE(m.dead, "
    "0) - x.dead - COALESCE(a.dead, 0) dead FROM tarry.batch x LEFT JOIN (SELECT j.batch, "
    "SUM(j.state <> 4) live, SUM(j.state = 4) dead FROM tarry.job j JOIN tarry.topic k ON k.topic "
    "= j.topic AND k.name IS NOT NULL WHERE j.batch IS NOT NULL GROUP BY j.batch) m ON m.batch = "
    "x.batch LEFT JOIN (SELECT batch, SUM(unfinished) unfinished, SUM(dead) dead FROM "
    "tarry.batch_add GROUP BY batch) a ON a.batch = x.batch WHERE NOT x.ended) d JOIN tarry.batch "
    "b ON b.batch = d.batch JOIN tarry.topic t ON t.topic = b.topic AND t.name IS NOT NULL WHERE "
    "d.unfinished <> 0 OR d.dead <> 0 ORDER BY t.name, b.id",

    "SELECT CONCAT('topic ', QUOTE(t.name), ': the batch of ', QUOTE(b.id), ' has no waiting "
    "job'), 1, CONCAT('INSERT INTO tarry.batch_add (batch) VALUES (', b.batch, ')') FROM "
    "tarry.batch b JOIN tarry.topic t ON t.topic = b.topic AND t.name IS NOT NULL WHERE NOT EXISTS "
    "(SELECT 1 FROM tarry.job j WHERE j.topic = b.topic AND j.id = b.id AND j.own = b.batch) AND "
    "NOT EXISTS (SELECT 1 FROM tarry.batch_add a WHERE a.batch = b.batch) ORDER BY t.name, b.id",

    "SELECT 'members that are not listed in their batch', COUNT(*), 'INSERT IGNORE INTO "
    "tarry.member SELECT batch, topic, id, state = 4, 0 FROM tarry.job WHERE batch IS NOT NULL' "
    "FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT NULL WHERE j.batch "
    "IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tarry.member m WHERE m.batch = j.batch AND m.topic "
    "= j.topic AND m.id = j.id AND m.dead = (j.state = 4)) HAVING COUNT(*) > 0",

    "SELECT 'entries of members without a job', COUNT(*), 'DELETE FROM tarry.member WHERE NOT "
    "EXISTS (SELECT 1 FROM tarry.job j WHERE j.topic = tarry.member.topic AND j.id = "
    "tarry.member.id AND j.batch = tarry.member.batch)' FROM tarry.member m JOIN tarry.topic t ON "
    "t.topic = m.topic AND t.name IS NOT NULL WHERE NOT EXISTS (SELECT 1 FROM tarry.job j WHERE "
    "j.topic = m.topic AND j.id = m.id AND j.batch = m.batch) HAVING COUNT(*) > 0",

    "SELECT 'leases ended more than a minute ago: no server is running, or all of them are too "
    "slow', COUNT(*), NULL FROM tarry.job WHERE state = 3 AND lease_until < "
    "(SELECT tarry.now_ms() - 60000) HAVING COUNT(*) > 0",

    "SELECT 'the row of the tokens is missing: a new one is empty', 0, 'INSERT INTO "
    "tarry.tokens (version, text) VALUES (MD5(CONCAT(UUID(), RAND())), '''')' "
    "FROM tarry.store WHERE NOT EXISTS (SELECT 1 FROM tarry.tokens)",
    NULL,
};

const struct sql_questions mysql_questions = {
    .schema = mysql_migration_1_text,
    .schema_bytes = &mysql_migration_1_bytes,
    .schema_version = 1,
    .schema_has_delimiters = true,
    .schema_lock = "DO GET_LOCK('tarry.migrate', 60)",
    .schema_unlock = "DO RELEASE_LOCK('tarry.migrate')",
    .schema_undo = "DO RELEASE_LOCK('tarry.migrate')",
    .hello = "CALL tarry.server_hello($1)",
    .keep_time = "CALL tarry.server_keep_time($1, $2, $3)",
    .leap = "CALL tarry.server_leap()",
    .ticket = "SELECT number, 0, 0 FROM tarry.ticket WHERE server = $1 FOR UPDATE",
    .fsck_begin = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; "
                  "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    .fsck_checks = checks,
};
