"""
Three servers on a MariaDB and its replica, clients spread over them, and everything broken that can break; the checker is tests/checker.

    python3 tests/e2e/support/sql_mariadb_kill_loop.py --faults 60 --pushes 40000 --seconds 120
    python3 tests/e2e/support/sql_mariadb_kill_loop.py --asynchronous --only promote --faults 10 --pushes 5000 --seconds 60
    python3 tests/e2e/support/sql_mariadb_kill_loop.py --mysql --faults 60 --pushes 20000 --seconds 90

kill -9 of servers (also while they start) and of MariaDB; its connections cut; servers and MariaDB frozen (SIGSTOP); rows of jobs locked by another's
open transaction; a user's transaction that pushes, changes and cancels jobs and is rolled back late; pushes above a small packet limit; writes disabled
for a while; the primary killed and its replica promoted, whose clock is up to an hour off. A commit waits for the replica (semi-synchronous,
AFTER_SYNC): nothing that was answered may be lost. --asynchronous: it does not wait; what a promotion lost is counted, all else is checked.
--mysql: a MySQL (TARRY_TEST_MYSQL, see mysql.py), which has no replica here. Exit code: the checker's.
"""

import contextlib
import pathlib
import re
import signal
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[2]), str(pathlib.Path(__file__).parents[2] / "redis")]

import pymysql  # noqa: E402
from client import Lost  # noqa: E402
from kill_loop import arguments_of_all, run_and_check  # noqa: E402
from mariadb import MariadbServer  # noqa: E402
from mysql import MysqlServer  # noqa: E402
from server import eventually, free_port  # noqa: E402
from sql_kill_loop import SECONDS_LOCKED, SqlLoop  # noqa: E402

HOUR_MS = 3600 * 1000
WAITED_FOR = ("rpl-semi-sync-master-enabled=1", "rpl-semi-sync-slave-enabled=1", "rpl-semi-sync-master-wait-point=AFTER_SYNC", "rpl-semi-sync-master-timeout=1000000000")


class Pair:
    """A primary and its replica, each at one of two ports; a crashed one returns as a copy of the other."""

    def __init__(self, draw, is_waited_for):
        self.random, self.is_waited_for = draw, is_waited_for
        self.ports = [free_port(), free_port()]
        self.primary = MariadbServer(*self.settings(self.ports[0]))
        self.replica = None

    def settings(self, port):
        waiting = WAITED_FOR if self.is_waited_for else ()
        return ("skip-networking=0", "bind-address=127.0.0.1", f"port={port}", f"server-id={port}", "innodb-log-file-size=8M", *waiting)

    def add_replica(self):
        self.replica = MariadbServer(*self.settings(self.ports[1]), "read-only=1", copy_of=self.primary)
        self.replica.follow(self.primary, self.ports[0])

    def promote(self):
        self.primary.kill()
        self.replica.do("SET GLOBAL rpl_semi_sync_master_enabled = 0")  # no replica to wait for: no fault before there is one
        self.replica.promote(before_it_is_written_to=self.set_clock)
        self.primary.__exit__()
        self.primary, self.ports = self.replica, self.ports[::-1]
        self.primary.settings = self.settings(self.ports[0])
        self.add_replica()
        self.primary.do(f"SET GLOBAL rpl_semi_sync_master_enabled = {int(self.is_waited_for)}")

    def set_clock(self):
        """The clock differs by as much as the correction of the one before is wrong here: MariaDB itself waits by its clock, and hangs if it differs from the machine's."""
        self.replica.do("UPDATE tarry.store SET adjust_ms = adjust_ms + %s", self.random.randrange(-HOUR_MS, HOUR_MS))

    @property
    def url(self):
        return f"mysql://root@127.0.0.1:{min(self.ports)},127.0.0.1:{max(self.ports)}/"

    def __exit__(self, *_):
        for server in filter(None, (self.primary, self.replica)):
            server.__exit__()


class Single:
    """A MySQL without a replica."""

    def __init__(self):
        self.primary = MysqlServer()
        self.url = self.primary.url

    def add_replica(self):
        """Does nothing."""

    def __exit__(self, *_):
        self.primary.__exit__()


