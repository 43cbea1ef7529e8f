"""Claims that hold for every database of jobs. test_sql.py and test_sql_mariadb.py have all of them: each brings a `database` with the schema, and a `pair`
of servers on it. SQL that differs between databases is in postgres.py and mariadb.py."""

import contextlib
import random
import threading
import time

from redis_serving import info, metric, works
from server import eventually, meanwhile
from sql_serving import drain, due_s, push_until, tarry, transaction

HOUR_MS = 3600 * 1000


# ---- two servers ----

def test_two_servers_are_one_queue(pair, database):
    first, second = pair
    works(first)
    assert info(first)["store"] == database.store and info(first)["durability_class"] == "always"
    first.client().push("shared", "a", delay="200ms", body=b"\x00'\\\xff\x1a\"")
    job = second.client().take("shared", wait="5s")[0]
    assert job["body_base64"] == "ACdc/xoi"
    assert first.client().ack(job["lease"])[0]["result"] == "ok"
    assert second.client().topic("shared")["totals"]["acked"] == 1


def test_the_time_of_each_commit_of_a_change_is_measured(pair):
    server, client = pair[0], pair[0].client()

    def commits():
        return [metric(server, f"tarry_sql_commit_duration_seconds_{name}") for name in ("count", "sum")]

    for step in (lambda: client.push("measured", None), lambda: client.ack(client.take("measured", wait="5s")[0]["lease"])):
        count, seconds = commits()
        for _ in range(10):
            step()
        assert commits()[0] >= count + 10 and seconds < commits()[1] < seconds + 100
    client.push("measured", "1", delay="1h")
    count, _ = commits()
    for _ in range(100):
        client.get("measured", "1")
    assert commits()[0] < count + 50  # only the upkeep


def test_the_jobs_due_soon_are_those_of_the_forecast_over_all_priorities(pair, database):
    first, second = pair
    client = first.client()
    for n in range(60):
        client.push("minute", f"soon-{n}", delay=f"{20 + n % 30}s", priority=(7, 100, 65535)[n % 3])
    database.call("push", "minute", "by-sql", 30000, b"x")
    for delay in ("0s", "0s", "181s", "1h"):
        client.push("minute", None, delay=delay)
        client.push("other", None, delay="30s")
    assert len(client.take("minute", max=1)) == 1
    for server in (first, second):
        def figures(client=server.client()):  # each minute is counted apart, and a share of the next one moves with the clock
            load = client.call("GET", "/v1/load?topic=minute").json()
            topic = client.topic("minute")
            assert sum(load["minutes"][:2]) == 61 and topic["counts"]["ready"] == 1
            return 30 <= topic["soon"] <= 61 and topic["soon"] == load["soon"]
        eventually(figures)
    assert 30 <= metric(second, 'tarry_soon{topic="minute"}') <= 61
    assert client.call("GET", "/v1/topics/nowhere").status == 404


def test_a_waiting_take_finds_pushes_of_other_servers_and_users(pair, database):
    first, second = pair
    late_ms = []
    for round_ in range(6):
        taken = []
        waiting = threading.Thread(target=lambda to=taken: to.extend(second.client().take("waited", wait="10s")))
        waiting.start()
        time.sleep(0.2)
        if round_ % 2:
            first.client().push("waited", f"http-{round_}", delay="300ms")
        else:
            database.call("push", "waited", f"sql-{round_}", 300, b"x")
        waiting.join()
        late_ms.append((time.time() - due_s(taken[0])) * 1000)
        assert late_ms[-1] >= 0, "early"
        second.client().ack(taken[0]["lease"])
    assert sorted(late_ms)[2] < 900, late_ms  # on a busy machine; a lost one is found by the look of the second


def test_the_bound_never_runs_ahead_of_now(pair, database):
    """The queue is empty, and checked again and again; then jobs come that are due in two seconds, too far off for a notification."""
    first, second = pair
    first.client().push("bound", "far", delay="1h")
    for _ in range(5):
        assert second.client().take("bound") == [] and first.client().take("bound") == []
    due = time.time() + 2
    for i in range(5):
        assert database.call("push_with", "bound", f"job-{i}", None, int(due * 1000), b"x", None, None, None) == "created"
    got = drain(second.client(), "bound", 4)
    assert sorted(got) == [f"job-{i}" for i in range(5)]
    assert time.time() >= due


