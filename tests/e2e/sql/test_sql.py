"""tarry serve on PostgreSQL: two servers on one database, and jobs pushed in users' own transactions."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import psycopg2
import pytest
from fake_clock import FakeClock, fake_time_library
from postgres import PostgresServer
from redis_serving import metric, refused, works
from server import BINARY, REPO, eventually, meanwhile, slack
from sql_claims import *  # noqa: F403, all of them  pylint: disable=wildcard-import,unused-wildcard-import
from sql_serving import drain, due_s, fills_up_and_goes_on, migrated, push_until, tarry, transaction
from streams import Stream


@pytest.fixture(scope="module")
def database(postgres):
    """The database, under the name that the claims for all databases use."""
    return postgres


@pytest.fixture
def pair(postgres, start_server):
    return [start_server("--store", postgres.url) for _ in range(2)]


# ---- the schema ----

def test_the_schema_is_created_once_and_required():
    with PostgresServer("fsync=off") as empty:
        assert "tarry sql migrate" in refused("--store", empty.url)
        assert tarry("sql", "migrate", empty.url).returncode == 0
        empty.do("INSERT INTO tarry.topic (name) VALUES ('stays')")
        assert tarry("sql", "migrate", empty.url).returncode == 0
        assert empty.do("SELECT count(*) FROM tarry.topic") == 1
        assert "fsync" in refused("--store", empty.url, "--require-durability", "always")
        empty.do("UPDATE tarry.schema_version SET version = 99, oldest_reader = 99")
        assert "too old" in refused("--store", empty.url)
    assert "cannot reach PostgreSQL" in refused("--store", empty.url)


DEFAULTS = ("standard_conforming_strings = off", "search_path = public", "bytea_output = escape", "datestyle = 'SQL, DMY'", "intervalstyle = sql_standard",
            "timezone = 'Asia/Kathmandu'", "array_nulls = off", "transform_null_equals = on", "default_transaction_isolation = 'serializable'",
            "\"plpgsql.extra_errors\" = 'all'")


@pytest.mark.parametrize("when", ["before", "after"])
def test_defaults_of_a_database_change_nothing(when, start_server):
    with PostgresServer() as own:
        if when == "after":
            assert tarry("sql", "migrate", own.url).returncode == 0
        for setting in DEFAULTS:
            own.do(f"ALTER DATABASE postgres SET {setting}")
        assert tarry("sql", "migrate", own.url).returncode == 0
        client = start_server("--store", own.url).client()
        for ident in ("nacked", "final", "extended", "returned", "acked"):
            client.push("t", ident, bytes(range(256)), meta={"a": "\\b'"})
        leases = {job["id"]: job["lease"] for job in client.take("t", max=9, wait="10s")}
        assert len(leases) == 5
        client.nack(leases["nacked"], delay="1h", error="a \\ and '")
        client.nack(leases["final"], final="true", error="never")
        client.extend(leases["extended"], lease_for="10m")
        client.answer("return", [leases["returned"]])
        client.ack(leases["acked"])
        assert client.get("t", "nacked")["last_error"] == "a \\ and '" and client.get("t", "final")["state"] == "dead"
        own.do("SELECT tarry.push('t', 'by-hand', interval '1 hour', 'x'::text)")  # as the session of an application has it
        assert 3500 < due_s(client.get("t", "by-hand")) - time.time() <= 3600
        assert tarry("fsck", "--store", own.url).returncode == 0


def test_the_schema_can_be_made_by_hand_and_by_a_start(start_server):
    text = tarry("sql", "schema").stdout
    with PostgresServer() as by_hand:
        by_hand.do(text)
        works(start_server("--store", by_hand.url))
    with PostgresServer() as by_start:
        works(start_server("--store", by_start.url, "--migrate"))


# ---- what is due, and transactions that are open ----

def test_a_late_commit_of_a_far_job_is_delivered_in_time(pair, postgres):
    """The transaction got its number before the last check of the servers, without a notification: a server that assumes no change would miss it."""
    client = pair[0].client()
    waiting = threading.Thread(target=lambda: got.extend(client.take("late", wait="20s")))
    got = []
    waiting.start()
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('late', 'x', interval '4 seconds')")
        looks = postgres.do("SELECT beat FROM tarry.server ORDER BY beat LIMIT 1")
        eventually(lambda: postgres.do("SELECT beat FROM tarry.server ORDER BY beat LIMIT 1") > looks)
    waiting.join(timeout=30)
    assert [job["id"] for job in got] == ["x"]
    assert time.time() - due_s(got[0]) < 0.5
    client.ack(got[0]["lease"])


def test_an_idle_server_sends_one_statement_a_second(start_server):
    """A server with ten thousand topics, and takes that wait on a hundred."""
    with migrated(PostgresServer("shared_preload_libraries=pg_stat_statements")) as database:
        database.do("CREATE EXTENSION pg_stat_statements SCHEMA public; CREATE ROLE counter SUPERUSER LOGIN")
        database.do("INSERT INTO tarry.topic (name) SELECT 't' || i FROM generate_series(1, 10000) i; INSERT INTO tarry.level SELECT topic, 100 FROM tarry.topic")
        server = start_server("--store", database.url)
        takers = [server.client() for _ in range(4)]
        waiting = [threading.Thread(target=taker.call, args=("POST", "/v1/take?wait=60s&" + "&".join(f"topic=t{i * 25 + k}" for k in range(25)))) for i, taker in enumerate(takers)]
        for each in waiting:
            each.start()
        # The samples of all topics, which become rarer without activity, are the server's own statistics.
        counted = """SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
            WHERE r.rolname = 'tarry' AND query !~ '_figures'"""
        with contextlib.closing(database.connect("counter")) as connection, connection.cursor() as cursor:
            connection.autocommit = True

            def calls_of(seconds):
                """Counts the statements beyond one a second."""
                cursor.execute("SELECT pg_stat_statements_reset()")
                begun = time.monotonic()
                time.sleep(seconds)
                cursor.execute(counted)
                return cursor.fetchone()[0] - (time.monotonic() - begun)

            eventually(lambda: calls_of(1.5) < 1)
            assert calls_of(5) <= 1
        server.client().push("t7", "x")
        eventually(lambda: not all(each.is_alive() for each in waiting))


def test_unused_priorities_are_removed_without_losing_a_job(pair, postgres):
    client = pair[0].client()
    levels = "SELECT count(*)::int FROM tarry.level l JOIN tarry.topic t ON t.topic = l.topic WHERE t.name = 'levels'"
    for priority in range(20):
        client.push("levels", f"p{priority}", priority=priority)
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.push('levels', 'open', priority => 7)")
        assert sorted(drain(client, "levels")) == sorted(f"p{priority}" for priority in range(20))
        eventually(lambda: postgres.do("SELECT count(*)::int FROM tarry.level WHERE idle AND after IS NOT NULL") > 0)
        marked = postgres.do("SELECT max(beat) FROM tarry.server")
        eventually(lambda: postgres.do("SELECT min(beat) FROM tarry.server") > marked + 1000)
    [job] = client.take("levels", wait="10s")
    assert job["id"] == "open"
    client.ack(job["lease"])
    eventually(lambda: postgres.do(levels) <= 2, seconds=30)
    client.push("levels", "again", priority=13)
    assert [job["id"] for job in client.take("levels", wait="10s")] == ["again"]


def test_simultaneous_takes_by_priority_get_each_job_once_in_order(pair, postgres):
    """Eight takers act like eight servers: the others take jobs between the search of one of them and its locks."""
    pair[0].client().push_batch([{"topic": f"best{i % 3}", "id": f"j{i}", "priority": i * 7919 % 10, "body": i} for i in range(800)])
    got = [[] for _ in range(8)]

    def take(into, most):
        with contextlib.closing(postgres.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            while True:
                cursor.execute("SELECT id, priority FROM tarry._take_best('{best0,best1,best2}', '{0,0,0}', %s, 60000, 0, '') ORDER BY priority, due, seq", [most])
                jobs = cursor.fetchall()
                if not jobs:
                    return
                into += jobs

    takers = [threading.Thread(target=take, args=(into, 1 + i % 2 * 4)) for i, into in enumerate(got)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join(60)
    assert sorted(ident for jobs in got for ident, _ in jobs) == sorted(f"j{i}" for i in range(800))
    assert all(priority <= after for jobs in got for (_, priority), (_, after) in zip(jobs, jobs[1:]))


def test_a_take_by_priority_skips_rows_of_an_open_transaction(pair, postgres):
    client = pair[0].client()
    client.push("held0", "best", priority=1)
    client.push("held1", "next", priority=2)
    client.push("held0", "last", priority=2)
    with transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.cancel('held0', 'best')")
        assert cursor.fetchone()[0] == "cancelled"
        assert [job["id"] for job in client.take("held0", "held1", order="priority", max=2)] == ["next", "last"]
    assert [job["id"] for job in client.take("held0", "held1", order="priority", wait="5s")] == ["best"]


def test_a_take_skips_rows_of_an_open_transaction_and_returns_to_them(pair, postgres):
    client = pair[0].client()
    for name in "abcde":
        client.push("passed", name)
    with transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.cancel('passed', 'a'), tarry.cancel('passed', 'c')")
        with transaction(postgres, commit=False) as take:
            take.execute("SELECT count(id), max(due) FILTER (WHERE id IS NULL) FROM tarry._take('{passed}', '{0}', 2, 60000, 999999, '')")
            assert take.fetchone() == (2, postgres.do("SELECT due FROM tarry.job j JOIN tarry.topic t USING (topic) WHERE t.name = 'passed' AND id = 'a'"))
        assert [job["id"] for job in client.take("passed", max=2)] == ["b", "d"]  # as many as wanted, though others are held
        assert [job["id"] for job in client.take("passed", max=2)] == ["e"]
        assert client.take("passed") == []
    assert [job["id"] for job in client.take("passed", max=5, wait="5s")] == ["a", "c"]


def test_simultaneous_takes_share_jobs_in_order(pair):
    """Takes share one statement; no take gets more than it requested, no job is given twice, and the last ones get the rest."""
    server, takers, rounds = pair[0], 8, 10
    client, begun = server.client(), {name: metric(server, f"tarry_sql_{name}_total") for name in ("transactions", "calls")}

    def take(wanted):
        mine = server.client()
        start.wait()
        taken[wanted] = mine.take("together", max=wanted)

    for round_ in range(rounds):
        ids = [f"{round_}-{i:02}" for i in range(30)]
        client.push_batch([{"topic": "together", "id": ident} for ident in ids])
        taken, start = {}, threading.Barrier(takers)
        threads = [threading.Thread(target=take, args=(wanted,)) for wanted in range(1, takers + 1)]  # 36 in all
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(len(jobs) <= wanted for wanted, jobs in taken.items())
        assert all([job["id"] for job in jobs] == sorted(job["id"] for job in jobs) for jobs in taken.values())
        jobs = [job for jobs in taken.values() for job in jobs]
        assert sorted(job["id"] for job in jobs) == ids
        assert {each["result"] for each in client.ack(*[job["lease"] for job in jobs])} == {"ok"}
    transactions, calls = (metric(server, f"tarry_sql_{name}_total") - begun[name] for name in ("transactions", "calls"))
    assert calls >= rounds * (takers + 2) and transactions < calls, "some of them share a transaction"
    assert client.topic("together")["totals"]["delivered"] == rounds * 30


def test_simultaneous_takes_are_repeated_if_bodies_leave_no_room(pair):
    """A statement returns 16 MiB of bodies; there is a job for every take, so no take gets an empty answer."""
    client, count = pair[0].client(), 40
    for i in range(count):
        client.push("heavy", f"{i:02}", b"x" * 1_000_000)
    taken, start = [], threading.Barrier(count)

    def take():
        mine = pair[0].client()
        start.wait()
        taken.append([job["id"] for job in mine.take("heavy", max=1)])

    threads = [threading.Thread(target=take) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [[f"{i:02}"] for i in range(count)]


def _places(postgres, topic):
    return postgres.do("SELECT array_agg(j.ctid::text ORDER BY j.id) FROM tarry.job j JOIN tarry.topic t USING (topic) WHERE t.name = %s", topic)


def test_an_ack_finds_jobs_that_lie_elsewhere_by_now(pair, postgres):
    client, other = pair[0].client(), pair[1].client()
    for name in "abcd":
        client.push("moved", name)
    leases = [job["lease"] for job in client.take("moved", max=4)]
    taken = _places(postgres, "moved")
    assert client.extend(leases[0])[0]["result"] == "ok"
    assert _places(postgres, "moved")[0] != taken[0]
    assert [each["result"] for each in client.ack(leases[0], leases[1])] == ["ok", "ok"]
    for i in range(30):  # pages before theirs, which are free again once they are rewritten
        postgres.do("SELECT tarry.push('unmoved', %s, interval '1 h')", str(i))
    taken = _places(postgres, "moved")
    postgres.do("VACUUM FULL tarry.job")
    assert not set(_places(postgres, "moved")) & set(taken)
    answers = other.ack(leases[2], leases[3], leases[1])
    assert [(each["id"], each["result"]) for each in answers[:2]] == [("c", "ok"), ("d", "ok")]
    assert answers[2]["result"] == "lease_ended"
    topic = client.topic("moved")
    assert topic["totals"]["acked"] == 4 and topic["counts"]["leased"] == 0


def test_a_lease_with_a_reused_place_ends_no_job(start_server):
    """A row gets the lowest free place of its page. In a table without other jobs, the second job takes the places of the first one in the same order."""
    with PostgresServer("autovacuum=off") as own:
        client = start_server("--store", own.url, "--migrate").client()
        own.do("VACUUM FULL tarry.job")  # the migration leaves pages without rows
        client.push("place", "first")
        lease = client.take("place", lease_for="1h")[0]["lease"]
        (place,) = _places(own, "place")
        client.nack(lease, delay="0s")
        client.cancel("place", "first")

        def takes_the_place():
            own.do("VACUUM tarry.job")  # frees the places, unless a transaction still sees their rows
            client.push("place", "next")
            taken = client.take("place", lease_for="1h")[0]["lease"]
            if _places(own, "place") == [place]:
                return taken
            client.ack(taken)
            return None

        taken = eventually(takes_the_place, 60)
        assert [each["result"] for each in client.ack(lease, lease)] == ["lease_ended"] * 2
        assert client.get("place", "next")["state"] == "leased"
        assert client.ack(taken)[0]["result"] == "ok"


def test_a_job_that_is_taken_by_its_id_in_an_open_transaction_comes_afterwards(pair, postgres):
    client = pair[0].client()
    client.push("one", "a", delay="1h")
    with transaction(postgres, commit=False) as cursor:
        cursor.execute("SELECT tarry.cancel('one', 'a')")
        taken = []
        taker = threading.Thread(target=lambda: taken.extend(pair[1].client().good("POST", "/v1/topics/one/jobs/a/take")["jobs"]))
        taker.start()
        taker.join(0.3)
        assert taker.is_alive() and not taken
    taker.join(20)
    assert [job["id"] for job in taken] == ["a"]
    assert pair[0].client().ack(taken[0]["lease"])[0]["result"] == "ok"


def test_a_reconnecting_server_ends_its_unknown_leases(postgres, start_server):
    """A take that was committed, but rejected before its server received the reply."""
    server = start_server("--store", postgres.url)
    client = server.client()
    client.push("forgotten", "a")
    number = postgres.do("SELECT max(server) FROM tarry.server")
    assert postgres.do("SELECT id FROM tarry._take('{forgotten}', '{0}', 1, 1000, %s, '')", number) == "a"
    time.sleep(2)
    assert postgres.do("SELECT state FROM tarry.get('forgotten', 'a')") == "leased"
    postgres.cut_servers()
    assert client.take("forgotten", wait="10s")[0]["attempt"] == 2


def test_a_server_that_was_considered_dead_registers_before_it_takes(postgres, start_server):
    client = start_server("--store", postgres.url).client()
    client.push("revived", "a")
    number = postgres.do("SELECT server FROM tarry.server ORDER BY server DESC LIMIT 1")
    with transaction(postgres, True) as cursor:
        cursor.execute("SELECT tarry._ticket(server, number + 1, connection) FROM tarry.ticket WHERE server = %s FOR UPDATE", (number,))
        cursor.execute("DELETE FROM tarry.server WHERE server = %s", (number,))
        cursor.execute("SELECT tarry._ticket(server, number + 1, connection) FROM tarry.ticket WHERE server = %s", (number,))
        cursor.execute("SELECT count(*) FROM tarry.server WHERE server = %s", (number,))
        assert cursor.fetchone() == (1,)
        cursor.connection.rollback()
    assert client.take("revived")


def test_a_hanging_commit_does_not_block_calls_permanently(start_server):
    """The standby that each commit waits for is missing. Calls are answered in time, and when it returns nothing was done twice."""
    with PostgresServer() as own:
        server = start_server("--store", own.url, "--migrate")
        client = server.client(60)
        client.push("hangs", "before")
        own.do("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        own.do("SELECT pg_reload_conf()")
        time.sleep(1)
        answers = {}

        def push(name):
            begun = time.monotonic()
            status = client_of[name].call("PUT", f"/v1/topics/hangs/jobs/{name}?on_conflict=reject", body=b"x").status
            answers[name] = status, time.monotonic() - begun

        client_of = {name: server.client(60) for name in ("sent", "waits")}
        threads = [threading.Thread(target=push, args=(name,)) for name in client_of]
        for thread in threads:
            thread.start()
            time.sleep(0.5)
        for thread in threads:
            thread.join()
        assert answers["waits"][0] == 503 and answers["waits"][1] < 20, answers
        assert answers["sent"][0] == 503 and answers["sent"][1] < 50, answers
        own.do("ALTER SYSTEM RESET synchronous_standby_names")
        own.do("SELECT pg_reload_conf()")
        eventually(lambda: client.call("PUT", "/v1/topics/hangs/jobs/after", body=b"x").status == 201, 30)
        assert metric(server, "tarry_sql_settled_total") == 1
        assert sorted(drain(client, "hangs", 1)) == ["after", "before", "sent"]


def test_pushes_with_a_lost_commit_reply_are_answered_by_their_ticket(start_server):
    """The backend is killed while it waits for a standby with a finished commit: the outcome of the pushes is unknown."""
    with PostgresServer() as own:
        server = start_server("--store", own.url, "--migrate")
        client = server.client(60)
        client.push("unwatched", "before", delay="1h")
        own.do("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        own.do("SELECT pg_reload_conf()")
        answers = {}
        waiting = "FROM pg_stat_activity WHERE application_name = 'tarry' AND wait_event = 'SyncRep' AND query LIKE '%%_pushes%%'"

        def is_done(text):
            with contextlib.suppress(psycopg2.Error):
                own.do(text)
                return True

        def push(name, delay):
            answers[name] = json.loads(client_of[name].call("PUT", f"/v1/topics/unwatched/jobs/{name}?delay={delay}&on_conflict=reject", body=b"x").body)

        client_of = {name: server.client(60) for name in ("a", "b")}
        threads = [threading.Thread(target=push, args=arguments) for arguments in (("a", "1h"), ("b", "2h"))]
        eventually(lambda: own.do("SHOW synchronous_standby_names") == "nobody", 10)
        threads[0].start()
        eventually(lambda: own.do(f"SELECT count(*) {waiting}") == 1, 20)
        threads[1].start()
        os.kill(own.do(f"SELECT pid {waiting}"), signal.SIGKILL)
        eventually(lambda: is_done("ALTER SYSTEM RESET synchronous_standby_names") and is_done("SELECT pg_reload_conf()"), 30)
        for thread in threads:
            thread.join()
        for name, answer in answers.items():
            due_ms = own.do("SELECT due FROM tarry.job WHERE id = %s", name)
            reported = own.do("SELECT (extract(epoch FROM %s::timestamptz) * 1000)::bigint", answer["due_at"])
            assert answer["result"] == "created" and reported == due_ms, answer
        assert metric(server, "tarry_sql_settled_total") == 1
        topic = client.topic("unwatched")
        assert topic["totals"]["pushed"] == 3 and topic["counts"]["delayed"] == 3


def test_a_statement_that_a_former_connection_has_left_behind_does_nothing(postgres, start_server):
    """A lost statement may be executed long after the server has reconnected, and would take the ticket of other pushes."""
    client = start_server("--store", postgres.url).client()
    client.push("left-behind", "a")
    number = postgres.do("SELECT max(server) FROM tarry.server")
    locked = "SELECT number, connection FROM tarry.ticket WHERE server = %s FOR UPDATE"  # the server's own transactions wait
    with transaction(postgres, False) as cursor:
        cursor.execute(locked, (number,))
        ticket, connection = cursor.fetchone()
        cursor.execute("SELECT tarry._ticket(%s, %s, %s)", (number, ticket + 1, connection))
    with transaction(postgres, False) as cursor, pytest.raises(psycopg2.Error) as refusal:
        cursor.execute(locked, (number,))
        ticket, connection = cursor.fetchone()
        cursor.execute("SELECT tarry._ticket(%s, %s, %s)", (number, ticket + 1, connection - 1))
    assert refusal.value.pgcode == "TY001"
    before = postgres.do("SELECT connection FROM tarry.ticket WHERE server = %s", number)
    postgres.do("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tarry'")
    client.push("left-behind", "b")
    assert postgres.do("SELECT connection FROM tarry.ticket WHERE server = %s", number) > before


def test_existing_or_rejected_pushes_do_not_affect_others_of_the_batch(postgres, start_server):
    """The batch is inserted in the hope that all are new; the second time its server looks first, and of a topic with a limit goes one by one."""
    client = start_server("--store", postgres.url).client()
    client.put_topic("mixed-full", max_jobs=2)
    client.push("mixed", "old", delay="1h")
    for round_ in "1", "2":
        items = [{"topic": "mixed", "id": f"new-{round_}", "delay": "1h"}, {"topic": "mixed", "id": "old", "delay": "1h", "on_conflict": "keep"},
                 {"topic": "mixed", "id": f"at-once-{round_}", "priority": 7}, {"topic": "mixed-too", "id": "old", "delay": "2h", "on_conflict": "reject"},
                 {"topic": "mixed-full", "id": f"z-{round_}"}, {"topic": "mixed-full", "id": f"b-{round_}"}, {"topic": "mixed-full", "id": f"a-{round_}"}]
        output = [result.get("result") or result.get("code") for result in client.push_batch(items)]
        room = ["created", "created", "topic_full"] if round_ == "1" else ["topic_full"] * 3
        assert output == ["created", "existed", "created", "created" if round_ == "1" else "conflict", *room], output
    for name, delayed, ready in ("mixed", 3, 2), ("mixed-too", 1, 0), ("mixed-full", 0, 2):
        topic = client.topic(name)
        counts = topic["counts"]
        assert (counts["delayed"], counts["ready"], topic["totals"]["pushed"]) == (delayed, ready, delayed + ready), (name, topic)
    assert [job["id"] for job in client.take("mixed-full", max=10)] == ["z-1", "b-1"]


def test_a_push_that_waits_for_the_end_of_its_job_sees_it(postgres, start_server):
    """Within the window of remembered ids: of a server, which then continues, separately and among others, and of a user's transaction."""
    client = start_server("--store", postgres.url).client()
    client.put_topic("ends", dedup_window="1h")
    pushes = {"alone": lambda: [client.push("ends", "alone", delay="1h")["result"]],
              "among": lambda: [result["result"] for result in client.push_batch([{"topic": "ends", "id": name, "delay": "1h"} for name in ("new", "among")])],
              "by-sql": lambda: [postgres.call("push", "ends", "by-sql", 3600000, b"x")]}
    for name, push in pushes.items():
        client.push("ends", name, delay="1h")
        answers = []
        pushing = threading.Thread(target=lambda push=push, answers=answers: answers.extend(push()))
        with transaction(postgres, True) as cursor:
            assert postgres.call("cancel", "ends", name, cursor=cursor) == "cancelled"
            pushing.start()
            eventually(lambda: postgres.do("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'push'") > 0, 10)
        pushing.join()
        assert answers == (["created", "existed"] if name == "among" else ["existed"]), name
    topic = client.topic("ends")
    assert (topic["counts"]["delayed"], topic["totals"]["pushed"], topic["totals"]["cancelled"]) == (1, 4, 3)


