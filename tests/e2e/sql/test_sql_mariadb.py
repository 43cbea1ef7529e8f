"""tarry serve on MariaDB: two servers on one database, and jobs pushed in users' own transactions.

TARRY_TEST_MYSQL=8.0 (or newest, see mysql.py) runs all of it on MySQL; test_sql_mysql.py has those that always run there.
"""

import contextlib
import json
import re
import signal
import subprocess
import threading
import time

import pymysql
import pytest
import sql_batches
from mariadb import MariadbServer
from mysql import DatabaseServer, MysqlServer
from redis_serving import metric, refused, works
from server import eventually, freeze, slack
from sql_claims import *  # noqa: F403, all of them  pylint: disable=wildcard-import,unused-wildcard-import
from sql_serving import drain, fills_up_and_goes_on, tarry, transaction
from streams import Stream


@pytest.fixture(scope="module")
def database(mariadb):
    """The database, under the name that the claims for all databases use."""
    return mariadb


@pytest.fixture
def pair(mariadb, start_server):
    return [start_server("--store", mariadb.url) for _ in range(2)]


def test_defaults_of_a_database_change_nothing(start_server):
    greeting = ("SET autocommit = 0, sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES', time_zone = '+05:45', sql_safe_updates = 1, sql_select_limit = 1, "
                "completion_type = 'RELEASE', group_concat_max_len = 4")
    with DatabaseServer(f"init-connect={greeting}", "log-bin-trust-function-creators=1") as own:
        own.do("CREATE USER keeper@localhost")  # init_connect is not for root
        own.do("GRANT ALL ON tarry.* TO keeper@localhost")
        own.do("GRANT CREATE ON *.* TO keeper@localhost")
        url = own.url.replace("root@", "keeper@")
        done = tarry("sql", "migrate", url)
        assert done.returncode == 0, done.stderr
        assert own.do("SELECT version FROM tarry.schema_version") == 1 and own.do("SELECT COUNT(*) FROM tarry.store") == 1
        client = start_server("--store", url).client()
        for ident in ("nacked", "final", "extended", "acked"):
            client.push("t", ident, bytes(range(256)), meta={"a": "\\b'\""})
        leases = {job["id"]: job["lease"] for job in client.take("t", max=9, wait="10s")}
        assert len(leases) == 4
        client.nack(leases["nacked"], delay="1h", error="a \\ and '")
        client.nack(leases["final"], final="true", error="never")
        client.extend(leases["extended"], lease_for="10m")
        client.ack(leases["acked"])
        assert client.get("t", "nacked")["last_error"] == "a \\ and '" and client.get("t", "final")["state"] == "dead"


def test_a_server_of_a_test_has_its_own_folder_of_temporary_tables(mariadb):
    """At its start, a MariaDB deletes those of all servers in the folder, also in the middle of another one's statement."""
    assert mariadb.do("SELECT @@tmpdir") == str(mariadb.directory)


# ---- the schema ----

def test_the_schema_is_created_once_and_required(start_server):
    with DatabaseServer("innodb-flush-log-at-trx-commit=2") as empty:
        assert "tarry sql migrate" in refused("--store", empty.url)
        works(start_server("--store", empty.url, "--migrate"))
        empty.do("INSERT INTO tarry.topic (name) VALUES ('stays')")
        empty.do("DELETE FROM tarry.schema_version")  # as where a migration broke off
        assert tarry("sql", "migrate", empty.url).returncode == 0
        assert empty.do("SELECT count(*) FROM tarry.topic WHERE name = 'stays'") == 1
        assert "innodb_flush_log_at_trx_commit" in refused("--store", empty.url, "--require-durability", "always")
        empty.do("UPDATE tarry.schema_version SET version = 99, oldest_reader = 99")
        assert "too old" in refused("--store", empty.url)
    assert "cannot reach MariaDB or MySQL" in refused("--store", empty.url)


def test_the_schema_can_be_made_by_hand(start_server):
    text = tarry("sql", "schema", "mysql").stdout
    with DatabaseServer() as by_hand:
        subprocess.run(["mariadb", "--no-defaults", "-S", by_hand.socket, "-u", "root"], input=text, text=True, check=True, timeout=60)
        works(start_server("--store", by_hand.url))


@pytest.mark.parametrize("url,why", [
    ("mysql://h/?tls=perhaps", "tls is 'perhaps'"), ("mysql://h/?charset=x", "unknown parameter 'charset'"),
    ("mysql://a@b@c/", "the URL of the database is bad"), ("mysql://h/?password_file=/nowhere", "cannot read the password file")])
def test_a_bad_url_is_refused_with_a_reason(url, why):
    assert why in refused("--store", url)


# ---- what is due, and transactions that are open ----

def test_an_immediate_take_gets_jobs_committed_behind_the_bound(pair, mariadb):
    """The take before the commit saw nothing up to its own moment, which is after the job's due."""
    client = pair[1].client()
    for i in range(3):
        with transaction(mariadb, True) as cursor:
            mariadb.call("push", "late", f"job-{i}", 0, b"x", cursor=cursor)
            time.sleep(0.02)
            assert client.take("late") == []
        assert [job["id"] for job in client.take("late")] == [f"job-{i}"]