def test_a_commit_behind_the_bound_is_delivered(pair, database):
    """A transaction stays open while its job falls due and others behind it are taken."""
    client = pair[1].client()
    client.push("behind", "first")
    assert drain(client, "behind", 2) == ["first"]
    with transaction(database, True) as cursor:
        database.call("push", "behind", "late", 100, b"x", cursor=cursor)
        time.sleep(0.5)
        client.push("behind", "passes")
        assert drain(client, "behind") == ["passes"]
        taken = []
        waiting = threading.Thread(target=lambda: taken.extend(client.take("behind", wait="10s")))
        waiting.start()
        time.sleep(0.3)
        assert not taken
    waiting.join()
    assert [job["id"] for job in taken] == ["late"]


# ---- leases of servers that are gone ----

def test_leases_of_a_killed_server_end_all_the_same(database, start_server):
    first, second = (start_server("--store", database.url) for _ in range(2))
    first.client().push("orphan", "orphan")
    assert first.client().take("orphan", lease_for="1s")
    first.kill()
    database.do("UPDATE tarry.server SET beat = 1 WHERE server = (SELECT server FROM tarry.job WHERE id = 'orphan')")  # ten seconds have passed
    assert second.client().take("orphan", wait="20s")[0]["attempt"] == 2


def test_leases_unknown_to_all_servers_end(database, start_server):
    """A server without a row: another one had taken it for dead, then it took, and died."""
    first = start_server("--store", database.url)
    first.client().push("unknown", "unknown")
    assert first.client().take("unknown", lease_for="1s")
    number = database.do("SELECT server FROM tarry.job WHERE id = 'unknown'")
    first.kill()
    database.do("DELETE FROM tarry.server WHERE server = %s", number)
    second = start_server("--store", database.url)
    assert second.client().take("unknown", wait="10s")[0]["attempt"] == 2


# ---- what breaks ----

def test_a_database_that_crashes_loses_nothing_that_was_answered(database, start_server):
    with type(database)() as own:
        server = start_server("--store", own.url, "--migrate")
        pushed, client = [], server.client()
        with meanwhile(lambda ended: push_until(ended, client, "crash", "job", pushed)):
            for number in range(2):
                time.sleep(0.5)
                own.crash()
                eventually(lambda n=number: metric(server, "tarry_sql_reconnects_total") > n, 60)
            time.sleep(0.5)
        got = drain(server.client(), "crash", 2)
        assert len(pushed) > 20 and set(pushed) <= set(got) and len(got) == len(set(got))


def test_cut_connections_are_settled_and_nothing_is_done_twice(pair, database):
    server, pushed = pair[0], 0

    def cut(ended):
        while not ended.wait(0.15):
            before = pushed
            database.cut_servers()
            while pushed == before and not ended.wait(0.01):  # a loaded server needs longer than until the next cut to connect again
                pass

    client = server.client(60)
    with meanwhile(cut):
        while pushed < 60 or metric(server, "tarry_sql_reconnects_total") < 6:  # on a quick machine sixty are done before the first cut
            assert client.push("cut", f"job-{pushed}", on_conflict="reject")["result"] == "created"
            pushed += 1
    topic = client.topic("cut")
    assert topic["totals"]["pushed"] == pushed and topic["counts"]["ready"] == pushed


# ---- topics ----

def test_nothing_is_left_of_a_deleted_topic(pair, database):
    client = pair[0].client()
    for i in range(3):
        client.push("deleted", f"job-{i}", delay="1h", priority=i)
    number = database.do("SELECT topic FROM tarry.topic WHERE name = 'deleted'")
    client.delete_topic("deleted")
    eventually(lambda: database.do("SELECT count(*) FROM tarry.job WHERE topic = %s", number) == 0, 20)
    database.do("UPDATE tarry.topic SET paused_until = 1 WHERE topic = %s", number)  # its last day has ended
    eventually(lambda: database.do("SELECT count(*) FROM tarry.topic WHERE topic = %s", number) == 0, 20)
    for table in ("job", "level", "tally", "tally_add"):
        assert database.do(f"SELECT count(*) FROM tarry.{table} WHERE topic = %s", number) == 0, table


# ---- in the user's own transaction ----

