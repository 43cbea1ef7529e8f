"""Jobs that wait for other jobs in MariaDB: pushed in a user's own transaction, over several servers.

TARRY_TEST_MYSQL=8.0 (or newest, see mysql.py) runs all of it on MySQL.
"""

import os
import threading
import time

import pymysql
import pytest
from batch_kills import CANCELLED, Actor, complete_while_killed
from client import Refused
from server import eventually
from sql_serving import drain, tarry, transaction
from test_sql_batches import FULL, ack_three_members, expect_three_members, list_members_and_kept_ones, outcome, stop_many_members

BATCHES = int(os.environ.get("TARRY_TEST_BATCHES", "40"))
KILLS = int(os.environ.get("TARRY_TEST_BATCH_KILLS", "4"))


@pytest.fixture
def pair(mariadb, start_server):
    return [start_server("--store", mariadb.url).client() for _ in range(2)]


def batch(mariadb, ident):
    return mariadb.rows(f"SELECT waits_for, closed, ended, acked, dead, cancelled FROM tarry.batches WHERE id = '{ident}'")


def push_waiting(cursor, topic, ident, on_dead=None, members=None):
    cursor.execute("CALL tarry.push_waiting(%s, %s, NULL, '', %s, NULL, NULL, %s, NULL, NULL, @result)", (topic, ident, members, on_dead))


def push_member(cursor, topic, ident, batch_id, delay_ms=None, batch_topic="reports"):
    cursor.execute("CALL tarry.push_member(%s, %s, %s, '', %s, %s, @result)", (topic, ident, delay_ms, batch_topic, batch_id))


def result(cursor):
    cursor.execute("SELECT @result")
    return cursor.fetchone()[0]


def findings(mariadb, *flags):
    return [line for line in tarry("fsck", "--store", mariadb.url, *flags).stdout.splitlines() if "member" in line or "batch" in line]


# ---- users' transactions ----

def test_a_transaction_pushes_a_job_with_its_members(mariadb, pair):
    with transaction(mariadb, commit=True) as cursor:
        push_waiting(cursor, "reports", "import-7")
        assert result(cursor) == "created"
        for n in range(20):
            push_member(cursor, "rows", f"row-{n}", "import-7")
        push_waiting(cursor, "reports", "import-7")
        assert result(cursor) == "waits"
        cursor.execute("CALL tarry.close('reports', 'import-7', @result)")
        assert result(cursor) == "ok"
    eventually(lambda: batch(mariadb, "import-7")[0][:3] == (20, 1, 0))
    job = pair[0].get("reports", "import-7")
    assert job["state"] == "delayed" and job["waits_for"] == 20 and "due_at" not in job
    assert pair[1].get("rows", "row-3")["batch"] == {"topic": "reports", "id": "import-7"}
    assert len(drain(pair[1], "rows")) == 20
    assert outcome(pair[0], "reports", "import-7") == FULL.format(20, 0, 0, 0, 0)
    eventually(lambda: mariadb.rows("SELECT batch FROM tarry.batch") == () or mariadb.rows("SELECT batch FROM tarry.batch") == [])


def test_a_rolled_back_transaction_leaves_no_batch(mariadb, pair):
    with transaction(mariadb, commit=False) as cursor:
        push_waiting(cursor, "reports", "never")
        push_member(cursor, "rows", "never", "never")
    assert not mariadb.rows("SELECT * FROM tarry.batches")
    with pytest.raises(Refused) as refused:
        pair[0].push("rows", "late", batch_topic="reports", batch_id="never")
    assert refused.value.reply.code == "no_batch"


def test_an_open_transaction_keeps_a_batch_open_and_delays_no_server(mariadb, pair):
    """A member that is not committed yet counts: the close waits for it, but no call does."""
    pair[0].push("reports", "open", waits="true")
    pair[0].push("rows", "first", batch_topic="reports", batch_id="open")
    with transaction(mariadb, commit=True) as cursor:
        push_member(cursor, "rows", "second", "open")
        pair[1].good("POST", "/v1/topics/reports/jobs/open/close")
        with pytest.raises(Refused) as refused:
            pair[1].push("rows", "third", batch_topic="reports", batch_id="open")
        assert refused.value.reply.code == "batch_closed"
        assert drain(pair[0], "rows") == ["first"]
        assert pair[0].take("reports", wait="500ms") == []
        assert pair[0].get("reports", "open")["waits_for"] == 0
    assert drain(pair[0], "rows", seconds=2) == ["second"]
    assert outcome(pair[1], "reports", "open") == FULL.format(2, 0, 0, 0, 0)