def test_calls_that_an_open_transaction_blocks_leave_the_server_to_the_others(start_server):
    with PostgresServer() as own:
        server = start_server("--store", own.url, "--migrate")
        client = server.client()
        client.push("free", "warm-up")
        with transaction(own, True) as cursor:
            for i in range(12):
                cursor.execute("SELECT tarry.push('blocked', %s)", (f"job-{i}",))
            answers = []
            pushes = [threading.Thread(target=lambda to=i: answers.append(server.client(30).push("blocked", f"job-{to}")["result"])) for i in range(12)]
            for thread in pushes:
                thread.start()
            time.sleep(3)
            begun, done = time.monotonic(), 0
            while time.monotonic() < begun + 2:
                client.push("free", f"job-{done}")
                done += 1
        for thread in pushes:
            thread.join()
        assert done > 60, done
        assert answers == ["replaced"] * 12


def test_an_open_transaction_makes_no_other_new_topic_wait(postgres):
    with transaction(postgres, True) as cursor:
        cursor.execute("SELECT tarry.push('new-a', 'a')")
        assert postgres.do("SET lock_timeout = '1s'; SELECT tarry.push('new-b', 'b')") == "created"


def test_an_expired_job_in_a_transaction_is_retried_at_intervals(start_server):
    with PostgresServer() as own:
        server = start_server("--store", own.url, "--migrate")
        client = server.client()
        client.push("ttl", "a", ttl="500ms")
        with transaction(own, False) as cursor:
            cursor.execute("SELECT tarry.reschedule('ttl', 'a', priority => 7)")
            time.sleep(1)
            before = metric(server, "tarry_sql_transactions_total")
            time.sleep(2)
            assert metric(server, "tarry_sql_transactions_total") - before < 60
        eventually(lambda: client.topic("ttl")["totals"]["expired"] == 1, 10)