def test_only_committed_jobs_are_delivered(pair, database):
    client = pair[1].client()
    with transaction(database, False) as cursor:
        assert database.call("push", "orders", "rolled-back", 0, b"x", cursor=cursor) == "created"
    with transaction(database, True) as cursor:
        database.call("push_with", "orders", "committed", 1000, None, b'{"total": 12}', "application/json", None, None, cursor=cursor)
    begun = time.monotonic()
    jobs = client.take("orders", max=10, wait="10s")
    assert [job["id"] for job in jobs] == ["committed"] and jobs[0]["body"] == {"total": 12}
    assert time.monotonic() - begun > 0.8
    client.ack(jobs[0]["lease"])
    assert client.take("orders") == [] and client.topic("orders")["totals"]["pushed"] == 1


def test_answers_are_the_api_s_words(pair, database):
    client = pair[0].client()
    pushes = [database.call("push_with", "words", "a", HOUR_MS, None, b"x", None, None, how) for how in (None, "replace", "keep", "reject")]
    assert pushes == ["created", "replaced", "existed", "conflict"]
    assert database.call("reschedule", "words", "a", 2 * HOUR_MS, None, None) == "ok"
    assert client.get("words", "a")["state"] == "delayed"
    assert database.call("run", "words", "a") == "ok"
    lease = client.take("words", wait="5s")[0]["lease"]
    assert database.call("cancel", "words", "a") == "leased"
    assert database.call("push", "words", "a", 0, b"x") == "leased"
    assert database.call("reschedule", "words", "a", 2 * HOUR_MS, None, None) == "leased"
    client.answer("nack", [lease], final="true", error="no")
    assert database.call("run", "words", "a") == "dead"
    assert database.call("cancel", "words", "a") == "cancelled"
    assert database.call("cancel", "words", "a") == "not_found"
    totals, counts = (client.topic("words")[part] for part in ("totals", "counts"))
    assert totals["cancelled"] == 1 and totals["pushed"] == 1 and totals["replaced"] == 1
    assert not any(counts[state] for state in ("delayed", "retrying", "ready", "leased", "dead"))


def test_a_push_by_sql_may_be_the_successor_of_a_leased_job(pair, database):
    client = pair[0].client()

    def push_after(body):
        return database.call("push_with", "heirs", "a", None, None, body, None, 7, "after")

    assert push_after(b"old") == "created"
    lease = client.take("heirs", wait="5s")[0]["lease"]
    assert [push_after(body) for body in (b"first", b"second")] == ["created", "replaced"]
    job = client.get("heirs", "a")
    assert (job["state"], job["body"]) == ("leased", "old") and set(job["next"]) == {"due_at"}
    client.answer("nack", [lease])
    job = pair[1].client().take("heirs", wait="5s")[0]
    assert (job["body"], job["attempt"], job["priority"]) == ("second", 1, 7)
    assert push_after(b"third") == "created"
    assert database.call("cancel", "heirs", "a") == "leased" and "next" not in client.get("heirs", "a")
    client.answer("ack", [job["lease"]])
    assert database.call("cancel", "heirs", "a") == "not_found"
    assert not any(client.topic("heirs")["counts"][state] for state in ("delayed", "retrying", "ready", "leased", "dead"))


def test_a_job_with_an_open_cancel_is_skipped_and_delivered_after_a_rollback(pair, database):
    client = pair[0].client()
    client.push("open", "a")
    with transaction(database, False) as cursor:
        assert database.call("cancel", "open", "a", cursor=cursor) == "cancelled"
        assert client.take("open") == []
    assert client.take("open", wait="10s")[0]["id"] == "a"


def test_random_transactions_leave_exactly_the_committed_jobs(pair, database):
    """Users' transactions push, replace, cancel; half are rolled back, some are cut off, some meet a deadlock. The queue agrees with their table."""
    seed = random.randrange(2 ** 32)
    print("seed", seed)
    database.do("CREATE SCHEMA shop")
    database.do("CREATE TABLE shop.orders (id VARCHAR(40) PRIMARY KEY)")

    def user(number):
        draw = random.Random(seed + number)
        for _ in range(40):
            connection = database.connect()
            with contextlib.closing(connection), connection.cursor() as cursor, contextlib.suppress(*database.deadlocks):
                for _ in range(draw.randrange(1, 4)):
                    ident = f"{number}-{draw.randrange(40)}"
                    cursor.execute("DELETE FROM shop.orders WHERE id = %s", (ident,))
                    if draw.random() < 0.6:
                        cursor.execute("INSERT INTO shop.orders VALUES (%s)", (ident,))
                        database.call("push", "random", ident, draw.randrange(3000), b"x", cursor=cursor)
                    else:
                        database.call("cancel", "random", ident, cursor=cursor)
                if draw.random() < 0.5:
                    connection.commit()
                elif draw.random() < 0.2:
                    database.cut(connection)
                else:
                    connection.rollback()

    client = pair[0].client()
    client.push("random", "seed", delay="1h")
    client.topic_verb("random", "pause")
    users = [threading.Thread(target=user, args=(number,)) for number in range(4)]
    for thread in users:
        thread.start()
    for thread in users:
        thread.join()
    client.cancel("random", "seed")
    client.topic_verb("random", "resume")
    expected = sorted(row[0] for row in database.rows("SELECT id FROM shop.orders"))
    assert len(expected) > 10
    time.sleep(3)  # all are due by now
    got = drain(pair[1].client(), "random", 3)
    assert sorted(got) == expected
    counts = client.topic("random")["counts"]
    assert not any(counts[state] for state in ("delayed", "retrying", "ready", "leased", "dead"))


