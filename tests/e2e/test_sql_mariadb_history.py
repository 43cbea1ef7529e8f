"""What MariaDB keeps beside the jobs: the history of topics that want one, the views for people, and what fsck finds in a database that was damaged."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from mariadb import MariadbServer
from server import BINARY, REPO, eventually
from sql_serving import tarry, transaction

DAY_MS = 86400000


@pytest.fixture(scope="module")
def mariadb():
    with MariadbServer() as server:
        assert tarry("sql", "migrate", server.url).returncode == 0
        yield server


@pytest.fixture
def pair(mariadb, start_server):
    return [start_server("--store", mariadb.url) for _ in range(2)]


# ---- history ----

def test_history_says_what_became_of_a_job_that_is_gone(pair, mariadb):
    client, other = (server.client() for server in pair)
    client.put_topic("closed", history="30d", max_attempts=2, backoff="fixed:1ms")
    assert client.good("GET", "/v1/topics/closed")["settings"]["history"] == "30d"
    client.push("closed", "1001")
    [job] = client.take("closed", wait="5s", consumer="worker-a")
    client.nack(job["lease"], error="no")
    [job] = client.take("closed", wait="5s", consumer="worker-b")
    other.ack(job["lease"])
    events = other.good("GET", "/v1/topics/closed/jobs/1001/history")["history"]
    assert [(event["event"], event["attempt"], event.get("by"), event.get("error")) for event in events] == [
        ("nacked", 1, "worker-a", "no"), ("acked", 2, "worker-b", None)]
    told = subprocess.run([str(BINARY), "history", "closed", "1001", "--url", f"http://127.0.0.1:{pair[0].port}"], capture_output=True, text=True, check=True).stdout
    assert "acked" in told and "by worker-b" in told
    for ident, commit in (("1002", True), ("1003", False)):
        with transaction(mariadb, commit) as cursor:
            mariadb.call("push", "closed", ident, 3600000, b"x", cursor=cursor)
            mariadb.call("push", "closed", ident, 3600000, b"y", cursor=cursor)
            mariadb.call("cancel", "closed", ident, cursor=cursor)
    assert mariadb.rows("SELECT id, event, consumer FROM tarry.job_history WHERE id IN ('1002', '1003') ORDER BY number") == (
        ("1002", "replaced", "root"), ("1002", "cancelled", "root"))
    client.push("closed", "1004")
    for _ in range(2):
        [job] = client.take("closed", wait="5s", consumer="worker-c")
        client.nack(job["lease"], error="broken")
    assert _told(mariadb, "1004") == [("nacked", "worker-c", "broken"), ("nacked", "worker-c", "broken"), ("died", "worker-c", "broken")]
    assert mariadb.rows("SELECT id, status FROM tarry.mykit_delay_queue_job WHERE topic = 'closed' ORDER BY id") == (("1001", 3), ("1002", 4), ("1004", 6))
    assert ("1001", 3, "worker-b") in mariadb.rows("SELECT id, status, thread FROM tarry.mykit_delay_queue_job_log")
    assert client.call("GET", "/v1/topics/closed/jobs/none/history").status == 404
    client.delete_topic("closed")
    assert mariadb.do("SELECT count(*) FROM tarry.job_history WHERE id = '1001'") == 0


def _told(mariadb, ident):
    return list(mariadb.rows("SELECT event, consumer, error FROM tarry.job_history WHERE id = %s ORDER BY number", ident))


def test_each_way_that_a_job_goes_is_told(pair, mariadb):
    client, other = (server.client() for server in pair)
    client.put_topic("ways", history="1d", max_attempts=1)
    for way in ("replaced", "cancelled", "wanted", "purged", "redriven"):
        client.push("ways", way, delay="1h")
    client.push("ways", "replaced", delay="2h")
    client.good("DELETE", "/v1/topics/ways/jobs/cancelled")
    client.run("ways", "wanted")
    assert client.take("ways", wait="5s", lease_for="300ms")
    assert other.call("DELETE", "/v1/topics/ways/jobs/wanted?request=true").status == 202
    eventually(lambda: client.call("GET", "/v1/topics/ways/jobs/wanted").status == 404)
    client.run("ways", "redriven")
    client.nack(client.take("ways", wait="5s")[0]["lease"])
    client.topic_verb("ways", "redrive")
    client.ack(client.take("ways", wait="5s")[0]["lease"])
    client.good("POST", "/v1/topics/ways/purge")
    client.push("ways", "expired", ttl="50ms")
    eventually(lambda: client.topic("ways")["totals"]["expired"] == 1)
    told = {way: [event for event, *_ in _told(mariadb, way)] for way in ("replaced", "cancelled", "wanted", "purged", "redriven", "expired")}
    assert told == {"replaced": ["replaced", "purged"], "cancelled": ["cancelled"], "wanted": ["lease_ended", "cancelled"],
                    "purged": ["purged"], "redriven": ["nacked", "died", "redriven", "acked"], "expired": ["expired"]}


def test_topics_that_want_no_history_have_none(pair, mariadb):
    client = pair[0].client()
    client.push("plain", "1")
    client.ack(client.take("plain", wait="5s")[0]["lease"])
    mariadb.call("push", "plain", "2", 3600000, b"x")
    mariadb.call("cancel", "plain", "2")
    assert mariadb.do("SELECT count(*) FROM tarry.history h JOIN tarry.topic t ON t.topic = h.topic WHERE t.name = 'plain'") == 0


def _days(mariadb):
    return [name for name, in mariadb.rows("SELECT partition_name FROM information_schema.partitions WHERE table_schema = 'tarry' AND table_name = 'history' "
                                           "AND partition_name <> 'history_rest' ORDER BY partition_ordinal_position")]


def test_old_days_of_the_history_are_dropped_whole_and_days_to_come_are_there(start_server):
    with MariadbServer() as own:
        assert tarry("sql", "migrate", own.url).returncode == 0
        client = start_server("--store", own.url).client()
        own.do("CALL tarry.server_history_days()")
        assert not _days(own)  # nobody wants one
        now = own.do("SELECT tarry.now_ms()")
        client.put_topic("days", history="30d")
        today = own.do("SELECT DATE_FORMAT(FROM_UNIXTIME(%s DIV 86400000 * 86400), '%%Y%%m%%d')", now)
        eventually(lambda: len(_days(own)) == 3)
        assert _days(own)[0] == f"history_{today}"
        own.do("ALTER TABLE tarry.history DROP PARTITION " + ", ".join(_days(own)))
        own.do("INSERT INTO tarry.history (at, topic, id, event, attempt) SELECT %s, topic, 'kept', 'acked', 1 FROM tarry.topic WHERE name = 'days'", now)
        own.do(f"ALTER TABLE tarry.history REORGANIZE PARTITION history_rest INTO (PARTITION history_20200101 VALUES LESS THAN ({18263 * DAY_MS}), "
               "PARTITION history_rest VALUES LESS THAN MAXVALUE)")
        with transaction(own, commit=False) as cursor:
            cursor.execute("SELECT count(*) FROM tarry.history")  # who reads holds it up, and hardly anybody waits for him
            own.do("CALL tarry.server_history_days()")
            assert _days(own) == ["history_20200101"]
        own.do("CALL tarry.server_history_days()")
        assert len(_days(own)) == 3 and "history_20200101" not in _days(own)
        assert own.do(f"SELECT id FROM tarry.history PARTITION ({_days(own)[0]})") == "kept"  # it went where it belongs
        client.put_topic("days", history="0s")
        own.do("CALL tarry.server_history_days()")
        assert len(_days(own)) == 3  # of today and later: they go one by one, when they are over


# ---- what the pages show ----

def test_the_demo_starts_a_mariadb_of_its_own_and_leaves_nothing():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-demo-", dir="/tmp"))
    try:
        done = subprocess.run([str(REPO / "scripts/demo"), "1"], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "STORE": "mysql", "TARRY_BIN": str(BINARY), "TMPDIR": str(directory)})
        assert done.returncode == 0 and "every order came once, none early" in done.stdout, done.stdout + done.stderr
        assert list(directory.iterdir()) == []
    finally:
        shutil.rmtree(directory)
