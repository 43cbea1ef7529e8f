"""Data next to the jobs in MariaDB: the history of topics, the views for people, and the findings of fsck in a damaged database."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

import pytest
from mariadb import MariadbServer
from server import BINARY, REPO, Server, eventually, meanwhile
from sql_serving import migrated, tarry, transaction

DAY_MS = 86400000


@pytest.fixture(scope="module")
def mariadb():
    with migrated(MariadbServer()) as server:
        yield server


@pytest.fixture
def pair(mariadb, start_server):
    return [start_server("--store", mariadb.url) for _ in range(2)]


# ---- history ----

def test_history_has_the_outcome_of_a_finished_job(pair, mariadb):
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
    reported = subprocess.run([str(BINARY), "history", "closed", "1001", "--url", f"http://127.0.0.1:{pair[0].port}"], capture_output=True, text=True, check=True).stdout
    assert "acked" in reported and "by worker-b" in reported
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
    assert _events_of(mariadb, "1004") == [("nacked", "worker-c", "broken"), ("nacked", "worker-c", "broken"), ("died", "worker-c", "broken")]
    assert mariadb.rows("SELECT id, status FROM tarry.mykit_delay_queue_job WHERE topic = 'closed' ORDER BY id") == (("1001", 3), ("1002", 4), ("1004", 6))
    assert ("1001", 3, "worker-b") in mariadb.rows("SELECT id, status, thread FROM tarry.mykit_delay_queue_job_log")
    assert client.call("GET", "/v1/topics/closed/jobs/none/history").status == 404
    client.delete_topic("closed")
    assert mariadb.do("SELECT count(*) FROM tarry.job_history WHERE id = '1001'") == 0


def _events_of(mariadb, ident):
    return list(mariadb.rows("SELECT event, consumer, error FROM tarry.job_history WHERE id = %s ORDER BY number", ident))


def test_history_has_each_kind_of_end(pair, mariadb):
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
    reported = {way: [event for event, *_ in _events_of(mariadb, way)] for way in ("replaced", "cancelled", "wanted", "purged", "redriven", "expired")}
    assert reported == {"replaced": ["replaced", "purged"], "cancelled": ["cancelled"], "wanted": ["lease_ended", "cancelled"],
                    "purged": ["purged"], "redriven": ["nacked", "died", "redriven", "acked"], "expired": ["expired"]}


def test_topics_without_history_record_nothing(pair, mariadb):
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
    with migrated(MariadbServer()) as own:
        server = start_server("--store", own.url)
        client = server.client()
        own.do("CALL tarry.server_history_days()")
        assert not _days(own)  # no topic has a history
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
            cursor.execute("SELECT count(*) FROM tarry.history")  # a reader blocks it, and few transactions wait for the reader
            own.do("CALL tarry.server_history_days()")
            assert _days(own) == ["history_20200101"]
        own.do("CALL tarry.server_history_days()")
        assert len(_days(own)) == 3 and "history_20200101" not in _days(own)
        assert own.do(f"SELECT id FROM tarry.history PARTITION ({_days(own)[0]})") == "kept"  # it went where it belongs
        client.put_topic("days", history="0s")
        own.do("CALL tarry.server_history_days()")
        assert len(_days(own)) == 3  # of today and later: they are removed one by one, when they have ended
        server.terminate()


def test_a_cancel_in_sql_can_be_requested_of_the_holder(pair, mariadb):
    client = pair[0].client()
    client.put_topic("wanted", history="1d")
    client.push("wanted", "1")
    [job] = client.take("wanted", wait="5s")
    for commit, requested in ((False, False), (True, True)):
        with transaction(mariadb, commit) as cursor:
            assert mariadb.call("cancel_with", "wanted", "1", True, cursor=cursor) == "requested"
            assert mariadb.call("cancel_with", "wanted", "1", False, cursor=cursor) == "leased"
        assert client.good("GET", "/v1/topics/wanted/jobs/1").get("cancel_requested", False) == requested
    client.nack(job["lease"])
    assert client.call("GET", "/v1/topics/wanted/jobs/1").status == 404
    assert mariadb.call("cancel_with", "wanted", "1", True) == "not_found"
    assert [event for event, *_ in _events_of(mariadb, "1")] == ["nacked", "cancelled"]


# ---- looking it over ----

NOTHING = "clean\n"
DAMAGES = [
    ("UPDATE tarry.tally SET fresh = fresh + 3", "its counts of waiting, retrying, leased and dead jobs and of dead bytes differ by (-3, 0, 0, 0, 0)", 3, True),
    ("UPDATE tarry.tally SET dead_bytes = dead_bytes + 1", "differ by (0, 0, 0, 0, -1)", 0, True),
    ("DELETE FROM tarry.level WHERE level = 100", "its priority 100 is not listed, so its jobs are never taken", 2, True),
    ("UPDATE tarry.job SET level = 70000 WHERE id = 'later'", "the state of jobs does not match their level", 1, False),
    ("UPDATE tarry.job SET priority = 7 WHERE id = 'later'", "the state of jobs does not match their level", 1, False),
    ("UPDATE tarry.job SET delivery = 0 WHERE id = 'held'", "the state of jobs does not match their level", 1, False),
    ("INSERT INTO tarry.job (topic, level, due, seq, id, priority, first_due, body_bytes, body) VALUES (99, 1, 1, 1, 'stray', 1, 1, 1, 'x')",
     "jobs of topics that do not exist", 1, False),
    ("INSERT INTO tarry.job_key SELECT topic, 'nobody' FROM tarry.topic WHERE name = 'checked'", "ids that no job has, so no job can get them", 1, True),
    ("DELETE FROM tarry.job_key WHERE id = 'later'", "jobs whose id is not listed, so another job can get it", 1, True),
    ("UPDATE tarry.job SET lease_until = lease_until - 7200000 WHERE id = 'held'", "leases ended more than a minute ago", 1, False),
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Jobs in each state, and no server any more: nothing moves."""
    with migrated(MariadbServer()) as own:
        server = Server(tmp_path_factory.mktemp("filled"), ["--store", own.url]).start()
        fill(server.client())
        assert server.terminate() == 0
        assert tarry("fsck", "--store", own.url).stdout == NOTHING
        yield own


