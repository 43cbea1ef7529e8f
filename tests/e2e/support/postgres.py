"""A real PostgreSQL of a test's own: on a Unix socket in a short directory of its own, by an ordinary user."""

import atexit
import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import subprocess

import databases
import psycopg2
from server import short_directory


def _program(name):
    """Finds a program in PATH, or in Debian's folder."""
    found = shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)
    assert found, f"no {name}: install postgresql"
    return found


class PostgresServer:
    """PostgreSQL refuses to run as root: then it runs as the user 'postgres' of its package. The result of initdb, which takes a second, is made
    once and copied."""

    template = None
    store, deadlocks = "postgres", ()  # its name in `info`; possible errors of a user's transaction next to other writers
    functions = {"push": "push(%s, %s, %s * interval '1 ms', %s)",
                 "push_with": "push(%s, %s, %s * interval '1 ms', at => to_timestamp(%s / 1000.0), body => %s, content_type => %s, priority => %s, on_conflict => %s)",
                 "reschedule": "reschedule(%s, %s, %s * interval '1 ms', at => to_timestamp(%s / 1000.0), priority => %s)",
                 "cancel": "cancel(%s, %s)", "run": "run(%s, %s)", "close": "close(%s, %s)"}

    def __init__(self, *settings, copy_of=None, env=None):
        """`copy_of`: a replica that follows it. `env`: of the programs, such as another clock."""
        self.directory = short_directory("tarry-pg-")
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self.user:
            os.chown(self.directory, self.user.pw_uid, self.user.pw_gid)
        self.settings, self.env = settings, {**os.environ, **(env or {})}
        if copy_of:
            self._do("pg_basebackup", "-D", "data", "-R", "-c", "fast", "-h", str(copy_of.directory), "-U", "tarry")
        elif PostgresServer.template:
            self._do("cp", "-a", str(PostgresServer.template / "data"), "data")
        else:
            self._do("initdb", "-D", "data", "-A", "trust", "-U", "tarry", "-E", "UTF8", "--locale=C", "--no-sync")
            self._keep_template()
        self.start()

    def _do(self, name, *arguments):
        as_user = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        ended = subprocess.run([_program(name), *arguments], cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, timeout=120, env=self.env, **as_user)
        assert ended.returncode == 0, (name, ended.stderr)

    def _keep_template(self):
        template = short_directory("tarry-pg-")
        atexit.register(shutil.rmtree, template, True)
        if self.user:
            os.chown(template, self.user.pw_uid, self.user.pw_gid)
        self._do("cp", "-a", "data", str(template / "data"))
        PostgresServer.template = template

    def start(self):
        options = " ".join([f"-k {self.directory} -c listen_addresses=", *(f"-c {setting}" for setting in self.settings)])
        self._do("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", options, "start")
        databases.note_start(self, type(self).__name__)

    @property
    def log_path(self):
        return self.directory / "log"

    def has_ended(self):
        try:
            process = (self.directory / "data/postmaster.pid").read_text().split()[0]
            state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError) as fault:
            return str(fault)
        return None if state not in "ZX" else f"process {process} has ended"

    def stop(self, mode="immediate"):
        databases.note_stop(self)
        self._do("pg_ctl", "-D", "data", "-m", mode, "-w", "stop")

    def promote(self):
        self._do("pg_ctl", "-D", "data", "-w", "promote")

    def crash(self):
        """Kills all processes together, like a power cut, except for data in the kernel."""
        self.stop("immediate")
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(AssertionError):
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def url(self):
        return f"postgres:///postgres?host={self.directory}&user=tarry"

    def connect(self, user="tarry"):
        return psycopg2.connect(host=str(self.directory), user=user, dbname="postgres")

    def do(self, text, *values):
        """Runs a transaction of its own; returns the first column of the first row."""
        connection = self.connect()
        connection.autocommit = True
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchone()[0] if cursor.description else None

    def rows(self, text):
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall()

    def call(self, name, *values, cursor=None):
        """The counterpart of a procedure tarry.NAME of MariaDB, with the same values."""
        text = "SELECT tarry." + self.functions[name]
        if cursor is None:
            return self.do(text, *values)
        cursor.execute(text, values)
        return cursor.fetchone()[0]

    def refuse_inserts(self, ident):
        """Makes a trigger, as an application may."""
        self.do(f"""CREATE FUNCTION public.shop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id = '{ident}' THEN RAISE EXCEPTION 'not in this shop'; END IF; RETURN NEW; END $$;
            CREATE TRIGGER shop BEFORE INSERT ON tarry.job FOR EACH ROW EXECUTE FUNCTION public.shop()""")

    def refuse_deletes(self, ident):
        """Makes a trigger for one job, as an application may."""
        self.do(f"""CREATE FUNCTION public.shop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.id = '{ident}' THEN RAISE EXCEPTION 'not in this shop'; END IF; RETURN OLD; END $$;
            CREATE TRIGGER shop BEFORE DELETE ON tarry.job FOR EACH ROW EXECUTE FUNCTION public.shop()""")

    def refuse_beats(self):
        """Makes a trigger on the wrong table, as an application may."""
        self.do("""CREATE FUNCTION public.shop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not in this shop'; END $$;
            CREATE TRIGGER shop BEFORE UPDATE ON tarry.server FOR EACH ROW EXECUTE FUNCTION public.shop()""")

    def accept_all(self):
        self.do("DROP FUNCTION public.shop() CASCADE")

    def cut(self, connection):
        self.do("SELECT pg_terminate_backend(%s)", connection.get_backend_pid())

    def cut_servers(self):
        """Every connection of tarry's; how many."""
        return self.do("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tarry'")