def test_an_open_transaction_that_pushes_members_delays_no_server(mariadb, pair):
    """Servers count members of the same batch, and cancel and stop it, while a user's transaction has pushed to it."""
    pair[0].push("reports", "busy", waits="true", on_dead="stop")
    for n in range(3):
        pair[0].push("rows", f"busy-{n}", batch_topic="reports", batch_id="busy")
    with transaction(mariadb, commit=True) as cursor:
        push_member(cursor, "rows", "late", "busy")
        begun = time.monotonic()
        jobs = {job["id"]: job["lease"] for job in pair[1].take("rows", max=2, wait="2s")}
        pair[1].ack(jobs["busy-0"])
        pair[0].nack(jobs["busy-1"], final="true")
        assert time.monotonic() - begun < 3
        assert pair[0].call("GET", "/v1/topics/rows/jobs/busy-2").status == 404
    assert outcome(pair[1], "reports", "busy", wait="10s").startswith("acked=1 dead=1 cancelled=")
    eventually(lambda: not [job for job in pair[0].take("rows", max=10) if not pair[0].ack(job["lease"])])
    pair[0].topic_verb("rows", "purge")


def test_a_cancel_in_a_transaction_completes_a_batch(mariadb, pair):
    with transaction(mariadb, commit=True) as cursor:
        push_waiting(cursor, "reports", "half")
        for ident in ("kept", "dropped"):
            push_member(cursor, "rows", ident, "half", delay_ms=3600000)
        cursor.execute("CALL tarry.close('reports', 'half', @result)")
    pair[0].run("rows", "kept")
    assert drain(pair[0], "rows", seconds=1) == ["kept"]
    got = []
    waiter = threading.Thread(target=lambda: got.append(outcome(pair[1], "reports", "half", wait="10s")))
    waiter.start()
    assert mariadb.call("cancel", "rows", "dropped") == "cancelled"
    waiter.join(timeout=3)  # a notification, not the check of each second, or later
    assert got == [FULL.format(1, 0, 1, 0, 0)]


def test_users_change_waiting_jobs(mariadb, pair):
    """A run ends the wait, a reschedule sets the delay after it, a replaced dead member is unfinished again."""
    pair[0].push("reports", "changed", waits="true")
    with transaction(mariadb, commit=True) as cursor:
        push_member(cursor, "rows", "c-1", "changed")
        cursor.execute("CALL tarry.reschedule('reports', 'changed', 1, NULL, NULL, @result)")
        assert result(cursor) == "ok"
    assert pair[0].get("reports", "changed")["state"] == "delayed"
    (job,) = pair[0].take("rows", wait="2s")
    pair[0].nack(job["lease"], final="true")
    eventually(lambda: batch(mariadb, "changed")[0][4] == 1)
    assert mariadb.call("push", "rows", "c-1", None, b"again") == "replaced"
    eventually(lambda: batch(mariadb, "changed")[0][:5] == (1, 0, 0, 0, 0))
    assert mariadb.call("run", "reports", "changed") == "ok"
    assert outcome(pair[1], "reports", "changed") == FULL.format(0, 0, 0, 0, 1)
    drain(pair[0], "rows")


@pytest.mark.parametrize(("call", "message"), [
    ("push_member('r', 'x', NULL, '', 'r', NULL, @r)", "belong together"), ("push_waiting('r', 'x', NULL, '', NULL, NULL, NULL, 'die', NULL, NULL, @r)", "bad on_dead"),
    ("push_waiting('r', 'x', NULL, '', 0, NULL, NULL, NULL, NULL, NULL, @r)", "not between"), ("push_waiting('r', 'x', NULL, '', NULL, 0, NULL, NULL, NULL, NULL, @r)", "not between"),
    ("push_member('r', 'x', NULL, '', 'r', 'none', @r)", "waits for members")])
def test_bad_batches_are_rejected(mariadb, call, message):
    with pytest.raises(pymysql.err.MySQLError, match=message):
        mariadb.do(f"CALL tarry.{call}")


# ---- servers ----

def test_the_last_expected_member_closes_the_batch_at_any_server(mariadb, pair):
    expect_three_members(pair)
    assert batch(mariadb, "three")[0][:2] == (3, 1)
    ack_three_members(pair)


def test_a_stop_cancels_more_members_than_one_step(mariadb, pair):
    stop_many_members(pair)
    assert mariadb.do("SELECT COUNT(*) FROM tarry.job WHERE topic = (SELECT topic FROM tarry.topic WHERE name = 'rows') AND state <> 4") == 0
    pair[0].topic_verb("rows", "purge")
    assert mariadb.do("SELECT COUNT(*) FROM tarry.member") == 0


def test_members_are_listed_also_kept_ones(pair):
    list_members_and_kept_ones(pair)


def test_waiting_jobs_are_listed_page_by_page(mariadb, pair):
    """The due of waiting jobs is not shown, so the next page begins by their sequence."""
    for n in range(5):
        pair[0].push("pages", f"w{n}", waits="true")
    seen, cursor = [], ""
    while cursor is not None:
        page = pair[0].good("GET", f"/v1/topics/pages/jobs?limit=2{cursor}")
        seen += [job["id"] for job in page["jobs"]]
        cursor = f"&cursor={page['cursor']}" if page.get("cursor") else None
        assert len(seen) <= 5
    assert sorted(seen) == [f"w{n}" for n in range(5)]
    pair[0].good("DELETE", "/v1/topics/pages")
    eventually(lambda: not mariadb.rows("SELECT batch FROM tarry.batch") and not mariadb.rows("SELECT batch FROM tarry.batch_gate"))