def test_the_upkeep_waits_for_no_transaction_of_a_user(mariadb):
    """A user's transaction has written to all rows that the upkeep removes and stays open. With a wait of a second a server's takes stood still as
    long."""
    mariadb.call("push", "held", "cancelled", 0, b"x")
    mariadb.do("UPDATE tarry.topic SET dedup_window = 60000 WHERE name = 'held'")
    with contextlib.closing(mariadb.connect()) as upkeep, upkeep.cursor() as cursor:
        upkeep.autocommit(True)
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        with transaction(mariadb, True) as user:
            assert mariadb.call("push", "held", "pushed", 0, b"x", cursor=user) == "created"
            assert mariadb.call("cancel", "held", "cancelled", cursor=user) == "cancelled"
            user.execute("INSERT INTO tarry.outbox (topic, id, body) VALUES ('held', 'posted', 'x')")
            for i in range(20):
                mariadb.call("push", "others", f"job-{i}", 0, b"x")
            for _ in range(3):
                cursor.execute("CALL tarry.server_upkeep(1000000, 0)")
                cursor.fetchall()
                cursor.execute("CALL tarry.server_adopt(1000000)")
                cursor.fetchall()
            assert mariadb.do("SELECT COUNT(*) FROM tarry.tally_add") == 0, "what is committed is folded"
        cursor.execute("CALL tarry.server_upkeep(1000000, 0)")
        assert mariadb.do("SELECT COUNT(*) FROM tarry.outbox") == 0
    counts = [mariadb.do(f"SELECT SUM({count}) FROM tarry.tally JOIN tarry.topic USING (topic) WHERE name = 'held'") for count in ("fresh", "pushed", "cancelled")]
    assert counts == [2, 3, 1]
    mariadb.do("DELETE FROM tarry.server WHERE server = 1000000")