class MariadbLoop(SqlLoop):
    def make_store(self):
        return Single() if self.chosen.mysql else Pair(self.random, not self.chosen.asynchronous)

    def store_kinds(self):
        kinds = {"kill MariaDB": (2, self.kill_mariadb), "promote": (2, self.promote), "cut connections": (3, self.cut_connections),
                 "lock rows": (3, self.lock_rows), "read only": (1, self.read_only), "freeze MariaDB": (1, self.freeze_mariadb),
                 "user transaction": (3, self.user_transaction), "large push": (2, self.large_push)}
        if self.chosen.mysql:
            del kinds["promote"]
        return kinds

    def __init__(self, chosen, directory):
        chosen.hours = True
        super().__init__(chosen, directory)

    def add_pooler(self):
        """Does nothing: MariaDB has no pooler here."""

    def start(self):
        self.store.add_replica()
        super().start()

    # ---- faults ----

    def kill_mariadb(self):
        self.store.primary.kill()
        time.sleep(self.random.random() ** 2 * 0.5)
        self.store.primary.start()

    def promote(self):
        self.store.promote()
        for server in self.servers:
            eventually(lambda at=server: at.client().call("GET", "/readyz").status == 200, 60)
        return "failover" if self.chosen.asynchronous else "disturb"

    def cut_connections(self):
        with contextlib.suppress(pymysql.err.Error):
            self.store.primary.cut_servers()

    def lock_rows(self):
        """Locks jobs that are about to be taken, answered or pushed again; then rolls back like a user's own transaction."""
        with contextlib.suppress(pymysql.err.Error), contextlib.closing(self.store.primary.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("SELECT id FROM tarry.job WHERE due < tarry.now_ms() + 500 ORDER BY seq DESC LIMIT 20 FOR UPDATE SKIP LOCKED")
            time.sleep(self.random.random() * SECONDS_LOCKED)
            connection.rollback()

    def user_transaction(self):
        """Pushes, changes and cancels in one transaction, which is rolled back late."""
        with contextlib.suppress(pymysql.err.Error), contextlib.closing(self.store.primary.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("SELECT t.name, j.id FROM tarry.job j JOIN tarry.topic t USING (topic) WHERE j.state = 1 AND t.name IS NOT NULL ORDER BY RAND() LIMIT 3")
            for change, (topic, ident) in zip(("reschedule(%s, %s, 1, NULL, NULL, @r)", "cancel(%s, %s, @r)", "push(%s, %s, 0, 'by a user', @r)"), cursor.fetchall()):
                cursor.execute(f"CALL tarry.{change}", (topic, ident))
            cursor.execute("CALL tarry.push('plain', 'of-a-user', 0, '', @r)")
            time.sleep(self.random.random() * SECONDS_LOCKED)
            connection.rollback()

    def large_push(self):
        """The database accepts small packets for a while, and a push is larger: it is stored by a session of before, or refused, and stops no other call."""
        with contextlib.suppress(pymysql.err.Error, Lost, TimeoutError, OSError):
            self.store.primary.do("SET GLOBAL max_allowed_packet = 262144")
            if self.random.random() < 0.5:
                self.store.primary.cut_servers()
            answer = self.random.choice(self.servers).client(15).call("PUT", "/v1/topics/large/jobs/a?on_conflict=replace", b"x" * 500_000)
            assert answer.status in (200, 201, 413, 503), (answer.status, answer.body)
        self.store.primary.do("SET GLOBAL max_allowed_packet = 16777216")
        with contextlib.suppress(pymysql.err.Error):
            self.store.primary.cut_servers()

    def read_only(self):
        """Disables writes for ordinary users: root may still write."""
        with contextlib.suppress(pymysql.err.Error):
            self.store.primary.do("SET GLOBAL read_only = 1")
            self.store.primary.cut_servers()
            time.sleep(self.random.random())
            self.store.primary.do("SET GLOBAL read_only = 0")

    def freeze_mariadb(self):
        """A database that answers nothing for a while."""
        self.store.primary.process.send_signal(signal.SIGSTOP)
        time.sleep(self.random.random() ** 2 * 4)
        self.store.primary.process.send_signal(signal.SIGCONT)

    def restart_store(self):
        self.store.primary.crash()


def main(arguments=None):
    parser = arguments_of_all(__doc__)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--only", help="kinds of faults, with commas between: 'kill server,promote'")
    parser.add_argument("--mysql", action="store_true", help="a MySQL without a replica")
    parser.add_argument("--asynchronous", action="store_true", help="no commit waits for the replica")
    chosen = parser.parse_args(arguments)
    least = {"pushes": chosen.pushes // 2, "kills": 0, "redeliveries": 0, "disturbances": 0 if chosen.asynchronous else chosen.faults}
    code, report = run_and_check(MariadbLoop, chosen, least)
    if report and report["rules"]:
        notes = report["rules"]["L"]["notes"]
        if "answered around a failover" in notes:
            total = report["size"]["pushes"] + notes["answered around a failover"]
            print(f"lost in {report['size']['failovers']} promotions: {notes['of these lost']} of {total} pushes that were answered")
    return code


if __name__ == "__main__":
    sys.exit(main())
