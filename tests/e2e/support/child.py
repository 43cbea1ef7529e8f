"""A server that is not ours as a child process, in a directory of its own: started, waited for, killed, frozen, started again; nothing of it is left."""

import atexit
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from server import eventually, free_port

RUN = "TARRY_TEST_RUN"  # the number of the process that runs the tests; whatever a test starts inherits it
_running = set()


class NotStarted(Exception):
    pass


@atexit.register
def _stop_all():
    for child in list(_running):
        child.stop()


def shared_processes():
    return {one.proc.pid for one in list(_running) if one.is_shared and one.proc}


def listens(port):
    """True, or an OSError."""
    socket.create_connection(("127.0.0.1", port), 1).close()
    return True


def certificate(directory, name):
    """cert.pem in the directory, for that name alone ("DNS:localhost", "IP:127.0.0.1"), which is its own authority; its key is key.pem beside it."""
    path = directory / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=a test's server",
                    "-addext", f"subjectAltName={name}", "-keyout", directory / "key.pem", "-out", path], capture_output=True, check=True, timeout=60)
    return path


class Entered:
    """Begins with start() and ends with stop(), also if it does not start."""

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()


class Child(Entered):
    """
    A kind has command(), the words that start it, and is_ready(), which is true once it can be used; until then it may raise one of FAULTS.
    A directory of the child's own goes with it, one that was given stays. The port is the same over restarts.
    """

    NAME = "child"
    START_SECONDS, PAUSE_SECONDS = 240.0, 0.05
    FAULTS = (OSError,)
    LOGS = ("output.log",)  # in its directory; patterns
    HAS_HELPERS = True  # processes that are signalled with it

    def __init__(self, directory=None, port=None, env=None):
        self.own = directory is None
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix=f"{self.NAME}-")).resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port, self.env, self.proc = port or free_port(), dict(env or {}), None
        self.is_shared = False  # by all tests of a run, with which it ends

    # ---- life ----

    def spawn(self, *words, **options):
        with open(self.directory / "output.log", "ab") as log:
            return subprocess.Popen([str(word) for word in words], **{
                "cwd": self.directory, "env": {**os.environ, **self.env, **({RUN: ""} if self.is_shared else {})}, "stdin": subprocess.DEVNULL, "stdout": log, "stderr": log,
                "start_new_session": self.HAS_HELPERS, **options})

    def launch(self):
        """Starts the process; does not wait."""
        self.proc = self.spawn(*self.command())
        _running.add(self)
        return self

    def wait_ready(self):
        limit = time.monotonic() + self.START_SECONDS
        while time.monotonic() < limit:
            if self.proc.poll() is not None:
                raise NotStarted(f"{self.NAME} ended with {self.proc.returncode}:\n{self.log()[-3000:]}")
            with contextlib.suppress(*self.FAULTS):
                if self.is_ready():
                    return self
            time.sleep(self.PAUSE_SECONDS)
        raise NotStarted(f"{self.NAME} is not ready after {self.START_SECONDS} s:\n{self.log()[-3000:]}")

    def start(self):
        return self.launch().wait_ready()

    def signal(self, number):
        """Sends a signal to the whole group."""
        with contextlib.suppress(ProcessLookupError):
            if self.HAS_HELPERS:
                os.killpg(self.proc.pid, number)
            else:
                self.proc.send_signal(number)

    def kill(self):
        """kill -9, and wait for the end."""
        if self.proc:
            self.signal(signal.SIGKILL)
            self.proc.wait()
            self.proc = None

    def terminate(self, timeout=20):
        if self.proc:
            self.signal(signal.SIGTERM)
            self.proc.wait(timeout)
            self.proc = None

    def stands_still(self):
        """Waits for each thread of each of its processes: on a busy machine that takes a moment."""
        states = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/task/*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if fields[2] == str(self.proc.pid) or stat.parts[2] == str(self.proc.pid):
                    states.append(fields[0])
        return all(state in "TZ" for state in states)

    @contextlib.contextmanager
    def frozen(self):
        self.signal(signal.SIGSTOP)
        try:
            eventually(self.stands_still)
            yield
        finally:
            self.signal(signal.SIGCONT)

    def restart(self, how="terminate"):
        """Stops (or kills) it, and starts it again on the same data and port."""
        getattr(self, how)()
        return self.start()

    def stop(self):
        self.kill()
        _running.discard(self)
        if self.own:
            shutil.rmtree(self.directory, ignore_errors=True)

    # ---- looking ----

    @property
    def alive(self):
        proc = self.proc
        return proc is not None and proc.poll() is None

    def log(self):
        return "".join(path.read_text(errors="replace") for pattern in self.LOGS for path in sorted(self.directory.glob(pattern)))