def fill(client):
    client.put_topic("checked", max_attempts=1)
    for ident in ("held", "dead"):
        client.push("checked", ident, priority=5)
    leases = {job["id"]: job["lease"] for job in client.take("checked", max=2, wait="5s", lease_for="1h")}
    client.nack(leases["dead"])
    for ident in ("later", "much-later"):
        client.push("checked", ident, delay="1h")


@pytest.mark.parametrize("damage,text,jobs,is_mended", DAMAGES)
def test_fsck_finds_damage_and_repairs_counts_and_priorities(filled, damage, text, jobs, is_mended):
    copies = {table: filled.rows(f"SELECT * FROM tarry.{table}") for table in ("job", "job_key", "level", "tally", "tally_add")}
    filled.do(damage.replace("%", "%%"))
    found = tarry("fsck", "--store", filled.url, "--json")
    [finding] = json.loads(found.stdout)["findings"]
    assert found.returncode == 1 and text in finding["text"] and finding["jobs"] == jobs and not finding["mended"]
    mended = tarry("fsck", "--store", filled.url, "--repair")
    assert text in mended.stdout and ("repaired" in mended.stdout, mended.returncode) == ((True, 0) if is_mended else (False, 1))
    assert (tarry("fsck", "--store", filled.url).stdout == NOTHING) == is_mended
    for table, rows in copies.items():
        filled.do(f"DELETE FROM tarry.{table}")
        for row in rows:
            filled.do(f"INSERT INTO tarry.{table} VALUES ({', '.join(['%s'] * len(row))})", *row)
    assert tarry("fsck", "--store", filled.url).stdout == NOTHING


def test_fsck_is_right_while_servers_are_at_work_and_mends_beneath_them(pair, mariadb):
    client = pair[0].client()
    client.push("beneath", "before")

    def work(ended):
        busy = pair[1].client()
        while not ended.is_set():
            busy.push("busy", None)
            for job in busy.take("busy", max=10):
                busy.ack(job["lease"])

    with meanwhile(work):
        for _ in range(5):
            assert tarry("fsck", "--store", mariadb.url).stdout == NOTHING
        client.ack(client.take("beneath", wait="5s")[0]["lease"])
        mariadb.do("DELETE FROM tarry.level WHERE topic = (SELECT topic FROM tarry.topic WHERE name = 'beneath')")
        mariadb.do("INSERT INTO tarry.job (topic, level, due, seq, id, priority, first_due, body_bytes, body) "
                   "SELECT topic, 100, 1, 1, 'behind', 100, 1, 1, 'x' FROM tarry.topic WHERE name = 'beneath'")
        taken = []
        waiting = threading.Thread(target=lambda: taken.extend(client.take("beneath", wait="20s")))
        waiting.start()
        mended = tarry("fsck", "--store", mariadb.url, "--repair")
        waiting.join()
    assert mended.stdout.count("repaired") == 3 and [job["id"] for job in taken] == ["behind"]
    assert tarry("fsck", "--store", mariadb.url).stdout == NOTHING


