"""
The cost of the statements that servers run without a request, beside many waiting jobs: each with the rows that it reads, as the database counts them.

    python3 tests/e2e/support/sql_costs.py postgres --jobs 1000000
    python3 tests/e2e/support/sql_costs.py mariadb --jobs 1000000

Prints the table of docs/operations/databases.md. PostgreSQL logs each statement with its plan, those in functions too (auto_explain); MariaDB
writes them to the log of slow queries. Two servers work meanwhile: a consumer waits, jobs end their ttl and their lease, users push by SQL, a listener
reads events, a topic is deleted, and one server is killed and its lease adopted.
"""

import argparse
import contextlib
import json
import pathlib
import re
import statistics
import sys
import tempfile
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent)]

from mariadb import MariadbServer  # noqa: E402
from postgres import PostgresServer  # noqa: E402
from server import Server, eventually  # noqa: E402
from sql_serving import tarry  # noqa: E402

DAY_MS = 86_400_000
# A statement: what it is for, a part of its text in PostgreSQL and in MariaDB. The first row that fits counts.
KINDS = [
    ("end leases", "when a lease ends", r"tarry\._answer_items\(", r"delivery,cancel_requested,consumer,[a-z_,]+EXISTS\(SELECT 1 FROM tarry\.awaited\),batch,own FROM tarry\.job"),
    ("take over leases of a failed server", "at a start; each second while a server is silent", r"UPDATE tarry\.job j SET server = p_server FROM", r"server_places SELECT x\.topic"),
    ("end expired ttls", "when a ttl ends", r"tarry\.job WHERE expire <= ", r"expire<="),
    ("find the next ttl", "each second", r"SELECT expire FROM tarry\.job WHERE expire IS NOT NULL", r"SELECT expire FROM tarry\.job WHERE expire IS NOT NULL"),
    ("remove kept jobs whose time has ended", "each second", r"FROM tarry\.finished f WHERE f\.kept <= ", r"FROM tarry\.kept FORCE INDEX \(kept_until\)"),
    ("forget ended ids (`dedup_window`, `once`)", "each second", r"DELETE FROM tarry\.finished", r"server_ids SELECT topic, id FROM tarry\.finished WHERE until"),
    ("fold counts of users and of failed servers", "each second", r"DELETE FROM tarry\.tally_add WHERE ctid", r"FROM tarry\.tally_add ORDER BY n|server_fold f STRAIGHT_JOIN tarry\.tally_add"),
    ("remove a deleted topic in steps", "each second", r"WHERE t\.name IS NULL AND \(t\.paused_until|DELETE FROM tarry\.job j USING", r"MIN\(t\.topic\)|server_places f STRAIGHT_JOIN tarry\.job x"),
    ("remove priority levels without jobs", "each second", r"FROM tarry\.level (k )?WHERE", None),
    ("find jobs that wait, for consumers that wait", "each second, and after a notification; MariaDB: every 10 to 100 ms", r"FROM tarry\.level l, LATERAL", r"SELECT due FROM tarry\.job"),
    ("find groups that may be served, for consumers that wait", "MariaDB: every 10 to 100 ms", None, r"SELECT h\.in_flight,h\.full_us"),
    ("add notes of groups", "MariaDB: each second, and with each take from a topic with groups", None, r"server_notes SELECT n, topic|FROM tarry\.grp_note FORCE INDEX"),
    ("remove groups that are not used", "MariaDB: each second", None, r"server_grps SELECT topic, grp FROM tarry\.grp FORCE INDEX \(grp_idle\)"),
    ("add changes of batches", "each second, and after users' changes of batches", r"tarry\.batch_add", r"DISTINCT batch FROM tarry\.batch_add|FROM tarry\.batch b FORCE|FROM tarry\.batch_add FORCE"),
    ("compare kept jobs with the limits of their topics", "each second", r"WITH RECURSIVE k AS", r"MIN\(topic\)[^)]*FROM tarry\.kept"),
    ("read notifications of other servers", "MariaDB: with each look", None, r"SELECT n,what,name,due FROM tarry\.notification"),
    ("read events of other servers", "MariaDB: every 100 ms while a client listens", None, r"FROM tarry\.message FORCE INDEX \(message_at\)"),
    ("remove old notifications and events", "MariaDB: each second", None, r"server_fold SELECT n FROM tarry\.(notification|message)"),
    ("sign of life, other servers", "each second", r"INSERT INTO tarry\.server|FROM tarry\.server WHERE", r"SUM\(beat >=|INSERT INTO tarry\.server "),
    ("counts of topics, for figures and alerts", "each second", r"SELECT t\.name, t\.paused AND", r"SELECT t\.name, t\.paused AND"),
    ("create and drop days of the history", "about each minute; MariaDB: after changes and each hour", r"pg_inherits", r"information_schema\.partitions"),
    ("read the clock", "with each transaction", r"FROM tarry\._clock|adjust_ms FROM tarry\.store", r"tarry\.now_ms\(\),adjust_ms"),
]


