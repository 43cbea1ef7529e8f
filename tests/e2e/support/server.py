"""The real server as a child process: start, kill, stop, start again on the same directory."""

import contextlib
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import doors
from client import Client, Connection

REPO = pathlib.Path(__file__).resolve().parents[3]
FLAGS = ("--sync", "always", "--shards", "1", "--wal-file", "4MiB")  # of most tests
BINARY = pathlib.Path(os.environ.get("TARRY_BIN") or REPO / "build" / "tarry")
LISTENING = re.compile(r"event=listening .*?address=127\.0\.0\.1:(\d+)")
SANITIZER = re.compile(r"ERROR: \w*Sanitizer|WARNING: ThreadSanitizer|runtime error:|AddressSanitizer|LeakSanitizer")
START_SECONDS = 240.0
# A sanitizer keeps freed memory for a while, so resident memory is not meaningful.
IS_SANITIZED = BINARY.exists() and any(mark in BINARY.read_bytes() for mark in (b"__asan_init", b"__tsan_init"))


def sanitizer_runtime():
    """The library of the sanitizer that the binary is built with, in a list; empty without a sanitizer."""
    linked = subprocess.run(["ldd", str(BINARY)], capture_output=True, text=True, check=False).stdout
    found = re.search(r"lib[at]san\.so\S* => (\S+)", linked)
    return [found.group(1)] if found else []


class StartFailed(Exception):
    pass


def free_port():
    """Returns a port outside the range of outgoing connections: a client that connects to a dead server again and again must not meet itself."""
    for port in random.sample(range(12_000, 32_000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise StartFailed("no free port")


class Server:
    """`directory` keeps the data (data/) and the log of all starts (server.log)."""

    def __init__(self, directory, flags=(), env=None):
        self.directory = pathlib.Path(directory)
        self.data = self.directory / "data"
        self.flags, self.env = list(flags), dict(env or {})
        self.proc = self.port = None
        self.has_doors = False
        self.prefix = []  # of the command: what it is run under
        self.pass_fds = ()
        self.log_path = self.directory / "server.log"
        self.clean_exits = True
        self._clients = []
        self.directory.mkdir(parents=True, exist_ok=True)

    # ---- running ----

    @staticmethod
    def program():
        return [str(BINARY), "serve"]

    def launch(self, port=0):
        """Starts the process; does not wait."""
        self.has_doors = doors.are_for(self.flags)
        listen = f"127.0.0.1:{port}" + (",tls,require-token" if self.has_doors else "")
        command = [*self.prefix, *self.program(), "--data", str(self.data), "--listen", listen, *self.flags]
        command += doors.flags() if self.has_doors else []
        log = open(self.log_path, "ab")
        self._log_from = log.tell()
        with log:
            self.proc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.env}, pass_fds=self.pass_fds)
        return self

    def wait_listening(self):
        """Returns the port once the log reports that it listens."""
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit:
            with open(self.log_path, "rb") as log:
                log.seek(self._log_from)
                found = LISTENING.search(log.read().decode("utf-8", "replace"))
            if found:
                self.port = (doors.Door if self.has_doors else int)(found.group(1))
                return self.port
            if self.proc.poll() is not None:
                raise StartFailed(f"the server ended with exit code {self.proc.returncode}:\n{self.log()[-3000:]}")
            time.sleep(0.002)
        raise StartFailed("the server did not say that it listens:\n" + self.log()[-3000:])

    def wait_ready(self):
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit:
            connection = Connection(self.port)
            try:
                if connection.call("GET", "/readyz").status == 200:
                    return self
            finally:
                connection.close()
            time.sleep(0.005)
        raise StartFailed("not ready")

    def start(self, port=0):
        self.launch(port)
        self.wait_listening()
        return self.wait_ready()

    def kill(self):
        """kill -9, and wait for the end."""
        self.proc.kill()
        self.proc.wait()

    def terminate(self, timeout=60):
        """SIGTERM; the exit code."""
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        code = self.proc.wait(time_limit(timeout))
        if code != 0:
            self.clean_exits = False
        return code

    def restart(self, how="terminate", flags=None):
        """Stops (or kills) and starts again on the same data."""
        getattr(self, how)()
        if flags is not None:
            self.flags = list(flags)
        return self.start()

    # ---- looking ----

    @property
    def url(self):
        return f"https://localhost:{self.port}" if self.has_doors else f"http://127.0.0.1:{self.port}"

    @property
    def alive(self):
        return self.proc.poll() is None

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def sanitizer_report(self):
        found = SANITIZER.search(self.log())
        return self.log()[found.start():][:6000] if found else None

    def client(self, timeout=30.0, kind=Client):
        client = kind(self.port, timeout)
        self._clients.append(client)
        return client

    def connection(self, timeout=30.0):
        return Connection(self.port, timeout)

    def descriptors(self):
        """Counts connections from outside; if only root may do so, by the server's figure, which includes the connection of this request."""
        try:
            return len(os.listdir(f"/proc/{self.proc.pid}/fd"))
        except PermissionError:
            connection = self.connection()
            try:
                text = connection.call("GET", "/metrics").body.decode()
            finally:
                connection.close()
            return int(float(re.search(r"^process_open_fds (\S+)$", text, re.MULTILINE).group(1)))

    def resident_bytes(self):
        return int(_status(self.proc.pid)["VmRSS"].split()[0]) * 1024

    def switches(self):
        """Voluntary context switches of all threads: how often they went to sleep, so how often they woke."""
        tasks = f"/proc/{self.proc.pid}/task"
        return sum(int(_status(self.proc.pid, task)["voluntary_ctxt_switches"]) for task in os.listdir(tasks))

    def fsck(self):
        return subprocess.run([str(BINARY), "fsck", str(self.data)], capture_output=True, text=True, check=False, timeout=300)

    def cli(self, *arguments, **kwargs):
        return subprocess.run([str(BINARY), *arguments], capture_output=True, check=False, timeout=60,
                              env={**os.environ, "TARRY_URL": self.url}, **kwargs)