def test_a_job_without_a_topic_does_not_stop_expiry(pair, postgres):
    client = pair[0].client()
    client.push("lost", "a", ttl="1s")
    client.push("stays", "b", ttl="3s")
    postgres.do("UPDATE tarry.job SET topic = 999999 WHERE id = 'a' AND topic = (SELECT topic FROM tarry.topic WHERE name = 'lost')")
    eventually(lambda: client.topic("stays")["totals"]["expired"] == 1, 20)
    assert postgres.do("SELECT count(*) FROM tarry.job WHERE topic = 999999") == 0


def test_a_push_that_is_open_while_its_topic_is_deleted_leaves_nothing(pair, postgres):
    client = pair[0].client()
    client.push("swept", "a", delay="1h")
    number = postgres.do("SELECT topic FROM tarry.topic WHERE name = 'swept'")
    with transaction(postgres, True) as cursor:
        cursor.execute("SELECT tarry.push('swept', 'late', interval '1 h')")
        client.delete_topic("swept")
        postgres.do("UPDATE tarry.topic SET paused_until = 1 WHERE topic = %s", number)  # a minute has passed
        eventually(lambda: postgres.do("SELECT count(*) FROM tarry.job WHERE topic = %s", number) == 0, 20)
        time.sleep(2.5)
        assert postgres.do("SELECT count(*) FROM tarry.topic WHERE topic = %s", number) == 1
    eventually(lambda: postgres.do("SELECT count(*) FROM tarry.topic WHERE topic = %s", number) == 0, 20)
    assert postgres.do("SELECT count(*) FROM tarry.job WHERE topic = %s", number) == 0