def test_waiting_jobs_and_members_may_have_groups(mariadb, pair):
    pair[0].push("grouped", "done", waits="true", group="g", delay="200ms")
    pair[0].push("grouped", "work", group="g", batch_topic="grouped", batch_id="done")
    pair[0].good("POST", "/v1/topics/grouped/jobs/done/close")
    assert [job["id"] for job in pair[1].take("grouped", max=5) if pair[1].ack(job["lease"]) or True] == ["work"]
    assert outcome(pair[1], "grouped", "done") == FULL.format(1, 0, 0, 0, 0)
    assert findings(mariadb) == [] and "groups" not in tarry("fsck", "--store", mariadb.url).stdout


def test_fsck_counts_the_members_again(mariadb, pair):
    pair[0].push("reports", "wrong", waits="true")
    pair[0].push("rows", "one", batch_topic="reports", batch_id="wrong")
    pair[0].good("POST", "/v1/topics/reports/jobs/wrong/close")
    assert findings(mariadb) == []
    mariadb.do("UPDATE tarry.batch SET unfinished = 5")
    mariadb.do("UPDATE tarry.member SET dead = 1")
    assert len(findings(mariadb)) == 2
    assert len(findings(mariadb, "--repair")) == 2
    eventually(lambda: mariadb.do("SELECT unfinished FROM tarry.batch") == 1)
    drain(pair[0], "rows")
    assert outcome(pair[0], "reports", "wrong") == FULL.format(1, 0, 0, 0, 0)


def test_plain_jobs_have_no_further_statement(mariadb, pair):
    """A push, a take and an ack of a job of no batch name no table of batches."""
    pair[0].push("plain", "first")
    drain(pair[0], "plain")
    mariadb.do("SET GLOBAL log_output = 'TABLE'")
    mariadb.do("SET GLOBAL general_log = 1")
    try:
        for n in range(3):
            pair[0].push("plain", f"p{n}")
        assert len(drain(pair[0], "plain")) == 3
    finally:
        mariadb.do("SET GLOBAL general_log = 0")
    texts = [row[0] if isinstance(row[0], str) else row[0].decode(errors="replace") for row in mariadb.rows("SELECT argument FROM mysql.general_log")]
    assert any("INSERT INTO tarry.job " in text for text in texts)
    assert [text for text in texts if "tarry.batch" in text or "tarry.member" in text or "tarry.server_member" in text] == []


def test_each_batch_completes_once_while_servers_are_killed(mariadb, start_server):
    """Every other batch is pushed in a user's transaction, and a user cancels members."""
    servers = [start_server("--store", mariadb.url) for _ in range(3)]

    def push_in_a_transaction(name, members):
        while True:
            try:
                with transaction(mariadb, commit=True) as cursor:
                    push_waiting(cursor, "t", name)
                    for n, member in enumerate(members):
                        push_member(cursor, "m", member, name, delay_ms=500 * (n % 2), batch_topic="t")
                    cursor.execute("CALL tarry.close('t', %s, @result)", [name])
                return
            except pymysql.err.OperationalError as error:  # a user's transaction may meet a deadlock, as with any table
                assert error.args[0] in (1213, 1205), error

    class Canceller(Actor):
        def work(self, _):
            try:
                with transaction(mariadb, commit=True) as cursor:
                    # Not a dead one, whose outcome may be delivered already.
                    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
                    cursor.execute("SELECT topic, id FROM tarry.member WHERE dead = 0 ORDER BY RAND() LIMIT 1")
                    place = cursor.fetchone() or (0, "")
                    cursor.execute("SELECT id FROM tarry.job FORCE INDEX (job_id) WHERE topic = %s AND id = %s AND state = 1 FOR UPDATE SKIP LOCKED", place)
                    found = cursor.fetchone()
                    if found:
                        end = self.story.end(found[0], time.monotonic(), CANCELLED)
                        end.applied = False
                        cursor.execute("CALL tarry.cancel('m', %s, @result)", [found[0]])
                        is_done = result(cursor) == CANCELLED
                if found:
                    end.applied = is_done
            except pymysql.err.OperationalError as error:
                assert error.args[0] in (1213, 1205), error
            time.sleep(0.1)

    story = complete_while_killed(servers, BATCHES, 200 if BATCHES > 100 else 20, KILLS, push_in_a_transaction, [Canceller])
    assert any(end.applied for ends in story.ends.values() for end in ends if end.outcome == CANCELLED)
    servers[0].client().topic_verb("m", "purge")
    eventually(lambda: mariadb.do("SELECT COUNT(*) FROM tarry.job") == 0, seconds=30)


def test_views_and_fsck_have_no_leftovers(mariadb, pair):
    tables = ("batch", "batch_add", "batch_gate", "member")
    eventually(lambda: [table for table in tables if mariadb.do(f"SELECT COUNT(*) FROM tarry.{table}")] == [])
    assert findings(mariadb) == []