class Statement:
    """`rows`: read in tables and indexes, those included that the statement drops. `pages`: read in tables and indexes, also those without such a row."""

    def __init__(self, text, rows, pages, ms, is_of_a_server=True):
        self.text, self.rows, self.pages, self.ms, self.is_of_a_server = " ".join(text.split()), rows, pages, ms, is_of_a_server


class Postgres:
    name, column, is_planned_empty = "PostgreSQL", 2, False
    log_settings = ("session_preload_libraries=auto_explain", "auto_explain.log_min_duration=0", "auto_explain.log_analyze=on", "auto_explain.log_nested_statements=on",
                    "auto_explain.log_format=json", "auto_explain.log_buffers=on", "log_line_prefix=%a:")

    def __init__(self):
        self.server = PostgresServer("fsync=off", "full_page_writes=off", "shared_buffers=256MB", "max_wal_size=4GB", *self.log_settings)

    def fill(self, jobs):
        due = int(time.time() * 1000) + DAY_MS
        self.server.do("SET session_replication_role = replica; SET auto_explain.log_min_duration = -1; INSERT INTO tarry.job (topic, level, due, seq, id, state, attempt, priority, first_due, body) "
                       f"SELECT (SELECT topic FROM tarry.topic WHERE name = 'w'), 100, {due} + i, 1000000 + i, 'far-' || i, 1, 0, 100, {due} + i, 'x'::bytea FROM generate_series(1, {jobs}) i")
        self.server.do(f"SET auto_explain.log_min_duration = -1; UPDATE tarry.job SET expire = due + {DAY_MS} WHERE id LIKE 'far-%0'")
        self.server.do(f"SET auto_explain.log_min_duration = -1; INSERT INTO tarry.finished SELECT topic, 'gone-' || id, {due} FROM tarry.job WHERE id LIKE 'far-%0'")
        self.server.do(f"SET auto_explain.log_min_duration = -1; INSERT INTO tarry.tally_add (topic, counts) SELECT topic, array_fill({jobs}, ARRAY[1]) || array_fill(0, ARRAY[16]) FROM tarry.topic WHERE name = 'w'")
        if not self.is_planned_empty:
            self.server.do("ANALYZE")

    def plan_empty(self):
        """The statistics are those of tables without rows. Each session plans a statement about five times."""
        self.server.do("VACUUM ANALYZE")
        self.is_planned_empty = True

    def await_new_plans(self):
        """Waits until the servers have noticed that the tables have grown, and statements that began before that have ended."""
        eventually(lambda: self.server.do("SELECT min(reltuples) > 5000 FROM pg_class WHERE oid IN ('tarry.job'::regclass, 'tarry.finished'::regclass)"), 60)
        now = self.server.do("SELECT clock_timestamp()::text")
        eventually(lambda: self.server.do(f"SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'tarry' AND state = 'active' AND query_start < '{now}'"), 60)

    def leave_deleted_rows(self, rows, topic, due):
        """Jobs of the topic that are gone, which is called after the column that counts them."""
        before = {"acked": 6, "cancelled": 7}[topic]
        self.server.do(f"SET auto_explain.log_min_duration = -1; INSERT INTO tarry.tally_add (topic, counts) SELECT topic, array_fill(0, ARRAY[{before}]) || {rows} || array_fill(0, ARRAY[{16 - before}]) FROM tarry.topic WHERE name = '{topic}'")
        self.server.do("SET session_replication_role = replica; SET auto_explain.log_min_duration = -1; INSERT INTO tarry.job (topic, level, due, seq, id, state, attempt, priority, first_due, body) "
                       f"SELECT (SELECT topic FROM tarry.topic WHERE name = '{topic}'), 100, {due} + i, i, 'old-' || i, 1, 0, 100, i, 'x'::bytea FROM generate_series(1, {rows}) i")
        self.server.do("SET auto_explain.log_min_duration = -1; DELETE FROM tarry.job WHERE id LIKE 'old-%'")

    def log_path(self):
        return self.server.directory / "log"

    @staticmethod
    def statements(text):
        for found in re.finditer(r"^(\S*):LOG:  duration: ([\d.]+) ms  plan:\n(.*?)(?=^\S)", text + "x", re.DOTALL | re.MULTILINE):
            plan = json.loads(found[3])
            pages = plan["Plan"].get("Shared Hit Blocks", 0) + plan["Plan"].get("Shared Read Blocks", 0)
            yield Statement(plan["Query Text"], _scanned(plan["Plan"]), pages, float(found[2]), found[1] == "tarry")