def test_a_take_that_a_crash_may_lose_is_fenced(start_server):
    """A take does not wait for the disk. Whether it was lost or not: the next delivery has a higher number, and the job is not lost."""
    with PostgresServer("wal_writer_delay=10s") as own:
        server = start_server("--store", own.url, "--migrate")
        client = server.client()
        client.push("fence", "a")
        before = client.take("fence", lease_for="2s")[0]
        own.crash()
        eventually(lambda: metric(server, "tarry_sql_reconnects_total") > 0, 60)
        after = client.take("fence", wait="30s")[0]
        assert after["id"] == "a" and after["delivery"] > before["delivery"] and after["lease"] != before["lease"]
        assert client.call("POST", f"/v1/ack?lease={before['lease']}").status == 409
        assert client.ack(after["lease"])[0]["result"] == "ok"


SLOW_DISK = ("commit_siblings=0", "wal_writer_delay=10s")


def test_takes_pass_by_pushes_that_wait_for_a_slow_disk(start_server):
    """While one push waits for its commit, another client takes and takes again."""
    with PostgresServer("commit_delay=100000", *SLOW_DISK) as own:
        server = start_server("--store", own.url, "--migrate")
        client = server.client()
        client.push_batch([{"topic": "passes", "body": "x"}] * 1000)
        taken, ended = [], threading.Event()

        def take():
            taker = server.client()
            while not ended.is_set():
                taken.extend(taker.take("passes"))

        taking = threading.Thread(target=take)
        taking.start()

        def takes_beside_a_push():
            before = len(taken)
            client.push("elsewhere", delay="1h")
            return len(taken) - before

        try:
            eventually(lambda: takes_beside_a_push() > 5)
        finally:
            ended.set()
            taking.join()
        assert metric(server, "tarry_sql_flushed_total") > 0


