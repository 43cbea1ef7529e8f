-- The schema tarry, version 1: the tables, and the functions that servers and users call.
--
-- Names that begin with an underscore are the servers' own. Times are milliseconds since 1970 of
-- tarry.now_ms(), due dates are rounded up. Everything a job is decided by is in its row, so each
-- change is conditional on that; servers remember only where to look.
-- A schema that already exists is used as it is: CREATE SCHEMA IF NOT EXISTS would require a right on the database.
DO $$ BEGIN
  IF to_regnamespace('tarry') IS NULL THEN CREATE SCHEMA tarry; END IF;
END $$;

CREATE TABLE tarry.schema_version (
  version int PRIMARY KEY,
  oldest_reader int NOT NULL, -- servers of this version and above may use the schema
  at timestamptz NOT NULL DEFAULT now(),
  fingerprint text -- of the text of this schema, set after its last statement
);

CREATE TABLE tarry.store (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  name text NOT NULL,        -- the store's own random name
  lease_key bytea NOT NULL,  -- signs leases
  adjust_ms bigint NOT NULL DEFAULT 0, -- what its clock is put ahead of the database's
  timeline bigint NOT NULL DEFAULT 0 -- of PostgreSQL, when that was right: another one is another machine, whose clock may be
);
INSERT INTO tarry.store (name, lease_key)
  VALUES (replace(gen_random_uuid()::text, '-', ''), uuid_send(gen_random_uuid()));

CREATE TABLE tarry.topic (
  topic int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" UNIQUE CHECK (octet_length(name) <= 200 AND name ~ '^[A-Za-z0-9_+/;$()-][A-Za-z0-9._+/;$()-]*$'), -- NULL: deleted, its rows go in steps
  paused boolean NOT NULL DEFAULT false,
  paused_until bigint NOT NULL DEFAULT 0, -- 0: until resumed; of a deleted one: since when
  lease bigint NOT NULL DEFAULT 0, ttl bigint NOT NULL DEFAULT 0, -- 0 in a setting: not set
  backoff_kind int NOT NULL DEFAULT 0, backoff_first bigint NOT NULL DEFAULT 0, backoff_max bigint NOT NULL DEFAULT 0,
  backoff_steps text, -- of a list (kind 4): milliseconds, with commas
  max_attempts bigint NOT NULL DEFAULT 0,
  on_conflict int NOT NULL DEFAULT 0, priority int, dead_letter_expired boolean NOT NULL DEFAULT false,
  dedup_window bigint NOT NULL DEFAULT 0, max_jobs bigint NOT NULL DEFAULT 0,
  push_rate_count bigint NOT NULL DEFAULT 0, push_rate_unit int NOT NULL DEFAULT 0,
  history bigint NOT NULL DEFAULT 0, -- how long its history is kept
  keep_finished bigint NOT NULL DEFAULT 0, keep_finished_max bigint NOT NULL DEFAULT 0, keep_finished_bytes bigint NOT NULL DEFAULT 0,
  keep_body boolean NOT NULL DEFAULT false,
  extension bytea NOT NULL DEFAULT '',
  -- 0: takes need no look at tarry.grp. Sum of: 1 it has groups, 2 its leases are counted, because it has a limit, 4 it has a rate or a hold.
  flow int NOT NULL DEFAULT 0, -- and 8: groups have limits of their own, 16: groups have a limit of jobs, 32: its order is strict, 64: groups have rates of their own
  flow_begun bigint, -- the transaction that made its jobs those of groups, until all transactions before that have ended
  lim bigint NOT NULL DEFAULT 0, rate_count bigint NOT NULL DEFAULT 0, rate_unit int NOT NULL DEFAULT 0, burst bigint NOT NULL DEFAULT 0,
  group_lim bigint NOT NULL DEFAULT 0, group_rate_count bigint NOT NULL DEFAULT 0, group_rate_unit int NOT NULL DEFAULT 0,
  group_burst bigint NOT NULL DEFAULT 0, group_max_jobs bigint NOT NULL DEFAULT 0, group_order int NOT NULL DEFAULT 0,
  one_shard boolean NOT NULL DEFAULT false -- without an effect here, as a database is one shard
);

CREATE INDEX topic_flow_begun ON tarry.topic (topic) WHERE flow_begun IS NOT NULL;

CREATE SEQUENCE tarry.sequence; -- push order; and whatever makes a job wait takes a number, so servers know whether there is anything new
CREATE SEQUENCE tarry.delivery; -- delivery numbers: they rise over all topics and servers, with gaps
CREATE SEQUENCE tarry.server_number;

-- A push onto a job on lease (on_conflict after): it becomes the job when the lease ends.
CREATE TYPE tarry.successor AS (
  due bigint, seq bigint, priority int, lease bigint, ttl bigint, backoff_kind int, backoff_first bigint, backoff_max bigint, max_attempts bigint,
  content_type bytea, meta bytea, body bytea, keep bigint, backoff_steps text, grp int);