def _scanned(node):
    """Rows that a plan reads from tables and indexes, those included that it drops."""
    rows = 0
    if "Relation Name" in node or "Index Name" in node:
        rows = node.get("Actual Loops", 0) * (node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0))
        rows *= node["Node Type"] not in ("ModifyTable",)
    return rows + sum(_scanned(child) for child in node.get("Plans", ()))


class Mariadb:
    name, column = "MariaDB", 3

    def __init__(self):
        self.server = MariadbServer("slow-query-log=1", "slow-query-log-file=slow", "long-query-time=0", "log-slow-disabled-statements=", "log-slow-verbosity=engine", "log-output=FILE", "innodb-buffer-pool-size=256M",
                                    "innodb-flush-log-at-trx-commit=1")

    def fill(self, jobs):
        due = int(time.time() * 1000) + DAY_MS
        for first in range(1, jobs + 1, 100_000):
            self.server.do("INSERT INTO tarry.job (topic, level, due, seq, id, state, attempt, priority, first_due, body_bytes, body, expire) "
                           f"SELECT (SELECT topic FROM tarry.topic WHERE name = 'w'), 100, {due} + s.seq, 1000000 + s.seq, concat('far-', s.seq), 1, 0, 100, {due} + s.seq, 1, 'x', "
                           f"IF(s.seq % 10 = 0, {due} + s.seq + {DAY_MS}, NULL) FROM tarry.seq_{first}_to_{min(jobs, first + 99_999)} s")
        self.server.do(f"INSERT INTO tarry.finished SELECT topic, concat('gone-', id), {due} FROM tarry.job WHERE id LIKE 'far-%0'")
        self.server.do(f"INSERT INTO tarry.tally_add (topic, fresh) SELECT topic, {jobs} FROM tarry.topic WHERE name = 'w'")
        self.server.do("ANALYZE TABLE tarry.job, tarry.finished")

    def leave_deleted_rows(self, rows, topic, due):
        """Jobs of the topic that are gone, which is called after the column that counts them."""
        self.server.do(f"INSERT INTO tarry.tally_add (topic, {topic}) SELECT topic, {rows} FROM tarry.topic WHERE name = '{topic}'")
        self.server.do("INSERT INTO tarry.job (topic, level, due, seq, id, state, attempt, priority, first_due, body_bytes, body) "
                       f"SELECT (SELECT topic FROM tarry.topic WHERE name = '{topic}'), 100, {due} + s.seq, s.seq, concat('old-', s.seq), 1, 0, 100, s.seq, 1, 'x' FROM tarry.seq_1_to_{rows} s")
        self.server.do("DELETE FROM tarry.job WHERE id LIKE 'old-%'")

    def log_path(self):
        return self.server.directory / "data" / "slow"

    @staticmethod
    def statements(text):
        for part in re.split(r"^# User@Host: ", text, flags=re.MULTILINE)[1:]:
            found = re.search(r"Query_time: ([\d.]+) .*?Rows_examined: (\d+)", part, re.DOTALL)
            lines = [line for line in part.splitlines()[1:] if not line.startswith(("#", "SET timestamp", "use "))]
            if found and lines:
                pages = re.search(r"Pages_accessed: (\d+)", part)
                yield Statement(" ".join(lines), int(found[2]), int(pages[1]) if pages else 0, float(found[1]) * 1000)