def test_a_crash_takes_nothing_back_that_was_answered_while_takes_pass_by(start_server):
    """Neither pushes nor acks; and no delivery number is given twice."""
    with PostgresServer("commit_delay=20000", *SLOW_DISK) as own:
        server = start_server("--store", own.url, "--migrate")
        pushed, acked, takes = [], {}, []

        def push(name):
            client = server.client()
            return lambda ended: push_until(ended, client, "beside", name, pushed)

        def work(ended):
            client = server.client()
            while not ended.is_set():
                with contextlib.suppress(Exception):
                    begun = time.monotonic()
                    for job in client.take("beside", lease_for="5s"):
                        takes.append((begun, job["id"], job["delivery"]))
                        if client.ack(job["lease"])[0]["result"] == "ok":
                            acked[job["id"]] = time.monotonic()

        with meanwhile(push("a"), push("b"), *[work] * 3):
            for number in range(2):
                flushed, done = metric(server, "tarry_sql_flushed_total"), len(acked)
                eventually(lambda flushed=flushed, done=done: metric(server, "tarry_sql_flushed_total") > flushed + 5 and len(acked) > done + 5)
                own.crash()
                eventually(lambda n=number: metric(server, "tarry_sql_reconnects_total") > n, 60)
        deliveries = [delivery for _, _, delivery in takes]
        assert len(deliveries) == len(set(deliveries))
        assert not [name for begun, name, _ in takes if begun > acked.get(name, begun)]
        left = drain(server.client(), "beside", 6)
        assert len(left) == len(set(left)) and not set(left) & set(acked)
        assert set(pushed) <= set(left) | {name for _, name, _ in takes}


