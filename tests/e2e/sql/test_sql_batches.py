"""Jobs that wait for other jobs in PostgreSQL: pushed in a user's own transaction, over several servers."""

import os
import threading
import time

import psycopg2
import pytest
from batch_kills import CANCELLED, Actor, complete_while_killed
from client import Refused
from server import eventually
from sql_serving import drain, transaction

BATCHES = int(os.environ.get("TARRY_TEST_BATCHES", "60"))
KILLS = int(os.environ.get("TARRY_TEST_BATCH_KILLS", "4"))
FULL = "acked={} dead={} cancelled={} expired={} missing={}"


@pytest.fixture
def pair(postgres, start_server):
    return [start_server("--store", postgres.url).client() for _ in range(2)]


def outcome(client, topic, ident, wait="5s"):
    """Takes the waiting job, acks it, and returns what its meta has of its members."""
    (job,) = client.take(topic, max=10, wait=wait)
    assert job["id"] == ident
    client.ack(job["lease"])
    return job["meta"]["tarry-batch"]


def batch(postgres, ident):
    return postgres.rows(f"SELECT waits_for, closed, ended, acked, dead, cancelled FROM tarry.batches WHERE id = '{ident}'")


# ---- users' transactions ----

def test_a_transaction_pushes_a_job_with_its_members(postgres, pair):
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('reports', 'import-7', body => 'all rows', waits => true)")
        cursor.execute("SELECT tarry.push('rows', 'row-' || i, batch_topic => 'reports', batch_id => 'import-7') FROM generate_series(1, 20) i")
        cursor.execute("SELECT tarry.close('reports', 'import-7')")
    eventually(lambda: batch(postgres, "import-7")[0][:3] == (20, True, False))
    job = pair[0].get("reports", "import-7")
    assert job["state"] == "delayed" and job["waits_for"] == 20 and "due_at" not in job
    assert pair[1].get("rows", "row-3")["batch"] == {"topic": "reports", "id": "import-7"}
    assert len(drain(pair[1], "rows")) == 20
    assert outcome(pair[0], "reports", "import-7") == FULL.format(20, 0, 0, 0, 0)
    eventually(lambda: postgres.rows("SELECT batch FROM tarry.batch") == [])


def test_a_rolled_back_transaction_leaves_no_batch(postgres, pair):
    with transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.push('reports', 'never', waits => true)")
        cursor.execute("SELECT tarry.push('rows', 'never', batch_topic => 'reports', batch_id => 'never')")
    assert postgres.rows("SELECT * FROM tarry.batches") == []
    with pytest.raises(Refused) as refused:
        pair[0].push("rows", "late", batch_topic="reports", batch_id="never")
    assert refused.value.reply.code == "no_batch"


def test_an_open_transaction_keeps_a_batch_open_and_delays_no_server(postgres, pair):
    """A member that is not committed yet counts: the close waits for it, but no call does."""
    pair[0].push("reports", "open", waits="true")
    pair[0].push("rows", "first", batch_topic="reports", batch_id="open")
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('rows', 'second', batch_topic => 'reports', batch_id => 'open')")
        pair[1].good("POST", "/v1/topics/reports/jobs/open/close")
        with pytest.raises(Refused) as refused:
            pair[1].push("rows", "third", batch_topic="reports", batch_id="open")
        assert refused.value.reply.code == "batch_closed"
        assert drain(pair[0], "rows") == ["first"]
        assert pair[0].take("reports", wait="500ms") == []
    assert drain(pair[0], "rows", seconds=1) == ["second"]
    assert outcome(pair[1], "reports", "open") == FULL.format(2, 0, 0, 0, 0)


def test_a_cancel_in_a_transaction_completes_a_batch(postgres, pair):
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('reports', 'half', waits => true)")
        cursor.execute("SELECT tarry.push('rows', i, '1 hour', batch_topic => 'reports', batch_id => 'half') FROM unnest('{kept,dropped}'::text[]) i")
        cursor.execute("SELECT tarry.close('reports', 'half')")
    pair[0].run("rows", "kept")
    assert drain(pair[0], "rows", seconds=1) == ["kept"]
    got = []
    waiter = threading.Thread(target=lambda: got.append(outcome(pair[1], "reports", "half", wait="10s")))
    waiter.start()
    assert postgres.do("SELECT tarry.cancel('rows', 'dropped')") == "cancelled"
    waiter.join(timeout=3)  # a notification, not the check of each second, or later
    assert got == [FULL.format(1, 0, 1, 0, 0)]


@pytest.mark.parametrize(("arguments", "message"), [
    ("'r', 'x', batch_topic => 'r'", "belong together"), ("'r', 'x', on_dead => 'go'", "does not wait"), ("'r', 'x', waits => true, on_dead => 'die'", "bad on_dead"),
    ("'r', 'x', waits => true, members => 0", "not between"), ("'r', 'x', waits => true, wait_at_most => '0'", "not between"),
    ("'r', 'x', batch_topic => 'r', batch_id => 'none'", "waits for members"), ("'r', 'x', batch_topic => 'r s', batch_id => 'none'", "bad batch")])
def test_bad_batches_are_rejected(postgres, arguments, message):
    with pytest.raises(psycopg2.Error, match=message):
        postgres.do(f"SELECT tarry.push({arguments})")


# ---- what the tests of MariaDB do as well ----