-- Jobs. A take changes no indexed column, so it is a heap-only update.
CREATE TABLE tarry.job (
  due bigint NOT NULL, seq bigint NOT NULL, first_due bigint NOT NULL,
  lease_until bigint NOT NULL DEFAULT 0, taken bigint NOT NULL DEFAULT 0, lease_span bigint NOT NULL DEFAULT 0,
  delivery bigint NOT NULL DEFAULT 0, server bigint NOT NULL DEFAULT 0,
  topic int NOT NULL, level int NOT NULL, -- the priority level; 70000 if the job is dead
  priority int NOT NULL, attempt int NOT NULL DEFAULT 0,
  state smallint NOT NULL DEFAULT 1, -- 1 waits (delayed, or ready once due), 3 leased, 4 dead
  by_sql boolean NOT NULL DEFAULT false,
  tried boolean NOT NULL DEFAULT false, -- it waits after an attempt, in a topic with strict order; a take does not change that
  id text COLLATE "C" NOT NULL CHECK (octet_length(id) BETWEEN 1 AND 128), -- of what letters: see tarry.push; a check is made with each change of a row
  expire bigint, -- when it goes where it is not taken: the end of its ttl, not before its due
  lease bigint, ttl bigint, backoff_kind int, backoff_first bigint, backoff_max bigint, max_attempts bigint,
  content_type bytea, meta bytea, error bytea, history bytea[], body bytea NOT NULL,
  consumer text, -- name of the consumer that holds it
  cancel_requested boolean NOT NULL DEFAULT false, -- of one on lease: every end of that but an ack cancels it
  next tarry.successor, -- of one on lease
  keep bigint, -- how long it is kept when it has finished; 0: not; NULL: as its topic keeps its jobs
  progress bytea, -- of one on lease: as its consumer reported it
  backoff_steps text, -- of a list (kind 4): milliseconds, with commas
  grp int, -- number of its group; NULL in a topic without groups
  slot smallint NOT NULL DEFAULT 0, -- what its lease is counted in, as topic.flow: 1 its group, 2 its topic. Valid while it is leased
  batch bigint, -- number of the batch whose member it is
  own bigint, -- number of its own batch. While it waits for its members its due is tarry._wait_due(), and first_due what its due will be
  batches bytea, -- of a member: its batch, as job/batch.h stores it
  PRIMARY KEY (topic, id)
) WITH (fillfactor = 50, -- room for a second version of each row: a backlog that is taken in one step stays in its pages, and out of the indexes
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX job_due ON tarry.job (topic, level, due, seq);
CREATE INDEX job_expire ON tarry.job (expire) WHERE expire IS NOT NULL;
CREATE INDEX job_grp ON tarry.job (topic, grp, level, due, seq) WHERE grp IS NOT NULL;
CREATE INDEX job_batch ON tarry.job (batch) WHERE batch IS NOT NULL;
CREATE INDEX job_tried ON tarry.job (topic, grp) WHERE tried;

-- The planner's statistics must not depend on whether the table is new, or empty now: a topic never narrows a search down by
-- itself.
ALTER TABLE tarry.job ALTER topic SET (n_distinct = 1), ALTER level SET (n_distinct = 1);
INSERT INTO tarry.job (due, seq, first_due, topic, level, priority, id, body, grp, batch) SELECT i, i, i, 0, 0, 0, i, '', i, i FROM generate_series(1, 1000) i;
ANALYZE tarry.job;
DELETE FROM tarry.job;

-- The priority levels in which a topic has jobs. A take reads them here instead of searching an index full of dead entries for the next level.
-- An empty level is deleted by the upkeep in three steps, because transactions that read it may still insert their job:
-- it is marked as idle; once that is visible, it gets the number of the next transaction; once all earlier transactions have ended, and it is
-- still empty and marked, it is deleted. A transaction that adds a job removes the mark.
CREATE TABLE tarry.level (topic int, level int, idle boolean NOT NULL DEFAULT false, after bigint, PRIMARY KEY (topic, level)) WITH (fillfactor = 50);
CREATE INDEX level_idle ON tarry.level (topic, level) WHERE idle;

-- Finished jobs: ids that are remembered until a time (dedup_window; also a once, behind a blank), and jobs that are kept until a time
-- (keep_finished). 0: not, or no longer. The upkeep ends both separately; the one that ends last deletes the row. The id of a kept job has no row
-- in tarry.job.
CREATE TABLE tarry.finished (
  topic int, id text COLLATE "C", until bigint NOT NULL, kept bigint NOT NULL DEFAULT 0,
  at bigint, seq bigint, first_due bigint, taken bigint, -- when it finished; the others as in its job
  bytes int, -- that count against keep_finished_bytes
  priority int, attempt int,
  outcome smallint, -- 1 acked, 2 cancelled, 3 expired
  consumer text, -- of the last attempt
  meta bytea, error bytea, history bytea[], progress bytea,
  result_type bytea, result bytea, -- of the ack
  content_type bytea, body bytea, -- if the topic keeps bodies
  batches bytea, -- as in its job
  PRIMARY KEY (topic, id));
CREATE INDEX finished_until ON tarry.finished (until) WHERE until > 0;
CREATE INDEX finished_kept ON tarry.finished (kept) WHERE kept > 0;
CREATE INDEX finished_at ON tarry.finished (topic, at, seq) WHERE at IS NOT NULL;
-- No plan may depend on how many jobs were kept when the statistics were made: each query below leaves one index to the planner. `kept + 0` is not a
-- condition of an index.
ALTER TABLE tarry.finished ALTER topic SET (n_distinct = 1);
INSERT INTO tarry.finished (topic, id, until, kept, at, seq) SELECT 0, i, i, i, i, i FROM generate_series(1, 1000) i;
ANALYZE tarry.finished;
DELETE FROM tarry.finished;

-- Jobs whose end a client of a server waits for. The transaction that ends the job sets how it ended, and notifies that server. Empty most of the time.
CREATE TABLE tarry.awaited (
  topic text COLLATE "C", id text COLLATE "C", server bigint,
  outcome smallint, -- NULL: it has not ended; 1 acked, 2 cancelled, 3 expired, 4 dead, 9 it was purged
  at bigint, taken bigint, attempt int, consumer text, result_type bytea, result bytea,
  PRIMARY KEY (topic, id, server)) WITH (autovacuum_vacuum_threshold = 20, autovacuum_vacuum_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX awaited_ended ON tarry.awaited (server) WHERE outcome IS NOT NULL;

-- Groups of the jobs of topics (job/flow.h). -1 is the topic itself, 0 the jobs without a group. Takes lock the row of a group; all other transactions add
-- rows to tarry.grp_note instead, so none of them waits for another one.
CREATE SEQUENCE tarry.grp_number;
CREATE TABLE tarry.grp (
  topic int, grp int, name text COLLATE "C" NOT NULL, -- '-' followed by a blank: the topic
  is_set boolean NOT NULL DEFAULT false, -- it has settings of its own
  weight int NOT NULL DEFAULT 1, lim bigint NOT NULL DEFAULT 0, rate_count bigint NOT NULL DEFAULT 0, rate_unit int NOT NULL DEFAULT 0,
  burst bigint NOT NULL DEFAULT 0, paused boolean NOT NULL DEFAULT false, paused_until bigint NOT NULL DEFAULT 0,
  in_flight bigint NOT NULL DEFAULT 0, -- leases; of the topic: only while it has a limit
  pass bigint NOT NULL DEFAULT 0, -- of the topic: that of the group that was served last
  full_us bigint NOT NULL DEFAULT 0, held_until bigint NOT NULL DEFAULT 0,
  next_due bigint NOT NULL DEFAULT 9223372036854775807, -- none of its jobs waits before that
  next_seq bigint NOT NULL DEFAULT 0, -- of its first job, if next_due is exact
  is_ready boolean NOT NULL DEFAULT false, -- had a ready job after the last take
  own_weight int NOT NULL DEFAULT 0, max_jobs bigint NOT NULL DEFAULT 0,
  idle boolean NOT NULL DEFAULT false, after bigint, -- as of tarry.level
  PRIMARY KEY (topic, grp), UNIQUE (topic, name)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
-- What happened to groups: leases that ended (freed; below 0: that began), a job that waits since, a hold. A take, or the upkeep, adds them to the rows of the groups.
CREATE TABLE tarry.grp_note (topic int NOT NULL, grp int NOT NULL, freed bigint NOT NULL DEFAULT 0, due bigint, held bigint, seq bigint)
  WITH (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tarry.grp_note REPLICA IDENTITY FULL;
CREATE INDEX grp_note_topic ON tarry.grp_note (topic, grp);
ALTER TABLE tarry.grp ALTER topic SET (n_distinct = 1);
ALTER TABLE tarry.grp_note ALTER topic SET (n_distinct = 1);
INSERT INTO tarry.grp (topic, grp, name) SELECT 0, i, i FROM generate_series(1, 1000) i;
INSERT INTO tarry.grp_note SELECT 0, i FROM generate_series(1, 1000) i;
ANALYZE tarry.grp, tarry.grp_note;
DELETE FROM tarry.grp;
DELETE FROM tarry.grp_note;

-- Jobs that wait for other jobs (queue/life.h): the members of each batch by their outcome. Only tarry._count_batches changes a row, in the order of the
-- numbers, as the last statement of a transaction. A push of a member locks the key of the row, which delays only a close.
CREATE TABLE tarry.batch (
  batch bigint PRIMARY KEY, -- the sequence of its waiting job when that was pushed
  topic int NOT NULL, id text COLLATE "C" NOT NULL, -- its waiting job
  unfinished int NOT NULL DEFAULT 0, acked int NOT NULL DEFAULT 0, dead int NOT NULL DEFAULT 0, cancelled int NOT NULL DEFAULT 0, expired int NOT NULL DEFAULT 0,
  on_dead int NOT NULL, -- 1 go, 2 hold, 3 stop
  members int NOT NULL, depth int NOT NULL, -- members: expected; 0: not given
  closed boolean NOT NULL DEFAULT false, ended boolean NOT NULL DEFAULT false, stopped boolean NOT NULL DEFAULT false,
  wait_span bigint NOT NULL, close_span bigint NOT NULL, wait_until bigint NOT NULL, close_by bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
-- Changes of batches by transactions that must not wait for their rows. A batch with such a row is not complete.
CREATE TABLE tarry.batch_add (batch bigint NOT NULL, unfinished int NOT NULL DEFAULT 0, acked int NOT NULL DEFAULT 0, dead int NOT NULL DEFAULT 0,
  cancelled int NOT NULL DEFAULT 0, expired int NOT NULL DEFAULT 0, mark int NOT NULL DEFAULT 0) -- 1 it closes, 2 its wait ends, 3 it stops, 4 its job is run
  WITH (autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE tarry.batch_add REPLICA IDENTITY FULL;
CREATE INDEX batch_add_batch ON tarry.batch_add (batch);

-- counts: 1 waiting and never tried, 2 waiting for a retry, 3 leased, 4 dead, 5 bytes of the dead; totals: 6 pushed, 7 acked,
-- 8 cancelled, 9 expired, 10 replaced, 11 delivered, 12 nacked, 13 lease_ended, 14 died, 15 redriven; 16 kept finished jobs, 17 their bytes.
CREATE TABLE tarry.tally (topic int, slot bigint, counts bigint[] NOT NULL, PRIMARY KEY (topic, slot)) WITH (fillfactor = 20);
-- Counts of transactions that must not share a row; the upkeep adds them to slot 0. A table without a key needs a replica identity: a
-- publication for all tables would otherwise reject each DELETE.
CREATE TABLE tarry.tally_add (topic int NOT NULL, counts bigint[] NOT NULL);
ALTER TABLE tarry.tally_add REPLICA IDENTITY FULL;

CREATE TABLE tarry.server (server bigint PRIMARY KEY, beat bigint NOT NULL, listen_until bigint NOT NULL DEFAULT 0 /* so long somebody listens to events there */) WITH (fillfactor = 20);
CREATE TABLE tarry.ticket (server bigint PRIMARY KEY, number bigint NOT NULL, at bigint NOT NULL,
  connection bigint NOT NULL DEFAULT 0 /* the server's last one: what comes by one before is refused */) WITH (fillfactor = 20);
CREATE TABLE tarry.tokens (one boolean PRIMARY KEY DEFAULT true CHECK (one), version text NOT NULL, text bytea NOT NULL); -- of the servers' own callers, hashed: --tokens store
INSERT INTO tarry.tokens (version, text) VALUES ('', '');
CREATE TABLE tarry.rights (role name, pattern text, PRIMARY KEY (role, pattern)); -- who may call tarry.push and so on; 'orders-*'

-- Functions of each transaction are written in plpgsql, also if they are a single query: plpgsql keeps plans, but a function in SQL is parsed and
-- planned again by each statement that calls it.

CREATE FUNCTION tarry.now_ms() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + adjust_ms FROM tarry.store);
END $$;

-- The time, the part of it that was added to the database's own clock, and whether a client of any server waits for the end of a job.
CREATE FUNCTION tarry._clock(OUT now bigint, OUT adjust bigint, OUT awaited boolean) LANGUAGE plpgsql AS $$
BEGIN
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + adjust_ms, adjust_ms, EXISTS (SELECT FROM tarry.awaited) INTO now, adjust, awaited
    FROM tarry.store;
END $$;

-- ---- counting ----

CREATE FUNCTION tarry._none() RETURNS bigint[] LANGUAGE sql IMMUTABLE AS
$$ SELECT '{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'::bigint[] $$;

CREATE FUNCTION tarry._bytes(j tarry.job) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (octet_length(j.body) + coalesce(octet_length(j.meta), 0) + octet_length(j.id) + 64)::bigint $$;

CREATE FUNCTION tarry._counted(counts bigint[], j tarry.job, sign int) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE k int := CASE j.state WHEN 1 THEN CASE WHEN j.attempt = 0 THEN 1 ELSE 2 END ELSE j.state END;
BEGIN
  counts[k] := counts[k] + sign;
  IF k = 4 THEN counts[5] := counts[5] + sign * tarry._bytes(j); END IF;
  RETURN counts;
END $$;

CREATE FUNCTION tarry._sum(a bigint[], b bigint[]) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  FOR i IN 1 .. cardinality(a) LOOP IF b[i] <> 0 THEN a[i] := a[i] + b[i]; END IF; END LOOP;
  RETURN a;
END $$;

CREATE FUNCTION tarry._tally(p_topic int, p_slot bigint, p_counts bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tarry.tally AS t (topic, slot, counts) VALUES (p_topic, p_slot, p_counts)
    ON CONFLICT (topic, slot) DO UPDATE SET counts = tarry._sum(t.counts, excluded.counts);
END $$;

CREATE FUNCTION tarry._jobs(p_topic int) RETURNS bigint LANGUAGE sql AS $$
  SELECT coalesce(sum(c[1] + c[2] + c[3] + c[4]), 0)::bigint
    FROM (SELECT counts FROM tarry.tally WHERE topic = p_topic UNION ALL SELECT counts FROM tarry.tally_add WHERE topic = p_topic) x(c) $$;

-- ---- topics ----

-- Returns the topic, and creates a new one; its number is NULL if there are too many.
CREATE FUNCTION tarry._topic(p_name text, p_topics_max int) RETURNS tarry.topic LANGUAGE plpgsql AS $$
DECLARE t tarry.topic;
BEGIN
  LOOP
    SELECT * INTO t FROM tarry.topic WHERE name = p_name;
    EXIT WHEN FOUND;
    IF p_topics_max > 0 THEN
      PERFORM pg_advisory_xact_lock(7827201, 1); -- so that concurrent counts cannot exceed the limit
      IF (SELECT count(*) FROM tarry.topic WHERE name IS NOT NULL AND name <> p_name) >= p_topics_max THEN RETURN t; END IF;
    END IF;
    INSERT INTO tarry.topic (name) VALUES (p_name) ON CONFLICT DO NOTHING;
  END LOOP;
  RETURN t;
END $$;

-- Adds counts. Those of users' transactions, and of topics with a limit of jobs, go to rows that no other transaction waits
-- for.
CREATE FUNCTION tarry._settle(t tarry.topic, by_sql boolean, counts bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
BEGIN
  IF by_sql OR t.max_jobs > 0 THEN
    IF counts <> tarry._none() THEN INSERT INTO tarry.tally_add VALUES (t.topic, counts); END IF;
    RETURN tarry._none();
  END IF;
  RETURN counts;
END $$;

-- Records the end of a job in the rows of those who wait for it, and notifies their servers with the commit. The caller has ended the job in a
-- statement before, so a client that begins to wait finds it locked or is found here.
CREATE FUNCTION tarry._mark_ended(p_topic text, p_id text, p_outcome int, p_at bigint, p_taken bigint, p_attempt int, p_consumer text, p_type bytea,
  p_result bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM tarry.awaited) THEN RETURN; END IF;
  PERFORM pg_notify('tarry', 'f * ' || w.server) FROM (SELECT tarry._set_ended(ARRAY[p_topic], ARRAY[p_id], ARRAY[p_outcome], p_at, ARRAY[p_taken],
    ARRAY[p_attempt], ARRAY[p_consumer], ARRAY[p_type], ARRAY[p_result]) AS server) w;
END $$;

CREATE FUNCTION tarry._is_awaited(p_topic text, p_id text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM tarry.awaited WHERE topic = p_topic AND id = p_id);
END $$;

-- Sets how jobs ended for those who wait for them. Returns the numbers of their servers.
CREATE FUNCTION tarry._set_ended(p_topics text[], p_ids text[], p_outcomes int[], p_at bigint, p_takens bigint[], p_attempts int[], p_consumers text[],
  p_types bytea[], p_results bytea[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY WITH w AS (
    UPDATE tarry.awaited w SET outcome = u.outcome, at = p_at, taken = nullif(u.taken, 0), attempt = u.attempt, consumer = nullif(u.consumer, ''),
        result_type = nullif(u.result_type, ''), result = nullif(u.result, '')
      FROM unnest(p_topics, p_ids, p_outcomes, p_takens, p_attempts, p_consumers, p_types, p_results)
        u(topic, id, outcome, taken, attempt, consumer, result_type, result)
      WHERE w.topic = u.topic AND w.id = u.id AND w.outcome IS NULL RETURNING w.server
  ) SELECT DISTINCT w.server FROM w;
END $$;

CREATE FUNCTION tarry._kept_bytes(p_id text, p_meta bytea, p_body bytea, p_result bytea) RETURNS int LANGUAGE sql IMMUTABLE AS
$$ SELECT octet_length(p_id) + coalesce(octet_length(p_meta), 0) + coalesce(octet_length(p_body), 0) + coalesce(octet_length(p_result), 0) + 64 $$;

-- Stores a job that has ended, as its topic keeps it or remembers its id. Returns its counts with those of the kept job.
CREATE FUNCTION tarry._finish(t tarry.topic, j tarry.job, p_outcome int, p_now bigint, p_counts bigint[], p_type bytea DEFAULT NULL, p_result bytea DEFAULT NULL)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE keep bigint := coalesce(j.keep, t.keep_finished); size int;
BEGIN
  IF keep > 0 THEN
    size := tarry._kept_bytes(j.id, j.meta, CASE WHEN t.keep_body THEN j.body END, p_result);
    DELETE FROM tarry.finished f WHERE f.topic = t.topic AND f.id = j.id;
    INSERT INTO tarry.finished VALUES (t.topic, j.id, CASE WHEN t.dedup_window > 0 THEN p_now + t.dedup_window + 1 ELSE 0 END, p_now + keep + 1, p_now, j.seq,
      j.first_due, nullif(j.taken, 0), size, j.priority, j.attempt, p_outcome, j.consumer, j.meta, j.error, j.history, j.progress,
      nullif(p_type, ''), nullif(p_result, ''), CASE WHEN t.keep_body THEN j.content_type END, CASE WHEN t.keep_body THEN j.body END, j.batches);
    p_counts[16] := p_counts[16] + 1; p_counts[17] := p_counts[17] + size;
  ELSIF t.dedup_window > 0 THEN
    INSERT INTO tarry.finished VALUES (t.topic, j.id, p_now + t.dedup_window + 1)
      ON CONFLICT (topic, id) DO UPDATE SET until = excluded.until;
  END IF;
  PERFORM tarry._mark_ended(t.name, j.id, p_outcome, p_now, j.taken, j.attempt, j.consumer, p_type, p_result);
  RETURN p_counts;
END $$;

CREATE FUNCTION tarry._due(p_now bigint, p_kind int, p_ms bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN p_kind = 3 THEN greatest(p_now, p_ms) WHEN p_kind = 2 AND p_ms > 0 THEN p_now + p_ms + 1 ELSE p_now END $$;

CREATE FUNCTION tarry._expire_at(t tarry.topic, j tarry.job) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN coalesce(j.ttl, t.ttl) > 0 AND j.state <> 4 THEN greatest(j.due, j.first_due + coalesce(j.ttl, t.ttl)) END $$;

CREATE FUNCTION tarry._is_far(p_now bigint, p_kind int, p_ms bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS
$$ SELECT p_kind = 3 AND p_ms - p_now > 315619200000 $$;

CREATE FUNCTION tarry._state(p_state int, p_due bigint, p_now bigint) RETURNS int LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN p_state <> 1 THEN p_state WHEN p_due <= p_now THEN 2 ELSE 1 END $$;

-- Returns a number for waiting jobs, taken after the transaction has a number itself: a reader that sees no open transaction,
-- and no new number, has seen all.
CREATE FUNCTION tarry._number() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_current_xact_id();
  RETURN nextval('tarry.sequence');
END $$;

CREATE FUNCTION tarry._level(p_topic int, p_level int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE is_idle boolean;
BEGIN
  PERFORM pg_current_xact_id(); -- before it looks: the upkeep waits for transactions that it can see
  LOOP
    SELECT idle INTO is_idle FROM tarry.level WHERE topic = p_topic AND level = p_level;
    IF NOT FOUND THEN
      INSERT INTO tarry.level VALUES (p_topic, p_level) ON CONFLICT DO NOTHING;
    ELSIF is_idle THEN
      UPDATE tarry.level SET idle = false, after = NULL WHERE topic = p_topic AND level = p_level AND idle;
    END IF;
    EXIT WHEN FOUND; -- else another one was quicker
  END LOOP;
END $$;

-- ---- groups, limits, rates, holds ----

-- The rules of job/flow.h. Times of tokens are microseconds.
CREATE FUNCTION tarry._interval_us(p_count bigint, p_unit int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN p_count > 0 THEN (CASE p_unit WHEN 1 THEN 1000000 WHEN 2 THEN 60000000 ELSE 3600000000 END + p_count - 1) / p_count ELSE 0 END $$;

-- How long before a bucket is full a delivery may use it.
CREATE FUNCTION tarry._ahead_us(p_interval bigint, p_burst bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (CASE WHEN p_burst > 0 THEN p_burst WHEN p_interval BETWEEN 1 AND 9999 THEN 10000 / p_interval ELSE 1 END - 1) * p_interval $$;

CREATE FUNCTION tarry._tokens(p_full bigint, p_now bigint, p_interval bigint, p_ahead bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN p_interval = 0 THEN 1000000 WHEN p_full > p_now + p_ahead THEN 0 ELSE (p_now + p_ahead - greatest(p_full, p_now)) / p_interval + 1 END $$;

CREATE FUNCTION tarry._group_interval(t tarry.topic, g tarry.grp) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN g.rate_count > 0 THEN tarry._interval_us(g.rate_count, g.rate_unit) ELSE tarry._interval_us(t.group_rate_count, t.group_rate_unit) END $$;

CREATE FUNCTION tarry._group_ahead(t tarry.topic, g tarry.grp) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT tarry._ahead_us(tarry._group_interval(t, g), CASE WHEN g.burst > 0 THEN g.burst WHEN g.rate_count > 0 THEN 0 ELSE t.group_burst END) $$;

-- Returns how many jobs of a group may be delivered now; 0 or less: it is held.
CREATE FUNCTION tarry._room(t tarry.topic, g tarry.grp, p_now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN g.held_until > p_now OR (g.paused AND (g.paused_until = 0 OR g.paused_until > p_now)) THEN 0
    WHEN t.flow & 32 > 0 AND g.in_flight > 0 THEN 0
    WHEN g.rate_count = 0 AND t.group_rate_count = 0 THEN coalesce(nullif(g.lim, 0), nullif(t.group_lim, 0), 1000000) - g.in_flight
    ELSE least(coalesce(nullif(g.lim, 0), nullif(t.group_lim, 0), 1000000) - g.in_flight,
      tarry._tokens(g.full_us, p_now * 1000, tarry._group_interval(t, g), tarry._group_ahead(t, g))) END $$;

-- The same of a topic by its row in tarry.grp.
CREATE FUNCTION tarry._topic_room(t tarry.topic, h tarry.grp, p_now bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN h.held_until > p_now THEN 0
    ELSE least(coalesce(nullif(t.lim, 0), 1000000) - CASE WHEN t.lim > 0 THEN h.in_flight ELSE 0 END,
      tarry._tokens(h.full_us, p_now * 1000, tarry._interval_us(t.rate_count, t.rate_unit),
        tarry._ahead_us(tarry._interval_us(t.rate_count, t.rate_unit), t.burst))) END $$;

-- Returns the job of a strict group that comes before all others, because it was tried: a ready one, else the one that is ready first. A job that is
-- not ready yet holds its group (flow_waits_in_order). Returns no row if no job of the group was tried.
CREATE FUNCTION tarry._tried(p_topic int, p_grp int, p_now bigint) RETURNS TABLE (level int, due bigint, seq bigint) LANGUAGE plpgsql STABLE ROWS 1 AS $$
BEGIN
  RETURN QUERY SELECT j.level, j.due, j.seq FROM tarry.job j WHERE j.topic = p_topic AND j.grp = p_grp AND j.tried AND j.state = 1 AND (j.expire IS NULL OR j.expire > p_now)
    ORDER BY greatest(j.due, p_now), j.seq LIMIT 1;
END $$;

-- Why nothing of a group, or of a topic, is delivered now, in the numbers of job/flow.h, and until when (NULL: unknown). NULL: it is not held.
CREATE FUNCTION tarry._group_held(t tarry.topic, g tarry.grp, p_now bigint, OUT held_by int, OUT until bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE token bigint := (g.full_us - tarry._group_ahead(t, g) + 999) / 1000;
BEGIN
  IF g.paused AND (g.paused_until = 0 OR g.paused_until > p_now) THEN held_by := 5; until := nullif(g.paused_until, 0);
  ELSIF g.held_until > p_now THEN held_by := 7; until := g.held_until;
  ELSIF t.flow & 32 > 0 AND (g.in_flight > 0 OR EXISTS (SELECT FROM tarry._tried(t.topic, g.grp, p_now) x WHERE x.due > p_now)) THEN held_by := 6;
  ELSIF coalesce(nullif(g.lim, 0), nullif(t.group_lim, 0)) <= g.in_flight THEN held_by := 3;
  ELSIF (g.rate_count > 0 OR t.group_rate_count > 0) AND token > p_now THEN held_by := 4; until := token;
  END IF;
END $$;

CREATE FUNCTION tarry._topic_held(t tarry.topic, h tarry.grp, p_now bigint, OUT held_by int, OUT until bigint) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE interval_us bigint := tarry._interval_us(t.rate_count, t.rate_unit); token bigint := (h.full_us - tarry._ahead_us(interval_us, t.burst) + 999) / 1000;
BEGIN
  IF h.held_until > p_now THEN held_by := 7; until := h.held_until;
  ELSIF t.lim > 0 AND h.in_flight >= t.lim THEN held_by := 1;
  ELSIF interval_us > 0 AND token > p_now THEN held_by := 2; until := token;
  END IF;
END $$;

-- A group with its notes, read without locks. p_grp -1: the topic.
CREATE FUNCTION tarry._group_now(p_topic int, p_grp int) RETURNS tarry.grp LANGUAGE plpgsql STABLE AS $$
DECLARE g tarry.grp; n record;
BEGIN
  SELECT * INTO g FROM tarry.grp WHERE topic = p_topic AND grp = p_grp;
  SELECT coalesce(sum(freed), 0) AS freed, min(due) AS due, max(held) AS held INTO n FROM tarry.grp_note WHERE topic = p_topic AND grp = p_grp;
  g.in_flight := g.in_flight - n.freed; g.next_due := least(g.next_due, n.due); g.held_until := greatest(g.held_until, n.held);
  RETURN g;
END $$;

CREATE FUNCTION tarry._group_name(p_topic int, p_grp int) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT name FROM tarry.grp WHERE topic = p_topic AND grp = p_grp);
END $$;

CREATE FUNCTION tarry._job_held(t tarry.topic, p_grp int, p_now bigint, OUT held_by int, OUT until bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
  SELECT w.held_by, w.until INTO held_by, until FROM tarry._topic_held(t, tarry._group_now(t.topic, -1), p_now) w;
  IF held_by IS NULL AND t.flow % 2 = 1 THEN
    SELECT w.held_by, w.until INTO held_by, until FROM tarry._group_held(t, tarry._group_now(t.topic, coalesce(p_grp, 0)), p_now) w;
  END IF;
END $$;

-- The groups of a topic with ready or leased jobs, then its ready jobs by what holds them, in the order of the numbers of job/flow.h.
CREATE FUNCTION tarry._flow_figures(t tarry.topic, p_now bigint) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE figures bigint[] := '{0,0,0,0,0,0,0,0}'; waiting int[] := '{}'; gate int; x record;
BEGIN
  SELECT h.held_by INTO gate FROM tarry._topic_held(t, tarry._group_now(t.topic, -1), p_now) h;
  FOR x IN SELECT w.reason, sum(w.n)::bigint AS jobs, array_agg(w.grp) AS groups FROM (
      SELECT y.grp, y.n, coalesce(gate, CASE WHEN t.flow % 2 = 1 THEN (SELECT h.held_by FROM tarry._group_held(t, tarry._group_now(t.topic, y.grp), p_now) h) END, 0) AS reason
        FROM (SELECT coalesce(j.grp, 0) AS grp, count(*) AS n FROM tarry.level l JOIN tarry.job j ON j.topic = l.topic AND j.level = l.level
          AND j.due <= p_now AND j.state = 1 WHERE l.topic = t.topic GROUP BY 1) y) w GROUP BY 1 LOOP
    waiting := waiting || x.groups;
    IF x.reason > 0 THEN figures[1 + x.reason] := x.jobs; END IF;
  END LOOP;
  IF t.flow % 2 = 1 THEN
    figures[1] := (SELECT count(*) FROM tarry.grp g WHERE g.topic = t.topic AND g.grp >= 0 AND (g.grp = ANY (waiting) OR g.in_flight >
      (SELECT coalesce(sum(n.freed), 0) FROM tarry.grp_note n WHERE n.topic = g.topic AND n.grp = g.grp)));
  END IF;
  RETURN figures;
END $$;

-- Frees what the lease of a job was counted in. `j`: the job before.
CREATE FUNCTION tarry._free(j tarry.job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF j.slot & 1 > 0 THEN INSERT INTO tarry.grp_note VALUES (j.topic, coalesce(j.grp, 0), 1); END IF;
  IF j.slot & 2 > 0 THEN INSERT INTO tarry.grp_note VALUES (j.topic, -1, 1); END IF;
  IF j.slot > 0 THEN PERFORM tarry._number(); END IF;
END $$;

-- Notes that a tried job does not hold its strict group any longer, though it did not end by the end of a lease, and notifies the servers with the commit.
CREATE FUNCTION tarry._let_go(t tarry.topic, j tarry.job, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF j.tried AND j.state = 1 THEN
    INSERT INTO tarry.grp_note VALUES (j.topic, j.grp, 0, 0, NULL, 0);
    PERFORM tarry._number();
    PERFORM pg_notify('tarry', 'r ' || t.name || ' ' || p_now);
  END IF;
END $$;

-- Makes the jobs of a topic those of groups: the ones without a group become group 0. Repeated by the upkeep for jobs of transactions that began before.
CREATE FUNCTION tarry._begin_groups(p_topic int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE leases bigint; first bigint;
BEGIN
  INSERT INTO tarry.grp (topic, grp, name) VALUES (p_topic, -1, '- '), (p_topic, 0, '') ON CONFLICT DO NOTHING;
  WITH u AS (
    UPDATE tarry.job j SET grp = 0, slot = CASE WHEN j.state = 3 THEN j.slot | 1 ELSE j.slot END WHERE j.topic = p_topic AND j.grp IS NULL
      RETURNING j.state, j.due
  ) SELECT count(*) FILTER (WHERE u.state = 3), min(u.due) FILTER (WHERE u.state = 1) INTO leases, first FROM u;
  IF leases > 0 OR first IS NOT NULL THEN INSERT INTO tarry.grp_note VALUES (p_topic, 0, -leases, first, NULL, 0); PERFORM tarry._number(); END IF;
END $$;

-- Returns whether a new job of a group is one too many. Concurrent pushes into the group wait for each other.
CREATE FUNCTION tarry._is_full(t tarry.topic, p_grp int, p_id text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE g tarry.grp; most bigint;
BEGIN
  SELECT * INTO g FROM tarry.grp WHERE topic = t.topic AND grp = p_grp;
  most := coalesce(nullif(g.max_jobs, 0), nullif(t.group_max_jobs, 0));
  IF most IS NULL OR EXISTS (SELECT FROM tarry.job WHERE topic = t.topic AND id = p_id) THEN RETURN false; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended(t.topic || ' ' || p_grp, 7827201));
  RETURN (SELECT count(*) FROM (SELECT FROM tarry.job j WHERE j.topic = t.topic AND j.grp = p_grp AND j.state <> 4 LIMIT most) w) >= most;
END $$;

CREATE FUNCTION tarry._groups_on(p_topic int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tarry.topic SET flow = flow | 1, flow_begun = pg_current_xact_id()::text::bigint WHERE topic = p_topic AND flow % 2 = 0;
  IF FOUND THEN PERFORM tarry._begin_groups(p_topic); END IF;
END $$;

-- Returns the number of a group, and creates it.
CREATE FUNCTION tarry._group(p_topic int, p_name text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE number int; unused boolean;
BEGIN
  LOOP
    SELECT grp, idle INTO number, unused FROM tarry.grp WHERE topic = p_topic AND name = p_name;
    IF number >= 0 AND NOT unused THEN RETURN number; END IF;
    IF number >= 0 THEN
      UPDATE tarry.grp SET idle = false, after = NULL WHERE topic = p_topic AND grp = number AND idle;
      IF FOUND THEN RETURN number; END IF;
    ELSE
      PERFORM tarry._groups_on(p_topic);
      INSERT INTO tarry.grp (topic, grp, name) VALUES (p_topic, nextval('tarry.grp_number'), p_name) ON CONFLICT DO NOTHING;
    END IF;
  END LOOP;
END $$;

-- After a change of rates: a bucket owes no more than a burst at the rate that holds now. p_group NULL: of the topic and all its groups.
CREATE FUNCTION tarry._rates_fit(p_topic int, p_group int) RETURNS void LANGUAGE sql AS $$
  UPDATE tarry.grp k SET full_us = least(k.full_us, tarry.now_ms() * 1000 + CASE WHEN k.grp < 0
      THEN tarry._interval_us(t.rate_count, t.rate_unit) + tarry._ahead_us(tarry._interval_us(t.rate_count, t.rate_unit), t.burst)
      ELSE tarry._group_interval(t, k) + tarry._group_ahead(t, k) END)
    FROM tarry.topic t WHERE t.topic = p_topic AND k.topic = p_topic AND (p_group IS NULL OR k.grp = p_group) AND k.full_us > tarry.now_ms() * 1000
$$;

-- Sets what takes must look at, after a change of the settings of a topic or its groups.
CREATE FUNCTION tarry._flow_set(p_topic int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; leases bigint;
BEGIN
  SELECT * INTO t FROM tarry.topic WHERE topic = p_topic;
  IF t.group_lim > 0 OR t.group_rate_count > 0 OR t.group_max_jobs > 0 OR t.group_order > 0 THEN PERFORM tarry._groups_on(p_topic); END IF;
  IF t.lim > 0 OR t.rate_count > 0 THEN INSERT INTO tarry.grp (topic, grp, name) VALUES (p_topic, -1, '- ') ON CONFLICT DO NOTHING; END IF;
  UPDATE tarry.topic SET flow = (flow & 93) | CASE WHEN group_max_jobs > 0 THEN 16 ELSE 0 END | CASE WHEN lim > 0 THEN 2 ELSE 0 END | CASE WHEN rate_count > 0 THEN 4 ELSE 0 END
    | CASE WHEN group_order > 0 THEN 32 ELSE 0 END WHERE topic = p_topic;
  IF t.lim > 0 THEN
    WITH u AS (UPDATE tarry.job j SET slot = j.slot | 2 WHERE j.topic = p_topic AND j.state = 3 AND j.slot & 2 = 0 RETURNING 1) SELECT count(*) INTO leases FROM u;
    IF leases > 0 THEN INSERT INTO tarry.grp_note VALUES (p_topic, -1, -leases); END IF;
  END IF;
  PERFORM tarry._rates_fit(p_topic, NULL);
END $$;

-- Holds the groups of jobs, or their topics if they have no group.
CREATE FUNCTION tarry._hold(p_topics int[], p_levels int[], p_dues bigint[], p_seqs bigint[], p_deliveries bigint[], p_takens bigint[], p_holds bigint[], p_now bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE w record;
BEGIN
  FOR w IN SELECT j.topic, CASE WHEN j.grp > 0 THEN j.grp ELSE -1 END AS grp, max(u.hold) AS hold
      FROM unnest(p_topics, p_levels, p_dues, p_seqs, p_deliveries, p_takens, p_holds) u(topic, level, due, seq, delivery, taken, hold)
      JOIN tarry.job j ON j.topic = u.topic AND j.level = u.level AND j.due = u.due AND j.seq = u.seq AND j.state = 3 AND j.delivery = u.delivery
        AND j.taken = u.taken AND j.lease_until > p_now WHERE u.hold > 0 GROUP BY 1, 2 ORDER BY 1, 2 LOOP
    IF w.grp < 0 THEN
      INSERT INTO tarry.grp (topic, grp, name) VALUES (w.topic, -1, '- ') ON CONFLICT DO NOTHING;
      UPDATE tarry.topic SET flow = flow | 4 WHERE topic = w.topic AND flow & 4 = 0;
    END IF;
    INSERT INTO tarry.grp_note VALUES (w.topic, w.grp, 0, NULL, p_now + 1 + w.hold); -- rounded up, as due times are
  END LOOP;
END $$;

-- Adds the notes of a topic to the rows of its groups, of those that no other transaction has locked. Returns these groups.
CREATE FUNCTION tarry._fold(p_topic int, p_now bigint) RETURNS int[] LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE noted int[]; locked int[]; base bigint;
BEGIN
  noted := ARRAY(SELECT DISTINCT w.grp FROM (SELECT n.grp FROM tarry.grp_note n WHERE n.topic = p_topic LIMIT 2000) w);
  IF noted = '{}' THEN RETURN noted; END IF;
  locked := ARRAY(SELECT k.grp FROM unnest(noted) u(grp) JOIN tarry.grp k ON k.topic = p_topic AND k.grp = u.grp FOR NO KEY UPDATE OF k SKIP LOCKED);
  SELECT pass INTO base FROM tarry.grp WHERE topic = p_topic AND grp = -1;
  WITH d AS (
    DELETE FROM tarry.grp_note n USING unnest(locked) u(grp) WHERE n.topic = p_topic AND n.grp = u.grp RETURNING n.grp, n.freed, n.due, n.held, n.seq
  ), s AS (
    SELECT w.grp, w.freed, w.first[1] AS due, w.first[2] AS seq, w.held FROM (
      SELECT d.grp, sum(d.freed) AS freed, min(ARRAY[d.due, d.seq]) FILTER (WHERE d.due IS NOT NULL) AS first, max(d.held) AS held FROM d GROUP BY d.grp) w
  ) UPDATE tarry.grp k SET in_flight = k.in_flight - s.freed, next_due = least(k.next_due, s.due),
      next_seq = CASE WHEN s.due IS NULL OR (s.due, s.seq) >= (k.next_due, k.next_seq) THEN k.next_seq ELSE s.seq END, held_until = greatest(k.held_until, s.held),
      is_ready = k.is_ready OR coalesce(s.due <= p_now, false), pass = CASE WHEN NOT k.is_ready AND s.due <= p_now THEN greatest(k.pass, base) ELSE k.pass END
    FROM s WHERE k.topic = p_topic AND k.grp = s.grp;
  RETURN locked;
END $$;

-- 1 if the end of a lease may make a job of the topic ready for delivery, else 0.
CREATE FUNCTION tarry._is_limited(t tarry.topic) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN t.flow & 42 > 0 OR t.group_lim > 0 THEN 1 ELSE 0 END $$;

-- Returns how many jobs of a group may be leased at a time.
CREATE FUNCTION tarry._group_most(t tarry.topic, g tarry.grp) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN t.flow & 32 > 0 THEN 1 ELSE coalesce(nullif(g.lim, 0), nullif(t.group_lim, 0), 1000000) END $$;

-- Returns before what time a group is held by its rate, a pause with an end, or a hold.
CREATE FUNCTION tarry._group_opens(t tarry.topic, g tarry.grp) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT greatest(g.held_until, CASE WHEN g.paused THEN g.paused_until ELSE 0 END,
    CASE WHEN g.rate_count = 0 AND t.group_rate_count = 0 THEN 0 ELSE (g.full_us - tarry._group_ahead(t, g) + 999) / 1000 END) $$;

-- Returns when a job of a topic can be taken next; NULL: not before something changes.
CREATE FUNCTION tarry._flow_next(t tarry.topic, p_now bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE h tarry.grp := tarry._group_now(t.topic, -1); gate record; first bigint;
BEGIN
  SELECT * INTO gate FROM tarry._topic_held(t, h, p_now);
  IF gate.held_by IS NOT NULL AND gate.until IS NULL THEN RETURN NULL; END IF;
  IF t.flow % 2 = 0 THEN
    SELECT min(f.due) INTO first FROM tarry.level l, LATERAL (SELECT j.due FROM tarry.job j WHERE j.topic = t.topic AND j.level = l.level AND j.state = 1
      AND (j.expire IS NULL OR j.expire > p_now) ORDER BY j.due, j.seq LIMIT 1) f WHERE l.topic = t.topic;
  ELSE
    IF EXISTS (SELECT FROM tarry.grp k WHERE k.topic = t.topic AND k.grp >= 0 AND k.next_due <= p_now AND tarry._room(t, k, p_now) > 0) THEN
      RETURN coalesce(gate.until, p_now);
    END IF;
    -- By their rows, and once more those with notes: a join of all groups with all notes would take the square of their number.
    first := least((SELECT min(greatest(tarry._group_opens(t, k), k.next_due)) FROM tarry.grp k WHERE k.topic = t.topic AND k.grp >= 0
        AND k.next_due < 9223372036854775807 AND NOT (k.paused AND k.paused_until = 0) AND k.in_flight < tarry._group_most(t, k)),
      (SELECT min(greatest(tarry._group_opens(t, k), least(k.next_due, n.due), n.held))
        FROM (SELECT m.grp, sum(m.freed) AS freed, min(m.due) AS due, max(m.held) AS held FROM tarry.grp_note m WHERE m.topic = t.topic GROUP BY m.grp OFFSET 0) n
          JOIN tarry.grp k ON k.topic = t.topic AND k.grp = n.grp
        WHERE k.grp >= 0 AND (k.next_due < 9223372036854775807 OR n.due IS NOT NULL) AND NOT (k.paused AND k.paused_until = 0)
          AND k.in_flight - n.freed < tarry._group_most(t, k)));
  END IF;
  RETURN greatest(first, gate.until);
END $$;

-- The groups of a topic with their figures: a row without a name if there is no such topic. p_name: only that group. p_order: 0 by name, 1 ready, 2 leased,
-- 3 only held ones; after the one with p_value and p_after.
CREATE FUNCTION tarry._groups(p_topic text, p_name text, p_order int, p_limit int, p_value bigint, p_after text) RETURNS TABLE (name text, is_set boolean,
  weight int, lim bigint, rate_count bigint, rate_unit int, burst bigint, max_jobs bigint, paused boolean, paused_until bigint, ready bigint, leased bigint,
  held_by int, held_until bigint, oldest bigint) LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; h record; now bigint := tarry.now_ms();
BEGIN
  SELECT * INTO t FROM tarry.topic k WHERE k.name = p_topic;
  IF NOT FOUND THEN RETURN QUERY SELECT NULL::text, NULL::boolean, NULL::int, NULL::bigint, NULL::bigint, NULL::int, NULL::bigint, NULL::bigint, NULL::boolean, NULL::bigint,
    NULL::bigint, NULL::bigint, NULL::int, NULL::bigint, NULL::bigint; RETURN; END IF;
  SELECT * INTO h FROM tarry._topic_held(t, tarry._group_now(t.topic, -1), now);
  RETURN QUERY SELECT w.* FROM (
    SELECT (g.row).name, (g.row).is_set, (g.row).own_weight, (g.row).lim, (g.row).rate_count, (g.row).rate_unit, (g.row).burst, (g.row).max_jobs,
        (g.row).paused AND ((g.row).paused_until = 0 OR (g.row).paused_until > now) AS paused,
        CASE WHEN (g.row).paused AND (g.row).paused_until > now THEN (g.row).paused_until ELSE 0 END AS paused_until,
        coalesce(r.ready, 0)::bigint AS ready, greatest(0, (g.row).in_flight) AS leased, CASE WHEN x.is_waiting THEN coalesce(h.held_by, v.held_by) END AS held_by,
        CASE WHEN x.is_waiting THEN CASE WHEN h.held_by IS NOT NULL THEN h.until ELSE v.until END END AS held_until, r.oldest
      FROM (SELECT tarry._group_now(t.topic, k.grp) AS row FROM tarry.grp k WHERE k.topic = t.topic AND k.grp >= 0 AND (p_name IS NULL OR k.name = p_name)) g
        LEFT JOIN (SELECT coalesce(j.grp, 0) AS grp, count(*) AS ready, min(j.due) AS oldest FROM tarry.level l JOIN tarry.job j ON j.topic = l.topic AND j.level = l.level
          AND j.due <= now AND j.state = 1 WHERE l.topic = t.topic GROUP BY 1) r ON r.grp = (g.row).grp, LATERAL tarry._group_held(t, g.row, now) v,
        LATERAL (SELECT coalesce(r.ready > 0, false) OR v.held_by IN (5, 7) AS is_waiting) x -- nothing waits for a limit or rate of a group without ready jobs
      WHERE p_name IS NOT NULL OR (g.row).is_set OR r.ready > 0 OR (g.row).in_flight > 0 OR (g.row).held_until > now) w
    WHERE (p_order <> 3 OR w.held_by IS NOT NULL) AND (p_after IS NULL OR CASE p_order WHEN 1 THEN (-w.ready, w.name) > (-p_value, p_after)
      WHEN 2 THEN (-w.leased, w.name) > (-p_value, p_after) ELSE w.name > p_after END)
    ORDER BY CASE p_order WHEN 1 THEN -w.ready WHEN 2 THEN -w.leased END, w.name LIMIT p_limit;
END $$;

-- Sets the settings of a group, or resets them (p_settings NULL).
CREATE FUNCTION tarry._group_put(p_topic text, p_name text, p_settings bigint[], p_topics_max int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; number int;
BEGIN
  IF p_settings IS NULL THEN
    SELECT * INTO t FROM tarry.topic WHERE name = p_topic;
    IF NOT FOUND THEN RETURN 'not_found'; END IF;
    SELECT grp INTO number FROM tarry.grp WHERE topic = t.topic AND name = p_name;
    IF FOUND THEN
      DELETE FROM tarry.grp_note WHERE topic = t.topic AND grp = number AND held IS NOT NULL;
      UPDATE tarry.grp SET is_set = false, weight = 1, own_weight = 0, lim = 0, rate_count = 0, rate_unit = 0, burst = 0, max_jobs = 0, paused = false, paused_until = 0,
        held_until = 0 WHERE topic = t.topic AND grp = number;
      PERFORM tarry._rates_fit(t.topic, number);
    END IF;
  ELSE
    t := tarry._topic(p_topic, p_topics_max);
    IF t.topic IS NULL THEN RETURN 'too_many_topics'; END IF;
    PERFORM tarry._groups_on(t.topic);
    number := tarry._group(t.topic, p_name);
    PERFORM pg_advisory_xact_lock(7827201, 4); -- so that concurrent counts cannot exceed the limit
    IF (SELECT count(*) FROM tarry.grp WHERE topic = t.topic AND is_set AND grp <> number) >= 10000 THEN RETURN 'too_many_groups'; END IF;
    UPDATE tarry.grp SET is_set = true, own_weight = p_settings[1], weight = greatest(1, p_settings[1]), lim = p_settings[2], rate_count = p_settings[3],
      rate_unit = p_settings[4], burst = p_settings[5], max_jobs = p_settings[6], paused = p_settings[7] > 0, paused_until = p_settings[8]
      WHERE topic = t.topic AND grp = number;
    PERFORM tarry._rates_fit(t.topic, number);
    UPDATE tarry.topic SET flow = flow | CASE WHEN p_settings[2] > 0 THEN 8 ELSE 0 END | CASE WHEN p_settings[6] > 0 THEN 16 ELSE 0 END
        | CASE WHEN p_settings[3] > 0 THEN 64 ELSE 0 END
      WHERE topic = t.topic AND (p_settings[2] > 0 AND flow & 8 = 0 OR p_settings[6] > 0 AND flow & 16 = 0 OR p_settings[3] > 0 AND flow & 64 = 0);
  END IF;
  PERFORM tarry._number();
  RETURN 'ok';
END $$;

-- A part of the upkeep: adds notes that no take has added, and deletes groups that are not used, in three steps as levels are.
CREATE FUNCTION tarry._flow_tidy(p_own bigint, p_fresh boolean, p_now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE n int; g tarry.grp; oldest bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
BEGIN
  FOR n IN SELECT DISTINCT topic FROM (SELECT topic FROM tarry.grp_note LIMIT 10000) w LOOP PERFORM tarry._fold(n, p_now); END LOOP;
  FOR n IN SELECT topic FROM tarry.topic WHERE flow_begun IS NOT NULL LOOP
    PERFORM tarry._begin_groups(n);
    UPDATE tarry.topic SET flow_begun = NULL WHERE topic = n AND flow_begun < oldest;
  END LOOP;
  IF NOT p_fresh THEN RETURN; END IF;
  FOR g IN SELECT * FROM tarry.grp WHERE idle LIMIT 1000 FOR UPDATE SKIP LOCKED LOOP
    IF g.after IS NULL THEN
      UPDATE tarry.grp SET after = p_own WHERE topic = g.topic AND grp = g.grp;
    ELSIF g.after < oldest THEN
      DELETE FROM tarry.grp d WHERE d.topic = g.topic AND d.grp = g.grp AND NOT d.is_set AND d.in_flight = 0 AND d.next_due = 9223372036854775807
        AND NOT EXISTS (SELECT FROM tarry.job j WHERE j.topic = g.topic AND j.grp = g.grp) AND NOT EXISTS (SELECT FROM tarry.grp_note m WHERE m.topic = g.topic AND m.grp = g.grp);
      UPDATE tarry.grp SET idle = false, after = NULL WHERE topic = g.topic AND grp = g.grp;
    END IF;
  END LOOP;
  UPDATE tarry.grp k SET idle = true FROM (SELECT topic, grp FROM tarry.grp WHERE grp > 0 AND NOT idle AND NOT is_set AND in_flight = 0 AND next_due = 9223372036854775807
      AND full_us <= p_now * 1000 AND held_until <= p_now LIMIT 1000 FOR UPDATE SKIP LOCKED) w
    WHERE k.topic = w.topic AND k.grp = w.grp AND NOT EXISTS (SELECT FROM tarry.job j WHERE j.topic = w.topic AND j.grp = w.grp);
END $$;

-- ---- events ----

-- A line of what happened, as the servers write it (sql/effect.h): the kind's number is that of job/event.h.
CREATE FUNCTION tarry._event(p_kind int, p_topic text, p_id text, p_attempt int, p_due bigint, p_error text DEFAULT '') RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT format(E'%s %s %s 0 0 0 %s %s %s\n', p_kind, p_attempt, p_due, p_topic, p_id, p_error) $$;

-- ---- history ----

-- Whom a call in SQL comes from: the role of SET ROLE, else the one that logged in.
CREATE FUNCTION tarry._caller() RETURNS name LANGUAGE sql STABLE AS
$$ SELECT coalesce(nullif(current_setting('role'), 'none'), session_user::text)::name $$;

-- History of attempts and jobs, of topics that keep it: a table a day, dropped as a whole. Rows that come before a server has made the
-- day's table are kept in history_rest.
CREATE TABLE tarry.history (
  at bigint NOT NULL, topic int NOT NULL, id text COLLATE "C" NOT NULL,
  event text NOT NULL, -- acked, nacked, lease_ended, returned; died, cancelled, expired, replaced, purged, redriven
  attempt int NOT NULL, started bigint, -- of an attempt: when it was taken
  consumer text, -- who held the job; of a cancel in SQL: the role
  error bytea
) PARTITION BY RANGE (at);
CREATE INDEX history_job ON tarry.history (topic, id, at);
CREATE TABLE tarry.history_rest PARTITION OF tarry.history DEFAULT;
ALTER TABLE tarry.history REPLICA IDENTITY FULL;
ALTER TABLE tarry.history_rest REPLICA IDENTITY FULL;

CREATE FUNCTION tarry._note(t tarry.topic, j tarry.job, p_event text, p_now bigint, p_error bytea, p_consumer text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF t.history > 0 THEN
    INSERT INTO tarry.history VALUES (p_now, t.topic, j.id, p_event, j.attempt, nullif(j.taken, 0), p_consumer, p_error);
  END IF;
END $$;

-- Makes the tables of today and the next days; drops those that no topic needs. Makes none while no topic keeps a history.
-- As the owner: it makes tables. A table whose lock is not free is left for the next time.
CREATE FUNCTION tarry._history_days() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '20ms' AS $$
DECLARE day bigint := 86400000; today bigint := tarry.now_ms() / 86400000; kept bigint := (SELECT max(history) FROM tarry.topic); d bigint; name text;
BEGIN
  IF coalesce(kept, 0) = 0 AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits WHERE inhparent = 'tarry.history'::regclass OFFSET 1) THEN RETURN; END IF;
  FOR d IN SELECT today + i FROM generate_series(0, CASE WHEN kept > 0 THEN 2 ELSE -1 END) i LOOP
    name := 'history_' || to_char(to_timestamp(d * 86400), 'YYYYMMDD');
    CONTINUE WHEN to_regclass('tarry.' || name) IS NOT NULL OR EXISTS (SELECT FROM tarry.history_rest WHERE at >= d * day AND at < (d + 1) * day);
    EXECUTE format('CREATE TABLE tarry.%I (LIKE tarry.history INCLUDING ALL)', name);
    EXECUTE format('ALTER TABLE tarry.%I REPLICA IDENTITY FULL', name);
    EXECUTE format('ALTER TABLE tarry.history ATTACH PARTITION tarry.%I FOR VALUES FROM (%s) TO (%s)', name, d * day, (d + 1) * day);
  END LOOP;
  DELETE FROM tarry.history_rest WHERE at < (today * day) - coalesce(kept, 0);
  FOR name IN SELECT c.relname FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'tarry.history'::regclass AND c.relname ~ '^history_[0-9]{8}$'
        AND (extract(epoch FROM to_date(right(c.relname, 8), 'YYYYMMDD')) / 86400 + 1) * day < tarry.now_ms() - coalesce(kept, 0) LOOP
    EXECUTE format('DROP TABLE tarry.%I', name);
  END LOOP;
EXCEPTION WHEN lock_not_available THEN NULL;
END $$;

CREATE FUNCTION tarry._history(p_topic text, p_id text, p_limit bigint) RETURNS TABLE (
  at bigint, event text, attempt int, started bigint, consumer text, error bytea) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT x.* FROM (SELECT h.at, h.event, h.attempt, h.started, h.consumer, h.error
      FROM tarry.history h JOIN tarry.topic t ON t.topic = h.topic
      WHERE t.name = p_topic AND h.id = p_id AND h.at >= tarry.now_ms() - t.history ORDER BY h.at DESC LIMIT p_limit) x ORDER BY x.at;
END $$;

-- ---- one item each: what it did, in the words of the API ----

CREATE TYPE tarry._did AS (
  status text, state int, due bigint, topic int, expire bigint, died boolean, counts bigint[], id text, name text, lease_until bigint,
  cancel_requested boolean,
  attempt int, was_due bigint, -- of the job before; of one that is gone, or whose successor started: when it was due
  n bigint, -- of many items: which one
  batch bigint, moved int, -- of a member: its batch, and its outcome before and after (tarry._moved)
  own bigint, -- a batch that tarry._count_batches must look at
  kept bigint); -- of an ack without counts: bytes of its job, which is kept; NULL: it is not kept

-- ---- batches ----

-- The due of a job that waits for its members: later than any other.
CREATE FUNCTION tarry._wait_due() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 140737488355328 $$;

-- A change of the outcome of a member as one number: 0 unfinished, 1 acked, 2 dead, 3 cancelled, 4 expired; before also 5: it is a new member.
CREATE FUNCTION tarry._moved(p_before int, p_after int) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT p_before * 8 + p_after $$;

CREATE FUNCTION tarry._outcome(p_state int) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN p_state = 4 THEN 2 ELSE 0 END $$;

-- The due after the end of a wait, as it is stored until then: a time, or below 0 a delay.
CREATE FUNCTION tarry._later(p_kind int, p_ms bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE p_kind WHEN 3 THEN p_ms WHEN 2 THEN -p_ms ELSE 0 END $$;

-- Adds a change of a batch for tarry._count_batches. If p_moved is NULL, its counts stay.
CREATE FUNCTION tarry._add_to_batch(p_batch bigint, p_moved int, p_mark int DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
DECLARE b int := p_moved / 8; a int := p_moved % 8;
BEGIN
  INSERT INTO tarry.batch_add VALUES (p_batch, coalesce((a = 0)::int - (b = 0)::int, 0), coalesce((a = 1)::int - (b = 1)::int, 0),
    coalesce((a = 2)::int - (b = 2)::int, 0), coalesce((a = 3)::int - (b = 3)::int, 0), coalesce((a = 4)::int - (b = 4)::int, 0), p_mark);
END $$;

-- Adds what a change of a job means for batches. That of a user's transaction goes to rows that no other transaction waits for.
CREATE FUNCTION tarry._settle_batch(r tarry._did, by_sql boolean) RETURNS tarry._did LANGUAGE plpgsql AS $$
BEGIN
  IF NOT by_sql THEN RETURN r; END IF;
  IF r.batch IS NOT NULL THEN PERFORM tarry._add_to_batch(r.batch, r.moved); END IF;
  IF r.own IS NOT NULL THEN PERFORM tarry._add_to_batch(r.own, NULL); END IF;
  -- a new member can wait for the upkeep
  IF r.own IS NOT NULL OR r.moved <> tarry._moved(5, 0) THEN PERFORM pg_notify('tarry', 'b * 0'); END IF;
  r.batch := NULL; r.moved := NULL; r.own := NULL;
  RETURN r;
END $$;

-- The batch of a waiting job; NULL: no such job waits for members.
CREATE FUNCTION tarry._named(p_topic text, p_id text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT b.batch FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic JOIN tarry.batch b ON b.batch = j.own WHERE t.name = p_topic AND j.id = p_id);
END $$;

-- Whether a push that names a waiting job names another batch than that of the job in its place.
CREATE FUNCTION tarry._names_other(p_topic text, p_id text, p_batch bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN p_topic <> '' AND tarry._named(p_topic, p_id) IS DISTINCT FROM (SELECT b.batch FROM tarry.batch b WHERE b.batch = p_batch);
END $$;

CREATE FUNCTION tarry._is_stopped(p_batch bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM tarry.batch WHERE batch = p_batch AND stopped);
END $$;

-- A dead member is retried. After a stop it is an ordinary job.
CREATE FUNCTION tarry._revive(j tarry.job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF tarry._is_stopped(j.batch) THEN UPDATE tarry.job SET batch = NULL, batches = NULL WHERE topic = j.topic AND id = j.id;
  ELSE PERFORM tarry._add_to_batch(j.batch, tarry._moved(2, 0)); END IF;
END $$;

-- Ends the wait of a job that is taken, whose row the caller has locked.
CREATE FUNCTION tarry._end_now(p_batch bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM tarry.batch WHERE batch = p_batch FOR NO KEY UPDATE;
  WITH d AS (
    DELETE FROM tarry.batch_add a WHERE a.batch = p_batch RETURNING a.*
  ), n AS (
    SELECT coalesce(sum(d.unfinished), 0) AS unfinished, coalesce(sum(d.acked), 0) AS acked, coalesce(sum(d.dead), 0) AS dead,
      coalesce(sum(d.cancelled), 0) AS cancelled, coalesce(sum(d.expired), 0) AS expired FROM d
  ) UPDATE tarry.batch b SET unfinished = b.unfinished + n.unfinished, acked = b.acked + n.acked, dead = b.dead + n.dead, cancelled = b.cancelled + n.cancelled,
      expired = b.expired + n.expired, ended = true FROM n WHERE b.batch = p_batch AND NOT b.ended;
END $$;

-- A batch with the changes that are not in its row yet.
CREATE FUNCTION tarry._batch_now(p_batch bigint) RETURNS tarry.batch LANGUAGE plpgsql AS $$
DECLARE b tarry.batch; n record;
BEGIN
  SELECT * INTO b FROM tarry.batch WHERE batch = p_batch;
  IF NOT FOUND OR b.ended THEN RETURN b; END IF;
  SELECT coalesce(sum(unfinished), 0) AS unfinished, coalesce(sum(acked), 0) AS acked, coalesce(sum(dead), 0) AS dead, coalesce(sum(cancelled), 0) AS cancelled,
      coalesce(sum(expired), 0) AS expired, bool_or(mark IN (1, 3)) AS closes INTO n FROM tarry.batch_add WHERE batch = p_batch;
  b.unfinished := b.unfinished + n.unfinished; b.acked := b.acked + n.acked; b.dead := b.dead + n.dead; b.cancelled := b.cancelled + n.cancelled;
  b.expired := b.expired + n.expired; b.closed := b.closed OR coalesce(n.closes, false);
  RETURN b;
END $$;

-- A batch as it is shown with its waiting job.
CREATE FUNCTION tarry._waiting(p_batch bigint) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE b tarry.batch := tarry._batch_now(p_batch);
BEGIN
  RETURN ARRAY[b.on_dead, b.closed::int, b.ended::int, b.unfinished, b.acked, b.dead, b.cancelled, b.expired, b.members, b.wait_span, b.close_span];
END $$;

CREATE FUNCTION tarry._too_many_batches() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  -- 100,000 rows do not fit in fewer pages, so a count is rarely needed
  RETURN pg_relation_size('tarry.batch') > 1200 * 8192 AND (SELECT count(*) FROM tarry.batch) >= 100000;
END $$;

-- Checks whether a new member may join the batch of a waiting job, and keeps the batch from being closed until the end of the transaction. p_parent: the
-- lease of a member that adds it, as topic, level, due, sequence, delivery and time; or empty.
CREATE FUNCTION tarry._join(p_topic text, p_id text, p_parent text, p_now bigint, OUT status text, OUT number bigint, OUT form bytea, OUT members int)
LANGUAGE plpgsql AS $$
DECLARE b tarry.batch; parent bigint[]; total bigint;
BEGIN
  number := tarry._named(p_topic, p_id);
  PERFORM FROM tarry.batch WHERE batch = number FOR KEY SHARE;
  IF NOT FOUND THEN status := 'no_batch'; RETURN; END IF;
  b := tarry._batch_now(number); total := b.unfinished::bigint + b.acked + b.dead + b.cancelled + b.expired;
  IF b.closed OR (b.members > 0 AND total >= b.members) THEN
    parent := string_to_array(p_parent, ',')::bigint[];
    PERFORM FROM tarry.job j WHERE j.topic = parent[1] AND j.level = parent[2] AND j.due = parent[3] AND j.seq = parent[4] AND j.state = 3 AND j.delivery = parent[5]
      AND j.taken = parent[6] AND j.lease_until > p_now AND j.batch = number FOR KEY SHARE;
    IF NOT FOUND THEN b.stopped := true; END IF;
  END IF;
  members := b.members;
  form := '\x01'::bytea || tarry._varint(octet_length(p_topic)) || convert_to(p_topic, 'UTF8') || tarry._varint(octet_length(p_id)) || convert_to(p_id, 'UTF8')
    || tarry._varint(number) || tarry._varint(b.depth + 1);
  status := CASE WHEN b.ended OR b.stopped THEN 'batch_closed' WHEN total >= 1000000 THEN 'too_many_members' WHEN b.depth >= 16 THEN 'too_deep' ELSE 'ok' END;
END $$;

-- Cancels waiting members of a stopped batch, a limited number per call, and requests the cancel of leased ones. Returns how many ended, and whether some
-- are left.
CREATE FUNCTION tarry._stop_members(p_batch bigint, p_now bigint, OUT done int, OUT is_left boolean) LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; j tarry.job; counts bigint[];
BEGIN
  done := 0;
  FOR j IN DELETE FROM tarry.job d USING (SELECT topic, id FROM tarry.job WHERE batch = p_batch AND state = 1 LIMIT 1000 FOR UPDATE SKIP LOCKED) o
      WHERE d.topic = o.topic AND d.id = o.id RETURNING d.* LOOP
    SELECT * INTO t FROM tarry.topic WHERE topic = j.topic;
    PERFORM tarry._let_go(t, j, p_now);
    PERFORM tarry._note(t, j, 'cancelled', p_now, NULL, NULL);
    counts := tarry._finish(t, j, 2, p_now, tarry._counted(tarry._none(), j, -1)); counts[8] := 1;
    INSERT INTO tarry.tally_add VALUES (t.topic, counts);
    IF j.own IS NOT NULL THEN PERFORM tarry._add_to_batch(j.own, NULL); END IF;
    done := done + 1;
  END LOOP;
  UPDATE tarry.job d SET cancel_requested = true, next = NULL FROM (SELECT topic, id FROM tarry.job
      WHERE batch = p_batch AND state = 3 AND NOT cancel_requested FOR UPDATE SKIP LOCKED) o WHERE d.topic = o.topic AND d.id = o.id;
  is_left := EXISTS (SELECT FROM tarry.job WHERE batch = p_batch AND (state = 1 OR state = 3 AND NOT cancel_requested));
END $$;

-- Ends the wait of a job whose batch the caller has locked. p_now NULL: another transaction changes the job, so the caller tries again.
CREATE FUNCTION tarry._end_wait(b tarry.batch, p_run boolean, INOUT p_now bigint, OUT name text) LANGUAGE plpgsql AS $$
DECLARE j tarry.job; t tarry.topic; due bigint;
BEGIN
  SELECT * INTO j FROM tarry.job WHERE topic = b.topic AND id = b.id AND own = b.batch AND state = 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN p_now := NULL; RETURN; END IF;
  SELECT * INTO t FROM tarry.topic WHERE topic = b.topic;
  due := CASE WHEN p_run THEN p_now WHEN j.first_due < 0 THEN p_now - j.first_due + 1 ELSE greatest(p_now, j.first_due) END;
  j.due := due; j.first_due := due;
  PERFORM tarry._number();
  UPDATE tarry.job SET due = j.due, first_due = j.due, expire = tarry._expire_at(t, j), by_sql = false WHERE topic = j.topic AND id = j.id;
  IF due < p_now + 1500 THEN PERFORM pg_notify('tarry', 'r ' || t.name || ' ' || due / 1000 * 1000); END IF;
  name := t.name; p_now := due;
END $$;

-- Adds up what tarry.batch_add has of these batches, and makes the jobs due that have nothing left to wait for. Returns as tarry._count_batches.
-- A batch is closed only when no transaction is open that has pushed a member into it, so its members are all counted.
CREATE FUNCTION tarry._settle_batches(p_batches bigint[]) RETURNS TABLE (name text, due bigint) LANGUAGE plpgsql AS $$
DECLARE b tarry.batch; a tarry.batch_add; known bigint[] := '{}'; now bigint := tarry.now_ms(); is_gone boolean; ends boolean; stops boolean; runs boolean;
  closes boolean; more boolean; again boolean := false; w record;
BEGIN
  FOR b IN SELECT * FROM tarry.batch k WHERE k.batch = ANY (p_batches) ORDER BY k.batch FOR NO KEY UPDATE LOOP
    known := known || b.batch; more := false; ends := false; stops := false; runs := false; closes := false;
    LOOP
      FOR a IN DELETE FROM tarry.batch_add k WHERE k.batch = b.batch RETURNING k.* LOOP
        closes := closes OR a.mark = 1; ends := ends OR a.mark IN (2, 4); stops := stops OR a.mark = 3; runs := runs OR a.mark = 4;
        CONTINUE WHEN b.ended;
        b.unfinished := b.unfinished + a.unfinished; b.acked := b.acked + a.acked; b.dead := b.dead + a.dead;
        b.cancelled := b.cancelled + a.cancelled; b.expired := b.expired + a.expired;
      END LOOP;
      EXIT WHEN b.ended OR b.closed OR more;
      EXIT WHEN NOT closes AND (b.members = 0 OR b.unfinished::bigint + b.acked + b.dead + b.cancelled + b.expired < b.members);
      PERFORM FROM tarry.batch k WHERE k.batch = b.batch FOR UPDATE SKIP LOCKED;
      IF FOUND THEN b.closed := true; ELSE more := true; PERFORM tarry._add_to_batch(b.batch, NULL, 1); EXIT; END IF;
    END LOOP;
    is_gone := NOT EXISTS (SELECT FROM tarry.job j WHERE j.topic = b.topic AND j.id = b.id AND j.own = b.batch);
    IF stops OR (b.on_dead = 3 AND b.dead > 0 AND NOT b.ended) THEN b.stopped := true; b.closed := true; END IF;
    IF b.stopped AND (stops OR NOT b.ended) THEN
      SELECT * INTO w FROM tarry._stop_members(b.batch, now);
      IF NOT b.ended THEN b.unfinished := b.unfinished - w.done; b.cancelled := b.cancelled + w.done; END IF;
      again := again OR w.done > 0; -- batches of their own
      IF w.is_left THEN more := true; is_gone := false; PERFORM tarry._add_to_batch(b.batch, NULL, 3); END IF;
    END IF;
    IF is_gone THEN
      DELETE FROM tarry.batch k WHERE k.batch = b.batch;
      CONTINUE;
    END IF;
    ends := NOT b.ended AND (ends OR b.closed AND NOT more AND b.unfinished + CASE WHEN b.on_dead = 2 THEN b.dead ELSE 0 END = 0);
    IF ends THEN
      SELECT * INTO w FROM tarry._end_wait(b, runs, now);
      IF w.p_now IS NOT NULL THEN
        b.ended := true; name := w.name; due := w.p_now;
        RETURN NEXT;
      ELSIF EXISTS (SELECT FROM tarry.job j WHERE j.topic = b.topic AND j.id = b.id AND j.own = b.batch AND j.state = 1) THEN
        more := true; PERFORM tarry._add_to_batch(b.batch, NULL, CASE WHEN runs THEN 4 ELSE 0 END);
      END IF;
    END IF;
    UPDATE tarry.batch k SET unfinished = b.unfinished, acked = b.acked, dead = b.dead, cancelled = b.cancelled, expired = b.expired, closed = b.closed,
      ended = b.ended, stopped = b.stopped WHERE k.batch = b.batch;
    IF more THEN name := NULL; due := now + 100; RETURN NEXT; END IF;
  END LOOP;
  IF cardinality(known) < cardinality(p_batches) THEN
    DELETE FROM tarry.batch_add k WHERE k.batch = ANY (p_batches) AND k.batch <> ALL (known) AND NOT EXISTS (SELECT FROM tarry.batch o WHERE o.batch = k.batch);
  END IF;
  IF again THEN name := NULL; due := now; RETURN NEXT; END IF;
END $$;

-- Adds changes to batches. p_looks: batches whose waiting job has ended, or that have a row in tarry.batch_add. p_all: also all others there. Returns the topics
-- and dues of jobs whose wait has ended; a row without a topic: something is left to do, since other transactions hold its rows.
CREATE FUNCTION tarry._count_batches(p_batches bigint[], p_unfinished int[], p_acked int[], p_dead int[], p_cancelled int[], p_expired int[], p_looks boolean[],
  p_all boolean) RETURNS TABLE (name text, due bigint) LANGUAGE plpgsql AS $$
DECLARE numbers bigint[];
BEGIN
  WITH o AS MATERIALIZED (
    SELECT k.batch FROM tarry.batch k WHERE k.batch = ANY (p_batches) ORDER BY k.batch FOR NO KEY UPDATE
  ), u AS (
    UPDATE tarry.batch k SET unfinished = k.unfinished + d.unfinished, acked = k.acked + d.acked, dead = k.dead + d.dead, cancelled = k.cancelled + d.cancelled,
        expired = k.expired + d.expired
      FROM o JOIN unnest(p_batches, p_unfinished, p_acked, p_dead, p_cancelled, p_expired) d(batch, unfinished, acked, dead, cancelled, expired) ON d.batch = o.batch
      WHERE k.batch = o.batch AND NOT k.ended RETURNING k.*
  ) SELECT array_agg(u.batch) INTO numbers FROM u WHERE u.stopped OR (u.on_dead = 3 AND u.dead > 0) OR (u.closed AND u.unfinished + CASE WHEN u.on_dead = 2 THEN u.dead
      ELSE 0 END <= 0) OR (u.members > 0 AND NOT u.closed AND u.unfinished::bigint + u.acked + u.dead + u.cancelled + u.expired >= u.members)
      OR (SELECT true FROM tarry.batch_add a WHERE a.batch = u.batch LIMIT 1) IS NOT NULL;
  IF true = ANY (p_looks) THEN numbers := numbers || ARRAY(SELECT u.batch FROM unnest(p_batches, p_looks) u(batch, looks) WHERE u.looks); END IF;
  IF p_all THEN numbers := numbers || ARRAY(SELECT DISTINCT k.batch FROM tarry.batch_add k LIMIT 1000); END IF;
  IF numbers IS NOT NULL THEN RETURN QUERY SELECT * FROM tarry._settle_batches(numbers); END IF;
END $$;

CREATE FUNCTION tarry._push(p_topic text, p_id text, p_kind int, p_ms bigint, p_priority int, p_conflict int, p_lease bigint, p_ttl bigint,
  p_backoff_kind int, p_backoff_first bigint, p_backoff_max bigint, p_attempts bigint, p_type bytea, p_meta bytea, p_body bytea,
  p_past int, p_dead boolean, p_error bytea, p_topics_max int, p_sql boolean, p_seq bigint DEFAULT NULL, p_keep bigint DEFAULT NULL,
  p_steps text DEFAULT NULL, p_group text DEFAULT '', p_batch text DEFAULT '') RETURNS tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did; t tarry.topic; o tarry.job; j tarry.job; s int; held bigint; now bigint := tarry.now_ms(); how int; size int; wish text[]; k record; is_member boolean := false; is_new boolean;
BEGIN
  PERFORM pg_current_xact_id(); -- before it looks: see topic.flow_begun
  r.counts := tarry._none();
  IF tarry._is_far(now, p_kind, p_ms) THEN r.status := 'bad_at'; RETURN r; END IF;
  t := tarry._topic(p_topic, p_topics_max);
  IF t.topic IS NULL THEN r.status := 'too_many_topics'; RETURN r; END IF;
  r.topic := t.topic;
  IF EXISTS (SELECT FROM tarry.finished f WHERE f.topic = t.topic AND f.id = p_id AND f.until > now) THEN
    r.status := 'existed'; RETURN r;
  END IF;
  IF t.max_jobs > 0 THEN
    PERFORM FROM tarry.topic WHERE topic = t.topic FOR NO KEY UPDATE;
    IF NOT EXISTS (SELECT FROM tarry.job WHERE topic = t.topic AND id = p_id) AND tarry._jobs(t.topic) >= t.max_jobs THEN
      r.status := 'topic_full'; RETURN r;
    END IF;
  END IF;
  how := coalesce(nullif(p_conflict, 0), nullif(t.on_conflict, 0), 1);
  j.topic := t.topic; j.id := p_id; j.priority := coalesce(nullif(p_priority, -1), t.priority, 100);
  j.state := CASE WHEN p_dead THEN 4 ELSE 1 END; j.level := CASE WHEN p_dead THEN 70000 ELSE j.priority END;
  j.due := tarry._due(now, p_kind, p_ms); j.first_due := j.due; j.attempt := p_past;
  j.lease := nullif(p_lease, 0); j.ttl := nullif(p_ttl, 0); j.max_attempts := nullif(p_attempts, 0);
  j.backoff_kind := nullif(p_backoff_kind, 0); j.backoff_first := p_backoff_first; j.backoff_max := p_backoff_max;
  j.backoff_steps := nullif(p_steps, '');
  j.content_type := nullif(p_type, ''); j.meta := nullif(p_meta, ''); j.error := nullif(p_error, ''); j.body := p_body;
  j.expire := tarry._expire_at(t, j); j.seq := coalesce(p_seq, tarry._number()); j.by_sql := p_sql;
  j.lease_until := 0; j.taken := 0; j.lease_span := 0; j.delivery := 0; j.server := 0; j.cancel_requested := false; j.keep := p_keep; j.slot := 0;
  IF p_batch <> '' THEN
    wish := string_to_array(p_batch, ' '); is_member := wish[1] <> '';
    IF wish[4] = '1' THEN
      IF tarry._too_many_batches() THEN r.status := 'too_many_batches'; RETURN r; END IF;
      j.own := j.seq; j.due := tarry._wait_due(); j.expire := now + least(wish[7]::bigint, wish[8]::bigint) + 1;
      j.first_due := tarry._later(p_kind, p_ms);
    END IF;
  END IF;
  j.tried := t.flow & 32 > 0 AND p_past > 0 AND NOT p_dead;
  IF p_group <> '' OR t.flow % 2 = 1 THEN j.grp := tarry._group(t.topic, coalesce(p_group, '')); END IF;
  IF j.grp IS NOT NULL AND t.flow & 16 > 0 AND tarry._is_full(t, j.grp, p_id) THEN r.status := 'group_full'; RETURN r; END IF;
  PERFORM tarry._level(t.topic, j.priority);
  LOOP
    IF is_member AND NOT EXISTS (SELECT FROM tarry.job WHERE topic = t.topic AND id = p_id) THEN
      SELECT * INTO k FROM tarry._join(wish[1], wish[2], wish[3], now);
      IF k.status <> 'ok' THEN r.status := k.status; RETURN r; END IF;
      j.batch := k.number; j.batches := k.form;
    END IF;
    is_new := false;
    IF NOT is_member OR j.batch IS NOT NULL THEN
      INSERT INTO tarry.job SELECT j.* ON CONFLICT (topic, id) DO NOTHING;
      is_new := FOUND;
    END IF;
    IF is_new THEN
      -- It may have waited for who ended the job before, which is remembered since.
      IF EXISTS (SELECT FROM tarry.finished f WHERE f.topic = t.topic AND f.id = p_id AND f.until > now) THEN
        DELETE FROM tarry.job WHERE topic = t.topic AND id = p_id;
        r.status := 'existed'; RETURN r;
      END IF;
      IF j.batch IS NOT NULL THEN
        r.batch := j.batch; r.moved := tarry._moved(5, tarry._outcome(j.state));
        -- the next push of this transaction must see it
        IF k.members > 0 AND NOT p_sql THEN PERFORM tarry._add_to_batch(r.batch, r.moved); r.own := r.batch; r.batch := NULL; END IF;
      END IF;
      r.status := 'created'; r.counts[6] := 1;
      DELETE FROM tarry.finished f WHERE f.topic = t.topic AND f.id = p_id AND f.kept + 0 > 0 RETURNING f.bytes INTO size; -- an id names one job
      IF FOUND THEN r.counts[16] := -1; r.counts[17] := -size; END IF;
      EXIT;
    END IF;
    IF how IN (1, 4) THEN
      SELECT * INTO o FROM tarry.job WHERE topic = t.topic AND id = p_id AND state <> 3 AND (own IS NULL OR state = 4 OR due <> tarry._wait_due()) FOR UPDATE;
      IF FOUND AND is_member AND tarry._names_other(wish[1], wish[2], o.batch) THEN r.status := 'conflict'; RETURN r; END IF;
      IF FOUND THEN
        j.batch := o.batch; j.batches := o.batches;
        IF o.own IS NOT NULL THEN PERFORM tarry._add_to_batch(o.own, NULL); r.own := o.own; END IF;
        IF tarry._outcome(o.state) <> tarry._outcome(j.state) THEN
          IF tarry._is_stopped(o.batch) THEN j.batch := NULL; j.batches := NULL;
          ELSE r.batch := o.batch; r.moved := tarry._moved(tarry._outcome(o.state), tarry._outcome(j.state)); END IF;
        END IF;
        DELETE FROM tarry.job WHERE topic = t.topic AND id = p_id;
        PERFORM tarry._let_go(t, o, now);
        INSERT INTO tarry.job SELECT j.*;
        r.counts := tarry._counted(r.counts, o, -1); r.counts[10] := 1; r.status := 'replaced';
        PERFORM tarry._note(t, o, 'replaced', now, NULL, CASE WHEN p_sql THEN tarry._caller() END); EXIT;
      END IF;
    END IF;
    IF how = 4 THEN
      SELECT * INTO o FROM tarry.job WHERE topic = t.topic AND id = p_id AND state = 3 FOR UPDATE;
      IF FOUND AND j.own IS NOT NULL THEN r.status := 'leased'; r.state := 3; RETURN r; END IF;
      IF FOUND AND is_member AND tarry._names_other(wish[1], wish[2], o.batch) THEN r.status := 'conflict'; RETURN r; END IF;
      IF FOUND THEN
        UPDATE tarry.job SET next = ROW(j.due, j.seq, j.priority, j.lease, j.ttl, j.backoff_kind, j.backoff_first, j.backoff_max, j.max_attempts,
          j.content_type, j.meta, j.body, j.keep, j.backoff_steps, j.grp)::tarry.successor WHERE topic = t.topic AND id = p_id;
        r.status := CASE WHEN o.next IS NULL THEN 'created' ELSE 'replaced' END; r.state := 3; r.due := j.due; RETURN r;
      END IF;
    END IF;
    SELECT state, tarry._state(state, due, now), nullif(due, tarry._wait_due()), batch INTO s, r.state, r.due, held FROM tarry.job WHERE topic = t.topic AND id = p_id;
    IF FOUND AND r.due IS NULL AND how IN (1, 4) THEN r.status := 'waits'; RETURN r; END IF;
    CONTINUE WHEN how = 4;
    IF FOUND AND (how <> 1 OR s = 3) THEN
      IF how = 2 AND is_member AND tarry._names_other(wish[1], wish[2], held) THEN how := 3; END IF;
      r.status := CASE how WHEN 1 THEN 'leased' WHEN 2 THEN 'existed' ELSE 'conflict' END; RETURN r;
    END IF;
  END LOOP;
  IF j.own IS NOT NULL THEN
    INSERT INTO tarry.batch VALUES (j.own, j.topic, j.id, 0, wish[9]::int, wish[10]::int, wish[11]::int, wish[12]::int, wish[5]::int, wish[6]::int,
      CASE WHEN j.batch IS NULL THEN 0 ELSE 1 + (SELECT b.depth FROM tarry.batch b WHERE b.batch = j.batch) END, false, false, false, wish[7]::bigint, wish[8]::bigint,
      now + wish[7]::bigint + 1, now + wish[8]::bigint + 1);
    IF wish[6] <> '0' AND (wish[9] <> '0' OR wish[10] <> '0' OR wish[11] <> '0' OR wish[12] <> '0') THEN r.own := j.own; END IF;
  END IF;
  IF j.grp IS NOT NULL AND j.state = 1 THEN INSERT INTO tarry.grp_note VALUES (j.topic, j.grp, 0, j.due, NULL, j.seq); END IF;
  r.counts := tarry._counted(r.counts, j, 1);
  r.state := tarry._state(j.state, j.due, now); r.due := nullif(j.due, tarry._wait_due()); r.expire := j.expire;
  r.died := p_dead AND t.extension <> '';
  r.counts := tarry._settle(t, p_sql, r.counts);
  IF r.batch IS NOT NULL OR r.own IS NOT NULL THEN r := tarry._settle_batch(r, p_sql); END IF;
  RETURN r;
END $$;

-- Pushes a job unless `p_once` was used in the topic and its time has not ended. It is remembered under a blank and its text, which no id has; the row
-- makes a second push wait for the first. A push that stores no job leaves no row.
CREATE FUNCTION tarry._push_once(p_topic text, p_id text, p_kind int, p_ms bigint, p_priority int, p_conflict int, p_lease bigint, p_ttl bigint,
  p_backoff_kind int, p_backoff_first bigint, p_backoff_max bigint, p_attempts bigint, p_type bytea, p_meta bytea, p_body bytea,
  p_past int, p_dead boolean, p_error bytea, p_topics_max int, p_sql boolean, p_once text, p_once_for bigint, p_keep bigint DEFAULT NULL,
  p_steps text DEFAULT NULL, p_group text DEFAULT '', p_batch text DEFAULT '') RETURNS tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did; t tarry.topic; now bigint := tarry.now_ms();
BEGIN
  r.counts := tarry._none();
  IF tarry._is_far(now, p_kind, p_ms) THEN r.status := 'bad_at'; RETURN r; END IF;
  t := tarry._topic(p_topic, p_topics_max);
  IF t.topic IS NULL THEN r.status := 'too_many_topics'; RETURN r; END IF;
  INSERT INTO tarry.finished AS f VALUES (t.topic, ' ' || p_once, now + p_once_for + 1)
    ON CONFLICT (topic, id) DO UPDATE SET until = excluded.until WHERE f.until <= now;
  IF NOT FOUND THEN r.topic := t.topic; r.status := 'existed'; RETURN r; END IF;
  r := tarry._push(p_topic, p_id, p_kind, p_ms, p_priority, p_conflict, p_lease, p_ttl, p_backoff_kind, p_backoff_first, p_backoff_max, p_attempts,
    p_type, p_meta, p_body, p_past, p_dead, p_error, p_topics_max, p_sql, NULL, p_keep, p_steps, p_group, p_batch);
  IF r.status NOT IN ('created', 'replaced') THEN DELETE FROM tarry.finished WHERE topic = t.topic AND id = ' ' || p_once; END IF;
  RETURN r;
END $$;

-- Starts the successor of a job whose lease ended: 1 by an ack, 2 by the cancel that was requested, 3 by a nack, 4 by a return, 5 by itself.
CREATE FUNCTION tarry._start_next(t tarry.topic, j tarry.job, p_how int, now bigint, r tarry._did) RETURNS tarry._did LANGUAGE plpgsql AS $$
DECLARE n tarry.successor := j.next;
BEGIN
  r.counts[3] := r.counts[3] - 1; r.was_due := j.due;
  FOR k IN 6 .. 15 LOOP
    IF (k = CASE p_how WHEN 1 THEN 7 WHEN 2 THEN 8 WHEN 3 THEN 12 WHEN 5 THEN 13 END OR k = CASE WHEN p_how <= 2 THEN 6 ELSE 10 END) THEN
      r.counts[k] := r.counts[k] + 1;
    END IF;
  END LOOP;
  j.due := n.due; j.first_due := n.due; j.seq := n.seq; j.priority := n.priority; j.level := n.priority; j.state := 1; j.attempt := 0; j.ttl := n.ttl;
  IF t.flow % 2 = 1 THEN j.grp := coalesce(n.grp, 0); END IF;
  r.own := j.own;
  j.expire := tarry._expire_at(t, j);
  PERFORM tarry._level(t.topic, n.priority);
  PERFORM tarry._number();
  UPDATE tarry.job SET due = j.due, seq = j.seq, first_due = j.due, lease_until = 0, taken = 0, lease_span = 0, delivery = 0, server = 0, level = j.level,
    priority = j.priority, attempt = 0, state = 1, by_sql = false, expire = j.expire, lease = n.lease, ttl = n.ttl, backoff_kind = n.backoff_kind,
    backoff_first = n.backoff_first, backoff_max = n.backoff_max, backoff_steps = n.backoff_steps, max_attempts = n.max_attempts, content_type = n.content_type, meta = n.meta,
    error = NULL, history = NULL, body = n.body, consumer = NULL, cancel_requested = false, next = NULL, keep = n.keep, progress = NULL, grp = j.grp, tried = false, own = NULL WHERE topic = j.topic AND id = j.id;
  r.counts := tarry._counted(r.counts, j, 1);
  r.state := tarry._state(1, j.due, now); r.due := j.due; r.expire := j.expire;
  r.counts := tarry._settle(t, false, r.counts);
  RETURN r;
END $$;

-- Changes one job. `p_delivery`, if not 0: only a job whose last delivery has this number, dead or waiting by p_only_dead.
-- A job that cannot be changed is only read: a lock on it would hold up its consumer until the caller's transaction ends. p_members: with the members of
-- its batch.
CREATE FUNCTION tarry._change(p_verb int, p_topic text, p_id text, p_kind int, p_ms bigint, p_priority int,
  p_only_dead boolean, p_delivery bigint, p_request boolean, p_sql boolean, p_members boolean DEFAULT false) RETURNS tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did; t tarry.topic; j tarry.job; now bigint := tarry.now_ms();
BEGIN
  r.counts := tarry._none(); r.status := 'not_found';
  SELECT * INTO t FROM tarry.topic WHERE name = p_topic;
  IF NOT FOUND THEN RETURN r; END IF;
  r.topic := t.topic;
  IF p_verb = 1 THEN
    DELETE FROM tarry.job WHERE topic = t.topic AND id = p_id AND state <> 3
      AND (CASE WHEN p_only_dead THEN state = 4 AND delivery = p_delivery ELSE p_delivery = 0 OR state = 1 AND delivery = p_delivery END)
      RETURNING * INTO j;
    IF FOUND THEN
      PERFORM tarry._let_go(t, j, now);
      PERFORM tarry._note(t, j, 'cancelled', now, NULL, CASE WHEN p_sql THEN tarry._caller() END);
      r.counts := tarry._finish(t, j, 2, now, tarry._counted(r.counts, j, -1)); r.counts[8] := 1;
      r.counts := tarry._settle(t, p_sql, r.counts); r.status := 'cancelled'; r.attempt := j.attempt; r.was_due := nullif(j.due, tarry._wait_due());
      IF j.batch IS NOT NULL OR j.own IS NOT NULL THEN
        r.batch := j.batch; r.moved := tarry._moved(tarry._outcome(j.state), 3); r.own := j.own;
        IF p_members AND j.own IS NOT NULL THEN PERFORM tarry._add_to_batch(j.own, NULL, 3); END IF;
        r := tarry._settle_batch(r, p_sql);
      END IF;
      RETURN r;
    END IF;
    IF p_request AND NOT p_only_dead THEN
      UPDATE tarry.job SET cancel_requested = true, next = NULL WHERE topic = t.topic AND id = p_id AND state = 3;
      IF FOUND THEN r.status := 'requested'; r.state := 3; RETURN r; END IF;
    END IF;
    IF NOT p_request AND NOT p_only_dead AND p_delivery = 0 THEN
      SELECT * INTO j FROM tarry.job WHERE topic = t.topic AND id = p_id AND state = 3 AND NOT (next IS NULL) FOR UPDATE;
      IF FOUND THEN
        UPDATE tarry.job SET next = NULL WHERE topic = t.topic AND id = p_id;
        r.status := 'leased'; r.state := 3; r.was_due := (j.next).due; RETURN r;
      END IF;
    END IF;
  ELSIF p_verb = 4 THEN
    SELECT * INTO j FROM tarry.job WHERE topic = t.topic AND id = p_id AND own IS NOT NULL;
    IF FOUND THEN
      PERFORM tarry._add_to_batch(j.own, NULL, 1);
      r.own := j.own; r.status := 'ok'; r.state := tarry._state(j.state, j.due, now); r.due := nullif(j.due, tarry._wait_due()); r.attempt := j.attempt;
      RETURN tarry._settle_batch(r, p_sql);
    END IF;
    RETURN r;
  ELSE
    SELECT * INTO j FROM tarry.job WHERE topic = t.topic AND id = p_id AND state = 1 FOR UPDATE;
    IF FOUND AND j.own IS NOT NULL AND j.due = tarry._wait_due() THEN
      IF p_verb = 2 AND tarry._is_far(now, p_kind, p_ms) THEN r.status := 'bad_at'; RETURN r; END IF;
      r.status := 'ok'; r.state := 1; r.attempt := j.attempt;
      IF p_verb = 3 THEN
        PERFORM tarry._add_to_batch(j.own, NULL, 4);
        r.own := j.own; r.state := 2; r.due := now;
      ELSE
        IF p_priority >= 0 THEN j.priority := p_priority; PERFORM tarry._level(t.topic, p_priority); END IF;
        IF p_kind <> 4 THEN j.first_due := tarry._later(p_kind, p_ms); END IF;
        UPDATE tarry.job SET first_due = j.first_due, priority = j.priority, level = j.priority WHERE topic = t.topic AND id = p_id;
      END IF;
      RETURN tarry._settle_batch(r, p_sql);
    END IF;
    IF FOUND THEN
      IF p_verb = 2 AND tarry._is_far(now, p_kind, p_ms) THEN r.status := 'bad_at'; RETURN r; END IF;
      IF p_verb = 3 AND j.due > now THEN
        j.due := now; j.first_due := now;
      ELSIF p_verb = 2 THEN
        IF p_priority >= 0 THEN
          j.priority := p_priority; j.level := p_priority; PERFORM tarry._level(t.topic, p_priority);
        END IF;
        IF p_kind <> 4 THEN j.due := tarry._due(now, p_kind, p_ms); j.first_due := j.due; END IF;
      END IF;
      r.expire := tarry._expire_at(t, j);
      PERFORM tarry._number();
      UPDATE tarry.job SET due = j.due, first_due = j.first_due, priority = j.priority, level = j.level, expire = r.expire, by_sql = p_sql
        WHERE topic = t.topic AND id = p_id;
      r.status := 'ok'; r.state := tarry._state(1, j.due, now); r.due := j.due; r.attempt := j.attempt; RETURN r;
    END IF;
  END IF;
  SELECT * INTO j FROM tarry.job WHERE topic = t.topic AND id = p_id;
  IF FOUND THEN
    r.state := tarry._state(j.state, j.due, now);
    r.status := CASE WHEN p_only_dead OR p_delivery <> 0 THEN 'conflict' WHEN j.state = 3 THEN 'leased' WHEN j.state = 4 THEN 'dead' ELSE 'again' END;
    IF j.state <> 3 OR p_only_dead OR p_delivery <> 0 THEN r.due := nullif(j.due, tarry._wait_due()); END IF;
  END IF;
  IF r.status = 'again' THEN
    RETURN tarry._change(p_verb, p_topic, p_id, p_kind, p_ms, p_priority, p_only_dead, p_delivery, p_request, p_sql, p_members);
  END IF;
  RETURN r;
END $$;

-- Seven bits a byte, the lowest first, as in a job's record: up to 49 bits. One expression each, so that a statement has them in itself.
CREATE FUNCTION tarry._varint(p bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN p < 128 THEN set_byte(E'\\x00'::bytea, 0, p::int)
    WHEN p < 16384 THEN set_byte(set_byte(E'\\x0000'::bytea, 0, (p & 127)::int | 128), 1, (p >> 7)::int)
    WHEN p < 2097152 THEN set_byte(set_byte(set_byte(E'\\x000000'::bytea, 0, (p & 127)::int | 128), 1, (p >> 7 & 127)::int | 128), 2, (p >> 14)::int)
    WHEN p < 268435456 THEN set_byte(set_byte(set_byte(set_byte(E'\\x00000000'::bytea, 0, (p & 127)::int | 128), 1, (p >> 7 & 127)::int | 128),
      2, (p >> 14 & 127)::int | 128), 3, (p >> 21)::int)
    WHEN p < 34359738368 THEN set_byte(set_byte(set_byte(set_byte(set_byte(E'\\x0000000000'::bytea, 0, (p & 127)::int | 128),
      1, (p >> 7 & 127)::int | 128), 2, (p >> 14 & 127)::int | 128), 3, (p >> 21 & 127)::int | 128), 4, (p >> 28)::int)
    WHEN p < 4398046511104 THEN set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(E'\\x000000000000'::bytea, 0, (p & 127)::int | 128),
      1, (p >> 7 & 127)::int | 128), 2, (p >> 14 & 127)::int | 128), 3, (p >> 21 & 127)::int | 128), 4, (p >> 28 & 127)::int | 128), 5, (p >> 35)::int)
    ELSE set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(set_byte(E'\\x00000000000000'::bytea, 0, (p & 127)::int | 128),
      1, (p >> 7 & 127)::int | 128), 2, (p >> 14 & 127)::int | 128), 3, (p >> 21 & 127)::int | 128), 4, (p >> 28 & 127)::int | 128),
      5, (p >> 35 & 127)::int | 128), 6, (p >> 42)::int)
  END $$;

-- Appends a failed attempt; outcome 1 nacked, 2 the lease ended, 3 refused. Keeps the last eight.
CREATE FUNCTION tarry._attempts_with(p_history bytea[], p_attempt int, p_taken bigint, p_ended bigint, p_outcome int, p_short bytea)
RETURNS bytea[] LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN cardinality(p_history) > 7 THEN p_history[cardinality(p_history) - 6 :] ELSE coalesce(p_history, '{}') END
    || (tarry._varint(p_attempt) || tarry._varint(p_taken) || tarry._varint(greatest(0, p_ended - p_taken)) || tarry._varint(p_outcome)
      || tarry._varint(octet_length(p_short)) || p_short) $$;

-- Returns the wait before it is changed. Kind 4 is a list of waits, whose last one repeats.
CREATE FUNCTION tarry._wait(p_kind int, p_first bigint, p_most bigint, p_steps text, p_attempt int) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE p_kind WHEN 2 THEN least(p_first * power(2::float8, least(greatest(p_attempt - 1, 0), 60)), p_most)::bigint
    WHEN 4 THEN (string_to_array(p_steps, ','))[least(p_attempt, cardinality(string_to_array(p_steps, ',')))]::bigint ELSE least(p_first, p_most) END $$;

-- Returns a wait, changed by up to 20 % in either direction; kind 3: no wait.
CREATE FUNCTION tarry._scattered(p_kind int, p_wait bigint, p_luck float8) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_kind = 3 THEN 0
    ELSE greatest(1, p_wait - p_wait * 20 / 100 + floor(p_luck * (2 * (p_wait * 20 / 100) + 1))::bigint) + 1 END $$;

-- Returns the wait of a failed job, by its own backoff or its topic's; p_luck: from 0 to 1.
CREATE FUNCTION tarry._backoff(p_kind int, p_first bigint, p_most bigint, p_steps text, t_kind int, t_first bigint, t_most bigint, t_steps text,
  p_attempt int, p_luck float8)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_kind IS NOT NULL THEN tarry._scattered(p_kind, tarry._wait(p_kind, p_first, p_most, p_steps, p_attempt), p_luck)
    WHEN t_kind > 0 THEN tarry._scattered(t_kind, tarry._wait(t_kind, t_first, t_most, t_steps, p_attempt), p_luck)
    ELSE tarry._scattered(2, tarry._wait(2, 1000, 600000, NULL, p_attempt), p_luck) END $$;

-- ack 1, nack 2, extend 3, return 4; 5: the lease ends by itself. p_short: the error as the history keeps it. p_result: of an ack; of an extend the
-- progress.
CREATE FUNCTION tarry._answer(p_verb int, p_topic int, p_level int, p_due bigint, p_seq bigint, p_delivery bigint, p_taken bigint,
  p_delay bigint, p_final boolean, p_error bytea, p_short bytea, p_lease bigint, p_server bigint, p_priority int, p_type bytea DEFAULT NULL,
  p_result bytea DEFAULT NULL) RETURNS tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did; t tarry.topic; j tarry.job; now bigint := tarry.now_ms(); outcome int; ended bigint; attempts bigint;
BEGIN
  r.counts := tarry._none(); r.status := 'lease_ended';
  SELECT * INTO t FROM tarry.topic WHERE topic = p_topic AND name IS NOT NULL;
  IF NOT FOUND THEN RETURN r; END IF;
  r.topic := t.topic; r.name := t.name;
  SELECT * INTO j FROM tarry.job WHERE topic = p_topic AND level = p_level AND due = p_due AND seq = p_seq
    AND state = 3 AND delivery = p_delivery AND taken = p_taken FOR UPDATE;
  IF NOT FOUND THEN RETURN r; END IF;
  IF p_verb = 5 AND (j.lease_until > now OR j.server <> p_server) THEN
    IF j.server = p_server THEN r.lease_until := j.lease_until; END IF; -- it was extended
    RETURN r;
  END IF;
  IF p_verb <> 5 AND j.lease_until <= now THEN RETURN r; END IF;
  r.id := j.id; r.status := 'ok'; r.cancel_requested := j.cancel_requested; r.attempt := j.attempt;
  IF p_verb <> 3 AND NOT (j.next IS NULL) THEN
    PERFORM tarry._note(t, j, CASE p_verb WHEN 1 THEN 'acked' WHEN 2 THEN 'nacked' WHEN 4 THEN 'returned' ELSE 'lease_ended' END, now, nullif(p_error, ''), j.consumer);
    IF j.cancel_requested AND p_verb <> 1 THEN
      PERFORM tarry._note(t, j, 'cancelled', now, NULL, NULL); r.status := 'cancelled';
    END IF;
    RETURN tarry._start_next(t, j, CASE WHEN r.status = 'cancelled' THEN 2 WHEN p_verb = 2 THEN 3 ELSE p_verb END, now, r);
  ELSIF j.cancel_requested AND p_verb IN (2, 4, 5) THEN
    DELETE FROM tarry.job WHERE topic = j.topic AND id = j.id;
    PERFORM tarry._free(j);
    PERFORM tarry._note(t, j, CASE p_verb WHEN 2 THEN 'nacked' WHEN 4 THEN 'returned' ELSE 'lease_ended' END, now, nullif(p_error, ''), j.consumer);
    PERFORM tarry._note(t, j, 'cancelled', now, NULL, NULL);
    r.counts[3] := -1; r.counts[8] := 1; r.status := 'cancelled'; r.batch := j.batch; r.moved := tarry._moved(0, 3); r.own := j.own;
    r.counts := tarry._finish(t, j, 2, now, r.counts);
    r.counts := tarry._settle(t, false, r.counts);
    RETURN r;
  ELSIF p_verb = 1 THEN
    DELETE FROM tarry.job WHERE topic = j.topic AND id = j.id;
    PERFORM tarry._free(j);
    PERFORM tarry._note(t, j, 'acked', now, NULL, j.consumer);
    r.counts[3] := -1; r.counts[7] := 1; r.batch := j.batch; r.moved := tarry._moved(0, 1); r.own := j.own;
    r.counts := tarry._finish(t, j, 1, now, r.counts, p_type, p_result);
    r.counts := tarry._settle(t, false, r.counts);
    RETURN r;
  ELSIF p_verb = 3 THEN
    r.lease_until := now + CASE WHEN p_lease > 0 THEN p_lease ELSE j.lease_span END + 1;
    UPDATE tarry.job SET lease_until = r.lease_until, server = p_server, progress = coalesce(nullif(p_result, ''), j.progress) WHERE topic = j.topic AND id = j.id;
    r.state := 3;
    RETURN r;
  END IF;
  r.counts[3] := -1;
  PERFORM tarry._note(t, j, CASE p_verb WHEN 2 THEN 'nacked' WHEN 4 THEN 'returned' ELSE 'lease_ended' END, now, nullif(p_error, ''), j.consumer);
  IF p_verb = 4 THEN
    j.attempt := j.attempt - 1; j.state := 1;
    IF p_delay > 0 THEN j.due := now + p_delay + 1; END IF;
  ELSE
    outcome := CASE WHEN p_verb = 5 THEN 2 WHEN p_final THEN 3 ELSE 1 END;
    ended := CASE WHEN p_verb = 5 THEN j.lease_until ELSE now END;
    j.history := tarry._attempts_with(j.history, j.attempt, j.taken, ended, outcome, p_short);
    j.error := nullif(p_error, '');
    IF p_verb = 2 THEN r.counts[12] := 1; ELSE r.counts[13] := 1; END IF;
    IF p_verb = 2 AND p_priority >= 0 THEN
      j.priority := p_priority; j.level := p_priority; PERFORM tarry._level(t.topic, p_priority);
    END IF;
    attempts := coalesce(j.max_attempts, nullif(t.max_attempts, 0), 16);
    IF j.attempt >= attempts AND attempts < 4294967295 OR outcome = 3 THEN
      j.state := 4; j.level := 70000; r.counts[14] := 1; r.died := t.extension <> ''; r.batch := j.batch; r.moved := tarry._moved(0, 2);
      PERFORM tarry._note(t, j, 'died', now, j.error, j.consumer);
    ELSE
      j.state := 1;
      j.due := CASE WHEN p_delay < 0 THEN now + tarry._backoff(j.backoff_kind, j.backoff_first, j.backoff_max, j.backoff_steps, t.backoff_kind,
        t.backoff_first, t.backoff_max, t.backoff_steps, j.attempt, random()) WHEN p_delay = 0 THEN now ELSE now + p_delay + 1 END;
    END IF;
  END IF;
  j.expire := tarry._expire_at(t, j);
  PERFORM tarry._number();
  UPDATE tarry.job SET state = j.state, attempt = j.attempt, due = j.due, priority = j.priority, level = j.level, expire = j.expire, error = j.error, history = j.history,
    lease_until = 0, taken = 0, server = 0, by_sql = false, consumer = NULL, cancel_requested = false, progress = NULL,
    tried = t.flow & 32 > 0 AND j.state = 1 AND j.attempt > 0 WHERE topic = j.topic AND id = j.id;
  IF j.state = 4 THEN PERFORM tarry._mark_ended(t.name, j.id, 4, now, j.taken, j.attempt, j.consumer, p_type, p_result); END IF;
  r.counts := tarry._counted(r.counts, j, 1);
  r.state := tarry._state(j.state, j.due, now); r.due := j.due; r.expire := j.expire;
  r.counts := tarry._settle(t, false, r.counts);
  RETURN r;
END $$;

-- Acks a job and pushes it again. `p_priority` -1: as before; `p_given`: 1 a new body, 2 a new content type.
CREATE FUNCTION tarry._again(p_topic int, p_level int, p_due bigint, p_seq bigint, p_delivery bigint, p_taken bigint, p_kind int, p_ms bigint,
  p_priority int, p_given int, p_type bytea, p_body bytea) RETURNS tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did; t tarry.topic; j tarry.job; now bigint := tarry.now_ms();
BEGIN
  r.counts := tarry._none(); r.status := 'lease_ended';
  SELECT * INTO t FROM tarry.topic WHERE topic = p_topic AND name IS NOT NULL;
  IF NOT FOUND THEN RETURN r; END IF;
  r.topic := t.topic; r.name := t.name;
  SELECT * INTO j FROM tarry.job WHERE topic = p_topic AND level = p_level AND due = p_due AND seq = p_seq
    AND state = 3 AND delivery = p_delivery AND taken = p_taken FOR UPDATE;
  IF NOT FOUND OR j.lease_until <= now THEN RETURN r; END IF;
  r.id := j.id; r.attempt := j.attempt;
  IF tarry._is_far(now, p_kind, p_ms) THEN r.status := 'bad_at'; RETURN r; END IF;
  IF NOT (j.next IS NULL) THEN -- it wins
    r.status := CASE WHEN j.cancel_requested THEN 'cancelled' ELSE 'replaced' END;
    PERFORM tarry._note(t, j, CASE WHEN j.cancel_requested THEN 'cancelled' ELSE 'acked' END, now, NULL, j.consumer);
    RETURN tarry._start_next(t, j, CASE WHEN j.cancel_requested THEN 2 ELSE 1 END, now, r);
  END IF;
  r.counts[3] := -1;
  IF j.cancel_requested THEN
    DELETE FROM tarry.job WHERE topic = j.topic AND id = j.id;
    PERFORM tarry._free(j);
    PERFORM tarry._note(t, j, 'cancelled', now, NULL, NULL);
    r.counts[8] := 1; r.status := 'cancelled'; r.batch := j.batch; r.moved := tarry._moved(0, 3); r.own := j.own;
    r.counts := tarry._finish(t, j, 2, now, r.counts);
    r.counts := tarry._settle(t, false, r.counts);
    RETURN r;
  END IF;
  PERFORM tarry._note(t, j, 'acked', now, NULL, j.consumer);
  r.counts[6] := 1; r.counts[7] := 1; r.own := j.own;
  IF p_priority >= 0 THEN j.priority := p_priority; END IF;
  j.level := j.priority; j.state := 1; j.due := tarry._due(now, p_kind, p_ms); j.first_due := j.due; j.attempt := 0;
  PERFORM tarry._level(t.topic, j.level);
  IF p_given >= 2 THEN j.content_type := p_type; END IF;
  IF p_given % 2 = 1 THEN j.body := p_body; END IF;
  j.expire := tarry._expire_at(t, j); j.seq := tarry._number();
  UPDATE tarry.job SET due = j.due, seq = j.seq, first_due = j.first_due, lease_until = 0, taken = 0, lease_span = 0, delivery = 0, server = 0, level = j.level,
    priority = j.priority, attempt = 0, state = 1, by_sql = false, expire = j.expire, content_type = j.content_type, error = NULL, history = NULL, body = j.body,
    consumer = NULL, cancel_requested = false, progress = NULL, tried = false, own = NULL WHERE topic = j.topic AND id = j.id;
  r.counts := tarry._counted(r.counts, j, 1);
  r.status := 'created'; r.state := tarry._state(1, j.due, now); r.due := j.due; r.expire := j.expire;
  r.counts := tarry._settle(t, false, r.counts);
  RETURN r;
END $$;

-- The same for many jobs, each with the place of its row when it was taken. A row that is still there is found without an index, in topics that need
-- nothing more. Rows that have moved since are looked up by their keys, and the rest is pushed one by one. NULL in place of the counts: an ack and a push.
CREATE FUNCTION tarry._agains(p_rows tid[], p_topics int[], p_levels int[], p_dues bigint[], p_seqs bigint[], p_deliveries bigint[], p_takens bigint[],
  p_kinds int[], p_ms bigint[], p_priorities int[], p_given int[], p_types bytea[], p_bodies bytea[]) RETURNS SETOF tarry._did LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off AS $$
DECLARE r tarry._did; now bigint := tarry.now_ms(); seqs bigint[]; topics int[]; names text[]; ttls bigint[]; done bigint := 0; more bigint;
BEGIN
  PERFORM pg_current_xact_id(); -- as tarry._number
  seqs := ARRAY(SELECT nextval('tarry.sequence') FROM generate_series(1, cardinality(p_topics)));
  PERFORM tarry._level(w.topic, w.level) FROM (SELECT d.topic, d.level FROM (SELECT DISTINCT u.topic, u.level FROM unnest(p_topics, p_levels) u(topic, level)) d
    JOIN tarry.topic t ON t.topic = d.topic AND t.name IS NOT NULL ORDER BY 1, 2) w;
  SELECT array_agg(t.topic), array_agg(t.name), array_agg(t.ttl) INTO topics, names, ttls
    FROM (SELECT DISTINCT unnest(p_topics) AS topic) u JOIN tarry.topic t ON t.topic = u.topic
    WHERE t.name IS NOT NULL AND t.max_jobs = 0 AND t.flow = 0 AND t.history = 0;
  FOR again IN 0 .. 1 LOOP
    EXIT WHEN topics IS NULL;
    IF again = 1 THEN
      p_rows := ARRAY(SELECT (SELECT o.ctid FROM tarry.job o WHERE o.topic = u.topic AND o.level = u.level AND o.due = u.due AND o.seq = u.seq LIMIT 1)
        FROM unnest(p_topics, p_levels, p_dues, p_seqs) WITH ORDINALITY u(topic, level, due, seq, n) ORDER BY u.n);
    END IF;
    RETURN QUERY UPDATE tarry.job j SET due = a.new_due, seq = seqs[a.n], first_due = a.new_due, lease_until = 0, taken = 0, lease_span = 0, delivery = 0,
        server = 0, attempt = 0, state = 1, by_sql = false,
        expire = a.new_due + nullif(coalesce(j.ttl, ttls[array_position(topics, j.topic)]), 0), error = NULL, history = NULL, consumer = NULL,
        content_type = CASE WHEN p_given[a.n] >= 2 THEN p_types[a.n] ELSE j.content_type END,
        body = CASE WHEN p_given[a.n] % 2 = 1 THEN p_bodies[a.n] ELSE j.body END, progress = NULL, tried = false
      FROM (SELECT u.n, o.ctid AS place, o.attempt, tarry._due(now, u.kind, u.ms) AS new_due
          FROM unnest(p_rows, p_deliveries, p_takens, p_kinds, p_ms, p_priorities) WITH ORDINALITY u("row", delivery, taken, kind, ms, priority, n)
            JOIN tarry.job o ON o.ctid = u.row AND o.delivery = u.delivery AND o.taken = u.taken AND o.topic = ANY (topics)
          WHERE u.priority < 0 AND NOT tarry._is_far(now, u.kind, u.ms)) a
      WHERE j.ctid = a.place AND j.delivery = p_deliveries[a.n] AND j.taken = p_takens[a.n] AND j.state = 3 AND j.lease_until > now AND j.level = j.priority AND j.next IS NULL AND NOT j.cancel_requested AND j.own IS NULL
        AND j.batch IS NULL AND j.grp IS NULL
      RETURNING 'created', tarry._state(1, j.due, now), j.due, j.topic, j.expire, NULL::boolean, NULL::bigint[], j.id, names[array_position(topics, j.topic)],
        NULL::bigint, NULL::boolean, a.attempt, NULL::bigint, a.n, NULL::bigint, NULL::int, NULL::bigint, NULL::bigint;
    GET DIAGNOSTICS more = ROW_COUNT;
    done := done + more;
    IF done = cardinality(p_topics) THEN RETURN; END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(p_topics) LOOP
    CONTINUE WHEN done > 0 AND EXISTS (SELECT FROM tarry.job j WHERE j.topic = p_topics[i] AND j.level = p_levels[i]
      AND j.due = tarry._due(now, p_kinds[i], p_ms[i]) AND j.seq = seqs[i]);
    r := tarry._again(p_topics[i], p_levels[i], p_dues[i], p_seqs[i], p_deliveries[i], p_takens[i], p_kinds[i], p_ms[i], p_priorities[i], p_given[i],
      p_types[i], p_bodies[i]);
    r.n := i;
    RETURN NEXT r;
  END LOOP;
END $$;

-- ---- jobs as they are shown ----

CREATE TYPE tarry._shown AS (
  name text, id text, state int, priority int, attempt int, due bigint, first_due bigint, lease_until bigint, taken bigint, seq bigint,
  delivery bigint, lease bigint, ttl bigint, backoff_kind int, backoff_first bigint, backoff_max bigint, max_attempts bigint,
  content_type bytea, meta bytea, error bytea, history bytea, body bytea, topic int, level int, consumer text, cancel_requested boolean,
  "row" tid, -- of a taken job: place of its row
  next_due bigint, -- of a successor
  backoff_steps text,
  grp text, -- name of its group; NULL: no group
  turn int, -- place of a taken job among those of its level; NULL: by its due
  batches bytea, waiting bigint[]); -- of a member: its batch; of a job with a batch of its own: tarry._waiting

-- A job with all that a caller may see of it, also one that has finished.
CREATE TYPE tarry._seen AS (
  name text, id text, state int, priority int, attempt int, due bigint, first_due bigint, lease_until bigint, taken bigint, seq bigint,
  delivery bigint, lease bigint, ttl bigint, backoff_kind int, backoff_first bigint, backoff_max bigint, max_attempts bigint,
  content_type bytea, meta bytea, error bytea, history bytea, body bytea, topic int, level int, consumer text, cancel_requested boolean,
  "row" tid, next_due bigint, backoff_steps text, grp text, turn int, batches bytea, waiting bigint[],
  progress bytea, keep bigint, outcome int, finished bigint, duration bigint, result_type bytea, result bytea, has_body boolean,
  held_by int, held_until bigint); -- of a ready job: why it is not delivered now (job/flow.h)

CREATE FUNCTION tarry._joined(history bytea[]) RETURNS bytea LANGUAGE sql IMMUTABLE STRICT AS
$$ SELECT string_agg(h, ''::bytea ORDER BY o) FROM unnest(history) WITH ORDINALITY u(h, o) $$;

CREATE FUNCTION tarry._see(f tarry.finished, p_name text, p_body boolean) RETURNS tarry._seen LANGUAGE sql IMMUTABLE AS $$
  SELECT p_name, f.id, 5, f.priority, f.attempt, f.first_due, f.first_due, 0::bigint, coalesce(f.taken, 0), f.seq, 0::bigint, NULL::bigint, NULL::bigint, NULL::int,
    NULL::bigint, NULL::bigint, NULL::bigint, f.content_type, f.meta, f.error, tarry._joined(f.history), CASE WHEN p_body THEN coalesce(f.body, '') ELSE '' END,
    f.topic, 0, f.consumer, false, NULL::tid, NULL::bigint, NULL::text, NULL::text, NULL::int, f.batches, NULL::bigint[], f.progress, NULL::bigint, f.outcome::int, f.at, greatest(0, f.at - f.taken), f.result_type, f.result,
    f.body IS NOT NULL, NULL::int, NULL::bigint $$;

-- Rows of one topic that the caller has locked are leased; they come in no order.
CREATE FUNCTION tarry._lease(t tarry.topic, p_rows tid[], p_lease bigint, p_server bigint, p_consumer text, p_now bigint)
RETURNS SETOF tarry._shown LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY UPDATE tarry.job j SET state = 3, attempt = j.attempt + 1, delivery = nextval('tarry.delivery'), server = p_server, taken = p_now,
      consumer = nullif(p_consumer, ''), cancel_requested = false,
      lease_span = coalesce(nullif(p_lease, 0), j.lease, nullif(t.lease, 0), 60000),
      lease_until = p_now + coalesce(nullif(p_lease, 0), j.lease, nullif(t.lease, 0), 60000) + 1, slot = t.flow & 3
    WHERE j.ctid = ANY (p_rows)
    RETURNING t.name, j.id, (3)::int, j.priority, j.attempt, j.due, j.first_due, j.lease_until, j.taken, j.seq, j.delivery,
      j.lease, j.ttl, j.backoff_kind, j.backoff_first, j.backoff_max, j.max_attempts, j.content_type, j.meta, j.error,
      CASE WHEN j.history IS NOT NULL THEN tarry._joined(j.history) END, j.body, j.topic, j.level, j.consumer, j.cancel_requested, j.ctid, NULL::bigint,
      j.backoff_steps, NULL::text, NULL::int, j.batches, CASE WHEN j.own IS NOT NULL THEN tarry._waiting(j.own) END;
END $$;

-- Returns the groups that may be served next, in their order, as a take of this session has left them, if all groups were read at most 0.3 s ago; '{}':
-- unknown. A take reads and locks the rows of these groups before it serves them. Each of 16 settings has the hints of one topic.
CREATE FUNCTION tarry._hints(p_topic int, p_level int, p_now bigint) RETURNS int[] LANGUAGE plpgsql STABLE AS $$
DECLARE parts text[] := string_to_array(current_setting('tarry.groups_' || p_topic % 16, true), ' ');
BEGIN
  IF parts[1] = p_topic::text AND parts[2] = p_level::text AND p_now - parts[3]::bigint BETWEEN 0 AND 300 THEN RETURN parts[4]; END IF;
  RETURN '{}';
END $$;

-- Takes jobs of a topic with groups, limits, rates or holds, and then returns a row without an id, as tarry._take does. p_level: only that one.
--
-- Groups are locked in their order (load, pass, first due), no more than jobs are wanted. Then a level of load is computed up to which all of them are
-- served, and their jobs up to that are put in order. Groups that other transactions have locked are skipped. A strict group is served with one job, and
-- its tried job, if it has one, is the first: `firsts` has the number of that. While it waits, next_due is its due, and others may be due before that.
CREATE FUNCTION tarry._take_flow(t tarry.topic, p_bound bigint, p_max int, p_bytes bigint, p_paused boolean, p_lease bigint, p_server bigint, p_consumer text,
  p_now bigint, p_level int DEFAULT NULL) RETURNS SETOF tarry._shown LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE h tarry.grp; s tarry._shown; place int; candidates int[]; levels int[]; places bigint := p_max; wanted bigint; l int; grps int[]; names text[]; loads bigint[]; passes bigint[]; weights int[];
  dues bigint[]; rooms bigint[]; quotas bigint[]; rows tid[]; seqs bigint[]; owners int[]; at bigint[]; taken int[]; done int[]; turn int := 0; base bigint;
  got int; chosen int; total int := 0; noted int[]; hints int[]; hinted bigint; more boolean := false; starts bigint[]; firsts bigint[]; start_seqs bigint[]; rest bigint[]; one bigint[]; nexts bigint[]; next_seqs bigint[]; is_strict boolean := t.flow & 32 > 0; is_open boolean; is_busy boolean := false;
BEGIN
  noted := tarry._fold(t.topic, p_now);
  SELECT * INTO h FROM tarry.grp WHERE topic = t.topic AND grp = -1 FOR NO KEY UPDATE SKIP LOCKED;
  is_open := FOUND;
  IF NOT FOUND THEN SELECT * INTO h FROM tarry.grp WHERE topic = t.topic AND grp = -1; END IF;
  IF p_paused OR p_bytes <= 0 THEN places := 0;
  ELSIF t.flow & 6 > 0 THEN
    IF is_open THEN places := least(places, tarry._topic_room(t, h, p_now)); ELSE places := 0; is_busy := true; END IF;
  END IF;
  base := h.pass;
  levels := ARRAY(SELECT k.level FROM tarry.level k WHERE k.topic = t.topic ORDER BY k.level);
  FOREACH l IN ARRAY levels LOOP
    CONTINUE WHEN l <> p_level;
    done := '{}'; hints := '{}';
    -- A group whose token or hold has ended comes back without a note, so topics with rates of groups use no hints.
    IF t.flow & 65 = 1 AND t.group_rate_count = 0 AND places > 0 THEN hints := tarry._hints(t.topic, l, p_now); END IF;
    WHILE places > 0 AND p_bytes > 0 AND NOT is_busy LOOP
      IF t.flow % 2 = 0 THEN
        SELECT array_agg(b.row ORDER BY b.o), array_agg(b.seq ORDER BY b.o), array_agg(1), array_agg(0) INTO rows, seqs, owners, at FROM (
          SELECT c.row, c.seq, row_number() OVER q AS o, sum(c.bytes) OVER q - c.bytes AS before FROM (
            SELECT j.ctid AS row, j.due, j.seq, octet_length(j.body) AS bytes FROM tarry.job j
              WHERE j.topic = t.topic AND j.level = l AND j.due >= least(p_bound, p_now) AND j.due <= p_now AND j.state = 1 AND (j.expire IS NULL OR j.expire > p_now)
              ORDER BY j.due, j.seq LIMIT places FOR UPDATE SKIP LOCKED) c WINDOW q AS (ORDER BY c.due, c.seq)) b WHERE b.before < p_bytes;
        grps := '{0}'; names := '{""}'; rest := NULL;
        EXIT WHEN rows IS NULL;
      ELSE
        candidates := '{}';
        IF hints <> '{}' THEN
          SELECT array_agg(w.grp ORDER BY w.o) FILTER (WHERE w.o <= places), array_agg(w.grp ORDER BY w.o) FILTER (WHERE w.o > places) || hints[2 * places + 1:]
            INTO candidates, hints FROM (
            SELECT k.grp, row_number() OVER (ORDER BY k.in_flight * 10000 / k.weight, CASE WHEN k.is_ready THEN k.pass ELSE greatest(k.pass, base) END, k.next_due, k.next_seq) AS o
              FROM (SELECT DISTINCT unnest(hints[:2 * places] || noted)) u(grp) JOIN tarry.grp k ON k.topic = t.topic AND k.grp = u.grp
              WHERE k.grp >= 0 AND k.next_due <= p_now AND k.grp <> ALL (done) AND tarry._room(t, k, p_now) > 0) w;
        END IF;
        IF coalesce(cardinality(candidates), 0) < places THEN -- then all groups are read
          candidates := ARRAY(SELECT k.grp FROM tarry.grp k WHERE k.topic = t.topic AND k.grp >= 0 AND k.next_due <= p_now AND k.grp <> ALL (done)
              AND tarry._room(t, k, p_now) > 0
            ORDER BY k.in_flight * 10000 / k.weight, CASE WHEN k.is_ready THEN k.pass ELSE greatest(k.pass, base) END, k.next_due, k.next_seq LIMIT places * 16);
          hints := candidates[places + 1:]; candidates := candidates[:places]; hinted := p_now;
        END IF;
        EXIT WHEN candidates = '{}';
        SELECT array_agg(w.grp), array_agg(w.in_flight), array_agg(w.pass), array_agg(w.weight), array_agg(w.next_due), array_agg(CASE WHEN is_strict THEN 0 ELSE w.next_seq END), array_agg(w.room), array_agg(w.name)
          INTO grps, loads, passes, weights, dues, start_seqs, rooms, names FROM (
          SELECT k.grp, k.in_flight, CASE WHEN k.is_ready THEN k.pass ELSE greatest(k.pass, base) END AS pass, k.weight, k.next_due, k.next_seq, tarry._room(t, k, p_now) AS room, k.name
            FROM unnest(candidates) u(grp) JOIN tarry.grp k ON k.topic = t.topic AND k.grp = u.grp AND k.next_due <= p_now AND tarry._room(t, k, p_now) > 0
            FOR NO KEY UPDATE OF k SKIP LOCKED) w;
        is_busy := grps IS NULL; -- others have locked them all
        EXIT WHEN is_busy;
        -- The level of load: with the k groups of the lowest load it is (places - k + their jobs in flight) / their weights.
        SELECT min(v.level) INTO wanted FROM (SELECT u.load * 10000 / u.weight AS own,
            floor((places - row_number() OVER o + sum(u.load) OVER o) * 10000 / sum(u.weight) OVER o)::bigint AS level
          FROM unnest(loads, weights) u(load, weight) WINDOW o AS (ORDER BY u.load * 10000 / u.weight ROWS UNBOUNDED PRECEDING)) v WHERE v.own <= v.level;
        IF cardinality(grps) < places THEN wanted := wanted + 10000; END IF;
        quotas := ARRAY(SELECT greatest(0, least(u.room, places, wanted * u.weight / 10000 - u.load + 1)) FROM unnest(loads, weights, rooms) u(load, weight, room));
        starts := dues; firsts := NULL;
        IF is_strict THEN
          SELECT array_agg(CASE WHEN x.due > p_now OR x.level <> l THEN 0 ELSE least(u.quota, 1) END ORDER BY u.i), array_agg(coalesce(x.due, u.due) ORDER BY u.i),
              array_agg(x.seq ORDER BY u.i) INTO quotas, starts, firsts
            FROM unnest(grps, quotas, dues) WITH ORDINALITY u(grp, quota, due, i) LEFT JOIN LATERAL tarry._tried(t.topic, u.grp, p_now) x ON true;
        END IF;
        SELECT array_agg(b.row ORDER BY b.o) FILTER (WHERE b.fits), array_agg(b.seq ORDER BY b.o) FILTER (WHERE b.fits), array_agg(b.i ORDER BY b.o) FILTER (WHERE b.fits),
            array_agg(b.pass ORDER BY b.o) FILTER (WHERE b.fits), array_agg(ARRAY[b.i, b.due, b.seq] ORDER BY b.due DESC, b.seq DESC) FILTER (WHERE NOT b.fits)
          INTO rows, seqs, owners, at, rest FROM (
          SELECT a.*, a.n <= a.quota AND a.o <= places AND a.before < p_bytes AS fits FROM (
            SELECT c.*, row_number() OVER q AS o, sum(c.bytes) OVER q - c.bytes AS before FROM (
              SELECT u.i, u.quota, j.n, j.row, j.due, j.seq, j.bytes, CASE WHEN j.n > u.quota THEN 9223372036854775807 ELSE (u.load + j.n - 1) * 10000 / u.weight END AS load,
                  u.pass + (j.n - 1) * (10000 / u.weight) AS pass
                FROM unnest(grps, loads, passes, weights, starts, start_seqs, quotas, firsts) WITH ORDINALITY u(grp, load, pass, weight, due, seq, quota, first, i), LATERAL (
                  SELECT f.*, row_number() OVER (ORDER BY f.due, f.seq) AS n FROM (
                    SELECT e.ctid AS row, e.due, e.seq, octet_length(e.body) AS bytes FROM tarry.job e
                      WHERE e.topic = t.topic AND e.grp = u.grp AND e.level = l AND (e.due, e.seq) >= (u.due, u.seq) AND e.due <= p_now AND e.state = 1
                        AND (e.expire IS NULL OR e.expire > p_now) AND (u.first IS NULL OR e.seq = u.first)
                      ORDER BY e.due, e.seq LIMIT u.quota + 1) f) j WHERE u.quota > 0) c
              WINDOW q AS (ORDER BY c.load, c.pass, c.due, c.seq)) a) b;
      END IF;
      got := 0; chosen := coalesce(cardinality(rows), 0); taken := array_fill(0, ARRAY[cardinality(grps)]);
      IF chosen > 0 THEN
        rows := ARRAY(SELECT j.ctid FROM tarry.job j WHERE j.ctid = ANY (rows) AND j.topic = t.topic AND j.level = l AND j.due <= p_now AND j.state = 1
          AND (j.expire IS NULL OR j.expire > p_now) FOR UPDATE SKIP LOCKED);
        FOR s IN SELECT * FROM tarry._lease(t, rows, p_lease, p_server, p_consumer, p_now) LOOP
          place := array_position(seqs, s.seq); s.turn := turn + place; s.grp := nullif(names[owners[place]], '');
          taken[owners[place]] := taken[owners[place]] + 1; base := greatest(base, at[place]);
          got := got + 1; p_bytes := p_bytes - octet_length(s.body);
          RETURN NEXT s;
        END LOOP;
        turn := turn + chosen; places := places - got; total := total + got;
      END IF;
      is_busy := got < chosen; -- others have the rest
      IF t.flow % 2 = 1 THEN
        done := done || ARRAY(SELECT u.grp FROM unnest(grps, quotas, taken) u(grp, quota, n) WHERE u.n < u.quota OR is_strict);
        -- If no other transaction has one of the jobs, the first one that was found and not taken is the next one of its group.
        nexts := array_fill(NULL::bigint, ARRAY[cardinality(grps)]); next_seqs := nexts;
        IF rest IS NOT NULL AND NOT is_busy AND NOT is_strict AND cardinality(levels) = 1 THEN
          FOREACH one SLICE 1 IN ARRAY rest LOOP nexts[one[1]] := one[2]; next_seqs[one[1]] := one[3]; END LOOP;
        END IF;
        UPDATE tarry.grp k SET in_flight = k.in_flight + u.n, pass = u.pass + u.n * (10000 / k.weight),
            full_us = CASE WHEN u.n > 0 AND tarry._group_interval(t, k) > 0 THEN greatest(k.full_us, p_now * 1000) + u.n * tarry._group_interval(t, k) ELSE k.full_us END,
            next_due = coalesce(f.first[1], 9223372036854775807), next_seq = coalesce(f.first[2], 0), is_ready = coalesce(f.first[1] <= p_now, false)
          FROM unnest(grps, taken, passes, quotas, dues, start_seqs, firsts, nexts, next_seqs) u(grp, n, pass, quota, due, seq, first, next, next_seq), LATERAL (SELECT CASE
              WHEN u.next IS NOT NULL THEN ARRAY[u.next, u.next_seq] ELSE coalesce((SELECT ARRAY[x.due, x.seq] FROM tarry._tried(t.topic, u.grp, p_now) x WHERE is_strict), (
              SELECT min(ARRAY[e.due, e.seq]) FROM unnest(levels) v(level), LATERAL (
              SELECT i.due, i.seq FROM tarry.job i WHERE i.topic = t.topic AND i.grp = u.grp AND i.level = v.level
                AND (i.due, i.seq) >= (CASE WHEN u.first IS NULL THEN u.due ELSE 0 END, u.seq) AND i.state = 1
                AND (i.expire IS NULL OR i.expire > p_now) ORDER BY i.due, i.seq LIMIT 1) e)) END AS first) f
          WHERE k.topic = t.topic AND k.grp = u.grp AND (u.n > 0 OR u.quota > 0 OR is_strict);
      END IF;
    END LOOP;
    IF cardinality(hints) > p_max THEN
      PERFORM set_config('tarry.groups_' || t.topic % 16, concat_ws(' ', t.topic, l, coalesce(hinted, split_part(current_setting('tarry.groups_' || t.topic % 16, true), ' ', 3)::bigint),
        hints::text), false);
      more := true;
    ELSIF hints <> '{}' THEN
      PERFORM set_config('tarry.groups_' || t.topic % 16, '', false);
    END IF;
  END LOOP;
  IF is_open AND total > 0 THEN
    UPDATE tarry.grp k SET pass = greatest(k.pass, base), in_flight = k.in_flight + CASE WHEN t.flow & 2 > 0 THEN total ELSE 0 END,
        full_us = CASE WHEN t.rate_count > 0 THEN greatest(k.full_us, p_now * 1000) + total * tarry._interval_us(t.rate_count, t.rate_unit) ELSE k.full_us END
      WHERE k.topic = t.topic AND k.grp = -1;
  END IF;
  s := NULL;
  s.due := CASE WHEN is_busy OR more AND places = 0 THEN p_now ELSE tarry._flow_next(t, p_now) END;
  s.name := t.name; s.topic := t.topic; s.taken := p_now; s.first_due := 0; s.turn := tarry._is_limited(t);
  s.state := CASE WHEN p_paused THEN 0 ELSE 1 END;
  s.lease_until := CASE WHEN p_paused THEN t.paused_until ELSE 0 END;
  RETURN NEXT s;
END $$;

-- Takes at most p_max jobs, and no more than fill 16 MiB with their bodies; those of a priority come in no order. Then returns, without an id, a
-- row for each topic with its next waiting job, as tarry._look does (due, with state 0 if it is paused until lease_until; taken: that moment).
--
-- Jobs are searched without a lock, with one row more, so that the next waiting job is known without a second search. If other
-- transactions have some of them, the next best are locked one by one; skipped jobs still count as waiting.
CREATE FUNCTION tarry._take(p_topics text[], p_bounds bigint[], p_max int, p_lease bigint, p_server bigint, p_consumer text)
RETURNS SETOF tarry._shown LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; s tarry._shown; l int; rows tid[]; dues bigint[]; wanted int; ready int; bytes bigint; left_bytes bigint := 16777216;
  is_paused boolean; now bigint := tarry.now_ms();
BEGIN
  FOR i IN 1 .. cardinality(p_topics) LOOP
    SELECT * INTO t FROM tarry.topic WHERE name = p_topics[i];
    CONTINUE WHEN NOT FOUND;
    is_paused := t.paused AND (t.paused_until = 0 OR t.paused_until > now);
    s.due := NULL; s.first_due := NULL; s.turn := NULL;
    IF t.flow > 0 THEN
      FOR s IN SELECT * FROM tarry._take_flow(t, p_bounds[i], p_max, left_bytes, is_paused, p_lease, p_server, p_consumer, now) LOOP
        IF s.id IS NOT NULL THEN p_max := p_max - 1; left_bytes := left_bytes - octet_length(s.body); END IF;
        RETURN NEXT s;
      END LOOP;
      s := NULL;
      CONTINUE;
    END IF;
    FOR l IN SELECT level FROM tarry.level WHERE topic = t.topic ORDER BY level LOOP
      wanted := CASE WHEN is_paused OR left_bytes <= 0 THEN 0 ELSE p_max END;
      SELECT array_agg(c.row), array_agg(c.due) INTO rows, dues FROM (
        SELECT j.ctid AS row, j.due FROM tarry.job j
          WHERE j.topic = t.topic AND j.level = l AND j.due >= least(p_bounds[i], now) AND j.state = 1 AND (j.expire IS NULL OR j.expire > now)
          ORDER BY j.due, j.seq LIMIT wanted + 1) c;
      CONTINUE WHEN rows IS NULL;
      ready := least(width_bucket(now, dues), wanted);
      s.due := least(s.due, dues[ready + 1]);
      CONTINUE WHEN ready = 0;
      SELECT array_agg(c.row), sum(c.bytes) INTO rows, bytes FROM (
        SELECT j.ctid AS row, octet_length(j.body) AS bytes FROM tarry.job j
          WHERE j.ctid = ANY (rows[:ready]) AND j.topic = t.topic AND j.level = l AND j.due <= now AND j.state = 1
            AND (j.expire IS NULL OR j.expire > now) FOR UPDATE SKIP LOCKED) c;
      IF rows IS NULL OR cardinality(rows) < ready OR bytes > left_bytes THEN
        s.due := least(s.due, dues[1]);
        SELECT array_agg(b.row), sum(b.bytes) INTO rows, bytes FROM (
          SELECT c.row, c.bytes, sum(c.bytes) OVER (ORDER BY c.due, c.seq) - c.bytes AS bytes_before FROM (
            SELECT j.ctid AS row, j.due, j.seq, octet_length(j.body) AS bytes FROM tarry.job j
              WHERE j.topic = t.topic AND j.level = l AND j.due >= least(p_bounds[i], now) AND j.due <= now
                AND j.state = 1 AND (j.expire IS NULL OR j.expire > now)
              ORDER BY j.due, j.seq LIMIT p_max FOR UPDATE SKIP LOCKED) c) b WHERE b.bytes_before < left_bytes;
        CONTINUE WHEN rows IS NULL;
      END IF;
      p_max := p_max - cardinality(rows);
      left_bytes := left_bytes - bytes;
      RETURN QUERY SELECT * FROM tarry._lease(t, rows, p_lease, p_server, p_consumer, now);
    END LOOP;
    s.name := t.name; s.topic := t.topic; s.taken := now;
    s.state := CASE WHEN is_paused THEN 0 ELSE 1 END;
    s.lease_until := CASE WHEN is_paused THEN t.paused_until ELSE 0 END;
    RETURN NEXT s;
  END LOOP;
END $$;

-- The same by priority, whichever topic has it; the caller puts them in order. The best of a priority are looked for first and locked then,
-- so that only what is taken is kept from others: what they have meanwhile is passed over.
CREATE FUNCTION tarry._take_best(p_topics text[], p_bounds bigint[], p_max int, p_lease bigint, p_server bigint, p_consumer text)
RETURNS SETOF tarry._shown LANGUAGE plpgsql AS $$
DECLARE numbers int[]; floors bigint[]; flows int[]; s tarry._shown; t tarry.topic; l int; chosen tid[]; chosen_seqs bigint[]; rows tid[]; topics int[]; seqs bigint[];
  held bigint[] := '{}'; bytes bigint; left_bytes bigint := 16777216; now bigint := tarry.now_ms();
BEGIN
  SELECT array_agg(w.topic), array_agg(least(w.bound, now)) INTO numbers, floors FROM (SELECT k.topic, min(a.bound) AS bound
    FROM unnest(p_topics, p_bounds) a(name, bound) JOIN tarry.topic k ON k.name = a.name
    WHERE NOT (k.paused AND (k.paused_until = 0 OR k.paused_until > now)) GROUP BY k.topic) w;
  SELECT array_agg(k.topic) INTO flows FROM tarry.topic k WHERE k.topic = ANY (numbers) AND k.flow > 0;
  FOR l IN SELECT DISTINCT k.level FROM tarry.level k WHERE k.topic = ANY (numbers) ORDER BY 1 LOOP
    IF flows IS NOT NULL THEN -- within a priority these come first
      FOR t IN SELECT * FROM tarry.topic k WHERE k.topic = ANY (flows) ORDER BY k.topic LOOP
        FOR s IN SELECT * FROM tarry._take_flow(t, 0, p_max, left_bytes, false, p_lease, p_server, p_consumer, now, l) LOOP
          CONTINUE WHEN s.id IS NULL;
          p_max := p_max - 1; left_bytes := left_bytes - octet_length(s.body);
          RETURN NEXT s;
        END LOOP;
      END LOOP;
    END IF;
    LOOP
      IF p_max <= 0 OR left_bytes <= 0 THEN RETURN; END IF;
      SELECT array_agg(b.row), array_agg(b.seq) INTO chosen, chosen_seqs FROM (
        SELECT c.row, c.seq, sum(c.bytes) OVER (ORDER BY c.due, c.seq) - c.bytes AS bytes_before FROM (
          SELECT f.* FROM unnest(numbers, floors) n(topic, floor), LATERAL (
            SELECT j.ctid AS row, j.due, j.seq, octet_length(j.body) AS bytes FROM tarry.job j
              WHERE j.topic = n.topic AND (flows IS NULL OR n.topic <> ALL (flows)) AND j.level = l AND j.due >= n.floor AND j.due <= now
                AND j.state = 1 AND (j.expire IS NULL OR j.expire > now) AND j.seq <> ALL (held)
              ORDER BY j.due, j.seq LIMIT p_max) f
          ORDER BY f.due, f.seq LIMIT p_max) c) b WHERE b.bytes_before < left_bytes;
      EXIT WHEN chosen IS NULL;
      SELECT array_agg(c.row), array_agg(c.topic), array_agg(c.seq), sum(c.bytes) INTO rows, topics, seqs, bytes FROM (
        SELECT j.ctid AS row, j.topic, j.seq, octet_length(j.body) AS bytes FROM tarry.job j
          WHERE j.ctid = ANY (chosen) AND j.seq = ANY (chosen_seqs) AND j.level = l AND j.due <= now AND j.state = 1
            AND (j.expire IS NULL OR j.expire > now) FOR UPDATE SKIP LOCKED) c;
      held := held || ARRAY(SELECT unnest(chosen_seqs) EXCEPT SELECT unnest(seqs));
      CONTINUE WHEN rows IS NULL;
      p_max := p_max - cardinality(rows);
      left_bytes := left_bytes - bytes;
      FOR t IN SELECT * FROM tarry.topic k WHERE k.topic = ANY (topics) LOOP
        RETURN QUERY SELECT * FROM tarry._lease(t, ARRAY(SELECT u.row FROM unnest(rows, topics) u(row, topic) WHERE u.topic = t.topic),
          p_lease, p_server, p_consumer, now);
      END LOOP;
    END LOOP;
  END LOOP;
END $$;

-- Takes one job, regardless of better ones; NULL as its only row: another consumer holds it. A job that is not ready is made so first, and was due
-- now; a dead one counts as waiting from then on.
CREATE FUNCTION tarry._take_one(p_topic text, p_id text, p_lease bigint, p_server bigint, p_consumer text)
RETURNS SETOF tarry._shown LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; j tarry.job; was tarry.job; s int; s_out tarry._shown; now bigint := tarry.now_ms();
BEGIN
  SELECT * INTO t FROM tarry.topic WHERE name = p_topic;
  LOOP
    SELECT * INTO j FROM tarry.job WHERE topic = t.topic AND id = p_id AND state <> 3 FOR UPDATE;
    EXIT WHEN FOUND;
    SELECT state INTO s FROM tarry.job WHERE topic = t.topic AND id = p_id;
    IF NOT FOUND THEN RETURN; END IF;
    IF s = 3 THEN RETURN NEXT NULL; RETURN; END IF;
  END LOOP;
  IF j.state = 1 AND j.expire <= now AND j.due <> tarry._wait_due() THEN RETURN; END IF;
  PERFORM tarry._let_go(t, j, now);
  IF j.state = 4 OR j.due > now THEN
    was := j;
    IF j.own IS NOT NULL THEN PERFORM tarry._end_now(j.own); END IF;
    IF j.state = 4 AND j.batch IS NOT NULL THEN PERFORM tarry._revive(j); END IF;
    j.state := 1; j.level := j.priority; j.due := now; j.first_due := now;
    PERFORM tarry._level(t.topic, j.level);
    UPDATE tarry.job SET state = 1, level = j.level, due = now, first_due = now, expire = tarry._expire_at(t, j), by_sql = false
      WHERE topic = t.topic AND id = p_id;
    IF was.state = 4 THEN INSERT INTO tarry.tally_add VALUES (t.topic, tarry._counted(tarry._counted(tarry._none(), was, -1), j, 1)); END IF;
  END IF;
  IF t.flow & 3 > 0 THEN
    INSERT INTO tarry.grp_note SELECT t.topic, w.grp, -1 FROM (VALUES (1, coalesce(j.grp, 0)), (2, -1)) w(flag, grp) WHERE t.flow & w.flag > 0;
    PERFORM tarry._number();
    FOR s_out IN SELECT * FROM tarry._lease(t, ARRAY(SELECT k.ctid FROM tarry.job k WHERE k.topic = t.topic AND k.id = p_id), p_lease, p_server, p_consumer, now) LOOP
      s_out.grp := (SELECT nullif(k.name, '') FROM tarry.grp k WHERE k.topic = t.topic AND k.grp = j.grp);
      RETURN NEXT s_out;
    END LOOP;
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM tarry._lease(t, ARRAY(SELECT k.ctid FROM tarry.job k WHERE k.topic = t.topic AND k.id = p_id),
    p_lease, p_server, p_consumer, now);
END $$;

-- Returns when the next job of each topic is due that waits at or above the bound, and when a pause ends (0: no pause, or no end). seen: a time
-- before this check; a job committed since may be due from then on.
CREATE FUNCTION tarry._look(p_topics text[], p_bounds bigint[])
RETURNS TABLE (name text, topic int, next bigint, paused boolean, paused_until bigint, seen bigint, bound bigint, limited int) LANGUAGE plpgsql AS $$
DECLARE now bigint := tarry.now_ms();
BEGIN
  RETURN QUERY SELECT t.name, t.topic, CASE WHEN t.flow > 0 THEN tarry._flow_next(t, now) ELSE
      (SELECT min(f.due) FROM tarry.level l, LATERAL (
        SELECT j.due FROM tarry.job j WHERE j.topic = t.topic AND j.level = l.level AND j.due >= least(a.bound, now) AND j.state = 1
            AND (j.expire IS NULL OR j.expire > now)
          ORDER BY j.due, j.seq LIMIT 1) f WHERE l.topic = t.topic) END,
      t.paused AND (t.paused_until = 0 OR t.paused_until > now),
      CASE WHEN t.paused AND t.paused_until > now THEN t.paused_until ELSE 0 END, now, CASE WHEN t.flow > 0 THEN 0 END::bigint, tarry._is_limited(t)
    FROM unnest(p_topics, p_bounds) a(wanted, bound) JOIN tarry.topic t ON t.name = a.wanted;
END $$;

CREATE FUNCTION tarry._get(p_topic text, p_id text, p_finished boolean) RETURNS SETOF tarry._seen LANGUAGE plpgsql AS $$
DECLARE now bigint := tarry.now_ms();
BEGIN
  RETURN QUERY SELECT t.name, j.id, (CASE WHEN j.state <> 1 THEN j.state WHEN j.due <= now THEN 2 ELSE 1 END)::int, j.priority, j.attempt, j.due, j.first_due, j.lease_until, j.taken, j.seq, j.delivery,
    j.lease, j.ttl, j.backoff_kind, j.backoff_first, j.backoff_max, j.max_attempts, j.content_type, j.meta, j.error,
    CASE WHEN j.history IS NOT NULL THEN tarry._joined(j.history) END, j.body, j.topic, j.level, j.consumer, j.cancel_requested, NULL::tid, (j.next).due,
    j.backoff_steps, CASE WHEN j.grp > 0 THEN tarry._group_name(j.topic, j.grp) END, NULL::int, j.batches, CASE WHEN j.own IS NOT NULL THEN tarry._waiting(j.own) END, j.progress, j.keep, NULL::int, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea, NULL::boolean,
    h.held_by, h.until
    FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic LEFT JOIN LATERAL tarry._job_held(t, j.grp, now) h ON t.flow > 0 AND j.state = 1 AND j.due <= now
    WHERE t.name = p_topic AND j.id = p_id;
  IF NOT FOUND AND p_finished THEN
    RETURN QUERY SELECT s.* FROM tarry.topic t JOIN tarry.finished f ON f.topic = t.topic, LATERAL tarry._see(f, t.name, true) s
      WHERE t.name = p_topic AND f.id = p_id AND f.kept + 0 > now;
  END IF;
END $$;

-- NULL as its only row: there is no such topic.
CREATE FUNCTION tarry._find(p_topic text, p_id text, OUT status text, OUT state int, OUT due bigint) LANGUAGE plpgsql AS $$
BEGIN
  SELECT 'ok', tarry._state(j.state, j.due, tarry.now_ms()), nullif(j.due, tarry._wait_due()) INTO _find.status, _find.state, _find.due
    FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic WHERE t.name = p_topic AND j.id = p_id;
  status := coalesce(status, 'not_found');
END $$;

CREATE FUNCTION tarry._list(p_topic text, p_state int, p_limit int, p_due bigint, p_seq bigint, p_body boolean)
RETURNS SETOF tarry._seen LANGUAGE plpgsql AS $$
DECLARE now bigint := tarry.now_ms(); t tarry.topic;
BEGIN
  SELECT * INTO t FROM tarry.topic WHERE name = p_topic;
  IF NOT FOUND THEN RETURN NEXT NULL; RETURN; END IF;
  IF p_state = 5 THEN -- the newest first
    IF p_due = 0 AND p_seq = 0 THEN p_due := 9223372036854775807; END IF;
    RETURN QUERY SELECT s.* FROM (SELECT f.* FROM tarry.finished f WHERE f.topic = t.topic AND f.at IS NOT NULL AND f.kept + 0 > now AND (f.at, f.seq) < (p_due, p_seq)
        ORDER BY f.at DESC, f.seq DESC LIMIT p_limit) x, LATERAL tarry._see(ROW(x.*)::tarry.finished, t.name, p_body) s ORDER BY x.at DESC, x.seq DESC;
    RETURN;
  END IF;
  RETURN QUERY SELECT t.name, x.id, (CASE WHEN x.state <> 1 THEN x.state WHEN x.due <= now THEN 2 ELSE 1 END)::int, x.priority, x.attempt, x.due, x.first_due, x.lease_until, x.taken, x.seq, x.delivery,
    x.lease, x.ttl, x.backoff_kind, x.backoff_first, x.backoff_max, x.max_attempts, x.content_type, x.meta, x.error,
    CASE WHEN x.history IS NOT NULL THEN tarry._joined(x.history) END, CASE WHEN p_body THEN x.body ELSE ''::bytea END, x.topic, x.level, x.consumer, x.cancel_requested, NULL::tid, (x.next).due,
    x.backoff_steps, CASE WHEN x.grp > 0 THEN tarry._group_name(x.topic, x.grp) END, NULL::int, x.batches, CASE WHEN x.own IS NOT NULL THEN tarry._waiting(x.own) END, x.progress, x.keep, NULL::int, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea, NULL::boolean,
    h.held_by, h.until FROM (
    SELECT f.* FROM (SELECT level FROM tarry.level WHERE topic = t.topic UNION ALL SELECT 70000) l, LATERAL (
      SELECT j.* FROM tarry.job j WHERE j.topic = t.topic AND j.level = l.level AND (j.due, j.seq) > (p_due, p_seq)
        AND (p_state = 0 OR tarry._state(j.state, j.due, now) = p_state) ORDER BY j.due, j.seq LIMIT p_limit) f
    ORDER BY f.due, f.seq LIMIT p_limit) x LEFT JOIN LATERAL tarry._job_held(t, x.grp, now) h ON t.flow > 0 AND x.state = 1 AND x.due <= now ORDER BY x.due, x.seq;
END $$;

-- ---- waiting for the end of jobs ----

-- Begins to wait for the end of jobs, ends waits, and returns the jobs that have ended. State NULL: there is no such job, or it was purged or deleted;
-- 100: another transaction is about to change the job, so the server repeats the call soon.
-- A waiter inserts its row and then locks the job for a moment. A transaction that ends the job looks for waiters in a statement after the one that locks the
-- job. So either that transaction finds the row, or the waiter finds the job locked or ended.
CREATE FUNCTION tarry._await(p_server bigint, p_topics text[], p_ids text[], p_left_topics text[], p_left_ids text[]) RETURNS SETOF tarry._seen LANGUAGE plpgsql AS $$
DECLARE w tarry.awaited; s tarry._seen; none tarry._seen; live boolean;
BEGIN
  DELETE FROM tarry.awaited d USING (SELECT k.topic, k.id FROM unnest(p_left_topics, p_left_ids) u(topic, id)
      JOIN tarry.awaited k ON k.topic = u.topic AND k.id = u.id AND k.server = p_server FOR UPDATE OF k SKIP LOCKED) o
    WHERE d.topic = o.topic AND d.id = o.id AND d.server = p_server;
  INSERT INTO tarry.awaited (topic, id, server) SELECT DISTINCT u.topic, u.id, p_server FROM unnest(p_topics, p_ids) u(topic, id) ON CONFLICT DO NOTHING;
  FOR w IN SELECT u.topic, u.id, p_server, k.outcome FROM unnest(p_topics, p_ids) u(topic, id)
      LEFT JOIN tarry.awaited k ON k.topic = u.topic AND k.id = u.id AND k.server = p_server LOOP
    CONTINUE WHEN w.outcome IS NOT NULL;
    SELECT g.* INTO s FROM tarry._get(w.topic, w.id, true) g;
    live := coalesce(s.state IN (1, 2, 3), false);
    IF live THEN
      PERFORM FROM tarry.job j WHERE j.topic = s.topic AND j.id = s.id AND j.state <> 4 FOR KEY SHARE SKIP LOCKED;
      CONTINUE WHEN FOUND;
      s.state := 100;
    END IF;
    s.name := w.topic; s.id := w.id;
    IF NOT live THEN
      DELETE FROM tarry.awaited d WHERE d.topic = w.topic AND d.id = w.id AND d.server = p_server AND d.outcome IS NULL;
      CONTINUE WHEN NOT FOUND; -- it has ended since the loop began: see below
    END IF;
    RETURN NEXT s;
  END LOOP;
  FOR w IN DELETE FROM tarry.awaited d USING (SELECT k.topic, k.id FROM tarry.awaited k WHERE k.server = p_server AND k.outcome IS NOT NULL FOR UPDATE SKIP LOCKED) o
      WHERE d.topic = o.topic AND d.id = o.id AND d.server = p_server RETURNING d.* LOOP
    s := none;
    IF w.outcome < 9 THEN SELECT g.* INTO s FROM tarry._get(w.topic, w.id, true) g; END IF;
    IF w.outcome < 4 AND s.state IS DISTINCT FROM 5 THEN -- it is not kept
      s := none; s.state := 5; s.attempt := w.attempt; s.consumer := w.consumer; s.outcome := w.outcome; s.finished := w.at;
      s.duration := greatest(0, w.at - w.taken); s.result_type := w.result_type; s.result := w.result; s.first_due := 0; s.due := 0;
    ELSIF w.outcome = 4 THEN
      IF s.state IS DISTINCT FROM 4 THEN s := none; s.state := 4; END IF; -- it was redriven or purged meanwhile
      IF w.result IS NOT NULL THEN
        s.finished := w.at; s.duration := greatest(0, w.at - w.taken); s.result_type := w.result_type; s.result := w.result;
      END IF;
    END IF;
    s.name := w.topic; s.id := w.id;
    RETURN NEXT s;
  END LOOP;
END $$;

-- Marks jobs that a transaction has acked or cancelled, by its last statements before the commit.
CREATE FUNCTION tarry._end_awaited(p_topics text[], p_ids text[], p_outcomes int[], p_takens bigint[], p_types bytea[], p_results bytea[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('tarry', 'f * ' || w.server) FROM (SELECT tarry._set_ended(p_topics, p_ids, p_outcomes, tarry.now_ms(), p_takens, NULL, NULL, p_types,
    p_results) AS server) w;
END $$;

-- ---- many items in one statement ----
--
-- Arrays with an entry for each item; no two items of a batch name the same job. Plain items are done in sets; the rest is
-- done by the function for one item, which has all rules. counts is NULL for the plain case: one job created,
-- acked, or nothing. Items lock in the order of topic and id, so servers do not wait for each other in a circle.
--
-- These wrap unnest() so that planners expect many rows.

-- Inserts plain pushes whose ids do not exist and are not within their window; a unique_violation if an id exists after all.
-- Returns how many. Here and below `(SELECT true ... LIMIT 1) IS NULL` stands for NOT EXISTS below an OR: for that PostgreSQL may read the whole
-- table into a hash.
CREATE FUNCTION tarry._push_plain(p_now bigint, p_seqs bigint[], p_topics int[], p_levels int[], p_topic_ttls bigint[], p_plain boolean[],
  p_remembers boolean[], p_present boolean[], p_kinds int[], p_leases bigint[], p_ttls bigint[], p_backoff_kinds int[], p_backoff_firsts bigint[],
  p_backoff_maxes bigint[], p_attempts bigint[], p_types bytea[], p_pasts int[], p_errors bytea[], p_groups int[], p_ids text[], p_ms bigint[],
  p_metas bytea[], p_bodies bytea[], p_keeps bigint[], p_steps text[], p_numbers int[], p_batches bigint[], p_forms bytea[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE done bigint;
BEGIN
  INSERT INTO tarry.job (topic, id, priority, level, due, first_due, seq, attempt, lease, ttl, max_attempts, backoff_kind, backoff_first,
      backoff_max, content_type, meta, error, body, expire, keep, backoff_steps, grp, batch, batches)
    SELECT p_topics[i.g], i.id, p_levels[i.g], p_levels[i.g], i.due, i.due, p_seqs[i.n], coalesce(p_pasts[i.g], 0), nullif(p_leases[i.g], 0),
        nullif(p_ttls[i.g], 0), nullif(p_attempts[i.g], 0), nullif(p_backoff_kinds[i.g], 0), p_backoff_firsts[i.g], p_backoff_maxes[i.g],
        nullif(p_types[i.g], ''), nullif(p_metas[i.n], ''), nullif(p_errors[i.g], ''), p_bodies[i.n],
        i.due + coalesce(nullif(p_ttls[i.g], 0), nullif(p_topic_ttls[i.g], 0)), nullif(p_keeps[i.g], 0) - 1, nullif(p_steps[i.g], ''), p_numbers[i.n],
        p_batches[i.g], p_forms[i.g]
      FROM (SELECT u.g, u.id, u.n, tarry._due(p_now, p_kinds[u.g], u.ms) AS due FROM unnest(p_groups, p_ids, p_ms) WITH ORDINALITY u(g, id, ms, n)
        WHERE p_plain[u.g] AND NOT coalesce(p_present[u.n], false) AND NOT tarry._is_far(p_now, p_kinds[u.g], u.ms) AND (NOT p_remembers[u.g]
          OR (SELECT true FROM tarry.finished f WHERE f.topic = p_topics[u.g] AND f.id = u.id AND f.until > p_now LIMIT 1) IS NULL)
        ORDER BY p_topics[u.g], u.id) i;
  GET DIAGNOSTICS done = ROW_COUNT;
  IF p_numbers IS NOT NULL THEN
    INSERT INTO tarry.grp_note SELECT w.topic, w.number, 0, w.first[1], NULL, w.first[2] FROM (SELECT p_topics[u.g] AS topic, p_numbers[u.n] AS number,
      min(ARRAY[tarry._due(p_now, p_kinds[u.g], u.ms), p_seqs[u.n]]) AS first FROM unnest(p_groups, p_ms) WITH ORDINALITY u(g, ms, n)
      WHERE p_numbers[u.n] IS NOT NULL AND NOT tarry._is_far(p_now, p_kinds[u.g], u.ms) GROUP BY 1, 2) w;
  END IF;
  -- It may have waited for who ended a job before, which is remembered since.
  IF true = ANY (p_remembers) AND EXISTS (SELECT FROM unnest(p_groups, p_ids) WITH ORDINALITY u(g, id, n)
      JOIN tarry.finished f ON f.topic = p_topics[u.g] AND f.id = u.id AND f.until > p_now
      JOIN tarry.job j ON j.topic = f.topic AND j.id = f.id AND j.seq = p_seqs[u.n]) THEN
    RAISE unique_violation;
  END IF;
  IF true = ANY (p_remembers) THEN -- an id names one job
    WITH d AS (
      DELETE FROM tarry.finished f USING unnest(p_groups, p_ids) WITH ORDINALITY u(g, id, n)
        WHERE f.topic = p_topics[u.g] AND f.id = u.id AND f.kept + 0 > 0
          AND (SELECT true FROM tarry.job j WHERE j.topic = f.topic AND j.id = f.id AND j.seq = p_seqs[u.n] LIMIT 1) IS NOT NULL
        RETURNING f.topic, f.bytes
    ) INSERT INTO tarry.tally_add SELECT d.topic, ARRAY[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -count(*), -sum(d.bytes)] FROM d GROUP BY d.topic;
  END IF;
  RETURN done;
END $$;

-- Pushes many jobs. Values that pushes share are given once for a group of them: topic, options, policy, content type, past. NULL in place of an
-- array: no group has this value, or no push any meta. Returns a row for each group (n is its number, below 0; due the time; expire the topic's
-- ttl), then one for each push that is not plain: all others are created.
-- An insert that skips conflicts looks up each key before it inserts. Most jobs are new, so a plain insert is tried first: if a job exists, all
-- is undone, and repeated without the existing ones. p_looks: some jobs probably exist, so they are looked up first.
-- With a ticket it is a transaction of its own, with the counts, and changes nothing unless all pushes are plain: a server that finds the ticket
-- knows that each job was created, and when. Its time is within the bounds of the moment when the server sent it, since the clock may have been set.
CREATE FUNCTION tarry._pushes(p_topics text[], p_kinds int[], p_priorities int[], p_conflicts int[], p_leases bigint[], p_ttls bigint[],
  p_backoff_kinds int[], p_backoff_firsts bigint[], p_backoff_maxes bigint[], p_attempts bigint[], p_types bytea[], p_pasts int[],
  p_dead boolean[], p_errors bytea[], p_keeps bigint[], p_steps text[], p_batches text[], p_groups int[], p_ids text[], p_ms bigint[], p_metas bytea[], p_bodies bytea[],
  p_names text[], p_onces text[], p_once_fors bigint[], p_topics_max int,
  p_looks boolean, p_server bigint, p_ticket bigint, p_connection bigint, p_earliest bigint, p_latest bigint) RETURNS SETOF tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did; x record; now bigint := tarry.now_ms(); own xid8; seqs bigint[]; topics int[]; levels int[]; ttls bigint[]; plain boolean[];
  remembers boolean[]; present boolean[]; used boolean[]; are_new boolean := false; e tarry._did; done bigint := 0; numbers int[]; flows boolean[]; batches bigint[]; forms bytea[];
BEGIN
  IF p_ticket IS NOT NULL THEN now := tarry._ticket(p_server, p_ticket, p_connection, greatest(p_earliest, least(p_latest, now))); END IF;
  own := pg_current_xact_id(); -- as tarry._number; rising in the order of the items, however they are carried out
  seqs := ARRAY(SELECT nextval('tarry.sequence') FROM generate_series(1, cardinality(p_ids)));
  FOR again IN 0 .. 1 LOOP
    SELECT array_agg(w.topic), array_agg(w.level), array_agg(w.ttl), array_agg(w.plain), array_agg(w.remembers), array_agg(w.has_groups)
      INTO topics, levels, ttls, plain, remembers, flows FROM (
      SELECT t.flow % 2 = 1 AS has_groups, t.topic, l.level, t.ttl, l.level IS NOT NULL AND t.max_jobs = 0 AND t.flow & 16 = 0 AND NOT coalesce(p_dead[g.n], false)
            AND (t.flow & 32 = 0 OR coalesce(p_pasts[g.n], 0) = 0) AS plain,
          t.dedup_window > 0 OR (SELECT true FROM tarry.finished f WHERE f.topic = t.topic AND f.id >= '!' LIMIT 1) IS NOT NULL AS remembers -- not a once
        FROM unnest(p_topics, p_priorities) WITH ORDINALITY g(name, priority, n) LEFT JOIN tarry.topic t ON t.name = g.name
          LEFT JOIN tarry.level l ON l.topic = t.topic AND l.level = coalesce(nullif(g.priority, -1), t.priority, 100) AND NOT l.idle
        ORDER BY g.n) w;
    EXIT WHEN again = 1 OR array_position(levels, NULL) IS NULL;
    PERFORM tarry._topic(w.name, p_topics_max) FROM (SELECT DISTINCT p_topics[u.g] AS name FROM unnest(p_groups, p_ms) u(g, ms)
      WHERE NOT tarry._is_far(now, p_kinds[u.g], u.ms) ORDER BY 1) w;
    PERFORM tarry._level(w.topic, w.level) FROM (SELECT DISTINCT t.topic, coalesce(nullif(u.priority, -1), t.priority, 100) AS level
      FROM unnest(p_topics, p_priorities) u(name, priority) JOIN tarry.topic t ON t.name = u.name ORDER BY 1, 2) w;
  END LOOP;
  IF p_onces IS NOT NULL AND NOT p_looks THEN -- most are new, so a plain insert is tried first
    BEGIN
      INSERT INTO tarry.finished (topic, id, until) SELECT topics[u.g], ' ' || u.once, now + u.span + 1
        FROM unnest(p_groups, p_onces, p_once_fors, p_ms) WITH ORDINALITY u(g, once, span, ms, n)
        WHERE u.once <> '' AND topics[u.g] IS NOT NULL AND NOT tarry._is_far(now, p_kinds[u.g], u.ms) ORDER BY 1, 2;
      are_new := true;
    EXCEPTION WHEN unique_violation THEN NULL;
    END;
  END IF;
  IF p_onces IS NOT NULL AND NOT are_new THEN -- as tarry._push_once; no two items have the same one
    WITH w AS (
      SELECT u.n, topics[u.g] AS topic, ' ' || u.once AS id, now + u.span + 1 AS until,
          coalesce(u.once <> '' AND topics[u.g] IS NOT NULL AND NOT tarry._is_far(now, p_kinds[u.g], u.ms), false) AS is_good
        FROM unnest(p_groups, p_onces, p_once_fors, p_ms) WITH ORDINALITY u(g, once, span, ms, n)
    ), c AS (
      INSERT INTO tarry.finished AS f (topic, id, until) SELECT w.topic, w.id, w.until FROM w WHERE w.is_good ORDER BY 1, 2
        ON CONFLICT (topic, id) DO UPDATE SET until = excluded.until WHERE f.until <= now RETURNING f.topic, f.id
    ) SELECT array_agg(w.is_good AND (w.topic, w.id) NOT IN (SELECT c.topic, c.id FROM c) ORDER BY w.n) INTO used FROM w; -- a join would compare all with all
  END IF;
  IF p_names IS NOT NULL OR true = ANY (flows) THEN
    SELECT array_agg(CASE WHEN coalesce(p_names[u.n], '') <> '' OR flows[u.g] THEN w.number END ORDER BY u.n) INTO numbers
      FROM unnest(p_groups) WITH ORDINALITY u(g, n) LEFT JOIN (SELECT d.topic, d.name, tarry._group(d.topic, d.name) AS number FROM (
          SELECT DISTINCT topics[v.g] AS topic, coalesce(p_names[v.n], '') AS name FROM unnest(p_groups) WITH ORDINALITY v(g, n)
            WHERE topics[v.g] IS NOT NULL AND (coalesce(p_names[v.n], '') <> '' OR flows[v.g]) ORDER BY 1, 2) d) w
        ON w.topic = topics[u.g] AND w.name = coalesce(p_names[u.n], '');
  END IF;
  IF p_batches IS NOT NULL THEN
    FOR g IN 1 .. cardinality(p_batches) LOOP
      CONTINUE WHEN p_batches[g] = '' OR NOT plain[g];
      plain[g] := p_batches[g] ~ '^[^ ]+ [^ ]+  0';
      CONTINUE WHEN NOT plain[g];
      SELECT j.status = 'ok' AND j.members = 0 AS is_good, j.number, j.form INTO x
        FROM tarry._join(split_part(p_batches[g], ' ', 1), split_part(p_batches[g], ' ', 2), '', now) j;
      plain[g] := x.is_good; batches[g] := x.number; forms[g] := x.form;
    END LOOP;
  END IF;
  FOR again IN 0 .. 2 LOOP -- then one by one
    EXIT WHEN p_ticket IS NOT NULL;
    IF p_looks OR again > 0 THEN
      present := ARRAY(SELECT (SELECT true FROM tarry.job j WHERE j.topic = topics[u.g] AND j.id = u.id LIMIT 1) IS NOT NULL
        FROM unnest(p_groups, p_ids) WITH ORDINALITY u(g, id, n) ORDER BY u.n);
    END IF;
    IF true = ANY (used) THEN
      present := ARRAY(SELECT coalesce(present[s.n], false) OR used[s.n] FROM generate_series(1, cardinality(p_ids)) s(n) ORDER BY s.n);
    END IF;
    BEGIN
      done := tarry._push_plain(now, seqs, topics, levels, ttls, plain, remembers, present, p_kinds, p_leases, p_ttls, p_backoff_kinds,
        p_backoff_firsts, p_backoff_maxes, p_attempts, p_types, p_pasts, p_errors, p_groups, p_ids, p_ms, p_metas, p_bodies, p_keeps, p_steps, numbers, batches, forms);
      EXIT;
    EXCEPTION WHEN unique_violation THEN NULL;
    END;
  END LOOP;
  IF p_ticket IS NOT NULL THEN
    done := tarry._push_plain(now, seqs, topics, levels, ttls, plain, remembers, present, p_kinds, p_leases, p_ttls, p_backoff_kinds,
      p_backoff_firsts, p_backoff_maxes, p_attempts, p_types, p_pasts, p_errors, p_groups, p_ids, p_ms, p_metas, p_bodies, p_keeps, p_steps, numbers, batches, forms);
    IF done < cardinality(p_ids) THEN RAISE EXCEPTION 'not all pushes are plain' USING ERRCODE = 'TY003'; END IF;
    INSERT INTO tarry.tally AS t (topic, slot, counts)
      SELECT w.topic, p_server, ARRAY[w.fresh, w.jobs - w.fresh, 0, 0, 0, w.jobs, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] FROM (
        SELECT topics[u.g] AS topic, count(*) AS jobs, count(*) FILTER (WHERE coalesce(p_pasts[u.g], 0) = 0) AS fresh FROM unnest(p_groups) u(g) GROUP BY 1) w
      ON CONFLICT (topic, slot) DO UPDATE SET counts[1] = t.counts[1] + excluded.counts[1], counts[2] = t.counts[2] + excluded.counts[2],
        counts[6] = t.counts[6] + excluded.counts[6];
  END IF;
  r.due := now;
  FOR g IN 1 .. cardinality(p_topics) LOOP
    r.topic := topics[g]; r.expire := ttls[g]; r.n := -g; r.batch := batches[g]; r.moved := tarry._moved(5, 0); RETURN NEXT r;
  END LOOP;
  IF done = cardinality(p_ids) THEN RETURN; END IF;
  FOR x IN SELECT u.* FROM unnest(p_groups, p_ids) WITH ORDINALITY u(g, id, n) LEFT JOIN tarry.topic t ON t.topic = topics[u.g]
      WHERE NOT EXISTS (SELECT FROM tarry.job j WHERE j.topic = topics[u.g] AND j.id = u.id AND j.seq = seqs[u.n])
      ORDER BY p_topics[u.g], CASE WHEN t.max_jobs > 0 OR t.flow & 16 > 0 THEN '' ELSE u.id END, u.n LOOP -- of a limited topic the first ones have room
    IF used[x.n] THEN
      e.status := 'existed'; e.topic := topics[x.g]; e.counts := tarry._none(); e.n := x.n;
      RETURN NEXT e;
      CONTINUE;
    END IF;
    r := tarry._push(p_topics[x.g], x.id, p_kinds[x.g], p_ms[x.n], p_priorities[x.g], coalesce(p_conflicts[x.g], 0), coalesce(p_leases[x.g], 0),
      coalesce(p_ttls[x.g], 0), coalesce(p_backoff_kinds[x.g], 0), coalesce(p_backoff_firsts[x.g], 0), coalesce(p_backoff_maxes[x.g], 0),
      coalesce(p_attempts[x.g], 0), p_types[x.g], p_metas[x.n], p_bodies[x.n], coalesce(p_pasts[x.g], 0), coalesce(p_dead[x.g], false),
      p_errors[x.g], p_topics_max, false, seqs[x.n], nullif(p_keeps[x.g], 0) - 1, p_steps[x.g], coalesce(p_names[x.n], ''), coalesce(p_batches[x.g], ''));
    IF p_onces[x.n] <> '' AND r.status NOT IN ('created', 'replaced') THEN DELETE FROM tarry.finished WHERE topic = topics[x.g] AND id = ' ' || p_onces[x.n]; END IF;
    r.n := x.n;
    RETURN NEXT r;
  END LOOP;
END $$;

CREATE FUNCTION tarry._changes(p_verbs int[], p_topics text[], p_ids text[], p_kinds int[], p_ms bigint[], p_priorities int[],
  p_only_dead boolean[], p_deliveries bigint[], p_requests boolean[], p_members boolean[]) RETURNS SETOF tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did; done bigint[]; now bigint := tarry.now_ms();
BEGIN
  FOR r IN
    WITH d AS (
      DELETE FROM tarry.job j USING (SELECT u.n, u.id, t.topic, t.dedup_window, t.history, t.keep_finished
          FROM unnest(p_verbs, p_topics, p_ids, p_only_dead, p_deliveries) WITH ORDINALITY u(verb, name, id, only_dead, delivery, n)
            JOIN tarry.topic t ON t.name = u.name
          WHERE u.verb = 1 AND NOT u.only_dead AND u.delivery = 0 AND t.max_jobs = 0 ORDER BY t.topic, u.id) a
        WHERE j.topic = a.topic AND j.id = a.id AND j.state = 1 AND NOT j.tried AND coalesce(j.keep, a.keep_finished) = 0 AND j.own IS NULL
        RETURNING a.n, j.topic, j.id, j.attempt, j.due, a.dedup_window, a.history, j.taken, j.batch
    ), h AS (
      INSERT INTO tarry.history SELECT now, d.topic, d.id, 'cancelled', d.attempt, nullif(d.taken, 0) FROM d WHERE d.history > 0
    ), f AS (
      INSERT INTO tarry.finished SELECT d.topic, d.id, now + d.dedup_window + 1 FROM d WHERE d.dedup_window > 0
        ON CONFLICT (topic, id) DO UPDATE SET until = excluded.until
    ) SELECT 'cancelled', NULL, NULL, d.topic, NULL, NULL, CASE WHEN d.attempt = 0 THEN '{-1,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0}'::bigint[]
        ELSE '{0,-1,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0}'::bigint[] END, NULL, NULL, NULL, NULL, d.attempt, d.due, d.n, d.batch, tarry._moved(0, 3), NULL, NULL FROM d
  LOOP
    done := done || r.n;
    RETURN NEXT r;
  END LOOP;
  FOR r IN SELECT c.* FROM (SELECT * FROM unnest(p_verbs, p_topics, p_ids, p_kinds, p_ms, p_priorities, p_only_dead, p_deliveries, p_requests, p_members)
        WITH ORDINALITY u(verb, topic, id, kind, ms, priority, only_dead, delivery, request, members, n) WHERE u.n NOT IN (SELECT unnest(done)) ORDER BY u.topic, u.id) u,
      LATERAL (SELECT v.status, v.state, v.due, v.topic, v.expire, v.died, v.counts, v.id, v.name, v.lease_until, v.cancel_requested, v.attempt, v.was_due, u.n, v.batch, v.moved, v.own, v.kept
        FROM tarry._change(u.verb, u.topic, u.id, u.kind, u.ms, u.priority, u.only_dead, u.delivery, u.request, false, coalesce(u.members, false)) v) c LOOP
    RETURN NEXT r;
  END LOOP;
END $$;

CREATE FUNCTION tarry._answer_items(p_verbs int[], p_topics int[], p_levels int[], p_dues bigint[], p_seqs bigint[], p_deliveries bigint[],
  p_takens bigint[], p_delays bigint[], p_finals boolean[], p_errors bytea[], p_shorts bytea[], p_leases bigint[], p_priorities int[], p_types bytea[],
  p_results bytea[])
RETURNS TABLE (verb int, topic int, level int, due bigint, seq bigint, delivery bigint, taken bigint, delay bigint, final boolean, error bytea,
  short bytea, lease bigint, priority int, result_type bytea, result bytea, n bigint) LANGUAGE plpgsql VOLATILE ROWS 1000 AS $$
BEGIN
  RETURN QUERY SELECT * FROM unnest(p_verbs, p_topics, p_levels, p_dues, p_seqs, p_deliveries, p_takens, p_delays, p_finals, p_errors, p_shorts,
    p_leases, p_priorities, p_types, p_results) WITH ORDINALITY;
END $$;

CREATE FUNCTION tarry._waits_until(p_verb int, p_delay bigint, p_due bigint, p_now bigint, p_backoff bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN p_delay > 0 THEN p_now + p_delay + 1 WHEN p_verb = 4 THEN p_due WHEN p_delay = 0 THEN p_now ELSE p_now + p_backoff END $$;

-- Plain is an ack, an extension, what is returned, and what fails or whose lease ends by itself without dying, in topics that keep no
-- history and have no limit of jobs (acks: also with a history).
CREATE FUNCTION tarry._answers(p_verbs int[], p_topics int[], p_levels int[], p_dues bigint[], p_seqs bigint[], p_deliveries bigint[],
  p_takens bigint[], p_delays bigint[], p_finals boolean[], p_errors bytea[], p_shorts bytea[], p_leases bigint[], p_priorities int[], p_types bytea[],
  p_results bytea[], p_holds bigint[], p_server bigint)
RETURNS SETOF tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did; x record; now bigint := tarry.now_ms(); is_awaited boolean := EXISTS (SELECT FROM tarry.awaited);
BEGIN
  IF p_verbs && '{2,4,5}' THEN PERFORM tarry._number(); END IF;
  IF p_holds IS NOT NULL THEN PERFORM tarry._hold(p_topics, p_levels, p_dues, p_seqs, p_deliveries, p_takens, p_holds, now); END IF;
  FOR x IN
    WITH u AS MATERIALIZED (
      SELECT i.*, random() AS luck FROM tarry._answer_items(p_verbs, p_topics, p_levels, p_dues, p_seqs, p_deliveries, p_takens, p_delays, p_finals, p_errors,
        p_shorts, p_leases, p_priorities, p_types, p_results) i
    ), a AS (
      DELETE FROM tarry.job j USING u JOIN tarry.topic t ON t.topic = u.topic AND t.name IS NOT NULL AND t.max_jobs = 0
        WHERE u.verb = 1 AND j.topic = u.topic AND j.level = u.level AND j.due = u.due AND j.seq = u.seq AND j.state = 3
          AND j.delivery = u.delivery AND j.taken = u.taken AND j.lease_until > now AND j.next IS NULL
          AND (NOT is_awaited OR NOT tarry._is_awaited(t.name, j.id))
        RETURNING u.n, j.topic, j.id, t.name, t.dedup_window, t.history, t.flow, j.grp, j.slot, j.attempt, j.taken, j.consumer, coalesce(j.keep, t.keep_finished) AS keep,
          j.seq, j.first_due, j.priority, j.meta, j.error, j.history AS attempts, j.progress, nullif(u.result_type, '') AS result_type,
          nullif(u.result, '') AS result, CASE WHEN t.keep_body THEN j.content_type END AS content_type, CASE WHEN t.keep_body THEN j.body END AS body,
          j.batch, j.own, j.batches
    ), s AS (
      INSERT INTO tarry.grp_note SELECT a.topic, w.grp, count(*) FROM a, LATERAL (VALUES (1, coalesce(a.grp, 0)), (2, -1)) w(flag, grp)
        WHERE a.slot & w.flag > 0 GROUP BY 1, 2
    ), h AS (
      INSERT INTO tarry.history SELECT now, a.topic, a.id, 'acked', a.attempt, nullif(a.taken, 0), a.consumer FROM a WHERE a.history > 0
    ), e AS (
      UPDATE tarry.job j SET lease_until = now + CASE WHEN u.lease > 0 THEN u.lease ELSE j.lease_span END + 1, server = p_server,
          progress = coalesce(nullif(u.result, ''), j.progress)
        FROM u JOIN tarry.topic t ON t.topic = u.topic AND t.name IS NOT NULL
        WHERE u.verb = 3 AND j.topic = u.topic AND j.level = u.level AND j.due = u.due AND j.seq = u.seq AND j.state = 3
          AND j.delivery = u.delivery AND j.taken = u.taken AND j.lease_until > now
        RETURNING u.n, j.topic, j.id, t.name, j.lease_until, j.cancel_requested, j.attempt
    ), b AS (
      UPDATE tarry.job j SET state = 1, lease_until = 0, taken = 0, server = 0, by_sql = false, consumer = NULL, progress = NULL,
          attempt = CASE u.verb WHEN 4 THEN j.attempt - 1 ELSE j.attempt END, tried = t.flow & 32 > 0 AND (u.verb <> 4 OR j.attempt > 1),
          error = CASE u.verb WHEN 4 THEN j.error ELSE nullif(u.error, '') END,
          history = CASE u.verb WHEN 4 THEN j.history ELSE tarry._attempts_with(j.history, j.attempt, j.taken,
            CASE u.verb WHEN 5 THEN j.lease_until ELSE now END, CASE u.verb WHEN 5 THEN 2 ELSE 1 END, u.short) END,
          due = tarry._waits_until(u.verb, u.delay, j.due, now, tarry._backoff(j.backoff_kind, j.backoff_first, j.backoff_max,
            j.backoff_steps, t.backoff_kind, t.backoff_first, t.backoff_max, t.backoff_steps, j.attempt, u.luck)),
          expire = CASE WHEN coalesce(j.ttl, t.ttl) > 0 THEN greatest(j.first_due + coalesce(j.ttl, t.ttl), tarry._waits_until(u.verb, u.delay,
            j.due, now, tarry._backoff(j.backoff_kind, j.backoff_first, j.backoff_max, j.backoff_steps, t.backoff_kind, t.backoff_first, t.backoff_max,
            t.backoff_steps, j.attempt, u.luck))) END
        FROM u JOIN tarry.topic t ON t.topic = u.topic AND t.name IS NOT NULL AND t.max_jobs = 0 AND t.history = 0
        WHERE u.verb IN (2, 4, 5) AND NOT u.final AND u.priority < 0
          AND j.topic = u.topic AND j.level = u.level AND j.due = u.due AND j.seq = u.seq AND j.state = 3
          AND j.delivery = u.delivery AND j.taken = u.taken AND NOT j.cancel_requested AND j.next IS NULL
          AND CASE u.verb WHEN 5 THEN j.lease_until <= now AND j.server = p_server ELSE j.lease_until > now END
          AND (u.verb = 4 OR j.attempt < coalesce(j.max_attempts, nullif(t.max_attempts, 0), 16)
            OR coalesce(j.max_attempts, nullif(t.max_attempts, 0), 16) >= 4294967295)
        RETURNING u.n, u.verb, j.topic, j.id, t.name, j.attempt, j.due, j.expire
    ), f AS (
      INSERT INTO tarry.finished SELECT a.topic, a.id, now + a.dedup_window + 1 FROM a WHERE a.dedup_window > 0 AND a.keep = 0
        ON CONFLICT (topic, id) DO UPDATE SET until = excluded.until
    ), k AS (
      INSERT INTO tarry.finished (topic, id, until, kept, at, seq, first_due, taken, bytes, priority, attempt, outcome, consumer, meta, error, history, progress,
          result_type, result, content_type, body, batches)
        SELECT a.topic, a.id, CASE WHEN a.dedup_window > 0 THEN now + a.dedup_window + 1 ELSE 0 END, now + a.keep + 1, now, a.seq, a.first_due, nullif(a.taken, 0),
          tarry._kept_bytes(a.id, a.meta, a.body, a.result), a.priority, a.attempt, 1, a.consumer, a.meta, a.error, a.attempts, a.progress, a.result_type,
          a.result, a.content_type, a.body, a.batches FROM a WHERE a.keep > 0
        ON CONFLICT (topic, id) DO UPDATE SET (until, kept, at, seq, first_due, taken, bytes, priority, attempt, outcome, consumer, meta, error, history, progress,
            result_type, result, content_type, body, batches) = (excluded.until, excluded.kept, excluded.at, excluded.seq, excluded.first_due, excluded.taken, excluded.bytes,
            excluded.priority, excluded.attempt, excluded.outcome, excluded.consumer, excluded.meta, excluded.error, excluded.history, excluded.progress,
            excluded.result_type, excluded.result, excluded.content_type, excluded.body, excluded.batches)
    ) SELECT 1 AS done, a.n, a.topic, a.name, a.id, a.attempt, CASE WHEN a.keep > 0 THEN tarry._kept_bytes(a.id, a.meta, a.body, a.result) END::bigint AS new_due, NULL::bigint AS expire, NULL::bigint AS lease_until,
          false AS cancel_requested, NULL::int AS verb, NULL::int AS level, NULL::bigint AS due, NULL::bigint AS seq, NULL::bigint AS delivery,
          NULL::bigint AS taken, NULL::bigint AS delay, NULL::boolean AS final, NULL::bytea AS error, NULL::bytea AS short, NULL::bigint AS lease,
          NULL::int AS priority, NULL::bytea AS result_type, NULL::bytea AS result, a.batch, a.own FROM a
      UNION ALL SELECT 3, e.n, e.topic, e.name, e.id, e.attempt, NULL, NULL, e.lease_until, e.cancel_requested,
          NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM e
      UNION ALL SELECT b.verb, b.n, b.topic, b.name, b.id, b.attempt, b.due, b.expire, NULL, false,
          NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM b
      UNION ALL SELECT NULL, u.n, u.topic, NULL, NULL, NULL, NULL, NULL, NULL, NULL, u.verb, u.level, u.due, u.seq, u.delivery, u.taken, u.delay, u.final,
          u.error, u.short, u.lease, u.priority, u.result_type, u.result, NULL, NULL FROM u
        WHERE u.n NOT IN (SELECT n FROM a) AND u.n NOT IN (SELECT n FROM e) AND u.n NOT IN (SELECT n FROM b)
  LOOP
    IF x.done IS NULL THEN
      r := tarry._answer(x.verb, x.topic, x.level, x.due, x.seq, x.delivery, x.taken, x.delay, x.final, x.error, x.short, x.lease, p_server, x.priority, x.result_type,
        x.result);
    ELSIF x.done IN (1, 3) THEN
      r := ROW('ok', CASE x.done WHEN 3 THEN 3 END, NULL, x.topic, NULL, false, NULL, x.id, x.name, x.lease_until, x.cancel_requested, x.attempt, NULL, NULL,
        x.batch, tarry._moved(0, 1), x.own, x.new_due);
    ELSE
      r := ROW('ok', CASE WHEN x.new_due <= now THEN 2 ELSE 1 END, x.new_due, x.topic, x.expire, false,
        CASE x.done WHEN 2 THEN '{0,1,-1,0,0,0,0,0,0,0,0,1,0,0,0,0,0}'::bigint[] WHEN 5 THEN '{0,1,-1,0,0,0,0,0,0,0,0,0,1,0,0,0,0}'::bigint[]
          ELSE CASE WHEN x.attempt = 0 THEN '{1,0,-1,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'::bigint[] ELSE '{0,1,-1,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'::bigint[] END END,
        x.id, x.name, NULL, false, x.attempt + CASE x.done WHEN 4 THEN 1 ELSE 0 END, NULL, NULL, NULL, NULL, NULL, NULL);
    END IF;
    r.n := x.n;
    RETURN NEXT r;
  END LOOP;
END $$;

-- Acks jobs of topics with groups or limits, as tarry._acks does.
CREATE FUNCTION tarry._acks_flow(p_rows tid[], p_deliveries bigint[], p_takens bigint[], p_topics int[], p_names text[], p_now bigint, p_awaited boolean)
RETURNS SETOF tarry._did LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
  PERFORM tarry._number();
  RETURN QUERY WITH d AS (
    DELETE FROM tarry.job j USING unnest(p_rows, p_deliveries, p_takens) WITH ORDINALITY u("row", delivery, taken, n)
      WHERE j.ctid = u.row AND j.delivery = u.delivery AND j.taken = u.taken AND j.state = 3 AND j.lease_until > p_now AND j.next IS NULL AND j.topic = ANY (p_topics)
        AND (j.keep = 0 OR j.keep IS NULL) AND (NOT p_awaited OR NOT tarry._is_awaited(p_names[array_position(p_topics, j.topic)], j.id))
      RETURNING j.topic, j.id, j.attempt, j.grp, j.slot, u.n, j.batch, j.own
  ), s AS (
    INSERT INTO tarry.grp_note SELECT d.topic, w.grp, count(*) FROM d, LATERAL (VALUES (1, coalesce(d.grp, 0)), (2, -1)) w(flag, grp)
      WHERE d.slot & w.flag > 0 GROUP BY 1, 2
  ) SELECT 'ok', NULL::int, NULL::bigint, d.topic, NULL::bigint, false, NULL::bigint[], d.id, p_names[array_position(p_topics, d.topic)], NULL::bigint,
      false, d.attempt, NULL::bigint, d.n, d.batch, tarry._moved(0, 1), d.own, NULL::bigint FROM d;
END $$;

-- Awaited jobs are acked one by one, so that those who wait get all of their end.
--
-- Acks jobs, each with the place of its row when it was taken. A row that is still there is deleted without an index, in topics that need nothing
-- more for an ack; the rest, if found by its key, is answered like other answers. Ended leases return no row.
CREATE FUNCTION tarry._acks(p_rows tid[], p_topics int[], p_levels int[], p_dues bigint[], p_seqs bigint[], p_deliveries bigint[], p_takens bigint[],
  p_types bytea[], p_results bytea[], p_server bigint) RETURNS SETOF tarry._did LANGUAGE plpgsql AS $$
DECLARE now bigint := tarry.now_ms(); topics int[]; names text[]; keepers int[]; keeper_names text[]; keeps bigint[]; keep_bodies boolean[]; done bigint := 0; more bigint; l record; n int;
  is_awaited boolean := EXISTS (SELECT FROM tarry.awaited); flow boolean;
BEGIN
  SELECT array_agg(t.topic) FILTER (WHERE t.keep_finished = 0), array_agg(t.name) FILTER (WHERE t.keep_finished = 0),
      array_agg(t.topic) FILTER (WHERE t.keep_finished > 0 AND t.flow = 0), array_agg(t.name) FILTER (WHERE t.keep_finished > 0 AND t.flow = 0),
      array_agg(t.keep_finished) FILTER (WHERE t.keep_finished > 0 AND t.flow = 0), array_agg(t.keep_body) FILTER (WHERE t.keep_finished > 0 AND t.flow = 0), bool_or(t.flow & 3 > 0)
    INTO topics, names, keepers, keeper_names, keeps, keep_bodies, flow
    FROM (SELECT DISTINCT unnest(p_topics) AS topic) u JOIN tarry.topic t ON t.topic = u.topic
    WHERE t.name IS NOT NULL AND t.max_jobs = 0 AND t.history = 0 AND t.dedup_window = 0;
  IF flow THEN
    RETURN QUERY SELECT * FROM tarry._acks_flow(p_rows, p_deliveries, p_takens, topics, names, now, is_awaited);
    GET DIAGNOSTICS done = ROW_COUNT;
    IF done = cardinality(p_rows) THEN RETURN; END IF;
  ELSIF topics IS NOT NULL THEN
    RETURN QUERY DELETE FROM tarry.job j USING unnest(p_rows, p_deliveries, p_takens) WITH ORDINALITY u("row", delivery, taken, n)
      WHERE j.ctid = u.row AND j.delivery = u.delivery AND j.taken = u.taken AND j.state = 3 AND j.lease_until > now AND j.next IS NULL AND j.topic = ANY (topics)
        AND (j.keep = 0 OR j.keep IS NULL) AND (NOT is_awaited OR NOT tarry._is_awaited(names[array_position(topics, j.topic)], j.id))
      RETURNING 'ok', NULL::int, NULL::bigint, j.topic, NULL::bigint, false, NULL::bigint[], j.id, names[array_position(topics, j.topic)], NULL::bigint,
        false, j.attempt, NULL::bigint, u.n, j.batch, tarry._moved(0, 1), j.own, NULL::bigint;
    GET DIAGNOSTICS done = ROW_COUNT;
    IF done = cardinality(p_rows) THEN RETURN; END IF;
  END IF;
  IF keepers IS NOT NULL THEN
    BEGIN -- a look-up before each insert would cost more. The rows are returned after the inserts: those that are returned are not undone
      RETURN QUERY WITH d AS (
        DELETE FROM tarry.job j USING unnest(p_rows, p_deliveries, p_takens, p_types, p_results) WITH ORDINALITY u("row", delivery, taken, result_type, result, n)
          WHERE j.ctid = u.row AND j.delivery = u.delivery AND j.taken = u.taken AND j.state = 3 AND j.lease_until > now AND j.next IS NULL
            AND j.topic = ANY (keepers) AND (j.keep IS NULL OR j.keep > 0)
            AND (NOT is_awaited OR NOT tarry._is_awaited(keeper_names[array_position(keepers, j.topic)], j.id))
          RETURNING u.n, array_position(keepers, j.topic) AS k, j.keep, j.topic, j.id, j.seq, j.first_due, j.taken, j.priority, j.attempt, j.consumer, j.meta,
            j.error, j.history, j.progress, nullif(u.result_type, '') AS result_type, nullif(u.result, '') AS result, j.content_type,
            CASE WHEN keep_bodies[array_position(keepers, j.topic)] THEN j.body END AS body, j.batch, j.own, j.batches
      ), k AS (
        INSERT INTO tarry.finished (topic, id, until, kept, at, seq, first_due, taken, bytes, priority, attempt, outcome, consumer, meta, error, history, progress,
            result_type, result, content_type, body, batches)
          SELECT d.topic, d.id, 0, now + coalesce(d.keep, keeps[d.k]) + 1, now, d.seq, d.first_due, nullif(d.taken, 0), tarry._kept_bytes(d.id, d.meta, d.body, d.result), d.priority,
            d.attempt, 1, d.consumer, d.meta, d.error, d.history, d.progress, d.result_type, d.result, CASE WHEN keep_bodies[d.k] THEN d.content_type END, d.body, d.batches FROM d
          RETURNING true
      ) SELECT 'ok', NULL::int, NULL::bigint, d.topic, NULL::bigint, false, NULL::bigint[], d.id, keeper_names[d.k], NULL::bigint, false, d.attempt, NULL::bigint, d.n, d.batch,
          tarry._moved(0, 1), d.own, tarry._kept_bytes(d.id, d.meta, d.body, d.result)::bigint FROM d WHERE (SELECT count(*) FROM k) > 0;
      GET DIAGNOSTICS more = ROW_COUNT;
      done := done + more;
    EXCEPTION WHEN unique_violation THEN NULL; -- an id is remembered for another reason: all are answered below
    END;
    IF done = cardinality(p_rows) THEN RETURN; END IF;
  END IF;
  SELECT array_agg(u.n) AS ns, array_agg(u.topic) AS topics, array_agg(u.level) AS levels, array_agg(u.due) AS dues, array_agg(u.seq) AS seqs,
      array_agg(u.delivery) AS deliveries, array_agg(u.taken) AS takens, array_agg(u.result_type) AS types, array_agg(u.result) AS results INTO l
    FROM unnest(p_topics, p_levels, p_dues, p_seqs, p_deliveries, p_takens, p_types, p_results) WITH ORDINALITY
      u(topic, level, due, seq, delivery, taken, result_type, result, n)
    JOIN tarry.job j ON j.topic = u.topic AND j.level = u.level AND j.due = u.due AND j.seq = u.seq;
  n := cardinality(l.ns);
  IF n IS NULL THEN RETURN; END IF;
  RETURN QUERY SELECT a.status, a.state, a.due, a.topic, a.expire, a.died, a.counts, a.id, a.name, a.lease_until, a.cancel_requested, a.attempt, a.was_due,
      l.ns[a.n], a.batch, a.moved, a.own, a.kept
    FROM tarry._answers(array_fill(1, ARRAY[n]), l.topics, l.levels, l.dues, l.seqs, l.deliveries, l.takens, array_fill(-1::bigint, ARRAY[n]),
      array_fill(false, ARRAY[n]), array_fill(''::bytea, ARRAY[n]), array_fill(''::bytea, ARRAY[n]), array_fill(0::bigint, ARRAY[n]),
      array_fill(-1, ARRAY[n]), l.types, l.results, NULL, p_server) a;
END $$;

-- ---- calls about topics ----

CREATE FUNCTION tarry._figures(p_name text, p_after text, p_limit bigint) RETURNS TABLE (
  name text, paused boolean, paused_until bigint, lease bigint, ttl bigint, backoff_kind int, backoff_first bigint, backoff_max bigint,
  max_attempts bigint, on_conflict int, priority int, dead_letter_expired boolean, dedup_window bigint, max_jobs bigint,
  push_rate_count bigint, push_rate_unit int, extension bytea, counts bigint[], ready_fresh bigint, ready_retry bigint, oldest bigint, history bigint,
  keep_finished bigint, keep_finished_max bigint, keep_finished_bytes bigint, keep_body boolean, backoff_steps text,
  lim bigint, rate_count bigint, rate_unit int, burst bigint, group_lim bigint, group_rate_count bigint, group_rate_unit int, group_burst bigint, group_max_jobs bigint, group_order int, one_shard int,
  active_groups bigint, held_1 bigint, held_2 bigint, held_3 bigint, held_4 bigint, held_5 bigint, held_6 bigint, held_7 bigint
) LANGUAGE plpgsql AS $$
DECLARE now bigint := tarry.now_ms();
BEGIN
  RETURN QUERY SELECT t.name, t.paused AND (t.paused_until = 0 OR t.paused_until > now),
      CASE WHEN t.paused AND t.paused_until > now THEN t.paused_until ELSE 0 END,
      t.lease, t.ttl, t.backoff_kind, t.backoff_first, t.backoff_max, t.max_attempts, t.on_conflict, t.priority, t.dead_letter_expired,
      t.dedup_window, t.max_jobs, t.push_rate_count, t.push_rate_unit, t.extension, s.counts, r.fresh, r.retry, r.oldest, t.history,
      t.keep_finished, t.keep_finished_max, t.keep_finished_bytes, t.keep_body, t.backoff_steps,
      t.lim, t.rate_count, t.rate_unit, t.burst, t.group_lim, t.group_rate_count, t.group_rate_unit, t.group_burst, t.group_max_jobs, t.group_order, t.one_shard::int,
      f.w[1], f.w[2], f.w[3], f.w[4], f.w[5], f.w[6], f.w[7], f.w[8]
    FROM tarry.topic t,
      LATERAL (SELECT CASE WHEN t.flow > 0 THEN tarry._flow_figures(t, now) END AS w OFFSET 0) f,
      LATERAL (SELECT ARRAY[sum(c[1]), sum(c[2]), sum(c[3]), sum(c[4]), sum(c[5]), sum(c[6]), sum(c[7]), sum(c[8]), sum(c[9]), sum(c[10]),
          sum(c[11]), sum(c[12]), sum(c[13]), sum(c[14]), sum(c[15]), sum(c[16]), sum(c[17])]::bigint[] AS counts
        FROM (SELECT y.counts FROM tarry.tally y WHERE y.topic = t.topic UNION ALL SELECT y.counts FROM tarry.tally_add y WHERE y.topic = t.topic
          UNION ALL SELECT tarry._none()) x(c)) s,
      -- If few jobs wait, and not more were cancelled or replaced than acked, the delayed ones are subtracted: an old snapshot may keep many deleted
      -- jobs, most of which were due before now, or else after now. One level at a time, since a join may read all jobs of the topic.
      LATERAL (SELECT v.waiting BETWEEN 1 AND 1000 AND NOT v.cancels AS few, v.waiting > 1000 OR v.waiting > 0 AND v.cancels AS many
        FROM (SELECT s.counts[1] + s.counts[2] AS waiting, s.counts[8] + s.counts[10] > s.counts[7] AS cancels) v) w,
      LATERAL (SELECT coalesce(sum(o.fresh), 0)::bigint AS fresh, coalesce(sum(o.retry), 0)::bigint AS retry, min(o.oldest) AS oldest FROM tarry.level k,
          LATERAL (SELECT count(*) FILTER (WHERE j.attempt = 0) AS fresh, count(*) FILTER (WHERE j.attempt > 0) AS retry, min(j.due) AS oldest FROM tarry.job j
            WHERE j.topic = k.topic AND j.level = k.level AND j.due <= now AND j.state = 1) o
        WHERE k.topic = t.topic AND w.many) m,
      LATERAL (SELECT greatest(s.counts[1] - sum(o.fresh), 0)::bigint AS fresh, greatest(s.counts[2] - sum(o.retry), 0)::bigint AS retry FROM tarry.level k,
          LATERAL (SELECT count(*) FILTER (WHERE j.attempt = 0) AS fresh, count(*) FILTER (WHERE j.attempt > 0) AS retry FROM tarry.job j
            WHERE j.topic = k.topic AND j.level = k.level AND j.due > now AND j.state = 1) o
        WHERE k.topic = t.topic AND w.few) d,
      LATERAL (SELECT CASE WHEN w.few THEN d.fresh ELSE m.fresh END AS fresh, CASE WHEN w.few THEN d.retry ELSE m.retry END AS retry,
        CASE WHEN w.few THEN (SELECT min(o.due) FROM tarry.level k, -- from now back, as far as there can be ready jobs
          LATERAL (SELECT j.due FROM tarry.job j WHERE j.topic = k.topic AND j.level = k.level AND j.due <= now AND j.state = 1
            ORDER BY j.due DESC LIMIT d.fresh + d.retry) o WHERE k.topic = t.topic AND d.fresh + d.retry > 0) ELSE m.oldest END AS oldest) r
    WHERE t.name IS NOT NULL AND (p_name IS NULL OR t.name = p_name) AND (p_after IS NULL OR t.name > p_after)
    ORDER BY t.name LIMIT nullif(p_limit, 0);
END $$;

CREATE FUNCTION tarry._put(p_name text, p_lease bigint, p_ttl bigint, p_backoff_kind int, p_backoff_first bigint, p_backoff_max bigint,
  p_attempts bigint, p_conflict int, p_priority int, p_dead_letter boolean, p_dedup bigint, p_max_jobs bigint, p_rate_count bigint,
  p_rate_unit int, p_extension bytea, p_topics_max int, p_history bigint, p_keep bigint, p_keep_max bigint, p_keep_bytes bigint,
  p_keep_body boolean, p_steps text, p_flow bigint[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; fresh boolean := NOT EXISTS (SELECT FROM tarry.topic WHERE name = p_name);
BEGIN
  t := tarry._topic(p_name, p_topics_max);
  IF t.topic IS NULL THEN RETURN 'too_many_topics'; END IF;
  IF p_flow[10] <> t.group_order AND EXISTS (SELECT FROM tarry.level l JOIN tarry.job j ON j.topic = l.topic AND j.level = l.level WHERE l.topic = t.topic) THEN
    RETURN 'not_empty';
  END IF;
  PERFORM tarry._number();
  UPDATE tarry.topic SET lease = p_lease, ttl = p_ttl, backoff_kind = p_backoff_kind, backoff_first = p_backoff_first,
    backoff_max = p_backoff_max, backoff_steps = nullif(p_steps, ''), max_attempts = p_attempts, on_conflict = p_conflict, priority = p_priority,
    dead_letter_expired = p_dead_letter, dedup_window = p_dedup, max_jobs = p_max_jobs, push_rate_count = p_rate_count,
    push_rate_unit = p_rate_unit, extension = coalesce(p_extension, ''), history = p_history, keep_finished = p_keep,
    keep_finished_max = p_keep_max, keep_finished_bytes = p_keep_bytes, keep_body = p_keep_body,
    lim = p_flow[1], rate_count = p_flow[2], rate_unit = p_flow[3], burst = p_flow[4], group_lim = p_flow[5], group_rate_count = p_flow[6],
    group_rate_unit = p_flow[7], group_burst = p_flow[8], group_max_jobs = p_flow[9], group_order = p_flow[10],
    one_shard = p_flow[11] > 0 WHERE topic = t.topic;
  PERFORM tarry._flow_set(t.topic);
  IF p_history > t.history THEN PERFORM tarry._history_days(); END IF;
  IF p_ttl <> t.ttl THEN
    UPDATE tarry.job SET expire = CASE WHEN p_ttl > 0 THEN greatest(due, first_due + p_ttl) END
      WHERE topic = t.topic AND ttl IS NULL AND state <> 4 AND due <> tarry._wait_due();
  END IF;
  RETURN CASE WHEN fresh THEN 'created' ELSE 'ok' END;
END $$;

CREATE FUNCTION tarry._pause(p_name text, p_paused boolean, p_ms bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE number int;
BEGIN
  PERFORM tarry._number();
  UPDATE tarry.topic SET paused = p_paused, paused_until = CASE WHEN p_paused AND p_ms > 0 THEN tarry.now_ms() + p_ms + 1 ELSE 0 END
    WHERE name = p_name RETURNING topic INTO number;
  IF NOT FOUND THEN RETURN 'not_found'; END IF;
  IF NOT p_paused THEN -- it ends a hold of the topic too
    DELETE FROM tarry.grp_note WHERE topic = number AND grp = -1 AND held IS NOT NULL;
    UPDATE tarry.grp SET held_until = 0 WHERE topic = number AND grp = -1 AND held_until > 0;
  END IF;
  RETURN 'ok';
END $$;

-- Deletes a topic: its name is free immediately; the upkeep removes the rows of its number in steps.
CREATE FUNCTION tarry._delete(p_name text, OUT status text, OUT affected bigint, OUT batched boolean) LANGUAGE plpgsql AS $$
DECLARE number int;
BEGIN
  status := 'not_found'; affected := 0;
  UPDATE tarry.topic SET name = NULL, paused_until = tarry.now_ms() WHERE name = p_name RETURNING topic INTO number;
  IF NOT FOUND THEN RETURN; END IF;
  status := 'ok'; affected := tarry._jobs(number);
  WITH m AS ( -- the members are those of no batch from now on, so that nothing else counts them
    UPDATE tarry.job j SET batch = NULL FROM (SELECT topic, id, batch FROM tarry.job WHERE batch IS NOT NULL AND topic = number) o
      WHERE j.topic = o.topic AND j.id = o.id AND j.batch = o.batch RETURNING o.batch, j.state
  ), a AS (
    INSERT INTO tarry.batch_add (batch, unfinished, dead, cancelled) SELECT m.batch, -count(*) FILTER (WHERE m.state <> 4), -count(*) FILTER (WHERE m.state = 4), count(*)
      FROM m GROUP BY m.batch
  ) SELECT count(*) > 0 INTO batched FROM m;
  INSERT INTO tarry.batch_add (batch) SELECT b.batch FROM tarry.batch b WHERE b.topic = number;
  batched := batched OR FOUND;
  PERFORM pg_notify('tarry', 'f * ' || w.server) FROM (SELECT DISTINCT server FROM tarry.awaited WHERE topic = p_name) w;
  UPDATE tarry.awaited SET outcome = 9 WHERE topic = p_name AND outcome IS NULL;
END $$;

-- Drops kept jobs of a topic, the oldest first. Returns how many.
CREATE FUNCTION tarry._drop_kept(p_topic int, p_limit bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE dropped bigint; size bigint; now bigint := tarry.now_ms();
BEGIN
  WITH o AS MATERIALIZED (
    SELECT f.id, f.bytes, f.until FROM tarry.finished f WHERE f.topic = p_topic AND f.at IS NOT NULL ORDER BY f.at, f.seq LIMIT p_limit FOR UPDATE SKIP LOCKED
  ), d AS (
    DELETE FROM tarry.finished f USING o WHERE f.topic = p_topic AND f.id = o.id AND o.until <= now
  ), e AS (
    UPDATE tarry.finished f SET kept = 0, at = NULL, meta = NULL, error = NULL, history = NULL, progress = NULL, result_type = NULL, result = NULL, content_type = NULL, body = NULL
      FROM o WHERE f.topic = p_topic AND f.id = o.id AND o.until > now
  ) SELECT count(*), sum(o.bytes) INTO dropped, size FROM o;
  IF dropped > 0 THEN
    INSERT INTO tarry.tally_add VALUES (p_topic, ARRAY[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -dropped, -size]);
  END IF;
  RETURN dropped;
END $$;

-- Does one step of a purge.
CREATE FUNCTION tarry._purge(p_name text, p_state int, p_limit int, OUT status text, OUT affected bigint, OUT batched boolean) LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; j tarry.job; counts bigint[] := tarry._none(); now bigint := tarry.now_ms();
BEGIN
  status := 'not_found'; affected := 0;
  SELECT * INTO t FROM tarry.topic WHERE name = p_name;
  IF NOT FOUND THEN RETURN; END IF;
  IF p_state = 5 THEN
    affected := tarry._drop_kept(t.topic, p_limit);
    status := 'ok'; RETURN;
  END IF;
  FOR j IN DELETE FROM tarry.job d USING (
      SELECT topic, id FROM tarry.job WHERE topic = t.topic AND state <> 3
        AND (p_state = 0 OR tarry._state(state, due, now) = p_state) LIMIT p_limit FOR UPDATE) c
    WHERE d.topic = c.topic AND d.id = c.id RETURNING d.* LOOP
    counts := tarry._counted(counts, j, -1);
    PERFORM tarry._let_go(t, j, now);
    PERFORM tarry._note(t, j, 'purged', now, NULL, NULL);
    PERFORM tarry._mark_ended(t.name, j.id, 9, now, NULL, j.attempt, NULL, NULL, NULL);
    IF j.batch IS NOT NULL THEN PERFORM tarry._add_to_batch(j.batch, tarry._moved(tarry._outcome(j.state), 3)); batched := true; END IF;
    IF j.own IS NOT NULL THEN PERFORM tarry._add_to_batch(j.own, NULL); batched := true; END IF;
    affected := affected + 1;
  END LOOP;
  counts[8] := affected;
  IF affected > 0 THEN INSERT INTO tarry.tally_add VALUES (t.topic, counts); END IF;
  status := 'ok';
END $$;

-- Does one step of a redrive. p_id NULL: any.
CREATE FUNCTION tarry._redrive(p_name text, p_id text, p_limit bigint, OUT status text, OUT affected bigint, OUT batched boolean) LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; j tarry.job; later bigint; counts bigint[] := tarry._none(); now bigint := tarry.now_ms();
BEGIN
  status := 'not_found'; affected := 0;
  SELECT * INTO t FROM tarry.topic WHERE name = p_name;
  IF NOT FOUND THEN RETURN; END IF;
  PERFORM tarry._number();
  FOR j IN SELECT * FROM tarry.job WHERE topic = t.topic AND level = 70000 AND (p_id IS NULL OR id = p_id)
      ORDER BY due, seq LIMIT p_limit FOR UPDATE LOOP
    counts := tarry._counted(counts, j, -1);
    PERFORM tarry._note(t, j, 'redriven', now, NULL, NULL);
    later := j.first_due;
    j.state := 1; j.attempt := 0; j.due := now; j.first_due := now; j.level := j.priority;
    PERFORM tarry._level(j.topic, j.level);
    j.expire := tarry._expire_at(t, j);
    IF j.batch IS NOT NULL THEN PERFORM tarry._revive(j); batched := true; END IF;
    IF j.own IS NOT NULL THEN
      SELECT b.wait_until INTO j.expire FROM tarry.batch b WHERE b.batch = j.own AND NOT b.ended;
      IF FOUND THEN -- its batch was not closed
        j.due := tarry._wait_due(); j.first_due := later; batched := true;
        PERFORM tarry._add_to_batch(j.own, NULL, 1);
      ELSE
        j.expire := tarry._expire_at(t, j);
      END IF;
    END IF;
    UPDATE tarry.job SET state = 1, attempt = 0, due = j.due, first_due = j.first_due, level = j.level, expire = j.expire
      WHERE topic = j.topic AND id = j.id;
    counts := tarry._counted(counts, j, 1);
    affected := affected + 1;
  END LOOP;
  counts[15] := affected;
  IF affected > 0 THEN INSERT INTO tarry.tally_add VALUES (t.topic, counts); END IF;
  IF p_id IS NULL OR affected > 0 THEN status := 'ok'; END IF;
END $$;

-- Rows (what, index, jobs): 0 ready, 1 by minute, 2 by hour, 3 later; no row but (-1): there is no such topic.
CREATE FUNCTION tarry._forecast(p_name text, p_from bigint) RETURNS TABLE (what int, index bigint, jobs bigint) LANGUAGE plpgsql AS $$
DECLARE now bigint := tarry.now_ms(); hour bigint := p_from / 3600000 * 3600000; adjust bigint := (SELECT adjust_ms FROM tarry.store);
BEGIN
  IF p_name <> '' AND NOT EXISTS (SELECT FROM tarry.topic WHERE name = p_name) THEN
    RETURN QUERY SELECT -1, 0::bigint, 0::bigint; RETURN;
  END IF;
  now := now - adjust; -- all in times of the database's clock, whose hours these are
  RETURN QUERY WITH w AS MATERIALIZED (
      SELECT j.due - adjust AS due, count(*) AS n FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic AND j.state = 1
        WHERE t.name IS NOT NULL AND (p_name = '' OR t.name = p_name) GROUP BY j.due)
    SELECT 0, 0::bigint, sum(n)::bigint FROM w WHERE due <= now HAVING sum(n) > 0
    UNION ALL SELECT 1, greatest(0, (due - p_from) / 60000), sum(n)::bigint FROM w WHERE due > now AND due < p_from + 3600000 GROUP BY 2
    UNION ALL SELECT 2, greatest(0, (due - hour) / 3600000), sum(n)::bigint FROM w WHERE due > now AND due < hour + 168 * 3600000::bigint GROUP BY 2
    UNION ALL SELECT 3, 0::bigint, sum(n)::bigint FROM w WHERE due > now AND due >= hour + 168 * 3600000::bigint HAVING sum(n) > 0;
END $$;

-- The same for the first two minutes only: reads no job that is due later.
CREATE FUNCTION tarry._soon(p_name text, p_from bigint) RETURNS TABLE (what int, index bigint, jobs bigint) LANGUAGE plpgsql AS $$
DECLARE now bigint := tarry.now_ms(); start bigint := p_from + (SELECT adjust_ms FROM tarry.store); number int;
BEGIN
  SELECT t.topic INTO number FROM tarry.topic t WHERE t.name = p_name;
  IF NOT FOUND THEN
    RETURN QUERY SELECT -1, 0::bigint, 0::bigint; RETURN;
  END IF;
  RETURN QUERY SELECT 1, greatest(0, (j.due - start) / 60000), count(*)
    FROM tarry.level l JOIN tarry.job j ON j.topic = l.topic AND j.level = l.level AND j.state = 1 AND j.due > now AND j.due < start + 120000
    WHERE l.topic = number GROUP BY 2;
END $$;

-- ---- what servers do beside calls ----

-- Removes jobs whose ttl has ended, or marks them dead. next: when to call again (NULL: no job has a ttl), with a pause if transactions of others
-- hold all the rest; died: topics with an extension in which jobs died; events: what happened, for listeners.
CREATE FUNCTION tarry._expire(p_limit int, p_events boolean, OUT next bigint, OUT died text, OUT events text, OUT batched boolean) LANGUAGE plpgsql AS $$
DECLARE t tarry.topic; j tarry.job; counts bigint[]; done int := 0; now bigint := tarry.now_ms(); reason text; b tarry.batch; due bigint;
BEGIN
  batched := EXISTS (SELECT FROM tarry.batch_add);
  FOR j IN SELECT * FROM tarry.job WHERE expire <= now AND state = 1 ORDER BY expire LIMIT p_limit FOR UPDATE SKIP LOCKED LOOP
    SELECT * INTO t FROM tarry.topic WHERE topic = j.topic;
    counts := tarry._counted(tarry._none(), j, -1);
    PERFORM tarry._let_go(t, j, now);
    reason := 'expired'; due := j.due; done := done + 1;
    IF j.own IS NOT NULL AND j.due = tarry._wait_due() THEN
      b := tarry._batch_now(j.own); batched := true;
      IF b.closed OR b.close_by > now THEN
        UPDATE tarry.job SET expire = CASE WHEN b.wait_until > now THEN CASE WHEN b.closed THEN b.wait_until ELSE least(b.wait_until, b.close_by) END END
          WHERE topic = j.topic AND id = j.id;
        IF b.wait_until <= now THEN PERFORM tarry._add_to_batch(j.own, NULL, 2); END IF;
        CONTINUE;
      END IF;
      reason := 'batch was not closed'; j.due := now;
    END IF;
    IF (t.dead_letter_expired OR reason <> 'expired') AND t.name IS NOT NULL THEN
      j.state := 4; j.error := reason;
      UPDATE tarry.job SET state = 4, level = 70000, expire = NULL, error = j.error, due = j.due, tried = false WHERE topic = j.topic AND id = j.id;
      counts := tarry._counted(counts, j, 1); counts[14] := 1;
      IF j.batch IS NOT NULL THEN PERFORM tarry._add_to_batch(j.batch, tarry._moved(0, 2)); batched := true; END IF;
      IF reason = 'expired' THEN PERFORM tarry._note(t, j, 'expired', now, NULL, NULL); END IF;
      PERFORM tarry._note(t, j, 'died', now, NULL, NULL);
      PERFORM tarry._mark_ended(t.name, j.id, 4, now, NULL, j.attempt, NULL, NULL, NULL);
      IF t.extension <> '' THEN died := concat_ws(',', died, t.name); END IF;
    ELSE
      DELETE FROM tarry.job WHERE topic = j.topic AND id = j.id;
      PERFORM tarry._note(t, j, 'expired', now, NULL, NULL);
      IF j.batch IS NOT NULL THEN PERFORM tarry._add_to_batch(j.batch, tarry._moved(0, 4)); batched := true; END IF;
      IF j.own IS NOT NULL THEN PERFORM tarry._add_to_batch(j.own, NULL); batched := true; END IF;
      counts[9] := 1;
      IF t.name IS NOT NULL THEN counts := tarry._finish(t, j, 3, now, counts); END IF;
    END IF;
    IF t.topic IS NOT NULL THEN INSERT INTO tarry.tally_add VALUES (t.topic, counts); END IF; -- else its topic is gone
    IF p_events AND t.name IS NOT NULL THEN
      events := concat(events, CASE WHEN reason = 'expired' THEN tarry._event(10, t.name, j.id, j.attempt, due) END,
        CASE WHEN j.state = 4 THEN tarry._event(14, t.name, j.id, j.attempt, 0, replace(reason, ' ', '%20')) END);
    END IF;
  END LOOP;
  IF done = p_limit THEN next := now; RETURN; END IF;
  SELECT expire INTO next FROM tarry.job WHERE expire > now AND state = 1 ORDER BY expire LIMIT 1;
  IF EXISTS (SELECT FROM tarry.job WHERE expire <= now AND state = 1) THEN next := least(next, now + 100); END IF;
END $$;

-- Returns the timeline; a promotion begins another one. 0: not available here.
CREATE FUNCTION tarry._timeline() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
EXCEPTION WHEN OTHERS THEN RETURN 0;
END $$;

-- Continues the clock after a promotion, with the time of the first server that reports it.
CREATE FUNCTION tarry._keep_time(p_timeline bigint, p_known bigint, p_adjust bigint, OUT now bigint, OUT adjust bigint) LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tarry.store SET timeline = p_timeline, adjust_ms = p_adjust WHERE timeline = p_known;
  SELECT c.now, c.adjust INTO _keep_time.now, _keep_time.adjust FROM tarry._clock() c;
END $$;

-- Corrects the time after the database's clock was set. Changes nothing if another server was faster.
CREATE FUNCTION tarry._set_clock(p_known bigint, p_now bigint, OUT now bigint, OUT adjust bigint) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE tarry.store SET adjust_ms = p_now - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint WHERE adjust_ms = p_known;
  SELECT c.now, c.adjust INTO _set_clock.now, _set_clock.adjust FROM tarry._clock() c;
END $$;

-- Greets a new connection. A crash may lose numbers of deliveries whose commit was not synced, so numbers leap: no number is given
-- again.
CREATE FUNCTION tarry._hello(p_server bigint, OUT server bigint, OUT now bigint, OUT name text, OUT lease_key bytea, OUT timeline bigint,
  OUT known_timeline bigint, OUT adjust bigint) LANGUAGE plpgsql AS $$
BEGIN
  timeline := tarry._timeline();
  now := tarry.now_ms();
  PERFORM pg_advisory_lock(7827201, 3); -- so that no two read the same number and go on from there; a sequence knows no commit
  PERFORM setval('tarry.delivery', (SELECT last_value + 1000000 FROM tarry.delivery));
  PERFORM pg_advisory_unlock(7827201, 3);
  server := CASE WHEN p_server > 0 THEN p_server ELSE nextval('tarry.server_number') END;
  INSERT INTO tarry.server AS s VALUES (_hello.server, _hello.now) ON CONFLICT ON CONSTRAINT server_pkey DO UPDATE SET beat = _hello.now, listen_until = 0;
  INSERT INTO tarry.ticket VALUES (_hello.server, 0, _hello.now) ON CONFLICT DO NOTHING;
  SELECT s.name, s.lease_key, s.timeline, s.adjust_ms INTO _hello.name, _hello.lease_key, known_timeline, adjust FROM tarry.store s;
END $$;

CREATE FUNCTION tarry._goodbye(p_server bigint) RETURNS void LANGUAGE sql AS
$$ DELETE FROM tarry.awaited WHERE server = p_server; UPDATE tarry.server SET beat = 0, listen_until = 0 WHERE server = p_server $$;

-- The first statement of each transaction that changes something: so whether it was committed can be asked.
CREATE FUNCTION tarry._ticket(p_server bigint, p_number bigint, p_connection bigint, p_now bigint DEFAULT tarry.now_ms()) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE is_known boolean;
BEGIN
  UPDATE tarry.ticket SET number = p_number, at = p_now WHERE server = p_server AND number = p_number - 1 AND connection = p_connection
    RETURNING EXISTS (SELECT FROM tarry.server s WHERE s.server = p_server) INTO is_known;
  IF is_known IS NULL THEN RAISE EXCEPTION 'ticket % of server % is not the next one', p_number, p_server USING ERRCODE = 'TY001'; END IF;
  -- This server was taken for dead meanwhile: without its row no server would end the leases of this transaction.
  IF NOT is_known THEN INSERT INTO tarry.server VALUES (p_server, p_now) ON CONFLICT DO NOTHING; END IF;
  RETURN p_now;
END $$;

-- Leases of servers that are silent, or unknown, are this one's from now on: it ends them, and its own ones that it may have forgotten.
-- A silent server whose transaction is still under way holds its ticket: it is left for later.
CREATE FUNCTION tarry._adopt(p_server bigint)
RETURNS TABLE (topic int, level int, due bigint, seq bigint, delivery bigint, taken bigint, lease_until bigint) LANGUAGE plpgsql AS $$
DECLARE silent bigint[]; idle bigint[]; now bigint := tarry.now_ms();
BEGIN
  SELECT array_agg(s.server) INTO silent
    FROM (SELECT server FROM tarry.server WHERE beat < now - 10000 AND server <> p_server FOR UPDATE SKIP LOCKED) s;
  SELECT coalesce(array_agg(w.server), '{}') INTO idle FROM (SELECT k.server FROM tarry.ticket k WHERE k.server = ANY (silent) FOR UPDATE SKIP LOCKED) w;
  SELECT coalesce(array_agg(w), '{}') INTO silent FROM unnest(silent) w
    WHERE w = ANY (idle) OR NOT EXISTS (SELECT FROM tarry.ticket k WHERE k.server = w);
  -- OFFSET 0: level by level, so that each read is a range of the index that ends at now. A join may read the index by due alone, so all of it.
  RETURN QUERY SELECT x.topic, x.level, x.due, x.seq, x.delivery, x.taken, x.lease_until
    FROM tarry.level l, LATERAL (SELECT j.* FROM tarry.job j WHERE j.topic = l.topic AND j.level = l.level AND j.due <= now AND j.state = 3
      AND j.server = p_server OFFSET 0) x;
  RETURN QUERY UPDATE tarry.job j SET server = p_server
    FROM tarry.level l, LATERAL (SELECT y.topic, y.id FROM tarry.job y WHERE y.topic = l.topic AND y.level = l.level AND y.due <= now AND y.state = 3
      AND y.server <> p_server OFFSET 0) x
    WHERE j.topic = x.topic AND j.id = x.id AND j.state = 3 AND j.server <> p_server
      AND (j.server = ANY (silent) OR NOT EXISTS (SELECT FROM tarry.server s WHERE s.server = j.server))
    RETURNING j.topic, j.level, j.due, j.seq, j.delivery, j.taken, j.lease_until;
  WITH d AS (DELETE FROM tarry.tally y WHERE y.slot = ANY (silent) RETURNING y.topic, y.counts)
    INSERT INTO tarry.tally_add SELECT d.topic, d.counts FROM d;
  DELETE FROM tarry.server s WHERE s.server = ANY (silent);
END $$;

-- Deletes empty levels of topics that have several, a few per call. p_own is the transaction of the caller. It began after the lock of the
-- upkeep, so each transaction that found a level before it was marked has a lower number.
CREATE FUNCTION tarry._levels_tidy(p_own bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE l tarry.level; oldest bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
BEGIN
  FOR l IN SELECT * FROM tarry.level WHERE idle ORDER BY topic, level LIMIT 100 FOR UPDATE SKIP LOCKED LOOP
    IF l.after IS NULL THEN
      UPDATE tarry.level SET after = p_own WHERE topic = l.topic AND level = l.level AND idle;
    ELSIF l.after < oldest THEN
      DELETE FROM tarry.level d WHERE d.topic = l.topic AND d.level = l.level AND d.idle AND d.after = l.after
        AND NOT EXISTS (SELECT FROM tarry.job j WHERE j.topic = l.topic AND j.level = l.level);
      UPDATE tarry.level SET idle = false, after = NULL WHERE topic = l.topic AND level = l.level AND idle;
    END IF;
  END LOOP;
  -- Starts at a random level, so that each level is checked in the end.
  FOR l IN SELECT k.* FROM tarry.level k WHERE NOT k.idle AND (k.topic, k.level) >= (floor(random() * (SELECT max(topic) + 1 FROM tarry.level))::int, 0)
      ORDER BY k.topic, k.level LIMIT 50 FOR UPDATE SKIP LOCKED LOOP
    CONTINUE WHEN NOT EXISTS (SELECT FROM tarry.level o WHERE o.topic = l.topic AND o.level <> l.level); -- the only one stays
    UPDATE tarry.level SET idle = true WHERE topic = l.topic AND level = l.level
      AND NOT EXISTS (SELECT FROM tarry.job j WHERE j.topic = l.topic AND j.level = l.level);
  END LOOP;
END $$;

-- Removes kept jobs whose time has ended, a limited number per call. Returns whether more may be left.
CREATE FUNCTION tarry._end_kept(p_now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE most constant bigint := 5000; ended bigint;
BEGIN
  WITH o AS MATERIALIZED (
    SELECT f.topic, f.id, f.bytes, f.until FROM tarry.finished f WHERE f.kept <= p_now AND f.kept > 0 ORDER BY f.kept LIMIT most FOR UPDATE SKIP LOCKED
  ), d AS (
    DELETE FROM tarry.finished f USING o WHERE f.topic = o.topic AND f.id = o.id AND o.until <= p_now
  ), e AS (
    UPDATE tarry.finished f SET kept = 0, at = NULL, meta = NULL, error = NULL, history = NULL, progress = NULL, result_type = NULL, result = NULL, content_type = NULL, body = NULL
      FROM o WHERE f.topic = o.topic AND f.id = o.id AND o.until > p_now
  ), a AS (
    INSERT INTO tarry.tally_add SELECT o.topic, ARRAY[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -count(*), -sum(o.bytes)] FROM o GROUP BY o.topic
  ) SELECT count(*) INTO ended FROM o;
  RETURN ended = most;
END $$;

-- Drops the oldest kept jobs of topics that have too many, or whose kept jobs are too big: a limited number per call. Looks only at topics with kept jobs.
-- more: whether a topic is still above its limit.
CREATE FUNCTION tarry._limit_kept(OUT dropped_number bigint, OUT dropped_bytes bigint, OUT more boolean) LANGUAGE plpgsql AS $$
DECLARE w record; excess bigint; most constant bigint := 5000;
BEGIN
  dropped_number := 0; dropped_bytes := 0; more := false;
  FOR w IN
    WITH RECURSIVE k AS (
      (SELECT f.topic FROM tarry.finished f WHERE f.at IS NOT NULL ORDER BY f.topic, f.at, f.seq LIMIT 1)
      UNION ALL SELECT (SELECT f.topic FROM tarry.finished f WHERE f.at IS NOT NULL AND f.topic > k.topic ORDER BY f.topic, f.at, f.seq LIMIT 1) FROM k WHERE k.topic IS NOT NULL
    ) SELECT t.topic, coalesce(nullif(t.keep_finished_max, 0), 1000000) AS number_max, coalesce(nullif(t.keep_finished_bytes, 0), 1073741824) AS bytes_max,
        c.number, c.bytes FROM k JOIN tarry.topic t ON t.topic = k.topic AND t.name IS NOT NULL,
        LATERAL (SELECT sum(y.counts[16])::bigint AS number, sum(y.counts[17])::bigint AS bytes FROM (SELECT counts FROM tarry.tally WHERE topic = k.topic
          UNION ALL SELECT counts FROM tarry.tally_add WHERE topic = k.topic) y) c
  LOOP
    excess := least(w.number - w.number_max, most);
    IF excess > 0 THEN
      dropped_number := dropped_number + tarry._drop_kept(w.topic, excess);
    ELSIF w.bytes > w.bytes_max THEN
      SELECT count(*) INTO excess FROM (SELECT sum(f.bytes) OVER (ORDER BY f.at, f.seq) - f.bytes AS before FROM (SELECT * FROM tarry.finished o
        WHERE o.topic = w.topic AND o.at IS NOT NULL ORDER BY o.at, o.seq LIMIT most) f) x WHERE x.before < w.bytes - w.bytes_max;
      dropped_bytes := dropped_bytes + tarry._drop_kept(w.topic, excess);
    END IF;
    more := more OR excess = most;
  END LOOP;
END $$;

-- Renews the statistics of tables that have grown much since they were made, so that each session plans its statements again: a plan that was made for
-- an almost empty table may read all of a backlog. The autovacuum does the same, up to a minute later. Only the owner may do so.
CREATE FUNCTION tarry._measure() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE name text;
BEGIN
  FOR name IN SELECT c.oid::regclass FROM pg_class c WHERE c.oid = ANY ('{tarry.job, tarry.finished, tarry.grp, tarry.batch}'::regclass[])
      AND CASE WHEN c.reltuples < 10000 AND pg_relation_size(c.oid) > 500000 THEN pg_stat_get_live_tuples(c.oid) > 8 * greatest(c.reltuples, 250) END LOOP
    EXECUTE 'ANALYZE (SKIP_LOCKED) ' || name;
  END LOOP;
END $$;

-- A part of the upkeep, numbered from 1 without a gap. False: there is no such part.
CREATE FUNCTION tarry._chore(p_part int, p_own bigint, p_fresh boolean, p_now bigint, p_oldest xid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE gone int; removed bigint;
BEGIN
  IF p_part = 1 THEN
    DELETE FROM tarry.finished f USING (SELECT topic, id FROM tarry.finished WHERE until <= p_now AND until > 0 AND kept + 0 = 0 ORDER BY until LIMIT 1000 FOR UPDATE SKIP LOCKED) o
      WHERE f.topic = o.topic AND f.id = o.id;
    UPDATE tarry.finished f SET until = 0 FROM (SELECT topic, id FROM tarry.finished WHERE until <= p_now AND until > 0 AND kept + 0 > 0 ORDER BY until LIMIT 1000
      FOR UPDATE SKIP LOCKED) o WHERE f.topic = o.topic AND f.id = o.id;
  ELSIF p_part = 2 THEN
    WITH d AS (
      DELETE FROM tarry.tally_add WHERE ctid = ANY (ARRAY(SELECT ctid FROM tarry.tally_add LIMIT 10000 FOR UPDATE SKIP LOCKED)) RETURNING topic, counts c
    ) SELECT count(tarry._tally(x.topic, 0, x.counts)) FROM (SELECT topic, ARRAY[sum(c[1]), sum(c[2]), sum(c[3]), sum(c[4]), sum(c[5]), sum(c[6]),
        sum(c[7]), sum(c[8]), sum(c[9]), sum(c[10]), sum(c[11]), sum(c[12]), sum(c[13]), sum(c[14]), sum(c[15]), sum(c[16]), sum(c[17])]::bigint[] AS counts
      FROM d GROUP BY topic) x INTO gone;
  ELSIF p_part = 3 THEN
    -- A push that was in progress when its topic was deleted may still leave a job: the number stays for a minute, and until all
    -- transactions that had begun to write before the deletion (xmin, of the row that it wrote) have ended.
    FOR gone IN SELECT t.topic FROM tarry.topic t WHERE t.name IS NULL
        AND (t.paused_until < p_now - 60000 OR (SELECT true FROM tarry.job j WHERE j.topic = t.topic LIMIT 1) IS NOT NULL) LIMIT 10 LOOP
      WITH d AS (
        DELETE FROM tarry.job j USING (SELECT topic, id FROM tarry.job WHERE topic = gone LIMIT 1000 FOR UPDATE SKIP LOCKED) o
          WHERE j.topic = o.topic AND j.id = o.id RETURNING j.batch
      ), m AS ( -- of pushes that were in progress when the topic was deleted
        INSERT INTO tarry.batch_add (batch, unfinished, cancelled) SELECT d.batch, -1, 1 FROM d WHERE d.batch IS NOT NULL
      ) SELECT count(*) INTO removed FROM d;
      CONTINUE WHEN removed > 0;
      DELETE FROM tarry.finished f USING (SELECT topic, id FROM tarry.finished WHERE topic = gone LIMIT 1000 FOR UPDATE SKIP LOCKED) o
        WHERE f.topic = o.topic AND f.id = o.id;
      CONTINUE WHEN FOUND;
      DELETE FROM tarry.tally WHERE topic = gone;
      DELETE FROM tarry.tally_add WHERE topic = gone;
      DELETE FROM tarry.level WHERE topic = gone;
      DELETE FROM tarry.grp WHERE topic = gone;
      DELETE FROM tarry.grp_note WHERE topic = gone;
      DELETE FROM tarry.topic WHERE topic = gone AND paused_until < p_now - 60000 AND age(xmin) > age(p_oldest)
        AND NOT EXISTS (SELECT FROM tarry.job j WHERE j.topic = gone);
    END LOOP;
  ELSIF p_part = 4 THEN
    IF p_fresh THEN PERFORM tarry._levels_tidy(p_own); END IF;
  ELSIF p_part = 5 THEN
    IF random() < 0.02 THEN PERFORM tarry._history_days(); END IF;
  ELSIF p_part = 6 THEN
    DELETE FROM tarry.ticket k WHERE k.at < p_now - 86400000 AND NOT EXISTS (SELECT FROM tarry.server s WHERE s.server = k.server);
  ELSIF p_part = 7 THEN
    DELETE FROM tarry.awaited w USING (SELECT k.topic, k.id, k.server FROM tarry.awaited k WHERE NOT EXISTS (SELECT FROM tarry.server s WHERE s.server = k.server)
      FOR UPDATE SKIP LOCKED) o WHERE w.topic = o.topic AND w.id = o.id AND w.server = o.server;
  ELSIF p_part = 8 THEN
    PERFORM tarry._flow_tidy(p_own, p_fresh, p_now);
  ELSIF p_part = 9 THEN
    PERFORM tarry._measure();
  ELSE
    RETURN false;
  END IF;
  RETURN true;
END $$;

-- Runs once a second for each server: marks it alive and removes leftovers. others: how many other servers live; silent: how many do not.
-- mark: the last number of waiting jobs, if no open transaction may have taken one; else 0. A transaction with such a number had its own number
-- before; this one gets its number afterwards, so theirs are below it.
-- others_listen: whether a client listens to events at another server; 3000: for so long that is assumed, SQL_AUDIENCE_MS of the servers.
CREATE FUNCTION tarry._upkeep(p_server bigint, p_listens boolean, p_earliest bigint, p_latest bigint, p_health boolean, OUT others bigint, OUT silent bigint, OUT next_expire bigint, OUT mark bigint, OUT clock bigint,
  OUT others_listen boolean, OUT failed text, OUT adjust bigint, OUT dropped_number bigint, OUT dropped_bytes bigint, OUT more boolean, OUT oldest_ms bigint, OUT dead_rows bigint)
LANGUAGE plpgsql AS $$
DECLARE now bigint; part int := 0; fresh boolean := pg_current_xact_id_if_assigned() IS NULL; own bigint; locked boolean; listened bigint;
  oldest xid := pg_snapshot_xmin(pg_current_snapshot())::xid; above boolean;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  locked := pg_try_advisory_xact_lock(7827201, 2); -- else another server is at it
  SELECT last_value + is_called::int INTO mark FROM tarry.sequence;
  own := pg_current_xact_id()::text::bigint;
  IF NOT fresh OR pg_snapshot_xmin(pg_current_snapshot())::text::bigint < own THEN mark := 0; END IF;
  SELECT c.now, c.adjust INTO clock, adjust FROM tarry._clock() c;
  now := greatest(p_earliest, least(p_latest, clock));
  SELECT s.listen_until INTO listened FROM tarry.server s WHERE s.server = p_server;
  INSERT INTO tarry.server AS s VALUES (p_server, now, CASE WHEN p_listens THEN now + 3000 ELSE 0 END)
    ON CONFLICT (server) DO UPDATE SET beat = excluded.beat, listen_until = excluded.listen_until;
  IF p_listens AND coalesce(listened, 0) = 0 THEN
    LISTEN tarry_events;
    PERFORM pg_notify('tarry', 'h * 0');
  ELSIF NOT p_listens AND listened > 0 THEN
    UNLISTEN tarry_events;
  END IF;
  SELECT count(*) FILTER (WHERE beat >= now - 10000), count(*) FILTER (WHERE beat < now - 10000), coalesce(bool_or(listen_until > now), false)
    INTO others, silent, others_listen FROM tarry.server WHERE server <> p_server;
  SELECT expire INTO next_expire FROM tarry.job WHERE expire IS NOT NULL AND state = 1 ORDER BY expire LIMIT 1;
  IF EXISTS (SELECT FROM tarry.batch_add) THEN next_expire := now; END IF;
  IF p_health THEN -- what keeps vacuum from cleaning up; sessions of other accounts show their times to pg_read_all_stats only
    SELECT coalesce(1000 * extract(epoch FROM clock_timestamp() - min(x.begun)), 0)::bigint INTO oldest_ms
      FROM (SELECT a.xact_start AS begun FROM pg_stat_activity a WHERE a.datname = current_database() AND a.backend_type <> 'autovacuum worker'
          AND a.pid <> pg_backend_pid() AND (a.backend_xid IS NOT NULL OR a.backend_xmin IS NOT NULL)
        UNION ALL SELECT p.prepared FROM pg_prepared_xacts p WHERE p.database = current_database()) x;
    SELECT coalesce(sum(pg_stat_get_dead_tuples(c.oid)), 0)::bigint INTO dead_rows FROM pg_class c WHERE c.relnamespace = 'tarry'::regnamespace AND c.relkind = 'r';
  END IF;
  IF NOT locked THEN RETURN; END IF;
  -- Each part by itself: one that fails undoes neither the beat nor the other parts, and is reported.
  LOOP
    part := part + 1;
    BEGIN
      EXIT WHEN NOT tarry._chore(part, own, fresh, now, oldest);
    EXCEPTION WHEN OTHERS THEN failed := format('part %s: %s', part, SQLERRM);
    END;
  END LOOP;
  BEGIN
    more := tarry._end_kept(now);
  EXCEPTION WHEN OTHERS THEN failed := format('the end of kept jobs: %s', SQLERRM);
  END;
  BEGIN
    SELECT l.dropped_number, l.dropped_bytes, l.more INTO dropped_number, dropped_bytes, above FROM tarry._limit_kept() l;
    more := more OR above;
  EXCEPTION WHEN OTHERS THEN failed := format('limits of kept jobs: %s', SQLERRM);
  END;
END $$;

-- Notifies when a user's transaction that made jobs due commits, however long it was open, if they are due within the servers'
-- look ahead.
CREATE FUNCTION tarry._notify() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.due < tarry.now_ms() + 1500 THEN
    PERFORM pg_notify('tarry', 'r ' || t.name || ' ' || NEW.due / 1000 * 1000) FROM tarry.topic t WHERE t.topic = NEW.topic AND t.name IS NOT NULL;
  END IF;
  RETURN NULL;
END $$;
-- Notes the end of a lease and a job that waits, of all changes that move a job. Takes, extensions and acks do not set its due.
CREATE FUNCTION tarry._note_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF OLD.state = 3 AND NEW.state <> 3 THEN PERFORM tarry._free(OLD); END IF;
  IF NEW.state = 1 AND NEW.grp IS NOT NULL THEN INSERT INTO tarry.grp_note VALUES (NEW.topic, NEW.grp, 0, NEW.due, NULL, NEW.seq); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER note_move AFTER UPDATE OF due ON tarry.job
  FOR EACH ROW WHEN (NEW.grp IS NOT NULL OR OLD.slot > 0) EXECUTE FUNCTION tarry._note_move();

CREATE CONSTRAINT TRIGGER notify AFTER INSERT OR UPDATE OF due ON tarry.job DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW WHEN (NEW.by_sql) EXECUTE FUNCTION tarry._notify();

-- ---- looking over it ----

-- Lists faults, from one snapshot (servers may be at work); p_mend: corrects counts and levels, and changes nothing else.
CREATE FUNCTION tarry._fsck(p_mend boolean) RETURNS TABLE (finding text, jobs bigint, mended boolean) LANGUAGE plpgsql AS $$
DECLARE w record;
BEGIN
  FOR w IN
    SELECT coalesce(t.name, '?') AS name, c.topic, c.is_known, c.diff FROM (
      SELECT coalesce(a.topic, b.topic) AS topic, true AS is_known,
          ARRAY(SELECT coalesce(a.counts[i], 0) - coalesce(b.counts[i], 0) FROM generate_series(1, 5) i)::bigint[] AS diff
        FROM (SELECT j.topic, ARRAY[count(*) FILTER (WHERE j.state = 1 AND j.attempt = 0), count(*) FILTER (WHERE j.state = 1 AND j.attempt > 0),
            count(*) FILTER (WHERE j.state = 3), count(*) FILTER (WHERE j.state = 4),
            coalesce(sum(tarry._bytes(j)) FILTER (WHERE j.state = 4), 0)]::bigint[] AS counts FROM tarry.job j GROUP BY j.topic) a
        FULL JOIN (SELECT y.topic, ARRAY[sum(y.counts[1]), sum(y.counts[2]), sum(y.counts[3]), sum(y.counts[4]), sum(y.counts[5])]::bigint[] AS counts
          FROM (SELECT topic, counts FROM tarry.tally UNION ALL SELECT topic, counts FROM tarry.tally_add) y GROUP BY y.topic) b ON a.topic = b.topic
    ) c JOIN tarry.topic t ON t.topic = c.topic AND t.name IS NOT NULL WHERE c.diff <> '{0,0,0,0,0}' ORDER BY 1
  LOOP
    finding := format('topic %s: its counts of waiting, retrying, leased and dead jobs and of dead bytes differ by %s', quote_literal(w.name), w.diff);
    jobs := (SELECT sum(abs(d)) FROM unnest(w.diff[1:4]) d); mended := p_mend;
    IF p_mend THEN INSERT INTO tarry.tally_add VALUES (w.topic, w.diff || '{0,0,0,0,0,0,0,0,0,0,0,0}'::bigint[]); END IF;
    RETURN NEXT;
  END LOOP;
  FOR w IN SELECT t.name, j.topic, j.level, count(*) AS n FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT NULL
      WHERE j.level <> 70000 AND NOT EXISTS (SELECT FROM tarry.level l WHERE l.topic = j.topic AND l.level = j.level) GROUP BY 1, 2, 3 ORDER BY 1, 3 LOOP
    finding := format('topic %s: its priority %s is not listed, so its jobs are never taken', quote_literal(w.name), w.level);
    jobs := w.n; mended := p_mend;
    IF p_mend THEN PERFORM tarry._level(w.topic, w.level); PERFORM tarry._number(); END IF;
    RETURN NEXT;
  END LOOP;
  FOR w IN SELECT t.name, c.topic, c.grp, c.label, c.diff FROM (
      SELECT k.topic, k.grp, k.name AS label, (SELECT count(*) FROM tarry.job j WHERE j.topic = k.topic AND j.state = 3
            AND CASE WHEN k.grp = -1 THEN j.slot & 2 > 0 ELSE j.slot & 1 > 0 AND coalesce(j.grp, 0) = k.grp END)
          - k.in_flight + coalesce((SELECT sum(n.freed) FROM tarry.grp_note n WHERE n.topic = k.topic AND n.grp = k.grp), 0) AS diff FROM tarry.grp k) c
      JOIN tarry.topic t ON t.topic = c.topic AND t.name IS NOT NULL WHERE c.diff <> 0 ORDER BY 1, 4 LOOP
    finding := format('topic %s: the number of leases of %s differs by %s', quote_literal(w.name), CASE WHEN w.grp = -1 THEN 'the topic'
      ELSE 'group ' || quote_literal(w.label) END, w.diff);
    jobs := abs(w.diff); mended := p_mend;
    IF p_mend THEN INSERT INTO tarry.grp_note VALUES (w.topic, w.grp, -w.diff); PERFORM tarry._number(); END IF;
    RETURN NEXT;
  END LOOP;
  FOR w IN SELECT t.name, t.topic, count(*) AS n FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT NULL AND t.group_order > 0
      WHERE j.state = 1 AND j.tried <> (j.attempt > 0) GROUP BY 1, 2 ORDER BY 1 LOOP
    finding := format('topic %s: jobs are not marked as tried, or without an attempt, so the order of their groups is wrong', quote_literal(w.name));
    jobs := w.n; mended := p_mend;
    IF p_mend THEN
      WITH u AS (UPDATE tarry.job SET tried = attempt > 0 WHERE topic = w.topic AND state = 1 AND tried <> (attempt > 0) RETURNING grp)
        INSERT INTO tarry.grp_note SELECT DISTINCT w.topic, u.grp, 0, 0, NULL::bigint, 0 FROM u;
      PERFORM tarry._number();
    END IF;
    RETURN NEXT;
  END LOOP;
  FOR w IN SELECT t.name, c.topic, c.number, c.bytes FROM (
      SELECT coalesce(a.topic, b.topic) AS topic, coalesce(a.number, 0) - coalesce(b.number, 0) AS number, coalesce(a.bytes, 0) - coalesce(b.bytes, 0) AS bytes
        FROM (SELECT f.topic, count(*) AS number, sum(f.bytes)::bigint AS bytes FROM tarry.finished f WHERE f.kept > 0 GROUP BY f.topic) a
        FULL JOIN (SELECT y.topic, sum(y.counts[16])::bigint AS number, sum(y.counts[17])::bigint AS bytes
          FROM (SELECT topic, counts FROM tarry.tally UNION ALL SELECT topic, counts FROM tarry.tally_add) y GROUP BY y.topic) b ON a.topic = b.topic) c
      JOIN tarry.topic t ON t.topic = c.topic AND t.name IS NOT NULL WHERE c.number <> 0 OR c.bytes <> 0 ORDER BY 1 LOOP
    finding := format('topic %s: its counts of kept finished jobs and of their bytes differ by %s and %s', quote_literal(w.name), w.number, w.bytes);
    jobs := abs(w.number); mended := p_mend;
    IF p_mend THEN INSERT INTO tarry.tally_add VALUES (w.topic, ARRAY[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, w.number, w.bytes]); END IF;
    RETURN NEXT;
  END LOOP;
  FOR w IN SELECT t.name, count(*) AS n FROM tarry.finished f JOIN tarry.job j ON j.topic = f.topic AND j.id = f.id JOIN tarry.topic t ON t.topic = f.topic
      AND t.name IS NOT NULL WHERE f.kept > 0 GROUP BY 1 ORDER BY 1 LOOP
    finding := format('topic %s: ids of finished jobs that are kept have a job again', quote_literal(w.name)); jobs := w.n; mended := p_mend;
    IF p_mend THEN
      WITH d AS (DELETE FROM tarry.finished f USING tarry.job j WHERE f.kept > 0 AND j.topic = f.topic AND j.id = f.id RETURNING f.topic, f.bytes)
        INSERT INTO tarry.tally_add SELECT d.topic, ARRAY[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -count(*), -sum(d.bytes)] FROM d GROUP BY d.topic;
    END IF;
    RETURN NEXT;
  END LOOP;
  FOR w IN SELECT c.* FROM (
      SELECT b.batch, t.name, b.id, (SELECT count(*) FROM tarry.job j WHERE j.batch = b.batch AND j.state <> 4) - b.unfinished AS unfinished,
          (SELECT count(*) FROM tarry.job j WHERE j.batch = b.batch AND j.state = 4) - b.dead AS dead,
          EXISTS (SELECT FROM tarry.job j WHERE j.topic = b.topic AND j.id = b.id AND j.own = b.batch) AS is_known
        FROM tarry.batch x JOIN tarry.topic t ON t.topic = x.topic AND t.name IS NOT NULL, LATERAL tarry._batch_now(x.batch) b WHERE NOT x.ended) c
      WHERE c.unfinished <> 0 OR (c.dead <> 0 AND c.is_known) OR NOT c.is_known ORDER BY c.name, c.id LOOP
    finding := format('topic %s: the members of the batch of %s that have not ended and those that are dead differ by %s and %s', quote_literal(w.name),
      quote_literal(w.id), w.unfinished, w.dead);
    jobs := abs(w.unfinished) + abs(w.dead); mended := p_mend;
    IF p_mend THEN INSERT INTO tarry.batch_add (batch, unfinished, dead) VALUES (w.batch, w.unfinished, w.dead); PERFORM tarry._number(); END IF;
    RETURN NEXT;
  END LOOP;
  mended := false;
  FOR w IN SELECT t.name, count(*) AS n FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT NULL
      WHERE j.state NOT IN (1, 3, 4) OR (j.state = 4) <> (j.level = 70000) OR (j.state <> 4 AND j.level <> j.priority)
        OR (j.state = 3 AND (j.delivery = 0 OR j.lease_until = 0)) GROUP BY 1 ORDER BY 1 LOOP
    finding := format('topic %s: the state of jobs does not match their level', quote_literal(w.name));
    jobs := w.n; RETURN NEXT;
  END LOOP;
  IF NOT EXISTS (SELECT FROM tarry.tokens) THEN
    finding := 'the row of the tokens is missing: a new one is empty'; jobs := 0; mended := p_mend;
    IF p_mend THEN INSERT INTO tarry.tokens (version, text) VALUES (gen_random_uuid()::text, ''); END IF;
    RETURN NEXT; mended := false;
  END IF;
  FOR w IN SELECT t.name, count(*) AS n FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic AND t.name IS NOT NULL
      WHERE j.id ~ '[^!-~]' OR octet_length(j.body) > 16777216 OR octet_length(j.content_type) > 128
        OR encode(j.content_type, 'hex') ~ '^(..)*([01].|7f|[89a-f].)' OR octet_length(j.meta) > 4096
        OR octet_length(j.error) > 256 OR j.priority NOT BETWEEN 0 AND 65535 OR j.due NOT BETWEEN 0 AND 253402300799999
        OR (j.first_due NOT BETWEEN 0 AND 253402300799999 AND j.own IS NULL) GROUP BY 1 ORDER BY 1 LOOP
    finding := format('topic %s: rows break the rules of a push, so their jobs are not delivered: correct or delete them', quote_literal(w.name));
    jobs := w.n; RETURN NEXT;
  END LOOP;
  FOR w IN SELECT count(*) AS n FROM tarry.job j WHERE NOT EXISTS (SELECT FROM tarry.topic t WHERE t.topic = j.topic) HAVING count(*) > 0 LOOP
    finding := 'jobs of topics that do not exist'; jobs := w.n; RETURN NEXT;
  END LOOP;
  FOR w IN SELECT count(*) AS n FROM tarry.job j WHERE j.state = 3 AND j.lease_until < tarry.now_ms() - 60000 HAVING count(*) > 0 LOOP
    finding := 'leases ended more than a minute ago: no server is running, or all of them are too slow'; jobs := w.n; RETURN NEXT;
  END LOOP;
END $$;

-- ---- for users, in their own transactions ----

-- These run as the owner of the schema. A temporary object of the caller's must never be taken for one of PostgreSQL's: what is not
-- of tarry is looked up in pg_catalog, and in pg_temp, which would be the first where it is not named, last.

CREATE FUNCTION tarry._may(p_topic text) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE caller name := tarry._caller();
BEGIN
  IF pg_has_role(caller, (SELECT relowner FROM pg_catalog.pg_class WHERE oid = 'tarry.job'::pg_catalog.regclass), 'member') THEN RETURN; END IF;
  PERFORM FROM tarry.rights r JOIN pg_catalog.pg_roles o ON o.rolname = r.role WHERE pg_has_role(caller, o.oid, 'member') AND
    (r.pattern = p_topic OR (right(r.pattern, 1) = '*' AND starts_with(p_topic, left(r.pattern, -1))));
  IF NOT FOUND THEN
    RAISE EXCEPTION 'role % may not use topic ''%''', caller, p_topic USING ERRCODE = '42501', HINT = 'insert it into tarry.rights (role, pattern)';
  END IF;
END $$;

-- The due of a call: NULL and NULL: now.
CREATE FUNCTION tarry._when(p_delay interval, p_at timestamptz, OUT kind int, OUT ms bigint) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF p_delay IS NOT NULL AND p_at IS NOT NULL THEN RAISE EXCEPTION 'both delay and at are given' USING ERRCODE = '22023', HINT = 'give one'; END IF;
  IF NOT isfinite(p_at) THEN RAISE EXCEPTION 'at is infinite' USING ERRCODE = '22023', HINT = 'give a date within 10 years'; END IF;
  kind := CASE WHEN p_delay IS NOT NULL THEN 2 WHEN p_at IS NOT NULL THEN 3 ELSE 1 END;
  ms := coalesce(CASE kind WHEN 2 THEN ceil(extract(epoch FROM p_delay) * 1000) WHEN 3 THEN ceil(extract(epoch FROM p_at) * 1000)
    + (SELECT adjust_ms FROM tarry.store) END, 0);
  IF kind = 2 AND (ms < 0 OR ms > 315619200000) THEN RAISE EXCEPTION 'delay % is not between 0 and 10 years', p_delay USING ERRCODE = '22023'; END IF;
END $$;

CREATE FUNCTION tarry._word(r tarry._did) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF r.status = 'bad_at' THEN RAISE EXCEPTION 'at is more than 10 years away' USING ERRCODE = '22023'; END IF;
  IF r.status = 'topic_full' THEN RAISE EXCEPTION 'the topic has as many jobs as its max_jobs allows' USING ERRCODE = '53400'; END IF;
  IF r.status = 'no_batch' THEN RAISE EXCEPTION 'no job of this topic and id waits for members' USING ERRCODE = '22023', HINT = 'push it first, with waits => true'; END IF;
  IF r.status = 'batch_closed' THEN RAISE EXCEPTION 'the batch is closed' USING ERRCODE = '55000', HINT = 'push its members before tarry.close'; END IF;
  IF r.status = 'too_many_members' THEN RAISE EXCEPTION 'the batch has 1,000,000 members' USING ERRCODE = '53400'; END IF;
  IF r.status = 'too_many_batches' THEN RAISE EXCEPTION '100,000 jobs wait for members' USING ERRCODE = '53400'; END IF;
  IF r.status = 'too_deep' THEN RAISE EXCEPTION 'members that wait for members have more than 16 levels' USING ERRCODE = '22023'; END IF;
  IF r.status = 'group_full' THEN RAISE EXCEPTION 'the group has as many jobs as its max_jobs allows' USING ERRCODE = '53400'; END IF;
  RETURN r.status;
END $$;

-- Publishes the changes of a user's transaction with its commit, if the user asked for that and a client listens.
CREATE FUNCTION tarry._publish_event(p_kind int, p_topic text, p_id text, r tarry._did) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('tarry.events', true) = 'on' AND EXISTS (SELECT FROM tarry.server WHERE listen_until > tarry.now_ms()) THEN
    PERFORM pg_notify('tarry_events', format(E'%s 0\n', tarry.now_ms())
      || tarry._event(p_kind, p_topic, p_id, coalesce(r.attempt, 0), coalesce(r.due, r.was_due, 0)));
  END IF;
END $$;

-- Changes a job for a user. A change that had to wait for another transaction, such as a take, and then finds nothing to change,
-- would keep the lock that it waited for, and hold up the job's consumer, until that transaction ends: its block gives the lock back.
-- A job without a holder is changed without a block: a transaction with many blocks that write is slow for all of PostgreSQL.
CREATE FUNCTION tarry._user_change(p_verb int, p_topic text, p_id text, p_kind int, p_ms bigint, p_priority int, p_request boolean DEFAULT false) RETURNS tarry._did LANGUAGE plpgsql AS $$
DECLARE r tarry._did;
BEGIN
  PERFORM FROM tarry.topic t JOIN tarry.job j ON j.topic = t.topic WHERE t.name = p_topic AND j.id = p_id
    AND (j.state = 1 OR (j.state = 4 AND p_verb = 1)) FOR UPDATE OF j SKIP LOCKED;
  IF FOUND THEN RETURN tarry._change(p_verb, p_topic, p_id, p_kind, p_ms, p_priority, false, 0, false, true); END IF;
  BEGIN
    r := tarry._change(p_verb, p_topic, p_id, p_kind, p_ms, p_priority, false, 0, p_request, true);
    IF r.status NOT IN ('ok', 'cancelled', 'requested') AND r.was_due IS NULL THEN RAISE EXCEPTION USING ERRCODE = 'TY002'; END IF;
  EXCEPTION WHEN SQLSTATE 'TY002' THEN NULL;
  END;
  RETURN r;
END $$;

CREATE FUNCTION tarry._user_span(p_name text, p_span interval, p_default bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE ms bigint := coalesce(ceil(extract(epoch FROM p_span) * 1000), p_default);
BEGIN
  IF ms NOT BETWEEN 1 AND 315619200000 THEN RAISE EXCEPTION '% % is not between 1 ms and 10 years', p_name, p_span USING ERRCODE = '22023'; END IF;
  RETURN ms;
END $$;

-- The batches of a user's push, as tarry._push takes them.
CREATE FUNCTION tarry._user_batch(batch_topic text, batch_id text, waits boolean, members int, wait_at_most interval, close_within interval, on_dead text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE effect int := coalesce(array_position(ARRAY['go', 'hold', 'stop'], coalesce(on_dead, 'go')), 0);
BEGIN
  IF (batch_topic IS NULL) <> (batch_id IS NULL) THEN RAISE EXCEPTION 'batch_topic and batch_id belong together' USING ERRCODE = '22023'; END IF;
  IF batch_topic ~ '[^!-~]' OR batch_id ~ '[^!-~]' OR batch_topic = '' OR batch_id = '' THEN
    RAISE EXCEPTION 'bad batch ''%'' ''%''', batch_topic, batch_id USING ERRCODE = '22023';
  END IF;
  IF NOT coalesce(waits, false) THEN
    IF members IS NOT NULL OR wait_at_most IS NOT NULL OR close_within IS NOT NULL OR on_dead IS NOT NULL THEN
      RAISE EXCEPTION 'the job does not wait' USING ERRCODE = '22023', HINT = 'give waits => true with members, wait_at_most, close_within and on_dead';
    END IF;
    IF batch_topic IS NULL THEN RETURN ''; END IF;
    PERFORM tarry._may(batch_topic);
    RETURN batch_topic || ' ' || batch_id || '  0';
  END IF;
  IF batch_topic IS NOT NULL THEN PERFORM tarry._may(batch_topic); END IF;
  IF effect = 0 THEN RAISE EXCEPTION 'bad on_dead ''%''', on_dead USING ERRCODE = '22023', HINT = 'write go, hold or stop'; END IF;
  IF members NOT BETWEEN 1 AND 1000000 THEN RAISE EXCEPTION 'members % is not between 1 and 1000000', members USING ERRCODE = '22023'; END IF;
  RETURN format('%s %s  1 %s %s %s %s 0 0 0 0', coalesce(batch_topic, ''), coalesce(batch_id, ''), effect, coalesce(members, 0),
    tarry._user_span('wait_at_most', wait_at_most, 604800000), tarry._user_span('close_within', close_within, 3600000));
END $$;

CREATE FUNCTION tarry._user_push(topic text, id text, delay interval, body bytea, at timestamptz,
  content_type text, priority int, on_conflict text, once text, once_for interval, keep_finished interval, "group" text, batch_topic text, batch_id text,
  waits boolean, members int, wait_at_most interval, close_within interval, on_dead text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE batch text := tarry._user_batch(batch_topic, batch_id, waits, members, wait_at_most, close_within, on_dead); kind int; ms bigint; keep bigint := ceil(extract(epoch FROM keep_finished) * 1000); once_ms bigint := ceil(extract(epoch FROM coalesce(once_for, '5 minutes')) * 1000); how int := array_position(ARRAY['replace', 'keep', 'reject', 'after'], on_conflict); r tarry._did;
BEGIN
  IF topic IS NULL OR octet_length(topic) > 200 OR topic !~ '^[A-Za-z0-9_+/;$()-][A-Za-z0-9._+/;$()-]*$' THEN RAISE EXCEPTION 'bad topic ''%''', topic USING ERRCODE = '22023'; END IF;
  IF id IS NULL OR octet_length(id) NOT BETWEEN 1 AND 128 OR id ~ '[^!-~]' OR id IN ('.', '..') THEN RAISE EXCEPTION 'bad id ''%''', id USING ERRCODE = '22023'; END IF;
  IF body IS NULL OR octet_length(body) > 1048576 THEN RAISE EXCEPTION 'body is missing or above 1 MiB' USING ERRCODE = '22023'; END IF;
  IF priority NOT BETWEEN 0 AND 65535 THEN RAISE EXCEPTION 'priority % is not between 0 and 65535', priority USING ERRCODE = '22023'; END IF;
  IF on_conflict IS NOT NULL AND how IS NULL THEN
    RAISE EXCEPTION 'bad on_conflict ''%''', on_conflict USING ERRCODE = '22023', HINT = 'write replace, keep, reject or after';
  END IF;
  IF octet_length(content_type) > 128 OR content_type !~ '^[ -~]*$' THEN RAISE EXCEPTION 'bad content_type' USING ERRCODE = '22023'; END IF;
  IF octet_length(once) NOT BETWEEN 1 AND 128 OR once ~ '[^!-~]' THEN RAISE EXCEPTION 'bad once ''%''', once USING ERRCODE = '22023'; END IF;
  IF once IS NULL AND once_for IS NOT NULL THEN RAISE EXCEPTION 'once is missing' USING ERRCODE = '22023', HINT = 'give once with once_for'; END IF;
  IF once_ms NOT BETWEEN 1 AND 315619200000 THEN RAISE EXCEPTION 'once_for % is not between 1 ms and 10 years', once_for USING ERRCODE = '22023'; END IF;
  IF octet_length("group") NOT BETWEEN 1 AND 64 OR "group" ~ '[^!-~]' THEN RAISE EXCEPTION 'bad group ''%''', "group" USING ERRCODE = '22023'; END IF;
  IF keep NOT BETWEEN 0 AND 315619200000 THEN RAISE EXCEPTION 'keep_finished % is not between 0 and 10 years', keep_finished USING ERRCODE = '22023'; END IF;
  PERFORM tarry._may(topic);
  SELECT w.kind, w.ms INTO kind, ms FROM tarry._when(delay, at) w;
  IF once IS NOT NULL THEN
    r := tarry._push_once(topic, id, kind, ms, coalesce(priority, -1), coalesce(how, 0), 0, 0, 0, 0, 0, 0,
      convert_to(coalesce(content_type, ''), 'UTF8'), '', body, 0, false, '', 0, true, once, once_ms, keep, NULL, coalesce("group", ''), batch);
  ELSE
    r := tarry._push(topic, id, kind, ms, coalesce(priority, -1), coalesce(how, 0), 0, 0, 0, 0, 0, 0,
      convert_to(coalesce(content_type, ''), 'UTF8'), '', body, 0, false, '', 0, true, NULL, keep, NULL, coalesce("group", ''), batch);
  END IF;
  IF r.status IN ('created', 'replaced') AND r.state <> 3 THEN PERFORM tarry._publish_event(CASE r.status WHEN 'created' THEN 1 ELSE 2 END, topic, id, r); END IF;
  RETURN tarry._word(r);
END $$;

-- The forms of a push. A literal without a type, and a parameter whose type a driver leaves open, become text, which has a default for every
-- parameter. The forms for bytea and jsonb need a delay, which may be NULL: with a default there, a push without a body would match all three.
CREATE FUNCTION tarry.push(topic text, id text, delay interval DEFAULT NULL, body text DEFAULT '', at timestamptz DEFAULT NULL,
  content_type text DEFAULT NULL, priority int DEFAULT NULL, on_conflict text DEFAULT NULL, once text DEFAULT NULL, once_for interval DEFAULT NULL,
  keep_finished interval DEFAULT NULL, "group" text DEFAULT NULL, batch_topic text DEFAULT NULL, batch_id text DEFAULT NULL, waits boolean DEFAULT false,
  members int DEFAULT NULL, wait_at_most interval DEFAULT NULL, close_within interval DEFAULT NULL, on_dead text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN RETURN tarry._user_push(topic, id, delay, convert_to(body, 'UTF8'), at, content_type, priority, on_conflict, once, once_for, keep_finished, "group",
  batch_topic, batch_id, waits, members, wait_at_most, close_within, on_dead); END $$;

CREATE FUNCTION tarry.push(topic text, id text, delay interval, body bytea, at timestamptz DEFAULT NULL,
  content_type text DEFAULT NULL, priority int DEFAULT NULL, on_conflict text DEFAULT NULL, once text DEFAULT NULL, once_for interval DEFAULT NULL,
  keep_finished interval DEFAULT NULL, "group" text DEFAULT NULL, batch_topic text DEFAULT NULL, batch_id text DEFAULT NULL, waits boolean DEFAULT false,
  members int DEFAULT NULL, wait_at_most interval DEFAULT NULL, close_within interval DEFAULT NULL, on_dead text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN RETURN tarry._user_push(topic, id, delay, body, at, content_type, priority, on_conflict, once, once_for, keep_finished, "group",
  batch_topic, batch_id, waits, members, wait_at_most, close_within, on_dead); END $$;

CREATE FUNCTION tarry.push(topic text, id text, delay interval, body jsonb, at timestamptz DEFAULT NULL,
  priority int DEFAULT NULL, on_conflict text DEFAULT NULL, once text DEFAULT NULL, once_for interval DEFAULT NULL,
  keep_finished interval DEFAULT NULL, "group" text DEFAULT NULL, batch_topic text DEFAULT NULL, batch_id text DEFAULT NULL, waits boolean DEFAULT false,
  members int DEFAULT NULL, wait_at_most interval DEFAULT NULL, close_within interval DEFAULT NULL, on_dead text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ BEGIN RETURN tarry._user_push(topic, id, delay, convert_to(body::text, 'UTF8'), at, 'application/json', priority, on_conflict, once, once_for, keep_finished, "group",
  batch_topic, batch_id, waits, members, wait_at_most, close_within, on_dead); END $$;

CREATE FUNCTION tarry.cancel(topic text, id text, request boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE r tarry._did;
BEGIN
  PERFORM tarry._may(topic);
  r := tarry._user_change(1, topic, id, 0, 0, -1, coalesce(request, false));
  IF r.status = 'cancelled' THEN PERFORM tarry._publish_event(11, topic, id, r); END IF;
  RETURN tarry._word(r);
END $$;

CREATE FUNCTION tarry.reschedule(topic text, id text, delay interval DEFAULT NULL, at timestamptz DEFAULT NULL, priority int DEFAULT NULL) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE kind int; ms bigint; r tarry._did;
BEGIN
  PERFORM tarry._may(topic);
  IF priority NOT BETWEEN 0 AND 65535 THEN RAISE EXCEPTION 'priority % is not between 0 and 65535', priority USING ERRCODE = '22023'; END IF;
  IF delay IS NULL AND at IS NULL AND priority IS NULL THEN
    RAISE EXCEPTION 'nothing to change' USING ERRCODE = '22023', HINT = 'give delay, at or priority';
  END IF;
  SELECT w.kind, w.ms INTO kind, ms FROM tarry._when(delay, at) w;
  r := tarry._user_change(2, topic, id, CASE WHEN kind = 1 THEN 4 ELSE kind END, ms, coalesce(priority, -1));
  IF r.status = 'ok' THEN PERFORM tarry._publish_event(12, topic, id, r); END IF;
  RETURN tarry._word(r);
END $$;

CREATE FUNCTION tarry.run(topic text, id text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE r tarry._did;
BEGIN
  PERFORM tarry._may(topic);
  r := tarry._user_change(3, topic, id, 1, 0, -1);
  IF r.status = 'ok' THEN PERFORM tarry._publish_event(13, topic, id, r); END IF;
  RETURN tarry._word(r);
END $$;

CREATE FUNCTION tarry.close(topic text, id text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM tarry._may(topic);
  RETURN tarry._word(tarry._change(4, topic, id, 0, 0, -1, false, 0, false, true));
END $$;

CREATE FUNCTION tarry.get(topic text, id text, OUT state text, OUT due timestamptz, OUT attempt int, OUT priority int, OUT body bytea, OUT outcome text,
  OUT finished_at timestamptz, OUT content_type text, OUT result bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE adjust bigint := (SELECT adjust_ms FROM tarry.store);
BEGIN
  PERFORM tarry._may(topic);
  SELECT (ARRAY['delayed', 'ready', 'leased', 'dead', 'finished'])[s.state], CASE WHEN s.state <> 5 THEN to_timestamp((nullif(s.due, tarry._wait_due()) - adjust) / 1000.0) END, s.attempt,
      s.priority, CASE WHEN s.state <> 5 OR s.has_body THEN s.body END, (ARRAY['acked', 'cancelled', 'expired'])[s.outcome],
      to_timestamp((s.finished - adjust) / 1000.0), tarry.readable(s.result_type), s.result
    INTO get.state, get.due, get.attempt, get.priority, get.body, get.outcome, get.finished_at, get.content_type, get.result FROM tarry._get(get.topic, get.id, true) s;
END $$;

-- ---- for people ----

-- Bytes that a client sent, as text. Bytes that are not text in the encoding of the database are escaped, so that one row never makes a view fail.
CREATE FUNCTION tarry.readable(bytes bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN OTHERS THEN RETURN encode(bytes, 'escape');
END $$;

CREATE VIEW tarry.jobs AS
  SELECT t.name AS topic, j.id,
    CASE WHEN j.state = 1 AND j.due > floor(extract(epoch FROM statement_timestamp()) * 1000) + s.adjust_ms THEN 'delayed'
      ELSE (ARRAY['ready', NULL, 'leased', 'dead'])[j.state] END AS state,
    to_timestamp((nullif(j.due, 140737488355328) - s.adjust_ms) / 1000.0) AS due, j.priority, j.attempt, octet_length(j.body) AS body_bytes, tarry.readable(j.error) AS error
  FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic CROSS JOIN tarry.store s WHERE t.name IS NOT NULL;

CREATE VIEW tarry.batches AS
  SELECT t.name AS topic, b.id, b.closed OR w.closes AS closed, b.ended, w.unfinished + CASE WHEN b.on_dead = 2 THEN w.dead ELSE 0 END AS waits_for, w.unfinished, w.acked, w.dead, w.cancelled,
    w.expired, (ARRAY['go', 'hold', 'stop'])[b.on_dead] AS on_dead, to_timestamp((b.wait_until - s.adjust_ms) / 1000.0) AS wait_until
  FROM tarry.batch b JOIN tarry.topic t ON t.topic = b.topic CROSS JOIN tarry.store s, LATERAL (
    SELECT b.unfinished + coalesce(sum(a.unfinished), 0) AS unfinished, b.acked + coalesce(sum(a.acked), 0) AS acked, b.dead + coalesce(sum(a.dead), 0) AS dead,
      b.cancelled + coalesce(sum(a.cancelled), 0) AS cancelled, b.expired + coalesce(sum(a.expired), 0) AS expired, coalesce(bool_or(a.mark IN (1, 3)), false) AS closes
      FROM tarry.batch_add a WHERE a.batch = b.batch AND NOT b.ended) w
  WHERE t.name IS NOT NULL;

CREATE VIEW tarry.topics AS
  SELECT t.name AS topic, t.paused AND (t.paused_until = 0 OR t.paused_until > floor(extract(epoch FROM statement_timestamp()) * 1000) + s.adjust_ms) AS paused,
    coalesce(c.waiting, 0)::bigint AS waiting, coalesce(c.leased, 0)::bigint AS leased, coalesce(c.dead, 0)::bigint AS dead,
    coalesce(c.pushed, 0)::bigint AS pushed, coalesce(c.acked, 0)::bigint AS acked, coalesce(c.cancelled, 0)::bigint AS cancelled,
    coalesce(c.expired, 0)::bigint AS expired, coalesce(c.died, 0)::bigint AS died
  FROM tarry.topic t CROSS JOIN tarry.store s LEFT JOIN (
    SELECT topic, sum(counts[1] + counts[2]) AS waiting, sum(counts[3]) AS leased, sum(counts[4]) AS dead, sum(counts[6]) AS pushed,
        sum(counts[7]) AS acked, sum(counts[8]) AS cancelled, sum(counts[9]) AS expired, sum(counts[14]) AS died
      FROM (SELECT topic, counts FROM tarry.tally UNION ALL SELECT topic, counts FROM tarry.tally_add) y GROUP BY topic) c ON c.topic = t.topic
  WHERE t.name IS NOT NULL;

CREATE VIEW tarry.job_history AS
  SELECT t.name AS topic, h.id, to_timestamp((h.at - s.adjust_ms) / 1000.0) AS at, h.event, h.attempt, to_timestamp((h.started - s.adjust_ms) / 1000.0) AS started,
    h.consumer, tarry.readable(h.error) AS error
  FROM tarry.history h JOIN tarry.topic t ON t.topic = h.topic CROSS JOIN tarry.store s
  WHERE t.name IS NOT NULL AND h.at >= floor(extract(epoch FROM statement_timestamp()) * 1000) + s.adjust_ms - t.history;

CREATE VIEW tarry.finished_jobs AS
  SELECT t.name AS topic, f.id, (ARRAY['acked', 'cancelled', 'expired'])[f.outcome] AS outcome, to_timestamp((f.at - s.adjust_ms) / 1000.0) AS finished_at,
    f.attempt, to_timestamp((f.taken - s.adjust_ms) / 1000.0) AS started_at, f.consumer, tarry.readable(f.progress) AS progress,
    tarry.readable(f.result_type) AS content_type, f.result, f.body, to_timestamp((f.kept - s.adjust_ms) / 1000.0) AS kept_until
  FROM tarry.finished f JOIN tarry.topic t ON t.topic = f.topic CROSS JOIN tarry.store s
  WHERE t.name IS NOT NULL AND f.kept > floor(extract(epoch FROM statement_timestamp()) * 1000) + s.adjust_ms;

-- A view for mykit-delay's reports: status 1 waits, 2 is due or handed out, 3 done, 4 ended undone, 6 dead. A finished job is read from
-- its history, which has no body; the time of the push is not kept.
CREATE VIEW tarry.mykit_delay_queue_job AS
  SELECT j.id, NULL::text AS bizkey, t.name AS topic, NULL::text AS subtopic, NULL::bigint AS delay, NULL::bigint AS create_time,
    encode(j.body, 'escape') AS body,
    CASE WHEN j.state = 4 THEN 6 WHEN j.state = 1 AND j.due > floor(extract(epoch FROM statement_timestamp()) * 1000) + s.adjust_ms THEN 1 ELSE 2 END AS status,
    (coalesce(j.ttl, nullif(t.ttl, 0)) / 1000)::int AS ttl, to_timestamp((greatest(j.taken, j.due) - s.adjust_ms) / 1000.0) AS update_time
  FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic CROSS JOIN tarry.store s WHERE t.name IS NOT NULL
  UNION ALL
  SELECT h.id, NULL, h.topic, NULL, NULL, NULL, NULL, CASE h.event WHEN 'acked' THEN 3 ELSE 4 END, NULL, h.at
  FROM (SELECT DISTINCT ON (topic, id) * FROM tarry.job_history WHERE event IN ('acked', 'cancelled', 'expired', 'purged') ORDER BY topic, id, at DESC) h
  WHERE NOT EXISTS (SELECT FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic WHERE t.name = h.topic AND j.id = h.id);

CREATE VIEW tarry.mykit_delay_queue_job_log AS
  SELECT h.id, CASE h.event WHEN 'acked' THEN 3 WHEN 'died' THEN 6 WHEN 'nacked' THEN 6 WHEN 'lease_ended' THEN 6 WHEN 'redriven' THEN 5
      WHEN 'returned' THEN 5 ELSE 4 END AS status, h.consumer AS thread, h.at AS update_time
  FROM tarry.job_history h;

-- ---- functions for servers only ----

DO $$
DECLARE f regprocedure;
BEGIN
  FOR f IN SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace = 'tarry'::regnamespace AND starts_with(proname, '_') LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
  END LOOP;
END $$;

INSERT INTO tarry.schema_version (version, oldest_reader) VALUES (1, 1);