# ---- in the user's own transaction ----

@pytest.mark.parametrize("call", [
    "tarry.push('no space', 'a')", "tarry.push('t', 'two words')", "tarry.push('t', '..')", "tarry.push('t', 'a', interval '-1 s')",
    "tarry.push('t', 'a', interval '11 years')", "tarry.push('t', 'a', at => '2100-01-01')", "tarry.push('t', 'a', priority => 70000)",
    "tarry.push('t', 'a', on_conflict => 'perhaps')", "tarry.push('t', 'a', interval '1 s', at => now())", "tarry.reschedule('t', 'a')"])
def test_bad_input_raises_and_changes_nothing(postgres, call):
    if "reschedule" not in call:
        before = postgres.do("SELECT count(*) FROM tarry.jobs")
    with pytest.raises(psycopg2.Error) as raised:
        postgres.do(f"SELECT {call}")
    assert raised.value.pgcode == "22023"
    assert "reschedule" in call or postgres.do("SELECT count(*) FROM tarry.jobs") == before


@pytest.mark.parametrize("call", ["cancel('race', 'a')", "reschedule('race', 'a', interval '1 h')", "run('race', 'a')", "push('race', 'a')"])
def test_a_waiter_on_a_take_in_progress_does_not_delay_its_ack(postgres, call):
    postgres.do("DELETE FROM tarry.job WHERE id = 'a' AND topic = (SELECT topic FROM tarry.topic WHERE name = 'race')")
    postgres.do("SELECT tarry.push('race', 'a')")
    answers = []
    with transaction(postgres, False) as user:
        with transaction(postgres, True) as take:
            take.execute("SELECT count(id) FROM tarry._take('{race}', '{0}', 1, 60000, 999999, '')")
            assert take.fetchone() == (1,)

            def change():
                user.execute(f"SELECT tarry.{call}")
                answers.append(user.fetchone()[0])

            waiting = threading.Thread(target=change)
            waiting.start()
            eventually(lambda: postgres.do("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0, 10)
        waiting.join()
        assert answers == ["leased"]
        assert postgres.do("SELECT count(*) FROM (SELECT FROM tarry.job j JOIN tarry.topic t USING (topic) WHERE t.name = 'race' FOR UPDATE OF j SKIP LOCKED) x") == 1


# ---- events ----

def _wait_until_all_know_who_listens(postgres, since=0):
    """Each server checks once a second; it reports its later changes. The listener has registered after `since`."""
    eventually(lambda: postgres.do("SELECT count(*)::int FROM tarry.server WHERE listen_until > greatest(tarry.now_ms(), %s + 3000)", since) == 1)
    known = postgres.do("SELECT max(listen_until) - 2900 FROM tarry.server")
    eventually(lambda: postgres.do("SELECT min(beat) FROM tarry.server WHERE beat > tarry.now_ms() - 5000") > known)


def test_events_come_from_all_servers_and_from_transactions_on_request(pair, postgres):
    first, client = pair[0], pair[1].client()
    with Stream(first.port, "/v1/events?topic=watched") as stream:
        _wait_until_all_know_who_listens(postgres)
        client.push("watched", "a", delay="10ms")
        job = client.take("watched", wait="10s", lease_for="1m")[0]
        error = "bad\taddress: 100 % \u00fcber\nall"
        client.nack(job["lease"], error=error, delay="1h")
        client.cancel("watched", "a")
        events = [stream.next() for _ in range(4)]
        assert [event for event, _ in events] == ["pushed", "delivered", "nacked", "cancelled"]
        assert events[1][1]["way"] == "take" and events[2][1]["error"] == error and events[2][1]["attempt"] == 1
        assert all(data["topic"] == "watched" and data["id"] == "a" for _, data in events)

        with transaction(postgres, commit=True) as cursor:
            cursor.execute("SELECT tarry.push('watched', 'silent', interval '1 hour')")
        with transaction(postgres, commit=False) as cursor:
            cursor.execute("SET LOCAL tarry.events = on; SELECT tarry.push('watched', 'never', interval '1 hour')")
        with transaction(postgres, commit=True) as cursor:
            cursor.execute("SET LOCAL tarry.events = on; SELECT tarry.push('watched', 'b', interval '1 hour'); SELECT tarry.push('watched', 'b', interval '2 hours')")
            cursor.execute("SELECT tarry.reschedule('watched', 'b', interval '3 hours'); SELECT tarry.run('watched', 'b'); SELECT tarry.cancel('watched', 'b')")
        events = [stream.next() for _ in range(5)]
        assert [event for event, _ in events] == ["pushed", "replaced", "rescheduled", "run", "cancelled"]
        assert all(data["id"] == "b" and data["due_at"] for _, data in events)

        assert postgres.cut_servers() >= 2 and stream.until(lambda event, _: event == "gap")
        _wait_until_all_know_who_listens(postgres, postgres.do("SELECT tarry.now_ms()"))
        client.push("watched", "c", delay="1h")
        assert stream.until(lambda event, data: data.get("id") == "c")
    eventually(lambda: postgres.do("SELECT max(listen_until) FROM tarry.server") == 0)


def test_more_events_than_a_message_holds_come_all_to_the_other_server(pair, postgres):
    with Stream(pair[0].port, "/v1/events?topic=many-events&event=pushed,cancelled") as stream:
        _wait_until_all_know_who_listens(postgres)
        ids = [f"{'x' * 100}{i}" for i in range(900)]
        pair[1].client().push_batch([{"topic": "many-events", "id": ident, "body": 1, "delay": "1h"} for ident in ids])
        assert sorted(stream.next()[1]["id"] for _ in ids) == sorted(ids)


# ---- a failover ----

def test_a_replica_with_a_clock_an_hour_ahead_fires_nothing_early(start_server, ahead_s=3600):
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-clock-", dir="/tmp"))  # the database's user reads it
    directory.chmod(0o755)
    library = fake_time_library(directory)
    clock = FakeClock(directory / "clock", ahead_ms=ahead_s * 1000)
    settings = ("wal_level=replica", "max_wal_senders=4", "synchronous_standby_names=*", "hot_standby=on")
    env = {name: value for name, value in clock.env(library).items() if name != "ASAN_OPTIONS"}
    try:
        with PostgresServer(*settings[:2]) as primary:
            assert tarry("sql", "migrate", primary.url).returncode == 0
            with PostgresServer(*settings[:2], "hot_standby=on", copy_of=primary, env=env) as replica:
                eventually(lambda: primary.do("SELECT count(*)::int FROM pg_stat_replication WHERE state = 'streaming'") == 1)
                primary.do("ALTER SYSTEM SET synchronous_standby_names = '*'")
                primary.do("SELECT pg_reload_conf()")
                url = f"postgres:///postgres?host={primary.directory},{replica.directory}&user=tarry&target_session_attrs=read-write"
                servers = [start_server("--store", url) for _ in range(2)]
                client = servers[0].client()
                begun = time.time()
                client.push("clock", "soon", delay="4s")
                client.push("clock", "later", delay="30m")
                primary.stop()
                replica.promote()
                for server in servers:
                    eventually(lambda server=server: server.client().call("GET", "/readyz").status == 200, seconds=20)
                [job] = client.take("clock", wait="20s")
                assert job["id"] == "soon" and 4 <= time.time() - begun < 6 * slack()
                assert client.take("clock") == []
                assert replica.do("SELECT abs(adjust_ms + %s) < 2000 FROM tarry.store", ahead_s * 1000)
                assert "clock difference is corrected" in servers[0].log() + servers[1].log()
                primary.start()  # so that it can be stopped
    finally:
        shutil.rmtree(directory)


# ---- looking over it ----

def test_fsck_finds_and_mends_counts_and_levels(start_server):
    with migrated(PostgresServer()) as database:
        server = start_server("--store", database.url)
        client = server.client()
        for i in range(5):
            client.push("checked", str(i), delay="1h" if i else "0s")
        client.take("checked")
        assert tarry("fsck", "--store", database.url).stdout == "clean\n"
        database.do("UPDATE tarry.tally SET counts[1] = counts[1] + 3")
        database.do("DELETE FROM tarry.level")
        found = tarry("fsck", "--store", database.url, "--json")
        assert found.returncode == 1 and len(json.loads(found.stdout)["findings"]) == 2
        mended = tarry("fsck", "--store", database.url, "--repair")
        assert mended.returncode == 0 and mended.stdout.count("repaired") == 2
        assert tarry("fsck", "--store", database.url).stdout == "clean\n"
        assert client.good("GET", "/v1/topics/checked")["counts"]["delayed"] == 4


def test_a_cancel_in_sql_can_be_requested_of_the_holder(pair, postgres):
    client = pair[0].client()
    client.push("wanted", "1")
    [job] = client.take("wanted", wait="5s")
    for commit, requested in ((False, False), (True, True)):
        with transaction(postgres, commit) as cursor:
            cursor.execute("SELECT tarry.cancel('wanted', '1', request => true)")
            assert cursor.fetchone() == ("requested",)
        assert client.good("GET", "/v1/topics/wanted/jobs/1").get("cancel_requested", False) == requested
    client.nack(job["lease"])
    assert client.call("GET", "/v1/topics/wanted/jobs/1").status == 404
    with transaction(postgres, commit=True) as cursor:
        cursor.execute("SELECT tarry.cancel('wanted', '1', request => true)")
        assert cursor.fetchone() == ("not_found",)


# ---- a full disk ----

@pytest.fixture
def small_disk():
    """A directory of the database's own on a disk of 24 MB. Only root can make one."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-disk-", dir="/tmp"))
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(directory)], check=False, capture_output=True).returncode:
        directory.rmdir()
        pytest.skip("no right to mount a small disk")
    directory.chmod(0o755)
    (directory / "space").mkdir()
    shutil.chown(directory / "space", "postgres", "postgres")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)
    directory.rmdir()


def test_a_full_disk_of_the_database_refuses_loudly_and_loses_nothing(start_server, small_disk):
    with PostgresServer() as database:
        database.do(f"CREATE TABLESPACE small LOCATION '{small_disk / 'space'}'")
        database.do("ALTER ROLE tarry SET default_tablespace = small")
        assert tarry("sql", "migrate", database.url).returncode == 0
        fills_up_and_goes_on(database, start_server("--store", database.url).client(), small_disk / "ballast", 16)


# ---- what the pages show ----

def test_the_demo_starts_a_postgresql_of_its_own_and_leaves_nothing():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-demo-", dir="/tmp"))
    directory.chmod(0o755)  # the database's user goes through it
    try:
        done = subprocess.run([str(REPO / "scripts/demo"), "1"], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "STORE": "postgres", "TARRY_BIN": str(BINARY), "TMPDIR": str(directory)})
        assert done.returncode == 0 and "every order was delivered once, not early" in done.stdout, done.stdout + done.stderr
        assert list(directory.iterdir()) == []
    finally:
        shutil.rmtree(directory)
