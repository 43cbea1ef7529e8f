"""Finished jobs that topics keep in a database, read by SQL and by the API."""

import json
import time

import pytest
from delivery import answers_become_results
from mariadb import MariadbServer
from migration import finished_jobs_are_exported
from postgres import PostgresServer
from server import eventually
from sql_serving import migrated, tarry, transaction

ONLY_POSTGRES = pytest.mark.parametrize("database", ["postgres"], indirect=True, scope="module")
KEPT_TABLES = {"postgres": "finished", "mariadb": "kept"}
# Makes rows of kept jobs whose time has ended: COUNT of the topic `over`.
OVER = """WITH i AS (INSERT INTO tarry.finished (topic, id, until, kept, at, seq, bytes, priority, attempt, outcome)
    SELECT topic, 'x' || n, 0, 1, 1, n, 300, 100, 1, 1 FROM tarry.topic, generate_series(1, COUNT) n WHERE name = 'over' RETURNING topic, bytes)
    INSERT INTO tarry.tally_add SELECT topic, ARRAY[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,count(*),sum(bytes)] FROM i GROUP BY topic"""
OVER_JOBS, OVER_SECONDS = 100_000, 19  # 20 s, if the upkeep removed 5,000 of them each second


@pytest.fixture(scope="module", params=["postgres", pytest.param("mariadb", marks=pytest.mark.thorough("needs MariaDB"))])
def database(request):
    with PostgresServer() if request.param == "postgres" else MariadbServer() as server:
        server.kind = request.param
        assert tarry("sql", "migrate", server.url).returncode == 0
        yield server


@pytest.fixture
def pair(database, start_server):
    return [start_server("--store", database.url) for _ in range(2)]


def finish(client, topic, id, **options):
    client.push(topic, id, **options)
    client.ack(client.take(topic, wait="5s", consumer="worker")[0]["lease"])


def kept(database, topic):
    return list(database.rows(f"SELECT id, outcome, attempt, consumer FROM tarry.finished_jobs WHERE topic = '{topic}' ORDER BY id"))


def test_kept_jobs_are_read_by_sql(pair, database):
    client, other = (server.client() for server in pair)
    client.put_topic("kept", keep_finished="1h")
    finish(client, "kept", "acked")
    client.push("kept", "cancelled", delay="1h")
    other.good("DELETE", "/v1/topics/kept/jobs/cancelled")
    client.push("kept", "expired", ttl="1ms")
    eventually(lambda: kept(database, "kept") == [("acked", "acked", 1, "worker"), ("cancelled", "cancelled", 0, None), ("expired", "expired", 0, None)])
    finish(client, "kept", "acked")  # an id names one job
    assert len(kept(database, "kept")) == 3


@ONLY_POSTGRES
def test_a_kept_job_is_returned_by_get(pair, database):
    client = pair[0].client()
    client.put_topic("got", keep_finished="1h")
    finish(client, "got", "a")
    assert database.rows("SELECT state, outcome, attempt FROM tarry.get('got', 'a')") == [("finished", "acked", 1)]


@ONLY_POSTGRES
def test_acks_beside_a_row_that_remembers_one_of_their_ids_keep_all(pair, database):
    """A memory of an id that has ended stays for up to a second. Then none of the acks can be stored by a plain insert."""
    client = pair[0].client()
    client.put_topic("beside", keep_finished="1h")
    client.push("beside", "a")
    client.push("beside", "b")
    database.do("INSERT INTO tarry.finished (topic, id, until) SELECT topic, 'b', 0 FROM tarry.topic WHERE name = 'beside'")
    leases = [{"lease": job["lease"], "result": job["id"]} for job in client.take("beside", max=2, wait="5s")]
    client.good("POST", "/v1/ack", json.dumps({"leases": leases}).encode(), {"Content-Type": "application/json"})
    assert [client.get("beside", id)["result"] for id in "ab"] == ["a", "b"]
    assert eventually(lambda: client.topic("beside")["counts"]["finished"] == 2)
    assert kept(database, "beside") == [("a", "acked", 1, None), ("b", "acked", 1, None)]


