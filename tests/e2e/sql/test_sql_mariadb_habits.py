"""tarry serve on a MariaDB that is used as others use theirs: small packets, large backlogs, settings of a DBA."""

import contextlib
import threading
import time

import pytest
from mariadb import MariadbServer
from redis_serving import metric
from server import eventually
from sql_serving import migrated, tarry

MIB = 1 << 20


@pytest.fixture
def own(request):
    """A database of the test's own, with the settings that the test names."""
    with migrated(MariadbServer(*getattr(request, "param", ()))) as server:
        yield server


# ---- what keeps the database from cleaning up ----

@contextlib.contextmanager
def _snapshot(database):
    with contextlib.closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT COUNT(*) FROM tarry.topic")
        yield


def test_oldest_transaction_and_history_length_are_metrics(own, start_server):
    server = start_server("--store", own.url)
    client = server.client()
    before = None
    with _snapshot(own):
        for number in range(100):
            client.push("bloated", str(number))
            client.ack(client.take("bloated")[0]["lease"])
        assert eventually(lambda: metric(server, "tarry_sql_oldest_transaction_seconds", 0) > 2 and metric(server, "tarry_sql_dead_rows", 0) > 100, 60)
        before = metric(server, "tarry_sql_dead_rows")
    assert eventually(lambda: metric(server, "tarry_sql_oldest_transaction_seconds") < 2 and metric(server, "tarry_sql_dead_rows") < before, 60)


def test_account_that_sees_no_other_transaction_has_the_history_length(own, start_server):
    own.do("CREATE USER limited@localhost")
    own.do("GRANT ALL ON tarry.* TO limited@localhost")
    server = start_server("--store", own.url.replace("root@", "limited@"))
    assert eventually(lambda: metric(server, "tarry_sql_dead_rows", -1) >= 0, 30)
    client = server.client()
    client.push("limited", "a")
    client.ack(client.take("limited")[0]["lease"])
    assert metric(server, "tarry_sql_oldest_transaction_seconds", -1) == -1


# ---- packets ----

@pytest.mark.parametrize("own", [["max-allowed-packet=1M"]], indirect=True)
def test_push_above_the_packet_limit_is_rejected_and_stops_no_other_call(own, start_server):
    server = start_server("--store", own.url)
    client = server.client()
    answer = client.call("PUT", "/v1/topics/big/jobs/x?delay=1h", b"x" * (MIB - 76))
    assert answer.status == 413 and b"max_allowed_packet" in answer.body, answer.body
    assert client.call("PUT", "/v1/topics/big/jobs/quotes?delay=1h", b"'" * (MIB // 2)).status == 413  # twice as long as a text
    assert client.call("PUT", "/v1/topics/big/jobs/fits?delay=1h", b"x" * (MIB - 8192)).status == 201
    assert client.call("PUT", "/v1/topics/big/jobs/quotes?delay=1h", b"'" * (MIB // 2 - 8192)).status == 201
    client.push("other", "a")
    assert [job["id"] for job in eventually(lambda: client.take("other"))] == ["a"]
    assert "the connection to the database is lost" not in server.log()


@pytest.mark.parametrize("own", [["max-allowed-packet=1M"]], indirect=True)
def test_pushes_that_fit_separately_fit_together(own, start_server):
    server = start_server("--store", own.url)
    bodies = {f"{size}-{i}": b"y" * size for size in (1000, 60_000, 200_000, 600_000, 1_000_000) for i in range(4)}
    bodies |= {f"quotes-{i}": b"'\\\0" * 100_000 for i in range(3)}
    done = []
    threads = [threading.Thread(target=lambda ident=ident, body=body: done.append(server.client().call("PUT", f"/v1/topics/many/jobs/{ident}?delay=1h", body).status))
               for ident, body in bodies.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [201] * len(threads)
    assert own.do("SELECT count(*) FROM tarry.job") == len(threads)


def test_call_that_ends_every_connection_is_refused_and_stops_no_other_call(own, start_server):
    """A trigger stands for whatever makes a database close the connection."""
    own.do("CREATE TRIGGER tarry.poison BEFORE INSERT ON tarry.job FOR EACH ROW IF NEW.id = 'poison' THEN KILL CONNECTION_ID(); END IF")
    server = start_server("--store", own.url)
    server.client().push("t", "before")
    answers = []
    poison = threading.Thread(target=lambda: answers.append(server.client().call("PUT", "/v1/topics/t/jobs/poison?delay=1h", b"x")))
    poison.start()
    for i in range(5):
        assert server.client().call("PUT", f"/v1/topics/t/jobs/small-{i}?delay=1h", b"x").status == 201
    poison.join()
    assert answers[0].status == 503
    lost = server.log().count("the connection to the database is lost")
    assert 2 <= lost <= 8, lost
    assert "a call ended every connection to the database and is refused" in server.log()


@pytest.mark.parametrize("own", [["max-allowed-packet=128K"]], indirect=True)
def test_packet_limit_below_the_smallest_useful_one_is_refused_at_the_start(own, start_server):
    done = tarry("serve", "--store", own.url, "--listen", "127.0.0.1:0")
    assert done.returncode != 0 and "max_allowed_packet" in done.stderr


# ---- adoption ----

def test_adoption_reads_no_job_that_waits_for_a_later_due(own, start_server):
    """Rows read are counted, not time."""
    first, second = (start_server("--store", own.url) for _ in range(2))
    second.client().push("w", "held")
    assert [job["id"] for job in eventually(lambda: second.client().take("w", lease_for="2s"))] == ["held"]
    far = int(time.time() * 1000) + 86_400_000
    own.do("INSERT INTO tarry.job (topic, level, due, seq, id, state, attempt, priority, first_due, body_bytes, body) "
           f"SELECT (SELECT topic FROM tarry.topic WHERE name = 'w'), 100, {far}, 1000000 + s.seq, concat('far-', s.seq), 1, 0, 100, {far}, 1, 'x' FROM tarry.seq_1_to_20000 s")
    with own.connect() as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH STATUS")
        cursor.execute("CALL tarry.server_adopt(1)")
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read_%'")
        read = sum(int(value) for _, value in cursor.fetchall())
    assert read < 2000, read
    second.kill()
    eventually(lambda: first.client().get("w", "held")["state"] == "ready", seconds=40)


# ---- the session of a migration ----

@pytest.mark.parametrize("settings", [["autocommit=0"], ["sql-mode=ORACLE,EMPTY_STRING_IS_NULL"], ["init-connect=SET autocommit=0, sql_mode=ANSI_QUOTES, sql_safe_updates=1"]])
def test_migration_sets_its_session_itself(settings, start_server):
    with migrated(MariadbServer(*settings)) as database:
        client = start_server("--store", database.url).client()
        client.push("t", "a")
        assert [job["id"] for job in eventually(lambda: client.take("t", wait="5s"))] == ["a"]


def test_schema_of_another_build_is_refused(own):
    assert tarry("sql", "migrate", own.url).returncode == 0
    own.do("UPDATE tarry.schema_version SET fingerprint = 'other'")
    refused = tarry("sql", "migrate", own.url)
    assert refused.returncode != 0 and "created by another build" in refused.stderr, refused
