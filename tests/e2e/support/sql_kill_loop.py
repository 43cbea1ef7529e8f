"""
Three servers on one PostgreSQL, clients spread over them, and everything broken that can break; the checker is tests/checker.

    python3 tests/e2e/support/sql_kill_loop.py --faults 300 --pushes 200000 --seconds 300 [--slow-disk]

kill -9 of servers (also while they start), of one backend of PostgreSQL and of all its processes together; its connections terminated; servers frozen
(SIGSTOP); rows of jobs locked by another's open transaction, for longer than servers wait; a user's transaction that pushes, changes and cancels jobs
and is rolled back late; a transaction with an old snapshot held open; commits that wait; a publication for all tables; a pooler in session mode that
dies (one of the servers uses it); the database's clock set by up to half a second (--hours: by up to an hour) or slewed. Nothing that was answered may
be lost. Exit code: the checker's.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[2]), str(pathlib.Path(__file__).parents[2] / "redis")]

import kill_workers  # noqa: E402
import psycopg2  # noqa: E402
from fake_clock import SLEW_PPM, FakeClock, fake_time_library  # noqa: E402
from kill_loop import arguments_of_all, run_and_check  # noqa: E402
from kill_workers import now  # noqa: E402
from pgbouncer import Pgbouncer  # noqa: E402
from postgres import PostgresServer  # noqa: E402
from redis_kill_loop import RedisLoop  # noqa: E402
from server import BINARY, StartFailed, eventually, free_port  # noqa: E402

SECONDS_LOCKED = 1.5
STEP_MS_MAX, HOUR_MS, NOTICED_SECONDS = 500, 3_600_000, 0.5


def processes_in(directory):
    """PostgreSQL's: their working directory is that of its data."""
    found = []
    for cwd in pathlib.Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if os.readlink(cwd) == str(directory):
                found.append(int(cwd.parent.name))
    return found