@ONLY_POSTGRES
def test_a_push_by_sql_decides_how_long_its_job_is_kept(pair, database):
    client = pair[0].client()
    with transaction(database, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('pushed', 'a', keep_finished => interval '1 hour'), tarry.push('pushed', 'b')")
    for job in client.take("pushed", max=2, wait="5s"):
        client.ack(job["lease"])
    assert [row[0] for row in kept(database, "pushed")] == ["a"]
    with pytest.raises(Exception, match="keep_finished"), transaction(database, commit=False) as cursor:
        cursor.execute("SELECT tarry.push('pushed', 'a', keep_finished => interval '-1 s')")


def test_changes_by_sql_keep_or_drop_the_job_with_their_transaction(pair, database):
    client = pair[0].client()
    client.put_topic("own", keep_finished="1h")
    for ident, commit in (("a", True), ("b", False)):
        client.push("own", ident, delay="1h")
        with transaction(database, commit) as cursor:
            database.call("cancel", "own", ident, cursor=cursor)
    assert kept(database, "own") == [("a", "cancelled", 0, None)]
    for commit, left in ((False, ["a"]), (True, [])):
        with transaction(database, commit) as cursor:
            database.call("push", "own", "a", 3600000, b"x", cursor=cursor)
        assert [row[0] for row in kept(database, "own")] == left


def test_the_oldest_kept_jobs_are_dropped_in_the_background(pair, database):
    client = pair[0].client()
    client.put_topic("many", keep_finished="1h", keep_finished_max=3)
    for i in range(8):
        finish(client, "many", str(i))
    eventually(lambda: [row[0] for row in kept(database, "many")] == ["5", "6", "7"])
    client.put_topic("big", keep_finished="1h", keep_finished_bytes=2500, keep_body=True)
    for i in range(8):
        finish(client, "big", str(i), body=b"b" * 1000)
    eventually(lambda: [row[0] for row in kept(database, "big")] == ["6", "7"])
    assert bytes(database.rows("SELECT body FROM tarry.finished_jobs WHERE topic = 'big' AND id = '7'")[0][0]) == b"b" * 1000


@ONLY_POSTGRES
def test_the_upkeep_of_one_server_removes_kept_jobs_as_fast_as_their_time_ends(start_server, database):
    """MariaDB deletes too slowly on a busy machine for a bound by the clock."""
    client = start_server("--store", database.url).client()
    client.put_topic("over", keep_finished="1h")
    database.do(OVER.replace("COUNT", str(OVER_JOBS)))
    began = time.monotonic()
    left = "SELECT count(*) FROM tarry.finished f JOIN tarry.topic t ON t.topic = f.topic AND t.name = 'over'"
    eventually(lambda: database.do(left) == 0, 60)
    assert time.monotonic() - began < OVER_SECONDS
    eventually(lambda: client.topic("over")["counts"]["finished"] == 0)


def test_fsck_counts_kept_jobs(pair, database):
    client = pair[0].client()
    client.put_topic("counted", keep_finished="1h")
    for i in range(3):
        finish(client, "counted", str(i))
    clean = tarry("fsck", "--store", database.url)
    assert clean.returncode == 0, clean.stdout
    database.do(f"DELETE FROM tarry.{KEPT_TABLES[database.kind]} WHERE id = '1' AND topic = (SELECT topic FROM tarry.topic WHERE name = 'counted')")
    found = tarry("fsck", "--store", database.url)
    assert found.returncode != 0 and "kept finished jobs" in found.stdout
    assert tarry("fsck", "--store", database.url, "--repair").returncode == 0
    assert tarry("fsck", "--store", database.url).returncode == 0


def test_the_answer_of_a_callback_becomes_the_result(database, start_delivering, endpoint):
    answers_become_results(start_delivering("--store", database.url).client(), endpoint)


def test_finished_jobs_are_exported_with_outcome_result_and_times(start_server, database):
    with migrated(type(database)()) as fresh:
        finished_jobs_are_exported(start_server("--store", fresh.url))
