"""A real MariaDB of a test's own: on a Unix socket in a short directory of its own."""

import atexit
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time

import databases
import pymysql
from server import freeze, short_directory


class MariadbServer:
    """The result of mariadb-install-db, which takes seconds, is made once, and copied."""

    template = None
    store, deadlocks = "mysql", (pymysql.err.OperationalError,)  # its name in `info`; possible errors of a user's transaction next to other writers

    def __init__(self, *settings, env=None, copy_of=None):
        """`env`: of the program, such as another clock. `copy_of`: with the data of that one, as a snapshot of its disk has them."""
        self.directory = short_directory("tarry-my-")
        # A server deletes temporary tables of all servers from the folder that it shares with them when it starts.
        self.settings, self.env = settings, {**os.environ, "TMPDIR": str(self.directory), **(env or {})}
        try:
            if copy_of:
                copy_of.copy_disk(self.directory)
            else:
                self._make_data()
            self.start()
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def _make_data(self):
        if MariadbServer.template is None:
            template = short_directory("tarry-my-")
            atexit.register(shutil.rmtree, template, True)
            made = subprocess.run(["mariadb-install-db", "--no-defaults", f"--user={self.user}", f"--datadir={template}/data",
                                   "--auth-root-authentication-method=normal", "--skip-test-db"], env={**os.environ, "TMPDIR": str(template)},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120)
            assert made.returncode == 0, made.stdout
            MariadbServer.template = template
        shutil.copytree(MariadbServer.template / "data", self.directory / "data")

    def _words(self):
        """The program, with what only it knows. It has another name, because the scripts of the system's own service stop each process named mariadbd."""
        program = shutil.which("mariadbd", path=os.environ["PATH"] + ":/usr/sbin")
        assert program, "no mariadbd: install mariadb-server"
        name = self.directory / "test-mariadbd"
        if not name.is_symlink():
            name.symlink_to(program)
        return [str(name), "--no-defaults", "--skip-networking"]

    def copy_disk(self, directory):
        freeze(self.process.pid)
        try:
            shutil.copytree(self.directory / "data", directory / "data")
            for path in self.directory.glob("bin.*"):
                shutil.copy(path, directory)
        finally:
            self.process.send_signal(signal.SIGCONT)
        index = directory / "bin.index"
        index.write_text(index.read_text().replace(str(self.directory), str(directory)))

    user = pwd.getpwuid(os.geteuid()).pw_name

    @property
    def socket(self):
        return f"{self.directory}/sock"

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [*self._words(), f"--user={self.user}", f"--datadir={self.directory}/data", f"--socket={self.socket}",
                 f"--pid-file={self.directory}/pid", f"--log-bin={self.directory}/bin", "--loose-binlog-format=ROW",
                 "--sync-binlog=1", "--innodb-buffer-pool-size=64M", *(f"--{setting}" for setting in self.settings)],
                cwd=self.directory, stdout=log, stderr=log, env=self.env)
        until = time.monotonic() + 180  # a MySQL needs more than a minute on a busy machine
        while True:
            with contextlib.suppress(pymysql.err.OperationalError):
                self.connect().close()
                databases.note_start(self, type(self).__name__)
                return
            assert self.process.poll() is None and time.monotonic() < until, self.log_path.read_text()
            time.sleep(0.05)

    @property
    def log_path(self):
        return self.directory / "log"

    def has_ended(self):
        return None if self.process.poll() is None else f"exit code {self.process.returncode}"

    def follow(self, primary, port):
        """Starts as its replica, from the beginning, or from where a copy was made; both have a server-id of their own."""
        self.do("SET GLOBAL gtid_slave_pos = @@global.gtid_binlog_pos")
        self.do(f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1")
        self.do("START SLAVE")
        self.catch_up(primary)

    def catch_up(self, primary):
        assert self.do("SELECT MASTER_GTID_WAIT(%s, 30)", primary.do("SELECT @@global.gtid_binlog_pos")) == 0

    def promote(self, before_it_is_written_to=lambda: None):
        """Executes received changes first."""
        self.do("STOP SLAVE IO_THREAD")
        assert self.do("SELECT MASTER_GTID_WAIT(%s, 60)", self.io_position()) >= 0
        self.do("STOP SLAVE")
        self.do("RESET SLAVE ALL")
        before_it_is_written_to()
        self.do("SET GLOBAL read_only = 0")

    def io_position(self):
        with contextlib.closing(self.connect()) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            return cursor.fetchone()["Gtid_IO_Pos"]

    def refuse_inserts(self, ident):
        """Makes a trigger, as an application may."""
        self.do(f"CREATE TRIGGER tarry.shop BEFORE INSERT ON tarry.job FOR EACH ROW IF NEW.id = '{ident}' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not in this shop'; END IF")

    def refuse_deletes(self, ident):
        """Makes a trigger for one job, as an application may."""
        self.do(f"CREATE TRIGGER tarry.shop BEFORE DELETE ON tarry.job FOR EACH ROW IF OLD.id = '{ident}' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not in this shop'; END IF")

    def refuse_beats(self):
        """Makes a trigger on the wrong table, as an application may."""
        self.do("CREATE TRIGGER tarry.shop BEFORE UPDATE ON tarry.server FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not in this shop'")

    def accept_all(self):
        self.do("DROP TRIGGER tarry.shop")

    def kill(self):
        databases.note_stop(self)
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    def crash(self):
        """Cuts the power, except that the kernel keeps its buffers."""
        self.kill()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def url(self):
        return f"mysql://root@localhost/?socket={self.socket}"

    def connect(self, user="root"):
        return pymysql.connect(unix_socket=self.socket, user=user, charset="utf8mb4")

    def do(self, text, *values):
        """Runs a transaction of its own; returns the first column of the first row."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            connection.autocommit(True)
            cursor.execute(text, values or None)
            row = cursor.fetchone()
            return row[0] if row else None

    def call(self, name, *values, cursor=None):
        """A procedure tarry.NAME, whose result is its last parameter."""
        if cursor is None:
            with contextlib.closing(self.connect()) as connection, connection.cursor() as own:
                connection.autocommit(True)
                return self.call(name, *values, cursor=own)
        cursor.execute(f"CALL tarry.{name}({', '.join(['%s'] * len(values))}, @result)", values)
        cursor.execute("SELECT @result")
        return cursor.fetchone()[0]

    def cut(self, connection):
        self.do(f"KILL {connection.thread_id()}")

    def cut_servers(self, account="root"):
        """Every connection of tarry's."""
        for number in self.rows("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = %s", account):
            with contextlib.suppress(pymysql.err.Error):
                self.do(f"KILL {number[0]}")

    def client(self):
        """The words that mariadb's own client begins with."""
        return ["mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root"]

    def run(self, text, name=""):
        """Runs mariadb's own client, in the database of this name."""
        done = subprocess.run([*self.client(), "--default-character-set=utf8mb4", *([name] if name else []), "-N", "-e", text], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, text, *values):
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetchall()