# ---- backups ----

def test_a_restored_dump_has_its_jobs_and_delivery_numbers_continue(start_server):
    page = (REPO / "docs/sql.md").read_text()
    dump = re.search(r"^mariadb-dump (.*) > tarry.sql$", page, re.MULTILINE).group(1)
    with MariadbServer() as own, MariadbServer() as other:
        server = start_server("--store", own.url, "--migrate")
        client = server.client()
        client.put_topic("dumped", history="9d")
        client.push("dumped", "a", body=b"\x00'\xff")
        client.push("dumped", "later", delay="1h")
        own.call("push", "dumped", "mine", 7200000, b"x")
        client.ack(client.take("dumped", wait="5s")[0]["lease"])
        client.push("dumped", "b", body=b"\x00'\xff")
        text = subprocess.run(["mariadb-dump", "--no-defaults", f"--socket={own.socket}", "--user=root", *dump.split()], capture_output=True, check=True, timeout=60).stdout
        taken = client.take("dumped", wait="5s")[0]
        server.terminate()
        subprocess.run(other.client(), input=text, check=True, timeout=60)
        other.do(re.search(r"`(UPDATE tarry.store SET machine = 'restored')`", page).group(1))
        assert tarry("fsck", "--store", other.url).stdout == NOTHING
        again = start_server("--store", other.url)
        [job] = again.client().take("dumped", wait="5s")
        assert (job["id"], job["body_base64"]) == ("b", "ACf/") and job["delivery"] > taken["delivery"]
        assert again.client().good("GET", "/v1/topics/dumped/jobs/a/history")["history"][0]["event"] == "acked"
        assert other.call("cancel", "dumped", "mine") == "cancelled" and again.client().topic("dumped")["counts"]["delayed"] == 1
        again.terminate()


def test_jobs_go_to_another_store_and_come_back_as_they_were(pair, start_server):
    client, elsewhere = pair[0].client(), start_server()
    client.put_topic("moved", max_attempts=1, priority=7, ttl="9d")
    client.push("moved", "delayed", body=b'{"a": [1, "\xc3\xa4"]}', content_type="application/json", delay="1h", meta={"who": "me"}, priority=3)
    client.push("moved", "bytes", body=bytes(range(256)) * 100, delay="2h", backoff="fixed:7s")
    client.push("moved", "dead")
    client.nack(client.take("moved", wait="5s")[0]["lease"], error="broken")

    def shown(queue):
        jobs = queue.list("moved", body="true")["jobs"]
        kept = ("id", "state", "priority", "attempt", "meta", "content_type", "body", "body_base64", "last_error")
        return [({key: job.get(key) for key in kept}, job["state"] == "dead" or job["due_at"]) for job in jobs]

    before = shown(client)
    assert [(job["id"], job["last_error"]) for job, _ in before] == [("dead", "broken"), ("delayed", None), ("bytes", None)]
    for source, to in ((pair[0], elsewhere), (elsewhere, pair[1])):
        dump = source.cli("export", "--topic", "moved").stdout
        if source is elsewhere:
            client.delete_topic("moved")
        done = to.cli("import", "-", input=dump)
        assert done.returncode == 0, done.stderr
        assert shown(to.client()) == before
    assert client.good("GET", "/v1/topics/moved")["settings"]["priority"] == 7


# ---- what the pages show ----

@pytest.fixture(scope="module", autouse=True)
def demo():
    """A demo that waits for its orders while the other tests run."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-demo-", dir="/tmp"))
    with subprocess.Popen([str(REPO / "scripts/demo")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                          env={**os.environ, "STORE": "mysql", "TARRY_BIN": str(BINARY), "TMPDIR": str(directory)}) as process:
        yield process, directory
        if process.poll() is None:
            process.terminate()  # it ends what it started
    shutil.rmtree(directory)


def test_the_demo_starts_a_mariadb_of_its_own_and_leaves_nothing(demo):
    process, directory = demo
    answer, _ = process.communicate(timeout=120)
    assert process.returncode == 0 and "every order was delivered once, not early" in answer, answer
    assert list(directory.iterdir()) == []
