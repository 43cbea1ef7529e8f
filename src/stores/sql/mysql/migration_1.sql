-- The schema tarry in MariaDB and MySQL, version 1: the tables, and the procedures that servers and users call.
--
-- Names that begin with server_ are the servers' own. Times are milliseconds since 1970 of tarry.now_ms(), due dates are rounded up.
-- All values that decide about a job are in its row, so each change is conditional on them; servers only remember where to look.
--
-- It may be run again after an interruption: DDL is not part of a transaction here.
CREATE DATABASE IF NOT EXISTS tarry CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tarry.schema_version (
  version INT PRIMARY KEY,
  oldest_reader INT NOT NULL, -- servers of this version and above may use the schema
  at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  fingerprint CHAR(16) CHARACTER SET ascii -- of the text of this schema, set after its last statement
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tarry.store (
  one TINYINT PRIMARY KEY DEFAULT 1, CHECK (one = 1),
  name VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the store's own random name
  lease_key VARBINARY(16) NOT NULL,                                -- signs leases
  adjust_ms BIGINT NOT NULL DEFAULT 0,                             -- what its clock is put ahead of the database's
  machine VARCHAR(255) NOT NULL DEFAULT ''                         -- where that was right: another one has another clock
) ENGINE=InnoDB;
INSERT IGNORE INTO tarry.store (one, name, lease_key)
  VALUES (1, LEFT(SHA2(CONCAT(UUID(), RAND(), RAND()), 256), 32), UNHEX(LEFT(SHA2(CONCAT(UUID(), RAND(), RAND()), 256), 32)));

-- Tokens of the servers' own callers, hashed: --tokens store.
CREATE TABLE IF NOT EXISTS tarry.tokens (
  one TINYINT PRIMARY KEY DEFAULT 1, CHECK (one = 1),
  version VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- a random one after each change
  text LONGBLOB NOT NULL
) ENGINE=InnoDB;
INSERT IGNORE INTO tarry.tokens (one, version, text) VALUES (1, '', '');

-- Rows that are locked in place of what they stand for.
CREATE TABLE IF NOT EXISTS tarry.task (name VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY) ENGINE=InnoDB;
INSERT IGNORE INTO tarry.task VALUES ('upkeep'), ('topics');

CREATE TABLE IF NOT EXISTS tarry.topic (
  topic INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin UNIQUE, -- NULL: deleted, its rows go in steps
  paused TINYINT NOT NULL DEFAULT 0,
  paused_until BIGINT NOT NULL DEFAULT 0, -- 0: until resumed; of a deleted one: since when
  lease BIGINT NOT NULL DEFAULT 0, ttl BIGINT NOT NULL DEFAULT 0, -- 0 in a setting: not set
  backoff_kind INT NOT NULL DEFAULT 0, backoff_first BIGINT NOT NULL DEFAULT 0, backoff_max BIGINT NOT NULL DEFAULT 0,
  max_attempts BIGINT NOT NULL DEFAULT 0,
  on_conflict INT NOT NULL DEFAULT 0, priority INT, dead_letter_expired TINYINT NOT NULL DEFAULT 0,
  dedup_window BIGINT NOT NULL DEFAULT 0, max_jobs BIGINT NOT NULL DEFAULT 0,
  push_rate_count BIGINT NOT NULL DEFAULT 0, push_rate_unit INT NOT NULL DEFAULT 0,
  history BIGINT NOT NULL DEFAULT 0, -- how long its history is kept
  keep_finished BIGINT NOT NULL DEFAULT 0, keep_finished_max BIGINT NOT NULL DEFAULT 0, keep_finished_bytes BIGINT NOT NULL DEFAULT 0,
  keep_body TINYINT NOT NULL DEFAULT 0, has_kept TINYINT NOT NULL DEFAULT 0, -- a push has set keep_finished of its job
  backoff_steps VARBINARY(176), -- of a list (kind 4): milliseconds, with commas
  extension MEDIUMBLOB,
  -- 0: takes do not read tarry.grp. Sum of: 1 it has groups, 2 its leases are counted, because it has a limit, 4 it has a rate or a hold,
  -- 8 groups have limits of their own, 16 groups have a limit of jobs, 32 its order is strict
  flow INT NOT NULL DEFAULT 0,
  flow_begun BIGINT NOT NULL DEFAULT 0, flow_fill BIGINT, -- when its jobs became those of groups, and when the upkeep repeats that for late transactions
  lim BIGINT NOT NULL DEFAULT 0, rate_count BIGINT NOT NULL DEFAULT 0, rate_unit INT NOT NULL DEFAULT 0, burst BIGINT NOT NULL DEFAULT 0,
  group_lim BIGINT NOT NULL DEFAULT 0, group_rate_count BIGINT NOT NULL DEFAULT 0, group_rate_unit INT NOT NULL DEFAULT 0,
  group_burst BIGINT NOT NULL DEFAULT 0, group_max_jobs BIGINT NOT NULL DEFAULT 0, group_order INT NOT NULL DEFAULT 0,
  one_shard BOOL NOT NULL DEFAULT FALSE, -- without an effect here, as a database is one shard
  version BIGINT NOT NULL DEFAULT 0, -- rises with each change of the row, by a trigger
  KEY topic_fill (flow_fill)
) ENGINE=InnoDB;

-- Numbers that rise over all servers: each row stands for 4096 of them, of push order and of deliveries. They survive restarts.
CREATE TABLE IF NOT EXISTS tarry.number (n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB;

-- Jobs, clustered by due time: a take walks along the table, and changes no indexed column.
CREATE TABLE IF NOT EXISTS tarry.job (
  topic INT NOT NULL, level INT NOT NULL, -- the priority level; 70000 if the job is dead
  due BIGINT NOT NULL, seq BIGINT NOT NULL,
  id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  state TINYINT NOT NULL DEFAULT 1, -- 1 waits (delayed, or ready once due), 3 leased, 4 dead
  by_sql TINYINT NOT NULL DEFAULT 0,
  cancel_requested TINYINT NOT NULL DEFAULT 0, -- of one on lease: every end of that but an ack cancels it
  priority INT NOT NULL, attempt INT NOT NULL DEFAULT 0,
  first_due BIGINT NOT NULL,
  lease_until BIGINT NOT NULL DEFAULT 0, taken BIGINT NOT NULL DEFAULT 0, lease_span BIGINT NOT NULL DEFAULT 0,
  delivery BIGINT NOT NULL DEFAULT 0, server BIGINT NOT NULL DEFAULT 0,
  expire BIGINT, -- when it goes where it is not taken: the end of its ttl, not before its due
  lease BIGINT, ttl BIGINT, backoff_kind INT, backoff_first BIGINT, backoff_max BIGINT, max_attempts BIGINT,
  body_bytes BIGINT NOT NULL,
  content_type VARBINARY(128), error VARBINARY(256), history VARBINARY(1024),
  consumer VARBINARY(64), -- name of the consumer that holds it
  keep BIGINT, -- how long it is kept when it has finished; 0: not; NULL: as its topic keeps its jobs
  progress VARBINARY(256), -- of a leased job: as its consumer reported it
  meta BLOB, body LONGBLOB NOT NULL,
  -- successor of a leased job (on_conflict after); next_due NULL: none
  next_due BIGINT, next_seq BIGINT, next_priority INT, next_lease BIGINT, next_ttl BIGINT, next_backoff_kind INT, next_backoff_first BIGINT,
  next_backoff_max BIGINT, next_max_attempts BIGINT, next_content_type VARBINARY(128), next_meta BLOB, next_body LONGBLOB,
  next_keep BIGINT,
  -- waits of a list (kind 4), of the job and of its successor: milliseconds, with commas
  backoff_steps VARBINARY(176), next_backoff_steps VARBINARY(176),
  grp BIGINT, next_grp BIGINT, -- number of its group; NULL: it has no group
  slot TINYINT NOT NULL DEFAULT 0, -- what its lease is counted in, as topic.flow: 1 its group, 2 its topic
  batch BIGINT, own BIGINT, -- the batch whose member it is; the batch of its own members: it waits for them while its due is 140737488355328
  batches VARBINARY(400),   -- of a member: its batch as job_batch_encode writes it
  PRIMARY KEY (topic, level, due, seq), KEY job_id (topic, id), KEY job_expire (expire)
) ENGINE=InnoDB;

-- The ids of all jobs, inserted and deleted together with them. An id is unique by this primary key and not by a unique index of tarry.job: a change
-- of the due time moves a job's entry in such an index, and the check of the moved entry also locks the next entry and the gap before it.
CREATE TABLE IF NOT EXISTS tarry.job_key (
  topic INT NOT NULL, id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, PRIMARY KEY (topic, id)
) ENGINE=InnoDB;

-- Groups of the jobs of topics (job/flow.h). 1 is the topic itself, 2 the jobs without a group. Takes lock the row of a group; all other
-- transactions add rows to tarry.grp_note instead, so they wait for no other transaction.
CREATE TABLE IF NOT EXISTS tarry.grp (
  topic INT NOT NULL, grp BIGINT NOT NULL AUTO_INCREMENT, name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- '*' and a blank: the topic
  is_set TINYINT NOT NULL DEFAULT 0, -- it has settings of its own
  weight INT NOT NULL DEFAULT 1, own_weight INT NOT NULL DEFAULT 0, lim BIGINT NOT NULL DEFAULT 0, rate_count BIGINT NOT NULL DEFAULT 0,
  rate_unit INT NOT NULL DEFAULT 0, burst BIGINT NOT NULL DEFAULT 0, max_jobs BIGINT NOT NULL DEFAULT 0,
  paused TINYINT NOT NULL DEFAULT 0, paused_until BIGINT NOT NULL DEFAULT 0,
  in_flight BIGINT NOT NULL DEFAULT 0, -- leases; of the topic: only while it has a limit
  pass BIGINT NOT NULL DEFAULT 0, -- of the topic: that of the group that was served last
  full_us BIGINT NOT NULL DEFAULT 0, held_until BIGINT NOT NULL DEFAULT 0,
  next_due BIGINT NOT NULL DEFAULT 9223372036854775807, -- all of its jobs that wait are due then or later
  next_seq BIGINT NOT NULL DEFAULT 0, -- of its first job, if next_due is exact
  is_ready TINYINT NOT NULL DEFAULT 0, -- had a ready job after the last take
  open_at BIGINT NOT NULL DEFAULT 9223372036854775807, -- all of its jobs can be delivered only then or later. Takes read groups by it
  idle_since BIGINT, -- when the upkeep found that it is not used
  PRIMARY KEY (topic, grp), UNIQUE KEY grp_name (topic, name), KEY grp_number (grp), KEY grp_open (topic, open_at), KEY grp_idle (idle_since)
) ENGINE=InnoDB AUTO_INCREMENT=10;
-- What happened to groups: leases that ended (freed; below 0: that began), a job that waits since, a hold. A take, or the upkeep, adds them to the
-- rows of the groups.
CREATE TABLE IF NOT EXISTS tarry.grp_note (
  n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, topic INT NOT NULL, grp BIGINT NOT NULL, freed BIGINT NOT NULL DEFAULT 0, due BIGINT, held BIGINT,
  seq BIGINT NOT NULL DEFAULT 0,
  KEY grp_note_topic (topic, grp)
) ENGINE=InnoDB;
-- The places of the jobs of topics with strict order that wait after an attempt, or are leased after an earlier one. A take does not change them.
CREATE TABLE IF NOT EXISTS tarry.job_tried (
  topic INT NOT NULL, grp BIGINT NOT NULL, level INT NOT NULL, due BIGINT NOT NULL, seq BIGINT NOT NULL, PRIMARY KEY (topic, grp, level, due, seq)
) ENGINE=InnoDB;
-- The places of the jobs of topics with groups that are not dead, by group. Topics without groups have no rows here.
CREATE TABLE IF NOT EXISTS tarry.job_grp (
  topic INT NOT NULL, grp BIGINT NOT NULL, level INT NOT NULL, due BIGINT NOT NULL, seq BIGINT NOT NULL, PRIMARY KEY (topic, grp, level, due, seq)
) ENGINE=InnoDB;

-- Jobs that wait for other jobs (queue/life.h): the members of each batch by their outcome. Only servers change a row, late in their transactions and in
-- the order of the numbers.
CREATE TABLE IF NOT EXISTS tarry.batch (
  batch BIGINT NOT NULL PRIMARY KEY, -- the sequence of its waiting job when that was pushed
  topic INT NOT NULL, id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- its waiting job
  unfinished INT NOT NULL DEFAULT 0, acked INT NOT NULL DEFAULT 0, dead INT NOT NULL DEFAULT 0, cancelled INT NOT NULL DEFAULT 0, expired INT NOT NULL DEFAULT 0,
  on_dead INT NOT NULL, -- 1 go, 2 hold, 3 stop
  members INT NOT NULL, depth INT NOT NULL, -- members: expected; 0: not given
  closed TINYINT NOT NULL DEFAULT 0, ended TINYINT NOT NULL DEFAULT 0, stopped TINYINT NOT NULL DEFAULT 0,
  wait_span BIGINT NOT NULL, close_span BIGINT NOT NULL, wait_until BIGINT NOT NULL, close_by BIGINT NOT NULL,
  KEY batch_topic (topic)
) ENGINE=InnoDB;
-- A push of a member has a shared lock on the row of its batch until the end of its transaction. A batch is closed by a transaction that has locked the
-- row alone, so it has no member that is not counted.
CREATE TABLE IF NOT EXISTS tarry.batch_gate (batch BIGINT NOT NULL PRIMARY KEY, closed TINYINT NOT NULL DEFAULT 0) ENGINE=InnoDB;
-- Changes of batches by transactions that must not wait for their rows. A batch with such a row is not complete.
CREATE TABLE IF NOT EXISTS tarry.batch_add (
  n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, batch BIGINT NOT NULL, unfinished INT NOT NULL DEFAULT 0, acked INT NOT NULL DEFAULT 0,
  dead INT NOT NULL DEFAULT 0, cancelled INT NOT NULL DEFAULT 0, expired INT NOT NULL DEFAULT 0,
  mark INT NOT NULL DEFAULT 0, -- 1 it closes, 2 its wait ends, 3 it stops, 4 its job is run
  KEY batch_add_batch (batch)
) ENGINE=InnoDB;
-- The members of batches that are jobs. Jobs of no batch have no rows here. gone: the topic was deleted, and the member is being counted.
CREATE TABLE IF NOT EXISTS tarry.member (
  batch BIGINT NOT NULL, topic INT NOT NULL, id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  dead TINYINT NOT NULL DEFAULT 0, gone TINYINT NOT NULL DEFAULT 0, PRIMARY KEY (batch, topic, id), KEY member_topic (topic)
) ENGINE=InnoDB;

-- Where rows are deleted by: a DELETE by this is one of a single table, which has no index hint of its own.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW tarry.server_job AS SELECT * FROM tarry.job FORCE INDEX (PRIMARY);
CREATE OR REPLACE SQL SECURITY INVOKER VIEW tarry.server_job_key AS SELECT * FROM tarry.job_key FORCE INDEX (PRIMARY);
CREATE OR REPLACE SQL SECURITY INVOKER VIEW tarry.server_job_grp AS SELECT * FROM tarry.job_grp FORCE INDEX (PRIMARY);
CREATE OR REPLACE SQL SECURITY INVOKER VIEW tarry.server_member AS SELECT * FROM tarry.member FORCE INDEX (PRIMARY);
CREATE OR REPLACE SQL SECURITY INVOKER VIEW tarry.server_grp_note AS SELECT * FROM tarry.grp_note FORCE INDEX (PRIMARY);

-- The priority levels in which a topic has jobs. A take reads them here instead of searching the index for the next level among deleted jobs.
CREATE TABLE IF NOT EXISTS tarry.level (topic INT NOT NULL, level INT NOT NULL, PRIMARY KEY (topic, level)) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tarry.finished (
  topic INT NOT NULL, id VARCHAR(129) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, until BIGINT NOT NULL, -- also a once, behind a blank
  PRIMARY KEY (topic, id), KEY finished_until (until)
) ENGINE=InnoDB;

-- Finished jobs that are kept (keep_finished) until a time. The id of a kept job has no row in tarry.job.
CREATE TABLE IF NOT EXISTS tarry.kept (
  topic INT NOT NULL, id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, until BIGINT NOT NULL,
  at BIGINT NOT NULL, seq BIGINT NOT NULL, first_due BIGINT NOT NULL, taken BIGINT NOT NULL, -- when it finished; the others as in its job
  bytes BIGINT NOT NULL, -- that count against keep_finished_bytes
  priority INT NOT NULL, attempt INT NOT NULL, outcome TINYINT NOT NULL, -- 1 acked, 2 cancelled, 3 expired
  consumer VARBINARY(64), meta BLOB, error VARBINARY(256), history VARBINARY(1024), progress VARBINARY(256),
  result_type VARBINARY(128), result LONGBLOB, -- of the ack
  content_type VARBINARY(128), body LONGBLOB, -- if the topic keeps bodies
  batches VARBINARY(400), -- as in its job
  PRIMARY KEY (topic, id), KEY kept_until (until), KEY kept_at (topic, at, seq)
) ENGINE=InnoDB;

-- Jobs whose end a client of a server waits for. The transaction that ends the job sets how it ended. Empty most of the time.
CREATE TABLE IF NOT EXISTS tarry.awaited (
  topic VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  server BIGINT NOT NULL, outcome TINYINT, -- NULL: it has not ended; 1 acked, 2 cancelled, 3 expired, 4 dead, 9 it was purged
  at BIGINT, taken BIGINT, attempt INT, consumer VARBINARY(64), result_type VARBINARY(128), result LONGBLOB,
  PRIMARY KEY (topic, id, server), KEY awaited_server (server, outcome)
) ENGINE=InnoDB;

-- Counts: jobs by state (fresh waits and was never tried, retry waits for another try), totals since the topic was made.
CREATE TABLE IF NOT EXISTS tarry.tally (
  topic INT NOT NULL, slot BIGINT NOT NULL, -- the server that writes it; 0: rows that belong to no server
  fresh BIGINT NOT NULL DEFAULT 0, retry BIGINT NOT NULL DEFAULT 0, leased BIGINT NOT NULL DEFAULT 0, dead BIGINT NOT NULL DEFAULT 0,
  dead_bytes BIGINT NOT NULL DEFAULT 0, pushed BIGINT NOT NULL DEFAULT 0, acked BIGINT NOT NULL DEFAULT 0, cancelled BIGINT NOT NULL DEFAULT 0,
  expired BIGINT NOT NULL DEFAULT 0, replaced BIGINT NOT NULL DEFAULT 0, delivered BIGINT NOT NULL DEFAULT 0, nacked BIGINT NOT NULL DEFAULT 0,
  lease_ended BIGINT NOT NULL DEFAULT 0, died BIGINT NOT NULL DEFAULT 0, redriven BIGINT NOT NULL DEFAULT 0,
  kept BIGINT NOT NULL DEFAULT 0, kept_bytes BIGINT NOT NULL DEFAULT 0, -- finished jobs
  PRIMARY KEY (topic, slot)
) ENGINE=InnoDB;
-- Counts of writers that must share no row, such as users' transactions; folded into slot 0.
CREATE TABLE IF NOT EXISTS tarry.tally_add (
  n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, topic INT NOT NULL,
  fresh BIGINT NOT NULL DEFAULT 0, retry BIGINT NOT NULL DEFAULT 0, leased BIGINT NOT NULL DEFAULT 0, dead BIGINT NOT NULL DEFAULT 0,
  dead_bytes BIGINT NOT NULL DEFAULT 0, pushed BIGINT NOT NULL DEFAULT 0, acked BIGINT NOT NULL DEFAULT 0, cancelled BIGINT NOT NULL DEFAULT 0,
  expired BIGINT NOT NULL DEFAULT 0, replaced BIGINT NOT NULL DEFAULT 0, delivered BIGINT NOT NULL DEFAULT 0, nacked BIGINT NOT NULL DEFAULT 0,
  lease_ended BIGINT NOT NULL DEFAULT 0, died BIGINT NOT NULL DEFAULT 0, redriven BIGINT NOT NULL DEFAULT 0,
  kept BIGINT NOT NULL DEFAULT 0, kept_bytes BIGINT NOT NULL DEFAULT 0, -- finished jobs
  KEY tally_add_topic (topic)
) ENGINE=InnoDB;

CREATE TABLE IF NOT EXISTS tarry.server (
  server BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, beat BIGINT NOT NULL,
  listen_until BIGINT NOT NULL DEFAULT 0 -- until when a client listens to events there
) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS tarry.ticket (server BIGINT PRIMARY KEY, number BIGINT NOT NULL, at BIGINT NOT NULL) ENGINE=InnoDB;

-- Notifications between servers, read with each of their looks: r: a job waits again behind the bounds; t: settings changed; d: jobs died;
-- l: look; b: batches changed. A late commit has a low number: so a reader goes back in time, and does not continue from a number.
CREATE TABLE IF NOT EXISTS tarry.notification (
  n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, at BIGINT NOT NULL, server BIGINT NOT NULL, what CHAR(1) CHARACTER SET ascii NOT NULL,
  name VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, due BIGINT NOT NULL, KEY notified_at (at)
) ENGINE=InnoDB;

-- Events of servers' transactions, written while a client listens at another server: lines, kept for seconds. A server's own lines come in
-- the order of n, and are numbered from 1 for each of its connections; lost: number of events without room.
CREATE TABLE IF NOT EXISTS tarry.message (
  n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, at BIGINT NOT NULL, server BIGINT NOT NULL, number BIGINT NOT NULL,
  lost BIGINT NOT NULL, text BLOB NOT NULL, KEY message_at (at, server)
) ENGINE=InnoDB;

-- History of attempts and jobs, of topics that keep it: a partition a day, dropped as a whole. Rows that come before a server has made the
-- day's partition are kept in history_rest, and move when the next day is made.
CREATE TABLE IF NOT EXISTS tarry.history (
  n BIGINT NOT NULL AUTO_INCREMENT, at BIGINT NOT NULL,
  topic INT NOT NULL, id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  event VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- acked, nacked, lease_ended, returned; died, cancelled, expired, replaced, purged, redriven
  attempt INT NOT NULL, started BIGINT, -- of an attempt: when it was taken
  consumer VARBINARY(128),              -- who held the job; of a change in SQL: the account
  error VARBINARY(256),
  PRIMARY KEY (n, at), KEY history_job (topic, id, at)
) ENGINE=InnoDB PARTITION BY RANGE (at) (PARTITION history_rest VALUES LESS THAN MAXVALUE);

-- Rights to call tarry.push and so on: an account's name without its host; 'orders-*'.
CREATE TABLE IF NOT EXISTS tarry.rights (
  account VARCHAR(128) NOT NULL, pattern VARCHAR(201) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, PRIMARY KEY (account, pattern)
) ENGINE=InnoDB;

DELIMITER //

DROP TRIGGER IF EXISTS tarry.topic_version//
CREATE TRIGGER tarry.topic_version BEFORE UPDATE ON tarry.topic FOR EACH ROW SET NEW.version = OLD.version + 1//

DROP FUNCTION IF EXISTS tarry.now_ms//
-- SYSDATE, not NOW: in a statement, procedure or trigger that has run for long NOW is too early by that time. Only the difference of both
-- counts: the hour that a session's time zone has twice at the end of summer does not show which of the two it is.
CREATE FUNCTION tarry.now_ms() RETURNS BIGINT READS SQL DATA SQL SECURITY DEFINER
RETURN UNIX_TIMESTAMP() * 1000 + TIMESTAMPDIFF(MICROSECOND, NOW(), SYSDATE(3)) DIV 1000 + (SELECT adjust_ms FROM tarry.store WHERE one = 1)//

-- ---- jobs that wait for members ----

-- A number as job_batch_encode writes it: seven bits a byte, the lowest first.
DROP FUNCTION IF EXISTS tarry.varint//
CREATE FUNCTION tarry.varint(p_number BIGINT) RETURNS VARBINARY(10) DETERMINISTIC NO SQL SQL SECURITY INVOKER
BEGIN
  DECLARE v_out VARBINARY(10) DEFAULT '';
  WHILE p_number > 127 DO
    SET v_out = CONCAT(v_out, UNHEX(LPAD(HEX(128 | (p_number & 127)), 2, '0'))), p_number = p_number >> 7;
  END WHILE;
  RETURN CONCAT(v_out, UNHEX(LPAD(HEX(p_number), 2, '0')));
END//

-- A batch as it is shown with its waiting job, with the changes that are not in its row yet: the numbers of sql/waiting.h, with blanks between.
DROP FUNCTION IF EXISTS tarry.server_waiting//
CREATE FUNCTION tarry.server_waiting(p_batch BIGINT) RETURNS VARCHAR(200) CHARACTER SET ascii READS SQL DATA SQL SECURITY INVOKER
RETURN (SELECT CONCAT_WS(' ', b.on_dead, b.closed OR COALESCE(MAX(a.mark IN (1, 3)), 0), b.ended, b.unfinished + COALESCE(SUM(a.unfinished), 0),
    b.acked + COALESCE(SUM(a.acked), 0), b.dead + COALESCE(SUM(a.dead), 0), b.cancelled + COALESCE(SUM(a.cancelled), 0),
    b.expired + COALESCE(SUM(a.expired), 0), b.members, b.wait_span, b.close_span)
  FROM tarry.batch b LEFT JOIN tarry.batch_add a ON a.batch = b.batch AND NOT b.ended WHERE b.batch = p_batch GROUP BY b.batch)//

-- Counts the members in a deleted topic as cancelled.
DROP PROCEDURE IF EXISTS tarry.server_members_gone//
CREATE PROCEDURE tarry.server_members_gone(IN p_topic INT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  IF EXISTS (SELECT 1 FROM tarry.member WHERE topic = p_topic) THEN
    UPDATE tarry.member FORCE INDEX (member_topic) SET gone = 1 WHERE topic = p_topic; -- waits for transactions that end one of them
    INSERT INTO tarry.batch_add (batch, unfinished, dead, cancelled) SELECT batch, -SUM(dead = 0), -SUM(dead), COUNT(*)
      FROM tarry.member FORCE INDEX (member_topic) WHERE topic = p_topic AND gone = 1 GROUP BY batch;
    DELETE FROM tarry.member WHERE topic = p_topic AND gone = 1;
  END IF;
END//

-- ---- groups, limits, rates, holds ----

-- The rules of job/flow.h. Times of tokens are microseconds.
DROP FUNCTION IF EXISTS tarry.server_interval//
CREATE FUNCTION tarry.server_interval(p_count BIGINT, p_unit INT) RETURNS BIGINT DETERMINISTIC NO SQL SQL SECURITY INVOKER
RETURN IF(p_count > 0, (CASE p_unit WHEN 1 THEN 1000000 WHEN 2 THEN 60000000 ELSE 3600000000 END + p_count - 1) DIV p_count, 0)//

-- How long before a bucket is full a delivery may use it.
DROP FUNCTION IF EXISTS tarry.server_ahead//
CREATE FUNCTION tarry.server_ahead(p_interval BIGINT, p_burst BIGINT) RETURNS BIGINT DETERMINISTIC NO SQL SQL SECURITY INVOKER
RETURN (CASE WHEN p_burst > 0 THEN p_burst WHEN p_interval BETWEEN 1 AND 9999 THEN 10000 DIV p_interval ELSE 1 END - 1) * p_interval//

-- Why a ready job of a group is not delivered now: the number of the reason in job/flow.h, a blank, until when (0: unknown). NULL: it is not held.
DROP FUNCTION IF EXISTS tarry.server_held//
CREATE FUNCTION tarry.server_held(p_topic INT, p_grp BIGINT, p_now BIGINT) RETURNS VARCHAR(40) CHARACTER SET ascii READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_flow, v_lim, v_group_lim, v_interval, v_ahead, v_group_interval, v_burst, v_in_flight, v_full, v_held, v_paused_until, v_rate BIGINT DEFAULT 0;
  DECLARE v_paused TINYINT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT flow, lim, group_lim, tarry.server_interval(rate_count, rate_unit), burst, tarry.server_interval(group_rate_count, group_rate_unit), group_burst
    INTO v_flow, v_lim, v_group_lim, v_interval, v_ahead, v_group_interval, v_burst FROM tarry.topic WHERE topic = p_topic;
  SET v_ahead = tarry.server_ahead(v_interval, v_ahead);
  SELECT k.in_flight - COALESCE(SUM(n.freed), 0), k.full_us, GREATEST(k.held_until, COALESCE(MAX(n.held), 0)) INTO v_in_flight, v_full, v_held
    FROM tarry.grp k LEFT JOIN tarry.grp_note n ON n.topic = k.topic AND n.grp = k.grp WHERE k.topic = p_topic AND k.grp = 1 GROUP BY k.topic, k.grp;
  IF v_held > p_now THEN RETURN CONCAT('7 ', v_held); END IF;
  IF v_lim > 0 AND v_in_flight >= v_lim THEN RETURN '1 0'; END IF;
  IF v_interval > 0 AND v_full - v_ahead > p_now * 1000 THEN RETURN CONCAT('2 ', (v_full - v_ahead + 999) DIV 1000); END IF;
  IF v_flow & 1 = 0 THEN RETURN NULL; END IF;
  SET v_in_flight = 0, v_full = 0, v_held = 0, v_lim = 0;
  SELECT k.in_flight - COALESCE(SUM(n.freed), 0), k.full_us, GREATEST(k.held_until, COALESCE(MAX(n.held), 0)), k.lim, k.paused, k.paused_until, k.rate_count,
      IF(k.rate_count > 0, tarry.server_interval(k.rate_count, k.rate_unit), v_group_interval), IF(k.burst > 0, k.burst, IF(k.rate_count > 0, 0, v_burst))
    INTO v_in_flight, v_full, v_held, v_lim, v_paused, v_paused_until, v_rate, v_group_interval, v_burst
    FROM tarry.grp k LEFT JOIN tarry.grp_note n ON n.topic = k.topic AND n.grp = k.grp WHERE k.topic = p_topic AND k.grp = p_grp GROUP BY k.topic, k.grp;
  IF v_paused AND (v_paused_until = 0 OR v_paused_until > p_now) THEN RETURN CONCAT('5 ', v_paused_until); END IF;
  IF v_held > p_now THEN RETURN CONCAT('7 ', v_held); END IF;
  IF v_flow & 32 > 0 AND (v_in_flight > 0 OR (SELECT MIN(j.due) FROM tarry.job_tried x FORCE INDEX (PRIMARY) STRAIGHT_JOIN tarry.job j FORCE INDEX (PRIMARY)
      ON j.topic = x.topic AND j.level = x.level AND j.due = x.due AND j.seq = x.seq
      WHERE x.topic = p_topic AND x.grp = p_grp AND j.state = 1 AND (j.expire IS NULL OR j.expire > p_now)) > p_now) THEN RETURN '6 0'; END IF;
  IF COALESCE(NULLIF(v_lim, 0), NULLIF(v_group_lim, 0), 9223372036854775807) <= v_in_flight THEN RETURN '3 0'; END IF;
  SET v_ahead = tarry.server_ahead(v_group_interval, v_burst);
  IF v_group_interval > 0 AND v_full - v_ahead > p_now * 1000 THEN RETURN CONCAT('4 ', (v_full - v_ahead + 999) DIV 1000); END IF;
  RETURN NULL;
END//

-- Counts the groups of a topic with ready or leased jobs.
DROP FUNCTION IF EXISTS tarry.server_active_groups//
CREATE FUNCTION tarry.server_active_groups(p_topic INT, p_now BIGINT) RETURNS BIGINT READS SQL DATA SQL SECURITY INVOKER
RETURN (SELECT COUNT(*) FROM tarry.grp k
  LEFT JOIN (SELECT m.grp, SUM(m.freed) AS freed FROM tarry.grp_note m WHERE m.topic = p_topic GROUP BY m.grp) n ON n.grp = k.grp
  LEFT JOIN (SELECT COALESCE(j.grp, 2) AS grp, COUNT(*) AS ready FROM tarry.level l STRAIGHT_JOIN tarry.job j FORCE INDEX (PRIMARY)
    ON j.topic = l.topic AND j.level = l.level AND j.due <= p_now AND j.state = 1 WHERE l.topic = p_topic GROUP BY 1) r ON r.grp = k.grp
  WHERE k.topic = p_topic AND k.grp > 1 AND (r.ready > 0 OR k.in_flight > COALESCE(n.freed, 0)))//

-- Counts ready jobs by what holds them, in the order of the numbers of job/flow.h, with blanks between. Calls server_held once for each group that may be
-- held, as server_groups does: the outer query would call it for each number.
DROP FUNCTION IF EXISTS tarry.server_held_jobs//
CREATE FUNCTION tarry.server_held_jobs(p_topic INT, p_now BIGINT) RETURNS VARCHAR(200) CHARACTER SET ascii READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_flow, v_group_lim BIGINT DEFAULT 0;
  DECLARE v_are_held TINYINT DEFAULT 0;
  SELECT flow, group_lim, tarry.server_held(p_topic, 0, p_now) IS NOT NULL INTO v_flow, v_group_lim, v_are_held FROM tarry.topic WHERE topic = p_topic;
  RETURN (SELECT CONCAT_WS(' ', COALESCE(SUM(IF(x.reason = 1, x.n, 0)), 0), COALESCE(SUM(IF(x.reason = 2, x.n, 0)), 0), COALESCE(SUM(IF(x.reason = 3, x.n, 0)), 0), COALESCE(SUM(IF(x.reason = 4, x.n, 0)), 0), COALESCE(SUM(IF(x.reason = 5, x.n, 0)), 0), COALESCE(SUM(IF(x.reason = 6, x.n, 0)), 0), COALESCE(SUM(IF(x.reason = 7, x.n, 0)), 0))
    FROM (SELECT SUM(w.n) AS n, CAST(SUBSTRING_INDEX(IF(k.grp IS NULL OR v_are_held OR k.paused OR GREATEST(k.held_until, COALESCE(n.held, 0)) > p_now OR k.full_us > p_now * 1000 OR k.in_flight - COALESCE(n.freed, 0) >= COALESCE(NULLIF(k.lim, 0), NULLIF(v_group_lim, 0), 9223372036854775807) OR v_flow & 32 > 0,
          tarry.server_held(p_topic, w.g, p_now), NULL), ' ', 1) AS UNSIGNED) AS reason
      FROM (SELECT COALESCE(j.grp, 2) AS g, COUNT(*) AS n FROM tarry.level l STRAIGHT_JOIN tarry.job j FORCE INDEX (PRIMARY)
        ON j.topic = l.topic AND j.level = l.level AND j.due <= p_now AND j.state = 1 WHERE l.topic = p_topic GROUP BY 1) w
      LEFT JOIN tarry.grp k ON k.topic = p_topic AND k.grp = w.g
      LEFT JOIN (SELECT m.grp, SUM(m.freed) AS freed, MAX(m.held) AS held FROM tarry.grp_note m WHERE m.topic = p_topic GROUP BY m.grp) n ON n.grp = w.g
      GROUP BY reason) x);
END//

-- Adds the jobs without a group to group 2 of their topic. Repeated by the upkeep for jobs of transactions that began before the topic had groups.
DROP PROCEDURE IF EXISTS tarry.server_groups_fill//
CREATE PROCEDURE tarry.server_groups_fill(IN p_topic INT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT tarry.now_ms();
  DECLARE v_level INT;
  DECLARE v_over TINYINT DEFAULT 0;
  DECLARE v_leases, v_places BIGINT DEFAULT 0;
  DECLARE v_levels CURSOR FOR SELECT level FROM tarry.level WHERE topic = p_topic;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;
  OPEN v_levels;
  each_level: LOOP
    SET v_over = 0;
    FETCH v_levels INTO v_level;
    IF v_over THEN LEAVE each_level; END IF;
    INSERT IGNORE INTO tarry.job_grp SELECT j.topic, 2, j.level, j.due, j.seq FROM tarry.job j FORCE INDEX (PRIMARY)
      LEFT JOIN tarry.job_grp g ON g.topic = j.topic AND g.grp = 2 AND g.level = j.level AND g.due = j.due AND g.seq = j.seq
      WHERE j.topic = p_topic AND j.level = v_level AND j.grp IS NULL AND g.topic IS NULL;
    SET v_places = v_places + ROW_COUNT();
    IF EXISTS (SELECT 1 FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = p_topic AND level = v_level AND due <= v_now AND state = 3 AND slot & 1 = 0 AND grp IS NULL) THEN
      UPDATE tarry.job FORCE INDEX (PRIMARY) SET slot = slot | 1
        WHERE topic = p_topic AND level = v_level AND due <= v_now AND state = 3 AND slot & 1 = 0 AND grp IS NULL;
      SET v_leases = v_leases + ROW_COUNT();
    END IF;
  END LOOP;
  CLOSE v_levels;
  IF v_places > 0 OR v_leases > 0 THEN
    INSERT INTO tarry.grp_note (topic, grp, freed, due) SELECT p_topic, 2, -v_leases, MIN(g.due) FROM tarry.level l
      STRAIGHT_JOIN tarry.job_grp g ON g.topic = l.topic AND g.grp = 2 AND g.level = l.level WHERE l.topic = p_topic;
  END IF;
END//

-- Makes the jobs of a topic those of groups.
DROP PROCEDURE IF EXISTS tarry.server_groups_begin//
CREATE PROCEDURE tarry.server_groups_begin(IN p_topic INT, IN p_fills TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT tarry.now_ms();
  INSERT IGNORE INTO tarry.grp (topic, grp, name) VALUES (p_topic, 1, '* '), (p_topic, 2, '');
  UPDATE tarry.topic SET flow = flow | 1, flow_begun = v_now, flow_fill = v_now + IF(p_fills, 1000, 0) WHERE topic = p_topic AND flow & 1 = 0;
  IF ROW_COUNT() > 0 AND p_fills THEN
    CALL tarry.server_groups_fill(p_topic);
  END IF;
END//

-- Fits buckets to a rate or burst that was changed: they owe no more than a burst at the new rate. p_name: only of that group; NULL: of the topic and
-- of its groups.
DROP PROCEDURE IF EXISTS tarry.server_fit//
CREATE PROCEDURE tarry.server_fit(IN p_topic INT, IN p_name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now_us BIGINT DEFAULT tarry.now_ms() * 1000;
  DECLARE v_interval, v_burst, v_group_interval, v_group_burst BIGINT DEFAULT 0;
  SELECT tarry.server_interval(rate_count, rate_unit), burst, tarry.server_interval(group_rate_count, group_rate_unit), group_burst
    INTO v_interval, v_burst, v_group_interval, v_group_burst FROM tarry.topic WHERE topic = p_topic;
  IF p_name IS NULL AND v_interval > 0 THEN
    UPDATE tarry.grp SET full_us = LEAST(full_us, v_now_us + tarry.server_ahead(v_interval, v_burst) + v_interval) WHERE topic = p_topic AND grp = 1;
  END IF;
  IF p_name IS NULL AND v_group_interval > 0 THEN
    UPDATE tarry.grp SET full_us = LEAST(full_us, v_now_us + tarry.server_ahead(v_group_interval, IF(burst > 0, burst, v_group_burst)) + v_group_interval)
      WHERE topic = p_topic AND grp > 1 AND rate_count = 0 AND full_us > v_now_us;
  END IF;
  IF p_name IS NOT NULL THEN
    UPDATE tarry.grp SET full_us = LEAST(full_us, v_now_us
        + tarry.server_ahead(IF(rate_count > 0, tarry.server_interval(rate_count, rate_unit), v_group_interval), IF(burst > 0, burst, IF(rate_count > 0, 0, v_group_burst)))
        + IF(rate_count > 0, tarry.server_interval(rate_count, rate_unit), v_group_interval))
      WHERE topic = p_topic AND name = p_name AND (rate_count > 0 OR v_group_interval > 0);
  END IF;
END//

-- Sets what takes must check, after a change of the settings of a topic.
DROP PROCEDURE IF EXISTS tarry.server_flow_set//
CREATE PROCEDURE tarry.server_flow_set(IN p_topic INT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT tarry.now_ms();
  DECLARE v_flow, v_lim, v_group_lim, v_rate, v_group_rate, v_group_jobs, v_order, v_leases BIGINT DEFAULT 0;
  DECLARE v_level INT;
  DECLARE v_over TINYINT DEFAULT 0;
  DECLARE v_levels CURSOR FOR SELECT level FROM tarry.level WHERE topic = p_topic;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;
  SELECT flow, lim, group_lim, rate_count, group_rate_count, group_max_jobs, group_order
    INTO v_flow, v_lim, v_group_lim, v_rate, v_group_rate, v_group_jobs, v_order
    FROM tarry.topic WHERE topic = p_topic;
  IF v_group_lim > 0 OR v_group_rate > 0 OR v_group_jobs > 0 OR v_order > 0 THEN
    CALL tarry.server_groups_begin(p_topic, 1);
  END IF;
  IF v_lim > 0 OR v_rate > 0 THEN
    INSERT IGNORE INTO tarry.grp (topic, grp, name) VALUES (p_topic, 1, '* ');
  END IF;
  UPDATE tarry.topic SET flow = (flow & 29) | IF(lim > 0, 2, 0) | IF(rate_count > 0, 4, 0) | IF(group_max_jobs > 0, 16, 0) | IF(group_order > 0, 32, 0)
    WHERE topic = p_topic;
  UPDATE tarry.grp SET open_at = next_due WHERE topic = p_topic AND grp > 1 AND open_at <> next_due;
  CALL tarry.server_fit(p_topic, NULL);
  IF v_lim > 0 THEN
    OPEN v_levels;
    each_level: LOOP
      SET v_over = 0;
      FETCH v_levels INTO v_level;
      IF v_over THEN LEAVE each_level; END IF;
      UPDATE tarry.job FORCE INDEX (PRIMARY) SET slot = slot | 2 WHERE topic = p_topic AND level = v_level AND due <= v_now AND state = 3 AND slot & 2 = 0;
      SET v_leases = v_leases + ROW_COUNT();
    END LOOP;
    CLOSE v_levels;
    IF v_leases > 0 THEN
      INSERT INTO tarry.grp_note (topic, grp, freed) VALUES (p_topic, 1, -v_leases);
    END IF;
  END IF;
END//

-- Sets the settings of a group, or resets them (p_is_set 0). Returns a row: whether too many groups have settings.
DROP PROCEDURE IF EXISTS tarry.server_group_put//
CREATE PROCEDURE tarry.server_group_put(IN p_topic INT, IN p_name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, IN p_is_set TINYINT, IN p_weight INT,
  IN p_lim BIGINT, IN p_rate_count BIGINT, IN p_rate_unit INT, IN p_burst BIGINT, IN p_max_jobs BIGINT, IN p_paused TINYINT, IN p_paused_until BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_groups BIGINT DEFAULT 0;
  IF p_is_set THEN
    CALL tarry.server_groups_begin(p_topic, 1);
    SELECT COUNT(*) INTO v_groups FROM tarry.task WHERE name = 'topics' FOR UPDATE; -- so that concurrent counts cannot exceed the limit
    INSERT IGNORE INTO tarry.grp (topic, name) VALUES (p_topic, p_name);
    SELECT COUNT(*) INTO v_groups FROM tarry.grp WHERE topic = p_topic AND is_set AND name <> p_name;
  END IF;
  IF v_groups < 10000 THEN
    IF NOT p_is_set THEN
      UPDATE tarry.grp k JOIN tarry.grp_note n ON n.topic = k.topic AND n.grp = k.grp AND n.held IS NOT NULL SET n.held = NULL /* a note of a return also frees its slot */
        WHERE k.topic = p_topic AND k.name = p_name;
      UPDATE tarry.grp SET held_until = 0 WHERE topic = p_topic AND name = p_name;
    END IF;
    UPDATE tarry.grp SET is_set = p_is_set, own_weight = p_weight, weight = GREATEST(1, p_weight), lim = p_lim, rate_count = p_rate_count, rate_unit = p_rate_unit,
        burst = p_burst, max_jobs = p_max_jobs, paused = p_paused, paused_until = p_paused_until, open_at = next_due, idle_since = NULL
      WHERE topic = p_topic AND name = p_name;
    CALL tarry.server_fit(p_topic, p_name);
    IF p_lim > 0 OR p_max_jobs > 0 THEN
      UPDATE tarry.topic SET flow = flow | IF(p_lim > 0, 8, 0) | IF(p_max_jobs > 0, 16, 0)
        WHERE topic = p_topic AND flow <> flow | IF(p_lim > 0, 8, 0) | IF(p_max_jobs > 0, 16, 0);
    END IF;
  END IF;
  SELECT v_groups >= 10000;
END//

-- The groups of a topic with their figures. p_name: only that group. p_order: 0 by name, 1 ready, 2 leased, 3 only held ones; after the one with
-- p_value and p_after.
DROP PROCEDURE IF EXISTS tarry.server_groups//
CREATE PROCEDURE tarry.server_groups(IN p_topic INT, IN p_name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, IN p_order INT, IN p_limit BIGINT,
  IN p_value BIGINT, IN p_after VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT tarry.now_ms();
  DECLARE v_above BIGINT DEFAULT 1;
  DECLARE v_below BIGINT DEFAULT 9223372036854775807;
  DECLARE v_flow, v_group_lim BIGINT DEFAULT 0;
  DECLARE v_are_held TINYINT DEFAULT 0; -- by the limits of the topic
  IF p_order = 3 THEN
    SELECT flow, group_lim, tarry.server_held(p_topic, 0, v_now) IS NOT NULL INTO v_flow, v_group_lim, v_are_held FROM tarry.topic WHERE topic = p_topic;
  END IF;
  IF p_name IS NOT NULL THEN -- by its number: MariaDB sorts no later call of a connection whose first call has compared the name
    SELECT COALESCE(MAX(grp) - 1, 9223372036854775806), COALESCE(MAX(grp) + 1, 0) INTO v_above, v_below FROM tarry.grp WHERE topic = p_topic AND name = p_name;
  END IF;
  SELECT p.name, p.is_set, p.own_weight, p.lim, p.rate_count, p.rate_unit, p.burst, p.max_jobs, p.paused AND (p.paused_until = 0 OR p.paused_until > v_now),
      IF(p.paused AND p.paused_until > v_now, p.paused_until, 0), p.ready, p.leased, SUBSTRING_INDEX(p.held, ' ', 1), SUBSTRING_INDEX(p.held, ' ', -1), p.oldest
    FROM (
      SELECT page.*, IF(page.is_shown_held, tarry.server_held(p_topic, page.grp, v_now), NULL) AS held -- only for this page: it reads three tables
        FROM (
          SELECT w.* FROM (
              SELECT k.*, COALESCE(r.ready, 0) AS ready, r.oldest, GREATEST(0, k.in_flight - COALESCE(n.freed, 0)) AS leased,
                  -- nothing waits for a limit or rate of a group without ready jobs
                  r.ready > 0 OR (k.paused AND (k.paused_until = 0 OR k.paused_until > v_now)) OR GREATEST(k.held_until, COALESCE(n.held, 0)) > v_now AS is_shown_held,
                  GREATEST(k.held_until, COALESCE(n.held, 0)) AS hold_ends,
                  -- server_held is slow, and needs to see only these
                  p_order = 3 AND (v_are_held OR k.paused OR GREATEST(k.held_until, COALESCE(n.held, 0)) > v_now OR k.full_us > v_now * 1000
                    OR k.in_flight - COALESCE(n.freed, 0) >= COALESCE(NULLIF(k.lim, 0), NULLIF(v_group_lim, 0), 9223372036854775807) OR v_flow & 32 > 0) AS may_be_held
                FROM tarry.grp k
                LEFT JOIN (SELECT m.grp, SUM(m.freed) AS freed, MAX(m.held) AS held FROM tarry.grp_note m WHERE m.topic = p_topic GROUP BY m.grp) n ON n.grp = k.grp
                LEFT JOIN (SELECT COALESCE(j.grp, 2) AS grp, COUNT(*) AS ready, MIN(j.due) AS oldest FROM tarry.level l STRAIGHT_JOIN tarry.job j FORCE INDEX (PRIMARY)
                  ON j.topic = l.topic AND j.level = l.level AND j.due <= v_now AND j.state = 1 WHERE l.topic = p_topic GROUP BY 1) r ON r.grp = k.grp
                WHERE k.topic = p_topic AND k.grp > v_above AND k.grp < v_below) w
            WHERE (p_name IS NOT NULL OR w.is_set OR w.ready > 0 OR w.leased > 0 OR w.hold_ends > v_now)
              AND (p_after IS NULL OR CASE p_order WHEN 1 THEN w.ready < p_value OR (w.ready = p_value AND w.name > p_after)
                WHEN 2 THEN w.leased < p_value OR (w.leased = p_value AND w.name > p_after) ELSE w.name > p_after END)
              -- IF: the databases call a function of one table before they join it
              AND (p_order <> 3 OR IF(w.is_shown_held AND w.may_be_held, tarry.server_held(p_topic, w.grp, v_now) IS NOT NULL, 0))
            ORDER BY CASE p_order WHEN 1 THEN -w.ready WHEN 2 THEN -w.leased ELSE 0 END, w.name LIMIT p_limit) page) p
    ORDER BY CASE p_order WHEN 1 THEN -p.ready WHEN 2 THEN -p.leased ELSE 0 END, p.name;
END//

-- A part of the upkeep: repeats the filling of topics whose groups are new, adds notes that no take has added, and deletes groups that were not used for
-- a day: a transaction that has read the number of one may be under way for so long.
DROP PROCEDURE IF EXISTS tarry.server_flow_upkeep//
CREATE PROCEDURE tarry.server_flow_upkeep(IN p_now BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_topic INT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT topic INTO v_topic FROM tarry.topic FORCE INDEX (topic_fill) WHERE flow_fill <= p_now ORDER BY flow_fill LIMIT 1;
  IF v_topic IS NOT NULL THEN
    CALL tarry.server_groups_fill(v_topic);
    UPDATE tarry.topic SET flow_fill = IF(p_now - flow_begun > 86400000, NULL, p_now + GREATEST(1000, p_now - flow_begun)) WHERE topic = v_topic;
  END IF;
  CREATE TEMPORARY TABLE IF NOT EXISTS tarry.server_notes (n BIGINT PRIMARY KEY, topic INT, grp BIGINT, freed BIGINT, due BIGINT, held BIGINT) ENGINE=InnoDB;
  CREATE TEMPORARY TABLE IF NOT EXISTS tarry.server_grps (topic INT, grp BIGINT, PRIMARY KEY (topic, grp)) ENGINE=InnoDB;
  INSERT INTO tarry.server_notes SELECT n, topic, grp, freed, due, held FROM tarry.grp_note ORDER BY n LIMIT 2000 FOR UPDATE SKIP LOCKED;
  IF ROW_COUNT() > 0 THEN
    INSERT INTO tarry.server_grps SELECT k.topic, k.grp FROM (SELECT DISTINCT topic, grp FROM tarry.server_notes) w
      STRAIGHT_JOIN tarry.grp k FORCE INDEX (PRIMARY) ON k.topic = w.topic AND k.grp = w.grp FOR UPDATE SKIP LOCKED;
    UPDATE tarry.server_grps f STRAIGHT_JOIN (SELECT topic, grp, SUM(freed) AS freed, MIN(due) AS due, MAX(held) AS held FROM tarry.server_notes GROUP BY topic, grp) w
        ON w.topic = f.topic AND w.grp = f.grp STRAIGHT_JOIN tarry.grp k FORCE INDEX (PRIMARY) ON k.topic = f.topic AND k.grp = f.grp
      SET k.in_flight = k.in_flight - w.freed, k.next_seq = IF(w.due < k.next_due, 0, k.next_seq), k.held_until = GREATEST(k.held_until, COALESCE(w.held, 0)),
        k.next_due = LEAST(k.next_due, COALESCE(w.due, 9223372036854775807)), k.open_at = LEAST(k.next_due, COALESCE(w.due, 9223372036854775807));
    UPDATE tarry.server_grps f STRAIGHT_JOIN tarry.grp k FORCE INDEX (PRIMARY) ON k.topic = f.topic AND k.grp = f.grp
      SET k.idle_since = IF(k.next_due < 9223372036854775807 OR k.in_flight > 0, NULL, COALESCE(k.idle_since, p_now));
    DELETE x FROM tarry.server_grps f STRAIGHT_JOIN tarry.server_notes s ON s.topic = f.topic AND s.grp = f.grp
      STRAIGHT_JOIN tarry.grp_note x FORCE INDEX (PRIMARY) ON x.n = s.n;
    DELETE FROM tarry.server_notes;
    DELETE FROM tarry.server_grps;
  END IF;
  INSERT INTO tarry.server_grps SELECT topic, grp FROM tarry.grp FORCE INDEX (grp_idle) WHERE idle_since < p_now - 86400000 AND grp > 2 LIMIT 1000
    FOR UPDATE SKIP LOCKED;
  IF ROW_COUNT() > 0 THEN
    DELETE f FROM tarry.server_grps f STRAIGHT_JOIN tarry.grp k ON k.topic = f.topic AND k.grp = f.grp
      WHERE k.is_set OR k.in_flight <> 0 OR EXISTS (SELECT 1 FROM tarry.job_grp g WHERE g.topic = k.topic AND g.grp = k.grp)
        OR EXISTS (SELECT 1 FROM tarry.grp_note n WHERE n.topic = k.topic AND n.grp = k.grp);
    DELETE k FROM tarry.server_grps f STRAIGHT_JOIN tarry.grp k FORCE INDEX (PRIMARY) ON k.topic = f.topic AND k.grp = f.grp;
    DELETE FROM tarry.server_grps;
  END IF;
END//

-- ---- calls about topics ----

-- Counts ready jobs of a topic: fresh, tried before, the oldest due time, given the counts of its waiting jobs. If these are few, and not more were
-- cancelled or replaced than acked, the delayed ones are subtracted: an old snapshot may keep many deleted jobs, most of which were due before now, or
-- else after now. A function, because a join would read all waiting jobs: variables act as constants, and due jobs are found by their key.
DROP FUNCTION IF EXISTS tarry.server_ready//
CREATE FUNCTION tarry.server_ready(p_topic INT, p_fresh BIGINT, p_retry BIGINT, p_cancels BOOLEAN, p_now BIGINT) RETURNS VARCHAR(80) CHARACTER SET ascii
READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_level INT;
  DECLARE v_over TINYINT DEFAULT 0;
  DECLARE v_fresh, v_retry, v_one_fresh, v_one_retry, v_due, v_oldest, v_ready, v_meta_bytes BIGINT DEFAULT 0;
  DECLARE v_few TINYINT DEFAULT p_fresh + p_retry <= 1000 AND NOT p_cancels;
  DECLARE v_levels CURSOR FOR SELECT level FROM tarry.level WHERE topic = p_topic;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;
  IF p_fresh + p_retry <= 0 THEN RETURN '0 0 0'; END IF;
  OPEN v_levels;
  each_level: LOOP
    FETCH v_levels INTO v_level;
    IF v_over THEN LEAVE each_level; END IF;
    IF v_few THEN
      SELECT COALESCE(SUM(attempt = 0), 0), COALESCE(SUM(attempt > 0), 0) INTO v_one_fresh, v_one_retry FROM tarry.job FORCE INDEX (PRIMARY)
        WHERE topic = p_topic AND level = v_level AND due > p_now AND state = 1;
    ELSE
      IF p_cancels THEN -- With a BLOB, InnoDB reads no rows in advance, which it would search among deleted jobs that are due later.
        SELECT COALESCE(SUM(attempt = 0), 0), COALESCE(SUM(attempt > 0), 0), COALESCE(MIN(due), 0), MAX(LENGTH(meta))
          INTO v_one_fresh, v_one_retry, v_due, v_meta_bytes
          FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = p_topic AND level = v_level AND due <= p_now AND state = 1;
      ELSE
        SELECT COALESCE(SUM(attempt = 0), 0), COALESCE(SUM(attempt > 0), 0), COALESCE(MIN(due), 0) INTO v_one_fresh, v_one_retry, v_due
          FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = p_topic AND level = v_level AND due <= p_now AND state = 1;
      END IF;
      SET v_oldest = IF(v_oldest = 0 OR v_due BETWEEN 1 AND v_oldest, v_due, v_oldest);
    END IF;
    SET v_fresh = v_fresh + v_one_fresh, v_retry = v_retry + v_one_retry;
  END LOOP;
  CLOSE v_levels;
  IF NOT v_few THEN RETURN CONCAT_WS(' ', v_fresh, v_retry, v_oldest); END IF;
  SET v_fresh = GREATEST(p_fresh - v_fresh, 0), v_retry = GREATEST(p_retry - v_retry, 0), v_over = 0;
  SET v_ready = v_fresh + v_retry;
  IF v_ready = 0 THEN RETURN '0 0 0'; END IF;
  OPEN v_levels;
  each_oldest: LOOP
    FETCH v_levels INTO v_level;
    IF v_over THEN LEAVE each_oldest; END IF;
    -- From now back, as far as there can be ready jobs. With a BLOB for the same reason.
    SELECT COALESCE(MIN(x.due), 0), MAX(x.meta_bytes) INTO v_due, v_meta_bytes FROM (SELECT due, LENGTH(meta) meta_bytes FROM tarry.job FORCE INDEX (PRIMARY)
      WHERE topic = p_topic AND level = v_level AND due <= p_now AND state = 1 ORDER BY due DESC, seq DESC LIMIT v_ready) x;
    SET v_oldest = IF(v_oldest = 0 OR v_due BETWEEN 1 AND v_oldest, v_due, v_oldest);
  END LOOP;
  CLOSE v_levels;
  RETURN CONCAT_WS(' ', v_fresh, v_retry, v_oldest);
END//

-- Counts jobs of a priority that wait until a time after the first and before the second. A function for the same reason.
DROP FUNCTION IF EXISTS tarry.server_between//
CREATE FUNCTION tarry.server_between(p_topic INT, p_level INT, p_after BIGINT, p_before BIGINT) RETURNS BIGINT READS SQL DATA SQL SECURITY INVOKER
RETURN (SELECT COUNT(*) FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = p_topic AND level = p_level AND due > p_after AND due < p_before AND state = 1)//

DROP PROCEDURE IF EXISTS tarry.server_figures//
CREATE PROCEDURE tarry.server_figures(IN p_name VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_after VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin, IN p_limit BIGINT)
READS SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT tarry.now_ms();
  IF p_limit = 0 THEN SET p_limit = 1000000000; END IF;
  SELECT t.name, t.paused AND (t.paused_until = 0 OR t.paused_until > v_now), IF(t.paused AND t.paused_until > v_now, t.paused_until, 0),
      t.lease, t.ttl, t.backoff_kind, t.backoff_first, t.backoff_max, t.max_attempts, t.on_conflict, t.priority, t.dead_letter_expired,
      t.dedup_window, t.max_jobs, t.push_rate_count, t.push_rate_unit, t.extension,
      s.fresh, s.retry, s.leased, s.dead, s.dead_bytes, s.pushed, s.acked, s.cancelled, s.expired, s.replaced, s.delivered, s.nacked,
      s.lease_ended, s.died, s.redriven, s.kept, s.kept_bytes,
      SUBSTRING_INDEX(s.ready, ' ', 1), SUBSTRING_INDEX(SUBSTRING_INDEX(s.ready, ' ', 2), ' ', -1), SUBSTRING_INDEX(s.ready, ' ', -1), t.history,
      t.keep_finished, t.keep_finished_max, t.keep_finished_bytes, t.keep_body, t.backoff_steps,
      t.lim, t.rate_count, t.rate_unit, t.burst, t.group_lim, t.group_rate_count, t.group_rate_unit, t.group_burst, t.group_max_jobs, t.group_order, t.one_shard,
      IF(t.flow & 1 > 0, tarry.server_active_groups(t.topic, v_now), 0), IF(t.flow > 0, tarry.server_held_jobs(t.topic, v_now), NULL)
    FROM tarry.topic t
    LEFT JOIN (SELECT topic, SUM(fresh) fresh, SUM(retry) retry, SUM(leased) leased, SUM(dead) dead, SUM(dead_bytes) dead_bytes,
        SUM(pushed) pushed, SUM(acked) acked, SUM(cancelled) cancelled, SUM(expired) expired, SUM(replaced) replaced,
        SUM(delivered) delivered, SUM(nacked) nacked, SUM(lease_ended) lease_ended, SUM(died) died, SUM(redriven) redriven,
        SUM(kept) kept, SUM(kept_bytes) kept_bytes, tarry.server_ready(topic, SUM(fresh), SUM(retry), SUM(cancelled) + SUM(replaced) > SUM(acked), v_now) ready
      FROM (
        SELECT topic, fresh, retry, leased, dead, dead_bytes, pushed, acked, cancelled, expired, replaced, delivered, nacked, lease_ended, died,
          redriven, kept, kept_bytes FROM tarry.tally WHERE p_name IS NULL OR topic = (SELECT x.topic FROM tarry.topic x WHERE x.name = p_name)
        UNION ALL
        SELECT topic, fresh, retry, leased, dead, dead_bytes, pushed, acked, cancelled, expired, replaced, delivered, nacked, lease_ended, died,
          redriven, kept, kept_bytes FROM tarry.tally_add WHERE p_name IS NULL OR topic = (SELECT x.topic FROM tarry.topic x WHERE x.name = p_name)) u
      GROUP BY topic) s ON s.topic = t.topic
    WHERE t.name IS NOT NULL AND (p_name IS NULL OR t.name = p_name) AND (p_after IS NULL OR t.name > p_after)
    ORDER BY t.name LIMIT p_limit;
END//

-- Deletes a topic: its name is free immediately; the upkeep removes the rows of its number in steps. Columns: found, how many
-- jobs.
DROP PROCEDURE IF EXISTS tarry.server_delete//
CREATE PROCEDURE tarry.server_delete(IN p_name VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_topic INT;
  SELECT MAX(topic) INTO v_topic FROM tarry.topic WHERE name = p_name;
  UPDATE tarry.topic SET name = NULL, paused_until = tarry.now_ms() WHERE topic = v_topic AND name = p_name;
  IF ROW_COUNT() = 1 THEN
    IF EXISTS (SELECT 1 FROM tarry.awaited) THEN
      UPDATE tarry.awaited SET outcome = 9 WHERE topic = p_name AND outcome IS NULL;
    END IF;
    CALL tarry.server_members_gone(v_topic);
    INSERT INTO tarry.batch_add (batch) SELECT batch FROM tarry.batch FORCE INDEX (batch_topic) WHERE topic = v_topic;
    SELECT 1, COALESCE(SUM(x.jobs), 0) FROM (
      SELECT SUM(fresh + retry + leased + dead) jobs FROM tarry.tally WHERE topic = v_topic UNION ALL
      SELECT SUM(fresh + retry + leased + dead) FROM tarry.tally_add WHERE topic = v_topic) x;
  ELSE
    SELECT 0, 0;
  END IF;
END//

-- ---- what servers do beside calls ----

-- Continues the clock on another machine: the first server that finds it does this; later ones change nothing. Numbers leap: the machine may
-- know less than the previous one, and no delivery number may be given twice.
DROP PROCEDURE IF EXISTS tarry.server_keep_time//
CREATE PROCEDURE tarry.server_keep_time(IN p_machine VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  IN p_known VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_adjust BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_is_first TINYINT;
  UPDATE tarry.store SET machine = p_machine, adjust_ms = p_adjust WHERE one = 1 AND machine = p_known;
  SET v_is_first = ROW_COUNT() = 1;
  IF v_is_first THEN
    CALL tarry.server_leap();
  END IF;
  SELECT tarry.now_ms(), v_is_first, adjust_ms FROM tarry.store WHERE one = 1;
END//

DROP PROCEDURE IF EXISTS tarry.server_leap//
CREATE PROCEDURE tarry.server_leap()
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_number BIGINT;
  SELECT COALESCE(MAX(n), 0) + 1000000 INTO v_number FROM tarry.number;
  INSERT IGNORE INTO tarry.number VALUES (v_number);
END//

-- A new connection: its server's number, now, the store's name and key, this machine, the one that time was kept by, the adjustment.
DROP PROCEDURE IF EXISTS tarry.server_hello//
CREATE PROCEDURE tarry.server_hello(IN p_server BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT tarry.now_ms();
  IF p_server = 0 THEN
    INSERT INTO tarry.server (beat) VALUES (v_now);
    SET p_server = LAST_INSERT_ID();
  ELSE
    INSERT INTO tarry.server (server, beat) VALUES (p_server, v_now) ON DUPLICATE KEY UPDATE beat = v_now, listen_until = 0;
  END IF;
  INSERT IGNORE INTO tarry.ticket VALUES (p_server, 0, v_now);
  SELECT p_server, v_now, name, lease_key, CONCAT_WS('/', @@global.server_id, @@hostname, @@port), machine, adjust_ms
    FROM tarry.store WHERE one = 1;
END//

-- Rows to remove are first picked into these tables, with SKIP LOCKED or by a plain read, and then deleted by their key: a DELETE or UPDATE, also
-- one that joins, waits for each row that it reads and that another transaction has written, even a user's that stays open for minutes.
DROP PROCEDURE IF EXISTS tarry.server_picks//
CREATE PROCEDURE tarry.server_picks()
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  CREATE TEMPORARY TABLE IF NOT EXISTS tarry.server_fold (n BIGINT PRIMARY KEY) ENGINE=InnoDB;
  CREATE TEMPORARY TABLE IF NOT EXISTS tarry.server_places (topic INT, level INT, due BIGINT, seq BIGINT,
    server BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (topic, level, due, seq)) ENGINE=InnoDB;
  CREATE TEMPORARY TABLE IF NOT EXISTS tarry.server_ids (topic INT, id VARCHAR(129) CHARACTER SET ascii COLLATE ascii_bin, PRIMARY KEY (topic, id))
    ENGINE=InnoDB;
  DELETE FROM tarry.server_fold;
  DELETE FROM tarry.server_places;
  DELETE FROM tarry.server_ids;
END//

-- Leases of servers that are silent, or unknown, are this one's from now on: it ends them, and its own ones that it may have forgotten.
-- A silent server whose transaction is still under way holds its ticket: it is left for later.
DROP PROCEDURE IF EXISTS tarry.server_adopt//
CREATE PROCEDURE tarry.server_adopt(IN p_server BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT tarry.now_ms();
  DECLARE v_one, v_idle BIGINT;
  DECLARE v_over TINYINT DEFAULT 0;
  DECLARE v_topic, v_level INT;
  DECLARE v_silent CURSOR FOR SELECT server FROM tarry.server WHERE beat < v_now - 10000 AND server <> p_server FOR UPDATE SKIP LOCKED;
  DECLARE v_levels CURSOR FOR SELECT topic, level FROM tarry.level;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;
  CALL tarry.server_picks();
  OPEN v_silent;
  each_one: LOOP
    SET v_over = 0;
    FETCH v_silent INTO v_one;
    IF v_over THEN LEAVE each_one; END IF;
    SET v_idle = 1;
    IF EXISTS (SELECT 1 FROM tarry.ticket WHERE server = v_one) THEN
      SET v_idle = NULL;
      SELECT server INTO v_idle FROM tarry.ticket WHERE server = v_one FOR UPDATE SKIP LOCKED;
    END IF;
    IF v_idle IS NOT NULL THEN
      DELETE FROM tarry.server WHERE server = v_one;
      INSERT INTO tarry.tally_add (topic, fresh, retry, leased, dead, dead_bytes, pushed, acked, cancelled, expired, replaced, delivered,
          nacked, lease_ended, died, redriven, kept, kept_bytes)
        SELECT topic, fresh, retry, leased, dead, dead_bytes, pushed, acked, cancelled, expired, replaced, delivered, nacked, lease_ended,
          died, redriven, kept, kept_bytes FROM tarry.tally WHERE slot = v_one;
      INSERT INTO tarry.server_fold SELECT topic FROM tarry.tally WHERE slot = v_one;
      DELETE y FROM tarry.server_fold f STRAIGHT_JOIN tarry.tally y FORCE INDEX (PRIMARY) ON y.topic = f.n AND y.slot = v_one;
      DELETE FROM tarry.server_fold;
    END IF;
  END LOOP;
  CLOSE v_silent;
  -- Reads one level at a time, so that each read is a range of the primary key that ends at now: a join with the levels reads every waiting job.
  OPEN v_levels;
  each_level: LOOP
    SET v_over = 0;
    FETCH v_levels INTO v_topic, v_level;
    IF v_over THEN LEAVE each_level; END IF;
    INSERT INTO tarry.server_places SELECT x.topic, x.level, x.due, x.seq, x.server FROM tarry.job x FORCE INDEX (PRIMARY)
      WHERE x.topic = v_topic AND x.level = v_level AND x.due <= v_now AND x.state = 3;
  END LOOP;
  CLOSE v_levels;
  DELETE a FROM tarry.server_places a JOIN tarry.server s ON s.server = a.server WHERE a.server <> p_server; -- servers that live
  -- In this order, and by the primary key: otherwise rows of other servers are locked on the way, and their takes skip them.
  UPDATE tarry.server_places a
    STRAIGHT_JOIN tarry.job j FORCE INDEX (PRIMARY) ON j.topic = a.topic AND j.level = a.level AND j.due = a.due AND j.seq = a.seq
    SET j.server = p_server
    WHERE a.server <> p_server AND j.state = 3 AND j.server = a.server;
  SELECT j.topic, j.level, j.due, j.seq, j.delivery, j.taken, j.lease_until
    FROM tarry.server_places a STRAIGHT_JOIN tarry.job j FORCE INDEX (PRIMARY)
      ON j.topic = a.topic AND j.level = a.level AND j.due = a.due AND j.seq = a.seq
    WHERE j.state = 3 AND j.server = p_server;
  DELETE FROM tarry.server_places;
END//

-- Drops kept jobs of a topic, the oldest first. Rows that others hold are left.
DROP PROCEDURE IF EXISTS tarry.server_drop_kept//
CREATE PROCEDURE tarry.server_drop_kept(IN p_topic INT, IN p_limit BIGINT, OUT p_dropped BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_bytes BIGINT;
  CALL tarry.server_picks();
  INSERT INTO tarry.server_ids SELECT topic, id FROM tarry.kept FORCE INDEX (kept_at) WHERE topic = p_topic ORDER BY at, seq LIMIT p_limit
    FOR UPDATE SKIP LOCKED;
  SELECT COUNT(*), COALESCE(SUM(k.bytes), 0) INTO p_dropped, v_bytes
    FROM tarry.server_ids f STRAIGHT_JOIN tarry.kept k FORCE INDEX (PRIMARY) ON k.topic = f.topic AND k.id = f.id;
  IF p_dropped > 0 THEN
    DELETE k FROM tarry.server_ids f STRAIGHT_JOIN tarry.kept k FORCE INDEX (PRIMARY) ON k.topic = f.topic AND k.id = f.id;
    INSERT INTO tarry.tally_add (topic, kept, kept_bytes) VALUES (p_topic, -p_dropped, -v_bytes);
    DELETE FROM tarry.server_ids;
  END IF;
END//

DROP PROCEDURE IF EXISTS tarry.server_purge_kept//
CREATE PROCEDURE tarry.server_purge_kept(IN p_topic INT, IN p_limit BIGINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_dropped BIGINT;
  CALL tarry.server_drop_kept(p_topic, p_limit, v_dropped);
  SELECT v_dropped;
END//

-- Removes kept jobs whose time has ended, and drops the oldest of topics above their limits: a limited number per call. Looks only at topics
-- with kept jobs. p_more: whether more may be left.
DROP PROCEDURE IF EXISTS tarry.server_end_kept//
CREATE PROCEDURE tarry.server_end_kept(IN p_now BIGINT, OUT p_number BIGINT, OUT p_bytes BIGINT, OUT p_more TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_topic INT DEFAULT -1;
  DECLARE v_kept, v_kept_bytes, v_most, v_most_bytes, v_dropped, v_each, v_ended BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET p_number = 0, p_bytes = 0, p_more = 0;
  CALL tarry.server_picks();
  INSERT INTO tarry.server_ids SELECT topic, id FROM tarry.kept FORCE INDEX (kept_until) WHERE until <= p_now ORDER BY until LIMIT 5000 FOR UPDATE SKIP LOCKED;
  SET v_ended = ROW_COUNT();
  SET p_more = v_ended = 5000;
  IF v_ended > 0 THEN
    INSERT INTO tarry.tally_add (topic, kept, kept_bytes) SELECT k.topic, -COUNT(*), -SUM(k.bytes)
      FROM tarry.server_ids f STRAIGHT_JOIN tarry.kept k FORCE INDEX (PRIMARY) ON k.topic = f.topic AND k.id = f.id GROUP BY k.topic;
    DELETE k FROM tarry.server_ids f STRAIGHT_JOIN tarry.kept k FORCE INDEX (PRIMARY) ON k.topic = f.topic AND k.id = f.id;
    DELETE FROM tarry.server_ids;
  END IF;
  each_topic: LOOP
    SELECT MIN(topic) INTO v_topic FROM tarry.kept WHERE topic > v_topic;
    IF v_topic IS NULL THEN LEAVE each_topic; END IF;
    SET v_most = 9223372036854775807, v_most_bytes = 9223372036854775807;
    SELECT COALESCE(NULLIF(keep_finished_max, 0), 1000000), COALESCE(NULLIF(keep_finished_bytes, 0), 1073741824) INTO v_most, v_most_bytes
      FROM tarry.topic WHERE topic = v_topic;
    SELECT COALESCE(SUM(x.kept), 0), COALESCE(SUM(x.kept_bytes), 0) INTO v_kept, v_kept_bytes FROM (
      SELECT kept, kept_bytes FROM tarry.tally WHERE topic = v_topic UNION ALL SELECT kept, kept_bytes FROM tarry.tally_add WHERE topic = v_topic) x;
    IF v_kept > v_most THEN
      CALL tarry.server_drop_kept(v_topic, LEAST(v_kept - v_most, 5000), v_dropped);
      SET p_number = p_number + v_dropped, p_more = p_more OR v_dropped = 5000;
    ELSEIF v_kept_bytes > v_most_bytes THEN
      -- the oldest whose sizes before them are together below the excess
      SELECT COUNT(*) INTO v_each FROM (SELECT SUM(o.bytes) OVER (ORDER BY o.at, o.seq) - o.bytes AS bytes_before FROM (
        SELECT at, seq, bytes FROM tarry.kept FORCE INDEX (kept_at) WHERE topic = v_topic ORDER BY at, seq LIMIT 5000) o) x
        WHERE x.bytes_before < v_kept_bytes - v_most_bytes;
      CALL tarry.server_drop_kept(v_topic, v_each, v_dropped);
      SET p_bytes = p_bytes + v_dropped, p_more = p_more OR v_dropped = 5000;
    END IF;
  END LOOP;
END//

-- Runs once a second for each server: marks it alive and removes leftovers. Columns: how many other servers live, how many do not, when the
-- next ttl ends, whether a client listens to events at another server. 3000: for so long that is assumed, SQL_AUDIENCE_MS of the servers.
DROP PROCEDURE IF EXISTS tarry.server_upkeep//
CREATE PROCEDURE tarry.server_upkeep(IN p_server BIGINT, IN p_listens TINYINT)
MODIFIES SQL DATA SQL SECURITY INVOKER
BEGIN
  DECLARE v_now BIGINT DEFAULT tarry.now_ms();
  DECLARE v_mine VARCHAR(16);
  DECLARE v_topic INT;
  DECLARE v_last, v_listen_until, v_number, v_bytes BIGINT;
  DECLARE v_more TINYINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET v_listen_until = IF(p_listens, v_now + 3000, 0);
  INSERT INTO tarry.server (server, beat, listen_until) VALUES (p_server, v_now, v_listen_until) ON DUPLICATE KEY UPDATE beat = v_now, listen_until = v_listen_until;
  SELECT name INTO v_mine FROM tarry.task WHERE name = 'upkeep' FOR UPDATE SKIP LOCKED;
  IF v_mine IS NOT NULL THEN -- else another server is at it
    CALL tarry.server_picks();
    INSERT INTO tarry.server_ids SELECT topic, id FROM tarry.finished WHERE until <= v_now LIMIT 1000 FOR UPDATE SKIP LOCKED;
    IF ROW_COUNT() > 0 THEN
      DELETE x FROM tarry.server_ids f STRAIGHT_JOIN tarry.finished x FORCE INDEX (PRIMARY) ON x.topic = f.topic AND x.id = f.id;
      DELETE FROM tarry.server_ids;
    END IF;
    INSERT INTO tarry.server_fold SELECT n FROM tarry.notification WHERE at < v_now - 60000 LIMIT 1000 FOR UPDATE SKIP LOCKED;
    IF ROW_COUNT() > 0 THEN
      DELETE x FROM tarry.server_fold f STRAIGHT_JOIN tarry.notification x FORCE INDEX (PRIMARY) ON x.n = f.n;
      DELETE FROM tarry.server_fold;
    END IF;
    INSERT INTO tarry.server_fold SELECT n FROM tarry.message WHERE at < v_now - 10000 LIMIT 10000 FOR UPDATE SKIP LOCKED;
    IF ROW_COUNT() > 0 THEN
      DELETE x FROM tarry.server_fold f STRAIGHT_JOIN tarry.message x FORCE INDEX (PRIMARY) ON x.n = f.n;
      DELETE FROM tarry.server_fold;
    END IF;
    SELECT MAX(n) - 10 INTO v_last FROM tarry.number;
    INSERT INTO tarry.server_fold SELECT n FROM tarry.number WHERE n < v_last ORDER BY n LIMIT 10000 FOR UPDATE SKIP LOCKED;
    IF ROW_COUNT() > 0 THEN
      DELETE x FROM tarry.server_fold f STRAIGHT_JOIN tarry.number x FORCE INDEX (PRIMARY) ON x.n = f.n;
      DELETE FROM tarry.server_fold;
    END IF;
    INSERT INTO tarry.server_fold SELECT n FROM tarry.outbox ORDER BY n LIMIT 1000 FOR UPDATE SKIP LOCKED;
    IF ROW_COUNT() > 0 THEN
      DELETE x FROM tarry.server_fold f STRAIGHT_JOIN tarry.outbox x FORCE INDEX (PRIMARY) ON x.n = f.n;
      DELETE FROM tarry.server_fold;
    END IF;
    INSERT INTO tarry.server_fold SELECT n FROM tarry.tally_add ORDER BY n LIMIT 2000 FOR UPDATE SKIP LOCKED;
    IF ROW_COUNT() > 0 THEN
      INSERT INTO tarry.tally
        SELECT a.topic, 0, SUM(a.fresh), SUM(a.retry), SUM(a.leased), SUM(a.dead), SUM(a.dead_bytes), SUM(a.pushed), SUM(a.acked),
            SUM(a.cancelled), SUM(a.expired), SUM(a.replaced), SUM(a.delivered), SUM(a.nacked), SUM(a.lease_ended), SUM(a.died), SUM(a.redriven),
            SUM(a.kept), SUM(a.kept_bytes)
          FROM tarry.server_fold f STRAIGHT_JOIN tarry.tally_add a FORCE INDEX (PRIMARY) ON a.n = f.n GROUP BY a.topic
        ON DUPLICATE KEY UPDATE fresh = tally.fresh + VALUES(fresh), retry = tally.retry + VALUES(retry), leased = tally.leased + VALUES(leased),
          dead = tally.dead + VALUES(dead), dead_bytes = tally.dead_bytes + VALUES(dead_bytes), pushed = tally.pushed + VALUES(pushed),
          acked = tally.acked + VALUES(acked), cancelled = tally.cancelled + VALUES(cancelled), expired = tally.expired + VALUES(expired),
          replaced = tally.replaced + VALUES(replaced), delivered = tally.delivered + VALUES(delivered), nacked = tally.nacked + VALUES(nacked),
          lease_ended = tally.lease_ended + VALUES(lease_ended), died = tally.died + VALUES(died), redriven = tally.redriven + VALUES(redriven),
          kept = tally.kept + VALUES(kept), kept_bytes = tally.kept_bytes + VALUES(kept_bytes);
      DELETE x FROM tarry.server_fold f STRAIGHT_JOIN tarry.tally_add x FORCE INDEX (PRIMARY) ON x.n = f.n;
      DELETE FROM tarry.server_fold;
    END IF;
    -- A push that was under way when its topic was deleted may still leave a job: the number stays for a day.
    SELECT MIN(t.topic) INTO v_topic FROM tarry.topic t WHERE t.name IS NULL AND (t.paused_until < v_now - 86400000
      OR EXISTS (SELECT 1 FROM tarry.job j WHERE j.topic = t.topic) OR EXISTS (SELECT 1 FROM tarry.finished f WHERE f.topic = t.topic)
      OR EXISTS (SELECT 1 FROM tarry.kept f WHERE f.topic = t.topic)
      OR EXISTS (SELECT 1 FROM tarry.member f WHERE f.topic = t.topic)
      OR EXISTS (SELECT 1 FROM tarry.grp f WHERE f.topic = t.topic) OR EXISTS (SELECT 1 FROM tarry.job_grp f WHERE f.topic = t.topic)
      OR EXISTS (SELECT 1 FROM tarry.tally y WHERE y.topic = t.topic) OR EXISTS (SELECT 1 FROM tarry.tally_add y WHERE y.topic = t.topic));
    IF v_topic IS NOT NULL THEN
      CALL tarry.server_members_gone(v_topic); -- of pushes that were under way when the topic was deleted
      INSERT INTO tarry.server_places (topic, level, due, seq) SELECT topic, level, due, seq FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = v_topic LIMIT 1000
        FOR UPDATE SKIP LOCKED;
      DELETE x, k FROM tarry.server_places f STRAIGHT_JOIN tarry.job x FORCE INDEX (PRIMARY)
        ON x.topic = f.topic AND x.level = f.level AND x.due = f.due AND x.seq = f.seq
        LEFT JOIN tarry.job_key k FORCE INDEX (PRIMARY) ON k.topic = x.topic AND k.id = x.id;
      INSERT INTO tarry.server_ids SELECT topic, id FROM tarry.finished WHERE topic = v_topic LIMIT 1000 FOR UPDATE SKIP LOCKED;
      DELETE x FROM tarry.server_ids f STRAIGHT_JOIN tarry.finished x FORCE INDEX (PRIMARY) ON x.topic = f.topic AND x.id = f.id;
      DELETE FROM tarry.server_ids;
      INSERT INTO tarry.server_ids SELECT topic, id FROM tarry.kept WHERE topic = v_topic LIMIT 1000 FOR UPDATE SKIP LOCKED;
      DELETE x FROM tarry.server_ids f STRAIGHT_JOIN tarry.kept x FORCE INDEX (PRIMARY) ON x.topic = f.topic AND x.id = f.id;
      DELETE FROM tarry.tally WHERE topic = v_topic;
      INSERT INTO tarry.server_fold SELECT n FROM tarry.tally_add WHERE topic = v_topic LIMIT 1000 FOR UPDATE SKIP LOCKED;
      DELETE x FROM tarry.server_fold f STRAIGHT_JOIN tarry.tally_add x FORCE INDEX (PRIMARY) ON x.n = f.n;
      DELETE FROM tarry.server_fold;
      DELETE FROM tarry.level WHERE topic = v_topic;
      DELETE FROM tarry.job_grp WHERE topic = v_topic LIMIT 10000;
      DELETE FROM tarry.job_tried WHERE topic = v_topic LIMIT 10000;
      DELETE FROM tarry.grp_note WHERE topic = v_topic;
      DELETE FROM tarry.grp WHERE topic = v_topic;
      DELETE FROM tarry.topic WHERE topic = v_topic AND paused_until < v_now - 86400000;
    END IF;
    INSERT INTO tarry.server_fold SELECT server FROM tarry.ticket WHERE at < v_now - 86400000 AND server NOT IN (SELECT server FROM tarry.server)
      FOR UPDATE SKIP LOCKED;
    DELETE x FROM tarry.server_fold f STRAIGHT_JOIN tarry.ticket x FORCE INDEX (PRIMARY) ON x.server = f.n;
    IF EXISTS (SELECT 1 FROM tarry.grp) THEN
      CALL tarry.server_flow_upkeep(v_now);
    END IF;
    IF EXISTS (SELECT 1 FROM tarry.kept) THEN
      CALL tarry.server_end_kept(v_now, v_number, v_bytes, v_more);
    END IF;
    IF EXISTS (SELECT 1 FROM tarry.awaited) THEN
      DELETE FROM tarry.awaited WHERE server NOT IN (SELECT server FROM tarry.server);
    END IF;
  END IF;
  SELECT COALESCE(SUM(beat >= v_now - 10000), 0), COALESCE(SUM(beat < v_now - 10000), 0),
      (SELECT expire FROM tarry.job WHERE expire IS NOT NULL AND state = 1 ORDER BY expire LIMIT 1), COALESCE(MAX(listen_until > v_now), 0),
      COALESCE(v_number, 0), COALESCE(v_bytes, 0), COALESCE(v_more, 0), EXISTS (SELECT 1 FROM tarry.batch_add)
    FROM tarry.server WHERE server <> p_server;
END//

-- Makes the partitions of today and the next days; drops those that no topic needs. Makes none while no topic keeps a history.
-- Called between transactions, because it ends one. It does not wait for transactions that use the history, except sometimes for a second;
-- failed steps are left for the next time. As the owner: it changes the table.
DROP PROCEDURE IF EXISTS tarry.server_history_days//
CREATE PROCEDURE tarry.server_history_days()
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_today BIGINT DEFAULT tarry.now_ms() DIV 86400000;
  DECLARE v_kept, v_last, v_day, v_saved_wait BIGINT;
  DECLARE v_text TEXT CHARACTER SET utf8mb4;
  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
  SET v_saved_wait = @@session.lock_wait_timeout;
  SELECT MAX(history) INTO v_kept FROM tarry.topic;
  SELECT MAX(SUBSTR(partition_name, 9)) INTO v_last FROM information_schema.partitions
    WHERE table_schema = 'tarry' AND table_name = 'history' AND partition_name REGEXP '^history_[0-9]+$';
  SET v_last = IF(v_last IS NULL, v_today - 1, DATEDIFF(STR_TO_DATE(v_last, '%Y%m%d'), '1970-01-01'));
  SET SESSION lock_wait_timeout = 1;
  IF RAND() >= 0.1 THEN
    SET SESSION lock_wait_timeout = 0; -- MySQL knows no less than 1
  END IF;
  SET v_day = GREATEST(v_last + 1, v_today);
  IF v_kept > 0 AND v_day <= v_today + 2 THEN
    SET v_text = 'ALTER TABLE tarry.history REORGANIZE PARTITION history_rest INTO (';
    WHILE v_day <= v_today + 2 DO
      SET v_text = CONCAT(v_text, 'PARTITION history_', DATE_FORMAT(DATE_ADD('1970-01-01', INTERVAL v_day DAY), '%Y%m%d'), ' VALUES LESS THAN (',
        (v_day + 1) * 86400000, '), ');
      SET v_day = v_day + 1;
    END WHILE;
    SET @tarry_days = CONCAT(v_text, 'PARTITION history_rest VALUES LESS THAN MAXVALUE)');
    PREPARE tarry_days FROM @tarry_days;
    EXECUTE tarry_days;
    DEALLOCATE PREPARE tarry_days;
  END IF;
  SET v_text = NULL;
  SELECT GROUP_CONCAT(partition_name SEPARATOR ', ') INTO v_text FROM information_schema.partitions
    WHERE table_schema = 'tarry' AND table_name = 'history' AND partition_description REGEXP '^[0-9]+$'
      AND CAST(partition_description AS UNSIGNED) < v_today * 86400000 - COALESCE(v_kept, 0);
  IF v_text IS NOT NULL THEN
    SET @tarry_days = CONCAT('ALTER TABLE tarry.history DROP PARTITION ', v_text);
    PREPARE tarry_days FROM @tarry_days;
    EXECUTE tarry_days;
    DEALLOCATE PREPARE tarry_days;
  END IF;
  SET @tarry_days = NULL;
  SET SESSION lock_wait_timeout = v_saved_wait;
END//

-- ---- for users, in their own transactions ----

-- These run with the rights of who made the schema. Parameters have the columns' character set: else no index is used.

DROP PROCEDURE IF EXISTS tarry.may//
CREATE PROCEDURE tarry.may(IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
READS SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_account VARCHAR(128) DEFAULT SUBSTRING_INDEX(USER(), '@', 1);
  DECLARE v_text VARCHAR(500);
  IF v_account <> SUBSTRING_INDEX(CURRENT_USER(), '@', 1) AND NOT EXISTS (SELECT 1 FROM tarry.rights WHERE account = v_account AND
      (pattern = p_topic OR (RIGHT(pattern, 1) = '*' AND LEFT(p_topic, CHAR_LENGTH(pattern) - 1) = LEFT(pattern, CHAR_LENGTH(pattern) - 1)))) THEN
    SET v_text = LEFT(CONCAT('account ', v_account, ' may not use topic ', p_topic, ', insert it into tarry.rights'), 127);
    SIGNAL SQLSTATE '42000' SET MESSAGE_TEXT = v_text;
  END IF;
END//

-- The due of a call; neither: now.
DROP PROCEDURE IF EXISTS tarry.due_of//
CREATE PROCEDURE tarry.due_of(IN p_now BIGINT, IN p_delay_ms BIGINT, IN p_at_ms BIGINT, OUT p_due BIGINT)
READS SQL DATA SQL SECURITY DEFINER
BEGIN
  IF p_delay_ms IS NOT NULL AND p_at_ms IS NOT NULL THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'both delay_ms and at_ms are given, give one';
  END IF;
  IF p_delay_ms < 0 OR p_delay_ms > 315619200000 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'delay_ms is not between 0 and 10 years';
  END IF;
  IF p_at_ms IS NOT NULL THEN
    SET p_at_ms = p_at_ms + (SELECT adjust_ms FROM tarry.store WHERE one = 1);
  END IF;
  IF p_at_ms - p_now > 315619200000 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'at_ms is more than 10 years away';
  END IF;
  SET p_due = CASE WHEN p_delay_ms > 0 THEN p_now + p_delay_ms + 1 WHEN p_at_ms > p_now THEN p_at_ms ELSE p_now END;
END//

-- Locks the row of a job, and no other one: its place is read first without a lock, because a search by id at REPEATABLE READ locks the gaps
-- around the id. Only if that snapshot is out of date, the id is searched with a lock. NULLs: no such job.
DROP PROCEDURE IF EXISTS tarry.lock_job//
CREATE PROCEDURE tarry.lock_job(IN p_topic INT, IN p_id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin, OUT p_level INT, OUT p_due BIGINT, OUT p_seq BIGINT)
READS SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_found TINYINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT level, due, seq INTO p_level, p_due, p_seq FROM tarry.job FORCE INDEX (job_id) WHERE topic = p_topic AND id = p_id;
  SELECT 1 INTO v_found FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = p_topic AND level = p_level AND due = p_due AND seq = p_seq FOR UPDATE;
  IF v_found IS NULL THEN
    SET p_level = NULL, p_due = NULL, p_seq = NULL;
    SELECT level, due, seq INTO p_level, p_due, p_seq FROM tarry.job FORCE INDEX (job_id) WHERE topic = p_topic AND id = p_id FOR UPDATE;
  END IF;
END//

-- Moves the entry of a job in its group from the place before (p_was_seq NULL: it had no place) to the new one (p_seq NULL: it has no place), and notes that the job waits.
-- A job that was tried holds its strict group until another job has its place.
DROP PROCEDURE IF EXISTS tarry.move_job//
CREATE PROCEDURE tarry.move_job(IN p_topic INT, IN p_was_grp BIGINT, IN p_was_level INT, IN p_was_due BIGINT, IN p_was_seq BIGINT,
  IN p_grp BIGINT, IN p_level INT, IN p_due BIGINT, IN p_seq BIGINT)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_tried BIGINT;
  IF p_was_seq IS NOT NULL THEN
    DELETE FROM tarry.job_grp WHERE topic = p_topic AND grp = COALESCE(p_was_grp, 2) AND level = p_was_level AND due = p_was_due AND seq = p_was_seq;
    IF EXISTS (SELECT 1 FROM tarry.topic WHERE topic = p_topic AND flow & 32 > 0) THEN
      DELETE FROM tarry.job_tried WHERE topic = p_topic AND grp = COALESCE(p_was_grp, 2) AND level = p_was_level AND due = p_was_due AND seq = p_was_seq;
      SET v_tried = ROW_COUNT();
      IF v_tried > 0 AND p_seq = p_was_seq THEN
        INSERT IGNORE INTO tarry.job_tried VALUES (p_topic, COALESCE(p_grp, 2), p_level, p_due, p_seq);
      ELSEIF v_tried > 0 THEN
        INSERT INTO tarry.grp_note (topic, grp, due) VALUES (p_topic, COALESCE(p_was_grp, 2), 0);
        INSERT INTO tarry.notification (at, server, what, name, due) SELECT tarry.now_ms(), 0, 'l', name, 0 FROM tarry.topic WHERE topic = p_topic;
      END IF;
    END IF;
  END IF;
  IF p_seq IS NOT NULL THEN
    INSERT IGNORE INTO tarry.job_grp VALUES (p_topic, COALESCE(p_grp, 2), p_level, p_due, p_seq);
    INSERT INTO tarry.grp_note (topic, grp, due, seq) VALUES (p_topic, COALESCE(p_grp, 2), p_due, p_seq);
  END IF;
END//

-- Returns the number of a group, and creates it. The first group of a topic is begun by the upkeep, which is within a second after the commit.
DROP PROCEDURE IF EXISTS tarry.group_of//
CREATE PROCEDURE tarry.group_of(IN p_topic INT, IN p_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, OUT p_grp BIGINT)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  IF p_name NOT REGEXP '^[!-~]{1,64}$' THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'bad group, write 1 to 64 printable ASCII characters without blanks';
  END IF;
  -- Only if needed: it locks the row of the topic, which takes skip while it is locked.
  IF NOT EXISTS (SELECT 1 FROM tarry.topic WHERE topic = p_topic AND flow & 1 > 0) THEN
    CALL tarry.server_groups_begin(p_topic, 0);
  END IF;
  SELECT grp INTO p_grp FROM tarry.grp WHERE topic = p_topic AND name = p_name;
  IF p_grp IS NULL THEN
    INSERT IGNORE INTO tarry.grp (topic, name) VALUES (p_topic, p_name);
    SELECT grp INTO p_grp FROM tarry.grp WHERE topic = p_topic AND name = p_name FOR UPDATE; -- a snapshot of the caller's may be older than it
  END IF;
END//

-- Adds a change of a batch for the servers: the outcome of a member before and after (0 unfinished, 1 acked, 2 dead, 3 cancelled, 4 expired; before NULL: it is a
-- new member; both NULL: no change), and a mark of tarry.batch_add.
DROP PROCEDURE IF EXISTS tarry.add_to_batch//
CREATE PROCEDURE tarry.add_to_batch(IN p_batch BIGINT, IN p_before INT, IN p_after INT, IN p_mark INT)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  INSERT INTO tarry.batch_add (batch, unfinished, acked, dead, cancelled, expired, mark) VALUES (p_batch,
    COALESCE(p_after = 0, 0) - COALESCE(p_before = 0, 0), COALESCE(p_after = 1, 0) - COALESCE(p_before = 1, 0), COALESCE(p_after = 2, 0) - COALESCE(p_before = 2, 0),
    COALESCE(p_after = 3, 0) - COALESCE(p_before = 3, 0), COALESCE(p_after = 4, 0) - COALESCE(p_before = 4, 0), p_mark);
  IF p_before IS NOT NULL OR p_after IS NULL THEN -- a new member can wait for the upkeep
    INSERT INTO tarry.notification (at, server, what, name, due) VALUES (tarry.now_ms(), 0, 'b', '', 0);
  END IF;
END//

-- Checks whether a new member may join the batch of a waiting job, and keeps the batch from being closed until the end of the transaction.
DROP PROCEDURE IF EXISTS tarry.join_batch//
CREATE PROCEDURE tarry.join_batch(IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  OUT p_batch BIGINT, OUT p_form VARBINARY(400))
READS SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_closed, v_stopped, v_depth, v_topic INT;
  DECLARE v_members, v_total BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SELECT t.topic, j.own INTO v_topic, p_batch FROM tarry.topic t LEFT JOIN tarry.job j ON j.topic = t.topic AND j.id = p_id WHERE t.name = p_topic;
  IF p_batch IS NULL THEN -- a snapshot of the caller's may be older than it
    SELECT own INTO p_batch FROM tarry.job FORCE INDEX (job_id) WHERE topic = v_topic AND id = p_id LOCK IN SHARE MODE;
  END IF;
  SELECT closed INTO v_closed FROM tarry.batch_gate WHERE batch = p_batch LOCK IN SHARE MODE;
  IF v_closed IS NULL THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'no job of this topic and id waits for members, push it first by tarry.push_waiting';
  END IF;
  SELECT v_closed OR b.closed OR b.ended OR b.stopped OR COALESCE(MAX(a.mark IN (1, 3)), 0), b.depth, b.members,
      b.unfinished + b.acked + b.dead + b.cancelled + b.expired + COALESCE(SUM(a.unfinished + a.acked + a.dead + a.cancelled + a.expired), 0)
    INTO v_closed, v_depth, v_members, v_total
    FROM tarry.batch b LEFT JOIN tarry.batch_add a ON a.batch = b.batch WHERE b.batch = p_batch GROUP BY b.batch;
  IF v_closed OR (v_members > 0 AND v_total >= v_members) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the batch is closed, push its members before tarry.close';
  ELSEIF v_total >= 1000000 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the batch has 1,000,000 members';
  ELSEIF v_depth >= 16 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'members that wait for members have more than 16 levels';
  END IF;
  SET p_form = CONCAT(UNHEX('01'), tarry.varint(LENGTH(p_topic)), CAST(p_topic AS BINARY), tarry.varint(LENGTH(p_id)), CAST(p_id AS BINARY),
    tarry.varint(p_batch), tarry.varint(COALESCE(v_depth, 0) + 1));
END//

DROP PROCEDURE IF EXISTS tarry.push_with//
CREATE PROCEDURE tarry.push_with(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_delay_ms BIGINT, IN p_at_ms BIGINT, IN p_body LONGBLOB, IN p_content_type VARCHAR(255) CHARACTER SET utf8mb4, IN p_priority INT,
  IN p_on_conflict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
CALL tarry.push_any(p_topic, p_id, p_delay_ms, p_at_ms, p_body, p_content_type, p_priority, p_on_conflict, NULL, NULL, NULL, FALSE, NULL, NULL, NULL, NULL, p_result)//

DROP PROCEDURE IF EXISTS tarry.push_in_group//
CREATE PROCEDURE tarry.push_in_group(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_delay_ms BIGINT, IN p_at_ms BIGINT, IN p_body LONGBLOB, IN p_content_type VARCHAR(255) CHARACTER SET utf8mb4, IN p_priority INT,
  IN p_on_conflict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, IN p_group VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
CALL tarry.push_any(p_topic, p_id, p_delay_ms, p_at_ms, p_body, p_content_type, p_priority, p_on_conflict, p_group, NULL, NULL, FALSE, NULL, NULL, NULL, NULL, p_result)//

-- Pushes a member of the batch of a waiting job.
DROP PROCEDURE IF EXISTS tarry.push_member//
CREATE PROCEDURE tarry.push_member(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_delay_ms BIGINT, IN p_body LONGBLOB, IN p_batch_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_batch_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  IF p_batch_topic IS NULL OR p_batch_id IS NULL THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'batch_topic and batch_id belong together, give both';
  END IF;
  CALL tarry.push_any(p_topic, p_id, p_delay_ms, NULL, p_body, NULL, NULL, NULL, NULL, p_batch_topic, p_batch_id, FALSE, NULL, NULL, NULL, NULL, p_result);
END//

-- Pushes a job that waits for members, with the options of the API; NULL: the default. p_batch_topic, p_batch_id: it is also a member of another batch.
DROP PROCEDURE IF EXISTS tarry.push_waiting//
CREATE PROCEDURE tarry.push_waiting(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_delay_ms BIGINT, IN p_body LONGBLOB, IN p_members BIGINT, IN p_wait_at_most_ms BIGINT, IN p_close_within_ms BIGINT,
  IN p_on_dead VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, IN p_batch_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_batch_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
CALL tarry.push_any(p_topic, p_id, p_delay_ms, NULL, p_body, NULL, NULL, NULL, NULL, p_batch_topic, p_batch_id, TRUE, p_members, p_wait_at_most_ms, p_close_within_ms,
  p_on_dead, p_result)//

DROP PROCEDURE IF EXISTS tarry.push_any//
CREATE PROCEDURE tarry.push_any(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_delay_ms BIGINT, IN p_at_ms BIGINT, IN p_body LONGBLOB, IN p_content_type VARCHAR(255) CHARACTER SET utf8mb4, IN p_priority INT,
  IN p_on_conflict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, IN p_group VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_batch_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_batch_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_waits BOOLEAN,
  IN p_members BIGINT, IN p_wait_at_most_ms BIGINT, IN p_close_within_ms BIGINT, IN p_on_dead VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_topic, v_priority, v_topic_priority, v_how, v_state, v_attempt, v_was_level INT;
  DECLARE v_now, v_due, v_ttl, v_max_jobs, v_jobs, v_seq, v_saved, v_bytes, v_expire, v_history, v_was_due, v_was_seq, v_next, v_grp, v_was_grp, v_flow, v_most, v_first, v_own, v_batch, v_was_batch, v_was_own, v_named, v_found, v_depth BIGINT;
  DECLARE v_form, v_was_form VARBINARY(400);
  DECLARE v_exists TINYINT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET v_saved = LAST_INSERT_ID();
  IF p_topic IS NULL OR p_topic NOT REGEXP '^[A-Za-z0-9_+/;$()-][A-Za-z0-9._+/;$()-]{0,199}$' THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'bad topic';
  END IF;
  IF p_id IS NULL OR p_id NOT REGEXP '^[!-~]{1,128}$' OR p_id IN ('.', '..') THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'bad id';
  END IF;
  IF p_body IS NULL OR LENGTH(p_body) > 1048576 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'body is missing or above 1 MiB';
  END IF;
  IF p_priority < 0 OR p_priority > 65535 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'priority is not between 0 and 65535';
  END IF;
  IF p_content_type IS NOT NULL AND (LENGTH(p_content_type) > 128 OR p_content_type NOT REGEXP '^[ -~]*$') THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'bad content_type';
  END IF;
  IF p_on_conflict IS NOT NULL AND p_on_conflict NOT IN ('replace', 'keep', 'reject', 'after') THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'bad on_conflict, write replace, keep, reject or after';
  END IF;
  IF p_members < 1 OR p_members > 1000000 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'members is not between 1 and 1000000';
  END IF;
  IF p_wait_at_most_ms < 1 OR p_wait_at_most_ms > 315619200000 OR p_close_within_ms < 1 OR p_close_within_ms > 315619200000 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'wait_at_most_ms or close_within_ms is not between 1 ms and 10 years';
  END IF;
  IF p_on_dead IS NOT NULL AND p_on_dead NOT IN ('go', 'hold', 'stop') THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'bad on_dead, write go, hold or stop';
  END IF;
  IF (p_batch_topic IS NULL) <> (p_batch_id IS NULL) THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'batch_topic and batch_id belong together, give both';
  END IF;
  CALL tarry.may(p_topic);
  IF p_batch_topic IS NOT NULL THEN
    CALL tarry.may(p_batch_topic);
  END IF;
  SET v_now = tarry.now_ms();
  CALL tarry.due_of(v_now, p_delay_ms, p_at_ms, v_due);
  SET v_first = v_due;
  SELECT topic, priority, on_conflict, ttl, max_jobs, history, flow INTO v_topic, v_topic_priority, v_how, v_ttl, v_max_jobs, v_history, v_flow
    FROM tarry.topic WHERE name = p_topic;
  IF v_topic IS NULL THEN
    INSERT IGNORE INTO tarry.topic (name) VALUES (p_topic);
    SELECT topic, priority, on_conflict, ttl, max_jobs, history, flow INTO v_topic, v_topic_priority, v_how, v_ttl, v_max_jobs, v_history, v_flow
      FROM tarry.topic WHERE name = p_topic FOR UPDATE; -- a snapshot of the caller's may be older than it
  END IF;
  SET v_how = COALESCE(NULLIF(FIELD(p_on_conflict, 'replace', 'keep', 'reject', 'after'), 0), NULLIF(v_how, 0), 1);
  SET v_priority = COALESCE(p_priority, v_topic_priority, 100);
  IF EXISTS (SELECT 1 FROM tarry.finished WHERE topic = v_topic AND id = p_id AND until > v_now) THEN
    SET p_result = 'existed';
  ELSE
    IF v_max_jobs > 0 THEN
      SELECT topic INTO v_topic FROM tarry.topic WHERE topic = v_topic FOR UPDATE;
      SELECT COALESCE(SUM(x.jobs), 0) INTO v_jobs FROM (
        SELECT SUM(fresh + retry + leased + dead) jobs FROM tarry.tally WHERE topic = v_topic UNION ALL
        SELECT SUM(fresh + retry + leased + dead) FROM tarry.tally_add WHERE topic = v_topic) x;
      IF v_jobs >= v_max_jobs AND NOT EXISTS (SELECT 1 FROM tarry.job WHERE topic = v_topic AND id = p_id) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the topic has as many jobs as its max_jobs allows';
      END IF;
    END IF;
    IF p_group <> '' THEN
      CALL tarry.group_of(v_topic, p_group, v_grp);
      SET v_flow = v_flow | 1;
    END IF;
    IF v_flow & 16 > 0 THEN
      SELECT topic INTO v_topic FROM tarry.topic WHERE topic = v_topic FOR UPDATE;
      SELECT COALESCE(NULLIF(k.max_jobs, 0), NULLIF(t.group_max_jobs, 0)) INTO v_most FROM tarry.topic t JOIN tarry.grp k ON k.topic = t.topic
        WHERE t.topic = v_topic AND k.grp = COALESCE(v_grp, 2);
      IF v_most > 0 AND (SELECT COUNT(*) FROM tarry.job_grp WHERE topic = v_topic AND grp = COALESCE(v_grp, 2)) >= v_most
          AND NOT EXISTS (SELECT 1 FROM tarry.job WHERE topic = v_topic AND id = p_id) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the group has as many jobs as its max_jobs allows';
      END IF;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM tarry.level WHERE topic = v_topic AND level = v_priority) THEN
      INSERT IGNORE INTO tarry.level VALUES (v_topic, v_priority);
    END IF;
    INSERT INTO tarry.number () VALUES ();
    SET v_seq = LAST_INSERT_ID() * 4096;
    SET v_expire = IF(v_ttl > 0, v_due + v_ttl, NULL);
    IF p_waits THEN
      IF RAND() < 0.02 THEN -- not for each push: it reads all of them
        SELECT COUNT(*) INTO v_found FROM tarry.batch;
      END IF;
      IF v_found >= 100000 THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '100,000 jobs wait for members';
      END IF;
      SET v_own = v_seq, v_first = CASE WHEN p_delay_ms > 0 THEN -p_delay_ms WHEN p_at_ms IS NOT NULL THEN v_due ELSE 0 END, v_due = 140737488355328,
        v_expire = v_now + LEAST(COALESCE(p_wait_at_most_ms, 604800000), COALESCE(p_close_within_ms, 3600000)) + 1;
    END IF;
    SET v_found = NULL;
    IF p_batch_topic IS NOT NULL THEN -- no subquery: in MySQL one of IF, SET or INSERT locks what it reads
      SELECT seq INTO v_found FROM tarry.job WHERE topic = v_topic AND id = p_id;
      SELECT j.own INTO v_named FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic AND j.id = p_batch_id WHERE t.name = p_batch_topic;
    END IF;
    IF p_batch_topic IS NOT NULL AND v_found IS NULL THEN
      CALL tarry.join_batch(p_batch_topic, p_batch_id, v_batch, v_form);
    END IF;
    BEGIN -- insert first: who looks first with FOR UPDATE locks a gap at REPEATABLE READ, and two pushers of new ids deadlock
      DECLARE EXIT HANDLER FOR 1062 SET v_exists = 1;
      INSERT INTO tarry.job_key VALUES (v_topic, p_id);
      INSERT INTO tarry.job (topic, level, due, seq, id, by_sql, priority, first_due, expire, content_type, body_bytes, body, grp, batch, own, batches)
        VALUES (v_topic, v_priority, v_due, v_seq, p_id, 1, v_priority, v_first, v_expire, NULLIF(p_content_type, ''), LENGTH(p_body), p_body, v_grp,
          v_batch, v_own, v_form);
    END;
    IF NOT v_exists THEN
      SET p_result = 'created';
      IF v_batch IS NOT NULL THEN
        INSERT INTO tarry.member (batch, topic, id) VALUES (v_batch, v_topic, p_id);
        CALL tarry.add_to_batch(v_batch, NULL, 0, 0);
      END IF;
      IF v_flow & 1 > 0 THEN
        CALL tarry.move_job(v_topic, NULL, NULL, NULL, NULL, v_grp, v_priority, v_due, v_seq);
      END IF;
      INSERT INTO tarry.tally_add (topic, fresh, pushed) VALUES (v_topic, 1, 1);
      SELECT bytes INTO v_bytes FROM tarry.kept WHERE topic = v_topic AND id = p_id;
      IF v_bytes IS NOT NULL THEN -- an id names one job
        DELETE FROM tarry.kept WHERE topic = v_topic AND id = p_id;
        INSERT INTO tarry.tally_add (topic, kept, kept_bytes) VALUES (v_topic, -1, -v_bytes);
      END IF;
    ELSEIF v_how = 2 THEN
      SET p_result = 'existed';
      SELECT batch INTO v_was_batch FROM tarry.job WHERE topic = v_topic AND id = p_id;
      IF p_batch_topic IS NOT NULL AND NOT v_was_batch <=> v_named THEN
        SET p_result = 'conflict';
      END IF;
    ELSEIF v_how = 3 THEN SET p_result = 'conflict';
    ELSE
      CALL tarry.lock_job(v_topic, p_id, v_was_level, v_was_due, v_was_seq);
      SELECT state, attempt, body_bytes + COALESCE(LENGTH(meta), 0) + LENGTH(id) + 64, next_due, grp, batch, own, batches
        INTO v_state, v_attempt, v_bytes, v_next, v_was_grp, v_was_batch, v_was_own, v_was_form
        FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = v_topic AND level = v_was_level AND due = v_was_due AND seq = v_was_seq FOR UPDATE;
      IF v_state = 1 AND v_was_due = 140737488355328 THEN SET p_result = 'waits';
      ELSEIF p_batch_topic IS NOT NULL AND NOT v_named <=> v_was_batch AND (v_state <> 3 OR v_how = 4) THEN SET p_result = 'conflict';
      ELSEIF v_state = 3 AND p_waits THEN SET p_result = 'leased';
      ELSEIF v_state = 3 AND v_how = 4 THEN
        UPDATE tarry.job FORCE INDEX (PRIMARY) SET next_due = v_due, next_seq = v_seq, next_priority = v_priority, next_lease = NULL, next_ttl = NULL,
            next_backoff_kind = NULL, next_backoff_first = NULL, next_backoff_max = NULL, next_max_attempts = NULL,
            next_backoff_steps = NULL,
            next_content_type = NULLIF(p_content_type, ''), next_meta = NULL, next_body = p_body, next_grp = v_grp
          WHERE topic = v_topic AND level = v_was_level AND due = v_was_due AND seq = v_was_seq;
        SET p_result = IF(v_next IS NULL, 'created', 'replaced');
      ELSEIF v_state = 3 THEN SET p_result = 'leased';
      ELSE
        UPDATE tarry.job FORCE INDEX (PRIMARY) SET level = v_priority, priority = v_priority, due = v_due, seq = v_seq, state = 1, by_sql = 1, attempt = 0,
            first_due = v_first, own = v_own, delivery = 0, expire = v_expire, lease = NULL, ttl = NULL, backoff_kind = NULL, backoff_first = NULL,
            backoff_max = NULL, backoff_steps = NULL, max_attempts = NULL, content_type = NULLIF(p_content_type, ''), error = NULL, history = NULL, meta = NULL,
            body_bytes = LENGTH(p_body), body = p_body, grp = v_grp
          WHERE topic = v_topic AND level = v_was_level AND due = v_was_due AND seq = v_was_seq;
        IF v_flow & 1 > 0 THEN
          CALL tarry.move_job(v_topic, v_was_grp, v_was_level, v_was_due, v_was_seq, v_grp, v_priority, v_due, v_seq);
        END IF;
        SET p_result = 'replaced', v_batch = v_was_batch;
        IF v_was_own IS NOT NULL THEN
          CALL tarry.add_to_batch(v_was_own, NULL, NULL, 0);
        END IF;
        IF v_was_batch IS NOT NULL AND v_state = 4 THEN
          SET v_found = NULL;
          SELECT 1 INTO v_found FROM tarry.batch WHERE batch = v_was_batch AND stopped;
          IF v_found THEN -- it is an ordinary job
            UPDATE tarry.job FORCE INDEX (PRIMARY) SET batch = NULL, batches = NULL WHERE topic = v_topic AND level = v_priority AND due = v_due AND seq = v_seq;
            DELETE FROM tarry.member WHERE batch = v_was_batch AND topic = v_topic AND id = p_id;
          ELSE
            UPDATE tarry.member SET dead = 0 WHERE batch = v_was_batch AND topic = v_topic AND id = p_id;
            CALL tarry.add_to_batch(v_was_batch, 2, 0, 0);
          END IF;
        END IF;
        IF v_history > 0 THEN
          INSERT INTO tarry.history (at, topic, id, event, attempt, consumer)
            VALUES (v_now, v_topic, p_id, 'replaced', v_attempt, SUBSTRING_INDEX(USER(), '@', 1));
        END IF;
        INSERT INTO tarry.tally_add (topic, fresh, retry, dead, dead_bytes, replaced)
          VALUES (v_topic, 1 - (v_state = 1 AND v_attempt = 0), -(v_state = 1 AND v_attempt > 0), -(v_state = 4), IF(v_state = 4, -v_bytes, 0), 1);
      END IF;
    END IF;
    IF p_waits AND p_result IN ('created', 'replaced') THEN
      SELECT depth INTO v_depth FROM tarry.batch WHERE batch = v_batch;
      INSERT INTO tarry.batch_gate (batch) VALUES (v_own);
      INSERT INTO tarry.batch (batch, topic, id, on_dead, members, depth, wait_span, close_span, wait_until, close_by)
        VALUES (v_own, v_topic, p_id, COALESCE(NULLIF(FIELD(p_on_dead, 'go', 'hold', 'stop'), 0), 1), COALESCE(p_members, 0),
          IF(v_batch IS NULL, 0, COALESCE(v_depth, 0) + 1), COALESCE(p_wait_at_most_ms, 604800000),
          COALESCE(p_close_within_ms, 3600000), v_now + COALESCE(p_wait_at_most_ms, 604800000) + 1, v_now + COALESCE(p_close_within_ms, 3600000) + 1);
    END IF;
  END IF;
  DO LAST_INSERT_ID(v_saved);
END//

-- Pushes a job unless p_once was used in the topic within its time. The row of the once makes a second push wait for the first; a push that stores no
-- job leaves no row.
DROP PROCEDURE IF EXISTS tarry.push_once//
CREATE PROCEDURE tarry.push_once(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_delay_ms BIGINT, IN p_at_ms BIGINT, IN p_body LONGBLOB, IN p_content_type VARCHAR(255), IN p_priority INT,
  IN p_on_conflict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin, IN p_once VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_once_for_ms BIGINT,
  OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_topic INT;
  DECLARE v_now, v_saved BIGINT;
  DECLARE v_owns TINYINT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
    DELETE FROM tarry.finished WHERE v_owns AND topic = v_topic AND id = CONCAT(' ', p_once);
    RESIGNAL;
  END;
  SET v_saved = LAST_INSERT_ID();
  IF p_topic IS NULL OR p_topic NOT REGEXP '^[A-Za-z0-9_+/;$()-][A-Za-z0-9._+/;$()-]{0,199}$' THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'bad topic';
  END IF;
  IF p_once IS NULL OR p_once NOT REGEXP '^[!-~]{1,128}$' THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'bad once';
  END IF;
  IF p_once_for_ms < 1 OR p_once_for_ms > 315619200000 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'once_for is not between 1 ms and 10 years';
  END IF;
  CALL tarry.may(p_topic);
  SET v_now = tarry.now_ms();
  SELECT topic INTO v_topic FROM tarry.topic WHERE name = p_topic;
  IF v_topic IS NULL THEN
    INSERT IGNORE INTO tarry.topic (name) VALUES (p_topic);
    SELECT topic INTO v_topic FROM tarry.topic WHERE name = p_topic FOR UPDATE; -- a snapshot of the caller's may be older than it
  END IF;
  DELETE FROM tarry.finished WHERE topic = v_topic AND id = CONCAT(' ', p_once) AND until <= v_now;
  INSERT IGNORE INTO tarry.finished VALUES (v_topic, CONCAT(' ', p_once), v_now + COALESCE(p_once_for_ms, 300000) + 1);
  IF ROW_COUNT() = 0 THEN
    SET p_result = 'existed';
  ELSE
    SET v_owns = 1;
    CALL tarry.push_with(p_topic, p_id, p_delay_ms, p_at_ms, p_body, p_content_type, p_priority, p_on_conflict, p_result);
    IF p_result NOT IN ('created', 'replaced') THEN
      DELETE FROM tarry.finished WHERE topic = v_topic AND id = CONCAT(' ', p_once);
    END IF;
  END IF;
  DO LAST_INSERT_ID(v_saved);
END//

DROP PROCEDURE IF EXISTS tarry.push//
CREATE PROCEDURE tarry.push(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_delay_ms BIGINT, IN p_body LONGBLOB, OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
CALL tarry.push_with(p_topic, p_id, p_delay_ms, NULL, p_body, NULL, NULL, NULL, p_result)//

-- Cancels a job. If the job is leased, no lock on it remains, except at REPEATABLE READ, where the database keeps it. A request to its holder,
-- or the removal of its successor, does keep a lock: it belongs at the end of a transaction.
DROP PROCEDURE IF EXISTS tarry.cancel_with//
CREATE PROCEDURE tarry.cancel_with(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_request BOOLEAN, OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_topic, v_level, v_state, v_attempt INT;
  DECLARE v_due, v_seq, v_bytes, v_window, v_saved, v_history, v_next, v_keep, v_now, v_grp, v_flow, v_batch, v_own BIGINT;
  DECLARE v_keep_body TINYINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  SET v_saved = LAST_INSERT_ID();
  CALL tarry.may(p_topic);
  SET p_result = 'not_found';
  SELECT topic, dedup_window, history, keep_finished, keep_body, flow INTO v_topic, v_window, v_history, v_keep, v_keep_body, v_flow FROM tarry.topic WHERE name = p_topic;
  SELECT state, next_due INTO v_state, v_next FROM tarry.job WHERE topic = v_topic AND id = p_id;
  IF v_state = 3 AND v_next IS NULL AND p_request IS NOT TRUE THEN
    SET p_result = 'leased';
  ELSEIF v_topic IS NOT NULL THEN
    SET v_state = NULL;
    CALL tarry.lock_job(v_topic, p_id, v_level, v_due, v_seq);
    SELECT state, attempt, body_bytes + COALESCE(LENGTH(meta), 0) + LENGTH(id) + 64, COALESCE(keep, v_keep), grp, batch, own
      INTO v_state, v_attempt, v_bytes, v_keep, v_grp, v_batch, v_own
      FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = v_topic AND level = v_level AND due = v_due AND seq = v_seq FOR UPDATE;
    IF v_state = 3 AND p_request THEN
      UPDATE tarry.job SET cancel_requested = 1, next_due = NULL, next_body = NULL
        WHERE topic = v_topic AND level = v_level AND due = v_due AND seq = v_seq;
      SET p_result = 'requested';
    ELSEIF v_state = 3 THEN -- only its successor is removed
      UPDATE tarry.job SET next_due = NULL, next_body = NULL WHERE topic = v_topic AND level = v_level AND due = v_due AND seq = v_seq;
      SET p_result = 'leased';
    ELSEIF v_state IS NOT NULL THEN
      IF v_keep > 0 THEN
        SET v_now = tarry.now_ms();
        INSERT INTO tarry.kept (topic, id, until, at, seq, first_due, taken, bytes, priority, attempt, outcome, meta, error, history, content_type, body, batches)
          SELECT topic, id, v_now + v_keep + 1, v_now, seq, first_due, 0, LENGTH(id) + COALESCE(LENGTH(meta), 0) + IF(v_keep_body, body_bytes, 0) + 64,
              priority, attempt, 2, meta, error, history, IF(v_keep_body, content_type, NULL), IF(v_keep_body, body, NULL), batches
            FROM tarry.job FORCE INDEX (PRIMARY) WHERE topic = v_topic AND level = v_level AND due = v_due AND seq = v_seq;
        INSERT INTO tarry.tally_add (topic, kept, kept_bytes) SELECT topic, 1, bytes FROM tarry.kept WHERE topic = v_topic AND id = p_id;
      END IF;
      IF EXISTS (SELECT 1 FROM tarry.awaited) THEN
        UPDATE tarry.awaited SET outcome = 2, at = tarry.now_ms(), attempt = v_attempt WHERE topic = p_topic AND id = p_id AND outcome IS NULL;
      END IF;
      DELETE FROM tarry.job WHERE topic = v_topic AND level = v_level AND due = v_due AND seq = v_seq;
      DELETE FROM tarry.job_key WHERE topic = v_topic AND id = p_id;
      IF v_flow & 1 > 0 THEN
        CALL tarry.move_job(v_topic, v_grp, v_level, v_due, v_seq, NULL, NULL, NULL, NULL);
      END IF;
      SET p_result = 'cancelled';
      IF v_batch IS NOT NULL THEN
        DELETE FROM tarry.member WHERE batch = v_batch AND topic = v_topic AND id = p_id;
        CALL tarry.add_to_batch(v_batch, IF(v_state = 4, 2, 0), 3, 0);
      END IF;
      IF v_own IS NOT NULL THEN
        CALL tarry.add_to_batch(v_own, NULL, NULL, 0);
      END IF;
      IF v_history > 0 THEN
        INSERT INTO tarry.history (at, topic, id, event, attempt, consumer)
          VALUES (tarry.now_ms(), v_topic, p_id, 'cancelled', v_attempt, SUBSTRING_INDEX(USER(), '@', 1));
      END IF;
      INSERT INTO tarry.tally_add (topic, fresh, retry, dead, dead_bytes, cancelled)
        VALUES (v_topic, -(v_state = 1 AND v_attempt = 0), -(v_state = 1 AND v_attempt > 0), -(v_state = 4), IF(v_state = 4, -v_bytes, 0), 1);
      IF v_window > 0 THEN
        INSERT INTO tarry.finished VALUES (v_topic, p_id, tarry.now_ms() + v_window + 1) ON DUPLICATE KEY UPDATE until = VALUES(until);
      END IF;
    END IF;
  END IF;
  DO LAST_INSERT_ID(v_saved);
END//

DROP PROCEDURE IF EXISTS tarry.cancel//
CREATE PROCEDURE tarry.cancel(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
CALL tarry.cancel_with(p_topic, p_id, FALSE, p_result)//

DROP PROCEDURE IF EXISTS tarry.reschedule//
CREATE PROCEDURE tarry.reschedule(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  IN p_delay_ms BIGINT, IN p_at_ms BIGINT, IN p_priority INT, OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_topic, v_state, v_priority, v_was_level INT;
  DECLARE v_now, v_due, v_first, v_ttl, v_own_ttl, v_was_due, v_was_seq, v_grp, v_flow, v_expire BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  CALL tarry.may(p_topic);
  IF p_priority < 0 OR p_priority > 65535 THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'priority is not between 0 and 65535';
  END IF;
  IF p_delay_ms IS NULL AND p_at_ms IS NULL AND p_priority IS NULL THEN
    SIGNAL SQLSTATE '22023' SET MESSAGE_TEXT = 'nothing to change, give delay_ms, at_ms or priority';
  END IF;
  SET v_now = tarry.now_ms(), p_result = 'not_found';
  CALL tarry.due_of(v_now, p_delay_ms, p_at_ms, v_due);
  SELECT topic, ttl, flow INTO v_topic, v_ttl, v_flow FROM tarry.topic WHERE name = p_topic;
  SELECT state INTO v_state FROM tarry.job WHERE topic = v_topic AND id = p_id;
  IF v_state = 1 THEN
    SET v_state = NULL;
    CALL tarry.lock_job(v_topic, p_id, v_was_level, v_was_due, v_was_seq);
    SELECT state, priority, IF(p_delay_ms IS NULL AND p_at_ms IS NULL, due, v_due), IF(p_delay_ms IS NULL AND p_at_ms IS NULL, first_due, v_due), ttl, grp, expire
      INTO v_state, v_priority, v_due, v_first, v_own_ttl, v_grp, v_expire FROM tarry.job FORCE INDEX (PRIMARY)
      WHERE topic = v_topic AND level = v_was_level AND due = v_was_due AND seq = v_was_seq FOR UPDATE;
  END IF;
  IF v_state = 1 THEN
    SET v_priority = COALESCE(p_priority, v_priority);
    IF NOT EXISTS (SELECT 1 FROM tarry.level WHERE topic = v_topic AND level = v_priority) THEN
      INSERT IGNORE INTO tarry.level VALUES (v_topic, v_priority);
    END IF;
    SET v_ttl = COALESCE(v_own_ttl, NULLIF(v_ttl, 0)), v_expire = IF(v_was_due = 140737488355328, v_expire, GREATEST(v_due, v_first + v_ttl));
    IF v_was_due = 140737488355328 THEN -- it waits for members: this sets its due after the end of the wait
      SET v_due = v_was_due, v_first = CASE WHEN p_delay_ms > 0 THEN -p_delay_ms WHEN p_at_ms IS NOT NULL THEN v_first WHEN p_delay_ms IS NULL THEN v_first ELSE 0 END;
    END IF;
    UPDATE tarry.job FORCE INDEX (PRIMARY) SET due = v_due, first_due = v_first, priority = v_priority, level = v_priority, by_sql = 1,
        expire = v_expire WHERE topic = v_topic AND level = v_was_level AND due = v_was_due AND seq = v_was_seq;
    IF v_flow & 1 > 0 THEN
      CALL tarry.move_job(v_topic, v_grp, v_was_level, v_was_due, v_was_seq, v_grp, v_priority, v_due, v_was_seq);
    END IF;
    SET p_result = 'ok';
  ELSEIF v_state IS NOT NULL THEN
    SET p_result = IF(v_state = 3, 'leased', 'dead');
  END IF;
END//

DROP PROCEDURE IF EXISTS tarry.run//
CREATE PROCEDURE tarry.run(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_own BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  CALL tarry.may(p_topic);
  SELECT j.own INTO v_own FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic WHERE t.name = p_topic AND j.id = p_id AND j.state = 1 AND j.due = 140737488355328;
  IF v_own IS NOT NULL THEN -- it waits for members: the servers end its wait
    CALL tarry.add_to_batch(v_own, NULL, NULL, 4);
    SET p_result = 'ok';
  ELSEIF EXISTS (SELECT 1 FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic
      WHERE t.name = p_topic AND j.id = p_id AND j.state = 1 AND j.due <= tarry.now_ms()) THEN
    SET p_result = 'ok'; -- it is due already, and keeps its place
  ELSE
    CALL tarry.reschedule(p_topic, p_id, 0, NULL, NULL, p_result);
  END IF;
END//

-- Closes the batch of a waiting job: it gets no more members.
DROP PROCEDURE IF EXISTS tarry.close//
CREATE PROCEDURE tarry.close(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
  OUT p_result VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
  DECLARE v_own BIGINT;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  CALL tarry.may(p_topic);
  SET p_result = 'not_found';
  SELECT j.own INTO v_own FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic WHERE t.name = p_topic AND j.id = p_id;
  IF v_own IS NOT NULL THEN
    CALL tarry.add_to_batch(v_own, NULL, NULL, 1);
    SET p_result = 'ok';
  END IF;
END//

-- Returns a row: state, due, attempt, priority, body; NULLs if there is no such job.
DROP PROCEDURE IF EXISTS tarry.get//
CREATE PROCEDURE tarry.get(
  IN p_topic VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, IN p_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
READS SQL DATA SQL SECURITY DEFINER
BEGIN
  CALL tarry.may(p_topic);
  SELECT CASE WHEN j.state = 1 AND j.due > tarry.now_ms() THEN 'delayed' WHEN j.state = 1 THEN 'ready' WHEN j.state = 3 THEN 'leased'
      WHEN j.state = 4 THEN 'dead' WHEN k.at IS NOT NULL THEN 'finished' END AS state, FROM_UNIXTIME((NULLIF(j.due, 140737488355328) - s.adjust_ms) / 1000) AS due,
      COALESCE(j.attempt, k.attempt) AS attempt, COALESCE(j.priority, k.priority) AS priority, COALESCE(j.body, k.body) AS body,
      ELT(k.outcome, 'acked', 'cancelled', 'expired') AS outcome, FROM_UNIXTIME((k.at - s.adjust_ms) / 1000) AS finished_at,
      CONVERT(k.result_type USING utf8mb4) AS content_type, k.result
    FROM tarry.store s LEFT JOIN (tarry.job j JOIN tarry.topic t ON t.topic = j.topic) ON t.name = p_topic AND j.id = p_id
      LEFT JOIN (tarry.kept k JOIN tarry.topic u ON u.topic = k.topic) ON u.name = p_topic AND k.id = p_id AND k.until > tarry.now_ms()
    WHERE s.one = 1;
END//

DELIMITER ;

-- Pushes by INSERT, for users without other rights: each row is a push; the upkeep empties the table. A faulty row fails the
-- statement.
CREATE TABLE IF NOT EXISTS tarry.outbox (
  n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  topic VARCHAR(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, id VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  delay_ms BIGINT, at_ms BIGINT, body LONGBLOB NOT NULL, content_type VARCHAR(128) CHARACTER SET utf8mb4, priority INT,
  on_conflict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin
) ENGINE=InnoDB;

DELIMITER //

DROP TRIGGER IF EXISTS tarry.outbox_push//
CREATE TRIGGER tarry.outbox_push AFTER INSERT ON tarry.outbox FOR EACH ROW
BEGIN
  DECLARE v_result VARCHAR(16) CHARACTER SET ascii;
  CALL tarry.push_with(NEW.topic, NEW.id, NEW.delay_ms, NEW.at_ms, NEW.body, NEW.content_type, NEW.priority, NEW.on_conflict, v_result);
END//

DELIMITER ;

-- ---- for people ----

CREATE OR REPLACE SQL SECURITY DEFINER VIEW tarry.jobs AS
  SELECT t.name AS topic, j.id,
    CASE WHEN j.state = 1 AND j.due > tarry.now_ms() THEN 'delayed' WHEN j.state = 1 THEN 'ready' WHEN j.state = 3 THEN 'leased' ELSE 'dead' END AS state,
    FROM_UNIXTIME((NULLIF(j.due, 140737488355328) - s.adjust_ms) / 1000) AS due, j.priority, j.attempt, j.body_bytes, CONVERT(j.error USING utf8mb4) AS error
  FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic JOIN tarry.store s ON s.one = 1 WHERE t.name IS NOT NULL;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW tarry.batches AS
  SELECT t.name AS topic, b.id, b.closed OR COALESCE(a.closes, 0) AS closed, b.ended,
    b.unfinished + COALESCE(a.unfinished, 0) + IF(b.on_dead = 2, b.dead + COALESCE(a.dead, 0), 0) AS waits_for, b.unfinished + COALESCE(a.unfinished, 0) AS unfinished,
    b.acked + COALESCE(a.acked, 0) AS acked, b.dead + COALESCE(a.dead, 0) AS dead, b.cancelled + COALESCE(a.cancelled, 0) AS cancelled,
    b.expired + COALESCE(a.expired, 0) AS expired, ELT(b.on_dead, 'go', 'hold', 'stop') AS on_dead, FROM_UNIXTIME((b.wait_until - s.adjust_ms) / 1000) AS wait_until
  FROM tarry.batch b JOIN tarry.topic t ON t.topic = b.topic JOIN tarry.store s ON s.one = 1 LEFT JOIN (
    SELECT batch, SUM(unfinished) AS unfinished, SUM(acked) AS acked, SUM(dead) AS dead, SUM(cancelled) AS cancelled, SUM(expired) AS expired, MAX(mark IN (1, 3)) AS closes
      FROM tarry.batch_add GROUP BY batch) a ON a.batch = b.batch AND NOT b.ended
  WHERE t.name IS NOT NULL;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW tarry.topics AS
  SELECT t.name AS topic, t.paused AND (t.paused_until = 0 OR t.paused_until > tarry.now_ms()) AS paused,
    COALESCE(c.waiting, 0) AS waiting, COALESCE(c.leased, 0) AS leased, COALESCE(c.dead, 0) AS dead,
    COALESCE(c.pushed, 0) AS pushed, COALESCE(c.acked, 0) AS acked, COALESCE(c.cancelled, 0) AS cancelled,
    COALESCE(c.expired, 0) AS expired, COALESCE(c.died, 0) AS died
  FROM tarry.topic t LEFT JOIN (
    SELECT topic, SUM(fresh + retry) AS waiting, SUM(leased) AS leased, SUM(dead) AS dead, SUM(pushed) AS pushed, SUM(acked) AS acked,
        SUM(cancelled) AS cancelled, SUM(expired) AS expired, SUM(died) AS died
      FROM (SELECT topic, fresh, retry, leased, dead, pushed, acked, cancelled, expired, died FROM tarry.tally UNION ALL
        SELECT topic, fresh, retry, leased, dead, pushed, acked, cancelled, expired, died FROM tarry.tally_add) y GROUP BY topic) c ON c.topic = t.topic
  WHERE t.name IS NOT NULL;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW tarry.job_history AS
  SELECT t.name AS topic, h.id, FROM_UNIXTIME((h.at - s.adjust_ms) / 1000) AS at, h.event, h.attempt, FROM_UNIXTIME((h.started - s.adjust_ms) / 1000) AS started,
    CONVERT(h.consumer USING utf8mb4) AS consumer, CONVERT(h.error USING utf8mb4) AS error, h.n AS number
  FROM tarry.history h JOIN tarry.topic t ON t.topic = h.topic JOIN tarry.store s ON s.one = 1
  WHERE t.name IS NOT NULL AND h.at >= tarry.now_ms() - t.history;

CREATE OR REPLACE SQL SECURITY DEFINER VIEW tarry.finished_jobs AS
  SELECT t.name AS topic, k.id, ELT(k.outcome, 'acked', 'cancelled', 'expired') AS outcome, FROM_UNIXTIME((k.at - s.adjust_ms) / 1000) AS finished_at,
    k.attempt, FROM_UNIXTIME((NULLIF(k.taken, 0) - s.adjust_ms) / 1000) AS started_at, CONVERT(k.consumer USING utf8mb4) AS consumer,
    CONVERT(k.progress USING utf8mb4) AS progress, CONVERT(k.result_type USING utf8mb4) AS content_type, k.result, k.body,
    FROM_UNIXTIME((k.until - s.adjust_ms) / 1000) AS kept_until
  FROM tarry.kept k JOIN tarry.topic t ON t.topic = k.topic JOIN tarry.store s ON s.one = 1
  WHERE t.name IS NOT NULL AND k.until > tarry.now_ms();

-- A view for mykit-delay's reports: status 1 waits, 2 is due or handed out, 3 done, 4 ended undone, 6 dead. A finished job is read from
-- its history, which has no body; the time of the push is not kept.
CREATE OR REPLACE SQL SECURITY DEFINER VIEW tarry.mykit_delay_queue_job AS
  SELECT j.id, NULL AS bizkey, t.name AS topic, NULL AS subtopic, NULL AS delay, NULL AS create_time, j.body,
    CASE WHEN j.state = 4 THEN 6 WHEN j.state = 1 AND j.due > tarry.now_ms() THEN 1 ELSE 2 END AS status,
    COALESCE(j.ttl, NULLIF(t.ttl, 0)) DIV 1000 AS ttl, FROM_UNIXTIME((GREATEST(j.taken, j.due) - s.adjust_ms) / 1000) AS update_time
  FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic JOIN tarry.store s ON s.one = 1 WHERE t.name IS NOT NULL
  UNION ALL
  SELECT h.id, NULL, h.topic, NULL, NULL, NULL, NULL, IF(h.event = 'acked', 3, 4), NULL, h.at
  FROM (SELECT id, topic, event, at, ROW_NUMBER() OVER (PARTITION BY topic, id ORDER BY number DESC) AS newest FROM tarry.job_history
    WHERE event IN ('acked', 'cancelled', 'expired', 'purged')) h
  WHERE h.newest = 1 AND NOT EXISTS (SELECT 1 FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic WHERE t.name = h.topic AND j.id = h.id);

CREATE OR REPLACE SQL SECURITY DEFINER VIEW tarry.mykit_delay_queue_job_log AS
  SELECT id, CASE event WHEN 'acked' THEN 3 WHEN 'died' THEN 6 WHEN 'nacked' THEN 6 WHEN 'lease_ended' THEN 6 WHEN 'redriven' THEN 5
      WHEN 'returned' THEN 5 ELSE 4 END AS status, consumer AS thread, at AS update_time
  FROM tarry.job_history;

INSERT IGNORE INTO tarry.schema_version (version, oldest_reader) VALUES (1, 1);
