"""Finished jobs that topics keep in PostgreSQL, read by SQL and by the API."""

import pytest
from delivery import answers_become_results
from migration import finished_jobs_are_exported
from postgres import PostgresServer
from server import eventually
from sql_serving import tarry, transaction


@pytest.fixture(scope="module")
def postgres():
    with PostgresServer() as server:
        assert tarry("sql", "migrate", server.url).returncode == 0
        yield server


@pytest.fixture
def pair(postgres, start_server):
    return [start_server("--store", postgres.url) for _ in range(2)]


def finish(client, topic, id, **options):
    client.push(topic, id, **options)
    client.ack(client.take(topic, wait="5s", consumer="worker")[0]["lease"])


def kept(postgres, topic):
    return postgres.rows(f"SELECT id, outcome, attempt, consumer FROM tarry.finished_jobs WHERE topic = '{topic}' ORDER BY id")


def test_kept_jobs_are_read_by_sql(pair, postgres):
    client, other = (server.client() for server in pair)
    client.put_topic("kept", keep_finished="1h")
    finish(client, "kept", "acked")
    client.push("kept", "cancelled", delay="1h")
    other.good("DELETE", "/v1/topics/kept/jobs/cancelled")
    client.push("kept", "expired", ttl="1ms")
    eventually(lambda: kept(postgres, "kept") == [("acked", "acked", 1, "worker"), ("cancelled", "cancelled", 0, None), ("expired", "expired", 0, None)])
    assert postgres.rows("SELECT state, outcome, attempt FROM tarry.get('kept', 'acked')") == [("finished", "acked", 1)]
    finish(client, "kept", "acked")  # an id names one job
    assert len(kept(postgres, "kept")) == 3


def test_a_push_by_sql_decides_how_long_its_job_is_kept(pair, postgres):
    client = pair[0].client()
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('pushed', 'a', keep_finished => interval '1 hour'), tarry.push('pushed', 'b')")
    for job in client.take("pushed", max=2, wait="5s"):
        client.ack(job["lease"])
    assert [row[0] for row in kept(postgres, "pushed")] == ["a"]
    with transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.push('pushed', 'a')")
        cursor.execute("SELECT state FROM tarry.get('pushed', 'a')")
        assert cursor.fetchall() == [("ready",)]
    assert [row[0] for row in kept(postgres, "pushed")] == ["a"]  # the push was rolled back, so its finished job is kept
    with pytest.raises(Exception, match="keep_finished"), transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.push('pushed', 'a', keep_finished => interval '-1 s')")


def test_the_oldest_kept_jobs_are_dropped_in_the_background(pair, postgres):
    client = pair[0].client()
    client.put_topic("many", keep_finished="1h", keep_finished_max=3)
    for i in range(8):
        finish(client, "many", str(i))
    eventually(lambda: [row[0] for row in kept(postgres, "many")] == ["5", "6", "7"])
    client.put_topic("big", keep_finished="1h", keep_finished_bytes=2500, keep_body=True)
    for i in range(8):
        finish(client, "big", str(i), body=b"b" * 1000)
    eventually(lambda: [row[0] for row in kept(postgres, "big")] == ["6", "7"])
    assert bytes(postgres.rows("SELECT body FROM tarry.finished_jobs WHERE topic = 'big' AND id = '7'")[0][0]) == b"b" * 1000


def test_fsck_counts_kept_jobs(pair, postgres):
    client = pair[0].client()
    client.put_topic("counted", keep_finished="1h")
    for i in range(3):
        finish(client, "counted", str(i))
    clean = tarry("fsck", "--store", postgres.url)
    assert clean.returncode == 0, clean.stdout
    postgres.do("DELETE FROM tarry.finished WHERE id = '1' AND topic = (SELECT topic FROM tarry.topic WHERE name = 'counted')")
    found = tarry("fsck", "--store", postgres.url)
    assert found.returncode != 0 and "kept finished jobs" in found.stdout
    assert tarry("fsck", "--store", postgres.url, "--repair").returncode == 0
    assert tarry("fsck", "--store", postgres.url).returncode == 0


def test_the_answer_of_a_callback_becomes_the_result(postgres, start_delivering, endpoint):
    answers_become_results(start_delivering("--store", postgres.url).client(), endpoint)


def test_finished_jobs_are_exported_with_outcome_result_and_times(start_server):
    with PostgresServer() as postgres:
        assert tarry("sql", "migrate", postgres.url).returncode == 0
        finished_jobs_are_exported(start_server("--store", postgres.url))