class LibraryServer(Server):
    """A process that has the library in it and answers the same calls (lib_serve.py)."""

    def __init__(self, directory, flags=(), env=None):
        preload = sanitizer_runtime()  # it has to be the first library
        super().__init__(directory, flags, {**({"LD_PRELOAD": ":".join(preload)} if preload else {}), **(env or {})})

    @staticmethod
    def program():
        return [sys.executable, str(REPO / "tests/e2e/support/lib_serve.py"), "--library", str(BINARY.parent / "libtarry.so")]


def _status(pid, task=None):
    path = f"/proc/{pid}/status" if task is None else f"/proc/{pid}/task/{task}/status"
    with open(path, encoding="ascii", errors="replace") as lines:
        return dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)


def slack():
    """Returns how many times longer than on a quiet machine a step may take now: as many as there are threads for each core. A factor for bounds on
    durations."""
    load, _, _, running, *_ = pathlib.Path("/proc/loadavg").read_text(encoding="ascii").replace("/", " ").split()
    return 1 + max(float(load), int(running) - 1) / len(os.sched_getaffinity(0))


def time_limit(seconds):
    """Returns how long to wait for what must happen: a time that only a fault exceeds, even if forty programs share the machine. A passing test
    does not wait for it."""
    return max(60.0, 4 * seconds)


def short_directory(prefix):
    """A new directory for a database: in that of temporary files, if a server of another user reads it and the path of a socket there is short enough."""
    below = tempfile.gettempdir()
    return pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=below if len(below) < 40 and os.stat(below).st_mode & 0o001 else "/tmp"))


def freeze(pid):
    """Stops the process and returns once all of its threads have stopped: on a busy machine that takes a while."""
    os.kill(pid, signal.SIGSTOP)
    for _ in range(2000):
        states = []
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # the thread has ended
                states.append(task.read_text().rpartition(")")[2].split()[0])
        if set(states) <= {"T", "Z", "X"}:
            return
        time.sleep(0.005)
    raise AssertionError(f"process {pid} has not stopped: {states}")


def eventually(check, seconds=10.0, pause=0.005):
    """Waits until `check()` gives something true, and returns it. On a quiet machine it does within `seconds`."""
    seconds = time_limit(seconds)
    limit = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < limit, f"not within {seconds} s"
        time.sleep(pause)


@contextlib.contextmanager
def meanwhile(*functions):
    """Calls each function in a thread of its own, with an event. The event is set when the block ends, however it ends, and the threads are waited for."""
    ended = threading.Event()
    threads = [threading.Thread(target=function, args=(ended,)) for function in functions]
    for thread in threads:
        thread.start()
    try:
        yield ended
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def together(*functions):
    """Runs each in a thread of its own; returns their results; raises the first failure."""
    results, failures = [None] * len(functions), []

    def run(at, function):
        try:
            results[at] = function()
        except BaseException as fault:  # handed on below
            failures.append(fault)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results