def work(database, directory, seconds=6, fill=None):
    """Makes each kind of statement run. If `fill` is given, it is called after these seconds, and the statements run once more."""
    first, second = (Server(directory / f"server{number}", ["--store", database.url]).start() for number in range(2))
    try:
        client, other = first.client(60), second.client(60)
        ends = threading.Event()

        def wait_for_jobs():
            waiting = first.client(60)
            while not ends.is_set():
                with contextlib.suppress(Exception):
                    for job in waiting.take("w", "busy", "grouped", "kept", wait="500ms"):
                        waiting.ack(job["lease"])

        def listen():
            connection = first.connection(2)
            with contextlib.suppress(Exception):
                connection.call("GET", "/v1/events")
            ends.wait()
            connection.close()

        threads = [threading.Thread(target=target, daemon=True) for target in (wait_for_jobs, listen)]
        for thread in threads:
            thread.start()
        other.put_topic("busy", history="1d", dedup_window="1s", backoff="fixed:1ms")
        other.put_topic("kept", keep_finished="1s")
        has_groups = isinstance(database, MariadbServer)  # PostgreSQL counts the pages of functions in the statements that call them
        if has_groups:
            other.put_topic("grouped", group_limit=2)
        other.push("deleted", "a", delay="1h")
        other.delete_topic("deleted")
        until = time.monotonic() + seconds
        for number in range(10_000):
            if time.monotonic() > until and fill:
                fill()
                fill, until = None, time.monotonic() + 3
            if time.monotonic() > until:
                break
            other.push("busy", f"j-{number}", delay="50ms", priority=number % 3)
            other.push("ending", f"t-{number}", ttl="50ms")
            database.call("push", "busy", f"sql-{number}", 100, "x")
            other.push("kept", f"k-{number}")
            other.push("waiting", f"w-{number}", waits="true")
            for member in range(1 if has_groups else 3):  # each has events, and a reader of events reads those of seconds
                other.push("busy", f"m-{number}-{member}", batch_topic="waiting", batch_id=f"w-{number}")
            database.call("close", "waiting", f"w-{number}")
            if has_groups:
                other.push("grouped", f"g-{number}", group=f"group-{number % 5}")
            other.push("held", f"h-{number}")
            other.take("held", lease_for="1s")
            other.topic("w")  # counts the jobs that fall due soon
            time.sleep(0.1)
        other.push("adopted", "x")
        assert eventually(lambda: other.take("adopted", lease_for="2s"))
        second.kill()
        eventually(lambda: client.get("adopted", "x")["state"] == "ready", 60)
        ends.set()
        for thread in threads:
            thread.join(10)
    finally:
        for server in (first, second):
            if server.alive:
                server.kill()