# ---- what an application does to the tables ----

def problem_of(server, word):
    return next((problem for problem in server.client().call("GET", "/v1/status").json()["problems"] if word in problem["sentence"]), None)


def test_a_call_that_a_trigger_refuses_is_a_problem_of_the_status(pair, database):
    server = pair[0]
    client = server.client()
    database.refuse_inserts("refused-by-trigger")
    try:
        assert metric(server, "tarry_sql_refused_total") == 0 and not problem_of(server, "refuses calls")
        answer = client.call("PUT", "/v1/topics/trigger/jobs/refused-by-trigger", b"x")
        assert answer.status == 503
        problem = eventually(lambda: problem_of(server, "refuses calls"))
        assert (problem["code"], problem["severity"], problem["runbook"]) == ("background", "warning", "background")
        assert metric(server, "tarry_sql_refused_total") >= 1
        assert metric(server, 'tarry_background_failing_seconds{work="database_calls"}') > 0
        client.push("trigger", "accepted", b"x")
    finally:
        database.accept_all()


def test_a_row_that_breaks_the_rules_is_not_delivered_and_is_a_problem_of_the_status(pair, database):
    server = pair[0]
    client = server.client()
    for ident in ("good", "bad"):
        client.push("past", ident, b"x", content_type="text/plain")
    database.do("UPDATE tarry.job SET content_type = 'a\r\nSet-Cookie: b' WHERE id = 'bad'")
    assert [job["id"] for job in client.take("past", max=5, wait="10s")] == ["good"]
    problem = eventually(lambda: problem_of(server, "break the rules"))
    assert (problem["code"], problem["severity"]) == ("background", "warning")
    assert client.call("GET", "/v1/topics/past/jobs/bad").status == 404
    assert [job["id"] for job in client.call("GET", "/v1/topics/past/jobs").json()["jobs"]] == ["good"]
    found = tarry("fsck", "--store", database.url)
    assert found.returncode == 1 and "rows break the rules of a push" in found.stdout
    database.do("UPDATE tarry.job SET content_type = 'text/plain' WHERE id = 'bad'")
    assert client.get("past", "bad")["state"] == "leased"


def test_a_purge_that_the_database_stops_reports_the_purged_jobs(pair, database):
    client = pair[0].client()
    for first in range(0, 5000, 1000):
        client.push_batch([{"topic": "stopped", "id": f"s{first + i}", "delay": "1h", "body": "x"} for i in range(1000)])
    database.refuse_deletes("s3500")
    try:
        answer = client.call("POST", "/v1/topics/stopped/purge")
        left = client.topic("stopped")["counts"]["delayed"]
        assert answer.status == 503 and 0 < left < 5000, (answer.body, left)
        assert answer.json()["jobs"] == 5000 - left and f"stopped after {5000 - left} jobs" in answer.json()["detail"]
    finally:
        database.accept_all()
    assert client.call("POST", "/v1/topics/stopped/purge").json()["jobs"] == left


def test_an_upkeep_that_the_database_refuses_is_a_problem_of_the_status(pair, database):
    server = pair[0]
    database.refuse_beats()
    try:
        problem = eventually(lambda: problem_of(server, "the server's upkeep"), 30, 0.2)
        assert (problem["code"], problem["severity"]) == ("background", "warning") and problem["value"] > 10_000
        assert metric(server, 'tarry_background_failing_seconds{work="database_upkeep"}') > 10
    finally:
        database.accept_all()
    eventually(lambda: not problem_of(server, "the server's upkeep"), 30, 0.2)