class SqlLoop(RedisLoop):
    def make_store(self):
        slow = ("commit_delay=5000", "commit_siblings=0", "wal_writer_delay=10s") if self.chosen.slow_disk else ()
        self.clocks = pathlib.Path(tempfile.mkdtemp(prefix="tarry-clock-", dir="/tmp"))  # the database's user reads it
        self.clocks.chmod(0o755)
        # Behind: jobs for a moment of the wall clock are checked by this machine's, and come by that of the database.
        self.clock = FakeClock(self.clocks / "clock", -2 * self.step_ms_max)
        env = {name: value for name, value in self.clock.env(fake_time_library(self.clocks)).items() if name != "ASAN_OPTIONS"}
        return PostgresServer("max_connections=60", *slow, env=env)

    @property
    def step_ms_max(self):
        return HOUR_MS if self.chosen.hours else STEP_MS_MAX

    def store_kinds(self):
        return {"kill PostgreSQL": (2, self.kill_postgres), "kill backend": (2, self.kill_backend), "terminate": (3, self.cut),
                "lock rows": (3, self.lock_rows), "old snapshot": (1, self.old_snapshot), "freeze PostgreSQL": (1, self.freeze_postgres),
                "user transaction": (3, self.user_transaction), "publication": (2, self.publication), "kill pooler": (2, self.kill_pooler),
                "step clock": (3, self.step_clock), "slew clock": (1, self.slew_clock)}

    clocks = None  # a directory

    def __init__(self, chosen, directory):
        chosen.shards = 1
        super().__init__(chosen, directory)
        for name in ("cut", "change shards", "function flush"):
            self.kinds.pop(name, None)
        self.plan = self.plan_faults()
        self.held = self.pooler = None
        self.is_published = False
        kill_workers.HAS_ABSOLUTE = not chosen.hours

    def start(self):
        subprocess.run([str(BINARY), "sql", "migrate", self.store.url], check=True, stdout=subprocess.DEVNULL)
        for server in [*self.servers, self.probe]:
            server.flags = ["--store", self.store.url, *self.chosen.flag]
            server.own_port = free_port()
        self.add_pooler()
        for server in self.servers:
            self.start_server(server)

    def add_pooler(self):
        self.pooler = Pgbouncer(self.store, "session")
        self.servers[-1].flags[1] = self.pooler.url

    def start_server(self, server):
        """Tries again, as systemd does: a connection that a fault has just cut ends a start, and a pooler refuses connections for a second."""
        for _ in range(5):
            with contextlib.suppress(StartFailed):
                server.start(server.own_port)
                return
            time.sleep(1)
        super().start_server(server)

    def stop(self):
        for server in [*self.servers, self.probe]:
            if server.proc and server.alive:
                server.kill()
        if self.pooler:
            self.pooler.kill()
        self.store.__exit__()
        if self.clocks:
            shutil.rmtree(self.clocks)

    # ---- faults ----

    def processes(self):
        return processes_in(self.store.directory / "data")

    def crashed(self, begin):
        """Takes do not wait for the disk: one that was just answered may be undone, and its job given again under the same attempt."""
        self.write("fault", what="kill", begin=begin, at=now())

    def kill_postgres(self):
        begin = now()
        self.kill_all_processes()
        self.crashed(begin)
        time.sleep(self.random.random() ** 2 * 0.5)
        for lock in ("data/postmaster.pid", ".s.PGSQL.5432.lock"):  # without a parent that reaps them, dead processes look alive
            (self.store.directory / lock).unlink(missing_ok=True)
        self.store.start()
        self.write("fault", what="ready", at=now())

    def kill_all_processes(self):
        while processes := self.processes():
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)

    def kill_backend(self):
        """PostgreSQL takes its memory for spoilt then, ends all others, and recovers."""
        with contextlib.suppress(psycopg2.Error):
            backends, begin = self.backends(), now()
            if not backends:
                return
            os.kill(self.random.choice(backends), signal.SIGKILL)
            eventually(lambda: not set(backends) & set(self.processes()), 20)
            self.crashed(begin)
        self.wait_until_up()
        self.write("fault", what="ready", at=now())

    def backends(self):
        with contextlib.closing(self.store.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'tarry'")
            return [pid for pid, in cursor.fetchall()]

    def wait_until_up(self):
        def is_up():
            with contextlib.suppress(psycopg2.Error):
                return self.store.do("SELECT 1") == 1
        eventually(is_up, 60)

    def cut(self):
        with contextlib.suppress(psycopg2.Error):
            self.store.do("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tarry'")

    def lock_rows(self):
        """Locks jobs that are about to be taken, answered or pushed again; then rolls back like a user's own transaction."""
        with contextlib.suppress(psycopg2.Error), contextlib.closing(self.store.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT FROM tarry.job WHERE due < tarry.now_ms() + 500 ORDER BY random() LIMIT 20 FOR UPDATE SKIP LOCKED")
            time.sleep(self.random.random() * SECONDS_LOCKED)
            connection.rollback()

    def old_snapshot(self):
        """Held until the next one."""
        with contextlib.suppress(psycopg2.Error):
            if self.held:
                self.held.close()
            self.held = self.store.connect()
            self.held.set_session(isolation_level="REPEATABLE READ")
            self.held.cursor().execute("SELECT count(*) FROM tarry.topic")

    def freeze_postgres(self):
        """A database that answers nothing for a while."""
        frozen = self.processes()
        for process in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
        time.sleep(self.random.random() ** 2 * 4)
        for process in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)

    def user_transaction(self):
        """Pushes, changes and cancels in one transaction, which is rolled back late: calls about these jobs wait or fail, all others continue."""
        with contextlib.suppress(psycopg2.Error), contextlib.closing(self.store.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT t.name, j.id FROM tarry.job j JOIN tarry.topic t USING (topic) WHERE j.state = 1 AND t.name IS NOT NULL ORDER BY random() LIMIT 3")
            for change, (topic, ident) in zip(("reschedule(%s, %s, interval '1 ms')", "cancel(%s, %s)", "push(%s, %s, body => 'by a user')"), cursor.fetchall()):
                cursor.execute(f"SELECT tarry.{change}", (topic, ident))
            cursor.execute("SELECT tarry.push('plain', 'of-a-user')")
            time.sleep(self.random.random() * SECONDS_LOCKED)
            connection.rollback()

    def publication(self):
        """As data capture and replication make it; until the next fault of this kind."""
        with contextlib.suppress(psycopg2.Error):
            self.store.do("DROP PUBLICATION everything" if self.is_published else "CREATE PUBLICATION everything FOR ALL TABLES")
            self.is_published = not self.is_published

    def kill_pooler(self):
        self.pooler.kill()
        time.sleep(self.random.random() ** 2)
        self.pooler.start()

    def step_clock(self):
        forward = self.clock.ahead_ms() < -2 * self.step_ms_max
        self.clock.step(self.random.randrange(20, self.step_ms_max) * (1 if forward else -1))
        # A clock step cannot be detected if all servers that knew the clock were killed at that moment.
        time.sleep(NOTICED_SECONDS)

    def slew_clock(self):
        forward = self.clock.ahead_ms() < -2 * self.step_ms_max
        self.clock.slew(SLEW_PPM if forward else -SLEW_PPM)
        time.sleep(self.random.uniform(0.1, 0.6))
        self.clock.slew(0)

    # ---- looking ----

    def end_change(self):
        if self.held:
            self.held.close()
            self.held = None

    def fsck(self):
        done = subprocess.run([str(BINARY), "fsck", "--store", self.store.url], capture_output=True, text=True, check=False, timeout=120)
        self.write("fsck", at=now(), exit=done.returncode, text=done.stdout + done.stderr)

    def restart_store(self):
        self.store.crash()


def main(arguments=None):
    parser = arguments_of_all(__doc__)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--only", help="kinds of faults, with commas between: 'kill server,terminate'")
    parser.add_argument("--hours", action="store_true", help="the clock is set by up to an hour, and no due is a moment of the wall clock")
    parser.add_argument("--slow-disk", action="store_true", help="each sync takes 5 ms more, and takes pass by; what is not synced is written late")
    chosen = parser.parse_args(arguments)
    least = {"pushes": chosen.pushes // 2, "kills": 0, "redeliveries": chosen.faults, "disturbances": chosen.faults, "busy_kills": 20}
    return run_and_check(SqlLoop, chosen, least)[0]


if __name__ == "__main__":
    sys.exit(main())