def expect_three_members(pair):
    """The third member closes the batch, at whichever server it is pushed."""
    pair[0].push("reports", "three", waits="true", members=3)
    assert [pair[n % 2].push("rows", f"m{n}", batch_topic="reports", batch_id="three")["result"] for n in range(3)] == ["created"] * 3
    with pytest.raises(Refused):
        pair[1].push("rows", "m3", batch_topic="reports", batch_id="three")


def ack_three_members(pair):
    for job in pair[0].take("rows", max=10):
        pair[1].ack(job["lease"])
    assert outcome(pair[1], "reports", "three") == FULL.format(3, 0, 0, 0, 0)


def stop_many_members(pair):
    pair[0].push("reports", "big", waits="true", on_dead="stop")
    for first in range(0, 2500, 500):
        items = [{"topic": "rows", "id": f"big-{i}", "delay": "1h", "batch": {"topic": "reports", "id": "big"}} for i in range(first, first + 500)]
        assert {result["result"] for result in pair[first // 500 % 2].push_batch(items)} == {"created"}
    pair[0].run("rows", "big-7")
    (job,) = pair[0].take("rows", wait="2s")
    pair[0].nack(job["lease"], final="true")
    assert outcome(pair[1], "reports", "big", wait="20s") == FULL.format(0, 1, 2499, 0, 0)


def list_members_and_kept_ones(pair):
    pair[0].put_topic("kept", keep_finished="1h")
    reply = pair[0].good("POST", "/v1/batches", b'{"job":{"topic":"reports","id":"all","body":"x"},"members":[{"topic":"kept","id":"a"},{"topic":"kept","id":"b"}]}',
                         headers={"Content-Type": "application/json"})
    assert [result["result"] for result in reply["results"]] == ["created"] * 3
    pair[1].ack(pair[1].take("kept", max=1)[0]["lease"])
    members = pair[0].good("GET", "/v1/topics/reports/jobs/all/members")["members"]
    assert {member["id"]: member["state"] for member in members} in ({"a": "finished", "b": "ready"}, {"a": "ready", "b": "finished"})
    drain(pair[0], "kept")
    assert outcome(pair[0], "reports", "all") == FULL.format(2, 0, 0, 0, 0)


# ---- servers ----

def test_the_last_expected_member_closes_the_batch_at_any_server(postgres, pair):
    expect_three_members(pair)
    assert batch(postgres, "three")[0][:2] == (3, True)
    ack_three_members(pair)


def test_a_stop_cancels_more_members_than_one_step(postgres, pair):
    stop_many_members(pair)
    assert postgres.do("SELECT count(*) FROM tarry.job WHERE topic = (SELECT topic FROM tarry.topic WHERE name = 'rows') AND state <> 4") == 0
    pair[0].topic_verb("rows", "purge")


def test_members_are_listed_also_kept_ones(pair):
    list_members_and_kept_ones(pair)


def test_fsck_counts_the_members_again(postgres, pair):
    pair[0].push("reports", "wrong", waits="true")
    pair[0].push("rows", "one", batch_topic="reports", batch_id="wrong")
    pair[0].good("POST", "/v1/topics/reports/jobs/wrong/close")
    assert postgres.rows("SELECT finding FROM tarry._fsck(false)") == []
    postgres.do("UPDATE tarry.batch SET unfinished = 5")
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT * FROM tarry._fsck(true)")
        assert [("batch" in finding, jobs, mended) for finding, jobs, mended in cursor.fetchall()] == [(True, 4, True)]
    eventually(lambda: postgres.do("SELECT unfinished FROM tarry.batch") == 1)
    drain(pair[0], "rows")
    assert outcome(pair[0], "reports", "wrong") == FULL.format(1, 0, 0, 0, 0)


def test_each_batch_completes_once_while_servers_are_killed(postgres, start_server):
    """Every other batch is pushed in a user's transaction, and a user cancels members."""
    servers = [start_server("--store", postgres.url) for _ in range(3)]

    def push_in_a_transaction(name, members):
        with transaction(postgres, commit=True) as cursor:
            cursor.execute("SELECT tarry.push('t', %s, waits => true)", [name])
            cursor.execute("SELECT tarry.push('m', i, delay => interval '500 ms' * (n %% 2), batch_topic => 't', batch_id => %s) "
                           "FROM unnest(%s::text[]) WITH ORDINALITY AS member (i, n)", [name, members])
            cursor.execute("SELECT tarry.close('t', %s)", [name])

    class Canceller(Actor):
        def work(self, _):
            with transaction(postgres, commit=True) as cursor:
                # Not a dead one, whose outcome may be delivered already.
                cursor.execute("SELECT id FROM tarry.job WHERE batch IS NOT NULL AND state = 1 ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED")
                found = cursor.fetchone()
                if found:
                    member = found[0]
                    end = self.story.end(member, time.monotonic(), CANCELLED)
                    cursor.execute("SELECT tarry.cancel('m', %s)", [member])
                    end.applied = cursor.fetchone()[0] == CANCELLED
            time.sleep(0.1)

    story = complete_while_killed(servers, BATCHES, 200 if BATCHES > 100 else 20, KILLS, push_in_a_transaction, [Canceller])
    assert any(end.applied for ends in story.ends.values() for end in ends if end.outcome == CANCELLED)
    servers[0].client().topic_verb("m", "purge")
    eventually(lambda: postgres.rows("SELECT id FROM tarry.job") == [], seconds=30)


def test_views_and_fsck_have_no_leftovers(postgres):
    eventually(lambda: postgres.rows("SELECT * FROM tarry.batches") == [] and postgres.rows("SELECT * FROM tarry.batch_add") == [])
    assert postgres.rows("SELECT finding FROM tarry._fsck(false)") == []