def test_no_take_skips_a_job_while_leases_are_adopted(pair, mariadb):
    """Adopting another server's leases, usually done once, is repeated all the time here: it locks no waiting row."""
    first, second = (server.client() for server in pair)
    first.push("adopted", "warm-up")
    assert drain(second, "adopted") == ["warm-up"]
    ended = threading.Event()

    def adopt():
        with contextlib.closing(mariadb.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit(True)
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            while not ended.is_set():
                cursor.execute("CALL tarry.server_adopt(1000000)")
                cursor.fetchall()

    adopting = threading.Thread(target=adopt)
    adopting.start()
    try:
        for i in range(40):
            first.push("adopted", f"job-{i}")
            assert [job["id"] for job in second.take("adopted")] == [f"job-{i}"]
    finally:
        ended.set()
        adopting.join()


def test_a_job_that_another_server_gives_back_behind_the_bound_comes(pair):
    first, second = pair
    first.client().push("back", "a")
    lease = first.client().take("back", wait="5s")[0]["lease"]
    assert second.client().take("back") == []
    first.client().answer("nack", [lease], delay="0s")
    assert second.client().take("back", wait="10s")[0]["id"] == "a"


def test_calls_blocked_by_an_open_transaction_continue_after_it(start_server):
    with DatabaseServer() as own:
        server = start_server("--store", own.url, "--migrate")
        client = server.client()
        client.push("free", "warm-up")
        client.push("blocked", "warm-up")
        with transaction(own, True) as cursor:
            for i in range(4):
                own.call("push", "blocked", f"job-{i}", 0, b"x", cursor=cursor)
            answers = []
            pushes = [threading.Thread(target=lambda to=i: answers.append(server.client(30).push("blocked", f"job-{to}")["result"])) for i in range(4)]
            for thread in pushes:
                thread.start()
            time.sleep(1)
            assert client.push("free", "meanwhile")["result"] == "created"
        for thread in pushes:
            thread.join()
        assert answers == ["replaced"] * 4


def test_a_database_that_answers_nothing_is_answered_for_in_time(start_server):
    """Freezes the database like a full disk: calls return 503, and when it continues nothing was done twice."""
    with DatabaseServer() as own:
        server = start_server("--store", own.url, "--migrate")
        client = server.client(60)
        client.push("hangs", "before")
        freeze(own.process.pid)
        begun = time.monotonic()
        assert client.call("PUT", "/v1/topics/hangs/jobs/sent?on_conflict=reject", body=b"x").status == 503
        assert time.monotonic() - begun < 40 * slack()
        own.process.send_signal(signal.SIGCONT)
        eventually(lambda: client.call("PUT", "/v1/topics/hangs/jobs/after", body=b"x").status == 201, 40)
        got = sorted(drain(client, "hangs", 1))
        assert got in (["after", "before"], ["after", "before", "sent"])


def test_a_call_about_one_job_reads_no_others(mariadb, start_server):
    """Whatever waits in the topic: MariaDB has to find the row by its key in each statement."""
    client = start_server("--store", mariadb.url).client()
    for _ in range(3):
        client.push_batch([{"topic": "many", "delay": "1h", "body": "x"} for _ in range(1000)])
    client.push("many", "one")

    def rows_read():
        return sum(int(row[1]) for row in mariadb.rows("SHOW GLOBAL STATUS LIKE 'Handler_read_%'"))

    before = rows_read()
    lease = client.take("many")[0]["lease"]
    client.answer("nack", [lease], delay="0s")
    lease = client.take("many", wait="5s")[0]["lease"]
    client.answer("extend", [lease], lease_for="1m")
    assert client.ack(lease)[0]["result"] == "ok"
    client.push("many", "two", delay="1h")
    client.reschedule("many", "two", delay="2h")
    assert client.cancel("many", "two")["result"] == "cancelled"
    assert client.topic("many")["counts"]["delayed"] == 3000
    assert rows_read() - before < 2500


# ---- many jobs side by side ----

def _pushed(client, topic, count):
    """Their ids in the order in which they come."""
    ids = [f"job-{i:04}" for i in range(count)]
    client.push_batch([{"topic": topic, "id": ident, "body": "x"} for ident in ids])
    return ids


def _answers(client, verb, leases, **options):
    return [result["result"] for result in client.good("POST", f"/v1/{verb}", json.dumps({"leases": leases, **options}).encode(), {"Content-Type": "application/json"})["results"]]


def _waited_ms(mariadb):
    return int(mariadb.rows("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_time'")[0][1])


def test_a_row_that_a_user_holds_among_others_holds_up_no_take_and_no_ack(pair, mariadb):
    client = pair[0].client()
    ids = _pushed(client, "among", 60)
    waited_ms = _waited_ms(mariadb)
    with transaction(mariadb, False) as cursor:
        assert mariadb.call("cancel", "among", ids[30], cursor=cursor) == "cancelled"
        taken = client.take("among", max=60)
        assert [job["id"] for job in taken] == ids[:30] + ids[31:]
        assert _answers(client, "ack", [job["lease"] for job in taken]) == ["ok"] * 59
    [last] = client.take("among", max=60, wait="10s")
    assert last["id"] == ids[30] and _answers(client, "ack", [last["lease"]]) == ["ok"]
    most_ms = 500 if DatabaseServer is MariadbServer else 5000  # a statement waits for a second, and MariaDB's for nothing
    assert _waited_ms(mariadb) - waited_ms < most_ms


def test_a_returned_job_between_others_is_not_acked_with_them(pair, mariadb):
    """Acks of one take in one statement, also one that ends otherwise, one that is named twice, and those of another take between them."""
    client = pair[0].client()
    ids = _pushed(client, "in-between", 100)
    first = client.take("in-between", max=50)
    second = client.take("in-between", max=50, consumer="another")
    assert [job["id"] for job in first + second] == ids and len({job["lease"] for job in first + second}) == 100
    assert _answers(client, "return", [first[20]["lease"]]) == ["ok"]
    [again] = client.take("in-between")
    assert again["id"] == ids[20]
    assert _answers(client, "nack", [first[40]["lease"]], delay="1h") == ["ok"]
    results = _answers(client, "ack", [job["lease"] for job in first] + [first[0]["lease"]])
    assert [i for i, result in enumerate(results) if result == "lease_ended"] == [20, 40, 50] and set(results) == {"ok", "lease_ended"}
    assert _answers(client, "ack", [job["lease"] for job in reversed(second)] + [again["lease"]]) == ["ok"] * 51
    counts, totals = client.topic("in-between")["counts"], client.topic("in-between")["totals"]
    assert (counts["retrying"], counts["leased"], totals["acked"]) == (1, 0, 99)


@contextlib.contextmanager
def _leases_that_wait(mariadb):
    """A take that has found and locked its rows waits with the first one that it leases, until the block calls what it is given."""
    mariadb.do("CREATE TRIGGER tarry.test_wait BEFORE UPDATE ON tarry.job FOR EACH ROW "
               "BEGIN IF NEW.state = 3 AND GET_LOCK('tarry_test', 20) THEN DO RELEASE_LOCK('tarry_test'); END IF; END")
    try:
        with contextlib.closing(mariadb.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT GET_LOCK('tarry_test', 5)")
            yield lambda: cursor.execute("SELECT RELEASE_LOCK('tarry_test')")
    finally:
        mariadb.do("DROP TRIGGER tarry.test_wait")


def _waits_to_lease(mariadb):
    return mariadb.do("SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'") > 0


def test_a_released_job_between_rows_of_a_take_is_not_taken_with_them(pair, mariadb):
    client = pair[0].client()
    ids = _pushed(client, "meanwhile", 60)
    got = []
    taking = threading.Thread(target=lambda: got.extend(client.take("meanwhile", max=59)))
    with _leases_that_wait(mariadb) as lease:
        with transaction(mariadb, True) as cursor:
            cursor.execute("SELECT j.id FROM tarry.job j JOIN tarry.topic t ON t.topic = j.topic WHERE t.name = 'meanwhile' AND j.id = %s FOR UPDATE", (ids[30],))
            taking.start()
            eventually(lambda: _waits_to_lease(mariadb), 10)
        lease()
        taking.join()
    rest = client.take("meanwhile", max=60, wait="5s")
    assert sorted(job["id"] for job in got + rest) == ids
    assert {job["attempt"] for job in got + rest} == {1}
    assert _answers(client, "ack", [job["lease"] for job in got + rest]) == ["ok"] * 60
    topic = client.topic("meanwhile")
    assert (topic["counts"]["leased"], topic["totals"]["delivered"], topic["totals"]["acked"]) == (0, 60, 60)


def test_a_job_taken_by_id_is_not_part_of_a_take_in_the_same_transaction(mariadb, start_server):
    server = start_server("--store", mariadb.url)
    client = server.client()
    ids = _pushed(client, "same-transaction", 60)
    client.push("first-transaction", "a")
    got = {}

    def take(name, call):
        threads.append(threading.Thread(target=lambda: got.update({name: call(server.client(30))})))
        threads[-1].start()

    threads = []
    repeated = metric(server, "tarry_sql_repeated_total")
    with _leases_that_wait(mariadb) as lease:
        take("first", lambda own: own.take("first-transaction"))
        eventually(lambda: _waits_to_lease(mariadb), 10)
        take("many", lambda own: own.take("same-transaction", max=59, consumer="a"))
        take("one", lambda own: own.good("POST", f"/v1/topics/same-transaction/jobs/{ids[30]}/take?consumer=z")["jobs"])
        time.sleep(0.3)  # both wait for the end of the transaction
        lease()
        for thread in threads:
            thread.join()
    assert [job["id"] for job in got["one"]] == [ids[30]]
    assert sorted(job["id"] for job in got["many"] + client.take("same-transaction", max=60)) == ids[:30] + ids[31:]
    assert metric(server, "tarry_sql_repeated_total") == repeated


@contextlib.contextmanager
def _texts_of_servers(mariadb, kind="%"):
    """All that the database is sent meanwhile, in the yielded list when the block has ended. Prepared statements are there twice: as EXECUTE, and as what is executed."""
    texts = []
    mariadb.do("SET GLOBAL log_output = 'TABLE'")
    mariadb.do("TRUNCATE mysql.general_log")
    mariadb.do("SET GLOBAL general_log = ON")
    try:
        yield texts
    finally:
        mariadb.do("SET GLOBAL general_log = OFF")
        texts += [row[0].decode() if isinstance(row[0], bytes) else row[0] for row in mariadb.rows("SELECT argument FROM mysql.general_log WHERE command_type LIKE %s", kind)]


def _sent_of(texts):
    """Texts of servers about jobs, without the statements that the log shows again as the database executes them."""
    return [text for text in texts if re.search(r"EXECUTE tarry_|tarry\.(server_)?job(_key)? ", text) and not re.match(r"SELECT tarry\.now_ms|CALL", text)]


def test_a_single_take_and_ack_costs_few_statements(pair, mariadb):
    """The least of three: now and then the statements of a second's upkeep come between."""
    client, costs = pair[0].client(), []
    _pushed(client, "one-by-one", 8)
    for _ in range(4):  # the server reads the topic, and prepares statements that come again
        client.ack(client.take("one-by-one")[0]["lease"])
    for _ in range(3):
        with _texts_of_servers(mariadb, "Query") as texts:
            client.ack(client.take("one-by-one")[0]["lease"])
        counts = [len(text.split(";")) for text in _sent_of(texts)]
        costs.append((len(counts), sum(counts)))
    assert min(costs)[0] == 4 and min(costs)[1] <= 11, costs


def _prepared(mariadb):
    return int(mariadb.rows("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")[0][1])


@pytest.mark.skipif(DatabaseServer is not MariadbServer, reason="MySQL gets texts")
def test_one_server_sends_few_prepared_statements(mariadb, start_server):
    """Alone, a take finds the next job too, while there is one."""
    client, costs = start_server("--store", mariadb.url).client(), []
    _pushed(client, "alone", 12)
    for _ in range(4):
        client.ack(client.take("alone")[0]["lease"])
    for _ in range(3):
        with _texts_of_servers(mariadb, "Query") as texts:
            client.ack(client.take("alone")[0]["lease"])
        costs.append(sorted(text for text in _sent_of(texts)))
    least = min(costs, key=lambda sent: sum(len(text.split(";")) for text in sent))
    assert sum(len(text.split(";")) for text in least) <= 10, costs
    assert all("EXECUTE" in text and "tarry." not in text for text in least), least


@pytest.mark.skipif(DatabaseServer is not MariadbServer, reason="MySQL gets texts")
def test_prepared_statements_carry_every_value(mariadb, start_server):
    client = start_server("--store", mariadb.url).client()
    values = ["it's", "back\\slash", "zero\0byte", "?", "12", "'12'", "_binary'12'", "a,b", "\u00fc;COMMIT", "\\", "'"]
    for n, value in enumerate(values):
        client.push("values", f"id-{n:03}", body=value.encode(), priority=n)
    assert _prepared(mariadb) > 0
    jobs = [client.take("values")[0] for _ in values]
    assert [(job["id"], job["body"], job["priority"]) for job in jobs] == [(f"id-{n:03}", value, n) for n, value in enumerate(values)]
    assert _answers(client, "nack", [jobs[0]["lease"]], error="it's '12' \\") == ["ok"]
    assert client.get("values", "id-000")["last_error"] == "it's '12' \\"
    assert _answers(client, "ack", [job["lease"] for job in jobs[1:]]) == ["ok"] * 10


@pytest.mark.skipif(DatabaseServer is not MariadbServer, reason="MySQL gets texts")
def test_a_database_that_prepares_nothing_gets_texts(mariadb, start_server):
    usual = mariadb.do("SELECT @@max_prepared_stmt_count")
    mariadb.do("SET GLOBAL max_prepared_stmt_count = 0")
    try:
        server = start_server("--store", mariadb.url)
        client = server.client()
        _pushed(client, "texts", 10)
        for _ in range(10):
            client.ack(client.take("texts")[0]["lease"])
        assert (_prepared(mariadb), client.topic("texts")["totals"]["acked"]) == (0, 10)
        assert metric(server, "tarry_sql_repeated_total") <= 2  # the one that was refused
    finally:
        mariadb.do("SET GLOBAL max_prepared_stmt_count = %s", usual)


@pytest.mark.skipif(DatabaseServer is not MariadbServer, reason="MySQL gets texts")
def test_prepared_statements_survive_changes_of_tables_and_cuts(mariadb, start_server):
    server = start_server("--store", mariadb.url)
    client = server.client(30)
    _pushed(client, "changes", 40)
    for change in ("ALTER TABLE tarry.job ADD COLUMN extra INT", "ALTER TABLE tarry.job DROP COLUMN extra, FORCE", "ANALYZE TABLE tarry.job, tarry.ticket", "FLUSH TABLES"):
        for _ in range(4):
            client.ack(client.take("changes")[0]["lease"])
        assert _prepared(mariadb) > 0
        mariadb.do(change)
        client.ack(client.take("changes", wait="5s")[0]["lease"])
    before = _prepared(mariadb)
    mariadb.cut_servers()
    for _ in range(20):
        client.ack(client.take("changes", wait="5s")[0]["lease"])
    assert client.topic("changes")["totals"]["acked"] == 40 and 0 < _prepared(mariadb) <= before + 10


@pytest.mark.parametrize("held", ["job-0000", "job-0001"])
def test_a_take_of_the_only_server_skips_a_job_that_a_user_holds(mariadb, start_server, held):
    """It finds the next job as well, and may not wait for a held one, nor forget it."""
    client, topic = start_server("--store", mariadb.url).client(), f"user-holds-{held}"
    ids = _pushed(client, topic, 4)
    with transaction(mariadb, commit=False) as cursor:
        cursor.execute("SELECT topic FROM tarry.topic WHERE name = %s", topic)
        cursor.execute("SELECT id FROM tarry.job FORCE INDEX (job_id) WHERE topic = %s AND id = %s FOR UPDATE", (cursor.fetchone()[0], held))
        begun = time.monotonic()
        jobs = [client.take(topic)[0] for _ in range(2)]
        assert time.monotonic() - begun < 0.9
        assert [job["id"] for job in jobs] == [ident for ident in ids if ident != held][:2]
    jobs += client.take(topic, max=10)  # at once: the bound has not passed it
    assert sorted(job["id"] for job in jobs) == ids
    assert _answers(client, "ack", [job["lease"] for job in jobs]) == ["ok"] * 4


@pytest.fixture
def early(pair):
    """Two servers, and a function that takes a job of a topic at the first one after acks there that needed no look at their jobs."""
    first, second = (server.client(30) for server in pair)

    def taken(topic, ident):
        for number in range(17):  # as many as the server looks at after one that needed a look
            first.push(topic, f"before-{number}")
            first.ack(first.take(topic)[0]["lease"])
        first.push(topic, ident)
        [job] = first.take(topic, wait="5s")
        assert job["id"] == ident
        return job["lease"]

    return first, second, taken


def _until_early(mariadb, prepare):
    """Repeats an ack and the check of its result until the ack began with the deletion of its job: a server that reads its topics again looks at the job."""
    for number in range(20):
        ack, check = prepare(str(number))
        with _texts_of_servers(mariadb) as texts:
            result = ack()
        check(result)
        if DatabaseServer is not MariadbServer or any("DELETE FROM tarry.job WHERE" in text and "RETURNING" in text for text in texts):
            return texts
    pytest.fail("no ack was early")


def test_an_early_ack_starts_the_successor(early, mariadb):
    first, second, taken = early

    def prepare(ident):
        lease = taken("early-after", ident)
        second.push("early-after", ident, body=b"next", on_conflict="after")

        def check(results):
            [job] = first.take("early-after", wait="5s")
            assert (results, job["id"], job["body"]) == (["ok"], ident, "next")
            first.ack(job["lease"])

        return lambda: _answers(first, "ack", [lease]), check

    _until_early(mariadb, prepare)


@pytest.mark.skipif(DatabaseServer is not MariadbServer, reason="MySQL cannot return what it deletes")
def test_an_early_ack_of_many_heeds_ended_leases_and_successors(early, mariadb):
    first, second, taken = early
    first.ack(taken("early-many", "x"))
    for name, change, results in (
            ("whole", lambda jobs: None, ["ok"] * 10),
            ("ended", lambda jobs: second.nack(jobs[3]["lease"], delay="1h"), ["ok"] * 3 + ["lease_ended"] + ["ok"] * 6),
            ("followed", lambda jobs: second.push("early-many", "followed-5", body=b"next", on_conflict="after"), ["ok"] * 10)):
        for number in range(17):
            first.push("early-many", f"{name}-before-{number}")
            first.ack(first.take("early-many")[0]["lease"])
        first.push_batch([{"topic": "early-many", "id": f"{name}-{number}", "body": "x"} for number in range(10)])
        jobs = first.take("early-many", max=10)
        assert [job["id"] for job in jobs] == [f"{name}-{number}" for number in range(10)]
        change(jobs)
        with _texts_of_servers(mariadb) as texts:
            assert _answers(first, "ack", [job["lease"] for job in jobs]) == results
        assert any(re.search("DELETE FROM tarry.server_job WHERE.*RETURNING", text) for text in texts), texts
        assert first.topic("early-many")["counts"]["leased"] == 0
    [job] = first.take("early-many")
    assert (job["id"], job["body"]) == ("followed-5", "next")
    assert mariadb.do("SELECT COUNT(*) FROM tarry.job_key k JOIN tarry.topic t USING (topic) WHERE t.name = 'early-many'") == 2  # and the one that waits


def test_an_early_ack_counts_for_the_batch(early, mariadb):
    first, second, taken = early

    def prepare(ident):
        second.push("early-waits", ident, waits="true")
        first.ack(taken("early-batch", "x"))
        second.push("early-batch", "m", batch_topic="early-waits", batch_id=ident)
        second.good("POST", f"/v1/topics/early-waits/jobs/{ident}/close")
        [member] = first.take("early-batch", wait="5s")

        def check(results):
            [job] = second.take("early-waits", wait="5s")
            assert (results, job["id"]) == (["ok"], ident)
            second.ack(job["lease"])

        return lambda: _answers(first, "ack", [member["lease"]]), check

    texts = _until_early(mariadb, prepare)
    if DatabaseServer is MariadbServer:  # the deletion spares a member: its batch is locked in the order of all other transactions
        assert any("FROM tarry.job FORCE INDEX (PRIMARY)" in text and "FOR UPDATE" in text for text in texts), texts


@pytest.mark.parametrize("settings", [{"keep_finished": "1h"}, {"dedup_window": "1h"}, {"history": "1d"}, {"group_limit": 5}], ids=str)
def test_an_early_ack_heeds_settings_that_another_server_has_just_changed(early, settings):
    first, second, taken = early
    topic = f"early-{next(iter(settings))}"
    lease = taken(topic, "a")
    second.put_topic(topic, **settings)
    assert _answers(first, "ack", [lease]) == ["ok"]
    if "keep_finished" in settings:
        assert second.get(topic, "a")["state"] == "finished"
    if "dedup_window" in settings:
        assert second.push(topic, "a")["result"] == "existed"
    if "history" in settings:
        assert [row["event"] for row in second.good("GET", f"/v1/topics/{topic}/jobs/a/history")["history"]] == ["acked"]
    assert second.topic(topic)["counts"]["leased"] == 0 and second.topic(topic)["totals"]["acked"] == 18


def test_an_early_ack_ends_a_wait_at_another_server(early, mariadb):
    first, second, taken = early

    def prepare(ident):
        lease, found = taken("early-wait", ident), []
        spec = json.dumps({"jobs": [{"topic": "early-wait", "id": ident}], "for": "all", "wait": "20s"}).encode()
        waiting = threading.Thread(target=lambda: found.extend(second.good("POST", "/v1/wait", spec, {"Content-Type": "application/json"})["jobs"]))
        waiting.start()
        assert eventually(lambda: mariadb.do("SELECT COUNT(*) FROM tarry.awaited WHERE outcome IS NULL") == 1)

        def check(results):
            waiting.join()
            assert results == ["ok"] and [(job["id"], job["state"], job["outcome"]) for job in found] == [(ident, "finished", "acked")]

        return lambda: _answers(first, "ack", [lease]), check

    _until_early(mariadb, prepare)


def test_an_early_ack_with_an_old_lease_changes_nothing(early, mariadb):
    first, second, taken = early

    def prepare(ident):
        lease = taken("early-old", ident)
        second.nack(lease, delay="0s")
        [job] = second.take("early-old", wait="5s")

        def check(results):
            assert results == ["lease_ended"] and second.get("early-old", ident)["state"] == "leased"
            assert _answers(second, "ack", [job["lease"]]) == ["ok"]

        return lambda: _answers(first, "ack", [lease]), check

    _until_early(mariadb, prepare)


def test_deliveries_of_a_job_at_servers_with_unused_numbers_rise(early):
    first, second, taken = early
    second.ack(taken("rising", "x"))
    for number in range(3):  # both servers have numbers left
        second.push("rising", f"y-{number}")
        second.ack(second.take("rising", wait="5s")[0]["lease"])
    first.push("rising", "a", backoff="fixed:1ms", max_attempts=50)
    numbers = []
    for server in [first, second, second, first, first, second] * 3:
        [job] = server.take("rising", wait="5s")
        numbers.append(job["delivery"])
        server.nack(job["lease"], delay="0s")
    assert numbers == sorted(set(numbers)), numbers


def test_changed_settings_and_new_priorities_hold_from_the_next_call_at_each_server(pair):
    first, second = (server.client() for server in pair)
    for client, ident in ((first, "a"), (second, "b")):
        client.push("remembered", ident)
        client.ack(client.take("remembered", wait="5s")[0]["lease"])
    for round_, (client, other) in enumerate(((first, second), (second, first))):
        client.put_topic("remembered", on_conflict="keep", lease_for=f"{70 + round_}s")
        other.push("remembered", "same", body=b"1")
        assert other.push("remembered", "same", body=b"2")["result"] == "existed"
        [job] = other.take("remembered", wait="5s")
        assert job["body"] == "1" and client.call("POST", f"/v1/ack?lease={job['lease']}").status == 200
        client.push("remembered", f"urgent-{round_}", priority=round_ + 1)
        [job] = other.take("remembered", wait="5s")
        assert job["id"] == f"urgent-{round_}"
        other.ack(job["lease"])
        client.call("DELETE", "/v1/topics/remembered")
        other.push("remembered", "anew")
        assert other.push("remembered", "anew")["result"] == "replaced"
        [job] = client.take("remembered", wait="5s")
        assert job["id"] == "anew"
        client.ack(job["lease"])


def test_many_jobs_side_by_side_are_leased_and_deleted_by_one_statement(pair, mariadb):
    client = pair[0].client()
    _pushed(client, "many-at-once", 1000)
    with _texts_of_servers(mariadb) as texts:
        taken = client.take("many-at-once", max=1000)
        assert _answers(client, "ack", [job["lease"] for job in taken]) == ["ok"] * 1000
    output = [re.sub("UPDATE tarry.ticket [^;]*;", "", text) for text in texts if re.search("UPDATE tarry.job|DELETE j? ?FROM|SELECT topic,level,.*NOWAIT", text)]
    kinds = [re.sub(r".*?(UPDATE|DELETE|SELECT) .*", r"\1", text, flags=re.DOTALL) for text in output]
    assert kinds in (["UPDATE", "DELETE", "DELETE"], ["UPDATE", "SELECT", "DELETE"]), output  # without a look at the jobs first, or with one
    assert max(len(re.sub(r"DELETE FROM tarry.server_job_key [^;]*;", "", text)) for text in output) < 1000  # only the ids are a list


def test_once_of_many_pushes_is_remembered_by_one_statement_and_holds_at_two_servers(pair, mariadb):
    def items(owner, **options):
        return [{"topic": "once-many", "id": f"{owner}-{number}", "once": f"o-{number}", "body": "x", **options} for number in range(100)]

    clients = [server.client(30) for server in pair]
    with _texts_of_servers(mariadb) as texts:
        assert {result["result"] for result in clients[0].push_batch(items("before", once_for="1ms"))} == {"created"}
    assert len(re.findall("INSERT INTO tarry.finished", ";".join(texts))) < 10  # more than one if the transaction was repeated
    results = {}

    def push(index):
        results[index] = [result["result"] for result in clients[index].push_batch(items(index))]

    threads = [threading.Thread(target=push, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sorted(pair) for pair in zip(results[0], results[1])] == [["created", "existed"]] * 100


def test_many_schedules_are_pushed_again_by_one_statement(pair, mariadb):
    client = pair[0].client(30)
    specs = [{"name": f"many-{number}", "topic": "fires", "every": "2s", "count": 3, "body": f"b'\\{number}"} for number in range(100)]
    with _texts_of_servers(mariadb) as texts:
        client.good("PUT", "/v1/schedules?owner=many", json.dumps(specs).encode())
        found = []
        assert eventually(lambda: found.extend(client.take("fires", max=1000, wait="1s")) or len(found) == 300, 60)
    assert len({job["id"] for job in found}) == 300 and {job["body"] for job in found} == {spec["body"] for spec in specs}
    updates = [text for text in ";".join(texts).split(";") if "seq=" in text and "UPDATE tarry.job " in text]
    assert len(updates) < 60, updates[:3]  # 300 pushes again
    for spec in specs[:3]:  # a job is there before its schedule is pushed again
        shown = eventually(lambda path=f"/v1/schedules/{spec['name']}": (one := client.good("GET", path))["totals"]["fired"] == 3 and one)
        assert [fire["result"] for fire in shown["last"]] == ["fired"] * 3


# ---- in the user's own transaction ----

def test_a_plain_insert_pushes(pair, mariadb):
    insert = "INSERT INTO tarry.outbox (topic, id, delay_ms, body) VALUES ('plain', %s, 100, 'x')"
    with transaction(mariadb, False) as cursor:
        cursor.execute(insert, ("rolled-back",))
    with transaction(mariadb, True) as cursor:
        cursor.execute(insert, ("committed",))
        assert cursor.lastrowid == mariadb_last_id(cursor)
    assert [job["id"] for job in pair[0].client().take("plain", max=9, wait="5s")] == ["committed"]
    eventually(lambda: mariadb.do("SELECT count(*) FROM tarry.outbox") == 0, 10)
    with pytest.raises(pymysql.err.Error):
        mariadb.do("INSERT INTO tarry.outbox (topic, id, body) VALUES ('plain', 'two words', 'x')")


def mariadb_last_id(cursor):
    cursor.execute("SELECT LAST_INSERT_ID()")
    return cursor.fetchone()[0]


def test_the_caller_s_last_id_stays(mariadb):
    mariadb.do("CREATE TABLE IF NOT EXISTS mysql.tarry_test_ids (n INT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT = 77")
    with transaction(mariadb, True) as cursor:
        cursor.execute("INSERT INTO mysql.tarry_test_ids () VALUES ()")
        last = mariadb_last_id(cursor)
        assert mariadb.call("push", "last-id", "a", 3600000, b"x", cursor=cursor) == "created"
        assert mariadb.call("push", "last-id", "a", 3600000, b"x", cursor=cursor) == "replaced"
        assert mariadb_last_id(cursor) == last


@pytest.mark.parametrize("call", [
    "push('no blank', 'a', 0, '', @r)", "push('t', 'two words', 0, '', @r)", "push('t', '..', 0, '', @r)", "push('t', 'a', -1, '', @r)",
    "push('t', 'a', 400000000000, '', @r)", "push('t', 'a', 0, NULL, @r)", "push_with('t', 'a', NULL, 4102444800000, '', NULL, NULL, NULL, @r)",
    "push_with('t', 'a', NULL, NULL, '', NULL, 70000, NULL, @r)", "push_with('t', 'a', NULL, NULL, '', NULL, NULL, 'perhaps', @r)",
    "push_with('t', 'a', 1, 1, '', NULL, NULL, NULL, @r)", "reschedule('t', 'a', NULL, NULL, NULL, @r)"])
def test_bad_input_is_refused_and_changes_nothing(mariadb, call):
    before = mariadb.do("SELECT count(*) FROM tarry.jobs")
    with pytest.raises(pymysql.err.Error):
        mariadb.do(f"CALL tarry.{call}")
    assert mariadb.do("SELECT count(*) FROM tarry.jobs") == before


def test_a_call_on_a_leased_job_does_not_delay_its_ack(pair, mariadb):
    client = pair[0].client()
    client.push("race", "a")
    lease = client.take("race", wait="5s")[0]["lease"]
    with transaction(mariadb, False) as cursor:
        assert mariadb.call("cancel", "race", "a", cursor=cursor) == "leased"
        assert mariadb.call("reschedule", "race", "a", 1000, None, None, cursor=cursor) == "leased"
        assert client.ack(lease)[0]["result"] == "ok"


def test_no_deadlock_is_shown_and_the_counts_agree():
    """The short form of sql_batches.py."""
    assert sql_batches.run(200, servers=2, threads=4, database_class=DatabaseServer).answers["push created"] > 100


# ---- a full disk ----

@pytest.fixture(name="small_disk")
def small_disk_fixture(tmp_path):
    """Mounts a disk of 24 MB. Only root can make one."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tarry-test", str(tmp_path)], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small disk")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.mark.skipif(DatabaseServer is MysqlServer, reason="to MySQL a directory is no database")
def test_a_full_disk_of_the_tables_refuses_loudly_and_loses_nothing(start_server, small_disk):
    with DatabaseServer() as database:
        (small_disk / "tarry").mkdir()
        (database.directory / "data/tarry").symlink_to(small_disk / "tarry")  # a directory is a database
        assert tarry("sql", "migrate", database.url).returncode == 0
        fills_up_and_goes_on(database, start_server("--store", database.url).client(), small_disk / "ballast", 8)


# ---- events ----

def _wait_until_all_know_who_listens(mariadb, since_ms=0):
    """Each server checks once a second; it reports its later changes. The listener has registered after `since_ms`."""
    eventually(lambda: mariadb.do("SELECT COUNT(*) FROM tarry.server WHERE listen_until > GREATEST(tarry.now_ms(), %s + 3000)", since_ms) == 1, 20)
    known = mariadb.do("SELECT MAX(listen_until) - 2900 FROM tarry.server")
    eventually(lambda: mariadb.do("SELECT MIN(beat) FROM tarry.server WHERE beat > tarry.now_ms() - 5000") > known)


def _transactions_of(mariadb, ident):
    """The kinds of statements of each transaction that names a job, by the general log, which has whole packets."""
    transactions, output = [], {}
    for thread, text in mariadb.rows("SELECT thread_id, CONVERT(argument USING latin1) FROM mysql.general_log WHERE command_type = 'Query' AND thread_id <> CONNECTION_ID()"):
        for statement in text.split(";"):
            output.setdefault(thread, []).append(statement)
            if statement == "COMMIT" and any(f"'{ident}'" in one for one in output[thread]):
                transactions.append([(one.split()[0], re.findall(r"tarry\.\w+", one)) for one in output[thread] if one])
            if statement in ("COMMIT", "ROLLBACK"):
                output[thread] = []
    return transactions


def test_events_come_from_all_servers_and_after_a_cut(pair, mariadb):
    first, client = pair[0], pair[1].client()
    with Stream(first.port, "/v1/events?topic=watched") as stream:
        _wait_until_all_know_who_listens(mariadb)
        client.push("watched", "a", delay="10ms")
        job = client.take("watched", wait="10s", lease_for="1m")[0]
        error = "bad\taddress: 'it\\s' 100 % \u00fcber\nall"
        client.nack(job["lease"], error=error, delay="1h")
        client.cancel("watched", "a")
        events = [stream.next() for _ in range(4)]
        assert [event for event, _ in events] == ["pushed", "delivered", "nacked", "cancelled"]
        assert events[1][1]["way"] == "take" and events[2][1]["error"] == error and events[2][1]["attempt"] == 1
        assert all(data["topic"] == "watched" and data["id"] == "a" for _, data in events)

        mariadb.call("push", "watched", "silent", 3600000, b"x")  # by SQL: without a notification
        for n in range(30):  # in transactions of both, each is sent once and in order
            pair[n % 2].client().push("watched", f"alternating-{n}", delay="1h")
        assert sorted(stream.next()[1]["id"] for _ in range(30)) == sorted(f"alternating-{n}" for n in range(30))

        mariadb.cut_servers()
        cut_ms = mariadb.do("SELECT tarry.now_ms()")
        assert stream.until(lambda event, _: event == "gap")
        _wait_until_all_know_who_listens(mariadb, cut_ms)
        client.push("watched", "c", delay="1h")
        assert stream.until(lambda event, data: data.get("id") == "c")
    eventually(lambda: mariadb.do("SELECT MAX(listen_until) FROM tarry.server") == 0)


def test_events_of_a_job_on_several_servers_arrive_in_order(mariadb, start_server):
    servers = [start_server("--store", mariadb.url) for _ in range(3)]
    clients = [server.client() for server in servers]
    with Stream(servers[0].port, "/v1/events?topic=passed") as stream:  # it also passes the job on
        _wait_until_all_know_who_listens(mariadb)
        for n in range(30):
            clients[n % 3].push("passed", "a", delay="1h")
            clients[(n + 1) % 3].run("passed", "a")
            clients[(n + 2) % 3].cancel("passed", "a")
        assert [stream.next()[0] for _ in range(90)] == 30 * ["pushed", "run", "cancelled"]


def test_more_events_than_a_message_holds_come_all_to_the_other_server(pair, mariadb):
    with Stream(pair[0].port, "/v1/events?topic=many-events&event=pushed,cancelled") as stream:
        _wait_until_all_know_who_listens(mariadb)
        ids = [f"{'x' * 100}{i}" for i in range(900)]
        pair[1].client().push_batch([{"topic": "many-events", "id": ident, "body": 1, "delay": "1h"} for ident in ids])
        assert sorted(stream.next()[1]["id"] for _ in ids) == sorted(ids)
        assert mariadb.do("SELECT COUNT(*) FROM tarry.message WHERE LENGTH(text) > 50000") >= 1
        mariadb.do("DELETE FROM tarry.message")
        mariadb.do("INSERT INTO tarry.message (at, server, number, lost, text) "  # as if nine between had been deleted unread
                   "SELECT tarry.now_ms(), server, 10 + (SELECT number FROM tarry.ticket x WHERE x.server = s.server), 0, '1 0 0 0 0 0 many-events late \n' FROM tarry.server s WHERE listen_until = 0 AND beat > 0")
        assert stream.until(lambda event, data: data.get("id") == "late")[0] == ("gap", {"lost": 1})


def test_events_cost_a_transaction_one_statement_only_with_listeners(pair, mariadb):
    client, before = pair[1].client(), mariadb.do("SELECT COUNT(*) FROM tarry.message")
    for ident in ("first", "second"):  # the second one finds the new priority
        client.push("counted", ident, delay="1h")
    mariadb.do("SET GLOBAL log_output = 'TABLE'")
    mariadb.do("SET GLOBAL general_log = ON")
    try:
        client.push("counted", "unwatched", delay="1h")
        assert mariadb.do("SELECT COUNT(*) FROM tarry.message") <= before
        with Stream(pair[0].port, "/v1/events?topic=counted"):
            _wait_until_all_know_who_listens(mariadb)
            client.push("counted", "watched", delay="1h")
        assert pair[0].terminate() == 0
        eventually(lambda: mariadb.do("SELECT COUNT(*) FROM tarry.server WHERE beat > tarry.now_ms() - 11000") == 1, 20)
        with Stream(pair[1].port, "/v1/events?topic=counted") as stream:  # it is the only server: there is no listener
            _wait_until_all_know_who_listens(mariadb)
            client.push("counted", "alone", delay="1h")
            assert stream.until(lambda event, data: data.get("id") == "alone")
        unwatched, watched, alone = (_transactions_of(mariadb, ident) for ident in ("unwatched", "watched", "alone"))
    finally:
        mariadb.do("SET GLOBAL general_log = OFF")
    reported = ("INSERT", ["tarry.message"])
    assert len(unwatched) == len(watched) == len(alone) == 1 and len(unwatched[0]) > 5, (unwatched, watched)
    assert reported not in unwatched[0] + alone[0] and [one for one in watched[0] if one != reported] == unwatched[0] and len(watched[0]) == len(unwatched[0]) + 1, (unwatched, watched)


def test_messages_are_deleted_once_they_are_old(pair, mariadb):
    eventually(lambda: mariadb.do("SELECT COUNT(*) FROM tarry.server WHERE beat > tarry.now_ms() - 5000") >= 2)
    mariadb.do("INSERT INTO tarry.message (at, server, number, lost, text) VALUES (tarry.now_ms() - 10001, 1, 1, 0, 'old')")
    eventually(lambda: not mariadb.do("SELECT COUNT(*) FROM tarry.message WHERE text = 'old'"))
