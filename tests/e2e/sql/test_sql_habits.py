"""tarry serve on a PostgreSQL that is used as others use theirs: publications, joins, drivers, settings of a database, a DBA's schema."""

import contextlib
import json
import time

import psycopg2
import pytest
from pgbouncer import Pgbouncer
from postgres import PostgresServer
from redis_serving import metric
from server import eventually
from sql_serving import migrated, tarry, transaction


@pytest.fixture
def own():
    """A database of the test's own."""
    with migrated(PostgresServer()) as server:
        yield server


# ---- the upkeep ----

def test_oldest_transaction_and_dead_rows_are_metrics(own, start_server):
    server = start_server("--store", own.url)
    client = server.client()
    with contextlib.closing(own.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        for number in range(50):
            client.push("bloated", str(number))
        for job in client.take("bloated", max=50):
            client.ack(job["lease"])
        assert eventually(lambda: metric(server, "tarry_sql_oldest_transaction_seconds", 0) > 2 and metric(server, "tarry_sql_dead_rows", 0) > 100, 60)
    assert eventually(lambda: metric(server, "tarry_sql_oldest_transaction_seconds") < 1, 60)


def test_prepared_transaction_that_stays_open_is_in_the_metric(start_server):
    with PostgresServer("max_prepared_transactions=2") as database:
        server = start_server("--store", database.url, "--migrate")
        with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN; CREATE TABLE public.left_open (n int); PREPARE TRANSACTION 'left'")
        assert eventually(lambda: metric(server, "tarry_sql_oldest_transaction_seconds", 0) > 2, 60)
        server.terminate()


def test_publication_for_all_tables_rejects_no_statement(own, start_server):
    own.do("CREATE PUBLICATION everything FOR ALL TABLES")
    assert own.do("SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'tarry' AND c.relkind IN ('r', 'p') AND c.relreplident = 'd' "
                  "AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)") == 0, "a table has neither a key nor an identity"
    first, second = (start_server("--store", own.url) for _ in range(2))
    own.do("SELECT tarry.push('u', 's1', interval '1 day')")
    first.client().call("PUT", "/v1/topics/kept", json.dumps({"history": "1d"}).encode())
    own.do("INSERT INTO tarry.history_rest VALUES (1, 1, 'old', 'acked', 1, 1, NULL, NULL)")
    own.do("SELECT tarry._history_days()")
    first.client().push("w", "held")
    held = eventually(lambda: second.client().take("w", lease_for="2s"))
    assert [job["id"] for job in held] == ["held"]
    second.kill()
    eventually(lambda: own.do("SELECT count(*) FROM tarry.tally_add") == 0)  # the upkeep has deleted the rows
    eventually(lambda: first.client().get("w", "held")["state"] == "ready", seconds=40)  # the lease of a killed server
    assert "upkeep failed" not in first.log()


def test_failing_part_of_the_upkeep_stops_no_other_part_and_is_reported(own, start_server):
    own.do("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not here'; END $$")
    own.do("CREATE TRIGGER refuse BEFORE DELETE ON tarry.finished FOR EACH ROW EXECUTE FUNCTION refuse()")
    server = start_server("--store", own.url)
    server.client().push("t", "a")
    own.do("INSERT INTO tarry.finished SELECT topic, 'old', 1 FROM tarry.topic LIMIT 1")
    eventually(lambda: "a part of the database's upkeep failed" in server.log())
    assert "not here" in server.log()
    beat = own.do("SELECT max(beat) FROM tarry.server")
    eventually(lambda: own.do("SELECT max(beat) FROM tarry.server") > beat + 2000, seconds=30)
    own.do("SELECT tarry.push('t', 'by-sql', interval '1 day')")
    eventually(lambda: own.do("SELECT count(*) FROM tarry.tally_add") == 0)  # another part of the same upkeep
    assert server.log().count("a part of the database's upkeep failed") == 1, "logged again and again"
    eventually(lambda: metric(server, 'tarry_background_failing_seconds{work="database_upkeep"}') > 1)
    own.do("DROP TRIGGER refuse ON tarry.finished")
    eventually(lambda: metric(server, 'tarry_background_failing_seconds{work="database_upkeep"}') == 0)


# ---- the views ----

@pytest.mark.parametrize("error, shown", [("a%00b", r"a\000b"), ("%ff", r"\377"), ("%ed%a0%80", r"\355\240\200"), ("%c3%bc", "ü")])
def test_no_error_of_a_consumer_breaks_a_view(postgres, start_server, error, shown):
    client = start_server("--store", postgres.url).client()
    client.call("PUT", "/v1/topics/views", json.dumps({"history": "1d"}).encode())
    client.push("views", "a", on_conflict="replace")
    lease = eventually(lambda: client.take("views"))[0]["lease"]
    assert client.call("POST", f"/v1/nack?lease={lease}&delay=1h&error={error}").status == 200
    assert postgres.do("SELECT error FROM tarry.jobs WHERE topic = 'views' AND id = 'a'") == shown
    assert postgres.do("SELECT error FROM tarry.job_history WHERE topic = 'views' AND event = 'nacked' ORDER BY at DESC LIMIT 1") == shown
    assert client.call("DELETE", "/v1/topics/views/jobs/a").status == 200


def test_views_convert_characters_that_the_database_lacks():
    with PostgresServer() as own:
        own.do("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
        url = own.url.replace("///postgres?", "///latin?")
        assert tarry("sql", "migrate", url).returncode == 0
        with psycopg2.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT tarry.readable(%s), tarry.readable(%s)", ("€".encode(), "ü".encode()))
            assert cursor.fetchone() == (r"\342\202\254", "ü")


def test_join_with_the_view_of_jobs_uses_the_key(postgres):
    postgres.do("SELECT count(tarry.push('mail', i::text, interval '1 day')) FROM generate_series(1, 3000) i")
    postgres.do("CREATE TABLE orders AS SELECT i AS id FROM generate_series(1, 3000) i")
    postgres.do("ANALYZE tarry.job")
    with transaction(postgres, False) as cursor:
        cursor.execute("EXPLAIN SELECT j.state FROM orders o JOIN tarry.jobs j ON j.topic = 'mail' AND j.id = o.id::text WHERE o.id = 42")
        plan = "\n".join(line for line, in cursor.fetchall())
    assert "Index Scan using job_pkey" in plan, plan
    assert postgres.do("SELECT state FROM orders o JOIN tarry.jobs j ON j.topic = 'mail' AND j.id = o.id::text WHERE o.id = 42") == "delayed"


# ---- the body of a push ----

def pushed(database, call, *arguments):
    """Runs the push and returns body and content type of the stored job."""
    with transaction(database, True) as cursor:
        cursor.execute("SELECT tarry.cancel('o', '1')")
        cursor.execute(f"SELECT {call}", arguments)
        assert cursor.fetchone()[0] == "created"
        cursor.execute("SELECT j.body, convert_from(j.content_type, 'UTF8') FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic WHERE t.name = 'o' AND j.id = '1'")
        body, content_type = cursor.fetchone()
        return bytes(body), content_type


WINDOWS_PATH = json.dumps({"p": "C:\\dir"})
TWO_LINES = json.dumps({"t": "a\nb"})
PUSHES = [
    ("tarry.push('o', '1')", (), b"", None),
    ("tarry.push('o', '1', body => %s)", (WINDOWS_PATH,), WINDOWS_PATH.encode(), None),
    ("tarry.push('o', '1', at => '2027-01-01', body => %s)", (WINDOWS_PATH,), WINDOWS_PATH.encode(), None),
    ("tarry.push('o', '1', at => '2027-01-01', body => %s)", (TWO_LINES,), TWO_LINES.encode(), None),
    ("tarry.push('o', '1', interval '1 hour', %s)", (TWO_LINES,), TWO_LINES.encode(), None),
    ("tarry.push('o', '1', '1 hour', 'ü')", (), "ü".encode(), None),
    ("tarry.push('o', '1', '1 hour')", (), b"", None),
    ("tarry.push('o', '1', delay => NULL, body => 'x'::text)", (), b"x", None),
    ("tarry.push('o', '1', body => 'x'::varchar, content_type => 'text/plain')", (), b"x", "text/plain"),
    ("tarry.push('o', '1', NULL, at => '2027-01-01', body => %s)", (psycopg2.Binary(b"\x00\xff"),), b"\x00\xff", None),
    ("tarry.push('o', '1', '1 hour', %s)", (psycopg2.Binary(b"\x00\xff"),), b"\x00\xff", None),
    ("tarry.push('o', '1', delay => '0', body => %s)", (psycopg2.Binary(b"\x00\xff"),), b"\x00\xff", None),
    ("tarry.push('o', '1', interval '1 hour', %s, on_conflict => 'keep')", (psycopg2.Binary(b"\x00\xff"),), b"\x00\xff", None),
    ("tarry.push('o', '1', at => '2027-01-01', delay => NULL, body => '{}'::jsonb)", (), b"{}", "application/json"),
    ("tarry.push('o', '1', delay => '1 h', body => '{}'::jsonb)", (), b"{}", "application/json"),
    ("tarry.push('o', '1', interval '1 hour', '{}'::jsonb, priority => 7)", (), b"{}", "application/json"),
]


@pytest.mark.parametrize("call, arguments, body, content_type", PUSHES)
def test_body_of_a_push_is_stored_as_it_was_passed(postgres, call, arguments, body, content_type):
    assert pushed(postgres, call, *arguments) == (body, content_type)


def test_parameter_whose_type_the_driver_leaves_open_is_text(postgres):
    with transaction(postgres, False) as cursor:
        cursor.execute("PREPARE p AS SELECT tarry.push('o', $1, body => $2)")
        cursor.execute("SELECT parameter_types::text FROM pg_prepared_statements WHERE name = 'p'")
        assert cursor.fetchone()[0] == "{text,text}"


@pytest.mark.parametrize("at", ["infinity", "-infinity"])
def test_infinite_time_is_rejected_like_any_bad_input(postgres, at):
    with pytest.raises(psycopg2.Error) as caught, transaction(postgres, False) as cursor:
        cursor.execute("SELECT tarry.push('o', '2', at => %s)", (at,))
    assert caught.value.pgcode == "22023"


# ---- schema and session ----

def test_schema_of_a_dba_is_filled_without_a_right_on_the_database():
    with PostgresServer() as own:
        own.do("CREATE ROLE app LOGIN")
        own.do("REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
        own.do("CREATE SCHEMA tarry AUTHORIZATION app")
        done = tarry("sql", "migrate", own.url.replace("user=tarry", "user=app"))
        assert done.returncode == 0, done.stderr
        assert own.do("SELECT tableowner FROM pg_tables WHERE schemaname = 'tarry' AND tablename = 'job'") == "app"


TIME_LIMITS = ("statement_timeout = '20ms'", "lock_timeout = '1ms'", "idle_in_transaction_session_timeout = '1ms'", "idle_session_timeout = '300ms'")


def test_time_limits_of_the_database_do_not_apply_to_tarry(start_server):
    with PostgresServer() as own:
        for limit in TIME_LIMITS:
            own.do(f"ALTER DATABASE postgres SET {limit}")
        done = tarry("sql", "migrate", own.url)
        assert done.returncode == 0, done.stderr
        server = start_server("--store", own.url)
        time.sleep(1.5)  # longer than an idle session may live
        server.client().push("t", "a")
        assert [job["id"] for job in eventually(lambda: server.client().take("t"))] == ["a"]
        assert "lost" not in server.log()


# ---- a schema of another build ----

def test_schema_of_another_build_is_refused_and_one_made_manually_is_used(start_server):
    with PostgresServer() as database:
        database.do(tarry("sql", "schema", "postgres").stdout)
        start_server("--store", database.url).client().push("t", "a")
        for change in ("UPDATE tarry.schema_version SET fingerprint = 'other'", "ALTER TABLE tarry.schema_version DROP COLUMN fingerprint"):
            database.do(change)
            for arguments in (("serve", "--listen", "127.0.0.1:0", "--store", database.url), ("sql", "migrate", database.url)):
                refused = tarry(*arguments)
                assert refused.returncode != 0 and "created by another build" in refused.stderr, refused


# ---- poolers ----

def test_pooler_in_transaction_mode_is_refused_by_name_and_gets_no_setting(own):
    with Pgbouncer(own, "transaction") as pooler:
        for arguments in (("serve", "--listen", "127.0.0.1:0", "--store", pooler.url), ("sql", "migrate", pooler.url), ("fsck", "--store", pooler.url)):
            refused = tarry(*arguments)
            assert refused.returncode != 0 and "pooler in transaction mode" in refused.stderr, refused
        with contextlib.closing(psycopg2.connect(pooler.url)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout'), current_setting('search_path'), count(*) FROM pg_prepared_statements")
            assert cursor.fetchone() == ("0", '"$user", public', 0)
            cursor.execute("SELECT tarry.push('t', 'a')")
            assert cursor.fetchone() == ("created",)


def test_pooler_in_session_mode_serves_several_servers(own, start_server):
    with Pgbouncer(own, "session") as pooler:
        one, other = (start_server("--store", pooler.url).client() for _ in range(2))
        one.push("t", "a")
        [job] = eventually(lambda: other.take("t", wait="5s"))
        one.ack(job["lease"])
