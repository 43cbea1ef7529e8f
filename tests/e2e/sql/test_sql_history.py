"""The history of topics in PostgreSQL."""

import subprocess

import pytest
from server import BINARY
from sql_serving import transaction


@pytest.fixture
def pair(postgres, start_server):
    return [start_server("--store", postgres.url) for _ in range(2)]


def test_history_has_the_outcome_of_a_finished_job(pair, postgres):
    client, other = (server.client() for server in pair)
    client.put_topic("closed", history="30d", max_attempts=2, backoff="fixed:1ms")
    client.push("closed", "1001")
    [job] = client.take("closed", wait="5s", consumer="worker-a")
    client.nack(job["lease"], error="no")
    [job] = client.take("closed", wait="5s", consumer="worker-b")
    other.ack(job["lease"])
    events = other.good("GET", "/v1/topics/closed/jobs/1001/history")["history"]
    assert [(event["event"], event["attempt"], event.get("by"), event.get("error")) for event in events] == [
        ("nacked", 1, "worker-a", "no"), ("acked", 2, "worker-b", None)]
    reported = subprocess.run([str(BINARY), "history", "closed", "1001", "--url", f"http://127.0.0.1:{pair[0].port}"], capture_output=True, text=True, check=True).stdout
    assert "acked" in reported and "by worker-b" in reported
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('closed', '1002', interval '1 hour'), tarry.cancel('closed', '1002')")
    with transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.push('closed', '1003', interval '1 hour'), tarry.cancel('closed', '1003')")
    assert postgres.rows("SELECT id, event, consumer FROM tarry.job_history WHERE id IN ('1002', '1003')") == [("1002", "cancelled", "tarry")]
    client.push("closed", "1004")
    for _ in range(2):
        [job] = client.take("closed", wait="5s")
        client.nack(job["lease"], error="broken")
    assert postgres.rows("SELECT event FROM tarry.job_history WHERE id = '1004' ORDER BY at, event DESC") == [("nacked",), ("nacked",), ("died",)]
    assert postgres.rows("SELECT id, status FROM tarry.mykit_delay_queue_job WHERE topic = 'closed' ORDER BY id") == [("1001", 3), ("1002", 4), ("1004", 6)]
    assert ("1001", 3, "worker-b") in postgres.rows("SELECT id, status, thread FROM tarry.mykit_delay_queue_job_log")
    assert client.call("GET", "/v1/topics/closed/jobs/none/history").status == 404


def test_topics_without_history_record_nothing(pair, postgres):
    client = pair[0].client()
    client.push("plain", "1")
    client.ack(client.take("plain", wait="5s")[0]["lease"])
    client.push("plain", "2", delay="1h")
    client.good("DELETE", "/v1/topics/plain/jobs/2")
    assert postgres.rows("SELECT count(*) FROM tarry.history h JOIN tarry.topic t ON t.topic = h.topic WHERE t.name = 'plain'") == [(0,)]


def test_old_days_of_the_history_are_dropped_whole_and_days_to_come_are_there(pair, postgres):
    pair[0].client().put_topic("days", history="30d")
    days = "SELECT count(*)::int FROM pg_class WHERE relname ~ '^history_[0-9]{8}$'"
    assert postgres.do(days) == 3
    postgres.do("CREATE TABLE tarry.history_20200101 (LIKE tarry.history INCLUDING ALL)")
    postgres.do("ALTER TABLE tarry.history ATTACH PARTITION tarry.history_20200101 FOR VALUES FROM (1577836800000) TO (1577923200000)")
    with transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT count(*) FROM tarry.history")  # a reader blocks it, and no transaction waits for the reader
        postgres.do("SELECT tarry._history_days()")
        assert postgres.do(days) == 4
    postgres.do("SELECT tarry._history_days()")
    assert postgres.do(days) == 3


def test_stores_without_a_history_refuse_to_keep_one(start_server):
    client = start_server().client()
    answer = client.call("PUT", "/v1/topics/t?history=1d")
    assert answer.status == 400 and b"keeps no history" in answer.body
    assert client.call("GET", "/v1/topics/t/jobs/1/history").status == 400