def measure(database_class, jobs, is_planned_empty=False):
    """The statements of servers that ran while `jobs` waited. `is_planned_empty`: their plans were made for empty tables."""
    database, begin = database_class(), 0

    def fill():
        nonlocal begin
        database.fill(jobs)
        if is_planned_empty:
            database.await_new_plans()
        begin = database.log_path().stat().st_size

    with database.server, tempfile.TemporaryDirectory() as directory:
        assert tarry("sql", "migrate", database.server.url).returncode == 0
        server = Server(pathlib.Path(directory) / "first", ["--store", database.server.url]).start()
        server.client().push("w", "first", delay="1h")
        server.terminate()
        if is_planned_empty:
            database.plan_empty()
            work(database.server, pathlib.Path(directory), 8, fill)
        else:
            fill()
            work(database.server, pathlib.Path(directory))
        with database.log_path().open("rb") as log:
            log.seek(begin)
            return list(database.statements(log.read().decode(errors="replace")))


def measure_figures(database_class, rows):
    """The counts, and the statements, of two requests for the figures of each of two topics, with a delayed and then also 20 ready jobs, while a snapshot
    keeps the deleted rows of jobs that were due, or were cancelled before that."""
    database = database_class()
    topics = {"acked": 1_000_000, "cancelled": int(time.time() * 1000) + DAY_MS}
    with database.server, tempfile.TemporaryDirectory() as directory, contextlib.closing(database.server.connect()) as holder, holder.cursor() as cursor:
        # The connection is idle while the rows are made, which takes longer than the usual timeout on a busy machine.
        server = Server(pathlib.Path(directory) / "first", ["--store", database.server.url, "--migrate", "--idle-timeout", "1h"]).start()
        client = server.client(60)
        for topic in topics:
            client.push(topic, "first", delay="1h")
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1" if database_class is not Mariadb else "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        for topic, due in topics.items():
            database.leave_deleted_rows(rows, topic, due)
        begin = database.log_path().stat().st_size
        counts = [client.topic(topic)["counts"] for topic in topics]
        client.push_batch([{"topic": topic, "id": f"ready-{number}"} for number in range(20) for topic in topics])
        counts += [client.topic(topic)["counts"] for topic in topics]
        server.terminate()
        with database.log_path().open("rb") as log:
            log.seek(begin)
            return counts, list(database.statements(log.read().decode(errors="replace")))


def kind_of(statement, column):
    return next((row[0] for row in KINDS if row[column] and re.search(row[column], statement.text)), None)


def by_kind(statements, column):
    found = {}
    for statement in statements:
        found.setdefault(kind_of(statement, column), []).append(statement)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", choices=("postgres", "mariadb"))
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--statements", action="store_true", help="print each text and its greatest number of pages")
    chosen = parser.parse_args()
    database_class = {"postgres": Postgres, "mariadb": Mariadb}[chosen.database]
    statements = measure(database_class, chosen.jobs)
    found = by_kind(statements, database_class.column)
    print(f"{database_class.name}, {chosen.jobs} waiting jobs, {len(statements)} statements")
    for name, *_ in [*KINDS, (None,)]:
        some = found.get(name)
        if some:
            print(f"| {name} | {len(some)} | {max(s.rows for s in some)} | {max(s.pages for s in some)} | {statistics.median(s.ms for s in some):.2f} | {max(s.ms for s in some):.1f} |")
        if some and chosen.statements:
            texts = {}
            for statement in some:
                text = re.sub(r"\d+|'[^']*'", "?", statement.text)[:200]
                texts[text] = max(texts.get(text, (0, 0)), (statement.pages, statement.rows))
            for text, (pages, rows) in sorted(texts.items(), key=lambda row: -row[1][0])[:8]:
                print(f"      {pages:8} {rows:8} {text}")


if __name__ == "__main__":
    main()
