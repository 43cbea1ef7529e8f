"""Finished jobs that topics keep in MariaDB, read by SQL and by the API."""

import pytest
from delivery import answers_become_results
from migration import finished_jobs_are_exported
from mariadb import MariadbServer
from server import eventually
from sql_serving import tarry, transaction


@pytest.fixture(scope="module")
def mariadb():
    with MariadbServer() as server:
        assert tarry("sql", "migrate", server.url).returncode == 0
        yield server


@pytest.fixture
def pair(mariadb, start_server):
    return [start_server("--store", mariadb.url) for _ in range(2)]


def finish(client, topic, id, **options):
    client.push(topic, id, **options)
    client.ack(client.take(topic, wait="5s", consumer="worker")[0]["lease"])


def kept(mariadb, topic):
    return list(mariadb.rows(f"SELECT id, outcome, attempt, consumer FROM tarry.finished_jobs WHERE topic = '{topic}' ORDER BY id"))


def test_kept_jobs_are_read_by_sql(pair, mariadb):
    client, other = (server.client() for server in pair)
    client.put_topic("kept", keep_finished="1h")
    finish(client, "kept", "acked")
    client.push("kept", "cancelled", delay="1h")
    other.good("DELETE", "/v1/topics/kept/jobs/cancelled")
    client.push("kept", "expired", ttl="1ms")
    eventually(lambda: kept(mariadb, "kept") == [("acked", "acked", 1, "worker"), ("cancelled", "cancelled", 0, None), ("expired", "expired", 0, None)])
    finish(client, "kept", "acked")  # an id names one job
    assert len(kept(mariadb, "kept")) == 3


def test_cancels_by_sql_keep_the_job_with_their_transaction(pair, mariadb):
    client = pair[0].client()
    client.put_topic("own", keep_finished="1h")
    for ident, commit in (("a", True), ("b", False)):
        client.push("own", ident, delay="1h")
        with transaction(mariadb, commit) as cursor:
            mariadb.call("cancel", "own", ident, cursor=cursor)
    assert kept(mariadb, "own") == [("a", "cancelled", 0, None)]
    with transaction(mariadb, True) as cursor:
        mariadb.call("push", "own", "a", 3600000, b"x", cursor=cursor)
    assert kept(mariadb, "own") == []


def test_the_oldest_kept_jobs_are_dropped_in_the_background(pair, mariadb):
    client = pair[0].client()
    client.put_topic("many", keep_finished="1h", keep_finished_max=3)
    for i in range(8):
        finish(client, "many", str(i))
    eventually(lambda: [row[0] for row in kept(mariadb, "many")] == ["5", "6", "7"])
    client.put_topic("big", keep_finished="1h", keep_finished_bytes=2500, keep_body=True)
    for i in range(8):
        finish(client, "big", str(i), body=b"b" * 1000)
    eventually(lambda: [row[0] for row in kept(mariadb, "big")] == ["6", "7"])


def test_fsck_counts_kept_jobs(pair, mariadb):
    client = pair[0].client()
    client.put_topic("counted", keep_finished="1h")
    for i in range(3):
        finish(client, "counted", str(i))
    clean = tarry("fsck", "--store", mariadb.url)
    assert clean.returncode == 0, clean.stdout
    mariadb.do("DELETE FROM tarry.kept WHERE id = '1' AND topic = (SELECT topic FROM tarry.topic WHERE name = 'counted')")
    found = tarry("fsck", "--store", mariadb.url)
    assert found.returncode != 0 and "kept finished jobs" in found.stdout
    assert tarry("fsck", "--store", mariadb.url, "--repair").returncode == 0
    assert tarry("fsck", "--store", mariadb.url).returncode == 0


def test_the_answer_of_a_callback_becomes_the_result(mariadb, start_delivering, endpoint):
    answers_become_results(start_delivering("--store", mariadb.url).client(), endpoint)


def test_finished_jobs_are_exported_with_outcome_result_and_times(start_server):
    with MariadbServer() as mariadb:
        assert tarry("sql", "migrate", mariadb.url).returncode == 0
        finished_jobs_are_exported(start_server("--store", mariadb.url))
